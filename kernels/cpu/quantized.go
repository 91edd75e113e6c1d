package cpu

// #include "vector/cpu.h"
import "C"

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// quantized returns the C form of a product with quantized weights.
func quantized(mem *arena, q *launch.Quantized, params []device.Param) (*C.tl_quantized, error) {
	bits := q.Bits == 8 || q.Bits == 4
	if len(params) != launch.QuantizedParams || !bits || q.Group <= 0 || q.Bits == 8 && q.Offset {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: %s: %+v, %d parameters", q.Label(), *q, len(params))
	}
	c := &array[C.tl_quantized](mem, 1)[0]
	c.bits, c.group = C.int32_t(q.Bits), C.int64_t(q.Group)
	for _, f := range []struct {
		on bool
		to *C.int32_t
	}{{q.Offset, &c.offset}, {q.Bias, &c.bias}, {q.Dynamic, &c.dynamic}} {
		if f.on {
			*f.to = 1
		}
	}
	return c, nil
}
