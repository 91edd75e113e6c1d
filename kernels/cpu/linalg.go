package cpu

// #include "vector/cpu.h"
import "C"

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// factor makes the C form of a factorisation. linalg.c lists its parameters.
func factor(mem *arena, f *launch.Factor, s *device.Step) (*C.tl_factor, error) {
	if want := f.ParamCount(); len(s.Params) != want {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: %v: %d parameters, want %d", f.Op, len(s.Params), want)
	}
	c := &array[C.tl_factor](mem, 1)[0]
	c.op, c._type, c.option, c.nin, c.event = C.int32_t(f.Op), C.int32_t(f.Type), C.int32_t(f.Option),
		C.int32_t(f.Op.Inputs()), C.uint32_t(s.Event)
	if f.Check {
		c.check = 1
	}
	return c, nil
}
