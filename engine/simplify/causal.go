package simplify

import (
	"math"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// Causal replaces a constant causal mask of the primitive attention by the primitive's causal flag. Kernels then skip
// the masked keys. contents gives the elements of a constant input, nil where the host cannot read them.
func Causal(p *program.Program, args int, contents func(input int) []byte) *program.Program {
	at := map[int]bool{}
	for i := range p.Nodes {
		if !p.Nodes[i].IsPrim() || p.Prim(i).ID != prim.Known.Attention || p.Attrs(i)[0] != 0 || p.Attrs(i)[1] == 0 {
			continue
		}
		if m := operand(p, i, 3); m.ref.IsInput() && m.ref.Index() >= args {
			if data := contents(m.ref.Index()); data != nil && causal(m, p.Aval(m.ref).DType, data) {
				at[i] = true
			}
		}
	}
	if len(at) == 0 {
		return p
	}
	return rewritten(p, func(c *copier, i int) {
		c.node(i)
		if !at[i] {
			return
		}
		x, q := &c.to.Nodes[len(c.to.Nodes)-1], c.to
		attr := p.Attrs(i)
		x.Attr, x.Operands = ir.InternAttr([]int64{1, 0, attr[2]}), x.Operands-1
		edges, offsets := q.Edges[x.Edge:], q.Offsets[x.Edge:]
		q.Edges = append(q.Edges[:x.Edge+3], edges[4:]...)
		q.Offsets = append(q.Offsets[:x.Edge+3], offsets[4:]...)
	})
}

// causal reports that the mask, bool or a float32 to add, lets query i see exactly the keys 0 to i.
func causal(m view, d ir.DType, data []byte) bool {
	shape, stride := m.layout.Shape, m.layout.Stride
	l, s := shape[2], shape[3]
	if l != s || l < 2 || d != ir.Bool && d != ir.F32 {
		return false
	}
	for b := range shape[0] * shape[1] {
		base := m.offset + b/shape[1]*stride[0] + b%shape[1]*stride[1]
		for i := range l {
			for j := range s {
				at := base + i*stride[2] + j*stride[3]
				sees, hides := false, false
				if d == ir.Bool {
					sees, hides = data[at] != 0, data[at] == 0
				} else {
					v := ir.DecodeFloat(ir.F32, uint64(data[4*at])|uint64(data[4*at+1])<<8|uint64(data[4*at+2])<<16|
						uint64(data[4*at+3])<<24)
					sees, hides = v == 0, math.IsInf(v, -1)
				}
				if j <= i && !sees || j > i && !hides {
					return false
				}
			}
		}
		if stride[0] == 0 && stride[1] == 0 {
			break // all heads share it
		}
	}
	return true
}
