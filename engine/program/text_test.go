package program

import (
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// everything uses each feature of the text form.
const everything = `input $0 : f32[2,3]
constant $1 : f32[6]
state $2 : f32[2,3]
input $3 : i64[4]@wgpu:1
input $4 : f64[9]
draws 2
%0 = add $0 $2 : f32[2,3]
%1 = mul %0[3,2](1,3) 2.5 : f32[3,2] live
%2 = sum{0} $1[2,2](1,3)+1 : f32[2]
%3 = mul $4[3](2)+4 NaN : f64[3]
%4 = mul $1 1e-45 : f32[6]
%5 = mul $1 0xffc00001 : f32[6]
%6 = bitwise{bitwise_or} $3 -7 : i64[4]@wgpu:1
%7 = extremum_dim{max_dim,1} %0 : f32[2]
%8 = result{1} %7 : i64[2] live
%9 = random{7,0,rand_normal,2,3} seed draw+1 : f32[2,3]
%10 = mul ^$0 ^2%9 : f32[2,3] live
%11 = strided_scatter{[2](3)} $2 %2 1 : f32[2,3] live
%12 = compare{lt} $0[] Inf : bool[]
%13 = cat{0} $1 $1[0]+6 : f32[6]
%14 = neg %13 : f32[6] region 1
%15 = neg %14 : f32[6] region 2 live
store %10 over $2 base 0 into $2
store %11 over $2 base 0 last exclusive into $2
store $0 base 1 last
return %10 $0[2](2)+1=$0 %1[6]=$2
`

func TestATextParsesAndPrintsWithoutLoss(t *testing.T) {
	p, err := Parse(everything)
	require.NoError(t, err)
	assert.Equal(t, everything, p.String())
	assert.Equal(t, []Draw{{uint32(len(p.Scalars) - 3)}}, p.Draws)
	q, err := Parse("# a comment\n\n" + strings.ReplaceAll(everything, "\n", "   # said beside\n"))
	require.NoError(t, err)
	assert.True(t, q.Same(p))
	assert.Equal(t, p.Clone().String(), p.String())
}

func TestNumbersAreNoPartOfAProgramsIdentity(t *testing.T) {
	text := "input $0 : f32[4]\n%0 = mul $0[2]+1 2.0 : f32[2] live\n"
	p, q := MustParse(text), MustParse(strings.NewReplacer("2.0", "3.0", "]+1", "]+2").Replace(text))
	assert.True(t, p.Same(q))
	for _, other := range []string{
		strings.Replace(text, " live", "", 1), strings.Replace(text, "mul", "add", 1),
		strings.Replace(text, "[2]+1", "[2](2)+1", 1),
		strings.ReplaceAll(text, "f32", "f16"), strings.Replace(text, "$0[2]+1 2.0", "2.0 $0[2]+1", 1),
		strings.Replace(text, "input", "state", 1), text + "return %0\n", text + "store %0 base 0 last\n", "draws 1\n" + text,
	} {
		assert.False(t, p.Same(MustParse(other)), other)
	}
}

// generate makes a program of elementwise nodes, sums, further results, draws and stores over random views.
func generate(r *rand.Rand) *Program {
	p := &Program{}
	for range 1 + r.Intn(3) {
		p.Inputs = append(p.Inputs, Input{Aval: ir.InternAval(ir.F32, 0, ir.DenseLayout([]int64{2, 3})).ID,
			Role: Role(r.Intn(3))})
	}
	values := func() Ref {
		if k := r.Intn(len(p.Inputs) + len(p.Nodes)); k >= len(p.Inputs) && p.Aval(NodeRef(k-len(p.Inputs))).DType == ir.F32 {
			return NodeRef(k - len(p.Inputs))
		}
		return InputRef(r.Intn(len(p.Inputs)))
	}
	node := func(name string, attr []int64, shape []int64, numbers []uint64, edges ...Edge) {
		n := Node{Op: uint16(op.PrimNamed(name).ID), Operands: uint16(len(edges)), Outputs: 1, Attr: ir.InternAttr(attr),
			Aval: ir.InternAval(ir.F32, 0, ir.DenseLayout(shape)).ID, Edge: uint32(len(p.Edges)), Scalar: uint32(len(p.Scalars))}
		n.Live = Live(r.Intn(2))
		for _, e := range edges {
			off := int64(0)
			if e.Value != 0 {
				if free := p.Aval(e.Value).Layout.Numel - ir.LayoutOf(e.Layout).Span; free > 0 {
					off = r.Int63n(free + 1)
				}
			}
			p.Edges, p.Offsets = append(p.Edges, e), append(p.Offsets, off)
		}
		p.Scalars = append(p.Scalars, numbers...)
		p.Nodes = append(p.Nodes, n)
	}
	shapes := [][]int64{{2, 3}, {3, 2}, {6}, {2}, {}}
	view := func(shape []int64) (Edge, bool) {
		v := values()
		for range 20 {
			stride := make([]int64, len(shape))
			for i := range stride {
				stride[i] = r.Int63n(4)
			}
			if l := ir.InternLayout(shape, stride); l.Span <= p.Aval(v).Layout.Numel {
				return Edge{v, l.ID}, true
			}
		}
		return Edge{}, false
	}
	for range 1 + r.Intn(30) {
		shape := shapes[r.Intn(len(shapes))]
		x, ok := view(shape)
		y, also := view(shape)
		if !ok || !also {
			continue
		}
		switch r.Intn(5) {
		case 0:
			node("add", nil, shape, nil, x, y)
		case 1:
			node("mul", nil, shape, []uint64{uint64(r.Uint32())}, x, Edge{})
		case 2:
			node("where", nil, shape, []uint64{uint64(math.Float32bits(r.Float32()))}, boolean(p, node, x, shape), Edge{}, y)
		case 3:
			node("random", append([]int64{int64(ir.F32), 0, 0}, shape...), shape, []uint64{0, p.Drawn}, Edge{}, Edge{})
			p.Draws = append(p.Draws, Draw{uint32(len(p.Scalars) - 1)})
			p.Drawn++
		case 4:
			if len(shape) == 2 {
				node("sum", []int64{0}, shape[1:], nil, x)
			}
		}
	}
	for i := range p.Nodes {
		if p.Nodes[i].Live == LiveOutside && r.Intn(3) == 0 {
			p.Stores = append(p.Stores, Store{Value: NodeRef(i), Base: uint32(len(p.Stores)), Flags: StoreFlags(r.Intn(4))})
			p.Results = append(p.Results, Result{Value: NodeRef(i), Layout: ir.AvalOf(p.Nodes[i].Aval).Layout.ID})
		}
	}
	p.Seal()
	return p
}

// boolean adds a comparison of x with itself and returns it as an operand.
func boolean(p *Program, node func(string, []int64, []int64, []uint64, ...Edge), x Edge, shape []int64) Edge {
	node("compare", []int64{0}, shape, nil, x, x)
	n := &p.Nodes[len(p.Nodes)-1]
	n.Aval = ir.InternAval(ir.Bool, 0, ir.DenseLayout(shape)).ID
	n.Live = Dead
	return Edge{NodeRef(len(p.Nodes) - 1), ir.AvalOf(n.Aval).Layout.ID}
}

func TestRandomProgramsPrintAndParseWithoutLoss(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 300 {
		p := generate(r)
		require.NoError(t, p.Verify(), "%s", p)
		q, err := Parse(p.String())
		require.NoError(t, err, "%s", p)
		require.Equal(t, p.String(), q.String())
		require.True(t, p.Same(q), "%s", p)
		require.Equal(t, append([]int64{}, p.Offsets...), append([]int64{}, q.Offsets...))
		require.Equal(t, append([]uint64{}, p.Scalars...), append([]uint64{}, q.Scalars...), "%s", p)
	}
}

func TestBadTextIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"nonsense":                                             `line 1: unknown item "nonsense"`,
		"input $1 : f32[2]":                                    "input $1 comes where $0 is due",
		"input $0 : f33[2]":                                    `no dtype "f33"`,
		"input $0 : f32[-2]":                                   "bad shape",
		"input $0 : f32[2":                                     `want ","`,
		"input $0 : f32[2] more":                               `unexpected "more"`,
		"input $0 : f32[99999999999,99999999999]":              "too large",
		"\n%0 = neg $0 : f32[2]":                               "line 2: number 0 is not in [0, -1]",
		"%0 = nothing : f32[2]":                                `no primitive "nothing"`,
		"input $0 : f32[2]\n%0 = neg $0":                       `want an operand, got ""`,
		"input $0 : f32[2]\n%0 = neg : f32[2]":                 "neg",
		"input $0 : f32[2]\n%0 = mul $0 x : f32[2]":            `"x" is no f32`,
		"input $0 : i64[2]\n%0 = mul $0 1.5 : i64[2]":          `"1.5" is no i64`,
		"input $0 : f32[2]\n%0 = compare{ltt} $0 $0 : bool[2]": `compare has no member "ltt"`,
		"input $0 : f32[2]\n%0 = neg $0[3](1) : f32[3]":        "operand 0 reads element 2 of a value of 2",
		"%0 = random{7,0,rand_uniform,2} seed draw+3 : f32[2]": "takes an offset beyond the 0 of a call",
		"%0 = random{7,0,rand_uniform,2} draw+3 1 : f32[2]":    `bad draw "draw+3"`,
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, "%s", text)
	}
}

func TestMutilatedTextNeverPanics(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 5000 {
		b := []byte(everything)
		for range 1 + r.Intn(4) {
			switch k := r.Intn(len(b)); r.Intn(3) {
			case 0:
				b[k] = everything[r.Intn(len(everything))]
			case 1:
				b = append(b[:k], b[min(len(b), k+1+r.Intn(5)):]...)
			case 2:
				b = append(b[:k:k], append([]byte{everything[r.Intn(len(everything))]}, b[k:]...)...)
			}
		}
		if p, err := Parse(string(b)); err == nil {
			q, err := Parse(p.String())
			require.NoError(t, err, "%s", b)
			require.Equal(t, p.String(), q.String())
		}
	}
}

// An alias is a part of a program's identity, and has a number of 32 bits.
func TestAliasesOfPiecewiseLinearFunctionsArePartOfAProgram(t *testing.T) {
	text := "input $0 : f32[4]\n%0 = mul ^1$0 ^1$0 : f32[4] live\n"
	p := MustParse(text)
	assert.Equal(t, []uint32{1, 1}, p.Flat)
	assert.Equal(t, text, p.Clone().String())
	assert.False(t, p.Same(MustParse(strings.Replace(text, "^1$0 :", "^2$0 :", 1))))
	_, err := Parse(strings.Replace(text, "^1$0 :", "^4294967296$0 :", 1))
	assert.ErrorContains(t, err, "number 4294967296 is not in")
}
