package cpu

// #include "conv8.h"
import "C"

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// conv8Shifted is the bit of a kind whose weights have shifts.
const conv8Shifted = 8

// quantizedConv returns the kind of a step that convolves 8-bit elements; its parameters say the rest.
func quantizedConv(q *launch.QuantizedConv, params []device.Param) (kind C.int32_t, err error) {
	bytes := func(t ir.DType) bool { return t == ir.I8 || t == ir.U8 }
	if len(params) != launch.ConvParams || !bytes(q.X) || !bytes(q.Y) && q.Y != ir.F32 || q.Dynamic && q.Y != ir.F32 {
		return 0, ir.Errorf(ir.ErrInternal, "BUG: cpu: %s: %+v, %d parameters", q.Label(), *q, len(params))
	}
	kind = C.TLK_STEP_CONV8
	if q.X == ir.I8 {
		kind++
	}
	for i, on := range []bool{q.Y == ir.F32, q.Dynamic, q.Shifted, q.Narrow} {
		if on {
			kind += 2 << i
		}
	}
	return kind, nil
}
