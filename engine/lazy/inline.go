package lazy

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// inlining is an Inline in progress.
type inlining struct {
	s      *Session
	c      *Captured
	p      *program.Program
	inputs []op.Val
	dense  []op.Val // by input: its dense copy, made when first needed
	nodes  []op.Val
	first  uint64 // offset of the call's first draw
	supply []float64
	in     []op.Val
	outs   []op.Val
	flats  map[flatView]op.Val
}

// flatView is a view of a value through an alias of that number, see program.Flat.
type flatView struct {
	flat   uint32
	edge   program.Edge
	offset int64
}

// Inline records the program again on other arguments and supplied numbers, with fresh draws. The results are valid
// until the end of the call. Gradients flow as in the captured recording: each primitive records its step on the tape.
//
// If the program reads all of an argument that is a view, it reads through the view; otherwise the argument is copied
// once.
func (s *Session) Inline(c *Captured, args []op.Val, numbers []float64) []op.Val {
	outs, _ := s.inline(c, args, numbers, nil)
	return outs
}

// inline is Inline, which also returns the values of the program's nodes. A node that given has a value for is not
// recorded; with given there are no draws.
func (s *Session) inline(c *Captured, args []op.Val, numbers []float64, given func(node int) (op.Val, bool)) (outs,
	nodes []op.Val) {
	k := &inlining{s: s, c: c, p: c.Program, first: s.draws.offset + 1, supply: numbers}
	k.bind(args)
	if k.p.Drawn > 0 && given == nil {
		s.DrawMany(int64(k.p.Drawn))
	}
	k.nodes = make([]op.Val, len(k.p.Nodes))
	for i := range k.p.Nodes {
		if given != nil {
			if v, ok := given(i); ok {
				k.nodes[i] = v
				continue
			}
		}
		if k.p.Nodes[i].IsPrim() {
			k.emit(i)
		}
	}
	// Results come before the stores, so that a view of an argument sees the argument's value before its store.
	outs = make([]op.Val, len(k.p.Results))
	for i := range k.p.Results {
		outs[i] = k.result(&k.p.Results[i])
	}
	for i := range k.p.Stores {
		k.store(&k.p.Stores[i])
	}
	return outs, k.nodes
}

// bind finds the values of all inputs.
func (k *inlining) bind(args []op.Val) {
	if len(args) != k.c.args {
		panic(ir.Errorf(ir.ErrRuntime, "the captured function takes %d arguments, got %d", k.c.args, len(args)))
	}
	k.dense = make([]op.Val, len(k.p.Inputs))
	for i, v := range args {
		v, want := Pairs(v), ir.AvalOf(k.p.Inputs[i].Aval)
		if !v.IsTensor() || v.DType() != want.DType || v.Device() != want.Device || !slices.Equal(v.Shape(), want.Shape()) {
			panic(ir.Errorf(ir.ErrRuntime,
				"argument %d of the captured function has another dtype, shape or device: want %s of shape %s on %s", i,
				want.DType, ir.ShapeString(want.Shape()), ir.DeviceName(want.Device)))
		}
		k.inputs = append(k.inputs, v)
	}
	for i := range k.c.bound {
		k.inputs = append(k.inputs, k.bound(&k.c.bound[i]))
	}
}

// bound returns the current value of a constant or a state, with its history.
func (k *inlining) bound(b *bound) op.Val {
	s := k.s
	var v op.Val
	if hd := s.boundHandle(b); hd == 0 {
		v = s.value(b.value, s.graph.Node(b.value).Aval)
	} else if err := s.ResolveTo(hd, &v); err != nil {
		panic(err)
	}
	if b.tape == 0 {
		return v
	}
	// The history belongs to a view of the value, or to the whole value.
	n, o := autograd.Split(b.tape)
	root := &s.tape.Node(autograd.Edge(n, o)).Out[o].Val
	v.Tape = b.tape
	if root.Layout != v.Layout || root.Offset != v.Offset {
		whole := v
		v.Layout, v.Offset = root.Layout, root.Offset
		v = s.Reveal(v, v.L().Hidden) // a batch of vmap: the body of a loop reads all of it
		if b.point {
			return s.folded(v, b.folds)
		}
		v = s.View(v, whole.L(), whole.Offset, viewStep(v.L(), whole.L()))
	}
	return v
}

// value returns the value of r.
func (k *inlining) value(r program.Ref) op.Val {
	if r.IsInput() {
		return k.inputs[r.Index()]
	}
	return k.nodes[r.Index()]
}

// view returns a view of the value of r; layout and offset are relative to the start of the whole value.
func (k *inlining) view(r program.Ref, id ir.LayoutID, offset int64, history bool) op.Val {
	v := k.value(r)
	whole := ir.AvalOf(k.p.AvalID(r)).Layout
	if id == whole.ID && offset == 0 {
		if !history {
			v.Tape = 0
		}
		return v
	}
	if hasBatch(v) {
		return k.viewOfElement(v, ir.LayoutOf(id), offset, history)
	}
	if !v.L().Dense {
		d := &k.dense[r.Index()] // only arguments can be views
		if d.Kind == op.None {
			*d = prim.Copy(k.s, v)
		}
		v = *d
	}
	if !history {
		v.Tape = 0
	}
	l := ir.LayoutOf(id)
	if v.Tape == 0 {
		v.Layout, v.Offset = id, v.Offset+offset
		return v
	}
	return k.s.View(v, l, v.Offset+offset, viewStep(v.L(), l))
}

// viewOfElement is view of a value with hidden dims: the layout describes one element.
func (k *inlining) viewOfElement(v op.Val, l *ir.Layout, offset int64, history bool) op.Val {
	if !history {
		v.Tape = 0
	}
	if !v.L().Whole().Dense {
		v = prim.Copy(k.s, v)
	}
	from := ir.InternLayout(v.Shape(), v.L().Stride)
	return k.s.View(v, l, v.Offset+offset, viewStep(from, l))
}

// viewStep returns the simplest inverse of a view.
func viewStep(from, to *ir.Layout) op.ViewOp {
	if from.Dense && to.Dense && from.Numel == to.Numel {
		return op.ViewOp{Kind: op.ViewReshape}
	}
	if l, ok := ir.ExpandLayout(from, to.Shape); ok && l.ID == to.ID {
		return op.ViewOp{Kind: op.ViewExpand}
	}
	if dims, ok := permutation(from, to); ok {
		return op.ViewOp{Kind: op.ViewPermute, Dims: dims}
	}
	return op.ViewOp{Kind: op.ViewStrided}
}

// permutation returns the order of from's dims that makes to.
func permutation(from, to *ir.Layout) (dims []int64, ok bool) {
	if from.Rank() != to.Rank() {
		return nil, false
	}
	for i := range to.Shape {
		at := -1
		for j := range from.Shape {
			if from.Shape[j] == to.Shape[i] && from.Stride[j] == to.Stride[i] && !slices.Contains(dims, int64(j)) {
				at = j
				break
			}
		}
		if at < 0 {
			return nil, false
		}
		dims = append(dims, int64(at))
	}
	return dims, true
}

// emit records node i, on the tape too if an operand has a history.
func (k *inlining) emit(i int) {
	s, p := k.s, k.p
	x, prm := &p.Nodes[i], p.Prim(i)
	s.SourceLoc = p.SourceLoc(i)
	types, sc, taped := k.c.types[i], int(x.Scalar), false
	k.in = k.in[:0]
	for j, e := range p.OperandsOf(i) {
		if e.Value == 0 {
			k.in = append(k.in, k.number(sc, types[j]))
			sc++
			continue
		}
		at := int(x.Edge) + j
		v := k.view(e.Value, e.Layout, p.Offsets[at], p.History != nil && p.History[at])
		if p.Flat != nil && p.Flat[at] != 0 {
			v = k.flat(at, v)
		}
		v.Severed = v.Severed || p.Severed != nil && p.Severed[at]
		taped = taped || v.Tape != 0
		k.in = append(k.in, v)
	}
	if prm.IndexInput > 0 {
		s.CheckIndex(prm, p.Attrs(i), k.in)
	}
	if s.Duals(k.in) || s.Batches(k.in) {
		k.place(i, s.EmitN(prm.ID, p.Attrs(i), k.in...))
		return
	}
	edges, scalars := s.emitter.edges[:0], s.emitter.scalars[:0]
	for j, v := range k.in {
		if v.IsTensor() {
			edges = append(edges, ir.Edge{Value: v.Value, Layout: v.Layout, Offset: v.Offset})
			continue
		}
		edges, scalars = append(edges, ir.Edge{}), append(scalars, v.Encode(types[j]))
	}
	s.emitter.edges, s.emitter.scalars = edges, scalars
	outs := s.Add(k.outs[:0], prm, x.Attr, k.c.avals[i], edges, scalars)
	k.outs = outs
	if s.trace != nil && p.Severed != nil {
		s.NoteOperands(k.in, outs[0].Value)
	}
	if taped && s.taping && prm.VJP != nil {
		s.RecordStep(prm, x.Attr, k.in, outs)
	}
	k.place(i, outs)
}

// flat returns v, which operand number at reads, through an alias. Operands that read one view through one alias share
// its step, so that their gradients are added in the order of the recording.
func (k *inlining) flat(at int, v op.Val) op.Val {
	e := k.p.Edges[at]
	key := flatView{k.p.Flat[at], e, k.p.Offsets[at]}
	x, ok := k.flats[key]
	if !ok {
		if k.flats == nil {
			k.flats = map[flatView]op.Val{}
		}
		x = prim.Flat(k.s, v)
		k.flats[key] = x
	}
	return x
}

// place enters the results of node i.
func (k *inlining) place(i int, outs []op.Val) {
	p := k.p
	k.nodes[i] = outs[0]
	for j := i + 1; j < len(p.Nodes) && !p.Nodes[j].IsPrim(); j++ {
		if p.OperandsOf(j)[0].Value == program.NodeRef(i) {
			k.nodes[j] = outs[p.Nodes[j].Attr]
		}
	}
}

// number returns the number of a slot. A draw's offset continues from the call's first draw.
func (k *inlining) number(slot int, d ir.DType) op.Val {
	bits := k.p.Scalars[slot]
	for _, x := range k.p.Draws {
		if int(x.Scalar) == slot {
			return op.IntVal(int64(k.first + bits))
		}
		if int(x.Scalar) == slot+1 {
			return op.IntVal(int64(k.s.draws.seed))
		}
	}
	if place, ok := k.c.supplied[slot]; ok {
		return op.FloatVal(k.supply[place])
	}
	switch {
	case d.IsFloat():
		return op.Number(op.ScalarFloat, math.Float64bits(ir.DecodeFloat(d, bits)))
	case d == ir.I64:
		return op.Number(op.ScalarInt, bits)
	}
	return op.Number(op.ScalarInt, uint64(int64(ir.DecodeFloat(d, bits))))
}

// store writes a value to the base of an input.
func (k *inlining) store(st *program.Store) {
	s := k.s
	into, v := k.value(st.Into), k.value(st.Value)
	if into.Base == 0 {
		panic(ir.Errorf(ir.ErrRuntime, "the captured function writes to an argument that is no tensor of its own"))
	}
	if at := st.Into.Index(); s.taping && into.Tape != 0 && at < len(k.c.tracked) && !k.c.tracked[at] {
		panic(ir.Errorf(ir.ErrNotImplemented,
			"the captured function writes to a tensor with a history: call it under no_grad, or detach what it writes"))
	}
	v.Tape = 0 // a capture refuses stores of values with a history
	b := s.bases.at(into.Base)
	if !into.IsWhole() || !v.IsWhole() {
		if into.L().Overlap {
			panic(ir.Errorf(ir.ErrRuntime,
				"unsupported operation: more than one element of the written-to tensor refers to a single memory "+
					"location. Please clone() the tensor before performing the operation."))
		}
		v.Layout = ir.InternLayout(into.Shape(), ir.DenseStrides(into.Shape())).ID
		v = prim.StridedScatter(s, b.whole(), v, into.L(), into.Offset)
	}
	s.baseStore(into.Base, v.Value)
}

// result returns a result: a new tensor, or an alias of an input.
func (k *inlining) result(r *program.Result) op.Val {
	v := k.view(r.Value, r.Layout, r.Offset, true)
	v.Base = 0
	if r.Of == 0 {
		return v
	}
	of := k.value(r.Of)
	whole := ir.AvalOf(k.p.AvalID(r.Of)).Layout
	switch {
	case r.Layout == whole.ID && r.Offset == 0:
		v.Layout, v.Offset = of.Layout, of.Offset
	case of.L().Dense:
		v.Layout, v.Offset = r.Layout, of.Offset+r.Offset
	default:
		panic(ir.Errorf(ir.ErrNotImplemented,
			"the captured function returns a view of an argument that is a view itself: pass a copy"))
	}
	v.Base = of.Base
	return v
}
