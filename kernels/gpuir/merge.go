package gpuir

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Merge combines n launches of p, the members, into one program. Workgroups are dealt to the members in order, so that
// every branch on the member is uniform in its workgroup. All members use the same workgroup arrays.
//
// A buffer that shared marks is one binding for all members; of the other buffers each member has its own. Parameters
// are those of member 0, then of member 1 and so on; then n numbers: the workgroups of members 0 to i together, for
// each i. p must have no checks, since a program has one event number.
func Merge(p *Program, n int, shared []bool) *Program {
	if p.Checks {
		panic("BUG: gpuir: merge of a program with checks")
	}
	m := &merger{from: p, n: n, to: &Program{
		Name: fmt.Sprintf("%s x%d", p.Name, n), Workgroup: p.Workgroup, Shared: p.Shared, Subgroup: p.Subgroup,
		Groups: []GroupFactor{{Params: []int{n*len(p.Params) + n - 1}, Per: 1}},
	}}
	for range n {
		m.to.Params = append(m.to.Params, p.Params...)
		m.to.Vars = append(m.to.Vars, p.Vars...)
	}
	for range n {
		m.to.Params = append(m.to.Params, loopir.Param{Kind: loopir.Size, Type: ir.I64})
	}
	m.bufs = make([][]int, n)
	for i := range n {
		for b, buf := range p.Bufs {
			if i > 0 && shared[b] {
				m.bufs[i] = append(m.bufs[i], m.bufs[0][b])
				continue
			}
			m.bufs[i] = append(m.bufs[i], len(m.to.Bufs))
			m.to.Bufs = append(m.to.Bufs, buf)
		}
	}
	// A folded grid has workgroups beyond the last member's.
	m.to.Body = []Stmt{{Op: SIf, A: NLt(NGroup(), m.end(n-1)), Body: m.choose(0, n)}}
	return m.to
}

// MergedEnds returns the numbers of workgroups that end the parameters of a merged program, from the members' own
// parameters.
func MergedEnds(p *Program, params [][]uint64) []uint64 {
	var ends []uint64
	end := uint64(0)
	for _, q := range params {
		g := p.Grid(q)
		end += uint64(g[0]) * uint64(g[1]) * uint64(g[2])
		ends = append(ends, end)
	}
	return ends
}

type merger struct {
	from, to *Program
	n        int
	bufs     [][]int // by member and buffer of from: buffer of to
	member   int
	nodes    map[*Node]*Node // of the current member
}

// end is the number of workgroups of members 0 to i.
func (m *merger) end(i int) *Node { return NParam(m.n*len(m.from.Params)+i, ir.I32) }

// choose is the body for members lo to hi, as a tree of branches.
func (m *merger) choose(lo, hi int) []Stmt {
	if hi-lo == 1 {
		m.member, m.nodes = lo, map[*Node]*Node{}
		return m.block(m.from.Body)
	}
	mid := (lo + hi) / 2
	return []Stmt{{Op: SIf, A: NLt(NGroup(), m.end(mid-1)), Body: m.choose(lo, mid), Else: m.choose(mid, hi)}}
}

func (m *merger) block(body []Stmt) []Stmt {
	var out []Stmt
	for _, s := range body {
		switch s.Op {
		case SLet, SVar, SAssign, SFor, SUniform:
			s.Var += m.member * len(m.from.Vars)
		case SStore, SAtomic:
			s.Ref = m.bufs[m.member][s.Ref]
		}
		s.A, s.B, s.C = m.node(s.A), m.node(s.B), m.node(s.C)
		s.Body, s.Else = m.block(s.Body), m.block(s.Else)
		out = append(out, s)
	}
	return out
}

// node is x as the current member sees it. Shared nodes stay shared.
func (m *merger) node(x *Node) *Node {
	if x == nil {
		return nil
	}
	if y, ok := m.nodes[x]; ok {
		return y
	}
	y := *x
	y.Args = nil
	for _, a := range x.Args {
		y.Args = append(y.Args, m.node(a))
	}
	params := uint64(m.member * len(m.from.Params))
	switch x.Op {
	case PVar:
		y.Imm += uint64(m.member * len(m.from.Vars))
	case loopir.OpParam:
		y.Imm += params
	case PHalf:
		y.Imm += params << 1
	case PLoad:
		y.Imm = uint64(m.bufs[m.member][x.Imm])
	case PGroupID:
		if m.member > 0 {
			y = *NSub(x, m.end(m.member-1))
		}
	}
	m.nodes[x] = &y
	return &y
}
