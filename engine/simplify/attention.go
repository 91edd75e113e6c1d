package simplify

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// maxHeadWidth is the widest head that the attention kernels hold in registers.
const maxHeadWidth = 256

// found is softmax(scale q k' + mask) v, written out: the nodes of its products, and its operands.
type found struct {
	q, k, v view
	mask    view // ref 0: none
	cond    bool // mask is the condition of a where that takes -inf where it is true
	scale   float64
}

// view is an operand of a node.
type view struct {
	ref    program.Ref
	layout *ir.Layout
	offset int64
}

func operand(p *program.Program, i, j int) view {
	e := p.OperandsOf(i)[j]
	v := view{ref: e.Value, offset: p.OffsetsOf(i)[j]}
	if e.Layout != 0 {
		v.layout = ir.LayoutOf(e.Layout)
	}
	return v
}

// Attention replaces attention on float32 that is written out by the primitive, which stores no scores. The pattern is
// a product with a transposed operand, a scale, a constant mask, a softmax, and a product. Each intermediate value has
// one reader. Rows that the mask leaves without a key give 0, as in the primitive.
func Attention(p *program.Program, args int) *program.Program {
	s := newSearch(p, args)
	at := map[int]*found{}
	for i := range p.Nodes {
		if f := s.attention(i); f != nil && (ir.AvalOf(p.Nodes[i].Aval).Layout.Rank() == 3 || s.permutable(i)) {
			at[i] = f
		}
	}
	if len(at) == 0 {
		return p
	}
	return s.replace(at)
}

type search struct {
	p        *program.Program
	uses     []int
	constant []bool
	args     int
}

func newSearch(p *program.Program, args int) *search {
	uses := make([]int, len(p.Nodes))
	for i := range p.Nodes {
		for _, e := range p.OperandsOf(i) {
			if e.Value.IsNode() {
				uses[e.Value.Index()]++
			}
		}
	}
	for _, r := range p.Results {
		if r.Value.IsNode() {
			uses[r.Value.Index()]++
		}
	}
	return &search{p: p, uses: uses, constant: constants(p, args), args: args}
}

func (s *search) is(i int, primitive op.PrimID) bool {
	return s.p.Nodes[i].IsPrim() && s.p.Prim(i).ID == primitive
}

// only returns the node of operand j of node i, if the operand is its whole value and has no other reader.
func (s *search) only(i, j int) (node int, ok bool) {
	v := operand(s.p, i, j)
	if !v.ref.IsNode() || s.uses[v.ref.Index()] != 1 || !s.p.Whole(i, j) {
		return 0, false
	}
	return v.ref.Index(), true
}

// attention finds the attention that ends with node i, nil for none.
func (s *search) attention(i int) *found {
	p := s.p
	if !s.is(i, prim.Known.Matmul) || len(p.OperandsOf(i)) != 2 || ir.AvalOf(p.Nodes[i].Aval).DType != ir.F32 {
		return nil
	}
	at, ok := s.only(i, 0)
	if !ok || !s.is(at, prim.Known.Softmax) || p.Attrs(at)[1] != 0 {
		return nil
	}
	shape := p.Aval(program.NodeRef(at)).Shape()
	n := len(shape)
	if p.Attrs(at)[0] != int64(n-1) || n != 3 && n != 4 || slices.Contains(shape, 0) {
		return nil
	}
	f := &found{v: operand(p, i, 1), scale: 1}
	if at, ok = s.only(at, 0); ok && f.masked(s, at) {
		at, ok = s.only(at, f.scores())
	}
	if ok && s.scaled(at, f) {
		at, ok = s.only(at, 0)
	}
	if !ok || !s.is(at, prim.Known.Matmul) || len(p.OperandsOf(at)) != 2 {
		return nil
	}
	f.q, f.k = operand(p, at, 0), operand(p, at, 1)
	if max(f.q.layout.Shape[n-1], f.v.layout.Shape[n-1]) > maxHeadWidth {
		return nil
	}
	return f
}

// masked takes the mask of node i, if it applies one: where(mask, -inf, scores), or scores + mask.
func (f *found) masked(s *search, i int) bool {
	p := s.p
	switch {
	case s.is(i, prim.Known.Where):
		v := operand(p, i, 1)
		f.cond = v.ref == 0 && math.IsInf(ir.DecodeFloat(p.ScalarTypes(i)[1], p.ScalarsOf(i)[0]), -1)
		if f.cond && s.fixed(operand(p, i, 0)) {
			f.mask = operand(p, i, 0)
		}
	case s.is(i, prim.Known.Add) && operand(p, i, 0).ref != 0 && operand(p, i, 1).ref != 0:
		if v := operand(p, i, 1); s.fixed(v) && p.Aval(v.ref).DType == ir.F32 {
			f.mask = v
		}
	}
	return f.mask.ref != 0
}

// scores is the operand with the scores where the mask is applied.
func (f *found) scores() int {
	if f.cond {
		return 2
	}
	return 0
}

// fixed reports a value that depends on constants only.
func (s *search) fixed(v view) bool {
	return v.ref.IsInput() && v.ref.Index() >= s.args || v.ref.IsNode() && s.constant[v.ref.Index()]
}

// scaled takes the factor of node i, if it multiplies or divides by a number.
func (s *search) scaled(i int, f *found) bool {
	mul, div := s.is(i, prim.Known.Mul), s.is(i, prim.Known.Div)
	if !mul && !div || operand(s.p, i, 0).ref == 0 || operand(s.p, i, 1).ref != 0 {
		return false
	}
	f.scale = ir.DecodeFloat(s.p.ScalarTypes(i)[1], s.p.ScalarsOf(i)[0])
	if div {
		f.scale = 1 / f.scale
	}
	return true
}

// permutable reports that all readers of the product i, [b, h, l, e], can read it as the primitive stores it.
func (s *search) permutable(i int) bool {
	from := ir.AvalOf(s.p.Nodes[i].Aval).Layout
	for _, r := range s.p.Results {
		if r.Value == program.NodeRef(i) {
			return false
		}
	}
	for j := range s.p.Nodes {
		for k, e := range s.p.OperandsOf(j) {
			if e.Value != program.NodeRef(i) {
				continue
			}
			if _, ok := headsLast(from, operand(s.p, j, k)); !ok {
				return false
			}
		}
	}
	return true
}

// headsLast translates a view of a dense [b, h, l, e] to one of the same elements in [b, l, h, e].
func headsLast(from *ir.Layout, v view) (*ir.Layout, bool) {
	if v.offset != 0 || v.layout == nil {
		return nil, false
	}
	h, l, e := from.Shape[1], from.Shape[2], from.Shape[3]
	to := []int64{l * h * e, e, h * e, 1}
	stride := make([]int64, v.layout.Rank())
	for d, n := range v.layout.Shape {
		if n == 1 {
			continue
		}
		at := -1
		for k := range from.Shape {
			if from.Shape[k] > 1 && from.Stride[k] == v.layout.Stride[d] {
				at = k
			}
		}
		if at < 0 || n > from.Shape[at] {
			return nil, false
		}
		stride[d] = to[at]
	}
	return ir.InternLayout(v.layout.Shape, stride), true
}

// replace copies the program with the primitive in place of the nodes in at.
func (s *search) replace(at map[int]*found) *program.Program {
	p := s.p
	g := rewritten(p, func(c *copier, i int) {
		if f := at[i]; f != nil {
			c.attention(i, f)
			return
		}
		c.node(i)
		for k, e := range p.OperandsOf(i) {
			if !e.Value.IsNode() || at[e.Value.Index()] == nil {
				continue
			}
			if from := ir.AvalOf(p.Nodes[e.Value.Index()].Aval).Layout; from.Rank() == 4 {
				l, _ := headsLast(from, operand(p, i, k))
				c.to.Edges[len(c.to.Edges)-len(p.OperandsOf(i))+k].Layout = l.ID
			}
		}
	})
	out, _ := Prune(g, len(p.Inputs))
	return out
}

// attention adds the primitive in the place of node i.
func (c *copier) attention(i int, f *found) {
	x := c.from.Nodes[i]
	av := ir.AvalOf(x.Aval)
	if f.mask.ref != 0 {
		if f.cond {
			f.mask = c.not(f.mask, i)
		} else {
			f.mask.ref = c.refs[f.mask.ref]
		}
	}
	out := av.Shape()
	if len(out) == 4 {
		out = []int64{out[0], out[2], out[1], out[3]}
	}
	dense := []int64{out[0], out[1], 1, out[2]}
	if len(out) == 4 {
		dense = out
	}
	masked := int64(0)
	in := []view{fourDims(f.q, false), fourDims(f.k, true), fourDims(f.v, false)}
	for k := range in {
		in[k].ref = c.refs[in[k].ref]
	}
	if f.mask.ref != 0 {
		masked = 1
		in = append(in, fourDims(f.mask, false))
	}
	result := ir.InternAval(av.DType, av.Device, ir.DenseLayout(dense))
	c.add(prim.Known.Attention, []int64{0, masked, 0}, 2, result, i, in, ir.EncodeFloat(ir.F32, f.scale))
	c.refs[program.NodeRef(i)] = program.NodeRef(len(c.to.Nodes) - 1)
}

// not adds the negation of a mask: the primitive's mask marks the keys that are read.
func (c *copier) not(mask view, i int) view {
	av := c.from.Aval(mask.ref)
	in := view{ref: c.refs[mask.ref], layout: av.Layout}
	c.add(prim.Known.Compare, []int64{prim.CompareEq}, 1, av, i, []view{in}, 0)
	mask.ref = program.NodeRef(len(c.to.Nodes) - 1)
	return mask
}

// add adds a node with these operands, and then a number.
func (c *copier) add(primitive op.PrimID, attr []int64, outputs uint8, av *ir.Aval, from int, in []view,
	number ...uint64) {
	q := c.to
	x := program.Node{Op: uint16(primitive), Operands: uint16(len(in) + len(number)), Outputs: outputs,
		Attr: ir.InternAttr(attr), Aval: av.ID, Edge: uint32(len(q.Edges)), Scalar: uint32(len(q.Scalars))}
	for _, v := range in {
		q.Edges, q.Offsets = append(q.Edges, program.Edge{Value: v.ref, Layout: v.layout.ID}), append(q.Offsets, v.offset)
	}
	for range number {
		q.Edges, q.Offsets = append(q.Edges, program.Edge{}), append(q.Offsets, 0)
	}
	q.Scalars = append(q.Scalars, number...)
	q.SourceLocs = append(q.SourceLocs, c.from.SourceLoc(from))
	q.Nodes = append(q.Nodes, x)
}

// fourDims views [n, l, e] as [n, 1, l, e]; turn exchanges the last two dims.
func fourDims(v view, turn bool) view {
	shape, stride := slices.Clone(v.layout.Shape), slices.Clone(v.layout.Stride)
	if n := len(shape); turn {
		shape[n-1], shape[n-2], stride[n-1], stride[n-2] = shape[n-2], shape[n-1], stride[n-2], stride[n-1]
	}
	if len(shape) == 3 {
		shape, stride = slices.Insert(shape, 1, 1), slices.Insert(stride, 1, 0)
	}
	v.layout = ir.InternLayout(shape, stride)
	return v
}
