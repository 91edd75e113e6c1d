package engine

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// MaxQueuedTensors bounds the tensor operands of a deferred call.
const MaxDeferredTensors = 4

// Queued is a call that Out.Promise promised to record: an operator on tensors of the same
// layouts, dtypes, devices and gradient flags, with the same integers and numbers, in the same
// modes. Its result is known before it is recorded, so that the caller need not enter the
// engine for it: Record takes many such calls at once. It has the memory layout of tl_deferred.
type DeferredCall struct {
	DeferID   uint32
	SourceLoc uint32
	Handle    uint64 // reserved by Reserve; it becomes the result's
	In        [MaxDeferredTensors]uint64
}

const maxDeferred = 1 << 13

// promises are the calls that were promised. A number is an era and an index. A new era begins when the list is
// full; numbers of the one before still count, for calls may be queued under them, and older ones are void.
type deferredCalls struct {
	list       []deferredCall
	previous   []deferredCall
	byCall     map[uint64]uint32
	seen       lazy.SeenCalls // only calls met twice are promised
	generation uint32
	replayed   int64 // deferred calls recorded by their cached traces
}

type deferredCall struct {
	*lazy.DeferredCall
	def  *op.Def
	call Call  // of the first such call; In names the tensors of the call in hand
	at   []int // where the tensors are in call.In
}

// turn begins a new era.
func (p *deferredCalls) nextGeneration() {
	p.previous, p.list, p.byCall = p.list, nil, map[uint64]uint32{}
	p.generation = (p.generation + 1) & 0xFFFF
}

// forget voids every promise.
func (p *deferredCalls) forget() {
	p.nextGeneration()
	p.previous = nil
}

// find gives the call that number n names.
func (p *deferredCalls) find(n uint32) *deferredCall {
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

// promise gives the number for the functional call just recorded, 0 where there is none.
func (e *Engine) deferCall(c *Call, d *op.Def) uint32 {
	if !canDefer(d) || e.factories[d.ID] >= 0 {
		return 0
	}
	hash, known := e.session.LastTrace()
	if !known {
		return 0
	}
	for _, s := range c.Scalars {
		hash = (hash^uint64(s.Kind)^s.Bits)*0x9E3779B97F4A7C15 + 1
	}
	p := &e.deferredCalls
	if n, ok := p.byCall[hash]; ok {
		if q := p.find(n); q.call.Op == c.Op && slices.Equal(q.call.Ints, c.Ints) && slices.Equal(q.call.Scalars, c.Scalars) {
			return n
		}
		return 0
	}
	if !p.seen.SeenBefore(hash) {
		return 0
	}
	return p.add(hash, c, d, e.session.Defer(e.args.In, e.args.Scalars))
}

// canDefer reports operators with one result that their operands' layouts decide. as_strided looks at offsets too.
func canDefer(d *op.Def) bool {
	return len(d.Parsed.Results) == 1 && !d.Parsed.Results[0].List && !d.InPlaceOnly && !d.ReadsOffset
}

func (p *deferredCalls) add(hash uint64, c *Call, d *op.Def, l *lazy.DeferredCall) uint32 {
	if l == nil {
		return 0
	}
	q := deferredCall{DeferredCall: l, def: d, call: Call{Op: c.Op, In: slices.Clone(c.In), Ints: slices.Clone(c.Ints),
		Scalars: slices.Clone(c.Scalars)}}
	for i, h := range c.In {
		if h != 0 && h != operandMarker {
			q.at = append(q.at, i)
		}
	}
	if len(q.at) == 0 || len(q.at) > MaxDeferredTensors {
		return 0
	}
	if len(p.list) == maxDeferred {
		p.nextGeneration()
	}
	p.list = append(p.list, q)
	n := p.generation<<16 | uint32(len(p.list))
	p.byCall[hash] = n
	return n
}

// Reserve gives out handles for the results of deferred calls.
func (e *Engine) Reserve(hs []uint64) {
	defer e.leave(nil)
	e.enter()
	e.session.Reserve(hs)
}

// Record records deferred calls in order, then releases the handles in drop. A call that fails all the same
// leaves its handle unusable; its error is raised at the next boundary.
func (e *Engine) Record(calls []DeferredCall, drop []uint64) {
	defer e.leave(nil)
	e.enter()
	e.record(calls)
	for _, h := range drop {
		e.session.Release(h)
	}
	e.recorded()
}

func (e *Engine) record(calls []DeferredCall) {
	for len(calls) > 0 {
		calls = calls[e.recordUntilError(calls):]
	}
	e.session.Drain()
}

// recordUntilError gives the number of calls that are done with, the failing one included.
func (e *Engine) recordUntilError(calls []DeferredCall) (n int) {
	var err *ir.Error
	defer func() {
		if r := recover(); r != nil {
			e.mend(r)
			err = caught(r)
			n++
		}
		e.session.Tape.From = autograd.Source{}
		if err != nil && e.pendingError == nil {
			e.pendingError = err
			if err.SourceLoc == 0 {
				err.SourceLoc = calls[n-1].SourceLoc
			}
		}
	}()
	for n < len(calls) && err == nil {
		err = e.recordDeferred(&calls[n])
		n++
	}
	return n
}

func (e *Engine) recordDeferred(q *DeferredCall) *ir.Error {
	if e.poison != nil {
		return e.poisoned()
	}
	p := e.deferredCalls.find(q.DeferID)
	if p == nil {
		return ir.Errorf(ir.ErrHandle, "promise %#x: no such call was promised", q.DeferID)
	}
	for k, i := range p.at {
		p.call.In[i] = q.In[k]
	}
	e.atSourceLoc(q.SourceLoc)
	e.session.Taping(e.session.GradMode && !e.session.Inference)
	if p.Taped {
		e.session.Tape.From = e.source(&p.call, false)
	}
	vals, ok, err := e.session.RecordDeferred(p.DeferredCall, q.In[:len(p.at)])
	if err != nil {
		return err
	}
	if err := e.session.Fill(q.Handle); err != nil {
		return err
	}
	if !ok {
		var out [1]Out
		p.call.SourceLoc = q.SourceLoc
		_, err := e.op(&p.call, out[:])
		return err
	}
	v := &vals[0]
	if v.Base != 0 {
		e.args.In = append(e.args.In[:0], e.session.Operands(p.DeferredCall)...)
		e.returnsInput(p.def, v)
	}
	e.session.Wrap(v, p.call.In)
	e.deferredCalls.replayed++
	return nil
}
