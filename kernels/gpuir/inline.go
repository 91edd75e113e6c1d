package gpuir

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Place is where an inlined program finds one of its buffers.
type Place struct {
	Array int // workgroup array; -1: buffer Buf
	Buf   int
	// At is added to element numbers; nil: 0. Where the program reads vectors it is a multiple of four.
	At *Node
	// Narrow: values in a workgroup array are rounded as by a store in this type.
	Narrow ir.DType
}

// Inlining is a program that becomes statements of another one.
type Inlining struct {
	From   *Program
	Params []uint64 // values of From's parameters
	Places []Place  // by buffer of From
	Group  *Node    // the number of From's workgroup
	// Halves are the 32-bit halves of parameters that are no constants, by the Imm of PHalf.
	Halves map[uint64]*Node
	Event  uint32 // what a fault has above the element's ir.LoopEventBits
	Arrays []int  // by workgroup array of From: that of the other program
}

// Inline returns the statements of one workgroup of a program for a place in p, whose workgroups have as many threads.
// Parameters become constants. From has no atomic stores.
func (p *Program) Inline(in *Inlining) []Stmt {
	if in.From.Checks && !p.Checks || in.From.Workgroup != p.Workgroup {
		panic("BUG: gpuir: a program with checks, or of another workgroup, is inlined")
	}
	n := &inliner{Inlining: in, to: p, vars: make([]*Node, len(in.From.Vars)), nodes: map[*Node]*Node{}}
	return n.block(in.From.Body)
}

type inliner struct {
	*Inlining
	to    *Program
	vars  []*Node // by variable of From: what reads it
	nodes map[*Node]*Node
}

// variable makes the variable of the other program for variable v.
func (n *inliner) variable(v int) int {
	to := n.to.NewVar(n.From.Vars[v].Type, n.From.Vars[v].Width)
	n.vars[v] = n.to.NVar(to)
	return to
}

func (n *inliner) block(body []Stmt) (out []Stmt) {
	for i := range body {
		out = append(out, n.stmt(body[i])...)
	}
	return out
}

func (n *inliner) stmt(s Stmt) []Stmt {
	from := s.Var
	s.A, s.B, s.C = n.node(s.A), n.node(s.B), n.node(s.C)
	switch s.Op {
	case SLet:
		if s.A.Op == loopir.OpConst {
			n.vars[from] = s.A
			return nil
		}
		s.Var = n.variable(from)
	case SVar:
		s.Var = n.variable(from)
	case SAssign:
		s.Var = int(n.vars[from].Imm)
	case SFor:
		return n.loop(s)
	case SIf:
		if s.A.Op == loopir.OpConst && s.A.Imm != 0 {
			return n.block(s.Body)
		} else if s.A.Op == loopir.OpConst {
			return n.block(s.Else)
		}
		s.Body, s.Else = n.block(s.Body), n.block(s.Else)
	case SSharedSet:
		s.Ref = n.Arrays[s.Ref]
	case SUniform:
		s.Var, s.Ref = n.variable(from), n.Arrays[s.Ref]
	case SStore:
		n.store(&s)
	case SFault:
		s.B, s.C = n.fault(s.B)
	case SAtomic:
		panic("BUG: gpuir: an atomic store is inlined")
	}
	return []Stmt{s}
}

// fault returns the low and the high word of a fault at an element, with the event in the high one.
func (n *inliner) fault(elem *Node) (lo, hi *Node) {
	lo = elem
	if elem.Type != ir.I32 {
		lo = N(loopir.OpCast, ir.I32, elem)
	}
	sign := N(loopir.OpAnd, ir.I32, N(loopir.OpShr, ir.I32, lo, NInt(31)), NInt(1<<(ir.LoopEventBits-32)-1))
	return lo, NAdd(sign, NInt(int(n.Event)<<(ir.LoopEventBits-32)))
}

// loop leaves out loops of no iteration, and the text of loops of one.
func (n *inliner) loop(s Stmt) []Stmt {
	if s.A.Op == loopir.OpConst && s.B.Op == loopir.OpConst && s.C.Op == loopir.OpConst {
		from, to, step := int32(s.A.Imm), int32(s.B.Imm), int32(s.C.Imm)
		if from >= to {
			return nil
		}
		if from+step >= to {
			n.vars[s.Var] = s.A
			return n.block(s.Body)
		}
	}
	s.Var = n.variable(s.Var)
	s.Body = n.block(s.Body)
	return []Stmt{s}
}

// element is the index of an element, or of a vector of so many, at a place.
func (p *Place) element(at *Node, width int) *Node {
	if p.At == nil {
		return at
	}
	return NAdd(NDiv(p.At, NInt(width)), at)
}

func (n *inliner) store(s *Stmt) {
	p := &n.Places[s.Ref]
	s.A = p.element(s.A, s.B.Width)
	if p.Array < 0 {
		s.Ref = p.Buf
		return
	}
	s.Op, s.Ref = SSharedSet, p.Array
	if t := n.to.Shared[p.Array].Type; t != s.B.Type { // 64-bit integers that are computed in 32
		s.B = N(loopir.OpCast, t, s.B)
	}
	s.B = NNarrow(p.Narrow, s.B)
}

// node is x in the other program. Shared nodes stay shared, and what depends on constants alone is one.
func (n *inliner) node(x *Node) *Node {
	if x == nil {
		return nil
	}
	switch x.Op {
	case loopir.OpConst, PLocalID:
		return x
	case PVar:
		return n.vars[x.Imm]
	case PGroupID:
		return n.Group
	case PHalf:
		if y := n.Halves[x.Imm]; y != nil {
			return y
		}
		return NConst(ir.U32, uint64(uint32(n.Params[x.Imm>>1]>>(32*(x.Imm&1)))))
	case loopir.OpParam:
		return NConst(x.Type, loopir.CastBits(n.From.Params[x.Imm].Type, x.Type, n.Params[x.Imm]))
	}
	if y, ok := n.nodes[x]; ok {
		return y
	}
	args := make([]*Node, len(x.Args))
	for i, a := range x.Args {
		args[i] = n.node(a)
	}
	y := n.apply(x, args)
	n.nodes[x] = y
	return y
}

// apply is x with other arguments.
func (n *inliner) apply(x *Node, args []*Node) *Node {
	switch x.Op {
	case PLoad:
		p := &n.Places[x.Imm]
		at := p.element(args[0], x.Width)
		if p.Array < 0 {
			return &Node{Op: PLoad, Type: x.Type, Width: x.Width, Imm: uint64(p.Buf), Args: []*Node{at}}
		}
		y := &Node{Op: PShared, Type: n.to.Shared[p.Array].Type, Width: x.Width, Imm: uint64(p.Array), Args: []*Node{at}}
		if y.Type != x.Type {
			y = N(loopir.OpCast, x.Type, y)
		}
		return y
	case PShared:
		return &Node{Op: PShared, Type: x.Type, Width: x.Width, Imm: uint64(n.Arrays[x.Imm]), Args: args}
	case loopir.OpAdd:
		return NAdd(args[0], args[1])
	case loopir.OpMul:
		return NMul(args[0], args[1])
	case PIndexDiv:
		return NDiv(args[0], args[1])
	case PIndexRem:
		return NRem(args[0], args[1])
	case loopir.OpAnd:
		if x.Type == ir.Bool && x.Width == 1 {
			return NAnd(args[0], args[1])
		}
	case PLane:
		return NLane(args[0], int(x.Imm))
	}
	if x.Op < loopir.NumOps && x.Width == 1 && x.Imm == 0 && x.Op != loopir.OpDraw && len(args) > 0 {
		return N(x.Op, x.Type, args...)
	}
	y := *x
	y.Args = args
	return &y
}
