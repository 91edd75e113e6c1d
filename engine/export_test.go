package engine

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// share exports the memory of x.
func (r *rig) share(x T) (memory []float32, end func()) {
	p, id, err := r.e.ExportBuffer(uint64(x), false)
	require.Nil(r.t, err)
	m, err := r.e.Meta(uint64(x))
	require.Nil(r.t, err)
	return unsafe.Slice((*float32)(p), m.Storage), func() { r.e.ReleaseExport(id) }
}

func TestExportedMemoryIsReadWhenANodeIsRecorded(t *testing.T) {
	r, large := newCPURig(t, func(int) float32 { return 1 })
	small := r.floats(nil, 1, 2)
	for _, x := range []T{small, large} {
		memory, end := r.share(x)
		y := r.do("add", x, 1)
		memory[0] = 9
		assert.Equal(t, float32(2), r.read(y)[0], "recorded before the write")
		assert.Equal(t, float32(10), r.read(r.do("add", x, 1))[0], "recorded after it")
		end()
	}
}

func TestAWriteReachesExportedMemoryWithinItsCall(t *testing.T) {
	r, _ := newCPURig(t, func(int) float32 { return 0 })
	x := r.floats(nil, 1, 2)
	memory, end := r.share(x)
	r.inplace("add", x, 1)
	assert.Equal(t, []float32{2, 3}, memory)
	memory[1] = 7
	r.inplace("add", x, x)
	assert.Equal(t, []float32{4, 14}, memory)
	end()
	r.inplace("add", x, 1)
	assert.Equal(t, []float32{5, 15}, r.read(x), "an ordinary tensor again")
	assert.Zero(t, r.stat("shared_storages"))
}

func TestExportedMemoryBelongsToOneBase(t *testing.T) {
	r, _ := newCPURig(t, func(int) float32 { return 0 })
	x, y := r.floats(nil, 1, 2), r.floats(nil, 0, 0)
	pending := r.do("mul", x, 3)
	memory, end := r.share(x)
	defer end()
	r.inplace("copy_", y, x)
	memory[0] = 9
	assert.Equal(t, []float32{1, 2}, r.read(y))
	assert.Equal(t, []float32{3, 6}, r.read(pending), "recorded before the export")
	r.inplace("add", y, 1)
	assert.Equal(t, []float32{9, 2}, memory)
}

func TestImportedMemoryGoesBackToItsOwner(t *testing.T) {
	r, _ := newCPURig(t, func(int) float32 { return 0 })
	memory := make([]float32, 6)
	m := &Memory{DType: ir.F32, Shape: []int64{3}, Stride: []int64{2}, P: unsafe.Pointer(&memory[0]), Owner: 5}
	var o Out
	id, err := r.e.FromMemory(m, 0, &o)
	require.Nil(t, err)
	x := T(o.Handle)
	memory[2] = 4
	r.inplace("add", x, 1)
	assert.Equal(t, []float32{1, 0, 5, 0, 1, 0}, memory)
	assert.EqualValues(t, 1, r.stat("shared_storages"))
	r.e.Private(id)
	assert.Zero(t, r.stat("shared_storages"))
	assert.Equal(t, []float32{1, 5, 1}, r.read(x))
	owners := make([]uint64, 2)
	assert.Zero(t, r.e.Owners(owners))
	r.drop(x)
	assert.Equal(t, 1, r.e.Owners(owners))
	assert.EqualValues(t, 5, owners[0])
}

func TestMemoryThatCannotBeWrittenIsLeft(t *testing.T) {
	r, _ := newCPURig(t, func(int) float32 { return 0 })
	memory := []float32{1, 2}
	m := &Memory{DType: ir.F32, Shape: []int64{2}, Stride: []int64{1}, P: unsafe.Pointer(&memory[0]), Owner: 5,
		ReadOnly: true}
	for _, private := range []bool{false, true} {
		var o Out
		id, err := r.e.FromMemory(m, 0, &o)
		require.Nil(t, err)
		if private {
			r.e.Private(id)
		}
		r.inplace("add", T(o.Handle), 1)
		r.inplace("add", T(o.Handle), 1)
		assert.Equal(t, []float32{3, 4}, r.read(T(o.Handle)))
		assert.Equal(t, []float32{1, 2}, memory)
		r.drop(T(o.Handle))
	}
	assert.Equal(t, 2, r.e.Owners(make([]uint64, 3)))
}

// Memory of complex elements becomes a view of pairs of numbers, which operators know.
func TestComplexMemoryIsAViewOfPairs(t *testing.T) {
	r, _ := newCPURig(t, func(int) float32 { return 0 })
	memory := []float32{1, 2, 9, 9, 3, 4}
	m := &Memory{DType: ir.C64, Shape: []int64{2}, Stride: []int64{2}, P: unsafe.Pointer(&memory[0]), Owner: 5}
	var o Out
	_, err := r.e.FromMemory(m, 0, &o)
	require.Nil(t, err)
	x := T(o.Handle)
	assert.Equal(t, []float32{1, 3}, r.read(r.do("real", x)))
	assert.Equal(t, []float32{4, 24}, r.read(r.do("imag", r.do("mul", x, x))))
}
