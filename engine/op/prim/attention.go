package prim

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

func init() {
	pAttention = op.RegisterPrim(op.Prim{Name: "attention", Doc: "softmax(scale q k' + mask) v, the weights not stored", NIn: -1,
		SaveIn: 15, SaveOut: 3, Infer: attentionInfer, VJP: attentionVJP, Flops: attentionFlops(4)})
	pAttentionGrad = op.RegisterPrim(op.Prim{Name: "attention_grad", Doc: "cotangents of attention's q, k and v", NIn: -1,
		SaveIn: 1 | 2 | 4 | 8 | 64, Infer: attentionGradInfer, VJP: attentionGradVJP, Flops: attentionFlops(14)})
}

// attentionFlops counts the products: n a score and column.
func attentionFlops(n int64) func(in []op.Val, out []op.OutSpec) int64 {
	return func(in []op.Val, _ []op.OutSpec) int64 {
		q := in[0].Shape()
		return n * ir.Numel(q) * in[1].Shape()[2]
	}
}

// attentionInfer: q [b, h, l, e], k [b, h/group, s, e], v [b, h/group, s, ev], mask? [b, h, l, s], scale;
// attributes: causal, has mask. Results: out [b, l, h, ev], lse [b, h, l].
func attentionInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	q, k, v := in[0].Shape(), in[1].Shape(), in[2].Shape()
	if len(q) != 4 || len(k) != 4 || len(v) != 4 || q[0] != k[0] || k[1] == 0 || q[1]%k[1] != 0 || q[3] != k[3] || !slices.Equal(k[:3], v[:3]) {
		return nil, ir.Errorf(ir.ErrRuntime, "attention: operands do not fit: got query %s, key %s and value %s", ir.ShapeString(q), ir.ShapeString(k), ir.ShapeString(v))
	}
	d := in[0].DType()
	if !d.IsFloat() {
		return nil, notImplemented("attention", d)
	}
	if in[1].DType() != d || in[2].DType() != d {
		return nil, ir.Errorf(ir.ErrRuntime, "attention: operands of different dtypes: got %s, %s and %s", d, in[1].DType(), in[2].DType())
	}
	if attr[1] != 0 {
		m := in[3]
		if want := []int64{q[0], q[1], q[2], k[2]}; !slices.Equal(m.Shape(), want) || m.DType() != ir.Bool && m.DType() != d {
			return nil, ir.Errorf(ir.ErrRuntime, "attention: mask: got %s of shape %s, want bool or %s of shape %s", m.DType(), ir.ShapeString(m.Shape()), d, ir.ShapeString(want))
		}
	}
	return append(out, op.OutSpec{DType: d, Shape: []int64{q[0], q[2], q[1], v[3]}},
		op.OutSpec{DType: d.ComputeType(), Shape: []int64{q[0], q[1], q[2]}}), nil
}

// attentionGradInfer: q, k, v, the cotangent of out and out [b, h, l, ev], lse, mask?, scale.
// Results: dq [b, l, h, e], dk [b, s, h/group, e], dv [b, s, h/group, ev].
func attentionGradInfer(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	for _, x := range in[:3] {
		s := x.Shape()
		out = append(out, op.OutSpec{DType: x.DType(), Shape: []int64{s[0], s[2], s[1], s[3]}})
	}
	return out, nil
}

// headsFirst turns [b, l, h, e] into [b, h, l, e], or back.
func headsFirst(b op.Builder, x op.Val) op.Val { return Permute(b, x, []int64{0, 2, 1, 3}) }

func attentionVJP(c *op.VJPCall) []op.Val {
	b, out := c.B, make([]op.Val, len(c.In))
	mask := op.Val{}
	if c.Attr[1] != 0 {
		mask = c.In[3]
		if c.Need[3] {
			panic("BUG: attention: a mask that requires grad belongs to AttentionWeights")
		}
	}
	if c.Cot[0].Kind == op.None {
		return out
	}
	dq, dk, dv := attentionGrad(b, c.In[0], c.In[1], c.In[2], headsFirst(b, c.Cot[0]), headsFirst(b, c.Out[0]), c.Out[1], mask, c.In[len(c.In)-1], c.Attr[0])
	for i, d := range []op.Val{dq, dk, dv} {
		if c.Need[i] {
			out[i] = headsFirst(b, d)
		}
	}
	return out
}

func attentionGrad(b op.Builder, q, k, v, g, out, lse, mask, scale op.Val, causal int64) (dq, dk, dv op.Val) {
	in := []op.Val{q, k, v, g, out, lse}
	if mask.IsTensor() {
		in = append(in, mask)
	}
	o := b.EmitN(pAttentionGrad, []int64{causal, flag(mask.IsTensor())}, append(in, scale)...)
	return o[0], o[1], o[2]
}

// attentionGradVJP differentiates dq, dk and dv as functions of q, k, v and g; out and lse are functions of
// q, k and v themselves, and carry nothing. With P the weights, J its Jacobian (softmax_grad), dP = g v':
//
//	dq = c J(dP) k, dk = c J(dP)' q, dv = P' g; and for their cotangents hq, hk, hv,
//	A = c (hq k' + q hk'):  <hq,dq> + <hk,dk> + <hv,dv> = <J(dP), A> + <P, g hv'>.
func attentionGradVJP(c *op.VJPCall) []op.Val {
	b, n := c.B, len(c.In)
	out := make([]op.Val, n)
	scale, mask := c.In[n-1], op.Val{}
	if c.Attr[1] != 0 {
		mask = c.In[6]
		if c.Need[6] {
			panic("BUG: attention_grad: a mask that requires grad belongs to AttentionWeights")
		}
	}
	heads := c.In[0].Shape()[1]
	x := doubleGrad{b: b, scale: scale, d: c.In[0].DType(), q: wide(b, c.In[0]), g: wide(b, c.In[3])}
	x.k, x.v = RepeatHeads(b, wide(b, c.In[1]), heads), RepeatHeads(b, wide(b, c.In[2]), heads)
	if mask.IsTensor() && mask.DType() != ir.Bool {
		mask = wide(b, mask)
	}
	x.p = AttentionWeights(b, Matmul(b, Mul(b, x.q, scale), Transpose(b, x.k, -2, -1), op.Val{}, 0), mask, c.Attr[0] != 0)
	cot := func(i int) op.Val {
		h := c.Cot[i]
		if h.Kind == op.None {
			return Zeros(b, x.q.DType(), x.q.Device(), c.In[i].Shape())
		}
		return headsFirst(b, wide(b, h))
	}
	gq, gk, gv, gg := x.cotangents(cot(0), RepeatHeads(b, cot(1), heads), RepeatHeads(b, cot(2), heads))
	out[0], out[3] = Cast(b, gq, x.d), Cast(b, gg, x.d)
	out[1], out[2] = Cast(b, sumHeads(b, gk, c.In[1].Shape()[1]), x.d), Cast(b, sumHeads(b, gv, c.In[2].Shape()[1]), x.d)
	return out
}

// doubleGrad holds the operands of attention_grad, with as many key heads as query heads.
type doubleGrad struct {
	b             op.Builder
	scale         op.Val
	d             ir.DType
	q, k, v, g, p op.Val
}

func (x *doubleGrad) cotangents(hq, hk, hv op.Val) (gq, gk, gv, gg op.Val) {
	b, p := x.b, x.p
	mm := func(x, y op.Val) op.Val { return Matmul(b, x, y, op.Val{}, 0) }
	t := func(x op.Val) op.Val { return Transpose(b, x, -1, -2) }
	scaled := func(v op.Val) op.Val { return Mul(b, v, x.scale) }
	dp := mm(x.g, t(x.v))
	ds := SoftmaxGrad(b, dp, p, 3)
	a := scaled(Add(b, mm(hq, t(x.k)), mm(x.q, t(hk))))
	ja := SoftmaxGrad(b, a, p, 3)
	gg = Add(b, mm(ja, x.v), mm(p, hv))
	gv = mm(t(ja), x.g)
	// Through the weights: <dP, p*(a - r)> with r the row sums of a*p, and <p, g hv'>.
	r, s := sumSpread(b, Mul(b, a, p), 3), sumSpread(b, Mul(b, dp, p), 3)
	through := Add(b, mm(x.g, t(hv)), Sub(b, Mul(b, dp, Sub(b, a, r)), Mul(b, a, s)))
	js := SoftmaxGrad(b, through, p, 3)
	gq = scaled(Add(b, mm(ds, hk), mm(js, x.k)))
	gk = scaled(Add(b, mm(t(ds), hq), mm(t(js), x.q)))
	return gq, gk, gv, gg
}

func wide(b op.Builder, x op.Val) op.Val { return Cast(b, x, x.DType().ComputeType()) }

// RepeatHeads gives grouped keys or values [..., heads/group, s, e] as many heads as the queries have.
func RepeatHeads(b op.Builder, k op.Val, heads int64) op.Val {
	r := len(k.Shape())
	have := k.Shape()[r-3]
	if have == heads {
		return k
	}
	wide, out := slices.Insert(slices.Clone(k.Shape()), r-2, heads/have), slices.Clone(k.Shape())
	out[r-3] = heads
	return Reshape(b, Expand(b, Unsqueeze(b, k, int64(r-2)), wide), out)
}

// sumHeads is the transpose of RepeatHeads: the cotangent of k from that of the repeated one.
func sumHeads(b op.Builder, g op.Val, heads int64) op.Val {
	s := g.Shape()
	if s[1] == heads {
		return g
	}
	return Sum(b, Reshape(b, g, []int64{s[0], heads, s[1] / heads, s[2], s[3]}), []int64{2})
}

// Attention gives softmax(scale q k' + mask) v as [b, l, h, ev], of q [b, h, l, e] and k and v with h over a group
// of heads. mask, [b, h, l, s], may have Kind None; it must not require grad.
func Attention(b op.Builder, q, k, v, mask, scale op.Val, causal bool) op.Val {
	in := []op.Val{q, k, v}
	if mask.IsTensor() {
		in = append(in, mask)
	}
	return b.EmitN(pAttention, []int64{flag(causal), flag(mask.IsTensor())}, append(in, scale)...)[0]
}

// AttentionWeights is softmax(scores + mask), stored: the reference for attention, the
// form whose mask may require grad, and what second derivatives are made of. mask (Kind
// None: none) broadcasts to the scores and has at least one dim. A row without a key left
// has weights 0.
func AttentionWeights(b op.Builder, scores, mask op.Val, causal bool) op.Val {
	shape, dead := scores.Shape(), op.Val{}
	switch {
	case causal:
		scores = Where(b, Expand(b, causalMask(b, scores), shape), scores, num(math.Inf(-1)))
	case mask.IsTensor():
		scores, dead = maskScores(b, scores, mask)
	}
	w := Softmax(b, scores, int64(len(shape)-1))
	if dead.IsTensor() {
		w = Where(b, dead, num(0), w)
	}
	return w
}

// causalMask is true at and below the diagonal of the last two dims.
func causalMask(b op.Builder, scores op.Val) op.Val {
	s := scores.Shape()
	l, n := s[len(s)-2], s[len(s)-1]
	rows := Iota(b, op.IntVal(0), op.IntVal(1), ir.I32, scores.Device(), l)
	cols := Iota(b, op.IntVal(0), op.IntVal(1), ir.I32, scores.Device(), n)
	shape := []int64{l, n}
	return Ge(b, Expand(b, Reshape(b, rows, []int64{l, 1}), shape), Expand(b, cols, shape))
}

// maskScores applies a mask and finds the rows with no key left. Their scores become
// 0, so that the softmax and its gradient stay finite; the caller zeroes their weights.
func maskScores(b op.Builder, scores, mask op.Val) (masked, dead op.Val) {
	shape := scores.Shape()
	lowest := num(math.Inf(-1))
	last := []int64{int64(len(mask.Shape()) - 1)}
	if mask.DType() == ir.Bool {
		dead = LogicalNot(b, Any(b, mask, last))
		masked = Where(b, Expand(b, mask, shape), scores, lowest)
	} else {
		dead = All(b, Eq(b, b.Detach(mask), lowest), last)
		masked = Add(b, scores, Expand(b, mask, shape))
	}
	dead = Expand(b, Unsqueeze(b, dead, last[0]), shape)
	return Where(b, dead, num(0), masked), dead
}
