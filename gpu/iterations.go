package gpu

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
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
		most = max(most, p.Iterations(params, 0))
	}
	return most
}

// unrolledIterations bounds the constant loops that Mesa unrolls, which it does not count.
const unrolledIterations = 16

// checkIterations refuses a launch whose loops the device would end: it would give wrong values.
func (d *Device) checkIterations(s *step, programs []*gpuir.Program, params []uint64) error {
	if d.caps.MaxIterations == 0 {
		return nil
	}
	for _, p := range programs {
		if n := p.Iterations(params, unrolledIterations); n > d.caps.MaxIterations {
			return ir.Errorf(ir.ErrRuntime, "%s: too long for %s: a thread has %d iterations, want at most %d: "+
				"move its operands to the CPU", s.name(), d.caps.Name, n, d.caps.MaxIterations)
		}
	}
	return nil
}
