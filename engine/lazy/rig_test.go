package lazy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// testDevices has a CPU, and a device 1 without float64. indexRange holds the bounds of known index tensors.
type testDevices struct{ indexRange map[uint32][2]int64 }

func (testDevices) Default() ir.DeviceID { return ir.CPU }
func (testDevices) Stores(dev ir.DeviceID, d ir.DType) bool {
	return dev == ir.CPU || d != ir.F64
}
func (d testDevices) IndexRange(v *op.Val, _ bool) (lo, hi int64, ok bool) {
	bounds, ok := d.indexRange[v.Value]
	return bounds[0], bounds[1], ok
}

func (testDevices) CopyStorage(store uint32, _ ir.DType, _, _ int64) (uint32, *ir.Error) {
	return store, nil
}
func (testDevices) SharesStorage(uint32) bool { return false }

// rig is a session without plans or runs: reads evaluate its graph node by node on the host.
type rig struct {
	*Session
	t      *testing.T
	d      testDevices
	eager  *optest.Eager
	leaves map[uint32]op.Val // stored values, as numbered in eager
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, d: testDevices{map[uint32][2]int64{}}, eager: optest.New(), leaves: map[uint32]op.Val{}}
	r.Session = newSession(r.d)
	r.Taping(true)
	return r
}

// tensor makes a float64 tensor of that shape.
func (r *rig) tensor(shape []int64, v ...float64) uint64 {
	x := r.eager.Tensor(ir.F64, shape, v...)
	id := r.graph().AddLeaf(x.Aval, 1, 0)
	r.leaves[id] = x
	hd := r.NewHandle(r.NewBase(id), x.Layout, 0, 0)
	r.graph().Release(id)
	return hd
}

func (r *rig) vector(v ...float64) uint64 { return r.tensor([]int64{int64(len(v))}, v...) }

func (r *rig) leaf(v ...float64) uint64 {
	hd := r.vector(v...)
	require.Nil(r.t, r.SetRequiresGrad(hd, true))
	return hd
}

func (r *rig) resolve(hd uint64) op.Val {
	v, err := r.Resolve(hd)
	require.Nil(r.t, err)
	return v
}

// do records f as one user call.
func (r *rig) do(f func(x ...op.Val) op.Val, hs ...uint64) uint64 {
	defer r.Drain()
	var in []op.Val
	for _, h := range hs {
		in = append(in, r.resolve(h))
	}
	out := f(in...)
	return r.Wrap(&out, hs)
}

func (r *rig) mul(hd uint64, k float64) uint64 {
	return r.do(func(x ...op.Val) op.Val { return r.computed(prim.Mul(r, x[0], op.FloatVal(k))) }, hd)
}

func (r *rig) add(x, y uint64) uint64 {
	return r.do(func(x ...op.Val) op.Val { return r.computed(prim.Add(r, x[0], x[1])) }, x, y)
}

// computed returns v as a result that is not a view of an operand.
func (r *rig) computed(v op.Val) op.Val { v.Base = 0; return v }

func (r *rig) slice(hd uint64, from, to int64) uint64 {
	return r.do(func(x ...op.Val) op.Val { return prim.Slice(r, x[0], 0, from, to, 1) }, hd)
}

// write stores f of hd's value through hd.
func (r *rig) write(hd uint64, f func(x op.Val) op.Val) *ir.Error {
	defer r.Drain()
	x := r.resolve(hd)
	x.Overwritten = true
	return r.store(hd, r.computed(f(x)))
}

// mulIn is an in-place product.
func (r *rig) mulIn(hd uint64, k float64) {
	require.Nil(r.t, r.write(hd, func(x op.Val) op.Val { return prim.Mul(r, x, op.FloatVal(k)) }))
}

// read computes the elements of a tensor.
func (r *rig) read(hd uint64) []float64 {
	v := r.resolve(hd)
	return r.eager.Floats(r.eval(v, map[uint32][]op.Val{}))
}

// eval computes a view of a value.
func (r *rig) eval(v op.Val, known map[uint32][]op.Val) op.Val {
	n := r.graph().Node(v.Value)
	id, k := v.Value, 0
	if n.Op == ir.OpProj {
		id, k = r.graph().Edges(n)[0].Value, int(n.Attr)
	}
	if leaf, ok := r.leaves[id]; ok && n.Op == ir.OpLeaf {
		known[id] = []op.Val{leaf}
	}
	if known[id] == nil {
		known[id] = r.run(r.graph().Node(id), known)
	}
	x := known[id][k]
	x.Layout, x.Offset, x.Tape = v.Layout, v.Offset, 0
	return x
}

func (r *rig) run(n *ir.Node, known map[uint32][]op.Val) []op.Val {
	require.NotEqual(r.t, ir.OpLeaf, n.Op, "a stored value that the test did not make")
	p, attr := op.Of(n), ir.AttrOf(n.Attr)
	var in []op.Val
	numbers := r.graph().Scalars(n)
	edges := append([]ir.Edge(nil), r.graph().Edges(n)...)
	number := func(i int) op.Val {
		d := ir.AvalOf(n.Aval).DType
		if p.ScalarDType != nil {
			d = p.ScalarDType(in, []op.OutSpec{{DType: d}}, i)
		}
		bits := numbers[0]
		numbers = numbers[1:]
		if d.IsFloat() {
			return op.FloatVal(ir.DecodeFloat(d, bits))
		}
		return op.IntVal(int64(bits))
	}
	for i, e := range edges {
		if e.Value == 0 {
			in = append(in, number(i))
			continue
		}
		v := op.Val{Kind: op.Tensor, Value: e.Value, Layout: e.Layout, Offset: e.Offset}
		v.Aval = r.graph().Node(e.Value).Aval
		in = append(in, r.eval(v, known))
	}
	return r.eager.EmitN(p.ID, attr, in...)
}

// backward walks from a tensor with a cotangent of ones, into the grads of the leaves.
func (r *rig) backward(hd uint64, create bool) {
	defer r.Drain()
	root := r.resolve(hd)
	defer r.Taping(r.Taping(create))
	cot := prim.Fill(r, op.FloatVal(1), ir.F64, ir.CPU, root.Shape())
	w := r.begin(root, cot, create)
	defer w.Close()
	ev, err := w.Next(op.Val{})
	require.NoError(r.t, err)
	require.Equal(r.t, autograd.Done, ev.Kind)
}

func (r *rig) grad(hd uint64) []float64 {
	g, err := r.Grad(hd)
	require.Nil(r.t, err)
	if g == 0 {
		return nil
	}
	return r.read(g)
}

// settled releases the tensors and checks that only the log is left.
func (r *rig) settled(hs ...uint64) {
	r.t.Helper()
	for _, h := range hs {
		r.Release(h)
	}
	r.Drain()
	require.Zero(r.t, r.handles(), "handles")
	require.Zero(r.t, r.bases(), "bases")
	require.Zero(r.t, r.tape().Live(), "steps")
	require.Zero(r.t, r.graph().Live(), "values")
	for _, e := range r.log() {
		require.Contains(r.t, []EffectKind{Dropped, Load, Draw}, e.Kind, "a store that nobody can observe")
	}
}
