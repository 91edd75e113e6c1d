package lower_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// TestLoopKernelsTransformAsTheLaunchDoes compares the passes that devices without launch.FFT run with the launch,
// whose reference is the definition: for all radices, for products of them, and for lengths that are convolved.
func TestLoopKernelsTransformAsTheLaunchDoes(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 5, 7, 8, 9, 11, 13, 16, 17, 24, 34, 48, 61, 210} {
		for kind := prim.FFTForward; kind <= prim.FFTAllOfReals; kind++ {
			t.Run(fmt.Sprintf("%d_%d", kind, n), func(t *testing.T) {
				var got [2][]float64
				for i := range got {
					e := optest.New()
					e.Fourier = i == 0
					// The transformed dim comes first in memory.
					shape := []int64{n, 2, 3, 2}
					switch kind {
					case prim.FFTOfReals, prim.FFTAllOfReals:
						shape = shape[:3]
					case prim.FFTToReals:
						shape[0] = n/2 + 1
					}
					v := make([]float64, ir.Numel(shape))
					for j := range v {
						v[j] = math.Sin(float64(j*j)) + 0.1
					}
					x := e.Tensor(ir.F64, shape, v...)
					perm := []int64{1, 0, 2, 3}
					y := prim.FFT(e, prim.Permute(e, x, perm[:len(shape)]), kind, 1, n, 0.5)
					got[i] = e.Floats(y)
				}
				assert.InDeltaSlice(t, got[0], got[1], 1e-12)
			})
		}
	}
}
