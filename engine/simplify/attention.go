package simplify

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// maxHeadWidth is the widest head that the attention kernels hold in registers.
const maxHeadWidth = 256

// found is softmax(scale q k' + mask) v, written out: its operands, as views of [batch, head, position, width].
type found struct {
	q, k, v      view
	mask         view // ref 0: none
	kind         maskKind
	scale        float64
	empty        bool // rows without a key are 0, whatever the mask
	batch, heads int64
}

// maskKind tells what a mask does to the scores.
type maskKind uint8

const (
	added      maskKind = iota // a float32
	subtracted                 // a float32
	hides                      // a condition that is true for the keys that are not read
	shows                      // its opposite
)

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
// a product with a transposed operand, numbers that scale it or its operands, a constant mask, a softmax, and a
// product. Each intermediate value has one reader. A choice behind the softmax may set rows to 0 whose scores are all
// -inf, or elements that are NaN. Batch and heads are two dims, or one. A mask is added, subtracted, or the condition
// of a choice between a score and a number: -inf, or one of -10,000 or less if each query reads a key. Rows that -inf
// leaves without a key give 0, as in the primitive. contents gives the elements of a constant input, nil where the host
// cannot read them.
func Attention(p *program.Program, args int, contents func(input int) []byte) *program.Program {
	s := newSearch(p, args)
	s.contents = contents
	at := map[int]*found{}
	for i := range p.Nodes {
		if f := s.attention(i); f != nil {
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
	contents func(input int) []byte // the elements of a constant input; nil where the host cannot read them
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

// product reports a product of float32 without a bias.
func (s *search) product(i int) bool {
	p := s.p
	return s.is(i, prim.Known.Matmul) && len(p.OperandsOf(i)) == 2 && ir.AvalOf(p.Nodes[i].Aval).DType == ir.F32
}

// attention finds the attention that ends with node i, nil for none.
func (s *search) attention(i int) *found {
	p := s.p
	if !s.product(i) {
		return nil
	}
	softmax, at, empty, ok := s.weights(i)
	if !ok {
		return nil
	}
	weights := ir.AvalOf(p.Nodes[softmax].Aval).Shape()
	if p.Attrs(softmax)[0] != int64(len(weights)-1) || slices.Contains(weights, 0) {
		return nil
	}
	f := &found{v: operand(p, i, 1), scale: 1, empty: empty}
	nodes := []int{i, softmax}
	for ok && !s.is(at, prim.Known.Matmul) {
		nodes = append(nodes, at)
		j := f.step(s, at)
		if j < 0 {
			return nil
		}
		at, ok = s.only(at, j)
	}
	if !ok || !s.product(at) {
		return nil
	}
	f.q, f.k = operand(p, at, 0), operand(p, at, 1)
	if !f.divide(p, append(nodes, at)) {
		return nil
	}
	return s.arranged(f, i)
}

// divide finds batch and heads. It reports false if the nodes have different ones, or other positions.
func (f *found) divide(p *program.Program, nodes []int) bool {
	weights := ir.AvalOf(p.Nodes[nodes[1]].Aval).Shape()
	for k, i := range nodes {
		shape := ir.AvalOf(p.Nodes[i].Aval).Shape()
		n := len(shape)
		if n != 3 && n != 4 || shape[n-2] != weights[len(weights)-2] ||
			k > 0 && shape[n-1] != weights[len(weights)-1] {
			return false
		}
		batch, heads := shape[0], int64(1)
		if n == 4 {
			heads = shape[1]
		}
		switch {
		case k == 0:
			f.batch, f.heads = batch, heads
		case batch*heads != f.batch*f.heads:
			return false
		case n == 4 && f.heads != 1 && heads != f.heads:
			return false
		case n == 4:
			f.batch, f.heads = batch, heads
		}
	}
	return true
}

// arranged returns f with operands that the primitive takes in place of node i, nil if there are none. Copies of
// operands are not needed. The result has its positions before its heads: its readers must be able to read that, or
// batch and heads must be one dim.
func (s *search) arranged(f *found, i int) *found {
	g := *f
	if f.heads == 1 || s.permutable(i, f) {
		g.q, g.k, g.v = s.uncopied(f.q, f), s.uncopied(f.k, f), s.uncopied(f.v, f)
		g.scale *= s.unscale(&g.q, f) * s.unscale(&g.k, f)
	} else {
		g.batch, g.heads = f.batch*f.heads, 1
	}
	for _, v := range []*view{&g.q, &g.k, &g.v, &g.mask} {
		if v.ref != 0 && !v.divided(g.batch, g.heads) {
			return nil
		}
	}
	if max(g.q.layout.Shape[3], g.v.layout.Shape[3]) > maxHeadWidth {
		return nil
	}
	return &g
}

// divided gives a view of three or four dims these two first ones. It reports false if there is no such view.
func (v *view) divided(batch, heads int64) bool {
	shape, stride := slices.Clone(v.layout.Shape), slices.Clone(v.layout.Stride)
	if len(shape) == 4 {
		switch {
		case shape[0] == batch && shape[1] == heads:
			return true
		case shape[0] == 1 || shape[1] == 1 || stride[0] == shape[1]*stride[1]:
		default:
			return false
		}
		if shape[1] == 1 {
			stride[1] = stride[0]
		}
		shape, stride = slices.Delete(shape, 0, 1), slices.Delete(stride, 0, 1)
		shape[0] *= v.layout.Shape[0]
	}
	if shape[0] != batch*heads {
		return false
	}
	stride[0] *= heads
	shape[0] = batch
	shape, stride = slices.Insert(shape, 1, heads), slices.Insert(stride, 1, stride[0]/heads)
	v.layout = ir.InternLayout(shape, stride)
	return true
}

// uncopied reads what a copy copies, if v is a permutation of its dims.
func (s *search) uncopied(v view, f *found) view {
	for v.ref.IsNode() && s.is(v.ref.Index(), prim.Known.Copy) && v.offset == 0 && v.divided(f.batch, f.heads) {
		from, to := ir.AvalOf(s.p.Nodes[v.ref.Index()].Aval).Layout, operand(s.p, v.ref.Index(), 0)
		if to.layout == nil || s.p.Aval(to.ref).DType != ir.F32 {
			break
		}
		layout, ok := translated(v.layout, from, to.layout.Stride)
		if !ok {
			break
		}
		v = view{ref: to.ref, layout: layout, offset: to.offset}
	}
	return v
}

// fixed reports a value that depends on constants only.
func (s *search) fixed(v view) bool {
	return v.ref.IsInput() && v.ref.Index() >= s.args || v.ref.IsNode() && s.constant[v.ref.Index()]
}

// permutable reports that all readers of the product i can read it as the primitive stores it.
func (s *search) permutable(i int, f *found) bool {
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
			if _, ok := f.headsLast(s.p, i, operand(s.p, j, k)); !ok {
				return false
			}
		}
	}
	return true
}

// headsLast translates a view of product i to one of the same elements as the primitive stores them.
func (f *found) headsLast(p *program.Program, i int, v view) (*ir.Layout, bool) {
	if v.offset != 0 || v.layout == nil {
		return nil, false
	}
	shape := ir.AvalOf(p.Nodes[i].Aval).Shape()
	h, l, e := f.heads, shape[len(shape)-2], shape[len(shape)-1]
	return translated(v.layout, ir.DenseLayout([]int64{f.batch, h, l, e}), []int64{l * h * e, e, h * e, 1})
}

// translated gives a view of a dense value, whose dims are dims of from, other strides of these.
func translated(v, from *ir.Layout, to []int64) (*ir.Layout, bool) {
	stride := make([]int64, v.Rank())
	for d, n := range v.Shape {
		if n == 1 {
			continue
		}
		at := -1
		for k := range from.Shape {
			if from.Shape[k] > 1 && from.Stride[k] == v.Stride[d] {
				at = k
			}
		}
		if at < 0 || n > from.Shape[at] {
			return nil, false
		}
		stride[d] = to[at]
	}
	return ir.InternLayout(v.Shape, stride), true
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
			if !e.Value.IsNode() {
				continue
			}
			if f := at[e.Value.Index()]; f != nil && f.heads > 1 {
				l, _ := f.headsLast(p, e.Value.Index(), operand(p, i, k))
				c.to.Edges[len(c.to.Edges)-len(p.OperandsOf(i))+k].Layout = l.ID
			}
		}
	})
	out, _ := Prune(g, len(p.Inputs))
	return out
}

// attention adds the primitive in the place of node i.
func (c *copier) attention(i int, f *found) {
	av := ir.AvalOf(c.from.Nodes[i].Aval)
	shape := av.Shape()
	masked := int64(0)
	in := []view{f.q, turned(f.k), f.v}
	for k := range in {
		in[k].ref = c.refs[in[k].ref]
	}
	if f.mask.ref != 0 {
		masked = 1
		in = append(in, c.mask(f, i))
	}
	out := []int64{f.batch, shape[len(shape)-2], f.heads, shape[len(shape)-1]}
	result := ir.InternAval(av.DType, av.Device, ir.DenseLayout(out))
	c.add(prim.Known.Attention, []int64{0, masked, 0}, 2, result, i, in, ir.EncodeFloat(ir.F32, f.scale))
	c.refs[program.NodeRef(i)] = program.NodeRef(len(c.to.Nodes) - 1)
}

// mask returns the mask as the primitive has it: a float32 that is added, or true for the keys that are read.
func (c *copier) mask(f *found, i int) view {
	m := f.mask
	switch f.kind {
	case hides:
		return c.not(m, i)
	case subtracted:
		av := c.from.Aval(m.ref)
		in := view{ref: c.refs[m.ref], layout: av.Layout}
		c.add(prim.Known.Mul, nil, 1, av, i, []view{in}, ir.EncodeFloat(ir.F32, -1))
		m.ref = program.NodeRef(len(c.to.Nodes) - 1)
	case added, shows:
		m.ref = c.refs[m.ref]
	}
	return m
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

// turned exchanges the last two dims of four.
func turned(v view) view {
	shape, stride := slices.Clone(v.layout.Shape), slices.Clone(v.layout.Stride)
	shape[2], shape[3], stride[2], stride[3] = shape[3], shape[2], stride[3], stride[2]
	v.layout = ir.InternLayout(shape, stride)
	return v
}
