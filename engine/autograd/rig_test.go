package autograd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// rig records steps onto a tape and computes them at once. Eager and the graph number values alike. The rig holds one
// reference to each value, so a further reference belongs to the tape or a walk.
type rig struct {
	*optest.Eager
	t       *testing.T
	g       *ir.Graph
	tape    *Tape
	taping  bool
	loc     uint32         // source location of the last step; counts up
	edges   []uint32       // steps that the rig holds a reference to
	commits map[uint32]int // by base
	gens    map[uint32]uint32
	grads   map[uint64][]float64
	kept    map[uint64][]float64
	entered []uint32 // source locations of the steps whose rules ran
	freed   []uint64 // hooks whose step was freed
}

func newRig(t *testing.T) *rig {
	r := &rig{Eager: optest.New(), t: t, g: ir.NewGraph(), taping: true, commits: map[uint32]int{},
		gens: map[uint32]uint32{}, grads: map[uint64][]float64{}, kept: map[uint64][]float64{}}
	r.tape = New(r.g, r)
	r.tape.OnHookFree = func(id uint64) { r.freed = append(r.freed, id) }
	return r
}

// Commit implements Bases.
func (r *rig) Commit(base uint32) (gen uint32, commits uint64) {
	return r.gens[base], uint64(r.commits[base])
}

// enter adds new values to the graph.
func (r *rig) enter(v ...op.Val) {
	for _, x := range v {
		require.Equal(r.t, x.Value, r.g.AddLeaf(x.Aval, 1, 0))
	}
}

func (r *rig) own(e uint32) uint32 { r.edges = append(r.edges, e); return e }

// leaf makes a vector of float64 that accumulates into handle; handle is also its base.
func (r *rig) leaf(handle uint64, v ...float64) op.Val {
	x := r.Tensor(ir.F64, []int64{int64(len(v))}, v...)
	r.enter(x)
	x.Base = uint32(handle)
	x.Tape = r.own(Edge(r.tape.RecordLeaf(handle, x), 0))
	return x
}

func (r *rig) constant(v ...float64) op.Val {
	x := r.Tensor(ir.F64, []int64{int64(len(v))}, v...)
	r.enter(x)
	return x
}

// EmitN implements op.Builder.
func (r *rig) EmitN(id op.PrimID, attr []int64, in ...op.Val) []op.Val {
	bare := append([]op.Val(nil), in...)
	taped := false
	for i := range bare {
		taped = taped || bare[i].Tape != 0
		bare[i].Tape = 0
	}
	outs := r.Eager.EmitN(id, attr, bare...)
	r.enter(outs...)
	if p := op.PrimOf(id); taped && r.taping && p.VJP != nil {
		r.loc++
		n := r.tape.Record(p, ir.InternAttr(attr), r.loc, in, outs)
		r.own(Edge(n, 0))
		for k := range outs {
			if outs[k].DType().IsFloat() {
				outs[k].Tape = Edge(n, k)
			}
		}
	}
	return outs
}

// Emit, Emit1 and Emit2 implement op.Builder.
func (r *rig) Emit(id op.PrimID, attr []int64, in ...op.Val) op.Val {
	return r.EmitN(id, attr, in...)[0]
}
func (r *rig) Emit1(id op.PrimID, x op.Val) op.Val    { return r.EmitN(id, nil, x)[0] }
func (r *rig) Emit2(id op.PrimID, x, y op.Val) op.Val { return r.EmitN(id, nil, x, y)[0] }

// View implements op.Builder.
func (r *rig) View(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	out := v
	out.Layout, out.Offset, out.Tape = l.ID, offset, 0
	if v.Tape != 0 && r.taping {
		r.loc++
		out.Tape = r.own(Edge(r.tape.RecordView(step, r.loc, v, out, false), 0))
	}
	return out
}

// NeedsGrad implements op.Builder.
func (r *rig) NeedsGrad(v op.Val) bool { return r.taping && v.Tape != 0 }

// Accumulate implements Sink.
func (r *rig) Accumulate(handle uint64, cot op.Val) {
	for i, v := range r.Floats(cot) {
		if i >= len(r.grads[handle]) {
			r.grads[handle] = append(r.grads[handle], 0)
		}
		r.grads[handle][i] += v
	}
}

// SetRetained implements Sink.
func (r *rig) SetRetained(handle uint64, cot op.Val) { r.kept[handle] = r.Floats(cot) }

// Hide and Reveal implement Rules: the rig's values have no hidden dims.
func (r *rig) Hide(v op.Val, _ []ir.HiddenDim) op.Val    { return v }
func (r *rig) Settled(v op.Val, _ []ir.HiddenDim) op.Val { return v }

func (r *rig) Reveal(v op.Val, _ []ir.HiddenDim) op.Val { return v }

// Key and Call implement Rules without cached traces.
func (r *rig) Key(what uint64) []uint64 { return []uint64{what} }

func (r *rig) Call(_ []uint64, operands []op.Val, rule op.Rule) []op.Val {
	return rule.Apply(r, operands)
}

// begin starts a walk from root with a cotangent of ones.
func (r *rig) begin(o Options, root op.Val) *Walk {
	cot := prim.Fill(r, op.FloatVal(1), ir.F64, ir.CPU, root.Shape())
	o.Enter = func(loc uint32) { r.entered = append(r.entered, loc) }
	r.taping = o.CreateGraph
	return r.tape.Begin(r, r, []op.Val{root}, []op.Val{cot}, o)
}

// walk runs a walk to its end; hook answers each event that asks.
func (r *rig) walk(w *Walk, hook func(ev Event) op.Val) error {
	answer := op.Val{}
	for {
		ev, err := w.Next(answer)
		if err != nil || ev.Kind == Done {
			return err
		}
		answer = op.Val{}
		if hook != nil {
			answer = hook(ev)
		}
	}
}

// backward walks from root and accumulates into the leaves.
func (r *rig) backward(root op.Val, o Options) error {
	o.Accumulate = true
	w := r.begin(o, root)
	defer func() { w.Close(); r.taping = true }()
	return r.walk(w, nil)
}

// settled checks that only the rig holds values and steps, and that releasing them leaves nothing.
func (r *rig) settled() {
	r.t.Helper()
	for _, e := range r.edges {
		r.tape.Release(e)
	}
	require.Zero(r.t, r.tape.Live(), "steps are left")
	for id := uint32(1); uint64(id) <= r.g.Seq(); id++ {
		require.EqualValues(r.t, 1, r.g.Node(id).Refs, "value %d", id)
	}
}

// leaves lists the leaf handles in the history of edges, in the order of walk.
func leaves(t *Tape, edges []uint32) (found []uint64) {
	t.walk(edges, func(n *Node) bool {
		if n.Kind == KindLeaf {
			found = append(found, n.Leaf)
		}
		return true
	})
	return found
}
