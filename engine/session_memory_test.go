package engine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// product is a program that multiplies rows of 1024 elements by a constant of 1024 rows and 16 columns: a product
// of one row reads it where it lies, as it is narrow.
const product = `{"format": "torchlette program", "version": 1, "dims": [{"name": "n", "min": 1, "max": 100}],
"numbers": [],
"constants": [{"name": "w", "kind": "parameter", "dtype": "float32", "shape": [1024, 16], "requires_grad": false}],
"functions": {"forward": {
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 1024]}],
  "formulas": [], "supplied": [], "guards": [], "writes": [],
  "steps": [{"op": "mm", "args": {"self": "%0", "mat2": "%1"}, "out": [{"dtype": "float32", "shape": ["n", 16]}]}],
  "outputs": [{"name": "y", "value": "%2"}], "state": []}}}`

// weight is the constant of product: small integers.
func weight() []float32 {
	w := make([]float32, 1024*16)
	for i := range w {
		w[i] = float32(i%23 - 11)
	}
	return w
}

func bytesOf(x []float32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)) }

// checkProduct runs rows of a product with the weights times scale.
func checkProduct(t *testing.T, s *InferenceSession, rows int, scale float32) {
	t.Helper()
	w, x, want := weight(), make([]float32, rows*1024), make([]float32, rows*16)
	for i := range x {
		x[i] = float32(i%7 - 3)
	}
	for i := range rows {
		for k := range 1024 {
			for j := range 16 {
				want[i*16+j] += x[i*1024+k] * w[k*16+j] * scale
			}
		}
	}
	assert.Equal(t, want, runSession(t, s, value("x", x, int64(rows), 1024)))
}

// inMemory reports that the page of an address is in the memory of the process.
func inMemory(t *testing.T, p unsafe.Pointer) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("pages leave memory when the system needs it")
	}
	f, x := os.Open("/proc/self/pagemap")
	require.NoError(t, x)
	defer f.Close()
	var entry [8]byte
	_, x = f.ReadAt(entry[:], int64(uintptr(p))/int64(os.Getpagesize())*8)
	require.NoError(t, x)
	return entry[7]&0x80 != 0
}

// productFile writes the program product.
func productFile(t *testing.T) string {
	t.Helper()
	p, err := saved.Parse([]byte(product))
	require.Nil(t, err, "%v", err)
	path := filepath.Join(t.TempDir(), "product")
	f, x := os.Create(path)
	require.NoError(t, x)
	require.Nil(t, saved.WriteFile(f, p, nil, func(int) ([]byte, *ir.Error) { return bytesOf(weight()), nil }))
	require.NoError(t, f.Close())
	return path
}

// The pages of a weight leave memory when products have packs of it, also if the file is deleted, and a product that
// reads the weight where it lies brings them back. Pages that somebody wrote stay.
func TestPagesOfPackedWeightsLeaveMemory(t *testing.T) {
	for _, written := range []bool{false, true} {
		r, path := newSessionRig(t, true), productFile(t)
		id, err := r.e.OpenProgram(path)
		require.Nil(t, err)
		r.e.mapProgram(id)
		var out Out
		require.Nil(t, r.e.ProgramConstant(id, 0, &out))
		scale := float32(1)
		if written {
			r.inplace("mul", T(out.Handle), 2)
			scale = 2
		}
		opened, err := r.e.OpenSessionOf(id, []uint64{out.Handle}, SessionOptions{Threads: 1})
		require.Nil(t, err, "%v", err)
		s, err := r.e.SessionOf(opened)
		require.Nil(t, err)
		require.NoError(t, os.Remove(path))
		checkProduct(t, s, 8, scale)
		v, err := r.e.session.Resolve(out.Handle)
		require.Nil(t, err)
		middle := unsafe.Add(r.e.runtime.Mapped(r.e.graph.Node(v.Value).Store), 32<<10)
		assert.Equal(t, written, inMemory(t, middle))
		assert.Empty(t, s.shapes[0].reads)
		checkProduct(t, s, 1, scale)
		assert.True(t, inMemory(t, middle))
		checkProduct(t, s, 9, scale)
		assert.True(t, inMemory(t, middle), "a plan reads them")
		packs, inPlace := s.weights()
		assert.EqualValues(t, []int64{packs, 64 * 256 * 4}, []int64{s.x.Packed(ir.CPU), inPlace})
		require.Nil(t, r.e.CloseSession(opened))
		assert.Equal(t, scale*weight()[999], r.read(T(out.Handle))[999])
	}
}

// unalignedFile maps a file of the weights behind one byte, and returns the pages.
func unalignedFile(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, os.WriteFile(path, append([]byte{1}, bytesOf(weight())...), 0o600))
	f, x := os.Open(path)
	require.NoError(t, x)
	m := mapFile(f)
	require.NoError(t, f.Close())
	if m == nil {
		t.Skip("files are not mapped")
	}
	t.Cleanup(func() { unmap(m) })
	return m
}

// over makes a tensor of the weights over pages of unalignedFile, and returns its storage. free is called when the
// tensor is gone.
func (r *rig) over(m []byte, free func()) (T, uint32) {
	var out Out
	_, err := r.e.fromMemory(&Memory{DType: ir.F32, Shape: []int64{1024, 16}, Stride: []int64{16, 1}, Pages: true,
		P: unsafe.Pointer(&m[1]), free: free}, 0, &out)
	require.Nil(r.t, err)
	v, err := r.e.session.Resolve(out.Handle)
	require.Nil(r.t, err)
	return T(out.Handle), r.e.graph.Node(v.Value).Store
}

// A tensor of elements that are not aligned in a file has no copy of them until an operator or code outside of the
// engine uses them. A write is to the copy.
func TestUnalignedPagesAreCopiedWhenTheyAreUsed(t *testing.T) {
	for _, use := range []string{"read", "operator", "write", "address"} {
		r, freed := newSessionRig(t, true), 0
		w, store := r.over(unalignedFile(t), func() { freed++ })
		live := func() int64 { return r.e.runtime.Devices[ir.CPU].Pool.Live }
		require.Zero(t, live())
		want := weight()
		switch use {
		case "operator":
			r.drop(r.do("neg", w))
			assert.Zero(t, live(), "nothing asked for the result")
			y := r.do("neg", w)
			assert.Equal(t, -want[999], r.read(y)[999])
			r.drop(y)
		case "write":
			r.inplace("mul", w, 2)
			for i := range want {
				want[i] *= 2
			}
		case "address":
			p, export, err := r.e.ExportBuffer(uint64(w), false)
			require.Nil(t, err)
			assert.Equal(t, want, unsafe.Slice((*float32)(p), len(want)))
			r.e.ReleaseExport(export)
		}
		assert.Equal(t, want, r.read(w))
		assert.Equal(t, use == "read", r.e.runtime.Storage(store).Buf == nil, use)
		r.drop(w)
		assert.Equal(t, 1, freed, "the pages go with the tensor")
	}
}

// Integers of pages that are not aligned have the range that checks of indices ask for.
func TestUnalignedIntegersHaveARange(t *testing.T) {
	r, m := newSessionRig(t, true), make([]byte, 8*5+1)
	for i := range 5 {
		binary.NativeEndian.PutUint64(m[1+8*i:], uint64(10*i))
	}
	var out Out
	_, err := r.e.fromMemory(&Memory{DType: ir.I64, Shape: []int64{5}, Stride: []int64{1}, Pages: true,
		P: unsafe.Pointer(&m[1]), free: func() {}}, 0, &out)
	require.Nil(t, err)
	v, err := r.e.session.Resolve(out.Handle)
	require.Nil(t, err)
	lo, hi, ok := r.e.devices.IndexRange(&v, true)
	assert.Equal(t, []any{int64(0), int64(40), true}, []any{lo, hi, ok})
}

// A session on another device moves weights there from the file: the host has no copy of them, aligned or not, and
// their pages leave its memory.
func TestWeightsOfAnotherDeviceLeaveTheHost(t *testing.T) {
	for _, aligned := range []bool{false, true} {
		r := newSessionRig(t, true)
		r.e.cfg.Open = func(id ir.DeviceID) (device.Device, error) {
			if id == ir.CPU {
				return cpu.New(cpu.Options{Threads: 1})
			}
			return reference.New(), nil
		}
		path, gpu := productFile(t), ir.DeviceID(1)
		id, err := r.e.OpenProgram(path)
		require.Nil(t, err)
		r.e.mapProgram(id)
		var out Out
		require.Nil(t, r.e.ProgramConstant(id, 0, &out))
		v, err := r.e.session.Resolve(out.Handle)
		require.Nil(t, err)
		w, store := T(out.Handle), r.e.graph.Node(v.Value).Store
		page := unsafe.Add(r.e.runtime.Mapped(store), 32<<10)
		if !aligned {
			m := unalignedFile(t)
			w, store = r.over(m, func() {})
			page = unsafe.Pointer(&m[32<<10])
		}
		opened, err := r.e.OpenSessionOf(id, []uint64{uint64(w)}, SessionOptions{Device: gpu})
		require.Nil(t, err, "%v", err)
		s, err := r.e.SessionOf(opened)
		require.Nil(t, err)
		assert.Zero(t, r.e.runtime.Devices[ir.CPU].Pool.Peak)
		assert.Equal(t, aligned, r.e.runtime.Storage(store).Buf != nil)
		assert.False(t, inMemory(t, page))
		checkProduct(t, s, 8, 1)
		plan, err := s.memoryPlan()
		require.Nil(t, err)
		assert.EqualValues(t, 1024*16*4, plan["weight_bytes"])
		require.Nil(t, r.e.CloseSession(opened))
		assert.Equal(t, weight()[999], r.read(w)[999])
	}
}

// A copy of elements that are not aligned in a file is freed when products have packs of it, and made again for those
// that read it, if nothing but the session uses it.
func TestCopiesOfPackedWeightsAreFreed(t *testing.T) {
	for _, sole := range []bool{false, true} {
		r := newSessionRig(t, true)
		w, store := r.over(unalignedFile(t), func() {})
		id, err := r.e.ParseProgram([]byte(product))
		require.Nil(t, err)
		opened, err := r.e.OpenSessionOf(id, []uint64{uint64(w)}, SessionOptions{Threads: 1, Sole: sole})
		require.Nil(t, err)
		s, err := r.e.SessionOf(opened)
		require.Nil(t, err)
		checkProduct(t, s, 8, 1)
		assert.Equal(t, sole, r.e.runtime.Storage(store).Buf == nil)
		checkProduct(t, s, 1, 1)
		assert.NotNil(t, r.e.runtime.Storage(store).Buf)
		checkProduct(t, s, 9, 1)
		require.Nil(t, r.e.CloseSession(opened))
	}
}

// sumOfProducts is x (w a) + x (w b), with constants w, a, b.
const sumOfProducts = `{"format": "torchlette program", "version": 1, "dims": [{"name": "n", "min": 1, "max": 100}],
"numbers": [], "constants": [
  {"name": "w", "kind": "parameter", "dtype": "float32", "shape": [1024, 16], "requires_grad": false},
  {"name": "a", "kind": "parameter", "dtype": "float32", "shape": [1024, 16], "requires_grad": false},
  {"name": "b", "kind": "parameter", "dtype": "float32", "shape": [1024, 16], "requires_grad": false}],
"functions": {"forward": {
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 1024]}],
  "formulas": [], "supplied": [], "guards": [], "writes": [],
  "steps": [
    {"op": "mul", "args": {"self": "%1", "other": "%2"}, "out": [{"dtype": "float32", "shape": [1024, 16]}]},
    {"op": "mul", "args": {"self": "%1", "other": "%3"}, "out": [{"dtype": "float32", "shape": [1024, 16]}]},
    {"op": "mm", "args": {"self": "%0", "mat2": "%4"}, "out": [{"dtype": "float32", "shape": ["n", 16]}]},
    {"op": "mm", "args": {"self": "%0", "mat2": "%5"}, "out": [{"dtype": "float32", "shape": ["n", 16]}]},
    {"op": "add", "args": {"self": "%6", "other": "%7", "alpha": 1},
     "out": [{"dtype": "float32", "shape": ["n", 16]}]}],
  "outputs": [{"name": "y", "value": "%8"}], "state": []}}}`

// doubled multiplies rows by weights that folding computes, as many as there are scales.
func doubled(r *rig, w T, scales ...float64) *primProgram {
	return &primProgram{in: []SessionPort{port("x", -1, 1024)}, out: []SessionPort{port("y", -1, 16)},
		f: func(s *lazy.Session, x []op.Val) []op.Val {
			var y op.Val
			for i, v := range scales {
				p := prim.Matmul(s, x[0], prim.Mul(s, r.val(w), op.FloatVal(v)), op.Val{})
				if i == 0 {
					y = p
				} else {
					y = prim.Add(s, y, p)
				}
			}
			return []op.Val{y}
		}}
}

// What folding computes is freed when products have packs of it. Plans of all shapes share the packs, also when the
// memory of other constants was reused between, and share what they read where it lies.
func TestFoldedWeightsAreFreedAndShared(t *testing.T) {
	r := newSessionRig(t, true)
	id, err := r.e.ParseProgram([]byte(sumOfProducts))
	require.Nil(t, err, "%v", err)
	filled := func(v float32) T {
		x := make([]float32, 1024*16)
		for i := range x {
			x[i] = v
		}
		return r.floats([]int64{1024, 16}, x...)
	}
	constants := []T{r.floats([]int64{1024, 16}, weight()...), filled(2), filled(3)}
	opened, err := r.e.OpenSessionOf(id, handles(constants), SessionOptions{Threads: 1})
	require.Nil(t, err, "%v", err)
	s, err := r.e.SessionOf(opened)
	require.Nil(t, err)
	live := func() int64 { return r.e.runtime.Devices[ir.CPU].Pool.Live }
	before := live()
	checkProduct(t, s, 8, 5)
	assert.Equal(t, before, live())
	assert.Zero(t, r.e.runtime.Devices[ir.CPU].Pool.Pooled)
	packs, inPlace := s.weights()
	assert.Zero(t, inPlace)
	for rows := 9; rows < 14; rows++ {
		checkProduct(t, s, rows, 5)
	}
	again, _ := s.weights()
	assert.Equal(t, packs, again)
	checkProduct(t, s, 1, 5)
	once := live() - before
	assert.GreaterOrEqual(t, once, int64(2*1024*16*4))
	_, inPlace = s.weights()
	assert.EqualValues(t, 2*1024*16*4, inPlace)
	s.shapes[0].shapes[0][0] = 100 // so that one row is another shape
	checkProduct(t, s, 1, 5)
	assert.Equal(t, once, live()-before, "two plans read the same memory")
	require.Nil(t, r.e.CloseSession(opened))
	assert.Equal(t, before, live(), "a closed session holds nothing")
}

// Weights are folded and packed one after the other: at no time are two of them in memory beside the packs.
func TestWeightsAreFoldedOneByOne(t *testing.T) {
	r := newSessionRig(t, true)
	s, err := r.e.newSession(doubled(r, r.floats([]int64{1024, 16}, weight()...), 2, 3, 4, 5), SessionOptions{Threads: 1})
	require.Nil(t, err)
	t.Cleanup(s.Close)
	pool := r.e.runtime.Devices[ir.CPU].Pool
	pool.ResetPeak()
	before := pool.Live
	checkProduct(t, s, 8, 14)
	assert.Less(t, pool.Peak-before, int64(2*1024*16*4))
}

// The plans of a session share an arena as large as the largest needs, which grows under the plans that are there.
func TestPlansOfASessionShareAnArena(t *testing.T) {
	r := newSessionRig(t, true)
	w := r.floats([]int64{1024, 16}, weight()...)
	program := &primProgram{in: []SessionPort{port("x", -1, 1024)}, out: []SessionPort{port("y", -1, 16)},
		f: func(s *lazy.Session, x []op.Val) []op.Val {
			y := prim.Matmul(s, x[0], r.val(w), op.Val{})
			back := prim.Matmul(s, y, prim.Transpose(s, r.val(w), 0, 1), op.Val{})
			return []op.Val{prim.Matmul(s, back, r.val(w), op.Val{})}
		}}
	s, err := r.e.newSession(program, SessionOptions{Threads: 1})
	require.Nil(t, err)
	t.Cleanup(s.Close)
	results := map[int64][]float32{}
	var largest int64
	for range 2 {
		for _, rows := range []int64{3, 40, 90, 7} {
			x := make([]float32, rows*1024)
			for i := range x {
				x[i] = float32(i%5 - 2)
			}
			y := slices.Clone(runSession(t, s, value("x", x, rows, 1024)))
			if first, ok := results[rows]; ok {
				assert.Equal(t, first, y)
			}
			results[rows] = y
			largest = max(largest, s.shapes[0].plan.Plan.Arena.Bytes)
		}
	}
	assert.Positive(t, largest)
	assert.Equal(t, largest, s.x.ArenaBytes())
	assert.Equal(t, results[90][:3*16], results[3], "rows do not depend on each other")
}
