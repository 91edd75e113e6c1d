package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// numbers calls Numbers on hs and requires that the first done tensors qualify.
func (r *rig) numbers(mode, done int, values []float64, hs ...T) []float64 {
	r.t.Helper()
	list := make([]uint64, len(hs))
	for i, h := range hs {
		list[i] = uint64(h)
	}
	n, err := r.e.Numbers(list, values, mode)
	require.Nil(r.t, err)
	require.Equal(r.t, done, n)
	return values
}

func TestNumbersAreCountedWithoutAWindow(t *testing.T) {
	r := newRig(t)
	x, y := r.floats([]int64{}, 3), r.floats([]int64{1}, 7)
	require.Equal(t, []float64{3, 7}, r.numbers(NumbersRead, 2, []float64{0, 0}, x, y))
	require.Equal(t, []float64{4, 9, 6}, r.numbers(NumbersCount, 3, []float64{1, 2, 2}, x, y, x))
	r.numbers(NumbersWrite, 1, []float64{0.1}, y)
	require.Equal(t, []float32{6}, r.read(x))
	require.Equal(t, []float32{0.1}, r.read(y))
	require.Equal(t, float64(float32(0.1)), r.numbers(NumbersRead, 1, []float64{0}, y)[0], "in the tensor's dtype")
	require.Zero(t, r.stat("nodes_recorded"))
	require.Zero(t, r.stat("windows"))
	m, err := r.e.Meta(uint64(x))
	require.Nil(t, err)
	require.EqualValues(t, 2, m.Commits)
}

func TestNumbersLeaveAVersionThatSomebodyHolds(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{}, 3)
	twice := r.do("add", x, x)
	require.Equal(t, []float64{0}, r.numbers(NumbersWrite, 0, []float64{0}, x), "a pending reader")
	require.Equal(t, []float32{6}, r.read(twice))
	require.Equal(t, []float64{4}, r.numbers(NumbersCount, 1, []float64{1}, x))
	require.Equal(t, []float32{6}, r.read(twice))

	y := r.floats([]int64{}, 1)
	r.inplace("fill", y, 5.0)
	r.numbers(NumbersRead, 0, []float64{0}, y)
	require.Equal(t, []float32{5}, r.read(y))
	r.numbers(NumbersCount, 1, []float64{1}, y)
	require.Equal(t, []float32{6}, r.read(y), "a base with a loc")

	z := r.grad(r.floats([]int64{}, 1))
	r.numbers(NumbersRead, 1, []float64{0}, z)
	r.numbers(NumbersWrite, 0, []float64{2}, z)
}

func TestNumbersTakeOneFloatingElementOnly(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{}, 3)
	for _, other := range []T{r.floats(nil, 1, 2), r.ints(1), r.do("select", r.floats(nil, 1, 2), 0, 1)} {
		require.Equal(t, 3.0, r.numbers(NumbersRead, 1, []float64{0, 0}, x, other)[0])
	}
	_, err := r.e.Numbers([]uint64{12345}, []float64{0}, NumbersRead)
	require.NotNil(t, err)
	_, err = r.e.Numbers([]uint64{uint64(x)}, []float64{0}, NumbersPeek+1)
	require.Equal(t, ir.ErrValue, err.Code)
	r.numbers(NumbersWrite, 1, []float64{math.Inf(1)}, x)
	require.Equal(t, []float32{float32(math.Inf(1))}, r.read(x))
}
