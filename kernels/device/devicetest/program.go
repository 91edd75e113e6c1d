package devicetest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// The buffers of random programs have i32 elements. A step uses up to half of them, from any offset.
const programSlots, programRoom = 12, 64

// stepKernels are what random programs are made of, over int32 so that results are exact: 3x+y of two slots, += of one
// slot into another, and sums of rows. Offsets come at run time, except that of the first kernel's output, which
// several steps may write side by side.
func stepKernels() []*loopir.Kernel {
	b := loopir.NewBuilder("combine", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), b.Offset()))
	y := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), b.Offset()))
	out := b.Linear(b.Buf(ir.I32, loopir.Write), b.Offset())
	b.Map()
	b.Store(out, b.Add(b.Mul(x, b.Int(ir.I32, 3)), y))
	combine := b.Kernel()

	b = loopir.NewBuilder("accumulate", 1, 0)
	x = b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), b.Offset()))
	sum := b.Linear(b.Buf(ir.I32, loopir.ReadWrite), -1)
	b.Map()
	b.Store(sum, b.Add(b.Load(sum), x))
	accumulate := b.Kernel()

	b = loopir.NewBuilder("rows", 1, 1)
	x = b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	out = b.Linear(b.Buf(ir.I32, loopir.Write), b.Offset())
	b.Each()
	s := b.Reduce(loopir.Sum, x)
	b.Map()
	b.Store(out, b.Acc(s))
	return []*loopir.Kernel{combine, accumulate, b.Kernel()}
}

// randomProgram draws steps; offsets counts the run-time offsets they take.
func randomProgram(r *rand.Rand, n int) (steps []device.Step, offsets int) {
	kernels := stepKernels()
	runtime := func() device.Param {
		offsets++
		return device.Param{From: device.Offset, Index: int32(offsets - 1)}
	}
	for range n {
		slots := r.Perm(programSlots)
		size := int64(4 * r.IntN(programRoom/8))
		half := device.Const(programRoom / 2 * r.Int64N(2))
		var st device.Step
		switch kind := r.IntN(12); {
		case kind < 5:
			st = device.Step{Op: kernels[0], Bufs: slots[:3], Params: []device.Param{device.Const(size), runtime(), runtime(),
				half}}
			st.Bufs[2] %= 2
			if st.Bufs[0] < 2 || st.Bufs[1] < 2 {
				continue
			}
		case kind < 8:
			st = device.Step{Op: kernels[1], Bufs: slots[:2], Params: []device.Param{device.Const(size), runtime()}}
		case kind < 10:
			st = device.Step{Op: kernels[2], Bufs: slots[:2], Params: []device.Param{device.Const(4), device.Const(size / 2),
				half}}
		case kind < 11:
			st = device.Step{Op: launch.Copy{}, Bufs: slots[:2], Params: []device.Param{device.Const(4 * size), device.Const(0),
				device.Const(16)}}
		default:
			st = device.Step{Op: launch.Fill{}, Bufs: slots[:1], Params: []device.Param{device.Const(4 * size), device.Const(8)}}
		}
		steps = append(steps, st)
	}
	return steps, offsets
}

// programs runs random programs of many small steps. Whatever a device reorders or merges, the results are those of the
// steps in order.
func (s *suite) programs(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 21))
		steps, offsets := randomProgram(r, 70)
		p, err := s.d.Build(steps, programSlots)
		require.NoError(t, err)
		bind := &device.Binding{Offsets: make([]int64, offsets)}
		var want [][]byte
		for range programSlots {
			data := make([]int32, programRoom)
			for i := range data {
				data[i] = r.Int32N(1000)
			}
			want = append(want, ints(data...))
			bind.Bufs = append(bind.Bufs, s.put(t, ir.I32, ints(data...)))
		}
		for run := range 3 { // aligned, as drawn, aligned again
			for i := range bind.Offsets {
				bind.Offsets[i] = r.Int64N(programRoom / 2)
				if run != 1 {
					bind.Offsets[i] &^= 3
				}
			}
			_, err = s.d.Run(p, bind)
			require.NoError(t, err)
			inOrder(t, steps, want, bind.Offsets)
			for i, b := range bind.Bufs {
				require.Equal(t, want[i], s.get(t, b, ir.I32, programRoom), "seed %d, run %d, slot %d", seed, run, i)
			}
		}
		p.Release()
	}
}

// inOrder runs steps one after the other on the interpreter.
func inOrder(t *testing.T, steps []device.Step, mem [][]byte, offsets []int64) {
	for i := range steps {
		st := &steps[i]
		bufs := make([][]byte, len(st.Bufs))
		for j, b := range st.Bufs {
			bufs[j] = mem[b]
		}
		_, err := st.Op.Interpret(st.Values(&device.Binding{Offsets: offsets}), bufs)
		require.NoError(t, err)
	}
}
