package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
)

// uploaded64 makes an int64 tensor.
func (r *rig) uploaded64(shape []int64, v ...int64) T {
	return r.data(ir.I64, shape, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 8*len(v)))
}

func (r *rig) view(x T, shape, stride []int64, offset int) T {
	return r.do("as_strided", x, shape, stride, offset)
}

// take calls index_select on ten elements.
func (r *rig) take(index T) ([]float32, *ir.Error) {
	x := r.floats(nil, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	o, err := r.call(0, "index_select", x, 0, index)
	if err != nil {
		return nil, err
	}
	return r.tryRead(o[0])
}

// TestViewOfUploadIsCheckedByItsOwnElements: each view of a tensor with good and bad indices is checked alone, at the
// call.
func TestViewOfUploadIsCheckedByItsOwnElements(t *testing.T) {
	r := newRig(t)
	p := r.uploaded64([]int64{3, 2}, 1, 77, 2, 80, -3, 9)
	for range 3 { // by the rule, by the captured rule, and by replay
		for offset, want := range map[int][]float32{0: {1, 2}, 2: {2}, 5: {9}} {
			got, err := r.take(r.view(p, []int64{int64(len(want))}, []int64{2}, offset))
			require.Nil(t, err)
			require.Equal(t, want, got)
		}
		got, err := r.take(r.view(p, []int64{3}, []int64{0}, 2))
		require.Nil(t, err)
		require.Equal(t, []float32{2, 2, 2}, got)
		got, err = r.take(r.view(p, []int64{0}, []int64{1}, 3))
		require.Nil(t, err)
		require.Empty(t, got)
		for offset, bad := range map[int]int{1: 80, 3: 80, 0: -3, 4: -3} {
			x := r.floats(nil, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
			index := r.view(p, []int64{int64(3 - offset/2)}, []int64{2}, offset)
			_, err := r.call(0, "index_select", x, 0, index)
			require.NotNil(t, err, "offset %d", offset)
			require.Equal(t, ir.ErrIndex, err.Code)
			require.Contains(t, err.Msg, fmt.Sprintf("index %d is out of bounds", bad))
		}
	}
}

// TestInPlaceWriteEndsKnownRange: after a window has written to a storage, the elements of its upload no longer count.
func TestInPlaceWriteEndsKnownRange(t *testing.T) {
	r := newRig(t)
	p := r.uploaded64([]int64{2}, 77, 2)
	before := r.e.stats.inPlace
	r.inplace("mul", p, 0)
	require.Nil(t, r.e.Flush())
	require.Greater(t, r.e.stats.inPlace, before, "the store went elsewhere: the test shows nothing")
	got, err := r.take(p)
	require.Nil(t, err)
	require.Equal(t, []float32{0, 0}, got)
}

// TestLargeUploadIsCheckedByTheKernel: without kept elements the call accepts a view, and its kernel finds the bad
// index.
func TestLargeUploadIsCheckedByTheKernel(t *testing.T) {
	r := newRig(t)
	v := make([]int64, maxKept/8+1)
	v[1], v[3] = 77, 5
	p := r.uploaded64([]int64{int64(len(v))}, v...)
	got, err := r.take(r.view(p, []int64{2}, []int64{1}, 2))
	require.Nil(t, err)
	require.Equal(t, []float32{0, 5}, got)
	_, err = r.take(r.view(p, []int64{2}, []int64{1}, 1))
	require.NotNil(t, err)
	require.Equal(t, ir.ErrIndex, err.Code)
	x := r.floats(nil, 1)
	_, err = r.call(0, "index_select", x, 0, p)
	require.NotNil(t, err, "the whole is still checked at the call")
}

// TestExtentOfLayouts compares extents with a walk over all indices.
func TestExtentOfLayouts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range []ir.DType{ir.I32, ir.I64} {
		for range 200 {
			shape, stride := make([]int64, rng.IntN(4)), make([]int64, 4)
			for i := range shape {
				shape[i], stride[i] = 1+rng.Int64N(4), rng.Int64N(5)
			}
			l, offset := ir.InternLayout(shape, stride[:len(shape)]), rng.Int64N(4)
			values := make([]float64, 64)
			for i := range values {
				values[i] = float64(rng.Int64N(1000) - 500)
			}
			wantLo, wantHi := 1e9, -1e9
			for flat := range l.Numel {
				at, rest := offset, flat
				for i := len(shape) - 1; i >= 0; i-- {
					at, rest = at+rest%shape[i]*stride[i], rest/shape[i]
				}
				wantLo, wantHi = min(wantLo, values[at]), max(wantHi, values[at])
			}
			lo, hi := extent(d, optest.Encode(d, values), l, offset)
			require.Equal(t, [2]float64{wantLo, wantHi}, [2]float64{float64(lo), float64(hi)}, "%v %v", shape, stride)
		}
	}
}
