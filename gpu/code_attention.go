package gpu

import (
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// attentionCode is the code of the passes of attention.
type attentionCode struct {
	plain
	d *Device
	a *launch.Attention
}

func (c attentionCode) options(params []uint64) any {
	o := gpucode.ChooseAttention(c.a, params, c.d.tile)
	if c.d.brief.on {
		if short := gpucode.BriefAttention(c.a, params, c.d.tile); short != o {
			c.d.brief.chosen, o = true, short
		}
	}
	return o
}

func (c attentionCode) programs(o any) ([]*gpuir.Program, error) {
	return gpucode.FromAttention(c.a, o.(gpucode.AttentionOptions))
}

func (c attentionCode) scratch(o any, params []uint64) int64 {
	options := o.(gpucode.AttentionOptions)
	return int64(options.ScratchBytes(c.a, params))
}
