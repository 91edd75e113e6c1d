package machine

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Function returns a function of float32 numbers, computed by the formula of the CPU kernels' C code, with products and
// sums fused as the C compiler fuses them. It reports false, and adds nothing, for functions that only C code has.
func (p *Program) Function(op loopir.Op, x Value) (Value, bool) {
	formulas := map[loopir.Op]func(*Program, vec) vec{loopir.OpExp: (*Program).exp, loopir.OpLog: (*Program).log,
		loopir.OpTanh: (*Program).tanh, loopir.OpErf: (*Program).erf}
	f := formulas[op]
	if f == nil || x.typ != ir.F32 {
		return Value{}, false
	}
	return Value{ir.F32, f(p, x.lo), -1}, true
}

var eFromI32 = encoding{ppNone, map0F, 0x5B, false} // vcvtdq2ps

// roundBy is 1.5 * 2^23: a small number plus roundBy has the nearest integer in its low bits.
const roundBy = 12582912

func (p *Program) num(x float32) vec { return p.constant(ir.F32, uint64(math.Float32bits(x))) }

func (p *Program) whole(x int32) vec { return p.constant(ir.I32, uint64(uint32(x))) }

func (p *Program) real(op loopir.Op, a, b vec) vec {
	return p.binary(encodingOf(arithmetic(op), ir.F32), a, b)
}

func (p *Program) plus(a, b vec) vec  { return p.real(loopir.OpAdd, a, b) }
func (p *Program) minus(a, b vec) vec { return p.real(loopir.OpSub, a, b) }
func (p *Program) times(a, b vec) vec { return p.real(loopir.OpMul, a, b) }

// fused is a * b + c, minusFused a * b - c, and fusedMinus c - a * b, rounded once.
func (p *Program) fused(a, b, c vec) vec      { return p.fma(0xA8, a, b, c) }
func (p *Program) minusFused(a, b, c vec) vec { return p.fma(0xAA, a, b, c) }
func (p *Program) fusedMinus(a, b, c vec) vec { return p.fma(0xAC, a, b, c) }

func (p *Program) fma(op byte, a, b, c vec) vec {
	return p.add(instr{kind: kFma, enc: encoding{pp66, map38, op, false}, a: a, b: b, c: c})
}

// horner evaluates a polynomial of x. The coefficients begin with the highest power.
func (p *Program) horner(x vec, coefficients ...float32) vec {
	r := p.num(coefficients[0])
	for _, c := range coefficients[1:] {
		r = p.fused(r, x, p.num(c))
	}
	return r
}

// least is x < c ? x : c for a number c; NaN stays.
func (p *Program) least(x vec, c float32) vec { return p.real(loopir.OpMin, p.num(c), x) }

// most is x > c ? x : c for a number c; NaN stays.
func (p *Program) most(x vec, c float32) vec { return p.real(loopir.OpMax, p.num(c), x) }

func (p *Program) lessThan(a, b vec) vec { return p.compare(ir.F32, a, b, less) }

// magnitude and withSign split a number, and put the sign of x on r.
func (p *Program) magnitude(x vec) vec { return p.binary(eAnd, x, p.whole(math.MaxInt32)) }
func (p *Program) withSign(r, x vec) vec {
	return p.binary(eOr, r, p.binary(eAnd, x, p.whole(math.MinInt32)))
}

// power is 2^k for integers k, from k + 127.
func (p *Program) power(k vec) vec { return p.shift(shiftLeft, k, 23) }

// expReduced is tl_exp_reduced.
func (p *Program) expReduced(x vec) (r, k vec) {
	t := p.fused(x, p.num(1.44269504), p.num(roundBy))
	n := p.minus(t, p.num(roundBy))
	k = p.binary(eSubI32, t, p.whole(0x4B400000))
	d := p.fusedMinus(n, p.num(0.693359375), x)
	d = p.fused(n, p.num(2.12194440e-4), d)
	r = p.horner(d, 1.991938043e-04, 1.394722494e-03, 8.333262987e-03, 4.166625440e-02, 1.666666716e-01, 0.5)
	return p.plus(p.fused(r, p.times(d, d), d), p.num(1)), k
}

// exp is tl_expf.
func (p *Program) exp(x vec) vec {
	r, k := p.expReduced(p.least(p.most(x, -104), 89))
	h := p.shift(shiftSigned, k, 1)
	r = p.times(r, p.power(p.binary(eAddI32, h, p.whole(127))))
	return p.times(r, p.power(p.binary(eAddI32, p.binary(eSubI32, k, h), p.whole(127))))
}

// log is tl_logf.
func (p *Program) log(x vec) vec {
	small := p.lessThan(x, p.num(1.17549435e-38))
	y := p.choose(small, p.times(x, p.num(8388608)), x)
	k := p.shift(shiftSigned, p.binary(eSubI32, y, p.whole(0x3f3504f3)), 23)
	f := p.minus(p.binary(eSubI32, y, p.power(k)), p.num(1))
	e := p.plus(p.choose(small, p.num(-23), p.num(0)), p.unary(eFromI32, k))
	q := p.horner(f, 6.917822361e-02, -1.183293313e-01, 1.189412773e-01, -1.237877086e-01, 1.421528459e-01,
		-1.666944772e-01, 2.000238746e-01, -2.499998510e-01, 3.333330750e-01)
	s := p.times(f, f)
	r := p.fusedMinus(e, p.num(2.12194440e-4), p.times(p.times(f, s), q))
	r = p.plus(p.fusedMinus(p.num(0.5), s, r), f)
	r = p.fused(e, p.num(0.693359375), r)
	r = p.choose(p.compare(ir.F32, x, p.num(0), equal), p.num(float32(math.Inf(-1))), r)
	r = p.choose(p.lessThan(x, p.num(0)), p.whole(0x7fc00000), r)
	return p.choose(p.lessThan(x, p.num(float32(math.Inf(1)))), r, x)
}

// tanh is tl_tanhf.
func (p *Program) tanh(x vec) vec {
	t, z := p.magnitude(x), p.times(x, x)
	q := p.horner(z, 2.137162723e-03, -8.171704598e-03, 2.169869095e-02, -5.394645408e-02, 1.333320439e-01,
		-3.333333135e-01)
	small := p.fused(x, p.times(z, q), x)
	c := p.least(t, 16)
	y := p.fused(c, p.num(2.88539008), p.num(roundBy))
	f := p.minusFused(c, p.num(2.88539008), p.minus(y, p.num(roundBy)))
	n := p.binary(eAddI32, p.power(y), p.num(1))
	f2 := p.times(f, f)
	b := p.fused(p.horner(f, 9.618438780e-03, 5.550331995e-02), f2, p.horner(f, 2.402264774e-01, 6.931471825e-01))
	b = p.fused(p.horner(f, 1.535325719e-04, 1.339900307e-03), p.times(f2, f2), b)
	d := p.fused(b, p.times(n, f), p.plus(n, p.num(1)))
	big := p.minus(p.num(1), p.real(loopir.OpDiv, p.num(2), d))
	return p.choose(p.lessThan(t, p.num(0.625)), small, p.withSign(big, x))
}

// erf is tl_erff.
func (p *Program) erf(x vec) vec {
	t, z := p.magnitude(x), p.times(x, x)
	q := p.horner(z, 8.345225069e-05, -8.137437399e-04, 5.200634245e-03, -2.685927041e-02, 1.128369421e-01,
		-3.761263490e-01, 1.283791661e-01)
	small := p.fused(x, q, x)
	c := p.least(t, 4)
	v := p.horner(c, -2.096545177e-05, 4.329672083e-04, -4.163833801e-03, 2.510043979e-02, -1.082508117e-01,
		-6.333734393e-01, -1.295018494e-01, 1.719745196e-04)
	r, k := p.expReduced(p.minus(v, c))
	big := p.fusedMinus(r, p.power(p.binary(eAddI32, k, p.whole(127))), p.num(1))
	return p.choose(p.lessThan(t, p.num(0.93)), small, p.withSign(big, x))
}
