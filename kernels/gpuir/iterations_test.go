package gpuir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// TestIterationsOfLoopsInLoops: a loop of n iterations counts n, the loops in each of them, and one look at its end.
// The outermost look does not count. The result is the largest count of a thread, a workgroup and an iteration.
func TestIterationsOfLoopsInLoops(t *testing.T) {
	size, one := gpuir.NParam(0, ir.I32), gpuir.NInt(1)
	loop := func(p *gpuir.Program, from, to, step *gpuir.Node, body func(i *gpuir.Node) []gpuir.Stmt) gpuir.Stmt {
		v := p.NewVar(ir.I32, 1)
		return gpuir.Stmt{Op: gpuir.SFor, Var: v, A: from, B: to, C: step, Body: body(p.NVar(v))}
	}
	none := func(*gpuir.Node) []gpuir.Stmt { return nil }
	for name, c := range map[string]struct {
		body           func(p *gpuir.Program) []gpuir.Stmt
		want, unrolled int64
	}{
		"no loop": {func(*gpuir.Program) []gpuir.Stmt { return nil }, 0, 0},
		"one": {func(p *gpuir.Program) []gpuir.Stmt {
			return []gpuir.Stmt{loop(p, gpuir.NLocal(), size, gpuir.NInt(4), none)}
		}, 25, 25},
		"two in turn": {func(p *gpuir.Program) []gpuir.Stmt {
			return []gpuir.Stmt{loop(p, gpuir.NInt(0), size, one, none), loop(p, gpuir.NInt(90), size, one, none)}
		}, 111, 111},
		"one in one, of a constant number": {func(p *gpuir.Program) []gpuir.Stmt {
			return []gpuir.Stmt{loop(p, gpuir.NInt(0), size, one, func(*gpuir.Node) []gpuir.Stmt {
				return []gpuir.Stmt{loop(p, gpuir.NInt(0), gpuir.NInt(8), one, none)}
			})}
		}, 1000, 100},
		"a triangle": {func(p *gpuir.Program) []gpuir.Stmt {
			return []gpuir.Stmt{loop(p, gpuir.NInt(0), size, one, func(i *gpuir.Node) []gpuir.Stmt {
				return []gpuir.Stmt{loop(p, i, size, one, none)}
			})}
		}, 100 * 102, 100 * 102},
		"a branch of one workgroup": {func(p *gpuir.Program) []gpuir.Stmt {
			return []gpuir.Stmt{{Op: gpuir.SIf, A: gpuir.NLt(gpuir.NGroup(), gpuir.NInt(24)),
				Else: []gpuir.Stmt{loop(p, gpuir.NInt(0), size, one, none)}}}
		}, 100, 100},
		"an end by a condition": {func(p *gpuir.Program) []gpuir.Stmt {
			v := p.NewVar(ir.Bool, 1)
			end := gpuir.N(loopir.OpSelect, ir.I32, p.NVar(v), size, gpuir.NInt(0))
			return []gpuir.Stmt{{Op: gpuir.SVar, Var: v, A: gpuir.NLoad(0, ir.Bool, 1, gpuir.NInt(0))},
				loop(p, gpuir.NInt(0), end, one, none)}
		}, 100, 100},
	} {
		p := &gpuir.Program{Name: name, Workgroup: 4, Params: []loopir.Param{{Kind: loopir.Size, Type: ir.I64}},
			Groups: []gpuir.GroupFactor{{Params: []int{0}, Per: 4}}, Bufs: []gpuir.Buf{{Type: ir.Bool, Vec: 1}}}
		p.Body = c.body(p)
		require.Equal(t, c.want, p.Iterations([]uint64{100}, 0), name)
		require.Equal(t, c.unrolled, p.Iterations([]uint64{100}, 8), name)
		require.Zero(t, p.Iterations([]uint64{0}, 0), name)
	}
}
