package simplify

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// halves turns pairs of elements as x cos + cat(-x2, x1) sin.
const halves = `input $0 : f32[3,8]
input $1 : f32[3,8]
input $2 : f32[3,8]
%0 = mul $0 $1 : f32[3,8]
%1 = neg $0[3,4](8,1)+4 : f32[3,4]
%2 = cat{1} %1 $0[3,4](8,1) : f32[3,8]
%3 = mul %2 $2 : f32[3,8]
%4 = add %0 %3 : f32[3,8] live
return %4
`

// pairs turns them where they lie beside each other.
const pairs = `input $0 : f32[3,8]
input $1 : f32[3,8]
input $2 : f32[3,8]
%0 = neg $0[3,4](8,2)+1 : f32[3,4]
%1 = cat{2} %0[3,4,1] $0[3,4,1](8,2,1) : f32[3,4,2]
%2 = mul %1[3,8] $2 : f32[3,8]
%3 = mul $0 $1 : f32[3,8]
%4 = add %3 %2 : f32[3,8] live
return %4
`

// Each half of a rotation is computed by itself, and one cat stores both.
func TestCatsMoveBehindTheirReaders(t *testing.T) {
	for name, text := range map[string]string{"halves": halves, "pairs": pairs,
		"a scale behind": strings.Replace(halves, " live\nreturn %4",
			"\n%5 = mul 0.5 %4 : f32[3,8] live\nreturn %5", 1),
		"the other order": strings.Replace(halves, "add %0 %3", "add %3 %0", 1)} {
		p := parsed(t, text)
		out := checked(t, Cats(p, 3, unread))
		assert.Equal(t, 1, strings.Count(out, "cat{"), name)
		body, _, _ := strings.Cut(out, "return")
		last := strings.Split(body, "\n")
		assert.Contains(t, last[len(last)-2], "cat{", "%s: nothing follows the cat\n%s", name, out)
		_, nodes, _ := strings.Cut(out, "%0")
		assert.NotContains(t, nodes, "$0 ", "%s: nothing reads all of the value\n%s", name, out)
	}
}

// tables turns a value of two heads by angles whose table is a cat of $1 and itself, and makes $1 negative where %2 is.
const tables = `input $0 : f32[2,3,8]
input $1 : f32[3,4]
%0 = cat{1} $1 $1 : f32[3,8]
%1 = sin %0 : f32[3,8]
%2 = mul %1 2.0 : f32[3,8]
%3 = neg $0[2,3,4](24,8,1)+4 : f32[2,3,4]
%4 = cat{2} %3 $0[2,3,4](24,8,1) : f32[2,3,8]
%5 = mul %4 %2[2,3,8](0,8,1) : f32[2,3,8]
%6 = sub $0 %5 : f32[2,3,8] live
return %6
`

// Tables of angles are a cat of one part and itself: the part is computed once, and read for both halves.
func TestRotationsReadThePartOfATable(t *testing.T) {
	out := checked(t, Cats(parsed(t, tables), 2, unread))
	assert.Equal(t, 1, strings.Count(out, "sin"), out)
	assert.Equal(t, 1, strings.Count(out, "cat{"), out)
	assert.Equal(t, 2, strings.Count(out, "[2,3,4](0,4,1)"), out)
	whole := checked(t, Cats(parsed(t, strings.NewReplacer("2.0 : f32[3,8]", "2.0 : f32[3,8] live",
		"return %6", "return %6 %2").Replace(tables)), 2, unread))
	assert.Equal(t, 2, strings.Count(whole, "cat{"), "the table is a result too\n%s", whole)
}

// A constant table whose halves are equal is read once for both.
func TestRotationsReadOneOfTheEqualPartsOfAConstant(t *testing.T) {
	text := strings.Replace(halves, "input $1", "constant $1", 1)
	text = strings.Replace(text, "input $2", "constant $2", 1)
	table := make([]byte, 3*8*4)
	for row := range 3 {
		for i := range 16 {
			table[row*32+i], table[row*32+16+i] = byte(row+i), byte(row+i)
		}
	}
	equal := func(int) []byte { return table }
	other := slices.Clone(table)
	other[50]++
	for name, c := range map[string]struct {
		contents func(int) []byte
		second   int
	}{"equal": {equal, 0}, "unknown": {unread, 2}, "other elements": {func(int) []byte { return other }, 2}} {
		out := checked(t, Cats(parsed(t, text), 1, c.contents))
		second := strings.Count(out, "$1[3,4](8,1)+4") + strings.Count(out, "$2[3,4](8,1)+4")
		assert.Equal(t, c.second, second, "%s\n%s", name, out)
	}
}

// A cat of a moved cat and of what does not turn follows it at once, so that a group computes both.
func TestTheCatOfARotationFollowsIt(t *testing.T) {
	text := strings.Replace(halves, " live\nreturn %4\n", "\n%5 = exp $1 : f32[3,8] live\n"+
		"%6 = cat{1} %4 $2[3,4](8,1) : f32[3,12] live\nreturn %5 %6\n", 1)
	out := checked(t, Cats(parsed(t, text), 3, unread))
	assert.Less(t, strings.LastIndex(out, "cat{"), strings.Index(out, "exp"), out)
	late := strings.Replace(text, "$2[3,4](8,1)", "%5[3,4](8,1)", 1)
	out = checked(t, Cats(parsed(t, late), 3, unread))
	assert.Greater(t, strings.LastIndex(out, "cat{"), strings.Index(out, "exp"), "it reads what comes later\n%s", out)
}

// A cat moves only where its parts become one kernel that computes nothing twice.
func TestCatsStayWhereTheyAre(t *testing.T) {
	for name, c := range map[string][2]string{
		"the cat is a result":       {": f32[3,8]\n%3", ": f32[3,8] live\n%3"},
		"another order is read":     {"mul %2 $2", "mul %2[3,8](1,3) $2"},
		"parts that share nothing":  {"cat{1} %1 $0[3,4](8,1)", "cat{1} %1 $1[3,4](8,1)"},
		"something else reads them": {"%3 = mul %2 $2", "%3 = softmax{1,0} %2"},
		"parts of two sizes":        {"cat{1} %1 $0[3,4](8,1)", "cat{1} %1 $0[3,3](8,1) $0[3,1](8,1)"},
		"constants":                 {"input", "constant"},
	} {
		text := strings.ReplaceAll(halves, c[0], c[1])
		if strings.Contains(text, "live\n%3") {
			text = strings.Replace(text, "return %4", "return %4 %2", 1)
		}
		assert.NotEqual(t, halves, text, name)
		p, args := parsed(t, text), 3
		if c[1] == "constant" {
			args = 0
		}
		assert.Same(t, p, Cats(p, args, unread), name)
	}
}

// turnedLater turns queries that are scaled first, with heads behind positions.
const turnedLater = `input $0 : f32[3,2,8]
input $1 : f32[3,8]
input $2 : f32[3,8]
%0 = mul $0[2,3,8](8,16,1) 0.5 : f32[2,3,8]
%1 = mul %0 $1[2,3,8](0,8,1) : f32[2,3,8]
%2 = neg %0[2,3,4](24,8,1)+4 : f32[2,3,4]
%3 = cat{2} %2 %0[2,3,4](24,8,1) : f32[2,3,8]
%4 = mul %3 $2[2,3,8](0,8,1) : f32[2,3,8]
%5 = add %1 %4 : f32[2,3,8] live
return %5
`

// What is computed before pairs turn is computed by parts, so that one kernel computes all.
func TestWhatTurnsIsComputedByParts(t *testing.T) {
	neighbours := strings.NewReplacer("%2 = neg %0[2,3,4](24,8,1)+4", "%2 = neg %0[2,3,4](24,8,2)+1",
		"%3 = cat{2} %2 %0[2,3,4](24,8,1) : f32[2,3,8]", "%3 = cat{3} %2[2,3,4,1] %0[2,3,4,1](24,8,2,1) : f32[2,3,4,2]",
		"mul %3 $2", "mul %3[2,3,8] $2").Replace(turnedLater)
	later := strings.NewReplacer("%0 = mul $0[2,3,8](8,16,1)", "%0 = abs $0[2,3,8](8,16,1) : f32[2,3,8]\n%1 = mul %0",
		"%5", "%6", "%4", "%5", "%3", "%4", "%2", "%3", "%1", "%2", "%0", "%1")
	chain := later.Replace(turnedLater)
	for name, text := range map[string]string{"halves": turnedLater, "neighbours": neighbours, "two steps": chain} {
		out := checked(t, Cats(parsed(t, text), 3, unread))
		_, nodes, _ := strings.Cut(out, "%0 =")
		assert.Equal(t, 1, strings.Count(out, "cat{"), "%s\n%s", name, out)
		assert.Equal(t, 2, strings.Count(nodes, " 0.5 "), "%s\n%s", name, out)
		assert.NotContains(t, nodes, ": f32[2,3,8]\n", "%s: nothing computes all of the value\n%s", name, out)
	}
	for name, text := range map[string]string{
		"it is a result":        strings.Replace(turnedLater, "return %5", "%6 = neg %0 : f32[2,3,8] live\nreturn %5 %6", 1),
		"it ends a sum":         strings.Replace(chain, "abs $0[2,3,8](8,16,1)", "sum{3} $0[2,3,8,1](8,16,1,1)", 1),
		"something sums it":     strings.Replace(turnedLater, "return %5", "%6 = sum{2} %0 : f32[2,3] live\nreturn %5 %6", 1),
		"parts lie across both": strings.Replace(turnedLater, "%0[2,3,4](24,8,1)+4", "%0[2,3,4](24,8,1)+2", 1),
	} {
		out := checked(t, Cats(parsed(t, text), 3, unread))
		assert.Equal(t, 1, strings.Count(out, " 0.5 "), "%s\n%s", name, out)
	}
}
