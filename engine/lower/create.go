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
		"rand_uniform": draws("rand_uniform", uniform),
		"rand_normal":  draws("rand_normal", normal),
		"rand_int":     draws("rand_int", integers),
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

// draw turns the four words of a Philox block into four values.
type draw func(k *kernel, d ir.DType, word [4]int) [4]int

// draws lowers a random primitive: one index is a block of four elements.
func draws(name string, f draw) lowering {
	return func(p *program) {
		n := p.n.Out[0].Layout.Numel
		if n == 0 {
			return
		}
		out := p.out(0)
		out.computed = true
		out.over([]int64{1})
		k := p.kernel(name+"_"+out.dtype.String(), []int64{(n + 3) / 4}, nil, 0, out)
		k.Map()
		block := k.Index(0)
		v := f(k, out.dtype, k.block(block, 0, 1))
		first, size, at := k.Mul(block, k.I64(4)), k.size(n), k.I64(0)
		if out.offParam >= 0 {
			at = k.Param(out.offParam)
		}
		for j, x := range v {
			e := k.Add(first, k.I64(int64(j)))
			k.StoreAt(k.Lt(e, size), out.kbuf, k.Add(at, e), k.Cast(out.dtype, x), loopir.Set)
		}
		k.launch()
	}
}

// block is the words of Philox block number ctr (Salmon et al., SC 2011); seed and Philox offset are scalar operands.
func (k *kernel) block(ctr, seed, drawOffset int) [4]int {
	var w [4]int
	s, n := k.scalar(seed, ir.I64), k.scalar(drawOffset, ir.I64)
	for j := range w {
		w[j] = k.Philox(ctr, n, s, j)
	}
	return w
}

// unit maps a word to [0, 1): its top bits, as many as the dtype holds exactly, so that rounding never gives 1.
func unit(k *kernel, d ir.DType, word int) int {
	bits := map[ir.DType]int64{ir.F16: 11, ir.BF16: 8, ir.F32: 24, ir.F64: 32}[d]
	if bits < 32 {
		word = k.Bin(loopir.OpShr, word, k.Int(ir.U32, 32-bits))
	}
	return k.Mul(k.Cast(d, word), k.Float(d, math.Ldexp(1, -int(bits))))
}

func uniform(k *kernel, d ir.DType, w [4]int) (v [4]int) {
	for j := range w {
		v[j] = unit(k, d, w[j])
	}
	return v
}

// normal is the Box-Muller transform (Box and Muller, 1958) of the word pairs (0,1) and (2,3).
func normal(k *kernel, d ir.DType, w [4]int) (v [4]int) {
	t := d.ComputeType()
	for j := 0; j < 4; j += 2 {
		u := k.Sub(k.Float(t, 1), unit(k, t, w[j])) // in (0, 1]
		r := k.Un(loopir.OpSqrt, k.Mul(k.Float(t, -2), k.Un(loopir.OpLog, u)))
		angle := k.Mul(k.Float(t, 2*math.Pi), unit(k, t, w[j+1]))
		v[j] = k.Mul(r, k.Un(loopir.OpCos, angle))
		v[j+1] = k.Mul(r, k.Un(loopir.OpSin, angle))
	}
	return v
}

// integers is low + word mod (high-low).
func integers(k *kernel, _ ir.DType, w [4]int) (v [4]int) {
	low := k.scalar(2, ir.I64)
	span := k.Cast(ir.U32, k.Sub(k.scalar(3, ir.I64), low))
	for j := range w {
		v[j] = k.Add(low, k.Cast(ir.I64, k.Rem(w[j], span)))
	}
	return v
}

// dropout keeps element e where the uniform number of e is at least p; operands x, seed, Philox offset, p.
func dropout(o *operands) int {
	k, t := o.k, o.types[0].ComputeType()
	e := k.LinearIndex()
	w := k.block(k.Div(e, k.I64(4)), o.in[1], o.in[2])
	lane := k.Rem(e, k.I64(4))
	word := w[3]
	for j := 2; j >= 0; j-- {
		word = k.Select(k.Eq(lane, k.I64(int64(j))), w[j], word)
	}
	prob := o.scalar(3, t)
	u := k.Cast(t, unit(k, ir.F32, word))
	scale := k.Div(k.Float(t, 1), k.Sub(k.Float(t, 1), prob))
	return k.Mul(o.x[0], k.Select(k.Ge(u, prob), scale, k.Float(t, 0)))
}
