package op

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// The rules for writing a result into an existing tensor, with PyTorch's errors, for in-place operators and out=.

// CheckInPlace refuses result v of an in-place call of d that does not fit operand t of in, which it would overwrite.
func (d *Def) CheckInPlace(v *Val, in []Val, t int) *ir.Error {
	self := &in[t]
	if !ir.SameShape(v.Shape(), self.Shape()) {
		return ir.Errorf(ir.ErrRuntime, "output with shape %s doesn't match the broadcast shape %s",
			ir.ShapeString(self.Shape()), ir.ShapeString(v.Shape()))
	}
	if to, from := self.Device(), v.Device(); to != from {
		return ir.Errorf(ir.ErrRuntime, "Expected all tensors to be on the same device, but found at least two devices, "+
			"%s and %s!", ir.DeviceName(to), ir.DeviceName(from))
	}
	if !d.InPlaceOnly {
		if err := d.CheckCast(v.DType(), self.DType()); err != nil {
			return err
		}
	}
	if d.Expands {
		in = slices.Clone(in)
		for i := range in {
			if in[i].IsTensor() && in[i].L().Numel != self.L().Numel {
				in[i] = Val{}
			}
		}
	}
	return CheckOverlap(self, in, t)
}

// CheckCast refuses a result of a higher dtype category than the written tensor; for operators that forbid casts, also
// one of another dtype.
func (d *Def) CheckCast(from, to ir.DType) *ir.Error {
	if d.ExactOut && from != to {
		return ir.Errorf(ir.ErrRuntime, "%s: Found dtype %s but expected %s", d.Parsed.Name, to.ScalarType(),
			from.ScalarType())
	}
	if from.Category() > to.Category() {
		return ir.Errorf(ir.ErrRuntime, "result type %s can't be cast to the desired output type %s", from.ScalarType(),
			to.ScalarType())
	}
	return nil
}

// CheckOverlap refuses an operand that shares some of the written elements without being the same view: PyTorch's
// partial overlap, which judges gap-free views only. Operand t is self; -1: none.
func CheckOverlap(self *Val, in []Val, t int) *ir.Error {
	sl := self.L().Whole()
	if sl.Overlap || sl.Span != sl.Numel {
		return nil
	}
	for i := range in {
		v := &in[i]
		if i == t || !v.IsTensor() || v.Base != self.Base || self.Base == 0 {
			continue
		}
		l := v.L().Whole()
		if l.Overlap || l.Span != l.Numel || l.Numel == 0 {
			continue
		}
		if v.Offset == self.Offset && l.Numel == sl.Numel {
			if ir.SameShape(l.Stride, sl.Stride) {
				continue
			}
		} else if v.Offset+l.Span <= self.Offset || self.Offset+sl.Span <= v.Offset {
			continue
		}
		return overlaps()
	}
	return nil
}

// CheckApart refuses an out= tensor that overlaps itself, or is a view of an operand's memory with meeting ranges.
func CheckApart(out *Val, in []Val) *ir.Error {
	o := out.L().Whole()
	if o.Overlap {
		return ir.Errorf(ir.ErrRuntime, "unsupported operation: more than one element of the written-to tensor refers to a "+
			"single memory location. Please clone() the tensor before performing the operation.")
	}
	for i := range in {
		v := &in[i]
		if !v.IsTensor() || v.Base != out.Base || out.Base == 0 {
			continue
		}
		if l := v.L().Whole(); v.SameView(out) || v.Offset < out.Offset+o.Span && out.Offset < v.Offset+l.Span {
			return overlaps()
		}
	}
	return nil
}

func overlaps() *ir.Error {
	return ir.Errorf(ir.ErrRuntime, "unsupported operation: some elements of the input tensor and the written-to tensor "+
		"refer to a single memory location. Please clone() the tensor before performing the operation.")
}
