package loopir

import "github.com/torchlette/torchlette/ir"

// Simplify returns an equal kernel with constants folded, identities that keep IEEE results applied, equal expressions
// shared and dead ones removed. Parameters, buffers, accesses and stages keep their numbers. It is idempotent and does
// not change k.
func Simplify(k *Kernel) *Kernel {
	out := *k
	out.Exprs = nil
	seen := make(map[Expr]int, len(k.Exprs))
	num := make([]int, len(k.Exprs))
	ref := func(n int) int {
		if n < 0 {
			return n
		}
		return num[n]
	}
	for i, e := range k.Exprs {
		e.A, e.B, e.C = ref(e.A), ref(e.B), ref(e.C)
		e, same := simplifyExpr(out.Exprs, e)
		if same < 0 {
			n, ok := seen[e]
			if !ok {
				n = len(out.Exprs)
				out.Exprs = append(out.Exprs, e)
				seen[e] = n
			}
			same = n
		}
		num[i] = same
	}
	out.Stages = mapStages(k.Stages, ref)
	removeDead(&out)
	return &out
}

// mapStages copies the stages with every expression number mapped.
func mapStages(in []Stage, ref func(int) int) []Stage {
	out := make([]Stage, len(in))
	for i, s := range in {
		t := s
		t.Accs, t.Checks, t.Stores = nil, nil, nil
		for _, a := range s.Accs {
			a.Val, a.Idx = ref(a.Val), ref(a.Idx)
			t.Accs = append(t.Accs, a)
		}
		for _, c := range s.Checks {
			t.Checks = append(t.Checks, Check{Cond: ref(c.Cond), Elem: ref(c.Elem)})
		}
		for _, st := range s.Stores {
			st.Index, st.Val, st.Guard = ref(st.Index), ref(st.Val), ref(st.Guard)
			t.Stores = append(t.Stores, st)
		}
		out[i] = t
	}
	return out
}

// Roots calls f with every expression that stage s uses directly.
func (s *Stage) Roots(f func(expr int)) {
	visit := func(n int) {
		if n >= 0 {
			f(n)
		}
	}
	for _, a := range s.Accs {
		visit(a.Val)
		visit(a.Idx)
	}
	for _, c := range s.Checks {
		visit(c.Cond)
		visit(c.Elem)
	}
	for _, st := range s.Stores {
		if st.Access < 0 {
			visit(st.Index)
		}
		visit(st.Val)
		visit(st.Guard)
	}
}

// Uses marks the expressions that stage s needs, directly or not.
func (k *Kernel) Uses(s *Stage) []bool {
	live := make([]bool, len(k.Exprs))
	s.Roots(func(n int) { live[n] = true })
	k.closeOver(live)
	return live
}

// closeOver marks the arguments of marked expressions.
func (k *Kernel) closeOver(live []bool) {
	for i := len(k.Exprs) - 1; i >= 0; i-- {
		if live[i] {
			e := k.Exprs[i]
			for _, a := range [...]int{e.A, e.B, e.C} {
				if a >= 0 {
					live[a] = true
				}
			}
		}
	}
}

func removeDead(k *Kernel) {
	live := make([]bool, len(k.Exprs))
	for i := range k.Stages {
		k.Stages[i].Roots(func(n int) { live[n] = true })
	}
	k.closeOver(live)
	num := make([]int, len(k.Exprs))
	ref := func(n int) int {
		if n < 0 {
			return n
		}
		return num[n]
	}
	kept := make([]Expr, 0, len(k.Exprs))
	for i, e := range k.Exprs {
		if live[i] {
			e.A, e.B, e.C = ref(e.A), ref(e.B), ref(e.C)
			num[i] = len(kept)
			kept = append(kept, e)
		}
	}
	k.Exprs = kept
	k.Stages = mapStages(k.Stages, ref)
}

// simplifyExpr simplifies e, whose arguments are simplified members of xs. It returns either the number of an equal
// expression (same >= 0) or the expression to append.
func simplifyExpr(xs []Expr, e Expr) (_ Expr, same int) {
	if e.Op.IsLeaf() {
		return e, -1
	}
	if e.Op.IsCommutative() && swapOperands(xs, e) {
		e.A, e.B = e.B, e.A
	}
	if folded, ok := foldConst(xs, e); ok {
		return folded, -1
	}
	if n := identity(xs, e); n >= 0 {
		return e, n
	}
	if bits, ok := collapse(xs, e); ok {
		return Expr{Op: OpConst, Type: e.Type, A: -1, B: -1, C: -1, Imm: bits}, -1
	}
	return e, -1
}

// swapOperands reports that the operands of a commutative operation must change places: constants come last, else the
// order is that of numbers.
func swapOperands(xs []Expr, e Expr) bool {
	ca, cb := xs[e.A].Op == OpConst, xs[e.B].Op == OpConst
	if ca != cb {
		return ca
	}
	return e.A > e.B
}

func foldConst(xs []Expr, e Expr) (Expr, bool) {
	var v [3]uint64
	for i, a := range [...]int{e.A, e.B, e.C} {
		if a < 0 {
			continue
		}
		if xs[a].Op != OpConst {
			return e, false
		}
		v[i] = xs[a].Imm
	}
	bits := EvalOp(e.Op, e.Type, xs[e.A].Type, e.Imm, v[0], v[1], v[2])
	return Expr{Op: OpConst, Type: e.Type, A: -1, B: -1, C: -1, Imm: bits}, true
}

// identity returns the number of the operand that e always equals, or -1.
func identity(xs []Expr, e Expr) int {
	a := xs[e.A]
	isB := func(v float64) bool {
		return xs[e.B].Op == OpConst && xs[e.B].Imm == ir.EncodeFloat(xs[e.B].Type, v)
	}
	isFloat := a.Type.IsFloat()
	switch e.Op {
	case OpCast:
		if a.Type == e.Type {
			return e.A
		}
		// Bool -> number -> Bool.
		if e.Type == ir.Bool && a.Op == OpCast && xs[a.A].Type == ir.Bool {
			return a.A
		}
	case OpBitcast:
		if a.Type == e.Type {
			return e.A
		}
	case OpAdd:
		// x + 0 is not x for x = -0; x + (-0) is.
		if !isFloat && isB(0) || isFloat && isNegZero(xs[e.B]) {
			return e.A
		}
	case OpSub, OpOr, OpXor, OpShl, OpShr:
		if isB(0) {
			return e.A
		}
		if e.Op == OpOr && e.A == e.B {
			return e.A
		}
	case OpMul, OpDiv:
		if isB(1) {
			return e.A
		}
	case OpPow:
		if isB(1) {
			return e.A
		}
	case OpAnd:
		if e.A == e.B || isAllOnes(xs[e.B]) {
			return e.A
		}
	case OpMin, OpMax:
		if e.A == e.B {
			return e.A
		}
	case OpNeg, OpNot:
		if a.Op == e.Op {
			return a.A
		}
	case OpAbs, OpFloor, OpCeil, OpRound, OpTrunc:
		if a.Op == e.Op {
			return e.A
		}
	case OpSelect:
		return selectIdentity(xs, e)
	}
	return -1
}

func selectIdentity(xs []Expr, e Expr) int {
	if c := xs[e.A]; c.Op == OpConst {
		if c.Imm != 0 {
			return e.B
		}
		return e.C
	}
	if e.B == e.C {
		return e.B
	}
	if e.Type == ir.Bool && xs[e.B].Op == OpConst && xs[e.C].Op == OpConst && xs[e.B].Imm == 1 && xs[e.C].Imm == 0 {
		return e.A
	}
	return -1
}

func isNegZero(e Expr) bool {
	return e.Op == OpConst && (e.Type == ir.F32 && e.Imm == 1<<31 || e.Type == ir.F64 && e.Imm == 1<<63)
}

func isAllOnes(e Expr) bool {
	if e.Op != OpConst {
		return false
	}
	switch e.Type {
	case ir.Bool:
		return e.Imm == 1
	case ir.I32, ir.U32:
		return uint32(e.Imm) == ^uint32(0)
	case ir.I64, ir.U64:
		return e.Imm == ^uint64(0)
	}
	return false
}

// collapse finds integer and bool results that do not depend on the operand that is no constant.
func collapse(xs []Expr, e Expr) (uint64, bool) {
	t := xs[e.A].Type
	if t.IsFloat() || e.B < 0 || e.Op == OpSelect || e.Op == OpDraw {
		return 0, false
	}
	zero := xs[e.B].Op == OpConst && xs[e.B].Imm == 0
	one := xs[e.B].Op == OpConst && xs[e.B].Imm == 1
	same := e.A == e.B
	switch e.Op {
	case OpMul, OpAnd:
		return 0, zero
	case OpSub, OpXor:
		return 0, same
	case OpRem:
		return 0, one
	case OpEq, OpLe:
		return 1, same
	case OpNe, OpLt:
		return 0, same
	}
	return 0, false
}
