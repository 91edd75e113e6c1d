package program

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// A program without stores whose inputs are arguments and whose results are distinct whole values of nodes is a body.
var _ op.Body = (*Program)(nil)

// Operands implements op.Body.
func (p *Program) Operands() []ir.AvalID {
	list := make([]ir.AvalID, len(p.Inputs))
	for i := range p.Inputs {
		list[i] = p.Inputs[i].Aval
	}
	return list
}

// Outcomes implements op.Body.
func (p *Program) Outcomes() []ir.AvalID {
	list := make([]ir.AvalID, len(p.Results))
	for k := range p.Results {
		list[k] = p.AvalID(p.Results[k].Value)
	}
	return list
}

// DrawsTaken implements op.Body.
func (p *Program) DrawsTaken() uint64 { return p.Drawn }

// Like implements op.Body. The numbers of a body are constants, so they count.
func (p *Program) Like(b op.Body) bool {
	q, ok := b.(*Program)
	return ok && p.Same(q) && slices.Equal(p.Offsets, q.Offsets) && slices.Equal(p.Scalars, q.Scalars)
}

// Digest implements op.Body.
func (p *Program) Digest() uint64 {
	h := p.Hash
	for _, v := range p.Offsets {
		h = mix(h, []uint32{uint32(v), uint32(v >> 32)})
	}
	for _, v := range p.Scalars {
		h = mix(h, []uint32{uint32(v), uint32(v >> 32)})
	}
	return h
}

// loop is what node i does again, nil where it is no loop.
func (p *Program) loop(i int) *op.Loop {
	if !p.Nodes[i].IsPrim() || op.PrimID(p.Nodes[i].Op) != prim.Known.Loop {
		return nil
	}
	return op.LoopOf(p.Attrs(i))
}

// within counts the numbers of the body that node i has.
func (p *Program) within(i int) int {
	if l := p.loop(i); l != nil {
		return l.Body().Events()
	}
	return 0
}

// Bodies lists the bodies of p's loops, and of the loops in these, once each and in order.
func (p *Program) Bodies() []int64 { return p.bodies(nil) }

func (p *Program) bodies(found []int64) []int64 {
	for i := range p.Nodes {
		if l := p.loop(i); l != nil && !slices.Contains(found, l.ID) {
			found = l.Body().(*Program).bodies(append(found, l.ID))
		}
	}
	return found
}

// Events implements op.Body.
func (p *Program) Events() int { return int(p.Event(len(p.Nodes))) - 1 }

// Event is the number of node i in the faults of a body.
func (p *Program) Event(i int) uint32 {
	n := i + 1
	for k := range i {
		n += p.within(k)
	}
	return uint32(n)
}

// DataError implements op.Body.
func (p *Program) DataError(event int, element int64) *ir.Error {
	node := 1 // the last one whose number is at most event
	for node < len(p.Nodes) && event > 1+p.within(node-1) {
		event -= 1 + p.within(node-1)
		node++
	}
	if event > 1 { // of a step in the body that the node has
		element = int64(event-1)<<ir.LoopEventBits | element&(1<<ir.LoopEventBits-1)
	}
	return p.refusal(node, element)
}

// refusal is the error for data that node number node, counted from 1, refuses.
func (p *Program) refusal(node int, element int64) *ir.Error {
	e := ir.Errorf(ir.ErrIndex, "index %d is out of bounds", element)
	if node < 1 || node > len(p.Nodes) || !p.Nodes[node-1].IsPrim() {
		return e
	}
	attr := p.Attrs(node - 1)
	return p.Prim(node-1).Refusal(attr, element, op.IndexedSize(p.OperandsOf(node - 1)[0].Layout, attr))
}

// Body reports what keeps p from being a body, "" for nothing.
func (p *Program) Body() string {
	seen := map[Ref]bool{}
	for _, r := range p.Results {
		switch {
		case !r.Value.IsNode() || r.Of != 0:
			return "a result is an input"
		case seen[r.Value] || r.Layout != p.Aval(r.Value).Layout.ID || r.Offset != 0:
			return "a result is a view, or comes twice"
		}
		seen[r.Value] = true
	}
	if len(p.Stores) > 0 {
		return "it writes to tensors from outside"
	}
	return ""
}

// Reads says of each input whether a node reads it.
func (p *Program) Reads() []bool {
	read := make([]bool, len(p.Inputs))
	for _, e := range p.Edges {
		if e.Value.IsInput() {
			read[e.Value.Index()] = true
		}
	}
	return read
}

// Keeping is a body without the inputs that keep leaves out, which nothing reads.
func (p *Program) Keeping(keep []bool) *Program {
	q := p.Clone()
	q.Inputs = q.Inputs[:0]
	number := make([]int, len(keep))
	for i, kept := range keep {
		if number[i] = len(q.Inputs); kept {
			q.Inputs = append(q.Inputs, p.Inputs[i])
		}
	}
	for i := range q.Edges {
		if v := &q.Edges[i].Value; v.IsInput() {
			*v = InputRef(number[v.Index()])
		}
	}
	q.Seal()
	return q
}

// On is p with all values on a device. Transfers become copies.
func (p *Program) On(dev ir.DeviceID) *Program {
	q := p.Clone()
	there := func(id ir.AvalID) ir.AvalID {
		av := ir.AvalOf(id)
		return ir.InternAval(av.DType, dev, av.Layout).ID
	}
	for i := range q.Inputs {
		q.Inputs[i].Aval = there(q.Inputs[i].Aval)
	}
	for i := range q.Nodes {
		n := &q.Nodes[i]
		n.Aval = there(n.Aval)
		if !n.IsPrim() {
			continue
		}
		switch {
		case q.Prim(i).Moves:
			n.Op, n.Attr = uint16(prim.Known.Copy), 0
		case !slices.ContainsFunc(q.OperandsOf(i), func(e Edge) bool { return e.Value != 0 }):
			attr := slices.Clone(q.Attrs(i)) // dtype, device, ...
			attr[1] = int64(dev)
			n.Attr = ir.InternAttr(attr)
		}
	}
	q.Seal()
	return q
}
