package simplify

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// fewChannels is the number of channels up to which a convolution transposes its input itself.
const fewChannels = 4

// lastConv is a convolution with channels last, and the steps that it applies to its result.
type lastConv struct {
	prim.ConvLast
	conv, end int  // nodes: the convolution, and its last step
	bias      view // along dim 1; ref 0: none
	add       view // ref 0: none
}

// ChannelsLast keeps channels last from one convolution to the next, since such convolutions neither copy windows nor
// pack positions. It applies to networks of depthwise and 1x1 convolutions, and of convolutions by Winograd's filtering
// (prim.ConvLast.Winograd). It takes depthwise convolutions with at least 16 channels, and convolutions of one group,
// each with its bias, an addition of a value of the same shape, and limits such as a relu's. Max pools between them
// keep channels last too. Other readers get a copy in the usual order. Results change by rounding.
func ChannelsLast(p *program.Program, args int) *program.Program {
	s := newSearch(p, args)
	ends, inner := map[int]*lastConv{}, map[int]bool{}
	reader := s.readers()
	for i := range p.Nodes {
		if f := s.lastConv(i, reader, ends, inner); f != nil {
			ends[f.end] = f
		}
	}
	pools := s.poolsOf(ends)
	if !s.worthTurning(ends, inner, pools) {
		return p
	}
	c := newCopier(p)
	t := turner{copier: c, ends: ends, pools: pools, last: map[program.Ref]view{}, plain: map[program.Ref]bool{}}
	c.inputs(func(int) bool { return true })
	for i := range p.Nodes {
		switch {
		case ends[i] != nil:
			t.conv(ends[i])
		case pools[i]:
			t.pool(i)
		case t.sum(i):
		case !inner[i]:
			for _, e := range p.OperandsOf(i) {
				t.back(e.Value, i)
			}
			c.node(i)
		}
	}
	for _, r := range p.Results {
		t.back(r.Value, len(p.Nodes)-1)
		c.result(c.refs[r.Value])
	}
	out, _ := Prune(c.done(), len(p.Inputs))
	return out
}

// readers has the last reader of each node.
func (s *search) readers() []int {
	reader := make([]int, len(s.p.Nodes))
	for i := range s.p.Nodes {
		for _, e := range s.p.OperandsOf(i) {
			if e.Value.IsNode() {
				reader[e.Value.Index()] = i
			}
		}
	}
	return reader
}

// lastConv finds the convolution at node i and the steps that follow it, nil for none. ends and inner have the nodes of
// earlier convolutions.
func (s *search) lastConv(i int, reader []int, ends map[int]*lastConv, inner map[int]bool) *lastConv {
	p := s.p
	if !s.is(i, prim.Known.Conv) || s.constant[i] || ir.AvalOf(p.Nodes[i].Aval).DType != ir.F32 || !p.Whole(i, 0) {
		return nil
	}
	w := operand(p, i, 1)
	win, rest := op.WindowsOf(p.Attrs(i))
	if !s.fixed(w) || w.layout.Rank() != 4 || ir.AvalOf(p.Nodes[i].Aval).Layout.Numel == 0 {
		return nil
	}
	shape := w.layout.Shape
	f := &lastConv{conv: i, end: i}
	f.Windows, f.Outputs, f.Least, f.Most = win, shape[0], math.Inf(-1), math.Inf(1)
	channels := rest[0] * shape[1]
	f.Alone = rest[0] > 1 && shape[1] == 1
	if !f.Possible(channels) || !f.Alone && rest[0] != 1 {
		return nil
	}
	limited := false
	for next := 0; ; f.end = next {
		if last := s.between(f, reader, inner); last >= 0 {
			limited, next = true, last
			continue
		}
		if s.uses[f.end] != 1 {
			break
		}
		next = reader[f.end]
		if p.Nodes[next].Aval != p.Nodes[i].Aval || ends[next] != nil || inner[next] || !s.follows(f, next, &limited) {
			break
		}
		inner[f.end] = true
	}
	return f
}

// between takes the nodes that keep f's result v between two numbers: where(v <= least, least, where(v >= most, most,
// v)), which hardtanh and relu6 record to keep NaN. It returns the last of these nodes, -1 for none.
func (s *search) between(f *lastConv, reader []int, inner map[int]bool) int {
	p := s.p
	if s.uses[f.end] != 3 || !s.is(reader[f.end], prim.Known.Compare) {
		return -1
	}
	low := reader[f.end]
	last := reader[low]
	least, ok := s.compared(low, f.end, prim.CompareLe)
	if !ok || s.uses[low] != 1 || s.chosen(last, low) != least || p.Nodes[last].Aval != p.Nodes[f.end].Aval {
		return -1
	}
	first, ok := s.only(last, 2)
	if !ok || !p.Whole(first, 2) || operand(p, first, 2).ref != program.NodeRef(f.end) {
		return -1
	}
	high, ok := s.only(first, 0)
	if !ok {
		return -1
	}
	most, ok := s.compared(high, f.end, prim.CompareGe)
	if !ok || s.chosen(first, high) != most || max(f.Least, least) > min(f.Most, most) {
		return -1
	}
	f.Least, f.Most = max(f.Least, least), min(f.Most, most)
	for _, n := range []int{f.end, low, first, high} {
		inner[n] = true
	}
	return last
}

// compared is the number that node i compares the value of node v with, by this relation.
func (s *search) compared(i, v int, relation int64) (number float64, ok bool) {
	p := s.p
	if !s.is(i, prim.Known.Compare) || p.Attrs(i)[0] != relation || len(p.ScalarsOf(i)) != 1 || !p.Whole(i, 0) ||
		operand(p, i, 0).ref != program.NodeRef(v) {
		return 0, false
	}
	return ir.DecodeFloat(ir.F32, p.ScalarsOf(i)[0]), true
}

// chosen is the number that node i, a where, has where condition is true; NaN for others.
func (s *search) chosen(i, condition int) float64 {
	p := s.p
	if !s.is(i, prim.Known.Where) || !p.Whole(i, 0) || operand(p, i, 0).ref != program.NodeRef(condition) ||
		operand(p, i, 1).ref != 0 || len(p.ScalarsOf(i)) != 1 {
		return math.NaN()
	}
	return ir.DecodeFloat(ir.F32, p.ScalarsOf(i)[0])
}

// follows takes node next, which alone reads f's result, as its next step.
func (s *search) follows(f *lastConv, next int, limited *bool) bool {
	p := s.p
	if at, ok := s.only(next, 0); ok && at == f.end {
		least, most := f.Least, f.Most
		if s.limit(next, &least, &most) {
			if least > most {
				return false
			}
			f.Least, f.Most, *limited = least, most, true
			return true
		}
	}
	if *limited || f.add.ref != 0 || !s.is(next, prim.Known.Add) {
		return false
	}
	if at, j := s.channelwise(next, prim.Known.Add); at == f.end {
		if f.bias.ref != 0 {
			return false
		}
		f.bias = operand(p, next, j)
		return true
	}
	if f.Alone || len(p.OperandsOf(next)) != 2 {
		return false
	}
	for j := range 2 {
		other := operand(p, next, 1-j)
		if at, ok := s.only(next, j); ok && at == f.end && other.ref.IsNode() && p.Whole(next, 1-j) &&
			p.Nodes[other.ref.Index()].Aval == p.Nodes[next].Aval && !s.constant[other.ref.Index()] {
			f.add, f.Add = other, true
			return true
		}
	}
	return false
}

// poolsOf finds the max pools that read a convolution with one of these last nodes, or another such pool. Their indices
// have no reader.
func (s *search) poolsOf(ends map[int]*lastConv) map[int]bool {
	p, pools := s.p, map[int]bool{}
	for i := range p.Nodes {
		if !s.is(i, prim.Known.WindowMax) || !p.Whole(i, 0) || s.places(i) {
			continue
		}
		x := operand(p, i, 0).ref
		win, _ := op.WindowsOf(p.Attrs(i))
		if len(win.Kernel) == 2 && x.IsNode() && (ends[x.Index()] != nil || pools[x.Index()]) {
			pools[i] = true
		}
	}
	return pools
}

// winogradShare is the share of Winograd's convolutions in a network's operations from which channels last pay without
// a depthwise convolution.
const winogradShare = 0.25

// winogradTerms is the number of multiplications in Winograd's convolutions for which one element may be copied.
// Filtering saves half of them or more, and a copy takes as long as 25 to 50.
const winogradTerms = 256

// layoutCopies are the values that are copied between layouts, and the number of their elements.
type layoutCopies struct {
	of       map[program.Ref]bool
	elements float64
}

func (c *layoutCopies) add(r program.Ref, elements int64) {
	if !c.of[r] {
		c.of[r] = true
		c.elements += float64(elements)
	}
}

// worthTurning reports that channels last pay. There is a depthwise convolution, or enough work in Winograd's
// convolutions. And there are few copies between layouts, or Winograd's filtering saves more time than they take.
func (s *search) worthTurning(ends map[int]*lastConv, inner, pools map[int]bool) bool {
	p := s.p
	alone, copied, all, squares := false, layoutCopies{of: map[program.Ref]bool{}}, 0.0, 0.0
	outside := func(r program.Ref) bool { return !r.IsNode() || ends[r.Index()] == nil && !pools[r.Index()] }
	for _, f := range ends {
		alone = alone || f.Alone
		x := operand(p, f.conv, 0)
		terms := ir.AvalOf(p.Nodes[f.conv].Aval).Layout.Numel * operand(p, f.conv, 1).layout.Numel / f.Outputs
		if all += float64(terms); f.Winograd(x.layout.Shape[1]) {
			squares += float64(terms)
		}
		if outside(x.ref) && x.layout.Shape[1] > fewChannels {
			copied.add(x.ref, x.layout.Numel)
		}
		if f.Add && outside(f.add.ref) {
			copied.add(f.add.ref, f.add.layout.Numel)
		}
	}
	read := func(r program.Ref) {
		if !outside(r) {
			copied.add(r, ir.AvalOf(p.Nodes[r.Index()].Aval).Layout.Numel)
		}
	}
	for i := range p.Nodes {
		if ends[i] != nil || inner[i] || pools[i] || sumsPictures(p, i) {
			continue
		}
		for _, e := range p.OperandsOf(i) {
			read(e.Value)
		}
	}
	for _, r := range p.Results {
		read(r.Value)
	}
	return (alone || squares > winogradShare*all) &&
		(4*len(copied.of) <= len(ends) || squares >= winogradTerms*copied.elements)
}

// turner rewrites a program for ChannelsLast.
type turner struct {
	*copier
	ends  map[int]*lastConv
	pools map[int]bool
	last  map[program.Ref]view // by value of the program: with its channels last
	plain map[program.Ref]bool // results of convolutions and pools that are copied back
}

// back copies the result of a convolution or a pool back to channels first.
func (t *turner) back(r program.Ref, from int) {
	v, ok := t.last[r]
	if !ok || !r.IsNode() || t.ends[r.Index()] == nil && !t.pools[r.Index()] || t.plain[r] {
		return
	}
	t.plain[r] = true
	shape := ir.AvalOf(t.from.Nodes[r.Index()].Aval).Shape()
	l := v.layout.Stride
	v.layout = ir.InternLayout(shape, []int64{l[0], l[3], l[1], l[2]})
	t.refs[r] = t.emitter(from).node(prim.Known.Copy, nil, ir.F32, shape, []view{v}).ref
}

// turned is v with channels last.
func (t *turner) turned(v view, e *emitter) view {
	if l, ok := t.last[v.ref]; ok {
		return l
	}
	from, l := v.ref, v.layout
	v.ref = t.refs[v.ref]
	shape := []int64{l.Shape[0], l.Shape[2], l.Shape[3], l.Shape[1]}
	v.layout = ir.InternLayout(shape, []int64{l.Stride[0], l.Stride[2], l.Stride[3], l.Stride[1]})
	if l.Shape[1] > fewChannels {
		v = e.node(prim.Known.Copy, nil, ir.F32, shape, []view{v})
		t.last[from] = v
	}
	return v
}

// sumsPictures reports that node i sums each channel of a whole picture.
func sumsPictures(p *program.Program, i int) bool {
	if !p.Nodes[i].IsPrim() || len(p.OperandsOf(i)) != 1 || !p.Whole(i, 0) {
		return false
	}
	shape := operand(p, i, 0).layout.Shape
	switch p.Prim(i).ID {
	case prim.Known.Sum:
		return len(shape) == 4 && slices.Equal(p.Attrs(i), []int64{2, 3})
	case prim.Known.WindowSum: // its result has two dims more, which a reader views
		w, _ := op.WindowsOf(p.Attrs(i))
		ok := len(shape) == 4 && len(w.Kernel) == 2 &&
			!slices.ContainsFunc(p.Results, func(r program.Result) bool { return r.Value == program.NodeRef(i) })
		for d := range w.Kernel {
			ok = ok && w.Kernel[d] == shape[2+d] && w.Lo[d] == 0 && w.Dilation[d] == 1 && w.Base[d] == 1 && w.Out[d] == 1
		}
		return ok
	}
	return false
}

// sum makes node i, the sum of whole pictures, a sum over positions: the channels of all are neighbours.
func (t *turner) sum(i int) bool {
	if !sumsPictures(t.from, i) {
		return false
	}
	v, ok := t.last[operand(t.from, i, 0).ref]
	if ok {
		t.refs[program.NodeRef(i)] = t.emitter(i).node(prim.Known.Sum, []int64{1, 2}, ir.F32, []int64{v.layout.Shape[0],
			v.layout.Shape[3]}, []view{v}).ref
	}
	return ok
}

// pool makes node i, whose operand has its channels last, a pool along the same dims, with windows of one channel.
func (t *turner) pool(i int) {
	v := t.last[operand(t.from, i, 0).ref]
	w, _ := op.WindowsOf(t.from.Attrs(i))
	for k, l := range w.Lists() {
		*l = append(slices.Clone(*l), [...]int64{1, 1, 0, 1, 1, v.layout.Shape[3]}[k])
	}
	e, l := t.emitter(i), ir.DenseLayout(append(slices.Clone(v.layout.Shape[:1]), w.Out...))
	t.add(prim.Known.WindowMax, w.Attr(), 2, ir.InternAval(ir.F32, e.dev, l), i, []view{v})
	t.last[program.NodeRef(i)] = view{ref: program.NodeRef(len(t.to.Nodes) - 1), layout: l}
}

// conv copies convolution f in the place of its last node.
func (t *turner) conv(f *lastConv) {
	e := t.emitter(f.end)
	x := t.turned(operand(t.from, f.conv, 0), e)
	w := operand(t.from, f.conv, 1)
	w.ref = t.refs[w.ref]
	shape, stride := w.layout.Shape, w.layout.Stride
	channels := x.layout.Shape[3]
	weights, bias := f.Panels(channels)
	if f.Alone {
		w.layout = ir.InternLayout([]int64{shape[2], shape[3], channels}, []int64{stride[2], stride[3], stride[0]})
		w = e.node(prim.Known.Copy, nil, ir.F32, w.layout.Shape, []view{w})
		w.layout = ir.DenseLayout(weights)
	} else {
		w.layout = ir.InternLayout([]int64{shape[0], shape[2], shape[3], shape[1]}, []int64{stride[0], stride[2], stride[3],
			stride[1]})
		terms := weights[1]
		w = e.within(w, ir.F32, []int64{bias[0], terms}, []int64{terms, shape[3] * channels, channels, 1})
		w.layout = ir.InternLayout(weights, []int64{terms * prim.QuantizedPanel, 1, terms})
		w = e.node(prim.Known.Copy, nil, ir.F32, weights, []view{w})
	}
	in := []view{x, w}
	if b := f.bias; b.ref != 0 {
		b.ref = t.refs[b.ref]
		in = append(in, e.within(along(b, shape[:1], 0), ir.F32, bias, []int64{1}))
	} else {
		attr := slices.Concat([]int64{int64(ir.F32), int64(e.dev)}, bias)
		in = append(in, e.node(prim.Known.Fill, attr, ir.F32, bias, nil, 0))
	}
	if f.Add {
		in = append(in, t.turned(f.add, e))
	}
	out := ir.AvalOf(t.from.Nodes[f.end].Aval).Shape()
	out = []int64{out[0], out[2], out[3], out[1]}
	t.last[program.NodeRef(f.end)] = e.node(prim.Known.ConvLast, f.Attr(), ir.F32, out, in)
}
