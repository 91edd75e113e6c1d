package op

// Fn is the attribute of primitive special: the function that it computes. engine/lower has the table of values,
// engine/op/prim the table of derivatives.
type Fn int64

// The functions of one argument, then those of two.
const (
	FnAcos Fn = iota
	FnAcosh
	FnAiry
	FnAsin
	FnAsinh
	FnAtan
	FnAtanh
	FnBesselJ0
	FnBesselJ1
	FnBesselK0
	FnBesselK0e
	FnBesselK1
	FnBesselK1e
	FnBesselY0
	FnBesselY1
	FnDigamma
	FnErf
	FnErfc
	FnErfcx
	FnErfinv
	FnExpm1
	FnFrexpExponent
	FnFrexpMantissa
	FnI0
	FnI0e
	FnI1
	FnI1e
	FnLgamma
	FnLog10
	FnLog1p
	FnLog2
	FnLogNdtr
	FnNdtri
	FnTan
	FnAtan2
	FnCopysign
	FnFmod
	FnGcd
	FnIgamma
	FnIgammac
	FnNextafter
	FnZeta
	NumFns
)

var functionNames = [NumFns]string{"acos", "acosh", "airy_ai", "asin", "asinh", "atan", "atanh",
	"bessel_j0", "bessel_j1", "modified_bessel_k0", "scaled_modified_bessel_k0",
	"modified_bessel_k1", "scaled_modified_bessel_k1", "bessel_y0", "bessel_y1",
	"digamma", "erf", "erfc", "erfcx", "erfinv", "expm1",
	"frexp_exponent", "frexp_mantissa", "i0", "i0e", "i1", "i1e", "lgamma", "log10", "log1p", "log2", "log_ndtr", "ndtri",
	"tan",
	"atan2", "copysign", "fmod", "gcd", "igamma", "igammac", "nextafter", "zeta"}

// FnNames lists the names of the functions.
func FnNames() []string { return functionNames[:] }

// String is PyTorch's name of the function.
func (f Fn) String() string { return functionNames[f] }

// Arity is the number of arguments.
func (f Fn) Arity() int {
	if f < FnAtan2 {
		return 1
	}
	return 2
}
