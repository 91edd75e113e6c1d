package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerNnOps() {
	op.Register(op.Def{
		Sig: "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> " +
			"Tensor",
		Doc: "Normalised over the last dims, then scaled and shifted.", Where: op.Function | op.Functional,
		Samples: samples("T(3,4), (4,)", "T(3,4), (4,), T(4), T(4)", "T(2,3,4), (3,4), T(3,4), T(3,4)", "T(3,4), (4,), T(4)",
			"T(3,4), (4,), None, T(4)", "T(3,4), (4,) | eps=0.1", "T(0,4), (4,), T(4), T(4)"),
		ErrorSamples: samples("T(3,4), (3,)", "T(3,4), (4,), T(3)", "T(3,4), ()"), Eval: evalLayerNorm,
	})
	op.Register(op.Def{
		Sig:   "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
		Doc:   "Divided by the root mean square over the last dims.",
		Where: op.Function | op.Functional, Eval: evalRMSNorm,
		Samples:      samples("T(3,4), (4,)", "T(3,4), (4,), T(4)", "T(2,3,4), (3,4), T(3,4), 1e-5"),
		ErrorSamples: samples("T(3,4), (3,)"),
	})
	op.Register(op.Def{
		Sig: "dropout(Tensor input, float p, bool train) -> Tensor",
		Doc: "Elements zeroed with probability p, the rest scaled by 1 / (1 - p).", Where: op.Function,
		View: true, Samples: samples("T(3,4), 0.5, False", "T(3,4), 0.0, True", "T(3,4), 1.0, True"),
		ErrorSamples: samples("T(3), 1.5, True"),
		Eval: func(a *op.Args) []op.Val {
			x, p, train := a.Val(), a.Float(), a.Bool()
			return a.Ret(dropout(a.B, x, p, train))
		},
	})
	op.Register(op.Def{
		Sig: "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float " +
			"dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
		Doc: "softmax(query @ key.T * scale + mask) @ value.", Where: op.Functional, Eval: evalAttention,
		Samples: samples("T(2,3,4), T(2,5,4), T(2,5,6)", "T(2,2,3,4), T(2,2,3,4), T(2,2,3,4) | is_causal=True",
			"T(2,3,4), T(2,5,4), T(2,5,4), B(3,5)", "T(2,3,4), T(2,5,4), T(2,5,4), T(3,5)",
			"T(2,3,4), T(2,3,4), T(2,3,4) | scale=0.5", "T(1,4,3,4), T(1,2,3,4), T(1,2,3,4) | enable_gqa=True",
			"T(3,4), T(5,4), T(5,4)"),
		ErrorSamples: samples("T(4), T(5,4), T(5,4)", "T(2,3,4), T(2,3,4), T(2,3,4), B(3,3) | is_causal=True"),
	})
}

// checkNormalized checks that the input ends in shape, and that the operands have it.
func checkNormalized(x op.Val, shape []int64, form string, operands map[string]op.Val) {
	if len(shape) == 0 {
		fail(ir.ErrRuntime, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "+
			"but got normalized_shape = []")
	}
	for _, name := range []string{"weight", "bias"} {
		if v, ok := operands[name]; ok && v.IsTensor() && !ir.SameShape(v.Shape(), shape) {
			fail(ir.ErrRuntime, "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "+
				"normalized_shape = %s", name, name, ir.ShapeString(v.Shape()), ir.ShapeString(shape))
		}
	}
	s := x.Shape()
	if form == "" && len(s) < len(shape) {
		fail(ir.ErrValue, "Input tensor must have at least %d dimensions, but got %d", len(shape), len(s))
	}
	if k := len(s) - len(shape); k < 0 || !ir.SameShape(s[k:], shape) {
		text := ir.ShapeString(shape)
		fail(ir.ErrRuntime, "Given normalized_shape=%s, expected input with shape [*%s%s, but got input of size%s", text,
			form, text[1:], ir.ShapeString(s))
	}
}

func evalLayerNorm(a *op.Args) []op.Val {
	x, b := a.Val(), a.B
	shape, _ := a.IntList()
	w, bias, eps := a.Val(), a.Val(), a.Scalar()
	checkNormalized(x, shape, ", ", map[string]op.Val{"weight": w, "bias": bias})
	needFloat("LayerNormKernelImpl", x)
	wide, w, bias := mixed(b, x, w, bias)
	y, _, _ := prim.LayerNorm(b, wide, w, bias, eps, len(shape))
	return a.Ret(cast(b, y, x.DType()))
}

// mixed casts a norm's input and its optional parameters to one dtype: the input's, or its compute type where a
// parameter has that. Then neither parameters nor products with them are rounded to half precision.
func mixed(b op.Builder, x, w, bias op.Val) (op.Val, op.Val, op.Val) {
	d := x.DType()
	for _, v := range []op.Val{w, bias} {
		if t := x.DType().ComputeType(); v.IsTensor() && v.DType() == t {
			d = t
		}
	}
	return cast(b, x, d), cast(b, w, d), cast(b, bias, d)
}

func machineEpsilon(d ir.DType) float64 {
	switch d {
	case ir.F16:
		return math.Ldexp(1, -10)
	case ir.BF16:
		return math.Ldexp(1, -7)
	case ir.F64:
		return math.Ldexp(1, -52)
	}
	return math.Ldexp(1, -23)
}

func evalRMSNorm(a *op.Args) []op.Val {
	x, b := a.Val(), a.B
	shape, _ := a.IntList()
	w, eps := a.Val(), a.Scalar()
	checkNormalized(x, shape, "", map[string]op.Val{"weight": w})
	needFloat("rms_norm", x)
	if x.DType().IsComplex() {
		return a.Ret(complexRMSNorm(b, x, w, eps, len(shape)))
	}
	if eps.Kind == op.None {
		eps = op.FloatVal(machineEpsilon(x.DType().ComputeType()))
	}
	wide, w, _ := mixed(b, x, w, none)
	return a.Ret(cast(b, prim.RMSNorm(b, wide, w, eps, len(shape)), x.DType()))
}

func complexRMSNorm(b op.Builder, x, w, eps op.Val, n int) op.Val {
	if eps.Kind == op.None {
		eps = op.FloatVal(machineEpsilon(x.DType().Real()))
	}
	var dims []int64
	s := x.Shape()
	for d := len(s) - n; d < len(s); d++ {
		dims = append(dims, int64(d))
	}
	mask := dimMask(dims, len(s))
	total := reduceDims(b, prim.Sum, prim.Mul(b, x, x), mask, true) // as PyTorch: the squares of complex numbers
	mean := prim.Div(b, total, op.FloatVal(float64(ir.MaskedNumel(mask, s))))
	y := prim.Mul(b, x, expand(b, prim.Rsqrt(b, prim.Add(b, mean, eps)), s))
	if !w.IsTensor() {
		return y
	}
	return prim.Mul(b, y, expand(b, cast(b, w, y.DType()), s))
}

func checkRate(p float64) {
	if p < 0 || p > 1 || p != p {
		fail(ir.ErrRuntime, "dropout probability has to be between 0 and 1, but got %g", p)
	}
}

func dropout(b op.Builder, x op.Val, p float64, train bool) op.Val {
	checkRate(p)
	switch {
	case !train || p == 0 || x.L().Numel == 0:
		return x
	case p == 1:
		return prim.Mul(b, x, op.FloatVal(0))
	}
	seed, drawOffset := offsetOfDraw(b, x.Device())
	return prim.Dropout(b, x, seed, drawOffset, op.FloatVal(p))
}

func evalAttention(a *op.Args) []op.Val {
	q, k, v, mask, b := a.Val(), a.Val(), a.Val(), a.Val(), a.B
	p, causal, scale, gqa := a.Float(), a.Bool(), a.Scalar(), a.Bool()
	checkAttention(q, k, v, mask, causal, gqa)
	if scale.Kind == op.None {
		scale = op.FloatVal(1 / math.Sqrt(float64(q.Shape()[len(q.Shape())-1])))
	}
	drop := attentionDropout(b, q.Device(), p)
	if fuses(q, k, v, mask, gqa) {
		return a.Ret(fusedAttention(b, q, k, v, mask, scale, causal, drop))
	}
	narrow := widen(b, q.DType(), &q, &k, &v, &mask)
	if mask.IsTensor() && mask.DType() != ir.Bool {
		mask = prim.Cast(b, mask, q.DType())
	}
	if gqa {
		heads := q.Shape()[len(q.Shape())-3]
		k, v = prim.RepeatHeads(b, k, heads), prim.RepeatHeads(b, v, heads)
	}
	scores := matmul(b, prim.Mul(b, q, scale), prim.Transpose(b, k, -2, -1), none)
	if shape := scores.Shape(); mask.IsTensor() {
		mask = asVector(b, mask)
		if !ir.SameShape(ir.BroadcastShape(mask.Shape(), shape), shape) {
			fail(ir.ErrRuntime, "The expanded size of the tensor must match the attention scores: got a mask of shape %s, want "+
				"one that broadcasts to %s", ir.ShapeString(mask.Shape()), ir.ShapeString(shape))
		}
	}
	w := prim.AttentionWeights(b, scores, mask, causal)
	if p > 0 {
		w = prim.Mul(b, w, drop.Factors(b, w.DType(), w.Device(), w.Shape()))
	}
	return a.Ret(narrow(matmul(b, w, v, none)))
}

// attentionDropout draws for dropout of probability p.
func attentionDropout(b op.Builder, dev ir.DeviceID, p float64) (drop prim.Dropping) {
	checkRate(p)
	if p > 0 {
		drop.Seed, drop.DrawOffset = offsetOfDraw(b, dev)
		drop.Rate = op.FloatVal(p)
	}
	return drop
}

func checkAttention(q, k, v, mask op.Val, causal, gqa bool) {
	if len(q.Shape()) < 2 || len(k.Shape()) < 2 || len(v.Shape()) < 2 {
		fail(ir.ErrRuntime, "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim(): %d, "+
			"key.dim(): %d and value.dim(): %d instead.", len(q.Shape()), len(k.Shape()), len(v.Shape()))
	}
	if q.DType() != k.DType() || q.DType() != v.DType() {
		fail(ir.ErrRuntime, "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: %s "+
			"and value.dtype: %s instead.", q.DType().CName(), k.DType().CName(), v.DType().CName())
	}
	needFloat("scaled_dot_product_attention", q)
	if gqa {
		for _, x := range []op.Val{k, v} {
			r, s := len(q.Shape()), len(x.Shape())
			if r < 3 || s < 3 || x.Shape()[s-3] == 0 || q.Shape()[r-3]%x.Shape()[s-3] != 0 {
				fail(ir.ErrRuntime, "Number of heads in key and value must divide the number of heads in query")
			}
		}
	}
	if mask.IsTensor() {
		if causal {
			fail(ir.ErrRuntime, "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
		}
		if d := mask.DType(); d != ir.Bool && d != ir.F32 && d != q.DType() {
			fail(ir.ErrRuntime, "Expected attn_mask dtype to be bool or float or to match query dtype, but got "+
				"attn_mask.dtype: %s and  query.dtype: %s instead.", d.CName(), q.DType().CName())
		}
	}
}
