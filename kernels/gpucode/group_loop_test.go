package gpucode

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// groupBody is a loop over a carry of m rows and n columns: products with a weight and a place of xs, a sum of rows
// that is passed on and stacked, and a map of both. The carries before each iteration are kept.
func groupBody(t ir.DType, m, n int64, unit byte, reverse, staged bool) *launch.GroupLoop {
	const none = -1
	value := func(s launch.GroupSlot) launch.GroupSlot {
		s.Type = t
		return s
	}
	g := &launch.GroupLoop{Operands: 3, Condition: -1, Reverse: reverse, Threads: 64}
	weight := none
	if staged {
		weight = 3
	}
	// Buffers: carry, xs, weight; last carry, stacked sums, kept carries.
	g.Slots = []launch.GroupSlot{
		value(launch.GroupSlot{Numel: m * n, Array: 0, Turn: launch.Old, Carry: true, In: 0, Next: 1, Out: none, Kept: 5}),
		value(launch.GroupSlot{Numel: m * n, Array: 0, Turn: launch.New, In: none, Next: none, Out: 3, Kept: none}),
		value(launch.GroupSlot{Numel: m, Array: none, In: 1, Moves: true, Next: none, Out: none, Kept: none}),
		value(launch.GroupSlot{Numel: n * n, Array: weight, In: 2, Next: none, Out: none, Kept: none}),
		value(launch.GroupSlot{Numel: m * n, Array: 1, In: none, Next: none, Out: none, Kept: none}),
		value(launch.GroupSlot{Numel: m, Array: 2, In: none, Next: none, Out: 4, Kept: none}),
	}
	g.Arrays = []launch.GroupArray{{Type: t, Numel: m * n, Two: true}, {Type: t, Numel: m * n}, {Type: t, Numel: m},
		{Type: t, Numel: n * n}}
	for i := range 6 {
		use := loopir.Buf{Type: t, Access: loopir.Write}
		if i < 3 {
			use.Access = loopir.Read
		}
		g.Bufs = append(g.Bufs, use)
	}
	u := func(list ...int64) (params []uint64) {
		for _, v := range list {
			params = append(params, uint64(v))
		}
		return params
	}
	kn := []int64{n, 1, 0}
	if unit == 'k' {
		kn = []int64{1, n, 0}
	}
	b := loopir.NewBuilder("rows", 1, 1)
	x, y := b.Stride(), b.Stride()
	from, to := b.Access(b.Buf(t, loopir.Read), -1, x, y), b.Linear(b.Buf(t, loopir.Write), -1)
	b.Each()
	sum := b.Reduce(loopir.Sum, b.Load(from))
	b.Map()
	b.Store(to, b.Acc(sum))
	rows := b.Kernel()
	b = loopir.NewBuilder("mixed", 2, 0)
	row := b.Stride()
	p, s := b.Linear(b.Buf(t, loopir.Read), -1), b.Access(b.Buf(t, loopir.Read), -1, row, loopir.Broadcast)
	v, o := b.Access(b.Buf(t, loopir.Read), -1, row, loopir.Broadcast), b.Linear(b.Buf(t, loopir.Write), -1)
	b.Map()
	half := b.Int(t, 2)
	b.Store(o, b.Add(b.Sub(b.Load(p), b.Load(s)), b.Mul(b.Load(v), half)))
	g.Steps = []launch.GroupStep{
		{Op: &launch.Gemm{Type: t, AUnit: 'k', BUnit: unit}, Slots: []int{0, 3, 4},
			Params: append(u(m, n, n, n, 1, 0), u(kn...)...)},
		{Op: rows, Slots: []int{4, 5}, Params: u(m, n, n, 1)},
		{Op: b.Kernel(), Slots: []int{4, 5, 2, 1}, Params: u(m, n, 1)},
	}
	return g
}

// TestAWorkgroupIteratesAsInterpreted: programs of loops that a workgroup holds compute what the interpreter of the
// launch computes, without races, for sizes with and without vectors, both directions, and one iteration.
func TestAWorkgroupIteratesAsInterpreted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		t       ir.DType
		m, n    int64
		unit    byte
		length  int64
		reverse bool
		staged  bool
	}{
		{ir.I32, 8, 12, 'n', 3, false, true}, {ir.I32, 8, 12, 'k', 2, true, true}, {ir.I32, 5, 7, 'n', 2, true, false},
		{ir.I32, 33, 6, 'k', 1, false, true}, {ir.F32, 8, 8, 'n', 2, false, false}, {ir.I64, 5, 6, 'n', 2, false, true},
		{ir.F16, 5, 8, 'k', 2, false, true}, {ir.I32, 1, 9, 'n', 3, false, true},
	} {
		op := groupBody(c.t, c.m, c.n, c.unit, c.reverse, c.staged)
		sizes := []int64{c.m*c.n + 1, c.m*c.length + 2, c.n * c.n, c.m * c.n, c.m * c.length, c.m * c.n * c.length}
		params := []uint64{uint64(c.length), 1, 2, 0}
		got, want := make([][]byte, len(sizes)), make([][]byte, len(sizes))
		for i, n := range sizes {
			got[i], want[i] = make([]byte, n*int64(c.t.Size())), make([]byte, n*int64(c.t.Size()))
			for e := range n {
				bits := ir.EncodeInt(c.t.ComputeType(), int64(r.IntN(3)))
				loopir.StoreBits(c.t, got[i], e, bits)
				loopir.StoreBits(c.t, want[i], e, bits)
			}
		}
		_, err := op.Interpret(params, want)
		require.NoError(t, err)
		p, err := FromGroupLoop(op, ChooseGroup(op, Caps{I64: c.t == ir.I64}))
		require.NoError(t, err)
		_, err = gpuir.Interpret(p, params, got)
		require.NoError(t, err, "%+v", c)
		require.Equal(t, want, got, "%+v", c)
		require.NotEqual(t, op.Key(), groupBody(c.t, c.m, c.n, c.unit, !c.reverse, c.staged).Key())
	}
	op := groupBody(ir.F32, 64, 64, 'n', false, true)
	_, err := FromGroupLoop(op, ChooseGroup(op, Caps{}))
	require.ErrorContains(t, err, "workgroup memory")
	op.Steps[0].Op = launch.Fill{}
	_, err = FromGroupLoop(op, ChooseGroup(op, Caps{}))
	require.ErrorContains(t, err, "does not run fill_zero")
}

// groupWalk is a loop over a condition, a counter and five numbers, to which an iteration adds drawn bits. It checks
// that the numbers are below most, and runs as long as the counter is below end.
func groupWalk(end, most int64, reverse bool) *launch.GroupLoop {
	const none = -1
	types := []ir.DType{ir.Bool, ir.I32, ir.I32}
	g := &launch.GroupLoop{Operands: 3, Condition: 0, Drawn: 2, Reverse: reverse, Threads: 32}
	for i, t := range types {
		n := int64(1 + 4*(i/2))
		g.Slots = append(g.Slots,
			launch.GroupSlot{Type: t, Numel: n, Array: i, Turn: launch.Old, Carry: true, In: i, Next: 2*i + 1, Out: none,
				Kept: none},
			launch.GroupSlot{Type: t, Numel: n, Array: i, Turn: launch.New, In: none, Next: none, Out: 3 + i, Kept: none})
		g.Arrays = append(g.Arrays, launch.GroupArray{Type: t, Numel: n, Two: true})
		g.Bufs = append(g.Bufs, loopir.Buf{Type: t, Access: loopir.Read})
	}
	for _, t := range types {
		g.Bufs = append(g.Bufs, loopir.Buf{Type: t, Access: loopir.Write})
	}
	b := loopir.NewBuilder("count", 1, 0)
	from, to := b.Linear(b.Buf(ir.I32, loopir.Read), -1), b.Linear(b.Buf(ir.I32, loopir.Write), -1)
	flag := b.Linear(b.Buf(ir.Bool, loopir.Write), -1)
	b.Map()
	n := b.Add(b.Load(from), b.Int(ir.I32, 1))
	b.Store(to, n)
	b.Store(flag, b.Lt(n, b.Int(ir.I32, end)))
	count := b.Kernel()
	b = loopir.NewBuilder("draw", 1, 0)
	from, to = b.Linear(b.Buf(ir.I32, loopir.Read), -1), b.Linear(b.Buf(ir.I32, loopir.Write), -1)
	seed, at := b.Scalar(ir.I64), b.Scalar(ir.I64)
	b.Map()
	x := b.Load(from)
	bits := b.Cast(ir.I32, b.And(b.Draw(loopir.DrawWord, b.Param(at), b.Param(seed)), b.Int(ir.U32, 255)))
	b.Check(b.Lt(x, b.Int(ir.I32, most)), b.Sub(b.Cast(ir.I64, x), b.I64(1<<12)))
	b.Store(to, b.Add(x, bits))
	g.Steps = []launch.GroupStep{{Op: count, Slots: []int{2, 3, 1}, Params: []uint64{1}},
		{Op: b.Kernel(), Slots: []int{4, 5}, Params: []uint64{5, 0, 1}, Seeds: []int{1}, Drawn: []int{2}, Event: 7}}
	return g
}

// TestAWorkgroupEndsDrawsAndChecks: programs of loops that a condition ends run as many iterations as the interpreter
// of the launch, draw the same bits, also where the Philox offset passes 32 bits, and report the same faults.
func TestAWorkgroupEndsDrawsAndChecks(t *testing.T) {
	for _, c := range []struct {
		begins, end, most, length int64
		reverse, fails            bool
	}{
		{0, 3, 1 << 12, 9, false, false}, {0, 3, 1 << 12, 3, true, false}, {5, 3, 1 << 12, 9, false, false},
		{0, 5, 1 << 12, 4, false, false}, {0, 9, 40, 9, false, true},
	} {
		op := groupWalk(c.end, c.most, c.reverse)
		params := []uint64{uint64(c.length), 0, 0, 0, 12345, 1<<33 - 3}
		got, want := make([][]byte, 6), make([][]byte, 6)
		for i, use := range op.Bufs {
			n := 1 + 4*(i%3/2)
			got[i], want[i] = make([]byte, n*use.Type.Size()), make([]byte, n*use.Type.Size())
		}
		for _, bufs := range [][][]byte{got, want} {
			if bufs[1][0] = byte(c.begins); c.begins < c.end {
				bufs[0][0] = 1
			}
		}
		right, err := op.Interpret(params, want)
		require.NoError(t, err)
		p, err := FromGroupLoop(op, ChooseGroup(op, Caps{}))
		require.NoError(t, err)
		fault, err := gpuir.Interpret(p, params, got)
		require.NoError(t, err, "%+v", c)
		require.Equal(t, want, got, "%+v", c)
		require.Equal(t, c.fails, right.Failed, "%+v", c)
		require.Equal(t, right.Failed, fault.Failed, "%+v", c)
		require.Equal(t, right.Elem>>ir.LoopEventBits, fault.Elem>>ir.LoopEventBits, "%+v", c)
		require.NotEqual(t, op.Key(), groupWalk(c.end, c.most, !c.reverse).Key())
	}
}
