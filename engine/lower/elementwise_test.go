package lower_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func flag(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*math.Pow(x, 3))))
}

// slope is a central difference; the third derivatives here are of order 1.
func slope(f func(float64) float64, x float64) float64 { return (f(x+1e-5) - f(x-1e-5)) / 2e-5 }

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

var floatRefs = map[string]struct {
	f      func(float64) float64
	lo, hi float64
}{
	"exp": {math.Exp, -3, 3}, "expm1": {math.Expm1, -3, 3}, "log": {math.Log, 0.01, 5}, "log1p": {math.Log1p, -0.99, 3},
	"sqrt": {math.Sqrt, 0, 5}, "rsqrt": {func(x float64) float64 { return 1 / math.Sqrt(x) }, 0.1, 5},
	"sin": {math.Sin, -6, 6}, "cos": {math.Cos, -6, 6},
	"tan": {math.Tan, -1.2, 1.2}, "tanh": {math.Tanh, -3, 3}, "erf": {math.Erf, -3, 3}, "sigmoid": {sigmoid, -5, 5},
	"silu":      {func(x float64) float64 { return x * sigmoid(x) }, -5, 5},
	"gelu":      {func(x float64) float64 { return x * phi(x) }, -4, 4},
	"gelu_tanh": {geluTanh, -4, 4},
}

var numberRefs = map[string]func(float64) float64{
	"neg": func(x float64) float64 { return -x }, "abs": math.Abs, "sign": sign, "floor": math.Floor, "ceil": math.Ceil,
	"round": math.RoundToEven, "trunc": math.Trunc, "copy": func(x float64) float64 { return x },
	"relu":  func(x float64) float64 { return math.Max(x, 0) },
	"isnan": func(x float64) float64 { return flag(math.IsNaN(x)) },
}

func mapped(f func(float64) float64, v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = f(x)
	}
	return out
}

func TestUnary(t *testing.T) {
	type unary struct {
		f      func(float64) float64
		lo, hi float64
		types  []ir.DType
	}
	all := map[string]unary{}
	for name, c := range floatRefs {
		all[name] = unary{c.f, c.lo, c.hi, []ir.DType{ir.F32, ir.F64, ir.F16, ir.BF16}}
	}
	for name, f := range numberRefs {
		all[name] = unary{f, -3, 3, []ir.DType{ir.F32, ir.F64, ir.F16, ir.I32, ir.I64}}
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place func(int, ir.DType,
				func() float64) op.Val) {
				for _, d := range c.types {
					x := place(0, d, source(c.lo, c.hi, d.IsInt()))
					y := emit(e, name, nil, x)[0]
					near(t, d, mapped(c.f, e.Floats(x)), e.Floats(y), d)
				}
			})
		})
	}
}

func TestUnaryBoolAndBits(t *testing.T) {
	everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place func(int, ir.DType,
		func() float64) op.Val) {
		x := place(0, ir.Bool, source(0, 1, true))
		for _, name := range []string{"copy", "abs", "sign"} {
			near(t, ir.Bool, e.Floats(x), e.Floats(emit(e, name, nil, x)[0]), name)
		}
		for _, not := range []func(op.Builder, op.Val) op.Val{prim.LogicalNot, prim.BitwiseNot} {
			near(t, ir.Bool, mapped(func(v float64) float64 { return 1 - v }, e.Floats(x)), e.Floats(not(e, x)))
		}
		for _, d := range []ir.DType{ir.I64, ir.I32, ir.I8} {
			i := place(1, d, source(-9, 9, true))
			near(t, d, mapped(func(v float64) float64 { return -v - 1 }, e.Floats(i)), e.Floats(prim.BitwiseNot(e, i)))
		}
		u := place(2, ir.U8, source(0, 9, true))
		near(t, ir.U8, mapped(func(v float64) float64 { return 255 - v }, e.Floats(u)), e.Floats(prim.BitwiseNot(e, u)))
		f := place(3, ir.F32, source(-1, 1, true))
		near(t, ir.Bool, mapped(func(v float64) float64 { return flag(v == 0) }, e.Floats(f)),
			e.Floats(prim.LogicalNot(e, f)))
	})
}

// TestNearZero: expm1 and log1p keep their relative precision where exp(x)-1 and log(1+x) lose it.
func TestNearZero(t *testing.T) {
	v := []float64{0, 1e-30, -1e-30, 1e-8, -1e-8, 3e-4, -3e-4, 0.49999, -0.49999, 0.50001, -0.50001}
	for _, d := range []ir.DType{ir.F32, ir.F64} {
		tol := map[ir.DType]float64{ir.F32: 4e-7, ir.F64: 1e-15}[d]
		e := optest.New()
		x := e.Tensor(d, []int64{int64(len(v))}, v...)
		for name, f := range map[string]func(float64) float64{"expm1": math.Expm1, "log1p": math.Log1p} {
			got := e.Floats(emit(e, name, nil, x)[0])
			for i, a := range e.Floats(x) {
				require.InDelta(t, f(a), got[i], tol*math.Abs(f(a)), "%s(%g) in %v", name, a, d)
			}
		}
	}
}

func floorMod(x, y float64) float64 {
	r := math.Mod(x, y)
	if r != 0 && (r < 0) != (y < 0) {
		r += y
	}
	return r
}

var binaryRefs = map[string]func(x, y float64) float64{
	"add": func(x, y float64) float64 { return x + y }, "sub": func(x, y float64) float64 { return x - y },
	"mul": func(x, y float64) float64 { return x * y }, "maximum": math.Max, "minimum": math.Min,
	"floor_divide": func(x, y float64) float64 { return math.Floor(x / y) }, "remainder": floorMod,
	"eq": func(x, y float64) float64 { return flag(x == y) }, "ne": func(x, y float64) float64 { return flag(x != y) },
	"lt": func(x, y float64) float64 { return flag(x < y) }, "le": func(x, y float64) float64 { return flag(x <= y) },
	"gt": func(x, y float64) float64 { return flag(x > y) }, "ge": func(x, y float64) float64 { return flag(x >= y) },
}

func zipped(f func(x, y float64) float64, x, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = f(x[i], y[i])
	}
	return out
}

// nonzero skips zeros, for divisors.
func nonzero(next func() float64) func() float64 {
	return func() float64 {
		for {
			if x := next(); x != 0 {
				return x
			}
		}
	}
}

func TestBinary(t *testing.T) {
	for name, f := range binaryRefs {
		t.Run(name, func(t *testing.T) {
			everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place func(int, ir.DType,
				func() float64) op.Val) {
				for _, d := range []ir.DType{ir.F32, ir.F64, ir.F16, ir.I32, ir.I64} {
					x, y := place(0, d, source(-7, 7, true)), place(1, d, nonzero(source(-3, 3, true)))
					near(t, d, zipped(f, e.Floats(x), e.Floats(y)), e.Floats(emit(e, name, nil, x, y)[0]), d)
					two := func(v float64) float64 { return f(v, 2) }
					near(t, d, mapped(two, e.Floats(x)), e.Floats(emit(e, name, nil, x, op.IntVal(2))[0]), d)
					from := func(v float64) float64 { return f(-5, v) }
					near(t, d, mapped(from, e.Floats(y)), e.Floats(emit(e, name, nil, op.IntVal(-5), y)[0]), d)
				}
			})
		})
	}
}

func TestDivAndPow(t *testing.T) {
	everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place func(int, ir.DType,
		func() float64) op.Val) {
		for _, d := range []ir.DType{ir.F32, ir.F64} {
			x, y := place(0, d, source(0.1, 3, false)), place(1, d, source(-2, 2, false))
			near(t, d, zipped(func(a, b float64) float64 { return a / b }, e.Floats(x), e.Floats(y)),
				e.Floats(emit(e, "div", nil, x, y)[0]))
			near(t, d, zipped(math.Pow, e.Floats(x), e.Floats(y)), e.Floats(emit(e, "pow", nil, x, y)[0]))
			near(t, d, mapped(func(v float64) float64 { return v * v }, e.Floats(y)),
				e.Floats(emit(e, "pow", nil, y, op.FloatVal(2))[0]))
		}
		x, y := place(0, ir.I64, source(-9, 9, true)), place(1, ir.I64, nonzero(source(-4, 4, true)))
		near(t, ir.I64, zipped(func(a, b float64) float64 { return math.Trunc(a / b) }, e.Floats(x), e.Floats(y)),
			e.Floats(emit(e, "div", nil, x, y)[0]))
		p := place(2, ir.I64, source(0, 4, true))
		near(t, ir.I64, zipped(math.Pow, e.Floats(x), e.Floats(p)), e.Floats(emit(e, "pow", nil, x, p)[0]))
	})
}

func TestBoolBinary(t *testing.T) {
	refs := map[string]func(x, y float64) float64{"add": math.Max, "mul": math.Min, "maximum": math.Max,
		"minimum":    math.Min,
		"bitwise_or": math.Max, "bitwise_and": math.Min, "bitwise_xor": func(x, y float64) float64 { return flag(x != y) }}
	for _, name := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		refs[name] = binaryRefs[name]
	}
	everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place func(int, ir.DType,
		func() float64) op.Val) {
		x, y := place(0, ir.Bool, source(0, 1, true)), place(1, ir.Bool, source(-0.4, 1, true))
		for name, f := range refs {
			near(t, ir.Bool, zipped(f, e.Floats(x), e.Floats(y)), e.Floats(emit(e, name, nil, x, y)[0]), name)
		}
		i, j := place(2, ir.I32, source(-9, 9, true)), place(3, ir.I32, source(-9, 9, true))
		bits := map[string]func(x, y int32) int32{"bitwise_and": func(x, y int32) int32 { return x & y },
			"bitwise_or": func(x, y int32) int32 { return x | y }, "bitwise_xor": func(x, y int32) int32 { return x ^ y }}
		for name, f := range bits {
			want := zipped(func(x, y float64) float64 { return float64(f(int32(x), int32(y))) }, e.Floats(i), e.Floats(j))
			near(t, ir.I32, want, e.Floats(emit(e, name, nil, i, j)[0]), name)
		}
	})
}

// TestSpecialValues fixes NaN, infinity, signed zero and zero divisors.
func TestSpecialValues(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	cases := []struct {
		name       string
		x, y, want float64
	}{
		{"maximum", nan, 1, nan}, {"maximum", 1, nan, nan}, {"maximum", inf, nan, nan}, {"minimum", nan, -inf, nan},
		{"minimum", -1, 2, -1},
		{"floor_divide", 1, 0, inf}, {"floor_divide", -1, 0, -inf}, {"floor_divide", 0, 0, nan}, {"floor_divide", -1, 2, -1},
		{"floor_divide", 1, 0.1, 9}, {"remainder", 1, 0, nan}, {"remainder", -1, 3, 2}, {"remainder", 1, -3, -2},
		{"remainder", 5.5, 2, 1.5},
		{"pow", 0, 0, 1}, {"pow", nan, 0, 1}, {"pow", -8, 1. / 3, nan}, {"div", 1, 0, inf}, {"div", 0, 0, nan},
		{"eq", nan, nan, 0}, {"ne", nan, nan, 1}, {"lt", nan, 1, 0}, {"ge", nan, 1, 0},
	}
	for _, c := range cases {
		e := optest.New()
		x, y := e.Tensor(ir.F64, nil, c.x), e.Tensor(ir.F64, nil, c.y)
		near(t, ir.F64, []float64{c.want}, e.Floats(emit(e, c.name, nil, x, y)[0]), c.name, c.x, c.y)
	}
	e := optest.New()
	z := e.Floats(emit(e, "floor_divide", nil, e.Tensor(ir.F64, nil, math.Copysign(0, -1)), op.FloatVal(3))[0])
	require.True(t, math.Signbit(z[0]))
	v := e.Tensor(ir.F32, []int64{4}, nan, inf, -inf, 0)
	near(t, ir.F32, []float64{nan, inf, 0, 0}, e.Floats(emit(e, "relu", nil, v)[0]))
	near(t, ir.F32, []float64{1, 0, 0, 0}, e.Floats(emit(e, "isnan", nil, v)[0]))
	near(t, ir.F32, []float64{nan, 1, 0, 0.5}, e.Floats(emit(e, "sigmoid", nil, v)[0]))
}

func TestGeluGradients(t *testing.T) {
	refs := map[string]func(float64) float64{"gelu_grad": func(x float64) float64 { return x * phi(x) },
		"gelu_tanh_grad": geluTanh}
	everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place func(int, ir.DType,
		func() float64) op.Val) {
		for name, f := range refs {
			x, g := place(0, ir.F64, source(-3, 3, false)), place(1, ir.F64, source(-2, 2, false))
			want := zipped(func(x, g float64) float64 { return g * slope(f, x) }, e.Floats(x), e.Floats(g))
			require.InDeltaSlice(t, want, e.Floats(emit(e, name, nil, x, g)[0]), 1e-8)
		}
	})
}

func TestWhereCastTri(t *testing.T) {
	everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place func(int, ir.DType,
		func() float64) op.Val) {
		c := place(0, ir.Bool, source(0, 1, true))
		x, y := place(1, ir.F32, source(-1, 1, false)), place(2, ir.F32, source(5, 6, false))
		pick := func(x, y []float64) []float64 {
			out := slices.Clone(y)
			for i, v := range e.Floats(c) {
				if v != 0 {
					out[i] = x[i]
				}
			}
			return out
		}
		seven := mapped(func(float64) float64 { return 7.5 }, e.Floats(c))
		near(t, ir.F32, pick(e.Floats(x), e.Floats(y)), e.Floats(emit(e, "where", nil, c, x, y)[0]))
		near(t, ir.F32, pick(seven, e.Floats(y)), e.Floats(emit(e, "where", nil, c, op.FloatVal(7.5), y)[0]))
		near(t, ir.F32, pick(e.Floats(x), seven), e.Floats(emit(e, "where", nil, c, x, op.FloatVal(7.5))[0]))
		for from := ir.Bool; from < ir.NumStored; from++ {
			unsigned := from == ir.U8 || from == ir.U16 || from == ir.U32 || from == ir.U64
			lo := map[bool]float64{true: 0, false: -3}[from == ir.Bool || unsigned]
			v := place(3, from, source(lo, 3, !from.IsFloat()))
			for to := ir.Bool; to < ir.NumStored; to++ {
				if (to == ir.U32 || to == ir.U64) && lo < 0 {
					continue // negative to unsigned is undefined
				}
				want := mapped(func(a float64) float64 {
					switch {
					case to == ir.Bool:
						return flag(a != 0)
					case to.IsInt():
						return float64(ir.Wrap(to, int64(a)))
					}
					return a
				}, e.Floats(v))
				near(t, to, want, e.Floats(emit(e, "cast", []int64{int64(to)}, v)[0]), from, to)
			}
		}
		if len(shape) < 2 {
			return
		}
		for _, a := range [][]int64{{0, 0}, {-1, 0}, {1, 0}, {0, 1}, {1, 1}, {-2, 1}} {
			want := e.Floats(x)
			for n := range want {
				i := unravel(int64(n), shape)
				d := i[len(i)-1] - i[len(i)-2]
				if a[1] == 0 && d > a[0] || a[1] == 1 && d < a[0] {
					want[n] = 0
				}
			}
			near(t, ir.F32, want, e.Floats(emit(e, "tri", a, x)[0]), a)
		}
	})
}

// TestWriteThroughAndInPlace runs every elementwise primitive with its output in a strided window of a larger buffer,
// and with its output in the buffer of each input of its dtype.
func TestWriteThroughAndInPlace(t *testing.T) {
	shape := []int64{3, 4}
	storage, stride, offset := doubled(shape)
	for _, p := range op.Prims() {
		if !p.Elementwise || p.Name == "to_device" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			e := optest.New()
			d := ir.F32
			if strings.HasPrefix(p.Name, "bitwise") {
				d = ir.I32
			}
			n := &lower.Node{Prim: p}
			if p.Variants != nil {
				n.Attr = []int64{0}
			}
			var in []op.Val
			var bufs [][]byte
			var scalars []uint64
			inputs := p.NIn
			if p.Name == "special" { // the one that is a sum over nodes
				inputs, n.Attr = 2, []int64{int64(op.FnIgamma)}
			}
			for i := range inputs {
				dt := d
				if (p.Name == "where" || p.Name == "require") && i == 0 {
					dt = ir.Bool
				}
				if p.Name == "dropout" && i > 0 {
					v, st := op.IntVal(9), ir.I64
					if i == 3 {
						v, st = op.FloatVal(0.5), d
					}
					in = append(in, v)
					n.In = append(n.In, lower.Operand{Scalar: true, DType: st})
					scalars = append(scalars, optest.EncodeScalar(st, v))
					continue
				}
				v := e.Tensor(dt, shape, draw(12, source(0.6+float64(i), 4+float64(i), true))...)
				in = append(in, v)
				n.In = append(n.In, lower.Operand{DType: dt, Layout: v.L(), Buf: len(bufs)})
				bufs = append(bufs, optest.Encode(dt, e.Floats(v)))
			}
			switch p.Name {
			case "cast":
				n.Attr = []int64{int64(ir.F64)}
			case "require":
				n.Attr = []int64{0}
			case "tri":
				n.Attr = []int64{0, 1}
			}
			y := e.EmitN(p.ID, n.Attr, in...)[0]
			want, od := e.Floats(y), y.DType()
			offsets := append(make([]int64, len(in)), offset)

			filled := make([]float64, ir.Numel(storage))
			wide := optest.Encode(od, filled)
			through := *n
			through.Out = []lower.Output{{DType: od, Layout: ir.InternLayout(shape, stride), Buf: len(bufs), Through: true}}
			through.Bufs = len(bufs) + 1
			_, err := optest.Run(&through, append(slices.Clone(bufs), wide), offsets, scalars)
			require.NoError(t, err)
			require.Equal(t, want, optest.Decode(od, wide, through.Out[0].Layout, offset))
			for i, v := range optest.Decode(od, wide, ir.DenseLayout(storage), 0) {
				at := unravel(int64(i), storage)
				if at[0]%2 == 0 || at[1]%2 == 0 {
					require.Zero(t, v, "written outside the window at %v", at)
				}
			}
			for i, x := range in {
				if !x.IsTensor() || x.DType() != od {
					continue
				}
				over := *n
				over.Bufs = len(bufs)
				over.Out = []lower.Output{{DType: od, Layout: y.L(), Buf: n.In[i].Buf}}
				own := slices.Clone(bufs)
				own[n.In[i].Buf] = slices.Clone(own[n.In[i].Buf])
				_, err := optest.Run(&over, own, make([]int64, len(in)+1), scalars)
				require.NoError(t, err)
				require.Equal(t, want, optest.Decode(od, own[n.In[i].Buf], y.L(), 0), "over input %d", i)
			}
		})
	}
}
