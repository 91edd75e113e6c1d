package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Primitives on complex operands, recorded as primitives on real ones: see op.SetComplex. What is linear and treats
// real and imaginary part alike runs on the pairs; other rules take the parts.

// parts are real and imaginary part; im has Kind None where an operand is real.
type parts struct{ re, im op.Val }

// Real is the real part of complex elements, a view.
func Real(b op.Builder, x op.Val) op.Val { return Select(b, op.PairsOf(b, x), -1, 0) }

// Imag is the imaginary part of complex elements, a view.
func Imag(b op.Builder, x op.Val) op.Val { return Select(b, op.PairsOf(b, x), -1, 1) }

// MakeComplex has the given parts, two tensors of one shape.
func MakeComplex(b op.Builder, re, im op.Val) op.Val {
	return op.ComplexOf(b, Cat(b, []op.Val{Unsqueeze(b, re, -1), Unsqueeze(b, im, -1)}, -1))
}

// AsComplex names pairs as complex elements; pairs that are not adjacent are copied.
func AsComplex(b op.Builder, v op.Val) op.Val {
	if _, ok := ir.ComplexLayout(v.L()); !ok {
		v = Copy(b, v)
	}
	return op.ComplexOf(b, v)
}

// Conj is the complex conjugate; real operands stay as they are.
func Conj(b op.Builder, x op.Val) op.Val {
	if !x.DType().IsComplex() {
		return x
	}
	return MakeComplex(b, Real(b, x), Neg(b, Imag(b, x)))
}

// TimesI is i*x.
func TimesI(b op.Builder, x op.Val) op.Val { return MakeComplex(b, Neg(b, Imag(b, x)), Real(b, x)) }

func split(b op.Builder, x op.Val) parts {
	if !x.Layout.IsComplex() {
		return parts{re: x}
	}
	return parts{Real(b, x), Imag(b, x)}
}

// splitAll is split of all operands; a real one gets an imaginary part of 0.
func splitAll(c *op.ComplexCall) (out []parts) {
	for _, v := range c.In {
		p := split(c.B, v)
		if p.im.Kind == op.None {
			p.im = op.IntVal(0)
		}
		out = append(out, p)
	}
	return out
}

// joined is MakeComplex where one part may be a number.
func joined(b op.Builder, re, im op.Val) []op.Val {
	if re.IsScalar() {
		re = Fill(b, re, im.DType(), im.Device(), im.Shape())
	}
	if im.IsScalar() {
		im = Fill(b, im, re.DType(), re.Device(), re.Shape())
	}
	return []op.Val{MakeComplex(b, re, im)}
}

// pairwise emits the call on pairs, with numbers as they are, and names the results as complex.
func pairwise(c *op.ComplexCall, attr []int64) []op.Val {
	in := slices.Clone(c.In)
	for i, v := range in {
		in[i] = op.PairsOf(c.B, v)
	}
	outs := c.B.EmitN(c.Prim.ID, attr, in...)
	for i := range outs {
		outs[i] = AsComplex(c.B, outs[i])
	}
	return outs
}

// onPairs is the rule of maps that treat both parts alike.
func onPairs(c *op.ComplexCall) []op.Val { return pairwise(c, c.Attr) }

// wrapped counts dims of complex operands from the front, where pairs have the same numbers.
func wrapped(dims []int64, rank int) []int64 {
	out := make([]int64, len(dims))
	for i, d := range dims {
		out[i] = int64(ir.WrapDim(d, rank))
	}
	return out
}

// overPairs is the rule of primitives that treat both parts alike and whose attributes from at on are dims.
func overPairs(at, end int) op.Complex {
	return func(c *op.ComplexCall) []op.Val {
		attr := slices.Clone(c.Attr)
		n := len(attr)
		if end > 0 {
			n = end
		}
		rank := len(c.In[0].Shape())
		if rank == 0 { // the dim of a 0-dim tensor
			x := c.In
			c.In = slices.Clone(x)
			for i := range c.In {
				if c.In[i].IsTensor() {
					c.In[i] = Reshape(c.B, c.In[i], []int64{1})
				}
			}
			outs := pairwise(c, slices.Concat(attr[:at], make([]int64, n-at), attr[n:]))
			for i := range outs {
				if len(outs[i].Shape()) == 1 && outs[i].L().Numel == 1 {
					outs[i] = Reshape(c.B, outs[i], nil)
				}
			}
			return outs
		}
		copy(attr[at:n], wrapped(attr[at:n], rank))
		return pairwise(c, attr)
	}
}

// asPairs repeats an index or a condition for both parts.
func asPairs(b op.Builder, x op.Val) op.Val {
	x = Unsqueeze(b, x, -1)
	return Expand(b, x, append(slices.Clone(x.Shape()[:len(x.Shape())-1]), 2))
}

// complexAdd is the rule of add and sub: a real operand changes the real part.
func complexAdd(c *op.ComplexCall) []op.Val {
	x, y := split(c.B, c.In[0]), split(c.B, c.In[1])
	switch {
	case x.im.Kind != op.None && y.im.Kind != op.None:
		return pairwise(c, nil)
	case y.im.Kind != op.None && c.Prim.ID == pSub:
		return joined(c.B, c.B.Emit2(c.Prim.ID, x.re, y.re), Neg(c.B, y.im))
	case y.im.Kind != op.None:
		x.im = y.im
	}
	return joined(c.B, c.B.Emit2(c.Prim.ID, x.re, y.re), x.im)
}

// scaledPairs applies a primitive to pairs and a real operand.
func scaledPairs(b op.Builder, p op.PrimID, x, y op.Val) []op.Val {
	if y.IsTensor() {
		y = asPairs(b, y)
	}
	return []op.Val{AsComplex(b, b.Emit2(p, op.PairsOf(b, x), y))}
}

func complexMul(c *op.ComplexCall) []op.Val {
	b := c.B
	if !c.In[1].Layout.IsComplex() {
		return scaledPairs(b, pMul, c.In[0], c.In[1])
	}
	if !c.In[0].Layout.IsComplex() {
		return scaledPairs(b, pMul, c.In[1], c.In[0])
	}
	re, im := product(b, split(b, c.In[0]), split(b, c.In[1]))
	return joined(b, re, im)
}

func product(b op.Builder, x, y parts) (re, im op.Val) {
	return Sub(b, Mul(b, x.re, y.re), Mul(b, x.im, y.im)), Add(b, Mul(b, x.re, y.im), Mul(b, x.im, y.re))
}

// complexDiv scales the divisor by its larger part, so that its square neither overflows nor underflows.
func complexDiv(c *op.ComplexCall) []op.Val {
	b := c.B
	if !c.In[1].Layout.IsComplex() {
		return scaledPairs(b, pDiv, c.In[0], c.In[1])
	}
	re, im := quotient(b, split(b, c.In[0]), split(b, c.In[1]))
	return joined(b, re, im)
}

func quotient(b op.Builder, x, y parts) (re, im op.Val) {
	s := b.Detach(Maximum(b, Abs(b, y.re), Abs(b, y.im)))
	p, q := Div(b, y.re, s), Div(b, y.im, s)
	d := Mul(b, Add(b, Mul(b, p, p), Mul(b, q, q)), s)
	if x.im.Kind == op.None {
		return Div(b, Mul(b, p, x.re), d), Div(b, Neg(b, Mul(b, q, x.re)), d)
	}
	re = Div(b, Add(b, Mul(b, x.re, p), Mul(b, x.im, q)), d)
	return re, Div(b, Sub(b, Mul(b, x.im, p), Mul(b, x.re, q)), d)
}

// modulus is the absolute value without overflow; its gradient at 0 is 0.
func modulus(b op.Builder, x parts) op.Val {
	m := b.Detach(Maximum(b, Abs(b, x.re), Abs(b, x.im)))
	inf := Eq(b, m, num(infinity))
	plain := BitwiseOr(b, Eq(b, m, num(0)), inf)
	m = Where(b, plain, num(1), m)
	p, q := Div(b, x.re, m), Div(b, x.im, m)
	s := Add(b, Mul(b, p, p), Mul(b, q, q))
	zero := Eq(b, s, num(0))
	r := Mul(b, Sqrt(b, Where(b, zero, num(1), s)), m)
	r = Where(b, zero, num(0), r)
	infinite := BitwiseOr(b, Eq(b, Abs(b, x.re), num(infinity)), Eq(b, Abs(b, x.im), num(infinity)))
	return Where(b, infinite, num(infinity), r)
}

func complexAbs(c *op.ComplexCall) []op.Val {
	return []op.Val{modulus(c.B, split(c.B, c.In[0]))}
}

// complexStep is sgn: x / |x|, and 0 where x is 0. Roundings have no meaning.
func complexStep(c *op.ComplexCall) []op.Val {
	if c.Attr[0] != stepSign {
		return undefined(c)
	}
	x := split(c.B, c.In[0])
	r := modulus(c.B, x)
	r = Where(c.B, Eq(c.B, r, num(0)), num(1), r)
	return joined(c.B, Div(c.B, x.re, r), Div(c.B, x.im, r))
}

// undefined raises PyTorch's error for an operator without complex kernels.
func undefined(c *op.ComplexCall) []op.Val {
	for _, v := range c.In {
		if v.Layout.IsComplex() {
			panic(notImplemented(c.Prim.NameFor(c.Attr)+"_cpu", v.DType()))
		}
	}
	panic(notImplemented(c.Prim.NameFor(c.Attr)+"_cpu", ir.DType(c.Attr[0])))
}

func complexCompare(c *op.ComplexCall) []op.Val {
	in := splitAll(c)
	emit := func(x, y op.Val) op.Val {
		if x.IsScalar() && y.IsScalar() {
			x = Fill(c.B, x, c.In[0].DType().Real(), c.In[0].Device(), c.In[0].Shape())
		}
		return c.B.Emit(pCompare, c.Attr, x, y)
	}
	switch c.Attr[0] {
	case CompareEq:
		return []op.Val{BitwiseAnd(c.B, emit(in[0].re, in[1].re), emit(in[0].im, in[1].im))}
	case compareNe:
		return []op.Val{BitwiseOr(c.B, emit(in[0].re, in[1].re), emit(in[0].im, in[1].im))}
	}
	return undefined(c)
}

func complexWhere(c *op.ComplexCall) []op.Val {
	b := c.B
	x, y := c.In[1], c.In[2]
	if x.Layout.IsComplex() && y.Layout.IsComplex() || x.IsScalar() && x.Float() == 0 || y.IsScalar() && y.Float() == 0 {
		return []op.Val{AsComplex(b, Where(b, asPairs(b, c.In[0]), op.PairsOf(b, x), op.PairsOf(b, y)))}
	}
	in := splitAll(c)
	return joined(b, Where(b, c.In[0], in[1].re, in[2].re), Where(b, c.In[0], in[1].im, in[2].im))
}

func complexCast(c *op.ComplexCall) []op.Val {
	b, x, d := c.B, c.In[0], ir.DType(c.Attr[0])
	switch {
	case !x.Layout.IsComplex():
		return joined(b, Cast(b, x, d.Real()), op.IntVal(0))
	case d.IsComplex():
		return []op.Val{AsComplex(b, Cast(b, op.PairsOf(b, x), d.Real()))}
	case d == ir.Bool:
		return []op.Val{Ne(b, x, op.IntVal(0))}
	}
	return []op.Val{Cast(b, Real(b, x), d)}
}

func complexFill(c *op.ComplexCall) []op.Val {
	b, d, dev := c.B, ir.DType(c.Attr[0]), ir.DeviceID(c.Attr[1])
	shape, v := c.Attr[2:], c.In[0]
	switch {
	case v.IsTensor() && d.IsComplex():
		return []op.Val{Copy(b, Expand(b, ToDevice(b, Cast(b, v, d), dev), shape))}
	case v.IsTensor():
		fail(ir.ErrRuntime, "value cannot be converted to type %s without overflow", d.CName())
	case v.Float() == 0:
		return []op.Val{AsComplex(b, Fill(b, v, d.Real(), dev, append(slices.Clone(shape), 2)))}
	}
	return joined(b, Fill(b, v, d.Real(), dev, shape), op.IntVal(0))
}

// complexRandom draws both parts; a normal draw has variance 1 in all.
func complexRandom(c *op.ComplexCall) []op.Val {
	attr := slices.Clone(c.Attr)
	attr[0] = int64(ir.DType(attr[0]).Real())
	if attr[2] == randInt {
		return undefined(c)
	}
	r := c.B.Emit(pRandom, append(attr, 2), c.In...)
	if attr[2] == randNormal {
		r = Mul(c.B, r, num(halfRoot))
	}
	return []op.Val{AsComplex(c.B, r)}
}

// complexDropout drops an element with both parts.
func complexDropout(c *op.ComplexCall) []op.Val {
	b, x := c.B, c.In[0]
	ones := Fill(b, op.IntVal(1), x.DType().Real(), x.Device(), x.Shape())
	mask := Dropout(b, ones, c.In[1], c.In[2], c.In[3])
	return scaledPairs(b, pMul, x, mask)
}

// complexTri applies a primitive of matrices to both parts as a batch.
func complexTri(c *op.ComplexCall) []op.Val {
	x := op.PairsOf(c.B, c.In[0])
	n := int64(len(x.Shape()) - 1)
	front := []int64{n}
	for i := range n {
		front = append(front, i)
	}
	y := c.B.Emit(c.Prim.ID, c.Attr, Permute(c.B, x, front))
	back := make([]int64, n+1) // the parts, which were dim n, are the first dim now
	for i := range n {
		back[i] = i + 1
	}
	return []op.Val{AsComplex(c.B, Contiguous(c.B, Permute(c.B, y, back)))}
}

// complexGather is the rule of gather and of scatters: the index is repeated for both parts.
func complexGather(c *op.ComplexCall) []op.Val {
	b, x := c.B, c.In[0]
	if len(x.Shape()) == 0 {
		in := slices.Clone(c.In)
		for i := range in {
			if in[i].IsTensor() {
				in[i] = Reshape(b, in[i], []int64{in[i].L().Numel})
			}
		}
		y := b.Emit(c.Prim.ID, c.Attr, in...)
		if c.Prim.ID == pGather {
			return []op.Val{Reshape(b, y, c.In[1].Shape())}
		}
		return []op.Val{Reshape(b, y, nil)}
	}
	attr := slices.Clone(c.Attr)
	attr[0] = int64(ir.WrapDim(attr[0], len(x.Shape())))
	in := []op.Val{op.PairsOf(b, x), asPairs(b, c.In[1])}
	if len(c.In) > 2 {
		src := c.In[2]
		if src.IsScalar() {
			src = joined(b, Fill(b, src, x.DType().Real(), x.Device(), c.In[1].Shape()), op.IntVal(0))[0]
		}
		in = append(in, op.PairsOf(b, src))
	}
	return []op.Val{AsComplex(b, b.Emit(c.Prim.ID, attr, in...))}
}

// complexScatterView is the rule of the strided scatters: layout and offset count complex elements.
func complexScatterView(c *op.ComplexCall) []op.Val {
	id, offset := ir.LayoutID(c.Attr[0]), int64(c.In[2].Bits())
	if !id.IsComplex() { // the offset of a complex view is in numbers
		offset *= 2
	}
	l := ir.PairLayout(ir.LayoutOf(id))
	y := c.B.Emit(c.Prim.ID, []int64{int64(l.ID)}, op.PairsOf(c.B, c.In[0]), op.PairsOf(c.B, c.In[1]), op.IntVal(offset))
	return []op.Val{AsComplex(c.B, y)}
}

// complexSquares sums the squares of the absolute values.
func complexSquares(c *op.ComplexCall) []op.Val {
	x := op.PairsOf(c.B, c.In[0])
	n := len(x.Shape()) - 1
	return []op.Val{SumSquares(c.B, x, append(wrapped(c.Attr, n), int64(n)))}
}

// complexVar is the sum of the parts' variances, and the mean.
func complexVar(c *op.ComplexCall) []op.Val {
	x := op.PairsOf(c.B, c.In[0])
	dims := wrapped(c.Attr, len(x.Shape())-1)
	if len(x.Shape()) == 1 {
		x, dims = Reshape(c.B, x, []int64{1, 2}), []int64{0}
	}
	v, mean := Var(c.B, x, c.In[1], dims)
	return []op.Val{Sum(c.B, v, []int64{-1}), AsComplex(c.B, mean)}
}

// complexProd multiplies halves until one element is left.
func complexProd(c *op.ComplexCall) []op.Val {
	b, x := c.B, c.In[0]
	r := len(x.Shape())
	mask, err := ir.DimMask(c.Attr, r)
	if err != nil {
		panic(err)
	}
	var kept, gone []int64
	shape, n := []int64{}, int64(1)
	for i, m := range mask[:r] {
		if m {
			gone, n = append(gone, int64(i)), n*x.Shape()[i]
		} else {
			kept, shape = append(kept, int64(i)), append(shape, x.Shape()[i])
		}
	}
	x = Reshape(b, Permute(b, x, slices.Concat(kept, gone)), append(slices.Clone(shape), n))
	if n == 0 {
		return []op.Val{Add(b, Sum(b, x, []int64{-1}), op.IntVal(1))} // with x's history
	}
	for n > 1 {
		half := n / 2
		y := Mul(b, Slice(b, x, -1, 0, half, 1), Slice(b, x, -1, half, 2*half, 1))
		if n%2 == 1 {
			y = Cat(b, []op.Val{y, Slice(b, x, -1, n-1, n, 1)}, -1)
		}
		x, n = y, n-half
	}
	return []op.Val{Reshape(b, x, shape)}
}

// complexScan is the running sum on pairs, or the running product or logarithm of a sum, in a logarithm of steps.
func complexScan(c *op.ComplexCall) []op.Val {
	switch c.Attr[1] {
	case ScanSum:
		return overPairs(0, 1)(c)
	case ScanProd, ScanLogSum:
	default:
		return undefined(c)
	}
	join := Mul
	if c.Attr[1] == ScanLogSum {
		join = LogAddExp
	}
	b, x, dim := c.B, c.In[0], c.Attr[0]
	if len(x.Shape()) == 0 {
		return []op.Val{Copy(b, x)}
	}
	n := x.Shape()[ir.WrapDim(dim, len(x.Shape()))]
	for step := int64(1); step < n; step *= 2 {
		later := join(b, Slice(b, x, dim, step, n, 1), Slice(b, x, dim, 0, n-step, 1))
		x = Cat(b, []op.Val{Slice(b, x, dim, 0, step, 1), later}, dim)
	}
	return []op.Val{Copy(b, x)}
}

// complexMatmul is one real product: a's rows of pairs by the matrix whose rows are b and i*b.
func complexMatmul(c *op.ComplexCall) []op.Val {
	b := c.B
	x, y := Cast(b, c.In[0], c.In[0].DType().Complex()), Cast(b, c.In[1], c.In[1].DType().Complex())
	s, t := x.Shape(), y.Shape()
	r := len(s)
	lead, m, k, n := s[:r-2:r-2], s[r-2], s[r-1], t[r-1]
	rows := Reshape(b, op.PairsOf(b, x), append(slices.Clone(lead), m, 2*k))
	both := Cat(b, []op.Val{Unsqueeze(b, op.PairsOf(b, y), -3), Unsqueeze(b, op.PairsOf(b, TimesI(b, y)), -3)}, -3)
	both = Reshape(b, both, append(slices.Clone(lead), 2*k, 2*n))
	z := AsComplex(b, Reshape(b, Matmul(b, rows, both, op.Val{}), append(slices.Clone(lead), m, n, 2)))
	if len(c.In) > 2 && c.In[2].IsTensor() {
		z = Add(b, z, Expand(b, c.In[2], z.Shape()))
	}
	return []op.Val{z}
}

// complexBilinear applies a primitive of two operands to their parts.
func complexBilinear(c *op.ComplexCall) []op.Val {
	b := c.B
	emit := func(x, y op.Val) op.Val { return b.Emit(c.Prim.ID, c.Attr, Contiguous(b, x), Contiguous(b, y)) }
	x, y := split(b, c.In[0]), split(b, c.In[1])
	switch {
	case x.im.Kind == op.None:
		return joined(b, emit(x.re, y.re), emit(x.re, y.im))
	case y.im.Kind == op.None:
		return joined(b, emit(x.re, y.re), emit(x.im, y.re))
	}
	return joined(b, Sub(b, emit(x.re, y.re), emit(x.im, y.im)), Add(b, emit(x.re, y.im), emit(x.im, y.re)))
}

func complexIsNaN(c *op.ComplexCall) []op.Val {
	x := split(c.B, c.In[0])
	return []op.Val{BitwiseOr(c.B, IsNaN(c.B, x.re), IsNaN(c.B, x.im))}
}

func complexSilu(c *op.ComplexCall) []op.Val {
	return []op.Val{Mul(c.B, c.In[0], Sigmoid(c.B, c.In[0]))}
}

func setComplexRules() {
	for p, rule := range map[op.PrimID]op.Complex{
		pAdd: complexAdd, pSub: complexAdd, pMul: complexMul, pDiv: complexDiv, pPow: complexPow, pNeg: onPairs,
		pCopy: onPairs, pSGDStep: onPairs, pAdamStep: onPairs, pToDevice: onPairs,
		pAbs: complexAbs, pStep: complexStep, pCompare: complexCompare,
		pWhere: complexWhere, pCast: complexCast, pFill: complexFill, pRandom: complexRandom, pDropout: complexDropout,
		pTri: complexTri, pIota: undefined, pGather: complexGather, pScatter: complexGather,
		pIndexSelect: overPairs(0, 1), pCat: overPairs(0, 1), pSum: overPairs(0, 0), pStridedScatter: complexScatterView,
		pStridedScatterAdd: complexScatterView, pSumSquares: complexSquares, pVar: complexVar, pProd: complexProd,
		pScan: complexScan, pMatmul: complexMatmul, pConv: complexBilinear, pConvWeightGrad: complexBilinear,
		pIsNaN: complexIsNaN, pExp: complexExp, pLog: complexLog, pSqrt: complexSqrt, pRsqrt: complexRsqrt,
		pSilu: complexSilu, pSin: complexSin, pCos: complexCos, pTanh: complexTanh, pSigmoid: complexSigmoid,
		pSpecial: complexSpecial,
	} {
		op.SetComplex(p, rule)
	}
}
