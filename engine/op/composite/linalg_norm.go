package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Norms of matrices, and what follows from singular values: condition, rank, pseudoinverse, least squares.

// normInput casts to the dtype that was asked for, or keeps the input's.
func normInput(a *op.Args, name string, x op.Val, d ir.DType) op.Val {
	needNormType(name, x.DType())
	if d == ir.InvalidDType {
		return x
	}
	if !d.IsInexact() {
		fail(ir.ErrRuntime, "%s: dtype should be floating point or complex. Got %s", name, typeName(d))
	}
	if d.Size() < x.DType().Size() && a.Lower[min(int(x.Device()), 1)] == ir.InvalidDType { // autocast has widened it
		fail(ir.ErrRuntime, "%s: the dtype of the input (%s) should be convertible without narrowing to the specified dtype "+
			"(%s)", name, typeName(x.DType()), typeName(d))
	}
	return cast(a.B, x, d)
}

// lastTwo moves two dims to the end.
func lastTwo(b op.Builder, x op.Val, i, j int) op.Val {
	var perm []int64
	for d := range len(x.Shape()) {
		if d != i && d != j {
			perm = append(perm, int64(d))
		}
	}
	return prim.Permute(b, x, append(perm, int64(i), int64(j)))
}

// Numbers that stand for the named orders; no numeric order has these values.
const (
	frobenius = 1000
	nuclear   = 1001
)

// matrixNorm is the norm of the matrices in two dims: frobenius, nuclear, 1 and inf (the largest sum of a column, of a
// row), 2 (the largest singular value); with a minus sign the smallest.
func matrixNorm(b op.Builder, x op.Val, p float64, dims []int64, keepdim bool) op.Val {
	r := len(x.Shape())
	if len(dims) != 2 {
		fail(ir.ErrRuntime, "linalg.matrix_norm: dim must be a 2-tuple. Got %s", ir.ShapeString(dims))
	}
	if r < 2 {
		fail(ir.ErrRuntime, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
	}
	i, j := ir.WrapDim(dims[0], r), ir.WrapDim(dims[1], r)
	if i == j {
		fail(ir.ErrRuntime, "linalg.matrix_norm: dims must be different. Got (%d, %d)", dims[0], dims[1])
	}
	mask := dimMask([]int64{int64(i), int64(j)}, r)
	_, kept := maskedDims(mask, x.Shape())
	var y op.Val
	switch size := math.Abs(p); {
	case p == frobenius:
		return vectorNorm(b, x, 2, mask, keepdim)
	case p == nuclear, size == 2:
		if x.DType().Size() < 4 {
			unsupported("svd_cpu", x.DType())
		}
		s := singularValues(b, lastTwo(b, x, i, j))
		last := []bool(nil)
		last = append(make([]bool, len(s.Shape())-1), true)
		f := prim.Sum
		if p != nuclear {
			f = extreme(s, last, p)
		}
		y = reduceDims(b, f, s, last, false)
	case size == 1, math.IsInf(p, 0):
		x = lastTwo(b, x, i, j)
		if size == 1 {
			x = mT(b, x)
		}
		last := append(make([]bool, r-1), true)
		sums := vectorNorm(b, x, 1, last, false)
		y = reduceDims(b, extreme(sums, last[1:], p), sums, last[1:], false)
	default:
		fail(ir.ErrRuntime, "linalg.matrix_norm: Order %v not supported.", p)
	}
	if keepdim {
		return prim.Reshape(b, y, kept)
	}
	return y
}

// extreme is the largest of sizes, or with a negative p the smallest. The largest of none is 0, their sum.
func extreme(sizes op.Val, mask []bool, p float64) reduceEmit {
	if p < 0 {
		refuseEmpty("linalg.matrix_norm", sizes, mask)
		return prim.Amin
	}
	if sizes.Shape()[len(mask)-1] == 0 {
		return prim.Sum
	}
	return prim.Amax
}

// order reads ord: a number, a name, or none.
func order(a *op.Args, named bool) (p float64, given bool) {
	if named {
		return frobenius + float64(a.Int()), true
	}
	s := a.Scalar()
	return s.Float(), s.Kind != op.None
}

// registerOrders registers a norm whose ord is a number or a name.
func registerOrders(name, number, rest, doc string, s, errs []op.Sample, eval func(a *op.Args, named bool) []op.Val) {
	for _, named := range []bool{false, true} {
		sig, some := "linalg_"+name+"(Tensor self, "+number, s
		if named {
			sig, some = "linalg_"+name+".str_ord(Tensor self, str(fro|nuc) ord", samples("T(3,4), 'fro'", "T(3,4), 'nuc'")
			if name == "matrix_norm" {
				sig += "='fro'"
				some = append(some, samples("T(3,4)", "T(2,3,4), 'fro', (0, 2), True")...)
			} else {
				errs = samples("I(2,2;0,5), 'fro'", "T(3), 'nuc'")
			}
		}
		op.Register(op.Def{Sig: sig + rest, Doc: doc, Where: op.Linalg, Out: true, Samples: some, ErrorSamples: errs,
			Eval: func(a *op.Args) []op.Val { return eval(a, named) }})
	}
}

func registerLinalgNormOps() {
	registerOrders("norm", "Scalar? ord=None", ", int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		"The norm of vectors (one dim, or all without ord) or of matrices (two dims with ord).",
		samples("T(3,4)", "T(3,4), 1", "T(3,4), 2", "T(3,4), float('inf'), 1", "T(2,3,4), -1, (0, 2), True", "T(3), 0",
			"T(3), 3 | dtype=torch.float64"),
		samples("T(2,3,4), 2", "I(3;0,5)"), evalLinalgNorm)
	registerOrders("matrix_norm", "Scalar ord", ", int[] dim=(-2,-1), bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		"The norm of matrices.", samples("T(3,4), 1", "T(3,4), -2", "T(2,3,4), float('inf'), (0, 2), True", "T(2,3,4), -1"),
		samples("T(3), 1", "T(3,4), 3", "T(3,4), 2, (0, 0)"),
		func(a *op.Args, named bool) []op.Val {
			x := a.Val()
			p, _ := order(a, named)
			dims, _ := a.IntList()
			keepdim := a.Bool()
			return a.Ret(matrixNorm(a.B, normInput(a, "linalg.matrix_norm", x, a.DType()), p, dims, keepdim))
		})
	op.Register(op.Def{
		Sig: "linalg_vector_norm(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> " +
			"Tensor", Doc: "The p-norm over dims, of all elements without.",
		Where: op.Linalg, Out: true, Samples: samples("T(3,4)", "T(3,4), 1, 1", "T(3,4), 3, (0, 1), True", "T(3), 0",
			"T(3,4), float('inf'), 0", "T(3), 2 | dtype=torch.float64", "torch.zeros(3)"),
		ErrorSamples: samples("I(3;0,5)", "T(3), 2, 4", "T(0), float('inf')"),
		Eval: func(a *op.Args) []op.Val {
			x, p := a.Val(), a.Scalar().Float()
			dims, _ := a.IntList()
			keepdim := a.Bool()
			x = normInput(a, "linalg.vector_norm", x, a.DType())
			return a.Ret(vectorNorm(a.B, x, p, dimMask(dims, len(x.Shape())), keepdim))
		},
	})
	registerCondition()
	registerPinv()
	registerLstsq()
}

func evalLinalgNorm(a *op.Args, named bool) []op.Val {
	x := a.Val()
	p, given := order(a, named)
	dims, some := a.IntList()
	keepdim, b := a.Bool(), a.B
	x = normInput(a, "linalg.norm", x, a.DType())
	r := len(x.Shape())
	if some && len(dims) != 1 && len(dims) != 2 {
		fail(ir.ErrRuntime, "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %s", ir.ShapeString(dims))
	}
	if given && !some && r != 1 && r != 2 {
		fail(ir.ErrRuntime, "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %dD.", r)
	}
	if given && (len(dims) == 2 || !some && r == 2) {
		if !some {
			dims = []int64{0, 1}
		}
		return a.Ret(matrixNorm(b, x, p, dims, keepdim))
	}
	if named {
		fail(ir.ErrRuntime, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
	}
	if !given {
		p = 2
	}
	return a.Ret(vectorNorm(b, x, p, dimMask(dims, r), keepdim))
}

// condition is the norm of x times the norm of its inverse, or the quotient of the extreme singular values.
func condition(b op.Builder, x op.Val, p float64) op.Val {
	matrixSize("linalg.cond", x)
	if x.L().Numel == 0 {
		if p == frobenius || p == nuclear {
			squareOf("linalg.cond", x)
		}
		return prim.Zeros(b, x.DType().Real(), x.Device(), leading(x))
	}
	if math.Abs(p) == 2 {
		s := singularValues(b, matrixOf("linalg.cond", x))
		k := s.Shape()[len(s.Shape())-1]
		top, least := prim.Select(b, s, -1, 0), prim.Select(b, s, -1, k-1)
		if p < 0 {
			top, least = least, top
		}
		return prim.Div(b, top, least)
	}
	y, status := inverse(b, squareOf("linalg.cond", x), prim.Unchecked)
	singular := prim.Ne(b, status, op.IntVal(0))
	each := expand(b, prim.Unsqueeze(b, prim.Unsqueeze(b, singular, -1), -1), y.Shape())
	y = prim.Where(b, each, op.FloatVal(0), y)
	dims := []int64{-2, -1}
	c := prim.Mul(b, matrixNorm(b, x, p, dims, false), matrixNorm(b, y, p, dims, false))
	return prim.Where(b, singular, op.FloatVal(inf), c)
}

func registerCondition() {
	op.Register(op.Def{
		Sig: "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
		Doc: "The condition number in a matrix norm: infinite for singular matrices.", Where: op.Linalg, Out: true,
		Samples:      samples("P(3,3)", "P(3,3), 1", "P(2,2,2), -2", "T(3,2)", "P(3,3), float('inf')"),
		ErrorSamples: samples("T(3)", "T(3,2), 1"),
		Eval: func(a *op.Args) []op.Val {
			x, p := a.Val(), a.Scalar()
			if p.Kind == op.None {
				p = op.IntVal(2)
			}
			return a.Ret(condition(a.B, x, p.Float()))
		},
	})
	op.Register(op.Def{
		Sig: "linalg_cond.p_str(Tensor self, str(fro|nuc) p) -> Tensor",
		Doc: "The condition number in a matrix norm: infinite for singular matrices.", Where: op.Linalg, Out: true,
		Samples: samples("P(3,3), 'fro'", "P(3,3), 'nuc'"),
		Eval:    func(a *op.Args) []op.Val { return a.Ret(condition(a.B, a.Val(), frobenius+float64(a.Int()))) },
	})
	rank := func(a *op.Args, x, atol, rtol op.Val, hermitian bool) []op.Val {
		b := a.B
		atol, rtol = tolerances(b, x, atol, rtol)
		if x.L().Numel == 0 {
			return a.Ret(prim.Zeros(b, ir.I64, x.Device(), leading(x)))
		}
		s := spectrumSizes(b, matrixOf("linalg.matrix_rank", x), hermitian)
		last := append(make([]bool, len(s.Shape())-1), true)
		cut := prim.Maximum(b, atol, prim.Mul(b, rtol, reduceDims(b, prim.Amax, s, last, false)))
		return a.Ret(sum(b, prim.Gt(b, s, expand(b, prim.Unsqueeze(b, cut, -1), s.Shape())), last, false, ir.InvalidDType))
	}
	op.Register(op.Def{
		Sig:   "linalg_matrix_rank(Tensor input, *, Operand? atol=None, Operand? rtol=None, bool hermitian=False) -> Tensor",
		Doc:   "The number of singular values above max(atol, rtol * the largest).",
		Where: op.Linalg, Out: true, NoGrad: "a count", Samples: samples("T(3,4)", "T(2,3,3)", "P(3,3) | hermitian=True",
			"T(3,3) | atol=0.5", "T(2,3,3) | atol=T(2;0,1), rtol=T(2;0,0.1)"), ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val { x, y, z := a.Val(), a.Val(), a.Val(); return rank(a, x, y, z, a.Bool()) },
	})
	op.Register(op.Def{
		Sig: "linalg_matrix_rank.tol(Tensor input, Operand tol, bool hermitian=False) -> Tensor",
		Doc: "The number of singular values above tol.", Where: op.Linalg, Out: true, NoGrad: "a count",
		Samples: samples("T(3,3), 0.5", "P(3,3), 0.5, True"),
		Eval:    func(a *op.Args) []op.Val { x, y := a.Val(), a.Val(); return rank(a, x, y, op.FloatVal(0), a.Bool()) },
	})
}

// spectrumSizes returns singular values: those of a hermitian matrix are the sizes of its eigenvalues.
func spectrumSizes(b op.Builder, x op.Val, hermitian bool) op.Val {
	if !hermitian {
		return singularValues(b, x)
	}
	w, _ := prim.Eigh(b, squareOf("linalg.eigvalsh", x), false)
	return prim.Abs(b, w)
}

// tolerances returns atol and rtol as tensors with one number for each matrix. The default rtol is the dtype's epsilon
// times the larger dim, or 0 where atol is above 0.
func tolerances(b op.Builder, x, atol, rtol op.Val) (op.Val, op.Val) {
	m, n := matrixSize("linalg.pinv", x)
	needNormType("linalg.pinv", x.DType())
	d := x.DType().Real()
	whole := func(v op.Val) op.Val {
		if v.IsScalar() {
			return prim.Fill(b, v, d, x.Device(), leading(x))
		}
		return expand(b, cast(b, b.Detach(v), d), leading(x))
	}
	standard := whole(op.FloatVal(prim.Epsilon(d) * float64(max(m, n))))
	if atol.Kind == op.None {
		atol = op.FloatVal(0)
	}
	atol = whole(atol)
	if rtol.Kind == op.None {
		return atol, prim.Where(b, prim.Gt(b, atol, op.FloatVal(0)), op.FloatVal(0), standard)
	}
	return atol, whole(rtol)
}

func pinv(b op.Builder, x, atol, rtol op.Val, hermitian bool) op.Val {
	matrixOf("linalg.pinv", x)
	if hermitian && x.L().Numel > 0 {
		squareOf("linalg.pinv", x)
	}
	atol, rtol = tolerances(b, x, atol, rtol)
	return prim.Pinv(b, x, atol, rtol, hermitian && x.L().Numel > 0)
}

func registerPinv() {
	forms(op.Def{
		Doc: "The pseudoinverse, of the singular values above max(atol, rtol * the largest).", Out: true,
		Samples:      samples("P(3,3)", "T(4,2)", "T(2,2,3)", "P(3,3) | hermitian=True", "T(3,2) | rtol=0.01", "T(0,3)"),
		ErrorSamples: samples("T(3)", "I(2,2;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, z := a.Val(), a.Val(), a.Val()
			return a.Ret(lowered(a, pinv(a.B, x, y, z, a.Bool())))
		},
	}, "linalg_pinv(Tensor self, *, Operand? atol=None, Operand? rtol=None, bool hermitian=False) -> Tensor")
	forms(op.Def{
		Doc: "The pseudoinverse, of the singular values above rcond times the largest.", Out: true,
		Samples: samples("P(3,3), 0.01", "P(3,3), 0.01, True"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			return a.Ret(lowered(a, pinv(a.B, x, none, y, a.Bool())))
		},
	}, "linalg_pinv.rcond(Tensor self, Operand rcond, bool hermitian=False) -> Tensor")
	op.Register(op.Def{
		Sig: "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
		Doc: "The pseudoinverse, of the singular values above rcond times the largest.", Samples: samples("P(3,3)",
			"T(4,2), 0.01"),
		Eval: func(a *op.Args) []op.Val { x := a.Val(); return a.Ret(pinv(a.B, x, none, a.Scalar(), false)) },
	})
}

// registerLstsq registers lstsq. The solution is the pseudoinverse's; drivers differ in their further results, as in
// PyTorch.
func registerLstsq() {
	forms(op.Def{
		Doc: "The least-squares solution of self x = b, with residuals, rank and singular values where the driver gives " +
			"them (gelsy: the rank; gelsd and gelss: all).",
		Out: true, Samples: samples("T(4,2), T(4,3)", "T(3,3), T(3,2)", "T(2,4,3), T(2,4,1) | driver='gelsd'"),
		ErrorSamples: samples("T(3), T(3)", "T(3,2), T(2,2)", "T(), T()", "T(3,2), T()", "T(2,3,2), T(3)",
			"T(3,2), T(2,3,1)", "T(3,2), T(4)"),
		Eval: evalLstsq,
	}, "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str(gels|gelsy|gelsd|gelss)? driver=None) -> (Tensor "+
		"solution, Tensor residuals, Tensor rank, Tensor singular_values)")
}

func evalLstsq(a *op.Args) []op.Val {
	x, y, rcond, driver, b := a.Val(), a.Val(), a.Scalar(), a.Int(), a.B
	m, n := matrixSize("torch.linalg.lstsq", x)
	matrixOf("torch.linalg.lstsq", x)
	if x.DType() != y.DType() {
		fail(ir.ErrRuntime, "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype %s "+
			"and other's dtype %s", typeName(x.DType()), typeName(y.DType()))
	}
	switch below := len(x.Shape()) - len(y.Shape()); {
	case len(y.Shape()) == 0:
		fail(ir.ErrRuntime, "torch.linalg.lstsq: other must have at least 1 dimension.")
	case below < 0 || below > 1:
		fail(ir.ErrRuntime, "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and "+
			"(input.dim() - other.dim()) <= 1")
	}
	vector := len(y.Shape()) == 1 || ir.SameShape(y.Shape(), x.Shape()[:len(x.Shape())-1])
	rows := -2
	if vector {
		y, rows = prim.Unsqueeze(b, y, -1), -1
	}
	if s := y.Shape(); s[len(s)-2] != m {
		fail(ir.ErrRuntime, "torch.linalg.lstsq: input.size(-2) should match other.size(%d)", rows)
	}
	sameBatch(b, &x, &y)
	if rcond.Kind != op.None && rcond.Float() < 0 {
		rcond = none
	}
	v := matrix(b, pinv(b, x, none, rcond, false), y, none)
	rank, singular, residuals := emptyLike(b, x, ir.I64), emptyLike(b, x, x.DType().Real()), noneOf(b, realPart(b, x))
	if driver != 0 {
		s := singularValues(b, b.Detach(x))
		_, rtol := tolerances(b, x, none, rcond)
		last := append(make([]bool, len(s.Shape())-1), true)
		rank = prim.Zeros(b, ir.I64, x.Device(), leading(x))
		if min(m, n) > 0 {
			cut := prim.Mul(b, rtol, prim.Select(b, s, -1, 0))
			rank = sum(b, prim.Gt(b, s, expand(b, prim.Unsqueeze(b, cut, -1), s.Shape())), last, false, ir.InvalidDType)
		}
		if driver > 1 {
			singular = s
		}
	}
	if m > n && driver != 1 && driver != -1 {
		left := prim.Sub(b, matrix(b, x, v, none), y)
		residuals = prim.SumSquares(b, left, []int64{int64(len(left.Shape()) - 2)})
	}
	if vector {
		v = prim.Squeeze(b, v, []int64{-1})
	}
	return a.Ret(v, residuals, rank, singular)
}
