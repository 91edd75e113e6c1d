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
	return gpucode.ChooseAttention(c.a, params, c.d.tile)
}

func (c attentionCode) programs(o any) ([]*gpuir.Program, error) {
	return one(gpucode.FromAttention(c.a, o.(gpucode.AttentionOptions)))
}
