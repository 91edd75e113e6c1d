package gpucode

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// forms are options to try on a case: those that Choose gives, and random ones.
func forms(r *rand.Rand, c *kerneltest.Case, i64 bool) []Options {
	chosen := Choose(c.Kernel, c.Params, Caps{I64: i64, Subgroup: r.IntN(2) * 4})
	drawn := chosen
	drawn.Workgroup = 1 << (3 + r.IntN(3))
	drawn.Lanes = 1 << r.IntN(4)
	drawn.OuterFast = r.IntN(2) == 0
	drawn.Hold, drawn.Full, drawn.CrossDim, drawn.Prologue = 0, false, 0, false
	if r.IntN(2) == 0 {
		drawn.Vec = 1
	}
	drawn.Subgroup = []int{0, 2, 4, 8}[r.IntN(4)]
	k := c.Kernel
	steps := product(c.Params[k.Outer:k.Outer+k.Inner]) / uint64(drawn.Vec)
	switch {
	case drawn.Vec == 4 && allowsSeveralVectors(k):
		drawn.VecPerThread = 1 + r.IntN(4)
	case hasPrefix(k):
		drawn.Unroll = 1
	case r.IntN(3) == 0 && steps > 0 && !ordered(k):
		drawn.Hold = int(ceil(steps, drawn.Lanes))
		drawn.Full = uint64(drawn.Hold*drawn.Lanes) == steps
	default:
		drawn.Unroll = 1 + r.IntN(3)
		drawn.Prologue = peels(k) && drawn.Vec == 1 && r.IntN(2) == 0
		if splits(k) {
			drawn.Parts = 1 + r.IntN(4)
		}
	}
	return []Options{chosen, drawn}
}

// run interprets the passes of a kernel, with scratch memory of arbitrary content.
func run(procs []*gpuir.Program, params []uint64, bufs [][]byte) (loopir.Fault, error) {
	var fault loopir.Fault
	scratch := bytes.Repeat([]byte{0xA5}, 4<<20)
	for _, p := range procs {
		b := bufs
		if len(p.Bufs) > len(bufs) {
			b = append(slices.Clone(bufs), scratch)
		}
		f, err := gpuir.Interpret(p, params, b)
		if err != nil {
			return f, err
		}
		if !fault.Failed {
			fault = f
		}
	}
	return fault, nil
}

func TestRandomKernelsMatchTheInterpreter(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		i64 := r.IntN(2) == 0
		c := kerneltest.Random(r, kerneltest.Limits{Small: !i64})
		want := c.Copy()
		fault, err := loopir.Interpret(want.Kernel, want.Params, want.Bufs)
		require.NoError(t, err, "seed %d", seed)
		for _, o := range forms(r, c, i64) {
			got := c.Copy()
			p, err := FromKernel(c.Kernel, o)
			require.NoError(t, err, "seed %d", seed)
			gf, err := run(p, got.Params, got.Bufs)
			require.NoError(t, err, "seed %d, %s, %+v", seed, c.Kernel.Name, o)
			require.Equal(t, fault, gf, "seed %d", seed)
			require.NoError(t, kerneltest.Close(c.Kernel, got.Bufs, want.Bufs, 1e-5, 1e-6), "seed %d, %s, %+v", seed,
				c.Kernel.Name, o)
			count(seen, c.Kernel, o)
		}
	}
	for _, form := range []string{"vectors", "several vectors", "row vectors", "lanes", "held", "held in part", "unrolled",
		"peeled", "split", "split in three", "shuffled", "shuffled twice", "shuffled across rows",
		"shuffled twice across rows"} {
		require.Greater(t, seen[form], 20, form)
	}
}

// count notes which options a case went through.
func count(seen map[string]int, k *loopir.Kernel, o Options) {
	note := func(form string, is bool) {
		if is {
			seen[form]++
		}
	}
	row := k.Inner > 0
	note("vectors", o.Vec == 4 && !row)
	note("several vectors", o.VecPerThread > 1)
	note("row vectors", o.Vec == 4 && row)
	note("lanes", row && o.Lanes > 1)
	note("held", row && o.Hold > 0)
	note("held in part", row && o.Hold > 0 && !o.Full)
	note("unrolled", row && o.Hold == 0 && o.Unroll > 1)
	note("peeled", row && o.Prologue)
	note("split", row && o.Parts > 1)
	note("split in three", row && o.Parts > 1 && len(o.Passes(k)) > 2)
	shuffled := row && o.Lanes > 1 && o.Subgroup > 1 && !o.OuterFast && o.Lanes <= o.Subgroup*o.Subgroup
	note("shuffled", shuffled)
	note("shuffled twice", shuffled && o.Lanes > o.Subgroup)
	across := row && o.Lanes > 1 && o.OuterFast && o.Subgroup > o.Workgroup/o.Lanes
	note("shuffled across rows", across)
	note("shuffled twice across rows", across && o.Workgroup > o.Subgroup)
}

// transposed is a map over dims that reads one operand along each dim except the last, and adds a dense one.
func transposed(r *rand.Rand, t ir.DType, sizes ...uint64) *kerneltest.Case {
	d := len(sizes)
	b := loopir.NewBuilder("transposed", d, 0)
	total := product(sizes)
	c := &kerneltest.Case{Params: slices.Clone(sizes)}
	bits := make([]byte, 4*total)
	for i := range bits {
		bits[i] = byte(r.IntN(60)) // small positive floats, also as integers
	}
	sum := b.Load(b.Linear(b.Buf(t, loopir.Read), -1))
	c.Bufs = append(c.Bufs, slices.Clone(bits))
	for unit := range d - 1 {
		// Dims of the operand's memory, from the last: unit, then the others.
		strides, next := make([]int, d), sizes[unit]
		for dim := d - 1; dim >= 0; dim-- {
			if dim == unit {
				strides[dim] = loopir.Unit
				continue
			}
			strides[dim] = b.Stride()
			c.Params = append(c.Params, next)
			next *= sizes[dim]
		}
		sum = b.Add(sum, b.Load(b.Access(b.Buf(t, loopir.Read), -1, strides...)))
		c.Bufs = append(c.Bufs, slices.Clone(bits))
	}
	out := b.Linear(b.Buf(t, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(sum, b.Cast(t, b.Index(0))))
	c.Bufs, c.Kernel = append(c.Bufs, slices.Clone(bits)), b.Kernel()
	return c
}

func TestMapsInSquares(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, sizes := range [][]uint64{{33, 65}, {8, 40}, {3, 34, 9}, {70, 2, 31}, {2, 9, 10, 11}, {1, 9, 300}} {
		for _, dtype := range []ir.DType{ir.F32, ir.I32} {
			c := transposed(r, dtype, sizes...)
			o := Choose(c.Kernel, c.Params, Caps{})
			require.Positive(t, o.CrossDim, "%v", sizes)
			want, got := c.Copy(), c.Copy()
			_, err := loopir.Interpret(want.Kernel, want.Params, want.Bufs)
			require.NoError(t, err)
			p, err := FromKernel(c.Kernel, o)
			require.NoError(t, err)
			_, err = run(p, got.Params, got.Bufs)
			require.NoError(t, err, "%v", sizes)
			require.NoError(t, kerneltest.Close(c.Kernel, got.Bufs, want.Bufs, 1e-6, 0), "%v", sizes)
		}
	}
}

// A split needs a binding for scratch memory, so a kernel with as many buffers as the device binds is not split.
func TestSplitsNeedABinding(t *testing.T) {
	b := loopir.NewBuilder("sums", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Each()
	sum := b.Reduce(loopir.Sum, x)
	b.Map()
	b.Store(out, b.Acc(sum))
	k, params := b.Kernel(), []uint64{1, 1 << 20}
	require.Greater(t, Choose(k, params, Caps{MaxBuffers: 3}).Parts, 1)
	require.Equal(t, 1, Choose(k, params, Caps{MaxBuffers: 2}).Parts)
}

// Workgroups share rows of a kernel that accumulates nothing in one pass, without scratch memory.
func TestRowsThatAccumulateNothingAreShared(t *testing.T) {
	b := loopir.NewBuilder("scaled", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	by := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Unit, loopir.Broadcast))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Each()
	b.Store(out, b.Mul(x, by))
	k := b.Kernel()
	const rows, cols = 3, 70001
	o := Choose(k, []uint64{rows, cols}, Caps{Units: 264, MaxThreads: 1024})
	require.Greater(t, o.Parts, 1)
	require.True(t, o.Prologue)
	require.Len(t, o.Passes(k), 1)
	p, err := FromKernel(k, o)
	require.NoError(t, err)
	require.Len(t, p[0].Bufs, 3)
	bufs := [][]byte{make([]byte, 4*rows*cols), make([]byte, 4*rows), bytes.Repeat([]byte{0xA5}, 4*rows*cols)}
	for i := range int64(rows * cols) {
		loopir.StoreBits(ir.F32, bufs[0], i, ir.EncodeFloat(ir.F32, float64(i%1000)))
	}
	for i := range int64(rows) {
		loopir.StoreBits(ir.F32, bufs[1], i, ir.EncodeFloat(ir.F32, float64(i+2)))
	}
	_, err = run(p, []uint64{rows, cols}, bufs)
	require.NoError(t, err)
	for i := range int64(rows * cols) {
		// The sums are exact.
		require.Equal(t, float64(i%1000*(i/cols+2)), ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, bufs[2], i)), i)
	}
}

// inPlaceRows stores each element of a row less the row's sum over itself; early: a stage before the sum doubles the
// elements.
func inPlaceRows(sums, early bool) *loopir.Kernel {
	b := loopir.NewBuilder("in_place", 1, 1)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	if early {
		b.Each()
		b.Store(at, b.Add(b.Load(at), b.Load(at)))
	}
	by := b.Float(ir.F32, 1)
	if sums {
		b.Each()
		by = b.Acc(b.Reduce(loopir.Sum, b.Load(at)))
	}
	b.Each()
	b.Store(at, b.Sub(b.Load(at), by))
	return b.Kernel()
}

// Workgroups share rows that are written over themselves, unless a stage reads what an earlier one wrote.
func TestRowsWrittenOverThemselvesAreShared(t *testing.T) {
	const rows, cols = 2, 70000
	caps := Caps{Units: 264, MaxThreads: 1024, MaxBuffers: 8}
	for _, tc := range []struct {
		sums, early, shared bool
	}{{false, false, true}, {true, false, true}, {true, true, false}} {
		k := inPlaceRows(tc.sums, tc.early)
		o := Choose(k, []uint64{rows, cols}, caps)
		require.Equal(t, tc.shared, o.Parts > 1, tc)
		p, err := FromKernel(k, o)
		require.NoError(t, err)
		got := [][]byte{make([]byte, 4*rows*cols)}
		for i := range int64(rows * cols) {
			loopir.StoreBits(ir.F32, got[0], i, ir.EncodeFloat(ir.F32, float64(i%8)))
		}
		want := [][]byte{bytes.Clone(got[0])}
		_, err = loopir.Interpret(k, []uint64{rows, cols}, want)
		require.NoError(t, err)
		_, err = run(p, []uint64{rows, cols}, got)
		require.NoError(t, err)
		require.Equal(t, want, got, tc) // whole numbers: their sums are exact
	}
}

// barriers counts the barriers of a program's text.
func barriers(body []gpuir.Stmt) int {
	n := 0
	for i := range body {
		if body[i].Op == gpuir.SBarrier {
			n++
		}
		n += barriers(body[i].Body) + barriers(body[i].Else)
	}
	return n
}

// Rows across memory are folded by shuffles and through workgroup memory once, however many lanes share them.
func TestColumnsAreFoldedWithFewBarriers(t *testing.T) {
	b := loopir.NewBuilder("columns", 1, 1)
	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Unit, b.Stride()))
	b.Each()
	sum := b.Reduce(loopir.Sum, x)
	b.Map()
	b.Store(b.Access(b.Buf(ir.F32, loopir.Write), -1, loopir.Unit, loopir.Broadcast), b.Acc(sum))
	k := b.Kernel()
	for subgroup, most := range map[int]int{0: 9, 32: 2} {
		o := Options{Workgroup: 1024, Lanes: 128, OuterFast: true, Vec: 1, Subgroup: subgroup, MaxWorkgroupBytes: 16 << 10}
		procs, err := FromKernel(k, o)
		require.NoError(t, err)
		require.LessOrEqual(t, barriers(procs[0].Body), most)
	}
}
