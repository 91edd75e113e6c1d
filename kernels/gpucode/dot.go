package gpucode

import (
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// dotKernel is g as a row program: outer dims are batch, m and n; the inner dim is k. Parameters and buffers are
// numbered as those of g.
func dotKernel(g *launch.Gemm) *loopir.Kernel {
	l := g.Layout()
	d := g.Batch
	b := loopir.NewBuilder("gemm_dot_"+g.Type.String(), d+2, 1)
	strides := func(n int) []int {
		v := make([]int, d+3)
		for i := range v {
			v[i] = loopir.Broadcast
		}
		for i := range n {
			v[i] = b.Stride()
		}
		return v
	}
	unit := func(p int, isUnit bool) int {
		if isUnit {
			return loopir.Unit
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
	// Buffers must be numbered in the layout's order.
	x := b.Load(b.Access(b.Buf(g.Type, loopir.Read), aOffset, as...))
	y := b.Load(b.Access(b.Buf(g.Type, loopir.Read), bOffset, bs...))
	bias := -1
	if g.Bias {
		v := strides(0)
		v[d+1] = b.Stride()
		bias = b.Load(b.Access(b.Buf(g.Type, loopir.Read), b.Offset(), v...))
	}
	var operands []int
	if g.Epilogue != nil {
		for _, x := range g.Epilogue.Bufs[1:] {
			operands = append(operands, b.Buf(x.Type, loopir.Read))
		}
	}
	ofC := func(buf int) int { return b.Linear(buf, -1) }
	if g.CStrided {
		cs := strides(d)
		cs[d], cs[d+1] = b.Stride(), b.Stride()
		cOffset := b.Offset()
		ofC = func(buf int) int { return b.Access(buf, cOffset, cs...) }
	}
	for i := range operands {
		operands[i] = b.Load(ofC(operands[i]))
	}
	c := b.Buf(g.Type, loopir.Write)
	var scalars []int
	for _, p := range l.Scalars {
		scalars = append(scalars, b.Param(b.Scalar(l.Params[p].Type)))
	}
	b.Each()
	sum := b.Dot(x, y)
	b.Map()
	v := b.Acc(sum)
	if g.Bias {
		v = b.Add(v, bias)
	}
	if g.Epilogue != nil {
		v = g.Epilogue.Inline(b, append([]int{b.Narrow(g.Type, v)}, operands...), scalars)
	}
	b.Store(ofC(c), v)
	k := b.Kernel()
	if len(k.Params) != len(l.Params) || len(k.Bufs) != len(l.Bufs) {
		panic("BUG: gpucode: the dot kernel's parameters are not the gemm's")
	}
	return k
}
