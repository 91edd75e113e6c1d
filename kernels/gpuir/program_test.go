package gpuir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// The lockstep interpreter must report what hardware would only show now and then.
func TestLockstepFindsRaces(t *testing.T) {
	proc := func(body func(p *gpuir.Program) []gpuir.Stmt) *gpuir.Program {
		p := &gpuir.Program{Name: "race", Workgroup: 4, Params: []loopir.Param{{Kind: loopir.Size, Type: ir.I64}},
			Groups: []gpuir.GroupFactor{{Params: []int{0}, Per: 4}}, Bufs: []gpuir.Buf{{Type: ir.I32, Access: loopir.Write,
				Vec: 1}},
			Shared: []gpuir.SharedArray{{Type: ir.I32, Len: 4, Vec: 1}}}
		p.Body = body(p)
		return p
	}
	set := func(at *gpuir.Node) gpuir.Stmt {
		return gpuir.Stmt{Op: gpuir.SSharedSet, Ref: 0, A: at, B: gpuir.NLocal()}
	}
	neighbour := gpuir.NRem(gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(1)), gpuir.NInt(4))
	read := func(p *gpuir.Program) gpuir.Stmt {
		return gpuir.Stmt{Op: gpuir.SStore, Ref: 0, A: gpuir.NLocal(), B: p.NShared(0, neighbour)}
	}
	barrier := gpuir.Stmt{Op: gpuir.SBarrier}
	for _, tc := range []struct {
		want string
		body func(p *gpuir.Program) []gpuir.Stmt
	}{
		{"", func(p *gpuir.Program) []gpuir.Stmt { return []gpuir.Stmt{set(gpuir.NLocal()), barrier, read(p)} }},
		{"without a barrier", func(p *gpuir.Program) []gpuir.Stmt { return []gpuir.Stmt{set(gpuir.NLocal()), read(p)} }},
		{"read before written", func(p *gpuir.Program) []gpuir.Stmt { return []gpuir.Stmt{barrier, read(p)} }},
		{"write one element", func(*gpuir.Program) []gpuir.Stmt { return []gpuir.Stmt{set(gpuir.NInt(0))} }},
		{"another thread reads it", func(p *gpuir.Program) []gpuir.Stmt {
			return []gpuir.Stmt{set(gpuir.NLocal()), barrier, read(p), set(gpuir.NLocal())}
		}},
		{"not all threads reach", func(*gpuir.Program) []gpuir.Stmt {
			return []gpuir.Stmt{{Op: gpuir.SIf, A: gpuir.NLt(gpuir.NLocal(), gpuir.NInt(2)), Body: []gpuir.Stmt{barrier}}}
		}},
	} {
		out := make([]byte, 16)
		_, err := gpuir.Interpret(proc(tc.body), []uint64{4}, [][]byte{out})
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
	p := &gpuir.Program{Name: "lanes", Workgroup: 4, Params: []loopir.Param{{Kind: loopir.Size, Type: ir.I64}},
		Groups: []gpuir.GroupFactor{{Params: []int{0}, Per: 4}}, Bufs: []gpuir.Buf{{Type: ir.I32, Access: loopir.Write,
			Vec: 1}},
		Shared: []gpuir.SharedArray{{Type: ir.I32, Len: 2, Vec: 4}}}
	p.Body = []gpuir.Stmt{
		{Op: gpuir.SSharedSet, Ref: 0, A: gpuir.NInt(1), C: gpuir.NSub(gpuir.NInt(3), gpuir.NLocal()), B: gpuir.NLocal()},
		{Op: gpuir.SBarrier},
		{Op: gpuir.SStore, Ref: 0, A: gpuir.NLocal(), B: p.NSharedElement(0, gpuir.NAdd(gpuir.NInt(4), gpuir.NLocal()))},
	}
	require.NoError(t, gpuir.Verify(p))
	out := make([]byte, 16)
	_, err := gpuir.Interpret(p, []uint64{4}, [][]byte{out})
	require.NoError(t, err)
	require.Equal(t, []byte{3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, out)
	p.Shared[0] = gpuir.SharedArray{Type: ir.I32, Len: 8, Vec: 1}
	require.ErrorContains(t, gpuir.Verify(p), "a lane of no vector")
}

func TestGridFolds(t *testing.T) {
	p := &gpuir.Program{Groups: []gpuir.GroupFactor{{Params: []int{0, 1}, Per: 256}, {Params: []int{2}, Per: 1}}}
	require.Equal(t, [3]uint32{0, 1, 1}, p.Grid([]uint64{0, 5, 1}))
	require.Equal(t, [3]uint32{2, 1, 1}, p.Grid([]uint64{257, 1, 1}))
	require.Equal(t, [3]uint32{gpuir.GridFold, 1, 1}, p.Grid([]uint64{gpuir.GridFold, 256, 1}))
	require.Equal(t, [3]uint32{gpuir.GridFold, 2, 1}, p.Grid([]uint64{gpuir.GridFold, 256, 2}))
	require.Equal(t, [3]uint32{gpuir.GridFold, 3, 1}, p.Grid([]uint64{gpuir.GridFold + 1, 256, 2}))
}
