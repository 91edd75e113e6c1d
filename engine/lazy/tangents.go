package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// tangents is the state of forward mode. A graph value has at most one tangent for each open level, and keeps it alive.
// The tangent of a view is the same view of the value's tangent. A write in place makes a new value, recorded with its
// tangent like any other.
type tangents struct {
	levels  []tangentLevel // the open ones, in ascending order
	opened  uint32         // number of the last level opened; numbers are not reused
	dropped []tangent      // of freed values, to be released at the end of the call
}

// tangentLevel has the tangents of one call of jvp, or of one dual_level, by graph value.
type tangentLevel struct {
	id    uint32
	of    map[uint32]tangent
	apart bool // see op.JVPCall
}

// tangent is the tangent of a whole value. Its dims are those of extra, then the elements of the value's storage.
type tangent struct {
	val op.Val
	// extra are the hidden dims that the tangent has and the value lacks; strides are those in the tangent's storage.
	extra []ir.HiddenDim
}

// OpenLevel begins a level of forward mode and returns its number. apart is as in op.JVPCall.
func (s *Session) OpenLevel(apart bool) int64 {
	k := &s.tangents
	k.opened++
	k.levels = append(k.levels, tangentLevel{id: k.opened, of: map[uint32]tangent{}, apart: apart})
	s.graph.OnFree = s.dropTangents
	return int64(k.opened)
}

// CloseLevel ends a level: its tangents are gone. An unknown level is ignored.
func (s *Session) CloseLevel(level int64) {
	k := &s.tangents
	k.levels = slices.DeleteFunc(k.levels, func(l tangentLevel) bool {
		if int64(l.id) != level {
			return false
		}
		for _, t := range l.of {
			k.dropped = append(k.dropped, t)
		}
		return true
	})
	if len(k.levels) == 0 {
		k.levels, s.graph.OnFree = nil, nil
	}
}

// Ceiling makes recording ignore the tangents of a level and of those above it, 0 for none of them, and returns the
// former setting; level < 0 only asks.
func (s *Session) Ceiling(level int64) (old int64) {
	old = int64(s.ceiling)
	if level >= 0 {
		s.ceiling = uint32(level)
	}
	return old
}

// dropTangents is ir.Graph.OnFree.
func (s *Session) dropTangents(value uint32) {
	for _, l := range s.tangents.levels {
		if t, ok := l.of[value]; ok {
			delete(l.of, value)
			s.tangents.dropped = append(s.tangents.dropped, t)
		}
	}
}

// releaseTangents releases the tangents of values that were freed.
func (s *Session) releaseTangents() {
	for k := &s.tangents; len(k.dropped) > 0; {
		t := k.dropped[len(k.dropped)-1].val
		k.dropped = k.dropped[:len(k.dropped)-1]
		s.graph.Release(t.Value)
		s.tape.Release(t.Tape)
	}
}

// below makes recording ignore the tangents of a level and of those above it until the returned function is called.
func (s *Session) below(level uint32) (end func()) {
	old := s.ceiling
	s.ceiling = level
	return func() { s.ceiling = old }
}

// floor is the innermost level around the loop whose body is being recorded, 0 outside of bodies. Levels up to it are
// not active: the body computes values without their tangents, and the rule of the loop adds the tangents.
func (s *Session) floor() uint32 {
	if s.trace == nil {
		return 0
	}
	return s.trace.floor
}

// topLevel returns the highest active level at which v has a tangent, nil for none.
func (s *Session) topLevel(v *op.Val) *tangentLevel {
	if !v.IsTensor() || v.Severed || s.Inference {
		return nil
	}
	for i := len(s.tangents.levels) - 1; i >= 0; i-- {
		l := &s.tangents.levels[i]
		if s.ceiling != 0 && l.id >= s.ceiling || l.id <= s.floor() {
			continue
		}
		if _, ok := l.of[v.Value]; ok {
			return l
		}
	}
	return nil
}

// IsDual reports that v has a tangent at an active level.
func (s *Session) IsDual(v op.Val) bool { return s.topLevel(&v) != nil }

// dualLevel returns the highest level at which an operand has a tangent, nil for none.
func (s *Session) dualLevel(in []op.Val) (top *tangentLevel) {
	for i := range in {
		if l := s.topLevel(&in[i]); l != nil && (top == nil || l.id > top.id) {
			top = l
		}
	}
	return top
}

// Duals reports that an operand has a tangent: rules must run, since traces record no tangents.
func (s *Session) Duals(in []op.Val) bool {
	return s.tangents.levels != nil && s.dualLevel(in) != nil
}

// hasTangents reports that a graph value has a tangent at any open level.
func (s *Session) hasTangents(value uint32) bool {
	return slices.ContainsFunc(s.tangents.levels, func(l tangentLevel) bool {
		_, ok := l.of[value]
		return ok
	})
}

// tangentAt returns the tangent of v at a level; Kind None where it is zero.
func (s *Session) tangentAt(l *tangentLevel, v op.Val) op.Val {
	if !v.IsTensor() || v.Severed {
		return op.Val{}
	}
	t, ok := l.of[v.Value]
	if !ok {
		return op.Val{}
	}
	to := v.L()
	if len(t.extra) > 0 {
		hidden := union(t.extra, to.Hidden)
		for i := range hidden { // a level that both have: v is expanded to it
			at, both := slices.BinarySearchFunc(to.Hidden, hidden[i], byLevel)
			if _, own := slices.BinarySearchFunc(t.extra, hidden[i], byLevel); own && both {
				hidden[i].Stride += to.Hidden[at].Stride
			}
		}
		to = ir.InternHidden(hidden, to.Shape, to.Stride)
	}
	out := t.val
	out.Layout = out.L().Whole().ID
	if whole := to.Whole(); out.Layout != whole.ID || out.Offset != v.Offset {
		return s.viewWhole(out, to, v.Offset, viewStep(out.L(), whole))
	}
	out.Layout = to.ID
	return out
}

// attach gives v, a result recorded after node since, the tangent t at a level. v becomes a copy if it is a view, or a
// value that another tensor may share.
func (s *Session) attach(l *tangentLevel, v *op.Val, t op.Val, since uint64) {
	if _, has := l.of[v.Value]; has || s.graph.Node(v.Value).Seq <= since || v.Offset != 0 ||
		v.L().Whole().Numel != ir.AvalOf(v.Aval).Layout.Numel || !v.L().Whole().Dense {
		*v = prim.Copy(s, *v)
	}
	own := v.L().Hidden
	extra := slices.DeleteFunc(slices.Clone(t.L().Hidden), func(h ir.HiddenDim) bool { return hasLevel(own, h) })
	t = s.Reveal(prim.Cast(s, t, v.DType()), slices.Concat(extra, own))
	if !t.IsWhole() {
		t = prim.Copy(s, t)
	}
	stride := ir.AvalOf(v.Aval).Layout.Numel
	for i := len(extra) - 1; i >= 0; i-- {
		extra[i].Stride = stride
		stride *= extra[i].Size
	}
	if !s.taping {
		t.Tape = 0
	}
	t.Base, t.Detached, t.Severed = 0, false, false
	s.graph.Retain(t.Value)
	s.tape.Retain(t.Tape)
	l.of[v.Value] = tangent{val: t, extra: extra}
}

// level returns an open level, and panics for others.
func (s *Session) level(level int64) *tangentLevel {
	if level > 0 && uint32(level) <= s.floor() {
		panic(ir.Errorf(ir.ErrNotImplemented, "forward AD: the body of a loop makes or reads a tangent at a level around "+
			"the loop: do that outside of the body, and make the tangent a carry"))
	}
	for i := range s.tangents.levels {
		if l := &s.tangents.levels[i]; int64(l.id) == level {
			return l
		}
	}
	panic(ir.Errorf(ir.ErrRuntime, "forward AD: level %d is not open: its block has ended", level))
}

// Dual implements op.Forward.
func (s *Session) Dual(primal, tangent op.Val, level int64) op.Val {
	l := s.level(level)
	if s.tangentAt(l, primal).IsTensor() {
		panic(ir.Errorf(ir.ErrRuntime, "Making a dual Tensor based on a Tensor that already has a forward gradient at the "+
			"same level %d is not supported.", level-1))
	}
	if !slices.Equal(primal.Shape(), tangent.Shape()) {
		panic(ir.Errorf(ir.ErrRuntime, "Trying to set a forward gradient that has a different size than that of the "+
			"original Tensor, this is not supported. Tensor is of size %s while the given forward gradient is of size %s.",
			ir.ShapeString(primal.Shape()), ir.ShapeString(tangent.Shape())))
	}
	defer s.below(l.id)()
	since := s.graph.Seq()
	out := prim.Copy(s, primal)
	s.attach(s.level(level), &out, tangent, since)
	return out
}

// Tangent implements op.Forward.
func (s *Session) Tangent(v op.Val, level int64) op.Val {
	l := s.level(level)
	defer s.below(l.id)()
	return s.tangentAt(l, v)
}

// Primal implements op.Forward. Tangents at lower levels stay, with a copy.
func (s *Session) Primal(v op.Val, level int64) op.Val {
	defer s.below(uint32(level))()
	if s.IsDual(v) {
		return prim.Copy(s, v)
	}
	v.Severed = true
	return v
}

// Untaped implements op.Forward.
func (s *Session) Untaped(v op.Val) op.Val {
	v.Tape, v.Detached = 0, true
	return v
}

// Settled implements op.Forward. Where a hidden dim becomes an ordinary one, or one of another level, value and tangent
// must both have it.
func (s *Session) Settled(v op.Val, levels []ir.HiddenDim) op.Val {
	if s.tangents.levels == nil || !v.IsTensor() || v.Severed {
		return v
	}
	var apart []ir.HiddenDim
	for _, l := range s.tangents.levels {
		if s.ceiling != 0 && l.id >= s.ceiling {
			break
		}
		if l.id <= s.floor() {
			continue
		}
		for _, h := range l.of[v.Value].extra {
			if hasLevel(levels, h) {
				apart = union(apart, []ir.HiddenDim{h})
			}
		}
	}
	if apart == nil {
		return v
	}
	defer func(old bool) { s.vmaps.inRule = old }(s.vmaps.inRule)
	s.vmaps.inRule = false // also where a rule, or a loop, records whole values: v has hidden dims
	return prim.Copy(s, s.withLevels(v, apart))
}

// stored returns the value that a write of v through handle h makes the newest one of its base; old is the former one.
// The elements stay the same. A tensor from which h was detached keeps its tangents.
func (s *Session) stored(h *Handle, old uint32, v op.Val) op.Val {
	duals := s.hasTangents(v.Value)
	if v.Severed && duals {
		v, duals = prim.Copy(s, v), false
	}
	if h.Flags&FlagSevered == 0 {
		return v
	}
	if !s.hasTangents(old) {
		h.Flags &^= FlagSevered
		return v
	}
	if duals {
		panic(ir.Errorf(ir.ErrNotImplemented, "forward AD: a detached alias of a dual tensor is written in place with "+
			"another dual tensor: clone it first"))
	}
	tape, since := v.Tape, s.graph.Seq()
	v = prim.Copy(s, v)
	v.Tape = tape
	for i := range s.tangents.levels {
		l := &s.tangents.levels[i]
		end := s.below(l.id)
		if t := s.tangentAt(l, s.value(old, s.graph.Node(old).Aval)); t.IsTensor() {
			s.attach(l, &v, t, since)
		}
		end()
	}
	return v
}
