package dispatch

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Deferral is a deferrable call: its cached trace, and the description that operands of a repeat must match.
type Deferral struct {
	Def *op.Def
	// Taped: the call records tape steps.
	Taped    bool
	call     Call  // the first such call; a repeat replaces the tensors of In
	at       []int // positions of the tensors in call.In
	trace    *cachedTrace
	mode     uint64
	operands []op.Val // operands, then numbers; tensors serve as descriptions
	tensors  int      // operands[tensors:] are numbers
}

const maxDeferrals = 1 << 13

// deferrals numbers deferred calls by generation and index. A full list starts a new generation. Numbers of the
// previous generation stay valid, because callers may still hold such calls; older ones are void.
type deferrals struct {
	list       []Deferral
	previous   []Deferral
	byCall     map[uint64]uint32
	seen       seenCalls // only calls made twice get a number
	generation uint32
	replayed   int64
}

func (p *deferrals) nextGeneration() {
	p.previous, p.list, p.byCall = p.list, nil, map[uint64]uint32{}
	p.generation = (p.generation + 1) & 0xFFFF
}

// forget voids all numbers.
func (p *deferrals) forget() {
	p.nextGeneration()
	p.previous = nil
}

func (p *deferrals) find(n uint32) *Deferral {
	list := p.list
	if n>>16 == (p.generation-1)&0xFFFF {
		list = p.previous
	} else if n>>16 != p.generation {
		return nil
	}
	if i := int(n & 0xFFFF); i >= 1 && i <= len(list) {
		return &list[i-1]
	}
	return nil
}

func (p *deferrals) add(hash uint64, q *Deferral) uint32 {
	if len(p.list) == maxDeferrals {
		p.nextGeneration()
	}
	p.list = append(p.list, *q)
	n := p.generation<<16 | uint32(len(p.list))
	p.byCall[hash] = n
	return n
}

// Deferred counts the deferred calls recorded by replay.
func (d *Dispatcher) Deferred() int64 { return d.deferred.replayed }

// Deferral returns the call of a number, nil for none.
func (d *Dispatcher) Deferral(n uint32) *Deferral { return d.deferred.find(n) }

// Defer returns a number under which calls like c, the functional call just made, can be deferred; 0 if they cannot.
func (d *Dispatcher) Defer(c *Call, def *op.Def, operands, numbers []op.Val) uint32 {
	if d.traces.last == nil || !canDefer(def) {
		return 0
	}
	hash := d.traces.hash
	for _, s := range c.Scalars {
		if s.Kind == op.ScalarComplex { // a tensor among the operands, without a handle
			return 0
		}
		hash = op.HashWord(op.HashWord(hash, uint64(s.Kind)), s.Bits)
	}
	p := &d.deferred
	if n, ok := p.byCall[hash]; ok {
		if q := &p.find(n).call; q.Op == c.Op && slices.Equal(q.Ints, c.Ints) && slices.Equal(q.Scalars, c.Scalars) {
			return n
		}
		return 0
	}
	if !p.seen.seenBefore(hash) {
		return 0
	}
	if q := d.deferral(c, def, operands, numbers); q != nil {
		return p.add(hash, q)
	}
	return 0
}

// canDefer reports that d has one result, which follows from the operands' layouts. as_strided reads offsets too.
func canDefer(d *op.Def) bool {
	return len(d.Parsed.Results) == 1 && !d.Parsed.Results[0].List && !d.InPlaceOnly && !d.ReadsOffset
}

// deferral describes call c, whose cached trace was replayed last. It returns nil for a call that cannot be deferred:
// one with too many tensors, or with a primitive that checks index elements when it is recorded.
func (d *Dispatcher) deferral(c *Call, def *op.Def, operands, numbers []op.Val) *Deferral {
	t := d.traces.last
	if n := tensorsIn(c.In); n == 0 || n > MaxDeferredTensors || t.checksIndex {
		return nil
	}
	q := &Deferral{Def: def, trace: t, mode: t.key[1], operands: slices.Concat(operands, numbers), tensors: len(operands),
		call: Call{Op: c.Op, In: slices.Clone(c.In), Ints: slices.Clone(c.Ints), Scalars: slices.Clone(c.Scalars)}}
	for i, h := range c.In {
		if h != 0 && h != ScalarOperand {
			q.at = append(q.at, i)
		}
	}
	q.Taped = d.session.IsTaping() && slices.ContainsFunc(operands, func(v op.Val) bool { return v.Tape != 0 })
	return q
}

// tensorsIn counts the tensors among operands.
func tensorsIn(in []uint64) (n int) {
	for _, h := range in {
		if h != 0 && h != ScalarOperand {
			n++
		}
	}
	return n
}

// Call returns the call that c repeats, with the tensors of c. It is valid until the next Call.
func (q *Deferral) Call(c *DeferredCall) *Call {
	for k, i := range q.at {
		q.call.In[i] = c.In[k]
	}
	q.call.SourceLoc = c.SourceLoc
	return &q.call
}

// Repeat records the call on the tensors of c. ok is false if these or the modes differ from the first call's; the
// caller then calls the rule. The results are valid until the next call.
func (d *Dispatcher) Repeat(q *Deferral, c *DeferredCall) (outs []op.Val, ok bool, err *ir.Error) {
	t, s := &d.traces, d.session
	t.capture = nil
	if s.ModeKey() != q.mode {
		return nil, false, nil
	}
	t.regs = append(t.regs[:0], q.operands...)
	k := 0
	for i := range t.regs[:q.tensors] {
		want, v := &q.operands[i], &t.regs[i]
		if !want.IsTensor() {
			continue
		}
		if err := s.ResolveTo(c.In[k], v); err != nil {
			return nil, false, err
		}
		k++
		if v.Aval != want.Aval || v.Layout != want.Layout || v.Offset != want.Offset || (v.Tape != 0) != (want.Tape != 0) ||
			s.Duals(t.regs[i:i+1]) {
			return nil, false, nil
		}
	}
	d.deferred.replayed++
	return d.replay(q.trace), true, nil
}

// Operands returns the tensor operands of the call that Repeat recorded.
func (d *Dispatcher) Operands(q *Deferral) []op.Val { return d.traces.regs[:q.tensors] }
