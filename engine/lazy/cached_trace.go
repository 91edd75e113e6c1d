package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// A rule (an operator's Eval, a primitive's VJP) is a function of its operands'
// abstract values alone: it never sees an element. What it recorded for one call is
// therefore what it will record for every call with equal abstract operands, and a
// cached trace keeps that: the primitives, views and draws in order, with operands named by
// register. Calling the rule again is then not needed, nor promotion, broadcasting,
// inference of shapes and interning.
//
// Registers 1 to n are the rule's operands; each step appends its results. op.Val.Src
// carries a value's register while a rule is watched. A tensor without one makes the
// call uncacheable; a number without one is a constant, for the key
// holds every number that the rule may have looked at.
type cachedTrace struct {
	key   []uint64
	steps []traceStep
	outs  []op.Val // by Src; None where there is no result
}

type stepKind uint8

const (
	stepEmit stepKind = iota
	stepView
	stepDetach
	stepDraw
)

// step is one call of the Builder. in holds registers as Src; numbers without one are
// constants, encoded already in consts.
type traceStep struct {
	kind   stepKind
	prim   *op.Prim
	attr   []int64
	attrID uint32
	in     []op.Val
	bits   []uint64   // of constant numbers, by operand
	types  []ir.DType // of numbers, by operand
	src    []uint8    // of in, by operand
	taped  bool       // the primitive has a VJP
	avals  []ir.AvalID
	layout ir.LayoutID
	offset int64 // of the view, past its source's
	view   op.ViewOp
}

const (
	maxTraces    = 1 << 13
	maxRegisters = 250 // op.Val.Src is a byte
	seenSets     = 1 << 11
)

// Seen remembers hashes of calls, the newest two of each set: calls met once are forgotten when others come.
type SeenCalls [seenSets][2]uint64

// Met notes a hash, and reports that it was there.
func (s *SeenCalls) SeenBefore(hash uint64) bool {
	set := &s[hash%seenSets]
	if set[0] == hash || set[1] == hash {
		return true
	}
	set[0], set[1] = hash, set[0]
	return false
}

// cached traces is the memory of rules.
type traceCache struct {
	byHash      map[uint64]*cachedTrace
	seen        SeenCalls // so that only calls met twice are watched
	hash        uint64    // of the key in hand
	key         []uint64
	capture     *cachedTrace // being made, nil otherwise
	next        int          // registers in use while watching
	uncacheable bool
	regs        []op.Val
	in          []op.Val
	last        *cachedTrace // the one that Recall followed last; nil when it knew none
	// recalled counts the rules that were not called.
	replayed int64
}

// LastCall gives the hash of the call that Recall followed last; ok is false when it knew no cached trace.
func (s *Session) LastTrace() (hash uint64, ok bool) { return s.traces.hash, s.traces.last != nil }

// Recalled counts the rules whose cached traces were followed.
func (s *Session) Replayed() int64 { return s.traces.replayed }

// Key starts the key of a rule's call and gives it back for appending; what names the rule
// and everything that it may read besides its operands.
func (s *Session) Key(what uint64) []uint64 { return append(s.traces.key[:0], what, s.mode()) }

// mode is what a rule may look at besides its operands.
func (s *Session) mode() uint64 {
	mode := uint64(s.Default)<<8 | uint64(s.DefaultDev)
	if s.taping {
		mode |= 1 << 16
	}
	if s.Deterministic {
		mode |= 1 << 17
	}
	return mode | uint64(s.Autocast[0])<<24 | uint64(s.Autocast[1])<<32
}

func hashKey(key []uint64) uint64 {
	h := uint64(0x9E3779B97F4A7C15)
	for _, w := range key {
		h = (h ^ w) * 0xFF51AFD7ED558CCD
		h ^= h >> 32
	}
	return h
}

// Recall gives the results of a call whose cached trace is known, recording as the rule would
// have. Otherwise ok is false: the caller calls the rule, between Watch and Learn.
// The results are valid until the next call.
func (s *Session) Lookup(key []uint64, operands, numbers []op.Val) (outs []op.Val, ok bool) {
	m := &s.traces
	m.key, m.capture = key, nil
	m.hash = hashKey(key)
	r := m.byHash[m.hash]
	if r == nil || !slices.Equal(r.key, key) {
		m.last = nil
		return nil, false
	}
	m.last = r
	m.regs = append(append(m.regs[:0], operands...), numbers...)
	return s.replay(r), true
}

// followAll does a cached trace's steps with the registers in hand.
func (s *Session) replay(r *cachedTrace) []op.Val {
	s.traces.replayed++
	for i := range r.steps {
		s.replayStep(&r.steps[i])
	}
	return s.traces.fetch(r.outs)
}

// fetch gives the values that refs name: what is in their registers, and constants themselves. They are
// valid until the next call.
func (m *traceCache) fetch(refs []op.Val) []op.Val {
	if len(refs) == 1 && refs[0].CaptureReg != 0 {
		return m.regs[refs[0].CaptureReg-1 : refs[0].CaptureReg]
	}
	m.in = m.in[:0]
	for i := range refs {
		if src := refs[i].CaptureReg; src != 0 {
			m.in = append(m.in, m.regs[src-1])
		} else {
			m.in = append(m.in, refs[i])
		}
	}
	return m.in
}

// Watch begins to note what the rule of the call that Recall did not know records, if
// that call was met before. Tensors get registers, and so do the numbers whose bit is set in unread: the rule
// only passes them on. Other numbers are constants, for the key holds them.
func (s *Session) BeginCapture(operands, numbers []op.Val, unread uint32) {
	m := &s.traces
	if !m.seen.SeenBefore(m.hash) || len(operands)+len(numbers) > maxRegisters {
		return
	}
	m.capture, m.uncacheable, m.next = &cachedTrace{key: slices.Clone(m.key)}, false, 0
	for i := range operands {
		m.next++
		operands[i].CaptureReg = 0
		if operands[i].IsTensor() {
			operands[i].CaptureReg = uint8(m.next)
		}
	}
	for i := range numbers {
		m.next++
		if unread>>i&1 != 0 {
			numbers[i].CaptureReg = uint8(m.next)
		}
	}
}

// Learn ends Watch with the rule's results.
func (s *Session) EndCapture(outs []op.Val) {
	m := &s.traces
	r := m.capture
	m.capture = nil
	if r == nil || m.uncacheable {
		return
	}
	for i := range outs {
		if outs[i].Kind == op.Tensor && outs[i].CaptureReg == 0 {
			return
		}
		o := op.Val{CaptureReg: outs[i].CaptureReg}
		if o.CaptureReg == 0 {
			o = outs[i]
		}
		r.outs = append(r.outs, o)
	}
	if len(m.byHash) >= maxTraces || m.byHash == nil {
		m.byHash = map[uint64]*cachedTrace{}
	}
	m.byHash[m.hash] = r
}

// register names a new value of the watched rule.
func (m *traceCache) newRegister() uint8 {
	if m.next++; m.next > maxRegisters {
		m.uncacheable = true
		return 0
	}
	return uint8(m.next)
}

// noteEmit adds the step of a primitive just recorded, whose results it names.
func (s *Session) captureEmit(p *op.Prim, attr []int64, in []op.Val, avals []ir.AvalID, scalarType ir.DType,
	outs []op.Val) {
	m := &s.traces
	st := traceStep{prim: p, attr: slices.Clone(attr), attrID: ir.InternAttr(attr), avals: slices.Clone(avals),
		in:   slices.Clone(in),
		bits: make([]uint64, len(in)), types: make([]ir.DType, len(in))}
	st.taped = p.VJP != nil
	for i := range in {
		st.src = append(st.src, in[i].CaptureReg)
		switch {
		case in[i].IsTensor():
			m.uncacheable = m.uncacheable || in[i].CaptureReg == 0
		case in[i].IsScalar():
			st.types[i] = scalarType
			if p.ScalarDType != nil {
				st.types[i] = p.ScalarDType(in, s.specBuf, i)
			}
			st.bits[i] = encode(st.types[i], in[i])
		}
	}
	for i := range outs {
		outs[i].CaptureReg = m.newRegister()
	}
	m.capture.steps = append(m.capture.steps, st)
}

func (s *Session) captureView(v op.Val, l *ir.Layout, offset int64, view op.ViewOp, out *op.Val) {
	m := &s.traces
	m.uncacheable = m.uncacheable || v.CaptureReg == 0
	view.Dims = slices.Clone(view.Dims)
	m.capture.steps = append(m.capture.steps, traceStep{kind: stepView, in: []op.Val{v}, layout: l.ID,
		offset: offset - v.Offset, view: view})
	out.CaptureReg = m.newRegister()
}

func (s *Session) captureDetach(v op.Val, out *op.Val) {
	m := &s.traces
	if v.IsTensor() {
		m.uncacheable = m.uncacheable || v.CaptureReg == 0
		m.capture.steps = append(m.capture.steps, traceStep{kind: stepDetach, in: []op.Val{v}})
		out.CaptureReg = m.newRegister()
	}
}

func (s *Session) captureDraw(seed, drawOffset *op.Val) {
	m := &s.traces
	m.capture.steps = append(m.capture.steps, traceStep{kind: stepDraw})
	seed.CaptureReg = m.newRegister()
	drawOffset.CaptureReg = m.newRegister()
}

// follow does a step with the registers in hand.
func (s *Session) replayStep(st *traceStep) {
	m := &s.traces
	switch st.kind {
	case stepEmit:
		s.replayEmit(st)
	case stepView:
		v := m.regs[st.in[0].CaptureReg-1]
		m.regs = append(m.regs, s.View(v, ir.LayoutOf(st.layout), v.Offset+st.offset, st.view))
	case stepDetach:
		m.regs = append(m.regs, s.Detach(m.regs[st.in[0].CaptureReg-1]))
	case stepDraw:
		seed, drawOffset := s.RNG()
		m.regs = append(m.regs, seed, drawOffset)
	}
}

func (s *Session) replayEmit(st *traceStep) {
	m := &s.traces
	s.edgeBuf, s.scalarBuf = s.edgeBuf[:0], s.scalarBuf[:0]
	taped := uint32(0)
	for i, src := range st.src {
		if src == 0 {
			if st.in[i].IsScalar() {
				s.edgeBuf = append(s.edgeBuf, ir.Edge{})
				s.scalarBuf = append(s.scalarBuf, st.bits[i])
			}
			continue
		}
		switch v := &m.regs[src-1]; {
		case v.IsTensor():
			s.edgeBuf = append(s.edgeBuf, ir.Edge{})
			e := &s.edgeBuf[len(s.edgeBuf)-1]
			e.Value, e.Layout, e.Offset = v.Value, v.Layout, v.Offset
			taped |= v.Tape
		case v.IsScalar():
			s.edgeBuf = append(s.edgeBuf, ir.Edge{})
			s.scalarBuf = append(s.scalarBuf, encode(st.types[i], *v))
		}
	}
	tape := taped != 0 && s.taping && st.taped
	var in []op.Val
	if tape || st.prim.IndexInput > 0 {
		in = m.fetch(st.in)
		if st.prim.IndexInput > 0 {
			s.checkIndex(st.prim, st.attr, in)
		}
	}
	at := len(m.regs)
	m.regs = s.add(m.regs, st.prim, st.attrID, st.avals)
	if tape {
		s.tape(st.prim, st.attrID, in, m.regs[at:])
	}
}
