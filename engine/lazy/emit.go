package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// emitter holds the scratch memory and the counters of recording.
type emitter struct {
	in      [2]op.Val
	last    Emission
	edges   []ir.Edge
	scalars []uint64
	// recorded counts all nodes; pendingBytes estimates the bytes that pending nodes will write.
	recorded     uint64
	pendingBytes int64
}

// Emission describes the primitive just recorded.
type Emission struct {
	Prim   *op.Prim
	Attr   []int64
	AttrID uint32
	Types  []ir.DType // of numbers, by operand
	Outs   []op.Val   // valid until the next emission
}

// Recorded counts the nodes recorded so far.
func (s *Session) Recorded() uint64 { return s.emitter.recorded }

// PendingBytes estimates the bytes that pending nodes will write.
func (s *Session) PendingBytes() int64 { return s.emitter.pendingBytes }

// CountPendingBytes recomputes the estimate from the nodes that are pending, after some of them ran.
func (s *Session) CountPendingBytes() {
	var n int64
	for _, p := range s.graph.Pending {
		n += ir.AvalOf(s.graph.Node(p.ID).Aval).Bytes()
	}
	s.emitter.pendingBytes = n
}

// Detach implements op.Builder.
func (s *Session) Detach(v op.Val) op.Val {
	v.Tape, v.Detached, v.Severed = 0, true, true
	return v
}

// NeedsGrad implements op.Builder. In the body of a loop it includes derivatives that may be needed later: tangents of
// outer levels, and any derivative of a derived body, which is kept for other loops.
func (s *Session) NeedsGrad(v op.Val) bool {
	if s.taped(v) || s.tangents.levels != nil && s.IsDual(v) {
		return true
	}
	t := s.trace
	later := t != nil && (t.derived || t.body && s.tangents.levels != nil)
	return later && !v.Severed && v.IsTensor() && v.DType().IsFloat()
}

// OnTape implements op.BodyBuilder.
func (s *Session) OnTape(v op.Val) bool { return s.taped(v) }

// Emit implements op.Builder.
func (s *Session) Emit(p op.PrimID, attr []int64, in ...op.Val) op.Val {
	if op.OnComplex(p, attr, in) {
		return op.EmitComplex(s, p, attr, in)[0]
	}
	return s.Record(p, attr, in).Outs[0]
}

// Emit1 implements op.Builder.
func (s *Session) Emit1(p op.PrimID, x op.Val) op.Val {
	if x.Layout.IsComplex() {
		return s.Emit(p, nil, x)
	}
	s.emitter.in[0] = x
	return s.Record(p, nil, s.emitter.in[:1]).Outs[0]
}

// Emit2 implements op.Builder.
func (s *Session) Emit2(p op.PrimID, x, y op.Val) op.Val {
	if (x.Layout | y.Layout).IsComplex() {
		return s.Emit(p, nil, x, y)
	}
	s.emitter.in[0], s.emitter.in[1] = x, y
	return s.Record(p, nil, s.emitter.in[:2]).Outs[0]
}

// EmitN implements op.Builder.
func (s *Session) EmitN(p op.PrimID, attr []int64, in ...op.Val) []op.Val {
	if op.OnComplex(p, attr, in) {
		return op.EmitComplex(s, p, attr, in)
	}
	return append([]op.Val(nil), s.Record(p, attr, in).Outs...)
}

// Record records a primitive. The emission is valid until the next one.
func (s *Session) Record(id op.PrimID, attr []int64, in []op.Val) *Emission {
	k := &s.emitter
	p := op.PrimOf(id)
	if s.tangents.levels != nil {
		if l := s.dualLevel(in); l != nil && !s.batchedFirst(p, attr, in) {
			return s.recordDual(p, attr, in, l)
		}
	}
	if s.vmaps.used && s.needsRule(p, attr, in) {
		return s.recordBatch(p, attr, in)
	}
	if s.Deterministic && p.Unordered {
		attr = append(slices.Clone(attr), op.Deterministic)
	}
	avals, scalarType := s.infer(p, attr, in)
	k.edges, k.scalars, k.last.Types = k.edges[:0], k.scalars[:0], k.last.Types[:0]
	taped := false
	for i := range in {
		v, d := &in[i], ir.InvalidDType
		switch {
		case v.IsTensor():
			k.edges = append(k.edges, ir.Edge{Value: v.Value, Layout: v.Layout, Offset: v.Offset})
			taped = taped || v.Tape != 0
		case v.IsScalar():
			d = scalarType
			if p.ScalarDType != nil {
				d = p.ScalarDType(in, s.inference.specs, i)
			}
			k.edges = append(k.edges, ir.Edge{})
			k.scalars = append(k.scalars, v.Encode(d))
		}
		k.last.Types = append(k.last.Types, d)
	}
	k.last.Prim, k.last.Attr, k.last.AttrID = p, attr, ir.InternAttr(attr)
	k.last.Outs = s.Add(k.last.Outs[:0], p, k.last.AttrID, avals, k.edges, k.scalars)
	if taped && s.taping && p.VJP != nil {
		s.RecordStep(p, k.last.AttrID, in, k.last.Outs)
	}
	if s.trace != nil {
		s.NoteOperands(in, k.last.Outs[0].Value)
	}
	return &k.last
}

func (s *Session) value(id uint32, aval ir.AvalID) op.Val {
	return op.Val{Kind: op.Tensor, Value: id, Aval: aval, Layout: ir.AvalOf(aval).Layout.ID}
}

// Add makes a node with the given abstract results and appends the results to list. They live until the end of the call
// unless something refers to them.
func (s *Session) Add(list []op.Val, p *op.Prim, attrID uint32, avals []ir.AvalID, edges []ir.Edge,
	scalars []uint64) []op.Val {
	shared, reads := p.Shared && (s.tangents.levels == nil || !s.hasTangents(edges[0].Value)), false
	if len(s.exports.byStore) > 0 {
		edges, reads = s.present(edges)
	}
	if shared {
		if id := s.shared.find(s.graph, p, avals[0], edges[0]); id != 0 {
			s.graph.Retain(id)
			s.held.values = append(s.held.values, id)
			return append(list, s.value(id, avals[0]))
		}
	}
	first := ir.AvalOf(avals[0])
	if first.Device == ir.Meta {
		return s.addMeta(list, avals)
	}
	id := s.graph.Add(uint16(p.ID), attrID, s.SourceLoc, avals, edges, scalars)
	s.held.values = append(s.held.values, id)
	if reads {
		s.noteReader(id)
	}
	if shared {
		s.shared.note(id, edges[0])
	}
	s.emitter.recorded++
	s.emitter.pendingBytes += first.Bytes()
	list = append(list, op.Val{})
	v := &list[len(list)-1]
	v.Kind, v.Value, v.Aval, v.Layout = op.Tensor, id, avals[0], first.Layout.ID
	if len(avals) > 1 {
		for k, e := range s.graph.Projs(s.graph.Node(id)) {
			s.held.values = append(s.held.values, e.Value)
			list = append(list, s.value(e.Value, avals[k+1]))
		}
	}
	return list
}

// addMeta appends results on the device Meta: leaves without a storage. Nothing computes them, so that no node holds
// their operands.
func (s *Session) addMeta(list []op.Val, avals []ir.AvalID) []op.Val {
	s.emitter.recorded++
	for _, aval := range avals {
		id := s.graph.AddLeaf(aval, 0, s.SourceLoc)
		s.held.values = append(s.held.values, id)
		list = append(list, s.value(id, aval))
	}
	return list
}

// RecordStep records a primitive on the tape if an operand has a history. Results that are no floats get none.
func (s *Session) RecordStep(p *op.Prim, attrID uint32, in, outs []op.Val) {
	if len(outs) == 1 && !outs[0].DType().IsFloat() {
		return
	}
	n := s.tape.Record(p, attrID, s.SourceLoc, in, outs)
	s.held.edges = append(s.held.edges, autograd.Edge(n, 0))
	for i := range outs {
		if outs[i].DType().IsFloat() {
			outs[i].Tape = autograd.Edge(n, i)
		}
	}
}

// View implements op.Builder.
func (s *Session) View(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	if (v.Layout | l.ID).IsComplex() || step.Kind == op.ViewPair {
		return s.viewComplex(v, l, offset, step)
	}
	if s.vmaps.used && (l.Hidden != nil || v.L().Hidden != nil) {
		return s.viewBatch(v, l, offset, step)
	}
	return s.viewPlain(v, l, offset, step)
}

// viewPlain is View of layouts without hidden dims.
func (s *Session) viewPlain(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	out := v
	out.Layout, out.Offset = l.ID, offset
	if v.Tape == 0 || !s.taping {
		out.Tape = 0
		return out
	}
	// A program has no zeros with the history of another value, so a walk within a trace needs the value itself.
	n := s.tape.RecordView(step, s.SourceLoc, v, out, step.Kind == op.ViewFlat && s.trace != nil)
	out.Tape = autograd.Edge(n, 0)
	s.held.edges = append(s.held.edges, out.Tape)
	return out
}
