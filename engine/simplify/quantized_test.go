package simplify

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/program"
)

// dequantizedText is a product with a weight of int8 that has a scale and a zero point for each output.
const dequantizedText = `input $0 : f32[3,70]
constant $1 : i8[70,20]
constant $2 : f32[20]
constant $3 : i8[20]
%0 = cast{7} $1 : f32[70,20]
%1 = cast{7} $3 : f32[20]
%2 = sub %0 %1[70,20](0,1) : f32[70,20]
%3 = mul %2 $2[70,20](0,1) : f32[70,20]
%4 = matmul{0} $0 %3 : f32[3,20] live
return %4
`

func TestWeightsOfInt8StayInt8(t *testing.T) {
	zeros := func(int) []byte { return make([]byte, 20) }
	changed := func(edits ...string) *program.Program { return edited(t, dequantizedText, edits...) }
	for name, edits := range map[string][]string{
		"a scale for each output": {},
		"one scale":               {"$2 : f32[20]", "$2 : f32[]", "%2 $2[70,20](0,1)", "%2 $2[70,20](0,0)"},
		"outputs first": {"$1 : i8[70,20]", "$1 : i8[20,70]", "$1 : f32[70,20]", "$1 : f32[20,70]",
			"%0 %1[70,20](0,1) : f32[70,20]", "%0 %1[20,70](1,0) : f32[20,70]", "%2 $2[70,20](0,1) : f32[70,20]",
			"%2 $2[20,70](1,0) : f32[20,70]", "matmul{0} $0 %3", "matmul{0} $0 %3[70,20](1,70)"},
		"no zero points": {"mul %2", "mul %0"},
		"a bias": {"constant $3 : i8[20]", "constant $3 : i8[20]\nconstant $4 : f32[20]", "matmul{0} $0 %3",
			"matmul{1} $0 %3 $4"},
	} {
		_, rest, _ := Split(Quantized(changed(edits...), 1, zeros), 1)
		text := checked(t, rest)
		assert.Contains(t, text, "quantized_product{8,", name)
		assert.NotContains(t, text, "matmul", name)
		assert.Contains(t, text, "i32[2,32,16]", name)
	}
	for name, edits := range map[string][]string{
		"a scale for each term": {"$2 : f32[20]", "$2 : f32[70]", "%2 $2[70,20](0,1)", "%2 $2[70,20](1,0)"},
		"bytes without a sign":  {"$1 : i8[70,20]", "$1 : u8[70,20]"},
		"many rows":             {"$0 : f32[3,70]", "$0 : f32[300,70]", "f32[3,20]", "f32[300,20]"},
	} {
		p := changed(edits...)
		assert.Same(t, p, Quantized(p, 1, zeros), name)
	}
	p := changed()
	assert.Same(t, p, Quantized(p, 1, func(int) []byte { return []byte{0, 1} }), "zero points that are not zero")
	p = changed("constant $1", "input $1")
	assert.Same(t, p, Quantized(p, 2, zeros), "a weight that a caller gives")
}
