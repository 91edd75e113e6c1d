package machine

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// TestEncodings: the bytes are those of the GNU assembler for the instructions that the names give, apart from the size
// of displacements and from a bit that processors ignore.
func TestEncodings(t *testing.T) {
	add, mul := encodingOf(0x58, ir.F32), encodingOf(0x59, ir.F64)
	for _, c := range []struct {
		name  string
		level Level
		emit  func(a *assembler)
		want  string
	}{
		{"vaddps ymm1,ymm2,ymm3", AVX2, func(a *assembler) { a.vector(add, 1, 1, 2, 3) }, "c4e16c58cb"},
		{"vmulpd ymm9,ymm2,ymm13", AVX2, func(a *assembler) { a.vector(mul, 1, 9, 2, 13) }, "c441ed59cd"},
		{"vmovups ymm8,[r9+rcx*4]", AVX2, func(a *assembler) {
			a.memory(eMov, 1, 8, 0, mem{base: r9, index: rcx, scale: 2}, mask{})
		}, "c4417c100489"},
		{"vmovups [rsp+0x20],ymm3", AVX2, func(a *assembler) {
			a.memory(eMovStore, 1, 3, 0, mem{base: rsp, index: -1, disp: 0x20}, mask{})
		}, "c4e17c119c2420000000"},
		{"vpsrld ymm10,ymm3,16", AVX2, func(a *assembler) { a.vector(eShiftD, 1, shiftRight, 10, 3); a.emit(16) },
			"c4e12d72d310"},
		{"vaddps zmm1,zmm2,zmm3", AVX512, func(a *assembler) { a.vector(add, 2, 1, 2, 3) }, "62f16c4858cb"},
		{"vmulpd zmm17,zmm30,zmm9", AVX512, func(a *assembler) { a.vector(mul, 2, 17, 30, 9) }, "62c18d4059c9"},
		{"vmovups zmm16{k1}{z},[r13+rcx*4]", AVX512, func(a *assembler) {
			a.memory(eMov, 2, 16, 0, mem{base: r13, index: rcx, scale: 2}, mask{1, true})
		}, "62c17cc910848d00000000"},
		{"vmovupd [r12+rcx*8+0x40]{k2},zmm25", AVX512, func(a *assembler) {
			a.memory(encoding{pp66, map0F, 0x11, true}, 2, 25, 0, mem{r12, rcx, 3, 0x40}, mask{k: 2})
		}, "6241fd4a118ccc40000000"},
		{"vpternlogd zmm20,zmm1,zmm17,0xca", AVX512, func(a *assembler) { a.vector(eTernary, 2, 20, 1, 17); a.emit(0xCA) },
			"62a3754825e1ca"},
		{"vpsrld zmm19,zmm30,16", AVX512, func(a *assembler) { a.vector(eShiftD, 2, shiftRight, 19, 30); a.emit(16) },
			"6291654072d610"},
		{"vpmovdb [rdx+rcx]{k1},zmm18", AVX512, func(a *assembler) {
			a.memory(eTruncDB, 2, 18, 0, mem{base: rdx, index: rcx}, mask{k: 1})
		}, "62e27e4931140a"},
		{"mov r13,[rdi+0x50]", AVX2, func(a *assembler) { a.load64(r13, mem{base: rdi, index: -1, disp: 0x50}) },
			"4c8baf50000000"},
		{"sub rsi,0x10", AVX2, func(a *assembler) { a.immediate(5, rsi, 16) }, "4881ee10000000"},
	} {
		a := &assembler{level: c.level}
		c.emit(a)
		assert.Equal(t, c.want, hex.EncodeToString(a.code), c.name)
	}
}

// chain returns a program that keeps n products alive, and adds them.
func chain(level Level, n int) *Program {
	p := New(level)
	x := p.Load(0, ir.F32)
	list := make([]Value, n)
	for i := range list {
		list[i], _ = p.Apply(loopir.OpMul, x, p.Scalar(1+i, ir.F32))
	}
	sum := x
	for _, v := range list {
		sum, _ = p.Apply(loopir.OpAdd, sum, v)
	}
	p.Store(1+n, ir.F32, sum)
	return p
}

// TestSpills: programs with more values than registers take places on the stack, others none.
func TestSpills(t *testing.T) {
	for _, level := range []Level{AVX2, AVX512} {
		for n, spills := range map[int]bool{2: false, 40: true} {
			p := chain(level, n)
			e := &emitter{assembler: assembler{level: level}, p: p, entry: func(s int) int { return s },
				allocator: newAllocator(p.code, level.registers())}
			e.load, e.store = func(int, int) {}, func(int, int) {}
			e.body(blocks)
			assert.Equal(t, spills, e.places > 0, "%d products", n)
			for r, v := range e.holder {
				assert.True(t, v < 0 || e.reg[v] == r, "register %d and vector %d disagree", r, v)
			}
		}
	}
}

// TestWithoutVectorForm: operations that the level lacks are refused.
func TestWithoutVectorForm(t *testing.T) {
	for _, c := range []struct {
		op           loopir.Op
		typ          ir.DType
		avx2, avx512 bool
	}{{loopir.OpExp, ir.F32, false, false}, {loopir.OpDiv, ir.I32, false, false}, {loopir.OpMul, ir.I64, false, true},
		{loopir.OpMul, ir.I32, true, true}, {loopir.OpDiv, ir.F64, true, true}, {loopir.OpAdd, ir.Bool, false, false}} {
		for level, want := range map[Level]bool{AVX2: c.avx2, AVX512: c.avx512} {
			p := New(level)
			x := p.Load(0, c.typ)
			_, ok := p.Apply(c.op, x, x)
			assert.Equal(t, want, ok, "%v of %v", c.op, c.typ)
		}
	}
	p := New(AVX2)
	_, ok := p.Cast(p.Load(0, ir.I64), ir.F32)
	require.False(t, ok)
}

func TestSlots(t *testing.T) {
	reads, writes := chain(AVX2, 3).Slots()
	assert.Equal(t, []int{0, 1, 2, 3}, reads)
	assert.Equal(t, []int{4}, writes)
}

// TestConversions: every pair of compute types converts on AVX-512; AVX2 lacks those of unsigned numbers and of int64
// to and from floats.
func TestConversions(t *testing.T) {
	types := []ir.DType{ir.Bool, ir.I32, ir.I64, ir.U32, ir.F32, ir.F64}
	for _, from := range types {
		for _, to := range types {
			lacks := from == ir.I64 && to.IsFloat() || from == ir.U32 && to.IsFloat() || from.IsFloat() && (to == ir.I64 ||
				to == ir.U32)
			for level, want := range map[Level]bool{AVX2: !lacks, AVX512: true} {
				p := New(level)
				v, ok := p.Cast(p.Load(0, from), to)
				if assert.Equal(t, want, ok, "%v to %v", from, to); ok {
					assert.Equal(t, to, v.typ)
					assert.Equal(t, to.Size() == 8, v.hi >= 0, "%v to %v: vectors", from, to)
				}
			}
		}
	}
}

// TestConvention: a function saves the registers that its caller expects back, and only those that it uses.
func TestConvention(t *testing.T) {
	for n, saves := range map[int]int{1: 0, 4: 0, 6: 2, 20: 5} { // n operands, and the result
		p := New(AVX512)
		sum := p.Load(0, ir.F32)
		for i := 1; i < n; i++ {
			sum, _ = p.Apply(loopir.OpAdd, sum, p.Load(i, ir.F32))
		}
		p.Store(n, ir.F32, sum)
		a := &assembler{level: AVX512}
		a.push(rbp)
		a.general(0x89, rsp, rbp)
		for _, r := range saved[:min(saves, len(saved))] {
			a.push(r)
		}
		a.immediate(4, rsp, -64)
		code := p.Assemble(func(s int) int { return s })
		assert.Equal(t, hex.EncodeToString(a.code), hex.EncodeToString(code[:len(a.code)]), "%d operands", n)
		end := &assembler{level: AVX512}
		for i := min(saves, len(saved)) - 1; i >= 0; i-- {
			end.pop(saved[i])
		}
		end.pop(rbp)
		end.emit(0xC3)
		assert.Equal(t, hex.EncodeToString(end.code), hex.EncodeToString(code[len(code)-len(end.code):]), "%d operands", n)
	}
}
