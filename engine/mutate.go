package engine

import (
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// storeInPlace ends an in-place call: it stores each result through its operand.
func (e *Engine) storeInPlace(c *Call, d *op.Def, vals []op.Val, outs []Out) (int, *ir.Error) {
	targets := d.Stores
	if targets == nil {
		targets = []int{0}
	}
	r := 0
	for _, t := range targets {
		if t >= len(c.In) || c.In[t] == 0 {
			continue
		}
		if r >= len(vals) {
			return 0, ir.Errorf(ir.ErrInternal, "BUG: %s stores more results than it has", d.Parsed.Name)
		}
		if err := e.storeOne(c, d, t, vals[r]); err != nil {
			return 0, err
		}
		r++
	}
	if len(outs) == 0 {
		return 0, nil
	}
	e.describe(c.In[targets[0]], &outs[0])
	outs[0].Flags |= OutIsInput
	return 1, nil
}

// storeOne stores an in-place result after PyTorch's checks.
func (e *Engine) storeOne(c *Call, d *op.Def, t int, v op.Val) *ir.Error {
	self := e.recorder.args.In[t]
	name := d.Parsed.Name
	if v.Base == self.Base && v.Base != 0 && v.Layout == self.Layout && v.Offset == self.Offset &&
		(named(c.In, t) || v.Tape == 0 && self.Tape == 0) {
		return e.session.SelfCopy(c.In[t])
	}
	if !ir.SameShape(v.Shape(), self.Shape()) {
		if !expandable(v.Shape(), self.Shape()) {
			return ir.Errorf(ir.ErrRuntime, "output with shape %s doesn't match the broadcast shape %s",
				ir.ShapeString(self.Shape()), ir.ShapeString(v.Shape()))
		}
		v = prim.Expand(e.session, v, self.Shape())
	}
	if err := castable(d, v.DType(), self.DType()); err != nil && name != "copy_" && !d.InPlaceOnly {
		return err
	}
	if err := overlapping(self, e.recorder.args.In, t); err != nil {
		return err
	}
	if v.Device() != self.Device() {
		v = toDevice(e.session, v, self.Device())
	}
	if v.DType() != self.DType() {
		v = prim.Cast(e.session, v, self.DType())
	}
	if name == "copy_" && e.session.NeedsGrad(self) && e.session.NeedsGrad(v) {
		// Backward must still walk the overwritten history, with zeros.
		v = prim.StridedScatter(e.session, prim.Contiguous(e.session, self), v, ir.DenseLayout(self.Shape()), 0)
	}
	if v.Base != 0 && v.Tape != 0 {
		// v is the operand itself (copy_), whose history is not the target's.
		v = e.session.View(v, v.L(), v.Offset, op.ViewOp{Kind: op.ViewReshape})
	}
	return e.session.StoreThrough(c.In[t], v)
}

// named reports that another operand is the tensor t itself; an alias does not count.
func named(in []uint64, t int) bool {
	for i, h := range in {
		if i != t && h == in[t] {
			return true
		}
	}
	return false
}

// toDevice records a transfer of a dense value.
func toDevice(s *lazy.Session, v op.Val, dev ir.DeviceID) op.Val {
	return prim.ToDevice(s, prim.Contiguous(s, v), dev)
}

// expandable reports that shape from broadcasts to exactly to.
func expandable(from, to []int64) bool {
	if len(from) > len(to) {
		return false
	}
	for i := range from {
		if f := from[len(from)-1-i]; f != 1 && f != to[len(to)-1-i] {
			return false
		}
	}
	return true
}

// castable refuses a result of a higher dtype category than the written tensor; for operators that forbid casts, also
// one of another dtype.
func castable(d *op.Def, from, to ir.DType) *ir.Error {
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

// overlapping refuses an operand that shares some of the written elements without being the same view: PyTorch's
// partial overlap, which judges gap-free views only. Operand t is self; -1: none.
func overlapping(self op.Val, in []op.Val, t int) *ir.Error {
	sl := self.L()
	if sl.Overlap || sl.Span != sl.Numel {
		return nil
	}
	for i := range in {
		v := &in[i]
		if i == t || !v.IsTensor() || v.Base != self.Base || self.Base == 0 {
			continue
		}
		l := v.L()
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
		return ir.Errorf(ir.ErrRuntime, "unsupported operation: some elements of the input tensor and the written-to tensor "+
			"refer to a single memory location. Please clone() the tensor before performing the operation.")
	}
	return nil
}

// storeOut copies results into the out= tensors, resizing those that do not fit.
func (e *Engine) storeOut(c *Call, d *op.Def, vals []op.Val, outs []Out) (int, *ir.Error) {
	if len(c.Outs) != len(vals) {
		return 0, ir.Errorf(ir.ErrType, "%s: out: got %d tensors, want %d", d.Parsed.Name, len(c.Outs), len(vals))
	}
	for i, o := range c.Outs {
		h, err := e.session.Handle(o)
		if err != nil {
			return 0, err
		}
		for k := range e.recorder.args.In {
			if e.session.GradMode && e.recorder.args.In[k].Tape != 0 {
				return 0, ir.Errorf(ir.ErrRuntime, "%s(): functions with out=... arguments don't support automatic "+
					"differentiation, but one of the arguments requires grad.", d.Parsed.Name)
			}
		}
		if err := e.storeResult(d, h, o, vals[i]); err != nil {
			return 0, err
		}
		e.describe(o, &outs[i])
		outs[i].Flags |= OutIsInput
	}
	return len(vals), nil
}

// storeResult copies v into h, the out= tensor o, or resizes h if v does not fit.
func (e *Engine) storeResult(d *op.Def, h *lazy.Handle, o uint64, v op.Val) *ir.Error {
	dt := e.session.AvalOf(h.Base).DType
	if err := castable(d, v.DType(), dt); err != nil {
		return err
	}
	if v.DType() != dt {
		v = prim.Cast(e.session, v, dt)
	}
	if !ir.SameShape(v.Shape(), ir.LayoutOf(h.Layout).Shape) {
		// As in PyTorch, a resize gives the handle new storage of the result's shape.
		v.Base = 0
		v = prim.Contiguous(e.session, v)
		if v.Base != 0 || !v.L().Dense || v.Offset != 0 {
			v = prim.Copy(e.session, v)
		}
		return e.resize(o, v)
	}
	to, err := e.session.Resolve(o)
	if err != nil {
		return err
	}
	if err := overlapping(to, e.recorder.args.In, -1); err != nil {
		return err
	}
	return e.session.StoreThrough(o, v)
}

// resize makes handle hd an owner of a new base that holds v.
func (e *Engine) resize(hd uint64, v op.Val) *ir.Error {
	n := e.session.Wrap(&v, nil)
	err := e.session.SetData(hd, n)
	e.session.Release(n)
	return err
}
