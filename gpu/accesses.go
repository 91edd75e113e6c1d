package gpu

import (
	"math"
	"slices"
	"sort"
)

// access is an access of a step to a range of bytes of a slot.
type access struct {
	step   int
	lo, hi int64
	write  bool
}

// conflicts reports that the order of two accesses of one slot matters.
func (t *access) conflicts(o *access) bool {
	return (t.write || o.write) && t.lo < o.hi && o.lo < t.hi
}

// accesses are those of one slot that a further step may have to wait for.
type accesses struct {
	reads, writes ranges
	looked        int // how many accesses were compared so far
}

// ranges are accesses of one kind in the order of their first bytes. None is longer than longest.
type ranges struct {
	list    []access
	longest int64
}

// note adds an access, and calls before with the steps that its step must wait for. A write that covers accesses takes
// their place: whoever would wait for those waits for it.
func (a *accesses) note(t access, before func(step int)) {
	a.look(&a.writes, &t, before)
	if !t.write {
		a.reads.add(t)
		return
	}
	a.look(&a.reads, &t, before)
	a.writes.add(t)
}

// look compares t with the accesses that may overlap it.
func (a *accesses) look(r *ranges, t *access, before func(step int)) {
	first := math.MinInt64 + r.longest
	if t.lo >= first {
		first = t.lo - r.longest
	}
	from := sort.Search(len(r.list), func(i int) bool { return r.list[i].lo >= first })
	to := sort.Search(len(r.list), func(i int) bool { return r.list[i].lo >= t.hi })
	kept := from
	for i := from; i < to; i++ {
		o := r.list[i]
		a.looked++
		if o.step != t.step && o.conflicts(t) {
			before(o.step)
			if t.write && t.lo <= o.lo && o.hi <= t.hi {
				continue
			}
		}
		r.list[kept] = o
		kept++
	}
	if kept < to {
		r.list = slices.Delete(r.list, kept, to)
	}
}

// add puts an access behind those that begin before it or where it does.
func (r *ranges) add(t access) {
	at := sort.Search(len(r.list), func(i int) bool { return r.list[i].lo > t.lo })
	r.list = slices.Insert(r.list, at, t)
	r.longest = max(r.longest, t.hi-t.lo)
}
