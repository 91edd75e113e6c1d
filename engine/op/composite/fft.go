package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Fourier transforms of one dim and of several, as torch.fft has them.

// norms are the words of norm=; which direction divides by the number of elements, or both by its root.
const norms = "str(backward|ortho|forward)? norm=None"

// factorOf is the factor of a transform of n elements in all.
func factorOf(norm int64, n float64, forward bool) float64 {
	switch {
	case norm == 1:
		return 1 / math.Sqrt(n)
	case (norm == 2) == forward:
		return 1 / n
	}
	return 1
}

func registerFFTOps() {
	registerLines()
	registerBlocks()
}

// line is a call of a function of one dim.
type line struct {
	b       op.Builder
	name    string
	forward bool // what norm takes the call for
	x       op.Val
	dim     int
	n       int64 // 0: not given
	norm    int64
}

// registerLines registers the functions of one dim.
func registerLines() {
	def := func(name, doc string, forward bool, f func(l *line) op.Val, s ...op.Sample) {
		op.Register(op.Def{
			Sig: "fft_" + name + "(Tensor self, int? n=None, int dim=-1, " + norms + ") -> Tensor", Doc: doc, Out: true,
			Where: op.Fourier, Samples: append(s, samples("T(2,7)", "T(6) | norm='ortho'", "T(5,3), 4, 0 | norm='forward'",
				"T(2,4), 9", "I(6;0,5)")...),
			ErrorSamples: samples("T(4), 0", "T(4), 4, 2", "T()"),
			Eval: func(a *op.Args) []op.Val {
				l := &line{b: a.B, name: name, forward: forward, x: a.Val()}
				l.n, _ = given(a)
				dim := a.Int()
				l.norm = a.Int()
				rank := len(l.x.Shape())
				if rank == 0 {
					fail(ir.ErrIndex, "Dimension specified as %d but tensor has no dimensions", dim)
				}
				d, err := ir.CheckDim(dim, rank)
				if err != nil {
					panic(err)
				}
				l.dim = d
				return a.Ret(f(l))
			},
		})
	}
	def("fft", "The discrete Fourier transform along a dim.", true, func(l *line) op.Val {
		return l.complex(prim.FFTForward)
	})
	def("ifft", "The inverse of fft.", false, func(l *line) op.Val { return l.complex(prim.FFTInverse) })
	def("rfft", "The first half of the transform of real elements, n/2+1 of them: the others are conjugates.", true,
		func(l *line) op.Val { return l.ofReals() })
	def("ihfft", "The first half of the inverse transform of real elements.", false, func(l *line) op.Val {
		return prim.Conj(l.b, l.ofReals())
	})
	def("irfft", "The inverse of rfft: n real elements, by default 2(m-1) of m.", false, func(l *line) op.Val {
		return l.toReals(inComplex(l.b, l.x))
	})
	def("hfft", "The transform, which is real, of n elements of which only the first half is given: the others are "+
		"conjugates.", true, func(l *line) op.Val { return l.toReals(prim.Conj(l.b, inComplex(l.b, l.x))) })
}

// given reads an int? parameter that is at least 1; 0: it was not given.
func given(a *op.Args) (n int64, ok bool) {
	n, ok = a.OptInt()
	if !ok {
		return 0, false
	}
	if n < 1 {
		fail(ir.ErrRuntime, "Invalid number of data points (%d) specified", n)
	}
	return n, true
}

// fftType is the dtype of the parts that a transform of x computes in.
func fftType(b op.Builder, x op.Val) ir.DType {
	d := x.DType().Real()
	if !d.IsFloat() {
		return b.DefaultDType()
	}
	if d != ir.F32 && d != ir.F64 {
		fail(ir.ErrNotImplemented, "Unsupported dtype %s", d.ScalarType())
	}
	return d
}

// inComplex is x in complex numbers.
func inComplex(b op.Builder, x op.Val) op.Val {
	if x.DType().IsComplex() {
		return x
	}
	return prim.Cast(b, x, fftType(b, x).Complex())
}

// inFloats is x in a float or complex dtype.
func inFloats(b op.Builder, x op.Val) op.Val {
	if x.DType().IsComplex() {
		return x
	}
	return prim.Cast(b, x, fftType(b, x))
}

// inReals is x in a float dtype; text is the error for a complex x.
func inReals(b op.Builder, text string, x op.Val) op.Val {
	if x.DType().IsComplex() {
		fail(ir.ErrType, "%s %s", text, typeName(x.DType()))
	}
	return prim.Cast(b, x, fftType(b, x))
}

// fitted cuts dim d of x to n elements, or appends zeros.
func fitted(b op.Builder, x op.Val, d int, n int64) op.Val {
	have := x.Shape()[d]
	switch {
	case n < 1:
		fail(ir.ErrRuntime, "Invalid number of data points (%d) specified", n)
	case n < have:
		return prim.Slice(b, x, int64(d), 0, n, 1)
	case n > have:
		shape := slices.Clone(x.Shape())
		shape[d] = n - have
		return prim.Cat(b, []op.Val{x, prim.Zeros(b, x.DType(), x.Device(), shape)}, int64(d))
	}
	return x
}

func (l *line) complex(variant int64) op.Val {
	x := inFloats(l.b, l.x)
	if l.n == 0 {
		l.n = x.Shape()[l.dim]
	}
	x = fitted(l.b, x, l.dim, l.n)
	return spectrum(l.b, x, variant, l.dim, factorOf(l.norm, float64(l.n), l.forward))
}

// spectrum transforms complex or real elements along a dim.
func spectrum(b op.Builder, x op.Val, variant int64, dim int, factor float64) op.Val {
	if !x.DType().IsComplex() {
		y := op.ComplexOf(b, prim.FFT(b, x, prim.FFTAllOfReals, int64(dim), x.Shape()[dim], factor))
		if variant == prim.FFTInverse {
			return prim.Conj(b, y)
		}
		return y
	}
	return op.ComplexOf(b, prim.FFT(b, op.PairsOf(b, x), variant, int64(dim), x.Shape()[dim], factor))
}

func (l *line) ofReals() op.Val {
	x := inReals(l.b, l.name+" expects a real input tensor, but got", l.x)
	if l.n == 0 {
		l.n = x.Shape()[l.dim]
	}
	x = fitted(l.b, x, l.dim, l.n)
	return op.ComplexOf(l.b, prim.FFT(l.b, x, prim.FFTOfReals, int64(l.dim), l.n, factorOf(l.norm, float64(l.n),
		l.forward)))
}

// toReals transforms x, the first half of the elements, without the sign of the direction.
func (l *line) toReals(x op.Val) op.Val {
	if l.n == 0 {
		l.n = 2 * (x.Shape()[l.dim] - 1)
	}
	if l.n < 1 {
		fail(ir.ErrRuntime, "Invalid number of data points (%d) specified", l.n)
	}
	x = fitted(l.b, x, l.dim, l.n/2+1)
	return prim.FFT(l.b, op.PairsOf(l.b, x), prim.FFTToReals, int64(l.dim), l.n, factorOf(l.norm, float64(l.n), l.forward))
}

// block is a call of a function of several dims.
type block struct {
	b       op.Builder
	name    string
	forward bool
	x       op.Val
	dims    []int
	size    []int64 // of each of dims
	last    int64   // what s= gives for the last of dims; 0: nothing
	norm    int64
}

func registerBlocks() {
	def := func(name, doc string, forward bool, f func(c *block) op.Val) {
		for _, form := range []struct{ name, dim string }{{name + "2", "int[] dim=(-2,-1)"}, {name + "n",
			"int[]? dim=None"}} {
			s := samples("T(3,4)", "T(2,3,5) | norm='ortho'", "T(4,3), (2,5)", "T(2,3,4), (3,3), (0,2) | norm='forward'",
				"I(3,4;0,5)")
			errs := samples("T(3,4), (3,0)", "T(3,4), (2,), (0,1)", "T(3,4), None, (1,1)", "T(3,4), None, (0,2)")
			sig := "fft_" + form.name + "(Tensor self, int[]? s=None, " + form.dim + ", " + norms + ") -> Tensor"
			op.Register(op.Def{Sig: sig, Doc: doc, Out: true, Where: op.Fourier, Samples: s, ErrorSamples: errs,
				Eval: func(a *op.Args) []op.Val {
					c := &block{b: a.B, name: name + "n", forward: forward, x: a.Val()}
					c.read(a)
					return a.Ret(f(c))
				}})
		}
	}
	def("fft", "The discrete Fourier transform along several dims.", true, func(c *block) op.Val {
		return c.complex(inFloats(c.b, c.x), len(c.dims), prim.FFTForward, c.count())
	})
	def("ifft", "The inverse of fftn.", false, func(c *block) op.Val {
		return c.complex(inFloats(c.b, c.x), len(c.dims), prim.FFTInverse, c.count())
	})
	def("rfft", "The transform of real elements along several dims, of which the last has n/2+1 elements.", true,
		func(c *block) op.Val { return c.complex(c.ofReals(), len(c.dims)-1, prim.FFTForward, 0) })
	def("ihfft", "The inverse transform of real elements along several dims, of which the last has n/2+1 elements.", false,
		func(c *block) op.Val {
			return c.complex(prim.Conj(c.b, c.ofReals()), len(c.dims)-1, prim.FFTInverse, 0)
		})
	def("irfft", "The inverse of rfftn.", false, func(c *block) op.Val {
		x := c.halved(inComplex(c.b, c.x))
		return c.toReals(c.complex(x, len(c.dims)-1, prim.FFTInverse, 0))
	})
	def("hfft", "The transform, which is real, of elements of which the last dim has only the first half.", true,
		func(c *block) op.Val {
			x := c.halved(inComplex(c.b, c.x))
			return c.toReals(prim.Conj(c.b, c.complex(x, len(c.dims)-1, prim.FFTForward, 0)))
		})
}

// alongDims sets the dims of the transform.
func (c *block) alongDims(dims []int64, rank int) {
	for _, dim := range dims {
		if rank == 0 {
			fail(ir.ErrIndex, "Dimension specified as %d but tensor has no dimensions", dim)
		}
		d, err := ir.CheckDim(dim, rank)
		if err != nil {
			panic(err)
		}
		if slices.Contains(c.dims, d) {
			fail(ir.ErrRuntime, "FFT dims must be unique")
		}
		c.dims = append(c.dims, d)
	}
}

// read reads s, dim and norm. Without dims, the transform is along as many last dims as s has, or along all.
func (c *block) read(a *op.Args) {
	s, sized := a.IntList()
	dims, named := a.IntList()
	c.norm = a.Int()
	rank := len(c.x.Shape())
	switch {
	case named:
		c.alongDims(dims, rank)
	case sized && len(s) > rank:
		fail(ir.ErrRuntime, "Got shape with %d values but input tensor only has %d dimensions.", len(s), rank)
	case sized:
		for d := rank - len(s); d < rank; d++ {
			c.dims = append(c.dims, d)
		}
	default:
		for d := range rank {
			c.dims = append(c.dims, d)
		}
	}
	if sized && len(s) != len(c.dims) {
		fail(ir.ErrRuntime, "When given, dim and shape arguments must have the same length")
	}
	for i, d := range c.dims {
		n := c.x.Shape()[d]
		if sized && s[i] != -1 {
			if n = s[i]; n < 1 {
				fail(ir.ErrRuntime, "Invalid number of data points (%d) specified", n)
			}
			c.last = n
		}
		if c.size = append(c.size, n); n < 1 {
			fail(ir.ErrRuntime, "Invalid number of data points (%d) specified", n)
		}
	}
	if !sized || len(s) == 0 || s[len(s)-1] == -1 {
		c.last = 0
	}
}

func (c *block) count() float64 {
	n := 1.0
	for _, s := range c.size {
		n *= float64(s)
	}
	return n
}

// complex transforms along the first dims, the last of them first, and divides as norm says for count elements.
func (c *block) complex(x op.Val, dims int, variant int64, count float64) op.Val {
	factor := 1.0
	if count > 0 {
		factor = factorOf(c.norm, count, c.forward)
	}
	for i := dims - 1; i >= 0; i-- {
		x = spectrum(c.b, fitted(c.b, x, c.dims[i], c.size[i]), variant, c.dims[i], factor)
		factor = 1
	}
	if x = inComplex(c.b, x); len(c.dims) == 0 && x == c.x {
		return prim.Copy(c.b, x)
	}
	return x
}

// axes refuses a call without dims.
func (c *block) axes() (last int) {
	if len(c.dims) == 0 {
		fail(ir.ErrRuntime, "%s must transform at least one axis", c.name)
	}
	return len(c.dims) - 1
}

// refusal is the text for a complex operand.
func (c *block) refusal() string {
	if c.forward {
		return "rfftn expects a real-valued input tensor, but got"
	}
	return "Only supports floating-point dtypes, but found:"
}

// ofReals transforms real elements along the last dim, and divides.
func (c *block) ofReals() op.Val {
	x, last := inReals(c.b, c.refusal(), c.x), c.axes()
	d, n := c.dims[last], c.size[last]
	y := prim.FFT(c.b, fitted(c.b, x, d, n), prim.FFTOfReals, int64(d), n, factorOf(c.norm, c.count(), c.forward))
	return op.ComplexOf(c.b, y)
}

// halved cuts the last dim to the elements that a real transform takes.
func (c *block) halved(x op.Val) op.Val {
	last := c.axes()
	n := c.last
	if n == 0 {
		n = 2 * (x.Shape()[c.dims[last]] - 1)
	}
	if n < 1 {
		fail(ir.ErrRuntime, "Invalid number of data points (%d) specified", n)
	}
	c.size[last] = n
	return fitted(c.b, x, c.dims[last], n/2+1)
}

// toReals makes real elements of the last dim, and divides.
func (c *block) toReals(x op.Val) op.Val {
	last := len(c.dims) - 1
	factor := factorOf(c.norm, c.count(), c.forward)
	return prim.FFT(c.b, op.PairsOf(c.b, x), prim.FFTToReals, int64(c.dims[last]), c.size[last], factor)
}
