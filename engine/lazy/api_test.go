package lazy

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// What the tests use of a session beside its exported methods.

func newSession(d testDevices) *Session {
	s := New()
	s.Choose, s.Supports = func() ir.DeviceID { return ir.CPU }, d.Stores
	s.IndexRange = d.IndexRange
	return s
}

func (r *rig) graph() *ir.Graph     { return r.Graph }
func (r *rig) tape() *autograd.Tape { return r.Tape }
func (r *rig) log() []Effect        { return r.Effects }
func (r *rig) handles() int         { return r.LiveHandles }
func (r *rig) bases() int           { return r.LiveBases }

func (r *rig) store(hd uint64, v op.Val) *ir.Error {
	return r.StoreThrough(hd, v, prim.StridedScatter)
}

// begin starts a walk that accumulates, every rule of which runs.
func (r *rig) begin(root, cot op.Val, create bool) *autograd.Walk {
	sum := func(b op.Builder, x, y op.Val) op.Val { return prim.Add(b, x, y) }
	view := func(b op.Builder, step op.ViewOp, cot, in, out op.Val) op.Val {
		return prim.ViewVJP(b, step, cot, in.L(), out.L(), in.Offset, out.Offset)
	}
	dense := func(v op.Val) op.Val {
		if v.Offset == 0 && v.Layout == ir.AvalOf(v.Aval).Layout.ID {
			return v
		}
		return prim.Copy(r, v)
	}
	add := func(x, y op.Val) op.Val { return prim.Add(r, x, y) }
	sink := GradSink{S: r.Session, Add: add, Dense: dense, Create: create}
	o := autograd.Options{Accumulate: true, RetainGraph: create, CreateGraph: create}
	return r.tape().Begin(r.Session, sink, []op.Val{root}, []op.Val{cot}, o, sum, view)
}
