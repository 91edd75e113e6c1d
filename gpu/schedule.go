package gpu

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpuir"
)

// scheduler orders the steps of a program and finds those that share a dispatch. The first step not yet placed leads a
// dispatch. Steps of its variant that depend on nothing unplaced join it.
//
// Dispatches between two barriers run side by side: they are a wave. Before a step that must wait for the wave, the
// scheduler places later steps that need not wait.
type scheduler struct {
	d      *Device
	steps  []step
	waits  []int   // how many unplaced steps a step depends on
	next   [][]int // steps that depend on a step
	placed []bool
	ready  map[[2]variantKey][]int // steps that may join a dispatch, by their variants, in order
	wave   int
	waves  int   // number of waves so far that launch something
	filled int   // the last of these waves
	after  []int // by step: the last wave with a step that it depends on
	out    []step
}

// lookAhead bounds, in steps, how far ahead a wave takes steps from. Steps from further on would not find their
// operands in the cache, and would later be missing where they could be merged.
const lookAhead = 16

// schedule merges independent steps of one variant into dispatches and fills waves. It returns the new list of steps
// and the number of waves.
func (d *Device) schedule(steps []step, slots int) ([]step, int) {
	s := &scheduler{d: d, steps: steps, waits: make([]int, len(steps)), next: make([][]int, len(steps)),
		placed: make([]bool, len(steps)),
		ready:  map[[2]variantKey][]int{}, wave: 1, after: make([]int, len(steps))}
	s.depend(slots)
	for i := range steps {
		if s.waits[i] == 0 {
			s.enter(i)
		}
	}
	for i := range steps {
		if s.placed[i] {
			continue
		}
		if s.behindBarrier(i) {
			s.fillWave(i)
			s.wave++
		}
		s.dispatch(s.gather(i))
	}
	return s.out, s.waves
}

// behindBarrier reports that step i must wait for the wave. Copies and fills do so too, since they end the encoder's
// pass.
func (s *scheduler) behindBarrier(i int) bool {
	return s.after[i] == s.wave || !s.steps[i].launches()
}

// fillWave adds steps soon after i to the wave that depend on none of its steps.
func (s *scheduler) fillWave(i int) {
	for j := i + 1; j < min(len(s.steps), i+1+lookAhead); j++ {
		if s.placed[j] || s.waits[j] > 0 || s.behindBarrier(j) {
			continue
		}
		if members := s.gather(j); !slices.ContainsFunc(members, s.behindBarrier) {
			s.dispatch(members)
		}
	}
}

// dispatch places steps as one dispatch.
func (s *scheduler) dispatch(members []int) {
	if slices.ContainsFunc(members, s.behindBarrier) {
		s.wave++
	}
	if s.steps[members[0]].launches() && s.filled < s.wave {
		s.waves, s.filled = s.waves+1, s.wave
	}
	for _, m := range members {
		s.place(m)
	}
	if len(members) == 1 {
		s.out = append(s.out, s.steps[members[0]])
		return
	}
	s.out = append(s.out, s.join(members))
}

// depend finds the steps whose order must be kept.
func (s *scheduler) depend(slots int) {
	accessed := make([]accesses, slots+scratchMemories) // scratch memory comes after the slots
	checked := -1
	for i := range s.steps {
		st := &s.steps[i]
		before := map[int]bool{}
		note := func(slot int, t access) {
			t.step = i
			accessed[slot].note(t, func(o int) { before[o] = true })
		}
		for b, slot := range st.Bufs {
			note(slot, st.access(b, s.d))
		}
		if st.passes > 1 {
			note(slots+st.passScratch, access{hi: math.MaxInt64, write: true})
		}
		// The error word keeps the first error, so checking steps stay in order.
		if st.checks {
			if checked >= 0 {
				before[checked] = true
			}
			checked = i
		}
		s.waits[i] = len(before)
		for j := range before {
			s.next[j] = append(s.next[j], i)
		}
	}
}

// access bounds what st accesses of its buffer b: all of it where addresses are computed or an offset comes at run
// time.
func (st *step) access(b int, d *Device) access {
	all := access{hi: math.MaxInt64, write: st.writes(b)}
	if st.code == nil || st.window.size != 0 || st.reach[b].hi < 0 || st.reach[b].moves {
		return all
	}
	width := int64(d.caps.Storage[st.buffers[b].Type])
	return access{lo: st.reach[b].lo * width, hi: st.reach[b].hi * width, write: all.write}
}

// enter notes that step i waits for nothing.
func (s *scheduler) enter(i int) {
	st := &s.steps[i]
	if st.groups == 0 || st.checks || st.window.size != 0 || st.passes > 1 {
		return // nothing to launch, or nothing to merge
	}
	if !st.code.merges(st.groups) {
		return
	}
	list := s.ready[st.variants]
	at, _ := slices.BinarySearch(list, i)
	s.ready[st.variants] = slices.Insert(list, at, i)
}

func (s *scheduler) place(i int) {
	s.placed[i] = true
	key := s.steps[i].variants
	if at, found := slices.BinarySearch(s.ready[key], i); found {
		s.ready[key] = slices.Delete(s.ready[key], at, at+1)
	}
	for _, j := range s.next[i] {
		s.after[j] = s.wave
		if s.waits[j]--; s.waits[j] == 0 {
			s.enter(j)
		}
	}
}

// gather lists the members of the dispatch that step i leads: a power of two, so that a kernel has few merged variants.
func (s *scheduler) gather(i int) []int {
	list := s.ready[s.steps[i].variants]
	at, found := slices.BinarySearch(list, i)
	if !found || len(list) == 1 {
		return []int{i}
	}
	b := batch{s: s, first: i, written: map[int]bool{}, read: map[int]bool{}, most: s.most(i)}
	for _, j := range list[at:] { // steps before i wait for a barrier
		if b.add(j); len(b.members) == b.most {
			break
		}
	}
	n := 1
	for 2*n <= len(b.members) {
		n *= 2
	}
	if brief := s.brief(i); n > brief {
		s.d.brief.chosen, n = true, brief
	}
	return b.members[:n]
}

// maxMergedStatements bounds the text of a merged program, since compiling takes time; briefMerged does so for programs
// that a run waits for.
const (
	maxMergedStatements = 1536
	briefMerged         = 256
)

// most is the number of members that the device's limits allow where no buffer is shared.
func (s *scheduler) most(i int) int {
	st := &s.steps[i]
	p := s.d.procs[st.variants[0]][0]
	words := int64(4 * (2*len(p.Params) + 1)) // a 64-bit scalar takes two
	text := max(1, statements(p.Body))
	n := min(s.d.opts.Merge, maxMergedStatements/text, int(s.d.limits.MaxUniformBinding/words))
	return max(1, n)
}

// brief is the number of members, a power of two, that a program has at most whose kernels are waited for.
func (s *scheduler) brief(i int) int {
	if !s.d.brief.on {
		return math.MaxInt
	}
	n := 1
	for p := s.d.procs[s.steps[i].variants[0]][0]; 2*n*statements(p.Body) <= briefMerged; {
		n *= 2
	}
	return n
}

func statements(body []gpuir.Stmt) int {
	n := len(body)
	for i := range body {
		n += statements(body[i].Body) + statements(body[i].Else)
	}
	return n
}

// batch is a dispatch that is being put together.
type batch struct {
	s             *scheduler
	first, most   int
	members       []int
	shared        []bool // by buffer: all members have one slot there
	written, read map[int]bool
}

// add takes step j, unless its buffers or the device forbid it. A written buffer is either shared by all members, which
// write different parts of it, or used by one member.
func (b *batch) add(j int) {
	lead, st := &b.s.steps[b.first], &b.s.steps[j]
	shared := make([]bool, len(st.Bufs))
	own := 0 // bindings that every member needs
	for k, slot := range st.Bufs {
		shared[k] = slot == lead.Bufs[k] && (len(b.members) < 2 || b.shared[k])
		if !shared[k] {
			own++
		}
		if len(b.members) == 0 {
			continue
		}
		switch w := st.writes(k); {
		case w && len(b.members) > 1 && shared[k] != b.shared[k]:
			return
		case w && !shared[k] && b.written[slot], w && b.read[slot], !w && b.written[slot]:
			return
		}
	}
	n := len(b.members) + 1
	if n > b.most || len(st.Bufs)-own+n*own > b.s.d.limits.MaxStorageBuffers {
		return
	}
	for k, slot := range st.Bufs {
		if st.writes(k) {
			b.written[slot] = true
		} else {
			b.read[slot] = true
		}
	}
	b.members, b.shared = append(b.members, j), shared
}

// join makes one step of members. Its parameters are theirs, one member after the other.
func (s *scheduler) join(members []int) step {
	lead := &s.steps[members[0]]
	j := step{Step: device.Step{Op: lead.Op}, code: lead.code, buffers: lead.buffers, variants: lead.variants, passes: 1,
		shared: make([]bool, len(lead.Bufs))}
	for k, slot := range lead.Bufs {
		j.shared[k] = !slices.ContainsFunc(members, func(m int) bool { return s.steps[m].Bufs[k] != slot })
	}
	for n, m := range members {
		st := &s.steps[m]
		j.Params = append(j.Params, st.Params...)
		j.offsets = append(j.offsets, st.offsets...)
		j.members, j.indices = append(j.members, st.Step), append(j.indices, st.index)
		for k, slot := range st.Bufs {
			switch at := slices.Index(j.Bufs, slot); {
			case n == 0 || !j.shared[k]:
				j.Bufs, j.reach = append(j.Bufs, slot), append(j.reach, st.reach[k])
			case st.reach[k].hi < 0:
				j.reach[at].hi = -1
			case j.reach[at].hi >= 0:
				j.reach[at].hi = max(j.reach[at].hi, st.reach[k].hi)
			}
		}
	}
	return j
}
