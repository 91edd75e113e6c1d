package lazy

import (
	"errors"
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// fastKey names an elementwise primitive without attributes on one dtype: its
// result type follows from these alone.
type fastKey struct {
	p  op.PrimID
	d  ir.DType
	sc uint8 // bit mask of scalar operands
}

// DefaultDType implements op.Builder.
func (s *Session) DefaultDType() ir.DType { return s.Default }

// DefaultDevice implements op.Builder.
func (s *Session) DefaultDevice() ir.DeviceID {
	if s.Choose != nil {
		return s.Choose()
	}
	return s.DefaultDev
}

// NeedsGrad implements op.Builder.
func (s *Session) NeedsGrad(v op.Val) bool { return s.taping && v.Tape != 0 }

// Detach implements op.Builder.
func (s *Session) Detach(v op.Val) op.Val {
	out := v
	out.Tape, out.Detached = 0, true
	if s.traces.capture != nil {
		s.captureDetach(v, &out)
	}
	return out
}

// Taping sets whether primitives are taped and returns the former setting.
func (s *Session) Taping(on bool) (old bool) {
	old, s.taping = s.taping, on
	return old
}

// RNG implements op.Builder: one draw, reserved in program order.
func (s *Session) RNG() (seed, drawOffset op.Val) {
	if s.RefuseDraws {
		panic(ir.Errorf(ir.ErrRuntime, "vmap: called random operation while in randomness error mode. Please either use the "+
			"'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap"))
	}
	s.drawOffset++
	s.log(Effect{Kind: Draw, Mut: s.drawOffset})
	seed, drawOffset = op.IntVal(int64(s.seed)), op.IntVal(int64(s.drawOffset))
	if s.traces.capture != nil {
		s.captureDraw(&seed, &drawOffset)
	}
	return seed, drawOffset
}

// Seed starts the generator anew.
func (s *Session) Seed(seed uint64) { s.seed, s.drawOffset = seed, 0 }

// RNGState gives what SetRNGState restores.
func (s *Session) RNGState() [4]uint64 { return [4]uint64{s.seed, s.drawOffset, 0, 0} }

// SetRNGState restores a state.
func (s *Session) SetRNGState(v [4]uint64) { s.seed, s.drawOffset = v[0], v[1] }

// Emit implements op.Builder.
func (s *Session) Emit(p op.PrimID, attr []int64, in ...op.Val) op.Val { return s.emit(p, attr, in)[0] }

// Emit1 implements op.Builder.
func (s *Session) Emit1(p op.PrimID, x op.Val) op.Val {
	s.inBuf[0] = x
	return s.emit(p, nil, s.inBuf[:1])[0]
}

// Emit2 implements op.Builder.
func (s *Session) Emit2(p op.PrimID, x, y op.Val) op.Val {
	s.inBuf[0], s.inBuf[1] = x, y
	return s.emit(p, nil, s.inBuf[:2])[0]
}

// EmitN implements op.Builder.
func (s *Session) EmitN(p op.PrimID, attr []int64, in ...op.Val) []op.Val {
	return append([]op.Val(nil), s.emit(p, attr, in)...)
}

// emit records a primitive; the results are valid until the next one.
func (s *Session) emit(id op.PrimID, attr []int64, in []op.Val) []op.Val {
	p := op.PrimOf(id)
	if s.Deterministic && p.Unordered {
		attr = append(slices.Clone(attr), op.Deterministic)
	}
	avals, sdt := s.infer(p, attr, in)
	s.edgeBuf, s.scalarBuf = s.edgeBuf[:0], s.scalarBuf[:0]
	taped := false
	for i := range in {
		v := &in[i]
		switch {
		case v.IsTensor():
			s.edgeBuf = append(s.edgeBuf, ir.Edge{Value: v.Value, Layout: v.Layout, Offset: v.Offset})
			taped = taped || v.Tape != 0
		case v.IsScalar():
			d := sdt
			if p.ScalarDType != nil {
				d = p.ScalarDType(in, s.specBuf, i)
			}
			s.edgeBuf = append(s.edgeBuf, ir.Edge{})
			s.scalarBuf = append(s.scalarBuf, encode(d, *v))
		}
	}
	attrID := ir.InternAttr(attr)
	outs := s.add(s.outBuf[:0], p, attrID, avals)
	s.outBuf = outs
	if s.traces.capture != nil {
		s.captureEmit(p, attr, in, avals, sdt, outs)
	}
	if taped && s.taping && p.VJP != nil {
		s.tape(p, attrID, in, outs)
	}
	return outs
}

func (s *Session) value(id uint32, aval ir.AvalID) op.Val {
	return op.Val{Kind: op.Tensor, Value: id, Aval: aval, Layout: ir.AvalOf(aval).Layout.ID}
}

// add makes the node of the edges and numbers in hand and appends its results to list; the scratch list has a
// reference to each.
func (s *Session) add(list []op.Val, p *op.Prim, attrID uint32, avals []ir.AvalID) []op.Val {
	id := s.Graph.Add(uint16(p.ID), attrID, s.SourceLoc, avals, s.edgeBuf, s.scalarBuf)
	s.scratchV = append(s.scratchV, id)
	s.Recorded++
	first := ir.AvalOf(avals[0])
	s.PendingBytes += first.Bytes()
	list = append(list, op.Val{})
	v := &list[len(list)-1]
	v.Kind, v.Value, v.Aval, v.Layout = op.Tensor, id, avals[0], first.Layout.ID
	if len(avals) > 1 {
		for k, e := range s.Graph.Projs(s.Graph.Node(id)) {
			s.scratchV = append(s.scratchV, e.Value)
			list = append(list, s.value(e.Value, avals[k+1]))
		}
	}
	return list
}

func encode(d ir.DType, v op.Val) uint64 {
	if v.Kind == op.ScalarFloat {
		return ir.EncodeFloat(d, math.Float64frombits(v.Bits()))
	}
	return ir.EncodeInt(d, int64(v.Bits()))
}

// infer gives the outputs' avals (valid until the next call) and the dtype of scalars.
func (s *Session) infer(p *op.Prim, attr []int64, in []op.Val) ([]ir.AvalID, ir.DType) {
	first := -1
	simple := p.Elementwise && len(attr) == 0 && p.ScalarDType == nil
	var mask uint8
	for i := range in {
		if !in[i].IsTensor() {
			if in[i].IsScalar() {
				mask |= 1 << uint(i&7)
			}
			continue
		}
		if first < 0 {
			first = i
			continue
		}
		a, b := &in[first], &in[i]
		if a.Aval != b.Aval {
			x, y := ir.AvalOf(a.Aval), ir.AvalOf(b.Aval)
			if x.Device != y.Device {
				panic(ir.Errorf(ir.ErrRuntime, "%s: Expected all tensors to be on the same device, but found at least two "+
					"devices, %s and %s!", p.NameFor(attr), DeviceName(x.Device), DeviceName(y.Device)))
			}
			simple = simple && x.DType == y.DType
		}
		simple = simple && a.Layout == b.Layout
	}
	var key fastKey
	if simple && first >= 0 {
		av := ir.AvalOf(in[first].Aval)
		key = fastKey{p.ID, av.DType, mask}
		d, ok := s.lastFastType, key == s.lastFastKey
		if !ok {
			if d, ok = s.fast[key]; ok {
				s.lastFastKey, s.lastFastType = key, d
			}
		}
		if ok {
			if d == av.DType && in[first].Layout == av.Layout.ID {
				s.avalBuf = append(s.avalBuf[:0], av.ID)
			} else {
				s.avalBuf = append(s.avalBuf[:0], ir.InternAval(d, av.Device, in[first].L()).ID)
			}
			return s.avalBuf, av.DType
		}
	}
	return s.inferSlow(p, attr, in, first, simple, key)
}

func (s *Session) inferSlow(p *op.Prim, attr []int64, in []op.Val, first int, simple bool, key fastKey) ([]ir.AvalID,
	ir.DType) {
	outs, err := p.Infer(in, attr, s.specBuf[:0])
	if err != nil {
		var e *ir.Error
		if errors.As(err, &e) {
			panic(e)
		}
		panic(ir.Errorf(ir.ErrRuntime, "%s", err.Error()))
	}
	s.specBuf = outs
	if p.IndexInput > 0 {
		s.checkIndex(p, attr, in)
	}
	var dev ir.DeviceID
	sdt := outs[0].DType
	if first >= 0 {
		dev = in[first].Device()
		sdt = in[first].DType()
	} else if len(attr) > 1 {
		dev = ir.DeviceID(attr[1]) // creation primitives: [dtype, device, ...]
	}
	if p.Moves {
		dev = ir.DeviceID(attr[0])
	}
	s.avalBuf = s.avalBuf[:0]
	for i := range outs {
		if dev != ir.CPU && s.Supports != nil && !s.Supports(dev, outs[i].DType) {
			panic(ir.Errorf(ir.ErrType, "%s: %s is not supported on device %s: convert with .to(torch.float32) first",
				p.NameFor(attr), outs[i].DType, DeviceName(dev)))
		}
		s.avalBuf = append(s.avalBuf, ir.InternAval(outs[i].DType, dev, ir.DenseLayout(outs[i].Shape)).ID)
	}
	if simple && first >= 0 && len(outs) == 1 {
		s.fast[key] = outs[0].DType
	}
	return s.avalBuf, sdt
}

// checkIndex raises for a host-made index tensor that leaves its dim. The bounds of its storage pass most tensors; a
// view of a storage that holds other numbers too is judged by its own elements.
func (s *Session) checkIndex(p *op.Prim, attr []int64, in []op.Val) {
	if s.IndexRange == nil || len(attr) == 0 || p.IndexInput >= len(in) {
		return
	}
	shape := in[0].Shape()
	if int(attr[0]) >= len(shape) {
		return
	}
	size := shape[attr[0]]
	if _, bad := s.badIndex(p, attr, &in[p.IndexInput], size, false); !bad {
		return
	}
	if index, bad := s.badIndex(p, attr, &in[p.IndexInput], size, true); bad {
		panic(ir.Errorf(ir.ErrIndex, "%s: index %d is out of bounds for dimension %d with size %d", p.Name, index, attr[0],
			size))
	}
}

// badIndex gives an element of v, or with exact unset of its storage, that is known to leave a dim of that size.
func (s *Session) badIndex(p *op.Prim, attr []int64, v *op.Val, size int64, exact bool) (index int64, bad bool) {
	lo, hi, ok := s.IndexRange(v, exact)
	if k := p.IgnoredIndex; k > 0 { // what lies between it and the dim is the kernel's to find
		if lo == attr[k] {
			lo = 0
		}
		if hi == attr[k] {
			hi = 0
		}
	}
	if lo < 0 {
		return lo, ok
	}
	return hi, ok && hi >= size
}

// DeviceName prints a device as PyTorch would.
func DeviceName(d ir.DeviceID) string { return ir.DeviceName(d) }

// tape notes a primitive whose operands have histories. Results that are no floats have none.
func (s *Session) tape(p *op.Prim, attrID uint32, in, outs []op.Val) {
	if len(outs) == 1 && !outs[0].DType().IsFloat() {
		return
	}
	n := s.Tape.Record(p, attrID, s.SourceLoc, in, outs)
	s.scratchT = append(s.scratchT, autograd.Edge(n, 0))
	for i := range outs {
		if outs[i].DType().IsFloat() {
			outs[i].Tape = autograd.Edge(n, i)
		}
	}
}

// View implements op.Builder.
func (s *Session) View(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	out := v
	out.Layout, out.Offset = l.ID, offset
	if v.Tape != 0 && s.taping {
		n := s.Tape.RecordView(step, s.SourceLoc, v, out)
		out.Tape = autograd.Edge(n, 0)
		s.scratchT = append(s.scratchT, out.Tape)
	} else {
		out.Tape = 0
	}
	if s.traces.capture != nil {
		s.captureView(v, l, offset, step, &out)
	}
	return out
}
