package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

const isDraw = "a random draw"

// drawType is the dtype in which a distribution is drawn; half types are rounded afterwards.
func drawType(kernel string, d ir.DType) ir.DType {
	if !d.IsInexact() {
		unsupported(kernel, d)
	}
	return d.ComputeType()
}

// offsetOfDraw returns the seed and the Philox offset of one draw on a device. Draws on Meta take none.
func offsetOfDraw(b op.Builder, dev ir.DeviceID) (seed, drawOffset op.Val) {
	if dev == ir.Meta {
		return op.IntVal(0), op.IntVal(0)
	}
	return b.RNG()
}

func uniform(b op.Builder, o options, shape []int64) op.Val {
	d := drawType("check_uniform_bounds", o.dtype)
	seed, drawOffset := offsetOfDraw(b, o.device)
	return cast(b, prim.RandUniform(b, seed, drawOffset, d, o.device, shape), o.dtype)
}

func gaussian(b op.Builder, o options, shape []int64) op.Val {
	d := drawType("normal_kernel_cpu", o.dtype)
	seed, drawOffset := offsetOfDraw(b, o.device)
	return cast(b, prim.RandNormal(b, seed, drawOffset, d, o.device, shape), o.dtype)
}

// integers draws from [low, high).
func integers(b op.Builder, low, high int64, o options, shape []int64) op.Val {
	if low >= high {
		fail(ir.ErrRuntime, "random_ expects 'from' to be less than 'to', but got from=%d >= to=%d", low, high)
	}
	checkDrawn("from", low, o.dtype)
	checkDrawn("to - 1", high-1, o.dtype)
	if uint64(high)-uint64(low) >= 1<<32 {
		return cast(b, farIntegers(b, low, uint64(high)-uint64(low), o, shape), o.dtype)
	}
	d := o.dtype
	if !d.IsInt() {
		d = ir.I64
	}
	seed, drawOffset := offsetOfDraw(b, o.device)
	return cast(b, prim.RandInt(b, seed, drawOffset, op.IntVal(low), op.IntVal(high), d, o.device, shape), o.dtype)
}

// farIntegers draws from span values, the least of which is low, as int64: the remainder of 64 random bits, as PyTorch
// takes it for spans of at least 2^32.
func farIntegers(b op.Builder, low int64, span uint64, o options, shape []int64) op.Val {
	bits := func(n int) op.Val {
		seed, drawOffset := offsetOfDraw(b, o.device)
		return prim.RandInt(b, seed, drawOffset, op.IntVal(0), op.IntVal(1<<n), ir.I64, o.device, shape)
	}
	x := prim.Add(b, prim.Mul(b, bits(31), op.IntVal(1<<33)), prim.Mul(b, bits(31), op.IntVal(4)))
	x = prim.Add(b, x, bits(2))
	const least = math.MinInt64
	if span <= 1<<63 {
		if x = prim.BitwiseAnd(b, x, op.IntVal(math.MaxInt64)); span < 1<<63 {
			x = prim.Remainder(b, x, op.IntVal(int64(span)))
		}
	} else { // span is negative as int64; numbers without a sign are ordered as those with the other first bit
		above := prim.Ge(b, prim.BitwiseXor(b, x, op.IntVal(least)), op.IntVal(int64(span)^least))
		x = prim.Where(b, above, prim.Sub(b, x, op.IntVal(int64(span))), x)
	}
	return prim.Add(b, x, op.IntVal(low))
}

// inC are the names of dtypes in PyTorch's texts about bounds of draws.
var inC = map[ir.DType]string{ir.Bool: "bool", ir.U8: "unsigned char", ir.I8: "signed char", ir.I16: "short int",
	ir.I32: "int", ir.F16: "c10::Half"}

// checkDrawn refuses a bound of draws that d cannot hold. The other floats hold all that random_ draws.
func checkDrawn(what string, v int64, d ir.DType) {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	switch {
	case d == ir.Bool:
		least, most = 0, 1
	case d == ir.F16:
		least, most = -65504, 65504
	case d == ir.U64:
		least = 0
	case d.IsInt():
		least, most = ir.Limits(d)
	}
	if v < least || v > most {
		name, ok := inC[d]
		if !ok {
			name = typeName(d)
		}
		fail(ir.ErrRuntime, "%s is out of bounds for %s", what, name)
	}
}

func own(x op.Val) options { return options{x.DType(), x.Device()} }

func draw(sig, doc string, eval op.Eval, s []op.Sample, errs ...op.Sample) {
	op.Register(op.Def{Sig: sig, Doc: doc, Where: op.Function, Out: true, Eval: eval, Samples: s, ErrorSamples: errs,
		NoGrad: isDraw})
}

func drawLike(sig, doc string, eval op.Eval, s []op.Sample) {
	op.Register(op.Def{Sig: sig, Doc: doc, Where: op.Function, Eval: eval, Samples: s, NoGrad: isDraw})
}

func registerRandomOps() {
	for _, m := range []struct {
		name, doc string
		f         func(b op.Builder, o options, shape []int64) op.Val
	}{{"rand", "Uniform in [0, 1).", uniform}, {"randn", "Standard normal.", gaussian}} {
		draw(m.name+"(int[]* size"+factoryParams, m.doc, func(a *op.Args) []op.Val {
			shape, _ := a.IntList()
			return a.Ret(m.f(a.B, factory(a, a.B.DefaultDType()), checkSizes(m.name, shape)))
		}, samples("(2,3)", "()", "(0,)", "(3,) | dtype=torch.float64"), sample("(2,) | dtype=torch.int64"))
		drawLike(m.name+"_like(Tensor self"+factoryParams, m.doc+" Shape, dtype and device are self's.",
			func(a *op.Args) []op.Val {
				x := a.Val()
				return a.Ret(m.f(a.B, likeOptions(a, x), x.Shape()))
			}, samples("T(2,3)"))
	}
	registerIntegerDraws()
	registerBernoulli()
	registerInPlaceDraws()
	registerNormal()
	op.Register(op.Def{
		Sig: "_poisson_rate(Tensor self) -> Tensor", Doc: "self, whose elements must be at least 0.", Where: op.Hidden,
		Samples: samples("T(3;0.1,2)"), NoGrad: isDraw,
		Eval: func(a *op.Args) []op.Val {
			x, b := a.Val(), a.B
			return a.Ret(prim.Require(b, prim.Ge(b, x, op.IntVal(0)), x, prim.RequireRate))
		},
	})
}

func registerIntegerDraws() {
	draw("randint(int high, int[] size"+factoryParams, "Integers in [0, high).", func(a *op.Args) []op.Val {
		high := a.Int()
		shape, _ := a.IntList()
		return a.Ret(integers(a.B, 0, high, factory(a, ir.I64), checkSizes("randint", shape)))
	}, samples("10, (2,3)", "2, (4,) | dtype=torch.float32"), sample("0, (2,)"))
	draw("randint.low(int low, int high, int[] size"+factoryParams, "Integers in [low, high).", func(a *op.Args) []op.Val {
		low, high := a.Int(), a.Int()
		shape, _ := a.IntList()
		return a.Ret(integers(a.B, low, high, factory(a, ir.I64), checkSizes("randint", shape)))
	}, samples("-5, 5, (2,3)", "0, 256, (3,) | dtype=torch.uint8"), sample("5, 5, (2,)"),
		sample("0, 257, (2,) | dtype=torch.uint8"), sample("-1, 5, (2,) | dtype=torch.uint8"),
		sample("0, 3, (2,) | dtype=torch.bool"), sample("0, 70000, (2,) | dtype=torch.float16"))
	drawLike("randint_like(Tensor self, int high"+factoryParams, "Integers in [0, high), in self's shape and dtype.",
		func(a *op.Args) []op.Val {
			x, high := a.Val(), a.Int()
			return a.Ret(integers(a.B, 0, high, likeOptions(a, x), x.Shape()))
		}, samples("T(2,3), 10"))
	drawLike("randint_like.low(Tensor self, int low, int high"+factoryParams,
		"Integers in [low, high), in self's shape and dtype.", func(a *op.Args) []op.Val {
			x, low, high := a.Val(), a.Int(), a.Int()
			return a.Ret(integers(a.B, low, high, likeOptions(a, x), x.Shape()))
		}, samples("T(2,3), -5, 5"))
	draw("randperm(int n"+factoryParams, "A random permutation of 0 to n - 1.", func(a *op.Args) []op.Val {
		n, b := a.Int(), a.B
		o := factory(a, ir.I64)
		if n < 0 {
			fail(ir.ErrRuntime, "n must be non-negative, got %d", n)
		}
		if n == 0 {
			return a.Ret(prim.Zeros(b, o.dtype, o.device, []int64{0}))
		}
		// The order of n uniform draws.
		_, order := prim.Sort(b, uniform(b, options{ir.F32, o.device}, []int64{n}), 0, false)
		return a.Ret(cast(b, order, o.dtype))
	}, samples("7", "0", "1"), sample("-1"))
	op.Register(op.Def{
		Sig: "multinomial(Tensor self, int num_samples, bool replacement=False) -> Tensor",
		Doc: "Indices drawn with the given weights, row by row.", NoGrad: isDraw, Out: true, ExactOut: true,
		Samples: samples("T(4;0.1,1), 2", "T(3,5;0.1,1), 4", "T(5;0.1,1), 9, True"), ErrorSamples: samples("T(3;0,1), 5",
			"T(3;0,1), 0", "I(3;1,5), 1"), Eval: evalMultinomial,
	})
}

// evalMultinomial without replacement takes the largest of weight / exponential draw, which picks each next index with
// the right probability (Efraimidis and Spirakis, 2006). With replacement it inverts the cumulative weights.
func evalMultinomial(a *op.Args) []op.Val {
	w, n, replacement, b := a.Val(), a.Int(), a.Bool(), a.B
	r := len(w.Shape())
	if r < 1 || r > 2 {
		fail(ir.ErrRuntime, "prob_dist must be 1 or 2 dim")
	}
	if !w.DType().IsInexact() {
		fail(ir.ErrRuntime, "multinomial only supports floating-point dtypes for input, got: %s", typeName(w.DType()))
	}
	if n <= 0 {
		fail(ir.ErrRuntime, "cannot sample n_sample <= 0 samples")
	}
	classes := w.Shape()[r-1]
	if !replacement && n > classes {
		fail(ir.ErrRuntime, "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
	}
	w = cast(b, b.Detach(w), w.DType().ComputeType())
	last := int64(r - 1)
	w = weights(b, w, last)
	if !replacement || n == 1 {
		e := prim.Neg(b, prim.Log(b, uniform(b, own(w), w.Shape())))
		score := prim.Div(b, w, e)
		if n == 1 {
			return a.Ret(prim.Unsqueeze(b, prim.ArgMax(b, score, last), -1))
		}
		_, order := prim.Topk(b, score, n, last, true)
		return a.Ret(order)
	}
	cdf := prim.Scan(b, w, last, prim.ScanSum)
	shape := append(slices.Clone(w.Shape()[:r-1]), n)
	total := prim.Slice(b, cdf, last, classes-1, classes, 1)
	u := prim.Mul(b, uniform(b, own(w), shape), prim.Expand(b, total, shape))
	full := append(slices.Clone(shape), classes)
	below := prim.Le(b, prim.Expand(b, prim.Unsqueeze(b, cdf, last), full), prim.Expand(b, prim.Unsqueeze(b, u, -1), full))
	i := prim.Sum(b, prim.Cast(b, below, ir.I64), []int64{int64(r)})
	return a.Ret(prim.Minimum(b, i, op.IntVal(classes-1)))
}

// weights are w, which must be finite, at least 0, and more than 0 in sum along the last dim.
func weights(b op.Builder, w op.Val, last int64) op.Val {
	valid := prim.BitwiseAnd(b, prim.Ge(b, w, op.IntVal(0)), prim.Lt(b, w, op.FloatVal(math.Inf(1))))
	w = prim.Require(b, valid, w, prim.RequireWeights)
	some := prim.Unsqueeze(b, prim.Gt(b, prim.Amax(b, w, []int64{last}), op.IntVal(0)), last)
	return prim.Require(b, prim.Expand(b, some, w.Shape()), w, prim.RequireWeightSum)
}

// trials is 1 with probability p, a number or a tensor that broadcasts to shape.
func trials(b op.Builder, p op.Val, o options, shape []int64) op.Val {
	d := ir.F32
	if p.IsTensor() {
		if d = p.DType().ComputeType(); !d.IsInexact() {
			fail(ir.ErrRuntime, "expected probabilities tensor to have floating type, got %s", typeName(p.DType()))
		}
		p = cast(b, b.Detach(p), d)
		inside := prim.BitwiseAnd(b, prim.Ge(b, p, op.IntVal(0)), prim.Le(b, p, op.IntVal(1)))
		p = expandTo(b, prim.Require(b, inside, p, prim.RequireProbability), shape)
	} else if q := p.Float(); q < 0 || q > 1 || q != q {
		fail(ir.ErrRuntime, "bernoulli_ expects p to be in [0, 1], but got p=%g", q)
	}
	u := uniform(b, options{d, o.device}, shape)
	return cast(b, prim.Lt(b, u, p), o.dtype)
}

func registerBernoulli() {
	op.Register(op.Def{
		Sig: "bernoulli(Tensor self) -> Tensor", Doc: "1 with the probability that each element is.", NoGrad: isDraw,
		Out: true, Samples: samples("T(3,4;0,1)"),
		ErrorSamples: samples("I(3;0,2)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if !x.DType().IsInexact() {
				unsupported("bernoulli_tensor_cpu_p_", x.DType())
			}
			return a.Ret(trials(a.B, x, own(x), x.Shape()))
		},
	})
	op.Register(op.Def{
		Sig: "bernoulli.p(Tensor self, float p) -> Tensor", Doc: "1 with probability p, in self's shape.", NoGrad: isDraw,
		Samples:      samples("T(3,4), 0.3"),
		ErrorSamples: samples("T(3), 2.0"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return a.Ret(trials(a.B, a.Scalar(), own(x), x.Shape()))
		},
	})
	op.Register(op.Def{
		Sig: "bernoulli_(Tensor self, Operand p=0.5) -> Tensor", Doc: "Filled with 1 with probability p, else 0.",
		Where: op.Method, InPlaceOnly: true, NoGrad: isDraw,
		Samples: samples("T(3,4), 0.3", "T(3,4), T(4;0,1)"), ErrorSamples: samples("T(3), 2.0"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return a.Ret(trials(a.B, a.Val(), own(x), x.Shape()))
		},
	})
}

// inPlaceDraw registers a method that fills self.
func inPlaceDraw(sig, doc string, f func(a *op.Args, x op.Val) op.Val, s []op.Sample, errs ...op.Sample) {
	op.Register(op.Def{
		Sig: sig, Doc: doc, Where: op.Method, InPlaceOnly: true, NoGrad: isDraw, Samples: s, ErrorSamples: errs,
		Eval: func(a *op.Args) []op.Val { return a.Ret(f(a, a.Val())) },
	})
}

func affine(b op.Builder, x op.Val, scale, shift float64) op.Val {
	if scale != 1 {
		x = prim.Mul(b, x, op.FloatVal(scale))
	}
	if shift != 0 {
		x = prim.Add(b, x, op.FloatVal(shift))
	}
	return x
}

// exactLimit is the number of integers from 0 on that the dtype holds exactly.
func exactLimit(d ir.DType) int64 {
	switch d {
	case ir.Bool:
		return 2
	case ir.U8, ir.I8, ir.I16, ir.U16:
		_, most := ir.Limits(d)
		return most + 1
	case ir.F16:
		return 1<<11 + 1
	case ir.BF16:
		return 1<<8 + 1
	case ir.F32:
		return 1<<24 + 1
	case ir.U32:
		return 1 << 32
	case ir.F64:
		return 1<<53 + 1
	case ir.I64, ir.U64:
		return math.MaxInt64
	}
	return 1 << 31
}

func registerInPlaceDraws() {
	inPlaceDraw("uniform_(Tensor self, float from=0.0, float to=1.0) -> Tensor", "Filled uniformly from [from, to).",
		func(a *op.Args, x op.Val) op.Val {
			lo, hi := a.Float(), a.Float()
			if lo > hi {
				fail(ir.ErrRuntime, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", lo, hi)
			}
			return affine(a.B, uniform(a.B, own(x), x.Shape()), hi-lo, lo)
		}, samples("T(3,4)", "T(3), -1.0, 2.0"), sample("T(3), 2.0, 1.0"), sample("I(3;0,5)"))
	inPlaceDraw("normal_(Tensor self, float mean=0.0, float std=1.0) -> Tensor", "Filled from a normal distribution.",
		func(a *op.Args, x op.Val) op.Val {
			mean, std := a.Float(), a.Float()
			if std < 0 {
				fail(ir.ErrRuntime, "normal expects std >= 0.0, but found std %g", std)
			}
			return affine(a.B, gaussian(a.B, own(x), x.Shape()), std, mean)
		}, samples("T(3,4)", "T(3), 1.0, 0.5"), sample("T(3), 0.0, -1.0"), sample("I(3;0,5)"))
	inPlaceDraw("exponential_(Tensor self, float lambd=1.0) -> Tensor", "Filled from an exponential distribution.",
		func(a *op.Args, x op.Val) op.Val {
			lambd := a.Float()
			if lambd <= 0 {
				fail(ir.ErrRuntime, "exponential_ expects lambda > 0.0, but found lambda=%g", lambd)
			}
			continuous("Exponential", x)
			b := a.B
			u := uniform(b, options{x.DType().ComputeType(), x.Device()}, x.Shape())
			// log1p(-u) is finite: u is below 1.
			return cast(b, prim.Mul(b, prim.Log1p(b, prim.Neg(b, u)), op.FloatVal(-1/lambd)), x.DType())
		}, samples("T(3,4)", "T(3), 2.0"), sample("T(3), -1.0"), sample("I(3;0,5)"))
	registerHeavyTails()
	inPlaceDraw("random_(Tensor self) -> Tensor", "Filled with integers that the dtype holds exactly.",
		func(a *op.Args, x op.Val) op.Val {
			return integers(a.B, 0, exactLimit(x.DType()), own(x), x.Shape())
		}, samples("T(3,4)", "I(3;0,5)"))
	inPlaceDraw("random_.to(Tensor self, int to) -> Tensor", "Filled with integers in [0, to).",
		func(a *op.Args, x op.Val) op.Val {
			return integers(a.B, 0, a.Int(), own(x), x.Shape())
		}, samples("I(3;0,5), 9", "T(3), 9"), sample("I(3;0,5), 0"))
	inPlaceDraw("random_.from(Tensor self, int from, int? to) -> Tensor", "Filled with integers in [from, to).",
		func(a *op.Args, x op.Val) op.Val {
			lo := a.Int()
			hi, given := a.OptInt()
			if !given {
				hi = exactLimit(x.DType())
			}
			return integers(a.B, lo, hi, own(x), x.Shape())
		}, samples("I(3;0,5), -3, 9"), sample("I(3;0,5), 5, 5"))
}

// continuous refuses integers.
func continuous(distribution string, x op.Val) {
	if !x.DType().IsInexact() {
		fail(ir.ErrRuntime, "%s distribution is a continuous probability distribution. dtype must be a floating point but "+
			"you specified %s", distribution, typeName(x.DType()))
	}
}

func registerHeavyTails() {
	inPlaceDraw("cauchy_(Tensor self, float median=0.0, float sigma=1.0) -> Tensor", "Filled from a Cauchy distribution.",
		func(a *op.Args, x op.Val) op.Val {
			median, sigma, b := a.Float(), a.Float(), a.B
			if sigma <= 0 {
				fail(ir.ErrRuntime, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma)
			}
			continuous("Cauchy", x)
			u := uniform(b, options{x.DType().ComputeType(), x.Device()}, x.Shape())
			return cast(b, affine(b, prim.Tan(b, affine(b, u, math.Pi, -math.Pi/2)), sigma, median), x.DType())
		}, samples("T(3,4)", "T(3), 1.0, 2.0"), sample("T(3), 0.0, -1.0"), sample("I(3;0,5)"))
	inPlaceDraw("log_normal_(Tensor self, float mean=1.0, float std=2.0) -> Tensor",
		"Filled with exponentials of normal numbers.", func(a *op.Args, x op.Val) op.Val {
			mean, std, b := a.Float(), a.Float(), a.B
			if std <= 0 {
				fail(ir.ErrRuntime, "log_normal_ expects std > 0.0, but found std=%g", std)
			}
			n := gaussian(b, options{drawType("log_normal_cpu", x.DType()), x.Device()}, x.Shape())
			return cast(b, prim.Exp(b, affine(b, n, std, mean)), x.DType())
		}, samples("T(3,4)", "T(3), 0.0, 0.5"), sample("T(3), 0.0, -1.0"), sample("I(3;0,5)"))
	inPlaceDraw("geometric_(Tensor self, float p) -> Tensor", "Filled with the number of trials up to the first success "+
		"of probability p.", func(a *op.Args, x op.Val) op.Val {
		p, b := a.Float(), a.B
		if !(p > 0 && p < 1) {
			fail(ir.ErrRuntime, "geometric_ expects p to be in (0, 1), but got p=%g", p)
		}
		if x.DType() == ir.Bool {
			unsupported("geometric_cpu", ir.Bool)
		}
		u := uniform(b, options{ir.F32, x.Device()}, x.Shape())
		n := prim.Ceil(b, affine(b, prim.Log1p(b, prim.Neg(b, u)), 1/math.Log1p(-p), 0))
		return cast(b, prim.Maximum(b, n, op.FloatVal(1)), x.DType())
	}, samples("T(3,4), 0.5", "I(3;0,5), 0.1"), sample("T(3), 1.0"), sample("T(3), 0.0"))
}

func registerNormal() {
	op.Register(op.Def{
		Sig: "normal(Operand mean, Operand std=1.0) -> Tensor", Doc: "Normal, with means and standard deviations from " +
			"tensors or numbers.", Where: op.Function, Out: true,
		NoGrad: isDraw, Samples: samples("T(3,4), 0.5", "0.0, T(3;0.1,1)", "T(3,1), T(4;0.1,1)"),
		ErrorSamples: samples("T(3), -1.0"),
		Eval: func(a *op.Args) []op.Val {
			m, s, b := a.Val(), a.Val(), a.B
			if s.IsScalar() && s.Float() < 0 {
				fail(ir.ErrRuntime, "normal expects std >= 0.0, but found std %g", s.Float())
			}
			shape := align(b, floatType(b, resultType(b, m, s)), &m, &s)
			o := options{b.DefaultDType(), b.DefaultDevice()}
			if m.IsTensor() {
				o = own(m)
			} else if s.IsTensor() {
				o = own(s)
			}
			if s.IsTensor() {
				s = prim.Require(b, prim.Ge(b, s, op.IntVal(0)), s, prim.RequireDeviation)
			}
			return a.Ret(prim.Add(b, prim.Mul(b, gaussian(b, o, shape), s), m))
		},
	})
	draw("normal.size(float mean, float std, int[] size"+factoryParams, "Normal, in a given shape.",
		func(a *op.Args) []op.Val {
			m, s := a.Float(), a.Float()
			shape, _ := a.IntList()
			if s < 0 || math.IsNaN(s) {
				fail(ir.ErrRuntime, "normal expects std >= 0.0, but found std %g", s)
			}
			return a.Ret(affine(a.B, gaussian(a.B, factory(a, a.B.DefaultDType()), checkSizes("normal", shape)), s, m))
		}, samples("0.0, 1.0, (2,3)"), sample("0.0, -1.0, (2,)"))
}
