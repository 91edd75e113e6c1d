package lower_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
)

// Arguments and values, computed in 40 digits.
var specialValues = map[op.Fn][][2]float64{
	op.FnAcos:    {{-1.0, 3.1415926535897932}, {-0.75, 2.4188584057763776}, {-0.25, 1.8234765819369753}, {0.125, 1.4454684956268312}, {0.5, 1.0471975511965977}, {0.9375, 0.35542120169022349}, {1.0, 0.0}},
	op.FnAcosh:   {{1.0, 0.0}, {1.0625, 0.35173739004326058}, {2.0, 1.3169578969248167}, {30.0, 4.0940666686320851}, {100000.0, 12.206072645505174}, {10000000.0, 16.811242831518263}},
	op.FnAsin:    {{-1.0, -1.5707963267948966}, {-0.75, -0.84806207898148101}, {0.0009765625, 0.00097656265522049572}, {0.5, 0.52359877559829887}, {0.9375, 1.2153751251046731}},
	op.FnAsinh:   {{-10000000.0, -16.811242831518268}, {-3.0, -1.8184464592320668}, {-0.25, -0.24746646154726345}, {0.0009765625, 0.00097656234477963751}, {2.0, 1.4436354751788103}, {100000.0, 12.206072645555174}},
	op.FnAtan:    {{-1000000.0, -1.5707953267948966}, {-3.0, -1.2490457723982544}, {-0.4375, -0.41241044159738731}, {0.0009765625, 0.00097656218955931943}, {0.375, 0.35877067027057222}, {0.5, 0.46364760900080612}, {1.0, 0.78539816339744831}, {2.5, 1.1902899496825317}},
	op.FnAtanh:   {{-0.96875, -2.0715673631957663}, {-0.25, -0.25541281188299534}, {0.0009765625, 0.00097656281044103584}, {0.5, 0.54930614433405485}, {0.75, 0.97295507452765665}},
	op.FnDigamma: {{-3.75, -1.6923885983113303}, {-0.5, 0.036489973978576521}, {0.0625, -16.478853490060104}, {0.5, -1.9635100260214235}, {1.0, -0.57721566490153286}, {1.5, 0.036489973978576521}, {3.0, 0.92278433509846714}, {5.9375, 1.6947204558818013}, {6.5, 1.7929113303999329}, {100.0, 4.6001618527380874}},
	op.FnErfc:    {{-3.0, 1.9999779095030014}, {-0.25, 1.2763263901682369}, {0.25, 0.72367360983176307}, {0.5, 0.47950012218695346}, {0.75, 0.28884436634648487}, {2.0, 0.0046777349810472658}, {5.0, 1.5374597944280349e-12}, {9.0, 4.1370317465138102e-37}},
	op.FnErfcx:   {{-2.0, 108.94090438997797}, {-0.25, 1.3586423701047221}, {0.0, 1.0}, {0.25, 0.77034654773099674}, {1.0, 0.427583576155807}, {5.0, 0.11070463773306863}, {30.0, 0.018795888861416751}, {100000.0, 5.6418958351954681e-6}},
	op.FnErfinv:  {{-0.96875, -1.5230194019969561}, {-0.5, -0.47693627620446987}, {0.0009765625, 0.00086545619796713755}, {0.25, 0.2253120550121781}, {0.75, 0.81341984759761854}, {0.7578125, 0.82698726792339872}, {0.9990234375, 2.3314677736219477}, {0.99999988, 3.7430667755125942}},
	op.FnI0:      {{-3.0, 4.8807925858650241}, {0.0, 1.0}, {0.5, 1.0634833707413235}, {7.5, 268.16131151518936}, {8.5, 683.16192699011561}, {20.0, 43558282.559553533}},
	op.FnI0e:     {{-3.0, 0.2430003541618254}, {0.0, 1.0}, {0.5, 0.64503527044915007}, {7.5, 0.1483158300773955}, {8.5, 0.1390018430548476}, {100.0, 0.039944379299096683}},
	op.FnI1:      {{-3.0, -3.9533702174026094}, {0.0, 0.0}, {0.5, 0.25789430539089632}, {7.5, 249.58436542268814}, {8.5, 641.61990254006676}, {20.0, 42454973.38512777}},
	op.FnI1e:     {{-3.0, -0.19682671329730085}, {0.0, 0.0}, {0.5, 0.1564208031848717}, {7.5, 0.1380412115485542}, {8.5, 0.13054935509459586}, {100.0, 0.039744153025130253}},
	op.FnLgamma:  {{-3.75, -1.3172679424463637}, {-0.5, 1.2655121234846454}, {0.0625, 2.7396316219462034}, {0.96875, 0.018853672334412891}, {1.0625, -0.032957100293577819}, {1.96875, -0.012895025980167411}, {2.0625, 0.027667521522857023}, {2.9375, 0.63625086284237614}, {3.5, 1.2009736023470742}, {20.0, 39.339884187199494}, {100000.0, 1051287.7089736569}},
	op.FnLog10:   {{0.0625, -1.2041199826559248}, {0.96875, -0.013788284485633296}, {1.0625, 0.026328938722349148}, {10.0, 1.0}, {1000.0, 3.0}},
	op.FnLog2:    {{0.0625, -4.0}, {0.96875, -0.045803689613124791}, {1.0625, 0.087462841250339408}, {8.0, 3.0}, {1000.0, 9.965784284662087}},
	op.FnLogNdtr: {{-20.0, -203.91715537109726}, {-2.0, -3.7831843336820319}, {-1.0, -1.8410216450092635}, {-0.5, -1.1759117615936186}, {0.0, -0.69314718055994531}, {1.0, -0.17275377902344989}, {5.0, -2.8665161296376359e-7}},
	op.FnNdtri:   {{1e-30, -11.464024688443616}, {1e-12, -7.0344838253011319}, {0.001, -3.0902323061678135}, {0.0625, -1.5341205443525463}, {0.125, -1.1503493803760082}, {0.25, -0.67448975019608174}, {0.5, 0.0}, {0.75, 0.67448975019608174}, {0.9375, 1.5341205443525463}},
}

var specialPairs = map[op.Fn][][3]float64{
	op.FnAtan2:    {{1.0, 2.0, 0.46364760900080612}, {-2.0, 1.0, -1.1071487177940905}, {0.5, -0.25, 2.0344439357957027}, {-1.0, -3.0, -2.819842099193151}},
	op.FnIgamma:   {{0.25, 0.125, 0.64015720608308411}, {0.5, 2.0, 0.95449973610364159}, {1.0, 1.0, 0.63212055882855768}, {2.5, 1.0, 0.15085496391539036}, {2.5, 4.0, 0.84376437242227767}, {20.0, 19.0, 0.43939261060849159}, {20.0, 23.0, 0.76228628891464039}, {200.0, 190.0, 0.2433474271006238}},
	op.FnIgammac:  {{0.25, 0.125, 0.35984279391691589}, {0.5, 2.0, 0.045500263896358414}, {1.0, 1.0, 0.36787944117144232}, {2.5, 1.0, 0.84914503608460964}, {2.5, 4.0, 0.15623562757772233}, {20.0, 19.0, 0.56060738939150841}, {20.0, 23.0, 0.23771371108535961}, {200.0, 210.0, 0.23603032549884615}},
	op.FnZeta:     {{1.5, 1.0, 2.6123753486854883}, {2.0, 0.0625, 257.50642004291541}, {3.0, 2.5, 0.1181020258208637}, {20.0, 1.5, 0.00030073966816718435}, {100.0, 1.25, 2.0370359763344861e-10}},
	op.FnCopysign: {{2, -3, -2}, {-2, 0, 2}, {-2, math.Copysign(0, -1), -2}},
	op.FnGcd:      {{12, -18, 6}, {0, 5, 5}, {0, 0, 0}, {832040, 514229, 1}},
}

// precision is the error relative to the value or, below 1, absolute: a few units in the
// last place; logarithms and tails of float32 lose one more digit.
var precision = map[ir.DType]float64{ir.F32: 2e-6, ir.F64: 2e-14}

func TestSpecialFunctions(t *testing.T) {
	for _, d := range []ir.DType{ir.F32, ir.F64} {
		for f, cases := range specialValues {
			for _, c := range cases {
				e := optest.New()
				x := e.Tensor(d, []int64{1}, c[0])
				got := e.Floats(emit(e, "special", []int64{int64(f)}, x)[0])[0]
				// A rounded argument moves the value: the inverse functions near their ends are steep.
				if d == ir.F32 && e.Floats(x)[0] != c[0] {
					continue
				}
				require.InDelta(t, c[1], got, precision[d]*math.Max(1, math.Abs(c[1])), "%v(%v) in %v", f, c[0], d)
			}
		}
	}
}

func TestSpecialPairs(t *testing.T) {
	for _, d := range []ir.DType{ir.F32, ir.F64, ir.I32, ir.I64} {
		for f, cases := range specialPairs {
			if (f == op.FnGcd) != d.IsInt() {
				continue
			}
			for _, c := range cases {
				e := optest.New()
				x, y := e.Tensor(d, []int64{1}, c[0]), e.Tensor(d, []int64{1}, c[1])
				got := e.Floats(emit(e, "special", []int64{int64(f)}, x, y)[0])[0]
				require.InDelta(t, c[2], got, precision[d]*math.Max(1, math.Abs(c[2])), "%v(%v, %v) in %v", f, c[0], c[1], d)
			}
		}
	}
}

// TestZetaBelowZero: the terms below zero are added to the sum from above.
func TestZetaBelowZero(t *testing.T) {
	e := optest.New()
	for _, s := range []float64{2, 3, 4} {
		for _, q := range []float64{-0.25, -1.5, -7.75, -25.5} {
			x := e.Tensor(ir.F64, []int64{2}, s, s)
			y := e.Tensor(ir.F64, []int64{2}, q, q+26)
			got := e.Floats(emit(e, "special", []int64{int64(op.FnZeta)}, x, y)[0])
			want := got[1]
			for i := range 26 {
				want += math.Pow(q+float64(i), -s)
			}
			require.InEpsilon(t, want, got[0], 1e-12, "zeta(%v, %v)", s, q)
		}
	}
}

// TestEnds holds the values at the ends of the domains and beyond.
func TestEnds(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	cases := map[op.Fn][][2]float64{
		op.FnAcos: {{2, nan}, {nan, nan}}, op.FnAcosh: {{0.5, nan}, {-3, nan}, {inf, inf}}, op.FnAsin: {{-1.5, nan}}, op.FnAsinh: {{-inf, -inf}, {nan, nan}},
		op.FnAtan: {{inf, math.Pi / 2}, {-inf, -math.Pi / 2}, {nan, nan}}, op.FnAtanh: {{1, inf}, {-1, -inf}, {2, nan}},
		op.FnDigamma: {{0, -inf}, {-3, nan}, {inf, inf}, {nan, nan}}, op.FnErfc: {{inf, 0}, {-inf, 2}, {nan, nan}}, op.FnErfcx: {{inf, 0}, {-inf, inf}, {nan, nan}},
		op.FnErfinv: {{1, inf}, {-1, -inf}, {1.5, nan}, {nan, nan}}, op.FnI0e: {{inf, 0}, {nan, nan}}, op.FnI1e: {{nan, nan}},
		op.FnLgamma: {{0, inf}, {-2, inf}, {inf, inf}, {-inf, inf}, {nan, nan}}, op.FnLog2: {{0, -inf}, {-1, nan}, {inf, inf}, {nan, nan}},
		op.FnLogNdtr: {{-inf, -inf}, {inf, 0}, {nan, nan}}, op.FnNdtri: {{0, -inf}, {1, inf}, {-0.5, nan}, {1.5, nan}, {nan, nan}},
		op.FnFrexpExponent: {{0, 0}, {8, 4}, {-0.75, 0}, {inf, 0}}, op.FnFrexpMantissa: {{0, 0}, {8, 0.5}, {-0.75, -0.75}, {inf, inf}, {nan, nan}},
	}
	for _, d := range []ir.DType{ir.F32, ir.F64} {
		for f, list := range cases {
			for _, c := range list {
				e := optest.New()
				got := e.Floats(emit(e, "special", []int64{int64(f)}, e.Tensor(d, []int64{1}, c[0]))[0])[0]
				near(t, d, c[1:], []float64{got}, f, c[0])
			}
		}
	}
}

// TestNextafter crosses zero, powers of two, the subnormals and the largest number.
func TestNextafter(t *testing.T) {
	tiny := map[ir.DType]float64{ir.F16: math.Ldexp(1, -24), ir.BF16: math.Ldexp(1, -133), ir.F32: math.Ldexp(1, -149), ir.F64: math.Ldexp(1, -1074)}
	bits := map[ir.DType]int{ir.F16: 11, ir.BF16: 8, ir.F32: 24, ir.F64: 53}
	for d, least := range tiny {
		ulp := math.Ldexp(1, 1-bits[d])
		e := optest.New()
		for _, c := range [][3]float64{{0, 1, least}, {0, -1, -least}, {least, -1, 0}, {-least, 0, 0}, {1, 2, 1 + ulp}, {1, 0, 1 - ulp/2}, {-1, 0, ulp/2 - 1}, {-2, -3, -2 - 2*ulp},
			{3, 3, 3}, {1, math.NaN(), math.NaN()}} {
			got := e.Floats(emit(e, "special", []int64{int64(op.FnNextafter)}, e.Tensor(d, []int64{1}, c[0]), e.Tensor(d, []int64{1}, c[1]))[0])[0]
			if math.IsNaN(c[2]) {
				require.True(t, math.IsNaN(got))
				continue
			}
			require.Equal(t, c[2], got, "nextafter(%v, %v) in %v", c[0], c[1], d)
		}
	}
	e := optest.New()
	half := func(v float64) op.Val { return e.Tensor(ir.F16, []int64{1}, v) }
	next := func(x, y float64) float64 {
		return e.Floats(emit(e, "special", []int64{int64(op.FnNextafter)}, half(x), half(y))[0])[0]
	}
	normal := math.Ldexp(1, -14)
	require.Equal(t, normal-math.Ldexp(1, -24), next(normal, 0))
	require.Equal(t, math.Inf(1), next(65504, math.Inf(1)))
	require.Equal(t, -65504.0, next(math.Inf(-1), 0))
}
