package gpu

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/tile"
)

// sortCode is the code of sorts.
type sortCode struct {
	plain
	d *Device
	s *kir.Sort
}

func (c sortCode) options(params []uint64) any { return tile.ChooseSort(c.s, params, c.d.tile) }

func (c sortCode) programs(o any) ([]*kir.Proc, error) {
	return tile.FromSort(c.s, o.(tile.SortOptions))
}

// check refuses operands whose room 32-bit indices cannot address.
func (c sortCode) check(params []uint64, _ []span) error {
	l := c.s.Layout()
	if n := params[l.Outer] * params[l.N] * params[l.Inner]; n > tile.MaxSortElements {
		return ir.Errorf(ir.ErrRuntime, "%s: too many elements for %s: got %d, want at most %d",
			c.s.Label(), c.d.caps.Name, n, tile.MaxSortElements)
	}
	return nil
}
