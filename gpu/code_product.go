package gpu

import (
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// gemmCode is the code of matrix products.
type gemmCode struct {
	plain
	d *Device
	g *launch.Gemm
}

func (c gemmCode) options(params []uint64) any { return c.d.chooseGemm(c.g, params) }

func (c gemmCode) programs(o any) ([]*gpuir.Program, error) {
	return gpucode.FromGemm(c.g, o.(gpucode.GemmOptions))
}

func (c gemmCode) scratch(o any, params []uint64) int64 {
	options := o.(gpucode.GemmOptions)
	return int64(options.ScratchBytes(c.g, params))
}

func (c gemmCode) large() bool { return true }

// merges refuses large products: one has work for every compute unit, and its text is long.
func (c gemmCode) merges(groups uint64) bool { return groups <= uint64(c.d.tile.Units/2) }
