package launch

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// FFT is the discrete Fourier transform along one dim, times Scale. Complex numbers are pairs of neighbouring elements.
// The operand has three dims [outer, n, inner] of numbers or pairs, with strides in elements; the result is dense.
// Parameters are the sizes outer and inner, the strides of the three dims, and the offset.
type FFT struct {
	Type  ir.DType // F32 or F64
	Kind  FFTKind
	N     int64 // length; the number of reals where one side is real
	Scale float64
}

// FFTKind says what a transform takes and gives.
type FFTKind uint8

// The kinds. A real sequence of n elements has n/2+1 complex ones as its transform, since the others are conjugates.
const (
	FFTForward    FFTKind = iota // sum of x[j] exp(-2 pi i j k / n)
	FFTInverse                   // with +
	FFTOfReals                   // the first n/2+1 elements of the forward transform of reals
	FFTToReals                   // the inverse transform of n/2+1 elements and their conjugates
	FFTAllOfReals                // all elements of the forward transform of reals
)

func (k FFTKind) String() string {
	return [...]string{"fft", "ifft", "rfft", "irfft", "fft_of_reals"}[k]
}

// Sizes returns the lengths of the transformed dim in operand and result, and how many elements a number has there.
func (k FFTKind) Sizes(n int64) (in, out, inPair, outPair int64) {
	in, out, inPair, outPair = n, n, 2, 2
	switch k {
	case FFTOfReals:
		out, inPair = n/2+1, 1
	case FFTToReals:
		in, outPair = n/2+1, 1
	case FFTAllOfReals:
		inPair = 1
	}
	return in, out, inPair, outPair
}

// Label implements Op.
func (f *FFT) Label() string { return f.Kind.String() + "_" + f.Type.String() }

// Buffers implements Op: operand, result.
func (f *FFT) Buffers() []loopir.Buf {
	return []loopir.Buf{{Type: f.Type, Access: loopir.Read}, {Type: f.Type, Access: loopir.Write}}
}

// Parameters implements Op.
func (f *FFT) Parameters() []loopir.Param {
	list := make([]loopir.Param, 6)
	for i := range list {
		list[i] = loopir.Param{Kind: loopir.Stride, Type: ir.I64}
	}
	list[0].Kind, list[1].Kind, list[5].Kind = loopir.Size, loopir.Size, loopir.Offset
	return list
}

// Key implements Op.
func (f *FFT) Key() string { return fmt.Sprintf("fft%+v", *f) }

// Cost implements Op: 5 n log2(n) operations, half of it where one side is real.
func (f *FFT) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	in, out, inPair, outPair := f.Kind.Sizes(f.N)
	count, flops := int64(params[0]*params[1]), 5*f.N*int64(bits.Len64(uint64(f.N)))
	if f.Kind >= FFTOfReals {
		flops /= 2
	}
	return loopir.Cost{Flops: count * flops, Bytes: count * (in*inPair + out*outPair) * int64(width[f.Type])}
}

// Interpret implements Op: by the definition, in float64.
func (f *FFT) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(f, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	p := func(i int) int64 { return int64(params[i]) }
	in, out, inPair, outPair := f.Kind.Sizes(f.N)
	x, roots, y := make([]complex128, f.N), f.roots(), int64(0)
	for row := range p(0) * p(1) {
		o, i := row/p(1), row%p(1)
		var part [2]float64
		for j := range in {
			for k := range inPair {
				at := p(5) + o*p(2) + j*p(3) + i*p(4) + k
				if err := loopir.Inside(f.Type, bufs[0], at); err != nil {
					return loopir.Fault{}, fmt.Errorf("%v: operand: %w", f.Kind, err)
				}
				part[k] = ir.DecodeFloat(f.Type, loopir.LoadBits(f.Type, bufs[0], at))
			}
			x[j] = complex(part[0], part[1])
		}
		f.complete(x)
		for k := range out {
			v := at(x, roots, k)
			part = [2]float64{real(v), imag(v)}
			for e := range outPair {
				y = ((o*out+k)*p(1)+i)*outPair + e
				if err := loopir.Inside(f.Type, bufs[1], y); err != nil {
					return loopir.Fault{}, fmt.Errorf("%v: result: %w", f.Kind, err)
				}
				loopir.StoreBits(f.Type, bufs[1], y, ir.EncodeFloat(f.Type, part[e]*f.Scale))
			}
		}
	}
	return loopir.Fault{}, nil
}

// complete fills in the conjugates of the elements that FFTToReals takes, which has no imaginary part where an element
// is its own conjugate.
func (f *FFT) complete(x []complex128) {
	if f.Kind != FFTToReals {
		return
	}
	x[0] = complex(real(x[0]), 0)
	for k := int64(1); k <= f.N-k; k++ {
		if k == f.N-k {
			x[k] = complex(real(x[k]), 0)
		}
		x[f.N-k] = complex(real(x[k]), -imag(x[k]))
	}
}

// roots lists the factors of the definition's terms.
func (f *FFT) roots() []complex128 {
	roots := make([]complex128, f.N)
	for e := range f.N {
		r, i := RootOfUnity(e, f.N)
		if f.Kind == FFTInverse || f.Kind == FFTToReals {
			i = -i
		}
		roots[e] = complex(r, i)
	}
	return roots
}

// at is element k of the transform of x.
func at(x, roots []complex128, k int64) (sum complex128) {
	e := int64(0)
	for _, v := range x {
		sum += v * roots[e]
		if e += k; e >= int64(len(x)) {
			e -= int64(len(x))
		}
	}
	return sum
}

// RootOfUnity is exp(-2 pi i k / n) with 0 <= k < n. The angle is reduced to an eighth of a turn in integers, so that
// both parts are correctly rounded or nearly so.
func RootOfUnity(k, n int64) (re, im float64) {
	k8 := 8 * k
	octant := k8 / n
	rest := k8 - octant*n // of an eighth, in n-ths
	if octant%2 != 0 {
		rest = n - rest
	}
	s, c := math.Sincos(math.Pi / 4 * float64(rest) / float64(n))
	switch octant {
	case 0:
		return c, -s
	case 1:
		return s, -c
	case 2:
		return -s, -c
	case 3:
		return -c, -s
	case 4:
		return -c, s
	case 5:
		return -s, c
	case 6:
		return s, c
	}
	return c, s
}
