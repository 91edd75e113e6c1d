package cpu

// #include "vector/cpu.h"
import "C"

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// sortRows makes the C form of a sort: the numbers of its parameters and buffers.
func sortRows(mem *arena, s *launch.Sort, params []device.Param) (*C.tl_sort, error) {
	l := s.Layout()
	if len(params) != len(l.Params) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: sort: %d parameters, want %d", len(params), len(l.Params))
	}
	if params[l.N].Bits > math.MaxUint32 {
		return nil, ir.Errorf(ir.ErrRuntime, "cpu: sort: rows of %d elements, want fewer than 2^32", params[l.N].Bits)
	}
	n := func(v int) C.int32_t { return C.int32_t(v) }
	c := &array[C.tl_sort](mem, 1)[0]
	*c = C.tl_sort{_type: n(int(s.Type)), indices: n(l.Indices), room: n(l.Room),
		outer: n(l.Outer), n: n(l.N), inner: n(l.Inner), keep: n(l.Keep),
		souter: n(l.StrideOuter), step: n(l.Step), sinner: n(l.StrideLast), offset: n(l.Offset)}
	if s.Descending {
		c.descending = 1
	}
	return c, nil
}
