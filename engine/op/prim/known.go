package prim

import "github.com/torchlette/torchlette/engine/op"

// Known has the numbers of the primitives that passes and rules outside of this package treat by their meaning. A
// property that another primitive could have is a field of op.Prim.
var Known struct {
	Add, Attention, Bitwise, Cast, Cat, Clip, Compare, Conv, ConvLast,
	Copy, Div, Extremum, Fill, IsNaN, LayerNorm, LayerNormGrad, Loop, Matmul, Mul, Pow,
	QuantizedConv, QuantizedProduct, Relu, Rsqrt, Scatter, Softmax, Sqrt, Step, StridedScatter, StridedScatterAdd, Sub,
	Sum, Var, Where, WindowMax, WindowSum op.PrimID
}

func setKnown() {
	k := &Known
	k.Extremum = pExtremum
	k.Add, k.Conv, k.Fill, k.LayerNormGrad, k.Matmul, k.Scatter = pAdd, pConv, pFill, pLayerNormGrad, pMatmul, pScatter
	k.Cast, k.Cat, k.Copy, k.LayerNorm, k.Loop, k.Relu = pCast, pCat, pCopy, pLayerNorm, pLoop, pRelu
	k.Bitwise, k.QuantizedConv, k.QuantizedProduct = pBitwise, pQuantizedConv, pQuantizedProduct
	k.Clip, k.ConvLast, k.IsNaN, k.Step = pClip, pConvLast, pIsNaN, pStep
	k.WindowMax, k.WindowSum = pWindowMax, pWindowSum
	k.Pow, k.Rsqrt, k.Sqrt, k.Sub = pPow, pRsqrt, pSqrt, pSub
	k.Attention, k.Compare, k.Div, k.Mul, k.Softmax, k.Where = pAttention, pCompare, pDiv, pMul, pSoftmax, pWhere
	k.StridedScatter, k.StridedScatterAdd, k.Sum, k.Var = pStridedScatter, pStridedScatterAdd, pSum, pVar
}
