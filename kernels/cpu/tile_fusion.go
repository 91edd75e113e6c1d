package cpu

// #include "cpu.h"
import "C"

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// touch is an access of a map kernel to a buffer: of the elements of its own tile, of
// that width in bytes, or, with width 0, of others.
type touch struct {
	buf, width int
	offset     int // parameter that must be 0, -1 none
}

// links is what a map kernel reads and writes, where its tiles could be worked together
// with those of its neighbours.
type links struct {
	n             int64
	reads, writes []touch
	all           []touch // reads, then writes
}

// member is a step of a chain.
type member struct {
	*links
	slots []int // of its buffers
}

// chainLeast is the number of tiles from which keeping them in the cache pays.
const chainLeast = 4

// links describes the kernel, or gives nil where its tiles depend on more than themselves.
func (e *emitter) links() *links {
	o := e.spaces[outer]
	if e.passes > 0 || e.serial || len(o.size) != 1 || o.numel() == 0 || o.tiles() < chainLeast || len(e.slots) > maxNear {
		return nil
	}
	l := &links{n: o.size[0]}
	for i, x := range e.k.Exprs {
		if !e.live[i] {
			continue
		}
		switch x.Op {
		case loopir.OpLoad:
			l.reads = append(l.reads, e.touch(e.ofAccess[x.Imm]))
		case loopir.OpLoadAt:
			return nil
		}
	}
	for _, s := range e.k.Stages {
		if len(s.Checks) > 0 {
			return nil
		}
		for _, r := range s.Stores {
			if r.Access < 0 || r.Guard >= 0 || r.Mode != loopir.Set {
				return nil
			}
			w := e.touch(e.ofAccess[r.Access])
			if w.width == 0 {
				return nil
			}
			l.writes = append(l.writes, w)
		}
	}
	l.all = slices.Concat(l.reads, l.writes)
	return l
}

func (e *emitter) touch(n int) touch {
	m := e.maps[n]
	t := touch{buf: m.buf, offset: m.offset}
	if m.stride[outer][0] == 1 {
		t.width = m.typ.Size()
	}
	return t
}

// maxNear is the number of bits of tl_step.near.
const maxNear = 64

// trace is what a chain does with a buffer.
type trace struct {
	slot, width int
	written     bool
}

// follows reports that m may join a chain that has left these traces: that buffers written by one member are seen by
// the others in the same tiles only.
func (m member) follows(chain []trace) bool {
	for _, c := range chain {
		parts := func(t touch) bool { return m.slots[t.buf] == c.slot && t.width != c.width }
		if slices.ContainsFunc(m.writes, parts) || c.written && slices.ContainsFunc(m.reads, parts) {
			return false
		}
	}
	return true
}

// leave adds the traces of m.
func (m member) leave(chain []trace) []trace {
	for i, t := range m.all {
		if c := (trace{m.slots[t.buf], t.width, i >= len(m.reads)}); !slices.Contains(chain, c) {
			chain = append(chain, c)
		}
	}
	return chain
}

// chainsOf gives, by member, the last one of its chain.
func chainsOf(all []member) []int {
	ends := make([]int, len(all))
	var traces []trace
	for i := 0; i < len(all); {
		n := i + 1
		if all[i].links != nil {
			traces = all[i].leave(traces[:0])
			for ; n < len(all) && n-i < C.TL_CHAIN_MAX && all[n].links != nil && all[n].n == all[i].n &&
				all[n].follows(traces); n++ {
				traces = all[n].leave(traces)
			}
		}
		for ; i < n; i++ {
			ends[i] = n - 1
		}
	}
	return ends
}

// Chains implements device.TileFuser. The forms are kept until the next call or the end of the next Build, which needs
// most of them.
func (d *Device) FusionGroups(steps []device.Step, bytes []int64, inner []bool) (_ []int, err error) {
	draft := &program{dev: d}
	defer func() {
		d.draft.Release()
		if d.draft = draft; err != nil {
			draft.Release()
		}
	}()
	defer recovered(&err)
	all := make([]member, len(steps))
	for i := range steps {
		s := &steps[i]
		k, ok := s.Op.(*loopir.Kernel)
		if !ok || !mayLink(k, s.Params) {
			continue
		}
		f, err := d.formOf(draft, k, s)
		if err != nil {
			return nil, err
		}
		all[i] = member{f.links, s.Bufs}
	}
	ends := chainsOf(all)
	if inner != nil {
		keepInner(steps, all, ends, bytes, inner)
	}
	return ends, nil
}

// mayLink reports that links need be asked for: of a map of enough elements.
func mayLink(k *loopir.Kernel, params []device.Param) bool {
	if k.Inner > 0 || len(params) < k.Outer {
		return false
	}
	n := int64(1)
	for _, p := range params[:k.Outer] {
		n *= int64(p.Bits)
	}
	return n > (chainLeast-1)*tileLanes
}

// keepInner clears the marks of the slots that more than the tiles of one chain need.
func keepInner(steps []device.Step, all []member, ends []int, bytes []int64, inner []bool) {
	first, last := fill(len(inner), -1), fill(len(inner), -1)
	for i := range steps {
		for _, s := range steps[i].Bufs {
			if first[s] < 0 {
				first[s] = i
			}
			last[s] = i
		}
	}
	fits, misfits := make([]bool, len(inner)), make([]bool, len(inner))
	for i := 0; i < len(all); i = ends[i] + 1 {
		chain := all[i : ends[i]+1]
		if len(chain) == 1 || !alwaysHolds(chain, bytes) {
			continue
		}
		for _, m := range chain {
			for _, t := range m.all {
				s := m.slots[t.buf]
				if first[s] >= i && last[s] <= ends[i] && bytes[s] == m.n*int64(t.width) {
					fits[s] = true
				} else {
					misfits[s] = true
				}
			}
		}
	}
	for s := range inner {
		inner[s] = inner[s] && fits[s] && !misfits[s]
	}
}

// alwaysHolds reports that every member reads and writes what the chain writes from its beginning, whatever the offsets
// are: all of it.
func alwaysHolds(chain []member, bytes []int64) bool {
	for _, m := range chain {
		for _, t := range m.mustBegin(chain) {
			if bytes[m.slots[t.buf]] != m.n*int64(t.width) {
				return false
			}
		}
	}
	return true
}

// mustBegin lists the touches whose offset must be 0: those of buffers that the chain writes.
func (m member) mustBegin(chain []member) (l []touch) {
	for _, t := range m.all {
		if t.offset >= 0 && slices.ContainsFunc(chain, func(c member) bool { return c.has(c.writes, m.slots[t.buf]) }) {
			l = append(l, t)
		}
	}
	return l
}

func (m member) has(l []touch, slot int) bool {
	return slices.ContainsFunc(l, func(t touch) bool { return m.slots[t.buf] == slot })
}

// chain marks the runs of steps that are worked tile by tile.
func (p *program) chain(steps []device.Step, list []C.tl_step, forms []*kernelCode) {
	all := make([]member, len(list))
	for i, f := range forms {
		if f != nil {
			all[i] = member{f.links, steps[i].Bufs}
		}
	}
	ends := chainsOf(all)
	for i := 0; i < len(list); i = ends[i] + 1 {
		if n := ends[i] + 1; n-i > 1 {
			p.link(list[i:n], all[i:n])
			p.tiles(list[i:n], all[i:n])
		} else if slices.ContainsFunc(steps[i].Bufs, func(s int) bool { return s >= len(p.slots) }) {
			panic(fmt.Sprintf("BUG: cpu: step %d, in no chain, has a slot of %v without a buffer: there are %d", i,
				steps[i].Bufs, len(p.slots)))
		}
	}
}

// link makes a chain of the steps. What a later member reads, and what has no buffer, is not stored past the caches.
func (p *program) link(list []C.tl_step, chain []member) {
	list[0].chain = C.int32_t(len(list))
	for i, m := range chain {
		begin := m.mustBegin(chain)
		zero := array[C.int32_t](&p.mem, len(begin))
		for n, t := range begin {
			zero[n] = C.int32_t(t.offset)
		}
		list[i].zero, list[i].nzero = first(zero), C.int32_t(len(zero))
		for _, t := range m.writes {
			slot := m.slots[t.buf]
			if slot >= len(p.slots) || slices.ContainsFunc(chain[i+1:], func(c member) bool { return c.has(c.reads, slot) }) {
				list[i].near |= 1 << t.buf
			}
		}
	}
}

// tile is where a worker's scratch has the tile of a value without a buffer, in bytes, -1 while it has none; last is
// the last member that touches it.
type tile struct {
	at          int64
	width, last int
}

// tileLifetimes gives the values of a chain that have no buffer, each with the last step that uses it, and the lanes of
// a tile.
func (p *program) tileLifetimes(list []C.tl_step, chain []member) (values map[int]*tile, lanes int64) {
	values = map[int]*tile{}
	for i, m := range chain {
		lanes = max(lanes, int64(list[i].kern.outer.chunk))
		for _, t := range m.all {
			slot := m.slots[t.buf]
			if slot < len(p.slots) {
				continue
			}
			if values[slot] == nil {
				values[slot] = &tile{at: -1, width: t.width}
			}
			values[slot].last = i
		}
	}
	return values, lanes
}

// tiles gives the values of a chain that have no buffer places in a worker's scratch, those of dead ones where there
// are such.
func (p *program) tiles(list []C.tl_step, chain []member) {
	values, lanes := p.tileLifetimes(list, chain)
	free, end := map[int][]int64{}, int64(0) // free: by width
	for i, m := range chain {
		var own []C.tl_tile
		for b, slot := range m.slots {
			v := values[slot]
			if v == nil {
				continue
			}
			if f := free[v.width]; v.at < 0 && len(f) > 0 {
				v.at, free[v.width] = f[len(f)-1], f[:len(f)-1]
			} else if v.at < 0 {
				v.at = end
				end += (lanes*int64(v.width)+63)&^63 + slotGap
			}
			own = append(own, C.tl_tile{buf: C.int32_t(b), width: C.int32_t(v.width), at: C.int64_t(v.at)})
		}
		for _, slot := range m.slots {
			if v := values[slot]; v != nil && v.last == i {
				free[v.width] = append(free[v.width], v.at)
				delete(values, slot)
			}
		}
		laid := array[C.tl_tile](&p.mem, len(own))
		copy(laid, own)
		list[i].tile, list[i].ntile = first(laid), C.int32_t(len(laid))
	}
	list[0].tiles = C.int64_t(end)
}
