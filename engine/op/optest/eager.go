package optest

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Eager is an op.Builder over host memory. Values live as long as it does.
type Eager struct {
	Default ir.DType
	// ViewVJP reverses view steps in Backward: prim.ViewVJP.
	ViewVJP ViewRule
	Device  ir.DeviceID
	// GemmDims, Wide, Fourier, Quantized, FactorSide and MaxIterations are those of lower.Node.
	GemmDims, GemmPads, Wide, Fourier, Quantized bool
	FactorSide, MaxIterations                    int64
	// Unread: nobody reads results after the first; lower.Output.Unread.
	Unread bool
	// Emitted counts the primitives that were run, by name.
	Emitted    map[string]int
	data       [][]byte // by value number; 0 is none
	tape       []node   // by tape number; 0 is none
	steps      []node   // the recorded primitives with a JVP rule, with all operands and results
	off        bool     // taping is off
	drawOffset int64
}

// ViewRule gives the cotangent of a view step's input.
type ViewRule func(b op.Builder, step op.ViewOp, cot op.Val, in, out *ir.Layout, inOffset, outOffset int64) op.Val

// node is a step on the tape.
type node struct {
	prim    *op.Prim // nil: a view; or a leaf, where there is no input
	attr    []int64
	view    op.ViewOp
	in, out []op.Val
}

// New makes an empty builder whose default dtype is float32.
func New() *Eager {
	return &Eager{Default: ir.F32, Emitted: map[string]int{}, data: make([][]byte, 1), tape: make([]node, 1)}
}

func (e *Eager) store(b []byte, d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	e.data = append(e.data, b)
	l := ir.DenseLayout(shape)
	return op.Val{Kind: op.Tensor, Value: uint32(len(e.data) - 1), Layout: l.ID, Aval: ir.InternAval(d, dev, l).ID}
}

// Tensor makes a dense tensor of the given elements.
func (e *Eager) Tensor(d ir.DType, shape []int64, v ...float64) op.Val {
	if int64(len(v)) != ir.Numel(shape) {
		panic("optest: wrong number of elements")
	}
	return e.store(Encode(d, v), d, e.Device, shape)
}

// Floats returns the elements of a tensor in row-major order.
func (e *Eager) Floats(v op.Val) []float64 {
	return Decode(v.DType(), e.data[v.Value], v.L(), v.Offset)
}

// Watch makes v a leaf that Backward can reach.
func (e *Eager) Watch(v op.Val) op.Val {
	e.tape = append(e.tape, node{out: []op.Val{v}})
	v.Tape = edge(len(e.tape)-1, 0)
	return v
}

// An edge has 4 bits for the output, as in engine/autograd.
func edge(n, k int) uint32 { return uint32(n)<<8 | uint32(k) }

// Emit1 implements op.Builder.
func (e *Eager) Emit1(p op.PrimID, x op.Val) op.Val { return e.Emit(p, nil, x) }

// Emit2 implements op.Builder.
func (e *Eager) Emit2(p op.PrimID, x, y op.Val) op.Val { return e.Emit(p, nil, x, y) }

// Emit implements op.Builder.
func (e *Eager) Emit(p op.PrimID, attr []int64, in ...op.Val) op.Val {
	return e.EmitN(p, attr, in...)[0]
}

// EmitN implements op.Builder.
func (e *Eager) EmitN(id op.PrimID, attr []int64, in ...op.Val) []op.Val {
	if op.OnComplex(id, attr, in) {
		return op.EmitComplex(e, id, attr, slices.Clone(in))
	}
	p := op.PrimOf(id)
	attr = append([]int64(nil), attr...)
	specs, err := p.Infer(in, attr, nil)
	if err != nil {
		panic(err)
	}
	e.Emitted[p.Name]++
	dev := e.deviceOf(p, attr, in)
	outs := make([]op.Val, len(specs))
	for i, s := range specs {
		outs[i] = e.store(poison(ir.Numel(s.Shape)*int64(s.DType.Size())), s.DType, dev, s.Shape)
	}
	if p.Moves {
		copy(e.data[outs[0].Value], e.data[in[0].Value][in[0].Offset*int64(in[0].DType().Size()):])
	} else {
		e.run(p, attr, in, specs, outs)
	}
	e.record(p, attr, in, outs)
	return outs
}

func (e *Eager) deviceOf(p *op.Prim, attr []int64, in []op.Val) ir.DeviceID {
	if p.Moves {
		return ir.DeviceID(attr[0])
	}
	for _, v := range in {
		if v.IsTensor() {
			return v.Device()
		}
	}
	return ir.DeviceID(attr[1])
}

func (e *Eager) run(p *op.Prim, attr []int64, in []op.Val, specs []op.OutSpec, outs []op.Val) {
	n := &lower.Node{Prim: p, Attr: attr, GemmDims: e.GemmDims, GemmPads: e.GemmPads, Wide: e.Wide,
		Fourier: e.Fourier, Quantized: e.Quantized, FactorSide: e.FactorSide,
		MaxIterations: e.MaxIterations}
	var bufs [][]byte
	var offsets []int64
	var scalars []uint64
	local := map[uint32]int{}
	buf := func(value uint32) int {
		if value == 0 {
			panic("optest: " + p.Name + " reads a value that its rule did not save")
		}
		b, ok := local[value]
		if !ok {
			b = len(bufs)
			local[value] = b
			bufs = append(bufs, e.data[value])
		}
		return b
	}
	for i, v := range in {
		offsets = append(offsets, v.Offset)
		if v.IsTensor() {
			n.In = append(n.In, lower.Operand{DType: v.DType(), Layout: v.L(), Buf: buf(v.Value)})
			continue
		}
		d := scalarType(p, in, specs, i)
		n.In = append(n.In, lower.Operand{Scalar: true, DType: d})
		scalars = append(scalars, EncodeScalar(d, v))
	}
	for i, v := range outs {
		offsets = append(offsets, 0)
		n.Out = append(n.Out, lower.Output{DType: v.DType(), Layout: v.L(), Buf: buf(v.Value), Unread: e.Unread && i > 0})
	}
	n.Bufs = len(bufs)
	fault, err := Run(n, bufs, offsets, scalars)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	if fault.Failed {
		panic(ir.Errorf(ir.ErrIndex, "%s: index %d is out of range", p.Name, fault.Elem))
	}
}

func scalarType(p *op.Prim, in []op.Val, out []op.OutSpec, i int) ir.DType {
	if p.ScalarDType != nil {
		return p.ScalarDType(in, out, i)
	}
	for _, v := range in {
		if v.IsTensor() {
			return v.DType()
		}
	}
	return out[0].DType
}

// EncodeScalar returns the slot bits of a number in d's compute type.
func EncodeScalar(d ir.DType, v op.Val) uint64 {
	if v.Kind == op.ScalarFloat {
		return ir.EncodeFloat(d, math.Float64frombits(v.Bits()))
	}
	return ir.EncodeInt(d, int64(v.Bits()))
}

// record puts a step on the tape. Inputs and outputs that the rule does not save lose their value.
func (e *Eager) record(p *op.Prim, attr []int64, in, outs []op.Val) {
	taped := false
	need := make([]bool, len(in))
	for i := range in {
		need[i] = in[i].Tape != 0
		taped = taped || need[i]
	}
	if !taped || e.off || p.VJP == nil {
		return
	}
	save := p.SaveIn
	if p.SaveFor != nil {
		save &= p.SaveFor(need)
	}
	if p.JVP != nil {
		e.steps = append(e.steps, node{prim: p, attr: attr, in: slices.Clone(in), out: slices.Clone(outs)})
	}
	n := node{prim: p, attr: attr}
	for i, v := range in {
		if v.IsTensor() && save>>min(i, 31)&1 == 0 {
			v.Value = 0
		}
		n.in = append(n.in, v)
	}
	for i, v := range outs {
		if p.SaveOut>>i&1 == 0 {
			v.Value = 0
		}
		n.out = append(n.out, v)
	}
	e.tape = append(e.tape, n)
	for i := range outs {
		if outs[i].DType().IsFloat() {
			outs[i].Tape = edge(len(e.tape)-1, i)
		}
	}
}

// View implements op.Builder.
func (e *Eager) View(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	if step.Kind == op.ViewPair {
		v.Layout = l.ID
		return v
	}
	if v.Layout.IsComplex() {
		pairs := v
		pairs.Layout = v.L().Pairs().ID
		return op.ComplexOf(e, e.View(pairs, ir.PairLayout(l), v.Offset+2*(offset-v.Offset), step.OfPairs()))
	}
	out := v
	out.Layout, out.Offset, out.Tape = l.ID, offset, 0
	if v.Tape != 0 && !e.off {
		e.tape = append(e.tape, node{view: step, in: []op.Val{v}, out: []op.Val{out}})
		out.Tape = edge(len(e.tape)-1, 0)
	}
	return out
}

// Detach implements op.Builder.
func (e *Eager) Detach(v op.Val) op.Val { v.Tape = 0; return v }

// RNG implements op.Builder.
func (e *Eager) RNG() (seed, drawOffset op.Val) {
	e.drawOffset++
	return op.IntVal(1234), op.IntVal(e.drawOffset)
}

// DefaultDType implements op.Builder.
func (e *Eager) DefaultDType() ir.DType { return e.Default }

// DefaultDevice implements op.Builder.
func (e *Eager) DefaultDevice() ir.DeviceID { return e.Device }

// NeedsGrad implements op.Builder.
func (e *Eager) NeedsGrad(v op.Val) bool { return !e.off && v.Tape != 0 }

// Backward returns the cotangents of inputs, watched or intermediate, for the cotangent cot of root; Kind None where no
// gradient flows. With create the cotangents are on the tape themselves.
func (e *Eager) Backward(root, cot op.Val, create bool, inputs ...op.Val) []op.Val {
	defer func(off bool) { e.off = off }(e.off)
	e.off = !create
	cots := map[uint32]op.Val{root.Tape: cot}
	deliver := func(to uint32, v op.Val) {
		if old, ok := cots[to]; ok {
			v = e.Emit(op.PrimNamed("add").ID, nil, old, v)
		}
		cots[to] = v
	}
	for n := int(root.Tape >> 8); n > 0; n-- {
		step := e.tape[n]
		var got []op.Val
		reached := false
		for k := range step.out {
			v := cots[edge(n, k)]
			got = append(got, v)
			reached = reached || v.Kind != op.None
		}
		if !reached || len(step.in) == 0 {
			continue
		}
		e.reverse(n, step, got, deliver)
	}
	out := make([]op.Val, len(inputs))
	for i, v := range inputs {
		out[i] = cots[v.Tape]
	}
	return out
}

func (e *Eager) reverse(n int, step node, cot []op.Val, deliver func(uint32, op.Val)) {
	if step.prim == nil {
		in, out := step.in[0], step.out[0]
		deliver(in.Tape, e.ViewVJP(e, step.view, cot[0], in.L(), out.L(), in.Offset, out.Offset))
		return
	}
	c := op.VJPCall{B: e, Attr: step.attr, Cot: cot}
	for _, v := range step.in {
		c.Need = append(c.Need, v.Tape != 0)
		if e.off {
			v.Tape = 0
		}
		c.In = append(c.In, v)
	}
	for k, v := range step.out {
		if !e.off && v.DType().IsFloat() {
			v.Tape = edge(n, k)
		}
		c.Out = append(c.Out, v)
	}
	for i, v := range step.prim.VJP(&c) {
		if c.Need[i] && v.Kind != op.None {
			if !ir.SameShape(v.Shape(), step.in[i].Shape()) || v.DType() != step.in[i].DType() {
				panic("BUG: " + step.prim.Name + ": a cotangent has another shape or dtype than its input")
			}
			deliver(step.in[i].Tape, v)
		}
	}
}
