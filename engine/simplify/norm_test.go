package simplify

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layerNorm is a layer norm that is written out, with a weight.
const layerNorm = `input $0 : f32[6,8]
constant $1 : f32[8]
%0 = sum{1} $0 : f32[6]
%1 = div %0[6,1] 8.0 : f32[6,1]
%2 = sub $0 %1[6,8](1,0) : f32[6,8]
%3 = mul %2 %2 : f32[6,8]
%4 = sum{1} %3 : f32[6]
%5 = div %4[6,1] 8.0 : f32[6,1]
%6 = add %5 1e-05 : f32[6,1]
%7 = sqrt %6 : f32[6,1]
%8 = div %2 %7[6,8](1,0) : f32[6,8]
%9 = mul %8 $1[6,8](0,1) : f32[6,8] live
return %9
`

// varianceNorm is a layer norm of the variance's primitive.
const varianceNorm = `input $0 : f32[6,8]
%0 = var{1} $0 0.0 : f32[6]
%1 = result{1} %0 : f32[6]
%2 = sub $0 %1[6,8](1,0) : f32[6,8]
%3 = add %0[6,1] 1e-05 : f32[6,1]
%4 = rsqrt %3 : f32[6,1]
%5 = mul %2 %4[6,8](1,0) : f32[6,8] live
return %5
`

// rootMeanSquare is a root mean square normalization of the last two dims, with a reciprocal.
const rootMeanSquare = `input $0 : f32[3,2,4]
%0 = mul $0 $0 : f32[3,2,4]
%1 = sum{1,2} %0 : f32[3]
%2 = div %1[3,1,1] 8.0 : f32[3,1,1]
%3 = add 0.5 %2 : f32[3,1,1]
%4 = sqrt %3 : f32[3,1,1]
%5 = div 1.0 %4 : f32[3,1,1]
%6 = mul %5[3,2,4](1,0,0) $0 : f32[3,2,4] live
return %6
`

func TestNormalizationThatIsWrittenOutIsFound(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"layer norm": {layerNorm, "layer_norm{1,0,0,0} $0 1e-05"},
		"of a view": {strings.NewReplacer("$0 : f32[6,8]", "$0 : f32[8,6]", "sum{1} $0", "sum{1} $0[6,8](1,6)", "sub $0",
			"sub $0[6,8](1,6)").Replace(layerNorm), "layer_norm{1,0,0,0} $0[6,8](1,6) 1e-05"},
		"rms, reciprocal": {rootMeanSquare, "layer_norm{2,0,0,1} $0 0.5"},
		"rms, rsqrt": {strings.NewReplacer("%4 = sqrt", "%4 = rsqrt", "%5 = div 1.0 %4 : f32[3,1,1]\n", "", "%6 = mul %5",
			"%5 = mul %4", "return %6", "return %5").Replace(rootMeanSquare), "layer_norm{2,0,0,1} $0 0.5"},
		"differences apart": {strings.NewReplacer("%9", "%10", "%8", "%9", "%7", "%8", "%6", "%7", "%5", "%6", "%4", "%5",
			"%3 = mul %2 %2", "%3 = sub $0 %1[6,8](1,0) : f32[6,8]\n%4 = mul %3 %3", "%3", "%4").Replace(layerNorm),
			"layer_norm{1,0,0,0} $0 1e-05"},
		"weighted before": {strings.NewReplacer("%8 = div %2 %7[6,8](1,0)", "%8 = mul $1[6,8](0,1) %2",
			"%9 = mul %8 $1[6,8](0,1)", "%9 = div %8 %7[6,8](1,0)").Replace(layerNorm), "layer_norm{1,0,0,0} $0 1e-05"},
		"variance": {varianceNorm, "layer_norm{1,0,0,0} $0 1e-05"},
	} {
		out := Norms(parsed(t, c.text), 1)
		text := checked(t, out)
		assert.Contains(t, text, c.want, name)
		assert.NotContains(t, text, "sum", name)
	}
	for name, edit := range map[string][2]string{
		"another divisor":       {"div %4[6,1] 8.0", "div %4[6,1] 7.0"},
		"a divisor of the mean": {"div %0[6,1] 8.0", "div %0[6,1] 9.0"},
		"the first dim": {"sum{1} %3 : f32[6]\n%5 = div %4[6,1] 8.0",
			"sum{0} %3[8,6](1,8) : f32[6]\n%5 = div %4[6,1] 8.0"},
		"a negative number":      {"1e-05", "-1e-05"},
		"another mean":           {"sub $0 %1", "sub $0[6,8](0,1) %1"},
		"someone reads the root": {"return %9", "%10 = neg %7 : f32[6,1] live\nreturn %9 %10"},
		"someone reads the sum":  {"return %9", "%10 = neg %4 : f32[6] live\nreturn %9 %10"},
	} {
		text := strings.Replace(layerNorm, edit[0], edit[1], 1)
		require.NotEqual(t, layerNorm, text, name)
		p := parsed(t, text)
		out := Norms(p, 1)
		if out != p {
			assert.NotContains(t, checked(t, out), "layer_norm{1,0,0,0}", name)
		}
	}
	p := parsed(t, strings.Replace(varianceNorm, "0.0", "1.0", 1))
	assert.Same(t, p, Norms(p, 1), "another divisor of the variance")
	p = parsed(t, strings.ReplaceAll(layerNorm, "f32", "f64"))
	assert.Same(t, p, Norms(p, 1), "statistics of float64 have another rounding")
}

func TestConstantsOfOneElementBecomeNumbers(t *testing.T) {
	const text = `input $0 : f32[6,8]
constant $1 : f32[]
constant $2 : f32[8]
%0 = pow $0 $1[6,8](0,0) : f32[6,8]
%1 = add $2[6,8](0,1) %0 : f32[6,8]
%2 = div $1[6,8](0,0) %1 : f32[6,8] live
return %2
`
	contents := func(v float32) func(int) []byte {
		return func(i int) []byte {
			require.Equal(t, 1, i)
			return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
		}
	}
	for v, want := range map[float32]string{2: "mul $0 $0", 3: "= mul %0 $0", 0.5: "sqrt $0", -0.5: "rsqrt $0",
		5: "pow $0 5.0"} {
		out := Numbers(parsed(t, text), 1, contents(v))
		got := checked(t, out)
		assert.Contains(t, got, want)
		assert.NotContains(t, got, "$1[")
		assert.Contains(t, got, "add $2[6,8](0,1) ")
		assert.Regexp(t, `div -?[0-9.]+ %`, got)
	}
	p := parsed(t, text)
	assert.Same(t, p, Numbers(p, 1, func(int) []byte { return nil }), "the host cannot read it")
	p = parsed(t, strings.Replace(text, "constant $1", "input $1", 1))
	assert.Same(t, p, Numbers(p, 2, contents(2)), "a caller gives it")
	p = parsed(t, strings.ReplaceAll(text, "f32", "bf16"))
	assert.Same(t, p, Numbers(p, 1, contents(2)))
}

// Numbers that a file has in another dtype are converted first.
func TestConstantsBehindCastsBecomeNumbers(t *testing.T) {
	const text = `input $0 : f32[6,8]
constant $1 : f64[1]
%0 = cast{7} $1 : f32[1]
%1 = mul $0 %0[6,8](0,0) : f32[6,8] live
return %1
`
	for _, c := range []struct {
		dtype string
		bits  uint64
		want  string
	}{
		{"f64", math.Float64bits(0.1), "mul $0 0.1"},
		{"i64", math.MaxUint64, "mul $0 -1.0"},
		{"i32", 7, "mul $0 7.0"},
		{"f16", 0x3800, "mul $0 0.5"},
		{"bf16", 0xc000, "mul $0 -2.0"},
		{"i64", 1 << 60, "mul $0 %0["},
		{"u8", 200, "mul $0 200.0"},
		{"i8", 200, "mul $0 -56.0"},
		{"i16", 0xffff, "mul $0 -1.0"},
		{"u64", 7, "mul $0 %0["},
	} {
		p := parsed(t, strings.Replace(text, "f64", c.dtype, 1))
		out := Numbers(p, 1, func(int) []byte { return binary.LittleEndian.AppendUint64(nil, c.bits) })
		assert.Contains(t, checked(t, out), c.want, c.dtype)
	}
}
