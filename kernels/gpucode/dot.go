package gpucode

import (
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// dotKernel is g as a row program: outer dims are batch, m and n; the inner dim is k. Parameters and buffers are
// numbered as those of g. The stages of a prologue come first.
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
		for _, x := range g.Epilogue.Bufs[1 : 1+len(l.BufOperands)] {
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
	results := []int{b.Buf(g.Type, loopir.Write)}
	for _, r := range l.BufResults {
		results = append(results, b.Buf(l.Bufs[r].Type, loopir.Write))
	}
	operands, scalars := ofEpilogue(b, g, &l, operands, ofC)
	if g.Prologue != nil {
		vector := strides(0)
		vector[d+2] = loopir.Unit
		x = ofPrologue(b, g, &l, x, vector)
	}
	b.Each()
	sum := b.Dot(x, y)
	b.Map()
	v := b.Acc(sum)
	if g.Bias {
		v = b.Add(v, bias)
	}
	list := []int{v}
	if g.Epilogue != nil {
		list = g.Epilogue.Inline(b, append([]int{b.Narrow(g.Type, v)}, operands...), scalars)
	}
	for i, r := range results {
		b.Store(ofC(r), list[i])
	}
	k := b.Kernel()
	if len(k.Params) != len(l.Params) || len(k.Bufs) != len(l.Bufs) {
		panic("BUG: gpucode: the dot kernel's parameters are not the gemm's")
	}
	return k
}

// ofEpilogue loads the operands of g's epilogue from these buffers, and its scalars. It adds their parameters.
func ofEpilogue(b *loopir.Builder, g *launch.Gemm, l *launch.GemmLayout, bufs []int,
	ofC func(buf int) int) (operands, scalars []int) {
	for range g.RowDims {
		b.Size()
	}
	for i, buf := range bufs {
		if g.Viewed(i) {
			operands = append(operands, viewOf(b, l, i, buf))
		} else {
			operands = append(operands, b.Load(ofC(buf)))
		}
	}
	for _, p := range l.Scalars {
		scalars = append(scalars, b.Param(b.Scalar(l.Params[p].Type)))
	}
	return operands, scalars
}

// ofPrologue is an element of A after the prologue, whose stages it begins. vector has the strides of an operand with
// an element for each k. Threads that share a column fold the row for themselves: no column waits for another one, and
// the row comes from the cache.
func ofPrologue(b *loopir.Builder, g *launch.Gemm, l *launch.GemmLayout, a int, vector []int) int {
	values, params := []int{a}, []int(nil)
	for _, v := range l.BufVectors {
		values = append(values, b.Load(b.Access(b.Buf(l.Bufs[v].Type, loopir.Read), -1, vector...)))
	}
	for _, p := range l.RowParams {
		n := 0
		if l.Params[p].Kind == loopir.Size {
			n = b.Size()
		} else {
			n = b.Scalar(l.Params[p].Type)
		}
		params = append(params, b.Param(n))
	}
	return b.Narrow(g.Type, g.Prologue.Inline(b, values, params)[0])
}

// viewOf loads operand o of the epilogue, which is read by strides. It adds the operand's parameters.
func viewOf(b *loopir.Builder, l *launch.GemmLayout, o, buf int) int {
	v := &l.Views[o]
	m, n := len(l.Batch), len(l.Batch)+1
	row := b.I64(0)
	for d := range n {
		row = b.Add(b.Mul(row, b.Param(d)), b.Index(d))
	}
	digits := make([]int, len(v.Rows))
	for d := len(digits) - 1; d >= 0; d-- {
		if digits[d] = row; d > 0 {
			size := b.Param(l.RowSize[d])
			digits[d], row = b.Rem(row, size), b.Div(row, size)
		}
	}
	at := b.I64(0)
	for _, d := range digits {
		at = b.Add(at, b.Mul(d, b.Param(b.Stride())))
	}
	at = b.Add(at, b.Mul(b.Index(m+1), b.Param(b.Stride())))
	return b.LoadAt(buf, b.Add(at, b.Param(b.Offset())))
}
