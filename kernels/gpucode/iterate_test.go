package gpucode

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// turning is a loop over lanes of two carries that change places. One is added to an element of xs and to the lane's
// number, the other is multiplied by a number that all lanes share, which is a carry too. Values before each iteration
// are kept, and a sum is stacked.
func turning(t ir.DType, lanes int64, reverse bool) *launch.Iterate {
	b := loopir.NewBuilder("loop", 1, 0)
	f := &launch.Resident{Lanes: lanes, Condition: -1}
	port := func(p launch.Port) int {
		p.Type = t
		f.Ports = append(f.Ports, p)
		b.Linear(b.Buf(t, loopir.Read), -1)
		return len(f.Ports) - 1
	}
	// Buffers: pairs of carries, the shared carry, xs; last pairs, last shared one, sums, kept values.
	x := port(launch.Port{Buf: 0, Operand: 0, Lane: 2, Carry: true})
	y := port(launch.Port{Buf: 0, Operand: 0, At: 1, Lane: 2, Carry: true})
	shared := port(launch.Port{Buf: 1, Operand: 1, Carry: true})
	xs := port(launch.Port{Buf: 2, Operand: 2, Lane: 1, Place: lanes})
	ex, ey, es := b.Load(x), b.Load(y), b.Load(shared)
	sum := b.Add(b.Add(ey, b.Load(xs)), b.Cast(t, b.Index(0)))
	out := func(p launch.Port) int {
		p.Operand = -1
		return port(p)
	}
	f.Stores = []launch.ResidentStore{{Port: out(launch.Port{Buf: 5, Lane: 1, Place: lanes}), Val: sum}}
	f.Carries = []launch.ResidentCarry{
		{Number: 0, In: x, Next: sum, Out: out(launch.Port{Buf: 3, Lane: 2}), Kept: -1},
		{Number: 0, In: y, Next: ex, Out: out(launch.Port{Buf: 3, At: 1, Lane: 2}),
			Kept: out(launch.Port{Buf: 6, Lane: 1, Place: lanes})},
		{Number: 1, In: shared, Next: b.Add(es, b.Int(t, 1)), Out: out(launch.Port{Buf: 4}), Kept: -1},
	}
	f.Exprs = append(f.Exprs, b.Exprs()...)
	f.Compact()
	op := &launch.Iterate{Form: f, Operands: 3, Reverse: reverse}
	for i := range 7 {
		use := loopir.Buf{Type: t, Access: loopir.Write}
		if i < 3 {
			use.Access = loopir.Read
		}
		op.Bufs = append(op.Bufs, use)
	}
	return op
}

// TestLoopsIterateAsInterpreted: programs of loops compute what the interpreter of the launch computes, for lanes
// beyond a workgroup, offsets, places behind the first one, and both directions.
func TestLoopsIterateAsInterpreted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const length, first, places = 5, 2, 8
	for _, d := range []ir.DType{ir.F32, ir.I32, ir.I64} {
		for _, lanes := range []int64{1, 3, 70} {
			op := turning(d, lanes, lanes == 3)
			sizes := []int64{2*lanes + 1, 3, lanes*places + 2, 2 * lanes, 1, lanes * places, lanes * places}
			params := []uint64{uint64(lanes), length, first, 1, 2, 0}
			got, want := make([][]byte, len(sizes)), make([][]byte, len(sizes))
			for i, n := range sizes {
				got[i], want[i] = make([]byte, n*int64(d.Size())), make([]byte, n*int64(d.Size()))
				for e := range n {
					bits := ir.EncodeInt(d, int64(r.IntN(100)))
					loopir.StoreBits(d, got[i], e, bits)
					loopir.StoreBits(d, want[i], e, bits)
				}
			}
			_, err := op.Interpret(params, want)
			require.NoError(t, err)
			p, err := FromIterate(op, ChooseIterate(Caps{I64: true}))
			require.NoError(t, err)
			_, err = gpuir.Interpret(p, params, got)
			require.NoError(t, err)
			require.Equal(t, want, got, "%v, %d lanes", d, lanes)
			params[4] = 3 // the shared carry is then outside of its buffer
			_, err = op.Interpret(params, want)
			require.ErrorContains(t, err, "outside")
		}
	}
	_, err := FromIterate(turning(ir.F64, 1, false), ChooseIterate(Caps{}))
	require.ErrorContains(t, err, "float64")
}

// ending is a loop over lanes that count up to a limit, which all share, by a number of their own. The condition is a
// carry.
func ending(lanes int64) *launch.Iterate {
	b := loopir.NewBuilder("loop", 1, 0)
	f := &launch.Resident{Lanes: lanes, Condition: 0}
	types := []ir.DType{ir.Bool, ir.I32, ir.F32}
	var in []int
	for i, t := range types {
		p := launch.Port{Buf: i, Operand: i, Type: t, Carry: true}
		if t == ir.F32 {
			p.Lane = 1
		}
		f.Ports = append(f.Ports, p)
		in = append(in, b.Load(b.Linear(b.Buf(t, loopir.Read), -1)))
	}
	count := b.Add(in[1], b.Int(ir.I32, 1))
	next := []int{b.Lt(count, b.Int(ir.I32, 5)), count, b.Add(in[2], b.Cast(ir.F32, b.Index(0)))}
	for i, t := range types {
		p := f.Ports[i]
		p.Buf, p.Operand, p.Carry = 3+i, -1, false
		b.Linear(b.Buf(t, loopir.Write), -1)
		f.Ports = append(f.Ports, p)
		f.Carries = append(f.Carries, launch.ResidentCarry{Number: i, In: i, Next: next[i], Out: 3 + i, Kept: -1})
	}
	f.Exprs = append(f.Exprs, b.Exprs()...)
	f.Compact()
	op := &launch.Iterate{Form: f, Operands: 3}
	for i := range 6 {
		op.Bufs = append(op.Bufs, loopir.Buf{Type: types[i%3], Access: loopir.Write})
		if i < 3 {
			op.Bufs[i].Access = loopir.Read
		}
	}
	return op
}

// TestAConditionEndsTheIterationsOfEachLane: a program ends where the condition is false, also before the first
// iteration, and after the last one.
func TestAConditionEndsTheIterationsOfEachLane(t *testing.T) {
	for _, c := range []struct {
		begins byte
		most   uint64
		want   float32
	}{{1, 9, 5}, {0, 9, 0}, {1, 3, 3}, {1, 5, 5}} {
		const lanes = 70
		op := ending(lanes)
		params := []uint64{lanes, c.most, 0, 0, 0, 0}
		memory := func() [][]byte {
			return [][]byte{{c.begins}, make([]byte, 4), make([]byte, 4*lanes), make([]byte, 1), make([]byte, 4),
				make([]byte, 4*lanes)}
		}
		got, want := memory(), memory()
		_, err := op.Interpret(params, want)
		require.NoError(t, err)
		p, err := FromIterate(op, ChooseIterate(Caps{}))
		require.NoError(t, err)
		_, err = gpuir.Interpret(p, params, got)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, uint64(math.Float32bits(c.want*2)), loopir.LoadBits(ir.F32, got[5], 2))
	}
}
