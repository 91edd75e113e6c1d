package machine

import (
	"cmp"
	"math"
	"slices"
)

// never is the place of the next use of a vector that is not used again.
const never = math.MaxInt

// allocator assigns registers while the body is emitted. Where none is free, it spills the vector whose next use is
// furthest away. Vectors that are made once, before the loop, have a register for the whole loop while the
// body leaves enough of them; others are spilled before the loop.
type allocator struct {
	list   []instr
	uses   [][]int // by vector: the places of its uses, ascending
	reg    []int   // by vector, -1: it is in no register
	place  []int   // by vector: its place on the stack, -1: none
	holder []int   // by register: its vector, -1: free
	fixed  []bool  // registers of vectors that were made before the loop
	places int     // on the stack
	calls  bool    // no register keeps its content for the whole loop
	load   func(reg, place int)
	store  func(place, reg int)
}

// operandsOf calls f for each vector that i reads.
func (i *instr) operandsOf(f func(v int)) {
	for _, v := range [...]vec{i.a, i.b, i.c} {
		if v >= 0 {
			f(int(v))
		}
	}
}

// before reports an instruction that runs once, before the loop.
func (i *instr) before() bool { return i.kind == kScalar || i.kind == kConst || i.early }

func newAllocator(code []instr, registers int) *allocator {
	n := len(code)
	a := &allocator{list: code, uses: make([][]int, n), reg: make([]int, n), place: make([]int, n),
		holder: make([]int, registers), fixed: make([]bool, registers)}
	for i := range code {
		a.reg[i], a.place[i] = -1, -1
		code[i].operandsOf(func(v int) {
			if u := a.uses[v]; len(u) == 0 || u[len(u)-1] != i {
				a.uses[v] = append(u, i)
			}
		})
	}
	for r := range a.holder {
		a.holder[r] = -1
	}
	a.calls = slices.ContainsFunc(code, func(i instr) bool { return i.kind == kCall })
	if a.calls {
		a.places = callPlaces
	}
	a.fix()
	return a
}

// pressure is the largest number of live vectors of the body, plus the temporaries of an instruction.
func (a *allocator) pressure() int {
	const beside = 4 // operands that were spilled, and the result
	live, most := 0, 0
	ends := make([]int, len(a.list)+1)
	for i := range a.list {
		if a.list[i].before() || len(a.uses[i]) == 0 {
			continue
		}
		ends[a.uses[i][len(a.uses[i])-1]]++
	}
	for i := range a.list {
		if !a.list[i].before() && len(a.uses[i]) > 0 {
			live++
		}
		most = max(most, live)
		live -= ends[i]
	}
	return most + beside
}

// fix gives registers, or places on the stack, to the vectors that are made before the loop: those with most uses come
// first.
func (a *allocator) fix() {
	var early []int
	for i := range a.list {
		if a.list[i].before() && len(a.uses[i]) > 0 {
			early = append(early, i)
		}
	}
	slices.SortStableFunc(early, func(x, y int) int { return cmp.Compare(len(a.uses[y]), len(a.uses[x])) })
	room := max(0, len(a.holder)-max(a.pressure(), 6))
	for n, v := range early {
		if n >= room || a.calls {
			a.place[v] = a.newPlace()
			continue
		}
		r := len(a.holder) - 1 - n
		a.reg[v], a.holder[r], a.fixed[r] = r, v, true
	}
}

func (a *allocator) newPlace() int {
	a.places++
	return a.places - 1
}

// reset forgets the registers of the body.
func (a *allocator) reset() {
	for r, v := range a.holder {
		if v >= 0 && !a.fixed[r] {
			a.holder[r], a.reg[v] = -1, -1
		}
	}
	for v := range a.place {
		if !a.list[v].before() {
			a.place[v] = -1
		}
	}
}

// next is the first use of v at or after instruction i.
func (a *allocator) next(v, i int) int {
	n, _ := slices.BinarySearch(a.uses[v], i)
	if n == len(a.uses[v]) {
		return never
	}
	return a.uses[v][n]
}

// take returns a register for vector v at instruction i, and spills another vector if it must. Registers in keep stay.
func (a *allocator) take(v, i int, keep ...int) int {
	best, far := -1, -1
	for r, h := range a.holder {
		if a.fixed[r] || slices.Contains(keep, r) {
			continue
		}
		if h < 0 {
			best = r
			break
		}
		if n := a.next(h, i); n > far {
			best, far = r, n
		}
	}
	if h := a.holder[best]; h >= 0 {
		if a.place[h] < 0 && a.next(h, i) != never {
			a.place[h] = a.newPlace()
			a.store(a.place[h], best)
		}
		a.reg[h] = -1
	}
	a.holder[best], a.reg[v] = v, best
	return best
}

// want returns the register of vector v, which instruction i reads.
func (a *allocator) want(v, i int, keep ...int) int {
	if a.reg[v] >= 0 {
		return a.reg[v]
	}
	r := a.take(v, i, keep...)
	a.load(r, a.place[v])
	return r
}

// drop frees the registers of the operands of instruction i that nothing uses after it.
func (a *allocator) drop(i int) {
	a.list[i].operandsOf(func(v int) {
		if r := a.reg[v]; r >= 0 && !a.fixed[r] && a.next(v, i+1) == never {
			a.holder[r], a.reg[v] = -1, -1
		}
	})
}
