package compile_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/reference"
)

// productsOf counts the products of a plan that have a property.
func productsOf(p *compile.Plan, has func(*launch.Gemm) bool) (n int) {
	for _, s := range p.Segments {
		for _, st := range s.Steps {
			if g, ok := st.Op.(*launch.Gemm); ok && has(g) {
				n++
			}
		}
	}
	return n
}

// mapsOf counts the products of a plan that apply a map.
func mapsOf(p *compile.Plan) int {
	return productsOf(p, func(g *launch.Gemm) bool { return g.Epilogue != nil })
}

const product = `input $0 : f32[4,3]
input $1 : f32[3,6]
input $2 : f32[4,6]
input $3 : f32[6]
%0 = matmul{0,0} $0 $1 : f32[4,6]
`

var epilogues = []struct {
	name, text string
	kernels    int // with the pass, without the pass fuse; the columns of a convolution do not count
	maps       int
}{
	{"scale, activation, residual", product + `%1 = mul %0 0.3 : f32[4,6]
%2 = relu %1 : f32[4,6]
%3 = add %2 $2 : f32[4,6] live
`, 1, 1},
	{"a result that is read twice", product + `%1 = sigmoid %0 : f32[4,6]
%2 = mul %0 %1 : f32[4,6]
%3 = mul %2 %1 : f32[4,6] live
`, 1, 1},
	{"a gate that another product makes", `input $0 : f32[4,3]
input $1 : f32[3,6]
input $2 : f32[3,6]
%0 = matmul{0,0} $0 $1 : f32[4,6]
%1 = sigmoid %0 : f32[4,6]
%2 = matmul{0,0} $0 $2 : f32[4,6]
%3 = mul %2 %1 : f32[4,6]
%4 = sub 1.0 %3 : f32[4,6] live
`, 2, 2},
	{"a comparison, a choice, numbers on either side", product + `%1 = compare{le} %0 0.5 : bool[4,6]
%2 = sub 2.0 %0 : f32[4,6]
%3 = where %1 %2 $2 : f32[4,6] live
`, 1, 1},
	{"an operand of another dtype", `input $0 : f32[4,3]
input $1 : f32[3,6]
input $2 : i32[4,6]
%0 = matmul{0,0} $0 $1 : f32[4,6]
%1 = ` + cast("i32") + ` %0 : i32[4,6]
%2 = add %1 $2 : i32[4,6]
%3 = ` + cast("f32") + ` %2 : f32[4,6]
%4 = mul %3 %0 : f32[4,6] live
`, 1, 1},
	{"values are rounded between nodes", product + `%1 = mul %0 0.7 : f32[4,6]
%2 = ` + cast("f16") + ` %1 : f16[4,6]
%3 = mul %2 %2 : f16[4,6]
%4 = ` + cast("u8") + ` %3 : u8[4,6]
%5 = sub %4 7 : u8[4,6]
%6 = ` + cast("f32") + ` %5 : f32[4,6] live
`, 1, 1},
	{"dropout", product + `%1 = dropout %0 7 3 0.4 : f32[4,6]
%2 = add %1 $2 : f32[4,6] live
`, 1, 1},
	{"a batch, seen in another shape", `input $0 : f32[2,4,3]
input $1 : f32[2,3,5]
input $2 : f32[40]
%0 = matmul{0,0} $0 $1 : f32[2,4,5]
%1 = add %0[40] $2 : f32[40]
%2 = dropout %1[8,5] 7 3 0.4 : f32[8,5] live
`, 1, 1},
	{"half precision", strings.ReplaceAll(product, "f32", "f16") + `%1 = mul %0 0.3 : f16[4,6]
%2 = add %1 $2 : f16[4,6] live
`, 1, 1},
	{"a result that is held", strings.TrimSuffix(product, "\n") + ` live
%1 = relu %0 : f32[4,6] live
`, 1, 1},
	{"a value between that is held", product + `%1 = relu %0 : f32[4,6] live
%2 = add %1 $2 : f32[4,6] live
`, 1, 1},
	{"every value is held, of several dtypes", strings.TrimSuffix(product, "\n") + ` live
%1 = compare{gt} %0 0.1 : bool[4,6] live
%2 = relu %0 : f32[4,6] live
%3 = ` + cast("f16") + ` %2 : f16[4,6] live
`, 1, 1},
	{"more results than a product binds", strings.TrimSuffix(product, "\n") + ` live
%1 = relu %0 : f32[4,6] live
%2 = exp %1 : f32[4,6] live
%3 = add %2 $2 : f32[4,6] live
%4 = add %3 1.0 : f32[4,6] live
%5 = sub %4 $2 : f32[4,6] live
`, 3, 1},
	{"a further result in the shape of a reader", product + `%1 = relu %0[24] : f32[24] live
%2 = neg %1 : f32[24] live
`, 1, 1},
	{"a chain longer than an epilogue is a group", strings.TrimSuffix(product, "\n") + ` live
` + strings.Join(adds(20), "\n") + ` live
`, 21, 0},
	{"a row takes what comes before it, without a further result", strings.TrimSuffix(product, "\n") + ` live
%1 = mul %0 0.5 : f32[4,6]
%2 = softmax{1,0} %1 : f32[4,6] live
`, 3, 0},
	{"a value between that a later kernel reads", product + `%1 = relu %0 : f32[4,6]
%2 = add %1 $2 : f32[4,6]
%3 = sum{0} %1 : f32[6] live
%4 = mul %2 2.0 : f32[4,6] live
`, 3, 1},
	{"a result that ends in another dtype", product + `%1 = relu %0 : f32[4,6]
%2 = ` + cast("f16") + ` %1 : f16[4,6]
%3 = neg %2 : f16[4,6] live
`, 3, 1},
	{"an operand that is made later", product + `%1 = exp $2 : f32[4,6]
%2 = add %0 %1 : f32[4,6] live
`, 3, 0},
	{"an operand for each column", product + `%1 = add %0 $3[4,6](0,1) : f32[4,6] live
`, 1, 1},
	{"operands for each row, for each element, for all", product + `%1 = mul %0 $3[4,6](1,0)+2 : f32[4,6]
%2 = sub %1 $3[4,6](0,0)+5 : f32[4,6]
%3 = div %2 $2[4,6](0,1)+6 : f32[4,6]
%4 = add %3 $2[4,6](6,1) : f32[4,6] live
`, 1, 1},
	{"a gate for each matrix of a batch that is one taller product", `input $0 : f32[2,4,3]
input $1 : f32[3,5]
input $2 : f32[2,1,5]
input $3 : f32[2,4,1]
%0 = matmul{0,0} $0 $1[2,3,5](0,5,1) : f32[2,4,5]
%1 = mul %0 $2[2,4,5](5,0,1) : f32[2,4,5]
%2 = mul %1[8,5] $3[8,5](1,0) : f32[8,5] live
`, 1, 1},
	{"more dims than a product takes", `input $0 : f32[2,2,2,2,3]
input $1 : f32[3,2]
input $2 : f32[2,1,2,1,2]
%0 = matmul{0,0} $0 $1[2,2,2,3,2](0,0,0,2,1) : f32[2,2,2,2,2]
%1 = mul %0 $2[2,2,2,2,2](4,0,2,0,1) : f32[2,2,2,2,2] live
`, 2, 0},
	{"a view in no shape of the result", product + `%1 = add %0[2,12] $2[2,12](0,2) : f32[2,12] live
`, 2, 0},
	{"a transposed result", product + `%1 = relu %0[6,4](1,6) : f32[6,4] live
`, 2, 0},
	{"a store in place", product + `%1 = add %0 $2 : f32[4,6] live
store %1 over $2 base 0 last exclusive
`, 2, 0},
	{"a convolution", `input $0 : f32[2,3,9,8]
input $1 : f32[4,3,3,3]
input $2 : f32[2,4,7,6]
%0 = conv{2,3,3,1,1,0,0,1,1,1,1,7,6,1} $0 $1 : f32[2,4,7,6]
%1 = mul %0 0.3 : f32[2,4,7,6]
%2 = sub $2 %1 : f32[2,4,7,6]
%3 = relu %2 : f32[2,4,7,6] live
`, 1, 1},
	{"a convolution by channel and image, with what is saved", `input $0 : f32[2,3,9,8]
input $1 : f32[4,3,3,3]
input $2 : f32[4]
input $3 : f32[2,4]
%0 = conv{2,3,3,1,1,0,0,1,1,1,1,7,6,1} $0 $1 : f32[2,4,7,6] live
%1 = mul %0 $2[2,4,7,6](0,1,0,0) : f32[2,4,7,6]
%2 = sub %1 $3[2,4,7,6](4,1,0,0) : f32[2,4,7,6] live
%3 = relu %2 : f32[2,4,7,6] live
`, 1, 1},
	{"a convolution by position", `input $0 : f32[2,3,9,8]
input $1 : f32[4,3,3,3]
input $2 : f32[6]
%0 = conv{2,3,3,1,1,0,0,1,1,1,1,7,6,1} $0 $1 : f32[2,4,7,6]
%1 = mul %0 $2[2,4,7,6](0,0,0,1) : f32[2,4,7,6] live
`, 2, 0},
	{"no terms", `input $0 : f32[4,0]
input $1 : f32[0,6]
%0 = matmul{0,0} $0 $1 : f32[4,6]
%1 = relu %0 : f32[4,6] live
`, 2, 0},
	{"more operands than a product binds", `input $0 : f32[2,2]
input $1 : f32[2,2]
input $2 : f32[2,2]
input $3 : f32[2,2]
input $4 : f32[2,2]
%0 = matmul{0,0} $0 $0 : f32[2,2]
%1 = add %0 $0 : f32[2,2]
%2 = add %1 $1 : f32[2,2]
%3 = add %2 $2 : f32[2,2]
%4 = add %3 $3 : f32[2,2]
%5 = add %4 $4 : f32[2,2]
%6 = add %5 $4 : f32[2,2] live
`, 3, 1},
}

// adds is a chain of n nodes after node 0.
func adds(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("%%%d = add %%%d 1.5 : f32[4,6]", i+1, i))
	}
	return lines
}

// Products apply what the rules say, and the bits are those without the pass, on an interpreter and on the CPU.
func TestEpiloguesOfProducts(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for _, e := range epilogues {
		t.Run(e.name, func(t *testing.T) {
			p := program.MustParse(e.text)
			for _, d := range []device.Device{reference.New(), c} {
				with, without := build(t, d, p, "fuse"), build(t, d, p, "fuse", "fuse_epilogue")
				columns := without.Kernels - len(p.Nodes)
				assert.Equal(t, []int{e.kernels, e.maps}, []int{with.Kernels - columns, mapsOf(with)})
				assert.Zero(t, mapsOf(without))
				assert.Equal(t, run(t, d, without), run(t, d, with))
				assert.Equal(t, run(t, d, without), run(t, d, build(t, d, p)), "beside groups")
				assert.LessOrEqual(t, bytesOf(with), bytesOf(without), "memory")
			}
		})
	}
}

// Where kernels take long to compile, products have no map until the window has run several times.
func TestSlowCompilersFoldWhatRunsOften(t *testing.T) {
	p := program.MustParse(epilogues[0].text)
	d := newLimited(64, true)
	first, later := build(t, d, p), often(t, d, p)
	assert.Equal(t, []int{0, 1}, []int{mapsOf(first), mapsOf(later)})
	assert.Positive(t, first.Fusible)
	assert.Zero(t, later.Fusible)
	assert.Equal(t, run(t, d, first), run(t, d, later))
}

// productMaps writes a random program of a product, and of elementwise nodes that read it.
func productMaps(r *rand.Rand, rows, cols, depth int) string {
	return mapsAfter(r, "matmul{0,0}", fmt.Sprintf("[%d,%d]", rows, depth), fmt.Sprintf("[%d,%d]", depth, cols),
		fmt.Sprintf("[%d,%d]", rows, cols), "(0,1)", "(1,0)")
}

// convMaps is productMaps with a convolution of n images of side size, with spread inputs where base is 2.
func convMaps(r *rand.Rand, n, channels, filters, groups, size, pad, stride, base int) string {
	const kernel = 3
	out := ((size-1)*base+1+2*pad-kernel)/stride + 1
	attr := fmt.Sprintf("conv{2,3,3,%d,%d,%d,%d,1,1,%d,%d,%d,%d,%d}", stride, stride, pad, pad, base, base, out, out,
		groups)
	return mapsAfter(r, attr, fmt.Sprintf("[%d,%d,%d,%d]", n, channels, size, size),
		fmt.Sprintf("[%d,%d,3,3]", filters, channels/groups), fmt.Sprintf("[%d,%d,%d,%d]", n, filters, out, out), "(0,1,0,0)",
		fmt.Sprintf("(%d,1,0,0)", filters), "(0,0,0,0)")
}

// mapsAfter writes a random program of work on operands of shapes x and w, and of elementwise nodes that read it. Some
// of their operands have these strides.
func mapsAfter(r *rand.Rand, work, x, w, shape string, strides ...string) string {
	d := pickOf(r, []string{"f32", "f32", "f32", "f16", "bf16", "i32"})
	m := &mapWriter{r: r, shape: shape, version: "$1", views: make([]string, 2*len(strides))}
	for _, s := range strides {
		m.views = append(m.views, shape+s)
	}
	m.lines = []string{fmt.Sprintf("%%0 = %s $2 $3 : %s%s", work, d, m.shape)}
	m.values = map[string][]string{"f32": {"$0"}}
	m.values[d] = append(m.values[d], "%0", "%0")
	for range 2 + r.Intn(8) {
		m.node()
	}
	for i := range m.lines[:len(m.lines)-1] { // few values are held
		if r.Intn(3) > 0 && !strings.Contains(strings.Join(m.stores, " "), fmt.Sprintf("%%%d ", i)) {
			m.lines[i] = strings.TrimSuffix(m.lines[i], " live")
		}
	}
	if n := len(m.stores); n > 0 {
		m.stores[n-1] += " last"
		m.lines[m.written] += " live"
	}
	last := len(m.lines) - 1
	m.lines[last] = strings.TrimSuffix(m.lines[last], " live") + " live"
	text := fmt.Sprintf("input $0 : f32%s\ninput $1 : f32%s\ninput $2 : %s%s\ninput $3 : %s%s\n",
		m.shape, m.shape, d, x, d, w) + strings.Join(m.lines, "\n") + "\n"
	for _, s := range m.stores {
		text += s + " exclusive\n"
	}
	return text
}

// Random maps on products and convolutions have the bits that they have apart: in a tile, in several blocks, in one
// row; windows in place, with padding, with steps, in groups, phase by phase.
func TestEpiloguesChangeNoBitOfRandomMaps(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r := rand.New(rand.NewSource(6))
	folded := 0
	for n := range 240 {
		size := pickOf(r, [][3]int{{3, 5, 4}, {1, 37, 9}, {40, 70, 30}, {130, 300, 20}, {5, 33, 600}})
		var d device.Device = c
		if n%4 == 0 {
			d, size = reference.New(), [3]int{3, 5, 4}
		}
		text := productMaps(r, size[0], size[1], size[2])
		if n%3 == 0 {
			s := pickOf(r, []int{5, 12, 34})
			if n%4 == 0 {
				s = 5
			}
			groups := pickOf(r, []int{1, 1, 2})
			text = convMaps(r, 2, 4, 6, groups, s, r.Intn(2), 1+r.Intn(2), 1+r.Intn(2))
		}
		p, err := program.Parse(text)
		require.NoError(t, err, "%s", text)
		with, without := build(t, d, p, "fuse"), build(t, d, p, "fuse", "fuse_epilogue")
		require.Equal(t, run(t, d, without), run(t, d, with), "%s", text)
		require.Equal(t, run(t, d, without), run(t, d, build(t, d, p)), "%s", text)
		folded += mapsOf(with)
	}
	assert.Greater(t, folded, 60)
}
