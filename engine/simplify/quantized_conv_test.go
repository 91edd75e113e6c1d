package simplify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// integersText is a convolution of dequantized values whose result is quantized after a bias and a relu.
const integersText = `input $0 : u8[1,6,5,5]
constant $1 : i8[8,3,3,3]
constant $2 : f32[8]
constant $3 : i8[8]
constant $4 : f32[8]
%0 = cast{7} $0 : f32[1,6,5,5]
%1 = sub %0 120.0 : f32[1,6,5,5]
%2 = mul %1 0.5 : f32[1,6,5,5]
%3 = cast{7} $1 : f32[8,3,3,3]
%4 = cast{7} $3 : f32[8]
%5 = sub %3 %4[8,3,3,3](1,0,0,0) : f32[8,3,3,3]
%6 = mul %5 $2[8,3,3,3](1,0,0,0) : f32[8,3,3,3]
%7 = conv{2,3,3,1,1,1,1,1,1,1,1,5,5,2} %2 %6 : f32[1,8,5,5]
%8 = add %7 $4[1,8,5,5](8,1,0,0) : f32[1,8,5,5]
%9 = relu %8 : f32[1,8,5,5]
%10 = div %9 0.25 : f32[1,8,5,5]
%11 = step{round} %10 : f32[1,8,5,5]
%12 = add %11 3.0 : f32[1,8,5,5]
%13 = clip{maximum} %12 0.0 : f32[1,8,5,5]
%14 = clip{minimum} %13 255.0 : f32[1,8,5,5]
%15 = cast{2} %14 : i32[1,8,5,5]
%16 = cast{9} %15 : u8[1,8,5,5] live
return %16
`

// rowsText is a product of rows.
const rowsText = `input $0 : u8[40,6]
constant $1 : i8[6,8]
constant $2 : f32[8]
constant $3 : f32[8]
%0 = cast{7} $0 : f32[40,6]
%1 = mul %0 0.5 : f32[40,6]
%2 = cast{7} $1 : f32[6,8]
%3 = mul %2 $2[6,8](0,1) : f32[6,8]
%4 = matmul{1} %1 %3 $3 : f32[40,8] live
return %4
`

func TestConvolutionsOfNumbersOf8BitsStayIntegers(t *testing.T) {
	zeros := func(int) []byte { return make([]byte, 8) }
	middles := func(int) []byte { return []byte{128, 128, 128, 128, 128, 128, 128, 128} }
	const windows = "quantized_conv{2,3,3,1,1,1,1,1,1,1,1,5,5,2,4,"
	for name, c := range map[string]struct {
		want     string
		contents func(int) []byte
		edits    []string
	}{
		"a relu is a limit": {windows + "9,120,3,3,255,0,0,0,0}", zeros, nil},
		"no relu":           {windows + "9,120,3,0,255,0,0,0,0}", zeros, []string{"relu %8", "clip{minimum} %8 1000.0"}},
		"a limit":           {windows + "9,120,3,0,27,0,0,0,0}", zeros, []string{"relu %8", "clip{minimum} %8 6.0"}},
		"no bias":           {windows + "9,120,3,3,255,0,0,0,0}", zeros, []string{"add %7 $4[1,8,5,5](8,1,0,0)", "relu %7"}},
		"no zero point":     {windows + "9,120,0,0,255,0,0,0,0}", zeros, []string{"add %11 3.0", "relu %11"}},
		"two readers": {windows + "7,120,0,0,0,0,0,0,0}", zeros, []string{"[1,8,5,5] live\nreturn %16",
			"[1,8,5,5] live\n%17 = neg %7 : f32[1,8,5,5] live\nreturn %16 %17"}},
		"bytes without a sign": {windows + "9,120,3,3,255,0,0,0,0}", middles, []string{
			"$1 : i8", "$1 : u8", "$3 : i8", "$3 : u8"}},
		"a result with a sign": {windows + "10,120,3,3,127,0,0,0,0}", zeros, []string{"%12 0.0", "%12 -128.0", "%13 255.0",
			"%13 127.0", "cast{9} %15 : u8", "cast{10} %15 : i8"}},
	} {
		_, rest, _ := Split(QuantizedConvs(edited(t, integersText, c.edits...), 1, c.contents), 1)
		text := checked(t, rest)
		assert.Contains(t, text, c.want, name)
		assert.NotContains(t, text, " conv{", name)
	}
	_, rest, _ := Split(QuantizedConvs(edited(t, rowsText), 1, zeros), 1)
	assert.Contains(t, checked(t, rest), "quantized_conv{2,1,1,1,1,0,0,1,1,1,1,40,1,1,8,7,0,0,0,0,1,0,0,0}")
	for name, edits := range map[string][]string{
		"a scale for each channel": {"%5 $2[8,3,3,3](1,0,0,0)", "%5 $2[8,3,3,3](0,1,0,0)"},
		"floats":                   {"input $0 : u8", "input $0 : f16"},
		"a scale that is a value":  {"mul %1 0.5", "mul %1 %1"},
	} {
		p := edited(t, integersText, edits...)
		assert.Same(t, p, QuantizedConvs(p, 1, zeros), name)
	}
	p := edited(t, integersText)
	assert.Same(t, p, QuantizedConvs(p, 1, func(int) []byte { return []byte{0, 1} }), "zero points that differ")
	p = edited(t, integersText, "constant $1", "input $1")
	assert.Same(t, p, QuantizedConvs(p, 2, zeros), "weights that a caller gives")
}

// sumsText are the sums of MatMulInteger in two parts, with the factor and the bias of a quantized linear layer.
const sumsText = `input $0 : u8[40,6]
input $1 : i32[1]
input $2 : f32[1]
constant $3 : i8[6,8]
constant $4 : f32[8]
constant $5 : f32[8]
%0 = cast{7} $0 : f32[40,6]
%1 = cast{9} $1 : u8[1]
%2 = cast{7} %1 : f32[1]
%3 = sub %0 %2[40,6](0,0) : f32[40,6]
%4 = cast{7} $3 : f32[6,8]
%5 = matmul{0} %3[40,4](6,1) %4[4,8](8,1) : f32[40,8]
%6 = cast{2} %5 : i32[40,8]
%7 = matmul{0} %3[40,2](6,1)+4 %4[2,8](8,1)+32 : f32[40,8]
%8 = cast{2} %7 : i32[40,8]
%9 = add %6 %8 : i32[40,8]
%10 = cast{7} %9 : f32[40,8]
%11 = mul $2[8](0) $4 : f32[8]
%12 = mul %10 %11[40,8](0,1) : f32[40,8]
%13 = add %12 $5[40,8](0,1) : f32[40,8] live
return %13
`

// zeroText has weights without a sign, which are less a zero for each output.
const zeroText = `input $0 : u8[40,6]
input $1 : u8[1]
input $2 : f32[1]
constant $3 : u8[6,8]
constant $4 : u8[8]
%0 = cast{7} $0 : f32[40,6]
%1 = cast{7} $1 : f32[1]
%2 = sub %0 %1[40,6](0,0) : f32[40,6]
%3 = cast{7} $3 : f32[6,8]
%4 = cast{7} $4 : f32[8]
%5 = sub %3 %4[6,8](0,1) : f32[6,8]
%6 = matmul{0} %2 %5 : f32[40,8]
%7 = cast{2} %6 : i32[40,8]
%8 = cast{7} %7 : f32[40,8] live
return %8
`

func TestSumsOfPartsOfWholeNumbersAreOneProductOfIntegers(t *testing.T) {
	const rows = "quantized_conv{2,1,1,1,1,0,0,1,1,1,1,40,1,1,8,7,0,0,0,0,1,1,0,0}"
	for name, c := range map[string]struct {
		want  string
		rows  bool // the factor differs between rows, and stays
		edits []string
	}{
		"a factor and a bias": {rows, false, nil},
		"a factor of all": {rows, false, []string{"mul $2[8](0) $4 : f32[8]", "mul $2 2.0 : f32[1]",
			"%11[40,8](0,1)", "%11[40,8](0,0)"}},
		"one of rows": {rows, true, []string{"input $2 : f32[1]", "input $2 : f32[40]",
			"mul $2[8](0) $4 : f32[8]", "neg $2 : f32[40]", "%11[40,8](0,1)", "%11[40,8](1,0)"}},
	} {
		_, rest, _ := Split(QuantizedConvs(edited(t, sumsText, c.edits...), 3, unread), 3)
		text := checked(t, rest)
		assert.Contains(t, text, c.want, name)
		assert.NotContains(t, text, "matmul{", name)
		assert.Equal(t, c.rows, strings.Contains(text, "= mul "), name)
	}
	for name, c := range map[string]struct {
		want string
		data func(int) []byte
		kind string
	}{
		"narrow":                    {",1,1,0,1}", func(int) []byte { return []byte{64, 192} }, "i8"},
		"wide":                      {",1,1,0,0}", func(int) []byte { return []byte{64, 191} }, "i8"},
		"without a sign and narrow": {",1,1,1,1}", func(int) []byte { return []byte{0, 128} }, "u8"},
		"without a sign and wide":   {",1,1,1,0}", func(int) []byte { return []byte{0, 129} }, "u8"},
	} {
		text := strings.Replace(sumsText, "$3 : i8", "$3 : "+c.kind, 1)
		if c.kind == "u8" { // which have a zero
			text = zeroText
		}
		_, rest, _ := Split(QuantizedConvs(parsed(t, text), 3, c.data), 3)
		assert.Contains(t, checked(t, rest), c.want, name)
	}
	one := strings.NewReplacer("40,", "1,", "(6,1)", "(4,1)").Replace(sumsText)
	_, rest, _ := Split(QuantizedConvs(parsed(t, one), 3, unread), 3)
	assert.Contains(t, checked(t, rest), "quantized_conv{2,1,1,1,1,0,0,1,1,1,1,1,1,1,8,7,", "one row")
	for name, edits := range map[string][]string{
		"parts that overlap": {"(8,1)+32", "(8,1)+24"},
		"a zero for each row": {"input $1 : i32[1]", "input $1 : i32[40]", "cast{9} $1 : u8[1]",
			"cast{9} $1 : u8[40]", "cast{7} %1 : f32[1]", "cast{7} %1 : f32[40]", "%2[40,6](0,0)", "%2[40,6](1,0)"},
		"sums that others read too": {"live\nreturn %13", "live\n%14 = neg %9 : i32[40,8] live\nreturn %13 %14"},
	} {
		p := edited(t, sumsText, edits...)
		assert.Same(t, p, QuantizedConvs(p, 3, unread), name)
	}
}
