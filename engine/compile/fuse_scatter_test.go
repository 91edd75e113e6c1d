package compile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/reference"
)

// appended turns a key of one step by the tables $1 and $2, and stores it and a value in the caches $3 and $4.
const appended = `input $0 : f32[1,2,8]
input $1 : f32[1,4]
input $2 : f32[1,4]
input $3 : f32[2,5,8]
input $4 : f32[2,5,8]
input $5 : i64[1]
%0 = mul $0[2,1,4](8,16,1) $1[2,1,4](0,4,1) : f32[2,1,4]
%1 = mul $0[2,1,4](8,16,1)+4 $2[2,1,4](0,4,1) : f32[2,1,4]
%2 = sub %0 %1 : f32[2,1,4]
%3 = mul $0[2,1,4](8,16,1)+4 $1[2,1,4](0,4,1) : f32[2,1,4]
%4 = mul $0[2,1,4](8,16,1) $2[2,1,4](0,4,1) : f32[2,1,4]
%5 = add %3 %4 : f32[2,1,4]
%6 = cat{2} %2 %5 : f32[2,1,8]
%7 = scatter{1,0,-2} $3 $5[2,1,8](0,1,0) %6 : f32[2,5,8] live
%8 = scatter{1,0,-2} $4 $5[2,1,8](0,1,0) $0[2,1,8](8,16,1) : f32[2,5,8] live
store %7 over $3 base 0 last exclusive
store %8 over $4 base 1 last exclusive
`

// two stores what members make, and what they do not, in two caches.
const two = `input $0 : f32[6,4]
input $1 : f32[6,4]
input $2 : i64[3]
input $3 : f32[3,4]
%0 = exp $3 : f32[3,4]
%1 = scatter{0,0,-2} $0 $2[3,4](1,0) %0 : f32[6,4] live
%2 = scatter{0,0,-2} $1 $2[3,4](1,0) $3 : f32[6,4] live
store %1 over $0 base 0 last exclusive
store %2 over $1 base 1 last exclusive
`

var scatters = []struct {
	name, text string
	edits      []string
	want       [][]int
}{
	{"a key that turns, and a value", appended, nil, [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8}}},
	{"a turned key that something else reads", appended, []string{"%6 = cat{2} %2 %5 : f32[2,1,8]",
		"%6 = cat{2} %2 %5 : f32[2,1,8] live"}, [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8}}},
	{"several rows", two, nil, [][]int{{0, 1, 2}}},
	{"no member makes what is stored", two, []string{"%0 = exp $3 : f32[3,4]", "%0 = cat{0} $3[1,4] $3[2,4] : f32[3,4]"},
		[][]int{{1, 2}}},
	{"of halves", two, []string{"%0 = exp $3", "%0 = cast{f16} $3", ": f32[3,4]\n%1", ": f16[3,4]\n%1",
		"input $0 : f32", "input $0 : f16", "%0 : f32[6,4] live", "%0 : f16[6,4] live"}, [][]int{{0, 1, 2}}},
	{"an index of 32 bits", two, []string{"i64", "i32"}, [][]int{{0, 1, 2}}},
	{"along the last dim", two, []string{"input $0 : f32[6,4]", "input $0 : f32[3,9]", "scatter{0,0,-2} $0",
		"scatter{-1,0,-2} $0", "%0 : f32[6,4] live", "%0 : f32[3,9] live"}, [][]int{{0, 1, 2}}},
	{"indices that are checked", two, []string{"{0,0,-2}", "{0,0}"}, nil},
	{"sums", two, []string{"{0,0,-2}", "{0,1,-2}"}, nil},
	{"in the order of the rows", two, []string{"{0,0,-2}", "{0,0,-2,-1}"}, nil},
	{"a buffer that is held", two, []string{"over $0 base 0 last exclusive", "over $0 base 0 last"}, nil},
	{"a member makes the index", two, []string{"%0 = exp $3 : f32[3,4]", "%0 = exp $3 : f32[3,4]\n%3 = " + cast("i64") +
		" %0 : i64[3,4]", "$2[3,4](1,0)", "%3"}, [][]int{{0, 1}, {2, 3}}},
	{"what was stored is read by all of it", two, []string{"input $0 : f32[6,4]", "input $0 : f32[3,4]",
		"%0 : f32[6,4] live", "%0 : f32[3,4] live", "%2 = scatter", "%3 = neg %1 : f32[3,4] live\n%2 = scatter"},
		[][]int{{0, 1}}},
	{"a member reads the buffer", two, []string{"%0 = exp $3 : f32[3,4]", "%0 = add $3 $0[3,4](4,1) : f32[3,4]"},
		[][]int{{1, 2}}},
	{"twice in one buffer", two, []string{"scatter{0,0,-2} $1", "scatter{0,0,-2} %1", "$0 base 0 last exclusive",
		"$0 base 0 exclusive", "over $1 base 1", "over %1 base 0"}, [][]int{{0, 1}}},
}

// A group stores at the places of an index where the scatter would, and the bits are those without the pass.
func TestScattersOfFusionGroups(t *testing.T) {
	var list []fusion
	for _, s := range scatters {
		text := renumbered(strings.ReplaceAll(edited(t, s.text, s.edits...), "cast{f16}", cast("f16")))
		list = append(list, fusion{s.name, text, s.want})
	}
	checkGroups(t, list, 1)
}

// A group that stores in the buffers of others is the first to overwrite what a run began with, and writes rows only.
func TestScattersOfGroupsOverwriteInputs(t *testing.T) {
	p := program.MustParse(two)
	with := build(t, reference.New(), p)
	assert.Equal(t, compile.StepPlace{Segment: 0, Step: 0}, with.Overwrites)
	assert.Equal(t, int64(2*3*4*4), with.BytesWritten)
}
