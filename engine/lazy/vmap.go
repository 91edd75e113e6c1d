package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// vmaps is the state of vmap. A tensor with a batch has hidden dims in its layout: rules of operators see one element,
// and recordBatch applies the batching rule of each primitive. The graph and the tape
// hold the whole batch: there, hidden dims are ordinary leading dims.
type vmaps struct {
	used   bool // there may be values with hidden dims
	inRule bool // a batching rule records whole values
	// plain: the tape gets the steps that batching rules record, as a program keeps them, not one for an element.
	plain bool
	// replaying: a backward walk records, so a draw repeats an earlier one and is the same for the whole batch.
	replaying bool
}

// vmapLevel is one call of vmap.
type vmapLevel struct {
	size      int64
	different bool // each element of the batch draws its own random numbers
	refuses   bool // a draw is an error
	skipped   int  // entries without size before it, for numbers that are not free
}

// Values of Vmap, below the size of the batch times 4.
const (
	VmapEnd = iota
	VmapRefuses
	VmapDifferent
	VmapSame
	VmapLeave  = 1 << 2 // a VmapEnd that leaves the innermost level until VmapReturn
	VmapReturn = 2 << 2
)

// Vmap begins a level of vmap, or ends the innermost one (VmapEnd); v < 0 only asks. A new level has the number that is
// returned plus 1. Otherwise the result is the number of the innermost level before the call.
//
// A number stays taken while a hook on the tape belongs to an ended level with that number: the hook may run within a
// new level, and its gradient then has hidden dims of both.
func (s *Session) Vmap(v int64) (depth int64) {
	depth = int64(len(s.vmapLevels))
	switch mode := v & 3; {
	case v < 0:
	case mode != VmapEnd:
		s.vmaps.used = true
		for s.tape.HooksAt(int64(len(s.vmapLevels) + 1)) {
			s.vmapLevels = append(s.vmapLevels, vmapLevel{})
		}
		skipped := len(s.vmapLevels) - int(depth)
		depth = int64(len(s.vmapLevels))
		s.vmapLevels = append(s.vmapLevels, vmapLevel{size: v >> 2, different: mode == VmapDifferent,
			refuses: mode == VmapRefuses, skipped: skipped})
	case v == VmapReturn:
		n := len(s.vmapsLeft) - 1
		s.vmapLevels, s.vmapsLeft = append(s.vmapLevels, s.vmapsLeft[n]), s.vmapsLeft[:n]
	case v == VmapLeave:
		s.vmapLevels, s.vmapsLeft = s.vmapLevels[:depth-1], append(s.vmapsLeft, s.vmapLevels[depth-1])
	case depth > 0:
		s.vmapLevels = s.vmapLevels[:int(depth)-1-s.vmapLevels[depth-1].skipped]
	}
	return depth
}

// inProgress reports that h is of a level in progress.
func (s *Session) inProgress(h ir.HiddenDim) bool {
	return int(h.Level) <= len(s.vmapLevels) && s.vmapLevels[h.Level-1].size > 0
}

// Batches reports that rules must run for a call with these operands, since its steps depend on levels of vmap.
func (s *Session) Batches(in []op.Val) bool {
	return s.vmaps.used && (len(s.vmapLevels) > 0 || slices.ContainsFunc(in, hasBatch))
}

// Vmapping reports that a level of vmap is in progress.
func (s *Session) Vmapping() bool { return len(s.vmapLevels) > 0 }

// Replay marks that a backward walk records until the returned function is called.
func (s *Session) Replay() (end func()) {
	old := s.vmaps.replaying
	s.vmaps.replaying = true
	return func() { s.vmaps.replaying = old }
}

func hasBatch(v op.Val) bool { return v.IsTensor() && v.L().Hidden != nil }

// apart lists the levels that draw random numbers of their own.
func (s *Session) apart() (levels []ir.HiddenDim) {
	if s.vmaps.replaying {
		return nil
	}
	for i, l := range s.vmapLevels {
		if l.different {
			levels = append(levels, ir.HiddenDim{Level: int64(i + 1), Size: l.size})
		}
	}
	return levels
}

// draw reports that a node of p with these attributes draws random numbers.
func draw(p *op.Prim, attr []int64) bool {
	if p.Seed == nil {
		return false
	}
	_, ok := p.Seed(attr)
	return ok
}

// needsRule reports that p is recorded by its batching rule.
func (s *Session) needsRule(p *op.Prim, attr []int64, in []op.Val) bool {
	return !s.vmaps.inRule && (slices.ContainsFunc(in, hasBatch) ||
		len(s.vmapLevels) > 0 && draw(p, attr) && len(s.apart()) > 0)
}

// union returns the hidden dims of both lists by level; strides of x count where both have a level.
func union(x, y []ir.HiddenDim) []ir.HiddenDim {
	out := slices.Clone(x)
	for _, h := range y {
		at, found := slices.BinarySearchFunc(out, h, byLevel)
		if !found {
			out = slices.Insert(out, at, h)
		} else if out[at].Size != h.Size {
			panic(ir.Errorf(ir.ErrRuntime, "vmap: a tensor of a call with a batch of %d is used in another one with a batch "+
				"of %d", h.Size, out[at].Size))
		}
	}
	return out
}

func byLevel(x, y ir.HiddenDim) int { return int(x.Level - y.Level) }

func hasLevel(list []ir.HiddenDim, h ir.HiddenDim) bool {
	_, found := slices.BinarySearchFunc(list, h, byLevel)
	return found
}

// levelsOf returns the levels of all operands.
func levelsOf(in []op.Val) (levels []ir.HiddenDim) {
	for _, v := range in {
		if v.IsTensor() {
			levels = union(levels, v.L().Hidden)
		}
	}
	return levels
}

func sizesOf(levels []ir.HiddenDim) []int64 {
	sizes := make([]int64, len(levels))
	for i, h := range levels {
		sizes[i] = h.Size
	}
	return sizes
}

// recordBatch records a primitive of operands with hidden dims. Its step on the tape is the primitive of one element,
// so that the gradient rule is batched in turn. A draw instead records the steps of what its rule records, because the
// walk must repeat these draws.
func (s *Session) recordBatch(p *op.Prim, attr []int64, in []op.Val) *Emission {
	in, attr = slices.Clone(in), slices.Clone(attr)
	specs := slices.Clone(inferSpecs(p, attr, in, nil))
	levels, taping := levelsOf(in), s.taping
	var outs []op.Val
	switch {
	case draw(p, attr):
		outs = s.drawBatch(p, attr, in, specs, levels)
	case s.plainSteps():
		for i := range in {
			in[i] = s.Settled(in[i], levels)
		}
		outs = s.applyRule(p, attr, in, specs, levels, p.Batch)
	default:
		records := taping && p.VJP != nil && slices.ContainsFunc(in, func(v op.Val) bool { return v.Tape != 0 })
		s.taping = records && s.trace != nil
		outs = s.applyRule(p, attr, in, specs, levels, p.Batch)
		s.taping = taping
		if records {
			s.recordElement(p, ir.InternAttr(attr), in, outs)
		}
	}
	k := &s.emitter.last
	k.Prim, k.Attr, k.AttrID, k.Types = p, attr, ir.InternAttr(attr), k.Types[:0]
	k.Outs = append(k.Outs[:0], outs...)
	return k
}

// recordElement records the step of one element, whose batching rule made outs. A function that is captured notes the
// steps of the rule: its program consists of those.
func (s *Session) recordElement(p *op.Prim, attr uint32, in, outs []op.Val) {
	if s.trace == nil {
		s.RecordStep(p, attr, in, outs)
		return
	}
	edges := make([]uint32, len(outs))
	for k := range outs {
		edges[k], outs[k].Tape = outs[k].Tape, 0
		s.tape.Retain(edges[k])
	}
	s.RecordStep(p, attr, in, outs)
	if s.trace.rules == nil {
		s.trace.rules = map[uint64][]uint32{}
	}
	s.trace.rules[s.tape.Steps()] = edges
}

// ofRule returns the edge of what the batching rule of step n recorded for its result at edge, if there is one.
func (s *Session) ofRule(n *autograd.Node, edge uint32) (uint32, bool) {
	if s.trace == nil {
		return 0, false
	}
	outs, ok := s.trace.rules[n.Seq]
	if !ok {
		return 0, false
	}
	return outs[autograd.Output(edge)], true
}

// batchedFirst reports that the steps of a batching rule are recorded with tangents, one by one: they are on the tape,
// and their gradient rules read intermediates of the batching rule. A copy is one step.
func (s *Session) batchedFirst(p *op.Prim, attr []int64, in []op.Val) bool {
	return s.taping && s.plainSteps() && p.ID != prim.Known.Copy && !draw(p, attr) && s.needsRule(p, attr, in) &&
		slices.ContainsFunc(in, func(v op.Val) bool { return v.Tape != 0 })
}

// plainSteps reports that the tape gets the steps that batching rules record: a program is made of them.
func (s *Session) plainSteps() bool { return s.vmaps.plain || s.trace != nil && s.trace.body }

// applyRule returns the results of p for a batch over levels.
func (s *Session) applyRule(p *op.Prim, attr []int64, in []op.Val, specs []op.OutSpec, levels []ir.HiddenDim,
	rule op.Batch) []op.Val {
	if rule == nil {
		rule = prim.BatchLoop
	}
	// Operands that are equal for all elements need no batch where a rule does less work for them.
	of := levels
	in = slices.Clone(in) // the caller records the step of the operands as they are
	if k := p.BatchKind; !draw(p, attr) && !s.plainSteps() &&
		(k == op.BatchSplit || k == op.BatchFold || k == op.BatchIndex) {
		for i := range in {
			in[i] = s.equalOnce(in[i])
		}
		of = levelsOf(in)
	}
	c := &op.BatchCall{B: s, Prim: p, Attr: attr, In: make([]op.Val, len(in)), Sizes: sizesOf(of),
		Batched: make([]bool, len(in)), Out: specs}
	for i, v := range in {
		if c.In[i] = v; hasBatch(v) {
			c.Batched[i] = true
			c.In[i] = s.Reveal(v, of)
		}
	}
	defer func(old bool) { s.vmaps.inRule = old }(s.vmaps.inRule)
	s.vmaps.inRule = true
	var outs []op.Val
	switch {
	case c.Count() == 0:
		for _, o := range specs {
			outs = append(outs, prim.Zeros(s, o.DType, deviceOf(p, attr, in), slices.Concat(c.Sizes, o.Shape)))
		}
	case len(of) == 0:
		outs = s.EmitN(p.ID, attr, in...)
	default:
		outs = rule(c)
	}
	for k := range outs {
		v := prim.Reshape(s, outs[k], slices.Concat(c.Sizes, specs[k].Shape))
		outs[k] = s.Hide(v, of)
		if len(of) < len(levels) {
			outs[k] = s.Reveal(outs[k], levels)
			outs[k] = s.Hide(prim.Copy(s, outs[k]), levels)
		} else if !outs[k].L().Whole().Dense {
			outs[k] = s.Hide(prim.Copy(s, v), of)
		}
	}
	return outs
}

// deviceOf returns the device of the results.
func deviceOf(p *op.Prim, attr []int64, in []op.Val) ir.DeviceID {
	if p.Moves {
		return ir.DeviceID(attr[0])
	}
	i := slices.IndexFunc(in, op.Val.IsTensor)
	return in[i].Device()
}

// equalOnce returns v without the hidden dims of stride 0. It stays on the tape only for a program, which has the view
// of each operand.
func (s *Session) equalOnce(v op.Val) op.Val {
	if s.trace == nil {
		v.Tape = 0
	}
	if !hasBatch(v) {
		return v
	}
	l := v.L()
	rest := slices.DeleteFunc(slices.Clone(l.Hidden), func(h ir.HiddenDim) bool { return h.Stride == 0 && h.Size > 0 })
	v.Layout = ir.InternHidden(rest, l.Shape, l.Stride).ID
	return v
}

// drawBatch records a draw. At levels with randomness "different" each element draws separate numbers; at other levels
// all elements share a draw.
func (s *Session) drawBatch(p *op.Prim, attr []int64, in []op.Val, specs []op.OutSpec,
	levels []ir.HiddenDim) []op.Val {
	apart := s.apart()
	shared := slices.ContainsFunc(levels, func(h ir.HiddenDim) bool {
		return s.vmaps.replaying || s.inProgress(h) && !hasLevel(apart, h)
	})
	defer func(old bool) { s.vmaps.inRule = old }(s.vmaps.inRule)
	switch {
	case p.Batch == nil: // no tensors
		s.vmaps.inRule = true
		at := len(attr) - len(specs[0].Shape)
		return []op.Val{s.Hide(s.Emit(p.ID, slices.Insert(attr, at, sizesOf(apart)...), in...), apart)}
	case !shared:
		in[0] = s.withLevels(in[0], apart)
		return s.applyRule(p, attr, in, specs, union(levels, apart), p.Batch)
	case p.Elementwise: // dropout: x times a mask for the levels that draw apart
		s.vmaps.inRule = true
		x := in[0]
		ones := prim.Fill(s, op.IntVal(1), x.DType(), x.Device(), slices.Concat(sizesOf(apart), x.Shape()))
		in[0] = ones
		mask := s.Hide(s.Emit(p.ID, attr, in...), apart)
		s.vmaps.inRule = false
		return []op.Val{prim.Mul(s, x, mask)}
	case len(apart) > 0:
		panic(ir.Errorf(ir.ErrRuntime, "vmap: %s draws under nested vmaps of which one has randomness \"same\" and one "+
			"\"different\": want one of both", p.Name))
	}
	taping := s.taping
	s.taping = false
	outs := s.applyRule(p, attr, slices.Clone(in), specs, levels, prim.BatchLoop)
	s.taping = taping
	if taping && slices.ContainsFunc(in, func(v op.Val) bool { return v.Tape != 0 }) {
		s.RecordStep(p, ir.InternAttr(attr), in, outs)
	}
	return outs
}
