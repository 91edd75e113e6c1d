package cpu

import "math"

// allocation gives each virtual register a final number and an offset in the arena. Uniform registers come first, then
// those of an outer tile, which split stages share, then the rest.
type allocation struct {
	number   []int
	offset   []uint32 // by final number
	uniform  int
	shared   int
	arena    int64
	overflow bool
}

const slotGap = 64 // keeps equal lanes of neighbours out of one cache set

// allocate gives the same memory to registers whose lifetimes do not overlap. Positions are in the order of execution;
// a register defined outside a loop and used inside lives until the loop ends.
func (e *emitter) allocate() allocation {
	n := len(e.regs)
	def, end := fill(n, -1), fill(n, -1)
	pos := 0
	var starts []int // of the stages' inner code
	permanent := func(s *segment) {
		for i := range s.code {
			e.results(&s.code[i], func(r int) { def[r], end[r] = 0, math.MaxInt })
		}
	}
	permanent(&e.uniform)
	permanent(&e.worker)
	for s := range e.stages {
		st := &e.stages[s]
		start := 0
		for _, seg := range []*segment{&st.outer, &st.prologue, &st.inner} {
			if seg == &st.inner {
				start = pos
				starts = append(starts, pos)
			}
			for i := range seg.code {
				pos++
				e.results(&seg.code[i], func(r int) { def[r], end[r] = pos, max(end[r], pos) })
				e.operandsOf(&seg.code[i], func(r int) { end[r] = max(end[r], pos) })
			}
		}
		pos++
		if e.oneTile && !e.bundle {
			continue
		}
		for i := range st.inner.code {
			e.operandsOf(&st.inner.code[i], func(r int) {
				if def[r] <= start {
					end[r] = max(end[r], pos)
				}
			})
		}
	}
	if e.bundle {
		for s, start := range starts {
			for _, r := range e.kept(s) {
				def[r] = start
			}
		}
	}
	return e.place(def, end)
}

// kept lists the registers that the inner code of stage s of a bundle makes, row after row, and a later stage uses.
func (e *emitter) kept(s int) (list []int) {
	later := make([]bool, len(e.regs))
	for i := s + 1; i < len(e.stages); i++ {
		code := e.stages[i].inner.code
		for n := range code {
			e.operandsOf(&code[n], func(r int) { later[r] = true })
		}
	}
	code := e.stages[s].inner.code
	for n := range code {
		e.results(&code[n], func(r int) {
			if later[r] && !e.regs[r].external {
				list = append(list, r)
			}
		})
	}
	return list
}

// strides lists the registers with a place for each row of a bundle, among those that the inner code of stage s uses.
func (e *emitter) strides(s int) (list []int) {
	if !e.bundle {
		return nil
	}
	strides := make([]bool, len(e.regs))
	for r := range e.regs {
		strides[r] = e.regs[r].level == levelOuter && e.regs[r].step > 0
	}
	for i := range e.stages {
		for _, r := range e.kept(i) {
			strides[r] = true
		}
	}
	use := func(r int) {
		if strides[r] {
			list, strides[r] = append(list, r), false
		}
	}
	code := e.stages[s].inner.code
	for n := range code {
		e.results(&code[n], use)
		e.operandsOf(&code[n], use)
	}
	return list
}

func (e *emitter) results(i *instr, f func(r int)) {
	if i.d >= 0 {
		f(i.d)
	}
	if i.run != nil {
		for _, r := range i.run.writes {
			if !e.regs[r].external {
				f(r)
			}
		}
	}
	if i.op == opDraw {
		for _, r := range e.extra[i.aux : i.aux+4] {
			if r >= 0 {
				f(r)
			}
		}
	}
}

func (e *emitter) operandsOf(i *instr, f func(r int)) {
	for _, r := range [...]int{i.a, i.b, i.c} {
		if r >= 0 {
			f(r)
		}
	}
	at, n := i.listed()
	for _, r := range e.extra[at : at+n] {
		f(r)
	}
	if i.run != nil {
		for _, r := range i.run.reads {
			f(r)
		}
		for _, r := range i.run.writes {
			if e.regs[r].external {
				f(r)
			}
		}
	}
}

// place assigns memory in order of definition.
func (e *emitter) place(def, end []int) allocation {
	a := allocation{number: make([]int, len(e.regs))}
	next := 0
	gone := func(r int) bool { return def[r] < 0 && end[r] < 0 } // it lives in machine code only
	for level := levelRun; level <= levelInner; level++ {
		for r := range e.regs {
			if e.regs[r].level == level && !gone(r) {
				a.number[r] = next
				next++
			}
		}
		switch level {
		case levelRun:
			a.uniform = next
		case levelOuter:
			a.shared = next
		}
	}
	a.offset = make([]uint32, next)
	type block struct {
		at   uint32
		free int // position from which it is free
	}
	blocks := map[int64][]block{}
	for _, r := range byDefinition(def) {
		v := &e.regs[r]
		if v.external || gone(r) {
			continue
		}
		size := (v.bytes + 63) &^ 63
		list := blocks[size]
		found := false
		for i := range list {
			if list[i].free < def[r] {
				a.offset[a.number[r]], list[i].free, found = list[i].at, end[r], true
				break
			}
		}
		if !found {
			a.offset[a.number[r]] = uint32(a.arena)
			blocks[size] = append(list, block{uint32(a.arena), end[r]})
			a.arena += size + slotGap
		}
	}
	a.overflow = a.arena > math.MaxUint32
	return a
}

func byDefinition(def []int) []int {
	order := make([]int, len(def))
	for i := range order {
		order[i] = i
	}
	sortBy(order, func(r int) int { return def[r] })
	return order
}
