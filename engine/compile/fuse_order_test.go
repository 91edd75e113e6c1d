package compile_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/program"
)

const sgd = "0.1 0.0 0.0 0.01 0.0"

var delayed = []fusion{
	{"steps take the scaling of their gradients", `input $0 : f32[6]
input $1 : f32[6]
input $2 : f32[2,2]
input $3 : f32[2,2]
input $4 : f32[]
%0 = mul $1 $4[6](0) : f32[6] live
%1 = mul $3 $4[2,2](0,0) : f32[2,2] live
%2 = sgd_step{0,0,0,0} $0 %0 ` + sgd + ` : f32[6] live
%3 = sgd_step{0,0,0,0} $2 %1 ` + sgd + ` : f32[2,2] live
store %0 over $1 base 1 last exclusive
store %1 over $3 base 3 last exclusive
store %2 over $0 base 0 last exclusive
store %3 over $2 base 2 last exclusive
`, [][]int{{0, 2}, {1, 3}}},
	{"a chain of halves moves as a whole, and the step of Adam has three values", `input $0 : f32[6]
input $1 : bf16[6]
input $2 : f32[6]
input $3 : f32[6]
input $4 : f32[3]
%0 = ` + cast("f32") + ` $1 : f32[6]
%1 = mul %0 0.5 : f32[6]
%2 = cat{0} $4 $4 : f32[6] live
%3 = adam_step{1,0,0,0} $0 %1 $2 $3 0.1 0.9 0.99 0.001 0.01 0.3 0.2 0.1 0.01 : f32[6] live
%4 = result{1} %3 : f32[6] live
%5 = result{2} %3 : f32[6] live
store %3 over $0 base 0 last exclusive
store %4 over $2 base 2 last exclusive
store %5 over $3 base 3 last exclusive
`, [][]int{{0, 1, 3}}},
	{"scaled gradients, their norm, and the step", `input $0 : f32[6]
input $1 : f32[6]
input $2 : f32[2,2]
input $3 : f32[]
%0 = mul $1 $3[6](0) : f32[6] live
%1 = mul $2 $3[2,2](0,0) : f32[2,2] live
%2 = sum_squares{0} %0 : f32[]
%3 = sum_squares{0,1} %1 : f32[]
%4 = add %2 %3 : f32[]
%5 = mul %0 %4[6](0) : f32[6]
%6 = cat{0} $2 $2 : f32[4,2] live
%7 = sgd_step{0,0,0,0} $0 %5 ` + sgd + ` : f32[6] live
`, [][]int{{0, 2}, {1, 3, 4}, {5, 7}}},
	{"a node between overwrites what is read", `input $0 : f32[6]
input $1 : f32[6]
input $2 : f32[3]
%0 = mul $1 0.5 : f32[6]
%1 = cat{0} $2 $2 : f32[6] live
%2 = sgd_step{0,0,0,0} $0 %0 ` + sgd + ` : f32[6] live
store %1 over $1 base 1 last exclusive
`, nil},
	{"a node between reads what would move along", `input $0 : f32[6]
input $1 : f32[6]
%0 = tanh $1 : f32[6] live
%1 = cat{0} $1 $1 : f32[12] live
%2 = mul %0 0.5 : f32[6]
%3 = cat{0} %0 %0 : f32[12] live
%4 = sgd_step{0,0,0,0} $0 %2 ` + sgd + ` : f32[6] live
`, [][]int{{2, 4}}},
	{"a node between reads the value", `input $0 : f32[6]
input $1 : f32[6]
%0 = mul $1 0.5 : f32[6]
%1 = cat{0} %0 $0[4] : f32[10] live
%2 = sgd_step{0,0,0,0} $0 %0 ` + sgd + ` : f32[6] live
`, nil},
	{"a value that would live longer, and takes more memory", `input $0 : f32[600]
input $1 : f64[300]
%0 = cat{0} $1 $1 : f64[600]
%1 = ` + cast("f32") + ` %0 : f32[600]
%2 = cat{0} $1 $1 : f64[600] live
%3 = sgd_step{0,0,0,0} $0 %1 ` + sgd + ` : f32[600] live
`, nil},
	{"what is next to what it reads stays there", `input $0 : f32[6]
input $1 : f32[6]
%0 = tanh $1 : f32[6] live
%1 = mul %0 0.5 : f32[6]
%2 = cat{0} $1 $1 : f32[12] live
%3 = cat{0} %0 %0 : f32[12] live
%4 = sgd_step{0,0,0,0} $0 %1 ` + sgd + ` : f32[6] live
`, [][]int{{0, 1}}},
	{"a further result of a node is read", `input $0 : f32[6]
input $1 : f32[4,6]
input $2 : f32[4]
%0 = layer_norm_grad_wb{1} $1 $1 $2 $2 : f32[6] live
%1 = result{1} %0 : f32[6] live
%2 = cat{0} $1 $1 : f32[8,6] live
%3 = mul %1 0.5 : f32[6]
%4 = cat{0} $0 $0 : f32[12] live
%5 = sgd_step{0,0,0,0} $0 %3 ` + sgd + ` : f32[6] live
`, [][]int{{3, 5}}},
}

// What scales a gradient moves to the gradient's sum or to the optimizer's step, where nothing between minds.
func TestScalingOfGradientsWaitsForTheSteps(t *testing.T) { checkGroups(t, delayed, 2) }

// stepProgram writes a random training step: gradients are scaled, measured and clipped, and parameters are updated,
// with other nodes between.
func stepProgram(r *rand.Rand) string {
	var inputs, lines, stores []string
	shapes := []string{"[6]", "[2,3]", "[40,9]", "[3000]"}
	input := func(dtype, shape string) string {
		inputs = append(inputs, fmt.Sprintf("input $%d : %s%s", len(inputs), dtype, shape))
		return fmt.Sprintf("$%d", len(inputs)-1)
	}
	add := func(work, shape string, live bool) string {
		name := fmt.Sprintf("%%%d", len(lines))
		line := name + " = " + work + " : f32" + shape
		if live || r.Intn(4) == 0 {
			line += " live"
		}
		lines = append(lines, line)
		return name
	}
	factor := input("f32", "[]")
	wide := map[string]string{"[6]": "(0)", "[2,3]": "(0,0)", "[40,9]": "(0,0)", "[3000]": "(0)"}
	all := map[string]string{"[6]": "{0}", "[2,3]": "{0,1}", "[40,9]": "{0,1}", "[3000]": "{0}"}
	n := 2 + r.Intn(4)
	shape, grad := make([]string, n), make([]string, n)
	first := make([]string, n)
	for i := range n {
		shape[i] = pickOf(r, shapes)
		dtype := pickOf(r, []string{"f32", "f32", "bf16"})
		first[i] = input(dtype, shape[i])
		if grad[i] = first[i]; dtype == "bf16" {
			grad[i], first[i] = add(cast("f32")+" "+grad[i], shape[i], false), ""
		}
	}
	other := func() {
		k := r.Intn(n)
		switch r.Intn(3) {
		case 0:
			add("sum_squares"+all[shape[k]]+" "+grad[k], "[]", true)
		case 1:
			add("tanh "+grad[k], shape[k], true)
		}
	}
	inPlace := r.Intn(2) == 0
	for range 1 + r.Intn(2) {
		for i := range n {
			old := grad[i]
			if grad[i] = add("mul "+old+" "+factor+shape[i]+wide[shape[i]], shape[i], inPlace); inPlace && first[i] != "" {
				stores = append(stores, fmt.Sprintf("store %s over %s base %s", grad[i], old, first[i][1:]))
			}
			other()
		}
		norm := ""
		for i := range n {
			s := add("sum_squares"+all[shape[i]]+" "+grad[i], "[]", false)
			if norm != "" {
				s = add("add "+norm+" "+s, "[]", false)
			}
			norm = s
			other()
		}
		factor = norm
	}
	for i := range n {
		p := input("f32", shape[i])
		step := add("sgd_step{0,0,0,0} "+p+" "+grad[i]+" "+sgd, shape[i], true)
		stores = append(stores, fmt.Sprintf("store %s over %s base %s", step, p, p[1:]))
	}
	text := strings.Join(inputs, "\n") + "\n" + strings.Join(lines, "\n") + "\n"
	for k, s := range stores {
		base := s[strings.LastIndex(s, " "):]
		if !strings.Contains(strings.Join(stores[k+1:], "\n")+"\n", base+"\n") {
			s += " last"
		}
		text += s + " exclusive\n"
	}
	return text
}

// Random training steps have the bits, and at most the memory, that they have in record order.
func TestFusionChangesNoBitOfRandomTrainingSteps(t *testing.T) {
	moved := 0
	write := func(r *rand.Rand, _ int) string { return stepProgram(r) }
	randomPrograms(t, 13, 150, 2, write, func(_ int, x compared) {
		x.requireNoMoreMemory(t)
		require.Equal(t, x.without.InPlace, x.with.InPlace, "%s", x.text)
		for _, g := range groupsOf(x.with) {
			for k := g[0] + 1; k < g[len(g)-1]; k++ {
				if x.program.Nodes[k].IsPrim() && !slices.Contains(g, k) {
					moved++
					break
				}
			}
		}
	})
	assert.Greater(t, moved, 100)
}

// On a device whose kernels compile slowly nothing moves before a window has run twice.
func TestNothingMovesBeforeAWindowRunsOften(t *testing.T) {
	p := program.MustParse(delayed[0].text)
	d := newLimited(8, true)
	first, later := build(t, d, p), often(t, d, p)
	assert.Empty(t, groupsOf(first))
	assert.Equal(t, 2, first.Fusible)
	assert.Equal(t, delayed[0].want, groupsOf(later))
	assert.Zero(t, later.Fusible)
	assert.Equal(t, run(t, d, first), run(t, d, later))
}
