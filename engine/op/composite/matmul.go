package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

var none op.Val

// matrix is the product of matrices with equal leading dims.
func matrix(b op.Builder, x, y, bias op.Val) op.Val {
	if x.DType() == ir.Bool {
		s, t := x.Shape(), y.Shape()
		out := append(slices.Clone(s[:len(s)-1]), t[len(t)-1])
		if ir.Numel(out) == 0 || s[len(s)-1] == 0 {
			return prim.Zeros(b, ir.Bool, x.Device(), out)
		}
		unsupported("addmm_impl_cpu_", ir.Bool)
	}
	return prim.Matmul(b, x, y, bias)
}

func sameTypes(x, y op.Val) {
	if x.DType() != y.DType() {
		fail(ir.ErrRuntime, "expected m1 and m2 to have the same dtype, but got: %s != %s", x.DType().CName(),
			y.DType().CName())
	}
}

// mm is the product of two matrices, with PyTorch's checks.
func mm(b op.Builder, name string, x, y, bias op.Val) op.Val {
	s, t := x.Shape(), y.Shape()
	if s[1] != t[0] {
		fail(ir.ErrRuntime, "%s: mat1 and mat2 shapes cannot be multiplied (%dx%d and %dx%d)", name, s[0], s[1], t[0], t[1])
	}
	sameTypes(x, y)
	return matrix(b, x, y, bias)
}

// productName is the operator that PyTorch's errors name.
func productName(bias op.Val) string {
	if bias.IsTensor() {
		return "addmm"
	}
	return "mm"
}

func mv(b op.Builder, m, v op.Val) op.Val {
	s, n := m.Shape(), v.Shape()[0]
	if s[1] != n {
		fail(ir.ErrRuntime, "size mismatch, got input (%d), mat (%dx%d), vec (%d)", s[0], s[0], s[1], n)
	}
	sameTypes(m, v)
	y := matrix(b, m, prim.Reshape(b, v, []int64{n, 1}), none)
	return prim.Reshape(b, y, []int64{s[0]})
}

func dot(b op.Builder, x, y op.Val) op.Val {
	if len(x.Shape()) != 1 || len(y.Shape()) != 1 {
		fail(ir.ErrRuntime, "1D tensors expected, but got %dD and %dD tensors", len(x.Shape()), len(y.Shape()))
	}
	if x.DType() != y.DType() {
		fail(ir.ErrRuntime, "dot : expected both vectors to have same dtype, but found %s and %s", typeName(x.DType()),
			typeName(y.DType()))
	}
	n, m := x.L().Numel, y.L().Numel
	if n != m {
		fail(ir.ErrRuntime, "inconsistent tensor size, expected tensor [%d] and src [%d] to have the same number of "+
			"elements, but got %d and %d elements respectively", n, m, n, m)
	}
	p := matrix(b, prim.Reshape(b, x, []int64{1, n}), prim.Reshape(b, y, []int64{n, 1}), none)
	return prim.Reshape(b, p, nil)
}

// matmul is torch.matmul: vectors are padded to matrices, and leading dims broadcast. A batch of matrices times one
// matrix is one product where a view can merge x's rows. bias, of the size of the last dim, is added in the same
// kernel.
func matmul(b op.Builder, x, y, bias op.Val) op.Val {
	s, t := x.Shape(), y.Shape()
	switch {
	case len(s) == 0 || len(t) == 0:
		fail(ir.ErrRuntime, "both arguments to matmul need to be at least 1D, but they are %dD and %dD", len(s), len(t))
	case len(s) == 1 && len(t) == 1:
		return dot(b, x, y)
	case len(s) == 2 && len(t) == 1:
		return mv(b, x, y)
	case len(s) == 1 && len(t) == 2:
		if s[0] != t[0] {
			fail(ir.ErrRuntime, "size mismatch, got input (%d), mat (%dx%d), vec (%d)", t[1], t[1], t[0], s[0])
		}
		sameTypes(x, y)
		return prim.Reshape(b, matrix(b, prim.Reshape(b, x, []int64{1, s[0]}), y, bias), []int64{t[1]})
	case len(s) == 2 && len(t) == 2:
		return mm(b, productName(bias), x, y, bias)
	}
	return batched(b, x, y, bias)
}

func batched(b op.Builder, x, y, bias op.Val) op.Val {
	rowVector, colVector := len(x.Shape()) == 1, len(y.Shape()) == 1
	if rowVector {
		x = prim.Reshape(b, x, []int64{1, x.Shape()[0]})
	}
	if colVector {
		y = prim.Reshape(b, y, []int64{y.Shape()[0], 1})
	}
	s, t := x.Shape(), y.Shape()
	r, q := len(s), len(t)
	m, k, n := s[r-2], s[r-1], t[q-1]
	lead := s[:r-2]
	var p op.Val
	rows := []int64{ir.Numel(lead) * m, k}
	if q == 2 && prim.CanView(x, rows) {
		p = mm(b, productName(bias), prim.Reshape(b, x, rows), y, bias)
	} else {
		lead = ir.BroadcastShape(lead, t[:q-2])
		if t[q-2] != k {
			batch := ir.Numel(lead)
			fail(ir.ErrRuntime, "Expected size for first two dimensions of batch2 tensor to be: [%d, %d] but got: [%d, %d].",
				batch, k, batch, t[q-2])
		}
		sameTypes(x, y)
		p = matrix(b, expand(b, x, slices.Concat(lead, s[r-2:])), expand(b, y, slices.Concat(lead, t[q-2:])), bias)
	}
	out := slices.Clone(lead)
	if !rowVector {
		out = append(out, m)
	}
	if !colVector {
		out = append(out, n)
	}
	return prim.Reshape(b, p, out)
}

func registerMatmulOps() {
	op.Register(op.Def{
		Sig: "matmul(Tensor self, Tensor other) -> Tensor", Doc: "The matrix product; leading dims broadcast.", Out: true,
		Where: op.Function | op.Method | op.Linalg, Aliases: []string{"linalg_matmul"},
		Samples: samples("T(3,4), T(4,5)", "T(4), T(4)", "T(3,4), T(4)", "T(4), T(4,5)", "T(2,3,4), T(4,5)",
			"T(2,3,4), T(2,4,5)", "T(2,1,3,4), T(5,4,2)", "T(3,4), T(2,4,5)", "T(4), T(2,4,5)", "T(2,3,4), T(4)",
			"T(0,4), T(4,5)", "T(3,0), T(0,5)", "T(4,3).t(), T(5,4).t()"),
		ErrorSamples: samples("T(3,4), T(3,4)", "T(3,4), T(3)", "T(), T(3,4)", "T(2,3,4), T(3,4,5)", "T(2,3,4), T(2,3,5)",
			"T(3), T(4)"),
		Eval: func(a *op.Args) []op.Val { return a.Ret(matmul(a.B, a.Val(), a.Val(), none)) },
	})
	registerMatrixProducts()
	registerAddedProducts()
	op.Register(op.Def{
		Sig: "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", Doc: "input @ weight.T + bias.",
		Where: op.Functional, Out: true,
		Samples: samples("T(3,4), T(5,4)", "T(3,4), T(5,4), T(5)", "T(2,3,4), T(5,4), T(5)", "T(4), T(5,4), T(5)",
			"T(3,4), T(4)", "T(0,4), T(5,4), T(5)"),
		ErrorSamples: samples("T(3,4), T(5,3)", "T(3,4), T(5,4), T(3)"),
		Eval:         func(a *op.Args) []op.Val { return a.Ret(linear(a.B, a.Val(), a.Val(), a.Val())) },
	})
}

func linear(b op.Builder, x, w, bias op.Val) op.Val {
	if x.DType() != w.DType() {
		fail(ir.ErrRuntime, "mat1 and mat2 must have the same dtype, but got %s and %s", typeName(x.DType()),
			typeName(w.DType()))
	}
	if len(w.Shape()) == 2 {
		w = prim.Transpose(b, w, 0, 1)
	}
	if !bias.IsTensor() {
		return matmul(b, x, w, none)
	}
	if n := len(w.Shape()); n == 2 && len(bias.Shape()) == 1 && bias.Shape()[0] == w.Shape()[1] &&
		bias.DType() == x.DType() && len(x.Shape()) > 0 {
		return matmul(b, x, w, bias)
	}
	y := matmul(b, x, w, none)
	align(b, resultType(b, y, bias), &y, &bias)
	return prim.Add(b, y, bias)
}

func registerMatrixProducts() {
	op.Register(op.Def{
		Sig: "mm(Tensor self, Tensor mat2) -> Tensor", Doc: "The product of two matrices.", Out: true,
		Samples:      samples("T(3,4), T(4,5)", "T(0,4), T(4,5)"),
		ErrorSamples: samples("T(3,4), T(3,4)", "T(3), T(3,4)"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			if len(x.Shape()) != 2 {
				fail(ir.ErrRuntime, "self must be a matrix")
			}
			if len(y.Shape()) != 2 {
				fail(ir.ErrRuntime, "mat2 must be a matrix")
			}
			return a.Ret(mm(a.B, "mm", x, y, none))
		},
	})
	op.Register(op.Def{
		Sig: "bmm(Tensor self, Tensor mat2) -> Tensor", Doc: "The products of two batches of matrices.", Out: true,
		Samples:      samples("T(2,3,4), T(2,4,5)"),
		ErrorSamples: samples("T(3,4), T(2,4,5)", "T(2,3,4), T(3,4,5)", "T(2,3,4), T(2,3,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			checkBatches(x, y)
			return a.Ret(matrix(a.B, x, y, none))
		},
	})
	op.Register(op.Def{
		Sig: "mv(Tensor self, Tensor vec) -> Tensor", Doc: "The product of a matrix and a vector.", Out: true,
		Samples:      samples("T(3,4), T(4)"),
		ErrorSamples: samples("T(3,4), T(3)", "T(3), T(3)"),
		Eval: func(a *op.Args) []op.Val {
			m, v := a.Val(), a.Val()
			needDim(m, 0)
			if len(m.Shape()) != 2 || len(v.Shape()) != 1 {
				fail(ir.ErrRuntime, "vector + matrix @ vector expected, got 1, %d, %d", len(m.Shape()), len(v.Shape()))
			}
			return a.Ret(mv(a.B, m, v))
		},
	})
	op.Register(op.Def{
		Sig: "dot(Tensor self, Tensor tensor) -> Tensor", Doc: "The sum of the products of two vectors.", Out: true,
		Samples:      samples("T(4), T(4)", "T(0), T(0)"),
		ErrorSamples: samples("T(3,4), T(3)", "T(3), T(4)"),
		Eval:         func(a *op.Args) []op.Val { return a.Ret(dot(a.B, a.Val(), a.Val())) },
	})
	op.Register(op.Def{
		Sig: "vdot(Tensor self, Tensor other) -> Tensor", Doc: "dot of the conjugate of self.", Out: true,
		Samples: samples("T(4), T(4)"), ErrorSamples: samples("T(3), T(4)"),
		Eval: func(a *op.Args) []op.Val { return a.Ret(dot(a.B, prim.Conj(a.B, a.Val()), a.Val())) },
	})
	for _, name := range []string{"outer", "ger"} {
		op.Register(op.Def{
			Sig: name + "(Tensor self, Tensor vec2) -> Tensor", Doc: "All products of the elements of two vectors.", Out: true,
			Samples: samples("T(3), T(4)", "I(3;0,9), T(2)"), ErrorSamples: samples("T(3,4), T(3)"),
			Eval: func(a *op.Args) []op.Val { return a.Ret(outer(a.B, a.Val(), a.Val())) },
		})
	}
	op.Register(op.Def{
		Sig: "inner(Tensor self, Tensor other) -> Tensor", Doc: "Products summed over the last dims.", Out: true,
		Samples:      samples("T(4), T(4)", "T(3,4), T(5,4)", "T(2,3,4), T(5,4)", "T(), T(3)"),
		ErrorSamples: samples("T(3,4), T(3)"), Eval: evalInner,
	})
}

func checkBatches(x, y op.Val) {
	s, t := x.Shape(), y.Shape()
	if len(s) != 3 {
		fail(ir.ErrRuntime, "batch1 must be a 3D tensor")
	}
	if len(t) != 3 {
		fail(ir.ErrRuntime, "batch2 must be a 3D tensor")
	}
	if t[0] != s[0] || t[1] != s[2] {
		fail(ir.ErrRuntime, "Expected size for first two dimensions of batch2 tensor to be: [%d, %d] but got: [%d, %d].",
			s[0], s[2], t[0], t[1])
	}
	sameTypes(x, y)
}

func outer(b op.Builder, x, y op.Val) op.Val {
	if r := len(x.Shape()); r != 1 {
		fail(ir.ErrRuntime, "outer: Expected 1-D argument self, but got %d-D", r)
	}
	if r := len(y.Shape()); r != 1 {
		fail(ir.ErrRuntime, "outer: Expected 1-D argument vec2, but got %d-D", r)
	}
	return multiply(b, prim.Unsqueeze(b, x, 1), y)
}

func evalInner(a *op.Args) []op.Val {
	x, y, b := a.Val(), a.Val(), a.B
	s, t := x.Shape(), y.Shape()
	if len(s) == 0 || len(t) == 0 {
		return a.Ret(multiply(b, x, y))
	}
	k := s[len(s)-1]
	if k != t[len(t)-1] {
		fail(ir.ErrRuntime, "inner() the last dimension must match on both input tensors but got shapes %s and %s",
			ir.ShapeString(s), ir.ShapeString(t))
	}
	rows := func(v op.Val) op.Val {
		n := v.L().Numel / max(k, 1)
		if k == 0 {
			n = ir.Numel(v.Shape()[:len(v.Shape())-1])
		}
		return prim.Reshape(b, v, []int64{n, k})
	}
	p := mm(b, "inner", rows(x), prim.Transpose(b, rows(y), 0, 1), none)
	return a.Ret(prim.Reshape(b, p, slices.Concat(s[:len(s)-1], t[:len(t)-1])))
}

// attached is y with a place in x's history, of gradient 0. x has y's shape and dtype.
func attached(b op.Builder, x, y op.Val) op.Val {
	if !b.NeedsGrad(x) {
		return y
	}
	never := prim.Fill(b, op.BoolVal(false), ir.Bool, y.Device(), nil)
	return prim.Where(b, prim.Expand(b, never, y.Shape()), x, y)
}

// combineProduct is beta*self + alpha*product; with beta 0 it ignores self, even NaN.
func combineProduct(b op.Builder, self, product, beta, alpha op.Val) op.Val {
	product = times(b, product, alpha)
	if beta = asType(b, beta, product.DType()); beta.Float() == 0 {
		return attached(b, expandTo(b, self, product.Shape()), product)
	}
	return prim.Add(b, times(b, expandTo(b, self, product.Shape()), beta), product)
}

func sameAs(self, x op.Val) {
	if self.DType() != x.DType() {
		fail(ir.ErrRuntime, "self and mat2 must have the same dtype, but got %s and %s", typeName(self.DType()),
			typeName(x.DType()))
	}
}

// addedTail ends the signatures of products that are added to a tensor.
const addedTail = ", *, Scalar beta=1, Scalar alpha=1) -> Tensor"

func registerAddedProducts() {
	op.Register(op.Def{
		Sig: "addmm(Tensor self, Tensor mat1, Tensor mat2" + addedTail,
		Doc: "beta * self + alpha * mat1 @ mat2.", InPlace: true,
		Out: true,
		Samples: samples("T(3,5), T(3,4), T(4,5)", "T(5), T(3,4), T(4,5)", "T(3,5), T(3,4), T(4,5) | beta=0.5, alpha=2",
			"T(), T(3,4), T(4,5) | beta=0"),
		ErrorSamples: samples("T(), T(3,4), T(3,4)", "T(2,5), T(3,4), T(4,5)", "T(), T(3), T(3,4)"),
		Eval: func(a *op.Args) []op.Val {
			self, x, y, beta, alpha, b := a.Val(), a.Val(), a.Val(), a.Scalar(), a.Scalar(), a.B
			if len(x.Shape()) != 2 || len(y.Shape()) != 2 {
				fail(ir.ErrRuntime, "mat1 and mat2 must be matrices, got %d-D and %d-D tensors", len(x.Shape()), len(y.Shape()))
			}
			sameAs(self, x)
			if s := self.Shape(); len(s) == 1 && s[0] == y.Shape()[1] && beta.Float() == 1 && alpha.Float() == 1 {
				return a.Ret(mm(b, "addmm", x, y, self))
			}
			narrow := widen(b, x.DType(), &self, &x, &y)
			return a.Ret(narrow(combineProduct(b, self, mm(b, "addmm", x, y, none), beta, alpha)))
		},
	})
	op.Register(op.Def{
		Sig: "baddbmm(Tensor self, Tensor batch1, Tensor batch2" + addedTail, Doc: "beta * self + alpha * batch1 @ batch2.",
		InPlace: true, Out: true,
		Samples:      samples("T(2,3,5), T(2,3,4), T(2,4,5)", "T(5), T(2,3,4), T(2,4,5) | beta=0.5, alpha=2"),
		ErrorSamples: samples("T(5), T(2,3,4), T(2,3,5)"),
		Eval: func(a *op.Args) []op.Val {
			self, x, y := a.Val(), a.Val(), a.Val()
			needDim(x, 0)
			needDim(y, 0)
			checkBatches(x, y)
			sameAs(self, x)
			beta, alpha := a.Scalar(), a.Scalar()
			narrow := widen(a.B, x.DType(), &self, &x, &y)
			return a.Ret(narrow(combineProduct(a.B, self, matrix(a.B, x, y, none), beta, alpha)))
		},
	})
	op.Register(op.Def{
		Sig: "addbmm(Tensor self, Tensor batch1, Tensor batch2" + addedTail,
		Doc: "beta * self + alpha * the sum of batch1 @ batch2.", InPlace: true, Out: true,
		Samples: samples("T(3,5), T(2,3,4), T(2,4,5)"), ErrorSamples: samples("T(5), T(2,3,4), T(2,3,5)"),
		Eval: func(a *op.Args) []op.Val {
			self, x, y := a.Val(), a.Val(), a.Val()
			needDim(x, 0)
			needDim(y, 0)
			checkBatches(x, y)
			sameAs(self, x)
			beta, alpha := a.Scalar(), a.Scalar()
			narrow := widen(a.B, x.DType(), &self, &x, &y)
			return a.Ret(narrow(combineProduct(a.B, self, prim.Sum(a.B, matrix(a.B, x, y, none), []int64{0}), beta, alpha)))
		},
	})
	registerAddedVectorProducts()
}

func registerAddedVectorProducts() {
	op.Register(op.Def{
		Sig: "addmv(Tensor self, Tensor mat, Tensor vec" + addedTail, Doc: "beta * self + alpha * mat @ vec.", InPlace: true,
		Out:          true,
		Samples:      samples("T(3), T(3,4), T(4)", "T(), T(3,4), T(4) | beta=0.5, alpha=2"),
		ErrorSamples: samples("T(3), T(3,4), T(3)"),
		Eval: func(a *op.Args) []op.Val {
			self, m, v := a.Val(), a.Val(), a.Val()
			if len(m.Shape()) != 2 || len(v.Shape()) != 1 {
				fail(ir.ErrRuntime, "vector + matrix @ vector expected, got %d, %d, %d", len(self.Shape()), len(m.Shape()),
					len(v.Shape()))
			}
			sameAs(self, m)
			beta, alpha := a.Scalar(), a.Scalar()
			narrow := widen(a.B, m.DType(), &self, &m, &v)
			return a.Ret(narrow(combineProduct(a.B, self, mv(a.B, m, v), beta, alpha)))
		},
	})
	op.Register(op.Def{
		Sig: "addr(Tensor self, Tensor vec1, Tensor vec2" + addedTail, Doc: "beta * self + alpha * outer(vec1, vec2).",
		InPlace: true, Out: true,
		Samples:      samples("T(3,4), T(3), T(4)", "T(4), T(3), T(4) | beta=0.5, alpha=2"),
		ErrorSamples: samples("T(3,4), T(3,1), T(4)"),
		Eval: func(a *op.Args) []op.Val {
			self, x, y := a.Val(), a.Val(), a.Val()
			beta, alpha := a.Scalar(), a.Scalar()
			d := resultType(a.B, self, x, y)
			self, x, y = cast(a.B, self, d), cast(a.B, x, d), cast(a.B, y, d)
			narrow := widen(a.B, d, &self, &x, &y)
			return a.Ret(narrow(combineProduct(a.B, self, outer(a.B, x, y), beta, alpha)))
		},
	})
}
