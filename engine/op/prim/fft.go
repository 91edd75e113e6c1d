package prim

import (
	"math"
	"math/bits"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// The variants of fft, by launch.FFTKind. Complex numbers are pairs along a last dim of size 2.
const (
	FFTForward int64 = iota
	FFTInverse
	FFTOfReals
	FFTToReals
	FFTAllOfReals
)

var pFFT op.PrimID

// registerFFT; attributes: the variant, the dim of the operand, the length (the number of reals where one side is
// real), the bits of the factor of the result, a float64.
func registerFFT() {
	pFFT = op.RegisterPrim(op.Prim{Name: "fft", Doc: "discrete Fourier transform along a dim, not normalised, times a " +
		"number: of complex numbers, and from and to real ones", NIn: 1,
		Variants: []string{"fft", "ifft", "rfft", "irfft", "fft_of_reals"},
		InPlace:  [][2]int{{0, 0}}, // of equal sizes: a row, or a block of columns, is read before it is written
		Infer:    fftInfer, VJP: fftVJP, FLOPs: fftFLOPs})
}

func fftFLOPs(in []op.Val, out []op.OutSpec) int64 {
	n := max(in[0].L().Numel, ir.Numel(out[0].Shape)) // 2 n numbers, 5 n log2(n) operations
	return n * 5 / 2 * int64(bits.Len64(uint64(n)))
}

func fftInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	d, shape := in[0].DType(), slices.Clone(in[0].Shape())
	kind, n := attr[0], attr[2]
	if d != ir.F32 && d != ir.F64 {
		return nil, ir.Errorf(ir.ErrRuntime, "Unsupported dtype %s", d.ScalarType())
	}
	numbers := len(shape)
	if kind != FFTOfReals && kind != FFTAllOfReals {
		numbers--
		if numbers < 0 || shape[numbers] != 2 {
			return nil, ir.Errorf(ir.ErrInternal, "BUG: fft: pairs of shape %s", ir.ShapeString(shape))
		}
	}
	at, err := ir.CheckDim(attr[1], numbers)
	if err != nil {
		return nil, err
	}
	have := n
	if kind == FFTToReals {
		have = n/2 + 1
	}
	if n < 1 || shape[at] != have {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: fft: length %d of shape %s", n, ir.ShapeString(shape))
	}
	switch kind {
	case FFTOfReals:
		shape[at] = n/2 + 1
		shape = append(shape, 2)
	case FFTAllOfReals:
		shape = append(shape, 2)
	case FFTToReals:
		shape[at] = n
		shape = shape[:numbers]
	}
	return append(out, op.OutSpec{DType: d, Shape: shape}), nil
}

// mostPoints bounds the length of a transform: its tables have up to 128 bytes for each element, and are not in a
// device's pool, which would refuse them.
const mostPoints = 1 << 26

// FFT emits a transform along dim, which counts from 0.
func FFT(b op.Builder, x op.Val, variant, dim, n int64, scale float64) op.Val {
	if n > mostPoints {
		fail(ir.ErrOutOfMemory, "fft: got a transform of %d elements, want at most %d: its tables need memory", n, mostPoints)
	}
	return b.Emit(pFFT, []int64{variant, dim, n, int64(math.Float64bits(scale))}, x)
}

// fftVJP: the transpose of a transform of complex numbers, as a real map of pairs, is the transform in the other
// direction. Between reals and half a spectrum, the elements that stand for two count half, or twice.
func fftVJP(c *op.VJPCall) []op.Val {
	b, g, dim, n, scale := c.B, c.Cot[0], c.Attr[1], c.Attr[2], math.Float64frombits(uint64(c.Attr[3]))
	switch c.Attr[0] {
	case FFTOfReals:
		return []op.Val{FFT(b, weighInner(b, g, dim, n, 0.5), FFTToReals, dim, n, scale)}
	case FFTToReals:
		return []op.Val{weighInner(b, FFT(b, g, FFTOfReals, dim, n, scale), dim, n, 2)}
	case FFTAllOfReals:
		return []op.Val{Select(b, FFT(b, g, FFTInverse, dim, n, scale), -1, 0)}
	case FFTInverse:
		return []op.Val{FFT(b, g, FFTForward, dim, n, scale)}
	}
	return []op.Val{FFT(b, g, FFTInverse, dim, n, scale)}
}

// weighInner multiplies the elements of half a spectrum of n that have a conjugate outside of it: all but the first
// and, where n is even, the last.
func weighInner(b op.Builder, x op.Val, dim, n int64, weight float64) op.Val {
	k := Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, x.Device(), n/2+1)
	own := Eq(b, k, op.IntVal(0))
	if n%2 == 0 {
		own = BitwiseOr(b, own, Eq(b, k, op.IntVal(n/2)))
	}
	shape := make([]int64, len(x.Shape()))
	for i := range shape {
		shape[i] = 1
	}
	shape[dim] = n/2 + 1
	return Where(b, Expand(b, Reshape(b, own, shape), x.Shape()), x, Mul(b, x, num(weight)))
}
