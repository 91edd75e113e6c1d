package compile_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/cpu"
)

var rowFusions = []fusion{
	{"a chain before a sum", `input $0 : f32[3,5]
%0 = mul $0 0.3 : f32[3,5]
%1 = tanh %0 : f32[3,5]
%2 = sum{1} %1 : f32[3] live
`, [][]int{{0, 1, 2}}},
	{"a chain before a sum of everything, and the mean of it", `input $0 : f32[3,5]
%0 = mul $0 0.3 : f32[3,5]
%1 = sum{0,1} %0 : f32[]
%2 = mul %1 0.1 : f32[] live
`, [][]int{{0, 1, 2}}},
	{"a value before is read again and held", `input $0 : f32[3,5]
%0 = mul $0 0.3 : f32[3,5] live
%1 = sum{1} %0 : f32[3] live
%2 = neg %0 : f32[3,5] live
`, [][]int{{0, 1, 2}}},
	{"the rows less their means", `input $0 : f32[3,5]
%0 = sum{1} $0 : f32[3]
%1 = mul %0 0.2 : f32[3]
%2 = sub $0 %1[3,5](1,0) : f32[3,5] live
`, [][]int{{0, 1, 2}}},
	{"two reductions of the same rows", `input $0 : f32[3,5]
%0 = extremum{amax,1} $0 : f32[3]
%1 = sub $0 %0[3,5](1,0) : f32[3,5]
%2 = exp %1 : f32[3,5]
%3 = sum{1} %2 : f32[3]
%4 = div %2 %3[3,5](1,0) : f32[3,5] live
`, [][]int{{0, 1, 2, 3, 4}}},
	{"residual, dropout and layer norm", `input $0 : f32[3,5]
input $1 : f32[3,5]
input $2 : f32[5]
%0 = dropout $0 7 3 0.5 : f32[3,5]
%1 = add %0 $1 : f32[3,5] live
%2 = layer_norm{1,1,1,0} %1 $2 $2 0.001 : f32[3,5]
%3 = result{1} %2 : f32[3] live
%4 = result{2} %2 : f32[3] live
%5 = relu %2 : f32[3,5] live
`, [][]int{{0, 1, 2, 5}}},
	{"statistics that nobody holds, and one that a member reads", `input $0 : f32[3,5]
%0 = mul $0 0.3 : f32[3,5]
%1 = layer_norm{1,0,0,0} %0 0.001 : f32[3,5] live
%2 = result{2} %1 : f32[3]
%3 = mul %2 2.0 : f32[3] live
`, [][]int{{0, 1, 3}}},
	{"rms norm of halves", `input $0 : f32[3,5]
%0 = ` + cast("bf16") + ` $0 : bf16[3,5]
%1 = mul %0 0.3 : bf16[3,5]
%2 = layer_norm{1,0,0,1} %1 0.001 : bf16[3,5]
%3 = mul %2 %1 : bf16[3,5]
%4 = ` + cast("f32") + ` %3 : f32[3,5] live
`, [][]int{{0, 1, 2, 3, 4}}},
	{"softmax of a scaled masked score, and dropout", `input $0 : f32[2,3,5]
input $1 : f32[3,5]
%0 = mul $0 0.125 : f32[2,3,5]
%1 = add %0 $1[2,3,5](0,5,1) : f32[2,3,5]
%2 = softmax{2,0} %1 : f32[2,3,5] live
%3 = dropout %2 7 3 0.5 : f32[2,3,5] live
`, [][]int{{0, 1, 2, 3}}},
	{"gradients of softmax and layer norm", `input $0 : f32[3,5]
input $1 : f32[3,5]
input $2 : f32[3]
%0 = mul $0 0.5 : f32[3,5]
%1 = softmax_grad{1,0} %0 $1 : f32[3,5]
%2 = layer_norm_grad{1,0,0} %1 $0 $2 $2 : f32[3,5]
%3 = mul %2 3.0 : f32[3,5] live
`, [][]int{{0, 1, 2, 3}}},
	{"dropout, residual and layer norm: the buffer of what is dropped takes the sum", `input $0 : f32[6,6]
input $1 : f32[2,3,6]
%0 = cat{0} $0 : f32[6,6]
%1 = dropout %0[2,3,6] 7 3 0.5 : f32[2,3,6]
%2 = add %1 $1 : f32[2,3,6]
%3 = layer_norm{1,0,0,0} %2 0.001 : f32[2,3,6]
%4 = matmul{0} %3[6,6] $0 : f32[6,6] live
%5 = matmul{0} %2[6,6] $0 : f32[6,6] live
`, [][]int{{1, 2, 3}}},
	{"a product drops and adds, and the norm is alone", `input $0 : f32[6,6]
input $1 : f32[2,3,6]
%0 = matmul{0} $0 $0 : f32[6,6]
%1 = dropout %0[2,3,6] 7 3 0.5 : f32[2,3,6]
%2 = add %1 $1 : f32[2,3,6]
%3 = layer_norm{1,0,0,0} %2 0.001 : f32[2,3,6] live
`, nil},
	{"the gradient of a layer norm, residual and dropout", `input $0 : f32[3,5]
input $1 : f32[3]
%0 = layer_norm_grad{1,0,0} $0 $0 $1 $1 : f32[3,5]
%1 = add $0 %0 : f32[3,5] live
%2 = dropout %1 7 3 0.5 : f32[3,5] live
`, [][]int{{0, 1, 2}}},
	{"a residual that comes after another kernel is an epilogue", `input $0 : f32[3,5]
input $1 : f32[3]
%0 = layer_norm_grad{1,0,0} $0 $0 $1 $1 : f32[3,5]
%1 = cat{0} $1 $1 : f32[6] live
%2 = add $0 %0 : f32[3,5] live
`, nil},
	{"cross-entropy of scaled logits ends its group", `input $0 : f32[4,5]
input $1 : i64[4]
%0 = mul $0 0.5 : f32[4,5]
%1 = cross_entropy{1,-100} %0 $1 : f32[4] live
%2 = result{1} %1 : f32[4] live
%3 = result{2} %1 : f32[4] live
%4 = result{3} %1 : f32[4] live
%5 = mul %0 2.0 : f32[4,5] live
%6 = mul %1 2.0 : f32[4] live
`, [][]int{{0, 1}}},
	{"the gradient of cross-entropy", `input $0 : f32[4,5]
input $1 : i64[4]
input $2 : f32[4]
%0 = mul $2 0.25 : f32[4]
%1 = cross_entropy_grad{1,-100} %0 $0 $1 $2 $2 : f32[4,5]
%2 = mul %1 0.5 : f32[4,5] live
`, [][]int{{1, 2}}},
	{"a mean in place of what it reads", `input $0 : f32[3,5]
%0 = sum{1} $0 : f32[3]
%1 = sub $0 %0[3,5](1,0) : f32[3,5] live
store %1 over $0 base 0 last exclusive
`, [][]int{{0, 1}}},
	{"a store in place that a later pass would read", `input $0 : f32[3,5]
%0 = mul $0 0.3 : f32[3,5] live
%1 = extremum{amax,1} %0 : f32[3]
%2 = sub %0 %1[3,5](1,0) : f32[3,5] live
store %0 over $0 base 0 last exclusive
`, [][]int{{0, 1, 2}}},
	{"operands whose rows lie across memory", `input $0 : f32[5,5]
input $1 : f32[5,5]
%0 = mul $0[5,5](1,5) $1[5,5](1,5) : f32[5,5]
%1 = sum{1} %0 : f32[5] live
`, nil},
	{"rows of two dims that do not merge", `input $0 : f32[3,5]
input $1 : f32[3]
%0 = mul $0 $1[3,5](1,0) : f32[3,5]
%1 = sum{0,1} %0 : f32[] live
`, [][]int{{0, 1}}},
	{"rows of two dims that do not merge, longer than a tile", `input $0 : f32[3,500]
input $1 : f32[3]
%0 = mul $0 $1[3,500](1,0) : f32[3,500]
%1 = sum{0,1} %0 : f32[] live
`, nil},
	{"rows that do not merge for the norm alone", `input $0 : f32[2,3,5]
%0 = layer_norm{2,0,0,0} $0[2,5,3](15,1,5) 0.001 : f32[2,5,3]
%1 = relu %0 : f32[2,5,3] live
`, nil},
	{"group norm with weight, residual and activation", `input $0 : f32[2,4,3]
input $1 : f32[4]
%0 = mul $0 0.7 : f32[2,4,3]
%1 = add %0 $1[2,4,3](0,1,0) : f32[2,4,3]
%2 = layer_norm{2,0,0,0} %1[2,2,2,3] 0.001 : f32[2,2,2,3]
%3 = result{1} %2 : f32[2,2] live
%4 = mul %2[2,4,3] $1[2,4,3](0,1,0) : f32[2,4,3]
%5 = add %4 %1 : f32[2,4,3]
%6 = dropout %5 7 3 0.5 : f32[2,4,3]
%7 = relu %6 : f32[2,4,3] live
`, [][]int{{0, 1, 2, 4, 5, 6, 7}}},
	{"the gradient of a group norm", `input $0 : f32[2,4,3]
input $1 : f32[4]
input $2 : f32[2,2]
%0 = mul $0 $1[2,4,3](0,1,0) : f32[2,4,3]
%1 = layer_norm_grad{2,0,0} %0[2,2,2,3] $0[2,2,2,3] $2 $2 : f32[2,2,2,3]
%2 = mul %1[2,4,3] $0 : f32[2,4,3] live
`, [][]int{{0, 1, 2}}},
	{"a mean of each group, read in the other shape", `input $0 : f32[2,4,3]
%0 = mul $0 0.7 : f32[2,4,3]
%1 = sum{2,3} %0[2,2,2,3] : f32[2,2]
%2 = sub %0[2,2,2,3] %1[2,2,2,3](2,1,0,0) : f32[2,2,2,3]
%3 = neg %2[2,4,3] : f32[2,4,3] live
`, [][]int{{0, 1, 2, 3}}},
	{"elements that have the shape of values for each row", `input $0 : f32[2,1]
%0 = mul $0 0.5 : f32[2,1] live
%1 = neg %0[2,1,1] : f32[2,1,1]
%2 = sum{2} %1 : f32[2,1] live
`, [][]int{{0, 1}}},
	{"a view that cannot be seen in the shape of the rows", `input $0 : f32[4,3]
%0 = neg $0[3,4](1,3) : f32[3,4]
%1 = softmax{1,0} %0[2,6] : f32[2,6] live
`, nil},
	{"a reduction along another dim", `input $0 : f32[3,3]
%0 = mul $0 0.3 : f32[3,3]
%1 = sum{1} %0 : f32[3] live
%2 = softmax{0,0} %0 : f32[3,3] live
`, [][]int{{0, 1}}},
	{"another view of what a member makes", `input $0 : f32[3,3]
%0 = mul $0 0.3 : f32[3,3]
%1 = sum{1} %0[3,3](1,3) : f32[3] live
`, nil},
	{"a mean read along the rows", `input $0 : f32[3,3]
%0 = sum{1} $0 : f32[3]
%1 = sub $0 %0[3,3](0,1) : f32[3,3] live
`, nil},
	{"rows too long for registers", `input $0 : f32[2,5000]
%0 = mul $0 0.3 : f32[2,5000]
%1 = softmax{1,0} %0 : f32[2,5000] live
%2 = mul $0 0.7 : f32[2,5000]
%3 = sum{1} %2 : f32[2] live
`, [][]int{{2, 3}}},
	{"extremes of rows of several tiles", `input $0 : f32[2,1500]
%0 = mul $0 0.3 : f32[2,1500]
%1 = extremum{amax,1} %0 : f32[2] live
`, nil},
}

// Groups of rows are what the rules say, and the bits are those without the pass.
func TestRowFusionGroups(t *testing.T) { checkGroups(t, rowFusions, 2) }

// A store waits for the passes that read what it overwrites, and a group binds no more buffers than the device has.
func TestRowGroupsSplitAtTheDevicesLimits(t *testing.T) {
	p := program.MustParse(`input $0 : f32[4,5]
input $1 : i64[4]
%0 = mul $0 0.5 : f32[4,5]
%1 = cross_entropy{1,-100} %0 $1 : f32[4] live
%2 = result{1} %1 : f32[4] live
%3 = result{2} %1 : f32[4] live
%4 = result{3} %1 : f32[4] live
`)
	for buffers, want := range map[int]int{6: 0, 7: 1} { // two operands, four results and the error word
		d := newLimited(buffers, false)
		pl := build(t, d, p)
		assert.Len(t, groupsOf(pl), want, "%d buffers", buffers)
		assert.Equal(t, run(t, d, build(t, d, p, "fuse")), run(t, d, pl))
	}
}

// rowWriter writes random programs of elementwise nodes and nodes that work rows.
type rowWriter struct {
	r          *rand.Rand
	rows, n    int
	full, each []value // with elements, and with one element for each row
	version    string  // of the base that is written
	written    int     // the node that makes it
	lines      []string
	stores     []string
}

type value struct{ name, dtype string }

func (w *rowWriter) add(work, dtype string, each bool) {
	live := pickOf(w.r, []string{"", "", " live"})
	shape := fmt.Sprintf("[%d,%d]", w.rows, w.n)
	if each {
		shape = fmt.Sprintf("[%d]", w.rows)
	}
	v := value{fmt.Sprintf("%%%d", len(w.lines)), dtype}
	w.lines = append(w.lines, fmt.Sprintf("%s = %s : %s%s%s", v.name, work, dtype, shape, live))
	if each {
		w.each = append(w.each, v)
	} else {
		w.full = append(w.full, v)
	}
}

// of picks a value of this dtype.
func (w *rowWriter) of(list []value, dtype string) (value, bool) {
	for range 8 {
		if v := pickOf(w.r, list); v.dtype == dtype {
			return v, true
		}
	}
	return value{}, false
}

var kinds = []string{"f32", "f32", "f32", "f64", "bf16", "f16"}

func (w *rowWriter) node() {
	x := w.full[max(len(w.full)-1-w.r.Intn(3), 0)]
	d := x.dtype
	y, _ := w.of(w.full, d)
	back := fmt.Sprintf("[%d,%d](1,0)", w.rows, w.n)
	switch w.r.Intn(18) {
	case 16:
		if d == "f32" {
			w.store(x.name)
		}
	case 17:
		w.add("sum_squares{1} "+w.version, "f32", true)
	case 0, 1:
		w.add(fmt.Sprintf("mul %s 0.37", x.name), d, false)
	case 2:
		w.add("tanh "+x.name, d, false)
	case 3:
		if y.name != "" {
			w.add(pickOf(w.r, []string{"add", "mul", "sub"})+" "+x.name+" "+y.name, d, false)
		}
	case 4:
		to := pickOf(w.r, kinds)
		w.add(cast(to)+" "+x.name, to, false)
	case 5:
		w.add(fmt.Sprintf("dropout %s %d 1 0.25", x.name, w.r.Intn(99)), d, false)
	case 6, 7:
		w.add(pickOf(w.r, []string{"sum{1}", "sum{1}", "prod{1}", "sum_squares{1}", "extremum{amax,1}", "extremum{amin,1}"})+
			" "+x.name, d, true)
	case 8:
		w.add("var{1} "+x.name+" 1.0", d, true)
		w.result(1, d)
	case 9:
		w.add(fmt.Sprintf("softmax{1,%d} %s", w.r.Intn(2), x.name), d, false)
	case 10:
		w.add(fmt.Sprintf("layer_norm{1,0,0,%d} %s 0.01", w.r.Intn(2), x.name), d, false)
		if d != "f16" && d != "bf16" {
			w.result(2, d)
		}
	case 11:
		if y.name != "" {
			w.add(fmt.Sprintf("softmax_grad{1,%d} %s %s", w.r.Intn(2), x.name, y.name), d, false)
		}
	case 12, 13:
		if r, ok := w.of(append(w.each, value{}), d); ok {
			w.add("sub "+x.name+" "+r.name+back, d, false)
		}
	case 14:
		if len(w.each) > 0 {
			r := pickOf(w.r, w.each)
			w.add("mul "+r.name+" 0.21", r.dtype, true)
		}
	case 15:
		if m, ok := w.of(append(w.each, value{}), d); ok && y.name != "" && (d == "f32" || d == "f64") {
			w.add(fmt.Sprintf("layer_norm_grad{1,0,0} %s %s %s %s", x.name, y.name, m.name, m.name), d, false)
		}
	}
}

func (w *rowWriter) result(k int, dtype string) {
	w.add(fmt.Sprintf("result{%d} %%%d", k, len(w.lines)-1), dtype, true)
}

func rowProgram(r *rand.Rand, rows, n int) string {
	w := &rowWriter{r: r, rows: rows, n: n, full: []value{{"$0", "f32"}}, version: "$1"}
	w.add("mul $0 0.13", "f32", false)
	w.add("mul $1 0.29", "f32", false)
	for range 4 + r.Intn(16) {
		w.node()
	}
	if n := len(w.stores); n > 0 {
		w.stores[n-1] += " last"
		w.lines[w.written] += " live"
	}
	text := fmt.Sprintf("input $0 : f32[%d,%d]\ninput $1 : f32[%[1]d,%[2]d]\n", rows, n) + strings.Join(w.lines, "\n") +
		"\n"
	for _, s := range w.stores {
		text += s + " exclusive\n"
	}
	return text
}

// store writes the base: its version and a value are added.
func (w *rowWriter) store(value string) {
	name := fmt.Sprintf("%%%d", len(w.lines))
	w.written = len(w.lines)
	w.lines = append(w.lines, fmt.Sprintf("%s = add %s %s : f32[%d,%d]", name, w.version, value, w.rows, w.n))
	w.stores = append(w.stores, fmt.Sprintf("store %s over %s base 0", name, w.version))
	w.version = name
}

// Random programs over rows of every length have the bits, and at most the memory, that they have one by one.
func TestFusionChangesNoBitOfRandomRows(t *testing.T) {
	rows, inPlace := 0, 0
	randomPrograms(t, 11, 300, 7, func(r *rand.Rand, n int) string {
		size := [][2]int{{3, 5}, {7, 33}, {40, 300}, {64, 1000}, {3, 1500}, {2, 5000}, {1, 200001}}[n%7]
		return rowProgram(r, size[0], size[1])
	}, func(n int, x compared) {
		if n%7 < 2 {
			x.requireNoMoreMemory(t)
		}
		require.Equal(t, x.without.InPlace, x.with.InPlace, "%s", x.text)
		rows += rowGroups(x.with)
		inPlace += x.with.InPlace
	})
	assert.Greater(t, rows, 200)
	assert.Greater(t, inPlace, 40)
}

// Groups of rows whose dims do not merge for a weight have the bits that their members have one by one, whatever the
// length of a row; longer rows than one tile end the group before the weight.
func TestFusionChangesNoBitOfGroupNorms(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for _, s := range []struct{ n, groups, each, places int }{
		{2, 3, 4, 33}, {2, 2, 15, 257}, {1, 2, 300, 7}, {4, 4, 63, 65}, {2, 2, 4, 1024}, {2, 2, 100, 160}, {2, 2, 20, 257},
	} {
		for _, dtype := range []string{"f32", "f64", "bf16"} {
			full := fmt.Sprintf("[%d,%d,%d]", s.n, s.groups*s.each, s.places)
			split := fmt.Sprintf("[%d,%d,%d,%d]", s.n, s.groups, s.each, s.places)
			p := program.MustParse(strings.NewReplacer("FULL", full, "SPLIT", split, "T", dtype).Replace(fmt.Sprintf(
				`input $0 : TFULL
input $1 : T[%d]
%%0 = mul $0 0.37 : TFULL
%%1 = add %%0 $1FULL(0,1,0) : TFULL
%%2 = layer_norm{2,0,0,0} %%1SPLIT 0.001 : TSPLIT
%%3 = mul %%2FULL $1FULL(0,1,0) : TFULL
%%4 = relu %%3 : TFULL live
`, s.groups*s.each)))
			with, without := build(t, c, p), build(t, c, p, "fuse")
			assert.Equal(t, s.each*s.places <= 4096, len(groupsOf(with)[0]) == 5, "%v", s)
			assert.True(t, reflect.DeepEqual(run(t, c, without), run(t, c, with)), "%v of %s", s, dtype)
		}
	}
}

// rowGroups counts the fusion groups of a plan with a member that works rows.
func rowGroups(p *compile.Plan) (n int) {
	for _, g := range groupsOf(p) {
		for _, m := range g {
			if !p.Program.Prim(m).Elementwise {
				n++
				break
			}
		}
	}
	return n
}
