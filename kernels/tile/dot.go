package tile

import (
	"github.com/torchlette/torchlette/kernels/kir"
)

// dotKernel is g as a row program: outer batch, m and n, inner k. Its
// parameters and buffers are numbered as g's.
func dotKernel(g *kir.Gemm) *kir.Kernel {
	l := g.Layout()
	d := g.Batch
	b := kir.NewBuilder("gemm_dot_"+g.Type.String(), d+2, 1)
	strides := func(n int) []int {
		v := make([]int, d+3)
		for i := range v {
			v[i] = kir.Broadcast
		}
		for i := range n {
			v[i] = b.Stride()
		}
		return v
	}
	unit := func(p int, isUnit bool) int {
		if isUnit {
			return kir.Unit
		}
		return p
	}
	as := strides(d)
	as[d] = unit(b.Stride(), g.AUnit == 'm')
	as[d+2] = unit(b.Stride(), g.AUnit == 'k')
	aOffset := b.Offset()
	bs := strides(d)
	bs[d+2] = unit(b.Stride(), g.BUnit == 'k')
	bs[d+1] = unit(b.Stride(), g.BUnit == 'n')
	bOffset := b.Offset()
	// Buffer numbers must follow the layout's order.
	x := b.Load(b.Access(b.Buf(g.Type, kir.Read), aOffset, as...))
	y := b.Load(b.Access(b.Buf(g.Type, kir.Read), bOffset, bs...))
	bias := -1
	if g.Bias {
		v := strides(0)
		v[d+1] = b.Stride()
		bias = b.Load(b.Access(b.Buf(g.Type, kir.Read), b.Offset(), v...))
	}
	residualBuf := -1
	if g.Residual {
		residualBuf = b.Buf(g.Type, kir.Read)
	}
	ofC := func(buf int) int { return b.Linear(buf, -1) }
	if g.CStrided {
		cs := strides(d)
		cs[d], cs[d+1] = b.Stride(), b.Stride()
		cOffset := b.Offset()
		ofC = func(buf int) int { return b.Access(buf, cOffset, cs...) }
	}
	residual := -1
	if g.Residual {
		residual = b.Load(ofC(residualBuf))
	}
	c := b.Buf(g.Type, kir.Write)
	b.Each()
	sum := b.Reduce(kir.Sum, b.Mul(x, y))
	b.Map()
	v := b.Acc(sum)
	if g.Bias {
		v = b.Add(v, bias)
	}
	v = activation(b, g.Act, v)
	if g.Residual {
		v = b.Add(v, residual)
	}
	b.Store(ofC(c), v)
	k := b.Kernel()
	if len(k.Params) != len(l.Params) || len(k.Bufs) != len(l.Bufs) {
		panic("BUG: tile: the dot kernel's parameters are not the gemm's")
	}
	return k
}

// activation is activate over level 1 expressions.
func activation(b *kir.Builder, a kir.Activation, x int) int {
	c := func(v float64) int { return b.Float(b.Type(x), v) }
	if !b.Type(x).IsFloat() {
		if a == kir.ActRelu {
			return b.Max(x, b.Int(b.Type(x), 0))
		}
		return x
	}
	switch a {
	case kir.ActRelu:
		return b.Max(x, c(0))
	case kir.ActGelu:
		return b.Mul(b.Mul(c(0.5), x), b.Add(c(1), b.Un(kir.OpErf, b.Mul(x, c(0.7071067811865476)))))
	case kir.ActGeluTanh:
		inner := b.Mul(c(kir.GeluTanhScale), b.Add(x, b.Mul(c(kir.GeluTanhCubic), b.Mul(b.Mul(x, x), x))))
		return b.Mul(b.Mul(c(0.5), x), b.Add(c(1), b.Un(kir.OpTanh, inner)))
	case kir.ActSilu:
		return b.Div(x, b.Add(c(1), b.Un(kir.OpExp, b.Neg(x))))
	}
	return x
}
