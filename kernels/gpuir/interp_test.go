package gpuir_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	. "github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// words makes a program of one workgroup of four threads over two int32 buffers, the second of them for the results.
func words(body func(p *Program, out int) []Stmt) *Program {
	p := &Program{Name: "words", Workgroup: 4, Params: []loopir.Param{{Kind: loopir.Size, Type: ir.I64}},
		Groups: []GroupFactor{{Params: []int{0}, Per: 4}},
		Bufs: []Buf{{Type: ir.I32, Access: loopir.Read, Vec: 4}, {Type: ir.I32, Access: loopir.Write, Vec: 1},
			{Type: ir.I32, Access: loopir.Atomic, Vec: 1}},
		Shared: []SharedArray{{Type: ir.I32, Len: 4, Vec: 1}}, Subgroup: 4, Checks: true}
	p.Body = body(p, 1)
	return p
}

func ints(b []byte) []int32 {
	v := make([]int32, len(b)/4)
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

func int32s(v ...int32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// Each thread stores, or adds to the shared element; loops and branches run under masks.
func TestStatementsRunThreadByThread(t *testing.T) {
	store := func(v *Node) Stmt { return Stmt{Op: SStore, Ref: 1, A: NLocal(), B: v} }
	for _, tc := range []struct {
		name  string
		body  func(p *Program) []Stmt
		want  []int32
		total int32 // of the atomic buffer
	}{
		{"a loop ends for each thread on its own", func(p *Program) []Stmt {
			sum, i := p.NewVar(ir.I32, 1), p.NewVar(ir.I32, 1)
			return []Stmt{{Op: SVar, Var: sum, A: NInt(0)},
				{Op: SFor, Var: i, A: NInt(0), B: NAdd(NLocal(), NLocal()), C: NInt(2), Body: []Stmt{
					{Op: SAssign, Var: sum, A: NAdd(p.NVar(sum), NAdd(p.NVar(i), NInt(1)))}}},
				store(p.NVar(sum))}
		}, []int32{0, 1, 4, 9}, 0},
		{"a branch masks its statements", func(*Program) []Stmt {
			return []Stmt{{Op: SIf, A: NLt(NLocal(), NInt(2)), Body: []Stmt{store(NInt(7))}, Else: []Stmt{store(NLocal())}}}
		}, []int32{7, 7, 2, 3}, 0},
		{"atomics of all threads add up", func(*Program) []Stmt {
			return []Stmt{{Op: SAtomic, Ref: 2, Mode: loopir.Add, A: NInt(0), B: NLocal()}}
		}, []int32{0, 0, 0, 0}, 6},
		{"a shuffle reads the partner's variable", func(p *Program) []Stmt {
			x, y := p.NewVar(ir.I32, 1), p.NewVar(ir.I32, 1)
			return []Stmt{{Op: SLet, Var: x, A: NMul(NLocal(), NInt(10))},
				{Op: SLet, Var: y, A: NShuffle(p.NVar(x), 2)}, store(p.NVar(y))}
		}, []int32{20, 30, 0, 10}, 0},
		{"a vector load gives four lanes", func(*Program) []Stmt {
			v := NLoad(0, ir.I32, 4, NInt(1))
			return []Stmt{store(NAdd(NLane(v, 3), NMul(NLocal(), NLane(N(loopir.OpMul, ir.I32, v, NInt(2)), 0))))}
		}, []int32{8, 18, 28, 38}, 0},
		{"division of indices", func(*Program) []Stmt {
			return []Stmt{store(NAdd(NMul(NDiv(NLocal(), NInt(2)), NInt(10)), NRem(NLocal(), NInt(2))))}
		}, []int32{0, 1, 10, 11}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := words(func(p *Program, _ int) []Stmt { return tc.body(p) })
			bufs := [][]byte{int32s(1, 2, 3, 4, 5, 6, 7, 8), make([]byte, 16), make([]byte, 4)}
			fault, err := Interpret(p, []uint64{4}, bufs)
			require.NoError(t, err)
			require.False(t, fault.Failed)
			require.Equal(t, tc.want, ints(bufs[1]))
			require.Equal(t, tc.total, ints(bufs[2])[0])
		})
	}
}

func TestInterpreterReportsFaultsAndWrongAddresses(t *testing.T) {
	bufs := func() [][]byte { return [][]byte{make([]byte, 32), make([]byte, 16), make([]byte, 4)} }
	first := words(func(*Program, int) []Stmt {
		return []Stmt{{Op: SFault, A: NLt(NInt(1), NLocal()), B: NMul(NLocal(), NInt(100))}}
	})
	fault, err := Interpret(first, []uint64{8}, bufs())
	require.NoError(t, err)
	require.Equal(t, loopir.Fault{Failed: true, Elem: 200}, fault, "thread 2 is the first")
	for _, tc := range []struct {
		name string
		body func(p *Program) []Stmt
		want string
	}{
		{"store", func(*Program) []Stmt {
			return []Stmt{{Op: SStore, Ref: 1, A: NAdd(NLocal(), NInt(1)), B: NInt(0)}}
		}, "thread 3: store to buffer 1: element 4 is outside"},
		{"load", func(*Program) []Stmt {
			return []Stmt{{Op: SStore, Ref: 1, A: NInt(0), B: NLane(NLoad(0, ir.I32, 4, NLocal()), 0)}}
		}, "thread 2: load from buffer 0: element 8 is outside"},
		{"workgroup array", func(*Program) []Stmt {
			return []Stmt{{Op: SSharedSet, Ref: 0, A: NAdd(NLocal(), NInt(1)), B: NInt(0)}}
		}, "element 4 of 4"},
		{"shuffle with a thread that is elsewhere", func(p *Program) []Stmt {
			x, y := p.NewVar(ir.I32, 1), p.NewVar(ir.I32, 1)
			return []Stmt{{Op: SLet, Var: x, A: NLocal()}, {Op: SIf, A: NLt(NLocal(), NInt(1)),
				Body: []Stmt{{Op: SLet, Var: y, A: NShuffle(p.NVar(x), 1)}}}}
		}, "does not reach"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := words(func(p *Program, _ int) []Stmt { return tc.body(p) })
			_, err := Interpret(p, []uint64{4}, bufs())
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err = Interpret(first, []uint64{4}, bufs()[:2])
	require.ErrorContains(t, err, "1 parameters and 2 buffers, want 1 and 3")
}

// The content of workgroup memory is undefined in the next workgroup.
func TestWorkgroupsDoNotSeeEachOthersMemory(t *testing.T) {
	p := words(func(p *Program, _ int) []Stmt {
		return []Stmt{
			{Op: SIf, A: NLt(NGroup(), NInt(1)), Body: []Stmt{{Op: SSharedSet, Ref: 0, A: NLocal(), B: NInt(1)}}},
			{Op: SBarrier}, {Op: SStore, Ref: 1, A: NLocal(), B: p.NShared(0, NLocal())},
		}
	})
	bufs := [][]byte{make([]byte, 32), make([]byte, 16), make([]byte, 4)}
	_, err := Interpret(p, []uint64{4}, bufs)
	require.NoError(t, err)
	_, err = Interpret(p, []uint64{8}, bufs)
	require.ErrorContains(t, err, "group 1: thread 0: workgroup array 0: read before written")
}

// Members of a merged program do what they did alone, with their own parameters and buffers and those that they share.
func TestMergedMembersDoWhatTheyDidAlone(t *testing.T) {
	member := &Program{Name: "axpy", Workgroup: 4,
		Params: []loopir.Param{{Kind: loopir.Size, Type: ir.I64}, {Kind: loopir.Scalar, Type: ir.I32}},
		Groups: []GroupFactor{{Params: []int{0}, Per: 4}}, Bufs: []Buf{{Type: ir.I32, Access: loopir.Read, Vec: 1},
			{Type: ir.I32, Access: loopir.ReadWrite, Vec: 1}},
		Shared: []SharedArray{{Type: ir.I32, Len: 4, Vec: 1}}}
	at := NAdd(NMul(NGroup(), NInt(4)), NLocal())
	x, factor := member.NewVar(ir.I32, 1), &Node{Op: PHalf, Type: ir.U32, Width: 1, Imm: 1 << 1} // of parameter 1
	member.Body = []Stmt{{Op: SIf, A: NLt(at, NParam(0, ir.I32)), Body: []Stmt{
		{Op: SLet, Var: x, A: NMul(NLoad(0, ir.I32, 1, at), N(loopir.OpBitcast, ir.I32, factor))},
		{Op: SSharedSet, Ref: 0, A: NLocal(), B: member.NVar(x)},
		{Op: SStore, Ref: 1, A: at, B: NAdd(NLoad(1, ir.I32, 1, at), member.NShared(0, NLocal()))}}}}
	shared := int32s(1, 2, 3, 4, 5, 6, 7, 8, 9)
	params := [][]uint64{{9, 10}, {3, 100}, {5, 1000}}
	var want [][]int32
	merged, bufs := Merge(member, 3, []bool{true, false}), [][]byte{shared}
	var all []uint64
	for _, q := range params {
		out := int32s(1, 1, 1, 1, 1, 1, 1, 1, 1)
		bufs = append(bufs, append([]byte(nil), out...))
		_, err := Interpret(member, q, [][]byte{shared, out})
		require.NoError(t, err)
		want = append(want, ints(out))
		all = append(all, q...)
	}
	ends := MergedEnds(member, params)
	require.Equal(t, []uint64{3, 4, 6}, ends)
	all = append(all, ends...)
	require.NoError(t, Verify(merged))
	require.Len(t, merged.Bufs, 4, "the first buffer is one binding")
	require.Equal(t, [3]uint32{6, 1, 1}, merged.Grid(all))
	_, err := Interpret(merged, all, bufs)
	require.NoError(t, err)
	for i, w := range want {
		require.Equal(t, w, ints(bufs[1+i]), "member %d", i)
	}
	require.Equal(t, []int32{11, 21, 31, 41, 51, 61, 71, 81, 91}, want[0])
	member.Checks = true
	require.Panics(t, func() { Merge(member, 2, []bool{true, false}) }, "there is one event number")
}
