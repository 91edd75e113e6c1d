package gpu

import (
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// groupCode is the code of loops that one workgroup runs.
type groupCode struct {
	plain
	d  *Device
	op *launch.GroupLoop
}

func (c groupCode) options([]uint64) any { return gpucode.ChooseGroup(c.op, c.d.tile) }

func (c groupCode) programs(o any) ([]*gpuir.Program, error) {
	return one(gpucode.FromGroupLoop(c.op, o.(gpucode.GroupOptions)))
}
