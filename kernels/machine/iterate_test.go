package machine

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// turning returns a loop over two carries of type t that change places; one is the sum with an element of xs.
func turning(level Level, lanes int, t ir.DType) *Program {
	p := NewLoop(level, lanes)
	spread := lanes == 1
	x := p.Carry(Place{Slot: 0, Spread: spread}, t)
	y := p.Carry(Place{Slot: 1, Spread: spread}, t)
	sum, _ := p.Apply(loopir.OpAdd, y, p.LoadAt(Place{Slot: 2, Spread: spread, Moves: -t.Size()}, t))
	p.StoreAt(Place{Slot: 3, Spread: spread, Moves: t.Size()}, t, sum)
	p.End([]Value{x, y}, []Value{sum, x}, Value{})
	p.StoreAt(Place{Slot: 4, Spread: spread}, t, x)
	p.StoreAt(Place{Slot: 5, Spread: spread}, t, y)
	return p
}

func count(p *Program, k kind) (n int) {
	for i := range p.code {
		if p.code[i].kind == k {
			n++
		}
	}
	return n
}

// TestACarryThatBecomesAnotherIsCopiedFirst: carries get their next values one after the other.
func TestACarryThatBecomesAnotherIsCopiedFirst(t *testing.T) {
	p := turning(AVX512, 16, ir.F32)
	assert.Equal(t, 1, count(p, kCopy))
	assert.Equal(t, 2, count(p, kAdvance))
	p = turning(AVX512, 16, ir.F64) // two vectors for each value
	assert.Equal(t, 2, count(p, kCopy))
	assert.Equal(t, 4, count(p, kAdvance))
	p = turning(AVX512, 1, ir.F64) // one element is in all lanes
	assert.Equal(t, 2, count(p, kAdvance))
}

// TestALoopThatKeepsACarryDoesNothing: a carry that stays is not moved.
func TestALoopThatKeepsACarryDoesNothing(t *testing.T) {
	p := NewLoop(AVX2, 8)
	x := p.Carry(Place{}, ir.F32)
	p.End([]Value{x}, []Value{x}, Value{})
	p.StoreAt(Place{Slot: 1}, ir.F32, x)
	assert.Zero(t, count(p, kAdvance))
	assert.NotEmpty(t, p.AssembleLoop())
}

// TestEqualInstructionsOfALoopAreOne: sums, constants and what does not move are computed once.
func TestEqualInstructionsOfALoopAreOne(t *testing.T) {
	p := NewLoop(AVX512, 16)
	x, y := p.LoadAt(Place{Slot: 0}, ir.F32), p.LoadAt(Place{Slot: 0}, ir.F32)
	assert.Equal(t, x, y)
	a, _ := p.Apply(loopir.OpMul, x, p.Const(ir.F32, 7))
	b, _ := p.Apply(loopir.OpMul, y, p.Const(ir.F32, 7))
	assert.Equal(t, a, b)
	assert.True(t, p.code[x.lo].early, "what does not move is loaded before the iterations")
	moving := p.LoadAt(Place{Slot: 1, Moves: 64}, ir.F32)
	assert.False(t, p.code[moving.lo].early)
}

// TestFewLanesTakeSmallVectors: loops over few elements of four bytes use parts of registers.
func TestFewLanesTakeSmallVectors(t *testing.T) {
	for _, c := range []struct {
		level Level
		lanes int
		typ   ir.DType
		want  byte // of the vector length
	}{{AVX512, 16, ir.F32, 2}, {AVX512, 8, ir.F32, 1}, {AVX512, 4, ir.F32, 0}, {AVX512, 1, ir.F32, 0},
		{AVX512, 1, ir.F64, 2}} {
		code := turning(c.level, c.lanes, c.typ).AssembleLoop()
		found := false
		for i := range len(code) - 5 {
			pp := byte(0x7c)
			if c.typ == ir.F64 {
				pp = 0xfd
			}
			if code[i] == 0x62 && code[i+2]|0x78 == pp|0x78 && code[i+4] == 0x58 { // vaddps, vaddpd
				found = true
				assert.Equal(t, c.want, code[i+3]>>5&3, "%d lanes of %v", c.lanes, c.typ)
			}
		}
		require.True(t, found, "no sum in %s", hex.EncodeToString(code))
	}
}

// TestCallsKeepNoRegister: functions may change every vector register, so carries and constants are on the stack.
func TestCallsKeepNoRegister(t *testing.T) {
	p := NewLoop(AVX2, 8)
	x := p.Carry(Place{}, ir.F32)
	y, _ := p.Apply(loopir.OpAdd, p.Call(2, ir.F32, x), p.Const(ir.F32, 1))
	z, _ := p.Apply(loopir.OpMul, y, x)
	p.End([]Value{x}, []Value{z}, Value{})
	p.StoreAt(Place{Slot: 1}, ir.F32, x)
	a := newAllocator(p.code, AVX2.registers())
	assert.NotContains(t, a.fixed, true)
	assert.GreaterOrEqual(t, a.place[x.lo], callPlaces)
	code := hex.EncodeToString(p.AssembleLoop())
	assert.Contains(t, code, "ff17", "call [rdi]")
	assert.Equal(t, 8, p.VectorLanes(ir.F32, false))
	assert.Equal(t, 4, p.VectorLanes(ir.F64, false))
	assert.Equal(t, 8, NewLoop(AVX512, 1).VectorLanes(ir.F64, true))
}

// TestLoopConvention: the function saves the registers that its caller expects back, and returns the iterations left.
func TestLoopConvention(t *testing.T) {
	code := hex.EncodeToString(turning(AVX2, 8, ir.F32).AssembleLoop())
	begin := "4055" + "4889e5" + "4053" + "4154" + "4155" + "4156" + "4157"
	end := "415f" + "415e" + "415d" + "415c" + "405b" + "405d" + "c3"
	assert.Equal(t, begin, code[:len(begin)])
	assert.Equal(t, end, code[len(code)-len(end):])
	assert.Contains(t, code, "4c89e0"+"c5f877", "mov rax, r12; vzeroupper")
}
