package lower

import (
	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

func init() { register(matmul, "matmul") }

// maxBatch bounds the collapsed batch dims of a kir.Gemm.
const maxBatch = 3

// matmul is one GEMM over operands in any stride order.
func matmul(n *Node) (*Result, error) {
	a, b, c := n.In[0].Layout, n.In[1].Layout, n.Out[0].Layout
	r := len(c.Shape)
	m, nn, k := a.Shape[r-2], b.Shape[r-1], a.Shape[r-1]
	if k == 0 {
		return emptyProduct(n)
	}
	cut := func(id int) part {
		p := n.whole(id)
		p.stride = p.stride[:r-2]
		return p
	}
	parts := []part{cut(0), cut(1), cut(n.out(0))}
	sizes, _, batch := collapse(nest{shape: c.Shape[:r-2], split: r - 2}, parts)
	if len(sizes) > maxBatch {
		return nil, ir.Errorf(ir.ErrNotImplemented, "matmul: got %d batch dims that cannot be merged, want at most %d: call contiguous() first", len(sizes), maxBatch)
	}
	g := &kir.Gemm{Type: n.In[0].DType, Batch: len(sizes), AUnit: unitOf(a.Stride[r-1], a.Stride[r-2], 'k', 'm'), BUnit: unitOf(b.Stride[r-1], b.Stride[r-2], 'n', 'k'),
		Bias: n.Attr[0] != 0, Act: kir.Activation(n.Attr[1])}
	g.CStrided = !c.Dense
	gl := g.Layout()
	p := make([]Param, len(gl.Params))
	set := func(i int, v int64) {
		if i >= 0 {
			p[i] = Param{Kind: Constant, Value: v}
		}
	}
	for i := range sizes {
		set(gl.Batch[i], sizes[i])
		set(gl.ABatch[i], batch[0].stride[i])
		set(gl.BBatch[i], batch[1].stride[i])
		if g.CStrided {
			set(gl.CBatch[i], batch[2].stride[i])
		}
	}
	set(gl.M, m)
	set(gl.N, nn)
	set(gl.K, k)
	set(gl.AM, a.Stride[r-2])
	set(gl.AK, a.Stride[r-1])
	set(gl.BK, b.Stride[r-2])
	set(gl.BN, b.Stride[r-1])
	p[gl.AOffset] = Param{Kind: OffsetOf, Index: 0}
	p[gl.BOffset] = Param{Kind: OffsetOf, Index: 1}
	bufs := []int{n.In[0].Buf, n.In[1].Buf}
	if g.Bias {
		set(gl.BiasN, n.In[2].Layout.Stride[0])
		p[gl.BiasOffset] = Param{Kind: OffsetOf, Index: 2}
		bufs = append(bufs, n.In[2].Buf)
	}
	if g.CStrided {
		set(gl.CM, c.Stride[r-2])
		set(gl.CN, c.Stride[r-1])
		p[gl.COffset] = Param{Kind: OffsetOf, Index: n.out(0)}
	}
	bufs = append(bufs, n.Out[0].Buf)
	return &Result{Launches: []Launch{{Kind: device.RunGemm, Gemm: g, Bufs: bufs, Params: p}}}, nil
}

// unitOf names the dim of stride 1, the last one first.
func unitOf(last, before int64, lastName, beforeName byte) byte {
	switch {
	case last == 1:
		return lastName
	case before == 1:
		return beforeName
	}
	return 0
}

// emptyProduct is the product over no terms: zeros, or the bias, through the activation.
func emptyProduct(n *Node) (*Result, error) {
	shape := n.Out[0].Layout.Shape
	parts := []part{n.whole(n.out(0))}
	if n.Attr[0] != 0 {
		p := n.whole(2)
		st := p.stride[0]
		p.stride = make([]int64, len(shape))
		p.stride[len(shape)-1] = st
		parts = append(parts, p)
	}
	l := newLoop(n, "matmul_empty_"+n.In[0].DType.String(), nest{shape: shape, split: len(shape)}, parts)
	b := l.b
	t := n.Out[0].DType.ComputeType()
	b.Map()
	v := b.Int(t, 0)
	if len(parts) == 2 {
		v = l.load(1)
	}
	switch kir.Activation(n.Attr[1]) {
	case kir.ActRelu:
		v = b.Max(v, b.Int(t, 0))
	case kir.ActGelu:
		v = gelu(b, t, []int{v})
	case kir.ActGeluTanh:
		v = geluTanh(b, t, []int{v})
	case kir.ActSilu:
		v = b.Mul(v, sigmoid(b, t, v))
	}
	l.store(0, v)
	return l.one()
}
