package gpu

import (
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// factorCode is the code of the steps of factorisations.
type factorCode struct {
	plain
	d *Device
	f *launch.FactorBlock
}

func (c factorCode) options(params []uint64) any {
	return gpucode.ChooseFactorBlock(c.f, params, c.d.tile)
}

func (c factorCode) programs(o any) ([]*gpuir.Program, error) {
	return one(gpucode.FromFactorBlock(c.f, o.(gpucode.FactorBlockOptions)))
}
