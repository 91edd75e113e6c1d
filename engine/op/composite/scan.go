package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerScanOps() {
	registerScans()
	registerDifferences()
}

// scan is a running result along dim; a 0-dim tensor is its own result.
func scan(b op.Builder, x op.Val, dim, operation int64) op.Val {
	d := ir.WrapDim(dim, len(x.Shape()))
	if len(x.Shape()) == 0 {
		return prim.Copy(b, x)
	}
	return prim.Scan(b, x, int64(d), operation)
}

func registerScans() {
	for i, m := range []struct{ name, doc string }{{"cumsum", "The running sum along a dim."},
		{"cumprod", "The running product along a dim."}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, int dim, *, dtype? dtype=None) -> Tensor", Doc: m.doc, InPlace: true, Out: true,
			Samples: samples("T(3,4), 0", "T(3,4), -1", "I(5;0,9), 0", "B(5), 0", "T(3), 0 | dtype=torch.float64", "T(), 0",
				"T(0,3), 0", "torch.tensor([[2.0, 0.0, 3.0, 0.0], [1.0, 2.0, 3.0, 0.0]]), 1"),
			ErrorSamples: samples("T(3), 2"),
			Eval: func(a *op.Args) []op.Val {
				x, dim := a.Val(), a.Int()
				return a.Ret(scan(a.B, cast(a.B, x, sumType(x, a.DType())), dim, []int64{prim.ScanSum, prim.ScanProd}[i]))
			},
		})
	}
	for i, m := range []struct{ name, doc string }{
		{"cummax", "The running maximum along a dim and the index of the last element equal to it."},
		{"cummin", "The running minimum along a dim and the index of the last element equal to it."},
	} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, int dim) -> (Tensor values, Tensor indices)", Doc: m.doc, Out: true,
			Samples: samples("T(3,4), 0", "T(3,4), -1", "I(9;0,4), 0", "B(5), 0", "T(), 0", "T(0,3), 0",
				"torch.tensor([1.0, float('nan'), 2.0, float('nan'), 3.0]), 0"),
			ErrorSamples: samples("T(3), 2"),
			Eval: func(a *op.Args) []op.Val {
				return a.Ret(runningExtreme(a.B, a.Val(), a.Int(),
					prim.ScanMax+int64(i)))
			},
		})
	}
	op.Register(op.Def{
		Sig: "logcumsumexp(Tensor self, int dim) -> Tensor",
		Doc: "The logarithm of the running sum of exponentials along a " +
			"dim, without overflow.", Out: true,
		Samples: samples("T(3,4), 0", "T(3,4), -1", "T(8;-20,20), 0", "T(), 0", "T(0,3), 0",
			"torch.tensor([float('-inf'), float('-inf'), 1.0, float('inf')]), 0"),
		ErrorSamples: samples("T(3), 2", "I(3;0,5), 0"),
		Eval: func(a *op.Args) []op.Val {
			x, dim := a.Val(), a.Int()
			needFloat("logcumsumexp_out_cpu", x)
			return a.Ret(scan(a.B, x, dim, prim.ScanLogSum))
		},
	})
}

// runningExtreme finds the indices first: those of the last element so far that equals the extreme, or of the last NaN.
// The values are the elements there, which get the gradient.
func runningExtreme(b op.Builder, x op.Val, dim, operation int64) (values, indices op.Val) {
	d := ir.WrapDim(dim, len(x.Shape()))
	if len(x.Shape()) == 0 {
		return prim.Copy(b, x), prim.Zeros(b, ir.I64, x.Device(), nil)
	}
	v := b.Detach(x)
	if d := v.DType(); d == ir.Bool || d.IsNarrow() {
		v = prim.Cast(b, v, ir.I32)
	}
	hit := prim.Eq(b, v, prim.Scan(b, v, int64(d), operation))
	if v.DType().IsInexact() {
		hit = prim.BitwiseOr(b, hit, prim.IsNaN(b, v))
	}
	indices = prim.Scan(b, prim.Where(b, hit, positions(b, v, d), op.IntVal(0)), int64(d), prim.ScanMax)
	return prim.Gather(b, x, indices, int64(d)), indices
}

func registerDifferences() {
	op.Register(op.Def{
		Sig: "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
		Doc: "The n-th difference of neighbours along a dim.", Out: true,
		Samples: samples("T(7)", "T(3,4), 2", "T(3,4), 1, 0", "I(5;0,9)", "B(6)", "T(3,4) | prepend=T(3,1)",
			"T(4) | append=T(2), n=0", "T(3), 5"),
		ErrorSamples: samples("T()", "T(3), -1", "T(3,4) | prepend=T(3)", "T(3), 1, 1"), Eval: evalDiff,
	})
	const doc = "The integral along a dim by the trapezoid rule"
	for _, m := range []struct {
		name, doc string
		aliases   []string
		finish    func(b op.Builder, y, areas op.Val, d int) op.Val
	}{
		{"trapezoid", doc + ".", []string{"trapz"}, integral},
		{"cumulative_trapezoid", doc + ", from the start to each point.", nil, func(b op.Builder, _, areas op.Val,
			d int) op.Val {
			return prim.Scan(b, areas, int64(d), prim.ScanSum)
		}},
	} {
		op.Register(op.Def{
			Sig: m.name + ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", Doc: m.doc, Aliases: m.aliases, Where: op.Function,
			Samples: samples("T(5), T(5)", "T(3,4), T(4)", "T(3,4), T(3) | dim=0", "T(3,4), T(3,4)", "T(3,1), T(1)",
				"I(4;0,9), T(4)"),
			ErrorSamples: samples("T(3,4), T(3)", "T(3), T(3) | dim=1", "B(3), T(3)"),
			Eval: func(a *op.Args) []op.Val {
				y, x, b := a.Val(), a.Val(), a.B
				d := trapezoidDim(m.name, a.Int(), y, x)
				return a.Ret(m.finish(b, y, areas(b, y, spacing(b, y, x, d), d), d))
			},
		})
		op.Register(op.Def{
			Sig: m.name + ".dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", Doc: m.doc, Aliases: m.aliases,
			Where:        op.Function,
			Samples:      samples("T(5)", "T(3,4) | dx=0.5", "T(3,4) | dim=0", "T(3,1)", "I(4;0,9)"),
			ErrorSamples: samples("T(3) | dim=1", "B(3)"),
			Eval: func(a *op.Args) []op.Val {
				y, dx, b := a.Val(), a.Scalar(), a.B
				d := trapezoidDim(m.name, a.Int(), y, y)
				return a.Ret(m.finish(b, y, areas(b, y, dx, d), d))
			},
		})
	}
}

// neighbours are x without its last and without its first element along dim d.
func neighbours(b op.Builder, x op.Val, d int) (left, right op.Val) {
	n := x.Shape()[d]
	return prim.Slice(b, x, int64(d), 0, max(n-1, 0), 1), prim.Slice(b, x, int64(d), min(n, 1), n, 1)
}

func evalDiff(a *op.Args) []op.Val {
	x, n, dim, before, after, b := a.Val(), a.Int(), a.Int(), a.Val(), a.Val(), a.B
	if len(x.Shape()) == 0 {
		fail(ir.ErrRuntime, "diff expects input to be at least one-dimensional")
	}
	if n < 0 {
		fail(ir.ErrRuntime, "order must be non-negative but got %d", n)
	}
	d := ir.WrapDim(dim, len(x.Shape()))
	parts := []op.Val{}
	for _, p := range []op.Val{before, x, after} {
		if p.Kind == op.None {
			continue
		}
		if len(p.Shape()) != len(x.Shape()) {
			fail(ir.ErrRuntime, "diff expects prepend or append to be the same dimension as input: got %d dims, want %d",
				len(p.Shape()), len(x.Shape()))
		}
		parts = append(parts, p)
	}
	if len(parts) > 1 && n > 0 {
		t := resultType(b, parts...)
		for i := range parts {
			parts[i] = cast(b, parts[i], t)
		}
		x = prim.Cat(b, parts, int64(d))
	}
	if n == 0 {
		return a.Ret(prim.Copy(b, x))
	}
	for range min(n, max(x.Shape()[d], 1)) {
		left, right := neighbours(b, x, d)
		if x.DType() == ir.Bool {
			x = prim.BitwiseXor(b, right, left)
		} else {
			x = prim.Sub(b, right, left)
		}
	}
	return a.Ret(x)
}

// integral adds areas up. Without points it is zeros of their dtype, without a gradient.
func integral(b op.Builder, y, areas op.Val, d int) op.Val {
	if y.Shape()[d] == 0 {
		return prim.Zeros(b, y.DType(), y.Device(), slices.Delete(slices.Clone(y.Shape()), d, d+1))
	}
	return prim.Sum(b, areas, []int64{int64(d)})
}

// trapezoidDim has the checks that the rules share.
func trapezoidDim(name string, dim int64, y, x op.Val) int {
	if y.DType() == ir.Bool || x.DType() == ir.Bool {
		fail(ir.ErrNotImplemented, "%s: received a bool input for `x` or `y`, but bool is not supported", name)
	}
	d := ir.WrapDim(dim, len(y.Shape()))
	needDim(y, int(dim))
	needDim(x, int(dim))
	return d
}

// spacing returns the distances between the points x along dim d of y; a vector serves all rows.
func spacing(b op.Builder, y, x op.Val, d int) op.Val {
	if len(x.Shape()) == 1 && len(y.Shape()) > 0 {
		if x.Shape()[0] != y.Shape()[d] {
			fail(ir.ErrRuntime, "trapezoid: there must be one `x` value for each sample point")
		}
		x = prim.Along(b, x, y.Shape(), int64(d))
	}
	for len(x.Shape()) < len(y.Shape()) {
		x = prim.Unsqueeze(b, x, 0)
	}
	left, right := neighbours(b, x, d)
	return sub(b, right, left)
}

// sub is right - left with PyTorch's promotion.
func sub(b op.Builder, x, y op.Val) op.Val {
	promote(b, &x, &y)
	return prim.Sub(b, x, y)
}

// areas are those of the trapezoids under y along dim d: width times the mean of both sides.
func areas(b op.Builder, y, width op.Val, d int) op.Val {
	left, right := neighbours(b, y, d)
	h := prim.Add(b, left, right)
	promote(b, &h, &width)
	area := prim.Mul(b, h, width)
	return prim.Mul(b, floating(b, area), op.FloatVal(0.5))
}
