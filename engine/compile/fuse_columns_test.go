package compile_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/reference"
)

var columnFusions = []fusion{
	{"a chain before a sum of columns, and the mean", `input $0 : f32[5,6]
%0 = mul $0 0.3 : f32[5,6]
%1 = tanh %0 : f32[5,6]
%2 = sum{0} %1 : f32[6]
%3 = mul %2 0.2 : f32[6] live
`, [][]int{{0, 1, 2, 3}}},
	{"the gradients of a scale and a shift", `input $0 : f32[2,3,8]
input $1 : f32[2,3,8]
%0 = sum{0,1} $0 : f32[8] live
%1 = mul $0 $1 : f32[2,3,8]
%2 = sum{0,1} %1 : f32[8] live
`, [][]int{{0, 1, 2}}},
	{"a value before that is held, and is read by other kernels", `input $0 : f32[5,6]
%0 = relu $0 : f32[5,6] live
%1 = sum{0} %0 : f32[6] live
%2 = sum_squares{0} %0 : f32[6] live
%3 = matmul{0} %0 %0[6,5](1,6) : f32[5,5] live
`, [][]int{{1, 2}}},
	{"the gradients of a norm's weight and bias", `input $0 : f32[5,6]
input $1 : f32[5,6]
input $2 : f32[5]
%0 = add $0 $1 : f32[5,6]
%1 = layer_norm_grad_wb{1} %0 $1 $2 $2 : f32[6] live
%2 = result{1} %1 : f32[6] live
%3 = mul %2 0.5 : f32[6] live
`, [][]int{{0, 1, 3}}},
	{"halves are rounded before they are summed", `input $0 : bf16[5,6]
%0 = mul $0 0.3 : bf16[5,6]
%1 = sum{0} %0 : bf16[6]
%2 = ` + cast("f32") + ` %1 : f32[6] live
`, [][]int{{0, 1, 2}}},
	{"extremes and products of columns", `input $0 : f32[5,6]
%0 = neg $0 : f32[5,6]
%1 = extremum{amax,0} %0 : f32[6] live
%2 = prod{0} %0 : f32[6] live
%3 = arg_extremum{argmin,0} %0 : i64[6] live
`, [][]int{{0, 1, 2, 3}}},
	{"what no sum needs goes with the nodes after it", `input $0 : f32[5,6]
%0 = mul $0 0.3 : f32[5,6]
%1 = sum{0} %0 : f32[6] live
%2 = tanh $0 : f32[5,6]
%3 = mul %2 2.0 : f32[5,6]
%4 = softmax{1,0} %3 : f32[5,6] live
`, [][]int{{0, 1}, {2, 3, 4}}},
	{"what no sum needs at the end", `input $0 : f32[5,6]
%0 = sum{0} $0 : f32[6] live
%1 = tanh $0 : f32[5,6]
%2 = mul %1 2.0 : f32[5,6] live
`, [][]int{{1, 2}}},
	{"columns less their means need a second pass", `input $0 : f32[5,6]
%0 = sum{0} $0 : f32[6]
%1 = mul %0 0.2 : f32[6]
%2 = sub $0 %1[5,6](0,1) : f32[5,6] live
`, [][]int{{0, 1}}},
	{"a sum of what depends on a sum", `input $0 : f32[5,6]
%0 = sum{0} $0 : f32[6] live
%1 = sub $0 %0[5,6](0,1) : f32[5,6]
%2 = sum{0} %1 : f32[6] live
`, [][]int{{1, 2}}},
	{"a store in place of what is summed", `input $0 : f32[5,6]
%0 = mul $0 0.3 : f32[5,6] live
%1 = sum{0} %0 : f32[6] live
store %0 over $0 base 0 last exclusive
`, nil},
	{"elements between two sums", `input $0 : f32[5,6]
%0 = sum{0} $0 : f32[6] live
%1 = mul $0 0.5 : f32[5,6] live
%2 = sum{0} %1 : f32[6] live
`, nil},
	{"a sum in place of what each row reads", `input $0 : f32[5,6]
input $1 : f32[6]
%0 = mul $0 $1[5,6](0,1) : f32[5,6]
%1 = sum{0} %0 : f32[6] live
store %1 over $1 base 0 last exclusive
`, nil},
	{"fewer than four columns", `input $0 : f32[5,3]
%0 = mul $0 0.3 : f32[5,3]
%1 = sum{0} %0 : f32[3] live
`, nil},
	{"operands that disagree about the direction", `input $0 : f32[6,6]
input $1 : f32[6,6]
%0 = mul $0 $1[6,6](1,6) : f32[6,6]
%1 = sum{0} %0 : f32[6] live
`, nil},
	{"two dims that do not merge for a broadcast operand", `input $0 : f32[2,3,8]
input $1 : f32[3,8]
%0 = mul $0 $1[2,3,8](0,8,1) : f32[2,3,8]
%1 = sum{0,1} %0 : f32[8] live
`, nil},
	{"dropout numbers elements along memory", `input $0 : f32[5,6]
%0 = dropout $0 7 3 0.5 : f32[5,6]
%1 = sum{0} %0 : f32[6] live
`, nil},
	{"a softmax of columns takes several passes", `input $0 : f32[5,6]
%0 = mul $0 0.3 : f32[5,6]
%1 = softmax{0,0} %0 : f32[5,6] live
`, nil},
}

// Groups whose rows lie across memory are what the rules say, and the bits are those without the pass.
func TestColumnFusionGroups(t *testing.T) { checkGroups(t, columnFusions, 2) }

// columnWriter writes random programs of elementwise nodes and reductions of columns.
type columnWriter struct {
	r          *rand.Rand
	n, columns int
	full, each []value // with elements, and with one element for each column
	lines      []string
}

func (w *columnWriter) add(work, dtype string, each bool) {
	shape := fmt.Sprintf("[%d,%d]", w.n, w.columns)
	if each {
		shape = fmt.Sprintf("[%d]", w.columns)
	}
	v := value{fmt.Sprintf("%%%d", len(w.lines)), dtype}
	line := fmt.Sprintf("%s = %s : %s%s", v.name, work, dtype, shape)
	if w.r.Intn(12) == 0 || each && w.r.Intn(2) == 0 {
		line += " live"
	}
	w.lines = append(w.lines, line)
	if each {
		w.each = append(w.each, v)
	} else {
		w.full = append(w.full, v)
	}
}

func (w *columnWriter) of(list []value, dtype string) (value, bool) {
	for range 8 {
		if v := pickOf(w.r, list); v.dtype == dtype {
			return v, true
		}
	}
	return value{}, false
}

func (w *columnWriter) node() {
	x := w.full[max(len(w.full)-1-w.r.Intn(3), 0)]
	d := x.dtype
	y, _ := w.of(w.full, d)
	switch w.r.Intn(14) {
	case 0, 1:
		w.add(fmt.Sprintf("mul %s 0.37", x.name), d, false)
	case 2:
		w.add("tanh "+x.name, d, false)
	case 3, 4:
		if y.name != "" {
			w.add(pickOf(w.r, []string{"add", "mul", "sub"})+" "+x.name+" "+y.name, d, false)
		}
	case 5:
		to := pickOf(w.r, kinds)
		w.add(cast(to)+" "+x.name, to, false)
	case 6, 7, 8:
		w.add(pickOf(w.r, []string{"sum{0}", "sum{0}", "prod{0}", "sum_squares{0}", "extremum{amax,0}", "extremum{amin,0}"})+
			" "+x.name, d, true)
	case 9:
		w.add("arg_extremum{argmax,0} "+x.name, "i64", true)
	case 10:
		if y.name != "" && d == "f32" {
			w.add(fmt.Sprintf("layer_norm_grad_wb{1} %s %s $2 $2", x.name, y.name), d, true)
			w.add(fmt.Sprintf("result{1} %%%d", len(w.lines)-1), d, true)
		}
	case 11:
		if r, ok := w.of(append(w.each, value{}), d); ok {
			w.add(fmt.Sprintf("sub %s %s[%d,%d](0,1)", x.name, r.name, w.n, w.columns), d, false)
		}
	case 12:
		if len(w.each) > 0 {
			if r := pickOf(w.r, w.each); r.dtype != "i64" {
				w.add("mul "+r.name+" 0.21", r.dtype, true)
			}
		}
	case 13:
		w.add(fmt.Sprintf("mul %s $2[%d,%d](1,0)", x.name, w.n, w.columns), "f32", false)
		if d != "f32" {
			w.full, w.lines = w.full[:len(w.full)-1], w.lines[:len(w.lines)-1]
		}
	}
}

func columnProgram(r *rand.Rand, n, columns int) string {
	w := &columnWriter{r: r, n: n, columns: columns, full: []value{{"$0", "f32"}, {"$1", "f32"}}}
	w.add("mul $0 0.13", "f32", false)
	w.add("mul $1 0.29", "f32", false)
	for range 4 + r.Intn(16) {
		w.node()
	}
	return fmt.Sprintf("input $0 : f32[%d,%d]\ninput $1 : f32[%[1]d,%[2]d]\ninput $2 : f32[%[1]d]\n", n, columns) +
		strings.Join(w.lines, "\n") + "\n"
}

// Random programs over columns of every length have the bits, and at most the memory, that they have one by one.
func TestFusionChangesNoBitOfRandomColumns(t *testing.T) {
	groups := 0
	randomPrograms(t, 12, 200, 8, func(r *rand.Rand, n int) string {
		size := [][2]int{{5, 6}, {33, 7}, {300, 40}, {700, 96}, {130, 1500}, {4, 2100}, {50001, 4}, {999, 128}}[n%8]
		return columnProgram(r, size[0], size[1])
	}, func(n int, x compared) {
		if n%8 < 2 {
			x.requireNoMoreMemory(t)
		}
		groups += rowGroups(x.with)
	})
	assert.Greater(t, groups, 150)
}

// Sums of columns are right for every shape of tile, alone and in groups. The operands are small integers, so that sums
// are exact.
func TestSumsOfColumnsAreExactOnIntegers(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ref := reference.New()
	for _, size := range [][2]int{{5, 6}, {33, 7}, {67, 40}, {130, 96}, {70, 1500}, {4, 2100}, {2001, 4}, {200, 513}} {
		for _, dtype := range []string{"f32", "f64", "bf16"} {
			text := fmt.Sprintf(`input $0 : f32[%d,%d]
input $1 : f32[%[1]d,%[2]d]
input $2 : f32[%[1]d]
%%0 = cast{%[3]s} $0 : %[4]s[%[1]d,%[2]d]
%%1 = cast{%[3]s} $1 : %[4]s[%[1]d,%[2]d]
%%2 = cast{%[3]s} $2 : %[4]s[%[1]d]
%%3 = sub %%0 %%1 : %[4]s[%[1]d,%[2]d]
%%4 = sum{0} %%3 : %[4]s[%[2]d] live
%%5 = sum_squares{0} %%3 : %[4]s[%[2]d] live
%%6 = layer_norm_grad_wb{1} %%3 %%0 %%2 %%2 : %[4]s[%[2]d] live
%%7 = result{1} %%6 : %[4]s[%[2]d] live
`, size[0], size[1], strings.TrimSuffix(strings.TrimPrefix(cast(dtype), "cast{"), "}"), dtype)
			p := program.MustParse(text)
			with := build(t, c, p)
			require.Equal(t, 1, rowGroups(with), "%s", text)
			want := run(t, ref, build(t, ref, p, "fuse"))
			assert.Equal(t, want, run(t, c, with), "%s", text)
			assert.Equal(t, want, run(t, c, build(t, c, p, "fuse")), "%s", text)
		}
	}
}

// checkOneOrder requires the same bits of a program with and without fusion, which works columns by other tiles.
func checkOneOrder(t *testing.T, text string, threads ...int) {
	t.Helper()
	p := program.MustParse(text)
	var want map[int][]byte
	for _, n := range threads {
		c, err := cpu.New(cpu.Options{Threads: n})
		require.NoError(t, err)
		with, without := build(t, c, p), build(t, c, p, "fuse")
		require.Equal(t, 1, rowGroups(with), "%s", text)
		if want == nil {
			want = run(t, c, without)
		} else {
			assert.Equal(t, want, run(t, c, without), "%d threads: %s", n, text)
		}
		assert.Equal(t, want, run(t, c, with), "%d threads: %s", n, text)
		c.Close()
	}
}

// The chunks of a column's sum depend on the shape alone: a sum of elements in place, by tiles of 8 rows, has the bits
// of a sum behind a product, by tiles of as many rows as fit into registers.
func TestChunksOfColumnSumsDoNotDependOnTheTiles(t *testing.T) {
	for _, size := range [][2]int{{12001, 6}, {9700, 7}, {6000, 12}, {200, 1500}} {
		for _, dtype := range []string{"f32", "f64"} {
			checkOneOrder(t, fmt.Sprintf(`input $0 : f32[%d,%d]
%%0 = %[3]s $0 : %[4]s[%[1]d,%[2]d]
%%1 = mul %%0 0.37 : %[4]s[%[1]d,%[2]d]
%%2 = sum{0} %%1 : %[4]s[%[2]d] live
`, size[0], size[1], cast(dtype), dtype), 1, 2)
		}
	}
}

// Column sums of products add each product without rounding it. A gradient of a norm's weight that is alone multiplies
// and adds in one pass; one that shares its normalised rows with another gradient reads them from a register.
func TestColumnSumsOfProductsHaveTheBitsOfOnePass(t *testing.T) {
	for _, size := range [][2]int{{67, 40}, {70, 600}, {130, 1500}} {
		checkOneOrder(t, fmt.Sprintf(`input $0 : f32[%d,%d]
input $1 : f32[%[1]d,%[2]d]
input $2 : f32[%[1]d]
%%0 = mul $0 0.37 : f32[%[1]d,%[2]d]
%%1 = mul $1 0.29 : f32[%[1]d,%[2]d]
%%2 = layer_norm_grad_wb{1} %%0 %%1 $2 $2 : f32[%[2]d] live
%%3 = result{1} %%2 : f32[%[2]d] live
%%4 = layer_norm_grad_wb{1} %%1 %%1 $2 $2 : f32[%[2]d] live
%%5 = result{1} %%4 : f32[%[2]d] live
`, size[0], size[1]), 1, 2)
	}
}
