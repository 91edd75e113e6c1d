package gpu

import (
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/tile"
)

// gemmCode is the code of matrix products.
type gemmCode struct {
	plain
	d *Device
	g *kir.Gemm
}

func (c gemmCode) options(params []uint64) any { return c.d.chooseGemm(c.g, params) }

func (c gemmCode) programs(o any) ([]*kir.Proc, error) {
	return tile.FromGemm(c.g, o.(tile.GemmOptions))
}

func (c gemmCode) scratch(o any, params []uint64) int64 {
	options := o.(tile.GemmOptions)
	return int64(options.ScratchBytes(c.g, params))
}

func (c gemmCode) large() bool { return true }

// merges: a large product has work for every compute unit, and its text is long.
func (c gemmCode) merges(groups uint64) bool { return groups <= uint64(c.d.tile.Units/2) }
