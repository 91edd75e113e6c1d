package engine

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/live"
	"github.com/torchlette/torchlette/engine/op"
)

// MaxQueuedTensors bounds the tensor operands of a promised call.
const MaxQueuedTensors = 4

// Queued is a call that Out.Promise promised to record: an operator on tensors of the same
// layouts, dtypes, devices and gradient flags, with the same integers and numbers, in the same
// modes. Its result is known before it is recorded, so that the caller need not enter the
// engine for it: Record takes many such calls at once. It has the memory layout of tl_queued.
type Queued struct {
	Promise uint32
	Site    uint32
	Handle  uint64 // reserved by Reserve; it becomes the result's
	In      [MaxQueuedTensors]uint64
}

const maxPromises = 1 << 13

// promises are the calls that were promised. A number is an era and an index. A new era begins when the list is
// full; numbers of the one before still count, for calls may be queued under them, and older ones are void.
type promises struct {
	list   []promised
	former []promised
	byCall map[uint64]uint32
	seen   live.Seen // only calls met twice are promised
	era    uint32
	kept   int64 // promised calls recorded by their recipes
}

type promised struct {
	*live.Promise
	def  *op.Def
	call Call  // of the first such call; In names the tensors of the call in hand
	at   []int // where the tensors are in call.In
}

// turn begins a new era.
func (p *promises) turn() {
	p.former, p.list, p.byCall = p.list, nil, map[uint64]uint32{}
	p.era = (p.era + 1) & 0xFFFF
}

// forget voids every promise.
func (p *promises) forget() {
	p.turn()
	p.former = nil
}

// find gives the call that number n names.
func (p *promises) find(n uint32) *promised {
	list := p.list
	if n>>16 == (p.era-1)&0xFFFF {
		list = p.former
	} else if n>>16 != p.era {
		return nil
	}
	if i := int(n & 0xFFFF); i >= 1 && i <= len(list) {
		return &list[i-1]
	}
	return nil
}

// promise gives the number for the functional call just recorded, 0 where there is none.
func (e *Engine) promise(c *Call, d *op.Def) uint32 {
	if !promisable(d) || e.factories[d.ID] >= 0 {
		return 0
	}
	hash, known := e.s.LastCall()
	if !known {
		return 0
	}
	for _, s := range c.Scalars {
		hash = (hash^uint64(s.Kind)^s.Bits)*0x9E3779B97F4A7C15 + 1
	}
	p := &e.promises
	if n, ok := p.byCall[hash]; ok {
		if q := p.find(n); q.call.Op == c.Op && slices.Equal(q.call.Ints, c.Ints) && slices.Equal(q.call.Scalars, c.Scalars) {
			return n
		}
		return 0
	}
	if !p.seen.Met(hash) {
		return 0
	}
	return p.add(hash, c, d, e.s.Promise(e.args.In, e.args.Scalars))
}

// promisable reports operators with one result that their operands' layouts decide. as_strided looks at offsets too.
func promisable(d *op.Def) bool {
	return len(d.Parsed.Results) == 1 && !d.Parsed.Results[0].List && !d.InPlaceOnly && d.Parsed.Name != "as_strided"
}

func (p *promises) add(hash uint64, c *Call, d *op.Def, l *live.Promise) uint32 {
	if l == nil {
		return 0
	}
	q := promised{Promise: l, def: d, call: Call{Op: c.Op, In: slices.Clone(c.In), Ints: slices.Clone(c.Ints), Scalars: slices.Clone(c.Scalars)}}
	for i, h := range c.In {
		if h != 0 && h != operandMarker {
			q.at = append(q.at, i)
		}
	}
	if len(q.at) == 0 || len(q.at) > MaxQueuedTensors {
		return 0
	}
	if len(p.list) == maxPromises {
		p.turn()
	}
	p.list = append(p.list, q)
	n := p.era<<16 | uint32(len(p.list))
	p.byCall[hash] = n
	return n
}

// Reserve gives out handles for the results of promised calls.
func (e *Engine) Reserve(hs []uint64) {
	e.enter()
	e.s.Reserve(hs)
	e.leave()
}

// Record records promised calls in order, then releases the handles in drop. A call that fails all the same
// leaves its handle unusable; its error is raised at the next boundary.
func (e *Engine) Record(calls []Queued, drop []uint64) {
	e.enter()
	e.record(calls)
	for _, h := range drop {
		e.s.Release(h)
	}
	e.netAndUnlock()
}

func (e *Engine) record(calls []Queued) {
	for len(calls) > 0 {
		calls = calls[e.recordUntilError(calls):]
	}
	e.s.Drain()
}

// recordUntilError gives the number of calls that are done with, the failing one included.
func (e *Engine) recordUntilError(calls []Queued) (n int) {
	var err *ir.Error
	defer func() {
		e.s.T.From = autograd.Source{}
		if r := recover(); r != nil {
			err = e.recovered(r)
			n++
		}
		if err != nil && e.deferred == nil {
			e.deferred = err
			if err.Site == 0 {
				err.Site = calls[n-1].Site
			}
		}
	}()
	for n < len(calls) && err == nil {
		err = e.recordQueued(&calls[n])
		n++
	}
	return n
}

func (e *Engine) recordQueued(q *Queued) *ir.Error {
	if e.poison != nil {
		return e.poisoned()
	}
	p := e.promises.find(q.Promise)
	if p == nil {
		return ir.Errorf(ir.ErrHandle, "promise %#x: no such call was promised", q.Promise)
	}
	for k, i := range p.at {
		p.call.In[i] = q.In[k]
	}
	e.atSite(q.Site)
	e.s.Taping(e.s.GradMode && !e.s.Inference)
	if p.Taped {
		e.s.T.From = e.source(&p.call, false)
	}
	vals, ok, err := e.s.Fulfil(p.Promise, q.In[:len(p.at)])
	if err != nil {
		return err
	}
	if err := e.s.Fill(q.Handle); err != nil {
		return err
	}
	if !ok {
		var out [1]Out
		p.call.Site = q.Site
		_, err := e.op(&p.call, out[:])
		return err
	}
	v := &vals[0]
	if v.Base != 0 {
		e.args.In = append(e.args.In[:0], e.s.Operands(p.Promise)...)
		e.handedThrough(p.def, v)
	}
	e.s.Wrap(v, p.call.In)
	e.promises.kept++
	return nil
}
