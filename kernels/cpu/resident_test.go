package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// randomLoop is a loop over one map of random expressions: carries, an element of xs and a value that stays are read;
// the next carries and a stacked result are written. All have n elements. The launch's buffers are operands, results,
// kept carries, and spare buffers, which the second list of sizes has.
func randomLoop(r *rand.Rand, n, length int64, keep bool) (l *device.Loop, elements []int64) {
	types := []ir.DType{ir.F32, ir.F32, ir.F32, ir.F64, ir.I32, ir.I64, ir.BF16, ir.F16, ir.Bool, ir.U8}
	carries := 1 + r.IntN(3)
	var of []ir.DType // carries, xs, what stays
	for range carries + 2 {
		of = append(of, types[r.IntN(len(types))])
	}
	b := loopir.NewBuilder("body", 1, 0)
	var vals []int
	for _, t := range of {
		vals = append(vals, b.Load(b.Linear(b.Buf(t, loopir.Read), -1)))
	}
	b.Map()
	pick := func(t ir.DType) int { return b.Cast(t, vals[r.IntN(len(vals))]) }
	ops := []loopir.Op{loopir.OpAdd, loopir.OpSub, loopir.OpMul, loopir.OpMin, loopir.OpMax}
	funcs := []loopir.Op{loopir.OpAbs, loopir.OpTanh, loopir.OpSin, loopir.OpFloor, loopir.OpNeg, loopir.OpExp,
		loopir.OpLog, loopir.OpErf}
	for range 3 + r.IntN(12) {
		t := []ir.DType{ir.F32, ir.F32, ir.F64, ir.I32}[r.IntN(4)]
		switch r.IntN(4) {
		case 0:
			vals = append(vals, b.Select(b.Lt(pick(t), pick(t)), pick(t), pick(t)))
		case 1:
			if t != ir.I32 {
				vals = append(vals, b.Un(funcs[r.IntN(len(funcs))], pick(t)))
			}
		default:
			vals = append(vals, b.Bin(ops[r.IntN(len(ops))], pick(t), pick(t)))
		}
	}
	results := append(append([]ir.DType{}, of[:carries]...), types[r.IntN(3)])
	for i, t := range results {
		v := b.Cast(t, vals[len(vals)-1-i%2])
		if t.IsFloat() { // bounded, so that iterations differ
			v = b.Un(loopir.OpSin, v)
		}
		b.Store(b.Linear(b.Buf(t, loopir.Write), -1), v)
	}
	slots := len(of) + len(results)
	l = &device.Loop{Slots: slots, Length: length, Reverse: r.IntN(2) == 0, Operands: len(of), Lanes: []int64{n}}
	step := device.Step{Op: b.Kernel(), Params: []device.Param{device.Const(n)}}
	add := func(t ir.DType, count int64) int {
		l.Uses = append(l.Uses, loopir.Buf{Type: t, Access: loopir.ReadWrite})
		elements = append(elements, count)
		return len(l.Uses) - 1
	}
	for i, t := range append(append([]ir.DType{}, of...), results...) {
		step.Bufs = append(step.Bufs, i)
		w := device.Wire{Buf: i, Operand: -1, Width: t.Size(), Bytes: n * int64(t.Size()), Kept: -1, Spare: -1}
		count := n
		switch k := i - len(of); {
		case i < carries:
			w.Route, w.Carry, w.Operand, w.Last = device.CarryIn, i, i, len(of)+i
		case i == carries || k == carries:
			w.Route, count = device.Advances, n*length
			if k < 0 {
				w.Operand = i
			}
		case i < len(of):
			w.Operand = i
		default:
			w.Route, w.Carry = device.CarryOut, k
		}
		add(t, count)
		l.Wires = append(l.Wires, w)
	}
	for i := range carries {
		in, out := &l.Wires[i], &l.Wires[len(of)+i]
		if keep {
			in.Kept = add(of[i], n*length)
			out.Kept = in.Kept
		} else {
			out.Spare = add(of[i], n)
		}
	}
	l.Steps = []device.Step{step}
	return l, elements
}

// runLoop returns the contents of a loop's buffers after a run; spare ones are left out.
func runLoop(t *testing.T, d *cpu.Device, l *device.Loop, bufs [][]byte) [][]byte {
	step, bind := device.Step{Op: l}, device.Binding{}
	for i, b := range bufs {
		step.Bufs = append(step.Bufs, i)
		x, err := d.Alloc(int64(len(b)))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		bind.Bufs = append(bind.Bufs, x)
	}
	step.Params = make([]device.Param, l.Operands)
	prog, err := d.Build([]device.Step{step}, len(bufs))
	require.NoError(t, err)
	defer prog.Release()
	_, err = d.Run(prog, &bind)
	require.NoError(t, err)
	for _, w := range l.Wires {
		if w.Spare >= 0 {
			bufs[w.Spare] = nil
		}
	}
	out := make([][]byte, len(bufs))
	for i, b := range bufs {
		out[i] = make([]byte, len(b))
		require.NoError(t, d.Read(bind.Bufs[i], ir.Bool, 0, out[i]))
	}
	return out
}

// TestResidentLoopsGiveTheBitsOfTheirSteps: random bodies give equal bits where machine code runs all iterations and
// where steps run one by one, apart from the payloads of NaN, for every size of a block.
func TestResidentLoopsGiveTheBitsOfTheirSteps(t *testing.T) {
	for _, isa := range instructionSets() {
		t.Run(isa, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			plain, hot := newDevice(t, cpu.Options{ISA: isa, Hot: -1}), newDevice(t, cpu.Options{ISA: isa, Hot: 1, Threads: 2})
			for i := range 300 {
				n, length := []int64{1, 2, 4, 5, 8, 13, 16, 35}[r.IntN(8)], int64(1+r.IntN(9))
				l, elements := randomLoop(r, n, length, r.IntN(3) == 0)
				var bufs [][]byte
				for b, count := range elements {
					bufs = append(bufs, data(l.Uses[b].Type, count))
				}
				want := runLoop(t, plain, l, append([][]byte{}, bufs...))
				got := runLoop(t, hot, l, append([][]byte{}, bufs...))
				requireBits(t, &loopir.Kernel{Bufs: l.Uses}, got, want, "%s, case %d, %d lanes, %d iterations", isa, i, n, length)
			}
			require.Equal(t, isa == "avx2" || isa == "avx512", hot.Stats()["loops_machine_code"] > 100)
		})
	}
}

// TestFunctionsOfLoopsGiveTheBitsOfTiles compares a loop's machine code with the C kernels on a sample of all floats.
// With one lane, the loop calls the C code.
func TestFunctionsOfLoopsGiveTheBitsOfTiles(t *testing.T) {
	in := everyNth(65_521)
	in = in[:len(in)/64*64]
	n := int64(len(in) / 4)
	for _, op := range []loopir.Op{loopir.OpExp, loopir.OpLog, loopir.OpTanh, loopir.OpErf} {
		b := loopir.NewBuilder("body", 1, 0)
		x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
		b.Map()
		b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), b.Un(op, x))
		l := &device.Loop{Slots: 2, Length: 1, Operands: 1, Lanes: []int64{n}, Uses: b.Kernel().Bufs,
			Steps: []device.Step{{Op: b.Kernel(), Bufs: []int{0, 1}, Params: []device.Param{device.Const(n)}}}}
		wire := device.Wire{Operand: -1, Width: 4, Bytes: 4 * n, Kept: -1, Spare: -1}
		from, to := wire, wire
		from.Route, from.Operand = device.Advances, 0
		to.Route, to.Buf = device.Advances, 1
		l.Wires = []device.Wire{from, to}
		for _, isa := range instructionSets() {
			plain, hot := newDevice(t, cpu.Options{ISA: isa, Hot: -1}), newDevice(t, cpu.Options{ISA: isa, Hot: 1})
			bufs := [][]byte{in, make([]byte, len(in))}
			want := runLoop(t, plain, l, append([][]byte{}, bufs...))
			got := runLoop(t, hot, l, append([][]byte{}, bufs...))
			requireBits(t, &loopir.Kernel{Bufs: l.Uses}, got, want, "%v, %s", op, isa)
			require.Equal(t, isa == "avx2" || isa == "avx512", hot.Stats()["loops_machine_code"] == 1)
		}
	}
}
