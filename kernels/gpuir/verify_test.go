package gpuir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	. "github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Each case is one program that breaks one rule.
func TestVerifierRefusesMalformedPrograms(t *testing.T) {
	f32 := func(v float64) *Node { return NFloat(ir.F32, v) }
	vector := func() *Node { return NSplat(NInt(1)) }
	v := func(t ir.DType, width int) func(*Program) int {
		return func(p *Program) int { return p.NewVar(t, width) }
	}
	scalar := v(ir.I32, 1)
	for _, tc := range []struct {
		name string
		body func(p *Program) []Stmt
		want string // "" for a correct program
	}{
		{"nothing", func(*Program) []Stmt { return nil }, ""},
		{"no workgroup", func(p *Program) []Stmt { p.Workgroup = 0; return nil }, "no workgroup size"},
		{"vectors of two", func(p *Program) []Stmt { p.Bufs[0].Vec = 2; return nil }, "vector width 2"},
		{"grid of an unknown parameter", func(p *Program) []Stmt { p.Groups[0].Params[0] = 1; return nil },
			"grid: parameter 1"},
		{"grid by zero", func(p *Program) []Stmt { p.Groups[0].Per = 0; return nil }, "per 0"},
		{"unknown statement", func(*Program) []Stmt { return []Stmt{{Op: 99}} }, "unknown statement"},
		{"variable defined twice", func(p *Program) []Stmt {
			s := Stmt{Op: SLet, Var: scalar(p), A: NInt(1)}
			return []Stmt{s, s}
		}, "is not new"},
		{"assignment of a let", func(p *Program) []Stmt {
			n := scalar(p)
			return []Stmt{{Op: SLet, Var: n, A: NInt(1)}, {Op: SAssign, Var: n, A: NInt(2)}}
		}, "cannot be assigned"},
		{"assignment of a loop's variable", func(p *Program) []Stmt {
			n := scalar(p)
			body := []Stmt{{Op: SAssign, Var: n, A: NInt(2)}}
			return []Stmt{{Op: SFor, Var: n, A: NInt(0), B: NInt(2), C: NInt(1), Body: body}}
		}, "cannot be assigned"},
		{"value of another type", func(p *Program) []Stmt { return []Stmt{{Op: SLet, Var: scalar(p), A: f32(1)}} },
			"variable 0 is int32 x1, value is float32 x1"},
		{"vector into a scalar", func(p *Program) []Stmt { return []Stmt{{Op: SLet, Var: scalar(p), A: vector()}} },
			"value is int32 x4"},
		{"variable after its block", func(p *Program) []Stmt {
			n, m := scalar(p), scalar(p)
			use := p.NVar(n)
			inner := []Stmt{{Op: SLet, Var: n, A: NInt(1)}, {Op: SLet, Var: m, A: use}}
			return []Stmt{{Op: SIf, A: NTrue(), Body: inner}, {Op: SLet, Var: m, A: use}}
		}, "variable 0 is not in scope"},
		{"loop variable after its loop", func(p *Program) []Stmt {
			n, m := scalar(p), scalar(p)
			return []Stmt{{Op: SFor, Var: n, A: NInt(0), B: NInt(2), C: NInt(1)}, {Op: SLet, Var: m, A: p.NVar(n)}}
		}, "not in scope"},
		{"condition that is a number", func(*Program) []Stmt { return []Stmt{{Op: SIf, A: NInt(1)}} },
			"condition is int32 x1, want bool"},
		{"error in an else", func(*Program) []Stmt { return []Stmt{{Op: SIf, A: NTrue(), Else: []Stmt{{Op: 99}}}} },
			"unknown statement"},
		{"store into an input", func(*Program) []Stmt { return []Stmt{{Op: SStore, Ref: 0, A: NInt(0), B: NInt(1)}} },
			"buffer 0 is not writable"},
		{"store of a vector", func(*Program) []Stmt { return []Stmt{{Op: SStore, Ref: 1, A: NInt(0), B: vector()}} },
			"width 4 into 1"},
		{"store of a float", func(*Program) []Stmt { return []Stmt{{Op: SStore, Ref: 1, A: NInt(0), B: f32(1)}} },
			"buffer 1 holds int32, used as float32"},
		{"store into an atomic buffer", func(*Program) []Stmt {
			return []Stmt{{Op: SStore, Ref: 2, A: NInt(0), B: NInt(1)}}
		}, "atomics mixed with stores"},
		{"atomic into a plain buffer", func(*Program) []Stmt {
			return []Stmt{{Op: SAtomic, Mode: loopir.Add, Ref: 1, A: NInt(0), B: NInt(1)}}
		}, "atomics mixed with stores"},
		{"load of an unknown buffer", func(p *Program) []Stmt {
			return []Stmt{{Op: SLet, Var: scalar(p), A: NLoad(9, ir.I32, 1, NInt(0))}}
		}, "from buffer 9"},
		{"parameter as a float", func(p *Program) []Stmt {
			return []Stmt{{Op: SLet, Var: v(ir.F32, 1)(p), A: NParam(0, ir.F32)}}
		}, "parameter 0 is int64, used as float32"},
		{"unknown parameter", func(p *Program) []Stmt { return []Stmt{{Op: SLet, Var: scalar(p), A: NParam(1, ir.I32)}} },
			"parameter 1 does not exist"},
		{"workgroup array of another type", func(*Program) []Stmt {
			return []Stmt{{Op: SSharedSet, Ref: 0, A: NInt(0), B: f32(1)}}
		}, "does not take this value"},
		{"read of an unknown workgroup array", func(p *Program) []Stmt {
			n := p.NShared(0, NInt(0))
			n.Imm = 1
			return []Stmt{{Op: SLet, Var: scalar(p), A: n}}
		}, "workgroup array 1 read"},
		{"fault without checks", func(p *Program) []Stmt {
			p.Checks = false
			return []Stmt{{Op: SFault, A: NTrue(), B: NInt(0)}}
		}, "fault without Checks"},
		{"shuffle of an expression", func(p *Program) []Stmt {
			return []Stmt{{Op: SLet, Var: scalar(p), A: NShuffle(NLocal(), 1)}}
		}, "a shuffle of no variable"},
		{"shuffle by three", func(p *Program) []Stmt {
			n, m := scalar(p), scalar(p)
			return []Stmt{{Op: SLet, Var: n, A: NInt(1)}, {Op: SLet, Var: m, A: NShuffle(p.NVar(n), 3)}}
		}, "a shuffle by 3 in subgroups of 4"},
		{"shuffle inside an expression", func(p *Program) []Stmt {
			n, m := scalar(p), scalar(p)
			return []Stmt{{Op: SLet, Var: n, A: NInt(1)}, {Op: SLet, Var: m, A: NAdd(NShuffle(p.NVar(n), 1), NInt(1))}}
		}, "is none of the GPU IR"},
		{"operation of mixed widths", func(p *Program) []Stmt {
			n := &Node{Op: loopir.OpAdd, Type: ir.I32, Width: 4, Args: []*Node{vector(), NInt(1)}}
			return []Stmt{{Op: SLet, Var: v(ir.I32, 4)(p), A: n}}
		}, "widths 1 and 4"},
		{"operation of mixed types", func(p *Program) []Stmt {
			n := &Node{Op: loopir.OpAdd, Type: ir.I32, Width: 1, Args: []*Node{NLocal(), f32(1)}}
			return []Stmt{{Op: SLet, Var: scalar(p), A: n}}
		}, "arguments are int32 and float32"},
		{"load of the loop IR", func(p *Program) []Stmt {
			return []Stmt{{Op: SLet, Var: scalar(p), A: &Node{Op: loopir.OpLoad, Type: ir.I32, Width: 1}}}
		}, "is none of the GPU IR"},
		{"vector of three", func(p *Program) []Stmt {
			return []Stmt{{Op: SLet, Var: v(ir.I32, 4)(p), A: NVec4(NInt(1), NInt(1), NInt(1))}}
		}, "with 3 arguments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := words(func(p *Program, _ int) []Stmt { return tc.body(p) })
			if tc.want == "" {
				require.NoError(t, Verify(p))
				return
			}
			require.ErrorContains(t, Verify(p), tc.want)
		})
	}
}

// Generators are written without special cases: constants fold where that changes no bit.
func TestConstructorsFoldConstants(t *testing.T) {
	x, y := NLocal(), NFloat(ir.F32, 0)
	f := NLoad(0, ir.F32, 1, x)
	for _, tc := range []struct {
		name      string
		got, want *Node
	}{
		{"x + 0", NAdd(x, NInt(0)), x}, {"0 + x", NAdd(NInt(0), x), x}, {"x * 1", NMul(x, NInt(1)), x},
		{"1 * x", NMul(NInt(1), x), x}, {"x * 0", NMul(x, NInt(0)), NInt(0)}, {"x / 1", NDiv(x, NInt(1)), x},
		{"x % 1", NRem(x, NInt(1)), NInt(0)}, {"7 / 2", NDiv(NInt(7), NInt(2)), NInt(3)},
		{"3 - 5", NSub(NInt(3), NInt(5)), NInt(-2)},
		{"true and c", NAnd(NTrue(), NLt(x, NInt(2))), NLt(x, NInt(2))}, {"2 < 3", NLt(NInt(2), NInt(3)), NTrue()},
		{"lane of a splat", NLane(NSplat(x), 2), x}, {"lane of a vector", NLane(NVec4(f, f, x, f), 2), x},
		{"splat of a vector", NSplat(NSplat(x)), NSplat(x)}, {"narrow to float32", NNarrow(ir.F32, f), f},
	} {
		require.Equal(t, tc.want, tc.got, tc.name)
	}
	require.Equal(t, loopir.OpAdd, NAdd(f, y).Op, "-0 + 0 is 0")
	require.Equal(t, loopir.OpMul, NMul(f, y).Op, "NaN * 0 is NaN")
	require.Equal(t, 4, N(loopir.OpAdd, ir.I32, NSplat(x), x).Args[1].Width, "mixed widths are splatted")
}

// Arrays begin at multiples of 16 bytes, and a bool takes four.
func TestWorkgroupMemoryIsAligned(t *testing.T) {
	p := &Program{Shared: []SharedArray{{Type: ir.F32, Len: 5, Vec: 1}, {Type: ir.Bool, Len: 3, Vec: 1},
		{Type: ir.F32, Len: 2, Vec: 4}}}
	require.Equal(t, 32+16+32, p.SharedBytes())
}
