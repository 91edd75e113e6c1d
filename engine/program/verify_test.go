package program

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// sample has two further results, a number, a view that is written, a draw, a store and a result.
const sample = `input $0 : f32[2,3]
draws 1
%0 = mul $0 2.0 : f32[2,3] live
%1 = extremum_dim{max_dim,1} %0 : f32[2]
%2 = result{1} %1 : i64[2]
%3 = strided_scatter{[2](3)} %0 %1 1 : f32[2,3] live
%4 = random{7,0,rand_uniform,2} seed draw+0 : f32[2]
store %3 over $0 base 0 last
return %0
`

func TestVerifyFindsEachViolation(t *testing.T) {
	require.NoError(t, MustParse(sample).Verify())
	long := ir.InternLayout([]int64{2, 3}, []int64{3, 2}).ID
	for _, c := range []struct {
		name   string
		damage func(p *Program)
		want   string
	}{
		{"offsets missing", func(p *Program) { p.Offsets = p.Offsets[1:] }, "operands with"},
		{"aliases missing", func(p *Program) { p.Flat = make([]uint32, 1) }, "operands with"},
		{"histories missing", func(p *Program) { p.History = make([]bool, 1) }, "operands with"},
		{"an input without a value", func(p *Program) { p.Inputs[0].Aval = 0 }, "input $0 has no dtype"},
		{"an unknown role", func(p *Program) { p.Inputs[0].Role = 9 }, "or no role"},
		{"operands out of order", func(p *Program) { p.Nodes[1].Edge = 0 }, "%1, extremum_dim: its operands do not follow"},
		{"numbers out of order", func(p *Program) { p.Nodes[1].Scalar = 0 }, "its operands do not follow"},
		{"too few numbers", func(p *Program) { p.Scalars = p.Scalars[:2] }, "more numbers than there are"},
		{"a number too many", func(p *Program) { p.Scalars = append(p.Scalars, 0) }, "1 numbers belong to no node"},
		{"an operand too many", func(p *Program) { p.Edges, p.Offsets = append(p.Edges, p.Edges[0]), append(p.Offsets, 0) },
			"1 operands and"},
		{"no primitive", func(p *Program) { p.Nodes[0].Op = 0 }, "no primitive has number 0"},
		{"an unknown primitive", func(p *Program) { p.Nodes[0].Op = 60000 }, "no primitive has number 60000"},
		{"a leaf", func(p *Program) { p.Nodes[0].Op = ir.OpLeaf }, "no primitive has number"},
		{"no abstract value", func(p *Program) { p.Nodes[0].Aval = 0 }, "no dtype and shape"},
		{"a value of later", func(p *Program) { p.Edges[0].Value = NodeRef(3) },
			"operand 0 names a value that is not there yet"},
		{"a value of itself", func(p *Program) { p.Edges[0].Value = NodeRef(0) }, "not there yet"},
		{"an input that is not there", func(p *Program) { p.Edges[0].Value = InputRef(1) }, "not there yet"},
		{"no layout", func(p *Program) { p.Edges[0].Layout = 0 }, "operand 0 has no layout"},
		{"a view beyond the value", func(p *Program) { p.Edges[0].Layout = long }, "reads element 7 of a value of 6"},
		{"a view before the value", func(p *Program) { p.Offsets[0] = -1 }, "reads element"},
		{"a further result of an input", func(p *Program) { p.Edges[3].Value = InputRef(0) },
			"%2, a further output: it names no primitive"},
		{"a further result that is not made", func(p *Program) { p.Nodes[2].Attr = 2 }, "there is none of number 2"},
		{"a further result of another dtype", func(p *Program) { p.Nodes[2].Aval = p.Nodes[1].Aval },
			"it is f32[2], its primitive makes i64[2]"},
		{"too few operands", func(p *Program) {
			p.Nodes[0].Operands, p.Nodes[1].Operands = 1, 2
			p.Nodes[1].Edge, p.Nodes[1].Scalar = 1, 0
		}, "mul: it has 1 operands, want 2"},
		{"operands that the rule refuses", func(p *Program) { p.Nodes[3].Attr = ir.InternAttr([]int64{int64(long)}) },
			"strided_scatter"},
		{"another shape than the rule's", func(p *Program) { p.Nodes[4].Aval = p.Nodes[0].Aval },
			"its primitive makes f32[2]"},
		{"results that the rule does not make", func(p *Program) { p.Nodes[1].Outputs = 3 },
			"it has 3 results, its primitive makes 2"},
		{"several devices", func(p *Program) {
			p.Inputs[0].Aval = ir.InternAval(ir.F32, 1, ir.DenseLayout([]int64{2, 3})).ID
		}, "on several devices"},
		{"a view that is not shared", func(p *Program) { p.Nodes[3].SameView = 1 }, "are 0, not 1"},
		{"a shared view of a node that writes none", func(p *Program) { p.Nodes[0].SameView = 1 }, "writes through none"},
		{"a store of nothing", func(p *Program) { p.Stores[0].Value = 0 }, "store 0: it names a value that is not there"},
		{"a store over nothing", func(p *Program) { p.Stores[0].Prev = NodeRef(17) },
			"store 0: it names a value that is not there"},
		{"a store over another dtype", func(p *Program) { p.Stores[0].Prev = NodeRef(2) }, "another dtype, size or device"},
		{"a store into a node", func(p *Program) { p.Stores[0].Into = NodeRef(0) }, "is no input"},
		{"a store after the last", func(p *Program) { p.Stores = append(p.Stores, p.Stores[0]) },
			"had its last store before"},
		{"a stored value that is not held", func(p *Program) { p.Nodes[3].Live = Dead },
			"store 0: the base refers to a value that is not live"},
		{"a result of nothing", func(p *Program) { p.Results[0].Value = NodeRef(9) }, "result 0 names a value"},
		{"an alias of a node", func(p *Program) { p.Results[0].Of = NodeRef(0) }, "result 0 is an alias of no input"},
		{"a result beyond the value", func(p *Program) { p.Results[0].Offset = 1 }, "result 0 reads element 6"},
		{"a result that is not held", func(p *Program) { p.Nodes[0].Live = Dead }, "result 0 is a value that is not live"},
		{"a draw beyond the call's", func(p *Program) { p.Drawn = 0 }, "beyond the 0 of a call"},
		{"a draw of no number", func(p *Program) { p.Draws[0].Scalar = 99 }, "the draw of number 99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := MustParse(sample)
			c.damage(p)
			assert.ErrorContains(t, p.Verify(), c.want)
		})
	}
}
