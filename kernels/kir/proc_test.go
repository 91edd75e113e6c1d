package kir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// The lockstep interpreter must see what hardware would only show now and then.
func TestLockstepFindsRaces(t *testing.T) {
	proc := func(body func(p *kir.Proc) []kir.Stmt) *kir.Proc {
		p := &kir.Proc{Name: "race", Workgroup: 4, Params: []kir.Param{{Kind: kir.Size, Type: ir.I64}},
			Groups: []kir.GroupFactor{{Params: []int{0}, Per: 4}}, Bufs: []kir.ProcBuf{{Type: ir.I32, Access: kir.Write, Vec: 1}},
			Shared: []kir.SharedArray{{Type: ir.I32, Len: 4, Vec: 1}}}
		p.Body = body(p)
		return p
	}
	set := func(at *kir.Node) kir.Stmt { return kir.Stmt{Op: kir.SSharedSet, Ref: 0, A: at, B: kir.NLocal()} }
	neighbour := kir.NRem(kir.NAdd(kir.NLocal(), kir.NInt(1)), kir.NInt(4))
	read := func(p *kir.Proc) kir.Stmt {
		return kir.Stmt{Op: kir.SStore, Ref: 0, A: kir.NLocal(), B: p.NShared(0, neighbour)}
	}
	barrier := kir.Stmt{Op: kir.SBarrier}
	for _, tc := range []struct {
		want string
		body func(p *kir.Proc) []kir.Stmt
	}{
		{"", func(p *kir.Proc) []kir.Stmt { return []kir.Stmt{set(kir.NLocal()), barrier, read(p)} }},
		{"without a barrier", func(p *kir.Proc) []kir.Stmt { return []kir.Stmt{set(kir.NLocal()), read(p)} }},
		{"read before written", func(p *kir.Proc) []kir.Stmt { return []kir.Stmt{barrier, read(p)} }},
		{"write one element", func(*kir.Proc) []kir.Stmt { return []kir.Stmt{set(kir.NInt(0))} }},
		{"another thread reads it", func(p *kir.Proc) []kir.Stmt {
			return []kir.Stmt{set(kir.NLocal()), barrier, read(p), set(kir.NLocal())}
		}},
		{"not all threads reach", func(*kir.Proc) []kir.Stmt {
			return []kir.Stmt{{Op: kir.SIf, A: kir.NLt(kir.NLocal(), kir.NInt(2)), Body: []kir.Stmt{barrier}}}
		}},
	} {
		out := make([]byte, 16)
		_, err := kir.InterpretProc(proc(tc.body), []uint64{4}, [][]byte{out})
		if tc.want == "" {
			require.NoError(t, err)
			require.Equal(t, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}, out)
			continue
		}
		require.ErrorContains(t, err, tc.want)
	}
}

// A vector of a workgroup array can be stored lane by lane; arrays of single elements have no lanes.
func TestLanesOfWorkgroupVectors(t *testing.T) {
	p := &kir.Proc{Name: "lanes", Workgroup: 4, Params: []kir.Param{{Kind: kir.Size, Type: ir.I64}},
		Groups: []kir.GroupFactor{{Params: []int{0}, Per: 4}}, Bufs: []kir.ProcBuf{{Type: ir.I32, Access: kir.Write, Vec: 1}},
		Shared: []kir.SharedArray{{Type: ir.I32, Len: 2, Vec: 4}}}
	p.Body = []kir.Stmt{
		{Op: kir.SSharedSet, Ref: 0, A: kir.NInt(1), C: kir.NSub(kir.NInt(3), kir.NLocal()), B: kir.NLocal()},
		{Op: kir.SBarrier},
		{Op: kir.SStore, Ref: 0, A: kir.NLocal(), B: p.NSharedElement(0, kir.NAdd(kir.NInt(4), kir.NLocal()))},
	}
	require.NoError(t, kir.VerifyProc(p))
	out := make([]byte, 16)
	_, err := kir.InterpretProc(p, []uint64{4}, [][]byte{out})
	require.NoError(t, err)
	require.Equal(t, []byte{3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, out)
	p.Shared[0] = kir.SharedArray{Type: ir.I32, Len: 8, Vec: 1}
	require.ErrorContains(t, kir.VerifyProc(p), "a lane of no vector")
}

func TestGridFolds(t *testing.T) {
	p := &kir.Proc{Groups: []kir.GroupFactor{{Params: []int{0, 1}, Per: 256}, {Params: []int{2}, Per: 1}}}
	require.Equal(t, [3]uint32{0, 1, 1}, p.Grid([]uint64{0, 5, 1}))
	require.Equal(t, [3]uint32{2, 1, 1}, p.Grid([]uint64{257, 1, 1}))
	require.Equal(t, [3]uint32{kir.GridFold, 1, 1}, p.Grid([]uint64{kir.GridFold, 256, 1}))
	require.Equal(t, [3]uint32{kir.GridFold, 2, 1}, p.Grid([]uint64{kir.GridFold, 256, 2}))
	require.Equal(t, [3]uint32{kir.GridFold, 3, 1}, p.Grid([]uint64{kir.GridFold + 1, 256, 2}))
}
