package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
)

// The factorisations of complex matrices. Most are the primitives of real matrices on pairs, with an option bit for the
// kernel; the rules of gradients are those of real matrices with conjugate transposes.

// pairsOption is launch.FactorPairs.
const pairsOption = 4

// ofPairs makes a gradient rule of complex matrices take and return pairs.
func ofPairs(rule op.VJP) op.VJP {
	return func(c *op.VJPCall) []op.Val {
		if c.Attr[0]&pairsOption == 0 {
			return rule(c)
		}
		d, rank := *c, len(c.In[0].Shape())
		named := func(list []op.Val) []op.Val { // real values of eigh and svd have a rank less by 2
			out := slices.Clone(list)
			for i, v := range out {
				if v.IsTensor() && v.DType().IsFloat() && len(v.Shape()) >= rank-1 {
					out[i] = AsComplex(c.B, v)
				}
			}
			return out
		}
		d.In, d.Out, d.Cot = named(c.In), named(c.Out), named(c.Cot)
		d.Attr = append([]int64{c.Attr[0] &^ pairsOption}, c.Attr[1:]...)
		out := rule(&d)
		for i, v := range out {
			if v.IsTensor() {
				out[i] = op.PairsOf(c.B, v)
			}
		}
		return out
	}
}

func registerComplexPrims() {
	pEig = op.RegisterPrim(op.Prim{Name: "eig", Doc: "eigenvalues and unit vectors of complex matrices; all are pairs",
		NIn: 1, SaveOut: 3, VJP: ofPairs(eigVJP), DataError: factorError,
		Infer: factorInfer("linalg_eig_cpu", func(x matrices, _ []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{x.spec(x.n), x.spec(x.n, x.n)}
		})})
}

// complexFactor is the complex rule of the factorisations; reals lists the results that are real numbers.
func complexFactor(reals ...int) op.Complex {
	return func(c *op.ComplexCall) []op.Val {
		attr := slices.Clone(c.Attr)
		attr[0] |= pairsOption
		in := make([]op.Val, len(c.In))
		for i, v := range c.In {
			if in[i] = v; !v.DType().IsInt() {
				in[i] = op.PairsOf(c.B, v)
			}
		}
		outs := c.B.EmitN(c.Prim.ID, attr, in...)
		for i, v := range outs {
			if v.DType().IsFloat() && !slices.Contains(reals, i) {
				outs[i] = op.ComplexOf(c.B, v)
			}
		}
		return outs
	}
}

// Eig returns the eigenvalues of complex matrices, and eigenvectors of norm 1 in columns.
func Eig(b op.Builder, x op.Val) (values, vectors op.Val) {
	o := factored(b, pEig, 0, FailEig, nil, x)
	return o[0], o[1]
}

// eigVJP is v^-H (diag(gw) + P / conj(gaps)) v^H with P = v^H gv, without what would change the norms of the columns.
func eigVJP(c *op.VJPCall) []op.Val {
	b, w, v, gw, gv := c.B, c.Out[0], c.Out[1], c.Cot[0], c.Cot[1]
	vh := mH(b, v)
	var inside op.Val
	if given(gv) {
		p := mm(b, vh, gv)
		diagonal := Real(b, Sum(b, Tri(b, Tri(b, p, 0, true), 0, false), []int64{-2}))
		p = Sub(b, p, mm(b, vh, scaleCols(b, v, diagonal)))
		inside = Div(b, p, Conj(b, gaps(b, w)))
	}
	if given(gw) {
		inside = sumCot(b, inside, onDiagonal(b, gw))
	}
	x, _, _, _ := LinearSolve(b, vh, mm(b, inside, vh), Unchecked)
	return []op.Val{x}
}

// embedded is the real matrix [[re, -im], [im, re]] of complex ones: sums and products go with it.
func embedded(b op.Builder, x op.Val) op.Val {
	re, im := Real(b, x), Imag(b, x)
	return Cat(b, []op.Val{Cat(b, []op.Val{re, Neg(b, im)}, -1), Cat(b, []op.Val{im, re}, -1)}, -2)
}

// extracted is the inverse of embedded; the result has m rows and n columns.
func extracted(b op.Builder, x op.Val, m, n int64) op.Val {
	left := colRange(b, x, 0, n)
	return MakeComplex(b, rowRange(b, left, 0, m), rowRange(b, left, m, 2*m))
}

// complexPinv computes the pseudoinverse of the embedded real matrix: embedding commutes with sums, products and
// adjoints, so the result is the embedded pseudoinverse. complexMatrixExp does the same.
func complexPinv(c *op.ComplexCall) []op.Val {
	b, x := c.B, c.In[0]
	s := x.Shape()
	if c.Attr[0]&1 != 0 {
		x = Add(b, x, b.Detach(Sub(b, mirrored(b, x, false), x))) // as in PyTorch, the gradient is that of all of x
	}
	p := b.Emit(pPinv, c.Attr, embedded(b, x), c.In[1], c.In[2])
	return []op.Val{extracted(b, p, s[len(s)-1], s[len(s)-2])}
}

func complexMatrixExp(c *op.ComplexCall) []op.Val {
	s := c.In[0].Shape()
	n := s[len(s)-1]
	return []op.Val{extracted(c.B, c.B.Emit(pMatrixExp, c.Attr, embedded(c.B, c.In[0])), n, n)}
}

func setComplexFactors() {
	for p, rule := range map[op.PrimID]op.Complex{
		pCholesky: complexFactor(), pLUFactor: complexFactor(), pLinearSolve: complexFactor(),
		pTriangularSolve: complexFactor(), pQR: complexFactor(), pEigh: complexFactor(0), pSVD: complexFactor(1),
		pEig: complexFactor(), pPinv: complexPinv, pMatrixExp: complexMatrixExp, pLDLFactor: complexFactor(),
		pLDLSolve: complexFactor(),
	} {
		op.SetComplex(p, rule)
	}
}
