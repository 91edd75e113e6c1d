package lazy

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Only this file of the tests uses unexported parts of a session.

func newSession(d testDevices) *Session { return New(ir.NewGraph(), d) }

func (r *rig) graph() *ir.Graph { return r.Session.graph }

func (r *rig) tape() *autograd.Tape { return r.Session.tape }

func (r *rig) log() []Effect { return r.effects.list }

func (r *rig) handles() int { return r.LiveHandles() }

func (r *rig) bases() int { return r.LiveBases() }

func (r *rig) store(hd uint64, v op.Val) *ir.Error { return r.StoreThrough(hd, v) }

// copySelf is x.copy_(x).
func (r *rig) copySelf(hd uint64) *ir.Error {
	v, err := r.Resolve(hd)
	if err != nil {
		return err
	}
	return r.Assign(&op.Def{InPlaceOnly: true}, hd, v, []op.Val{v, v}, 0)
}

// Key and Call implement autograd.Rules without cached traces.
func (r *rig) Key(what uint64) []uint64 { return []uint64{what} }

func (r *rig) Call(_ []uint64, operands []op.Val, rule op.Rule) []op.Val {
	return rule.Apply(r, operands)
}

// begin starts a walk that accumulates.
func (r *rig) begin(root, cot op.Val, create bool) *autograd.Walk {
	o := autograd.Options{Accumulate: true, RetainGraph: create, CreateGraph: create}
	return r.tape().Begin(r, GradSink{r.Session, create}, []op.Val{root}, []op.Val{cot}, o)
}
