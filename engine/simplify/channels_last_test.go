package simplify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// invertedText is a first convolution with relu6 as PyTorch writes it, a depthwise convolution with limits, and two
// products of channels, the second of which is added to the first.
const invertedText = `input $0 : f32[1,3,8,8]
constant $1 : f32[24,3,3,3]
constant $2 : f32[24]
constant $3 : f32[24,1,3,3]
constant $4 : f32[20,24,1,1]
constant $5 : f32[20,20,1,1]
%0 = conv{2,3,3,2,2,1,1,1,1,1,1,4,4,1} $0 $1 : f32[1,24,4,4]
%1 = add %0 $2[1,24,4,4](24,1,0,0) : f32[1,24,4,4]
%2 = compare{ge} %1 6.0 : bool[1,24,4,4]
%3 = where %2 6.0 %1 : f32[1,24,4,4]
%4 = compare{le} %1 0.0 : bool[1,24,4,4]
%5 = where %4 0.0 %3 : f32[1,24,4,4]
%6 = conv{2,3,3,1,1,1,1,1,1,1,1,4,4,24} %5 $3 : f32[1,24,4,4]
%7 = add %6 $2[1,24,4,4](24,1,0,0) : f32[1,24,4,4]
%8 = relu %7 : f32[1,24,4,4]
%9 = conv{2,1,1,1,1,0,0,1,1,1,1,4,4,1} %8 $4 : f32[1,20,4,4]
%10 = conv{2,1,1,1,1,0,0,1,1,1,1,4,4,1} %9 $5 : f32[1,20,4,4]
%11 = add %9 %10 : f32[1,20,4,4]
%12 = sum{2,3} %11 : f32[1,20] live
return %12
`

func TestDepthwiseNetworksKeepChannelsLast(t *testing.T) {
	_, rest, _ := Split(ChannelsLast(edited(t, invertedText), 1), 1)
	text := checked(t, rest)
	const zero, six, inf = "0", "1086324736", "2139095040"
	for _, want := range []string{
		"conv_last{2,3,3,2,2,1,1,1,1,1,1,4,4,24,0,0," + zero + "," + six + "} $0[1,8,8,3](192,8,1,64)",
		"conv_last{2,3,3,1,1,1,1,1,1,1,1,4,4,24,1,0," + zero + "," + inf + "}",
		"conv_last{2,1,1,1,1,0,0,1,1,1,1,4,4,20,0,0,",
		"conv_last{2,1,1,1,1,0,0,1,1,1,1,4,4,20,0,1,",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, " conv{")
	assert.NotContains(t, text, "where")
	assert.NotContains(t, text, "= copy")
	assert.Contains(t, text, "= sum{1,2}")
	text = checked(t, ChannelsLast(edited(t, invertedText, "%11 : f32[1,20] live",
		"%11 : f32[1,20] live\n%13 = neg %8 : f32[1,24,4,4] live",
		"return %12", "return %12 %13"), 1))
	assert.Contains(t, text, "= copy %9[1,24,4,4](384,1,96,24)", "the value that neg reads")

	pooled := edited(t, invertedText, "%12 = sum{2,3} %11 : f32[1,20] live\nreturn %12",
		"%12 = window_sum{2,4,4,1,1,0,0,1,1,1,1,1,1} %11 : f32[1,20,1,1]\n%13 = neg %12 : f32[1,20,1,1] live\nreturn %13")
	text = checked(t, ChannelsLast(pooled, 1))
	assert.Contains(t, text, "= sum{1,2}")
	assert.NotContains(t, text, "window_sum")

	for name, edits := range map[string][]string{
		"a second limit that differs": {"%1 6.0 : bool", "%1 5.0 : bool"},
		"another relation":            {"compare{le}", "compare{lt}"},
		"strict":                      {"compare{ge}", "compare{gt}"},
	} {
		text := ChannelsLast(edited(t, invertedText, edits...), 1).String()
		assert.Contains(t, text, "where", name)
	}
	for name, edits := range map[string][]string{
		"no depthwise convolution": {"4,4,24} %5", "4,4,1} %5", "$3 : f32[24,1,3,3]", "$3 : f32[24,24,3,3]"},
		"weights of a caller":      {"constant $3", "input $3"},
	} {
		p := edited(t, invertedText, edits...)
		assert.Same(t, p, ChannelsLast(p, 4), name)
	}
	p := parsed(t, strings.ReplaceAll(invertedText, "f32", "f64"))
	assert.Same(t, p, ChannelsLast(p, 1), "float64")
}

// residualText is a first convolution, a pool, a residual block of 3x3 taps whose results are computed as squares, and
// a convolution with steps of 2.
const residualText = `input $0 : f32[1,3,16,16]
constant $1 : f32[20,3,7,7]
constant $2 : f32[20,20,3,3]
constant $3 : f32[40,20,3,3]
constant $4 : f32[20]
%0 = conv{2,7,7,1,1,3,3,1,1,1,1,16,16,1} $0 $1 : f32[1,20,16,16]
%1 = relu %0 : f32[1,20,16,16]
%2 = window_max{2,3,3,2,2,1,1,1,1,1,1,8,8} %1 : f32[1,20,8,8]
%3 = conv{2,3,3,1,1,1,1,1,1,1,1,8,8,1} %2 $2 : f32[1,20,8,8]
%4 = add %3 $4[1,20,8,8](20,1,0,0) : f32[1,20,8,8]
%5 = relu %4 : f32[1,20,8,8]
%6 = conv{2,3,3,1,1,1,1,1,1,1,1,8,8,1} %5 $2 : f32[1,20,8,8]
%7 = add %6 %2 : f32[1,20,8,8]
%8 = relu %7 : f32[1,20,8,8]
%9 = conv{2,3,3,2,2,1,1,1,1,1,1,4,4,1} %8 $3 : f32[1,40,4,4]
%10 = sum{2,3} %9 : f32[1,40] live
return %10
`

func TestNetworksOfWinogradKeepChannelsLast(t *testing.T) {
	_, rest, _ := Split(ChannelsLast(edited(t, residualText), 1), 1)
	text := checked(t, rest)
	for _, want := range []string{
		"conv_last{2,7,7,1,1,3,3,1,1,1,1,16,16,20,0,0,",
		"window_max{3,3,3,1,2,2,1,1,1,0,1,1,1,1,1,1,8,8,20}",
		"conv_last{2,3,3,1,1,1,1,1,1,1,1,8,8,20,0,0,",
		"conv_last{2,3,3,1,1,1,1,1,1,1,1,8,8,20,0,1,",
		"conv_last{2,3,3,2,2,1,1,1,1,1,1,4,4,40,0,0,",
		"= sum{1,2}",
	} {
		assert.Contains(t, text, want)
	}
	for _, no := range []string{" conv{", "= copy", "relu"} {
		assert.NotContains(t, text, no)
	}
	text = checked(t, ChannelsLast(edited(t, residualText, "%9 : f32[1,40] live",
		"%9 : f32[1,40] live\n%11 = neg %2 : f32[1,20,8,8] live", "return %10", "return %10 %11"), 1))
	assert.Contains(t, text, "[1,20,8,8](1280,1,160,20)", "the pool's value that neg reads")

	for name, edits := range map[string][]string{
		"dilation": {"3,3,1,1,1,1,1,1,1,1,8,8,1} %2", "3,3,1,1,2,2,2,2,1,1,8,8,1} %2", "3,3,1,1,1,1,1,1,1,1,8,8,1} %5",
			"3,3,1,1,2,2,2,2,1,1,8,8,1} %5"},
		"groups": {"8,8,1} %2 $2", "8,8,2} %2 $5", "8,8,1} %5 $2", "8,8,2} %5 $5", "constant $4 : f32[20]",
			"constant $4 : f32[20]\nconstant $5 : f32[20,10,3,3]"},
	} {
		p := edited(t, residualText, edits...)
		assert.Same(t, p, ChannelsLast(p, 1), name)
	}
}

// A convolution by Winograd's filtering alone has a copy before it and one after it.
func TestFilteringPaysForCopiesOfItsChannels(t *testing.T) {
	const alone = `input $0 : f32[1,N,8,8]
constant $1 : f32[N,N,3,3]
%0 = conv{2,3,3,1,1,1,1,1,1,1,1,8,8,1} $0 $1 : f32[1,N,8,8] live
return %0
`
	for channels, turns := range map[string]bool{"64": true, "32": false} {
		p := parsed(t, strings.ReplaceAll(alone, "N", channels))
		if q := ChannelsLast(p, 1); turns {
			assert.Equal(t, 3, strings.Count(checked(t, q), "= copy")) // the constant's too
		} else {
			assert.Same(t, p, q)
		}
	}
}
