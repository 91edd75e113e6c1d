package gpuir

import (
	"errors"
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Verify checks the types, vector widths, scopes of variables, and numbers of buffers and parameters of p.
func Verify(p *Program) error {
	v := &verifier{p: p, defined: make([]bool, len(p.Vars)), mutable: make([]bool, len(p.Vars)),
		seen: map[*Node]bool{}}
	if p.Workgroup <= 0 || len(p.Groups) == 0 {
		return errors.New("no workgroup size or no grid")
	}
	for i, b := range p.Bufs {
		if b.Vec != 1 && b.Vec != 4 {
			return fmt.Errorf("buffer %d: vector width %d, want 1 or 4", i, b.Vec)
		}
	}
	for _, f := range p.Groups {
		for _, q := range f.Params {
			if q < 0 || q >= len(p.Params) || f.Per <= 0 {
				return fmt.Errorf("grid: parameter %d per %d, want an existing parameter and a positive divisor", q, f.Per)
			}
		}
	}
	return v.block(p.Body)
}

type verifier struct {
	p       *Program
	defined []bool // in scope
	mutable []bool
	seen    map[*Node]bool
}

func (v *verifier) block(body []Stmt) error {
	var mine []int
	for i := range body {
		s := &body[i]
		if err := v.stmt(s); err != nil {
			return fmt.Errorf("statement %d: %w", i, err)
		}
		if s.Op == SLet || s.Op == SVar {
			mine = append(mine, s.Var)
		}
	}
	for _, n := range mine {
		v.defined[n] = false
	}
	// Variables of this block went out of scope, so shared nodes must be visited again.
	if len(mine) > 0 {
		v.seen = map[*Node]bool{}
	}
	return nil
}

func (v *verifier) define(n int, mutable bool) error {
	if n < 0 || n >= len(v.p.Vars) || v.defined[n] {
		return fmt.Errorf("variable %d is not new", n)
	}
	v.defined[n], v.mutable[n] = true, mutable
	return nil
}

func (v *verifier) stmt(s *Stmt) error {
	for _, n := range []*Node{s.A, s.B, s.C} {
		if n != nil && n.Op == PShuffle {
			if err := v.shuffle(s, n); err != nil {
				return err
			}
		} else if n != nil {
			if err := v.node(n); err != nil {
				return err
			}
		}
	}
	switch s.Op {
	case SLet, SVar:
		if err := v.define(s.Var, s.Op == SVar); err != nil {
			return err
		}
		return v.fits(s.Var, s.A)
	case SAssign:
		if !v.defined[s.Var] || !v.mutable[s.Var] {
			return fmt.Errorf("variable %d cannot be assigned", s.Var)
		}
		return v.fits(s.Var, s.A)
	case SFor:
		if err := v.define(s.Var, false); err != nil {
			return err
		}
		err := v.block(s.Body)
		v.defined[s.Var] = false
		v.seen = map[*Node]bool{}
		return err
	case SIf:
		if s.A.Type != ir.Bool || s.A.Width != 1 {
			return fmt.Errorf("condition is %v x%d, want bool x1", s.A.Type, s.A.Width)
		}
		return errors.Join(v.block(s.Body), v.block(s.Else))
	case SBarrier:
		return nil
	case SUniform:
		if s.Ref < 0 || s.Ref >= len(v.p.Shared) || s.A.Type != ir.I32 || s.A.Width != 1 {
			return fmt.Errorf("workgroup array %d has no such element", s.Ref)
		}
		if err := v.define(s.Var, false); err != nil {
			return err
		}
		if d := v.p.Vars[s.Var]; d.Type != v.p.Shared[s.Ref].Type || d.Width != 1 {
			return fmt.Errorf("variable %d is %v x%d, the array has %v", s.Var, d.Type, d.Width, v.p.Shared[s.Ref].Type)
		}
		return nil
	case SStore, SAtomic:
		return v.store(s)
	case SSharedSet:
		if s.Ref < 0 || s.Ref >= len(v.p.Shared) || v.p.Shared[s.Ref].Type != s.B.Type || s.B.Width > v.p.Shared[s.Ref].Vec {
			return fmt.Errorf("workgroup array %d does not take this value", s.Ref)
		}
		if s.C != nil && (s.C.Type != ir.I32 || s.B.Width != 1 || v.p.Shared[s.Ref].Vec != 4) {
			return fmt.Errorf("workgroup array %d: a lane of no vector", s.Ref)
		}
		return nil
	case SFault:
		if !v.p.Checks || s.A.Type != ir.Bool || !s.B.Type.IsInt() ||
			s.C != nil && (s.B.Type != ir.I32 || s.C.Type != ir.I32) {
			return errors.New("fault without Checks, or not of a bool and integers")
		}
		return nil
	}
	return fmt.Errorf("unknown statement %d", s.Op)
}

// shuffle allows shuffles of variables only, as the whole value of a new variable: devices compute them in place.
func (v *verifier) shuffle(s *Stmt, n *Node) error {
	if s.Op != SLet || len(n.Args) != 1 || n.Args[0].Op != PVar || n.Args[0].Type != n.Type {
		return errors.New("a shuffle of no variable, or inside an expression")
	}
	if n.Width != n.Args[0].Width || n.Width > 1 && (n.Type == ir.Bool || n.Type == ir.I64) {
		return fmt.Errorf("a shuffle of %v x%d as x%d", n.Type, n.Args[0].Width, n.Width)
	}
	if n.Imm == 0 || n.Imm&(n.Imm-1) != 0 || n.Imm >= uint64(v.p.Subgroup) || v.p.Workgroup%v.p.Subgroup != 0 {
		return fmt.Errorf("a shuffle by %d in subgroups of %d, workgroups of %d", n.Imm, v.p.Subgroup, v.p.Workgroup)
	}
	return v.node(n.Args[0])
}

func (v *verifier) fits(n int, x *Node) error {
	if d := v.p.Vars[n]; d.Type != x.Type || d.Width != x.Width {
		return fmt.Errorf("variable %d is %v x%d, value is %v x%d", n, d.Type, d.Width, x.Type, x.Width)
	}
	return nil
}

func (v *verifier) store(s *Stmt) error {
	if s.Ref < 0 || s.Ref >= len(v.p.Bufs) || v.p.Bufs[s.Ref].Access == loopir.Read {
		return fmt.Errorf("buffer %d is not writable", s.Ref)
	}
	b := v.p.Bufs[s.Ref]
	if s.B.Width > b.Vec || s.A.Width != 1 || (s.Op == SAtomic && s.Mode != loopir.Set &&
		s.Mode < loopir.NumStoreModes) != (b.Access == loopir.Atomic) {
		return fmt.Errorf("buffer %d: width %d into %d, or atomics mixed with stores", s.Ref, s.B.Width, b.Vec)
	}
	return v.bufType(s.Ref, s.B.Type)
}

func (v *verifier) bufType(buf int, t ir.DType) error {
	want := v.p.Bufs[buf].Type.ComputeType()
	if t != want && !(want == ir.I64 && t == ir.I32) {
		return fmt.Errorf("buffer %d holds %v, used as %v", buf, want, t)
	}
	return nil
}

func (v *verifier) node(n *Node) error {
	if v.seen[n] {
		return nil
	}
	for _, a := range n.Args {
		if err := v.node(a); err != nil {
			return err
		}
	}
	v.seen[n] = true
	switch n.Op {
	case PVar:
		if n.Imm >= uint64(len(v.p.Vars)) || !v.defined[n.Imm] {
			return fmt.Errorf("variable %d is not in scope", n.Imm)
		}
		return v.fits(int(n.Imm), n)
	case loopir.OpParam:
		if n.Imm >= uint64(len(v.p.Params)) {
			return fmt.Errorf("parameter %d does not exist", n.Imm)
		}
		if t := v.p.Params[n.Imm].Type; t != n.Type && !(t == ir.I64 && n.Type == ir.I32) {
			return fmt.Errorf("parameter %d is %v, used as %v", n.Imm, t, n.Type)
		}
		return nil
	case PLoad:
		if n.Imm >= uint64(len(v.p.Bufs)) || n.Width > v.p.Bufs[n.Imm].Vec {
			return fmt.Errorf("load of width %d from buffer %d, want an existing buffer of that width", n.Width, n.Imm)
		}
		return v.bufType(int(n.Imm), n.Type)
	case PShared:
		if n.Imm >= uint64(len(v.p.Shared)) || v.p.Shared[n.Imm].Type != n.Type || n.Width > v.p.Shared[n.Imm].Vec {
			return fmt.Errorf("workgroup array %d read as %v x%d, want its own type and width", n.Imm, n.Type, n.Width)
		}
		return nil
	}
	return v.pure(n)
}

func (v *verifier) pure(n *Node) error {
	switch n.Op {
	case loopir.OpConst, PLocalID, PGroupID, PHalf:
		return nil
	case PSplat, PLane, PVec, PPhilox, PIndexDiv, PIndexRem:
		want := map[loopir.Op]int{PSplat: 1, PLane: 1, PVec: 4, PPhilox: 6, PIndexDiv: 2, PIndexRem: 2}[n.Op]
		if len(n.Args) != want {
			return fmt.Errorf("operation %d with %d arguments, want %d", n.Op, len(n.Args), want)
		}
		return nil
	}
	if n.Op >= loopir.NumOps || n.Op.IsLeaf() || n.Op == loopir.OpDraw || len(n.Args) != n.Op.Arity() {
		return fmt.Errorf("operation %v with %d arguments is none of the GPU IR", n.Op, len(n.Args))
	}
	var t [3]ir.DType
	for i, a := range n.Args {
		t[i] = a.Type
		if a.Width != n.Width {
			return fmt.Errorf("%v: widths %d and %d, want equal ones", n.Op, a.Width, n.Width)
		}
	}
	if err := loopir.CheckTypes(n.Op, n.Type, t, n.Imm); err != nil {
		return fmt.Errorf("%v: %w", n.Op, err)
	}
	return nil
}
