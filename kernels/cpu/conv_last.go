package cpu

// #include "conv_last.h"
import "C"

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// convLast returns the kind of a step that convolves pictures whose channels come last; its parameters say the rest.
func convLast(q *launch.ConvLast, params []device.Param) (kind C.int32_t, err error) {
	if len(params) != launch.LastParams || q.Alone && q.Add ||
		params[launch.LastTapsHigh].Bits*params[launch.LastTapsWide].Bits > launch.ConvLastTaps ||
		q.Alone && params[launch.LastChannels].Bits < launch.PanelWidth {
		return 0, ir.Errorf(ir.ErrInternal, "BUG: cpu: %s: %+v, %d parameters", q.Label(), *q, len(params))
	}
	kind = C.TLK_STEP_CONV_LAST
	if q.Alone {
		kind++
	}
	if q.Add {
		kind += 2
	}
	return kind, nil
}
