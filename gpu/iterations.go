package gpu

import (
	"math"

	"github.com/torchlette/torchlette/kernels/launch"
)

// iterations bounds the iterations of all loops that a thread runs in a launch with these parameters.
func (d *Device) iterations(op launch.Op, params []uint64) (most int64) {
	code, _, err := d.generate(op)
	if err != nil || code == nil {
		return 0
	}
	programs, err := code.programs(code.options(params))
	if err != nil {
		return math.MaxInt64 // the device refuses the launch
	}
	for _, p := range programs {
		most = max(most, p.Iterations(params))
	}
	return most
}
