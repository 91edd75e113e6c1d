package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/reference"
)

// normsOf counts the products of a plan that normalize their rows.
func normsOf(p *compile.Plan) int {
	return productsOf(p, func(g *launch.Gemm) bool { return g.Prologue != nil })
}

const normInputs = `input $0 : f32[2,6]
input $1 : f32[6]
input $2 : f32[6]
input $3 : f32[6,3]
input $4 : f32[3]
input $5 : f32[2,3]
`

// layer is a norm of the first input, as value 0.
const layer = normInputs + "%0 = layer_norm{1,1,1,0} $0 $1 $2 0.5 : f32[2,6]\n"

var normCases = []struct {
	name, text     string
	norms, kernels int // with the pass
}{
	{"a bias, an activation, a residual", layer + `%1 = matmul{1} %0 $3 $4 : f32[2,3]
%2 = relu %1 : f32[2,3]
%3 = add %2 $5 : f32[2,3] live
`, 1, 1},
	{"about zero, with a weight", normInputs + `%0 = layer_norm{1,1,0,1} $0 $1 0.5 : f32[2,6]
%1 = matmul{0} %0 $3 : f32[2,3] live
`, 1, 1},
	{"without weight and bias", normInputs + `%0 = layer_norm{1,0,0,0} $0 0.5 : f32[2,6]
%1 = matmul{0} %0 $3 : f32[2,3]
%2 = mul %1 3.0 : f32[2,3] live
`, 1, 1},
	{"rows of another shape", normInputs + `%0 = layer_norm{1,1,1,0} $0[1,2,6] $1 $2 0.5 : f32[1,2,6]
%1 = matmul{1} %0[2,6] $3 $4 : f32[2,3] live
`, 1, 1},
	{"two dims are normalized", `input $0 : f32[2,2,3]
input $1 : f32[2,3]
input $2 : f32[6,3]
%0 = layer_norm{2,1,0,0} $0 $1 0.5 : f32[2,2,3]
%1 = matmul{0} %0[2,6] $2 : f32[2,3] live
`, 1, 1},
	{"a view of the rows", `input $0 : f32[4,5]
input $1 : f32[3,2]
%0 = layer_norm{1,0,0,0} $0[2,3](10,1)+2 0.5 : f32[2,3]
%1 = matmul{0} %0 $1 : f32[2,2] live
`, 1, 1},
	{"columns that are far apart", `input $0 : f32[4,5]
input $1 : f32[3,2]
%0 = layer_norm{1,0,0,0} $0[2,3](1,5)+1 0.5 : f32[2,3]
%1 = matmul{0} %0 $1 : f32[2,2] live
`, 1, 1},
	{"a batch with one weight", `input $0 : f32[3,1,4]
input $1 : f32[4,5]
%0 = layer_norm{1,0,0,0} $0 0.5 : f32[3,1,4]
%1 = matmul{0} %0 $1[3,4,5](0,5,1) : f32[3,1,5] live
`, 1, 1},
	{"a batch with weights of its own", `input $0 : f32[3,1,4]
input $1 : f32[3,4,5]
%0 = layer_norm{1,0,0,0} $0 0.5 : f32[3,1,4]
%1 = matmul{0} %0 $1 : f32[3,1,5] live
`, 1, 1},
	{"halves", `input $0 : f32[2,6]
input $1 : f32[6,3]
%0 = ` + cast("f16") + ` $0 : f16[2,6] live
%1 = ` + cast("f16") + ` $1 : f16[6,3] live
%2 = exp %1 : f16[6,3] live
%3 = layer_norm{1,0,0,0} %0 0.5 : f16[2,6]
%4 = matmul{0} %3 %2 : f16[2,3] live
`, 1, 3},
	{"several products read it", layer + `%1 = matmul{0} %0 $3 : f32[2,3] live
%2 = matmul{1} %0 $3 $4 : f32[2,3] live
%3 = matmul{0} %0[2,6] $3 : f32[2,3]
%4 = mul %3 %2 : f32[2,3] live
`, 3, 3},
	{"five products read it", layer + `%1 = matmul{0} %0 $3 : f32[2,3] live
%2 = matmul{0} %0 $3 : f32[2,3] live
%3 = matmul{0} %0 $3 : f32[2,3] live
%4 = matmul{0} %0 $3 : f32[2,3] live
%5 = matmul{0} %0 $3 : f32[2,3] live
`, 0, 6},
	{"something else reads it too", layer + `%1 = matmul{0} %0 $3 : f32[2,3] live
%2 = sum{1} %0 : f32[2] live
`, 0, 3},
	{"it is held", strings.TrimSuffix(layer, "\n") + ` live
%1 = matmul{0} %0 $3 : f32[2,3] live
`, 0, 2},
	{"its statistics are held", layer + `%1 = result{2} %0 : f32[2] live
%2 = matmul{0} %0 $3 : f32[2,3] live
`, 0, 2},
	{"it is the second operand", normInputs + `%0 = layer_norm{1,0,0,0} $0 0.5 : f32[2,6]
%1 = matmul{0} $5[3,2](1,3) %0 : f32[3,6] live
`, 0, 2},
	{"it is read across its rows", normInputs + `%0 = layer_norm{1,0,0,0} $0[2,2] 0.5 : f32[2,2]
%1 = matmul{0} %0[2,2](1,2) $5 : f32[2,3] live
`, 0, 2},
	{"its rows are not those of the product", `input $0 : f32[1,2,3]
input $1 : f32[6,3]
%0 = layer_norm{1,0,0,0} $0 0.5 : f32[1,2,3]
%1 = matmul{0} %0[1,6] $1 : f32[1,3] live
`, 0, 2},
	{"five rows", `input $0 : f32[5,6]
input $1 : f32[6,3]
%0 = layer_norm{1,0,0,0} $0 0.5 : f32[5,6]
%1 = matmul{0} %0 $1 : f32[5,3] live
`, 0, 2},
	{"a long row", `input $0 : f32[1,8193]
input $1 : f32[8193,2]
%0 = layer_norm{1,0,0,0} $0 0.5 : f32[1,8193]
%1 = matmul{0} %0 $1 : f32[1,2] live
`, 0, 2},
	{"a weight with gaps", normInputs + `%0 = layer_norm{1,1,0,0} $0 $3[6](3) 0.5 : f32[2,6]
%1 = matmul{0} %0 $3 : f32[2,3] live
`, 0, 2},
	{"a group computes it with what it reads", layer[:len(normInputs)] + `%0 = exp $0 : f32[2,6] live
%1 = layer_norm{1,1,1,0} %0 $1 $2 0.5 : f32[2,6]
%2 = matmul{0} %1 $3 : f32[2,3] live
`, 0, 2},
	{"a product makes what it reads", layer[:len(normInputs)] + `%0 = matmul{0} $5 $3[3,6](1,3) : f32[2,6]
%1 = add %0 $0 : f32[2,6]
%2 = layer_norm{1,1,1,0} %1 $1 $2 0.5 : f32[2,6]
%3 = matmul{0} %2 $3 : f32[2,3] live
`, 1, 2},
	{"what it reads lives until the product", normInputs + `input $6 : f32[6,6]
%0 = matmul{0} $5 $3[3,6](1,3) : f32[2,6]
%1 = layer_norm{1,1,1,0} %0 $1 $2 0.5 : f32[2,6]
%2 = matmul{0} $0 $6 : f32[2,6]
%3 = matmul{0} %1 $3 : f32[2,3]
%4 = matmul{0} %2 $3 : f32[2,3]
%5 = mul %4 %3 : f32[2,3] live
`, 1, 4},
	{"what it reads is a part of more", normInputs + `input $6 : f32[200,3]
%0 = matmul{0} $6 $3[3,6](1,3) : f32[200,6]
%1 = layer_norm{1,1,1,0} %0[2,6](6,1)+60 $1 $2 0.5 : f32[2,6]
%2 = matmul{0} %1 $3 : f32[2,3] live
`, 0, 3},
	{"what it reads is written before, in its group", layer + `%1 = add $0 1.0 : f32[2,6] live
%2 = matmul{0} %0 $3 : f32[2,3] live
store %1 over $0 base 0 last exclusive
`, 0, 2},
	{"what it reads is written later", layer + `%1 = matmul{0} %0 $3 : f32[2,3] live
%2 = add $0 1.0 : f32[2,6] live
store %2 over $0 base 0 last exclusive
`, 1, 2},
	{"its weight is written before", layer + `%1 = add $1 1.0 : f32[6] live
%2 = matmul{0} %0 $3 : f32[2,3] live
store %1 over $1 base 0 last exclusive
`, 0, 3},
	{"the product is stored over what it reads", normInputs + `input $6 : f32[6,6]
%0 = layer_norm{1,1,1,0} $0 $1 $2 0.5 : f32[2,6]
%1 = matmul{0} %0 $6 : f32[2,6] live
store %1 over $0 base 0 last exclusive
`, 0, 2},
	{"a scatter takes what it reads", normInputs + `%0 = matmul{0} $5 $3[3,6](1,3) : f32[2,6]
%1 = layer_norm{1,1,1,0} %0 $1 $2 0.5 : f32[2,6]
%2 = strided_scatter{[2,3](6,1)} %0 $5 0 : f32[2,6]
%3 = matmul{0} %1 $3 : f32[2,3] live
%4 = matmul{0} %2 $3 : f32[2,3] live
`, 0, 5},
}

// Products normalize the rows that they multiply where the rules say, and the bits are those without the pass. The
// CPU's do not.
func TestProductsOfFewRowsNormalize(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for _, tc := range normCases {
		t.Run(tc.name, func(t *testing.T) {
			p, d := program.MustParse(tc.text), reference.New()
			with, without := build(t, d, p), build(t, d, p, "fuse_norm")
			assert.Equal(t, []int{tc.norms, tc.kernels}, []int{normsOf(with), with.Kernels})
			assert.Zero(t, normsOf(without))
			assert.Equal(t, run(t, d, without), run(t, d, with))
			assert.LessOrEqual(t, bytesOf(with), bytesOf(without), "memory")
			assert.Zero(t, normsOf(build(t, c, p)))
		})
	}
}

// A product normalizes only where its kernel can bind what both read, and where kernels take long to compile only once
// the window has run several times.
func TestNormsKeepTheLimitsOfADevice(t *testing.T) {
	p := program.MustParse(normCases[0].text)
	for buffers, want := range map[int]int{6: 0, 7: 1} {
		d := newLimited(buffers, false)
		assert.Equal(t, want, normsOf(build(t, d, p)), "%d buffers", buffers)
	}
	d := newLimited(64, true)
	first, later := build(t, d, p), often(t, d, p)
	assert.Equal(t, []int{0, 1}, []int{normsOf(first), normsOf(later)})
	assert.Positive(t, first.Fusible)
	assert.Zero(t, later.Fusible)
	assert.Equal(t, run(t, d, first), run(t, d, later))
	assert.Equal(t, []int{0}, later.Prologue(2))
}

// A product of many multiplications leaves its norm, one of halves sooner.
func TestLargeProductsLeaveTheirNorm(t *testing.T) {
	for dtype, most := range map[string]int{"f16": 2048, "bf16": 2048, "f32": 8192} {
		for _, columns := range []int{2048, 2049, 8192, 8193} {
			text := fmt.Sprintf(`input $0 : T[1,4096]
input $1 : T[4096,%[1]d]
%%0 = layer_norm{1,0,0,0} $0 0.5 : T[1,4096]
%%1 = matmul{0} %%0 $1 : T[1,%[1]d] live
`, columns)
			p := program.MustParse(strings.ReplaceAll(text, "T", dtype))
			assert.Equal(t, columns <= most, normsOf(build(t, reference.New(), p)) == 1, "%s: %d columns", dtype, columns)
		}
	}
}
