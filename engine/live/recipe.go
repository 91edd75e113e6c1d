package live

import (
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

// A rule (an operator's Eval, a primitive's VJP) is a function of its operands'
// abstract values alone: it never sees an element. What it recorded for one call is
// therefore what it will record for every call with equal abstract operands, and a
// recipe keeps that: the primitives, views and draws in order, with operands named by
// register. Calling the rule again is then not needed, nor promotion, broadcasting,
// inference of shapes and interning.
//
// Registers 1 to n are the rule's operands; each step appends its results. op.Val.Src
// carries a value's register while a rule is watched. A tensor without one makes the
// call unfit for a recipe; a number without one is a constant, for the key
// holds every number that the rule may have looked at.
type recipe struct {
	key   []uint64
	steps []step
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
type step struct {
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
	maxRecipes   = 1 << 13
	maxRegisters = 250 // op.Val.Src is a byte
	seenSets     = 1 << 11
)

// Seen remembers hashes of calls, the newest two of each set: calls met once are forgotten when others come.
type Seen [seenSets][2]uint64

// Met notes a hash, and reports that it was there.
func (s *Seen) Met(hash uint64) bool {
	set := &s[hash%seenSets]
	if set[0] == hash || set[1] == hash {
		return true
	}
	set[0], set[1] = hash, set[0]
	return false
}

// recipes is the memory of rules.
type recipes struct {
	byHash map[uint64]*recipe
	seen   Seen   // so that only calls met twice are watched
	hash   uint64 // of the key in hand
	key    []uint64
	watch  *recipe // being made, nil otherwise
	next   int     // registers in use while watching
	unfit  bool
	regs   []op.Val
	in     []op.Val
	last   *recipe // the one that Recall followed last; nil when it knew none
	// recalled counts the rules that were not called.
	recalled int64
}

// LastCall gives the hash of the call that Recall followed last; ok is false when it knew no recipe.
func (s *State) LastCall() (hash uint64, ok bool) { return s.recipes.hash, s.recipes.last != nil }

// Recalled counts the rules whose recipes were followed.
func (s *State) Recalled() int64 { return s.recipes.recalled }

// Key starts the key of a rule's call and gives it back for appending; what names the rule
// and everything that it may read besides its operands.
func (s *State) Key(what uint64) []uint64 { return append(s.recipes.key[:0], what, s.mode()) }

// mode is what a rule may look at besides its operands.
func (s *State) mode() uint64 {
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

// Recall gives the results of a call whose recipe is known, recording as the rule would
// have. Otherwise ok is false: the caller calls the rule, between Watch and Learn.
// The results are valid until the next call.
func (s *State) Recall(key []uint64, operands, numbers []op.Val) (outs []op.Val, ok bool) {
	m := &s.recipes
	m.key, m.watch = key, nil
	m.hash = hashKey(key)
	r := m.byHash[m.hash]
	if r == nil || !slices.Equal(r.key, key) {
		m.last = nil
		return nil, false
	}
	m.last = r
	m.regs = append(append(m.regs[:0], operands...), numbers...)
	return s.followAll(r), true
}

// followAll does a recipe's steps with the registers in hand.
func (s *State) followAll(r *recipe) []op.Val {
	s.recipes.recalled++
	for i := range r.steps {
		s.follow(&r.steps[i])
	}
	return s.recipes.fetch(r.outs)
}

// fetch gives the values that refs name: what is in their registers, and constants themselves. They are
// valid until the next call.
func (m *recipes) fetch(refs []op.Val) []op.Val {
	if len(refs) == 1 && refs[0].Src != 0 {
		return m.regs[refs[0].Src-1 : refs[0].Src]
	}
	m.in = m.in[:0]
	for i := range refs {
		if src := refs[i].Src; src != 0 {
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
func (s *State) Watch(operands, numbers []op.Val, unread uint32) {
	m := &s.recipes
	if !m.seen.Met(m.hash) || len(operands)+len(numbers) > maxRegisters {
		return
	}
	m.watch, m.unfit, m.next = &recipe{key: slices.Clone(m.key)}, false, 0
	for i := range operands {
		m.next++
		operands[i].Src = 0
		if operands[i].IsTensor() {
			operands[i].Src = uint8(m.next)
		}
	}
	for i := range numbers {
		m.next++
		if unread>>i&1 != 0 {
			numbers[i].Src = uint8(m.next)
		}
	}
}

// Learn ends Watch with the rule's results.
func (s *State) Learn(outs []op.Val) {
	m := &s.recipes
	r := m.watch
	m.watch = nil
	if r == nil || m.unfit {
		return
	}
	for i := range outs {
		if outs[i].Kind == op.Tensor && outs[i].Src == 0 {
			return
		}
		o := op.Val{Src: outs[i].Src}
		if o.Src == 0 {
			o = outs[i]
		}
		r.outs = append(r.outs, o)
	}
	if len(m.byHash) >= maxRecipes || m.byHash == nil {
		m.byHash = map[uint64]*recipe{}
	}
	m.byHash[m.hash] = r
}

// register names a new value of the watched rule.
func (m *recipes) register() uint8 {
	if m.next++; m.next > maxRegisters {
		m.unfit = true
		return 0
	}
	return uint8(m.next)
}

// noteEmit adds the step of a primitive just recorded, whose results it names.
func (s *State) noteEmit(p *op.Prim, attr []int64, in []op.Val, avals []ir.AvalID, scalarType ir.DType, outs []op.Val) {
	m := &s.recipes
	st := step{prim: p, attr: slices.Clone(attr), attrID: ir.InternAttr(attr), avals: slices.Clone(avals), in: slices.Clone(in),
		bits: make([]uint64, len(in)), types: make([]ir.DType, len(in))}
	st.taped = p.VJP != nil
	for i := range in {
		st.src = append(st.src, in[i].Src)
		switch {
		case in[i].IsTensor():
			m.unfit = m.unfit || in[i].Src == 0
		case in[i].IsScalar():
			st.types[i] = scalarType
			if p.ScalarDType != nil {
				st.types[i] = p.ScalarDType(in, s.specBuf, i)
			}
			st.bits[i] = encode(st.types[i], in[i])
		}
	}
	for i := range outs {
		outs[i].Src = m.register()
	}
	m.watch.steps = append(m.watch.steps, st)
}

func (s *State) noteView(v op.Val, l *ir.Layout, offset int64, view op.ViewOp, out *op.Val) {
	m := &s.recipes
	m.unfit = m.unfit || v.Src == 0
	view.Dims = slices.Clone(view.Dims)
	m.watch.steps = append(m.watch.steps, step{kind: stepView, in: []op.Val{v}, layout: l.ID, offset: offset - v.Offset, view: view})
	out.Src = m.register()
}

func (s *State) noteDetach(v op.Val, out *op.Val) {
	m := &s.recipes
	if v.IsTensor() {
		m.unfit = m.unfit || v.Src == 0
		m.watch.steps = append(m.watch.steps, step{kind: stepDetach, in: []op.Val{v}})
		out.Src = m.register()
	}
}

func (s *State) noteDraw(seed, nonce *op.Val) {
	m := &s.recipes
	m.watch.steps = append(m.watch.steps, step{kind: stepDraw})
	seed.Src = m.register()
	nonce.Src = m.register()
}

// follow does a step with the registers in hand.
func (s *State) follow(st *step) {
	m := &s.recipes
	switch st.kind {
	case stepEmit:
		s.followEmit(st)
	case stepView:
		v := m.regs[st.in[0].Src-1]
		m.regs = append(m.regs, s.View(v, ir.LayoutOf(st.layout), v.Offset+st.offset, st.view))
	case stepDetach:
		m.regs = append(m.regs, s.Detach(m.regs[st.in[0].Src-1]))
	case stepDraw:
		seed, nonce := s.RNG()
		m.regs = append(m.regs, seed, nonce)
	}
}

func (s *State) followEmit(st *step) {
	m := &s.recipes
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
