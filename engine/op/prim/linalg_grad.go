package prim

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// The cotangents of the factorisations, after M. Giles, "Collected matrix derivative results for forward and reverse
// mode algorithmic differentiation" (2008). lu_factor and qr of matrices that are not square use the same differentials
// by blocks.

func mT(b op.Builder, x op.Val) op.Val { return Transpose(b, x, -2, -1) }

// mH is the conjugate transpose.
func mH(b op.Builder, x op.Val) op.Val { return Conj(b, mT(b, x)) }

// mirrored is the Hermitian matrix with one triangle of x.
func mirrored(b op.Builder, x op.Val, upper bool) op.Val {
	off := int64(-1)
	if upper {
		off = 1
	}
	strict := Tri(b, x, off, upper)
	if !x.DType().IsComplex() {
		return Add(b, Tri(b, x, 0, upper), mT(b, strict))
	}
	whole := Tri(b, x, 0, upper)
	twice := Add(b, Add(b, whole, mH(b, whole)), Add(b, strict, mH(b, strict)))
	return Mul(b, twice, num(0.5))
}

func mm(b op.Builder, x, y op.Val) op.Val { return Matmul(b, x, y, op.Val{}) }

// divideRight is x a^-1 for a triangular a.
func divideRight(b op.Builder, x, a op.Val, upper bool) op.Val {
	return mT(b, TriangularSolve(b, mT(b, a), mT(b, x), !upper, false))
}

// rowRange and colRange cut a matrix.
func rowRange(b op.Builder, x op.Val, from, to int64) op.Val { return Slice(b, x, -2, from, to, 1) }
func colRange(b op.Builder, x op.Val, from, to int64) op.Val { return Slice(b, x, -1, from, to, 1) }

func given(v op.Val) bool { return v.Kind != op.None }

// onDiagonal puts the vectors in the last dim on the diagonals of square matrices.
func onDiagonal(b op.Builder, v op.Val) op.Val {
	n := v.Shape()[len(v.Shape())-1]
	square := append(append([]int64{}, v.Shape()...), n)
	return Tri(b, Tri(b, Expand(b, Unsqueeze(b, v, -1), square), 0, true), 0, false)
}

// eye is true on the diagonal, as a bool of x's shape.
func eye(b op.Builder, x op.Val) op.Val {
	return Ne(b, Tri(b, Tri(b, OnesLike(b, b.Detach(x)), 0, true), 0, false), num(0))
}

// choleskyVJP is l^-T S l^-1 / 2 with S the symmetric matrix of lower triangle tril(l' g).
func choleskyVJP(c *op.VJPCall) []op.Val {
	b, l := c.B, c.Out[0]
	phi := mm(b, mH(b, l), c.Cot[0])
	s := Add(b, Tri(b, phi, -1, false), mH(b, Tri(b, phi, 0, false)))
	x := TriangularSolve(b, mH(b, l), s, true, false)
	return []op.Val{Mul(b, divideRight(b, x, l, false), num(0.5))}
}

// Epsilon replaces pivots that are 0 where lu_factor is differentiated, so that the gradient of a determinant there is
// that of a matrix nearby.
func Epsilon(d ir.DType) float64 {
	if d == ir.F64 {
		return 0x1p-52
	}
	return 0x1p-23
}

// luVJP: with P' a = [B1; B2] or [B1 B2], B1 square, and phi = L1^-1 dB1 U1^-1: dL1 = L1 tril(phi, -1) and dU1 =
// triu(phi) U1. What is beside or below follows from P' a = L U.
func luVJP(c *op.VJPCall) []op.Val {
	b, lu, g := c.B, c.Out[0], c.Cot[0]
	s := lu.Shape()
	m, n := s[len(s)-2], s[len(s)-1]
	k := min(m, n)
	square := colRange(b, rowRange(b, lu, 0, k), 0, k)
	u := Tri(b, square, 0, true)
	u = Where(b, BitwiseAnd(b, eye(b, u), Eq(b, u, num(0))), num(Epsilon(lu.DType())), u)
	below := Tri(b, square, -1, false)
	g1 := colRange(b, rowRange(b, g, 0, k), 0, k)
	gl, gu := Tri(b, g1, -1, false), Tri(b, g1, 0, true)
	lower := Add(b, mm(b, mH(b, below), gl), gl)
	upper := mm(b, gu, mH(b, u))
	lT := mH(b, square)
	var rest op.Val
	if m > n {
		l2, gl2 := rowRange(b, lu, k, m), rowRange(b, g, k, m)
		upper = Sub(b, upper, mm(b, mH(b, l2), gl2))
		rest = divideRight(b, gl2, mH(b, u), false)
	} else if n > m {
		u2, gu2 := colRange(b, lu, k, n), colRange(b, g, k, n)
		lower = Sub(b, lower, mm(b, gu2, mH(b, u2)))
		rest = TriangularSolve(b, lT, gu2, true, true)
	}
	phi := Add(b, Tri(b, lower, -1, false), Tri(b, upper, 0, true))
	out := divideRight(b, TriangularSolve(b, lT, phi, true, true), mH(b, u), false)
	if m > n {
		out = Cat(b, []op.Val{out, rest}, -2)
	} else if n > m {
		out = Cat(b, []op.Val{out, rest}, -1)
	}
	return []op.Val{PermuteRows(b, out, LUPermutation(b, c.Out[1], m), true)}
}

// solveVJP is a^-T g for y, and minus that times x' for a. The factors are used again unless a's gradient is
// differentiated.
func solveVJP(c *op.VJPCall) []op.Val {
	b, out := c.B, make([]op.Val, 2)
	if !given(c.Cot[0]) {
		return out
	}
	var gy op.Val
	if b.NeedsGrad(c.In[0]) {
		gy, _, _, _ = LinearSolve(b, mH(b, c.In[0]), c.Cot[0], Unchecked)
	} else {
		gy = LUSolve(b, b.Detach(c.Out[1]), c.Out[2], c.Cot[0], true)
	}
	out[1] = gy
	if c.Need[0] {
		out[0] = Neg(b, mm(b, gy, mH(b, c.Out[0])))
	}
	return out
}

func triangularVJP(c *op.VJPCall) []op.Val {
	b, out := c.B, make([]op.Val, 2)
	upper, unit := c.Attr[0]&1 != 0, c.Attr[0]&2 != 0
	gy := TriangularSolve(b, mH(b, c.In[0]), c.Cot[0], !upper, unit)
	out[1] = gy
	if c.Need[0] {
		from := flag(unit)
		if !upper {
			from = -from
		}
		out[0] = Neg(b, Tri(b, mm(b, gy, mH(b, c.Out[0])), from, upper))
	}
	return out
}

// qrVJP is (gq + q S) r^-T with S the symmetric matrix of upper triangle triu(gr r' - q' gq). Columns beyond the rows
// are q times those of r.
func qrVJP(c *op.VJPCall) []op.Val {
	b, x, q, r := c.B, c.In[0], c.Out[0], c.Out[1]
	s := x.Shape()
	m, n := s[len(s)-2], s[len(s)-1]
	if c.Attr[0]&1 != 0 && m > n {
		fail(ir.ErrRuntime, "The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
	}
	gq, gr := c.Cot[0], c.Cot[1]
	var rest op.Val
	if n > m {
		if given(gr) {
			y, gv := colRange(b, x, m, n), colRange(b, gr, m, n)
			gq = sumCot(b, gq, mm(b, y, mH(b, gv)))
			rest = mm(b, q, gv)
			gr = colRange(b, gr, 0, m)
		} else {
			rest = Zeros(b, x.DType(), x.Device(), colRange(b, x, m, n).Shape())
		}
		r = colRange(b, r, 0, m)
	}
	var inner op.Val
	if given(gr) {
		inner = mm(b, gr, mH(b, r))
	}
	if given(gq) {
		inner = sumCot(b, inner, Neg(b, mm(b, mH(b, q), gq)))
	}
	sym := mirrored(b, inner, true)
	out := divideRight(b, sumCot(b, gq, mm(b, q, sym)), mH(b, r), false)
	if n > m {
		out = Cat(b, []op.Val{out, rest}, -1)
	}
	return []op.Val{out}
}

// gaps is f[j] - f[i] at (i, j), and 1 on the diagonal.
func gaps(b op.Builder, f op.Val) op.Val {
	n := f.Shape()[len(f.Shape())-1]
	square := append(append([]int64{}, f.Shape()...), n)
	d := Sub(b, Expand(b, Unsqueeze(b, f, -2), square), Expand(b, Unsqueeze(b, f, -1), square))
	return Where(b, eye(b, d), num(1), d)
}

// scaleCols multiplies the columns of x by the numbers of v, scaleRows the rows.
func scaleCols(b op.Builder, x, v op.Val) op.Val {
	return Mul(b, x, Expand(b, Unsqueeze(b, v, -2), x.Shape()))
}

func scaleRows(b op.Builder, x, v op.Val) op.Val {
	return Mul(b, x, Expand(b, Unsqueeze(b, v, -1), x.Shape()))
}

// eighVJP is v (diag(gw) + K / gaps) v' with K the antisymmetric part of v' gv: the directions in which v can move.
func eighVJP(c *op.VJPCall) []op.Val {
	b, w, v, gw, gv := c.B, c.Out[0], c.Out[1], c.Cot[0], c.Cot[1]
	if !given(gv) {
		return []op.Val{mm(b, scaleCols(b, v, gw), mH(b, v))}
	}
	inner := Div(b, Mul(b, skew(b, mm(b, mH(b, v), gv)), num(0.5)), gaps(b, w))
	if given(gw) {
		inner = Add(b, inner, onDiagonal(b, gw))
	}
	return []op.Val{mm(b, v, mm(b, inner, mH(b, v)))}
}

func skew(b op.Builder, x op.Val) op.Val { return Sub(b, x, mH(b, x)) }

// svdVJP is u (skew(u' gu)/E s + s skew(v' gv)/E + diag(gs)) vt with E the gaps of s squared. For a matrix that is not
// square it adds the parts of gu and gv that are orthogonal to u and v (J. Townsend, "Differentiating the singular
// value decomposition", 2016). Columns that complete u and v carry no gradient.
func svdVJP(c *op.VJPCall) []op.Val {
	b, u, s, vt := c.B, c.Out[0], c.Out[1], c.Out[2]
	gu, gs, gvt := c.Cot[0], c.Cot[1], c.Cot[2]
	k := s.Shape()[len(s.Shape())-1]
	m, n := u.Shape()[len(u.Shape())-2], vt.Shape()[len(vt.Shape())-1]
	u, vt = colRange(b, u, 0, k), rowRange(b, vt, 0, k)
	if !given(gu) && !given(gvt) {
		return []op.Val{mm(b, scaleCols(b, u, gs), vt)}
	}
	square := append(append([]int64{}, s.Shape()...), k)
	sums := Add(b, Expand(b, Unsqueeze(b, s, -2), square), Expand(b, Unsqueeze(b, s, -1), square))
	e := Mul(b, gaps(b, s), sums)
	e = Where(b, eye(b, e), num(1), e)
	var inner, aside op.Val
	if given(gu) {
		gu = colRange(b, gu, 0, k)
		turn := skew(b, mm(b, mH(b, u), gu))
		inner = scaleCols(b, Div(b, turn, e), s)
		if turn.DType().IsComplex() { // the phases of u and v move together
			phase := scaleCols(b, Tri(b, Tri(b, turn, 0, true), 0, false), Div(b, num(0.5), s))
			inner = Add(b, inner, phase)
		}
		if m > k {
			g := scaleCols(b, gu, Reciprocal(b, s))
			aside = mm(b, Sub(b, g, mm(b, u, mm(b, mH(b, u), g))), vt)
		}
	}
	if given(gvt) {
		gvt = rowRange(b, gvt, 0, k)
		inner = sumCot(b, inner, scaleRows(b, Div(b, skew(b, mm(b, vt, mH(b, gvt))), e), s))
		if n > k {
			g := scaleRows(b, gvt, Reciprocal(b, s))
			aside = sumCot(b, aside, mm(b, u, Sub(b, g, mm(b, mm(b, g, mH(b, vt)), vt))))
		}
	}
	if given(gs) {
		inner = Add(b, inner, onDiagonal(b, gs))
	}
	return []op.Val{sumCot(b, mm(b, mm(b, u, inner), vt), aside)}
}

// pinvVJP is -p'g p' + (1 - a p) g' p p' + p'p g' (1 - p a) for p of constant rank (G. Golub and V. Pereyra, 1973).
func pinvVJP(c *op.VJPCall) []op.Val {
	b, a, p := c.B, c.In[0], c.Out[0]
	g, pt := mT(b, c.Cot[0]), mT(b, p)
	left := mm(b, mm(b, g, p), pt)
	right := mm(b, pt, mm(b, p, g))
	out := Sub(b, Add(b, left, right), mm(b, mm(b, pt, c.Cot[0]), pt))
	out = Sub(b, out, mm(b, a, mm(b, p, left)))
	return []op.Val{Sub(b, out, mm(b, mm(b, right, p), a)), {}, {}}
}

// matrixExpVJP is the block above the diagonal of exp([[a', g], [0, a']]) (N. Higham, "Functions of Matrices", 2008,
// theorem 3.6).
func matrixExpVJP(c *op.VJPCall) []op.Val {
	b, at, g := c.B, mT(c.B, c.In[0]), c.Cot[0]
	n := g.Shape()[len(g.Shape())-1]
	top := Cat(b, []op.Val{at, g}, -1)
	whole := Cat(b, []op.Val{top, Cat(b, []op.Val{ZerosLike(b, g), at}, -1)}, -2)
	return []op.Val{colRange(b, rowRange(b, MatrixExp(b, whole), 0, n), n, 2*n)}
}
