package prim

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerAttentionPrims() {
	pAttention = op.RegisterPrim(op.Prim{Name: "attention", Doc: "softmax(scale q k' + mask) v, the weights not stored",
		NIn: -1, Seed: attentionSeed,
		SaveIn: 15, SaveOut: 3, Infer: attentionInfer, VJP: attentionVJP, ScalarDType: attentionScalars,
		FLOPs: attentionFlops(4)})
	pAttentionGrad = op.RegisterPrim(op.Prim{Name: "attention_grad", Doc: "cotangents of attention's q, k, v and mask",
		NIn: -1, Seed: attentionSeed,
		SaveIn: 1 | 2 | 4 | 8 | 64, Infer: attentionGradInfer, VJP: attentionGradVJP, ScalarDType: attentionScalars,
		FLOPs: attentionFlops(14)})
}

// Dropping is the draw of attention's dropout; all Kinds None: no dropout.
type Dropping struct{ Seed, DrawOffset, Rate op.Val }

// on reports that there is dropout.
func (d Dropping) on() bool { return d.Rate.Kind != op.None }

// append adds the draw to the operands of a primitive.
func (d Dropping) append(in []op.Val) []op.Val {
	if d.on() {
		in = append(in, d.Seed, d.DrawOffset, d.Rate)
	}
	return in
}

// Factors multiply the weights of the given shape: 0 or 1/(1-rate). Weight (row, key) has the number row*n + key, where
// n is the number of keys rounded up to a multiple of four.
func (d Dropping) Factors(b op.Builder, t ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	last := len(shape) - 1
	wide := slices.Clone(shape)
	wide[last] = (wide[last] + 3) &^ 3
	f := Dropout(b, Fill(b, num(1), t, dev, wide), d.Seed, d.DrawOffset, d.Rate)
	return Slice(b, f, int64(last), 0, shape[last], 1)
}

// attentionScalars: seed and Philox offset, the second and third number, have 64 bits; scale and rate are of the
// compute type.
func attentionScalars(in []op.Val, _ []op.OutSpec, i int) ir.DType {
	if in[i-1].IsScalar() && i < len(in)-1 {
		return ir.I64
	}
	return in[0].DType().ComputeType()
}

// attentionSeed: with dropout the seed is the second number.
func attentionSeed(attr []int64) (number int, ok bool) { return 1, attr[2] != 0 }

// attentionFlops counts n products for each score and column.
func attentionFlops(n int64) func(in []op.Val, out []op.OutSpec) int64 {
	return func(in []op.Val, _ []op.OutSpec) int64 {
		q := in[0].Shape()
		return n * ir.Numel(q) * in[1].Shape()[2]
	}
}

// attentionInfer is the rule of attention. Operands: q [b, h, l, e], k [b, h/group, s, e], v [b, h/group, s, ev], mask?
// [b, h, l, s] with 1 in dims that share it, scale, and for dropout seed, Philox offset and rate. Attributes: causal,
// has mask, has dropout. Results: out [b, l, h, ev], lse [b, h, l].
func attentionInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	q, k, v := in[0].Shape(), in[1].Shape(), in[2].Shape()
	if len(q) != 4 || len(k) != 4 || len(v) != 4 || q[0] != k[0] || k[1] == 0 || q[1]%k[1] != 0 || q[3] != k[3] ||
		!slices.Equal(k[:3], v[:3]) {
		return nil, ir.Errorf(ir.ErrRuntime, "attention: operands do not fit: got query %s, key %s and value %s",
			ir.ShapeString(q), ir.ShapeString(k), ir.ShapeString(v))
	}
	d := in[0].DType()
	if !d.IsFloat() {
		return nil, notImplemented("attention", d)
	}
	if in[1].DType() != d || in[2].DType() != d {
		return nil, ir.Errorf(ir.ErrRuntime, "attention: operands of different dtypes: got %s, %s and %s", d, in[1].DType(),
			in[2].DType())
	}
	if attr[1] != 0 {
		m, want := in[3], []int64{q[0], q[1], q[2], k[2]}
		fits := len(m.Shape()) == 4 && (m.DType() == ir.Bool || m.DType() == ir.F32 || m.DType() == d)
		for i, n := range m.Shape() {
			fits = fits && (n == want[i] || n == 1)
		}
		if !fits {
			return nil, ir.Errorf(ir.ErrRuntime, "attention: mask: got %s of shape %s, want bool, float32 or %s of shape %s, "+
				"or 1 in some dims", m.DType(), ir.ShapeString(m.Shape()), d, ir.ShapeString(want))
		}
	}
	return append(out, op.OutSpec{DType: d, Shape: []int64{q[0], q[2], q[1], v[3]}},
		op.OutSpec{DType: d.ComputeType(), Shape: []int64{q[0], q[1], q[2]}}), nil
}

// attentionGradInfer is the rule of attention's gradient. Operands: q, k, v, the cotangent of out and out [b, h, l,
// ev], lse, then those of attentionInfer after v. Attributes: attentionInfer's, and whether the mask's gradient is
// wanted. Results: dq [b, l, h, e], dk [b, s, h/group, e], dv [b, s, h/group, ev], dmask? of the mask's shape.
func attentionGradInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	for _, x := range in[:3] {
		s := x.Shape()
		out = append(out, op.OutSpec{DType: x.DType(), Shape: []int64{s[0], s[2], s[1], s[3]}})
	}
	if attr[3] != 0 {
		out = append(out, op.OutSpec{DType: in[6].DType(), Shape: in[6].Shape()})
	}
	return out, nil
}

// headsFirst turns [b, l, h, e] into [b, h, l, e], or back.
func headsFirst(b op.Builder, x op.Val) op.Val { return Permute(b, x, []int64{0, 2, 1, 3}) }

// attentionRest reads what comes after the first n operands: mask?, scale, and the draw.
func attentionRest(in []op.Val, n int, attr []int64) (mask, scale op.Val, drop Dropping) {
	if attr[1] != 0 {
		mask = in[n]
		n++
	}
	if attr[2] != 0 {
		drop = Dropping{in[n+1], in[n+2], in[n+3]}
	}
	return mask, in[n], drop
}

func attentionVJP(c *op.VJPCall) []op.Val {
	b, out := c.B, make([]op.Val, len(c.In))
	if c.Cot[0].Kind == op.None {
		return out
	}
	mask, scale, drop := attentionRest(c.In, 3, c.Attr)
	in := []op.Val{c.In[0], c.In[1], c.In[2], headsFirst(b, c.Cot[0]), headsFirst(b, c.Out[0]), c.Out[1]}
	wanted := mask.IsTensor() && c.Need[3]
	if mask.IsTensor() {
		in = append(in, mask)
	}
	d := b.EmitN(pAttentionGrad, []int64{c.Attr[0], c.Attr[1], c.Attr[2], flag(wanted)}, drop.append(append(in, scale))...)
	for i := range 3 {
		if c.Need[i] {
			out[i] = headsFirst(b, d[i])
		}
	}
	if wanted {
		out[3] = d[3]
	}
	return out
}

// attentionGradVJP differentiates dq, dk, dv and dmask as functions of q, k, v, g and the mask; out and lse are
// functions of these and carry no gradient. With P the weights, J the Jacobian of the softmax (softmax_grad), M the
// factors of dropout and dP = M*(g v'):
//
//	dmask = J(dP), dq = c J(dP) k, dk = c J(dP)' q, dv = (M*P)' g; and for their cotangents hm, hq, hk, hv,
//	A = c (hq k' + q hk') + hm:  <hq,dq> + <hk,dk> + <hv,dv> + <hm,dmask> = <J(dP), A> + <M*P, g hv'>.
func attentionGradVJP(c *op.VJPCall) []op.Val {
	b, out := c.B, make([]op.Val, len(c.In))
	mask, scale, drop := attentionRest(c.In, 6, c.Attr)
	heads := c.In[0].Shape()[1]
	x := doubleGrad{b: b, scale: scale, q: wide(b, c.In[0]), g: wide(b, c.In[3])}
	x.k, x.v = RepeatHeads(b, wide(b, c.In[1]), heads), RepeatHeads(b, wide(b, c.In[2]), heads)
	if mask.IsTensor() && mask.DType() != ir.Bool {
		mask = wide(b, mask)
	}
	scores := Matmul(b, Mul(b, x.q, scale), Transpose(b, x.k, -2, -1), op.Val{})
	x.p = AttentionWeights(b, scores, mask, c.Attr[0] != 0)
	if drop.on() {
		x.m = drop.Factors(b, scores.DType(), scores.Device(), scores.Shape())
	}
	cot := func(i int) op.Val {
		h := c.Cot[i]
		if h.Kind == op.None {
			return Zeros(b, x.q.DType(), x.q.Device(), c.In[i].Shape())
		}
		return headsFirst(b, wide(b, h))
	}
	hm := op.Val{}
	if c.Attr[3] != 0 && c.Cot[3].Kind != op.None {
		hm = Expand(b, wide(b, c.Cot[3]), scores.Shape())
	}
	gq, gk, gv, gg, gm := x.cotangents(cot(0), RepeatHeads(b, cot(1), heads), RepeatHeads(b, cot(2), heads), hm)
	d := c.In[0].DType()
	out[0], out[3] = Cast(b, gq, d), Cast(b, gg, d)
	out[1], out[2] = Cast(b, sumHeads(b, gk, c.In[1].Shape()[1]), d), Cast(b, sumHeads(b, gv, c.In[2].Shape()[1]), d)
	if mask.IsTensor() && c.Need[6] {
		var shared []int64
		for i, n := range mask.Shape() {
			if n == 1 {
				shared = append(shared, int64(i))
			}
		}
		if len(shared) > 0 {
			gm = Reshape(b, Sum(b, gm, shared), mask.Shape())
		}
		out[6] = Cast(b, gm, c.In[6].DType())
	}
	return out
}

// doubleGrad holds the operands of attention_grad, with as many key heads as query heads; m has Kind None without
// dropout.
type doubleGrad struct {
	b             op.Builder
	scale         op.Val
	q, k, v, g, p op.Val
	m             op.Val
}

// kept is x after dropout.
func (x *doubleGrad) kept(y op.Val) op.Val {
	if !x.m.IsTensor() {
		return y
	}
	return Mul(x.b, y, x.m)
}

// cotangents returns the cotangents of q, k, v, g and the scores; hm may have Kind None.
func (x *doubleGrad) cotangents(hq, hk, hv, hm op.Val) (gq, gk, gv, gg, gs op.Val) {
	b, p := x.b, x.p
	mm := func(x, y op.Val) op.Val { return Matmul(b, x, y, op.Val{}) }
	t := func(x op.Val) op.Val { return Transpose(b, x, -1, -2) }
	scaled := func(v op.Val) op.Val { return Mul(b, v, x.scale) }
	dp := x.kept(mm(x.g, t(x.v)))
	ds := SoftmaxGrad(b, dp, p, 3)
	a := scaled(Add(b, mm(hq, t(x.k)), mm(x.q, t(hk))))
	if hm.IsTensor() {
		a = Add(b, a, hm)
	}
	ja := x.kept(SoftmaxGrad(b, a, p, 3))
	gg = Add(b, mm(ja, x.v), mm(x.kept(p), hv))
	gv = mm(t(ja), x.g)
	// Through the weights: <dP, p*(a - r)> with r the row sums of a*p, and <p, M*(g hv')>.
	r, s := sumSpread(b, Mul(b, a, p), 3), sumSpread(b, Mul(b, dp, p), 3)
	through := Add(b, x.kept(mm(x.g, t(hv))), Sub(b, Mul(b, dp, Sub(b, a, r)), Mul(b, a, s)))
	gs = SoftmaxGrad(b, through, p, 3)
	gq = scaled(Add(b, mm(ds, hk), mm(gs, x.k)))
	gk = scaled(Add(b, mm(t(ds), hq), mm(t(gs), x.q)))
	return gq, gk, gv, gg, gs
}

func wide(b op.Builder, x op.Val) op.Val { return Cast(b, x, x.DType().ComputeType()) }

// RepeatHeads repeats grouped keys or values [..., heads/group, s, e] to as many heads as the queries have.
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

// sumHeads is the transpose of RepeatHeads: the cotangent of k from the cotangent of the repeated one.
func sumHeads(b op.Builder, g op.Val, heads int64) op.Val {
	s := g.Shape()
	if s[1] == heads {
		return g
	}
	return Sum(b, Reshape(b, g, []int64{s[0], heads, s[1] / heads, s[2], s[3]}), []int64{2})
}

// Attention is softmax(scale q k' + mask) v as [b, l, h, ev]. q is [b, h, l, e]; k and v have a head for each group of
// heads. mask, [b, h, l, s] with 1 in the dims that share it, may have Kind None.
func Attention(b op.Builder, q, k, v, mask, scale op.Val, causal bool, drop Dropping) op.Val {
	in := []op.Val{q, k, v}
	if mask.IsTensor() {
		in = append(in, mask)
	}
	attr := []int64{flag(causal), flag(mask.IsTensor()), flag(drop.on())}
	return b.EmitN(pAttention, attr, drop.append(append(in, scale))...)[0]
}

// AttentionWeights is softmax(scores + mask), stored. It is the reference for attention, serves float64 and the widest
// heads, and makes second derivatives. mask (Kind None: none) broadcasts to the scores and has at least one dim. A row
// without a key has weights 0.
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

// maskScores applies a mask and finds the rows without a key. Their scores become 0, so that the softmax and its
// gradient stay finite; the caller sets their weights to 0.
func maskScores(b op.Builder, scores, mask op.Val) (masked, dead op.Val) {
	shape := scores.Shape()
	lowest := num(math.Inf(-1))
	last := []int64{int64(len(mask.Shape()) - 1)}
	if mask.DType() == ir.Bool {
		dead = LogicalNot(b, Amax(b, mask, last))
		masked = Where(b, Expand(b, mask, shape), scores, lowest)
	} else {
		dead = Amin(b, Eq(b, b.Detach(mask), lowest), last)
		masked = Add(b, scores, Expand(b, mask, shape))
	}
	dead = Expand(b, Unsqueeze(b, dead, last[0]), shape)
	return Where(b, dead, num(0), masked), dead
}
