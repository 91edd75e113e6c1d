package loopir

import (
	"errors"
	"fmt"

	"github.com/torchlette/torchlette/ir"
)

// Verify checks k against every rule stated at the types of this package.
func Verify(k *Kernel) error {
	v := &verifier{k: k}
	for _, step := range []func() error{v.header, v.accesses, v.exprs, v.stages} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

type verifier struct {
	k *Kernel
	// accs lists the accumulators by number; accStage their stages.
	accs     []Acc
	accStage []int
	// linear[access] is the kind of stage that uses a Linear access: 0 none yet, 1 outer, 2 inner. The last entry is
	// OpLinear's.
	linear []int
}

func (v *verifier) dims() int { return v.k.Outer + v.k.Inner }

func (v *verifier) header() error {
	k := v.k
	if k.Outer < 0 || k.Inner < 0 || len(k.Params) < v.dims() {
		return fmt.Errorf("%d outer and %d inner dims with %d parameters, want a size for each dim", k.Outer, k.Inner,
			len(k.Params))
	}
	for i, p := range k.Params {
		switch {
		case i < v.dims() && p.Kind != Size:
			return fmt.Errorf("parameter %d: the first %d must be sizes", i, v.dims())
		case p.Kind > Scalar:
			return fmt.Errorf("parameter %d: unknown kind %d", i, p.Kind)
		case p.Kind != Scalar && p.Type != ir.I64:
			return fmt.Errorf("parameter %d: type %v, want int64", i, p.Type)
		case p.Type == ir.InvalidDType || p.Type >= ir.NumStored || p.Type != p.Type.ComputeType():
			return fmt.Errorf("parameter %d: type %v is no compute type", i, p.Type)
		}
	}
	for i, b := range k.Bufs {
		if b.Type == ir.InvalidDType || b.Type >= ir.NumStored || b.Access > Atomic {
			return fmt.Errorf("buffer %d: bad type or access: got %v and %d", i, b.Type, b.Access)
		}
	}
	if len(k.Stages) == 0 {
		return errors.New("no stages")
	}
	for s, st := range k.Stages {
		for _, a := range st.Accs {
			v.accs = append(v.accs, a)
			v.accStage = append(v.accStage, s)
		}
	}
	v.linear = make([]int, len(k.Access)+1)
	return nil
}

func (v *verifier) param(n int, kind ParamKind) error {
	if n < 0 || n >= len(v.k.Params) || v.k.Params[n].Kind != kind {
		return fmt.Errorf("parameter %d is not of kind %d", n, kind)
	}
	return nil
}

func (v *verifier) accesses() error {
	for i, a := range v.k.Access {
		if a.Buf < 0 || a.Buf >= len(v.k.Bufs) {
			return fmt.Errorf("access %d: buffer %d does not exist", i, a.Buf)
		}
		if a.Offset != -1 {
			if err := v.param(a.Offset, Offset); err != nil {
				return fmt.Errorf("access %d: offset: %w", i, err)
			}
		}
		if a.Linear {
			if a.Stride != nil {
				return fmt.Errorf("access %d: linear with strides", i)
			}
			continue
		}
		if len(a.Stride) != v.dims() {
			return fmt.Errorf("access %d: %d strides for %d dims", i, len(a.Stride), v.dims())
		}
		for d, s := range a.Stride {
			if s == Broadcast || s == Unit {
				continue
			}
			if err := v.param(s, Stride); err != nil {
				return fmt.Errorf("access %d: dim %d: %w", i, d, err)
			}
		}
	}
	return nil
}

func (v *verifier) exprs() error {
	for i, e := range v.k.Exprs {
		if err := v.expr(i, e); err != nil {
			return fmt.Errorf("expression %d (%v): %w", i, e.Op, err)
		}
	}
	return nil
}

func (v *verifier) expr(i int, e Expr) error {
	if e.Op == OpInvalid || e.Op >= NumOps {
		return errors.New("unknown operation")
	}
	if e.Type == ir.InvalidDType || e.Type >= ir.NumStored || e.Type != e.Type.ComputeType() {
		return fmt.Errorf("%v is no compute type", e.Type)
	}
	args := [...]int{e.A, e.B, e.C}
	want := e.Op.Arity()
	var t [3]ir.DType
	for n, a := range args {
		if n >= want {
			if a != -1 {
				return fmt.Errorf("argument %d is %d, want -1", n, a)
			}
			continue
		}
		if a < 0 || a >= i {
			return fmt.Errorf("argument %d is %d, not an earlier expression", n, a)
		}
		t[n] = v.k.Exprs[a].Type
	}
	if e.Op.IsLeaf() {
		return v.leaf(e, t[0])
	}
	if e.Op == OpDraw && v.k.Exprs[e.A].Op != OpLinear {
		return errors.New("a draw is not of the current element")
	}
	return CheckTypes(e.Op, e.Type, t, e.Imm)
}

func (v *verifier) leaf(e Expr, at ir.DType) error {
	k := v.k
	within := func(n int) error {
		if e.Imm >= uint64(n) {
			return fmt.Errorf("%d is out of range, there are %d", e.Imm, n)
		}
		return nil
	}
	var n int
	var typeOf func() ir.DType
	switch e.Op {
	case OpConst:
		if canonicalBits(e.Type, e.Imm) != e.Imm {
			return fmt.Errorf("bits %#x are not those of a %v", e.Imm, e.Type)
		}
		return nil
	case OpLinear:
		n, typeOf = 1, func() ir.DType { return ir.I64 }
	case OpParam:
		n, typeOf = len(k.Params), func() ir.DType { return k.Params[e.Imm].Type }
	case OpIndex:
		n, typeOf = v.dims(), func() ir.DType { return ir.I64 }
	case OpLoad:
		n, typeOf = len(k.Access), func() ir.DType { return k.Bufs[k.Access[e.Imm].Buf].Type.ComputeType() }
	case OpLoadAt:
		if at != ir.I64 {
			return fmt.Errorf("element number is %v, want int64", at)
		}
		n, typeOf = len(k.Bufs), func() ir.DType { return k.Bufs[e.Imm].Type.ComputeType() }
	case OpAcc, OpAccRun:
		n, typeOf = len(v.accs), func() ir.DType { return v.accType(v.accs[e.Imm].Val) }
	case OpAccIdx:
		n, typeOf = len(v.accs), func() ir.DType { return v.accType(v.accs[e.Imm].Idx) }
	}
	if err := within(n); err != nil {
		return err
	}
	if w := typeOf(); w != e.Type {
		return fmt.Errorf("type %v, want %v", e.Type, w)
	}
	return nil
}

func (v *verifier) accType(e int) ir.DType {
	if e < 0 || e >= len(v.k.Exprs) {
		return ir.InvalidDType
	}
	return v.k.Exprs[e].Type
}

// canonicalBits clears the bits that a slot of type t cannot hold.
func canonicalBits(t ir.DType, b uint64) uint64 {
	switch t {
	case ir.Bool:
		return b & 1
	case ir.I32, ir.U32, ir.F32:
		return uint64(uint32(b))
	}
	return b
}

// CheckTypes checks argument types against the operation.
func CheckTypes(op Op, res ir.DType, t [3]ir.DType, imm uint64) error {
	same := func(want ir.DType, ok bool) error {
		for n := range op.Arity() {
			if t[n] != t[0] {
				return fmt.Errorf("arguments are %v and %v", t[0], t[n])
			}
		}
		if res != want {
			return fmt.Errorf("result is %v, want %v", res, want)
		}
		if !ok {
			return fmt.Errorf("not defined on %v", t[0])
		}
		return nil
	}
	number := t[0] != ir.Bool
	switch op {
	case OpCast:
		return nil
	case OpBitcast:
		if t[0].Size() != res.Size() || t[0] == ir.Bool || res == ir.Bool {
			return fmt.Errorf("from %v to %v, want types of one width and no bool", t[0], res)
		}
		return nil
	case OpNarrow:
		return same(ir.F32, ir.DType(imm) == ir.F16 || ir.DType(imm) == ir.BF16)
	case OpSelect:
		if t[0] != ir.Bool || t[1] != t[2] || t[1] != res {
			return fmt.Errorf("types %v, %v, %v to %v, want bool and three equal types", t[0], t[1], t[2], res)
		}
		return nil
	case OpDraw:
		if imm >= uint64(NumDrawParts) {
			return fmt.Errorf("draw part %d, want 0 to %d", imm, NumDrawParts-1)
		}
		return checkDraw(t, res)
	case OpEq, OpNe:
		return same(ir.Bool, true)
	case OpLt, OpLe:
		return same(ir.Bool, number)
	case OpIsNaN:
		return same(ir.Bool, t[0].IsFloat())
	case OpAnd, OpOr, OpXor, OpNot:
		return same(t[0], !t[0].IsFloat())
	case OpShl, OpShr:
		return same(t[0], t[0].IsInt())
	case OpAdd, OpSub, OpMul, OpDiv, OpRem, OpMin, OpMax, OpNeg, OpAbs, OpPow:
		return same(t[0], number)
	}
	return same(t[0], t[0].IsFloat())
}

func checkDraw(t [3]ir.DType, res ir.DType) error {
	if t != [3]ir.DType{ir.I64, ir.I64, ir.I64} || res != ir.U32 {
		return fmt.Errorf("draw of %v to %v, want three int64 to uint32", t, res)
	}
	return nil
}

func (v *verifier) stages() error {
	checks := false
	for s := range v.k.Stages {
		if err := v.stage(s); err != nil {
			return fmt.Errorf("stage %d: %w", s, err)
		}
		checks = checks || len(v.k.Stages[s].Checks) > 0
	}
	if checks != v.k.Checks {
		return fmt.Errorf("field Checks is %v, but the stages say %v", v.k.Checks, checks)
	}
	return nil
}

func (v *verifier) stage(s int) error {
	k, st := v.k, &v.k.Stages[s]
	if st.Prefix && !st.OverInner || !st.OverInner && len(st.Accs) > 0 {
		return errors.New("accumulators and Prefix need OverInner")
	}
	if st.OverInner && k.Inner == 0 {
		return errors.New("OverInner without inner dims")
	}
	var bad error
	st.Roots(func(n int) {
		if n >= len(k.Exprs) {
			bad = fmt.Errorf("expression %d does not exist", n)
		}
	})
	if bad != nil {
		return bad
	}
	for _, a := range st.Accs {
		if err := v.acc(a); err != nil {
			return err
		}
	}
	for _, c := range st.Checks {
		if c.Cond < 0 || c.Elem < 0 || k.Exprs[c.Cond].Type != ir.Bool || !k.Exprs[c.Elem].Type.IsInt() {
			return errors.New("check: want a bool condition and an integer element")
		}
	}
	for _, r := range st.Stores {
		if err := v.store(st, r); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	return v.scope(s, st)
}

func (v *verifier) acc(a Acc) error {
	if a.Val < 0 {
		return errors.New("accumulator without a value")
	}
	t := v.k.Exprs[a.Val].Type
	arg := a.Op == ArgMax || a.Op == ArgMin
	logical := a.Op == Any || a.Op == All
	switch {
	case a.Op > LogSum, a.Op == LogSum && !t.IsFloat():
		return fmt.Errorf("unknown reduction %d", a.Op)
	case logical != (t == ir.Bool):
		return fmt.Errorf("reduction %d of %v: Any and All take bools, the others numbers", a.Op, t)
	case arg != (a.Idx >= 0):
		return errors.New("index without ArgMax or ArgMin, or one of these without an index")
	case arg && !v.k.Exprs[a.Idx].Type.IsInt():
		return errors.New("index of ArgMax or ArgMin: want an integer")
	}
	return nil
}

func (v *verifier) store(st *Stage, r Store) error {
	k := v.k
	if r.Val < 0 || r.Mode >= NumStoreModes || r.Guard >= 0 && k.Exprs[r.Guard].Type != ir.Bool {
		return fmt.Errorf("bad value, mode or guard: got %d, %d and %d", r.Val, r.Mode, r.Guard)
	}
	buf := r.Buf
	if r.Access >= 0 {
		if r.Buf != -1 || r.Access >= len(k.Access) {
			return fmt.Errorf("access %d and buffer %d, want one of them", r.Access, r.Buf)
		}
		buf = k.Access[r.Access].Buf
		if err := v.useAccess(st, r.Access); err != nil {
			return err
		}
	} else if buf < 0 || buf >= len(k.Bufs) || r.Index < 0 || k.Exprs[r.Index].Type != ir.I64 {
		return fmt.Errorf("buffer %d, index %d", r.Buf, r.Index)
	}
	b := k.Bufs[buf]
	switch {
	case b.Access == Read:
		return fmt.Errorf("buffer %d is read only", buf)
	case r.Mode != Set && (b.Access != Atomic || b.Type == ir.Bool):
		return fmt.Errorf("combining needs an atomic number buffer, buffer %d is %v", buf, b.Type)
	case r.Mode == Set && b.Access == Atomic:
		return fmt.Errorf("plain store to the atomic buffer %d", buf)
	case k.Exprs[r.Val].Type != b.Type.ComputeType():
		return fmt.Errorf("%v into a buffer of %v", k.Exprs[r.Val].Type, b.Type)
	}
	return nil
}

// useAccess checks that an access fits the stage, and that a linear one has one meaning.
func (v *verifier) useAccess(st *Stage, n int) error {
	a := v.k.Access[n]
	if a.Linear {
		return v.useLinear(st, n)
	}
	if !st.OverInner {
		for _, s := range a.Stride[v.k.Outer:] {
			if s != Broadcast {
				return fmt.Errorf("access %d moves along an inner dim outside the inner space", n)
			}
		}
	}
	return nil
}

func (v *verifier) useLinear(st *Stage, n int) error {
	kind := 1
	if st.OverInner {
		kind = 2
	}
	if v.linear[n] != 0 && v.linear[n] != kind {
		return errors.New("a linear access or index is used both inside and outside the inner space")
	}
	v.linear[n] = kind
	return nil
}

// scope checks what the expressions of a stage may refer to.
func (v *verifier) scope(s int, st *Stage) error {
	k := v.k
	early := make([]bool, len(k.Exprs)) // needed by accumulators, before OpAccRun has a value
	for _, a := range st.Accs {
		early[a.Val] = true
		if a.Idx >= 0 {
			early[a.Idx] = true
		}
	}
	k.closeOver(early)
	for i, used := range k.Uses(st) {
		if !used {
			continue
		}
		e := k.Exprs[i]
		var err error
		switch e.Op {
		case OpIndex:
			if int(e.Imm) >= k.Outer && !st.OverInner {
				err = errors.New("inner index outside the inner space")
			}
		case OpLinear:
			err = v.useLinear(st, len(k.Access))
		case OpLoad:
			err = v.useAccess(st, int(e.Imm))
			if err == nil {
				err = v.readable(k.Access[e.Imm].Buf)
			}
		case OpLoadAt:
			err = v.readable(int(e.Imm))
		case OpAcc, OpAccIdx:
			if v.accStage[e.Imm] >= s {
				err = fmt.Errorf("accumulator %d is not final yet", e.Imm)
			}
		case OpAccRun:
			if v.accStage[e.Imm] != s || !st.Prefix || early[i] {
				err = fmt.Errorf("accumulator %d has no running value here", e.Imm)
			}
		}
		if err != nil {
			return fmt.Errorf("expression %d (%v): %w", i, e.Op, err)
		}
	}
	return nil
}

func (v *verifier) readable(buf int) error {
	if a := v.k.Bufs[buf].Access; a == Write || a == Atomic {
		return fmt.Errorf("buffer %d is not readable", buf)
	}
	return nil
}
