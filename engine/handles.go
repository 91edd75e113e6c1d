package engine

import (
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
)

// Meta describes a tensor.
type Meta struct {
	DType          ir.DType
	Device         ir.DeviceID
	Shape, Stride  []int64
	Offset         int64
	Storage        int64 // elements of the base
	Base           uint64
	Commits, Flags uint64
	GradFn         string
	SourceLoc      uint32
	OnHost         bool
}

// Flags of Meta.
const (
	MetaRequiresGrad = 1 << iota
	MetaLeaf
	MetaRetainsGrad
	MetaView
	MetaContiguous
)

// Meta describes h without running anything.
func (e *Engine) Meta(h uint64) (m Meta, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	x, err := e.session.Handle(h)
	if err != nil {
		return m, err
	}
	b := e.session.Base(x.Base)
	av, l := ir.AvalOf(b.Aval), ir.LayoutOf(x.Layout)
	n := e.graph.Node(b.Value)
	m = Meta{DType: av.DType, Device: av.Device, Shape: l.Shape, Stride: l.Stride, Offset: x.Offset,
		Storage: av.Layout.Numel, Base: uint64(x.Base), Commits: e.session.Version(x),
		SourceLoc: x.SourceLoc, GradFn: e.gradName(x), OnHost: av.Device == ir.CPU && n.Op == ir.OpLeaf && n.Store != 0 &&
			(b.Binding == lazy.SSA || e.session.PendingEffects() == 0)}
	if x.Layout.IsComplex() {
		m.DType, m.Offset, m.Storage = av.DType.Complex(), x.Offset/2, av.Layout.Numel/2
	}
	if e.session.RequiresGrad(x) {
		m.Flags |= MetaRequiresGrad
	}
	if e.session.IsLeaf(x) {
		m.Flags |= MetaLeaf
	}
	if x.Flags&lazy.FlagRetain != 0 {
		m.Flags |= MetaRetainsGrad
	}
	if x.Flags&lazy.FlagView != 0 {
		m.Flags |= MetaView
	}
	if l.Dense {
		m.Flags |= MetaContiguous
	}
	return m, nil
}

// Dispose frees the tensor behind h, even while the engine is busy or poisoned.
func (e *Engine) Dispose(h uint64) {
	defer e.leave(nil)
	e.enter()
	e.session.Dispose(h)
}

// Keep lets h outlive its tidy scope.
func (e *Engine) Keep(h uint64) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	return e.session.Keep(h)
}

// TidyBegin opens a scope.
func (e *Engine) TidyBegin() {
	defer e.leave(nil)
	e.enter()
	e.session.TidyBegin()
}

// TidyEnd closes the innermost scope; see lazy.Session.TidyEnd.
func (e *Engine) TidyEnd(returned []uint64) {
	defer e.leave(nil)
	e.enter()
	e.session.TidyEnd(returned)
}

// SetRequiresGrad sets or clears requires_grad of a leaf.
func (e *Engine) SetRequiresGrad(h uint64, v bool) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	return e.session.SetRequiresGrad(h, v)
}

// RetainGrad makes a non-leaf keep its grad.
func (e *Engine) RetainGrad(h uint64) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	return e.session.RetainGrad(h)
}

// Grad returns a new handle of h's grad.
func (e *Engine) Grad(h uint64, out *Out) (has bool, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	g, err := e.session.Grad(h)
	if err != nil || g == 0 {
		return false, err
	}
	e.describe(e.session.Dup(g), out)
	return true, nil
}

// SetGrad replaces h's grad; grad 0 is None.
func (e *Engine) SetGrad(h, grad uint64) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	return e.session.SetGrad(h, grad)
}

// SetData implements tensor.data = src.
func (e *Engine) SetData(h, src uint64) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	return e.session.SetData(h, src)
}
