package lower_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
)

// TestGreatestWithoutPlaces: a pool whose places nobody reads has the values of one whose places are read: in 1 to 3
// dims, with padding, steps and gaps, of dense and turned inputs, among NaN, infinities and zeros of both signs.
func TestGreatestWithoutPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	special := []float64{math.NaN(), math.Inf(-1), math.Inf(1), 0, math.Copysign(0, -1), 1, -1}
	for i := range 150 {
		win, in := op.Windows{}, []int64{2, 3}
		for range 1 + i%3 {
			k, gap, lo := 1+r.Int64N(4), 1+r.Int64N(2), int64(0)
			if i%2 == 0 {
				lo = r.Int64N(k/2 + 1)
			}
			size, step := k*gap+r.Int64N(12), 1+r.Int64N(3)
			win.Kernel, win.Dilation, win.Stride = append(win.Kernel, k), append(win.Dilation, gap), append(win.Stride, step)
			win.Lo, win.Base = append(win.Lo, lo), append(win.Base, 1)
			win.Out = append(win.Out, (size+2*lo-(k-1)*gap-1)/step+1)
			in = append(in, size)
		}
		x := make([]float64, ir.Numel(in))
		for j := range x {
			if x[j] = float64(r.IntN(5) - 2); r.IntN(4) == 0 {
				x[j] = special[r.IntN(len(special))]
			}
		}
		for _, dt := range []ir.DType{ir.F32, ir.F16, ir.F64} {
			var got [2][]uint64
			for unread := range got {
				e := optest.New()
				e.Unread = unread == 1
				v := e.Tensor(dt, in, x...)
				if i%5 == 4 { // the first two dims exchanged
					l := v.L()
					v.Layout = ir.InternLayout(append([]int64{in[1], in[0]}, in[2:]...),
						append([]int64{l.Stride[1], l.Stride[0]}, l.Stride[2:]...)).ID
				}
				for _, y := range e.Floats(emit(e, "window_max", win.Attr(), v)[0]) {
					if y != y {
						y = math.NaN() // of one payload
					}
					got[unread] = append(got[unread], math.Float64bits(y+0)) // of one sign
				}
			}
			require.Equal(t, got[0], got[1], "%v %v of %v", dt, win, in)
		}
	}
}

// TestGreatestWithoutPlacesCopiesNothing: where nobody reads the places, a pool has a kernel for each dim and border,
// and no copy; where the tensor's border reaches into too many windows, and on GPUs, it is computed with the places.
func TestGreatestWithoutPlacesCopiesNothing(t *testing.T) {
	names := func(kernel, lo, gap int64, wide bool) (names []string) {
		two := func(n int64) []int64 { return []int64{n, n} }
		out := (16+2*lo-(kernel-1)*gap-1)/2 + 1
		win := op.Windows{Kernel: two(kernel), Stride: two(2), Lo: two(lo), Dilation: two(gap), Base: two(1), Out: two(out)}
		y := ir.DenseLayout([]int64{1, 4, out, out})
		res, err := lower.Lower(&lower.Node{Prim: op.PrimNamed("window_max"), Attr: win.Attr(), Bufs: 3, Wide: wide,
			In: []lower.Operand{{DType: ir.F32, Layout: ir.DenseLayout([]int64{1, 4, 16, 16}), Buf: 0}},
			Out: []lower.Output{{DType: ir.F32, Layout: y, Buf: 1},
				{DType: ir.I64, Layout: y, Buf: 2, Unread: true}}})
		require.NoError(t, err)
		for _, l := range res.Launches {
			names = append(names, strings.TrimSuffix(l.Op.Label(), "_float32"))
			if !wide && lo < 3 {
				assert.NotContains(t, l.Bufs, 2, "places are not written")
			}
		}
		return names
	}
	max4 := []string{"window_max", "window_max", "window_max", "window_max"}
	assert.Equal(t, max4, names(3, 1, 1, false), "a border in front of each dim")
	assert.Equal(t, max4[:2], names(2, 0, 1, false), "no border")
	assert.Contains(t, names(7, 3, 1, false), "copy", "borders of three positions and more")
	assert.Len(t, names(3, 1, 1, true), 2)
}
