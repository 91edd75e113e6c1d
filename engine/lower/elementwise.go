package lower

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// body computes an element. t is the compute type of the operands.
type body func(k *kernel, t ir.DType, x []int) int

func init() {
	rules := map[string]lowering{}
	for _, bodies := range []map[string]body{unaryBodies, floatBodies, binaryBodies, comparisonBodies} {
		for name, f := range bodies {
			rules[name] = mapping(name, f)
		}
	}
	rules["where"] = mapping("where", func(k *kernel, _ ir.DType, x []int) int { return k.Select(x[0], x[1], x[2]) })
	rules["require"] = mapping("require", func(k *kernel, _ ir.DType, x []int) int {
		k.Check(x[0], k.Select(x[0], k.I64(1), k.I64(0))) // WGSL converts no literal of 64 bits
		return x[1]
	})
	rules["cast"] = mapping("cast", func(_ *kernel, _ ir.DType, x []int) int { return x[0] })
	rules["tri"] = lowerTri
	register(rules)
}

// operands are the operands of an elementwise primitive, alone or in a fusion group.
type operands struct {
	k     *kernel
	types []ir.DType // of the operands
	in    []int      // for each operand its number among those of the node that is lowered; -1: the value of a member
	x     []int      // for each tensor operand its element
	out   ir.DType
	// Of a primitive that works rows: its attributes, the number of its outputs, its rows, and an operand at a computed
	// place of the row.
	attr []int64
	outs int
	s    split
	at   func(operand, index int) int
}

func (o *operands) number(i int) bool { return o.in[i] >= 0 && o.k.p.n.In[o.in[i]].Scalar }

// scalar is operand i, a number, in t's compute type.
func (o *operands) scalar(i int, t ir.DType) int { return o.k.scalar(o.in[i], t) }

// dtype is the dtype in which a body computes: the last tensor operand's, since a condition comes first.
func (o *operands) dtype() ir.DType {
	for i := len(o.in) - 1; i >= 0; i-- {
		if !o.number(i) {
			return o.types[i]
		}
	}
	return o.out
}

// element is the value of an elementwise primitive. elements lists by variant the primitives that fusion groups may
// contain.
type element func(o *operands) int

var elements = map[string]element{}

// element makes an element of a body.
func (f body) element(o *operands) int {
	t := o.dtype()
	x := make([]int, len(o.in))
	for i := range x {
		if o.number(i) {
			x[i] = o.scalar(i, t)
		} else {
			x[i] = o.x[i]
		}
	}
	o.k.body = t
	return f(o.k, t.ComputeType(), x)
}

// mapping lowers an elementwise primitive, and lets fusion groups contain it.
func mapping(name string, f body) lowering { return elementwise(name, f.element) }

// numbered names those of elements that use the number of their element.
var numbered = map[string]bool{"dropout": true, "iota": true, "rand_uniform": true, "rand_normal": true,
	"rand_int": true}

func elementwise(name string, f element) lowering {
	elements[name] = f
	return func(p *program) {
		n := p.n
		out := p.out(0)
		if n.Out[0].Layout.Numel == 0 {
			return
		}
		o := &operands{in: make([]int, len(n.In)), x: make([]int, len(n.In)), out: n.Out[0].DType}
		args := []*arg{}
		tensors := make([]*arg, len(n.In))
		for i := range n.In {
			o.in[i], o.types = i, append(o.types, n.In[i].DType)
			if !n.In[i].Scalar {
				tensors[i] = p.in(i)
				args = append(args, tensors[i])
			}
		}
		o.k = &kernel{p: p}
		k := p.kernel(name+"_"+o.dtype().String(), n.Out[0].Layout.Shape, nil, 0, append(args, out)...)
		k.Map()
		o.k = k
		for i, a := range tensors {
			if a != nil {
				o.x[i] = k.load(a)
			}
		}
		k.store(out, f(o))
		k.launch()
	}
}

func unaryOp(op loopir.Op) body {
	return func(k *kernel, t ir.DType, x []int) int { return k.Un(op, x[0]) }
}

// rounding leaves integers as they are.
func rounding(op loopir.Op) body {
	return func(k *kernel, t ir.DType, x []int) int {
		if !t.IsFloat() {
			return x[0]
		}
		return k.Un(op, x[0])
	}
}

var unaryBodies = map[string]body{
	"copy":  func(_ *kernel, _ ir.DType, x []int) int { return x[0] },
	"neg":   unaryOp(loopir.OpNeg),
	"floor": rounding(loopir.OpFloor),
	"ceil":  rounding(loopir.OpCeil),
	"round": rounding(loopir.OpRound),
	"trunc": rounding(loopir.OpTrunc),
	"abs": func(k *kernel, t ir.DType, x []int) int {
		if t == ir.Bool {
			return x[0]
		}
		return k.Abs(x[0])
	},
	"sign": func(k *kernel, t ir.DType, x []int) int {
		if t == ir.Bool {
			return x[0]
		}
		zero := k.Int(t, 0)
		return k.Select(k.Gt(x[0], zero), k.Int(t, 1), k.Select(k.Lt(x[0], zero), k.Int(t, -1), zero))
	},
	"relu": func(k *kernel, t ir.DType, x []int) int { return k.Max(x[0], k.Int(t, 0)) },
	"isnan": func(k *kernel, t ir.DType, x []int) int {
		if !t.IsFloat() {
			return k.Bool(false)
		}
		return k.Un(loopir.OpIsNaN, x[0])
	},
}

var floatBodies = map[string]body{
	"exp":     unaryOp(loopir.OpExp),
	"log":     unaryOp(loopir.OpLog),
	"sqrt":    unaryOp(loopir.OpSqrt),
	"rsqrt":   func(k *kernel, t ir.DType, x []int) int { return k.Div(k.Float(t, 1), k.Un(loopir.OpSqrt, x[0])) },
	"sin":     unaryOp(loopir.OpSin),
	"cos":     unaryOp(loopir.OpCos),
	"tanh":    unaryOp(loopir.OpTanh),
	"sigmoid": func(k *kernel, t ir.DType, x []int) int { return k.Div(k.Float(t, 1), onePlusExpNeg(k, t, x[0])) },
	"silu":    func(k *kernel, t ir.DType, x []int) int { return k.Div(x[0], onePlusExpNeg(k, t, x[0])) },
	"gelu": func(k *kernel, t ir.DType, x []int) int {
		return k.Mul(x[0], normalCDF(k, t, x[0]))
	},
	"gelu_tanh": func(k *kernel, t ir.DType, x []int) int {
		u, _ := geluTanhExponent(k, t, x[0])
		return k.Div(x[0], k.Add(k.Float(t, 1), k.Un(loopir.OpExp, u)))
	},
	"gelu_grad": func(k *kernel, t ir.DType, x []int) int {
		v := x[0]
		pdf := k.Mul(k.Un(loopir.OpExp, k.Mul(k.Mul(v, v), k.Float(t, -0.5))), k.Float(t, 1/math.Sqrt(2*math.Pi)))
		return k.Mul(x[1], k.Add(normalCDF(k, t, v), k.Mul(v, pdf)))
	},
	"gelu_tanh_grad": func(k *kernel, t ir.DType, x []int) int {
		v, one := x[0], k.Float(t, 1)
		u, slope := geluTanhExponent(k, t, v)
		s := k.Div(one, k.Add(one, k.Un(loopir.OpExp, u)))
		// s*(1-s) comes first: where it is 0, an infinite slope must not make NaN.
		return k.Mul(x[1], k.Fma(k.Mul(k.Mul(s, k.Sub(one, s)), slope), v, s))
	},
}

func onePlusExpNeg(k *kernel, t ir.DType, x int) int {
	return k.Add(k.Float(t, 1), k.Un(loopir.OpExp, k.Neg(x)))
}

// normalCDF is (1+erf(x/sqrt(2)))/2 (Abramowitz and Stegun 7.1.22).
func normalCDF(k *kernel, t ir.DType, x int) int {
	return k.Mul(k.Float(t, 0.5), k.Add(k.Float(t, 1), k.Un(loopir.OpErf, k.Mul(x, k.Float(t, math.Sqrt2/2)))))
}

// geluTanhExponent is u = -2*sqrt(2/pi)*(x + 0.044715*x^3), and the derivative of -u (Hendrycks and Gimpel, 2016).
// (1+tanh(-u/2))/2 is 1/(1+exp(u)), which takes half the work and does not cancel for x far below 0.
func geluTanhExponent(k *kernel, t ir.DType, x int) (u, slope int) {
	const scale, cubic = 2 * launch.GeluTanhScale, 2 * launch.GeluTanhScale * launch.GeluTanhCubic
	x2 := k.Mul(x, x)
	u = k.Mul(x, k.Fma(x2, k.Float(t, -cubic), k.Float(t, -scale)))
	slope = k.Fma(x2, k.Float(t, 3*cubic), k.Float(t, scale))
	return u, slope
}

// polynomial evaluates c[0] + c[1]*x + ... by Horner's rule.
func polynomial(k *kernel, t ir.DType, x int, c []float64) int {
	r := k.Float(t, c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		r = k.Fma(r, x, k.Float(t, c[i]))
	}
	return r
}

// expm1 is exp(x)-1. Near 0, where that cancels, it is the Taylor series up to the dtype's precision at 1/2.
func expm1(k *kernel, t ir.DType, x []int) int {
	terms := 9
	if t == ir.F64 {
		terms = 16
	}
	c := make([]float64, terms)
	f := 1.0
	for i := range c {
		f *= float64(i + 1)
		c[i] = 1 / f
	}
	near := k.Mul(x[0], polynomial(k, t, x[0], c))
	far := k.Sub(k.Un(loopir.OpExp, x[0]), k.Float(t, 1))
	return k.Select(k.Lt(k.Abs(x[0]), k.Float(t, 0.5)), near, far)
}

// log1p is log(1+x). Near 0 it is the series of 2*atanh(x/(2+x)), whose ratio is at most 1/9 and which needs no
// accuracy of the device's logarithm near 1.
func log1p(k *kernel, t ir.DType, x []int) int {
	terms := 9
	if t == ir.F64 {
		terms = 18
	}
	c := make([]float64, terms)
	for i := range c {
		c[i] = 2 / float64(2*i+1)
	}
	s := k.Div(x[0], k.Add(k.Float(t, 2), x[0]))
	near := k.Mul(s, polynomial(k, t, k.Mul(s, s), c))
	far := k.Un(loopir.OpLog, k.Add(k.Float(t, 1), x[0]))
	return k.Select(k.Lt(k.Abs(x[0]), k.Float(t, 0.5)), near, far)
}

// either picks the operation for bools or the one for numbers.
func either(onBool, onNumber loopir.Op) body {
	return func(k *kernel, t ir.DType, x []int) int {
		if t == ir.Bool {
			return k.Bin(onBool, x[0], x[1])
		}
		return k.Bin(onNumber, x[0], x[1])
	}
}

func binaryOp(op loopir.Op) body { return either(op, op) }

var binaryBodies = map[string]body{
	"add":          either(loopir.OpOr, loopir.OpAdd),
	"sub":          binaryOp(loopir.OpSub),
	"mul":          either(loopir.OpAnd, loopir.OpMul),
	"div":          binaryOp(loopir.OpDiv),
	"floor_divide": floorDivide,
	"remainder":    remainder,
	"pow":          binaryOp(loopir.OpPow),
	"maximum":      either(loopir.OpOr, loopir.OpMax),
	"minimum":      either(loopir.OpAnd, loopir.OpMin),
	"bitwise_and":  binaryOp(loopir.OpAnd),
	"bitwise_or":   binaryOp(loopir.OpOr),
	"bitwise_xor":  binaryOp(loopir.OpXor),
}

// ordered compares; bools are ordered as 0 and 1.
func ordered(f func(k *kernel, x, y int) int) body {
	return func(k *kernel, t ir.DType, x []int) int {
		if t == ir.Bool {
			return f(k, k.Cast(ir.I32, x[0]), k.Cast(ir.I32, x[1]))
		}
		return f(k, x[0], x[1])
	}
}

var comparisonBodies = map[string]body{
	"eq": binaryOp(loopir.OpEq),
	"ne": binaryOp(loopir.OpNe),
	"lt": ordered(func(k *kernel, x, y int) int { return k.Lt(x, y) }),
	"le": ordered(func(k *kernel, x, y int) int { return k.Le(x, y) }),
	"gt": ordered(func(k *kernel, x, y int) int { return k.Gt(x, y) }),
	"ge": ordered(func(k *kernel, x, y int) int { return k.Ge(x, y) }),
}

// truncated is the truncated remainder, and whether its sign is wrong for floored division.
func truncated(k *kernel, t ir.DType, x, y int) (r, wrong int) {
	zero := k.Int(t, 0)
	r = k.Rem(x, y)
	wrong = k.And(k.Ne(r, zero), k.Ne(k.Lt(r, zero), k.Lt(y, zero)))
	return r, wrong
}

func remainder(k *kernel, t ir.DType, x []int) int {
	r, wrong := truncated(k, t, x[0], x[1])
	return k.Select(wrong, k.Add(r, x[1]), r)
}

// floorDivide follows Python. For floats it uses the exact remainder, since the quotient may round up to a whole
// number.
func floorDivide(k *kernel, t ir.DType, x []int) int {
	r, wrong := truncated(k, t, x[0], x[1])
	if !t.IsFloat() {
		q := k.Div(x[0], x[1])
		return k.Select(wrong, k.Sub(q, k.Int(t, 1)), q)
	}
	one, zero := k.Float(t, 1), k.Float(t, 0)
	plain := k.Div(x[0], x[1])
	q := k.Div(k.Sub(x[0], r), x[1])
	q = k.Select(wrong, k.Sub(q, one), q)
	whole := k.Un(loopir.OpFloor, q)
	whole = k.Select(k.Gt(k.Sub(q, whole), k.Float(t, 0.5)), k.Add(whole, one), whole)
	signedZero := k.Mul(plain, zero)
	return k.Select(k.Eq(x[1], zero), plain, k.Select(k.Ne(q, zero), whole, signedZero))
}

// lowerTri keeps the elements on one side of a diagonal; attributes: diagonal, upper. Row and column are outer dims of
// their own.
func lowerTri(p *program) {
	n := p.n
	if n.Out[0].Layout.Numel == 0 {
		return
	}
	x, out := p.in(0), p.out(0)
	k := p.kernel("tri_"+x.dtype.String(), n.Out[0].Layout.Shape, nil, 2, x, out)
	k.Map()
	at := k.Sub(k.Index(k.outer-1), k.Index(k.outer-2))
	diagonal := k.number(n.Attr[0])
	kept := k.Le(at, diagonal)
	if n.Attr[1] != 0 {
		kept = k.Ge(at, diagonal)
	}
	k.store(out, k.Select(kept, k.load(x), k.Int(x.dtype, 0)))
	k.launch()
}
