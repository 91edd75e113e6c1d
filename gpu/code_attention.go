package gpu

import (
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/tile"
)

// attentionCode is the code of the passes of attention.
type attentionCode struct {
	plain
	d *Device
	a *kir.Attention
}

func (c attentionCode) options(params []uint64) any {
	return tile.ChooseAttention(c.a, params, c.d.tile)
}

func (c attentionCode) programs(o any) ([]*kir.Proc, error) {
	return one(tile.FromAttention(c.a, o.(tile.AttentionOptions)))
}
