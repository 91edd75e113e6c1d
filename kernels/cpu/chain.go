package cpu

// #include "cpu.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/torchlette/torchlette/kernels/kir"
)

// touch is an access of a map kernel to a buffer: of the elements of its own tile, of
// that width in bytes, or, with width 0, of others.
type touch struct {
	slot, width int
	offset      int // parameter that must be 0, -1 none
}

// links is what a map kernel reads and writes, where its tiles could be worked together
// with those of its neighbours.
type links struct {
	n, chunk      int64
	reads, writes []touch
}

// chainLeast is the number of tiles from which keeping them in the cache pays.
const chainLeast = 4

// links describes the kernel, or gives nil where its tiles depend on more than themselves.
func (e *emitter) links() *links {
	o := e.spaces[outer]
	if e.passes > 0 || e.serial || len(o.size) != 1 || o.numel() == 0 || o.tiles() < chainLeast {
		return nil
	}
	l := &links{n: o.size[0], chunk: o.chunk}
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
	t := touch{slot: e.slots[m.buf], offset: m.offset}
	if m.stride[outer][0] == 1 {
		t.width = m.typ.Size()
	}
	return t
}

// follows reports that l may join the chain: that buffers written by one member are seen by
// the others in the same tiles only.
func (l *links) follows(chain []*links) bool {
	if len(chain) == 0 {
		return true
	}
	if len(chain) == C.TL_CHAIN_MAX || chain[0].n != l.n || chain[0].chunk != l.chunk {
		return false
	}
	apart := func(written, seen []touch) bool {
		return !slices.ContainsFunc(written, func(w touch) bool {
			return slices.ContainsFunc(seen, func(t touch) bool { return t.slot == w.slot && t.width != w.width })
		})
	}
	for _, c := range chain {
		if !apart(c.writes, l.reads) || !apart(c.writes, l.writes) || !apart(l.writes, c.reads) {
			return false
		}
	}
	return true
}

// chain marks the runs of steps that are worked tile by tile; all has the links of each step.
func (p *program) chain(list []C.tl_step, all []*links) {
	for i := 0; i < len(list); {
		n := i
		for n < len(list) && all[n] != nil && all[n].follows(all[i:n]) {
			n++
		}
		if n-i > 1 {
			p.link(list[i:n], all[i:n])
		}
		i = max(n, i+1)
	}
}

// link makes a chain of the steps. What a later member reads is not stored past the caches.
func (p *program) link(list []C.tl_step, chain []*links) {
	list[0].chain = C.int32_t(len(list))
	has := func(l []touch, slot int) bool {
		return slices.ContainsFunc(l, func(t touch) bool { return t.slot == slot })
	}
	for i, l := range chain {
		var zero []C.int32_t
		for _, t := range append(slices.Clone(l.reads), l.writes...) {
			written := slices.ContainsFunc(chain, func(c *links) bool { return has(c.writes, t.slot) })
			if t.offset >= 0 && written {
				zero = append(zero, C.int32_t(t.offset))
			}
		}
		held := array[C.int32_t](p, len(zero))
		copy(held, zero)
		list[i].zero, list[i].nzero = first(held), C.int32_t(len(zero))
		k := list[i].kern
		for _, st := range unsafe.Slice(k.stage, int(k.nstage)) {
			for j := range unsafe.Slice(st.outer.at, int(st.outer.n)) {
				x := &unsafe.Slice(st.outer.at, int(st.outer.n))[j]
				if x.op != C.TL_STORE || x.imm == 0 {
					continue
				}
				buf := unsafe.Slice(k.affine, int(x.aux)+1)[x.aux].buf
				slot := int(unsafe.Slice(list[i].slot, int(list[i].nbuf))[buf])
				if slices.ContainsFunc(chain[i+1:], func(c *links) bool { return has(c.reads, slot) }) {
					x.imm = 0
				}
			}
		}
	}
}
