package lazy

import (
	"errors"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// fastKey is an elementwise primitive without attributes on one dtype, which together decide its result type.
type fastKey struct {
	p  op.PrimID
	d  ir.DType
	sc uint8 // bit mask of scalar operands
}

// inference infers the results of primitives, with a cache for simple ones.
type inference struct {
	fast     map[fastKey]ir.DType
	lastKey  fastKey
	lastType ir.DType
	avals    []ir.AvalID
	specs    []op.OutSpec
}

// infer returns the abstract values of the outputs, valid until the next call, and the dtype of scalars.
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
					"devices, %s and %s!", p.NameFor(attr), ir.DeviceName(x.Device), ir.DeviceName(y.Device)))
			}
			simple = simple && x.DType == y.DType
		}
		simple = simple && a.Layout == b.Layout
	}
	var key fastKey
	if simple && first >= 0 {
		av := ir.AvalOf(in[first].Aval)
		key = fastKey{p.ID, av.DType, mask}
		d, ok := s.inference.lastType, key == s.inference.lastKey
		if !ok {
			if d, ok = s.inference.fast[key]; ok {
				s.inference.lastKey, s.inference.lastType = key, d
			}
		}
		if ok {
			if d == av.DType && in[first].Layout == av.Layout.ID {
				s.inference.avals = append(s.inference.avals[:0], av.ID)
			} else {
				s.inference.avals = append(s.inference.avals[:0], ir.InternAval(d, av.Device, in[first].L()).ID)
			}
			return s.inference.avals, av.DType
		}
	}
	return s.inferSlow(p, attr, in, first, simple, key)
}

// inferSpecs appends the results of p to outs. It panics with the *ir.Error of bad input.
func inferSpecs(p *op.Prim, attr []int64, in []op.Val, outs []op.OutSpec) []op.OutSpec {
	outs, err := p.Infer(in, attr, outs)
	if err != nil {
		var e *ir.Error
		if errors.As(err, &e) {
			panic(e)
		}
		panic(ir.Errorf(ir.ErrRuntime, "%s", err.Error()))
	}
	return outs
}

func (s *Session) inferSlow(p *op.Prim, attr []int64, in []op.Val, first int, simple bool, key fastKey) ([]ir.AvalID,
	ir.DType) {
	outs := inferSpecs(p, attr, in, s.inference.specs[:0])
	s.inference.specs = outs
	if p.IndexInput > 0 {
		s.CheckIndex(p, attr, in)
	}
	var dev ir.DeviceID
	sdt := outs[0].DType
	like := ir.AvalID(0) // of the first tensor operand
	if first >= 0 {
		like = in[first].Aval
		dev, sdt = ir.AvalOf(like).Device, ir.AvalOf(like).DType
	} else if len(attr) > 1 {
		dev = ir.DeviceID(attr[1]) // creation primitives begin with [dtype, device, ...]
	}
	if p.Moves {
		if dev = ir.DeviceID(attr[0]); dev != ir.Meta && ir.AvalOf(like).Device == ir.Meta {
			panic(ir.NoData())
		}
	}
	s.inference.avals = s.inference.avals[:0]
	for i := range outs {
		if dev != ir.CPU && !s.devices.Stores(dev, outs[i].DType) {
			panic(ir.Errorf(ir.ErrType, "%s: %s", p.NameFor(attr), ir.NotStored(outs[i].DType, dev)))
		}
		s.inference.avals = append(s.inference.avals, avalOf(&outs[i], dev, like))
	}
	if simple && first >= 0 && len(outs) == 1 {
		s.inference.fast[key] = outs[0].DType
	}
	return s.inference.avals, sdt
}

// avalOf returns the abstract value of output o on dev. Many outputs are like an operand, so like is tried first: this
// costs less than interning.
func avalOf(o *op.OutSpec, dev ir.DeviceID, like ir.AvalID) ir.AvalID {
	if like != 0 {
		if av := ir.AvalOf(like); av.DType == o.DType && av.Device == dev && ir.SameShape(av.Layout.Shape, o.Shape) {
			return like
		}
	}
	return ir.InternAval(o.DType, dev, ir.DenseLayout(o.Shape)).ID
}

// CheckIndex raises an error if a host-made index tensor has an element outside its dim. The bounds of the whole
// storage settle most cases; otherwise the elements of the view decide.
func (s *Session) CheckIndex(p *op.Prim, attr []int64, in []op.Val) {
	if len(attr) == 0 || p.IndexInput >= len(in) {
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
		panic(p.Refusal(attr, index, size))
	}
}

// badIndex returns an element outside a dim of that size: of view v with exact, else of its storage.
func (s *Session) badIndex(p *op.Prim, attr []int64, v *op.Val, size int64, exact bool) (index int64, bad bool) {
	lo, hi, ok := s.devices.IndexRange(v, exact)
	if k := p.IgnoredIndex; k > 0 { // the kernel checks elements between the ignored index and the dim
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
