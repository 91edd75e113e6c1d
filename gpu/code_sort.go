package gpu

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// sortCode is the code of sorts.
type sortCode struct {
	plain
	d *Device
	s *launch.Sort
}

func (c sortCode) options(params []uint64) any { return gpucode.ChooseSort(c.s, params, c.d.tile) }

func (c sortCode) programs(o any) ([]*gpuir.Program, error) {
	return gpucode.FromSort(c.s, o.(gpucode.SortOptions))
}

// check refuses operands whose scratch buffer 32-bit indices cannot address.
func (c sortCode) check(params []uint64, _ []span) error {
	l := c.s.Layout()
	if n := params[l.Outer] * params[l.N] * params[l.Inner]; n > gpucode.MaxSortElements {
		return ir.Errorf(ir.ErrRuntime, "%s: too many elements for %s: got %d, want at most %d",
			c.s.Label(), c.d.caps.Name, n, gpucode.MaxSortElements)
	}
	return nil
}
