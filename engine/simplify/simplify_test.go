package simplify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/program"
)

// parsed reads a program and checks it.
func parsed(t *testing.T, text string) *program.Program {
	p, err := program.Parse(text)
	require.NoError(t, err)
	return p
}

// checked requires a well-formed program and returns its text.
func checked(t *testing.T, p *program.Program) string {
	require.NoError(t, p.Verify(), "%s", p)
	return p.String()
}

// What only constants decide is computed apart; what a number makes stays where it is read, draws and results stay.
func TestSplitCutsOffWhatConstantsDecide(t *testing.T) {
	p := parsed(t, `input $0 : f32[4]
constant $1 : f32[4]
constant $2 : f32[4]
draws 1
%0 = neg $1 : f32[4]
%1 = abs %0 : f32[4]
%2 = add $0 %1 : f32[4]
%3 = random{7,0,rand_normal,4} seed draw+0 : f32[4]
%4 = add %2 %3 : f32[4]
%5 = mul %4 $2 : f32[4] live
%6 = neg $2 : f32[4] live
return %5 %6
`)
	fixed, rest, kept := Split(p, 1)
	require.NotNil(t, fixed)
	assert.Equal(t, []int{1}, kept)
	text := checked(t, fixed)
	assert.NotContains(t, text, "random")
	assert.Equal(t, 1, strings.Count(text, "neg"))
	text = checked(t, rest)
	assert.NotContains(t, text, "abs")
	assert.Contains(t, text, "neg")
	assert.Contains(t, text, "random")
	assert.Len(t, rest.Inputs, 4, "the result of fixed follows the inputs")
	assert.Equal(t, p.Drawn, rest.Drawn)
	assert.Len(t, rest.Draws, 1)
	none, same, _ := Split(rest, 4)
	assert.Nil(t, none)
	assert.Same(t, rest, same)
}

// Nodes that no result needs go, and constants that nobody reads; arguments stay.
func TestPruneDropsWhatNobodyNeeds(t *testing.T) {
	p := parsed(t, `input $0 : f32[4]
input $1 : f32[4]
constant $2 : f32[4]
constant $3 : f32[4]
%0 = neg $2 : f32[4]
%1 = add $0 $3 : f32[4] live
%2 = abs %0 : f32[4]
return %1
`)
	out, kept := Prune(p, 2)
	assert.Equal(t, []int{0, 1, 3}, kept)
	assert.Len(t, out.Nodes, 1)
	assert.Contains(t, checked(t, out), "add $0 $2")
}

// unread is contents that the host cannot read.
func unread(int) []byte { return nil }

// written is attention that is written out, on heads that are views; its last line is what reads the result.
const written = `input $0 : f32[2,4,3,8]
input $1 : f32[2,4,3,8]
input $2 : f32[2,3,4,8]
constant $3 : f32[4,4]
%0 = matmul{0} $0[2,3,4,8](96,8,24,1) $1[2,3,8,4](96,8,1,24) : f32[2,3,4,4]
%1 = div %0 2.0 : f32[2,3,4,4]
%2 = add %1 $3[2,3,4,4](0,0,4,1) : f32[2,3,4,4]
%3 = softmax{3,0} %2 : f32[2,3,4,4]
%4 = matmul{0} %3 $2 : f32[2,3,4,8]
`

// decomposed is attention as PyTorch decomposes it: queries and keys are scaled, and rows without a key are 0.
const decomposed = `input $0 : f32[2,4,3,8]
input $1 : f32[2,4,3,8]
input $2 : f32[2,3,4,8]
constant $3 : f32[4,4]
%0 = mul $0[2,3,4,8](96,8,24,1) 0.25 : f32[2,3,4,8]
%1 = mul 3.0 $1[2,3,8,4](96,8,1,24) : f32[2,3,8,4]
%2 = matmul{0} %0[6,4,8] %1[6,8,4] : f32[6,4,4]
%3 = add %2[2,3,4,4] $3[2,3,4,4](0,0,4,1) : f32[2,3,4,4]
%4 = softmax{3,0} %3 : f32[2,3,4,4]
%5 = compare{eq} %3 -Inf : bool[2,3,4,4]
%6 = compare{eq} %5 false : bool[2,3,4,4]
%7 = extremum{amax,3} %6 : bool[2,3,4]
%8 = compare{eq} %7[2,3,4,1] false : bool[2,3,4,1]
%9 = fill{7,0,2,3,4,4} 0.0 : f32[2,3,4,4]
%10 = where %8[2,3,4,4](12,4,1,0) %9 %4 : f32[2,3,4,4]
%11 = matmul{0} %10[6,4,4] $2[6,4,8] : f32[6,4,8]
`

// Attention is found as PyTorch decomposes it, where rows without a key, and only those, are set to 0.
func TestDecomposedAttentionIsFound(t *testing.T) {
	const after = "%12 = copy %11[2,4,3,8](96,8,32,1) : f32[2,4,3,8] live\nreturn %12\n"
	for name, edit := range map[string][]string{
		"as it is": nil,
		"without scales of queries": {"%0 = mul $0[2,3,4,8](96,8,24,1) 0.25", "%0 = copy $0[2,3,4,8](96,8,24,1)",
			"3.0", "0.75"},
		"a mask that a caller gives": {"constant", "input"},
	} {
		p := parsed(t, strings.NewReplacer(edit...).Replace(decomposed+after))
		got := checked(t, Attention(p, len(p.Inputs)-strings.Count(p.String(), "constant"), unread))
		assert.Contains(t, got, "attention{0,1,0} $0[2,3,4,8](96,8,24,1) $1[2,3,4,8](96,8,24,1) $2 $3[2,3,4,4](0,0,4,1) 0.75",
			"%s\n%s", name, got)
		assert.NotContains(t, got, "where", name)
	}
	for name, edit := range map[string][]string{
		"another number":         {"} 0.0 :", "} 1.0 :"},
		"another column's rows":  {"(12,4,1,0)", "(12,4,0,1)"},
		"rows that are all -inf": {"amax", "amin"},
		"along another dim":      {"extremum{amax,3} %6 : bool[2,3,4]", "extremum{amax,2} %6 : bool[2,3,4]"},
		"a finite number":        {"-Inf", "-1e9"},
		"rows with a key":        {"%7[2,3,4,1] false", "%7[2,3,4,1] true"},
		"other scores":           {"%5 = compare{eq} %3 -Inf", "%5 = compare{eq} %2[2,3,4,4] -Inf"},
		"the scores are read":    {"return %12", "%13 = neg %3 : f32[2,3,4,4] live\nreturn %12 %13"},
		"the zeros come last":    {"%9 %4 :", "%4 %9 :"},
	} {
		text := strings.NewReplacer(edit...).Replace(decomposed + after)
		assert.NotEqual(t, decomposed+after, text, name)
		p := parsed(t, text)
		assert.Same(t, p, Attention(p, 3, unread), name)
	}
	p := parsed(t, strings.Replace(decomposed+after, "return %12", "%13 = neg %0 : f32[2,3,4,8] live\nreturn %12 %13", 1))
	assert.Contains(t, checked(t, Attention(p, 3, unread)), "attention{0,1,0} %0 ", "scaled queries that are read again")
}

func TestAttentionThatIsWrittenOutIsFound(t *testing.T) {
	const after = "%5 = copy %4[2,4,3,8](96,8,32,1) : f32[2,4,3,8] live\nreturn %5\n"
	out := Attention(parsed(t, written+after), 3, unread)
	text := checked(t, out)
	assert.Contains(t, text, "attention{0,1,0}")
	assert.NotContains(t, text, "softmax")
	assert.Len(t, out.Nodes, 2)
	for name, other := range map[string]string{
		"the weights are read again":            "%5 = neg %3 : f32[2,3,4,4] live\nreturn %5\n",
		"a view that is no permutation":         "%5 = copy %4[6,32](32,1) : f32[6,32] live\nreturn %5\n",
		"a part of the result at another place": "%5 = copy %4[2,3](96,32)+1 : f32[2,3] live\nreturn %5\n",
	} {
		p := parsed(t, written+other)
		assert.Same(t, p, Attention(p, 3, unread), name)
	}
	whole := parsed(t, strings.TrimSuffix(written, "\n")+" live\nreturn %4\n")
	assert.Same(t, whole, Attention(whole, 3, unread), "the result is returned as it lies")
	p := parsed(t, strings.Replace(written+after, "constant", "input", 1))
	assert.Same(t, p, Attention(p, 4, unread), "a mask that a caller gives may leave a row without a key")
}

// Attention is found however its mask is applied and its heads are divided.
func TestSpellingsOfAttentionAreFound(t *testing.T) {
	const after = "%5 = copy %4[2,4,3,8](96,8,32,1) : f32[2,4,3,8] live\nreturn %5\n"
	choice := strings.Replace(written+after, "f32[4,4]", "bool[4,4]", 1)
	causal := func(int) []byte { return []byte{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1} }
	hidden := func(int) []byte { return make([]byte, 16) }
	for name, c := range map[string]struct {
		text, old, new, want string
		contents             func(int) []byte
	}{
		"the mask comes first": {written + after, "add %1 $3[2,3,4,4](0,0,4,1)", "add $3[2,3,4,4](0,0,4,1) %1",
			"attention{0,1,0}", unread},
		"a difference":           {written + after, "add %1", "sub %1", "mul $3 -1.0", unread},
		"the number comes first": {written + after, "div %0 2.0", "mul 0.5 %0", "attention{0,1,0}", unread},
		"a choice of scores": {choice, "add %1 $3[2,3,4,4](0,0,4,1)", "where $3[2,3,4,4](0,0,4,1) %1 -1e9",
			"attention{0,1,0}", causal},
		"a choice of -inf": {choice, "add %1 $3[2,3,4,4](0,0,4,1)", "where $3[2,3,4,4](0,0,4,1) -Inf %1", "compare",
			unread},
		"one dim of batch and heads": {strings.NewReplacer(
			"$0[2,3,4,8](96,8,24,1)", "$0[6,4,8]", "$1[2,3,8,4](96,8,1,24) : f32[2,3,4,4]", "$1[6,8,4](32,1,8) : f32[6,4,4]",
			"div %0", "div %0[2,3,4,4]", "matmul{0} %3 $2 : f32[2,3,4,8]", "matmul{0} %3[6,4,4] $2[6,4,8] : f32[6,4,8]",
		).Replace(written + after), "", "", "attention{0,1,0} $0[2,3,4,8]", unread},
		"a copy of the queries": {strings.NewReplacer("%5", "%6", "%4", "%5", "%3", "%4", "%2", "%3", "%1", "%2",
			"%0 = matmul{0} $0[2,3,4,8](96,8,24,1)",
			"%0 = copy $0[2,3,4,8](96,8,24,1) : f32[2,3,4,8]\n%1 = matmul{0} %0", "%0", "%1").Replace(written + after),
			"", "", "attention{0,1,0} $0[2,3,4,8](96,8,24,1)", unread},
		"queries and keys that are scaled": {strings.NewReplacer("%5", "%6", "%4", "%5", "%3", "%4", "%2", "%3",
			"%1 = div %0 2.0 : f32[2,3,4,4]\n", "", "%0 = matmul{0} $0[2,3,4,8](96,8,24,1) $1[2,3,8,4](96,8,1,24)",
			"%0 = mul $0[2,3,4,8](96,8,24,1) 0.5 : f32[2,3,4,8]\n%1 = mul $1[2,3,8,4](96,8,1,24) 2.0 : f32[2,3,8,4]\n"+
				"%2 = matmul{0} %0 %1", "%1", "%2").Replace(written + after),
			"", "", "attention{0,1,0} $0[2,3,4,8](96,8,24,1) $1[2,3,4,8](96,8,24,1)", unread},
		"weights that are copied": {strings.NewReplacer("%5", "%6", "%4 = matmul{0} %3",
			"%4 = copy %3 : f32[2,3,4,4]\n%5 = matmul{0} %4", "%4", "%5").Replace(written + after),
			"", "", "attention{0,1,0}", unread},
		"NaN are chosen away": {strings.NewReplacer("%5", "%7", "%4 = matmul{0} %3", "%4 = isnan %3 : bool[2,3,4,4]\n"+
			"%5 = where %4 0.0 %3 : f32[2,3,4,4]\n%6 = matmul{0} %5", "%4", "%6").Replace(written + after),
			"", "", "attention{0,1,0}", unread},
	} {
		text := strings.Replace(c.text, c.old, c.new, 1)
		got := checked(t, Attention(parsed(t, text), 3, c.contents))
		assert.Contains(t, got, c.want, name)
		assert.NotContains(t, got, "softmax", name)
	}
	for name, contents := range map[string]func(int) []byte{"a query without a key": hidden, "unknown": unread} {
		p := parsed(t, strings.Replace(choice, "add %1 $3[2,3,4,4](0,0,4,1)", "where $3[2,3,4,4](0,0,4,1) %1 -1e9", 1))
		assert.Same(t, p, Attention(p, 3, contents), name)
	}
	guard := strings.NewReplacer("%5", "%7", "%4 = matmul{0} %3", "%4 = isnan %3 : bool[2,3,4,4]\n"+
		"%5 = where %4 1.0 %3 : f32[2,3,4,4]\n%6 = matmul{0} %5", "%4", "%6").Replace(written + after)
	other := parsed(t, guard)
	assert.Same(t, other, Attention(other, 3, unread), "NaN become another number")
	p := parsed(t, strings.Replace(choice, "add %1 $3[2,3,4,4](0,0,4,1)", "where $3[2,3,4,4](0,0,4,1) %1 -9.0", 1))
	assert.Same(t, p, Attention(p, 3, causal), "the number hides no key")
}

// A mask of floats that hides exactly the later keys becomes the primitive's own.
func TestCausalMasksAreFound(t *testing.T) {
	const after = "%5 = copy %4[2,4,3,8](96,8,32,1) : f32[2,4,3,8] live\nreturn %5\n"
	p := Attention(parsed(t, written+after), 3, unread)
	mask := make([]byte, 64)
	for i := range 4 {
		for j := i + 1; j < 4; j++ {
			copy(mask[4*(4*i+j):], []byte{0, 0, 0x80, 0xff})
		}
	}
	out := Causal(p, 3, func(input int) []byte {
		assert.Equal(t, 3, input)
		return mask
	})
	assert.Contains(t, checked(t, out), "attention{1,0,0}")
	mask[0] = 1
	assert.Same(t, p, Causal(p, 3, func(int) []byte { return mask }), "the mask adds to a score")
	assert.Same(t, p, Causal(p, 3, func(int) []byte { return nil }), "the host cannot read it")
}

// normed is a convolution with bias and batch norm, whose factor is computed after it.
const normed = `input $0 : f32[2,3,6,6]
constant $1 : f32[4,3,3,3]
constant $2 : f32[4]
constant $3 : f32[4]
constant $4 : f32[4]
%0 = conv{2,3,3,2,2,1,1,1,1,1,1,3,3,1} $0 $1 : f32[2,4,3,3]
%1 = add %0 $2[2,4,3,3](0,1,0,0) : f32[2,4,3,3]
%2 = rsqrt $3 : f32[4]
%3 = mul %1 %2[2,4,3,3](0,1,0,0) : f32[2,4,3,3]
%4 = add %3 $4[2,4,3,3](0,1,0,0) : f32[2,4,3,3] live
return %4
`

func TestFactorsOfChannelsGoIntoTheWeights(t *testing.T) {
	const bias = "%1 = add %0 $2[2,4,3,3](0,1,0,0) : f32[2,4,3,3]\n"
	for name, text := range map[string]string{
		"with a bias":    normed,
		"without a bias": strings.Replace(strings.Replace(normed, bias, "%1 = neg $2 : f32[4]\n", 1), "mul %1", "mul %0", 1),
		"factor first": strings.Replace(normed, "mul %1 %2[2,4,3,3](0,1,0,0)",
			"mul %2[2,4,3,3](0,1,0,0) %1", 1),
	} {
		out := Scales(parsed(t, text), 1)
		text := checked(t, out)
		assert.Contains(t, text, "mul $1 ", name)
		fixed, rest, _ := Split(out, 1)
		require.NotNil(t, fixed, name)
		assert.NotContains(t, checked(t, rest), "mul", name)
		assert.Contains(t, checked(t, fixed), "mul", name)
	}
	for name, edit := range map[string][2]string{
		"someone reads the convolution":   {"return %4", "%5 = neg %0 : f32[2,4,3,3] live\nreturn %4 %5"},
		"the factor varies along a row":   {"mul %1 %2[2,4,3,3](0,1,0,0)", "mul %1 %2[2,4,3,3](0,0,1,0)"},
		"weights that a caller gives":     {"constant $1", "input $1"},
		"the convolution's square":        {"mul %1 %2[2,4,3,3](0,1,0,0)", "mul %1 %1"},
		"a factor that a caller computes": {"rsqrt $3", "rsqrt $0[4](1)"},
	} {
		text := strings.Replace(normed, edit[0], edit[1], 1)
		args := 1
		if strings.Contains(text, "input $1") {
			args = 2
		}
		require.NotEqual(t, normed, text, name)
		p := parsed(t, text)
		assert.Same(t, p, Scales(p, args), name)
	}
}

// Two constants of channels that are added one after the other are added first.
func TestShiftsOfChannelsAreAddedOnce(t *testing.T) {
	for name, text := range map[string]string{
		"after a factor": normed,
		"constant first": strings.Replace(normed, "add %3 $4[2,4,3,3](0,1,0,0)", "add $4[2,4,3,3](0,1,0,0) %3", 1),
	} {
		out := Shifts(Scales(parsed(t, text), 1), 1)
		_, rest, _ := Split(out, 1)
		text := checked(t, rest)
		assert.Equal(t, 1, strings.Count(text, "add"), "%s: %s", name, text)
		assert.NotContains(t, text, "mul", name)
	}
	const plain = `input $0 : f32[2,4,3,3]
constant $1 : f32[4]
constant $2 : f32[4]
%0 = neg $0 : f32[2,4,3,3]
%1 = add %0 $1[2,4,3,3](0,1,0,0) : f32[2,4,3,3]
%2 = add %1 $2[2,4,3,3](0,1,0,0) : f32[2,4,3,3] live
return %2
`
	assert.NotSame(t, parsed(t, plain), Shifts(parsed(t, plain), 1))
	_, rest, _ := Split(Shifts(parsed(t, plain), 1), 1)
	assert.Equal(t, 1, strings.Count(checked(t, rest), "add"))
	for name, edit := range map[string][2]string{
		"someone reads the first sum":     {"return %2", "%3 = neg %1 : f32[2,4,3,3] live\nreturn %2 %3"},
		"the shift varies along a row":    {"add %1 $2[2,4,3,3](0,1,0,0)", "add %1 $2[2,4,3,3](0,0,1,0)"},
		"a shift that a caller gives":     {"constant $1", "input $1"},
		"integers, whose sums wrap apart": {"", ""},
	} {
		text := strings.Replace(plain, edit[0], edit[1], 1)
		args := 1
		if strings.Contains(text, "input $1") {
			args = 2
		}
		if edit[0] == "" {
			text = strings.ReplaceAll(plain, "f32", "i32")
		}
		p := parsed(t, text)
		assert.Same(t, p, Shifts(p, args), name)
	}
}

// framed is a convolution of a value that zeros surround: one row above, one column on each side.
const framed = `input $0 : f32[1,2,4,4]
constant $1 : f32[3,2,3,3]
%0 = fill{7,0,1,2,5,6} 0 : f32[1,2,5,6]
%1 = strided_scatter{[1,2,4,4](60,30,6,1)} %0 $0 7 : f32[1,2,5,6]
%2 = conv{2,3,3,1,1,0,1,1,1,1,1,3,5,1} %1 $1 : f32[1,3,3,5] live
return %2
`

func TestZerosAroundTheInputOfAConvolutionBecomePadding(t *testing.T) {
	out := Pads(parsed(t, framed), 1)
	text := checked(t, out)
	assert.Contains(t, text, "conv{2,3,3,1,1,1,2,1,1,1,1,3,5,1} $0 $1", "padding of 0, 1 and zeros of 1, 1")
	assert.Len(t, out.Nodes, 1)
	for name, edit := range map[string][2]string{
		"someone reads the padded value": {"return %2", "%3 = neg %1 : f32[1,2,5,6] live\nreturn %2 %3"},
		"it lies within ones":            {"} 0 : f32[1,2,5,6]", "} 1 : f32[1,2,5,6]"},
		"channels of zeros": {framed[strings.Index(framed, "input"):strings.Index(framed, "%2")],
			`input $0 : f32[1,1,5,6]
constant $1 : f32[3,2,3,3]
%0 = fill{7,0,1,2,5,6} 0 : f32[1,2,5,6]
%1 = strided_scatter{[1,1,5,6](60,30,6,1)} %0 $0 30 : f32[1,2,5,6]
`},
		"every other column":   {"[1,2,4,4](60,30,6,1)} %0 $0 7", "[1,2,4,3](60,30,6,2)} %0 $0[1,2,4,3](32,16,4,1) 7"},
		"zeros between inputs": {"conv{2,3,3,1,1,0,1,1,1,1,1,3,5,1}", "conv{2,3,3,1,1,0,1,1,1,2,2,3,5,1}"},
	} {
		text := strings.Replace(framed, edit[0], edit[1], 1)
		require.NotEqual(t, framed, text, name)
		p := parsed(t, text)
		assert.Same(t, p, Pads(p, 1), name)
	}
}

// pooled is a pool of the greatest elements of a value within a border: one row above, one column on each side.
const pooled = `input $0 : f32[2,4,4]
%0 = relu $0 : f32[2,4,4]
%1 = fill{7,0,2,5,6} 0 : f32[2,5,6]
%2 = strided_scatter{[2,4,4](30,6,1)} %1 %0 7 : f32[2,5,6]
%3 = window_max{2,3,3,2,2,0,0,1,1,1,1,2,2} %2 : f32[2,2,2] live
return %3
`

// edited parses a program's text after edits, pairs of what is in the text and what takes its place.
func edited(t *testing.T, text string, edits ...string) *program.Program {
	for i := 0; i < len(edits); i += 2 {
		next := strings.Replace(text, edits[i], edits[i+1], 1)
		require.NotEqual(t, text, next, edits[i])
		text = next
	}
	return parsed(t, text)
}

func TestBordersAroundInputsOfPoolsBecomePadding(t *testing.T) {
	const pads = "{2,3,3,2,2,1,1,1,1,1,1,2,2}"
	replace := func(edits ...string) *program.Program { return edited(t, pooled, edits...) }
	for name, c := range map[string][]string{
		"zeros after relu":   {"window_max" + pads + " %0"},
		"-inf":               {"window_max" + pads + " $0", "6} 0 :", "6} -inf :", "%1 %0", "%1 $0"},
		"a sum within zeros": {"window_sum" + pads + " $0", "window_max", "window_sum", "%1 %0", "%1 $0"},
	} {
		assert.Contains(t, checked(t, Pads(replace(c[1:]...), 1)), c[0], name)
	}
	for name, edits := range map[string][]string{
		"zeros around negative numbers": {"%1 %0", "%1 $0"},
		"a window of the border alone":  {",2,2,0,0,1,1,1,1,2,2}", ",3,3,1,1,1,1,1,1,2,2}", "3,3,3,3", "1,1,3,3"},
		"ones":                          {"6} 0 :", "6} 1 :"},
		"a sum within -inf":             {"window_max", "window_sum", "6} 0 :", "6} -inf :"},
		"someone reads the places": {" live\nreturn %3", "\n%4 = result{1} %3 : i64[2,2,2]\n" +
			"%5 = neg %3 : f32[2,2,2] live\n%6 = neg %4 : i64[2,2,2] live\nreturn %5 %6"},
		"another channel": {"f32[2,4,4]\n%0", "f32[1,4,4]\n%0", "f32[2,4,4]", "f32[1,4,4]", "{[2,4,4]", "{[1,4,4]"},
	} {
		p := replace(edits...)
		assert.Same(t, p, Pads(p, 1), name)
	}
}
