package gpu

import (
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// iterateCode is the code of loops whose values stay in registers.
type iterateCode struct {
	plain
	d  *Device
	op *launch.Iterate
}

func (c iterateCode) options([]uint64) any { return gpucode.ChooseIterate(c.d.tile) }

func (c iterateCode) programs(o any) ([]*gpuir.Program, error) {
	return one(gpucode.FromIterate(c.op, o.(gpucode.IterateOptions)))
}
