package cpu

// #include "cpu.h"
import "C"

import (
	"slices"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/kernels/kir"
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
		case kir.OpLoad:
			l.reads = append(l.reads, e.touch(e.ofAccess[x.Imm]))
		case kir.OpLoadAt:
			return nil
		}
	}
	for _, s := range e.k.Stages {
		if len(s.Checks) > 0 {
			return nil
		}
		for _, r := range s.Stores {
			if r.Access < 0 || r.Guard >= 0 || r.Mode != kir.Set {
				return nil
			}
			w := e.touch(e.ofAccess[r.Access])
			if w.width == 0 {
				return nil
			}
			l.writes = append(l.writes, w)
		}
	}
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

// follows reports that m may join the chain: that buffers written by one member are seen by
// the others in the same tiles only.
func (m member) follows(chain []member) bool {
	if m.links == nil || len(chain) == 0 {
		return m.links != nil
	}
	if len(chain) == C.TL_CHAIN_MAX || chain[0].n != m.n {
		return false
	}
	apart := func(w member, written []touch, s member, seen []touch) bool {
		return !slices.ContainsFunc(written, func(x touch) bool {
			return slices.ContainsFunc(seen, func(y touch) bool { return s.slots[y.buf] == w.slots[x.buf] && x.width != y.width })
		})
	}
	for _, c := range chain {
		if !apart(c, c.writes, m, m.reads) || !apart(c, c.writes, m, m.writes) || !apart(m, m.writes, c, c.reads) {
			return false
		}
	}
	return true
}

// chain marks the runs of steps that are worked tile by tile.
func (p *program) chain(steps []device.Step, list []C.tl_step, forms []*form) {
	all := make([]member, len(list))
	for i, f := range forms {
		if f != nil {
			all[i] = member{f.links, steps[i].Bufs}
		}
	}
	for i := 0; i < len(list); {
		n := i
		for n < len(list) && all[n].follows(all[i:n]) {
			n++
		}
		if n-i > 1 {
			p.link(list[i:n], all[i:n])
		}
		i = max(n, i+1)
	}
}

// link makes a chain of the steps. What a later member reads is not stored past the caches.
func (p *program) link(list []C.tl_step, chain []member) {
	list[0].chain = C.int32_t(len(list))
	has := func(m member, l []touch, slot int) bool {
		return slices.ContainsFunc(l, func(t touch) bool { return m.slots[t.buf] == slot })
	}
	for i, m := range chain {
		var zero []C.int32_t
		for _, t := range slices.Concat(m.reads, m.writes) {
			written := slices.ContainsFunc(chain, func(c member) bool { return has(c, c.writes, m.slots[t.buf]) })
			if t.offset >= 0 && written {
				zero = append(zero, C.int32_t(t.offset))
			}
		}
		held := array[C.int32_t](&p.mem, len(zero))
		copy(held, zero)
		list[i].zero, list[i].nzero = first(held), C.int32_t(len(zero))
		for _, t := range m.writes {
			if slices.ContainsFunc(chain[i+1:], func(c member) bool { return has(c, c.reads, m.slots[t.buf]) }) {
				list[i].near |= 1 << t.buf
			}
		}
	}
}
