package prim

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// The numbers of the primitives, set as each family registers.
var (
	pNeg, pAbs, pStep, pExp, pLog, pSqrt, pRsqrt               op.PrimID
	pSin, pCos, pTanh, pSigmoid, pRelu, pGelu, pGeluGrad       op.PrimID
	pSilu, pCopy, pIsNaN                                       op.PrimID
	pAdd, pSub, pMul, pDiv, pFloorDivide, pRemainder, pPow     op.PrimID
	pClip, pBitwise, pCompare                                  op.PrimID
	pWhere, pCast, pTri                                        op.PrimID
	pFill, pIota, pRandom, pDropout                            op.PrimID
	pSum, pProd, pSumSquares, pVar                             op.PrimID
	pExtremum, pArgExtremum, pExtremumDim                      op.PrimID
	pSoftmax, pSoftmaxGrad                                     op.PrimID
	pLayerNorm, pLayerNormGrad, pLayerNormGradWB, pScan, pSort op.PrimID
	pGather, pIndexSelect, pScatter, pScatterReduce            op.PrimID
	pCat, pStridedScatter, pStridedScatterAdd, pMatmul         op.PrimID
	pSGDStep, pAdamStep, pToDevice, pAttention, pAttentionGrad op.PrimID
	pCrossEntropy, pCrossEntropyGrad, pSearch                  op.PrimID
	pCell, pCellGrad, pRecurrence, pRecurrenceGrad             op.PrimID
	pLoop                                                      op.PrimID
)

func flag(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// Neg is -x.
func Neg(b op.Builder, x op.Val) op.Val { return b.Emit1(pNeg, x) }

// Abs is |x|.
func Abs(b op.Builder, x op.Val) op.Val { return b.Emit1(pAbs, x) }

// Sign is -1, 0 or 1.
func Sign(b op.Builder, x op.Val) op.Val { return b.Emit(pStep, []int64{stepSign}, x) }

// Floor rounds down.
func Floor(b op.Builder, x op.Val) op.Val { return b.Emit(pStep, []int64{stepFloor}, x) }

// Ceil rounds up.
func Ceil(b op.Builder, x op.Val) op.Val { return b.Emit(pStep, []int64{stepCeil}, x) }

// Round rounds half to even.
func Round(b op.Builder, x op.Val) op.Val { return b.Emit(pStep, []int64{StepRound}, x) }

// Trunc rounds toward zero.
func Trunc(b op.Builder, x op.Val) op.Val { return b.Emit(pStep, []int64{stepTrunc}, x) }

// Exp is e**x.
func Exp(b op.Builder, x op.Val) op.Val { return b.Emit1(pExp, x) }

// Expm1 is e**x - 1.
func Expm1(b op.Builder, x op.Val) op.Val { return Special(b, op.FnExpm1, x) }

// Log is the natural logarithm.
func Log(b op.Builder, x op.Val) op.Val { return b.Emit1(pLog, x) }

// Log1p is log(1+x).
func Log1p(b op.Builder, x op.Val) op.Val { return Special(b, op.FnLog1p, x) }

// Sqrt is the square root.
func Sqrt(b op.Builder, x op.Val) op.Val { return b.Emit1(pSqrt, x) }

// Rsqrt is 1/sqrt(x).
func Rsqrt(b op.Builder, x op.Val) op.Val { return b.Emit1(pRsqrt, x) }

// Reciprocal is 1/x.
func Reciprocal(b op.Builder, x op.Val) op.Val { return Div(b, num(1), x) }

// Sin is the sine.
func Sin(b op.Builder, x op.Val) op.Val { return b.Emit1(pSin, x) }

// Cos is the cosine.
func Cos(b op.Builder, x op.Val) op.Val { return b.Emit1(pCos, x) }

// Tan is the tangent.
func Tan(b op.Builder, x op.Val) op.Val { return Special(b, op.FnTan, x) }

// Tanh is the hyperbolic tangent.
func Tanh(b op.Builder, x op.Val) op.Val { return b.Emit1(pTanh, x) }

// Erf is the error function.
func Erf(b op.Builder, x op.Val) op.Val { return Special(b, op.FnErf, x) }

// Sigmoid is 1/(1+exp(-x)).
func Sigmoid(b op.Builder, x op.Val) op.Val { return b.Emit1(pSigmoid, x) }

// Relu is max(x, 0).
func Relu(b op.Builder, x op.Val) op.Val { return b.Emit1(pRelu, x) }

// Gelu is x*Phi(x), by erf.
func Gelu(b op.Builder, x op.Val) op.Val { return b.Emit(pGelu, []int64{geluErf}, x) }

// GeluTanh is the tanh form of Gelu.
func GeluTanh(b op.Builder, x op.Val) op.Val { return b.Emit(pGelu, []int64{geluTanh}, x) }

// Silu is x*sigmoid(x).
func Silu(b op.Builder, x op.Val) op.Val { return b.Emit1(pSilu, x) }

// LogicalNot is x == 0, in bool.
func LogicalNot(b op.Builder, x op.Val) op.Val { return Eq(b, x, op.IntVal(0)) }

// BitwiseNot complements the bits; of bools it negates.
func BitwiseNot(b op.Builder, x op.Val) op.Val {
	if x.DType() == ir.Bool {
		return LogicalNot(b, x)
	}
	return BitwiseXor(b, x, op.IntVal(-1))
}

// Copy is a dense copy of x.
func Copy(b op.Builder, x op.Val) op.Val { return b.Emit1(pCopy, x) }

// IsNaN is true where x is NaN, in bool.
func IsNaN(b op.Builder, x op.Val) op.Val { return b.Emit1(pIsNaN, x) }

// IsInf reports elements that are infinite.
func IsInf(b op.Builder, x op.Val) op.Val { return Eq(b, Abs(b, x), op.FloatVal(infinity)) }

// GeluGrad is gy times the derivative of Gelu at x.
func GeluGrad(b op.Builder, x, gy op.Val) op.Val { return b.Emit(pGeluGrad, []int64{geluErf}, x, gy) }

// GeluTanhGrad is gy times the derivative of GeluTanh at x.
func GeluTanhGrad(b op.Builder, x, gy op.Val) op.Val {
	return b.Emit(pGeluGrad, []int64{geluTanh}, x, gy)
}

// Binary functions take operands of one shape and dtype; one operand may be a number.

// Add is x+y; of bools it is or.
func Add(b op.Builder, x, y op.Val) op.Val { return b.Emit2(pAdd, x, y) }

// Sub is x-y.
func Sub(b op.Builder, x, y op.Val) op.Val { return b.Emit2(pSub, x, y) }

// Mul is x*y; of bools it is and.
func Mul(b op.Builder, x, y op.Val) op.Val { return b.Emit2(pMul, x, y) }

// Div is x/y; integer division truncates.
func Div(b op.Builder, x, y op.Val) op.Val { return b.Emit2(pDiv, x, y) }

// FloorDivide is floor(x/y), as Python's //.
func FloorDivide(b op.Builder, x, y op.Val) op.Val { return b.Emit2(pFloorDivide, x, y) }

// Remainder is x - y*floor(x/y), as Python's %.
func Remainder(b op.Builder, x, y op.Val) op.Val { return b.Emit2(pRemainder, x, y) }

// Pow is x to the power y.
func Pow(b op.Builder, x, y op.Val) op.Val { return b.Emit2(pPow, x, y) }

// Maximum is the larger operand; NaN propagates.
func Maximum(b op.Builder, x, y op.Val) op.Val { return b.Emit(pClip, []int64{largest}, x, y) }

// Minimum is the smaller operand; NaN propagates.
func Minimum(b op.Builder, x, y op.Val) op.Val { return b.Emit(pClip, []int64{least}, x, y) }

// BitwiseAnd is x & y.
func BitwiseAnd(b op.Builder, x, y op.Val) op.Val { return b.Emit(pBitwise, []int64{bitwiseAnd}, x, y) }

// BitwiseOr is x | y.
func BitwiseOr(b op.Builder, x, y op.Val) op.Val { return b.Emit(pBitwise, []int64{bitwiseOr}, x, y) }

// BitwiseXor is x ^ y.
func BitwiseXor(b op.Builder, x, y op.Val) op.Val { return b.Emit(pBitwise, []int64{bitwiseXor}, x, y) }

// Eq is x == y, in bool.
func Eq(b op.Builder, x, y op.Val) op.Val { return b.Emit(pCompare, []int64{CompareEq}, x, y) }

// Ne is x != y, in bool.
func Ne(b op.Builder, x, y op.Val) op.Val { return b.Emit(pCompare, []int64{compareNe}, x, y) }

// Lt is x < y, in bool.
func Lt(b op.Builder, x, y op.Val) op.Val { return b.Emit(pCompare, []int64{compareLt}, x, y) }

// Le is x <= y, in bool.
func Le(b op.Builder, x, y op.Val) op.Val { return b.Emit(pCompare, []int64{CompareLe}, x, y) }

// Gt is x > y, in bool.
func Gt(b op.Builder, x, y op.Val) op.Val { return b.Emit(pCompare, []int64{compareGt}, x, y) }

// Ge is x >= y, in bool.
func Ge(b op.Builder, x, y op.Val) op.Val { return b.Emit(pCompare, []int64{CompareGe}, x, y) }

// Where is x where cond (bool) holds, else y; x or y may be a number.
func Where(b op.Builder, cond, x, y op.Val) op.Val { return b.Emit(pWhere, nil, cond, x, y) }

// Cast converts to d; it is x itself where x has that dtype.
func Cast(b op.Builder, x op.Val, d ir.DType) op.Val {
	if x.DType() == d {
		return x
	}
	return b.Emit(pCast, []int64{int64(d)}, x)
}

// Tri keeps the upper or lower triangle of the last two dims, from diagonal on.
func Tri(b op.Builder, x op.Val, diagonal int64, upper bool) op.Val {
	return b.Emit(pTri, []int64{diagonal, flag(upper)}, x)
}

func creation(d ir.DType, dev ir.DeviceID, shape []int64) []int64 {
	return append([]int64{int64(d), int64(dev)}, shape...)
}

// Fill is a tensor with one number everywhere.
func Fill(b op.Builder, v op.Val, d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	return b.Emit(pFill, creation(d, dev, shape), v)
}

// Zeros is a tensor of zeros.
func Zeros(b op.Builder, d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	return Fill(b, op.IntVal(0), d, dev, shape)
}

// ZerosLike is zeros with x's dtype, device and shape.
func ZerosLike(b op.Builder, x op.Val) op.Val { return Zeros(b, x.DType(), x.Device(), x.Shape()) }

// OnesLike is ones with x's dtype, device and shape.
func OnesLike(b op.Builder, x op.Val) op.Val {
	return Fill(b, op.IntVal(1), x.DType(), x.Device(), x.Shape())
}

// Iota is start + step*i for i below n.
func Iota(b op.Builder, start, step op.Val, d ir.DType, dev ir.DeviceID, n int64) op.Val {
	return b.Emit(pIota, []int64{int64(d), int64(dev), n}, start, step)
}

// draw returns the attributes of random.
func draw(d ir.DType, dev ir.DeviceID, distribution int64, shape []int64) []int64 {
	return append([]int64{int64(d), int64(dev), distribution}, shape...)
}

// RandUniform draws from [0, 1); seed and Philox offset come from Builder.RNG.
func RandUniform(b op.Builder, seed, drawOffset op.Val, d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	return b.Emit(pRandom, draw(d, dev, randUniform, shape), seed, drawOffset)
}

// RandNormal draws from the standard normal distribution.
func RandNormal(b op.Builder, seed, drawOffset op.Val, d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	return b.Emit(pRandom, draw(d, dev, randNormal, shape), seed, drawOffset)
}

// RandInt draws integers from [low, high).
func RandInt(b op.Builder, seed, drawOffset, low, high op.Val, d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	return b.Emit(pRandom, draw(d, dev, randInt, shape), seed, drawOffset, low, high)
}

// Dropout zeroes elements with probability p (below 1) and scales the rest by 1/(1-p).
func Dropout(b op.Builder, x, seed, drawOffset, p op.Val) op.Val {
	return b.Emit(pDropout, nil, x, seed, drawOffset, p)
}

// Sum adds over dims and removes them; without dims it is x itself.
func Sum(b op.Builder, x op.Val, dims []int64) op.Val {
	if len(dims) == 0 {
		return x
	}
	return b.Emit(pSum, dims, x)
}

// SumSquares adds the squares over dims and removes them; without dims it is x squared.
func SumSquares(b op.Builder, x op.Val, dims []int64) op.Val {
	if len(dims) == 0 {
		return Mul(b, x, x)
	}
	return b.Emit(pSumSquares, dims, x)
}

// Prod multiplies over dims and removes them; without dims it is x itself.
func Prod(b op.Builder, x op.Val, dims []int64) op.Val {
	if len(dims) == 0 {
		return x
	}
	return b.Emit(pProd, dims, x)
}

// variant returns the attributes of variant m of a reduction over dims.
func variant(m int64, dims []int64) []int64 { return append([]int64{m}, dims...) }

// Amax is the maximum over dims, which it removes.
func Amax(b op.Builder, x op.Val, dims []int64) op.Val {
	return b.Emit(pExtremum, variant(largest, dims), x)
}

// Amin is the minimum over dims, which it removes.
func Amin(b op.Builder, x op.Val, dims []int64) op.Val {
	return b.Emit(pExtremum, variant(least, dims), x)
}

// MaxOfAll is Amax whose gradient NaN share.
func MaxOfAll(b op.Builder, x op.Val, dims []int64) op.Val {
	return b.Emit(pExtremum, variant(largestOfAll, dims), x)
}

// MinOfAll is Amin whose gradient NaN share.
func MinOfAll(b op.Builder, x op.Val, dims []int64) op.Val {
	return b.Emit(pExtremum, variant(leastOfAll, dims), x)
}

// ArgMax is the first index of the maximum along dim, which it removes.
func ArgMax(b op.Builder, x op.Val, dim int64) op.Val {
	return b.Emit(pArgExtremum, []int64{largest, dim}, x)
}

// ArgMin is the first index of the minimum along dim, which it removes.
func ArgMin(b op.Builder, x op.Val, dim int64) op.Val {
	return b.Emit(pArgExtremum, []int64{least, dim}, x)
}

// MaxDim is the maximum along dim and its first index; dim is removed.
func MaxDim(b op.Builder, x op.Val, dim int64) (values, indices op.Val) {
	o := b.EmitN(pExtremumDim, []int64{largest, dim}, x)
	return o[0], o[1]
}

// MinDim is the minimum along dim and its first index; dim is removed.
func MinDim(b op.Builder, x op.Val, dim int64) (values, indices op.Val) {
	o := b.EmitN(pExtremumDim, []int64{least, dim}, x)
	return o[0], o[1]
}

// Var is the variance over dims with divisor count-correction, and the mean; dims are removed.
func Var(b op.Builder, x, correction op.Val, dims []int64) (variance, mean op.Val) {
	o := b.EmitN(pVar, dims, x, correction)
	return o[0], o[1]
}

// Softmax is exp(x) divided by its sum along dim.
func Softmax(b op.Builder, x op.Val, dim int64) op.Val { return b.Emit(pSoftmax, []int64{dim, 0}, x) }

// LogSoftmax is the logarithm of Softmax.
func LogSoftmax(b op.Builder, x op.Val, dim int64) op.Val {
	return b.Emit(pSoftmax, []int64{dim, 1}, x)
}

// SoftmaxGrad is the cotangent of Softmax's input; y is Softmax's output.
func SoftmaxGrad(b op.Builder, gy, y op.Val, dim int64) op.Val {
	return b.Emit(pSoftmaxGrad, []int64{dim, 0}, gy, y)
}

// LogSoftmaxGrad is the cotangent of LogSoftmax's input; y is LogSoftmax's output.
func LogSoftmaxGrad(b op.Builder, gy, y op.Val, dim int64) op.Val {
	return b.Emit(pSoftmaxGrad, []int64{dim, 1}, gy, y)
}

// LayerNorm normalizes over the last n dims (Ba, Kiros and Hinton, 2016); w and bias may have Kind None. mean and rstd
// have the shape of the other dims.
func LayerNorm(b op.Builder, x, w, bias, eps op.Val, n int) (y, mean, rstd op.Val) {
	return normalize(b, x, w, bias, eps, n, false)
}

// RMSNorm divides by the root mean square over the last n dims; w may have Kind None.
func RMSNorm(b op.Builder, x, w, eps op.Val, n int) op.Val {
	y, _, _ := normalize(b, x, w, op.Val{}, eps, n, true)
	return y
}

func normalize(b op.Builder, x, w, bias, eps op.Val, n int, rms bool) (y, mean, rstd op.Val) {
	in := []op.Val{x}
	if w.IsTensor() {
		in = append(in, w)
	}
	if bias.IsTensor() {
		in = append(in, bias)
	}
	o := b.EmitN(pLayerNorm, []int64{int64(n), flag(w.IsTensor()), flag(bias.IsTensor()), flag(rms)}, append(in, eps)...)
	return o[0], o[1], o[2]
}

// LayerNormGrad is the cotangent of LayerNorm's x, or with rms of RMSNorm's, whose mean is 0; w may have Kind None.
func LayerNormGrad(b op.Builder, gy, x, mean, rstd, w op.Val, n int, rms bool) op.Val {
	in := []op.Val{gy, x, mean, rstd}
	if w.IsTensor() {
		in = append(in, w)
	}
	return b.Emit(pLayerNormGrad, []int64{int64(n), flag(w.IsTensor()), flag(rms)}, in...)
}

// LayerNormGradWB returns the cotangents of LayerNorm's weight and bias.
func LayerNormGradWB(b op.Builder, gy, x, mean, rstd op.Val, n int) (dw, db op.Val) {
	o := b.EmitN(pLayerNormGradWB, []int64{int64(n)}, gy, x, mean, rstd)
	return o[0], o[1]
}

// Scan is the running result of an operation (ScanSum and the constants after it) along dim.
func Scan(b op.Builder, x op.Val, dim, operation int64) op.Val {
	return b.Emit(pScan, []int64{dim, operation}, x)
}

// Cumsum is the running sum along dim.
func Cumsum(b op.Builder, x op.Val, dim int64) op.Val { return Scan(b, x, dim, ScanSum) }

// Search counts, for each value, the elements of its row of rows that are below it; with right, those not above it.
// Rows are sorted along the last dim; NaN is above all.
func Search(b op.Builder, rows, values op.Val, right bool) op.Val {
	return b.Emit(pSearch, []int64{flag(right)}, rows, values)
}

// Sort returns x in stable order along dim, and the indices of its elements.
func Sort(b op.Builder, x op.Val, dim int64, descending bool) (values, indices op.Val) {
	n := int64(1)
	if len(x.Shape()) > 0 {
		n = x.Shape()[ir.WrapDim(dim, len(x.Shape()))]
	}
	return Topk(b, x, n, dim, descending)
}

// Topk returns the k largest, or smallest, elements along dim in order, and their indices.
func Topk(b op.Builder, x op.Val, k, dim int64, largest bool) (values, indices op.Val) {
	if d := x.DType(); d.IsNarrow() {
		values, indices = Topk(b, Cast(b, x, d.ComputeType()), k, dim, largest)
		return Cast(b, values, d), indices
	}
	o := b.EmitN(pSort, []int64{k, dim, flag(largest)}, x)
	return o[0], o[1]
}

// Gather takes x at indices i along dim.
func Gather(b op.Builder, x, i op.Val, dim int64) op.Val { return b.Emit(pGather, []int64{dim}, x, i) }

// IndexSelect takes the slices of x along dim at the indices of the 1-d i.
func IndexSelect(b op.Builder, x, i op.Val, dim int64) op.Val {
	return b.Emit(pIndexSelect, []int64{dim}, x, i)
}

// ScatterAdd adds src into x at indices i along dim.
func ScatterAdd(b op.Builder, x, i, src op.Val, dim int64) op.Val {
	return b.Emit(pScatter, []int64{dim, ScatterSum}, x, i, src)
}

// Scatter writes src, a tensor or a number, into x at indices i along dim.
func Scatter(b op.Builder, x, i, src op.Val, dim int64) op.Val {
	return b.Emit(pScatter, []int64{dim, ScatterSet}, x, i, src)
}

// ScatterInBounds is Scatter with indices that are known to be in range.
func ScatterInBounds(b op.Builder, x, i, src op.Val, dim int64) op.Val {
	return b.Emit(pScatter, []int64{dim, ScatterSet, op.InBounds}, x, i, src)
}

// IndexAdd adds the slices of src to the slices of x along dim at the indices of the 1-d i.
func IndexAdd(b op.Builder, x, i, src op.Val, dim int64) op.Val {
	return ScatterAdd(b, x, Along(b, i, src.Shape(), dim), src, dim)
}

// ScatterReduce combines src with x at indices i along dim: ScatterProd, ScatterMax or ScatterMin.
func ScatterReduce(b op.Builder, x, i, src op.Val, dim, mode int64) op.Val {
	return b.Emit(pScatterReduce, []int64{dim, mode}, x, i, src)
}

// Cat joins tensors of one dtype along dim.
func Cat(b op.Builder, xs []op.Val, dim int64) op.Val {
	return b.Emit(pCat, []int64{dim}, xs...)
}

// StridedScatter is base with value written to the view (l, offset) of base's dense storage.
func StridedScatter(b op.Builder, base, value op.Val, l *ir.Layout, offset int64) op.Val {
	return b.Emit(pStridedScatter, []int64{int64(l.ID)}, base, value, op.IntVal(offset))
}

// Overwrite is value, which has x's shape and dtype, with a step that sends zeros back to x.
func Overwrite(b op.Builder, x, value op.Val) op.Val {
	return StridedScatter(b, Contiguous(b, x), value, ir.DenseLayout(x.Shape()), 0)
}

// Owned is x in dense storage of its own, which it fills from the start.
func Owned(b op.Builder, x op.Val) op.Val {
	if x.Base != 0 || !x.L().Dense || x.Offset != 0 {
		return Copy(b, x)
	}
	return x
}

// StridedScatterAdd is base with value added to that view, which may overlap itself.
func StridedScatterAdd(b op.Builder, base, value op.Val, l *ir.Layout, offset int64) op.Val {
	return b.Emit(pStridedScatterAdd, []int64{int64(l.ID)}, base, value, op.IntVal(offset))
}

// Matmul is x @ y + bias over equal leading dims; bias may have Kind None.
func Matmul(b op.Builder, x, y, bias op.Val) op.Val {
	if d := x.DType(); d.IsNarrow() && d == y.DType() { // sums wrap when they are cast back
		t := d.ComputeType()
		if bias.IsTensor() {
			bias = Cast(b, bias, t)
		}
		return Cast(b, Matmul(b, Cast(b, x, t), Cast(b, y, t), bias), d)
	}
	if bias.IsTensor() {
		return b.Emit(pMatmul, []int64{1}, x, y, bias)
	}
	return b.Emit(pMatmul, []int64{0}, x, y)
}

// SGD has the numbers of a step of SGD. First is 1 in the step that creates the momentum buffer.
type SGD struct {
	LR, Momentum, Dampening, WeightDecay, First op.Val
	Nesterov, Maximize                          bool
}

// SGDStep is one step of SGD: the new parameter, and the new momentum buffer where buf is a tensor. Where overflow is a
// tensor and not 0, both are the old ones.
func SGDStep(b op.Builder, p, g, buf, overflow op.Val, o SGD) (newP, newBuf op.Val) {
	attr := []int64{flag(o.Nesterov), flag(o.Maximize), flag(buf.IsTensor()), flag(overflow.IsTensor())}
	in := []op.Val{p, g}
	for _, x := range []op.Val{buf, overflow} {
		if x.IsTensor() {
			in = append(in, x)
		}
	}
	r := b.EmitN(pSGDStep, attr, append(in, o.LR, o.Momentum, o.Dampening, o.WeightDecay, o.First)...)
	if buf.IsTensor() {
		return r[0], r[1]
	}
	return r[0], op.Val{}
}

// Adam has the numbers of an Adam step (Kingma and Ba, 2015). Bias1 and Bias2 are 1-beta**step: tensors exactly where
// the step may overflow.
type Adam struct {
	LR, Beta1, Beta2, Eps, WeightDecay, Bias1, Bias2 op.Val
	Decoupled, Maximize                              bool // Decoupled: AdamW
}

// AdamStep is one step of Adam or AdamW: the new parameter and moments. vmax and its new value have Kind None without
// amsgrad. Where overflow is a tensor and not 0, the results are the old values.
func AdamStep(b op.Builder, p, g, m, v, vmax, overflow op.Val, o Adam) (newP, newM, newV, newMax op.Val) {
	in := []op.Val{p, g, m, v}
	if vmax.IsTensor() {
		in = append(in, vmax)
	}
	numbers := []op.Val{o.LR, o.Beta1, o.Beta2, o.Eps, o.WeightDecay}
	if overflow.IsTensor() {
		in = append(in, overflow, o.Bias1, o.Bias2)
	} else {
		numbers = append(numbers, o.Bias1, o.Bias2)
	}
	// 1-beta is computed in double: in f32 the difference would lose digits.
	one := func(beta op.Val) op.Val { return op.FloatVal(1 - beta.Float()) }
	in = append(append(in, numbers...), one(o.Beta1), one(o.Beta2))
	attr := []int64{flag(o.Decoupled), flag(vmax.IsTensor()), flag(o.Maximize), flag(overflow.IsTensor())}
	r := b.EmitN(pAdamStep, attr, in...)
	if vmax.IsTensor() {
		newMax = r[3]
	}
	return r[0], r[1], r[2], newMax
}

// ToDevice copies x to a device; it is x itself where x is there.
func ToDevice(b op.Builder, x op.Val, dev ir.DeviceID) op.Val {
	if x.Device() == dev {
		return x
	}
	return b.Emit(pToDevice, []int64{int64(dev)}, Contiguous(b, x))
}
