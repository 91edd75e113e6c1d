package ir

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raised is the text of the *Error that f panics with.
func raised(t *testing.T, code Code, f func()) (msg string) {
	t.Helper()
	defer func() {
		err, ok := recover().(*Error)
		require.True(t, ok, "no *Error")
		assert.Equal(t, code, err.Code)
		msg = err.Msg
	}()
	f()
	return ""
}

func TestDimsWrap(t *testing.T) {
	for _, c := range []struct {
		dim  int64
		rank int
		want int
	}{{0, 3, 0}, {2, 3, 2}, {-1, 3, 2}, {-3, 3, 0}, {0, 0, 0}, {-1, 0, 0}} {
		assert.Equal(t, c.want, WrapDim(c.dim, c.rank), "%d of %d", c.dim, c.rank)
	}
	assert.Equal(t, "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
		raised(t, ErrIndex, func() { WrapDim(2, 2) }))
	_, err := CheckDim(1, 0)
	assert.ErrorContains(t, err, "[-1, 0], but got 1")
}

func TestDimMaskMarksListedDims(t *testing.T) {
	mask, err := DimMask([]int64{0, -1}, 3)
	require.NoError(t, err)
	assert.Equal(t, []bool{true, false, true}, mask)
	assert.Equal(t, int64(10), MaskedNumel(mask, []int64{2, 3, 5}))
	mask, err = DimMask([]int64{-1}, 0)
	require.NoError(t, err)
	assert.Empty(t, mask)
	_, err = DimMask([]int64{1, -2}, 3)
	assert.ErrorContains(t, err, "dim 1 appears multiple times in the list of dims")
	_, err = DimMask([]int64{4}, 3)
	assert.ErrorContains(t, err, "Dimension out of range")
}

func TestShapesBroadcast(t *testing.T) {
	for _, c := range []struct{ x, y, want []int64 }{
		{[]int64{2, 3}, []int64{2, 3}, []int64{2, 3}},
		{[]int64{2, 1}, []int64{3}, []int64{2, 3}},
		{nil, []int64{4}, []int64{4}},
		{[]int64{1}, []int64{0}, []int64{0}},
		{[]int64{5, 1, 2}, []int64{4, 1}, []int64{5, 4, 2}},
	} {
		assert.Equal(t, c.want, BroadcastShape(c.x, c.y))
		assert.Equal(t, c.want, BroadcastShape(c.y, c.x))
	}
	assert.Equal(t, "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
		raised(t, ErrRuntime, func() { BroadcastShape([]int64{4, 2}, []int64{4, 3}) }))
	assert.True(t, SameShape(nil, []int64{}))
	assert.False(t, SameShape([]int64{1}, []int64{1, 1}))
	assert.False(t, SameShape([]int64{1, 2}, []int64{2, 1}))
}

// PyTorch prints c10's type names, and of integers the compiler's own.
func TestDTypesHaveTheirNamesInMessages(t *testing.T) {
	for d, want := range map[DType]string{I64: "long int", I16: "short int", U8: "unsigned char", BF16: "c10::BFloat16",
		F64: "double", Bool: "bool"} {
		assert.Equal(t, want, d.CName())
	}
}
