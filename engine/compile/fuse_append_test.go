package compile_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/reference"
)

// appendsIn counts the launches of attention of a plan that store new rows.
func appendsIn(p *compile.Plan) (n int) {
	for _, s := range p.Segments {
		for _, st := range s.Steps {
			if a, ok := st.Op.(*launch.Attention); ok && a.Append {
				n++
			}
		}
	}
	return n
}

// The inputs are two caches of five rows for two batches and two key heads, the projections of four queries, two keys
// and two values, the place, and a mask.
const appendInputs = `input $0 : f32[2,2,5,4]
input $1 : f32[2,2,5,4]
input $2 : f32[2,1,32]
input $3 : i64[1]
input $4 : f32[5]
`

const (
	queries = "$2[2,4,1,4](32,4,32,1)"
	newKey  = "$2[2,2,1,4](32,4,32,1)+16"
	newVal  = "$2[2,2,1,4](32,4,32,1)+24"
	stores  = "store %1 over $0 base 0 last exclusive\nstore %2 over $1 base 1 last exclusive\n"
)

// step stores a row at %0, which is place 2, and attends.
const step = appendInputs + `%0 = add $3 2 : i64[1]
%1 = scatter{2,0,-2} $0 %0[2,2,1,4](0,0,0,0) ` + newKey + ` : f32[2,2,5,4] live
%2 = scatter{2,0,-2} $1 %0[2,2,1,4](0,0,0,0) ` + newVal + ` : f32[2,2,5,4] live
%3 = attention{0,1,0} ` + queries + ` %1 %2 $4[1,1,1,5](5,5,5,1) 0.25 : f32[2,1,4,4] live
` + stores

// edited is a program with replacements, in pairs, each of which is made.
func edited(t testing.TB, text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, text, pairs[i])
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

var defined = regexp.MustCompile(`(?m)^(%\d+) =`)

// renumbered numbers the nodes of a program in their order.
func renumbered(text string) string {
	numbers := map[string]string{}
	for i, m := range defined.FindAllStringSubmatch(text, -1) {
		numbers[m[1]] = fmt.Sprintf("%%%d", i)
	}
	return regexp.MustCompile(`%\d+`).ReplaceAllStringFunc(text, func(name string) string { return numbers[name] })
}

// projected has rows that products make before the scatters.
const projected = `input $0 : f32[1,1,5,4]
input $1 : f32[1,1,5,4]
input $2 : f32[1,4]
input $3 : i64[1]
input $4 : f32[4,4]
%0 = matmul{0} $2 $4 : f32[1,4]
%1 = matmul{0} $2 $4[4,4](1,4) : f32[1,4]
%2 = matmul{0} $2[1,4](4,0) $4 : f32[1,4]
%3 = scatter{2,0,-2} $0 $3[1,1,1,4](1,1,1,0) %1[1,1,1,4] : f32[1,1,5,4] live
%4 = scatter{2,0,-2} $1 $3[1,1,1,4](1,1,1,0) %2[1,1,1,4] : f32[1,1,5,4] live
`

var appendCases = []struct {
	name, text       string
	edits            []string
	appends, kernels int // with the pass
}{
	{"in place of inputs", step, nil, 1, 2},
	{"without a mask", step, []string{"{0,1,0}", "{0,0,0}", " $4[1,1,1,5](5,5,5,1)", ""}, 1, 2},
	{"causal", step, []string{"{0,1,0}", "{1,1,0}"}, 1, 2},
	{"each head has its keys", step, []string{queries, "$2[2,2,1,4](32,4,32,1)", "f32[2,1,4,4]", "f32[2,1,2,4]"}, 1, 2},
	{"a dim counted from the end", step, []string{"scatter{2,", "scatter{-2,"}, 1, 2},
	{"the place is an input", step, []string{"%0[2,2,1,4]", "$3[2,2,1,4]"}, 1, 2},
	{"halves", step, []string{"$0 : f32", "$0 : f16", "$1 : f32", "$1 : f16", "%0 = add", "%4 = " + cast("f16") +
		" $2 : f16[2,1,32] live\n%0 = add", "$2[", "%4[", ": f32[2,2,5,4] live", ": f16[2,2,5,4] live", ": f32[2,1,4,4]",
		": f16[2,1,4,4]"}, 1, 3},
	{"products make the rows", projected + `%5 = attention{0,0,0} %0[1,1,1,4] %3 %4 0.5 : f32[1,1,1,4] live
store %3 over $0 base 0 last exclusive
store %4 over $1 base 1 last exclusive
`, nil, 1, 4},
	{"rows live until the attention", projected + `%5 = matmul{0} $2[1,4](4,0) $4[4,4](0,1) : f32[1,4]
%6 = matmul{0} %5 $4 : f32[1,4]
%7 = matmul{0} %6 $4 : f32[1,4] live
%8 = attention{0,0,0} %0[1,1,1,4] %3 %4 0.5 : f32[1,1,1,4] live
store %3 over $0 base 0 last exclusive
store %4 over $1 base 1 last exclusive
`, nil, 1, 7},
	{"the place lives until the attention", step, []string{"%3 = attention", `%5 = cat{0} $3 $3 : i64[2]
%6 = cat{0} %5 %5 : i64[4]
%7 = sum{0} %6 : i64[] live
%3 = attention`}, 1, 5},
	{"two tokens in a window", `input $0 : f32[1,1,5,4]
input $1 : f32[1,1,5,4]
input $2 : f32[1,1,1,4]
input $3 : i64[1]
%0 = scatter{2,0,-2} $0 $3[1,1,1,4](1,1,1,0) $2 : f32[1,1,5,4]
%1 = scatter{2,0,-2} $1 $3[1,1,1,4](1,1,1,0) $2 : f32[1,1,5,4]
%2 = attention{0,0,0} $2 %0 %1 0.5 : f32[1,1,1,4] live
%3 = add $3 1 : i64[1]
%4 = scatter{2,0,-2} %0 %3[1,1,1,4](1,1,1,0) %2 : f32[1,1,5,4] live
%5 = scatter{2,0,-2} %1 %3[1,1,1,4](1,1,1,0) $2 : f32[1,1,5,4] live
%6 = attention{0,0,0} $2 %4 %5 0.5 : f32[1,1,1,4] live
store %0 over $0 base 0 exclusive
store %1 over $1 base 1 exclusive
store %4 over %0 base 0 last exclusive
store %5 over %1 base 1 last exclusive
`, nil, 1, 5},
	{"the window makes the caches", step, []string{"%0 = add",
		"%4 = exp $0 : f32[2,2,5,4]\n%5 = neg $1 : f32[2,2,5,4]\n%0 = add",
		"$0 %0", "%4 %0", "$1 %0", "%5 %0", stores, ""}, 1, 4},
	{"the place is written later", step, []string{"%0 = add $3 2 : i64[1]\n", "", "%0[", "$3[", stores,
		"%4 = add $3 1 : i64[1] live\n" + stores + "store %4 over $3 base 2 last exclusive\n"}, 1, 2},
	{"places are checked", step, []string{"{2,0,-2}", "{2,0}"}, 0, 4},
	{"rows are added", step, []string{"{2,0,-2}", "{2,1,-2}"}, 0, 4},
	{"heads that share keys are queries", step, []string{queries, "$2[2,2,2,4](32,8,4,1)", "f32[2,1,4,4]",
		"f32[2,2,2,4]"}, 1, 2},
	{"five queries", step, []string{queries, "$2[2,2,5,4](32,8,0,1)", "f32[2,1,4,4]", "f32[2,5,2,4]"}, 0, 4},
	{"dropout", step, []string{"{0,1,0}", "{0,1,1}", "0.25", "0.25 1 0 0.5"}, 0, 4},
	{"something else reads the keys", step, []string{"%3 = attention", "%4 = sum{3} %1 : f32[2,2,5] live\n" +
		"%3 = attention"}, 0, 5},
	{"attention comes twice", step, []string{"%3 = attention", "%4 = sum{3} %2 : f32[2,2,5] live\n%3 = attention"}, 0, 5},
	{"the query is of the keys", step, []string{queries, "%1[2,4,1,4](20,0,4,1)"}, 0, 4},
	{"keys are values", step, []string{"%1 %2 $4", "%1 %1 $4"}, 0, 4},
	{"a part of the keys", step, []string{"%1 %2 $4[1,1,1,5](5,5,5,1)",
		"%1[2,2,3,4](40,20,4,1) %2[2,2,3,4](40,20,4,1) $4[1,1,1,3](5,5,5,1)"}, 0, 4},
	{"the old keys are held", step, []string{"over $0 base 0 last exclusive", "over $0 base 0 last"}, 0, 5},
	{"two places", step, []string{"%0 = add $3 2 : i64[1]\n", "%0 = add $3 2 : i64[1]\n%4 = add $3 1 : i64[1]\n",
		"$1 %0[", "$1 %4["}, 0, 5},
	{"a place among others", step, []string{"$3 : i64[1]", "$3 : i64[3]", "$3 2 : i64[1]", "$3 2 : i64[3]"}, 0, 4},
	{"places of 32 bits", step, []string{"i64", "i32"}, 0, 4},
	{"rows of one batch", step, []string{"%0[2,2,1,4](0,0,0,0)", "%0[1,2,1,4](0,0,0,0)", newKey,
		"$2[1,2,1,4](32,4,32,1)+16", newVal, "$2[1,2,1,4](32,4,32,1)+24"}, 0, 4},
	{"two rows", step, []string{"%0[2,2,1,4](0,0,0,0)", "%0[2,2,2,4](0,0,0,0)", newKey, "$2[2,2,2,4](32,4,0,1)+16",
		newVal, "$2[2,2,2,4](32,4,0,1)+24"}, 0, 4},
	{"along the heads", step, []string{"{2,0,-2}", "{1,0,-2}", "%0[2,2,1,4](0,0,0,0)", "%0[2,1,5,4](0,0,0,0)", newKey,
		"$2[2,1,5,4](32,4,1,1)", newVal, "$2[2,1,5,4](32,4,1,1)"}, 0, 4},
	{"a number as the row", step, []string{newKey, "1.5"}, 0, 4},
	{"wide heads", `input $0 : f32[1,1,2,257]
input $1 : f32[1,1,2,257]
input $2 : f32[1,1,1,257]
input $3 : i64[1]
%1 = scatter{2,0,-2} $0 $3[1,1,1,257](1,1,1,0) $2 : f32[1,1,2,257] live
%2 = scatter{2,0,-2} $1 $3[1,1,1,257](1,1,1,0) $2 : f32[1,1,2,257] live
%3 = attention{0,0,0} $2 %1 %2 0.5 : f32[1,1,1,257] live
` + stores, nil, 0, 3},
	{"the place is written before", step, []string{"%0 = add $3 2 : i64[1]\n", "", "%0[", "$3[", "%3 = attention",
		"%4 = add $3 1 : i64[1] live\n%3 = attention", stores, stores + "store %4 over $3 base 2 last exclusive\n"}, 0, 4},
	{"a row is written before", step, []string{queries, "$4[2,4,1,4](0,0,0,1)", "%3 = attention",
		"%4 = add $2 1.0 : f32[2,1,32] live\n%3 = attention", stores, stores +
			"store %4 over $2 base 2 last exclusive\n"}, 0, 5},
	{"a scatter takes the row's buffer", projected + `%5 = strided_scatter{[2](1)} %1 $2[2](1) 0 : f32[1,4]
%7 = matmul{0} %5 $4 : f32[1,4] live
%6 = attention{0,0,0} %0[1,1,1,4] %3 %4 0.5 : f32[1,1,1,4] live
store %3 over $0 base 0 last exclusive
store %4 over $1 base 1 last exclusive
`, nil, 0, 8},
	{"a row is a part of more than a cache", `input $0 : f32[1,1,5,4]
input $1 : f32[1,1,5,4]
input $2 : f32[20000,4]
input $3 : i64[1]
input $4 : f32[4,4]
%0 = matmul{0} $2 $4 : f32[20000,4]
%1 = scatter{2,0,-2} $0 $3[1,1,1,4](1,1,1,0) %0[1,1,1,4]+12 : f32[1,1,5,4] live
%2 = scatter{2,0,-2} $1 $3[1,1,1,4](1,1,1,0) $2[1,1,1,4] : f32[1,1,5,4] live
%3 = attention{0,0,0} $2[1,1,1,4] %1 %2 0.5 : f32[1,1,1,4] live
` + stores, nil, 0, 4},
}

// Attention stores the rows where the rules say, and the bits are those without the pass. The CPU's does not.
func TestAttentionStoresNewRows(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for _, tc := range appendCases {
		t.Run(tc.name, func(t *testing.T) {
			p, err := program.Parse(renumbered(edited(t, tc.text, tc.edits...)))
			require.NoError(t, err)
			d := reference.New()
			with, without := build(t, d, p, "fuse"), build(t, d, p, "fuse", "fuse_append")
			assert.Equal(t, []int{tc.appends, tc.kernels}, []int{appendsIn(with), with.Kernels})
			assert.Equal(t, 2*tc.appends, without.Kernels-with.Kernels)
			assert.Equal(t, run(t, d, without), run(t, d, with))
			assert.Zero(t, appendsIn(build(t, c, p)))
		})
	}
}

// Kernels that store rows are compiled once the window has run several times, where that takes long; and a loop's body
// has none.
func TestNewRowsKeepTheLimitsOfADevice(t *testing.T) {
	p, d := program.MustParse(step), newLimited(64, true)
	first, later := build(t, d, p), often(t, d, p)
	assert.Equal(t, []int{0, 1}, []int{appendsIn(first), appendsIn(later)})
	assert.Positive(t, first.Fusible)
	assert.Zero(t, later.Fusible)
	assert.Equal(t, run(t, d, first), run(t, d, later))
	assert.Equal(t, []int{1, 2}, later.Prologue(4))
	assert.Less(t, later.BytesWritten, first.BytesWritten)
	b := compile.Builder{Program: p, Caps: func(ir.DeviceID) *device.Caps { return reference.New().Caps() },
		Lowered: &lower.Memo{}, Moving: true}
	body, err := b.Build()
	require.NoError(t, err)
	assert.Zero(t, appendsIn(body))
}

// A run can be given up until the attention stores the rows: it is the first to write what the plan did not make.
func TestNewRowsOverwriteInputs(t *testing.T) {
	for off, want := range map[string]compile.StepPlace{"fuse_append": {Step: 1}, "fuse": {Step: 2}} {
		text := edited(t, step, "%3 = attention", "%4 = exp %0 : i64[1] live\n%3 = attention")
		text = strings.ReplaceAll(text, "exp %0", "mul %0 3")
		p := build(t, reference.New(), program.MustParse(renumbered(text)), off)
		assert.Equal(t, want, p.Overwrites, "without %s", off)
	}
}

// What passes decide is told of the scatters and of the attention.
func TestDumpsTellOfNewRows(t *testing.T) {
	var out strings.Builder
	_, err := tryBuild(reference.New(), program.MustParse(step), compile.Debug{Dump: "fuse_append", Out: &out})
	require.NoError(t, err)
	assert.Contains(t, out.String(), "in place of $0; done by %3\n")
	assert.Contains(t, out.String(), "stores the rows of %1 and %2\n")
}
