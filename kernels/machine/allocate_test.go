package machine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// random returns a program of n instructions: some that run before the loop, loads, operations of one to three
// operands, and stores.
func random(r *rand.Rand, n int) (list []instr) {
	var made []vec
	for range n {
		i := instr{kind: kLoad, a: -1, b: -1, c: -1}
		pick := func() vec { return made[r.IntN(len(made))] }
		switch r.IntN(8) {
		case 0:
			i.kind = kScalar
		case 1:
			i.kind = kConst
		case 2, 3, 4, 5:
			if len(made) > 0 {
				i.kind, i.a = kUnary, pick()
			}
			if len(made) > 0 && r.IntN(3) > 0 {
				i.kind, i.b = kBinary, pick()
			}
			if i.kind == kBinary && r.IntN(3) == 0 {
				i.kind, i.c = kFma, pick()
			}
		case 6:
			if len(made) > 0 {
				i.kind, i.a = kStore, pick()
			}
		}
		list = append(list, i)
		if i.kind != kStore {
			made = append(made, vec(len(list)-1))
		}
	}
	return list
}

// simulation is what registers and places on the stack hold while a body runs.
type simulation struct {
	t             *testing.T
	a             *allocator
	inRegister    map[int]int
	inPlace       map[int]int
	loads, stores int
}

func simulate(t *testing.T, list []instr, registers int) *simulation {
	s := &simulation{t: t, a: newAllocator(list, registers), inRegister: map[int]int{}, inPlace: map[int]int{}}
	s.a.load = func(reg, place int) {
		s.loads++
		held, ok := s.inPlace[place]
		require.True(t, ok, "place %d is empty", place)
		s.inRegister[reg] = held
	}
	s.a.store = func(place, reg int) {
		s.stores++
		s.inPlace[place] = s.inRegister[reg]
	}
	for v := range list {
		if list[v].before() && len(s.a.uses[v]) > 0 {
			if r := s.a.reg[v]; r >= 0 {
				s.inRegister[r] = v
			} else {
				s.inPlace[s.a.place[v]] = v
			}
		}
	}
	return s
}

// body runs the loop's body once.
func (s *simulation) body() {
	a := s.a
	a.reset()
	for i := range a.list {
		x := &a.list[i]
		if x.before() || x.kind != kStore && len(a.uses[i]) == 0 {
			continue
		}
		var regs []int
		x.operandsOf(func(v int) { regs = append(regs, a.want(v, i, regs...)) })
		n := 0
		x.operandsOf(func(v int) {
			require.Equal(s.t, v, s.inRegister[regs[n]], "operand %d of instruction %d", n, i)
			n++
		})
		a.drop(i)
		if x.kind != kStore {
			s.inRegister[a.take(i, i)] = i
		}
	}
}

// TestOperandsAreInTheirRegisters: whatever is spilled, each instruction of random programs finds its operands, in the
// first turn of the loop and in later ones.
func TestOperandsAreInTheirRegisters(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	spilled := 0
	for range 400 {
		s := simulate(t, random(r, 1+r.IntN(120)), []int{10, 16, 32}[r.IntN(3)])
		for range 3 {
			s.body()
		}
		spilled += s.stores
	}
	assert.Greater(t, spilled, 100, "programs that spill")
}

// TestScalarsStayInRegisters: what is made before the loop is not loaded again while registers suffice, and those with
// the most uses come first.
func TestScalarsStayInRegisters(t *testing.T) {
	for _, c := range []struct {
		scalars, registers int
		loads              bool
	}{{4, 16, false}, {8, 32, false}, {30, 16, true}, {60, 32, true}} {
		list := []instr{{kind: kLoad, a: -1, b: -1, c: -1}}
		for range c.scalars {
			list = append(list, instr{kind: kScalar, a: -1, b: -1, c: -1})
		}
		sum := vec(0)
		for i := range c.scalars {
			list = append(list, instr{kind: kBinary, a: sum, b: vec(1 + i), c: -1})
			sum = vec(len(list) - 1)
		}
		list = append(list, instr{kind: kBinary, a: sum, b: vec(c.scalars), c: -1})
		list = append(list, instr{kind: kStore, a: vec(len(list) - 1), b: -1, c: -1})
		s := simulate(t, list, c.registers)
		s.body()
		assert.Equal(t, c.loads, s.loads > 0, "%d scalars, %d registers", c.scalars, c.registers)
		assert.Zero(t, s.stores, "scalars are on the stack before the loop")
		assert.GreaterOrEqual(t, s.a.reg[c.scalars], 0, "the scalar with two uses has a register")
	}
}
