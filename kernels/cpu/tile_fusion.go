package cpu

// #include "vector/cpu.h"
import "C"

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// access is an access of a map kernel to a buffer. width is the bytes of an element if a tile accesses exactly its own
// elements, else 0.
type access struct {
	buf, width int
	offset     int // the parameter that is the offset; -1: the offset is 0
}

// tileAccess describes the reads and writes of a map kernel. Kernels that have one may join tile groups.
type tileAccess struct {
	n             int64
	reads, writes []access
	all           []access // reads, then writes
}

// member is a step of a tile group.
type member struct {
	*tileAccess
	slots []int // of its buffers
}

// groupLeast is the least number of tiles for which a tile group pays.
const groupLeast = 4

// tileAccess describes the kernel. It returns nil if a tile depends on elements outside of itself.
func (e *emitter) tileAccess() *tileAccess {
	o := e.spaces[outer]
	if e.passes > 0 || e.serial || len(o.size) != 1 || o.numel() == 0 || o.tiles() < groupLeast ||
		len(e.slots) > maxCached {
		return nil
	}
	l := &tileAccess{n: o.size[0]}
	for i, x := range e.k.Exprs {
		if !e.live[i] {
			continue
		}
		switch x.Op {
		case loopir.OpLoad:
			l.reads = append(l.reads, e.access(e.ofAccess[x.Imm]))
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
			w := e.access(e.ofAccess[r.Access])
			if w.width == 0 {
				return nil
			}
			l.writes = append(l.writes, w)
		}
	}
	l.all = slices.Concat(l.reads, l.writes)
	return l
}

func (e *emitter) access(n int) access {
	m := e.maps[n]
	t := access{buf: m.buf, offset: m.offset}
	if m.stride[outer][0] == 1 {
		t.width = m.typ.Size()
	}
	return t
}

// maxCached is the number of bits of tl_step.cached.
const maxCached = 64

// footprint is one way in which a tile group uses a buffer.
type footprint struct {
	slot, width int
	written     bool
}

// canFollow reports that m may join a group with this footprint. If one member writes a buffer, all others must access
// it in the same tiles.
func (m member) canFollow(group []footprint) bool {
	for _, c := range group {
		parts := func(t access) bool { return m.slots[t.buf] == c.slot && t.width != c.width }
		if slices.ContainsFunc(m.writes, parts) || c.written && slices.ContainsFunc(m.reads, parts) {
			return false
		}
	}
	return true
}

// addTo adds m's accesses to the footprint.
func (m member) addTo(group []footprint) []footprint {
	for i, t := range m.all {
		if c := (footprint{m.slots[t.buf], t.width, i >= len(m.reads)}); !slices.Contains(group, c) {
			group = append(group, c)
		}
	}
	return group
}

// groupsOf returns, for each member, the index of the last member of its group.
func groupsOf(all []member) []int {
	ends := make([]int, len(all))
	var footprint []footprint
	for i := 0; i < len(all); {
		n := i + 1
		if all[i].tileAccess != nil {
			footprint = all[i].addTo(footprint[:0])
			for ; n < len(all) && n-i < C.TLK_GROUP_MAX && all[n].tileAccess != nil && all[n].n == all[i].n &&
				all[n].canFollow(footprint); n++ {
				footprint = all[n].addTo(footprint)
			}
		}
		for ; i < n; i++ {
			ends[i] = n - 1
		}
	}
	return ends
}

// FusionGroups implements device.TileFuser. The next Build needs most of the code that it compiles, so that is kept
// until that Build, or the next call of FusionGroups, ends.
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
		if !ok || !mayFuse(k, s.Params) {
			continue
		}
		f, err := d.codeOf(draft, k, s, 0)
		if err != nil {
			return nil, err
		}
		all[i] = member{f.tileAccess, s.Bufs}
	}
	ends := groupsOf(all)
	if inner != nil {
		keepInner(steps, all, ends, bytes, inner)
	}
	return ends, nil
}

// mayFuse reports that a kernel is a map with enough elements for a group, so that its accesses are worth finding.
func mayFuse(k *loopir.Kernel, params []device.Param) bool {
	if k.Inner > 0 || len(params) < k.Outer {
		return false
	}
	n := int64(1)
	for _, p := range params[:k.Outer] {
		n *= int64(p.Bits)
	}
	return n > (groupLeast-1)*tileLanes
}

// keepInner keeps the mark in inner only for slots that the tiles of a single group use, and nothing else.
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
		group := all[i : ends[i]+1]
		if len(group) == 1 || !alwaysFuses(group, bytes) {
			continue
		}
		for _, m := range group {
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

// alwaysFuses reports that the group runs tile by tile in every run. It does if each access whose offset must be 0
// covers its whole buffer, since then the offset is 0.
func alwaysFuses(group []member, bytes []int64) bool {
	for _, m := range group {
		for _, t := range m.zeroOffsets(group) {
			if bytes[m.slots[t.buf]] != m.n*int64(t.width) {
				return false
			}
		}
	}
	return true
}

// zeroOffsets lists m's accesses to buffers that the group writes. Their offsets must be 0 for the group to run tile by
// tile.
func (m member) zeroOffsets(group []member) (l []access) {
	for _, t := range m.all {
		if t.offset >= 0 && slices.ContainsFunc(group, func(c member) bool { return c.has(c.writes, m.slots[t.buf]) }) {
			l = append(l, t)
		}
	}
	return l
}

func (m member) has(l []access, slot int) bool {
	return slices.ContainsFunc(l, func(t access) bool { return m.slots[t.buf] == slot })
}

// fuse makes tile groups of consecutive steps.
func (p *program) fuse(steps []device.Step, list []C.tl_step, forms []*kernelCode) {
	all := make([]member, len(list))
	for i, f := range forms {
		if f != nil {
			all[i] = member{f.tileAccess, steps[i].Bufs}
		}
	}
	ends := groupsOf(all)
	for i := 0; i < len(list); i = ends[i] + 1 {
		if n := ends[i] + 1; n-i > 1 {
			p.fuseGroup(list[i:n], all[i:n])
			p.tiles(list[i:n], all[i:n])
		} else if slices.ContainsFunc(steps[i].Bufs, func(s int) bool { return s >= len(p.slots) }) {
			panic(fmt.Sprintf("BUG: cpu: step %d, in no group, has a slot of %v without a buffer: there are %d", i,
				steps[i].Bufs, len(p.slots)))
		}
	}
}

// fuseGroup makes a group of the steps. Values without a buffer, and values that a later member reads, are stored
// through the caches.
func (p *program) fuseGroup(list []C.tl_step, group []member) {
	list[0].group = C.int32_t(len(list))
	for i, m := range group {
		begin := m.zeroOffsets(group)
		zero := array[C.int32_t](&p.mem, len(begin))
		for n, t := range begin {
			zero[n] = C.int32_t(t.offset)
		}
		list[i].zero, list[i].nzero = first(zero), C.int32_t(len(zero))
		for _, t := range m.writes {
			slot := m.slots[t.buf]
			if slot >= len(p.slots) || slices.ContainsFunc(group[i+1:], func(c member) bool { return c.has(c.reads, slot) }) {
				list[i].cached |= 1 << t.buf
			}
		}
	}
}

// tile is a value without a buffer. It lies at byte `at` of a worker's scratch; -1: it has no place yet. last is the
// last member that uses it.
type tile struct {
	at          int64
	width, last int
}

// tileLifetimes returns the values of a group that have no buffer, by slot, and the lanes of a tile.
func (p *program) tileLifetimes(list []C.tl_step, group []member) (values map[int]*tile, lanes int64) {
	values = map[int]*tile{}
	for i, m := range group {
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

// tiles gives each value of a group that has no buffer a place in a worker's scratch. Values that are never live
// together share a place.
func (p *program) tiles(list []C.tl_step, group []member) {
	values, lanes := p.tileLifetimes(list, group)
	free, end := map[int][]int64{}, int64(0) // free: by width
	for i, m := range group {
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
