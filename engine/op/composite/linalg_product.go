package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Products of matrices and vectors, and matrices made of other matrices.

func registerLinalgProductOps() {
	forms(op.Def{
		Doc: "The exponentials of square matrices.", Samples: samples("T(3,3)", "T(2,2,2)", "T(1,1)", "T(3,3;-6,6)"),
		ErrorSamples: samples("T(3)", "T(2,3)", "I(2,2;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x := squareOf("linalg.matrix_exp", a.Val())
			narrow := widen(a.B, x.DType(), &x)
			return a.Ret(narrow(prim.MatrixExp(a.B, x)))
		},
	}, "linalg_matrix_exp(Tensor self) -> Tensor", "matrix_exp(Tensor self) -> Tensor")
	forms(op.Def{
		Doc: "A square matrix to an integer power: of the inverse where that is negative.", Out: true,
		Samples: samples("T(3,3), 0", "T(3,3), 1", "T(3,3), 5", "P(2,2,2), -2"), ErrorSamples: samples("T(3), 2",
			"T(2,3), 2"), Eval: evalMatrixPower,
	}, "linalg_matrix_power(Tensor self, int n) -> Tensor", "matrix_power(Tensor self, int n) -> Tensor")
	forms(op.Def{
		Doc: "The product of matrices, in the order of least work; the first and the last may be vectors.", Out: true,
		Samples:      samples("[T(3,4), T(4,2)]", "[T(4), T(4,2), T(2,3)]", "[T(3,4), T(4,2), T(2,5), T(5)]", "[T(4), T(4)]"),
		ErrorSamples: samples("[T(3,4)]", "[T(3,4), T(2,3)]"),
		Eval:         func(a *op.Args) []op.Val { return a.Ret(multiDot(a.B, a.Vals())) },
	}, "linalg_multi_dot(Tensor[] tensors) -> Tensor")
	forms(op.Def{
		Doc: "Sums of products along a dim; the others broadcast.", Out: true, Samples: samples("T(3,4), T(3,4)",
			"T(3,4), T(4)", "T(3,4), T(3,1) | dim=0"),
		ErrorSamples: samples("T(3), T(4)", "I(3;0,5), I(3;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, d := a.Val(), a.Val(), a.Int()
			last := func(v op.Val) int64 { return v.Shape()[ir.WrapDim(d, len(v.Shape()))] }
			if len(x.Shape()) > 0 && len(y.Shape()) > 0 && last(x) != last(y) {
				fail(ir.ErrRuntime, "linalg.vecdot: Expected x and y to have the same number of elements in dimension %d, but got "+
					"%d and %d", d, last(x), last(y))
			}
			needNormType("linalg.vecdot", x.DType())
			if len(x.Shape()) == 1 && len(y.Shape()) == 1 {
				return a.Ret(dot(a.B, prim.Conj(a.B, x), y))
			}
			promote(a.B, &x, &y)
			x = prim.Conj(a.B, x)
			return a.Ret(reduceDims(a.B, prim.Sum, prim.Mul(a.B, x, y), dimMask([]int64{d}, len(x.Shape())), false))
		},
	}, "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor")
	registerCross()
	registerBuilt()
	registerCovariance()
}

func evalMatrixPower(a *op.Args) []op.Val {
	x, n, b := a.Val(), a.Int(), a.B
	if m, k := matrixSize("linalg.matrix_power", x); m != k {
		fail(ir.ErrRuntime, "linalg.matrix_power: A must be batches of square matrices, but they are %d by %d matrices", m, k)
	}
	if n == 0 {
		return a.Ret(attached(b, x, eyeLike(b, x, leading(x), x.Shape()[len(x.Shape())-1])))
	}
	power := uint64(n)
	if n < 0 {
		x, _ = inverse(b, squareOf("linalg.inv", x), prim.FailInv)
		power = -power // also that of the smallest int
	}
	if power == 1 {
		return a.Ret(prim.Copy(b, x))
	}
	var y op.Val
	x = lowered(a, x)
	for ; power > 0; power /= 2 {
		if power%2 == 1 && y.Kind == op.None {
			y = x
		} else if power%2 == 1 {
			y = matrix(b, y, x, none)
		}
		if power > 1 {
			x = matrix(b, x, x, none)
		}
	}
	return a.Ret(y)
}

// multiDot chooses the order by dynamic programming over the sizes (Cormen et al., "Introduction to Algorithms", 14.2).
func multiDot(b op.Builder, ts []op.Val) op.Val {
	n := len(ts)
	if n < 2 {
		fail(ir.ErrRuntime, "multi_dot(): expected at least 2 tensors but got %d", n)
	}
	ts = slices.Clone(ts)
	row, col := len(ts[0].Shape()) == 1, len(ts[n-1].Shape()) == 1
	if row {
		ts[0] = prim.Unsqueeze(b, ts[0], 0)
	}
	if col {
		ts[n-1] = prim.Unsqueeze(b, ts[n-1], -1)
	}
	size := make([]int64, 0, n+1)
	for i, t := range ts {
		if len(t.Shape()) != 2 {
			fail(ir.ErrRuntime, "multi_dot(): tensor %d must be 2D but got %dD", i, len(t.Shape()))
		}
		if t.DType() != ts[0].DType() {
			fail(ir.ErrRuntime, "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and tensor %d %s",
				typeName(ts[0].DType()), i, typeName(t.DType()))
		}
		if i > 0 && t.Shape()[0] != ts[i-1].Shape()[1] {
			fail(ir.ErrRuntime, "multi_dot(): tensors %d and %d with shapes %s and %s cannot be multiplied", i-1, i,
				ir.ShapeString(ts[i-1].Shape()), ir.ShapeString(t.Shape()))
		}
		size = append(size, t.Shape()[0])
	}
	y := chain(b, ts, cheapest(append(size, ts[n-1].Shape()[1])), 0, n-1)
	if row {
		y = prim.Squeeze(b, y, []int64{0})
	}
	if col {
		y = prim.Squeeze(b, y, []int64{-1})
	}
	return y
}

// cheapest gives, for each range of matrices, where to cut it.
func cheapest(size []int64) [][]int {
	n := len(size) - 1
	cost, cut := make([][]int64, n), make([][]int, n)
	for i := range cost {
		cost[i], cut[i] = make([]int64, n), make([]int, n)
	}
	for span := 1; span < n; span++ {
		for i := 0; i+span < n; i++ {
			j := i + span
			cost[i][j] = math.MaxInt64
			for k := i; k < j; k++ {
				if c := cost[i][k] + cost[k+1][j] + size[i]*size[k+1]*size[j+1]; c < cost[i][j] {
					cost[i][j], cut[i][j] = c, k
				}
			}
		}
	}
	return cut
}

func chain(b op.Builder, ts []op.Val, cut [][]int, i, j int) op.Val {
	if i == j {
		return ts[i]
	}
	k := cut[i][j]
	return matrix(b, chain(b, ts, cut, i, k), chain(b, ts, cut, k+1, j), none)
}

// cross is the vector product along dim d of size 3.
func cross(b op.Builder, x, y op.Val, d int) op.Val {
	if p := promote(b, &x, &y); p == ir.Bool {
		unsupported("cross", p)
	}
	turned := func(v op.Val, by int64) op.Val { return rotate(b, v, d, -by) }
	return prim.Sub(b, prim.Mul(b, turned(x, 1), turned(y, 2)), prim.Mul(b, turned(x, 2), turned(y, 1)))
}

func registerCross() {
	forms(op.Def{
		Doc: "The vector product along a dim of size 3; the others broadcast.", Out: true, Samples: samples("T(2,3), T(2,3)",
			"T(3,2), T(3,2) | dim=0", "T(2,3), T(1,3)", "I(3;0,5), I(3;0,5)"),
		ErrorSamples: samples("T(2,3), T(3)", "T(2,2), T(2,2)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, dim := a.Val(), a.Val(), a.Int()
			if len(x.Shape()) != len(y.Shape()) {
				fail(ir.ErrRuntime, "linalg.cross: inputs must have the same number of dimensions.")
			}
			needDim(x, int(dim))
			i, j := ir.WrapDim(dim, len(x.Shape())), ir.WrapDim(dim, len(y.Shape()))
			if x.Shape()[i] != 3 || y.Shape()[j] != 3 {
				fail(ir.ErrRuntime, "linalg.cross: inputs dimension %d must have length 3. Got %s and %s", dim,
					ir.ShapeString(x.Shape()), ir.ShapeString(y.Shape()))
			}
			return a.Ret(cross(a.B, x, y, i))
		},
	}, "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor")
	op.Register(op.Def{
		Sig: "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
		Doc: "The vector product along a dim of size 3, the first one if none is given.", Out: true,
		Samples: samples("T(2,3), T(2,3)", "T(3,3), T(3,3)", "T(3,3), T(3,3), 1"), ErrorSamples: samples("T(2,2), T(2,2)",
			"T(2,3), T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			dim, given := a.OptInt()
			if len(x.Shape()) != len(y.Shape()) {
				fail(ir.ErrRuntime, "linalg.cross: inputs must have the same number of dimensions.")
			}
			s := ir.BroadcastShape(x.Shape(), y.Shape())
			if !given {
				dim = int64(slices.Index(s, 3))
				if dim < 0 {
					fail(ir.ErrRuntime, "no dimension of size 3 in input")
				}
			}
			d := ir.WrapDim(dim, len(s))
			if len(s) == 0 || x.Shape()[d] != 3 || y.Shape()[d] != 3 {
				fail(ir.ErrRuntime, "linalg.cross: inputs dimension %d must have length 3. Got %s and %s", dim,
					ir.ShapeString(x.Shape()), ir.ShapeString(y.Shape()))
			}
			return a.Ret(cross(a.B, x, y, d))
		},
	})
}

// diagEmbed puts vectors, the last dim, on a diagonal of matrices of zeros.
func diagEmbed(b op.Builder, x op.Val, offset, dim1, dim2 int64) op.Val {
	s := x.Shape()
	r := len(s) + 1
	if len(s) == 0 {
		ir.WrapDim(-2, 1) // PyTorch's error: a 0-dim tensor has no dim for a diagonal
	}
	i, j := ir.WrapDim(dim1, r), ir.WrapDim(dim2, r)
	if i == j {
		fail(ir.ErrRuntime, "diagonal dimensions cannot be identical %d, %d", dim1, dim2)
	}
	n := s[len(s)-1] + max(offset, -offset)
	shape := slices.Clone(s[:len(s)-1])
	shape = slices.Insert(shape, min(i, j), n)
	shape = slices.Insert(shape, max(i, j), n)
	zeros := prim.Zeros(b, x.DType(), x.Device(), shape)
	at := diagonal(b, zeros, offset, int64(i), int64(j))
	return prim.StridedScatter(b, zeros, x, at.L(), at.Offset)
}

func registerBuilt() {
	op.Register(op.Def{
		Sig:          "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
		Doc:          "Matrices, over two new dims, with the last dim on a diagonal.",
		Samples:      samples("T(3)", "T(2,3)", "T(2,3), 1, 0, 2", "T(2,3), -1, -1, 0", "I(3;0,5)"),
		ErrorSamples: samples("T(2,3), 0, 1, 1", "T(3), 0, 0, 3"),
		Eval: func(a *op.Args) []op.Val {
			x, k, i := a.Val(), a.Int(), a.Int()
			return a.Ret(diagEmbed(a.B, x, k, i, a.Int()))
		},
	})
	op.Register(op.Def{
		Sig: "diagflat(Tensor self, int offset=0) -> Tensor", Doc: "The matrix with the elements, flattened, on a diagonal.",
		Samples: samples("T(3)", "T(2,2), 1", "T(), -1"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return a.Ret(diagEmbed(a.B, prim.Reshape(a.B, x, []int64{x.L().Numel}), a.Int(), 0, 1))
		},
	})
	op.Register(op.Def{
		Sig: "linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
		Doc: "A view of a diagonal over two dims.", Where: op.Linalg, View: true,
		Samples: samples("T(2,3,4)", "T(3,4) | offset=1"), ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x, k, i := a.Val(), a.Int(), a.Int()
			return a.Ret(diagonal(a.B, x, k, i, a.Int()))
		},
	})
	op.Register(op.Def{
		Sig: "kron(Tensor self, Tensor other) -> Tensor", Doc: "The Kronecker product: each element of self times other.",
		Out: true, Samples: samples("T(2,3), T(3,2)", "T(3), T(2,2)", "T(), T(3)", "I(2;0,5), T(2)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, b := a.Val(), a.Val(), a.B
			r := max(len(x.Shape()), len(y.Shape()))
			whole := func(v op.Val) []int64 { return append(slices.Repeat([]int64{1}, r-len(v.Shape())), v.Shape()...) }
			s, t := whole(x), whole(y)
			var left, right, out []int64
			for i := range r {
				left, right, out = append(left, s[i], 1), append(right, 1, t[i]), append(out, s[i]*t[i])
			}
			return a.Ret(prim.Reshape(b, multiply(b, prim.Reshape(b, x, left), prim.Reshape(b, y, right)), out))
		},
	})
	op.Register(op.Def{
		Sig: "_block_diag(Tensor[] tensors) -> Tensor", Doc: "The matrix with matrices along its diagonal, zero elsewhere.",
		Where:   op.Hidden,
		Samples: samples("[T(2,3), T(1,2)]", "[T(3), T(), I(2,2;0,5)]"), ErrorSamples: samples("[T(2,2,2)]"),
		Eval: evalBlockDiag,
	})
	op.Register(op.Def{
		Sig: "linalg_vander(Tensor x, *, int? N=None) -> Tensor", Doc: "The powers 0 to N-1 of each element, as rows.",
		Where: op.Linalg, Samples: samples("T(3)", "T(2,3) | N=5", "I(3;0,4)"), ErrorSamples: samples("T(3) | N=0"),
		Eval: func(a *op.Args) []op.Val {
			x, b := a.Val(), a.B
			n, given := a.OptInt()
			if len(x.Shape()) == 0 {
				x = prim.Reshape(b, x, []int64{1})
			}
			if !given {
				n = x.Shape()[len(x.Shape())-1]
			}
			if n <= 1 {
				fail(ir.ErrRuntime, "N must be greater than 1.")
			}
			x = cast(b, x, sumType(x, ir.InvalidDType))
			ones, x := prim.Unsqueeze(b, prim.OnesLike(b, x), -1), prim.Unsqueeze(b, x, -1)
			powers := prim.Scan(b, prim.Expand(b, x, append(slices.Clone(x.Shape()[:len(x.Shape())-1]), n-1)),
				int64(len(x.Shape())-1), prim.ScanProd)
			return a.Ret(prim.Cat(b, []op.Val{ones, powers}, -1))
		},
	})
}

func evalBlockDiag(a *op.Args) []op.Val {
	ts, b := a.Vals(), a.B
	if len(ts) == 0 {
		return a.Ret(prim.Zeros(b, b.DefaultDType(), b.DefaultDevice(), []int64{1, 0}))
	}
	d, rows, cols := resultType(b, ts...), int64(0), int64(0)
	blocks := make([]op.Val, len(ts))
	for i, t := range ts {
		if len(t.Shape()) > 2 {
			fail(ir.ErrRuntime, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %d has %d dimensions", i,
				len(t.Shape()))
		}
		shape := append(slices.Repeat([]int64{1}, 2-len(t.Shape())), t.Shape()...)
		blocks[i] = prim.Reshape(b, cast(b, t, d), shape)
		rows, cols = rows+shape[0], cols+shape[1]
	}
	y := prim.Zeros(b, d, ts[0].Device(), []int64{rows, cols})
	at := int64(0)
	for _, t := range blocks {
		s := t.Shape()
		y = prim.StridedScatter(b, y, t, ir.InternLayout(s, []int64{cols, 1}), at)
		at += s[0]*cols + s[1]
	}
	return a.Ret(y)
}

// covariance of the rows of x over its columns, weighted by counts and by weights where they are given.
func covariance(a *op.Args, x, counts, weights op.Val, correction int64) op.Val {
	b := a.B
	if len(x.Shape()) > 2 {
		fail(ir.ErrRuntime, "cov(): expected input to have two or fewer dimensions but got an input with %d dimensions",
			len(x.Shape()))
	}
	if x.DType() == ir.Bool {
		fail(ir.ErrRuntime, "cov(): bool dtype is not supported for input")
	}
	if len(x.Shape()) < 2 {
		x = prim.Reshape(b, x, []int64{1, x.L().Numel})
	}
	x = floating(b, x)
	d := resultType(b, x, counts, weights)
	x = cast(b, x, d)
	n, cols := x.Shape()[1], dimMask([]int64{1}, 2)
	weight := x.DType().Real()
	w := prim.Fill(b, op.IntVal(1), weight, x.Device(), []int64{n})
	for i, v := range []op.Val{counts, weights} {
		if !v.IsTensor() {
			continue
		}
		if len(v.Shape()) > 1 || v.L().Numel != n || i == 0 != v.DType().IsInt() {
			fail(ir.ErrRuntime, "cov(): %s: got %s of shape %s, want %s of shape [%d]", []string{"fweights", "aweights"}[i],
				typeName(v.DType()), ir.ShapeString(v.Shape()), []string{"integers", "floats"}[i], n)
		}
		v = cast(b, v, weight)
		v = prim.Require(b, prim.Ge(b, v, op.IntVal(0)), v, []prim.Requirement{prim.RequireCounts, prim.RequireImportance}[i])
		w = prim.Mul(b, w, prim.Reshape(b, v, []int64{n}))
	}
	total := prim.Sum(b, w, []int64{0})
	mean := reduceDims(b, prim.Sum, prim.Mul(b, x, expand(b, w, x.Shape())), cols, true)
	mean = prim.Div(b, mean, expand(b, total, mean.Shape()))
	lost := op.FloatVal(float64(correction))
	if weights.IsTensor() && correction != 0 {
		squares := prim.Sum(b, prim.Mul(b, w, prim.Reshape(b, cast(b, weights, weight), []int64{n})), []int64{0})
		lost = prim.Mul(b, prim.Div(b, squares, total), lost)
	}
	norm := prim.Maximum(b, prim.Sub(b, total, lost), op.FloatVal(0))
	centred := prim.Sub(b, x, expand(b, mean, x.Shape()))
	right := lowered(a, mH(b, prim.Mul(b, centred, expand(b, w, x.Shape()))))
	c := matrix(b, lowered(a, centred), right, none)
	c = prim.Div(b, c, expand(b, cast(b, norm, c.DType().Real()), c.Shape()))
	if c.L().Numel == 1 {
		return prim.Reshape(b, c, nil)
	}
	return c
}

func registerCovariance() {
	op.Register(op.Def{
		Sig: "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
		Doc: "The covariance of the variables in rows over the observations in columns.",
		Samples: samples("T(3,5)", "T(5)", "T(3,5) | correction=0", "T(2,4) | fweights=I(4;1,5)",
			"T(2,4) | aweights=T(4;0.5,2)", "I(2,4;0,9)"), ErrorSamples: samples("T(2,2,2)", "T(2,4) | fweights=T(4)"),
		Eval: func(a *op.Args) []op.Val {
			x, n, f := a.Val(), a.Int(), a.Val()
			return a.Ret(covariance(a, x, f, a.Val(), n))
		},
	})
	op.Register(op.Def{
		Sig: "corrcoef(Tensor self) -> Tensor", Doc: "The correlation of the variables in rows over the observations in " +
			"columns.", Samples: samples("T(3,5)", "T(5)", "I(2,4;0,9)"), ErrorSamples: samples("T(2,2,2)"),
		Eval: func(a *op.Args) []op.Val {
			b := a.B
			c := covariance(a, a.Val(), none, none, 1)
			if len(c.Shape()) == 0 {
				return a.Ret(prim.Div(b, c, c))
			}
			d := diagonal(b, c, 0, 0, 1)
			if c.DType().IsComplex() {
				d = prim.Real(b, d)
			}
			d = prim.Sqrt(b, d)
			c = prim.Div(b, c, expand(b, prim.Unsqueeze(b, d, -1), c.Shape()))
			c = prim.Div(b, c, expand(b, d, c.Shape()))
			if c.DType().IsComplex() {
				re, im := prim.Real(b, c), prim.Imag(b, c)
				return a.Ret(prim.MakeComplex(b, clampNumbers(b, re, op.FloatVal(-1), op.FloatVal(1)),
					clampNumbers(b, im, op.FloatVal(-1), op.FloatVal(1))))
			}
			return a.Ret(clampNumbers(b, c, op.FloatVal(-1), op.FloatVal(1)))
		},
	})
}
