package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Random kernels of every form. Chains of operations magnify rounding, so values are compared with a tolerance above
// that of one operation.
func TestRandomKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	cases := make([]*kerneltest.Case, 400)
	want := make([][][]byte, len(cases))
	faults := make([]loopir.Fault, len(cases))
	for i := range cases {
		c := kerneltest.Random(r, kerneltest.Limits{F64: true})
		cases[i], want[i] = c, copies(c.Bufs)
		var err error
		faults[i], err = loopir.Interpret(c.Kernel, c.Params, want[i])
		require.NoError(t, err)
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for i, c := range cases {
			got, f, failed := run(t, d, launchOne{k: c.Kernel, par: c.Params, bufs: c.Bufs})
			require.Equal(t, faults[i].Failed, failed, c.Kernel.Name)
			if failed {
				require.Equal(t, faults[i].Elem, f.Element)
			}
			require.NoError(t, kerneltest.Close(c.Kernel, got, want[i], 2e-5, 2e-5), "%s, case %d", c.Kernel.Name, i)
		}
	})
}

// Softmax over dim 1 of n0 x n1, in rows, or with dim 0 fastest. In place: one buffer.
func softmaxKernel(n0, n1 int64, columns, inPlace bool) launchOne {
	b := loopir.NewBuilder("softmax", 1, 1)
	par := sizes(n0, n1)
	access := func(buf int) int {
		if !columns {
			return b.Linear(buf, -1)
		}
		par = append(par, uint64(n0))
		return b.Access(buf, -1, loopir.Unit, b.Stride())
	}
	bufs := [][]byte{data(ir.F32, n0*n1)}
	var in, out int
	if inPlace {
		in = access(b.Buf(ir.F32, loopir.ReadWrite))
		out = in
	} else {
		in = access(b.Buf(ir.F32, loopir.Read))
		out = access(b.Buf(ir.F32, loopir.Write))
		bufs = append(bufs, make([]byte, 4*n0*n1))
	}
	x := b.Load(in)
	b.Each()
	top := b.Acc(b.Reduce(loopir.Max, x))
	b.Each()
	e := b.Un(loopir.OpExp, b.Sub(x, top))
	sum := b.Acc(b.Reduce(loopir.Sum, e))
	b.Each()
	b.Store(out, b.Div(e, sum))
	return launchOne{k: b.Kernel(), par: par, bufs: bufs, tol: 1e-6}
}

func TestSoftmax(t *testing.T) {
	var list []launchOne
	for _, s := range [][2]int64{{1, 1}, {1, 7}, {6, 1}, {900, 5}, {50, 64}, {40, 768}, {5, 2000}, {3, 10000},
		{1, 150000}} {
		for _, columns := range []bool{false, true} {
			list = append(list, softmaxKernel(s[0], s[1], columns, false), softmaxKernel(s[0], s[1], columns, true))
		}
	}
	check(t, list...)
}

// bundleKernel works rows of n2 elements, step apart, for n0 x n1 of them. It stores where a row's maximum is, and the
// exponentials less the maximum; those that a row's and a column's numbers choose are normalized.
func bundleKernel(t ir.DType, n0, n1, n2, step int64) launchOne {
	b := loopir.NewBuilder("bundle", 2, 1)
	x := b.Load(b.Access(b.Buf(t, loopir.Read), b.Offset(), b.Stride(), b.Stride(), b.Stride()))
	row := b.Load(b.Access(b.Buf(t, loopir.Read), -1, b.Stride(), loopir.Unit, loopir.Broadcast))
	column := b.Load(b.Access(b.Buf(t, loopir.Read), -1, loopir.Broadcast, loopir.Broadcast, loopir.Unit))
	place := b.Access(b.Buf(ir.I64, loopir.Write), -1, b.Stride(), loopir.Unit, loopir.Broadcast)
	out := b.Linear(b.Buf(t, loopir.Write), -1)
	b.Each()
	best := b.ReduceIdx(loopir.ArgMax, x, b.Index(2))
	top := b.Acc(best)
	b.Each()
	e := b.Un(loopir.OpExp, b.Sub(x, top))
	sum := b.Acc(b.Reduce(loopir.Sum, e))
	b.Check(b.Le(e, b.Float(t, 0.75)), b.Index(0))
	b.Map()
	b.Store(place, b.AccIdx(best))
	b.Each()
	share := b.Select(b.Lt(row, column), b.Div(e, sum), b.Select(b.Lt(row, sum), b.Mul(top, column), row))
	b.Store(out, b.Fma(share, top, b.Sub(row, x)))
	rows, size := n0*n1, int64(t.Size())
	return launchOne{k: b.Kernel(), par: sizes(n0, n1, n2, 5, n1*n2*step, n2*step, step, n1, n1),
		bufs: [][]byte{data(t, 5+rows*n2*step), data(t, rows), data(t, n2), make([]byte, 8*rows), make([]byte, size*rows*n2)},
		tol:  1e-5}
}

// TestBundlesOfRows: the rows of a bundle do not affect each other, in whole bundles and in the last one.
func TestBundlesOfRows(t *testing.T) {
	for _, dt := range []ir.DType{ir.F32, ir.F64, ir.BF16} {
		check(t, bundleKernel(dt, 1, 260, 256, 1), bundleKernel(dt, 9, 15, 300, 1), bundleKernel(dt, 70, 3, 257, 2),
			bundleKernel(dt, 90, 1, 700, 1))
	}
	check(t, softmaxKernel(131, 400, false, false), softmaxKernel(131, 400, false, true))
}

func TestNorm(t *testing.T) {
	check(t, normKernel(1, 1), normKernel(3, 7), normKernel(70, 768), normKernel(259, 512), normKernel(2, 5000),
		normKernel(300, 40))
}

// normGradKernel is the gradient of normKernel's x without its factor; mean and scale have one element for each row.
// With columns it is the gradient of the factor, a sum over rows.
func normGradKernel(t ir.DType, n0, n1 int64, columns bool) launchOne {
	dims := []int{loopir.Unit, loopir.Broadcast}
	par := sizes(n0, n1)
	if columns {
		dims[0], dims[1], par = loopir.Broadcast, loopir.Unit, sizes(n1, n0)
	}
	b := loopir.NewBuilder("norm_grad", 1, 1)
	full := func(mode loopir.BufAccess) int {
		if columns {
			return b.Access(b.Buf(t, mode), -1, loopir.Unit, b.Stride())
		}
		return b.Linear(b.Buf(t, mode), -1)
	}
	g, x := b.Load(full(loopir.Read)), b.Load(full(loopir.Read))
	mean, scale := b.Load(b.Access(b.Buf(t, loopir.Read), -1, dims...)),
		b.Load(b.Access(b.Buf(t, loopir.Read), -1, dims...))
	size := int64(t.Size())
	// sums of 700 products that cancel
	l := launchOne{bufs: [][]byte{data(t, n0*n1), data(t, n0*n1), data(t, n0), data(t, n0)}, tol: 1e-4}
	b.Each()
	centred := b.Sub(x, mean)
	if columns {
		sum := b.Dot(g, b.Mul(centred, scale))
		out := b.Access(b.Buf(t, loopir.Write), -1, loopir.Unit, loopir.Broadcast)
		b.Map()
		b.Store(out, b.Acc(sum))
		l.par, l.bufs = append(par, uint64(n1), uint64(n1)), append(l.bufs, make([]byte, size*n1))
	} else {
		dot, sum := b.Dot(g, centred), b.Reduce(loopir.Sum, g)
		out := full(loopir.Write)
		b.Each()
		n := b.Cast(t, b.Param(1))
		b.Store(out, b.Fma(centred, b.Neg(b.Div(b.Acc(dot), n)), b.Fma(g, scale, b.Neg(b.Div(b.Acc(sum), n)))))
		l.par, l.bufs = par, append(l.bufs, make([]byte, size*n0*n1))
	}
	l.k = b.Kernel()
	return l
}

func TestNormGradients(t *testing.T) {
	for _, dt := range []ir.DType{ir.F32, ir.F64} {
		for _, n := range [][2]int64{{1, 1}, {3, 7}, {70, 768}, {2, 5000}, {300, 40}, {200, 1500}, {700, 600}} {
			check(t, normGradKernel(dt, n[0], n[1], false), normGradKernel(dt, n[0], n[1], true))
		}
	}
}

// No bit depends on the number of threads.
func TestThreadsDoNotShow(t *testing.T) {
	one, three := newDevice(t, cpu.Options{Threads: 1}), newDevice(t, cpu.Options{Threads: 3})
	list := []launchOne{
		reduceKernel(loopir.Sum, ir.F32, "rows", 1, 1000000), reduceKernel(loopir.Sum, ir.F64, "rows", 3, 400000),
		reduceKernel(loopir.Sum, ir.F32, "columns", 64, 20000), reduceKernel(loopir.Sum, ir.F64, "columns", 1500, 700),
		softmaxKernel(2, 200000, false, false),
		softmaxKernel(401, 300, false, false),
	}
	for _, op := range scanned {
		list = append(list, scanKernel(op, ir.F32, 1, 400000), scanKernel(op, ir.F64, 3, 300001))
	}
	for _, l := range list {
		a, _, _ := run(t, one, l)
		b, _, _ := run(t, three, l)
		for i := range a {
			require.True(t, bytes.Equal(a[i], b[i]), l.k.Name)
		}
	}
}

// scanKernel stores the running values of op along rows, and the value of the whole row.
func scanKernel(op loopir.ReduceOp, t ir.DType, n0, n1 int64) launchOne {
	b := loopir.NewBuilder(fmt.Sprintf("scan_%d_%v", op, t), 1, 1)
	x := b.Load(b.Linear(b.Buf(t, loopir.Read), -1))
	running, last := b.Linear(b.Buf(t, loopir.Write), -1), b.Linear(b.Buf(t, loopir.Write), -1)
	b.Scan()
	var acc int
	if op.IsArg() {
		acc = b.ReduceIdx(op, x, b.Index(1))
	} else {
		acc = b.Reduce(op, x)
	}
	b.Store(running, b.AccRun(acc))
	b.Map()
	b.Store(last, b.Acc(acc))
	size, tol := int64(t.Size()), 1e-6
	if op == loopir.LogSum { // the interpreter rounds each running value
		tol = 3e-5
	}
	return launchOne{k: b.Kernel(), par: sizes(n0, n1), bufs: [][]byte{data(t, n0*n1), make([]byte, n0*n1*size),
		make([]byte, n0*size)}, tol: tol}
}

var scanned = []loopir.ReduceOp{loopir.Sum, loopir.Prod, loopir.Max, loopir.Min, loopir.ArgMax, loopir.ArgMin,
	loopir.LogSum}

func TestScans(t *testing.T) {
	var list []launchOne
	for _, s := range [][2]int64{{1, 1}, {300, 7}, {5, 37}, {1, 5000}, {2, 140003}} {
		for _, op := range scanned {
			list = append(list, scanKernel(op, ir.F32, s[0], s[1]))
			if s[0] != 2 {
				list = append(list, scanKernel(op, ir.F64, s[0], s[1]))
			}
			if op != loopir.LogSum {
				list = append(list, scanKernel(op, ir.I64, s[0], s[1]))
			}
		}
	}
	check(t, list...)
}

// Long sums of f32 keep the accuracy of pairwise summation.
func TestSumAccuracy(t *testing.T) {
	d := newDevice(t, cpu.Options{})
	for _, along := range []string{"rows", "columns"} {
		l := reduceKernel(loopir.Sum, ir.F32, along, 8, 1000000)
		for i := range int64(8 * 1000000) {
			loopir.StoreBits(ir.F32, l.bufs[0], i, uint64(math.Float32bits(0.1)))
		}
		got, _, _ := run(t, d, l)
		want := float64(float32(0.1)) * 1e6
		for i := range int64(8) {
			require.InEpsilon(t, want, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got[1], i)), 1e-6)
		}
	}
}

// Two results are written over the operands, each of which the other result needs.
func TestSwapInPlace(t *testing.T) {
	var list []launchOne
	b := loopir.NewBuilder("swap", 1, 0)
	p, q := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1), b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	m := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	x, y, z := b.Load(p), b.Load(q), b.Load(m)
	b.Map()
	b.Store(p, y)
	b.Store(q, b.Sub(x, z))
	b.Store(m, b.Add(x, y))
	n := int64(3000)
	list = append(list, launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{data(ir.F32, n), data(ir.F32, n),
		data(ir.F32, n)}})
	check(t, list...)
}

// turnedCopy copies a matrix of n0 x n1 that lies column by column, leaving out its first element.
func turnedCopy(dt ir.DType, n0, n1 int64) launchOne {
	b := loopir.NewBuilder("turned", 2, 0)
	in, out := b.Buf(dt, loopir.Read), b.Buf(dt, loopir.Write)
	x := b.Load(b.Access(in, b.Offset(), loopir.Unit, b.Stride()))
	b.Map()
	b.Store(b.Linear(out, -1), x)
	return launchOne{k: b.Kernel(), par: append(sizes(n0, n1), 1, uint64(n0)), bufs: [][]byte{data(dt, n0*n1+1),
		make([]byte, n0*n1*int64(dt.Size()))}}
}

func TestTransposedReads(t *testing.T) {
	var list []launchOne
	for _, s := range [][2]int64{{4, 4}, {3, 90}, {37, 45}, {100, 33}, {65, 4}, {1, 70}, {50, 14}, {33, 16}} {
		for _, dt := range []ir.DType{ir.Bool, ir.F16, ir.BF16, ir.F32, ir.I64} {
			list = append(list, turnedCopy(dt, s[0], s[1]))
		}
	}
	check(t, list...)
}

// Results large enough to bypass the caches, from rows that begin and end anywhere.
func TestLargeResults(t *testing.T) {
	d := newDevice(t, cpu.Options{})
	const n0, n1 = 2901, 3001
	l := turnedCopy(ir.F32, n0, n1)
	got, _, _ := run(t, d, l)
	for range 100_000 {
		i, j := rng.Int64N(n0), rng.Int64N(n1)
		require.Equal(t, loopir.LoadBits(ir.F32, l.bufs[0], 1+j*n0+i), loopir.LoadBits(ir.F32, got[1], i*n1+j))
	}
}

// Adding through repeated indices gives the same result for any number of threads.
func TestScatterAdd(t *testing.T) {
	var list []launchOne
	for _, dt := range []ir.DType{ir.F32, ir.F16, ir.I64} {
		rows, cols, into := int64(500), int64(70), int64(9)
		b := loopir.NewBuilder("index_add", 2, 0)
		src := b.Load(b.Linear(b.Buf(dt, loopir.Read), -1))
		ix := b.Load(b.Access(b.Buf(ir.I64, loopir.Read), -1, loopir.Unit, loopir.Broadcast))
		dst := b.Buf(dt, loopir.Atomic)
		b.Map()
		safe := b.InBounds(ix, b.I64(into))
		b.StoreAt(-1, dst, b.Add(b.Mul(safe, b.I64(cols)), b.Index(1)), src, loopir.Add)
		index := make([]byte, 8*rows)
		for i := range rows {
			loopir.StoreBits(ir.I64, index, i, uint64(rng.IntN(int(into))))
		}
		l := launchOne{k: b.Kernel(), par: sizes(rows, cols), bufs: [][]byte{data(dt, rows*cols), index, data(dt, into*cols)},
			tol: 1e-4}
		if dt == ir.F16 {
			l.tol = 0.2 // 500 / 9 additions, each rounded
		}
		list = append(list, launchOne{l.k, l.par, copies(l.bufs), l.tol})
		loopir.StoreBits(ir.I64, index, 333, 9)
		loopir.StoreBits(ir.I64, index, 400, 77)
		list = append(list, l)
	}
	check(t, list...)
}

// Division by a constant is a shift where it can be one; the quotient and the rest have the bits of the interpreter.
func TestDivisionByConstants(t *testing.T) {
	const lowest = math.MinInt32
	var list []launchOne
	for _, dt := range []ir.DType{ir.I32, ir.I64, ir.U32} {
		for _, by := range []int64{1, 2, 4, 1 << 20, 1 << 30, 3, 7, -1, -4, lowest} {
			for _, op := range []loopir.Op{loopir.OpDiv, loopir.OpRem} {
				b := loopir.NewBuilder("division", 1, 0)
				x := b.Load(b.Linear(b.Buf(dt, loopir.Read), -1))
				out := b.Linear(b.Buf(dt, loopir.Write), -1)
				b.Map()
				b.Store(out, b.Bin(op, x, b.Int(dt, by)))
				values := []int64{0, 1, -1, 3, 4, 5, -3, -4, -5, lowest, lowest + 1, math.MaxInt32}
				in := make([]byte, len(values)*dt.Size())
				for i, v := range values {
					loopir.StoreBits(dt, in, int64(i), ir.EncodeInt(dt, v))
				}
				list = append(list, launchOne{k: b.Kernel(), par: sizes(int64(len(values))),
					bufs: [][]byte{in, make([]byte, len(in))}})
			}
		}
	}
	check(t, list...)
}

func TestCasts(t *testing.T) {
	var list []launchOne
	types := append([]ir.DType{ir.Bool}, numbers...)
	for _, from := range types {
		for _, to := range types {
			b := loopir.NewBuilder("cast", 1, 0)
			x := b.Load(b.Linear(b.Buf(from, loopir.Read), -1))
			out := b.Linear(b.Buf(to, loopir.Write), -1)
			b.Map()
			b.Store(out, b.Cast(to, x))
			n := int64(70)
			in := data(from, n)
			for i := range n { // non-negative: a negative float to uint32 is not defined
				if from.IsFloat() {
					loopir.StoreBits(from, in, i, ir.EncodeFloat(from, float64(rng.IntN(100))/4))
				}
			}
			list = append(list, launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{in, make([]byte, n*int64(to.Size()))}})
		}
	}
	check(t, list...)
}

// Every half, and the floats between halves.
func TestHalves(t *testing.T) {
	var list []launchOne
	for _, h := range []ir.DType{ir.F16, ir.BF16} {
		for _, widen := range []bool{true, false} {
			from, to, n := h, ir.F32, int64(1<<16)
			if !widen {
				from, to, n = ir.F32, h, 1<<18
			}
			b := loopir.NewBuilder("halves", 1, 0)
			x := b.Load(b.Linear(b.Buf(from, loopir.Read), -1))
			out := b.Linear(b.Buf(to, loopir.Write), -1)
			b.Map()
			b.Store(out, x)
			in := make([]byte, n*int64(from.Size()))
			for i := range n {
				if widen {
					in[2*i], in[2*i+1] = byte(i), byte(i>>8)
				} else {
					loopir.StoreBits(ir.F32, in, i, uint64(uint32(i)<<14|uint32(rng.IntN(4))*0x1fff))
				}
			}
			list = append(list, launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{in, make([]byte, n*int64(to.Size()))}})
		}
	}
	check(t, list...)
}

// runGemm runs one product.
func runGemm(t testing.TB, d *cpu.Device, g *launch.Gemm, par []uint64, bufs [][]byte) []byte {
	t.Helper()
	step := device.Step{Op: g}
	bind := device.Binding{}
	for i, b := range bufs {
		x, err := d.Alloc(int64(len(b)))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, x)
	}
	for _, v := range par {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, len(bufs))
	require.NoError(t, err)
	defer p.Release()
	_, err = d.Run(p, &bind)
	require.NoError(t, err)
	after := copies(bufs)
	for i := range after {
		require.NoError(t, d.Read(bind.Bufs[i], ir.Bool, 0, after[i]))
	}
	return written(g, after)
}

// written is what a product has stored: C and the further results of its dtype.
func written(g *launch.Gemm, bufs [][]byte) []byte {
	l := g.Layout()
	out := slices.Clone(bufs[l.BufC])
	for _, b := range l.BufResults {
		if l.Bufs[b].Type == g.Type {
			out = append(out, bufs[b]...)
		}
	}
	return out
}

func TestGemm(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var cases []*kerneltest.GemmCase
	var want [][]byte
	for _, s := range [][3]int64{{1, 1, 1}, {3, 5, 7}, {6, 16, 4}, {1, 100, 50}, {100, 1, 50}, {4, 4, 0}, {17, 33, 300},
		{64, 64, 64}, {200, 40, 20}, {250, 35, 270}, {13, 300, 5}, {5, 400, 30}, {40, 390, 6}, {210, 20, 20}, {1, 37, 530},
		{70, 1, 300}} {
		for _, dt := range []ir.DType{ir.F32, ir.F64, ir.F16, ir.BF16, ir.I32, ir.I64} {
			n := few(4)
			if s[0]*s[1]*s[2] > 100000 {
				n = 1 + int(boolInt(dt == ir.F32))
				if testing.Short() {
					n = int(boolInt(dt == ir.F32 || dt == ir.BF16))
				}
			}
			for range n {
				c := kerneltest.RandomGemm(r, dt, s[0], s[1], s[2], false)
				bufs := copies(c.Bufs)
				require.NoError(t, launch.InterpretGemm(c.Gemm, c.Params, bufs))
				cases, want = append(cases, c), append(want, written(c.Gemm, bufs))
			}
		}
	}
	for _, dt := range []ir.DType{ir.F32, ir.F64} {
		for i := range few(40) {
			c := kerneltest.RandomGemmDims(r, dt, []int64{1, 5, 33, 200}[i%4], i%8 < 4, false)
			bufs := copies(c.Bufs)
			require.NoError(t, launch.InterpretGemm(c.Gemm, c.Params, bufs))
			cases, want = append(cases, c), append(want, written(c.Gemm, bufs))
		}
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for i, c := range cases {
			got := runGemm(t, d, c.Gemm, c.Params, c.Bufs)
			dt := c.Gemm.Type
			tol := map[ir.DType]float64{ir.F32: 3e-5, ir.F64: 1e-12, ir.F16: 3e-3, ir.BF16: 2e-2}[dt]
			same(t, dt, want[i], got, tol, fmt.Sprintf("gemm %v %v", dt, c.Params))
		}
	})
}

// TestThreadsDoNotShowInProducts: with few threads rows of A are read in place, with more they are packed in blocks;
// the terms are added in one order.
func TestThreadsDoNotShowInProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, isa := range instructionSets() {
		var devices []*cpu.Device
		for _, threads := range []int{1, 3, 16} {
			devices = append(devices, newDevice(t, cpu.Options{ISA: isa, Threads: threads}))
		}
		for _, dt := range []ir.DType{ir.F32, ir.F64} {
			for range few(8) {
				c := kerneltest.RandomGemm(r, dt, 200+r.Int64N(60), 300, 200+r.Int64N(350), false)
				first := runGemm(t, devices[0], c.Gemm, c.Params, c.Bufs)
				for _, d := range devices[1:] {
					require.True(t, bytes.Equal(first, runGemm(t, d, c.Gemm, c.Params, c.Bufs)), "%s %v %v", isa, dt, c.Params)
				}
			}
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	d := newDevice(t, cpu.Options{MemoryLimit: 1 << 20})
	a, err := d.Alloc(1 << 19)
	require.NoError(t, err)
	_, err = d.Alloc(1<<19 + 1)
	require.ErrorContains(t, err, "524289 bytes")
	var e *ir.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, ir.ErrOutOfMemory, e.Code)
	d.Free(a)
	b, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	d.Free(b)
}

func TestUnknownInstructionSet(t *testing.T) {
	_, err := cpu.New(cpu.Options{ISA: "mmx"})
	require.ErrorContains(t, err, `"mmx"`)
}

// A run allocates nothing in Go.
func TestRunDoesNotAllocate(t *testing.T) {
	d := newDevice(t, cpu.Options{})
	p, bind, done := prepared(t, d, binaryMap(loopir.OpAdd, ir.F32, 4, 4, true))
	defer done()
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = d.Run(p, bind) }))
}
