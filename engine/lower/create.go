package lower

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{
		"fill":         elementwise("fill", func(o *operands) int { return o.scalar(0, o.out) }),
		"iota":         elementwise("iota", numbers),
		"rand_uniform": elementwise("rand_uniform", uniform),
		"rand_normal":  elementwise("rand_normal", normal),
		"rand_int":     elementwise("rand_int", integers),
		"dropout":      elementwise("dropout", dropout),
	})
}

// fill stores one value everywhere.
func (p *program) fill(out *arg, value func(k *kernel) int) {
	if ir.Numel(out.shape) == 0 {
		return
	}
	k := p.kernel("fill_"+out.dtype.String(), out.shape, nil, 0, out)
	k.Map()
	k.store(out, value(k))
	k.launch()
}

// numbers is start + e*step for element e.
func numbers(o *operands) int {
	k, t := o.k, o.out.ComputeType()
	start, step, i := o.scalar(0, t), o.scalar(1, t), k.Cast(t, k.LinearIndex())
	if t.IsFloat() {
		return k.Fma(i, step, start)
	}
	return k.Add(start, k.Mul(i, step))
}

// draw is a random word of the element, of the stream whose seed and Philox offset are the operands from n on.
func (o *operands) draw(n int, part loopir.DrawPart) int {
	return o.k.Draw(part, o.k.scalar(o.in[n+1], ir.I64), o.k.scalar(o.in[n], ir.I64))
}

// unit maps a word to [0, 1): its top bits, as many as the dtype holds exactly, so that rounding never gives 1.
func unit(k *kernel, d ir.DType, word int) int {
	bits := map[ir.DType]int64{ir.F16: 11, ir.BF16: 8, ir.F32: 24, ir.F64: 32}[d]
	if bits < 32 {
		word = k.Bin(loopir.OpShr, word, k.Int(ir.U32, 32-bits))
	}
	return k.Mul(k.Cast(d, word), k.Float(d, math.Ldexp(1, -int(bits))))
}

func uniform(o *operands) int { return unit(o.k, o.out, o.draw(0, loopir.DrawWord)) }

// normal is the Box-Muller transform (Box and Muller, 1958) of the words of a pair: r cos(2 pi v) for the first
// element, r sin(2 pi v) = r cos(2 pi (v - 1/4)) for the second one. v - 1/4 is exact.
func normal(o *operands) int {
	k, t := o.k, o.out.ComputeType()
	u := k.Sub(k.Float(t, 1), unit(k, t, o.draw(0, loopir.DrawFirst))) // in (0, 1]
	r := k.Un(loopir.OpSqrt, k.Mul(k.Float(t, -2), k.Un(loopir.OpLog, u)))
	quarter := k.Mul(k.Cast(t, o.draw(0, loopir.DrawOdd)), k.Float(t, 0.25))
	v := k.Sub(unit(k, t, o.draw(0, loopir.DrawSecond)), quarter)
	return k.Mul(r, k.Un(loopir.OpCos, k.Mul(k.Float(t, 2*math.Pi), v)))
}

// integers is low + word mod (high-low).
func integers(o *operands) int {
	k, low := o.k, o.scalar(2, ir.I64)
	span := k.Cast(ir.U32, k.Sub(o.scalar(3, ir.I64), low))
	return k.Add(low, k.Cast(ir.I64, k.Rem(o.draw(0, loopir.DrawWord), span)))
}

// dropout keeps element e where the uniform number of e is at least p; operands x, seed, Philox offset, p.
func dropout(o *operands) int {
	k, t := o.k, o.types[0].ComputeType()
	prob := o.scalar(3, t)
	u := k.Cast(t, unit(k, ir.F32, o.draw(1, loopir.DrawWord)))
	scale := k.Div(k.Float(t, 1), k.Sub(k.Float(t, 1), prob))
	return k.Mul(o.x[0], k.Select(k.Ge(u, prob), scale, k.Float(t, 0)))
}
