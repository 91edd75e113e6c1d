package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// fn is a function of the primitive special.
func fn(f op.Fn) unaryEmit {
	return func(b op.Builder, x op.Val) op.Val { return prim.Special(b, f, x) }
}

// fn2 is a function of two operands, which it brings to one floating dtype and shape.
func fn2(f op.Fn) binaryEmit {
	return func(b op.Builder, x, y op.Val) op.Val {
		d := floatType(b, resultType(b, x, y))
		shape := align(b, d, &x, &y)
		dev := commonDevice(b, []op.Val{x, y})
		return prim.Special(b, f, full(b, x, d, dev, shape), full(b, y, d, dev, shape))
	}
}

// full makes a tensor of a number; tensors stay as they are.
func full(b op.Builder, v op.Val, d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	if v.IsTensor() {
		return v
	}
	return prim.Fill(b, v, d, dev, shape)
}

// special registers special.name(self) alone.
func special(name, doc string, f unaryEmit, s ...op.Sample) {
	op.Register(op.Def{
		Sig: "special_" + name + "(Tensor self) -> Tensor", Doc: doc, Where: op.Special, Out: true, Samples: s,
		Eval: func(a *op.Args) []op.Val { return a.Ret(inFloat(f)(a.B, a.Val())) },
	})
}

func chance() []op.Sample { return samples("T(3,4;0.01,0.99)", "T(;0.3,0.6)", "T(0)") }

func registerSpecialOps() {
	unary("erfc", "1 - erf(x), precise for large x.", []string{"special_erfc"}, inFloat(fn(op.FnErfc)), anyReal()...)
	unary("erfinv", "The inverse of erf.", []string{"special_erfinv"}, inFloat(fn(op.FnErfinv)),
		append(samples("T(3,4;-1,1)", "T(;-1,1)"), sample("torch.tensor([-1.0, 1.0, 0.0, 1.5])"))...)
	unary("digamma", "The derivative of lgamma.", []string{"special_digamma", "special_psi"}, inFloat(fn(op.FnDigamma)),
		append(positive(), sample("torch.tensor([-0.5, -2.75, 0.0, -3.0])"))...)
	unary("lgamma", "log(|gamma(x)|).", []string{"special_gammaln"}, inFloat(fn(op.FnLgamma)), anyReal()...)
	unary("i0", "The modified Bessel function of the first kind, of order 0.", []string{"special_i0"},
		inFloat(fn(op.FnI0)), anyReal()...)
	special("i0e", "exp(-|x|) i0(x).", fn(op.FnI0e), anyReal()...)
	special("i1", "The modified Bessel function of the first kind, of order 1.", fn(op.FnI1), anyReal()...)
	special("i1e", "exp(-|x|) i1(x).", fn(op.FnI1e), anyReal()...)
	special("erfcx", "exp(x**2) erfc(x).", fn(op.FnErfcx), samples("T(3,4;-0.9,3)", "T()", "T(2,0)", "I(5;-2,4)")...)
	special("ndtr", "The standard normal distribution function.", func(b op.Builder, x op.Val) op.Val {
		narrow := widen(b, x.DType(), &x)
		return narrow(scaled(fn(op.FnErfc), 0.5)(b, prim.Mul(b, x, op.FloatVal(-math.Sqrt2/2))))
	}, anyReal()...)
	special("ndtri", "The inverse of the standard normal distribution function.", fn(op.FnNdtri), chance()...)
	special("log_ndtr", "The logarithm of the standard normal distribution function.", fn(op.FnLogNdtr), anyReal()...)
	special("entr", "-x log(x), 0 at 0 and -inf below.", entropy, samples("T(3,4)", "T(;0,2)", "I(3;-1,3)")...)
	unary("sinc", "sin(pi x) / (pi x), 1 at 0.", []string{"special_sinc"}, inFloat(sinc),
		append(anyReal(), sample("torch.tensor([0.0, 1.0])"))...)
	registerBessel()
	registerGammas()
	registerZetas()
}

func registerBessel() {
	for _, m := range []struct {
		name, doc string
		f         op.Fn
		s         []op.Sample
	}{
		{"bessel_j0", "The Bessel function of the first kind, of order 0.", op.FnBesselJ0, samples("T(3,4;-20,20)", "T()",
			"T(2,0)", "I(5;-3,12)")},
		{"bessel_j1", "The Bessel function of the first kind, of order 1.", op.FnBesselJ1, samples("T(3,4;-20,20)", "T()",
			"T(2,0)", "I(5;-3,12)")},
		{"bessel_y0", "The Bessel function of the second kind, of order 0.", op.FnBesselY0,
			samples("T(3,4;0.2,20)", "T(;1,2)", "T(0)", "I(5;-1,12)")},
		{"bessel_y1", "The Bessel function of the second kind, of order 1.", op.FnBesselY1,
			samples("T(3,4;0.2,20)", "T(;1,2)", "T(0)", "I(5;-1,12)")},
		{"modified_bessel_i0", "The modified Bessel function of the first kind, of order 0.", op.FnI0, anyReal()},
		{"modified_bessel_i1", "The modified Bessel function of the first kind, of order 1.", op.FnI1, anyReal()},
		{"modified_bessel_k0", "The modified Bessel function of the second kind, of order 0.", op.FnBesselK0, positive()},
		{"modified_bessel_k1", "The modified Bessel function of the second kind, of order 1.", op.FnBesselK1, positive()},
	} {
		special(m.name, m.doc, fn(m.f), m.s...)
	}
	const none = "PyTorch has no derivative of it"
	constant := func(name, doc string, f unaryEmit, s ...op.Sample) {
		op.Register(op.Def{
			Sig: "special_" + name + "(Tensor self) -> Tensor", Doc: doc, Where: op.Special, Out: true, NoGrad: none, Samples: s,
			Eval: func(a *op.Args) []op.Val { return a.Ret(inFloat(f)(a.B, a.B.Detach(a.Val()))) },
		})
	}
	constant("scaled_modified_bessel_k0", "exp(x) modified_bessel_k0(x).", fn(op.FnBesselK0e), positive()...)
	constant("scaled_modified_bessel_k1", "exp(x) modified_bessel_k1(x).", fn(op.FnBesselK1e), positive()...)
	constant("airy_ai", "Airy's function Ai.", fn(op.FnAiry), samples("T(3,4;-20,8)", "T()", "T(2,0)", "I(5;-9,4)")...)
	constant("spherical_bessel_j0", "The spherical Bessel function of the first kind, of order 0: sin(x) / x, 1 at 0.",
		ratioOfSine, append(anyReal(), sample("torch.tensor([0.0, float('inf')])"))...)
}

// ratioOfSine is sin(x)/x, 1 at 0 and 0 at the infinities.
func ratioOfSine(b op.Builder, x op.Val) op.Val {
	narrow := widen(b, x.DType(), &x)
	zero, far := prim.Eq(b, x, op.FloatVal(0)), prim.Eq(b, prim.Abs(b, x), op.FloatVal(math.Inf(1)))
	y := prim.Where(b, zero, op.FloatVal(1), prim.Div(b, prim.Sin(b, x), x))
	return narrow(prim.Where(b, far, op.FloatVal(0), y))
}

func entropy(b op.Builder, x op.Val) op.Val {
	narrow := widen(b, x.DType(), &x)
	zero := op.FloatVal(0)
	empty := prim.Eq(b, x, zero)
	safe := prim.Where(b, empty, op.FloatVal(1), x)
	y := prim.Where(b, empty, prim.Neg(b, prim.Log(b, prim.Where(b, empty, x, op.FloatVal(1)))),
		prim.Neg(b, prim.Mul(b, safe, prim.Log(b, safe))))
	y = prim.Where(b, empty, zero, y)
	return narrow(prim.Where(b, prim.Lt(b, x, zero), op.FloatVal(math.Inf(-1)), y))
}

func sinc(b op.Builder, x op.Val) op.Val {
	narrow := widen(b, x.DType(), &x)
	zero := prim.Eq(b, x, op.FloatVal(0))
	angle := prim.Mul(b, prim.Where(b, zero, op.FloatVal(1), x), op.FloatVal(math.Pi))
	return narrow(prim.Where(b, zero, op.FloatVal(1), prim.Div(b, prim.Sin(b, angle), angle)))
}

func registerGammas() {
	mismatch := sample("T(3), T(4)")
	for _, m := range []struct {
		name, alias, doc string
		f                op.Fn
	}{{"igamma", "special_gammainc", "lower", op.FnIgamma}, {"igammac", "special_gammaincc", "upper", op.FnIgammac}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, Tensor other) -> Tensor", Doc: "The regularized " + m.doc +
				" incomplete gamma function of a = self and x = other; differentiable in x.",
			Aliases: []string{m.alias}, Where: op.Function | op.Method | op.Special, InPlace: true, Out: true,
			Samples: samples("T(3,4;0.1,9), T(4;0.1,9)", "T(5;0,3), T(5;0,3)", "T(5;20,90), T(5;20,90)",
				"torch.tensor([0.0, 0.0, 1.0, -1.0]), torch.tensor([0.0, 1.0, 0.0, 1.0])"),
			ErrorSamples: []op.Sample{mismatch, sample("I(3;1,4), I(3;1,4)")}, NoGrad: "PyTorch has no derivative in self",
			Eval: func(a *op.Args) []op.Val {
				x, y, b := a.Val(), a.Val(), a.B
				d := resultType(b, x, y)
				if !d.IsFloat() {
					unsupported(m.name+"_cpu", d)
				}
				return a.Ret(fn2(m.f)(b, x, y))
			},
		})
	}
	op.Register(op.Def{
		Sig: "mvlgamma(Tensor self, int p) -> Tensor", Doc: "The logarithm of the gamma function of dimension p: p(p-1)/4 " +
			"log(pi) + the sum of lgamma(self - i/2), i < p.",
		Aliases: []string{"special_multigammaln"}, Where: op.Function | op.Method | op.Special, InPlace: true, Out: true,
		Samples: samples("T(3,4;2,5), 3", "T(;1,4), 1", "I(3;3,9), 5"), ErrorSamples: samples("T(3;2,5), 0"),
		Eval: func(a *op.Args) []op.Val {
			b, x, p := a.B, floating(a.B, a.Val()), a.Int()
			if p < 1 {
				fail(ir.ErrRuntime, "p has to be greater than or equal to 1")
			}
			narrow := widen(b, x.DType(), &x)
			halves := prim.Iota(b, op.FloatVal(0), op.FloatVal(-0.5), x.DType(), x.Device(), p)
			last := int64(len(x.Shape()))
			shape := append(slices.Clone(x.Shape()), p)
			x = prim.Add(b, prim.Expand(b, prim.Unsqueeze(b, x, last), shape), prim.Expand(b, halves, shape))
			y := prim.Sum(b, prim.Special(b, op.FnLgamma, x), []int64{last})
			return a.Ret(narrow(prim.Add(b, y, op.FloatVal(float64(p)*float64(p-1)/4*math.Log(math.Pi)))))
		},
	})
}

func registerZetas() {
	op.Register(op.Def{
		Sig:   "special_zeta(Operand self, Operand other) -> Tensor",
		Doc:   "The Hurwitz zeta function: the sum of (other + i)**-self over i >= 0; differentiable in other.",
		Where: op.Special, Out: true, NoGrad: "PyTorch has no derivative in self", ErrorSamples: samples("T(3), T(4)"),
		Samples: samples("T(3,4;1.1,9), T(4;0.1,5)", "2.0, T(3;0.5,3)", "T(3;1.5,3), 2",
			"torch.tensor([1.0, 0.5, 3.0, 2.0, 2.5]), torch.tensor([2.0, 2.0, -1.5, -1.0, -1.5])"),
		Eval: func(a *op.Args) []op.Val { return a.Ret(fn2(op.FnZeta)(a.B, a.Val(), a.Val())) },
	})
	op.Register(op.Def{
		Sig: "polygamma(int n, Tensor self) -> Tensor",
		Doc: "The n-th derivative of digamma: (-1)**(n+1) n! zeta(n+1, self).", Aliases: []string{"special_polygamma"},
		Where: op.Function | op.Special, Out: true, Samples: samples("0, T(3,4;0.5,5)", "1, T(3,4;0.5,5)", "3, T(3;0.5,5)",
			"2, I(3;1,5)"), ErrorSamples: samples("-1, T(3)"),
		Eval: func(a *op.Args) []op.Val {
			n := a.Int()
			return a.Ret(polygamma(a.B, n, a.Val()))
		},
	})
	op.Register(op.Def{
		Sig: "polygamma.method(Tensor self, int n) -> Tensor", Doc: "The n-th derivative of digamma.", Where: op.Method,
		InPlace: true,
		Samples: samples("T(3,4;0.5,5), 1"), ErrorSamples: samples("T(3), -1"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return a.Ret(polygamma(a.B, a.Int(), x))
		},
	})
}

func polygamma(b op.Builder, n int64, x op.Val) op.Val {
	if n < 0 {
		fail(ir.ErrRuntime, "polygamma(n, x) does not support negative n.")
	}
	x = floating(b, x)
	if n == 0 {
		return prim.Special(b, op.FnDigamma, x)
	}
	narrow := widen(b, x.DType(), &x)
	factor := math.Gamma(float64(n) + 1)
	if n%2 == 0 {
		factor = -factor
	}
	return narrow(prim.Mul(b, fn2(op.FnZeta)(b, op.FloatVal(float64(n+1)), x), op.FloatVal(factor)))
}
