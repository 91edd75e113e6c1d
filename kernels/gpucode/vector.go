package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// CanVec reports that the four-element form of k suits these launch parameters: the number of elements of a map, or of
// the inner dim, is a multiple of four, and so are the offsets and strides at which four-element accesses begin.
func CanVec(k *loopir.Kernel, params []uint64) bool {
	if !vecForm(k) {
		return false
	}
	n := product(params[:k.Outer])
	if k.Inner > 0 {
		n = params[k.Outer]
	}
	if n%4 != 0 {
		return false
	}
	for i, wide := range wideAccesses(k) {
		if wide && !aligned(k.Access[i], params, k.Outer) {
			return false
		}
	}
	return true
}

// aligned reports that the vectors of access a, whose elements lie along dim along, begin at multiples of four.
func aligned(a loopir.Access, params []uint64, along int) bool {
	if a.Offset >= 0 && params[a.Offset]%4 != 0 {
		return false
	}
	for d, s := range a.Stride {
		if !a.Linear && d != along && (s == loopir.Unit || s >= 0 && params[s]%4 != 0) {
			return false
		}
	}
	return true
}

// wideAccesses marks the accesses of four elements in the four-element form: of a map all linear ones, of a row program
// those that vary along the inner dim.
func wideAccesses(k *loopir.Kernel) []bool {
	wide := make([]bool, len(k.Access))
	for s := range k.Stages {
		st := &k.Stages[s]
		if k.Inner > 0 && !st.OverInner {
			continue
		}
		for i, used := range k.Uses(st) {
			if e := k.Exprs[i]; used && e.Op == loopir.OpLoad {
				a := k.Access[e.Imm]
				wide[e.Imm] = a.Linear || accessMoves(k, a)
			}
		}
		for _, r := range st.Stores {
			if r.Access >= 0 {
				a := k.Access[r.Access]
				wide[r.Access] = a.Linear || accessMoves(k, a)
			}
		}
	}
	return wide
}

// vecForm reports that k's text allows the four-element form.
func vecForm(k *loopir.Kernel) bool {
	if k.NoVec || k.Checks || k.Inner > 1 || k.Inner == 0 && k.Outer == 0 {
		return false
	}
	inner := innerExprs(k)
	for s := range k.Stages {
		st := &k.Stages[s]
		if k.Inner > 0 && !st.OverInner {
			continue
		}
		if !vecStage(k, st, inner) {
			return false
		}
	}
	return vecBuffers(k)
}

// vecStage reports that a stage may work four elements at a time.
func vecStage(k *loopir.Kernel, st *loopir.Stage, inner []bool) bool {
	if st.Prefix {
		return false
	}
	for _, a := range st.Accs {
		if a.Op.IsArg() || k.Exprs[a.Val].Type == ir.I64 {
			return false
		}
	}
	uses := k.Uses(st)
	draws := numbersDrawsOnly(k, st, uses)
	for i, used := range uses {
		if used && (k.Inner == 0 || inner[i]) && !vecExpr(k, k.Exprs[i], draws) {
			return false
		}
	}
	for _, r := range st.Stores {
		if r.Access < 0 || r.Mode != loopir.Set || r.Guard >= 0 || !contiguous(k, k.Access[r.Access]) {
			return false
		}
	}
	return true
}

// vecExpr reports that an expression has a value for four elements at a time. draws: the number of the element is for
// draws alone.
func vecExpr(k *loopir.Kernel, e loopir.Expr, draws bool) bool {
	switch e.Op {
	case loopir.OpLinear:
		return draws
	case loopir.OpLoadAt, loopir.OpIndex:
		return false
	case loopir.OpLoad:
		if a := k.Access[e.Imm]; !contiguous(k, a) && (k.Inner > 0 || !constant(a)) {
			return false
		}
	}
	return k.Inner == 0 || e.Type != ir.I64
}

// contiguous reports that consecutive indices access consecutive elements.
func contiguous(k *loopir.Kernel, a loopir.Access) bool {
	return a.Linear || k.Inner == 1 && a.Stride[k.Outer] == loopir.Unit
}

// constant reports an access to one element only.
func constant(a loopir.Access) bool {
	if a.Linear {
		return false
	}
	for _, s := range a.Stride {
		if s != loopir.Broadcast {
			return false
		}
	}
	return true
}

// vecBuffers refuses vectors of I64, and buffers that are stored both by vectors and by elements.
func vecBuffers(k *loopir.Kernel) bool {
	wide := make([]bool, len(k.Bufs))
	for i, w := range wideAccesses(k) {
		if w {
			wide[k.Access[i].Buf] = true
		}
	}
	for i, b := range k.Bufs {
		if wide[i] && b.Type == ir.I64 {
			return false
		}
	}
	for s := range k.Stages {
		if k.Inner == 0 || k.Stages[s].OverInner {
			continue
		}
		for _, r := range k.Stages[s].Stores {
			buf := r.Buf
			if r.Access >= 0 {
				buf = k.Access[r.Access].Buf
			}
			if wide[buf] {
				return false
			}
		}
	}
	return true
}
