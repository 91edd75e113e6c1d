package prim_test

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// somewhere are points of all quadrants, near and far from 0 and 1.
var somewhere = []complex128{
	0.5 + 0.25i, -0.5 + 0.25i, -1.5 - 0.75i, 2 - 3i,
	1e-3 + 2e-3i, -0.9 + 1.1i, 1.25 - 1e-2i, -3 - 0.5i,
}

// complexTensor makes a complex128 tensor of those elements.
func complexTensor(e *optest.Eager, shape []int64, z ...complex128) op.Val {
	v := make([]float64, 0, 2*len(z))
	for _, x := range z {
		v = append(v, real(x), imag(x))
	}
	return op.ComplexOf(e, e.Tensor(ir.F64, append(shape, 2), v...))
}

// elements are those of a complex tensor in row-major order.
func elements(e *optest.Eager, v op.Val) []complex128 {
	x := e.Floats(op.PairsOf(e, v))
	out := make([]complex128, len(x)/2)
	for i := range out {
		out[i] = complex(x[2*i], x[2*i+1])
	}
	return out
}

func near(t *testing.T, want, got complex128, what string) {
	t.Helper()
	assert.LessOrEqual(t, cmplx.Abs(want-got), 1e-9*(1+cmplx.Abs(want)), "%s: got %v, want %v", what, got, want)
}

func TestComplexFunctionsAreThoseOfGo(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(op.Builder, op.Val) op.Val
		want func(complex128) complex128
	}{
		"exp":        {prim.Exp, cmplx.Exp},
		"log":        {prim.Log, cmplx.Log},
		"sqrt":       {prim.Sqrt, cmplx.Sqrt},
		"rsqrt":      {prim.Rsqrt, func(z complex128) complex128 { return 1 / cmplx.Sqrt(z) }},
		"sin":        {prim.Sin, cmplx.Sin},
		"cos":        {prim.Cos, cmplx.Cos},
		"tan":        {prim.Tan, cmplx.Tan},
		"tanh":       {prim.Tanh, cmplx.Tanh},
		"asin":       {fn(op.FnAsin), cmplx.Asin},
		"acos":       {fn(op.FnAcos), cmplx.Acos},
		"atan":       {fn(op.FnAtan), cmplx.Atan},
		"asinh":      {fn(op.FnAsinh), cmplx.Asinh},
		"acosh":      {fn(op.FnAcosh), cmplx.Acosh},
		"atanh":      {fn(op.FnAtanh), cmplx.Atanh},
		"log10":      {fn(op.FnLog10), cmplx.Log10},
		"log2":       {fn(op.FnLog2), func(z complex128) complex128 { return cmplx.Log(z) / complex(math.Ln2, 0) }},
		"log1p":      {prim.Log1p, func(z complex128) complex128 { return cmplx.Log(1 + z) }},
		"expm1":      {prim.Expm1, func(z complex128) complex128 { return cmplx.Exp(z) - 1 }},
		"sigmoid":    {prim.Sigmoid, func(z complex128) complex128 { return 1 / (1 + cmplx.Exp(-z)) }},
		"silu":       {prim.Silu, func(z complex128) complex128 { return z / (1 + cmplx.Exp(-z)) }},
		"reciprocal": {prim.Reciprocal, func(z complex128) complex128 { return 1 / z }},
		"sign":       {prim.Sign, func(z complex128) complex128 { return z / complex(cmplx.Abs(z), 0) }},
		"conj":       {prim.Conj, cmplx.Conj},
		"times i":    {prim.TimesI, func(z complex128) complex128 { return 1i * z }},
	} {
		e := optest.New()
		got := elements(e, c.f(e, complexTensor(e, []int64{8}, somewhere...)))
		for i, z := range somewhere {
			near(t, c.want(z), got[i], name)
		}
	}
}

func TestComplexArithmeticIsThatOfGo(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(op.Builder, op.Val, op.Val) op.Val
		want func(x, y complex128) complex128
	}{
		"add": {prim.Add, func(x, y complex128) complex128 { return x + y }},
		"sub": {prim.Sub, func(x, y complex128) complex128 { return x - y }},
		"mul": {prim.Mul, func(x, y complex128) complex128 { return x * y }},
		"div": {prim.Div, func(x, y complex128) complex128 { return x / y }},
		"pow": {prim.Pow, cmplx.Pow},
	} {
		e := optest.New()
		x, y := complexTensor(e, []int64{8}, somewhere...), complexTensor(e, []int64{8}, somewhere...)
		y = prim.Flip(e, y, 0)
		both := elements(e, c.f(e, x, y))
		number := elements(e, c.f(e, x, op.FloatVal(1.5)))
		first := elements(e, c.f(e, op.FloatVal(1.5), x))
		for i, z := range somewhere {
			near(t, c.want(z, somewhere[7-i]), both[i], name)
			near(t, c.want(z, 1.5), number[i], name+" of a number")
			near(t, c.want(1.5, z), first[i], name+" to a number")
		}
	}
}

func TestComplexReductionsAndProductsAreThoseOfGo(t *testing.T) {
	e := optest.New()
	x := complexTensor(e, []int64{2, 4}, somewhere...)
	sum, prod, running := complex128(0), complex128(1), []complex128{}
	for _, z := range somewhere[:4] {
		sum, prod = sum+z, prod*z
		running = append(running, prod)
	}
	near(t, sum, elements(e, prim.Sum(e, x, []int64{-1}))[0], "sum")
	near(t, prod, elements(e, prim.Prod(e, x, []int64{1}))[0], "prod")
	scan := elements(e, prim.Scan(e, x, 1, prim.ScanProd))
	for i, z := range running {
		near(t, z, scan[i], "running product")
	}
	product := elements(e, prim.Matmul(e, x, prim.Transpose(e, x, 0, 1), op.Val{}))
	want := complex128(0)
	for i := range 4 {
		want += somewhere[i] * somewhere[4+i]
	}
	near(t, want, product[1], "matmul")
	squares := 0.0
	for _, z := range somewhere {
		squares += real(z)*real(z) + imag(z)*imag(z)
	}
	assert.InDelta(t, squares, e.Floats(prim.SumSquares(e, x, []int64{0, 1}))[0], 1e-9)
}

func TestWhatHasNoComplexRuleSaysSo(t *testing.T) {
	e := optest.New()
	x := complexTensor(e, []int64{8}, somewhere...)
	for name, f := range map[string]func(){
		"relu":  func() { prim.Relu(e, x) },
		"floor": func() { prim.Floor(e, x) },
		"lt":    func() { prim.Lt(e, x, x) },
		"erf":   func() { prim.Erf(e, x) },
	} {
		assert.PanicsWithError(t, "\""+name+"_cpu\" not implemented for 'ComplexDouble'", f, name)
	}
}

// At infinities the functions have the values of annex G, as Go's have. The formulas of the parts alone give NaN there.
func TestComplexFunctionsAtInfinitiesAreThoseOfGo(t *testing.T) {
	inf := math.Inf(1)
	at := []complex128{complex(inf, 0), complex(-inf, 0), complex(inf, 1), complex(-inf, 2)}
	for name, c := range map[string]struct {
		f    func(op.Builder, op.Val) op.Val
		want func(complex128) complex128
	}{
		"exp":   {prim.Exp, cmplx.Exp},
		"tanh":  {prim.Tanh, cmplx.Tanh},
		"asin":  {fn(op.FnAsin), cmplx.Asin},
		"acos":  {fn(op.FnAcos), cmplx.Acos},
		"acosh": {fn(op.FnAcosh), cmplx.Acosh},
		"atanh": {fn(op.FnAtanh), cmplx.Atanh},
	} {
		e := optest.New()
		got := elements(e, c.f(e, complexTensor(e, []int64{4}, at...)))
		for i, z := range at {
			want := c.want(z)
			for _, part := range [][2]float64{{real(want), real(got[i])}, {imag(want), imag(got[i])}} {
				if math.IsInf(part[0], 0) {
					assert.Equal(t, part[0], part[1], "%s(%v): got %v, want %v", name, z, got[i], want)
				} else {
					assert.InDelta(t, part[0], part[1], 1e-9, "%s(%v): got %v, want %v", name, z, got[i], want)
				}
			}
		}
	}
}
