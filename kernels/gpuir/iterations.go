package gpuir

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Iterations bounds the iterations of all loops that one thread runs, loops in loops multiplied. Drivers that end long
// loops count them together, and the look at a condition that ends a loop, too. Threads and workgroups at both ends are
// asked, and iterations at both ends of a loop around. A loop whose number follows from data counts as the largest that
// its bounds name, or as none. So do loops of a constant number of at most so many unrolled iterations.
func (p *Program) Iterations(params []uint64, unrolled int64) int64 {
	grid := p.Grid(params)
	last := int64(grid[0])*int64(grid[1])*int64(grid[2]) - 1
	if last < 0 {
		return 0
	}
	var most int64
	for _, group := range []int64{0, last} {
		for _, local := range []int64{0, int64(p.Workgroup - 1)} {
			c := &counter{p: p, params: params, unrolled: unrolled, group: group, local: local,
				vars: make([]known, len(p.Vars))}
			most = max(most, c.block(p.Body)-1)
		}
	}
	return most
}

// known is an integer that follows from the parameters, the thread and the workgroup; ok: it does.
type known struct {
	v  int64
	ok bool
}

// counter counts the iterations of a thread.
type counter struct {
	p            *Program
	params       []uint64
	unrolled     int64
	group, local int64
	vars         []known
}

func (c *counter) block(body []Stmt) (n int64) {
	for i := range body {
		n = saturated(n, 1, c.stmt(&body[i]))
	}
	return n
}

func (c *counter) stmt(s *Stmt) int64 {
	switch s.Op {
	case SLet, SVar, SUniform:
		c.vars[s.Var] = known{}
		if s.Op != SUniform {
			c.vars[s.Var] = c.value(s.A)
		}
	case SAssign: // loops end at the largest value that a variable has
		c.vars[s.Var] = largest(c.vars[s.Var], c.value(s.A))
	case SIf:
		switch cond := c.value(s.A); {
		case !cond.ok:
			return max(c.block(s.Body), c.block(s.Else))
		case cond.v != 0:
			return c.block(s.Body)
		}
		return c.block(s.Else)
	case SFor:
		return c.loop(s)
	}
	return 0
}

// loop counts a loop and its body.
func (c *counter) loop(s *Stmt) int64 {
	from, to, step := c.value(s.A), c.value(s.B), c.value(s.C)
	if !from.ok {
		from.v = 0
	}
	if !step.ok {
		step.v = 1
	}
	var n int64
	if to.ok && to.v > from.v {
		n = (to.v - from.v + step.v - 1) / step.v
	}
	if n == 0 {
		return 1
	}
	constant := s.A.Op == loopir.OpConst && s.B.Op == loopir.OpConst && s.C.Op == loopir.OpConst
	c.vars[s.Var] = known{from.v, from.ok}
	inside := c.block(s.Body)
	c.vars[s.Var] = known{from.v + (n-1)*step.v, from.ok && step.ok}
	inside = max(inside, c.block(s.Body))
	c.vars[s.Var] = known{}
	if constant && n <= c.unrolled {
		return saturated(0, n, inside)
	}
	return saturated(1, n, saturated(1, 1, inside))
}

// saturated is a + n*b, at most 2^62.
func saturated(a, n, b int64) int64 {
	const most = 1 << 62
	if b > 0 && n > (most-a)/b {
		return most
	}
	return a + n*b
}

func largest(a, b known) known {
	switch {
	case !a.ok:
		return b
	case !b.ok || a.v >= b.v:
		return a
	}
	return b
}

// value is what an expression is, where it follows from what is known.
func (c *counter) value(n *Node) known {
	if n.Width != 1 {
		return known{}
	}
	switch n.Op {
	case loopir.OpConst:
		return c.number(n.Type, n.Imm)
	case loopir.OpParam:
		return c.number(n.Type, loopir.CastBits(c.p.Params[n.Imm].Type, n.Type, c.params[n.Imm]))
	case PVar:
		return c.vars[n.Imm]
	case PLocalID:
		return known{c.local, true}
	case PGroupID:
		return known{c.group, true}
	case loopir.OpSelect:
		if cond := c.value(n.Args[0]); !cond.ok {
			return largest(c.value(n.Args[1]), c.value(n.Args[2]))
		}
	}
	return c.apply(n)
}

// number is a value of integers and bools.
func (c *counter) number(t ir.DType, bits uint64) known {
	if t.IsFloat() || t.IsComplex() {
		return known{}
	}
	return known{int64(loopir.CastBits(t, ir.I64, bits)), true}
}

// apply computes an operation whose arguments are known.
func (c *counter) apply(n *Node) known {
	op := n.scalarOp()
	if op >= loopir.NumOps || len(n.Args) == 0 || len(n.Args) > 3 {
		return known{}
	}
	var v [3]uint64
	for i, a := range n.Args {
		x := c.value(a)
		if !x.ok || a.Type.IsFloat() {
			return known{}
		}
		v[i] = loopir.CastBits(ir.I64, a.Type, uint64(x.v))
	}
	if op == loopir.OpLoadAt || op == loopir.OpDraw || (op == loopir.OpDiv || op == loopir.OpRem) && v[1] == 0 {
		return known{}
	}
	return c.number(n.Type, loopir.EvalOp(op, n.Type, n.Args[0].Type, n.Imm, v[0], v[1], v[2]))
}
