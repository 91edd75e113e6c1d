package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func newDevice(t testing.TB, o cpu.Options) *cpu.Device {
	t.Helper()
	d, err := cpu.New(o)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// devicesOf returns devices of one and of three threads on an instruction set, or skips where the processor lacks it.
func devicesOf(t *testing.T, isa string) (one, three *cpu.Device) {
	t.Helper()
	one, err := cpu.New(cpu.Options{ISA: isa, Threads: 1})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(one.Close)
	return one, newDevice(t, cpu.Options{ISA: isa, Threads: 3})
}

// instructionSets lists the instruction sets of this processor.
func instructionSets() []string {
	var s []string
	for _, n := range []string{"plain", "neon", "avx2", "avx512"} {
		if d, err := cpu.New(cpu.Options{ISA: n, Threads: 1}); err == nil {
			d.Close()
			s = append(s, n)
		}
	}
	return s
}

// launch is a kernel with its parameters and the contents of its buffers.
type launchOne struct {
	k    *loopir.Kernel
	par  []uint64
	bufs [][]byte
	tol  float64 // relative, of floats; 0 asks for equal bits
}

// run runs l on d and returns the buffers and the fault.
func run(t testing.TB, d *cpu.Device, l launchOne) ([][]byte, device.Fault, bool) {
	t.Helper()
	step := device.Step{Op: l.k, Event: 7}
	bind := device.Binding{}
	for i, b := range l.bufs {
		step.Bufs = append(step.Bufs, i)
		x, err := d.Alloc(int64(len(b)))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		bind.Bufs = append(bind.Bufs, x)
	}
	for i, v := range l.par {
		p := device.Param{Bits: v}
		switch l.k.Params[i].Kind {
		case loopir.Scalar:
			p = device.ScalarOf(len(bind.Scalars))
			bind.Scalars = append(bind.Scalars, v)
		case loopir.Offset:
			p = device.Param{Bits: 1, From: device.Offset, Index: int32(len(bind.Offsets))}
			bind.Offsets = append(bind.Offsets, int64(v)-1)
		}
		step.Params = append(step.Params, p)
	}
	prog, err := d.Build([]device.Step{step}, len(l.bufs))
	require.NoError(t, err)
	defer prog.Release()
	_, err = d.Run(prog, &bind)
	require.NoError(t, err)
	out := make([][]byte, len(l.bufs))
	for i, b := range l.bufs {
		out[i] = make([]byte, len(b))
		require.NoError(t, d.Read(bind.Bufs[i], ir.Bool, 0, out[i]))
	}
	f, failed, err := d.TakeFault()
	require.NoError(t, err)
	return out, f, failed
}

// check compares the devices with the interpreter, which runs once.
func check(t *testing.T, launches ...launchOne) {
	t.Helper()
	type result struct {
		bufs  [][]byte
		fault loopir.Fault
	}
	want := make([]result, len(launches))
	for i, l := range launches {
		bufs := copies(l.bufs)
		f, err := loopir.Interpret(l.k, l.par, bufs)
		require.NoError(t, err)
		want[i] = result{bufs, f}
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for i, l := range launches {
			got, f, failed := run(t, d, l)
			require.Equal(t, want[i].fault.Failed, failed, l.k.Name)
			if failed {
				require.Equal(t, device.Fault{Event: 7, Element: want[i].fault.Elem}, f, l.k.Name)
			}
			for b := range got {
				same(t, l.k.Bufs[b].Type, want[i].bufs[b], got[b], l.tol, fmt.Sprintf("%s %v: buffer %d", l.k.Name,
					l.par[:l.k.Outer+l.k.Inner], b))
			}
		}
	})
}

func copies(bufs [][]byte) [][]byte {
	c := make([][]byte, len(bufs))
	for i, b := range bufs {
		c[i] = append([]byte{}, b...)
	}
	return c
}

// few is how many of n random cases a test runs: an eighth under -short, for emulated processors. Tests with a Go
// reference leave their largest cases out there too.
func few(n int) int {
	if testing.Short() {
		return max(n/8, 1)
	}
	return n
}

func same(t testing.TB, dt ir.DType, want, got []byte, tol float64, what string) {
	t.Helper()
	ct := dt.ComputeType()
	for i := range int64(len(want) / dt.Size()) {
		w, g := loopir.LoadBits(dt, want, i), loopir.LoadBits(dt, got, i)
		if w == g {
			continue
		}
		if !dt.IsFloat() {
			require.Equal(t, w, g, "%s: element %d", what, i)
		}
		x, y := ir.DecodeFloat(ct, w), ir.DecodeFloat(ct, g)
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		rel := tol
		switch dt {
		case ir.F16:
			rel = max(rel, 1.0/1024)
		case ir.BF16:
			rel = max(rel, 1.0/128)
		}
		if !(math.Abs(x-y) <= rel*math.Max(1, math.Abs(x))) {
			require.Failf(t, "wrong", "%s: element %d: got %v, want %v", what, i, y, x)
		}
	}
}

var rng = rand.New(rand.NewPCG(3, 4))

// data makes n elements of t: floats near 0, small integers.
func data(t ir.DType, n int64) []byte {
	b := make([]byte, n*int64(t.Size()))
	for i := range n {
		switch {
		case t.IsFloat():
			loopir.StoreBits(t, b, i, ir.EncodeFloat(t, rng.NormFloat64()))
		case t == ir.Bool:
			loopir.StoreBits(t, b, i, uint64(rng.IntN(2)))
		default:
			loopir.StoreBits(t, b, i, ir.EncodeInt(t, int64(rng.IntN(19))-6*int64(rng.IntN(2))*boolInt(t != ir.U32)))
		}
	}
	return b
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func sizes(v ...int64) []uint64 {
	u := make([]uint64, len(v))
	for i, x := range v {
		u[i] = uint64(x)
	}
	return u
}

func each(t *testing.T, f func(t *testing.T, d *cpu.Device)) {
	for _, isa := range instructionSets() {
		for _, threads := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", isa, threads),
				func(t *testing.T) { f(t, newDevice(t, cpu.Options{ISA: isa, Threads: threads})) })
		}
	}
}

var numbers = []ir.DType{ir.I32, ir.I64, ir.U32, ir.F16, ir.BF16, ir.F32, ir.F64, ir.U8, ir.I8, ir.I16, ir.U16}

// binary makes a map of two operands over two dims, the second one with strides st.
func binaryMap(op loopir.Op, t ir.DType, n0, n1 int64, scalar bool) launchOne {
	b := loopir.NewBuilder(fmt.Sprintf("map_%v_%v", op, t), 2, 0)
	x := b.Load(b.Access(b.Buf(t, loopir.Read), b.Offset(), b.Stride(), loopir.Unit))
	par := sizes(n0, n1, 3, n1+2)
	bufs := [][]byte{data(t, 3+n0*(n1+2))}
	var y int
	if scalar {
		y = b.Param(b.Scalar(t))
		par = append(par, ir.EncodeInt(t.ComputeType(), 3))
	} else {
		y = b.Load(b.Access(b.Buf(t, loopir.Read), -1, loopir.Unit, b.Stride()))
		par = append(par, uint64(n0))
		bufs = append(bufs, data(t, n0*n1))
	}
	v := b.Bin(op, x, y)
	rt := t
	if op.IsCompare() {
		rt = ir.Bool
	}
	out := b.Linear(b.Buf(rt, loopir.Write), -1)
	b.Map()
	b.Store(out, v)
	return launchOne{k: b.Kernel(), par: par, bufs: append(bufs, make([]byte, n0*n1*int64(rt.Size()))), tol: 2e-6}
}

func TestBinaryMaps(t *testing.T) {
	var list []launchOne
	for _, dt := range numbers {
		for _, op := range []loopir.Op{loopir.OpAdd, loopir.OpSub, loopir.OpMul, loopir.OpDiv, loopir.OpRem, loopir.OpMin,
			loopir.OpMax, loopir.OpEq, loopir.OpNe, loopir.OpLt, loopir.OpLe} {
			list = append(list, binaryMap(op, dt, 7, 33, false), binaryMap(op, dt, 2, 1500, true))
		}
	}
	for _, dt := range []ir.DType{ir.I32, ir.I64, ir.U32} {
		for _, op := range []loopir.Op{loopir.OpAnd, loopir.OpOr, loopir.OpXor, loopir.OpPow} {
			list = append(list, binaryMap(op, dt, 3, 70, false))
		}
	}
	check(t, append(list, binaryMap(loopir.OpAdd, ir.F32, 300, 700, false))...)
}

func reduceKernel(op loopir.ReduceOp, t ir.DType, along string, n0, n1 int64) launchOne {
	b := loopir.NewBuilder(fmt.Sprintf("reduce_%d_%v_%s", op, t, along), 1, 1)
	buf := b.Buf(t, loopir.Read)
	var x, acc, total int
	par := sizes(n0, n1)
	if along == "rows" {
		x = b.Load(b.Linear(buf, -1))
	} else {
		x = b.Load(b.Access(buf, -1, loopir.Unit, b.Stride()))
		par = append(par, uint64(n0))
	}
	rt := t
	b.Each()
	if op.IsArg() {
		acc = b.ReduceIdx(op, x, b.Index(1))
		total, rt = b.AccIdx(acc), ir.I64
	} else {
		acc = b.Reduce(op, x)
		total = b.Acc(acc)
	}
	out := b.Linear(b.Buf(rt, loopir.Write), -1)
	b.Map()
	b.Store(out, total)
	return launchOne{k: b.Kernel(), par: par, bufs: [][]byte{data(t, n0*n1), make([]byte, n0*int64(rt.Size()))}, tol: 3e-5}
}

func TestReductions(t *testing.T) {
	var list []launchOne
	for _, along := range []string{"rows", "columns"} {
		for _, s := range [][2]int64{{1, 1}, {5, 3}, {300, 8}, {7, 900}, {3, 5000}, {1, 200000}, {600, 70}, {1500, 20},
			{2000, 5}, {40, 0}} {
			for _, op := range []loopir.ReduceOp{loopir.Sum, loopir.Max, loopir.Min, loopir.ArgMax, loopir.ArgMin} {
				for _, dt := range numbers {
					if n := s[0] * s[1]; n <= 10000 || dt == ir.F32 && (op == loopir.Sum || n < 50000) {
						list = append(list, reduceKernel(op, dt, along, s[0], s[1]))
					}
				}
			}
			list = append(list, reduceKernel(loopir.Any, ir.Bool, along, s[0], min(s[1], 900)), reduceKernel(loopir.All, ir.Bool,
				along, s[0], min(s[1], 3)), reduceKernel(loopir.Prod, ir.I64, along, s[0], min(s[1], 900)),
				reduceKernel(loopir.Prod, ir.F64, along, s[0], min(s[1], 12)))
		}
	}
	check(t, list...)
}

func TestExtremesTakeNaN(t *testing.T) {
	var list []launchOne
	for _, along := range []string{"rows", "columns"} {
		for _, op := range []loopir.ReduceOp{loopir.Max, loopir.Min, loopir.ArgMax, loopir.ArgMin} {
			for _, n := range []int64{3, 50, 200, 3000} {
				l := reduceKernel(op, ir.F32, along, 6, n)
				for range 4 {
					binary.LittleEndian.PutUint32(l.bufs[0][4*rng.IntN(int(6*n)):], math.Float32bits(float32(math.NaN())))
				}
				list = append(list, l)
			}
		}
	}
	check(t, list...)
}
