package dispatch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/composite"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// host is a device that stores every dtype and bounds no index.
type host struct{}

func (host) Default() ir.DeviceID                            { return ir.CPU }
func (host) Stores(ir.DeviceID, ir.DType) bool               { return true }
func (host) IndexRange(*op.Val, bool) (lo, hi int64, _ bool) { return 0, 0, false }

func (host) CopyStorage(store uint32, _ ir.DType, _, _ int64) (uint32, *ir.Error) { return store, nil }
func (host) SharesStorage(uint32) bool                                            { return false }

// rig is a dispatcher on a session without an engine.
type rig struct {
	Dispatcher
	graph *ir.Graph
	s     *lazy.Session
}

func newRig() *rig {
	r := &rig{graph: ir.NewGraph()}
	r.s = lazy.New(r.graph, host{})
	r.Start(r.s)
	return r
}

// leaf makes a tensor of n float32 elements.
func (r *rig) leaf(n int64) (hd uint64, v op.Val) {
	av := ir.InternAval(ir.F32, ir.CPU, ir.DenseLayout([]int64{n}))
	v = op.Val{Kind: op.Tensor, Value: r.graph.AddPlaceholder(av.ID, 0), Aval: av.ID, Layout: av.Layout.ID}
	hd = r.s.Wrap(&v, nil)
	v, err := r.s.Resolve(hd)
	if err != nil {
		panic(err)
	}
	return hd, v
}

// counted is a rule that counts its calls.
type counted struct {
	calls int
	rule  func(b op.Builder, in []op.Val) []op.Val
}

func (c *counted) Apply(b op.Builder, in []op.Val) []op.Val {
	c.calls++
	return c.rule(b, in)
}

// call calls a rule under number 7, as the engine does for an operator.
func (r *rig) call(c *counted, in ...op.Val) []op.Val {
	key := r.Key(7)
	for i := range in {
		key = op.AppendOperand(key, &in[i], false)
	}
	return r.Call(key, in, c)
}

// steps records n primitives. A trace keeps at most maxRegisters values.
func steps(b op.Builder, x op.Val, n int) op.Val {
	for range n {
		x = prim.Neg(b, x)
	}
	return x
}

func TestARuleIsCalledTwiceForLikeOperands(t *testing.T) {
	outside := op.Val{}
	double := func(b op.Builder, in []op.Val) []op.Val { return []op.Val{prim.Add(b, in[0], in[0])} }
	for name, c := range map[string]struct {
		rule  func(b op.Builder, in []op.Val) []op.Val
		calls int // of five
	}{
		"a primitive": {double, 2},
		"a number":    {func(b op.Builder, in []op.Val) []op.Val { return []op.Val{prim.Mul(b, in[0], op.FloatVal(3))} }, 2},
		"a view": {func(b op.Builder, in []op.Val) []op.Val {
			return []op.Val{b.View(in[0], ir.DenseLayout([]int64{2, 2}), 0, op.ViewOp{Kind: op.ViewReshape})}
		}, 2},
		"what is detached": {func(b op.Builder, in []op.Val) []op.Val { return double(b, []op.Val{b.Detach(in[0])}) }, 2},
		"1,000 steps":      {func(b op.Builder, in []op.Val) []op.Val { return []op.Val{steps(b, in[0], 1_000)} }, 2},
		"5,000 steps":      {func(b op.Builder, in []op.Val) []op.Val { return []op.Val{steps(b, in[0], 5_000)} }, 5},
		"no result":        {func(op.Builder, []op.Val) []op.Val { return []op.Val{{}} }, 2},
		"a tensor that is no operand": {func(b op.Builder, in []op.Val) []op.Val {
			return []op.Val{prim.Add(b, in[0], outside)}
		}, 5},
		"a tensor from outside as the result": {func(op.Builder, []op.Val) []op.Val { return []op.Val{outside} }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			_, outside = r.leaf(4)
			rule := &counted{rule: c.rule}
			var ops [5][]uint16
			for i := range ops {
				_, x := r.leaf(4)
				seq := r.graph.Seq()
				r.call(rule, x)
				for _, p := range r.graph.Pending {
					if p.Seq > seq {
						ops[i] = append(ops[i], r.graph.Node(p.ID).Op)
					}
				}
				assert.Equal(t, ops[0], ops[i], "call %d records the same", i)
			}
			assert.Equal(t, c.calls, rule.calls)
		})
	}
}

func TestUnlikeCallsAskTheRule(t *testing.T) {
	for name, change := range map[string]func(r *rig, x *op.Val){
		"another shape":         func(r *rig, x *op.Val) { _, *x = r.leaf(5) },
		"another offset":        func(_ *rig, x *op.Val) { x.Offset = 1 },
		"another default dtype": func(r *rig, _ *op.Val) { r.s.Default = ir.F64 },
		"taping":                func(r *rig, _ *op.Val) { r.s.Taping(true) },
		"deterministic":         func(r *rig, _ *op.Val) { r.s.Deterministic = true },
		"autocast":              func(r *rig, _ *op.Val) { r.s.Autocast[0] = ir.BF16 },
		"another device":        func(r *rig, _ *op.Val) { r.s.DefaultDev = 1 },
		"another session":       func(r *rig, _ *op.Val) { r.Start(r.s) },
	} {
		r := newRig()
		rule := &counted{rule: func(_ op.Builder, in []op.Val) []op.Val { return in }}
		_, x := r.leaf(4)
		for range 3 {
			r.call(rule, x)
		}
		require.Equal(t, 2, rule.calls, name)
		change(r, &x)
		r.call(rule, x)
		assert.Equal(t, 3, rule.calls, name)
	}
}

func TestAReplayDrawsAnew(t *testing.T) {
	r := newRig()
	rule := &counted{rule: func(b op.Builder, _ []op.Val) []op.Val {
		seed, offset := b.RNG()
		return []op.Val{seed, offset}
	}}
	seen := map[uint64]bool{}
	for range 5 {
		seen[r.call(rule)[1].Bits()] = true
	}
	assert.Equal(t, 2, rule.calls)
	assert.Len(t, seen, 5)
}

func TestACaptureThatAPanicEndsIsNoTrace(t *testing.T) {
	r := newRig()
	fails := true
	rule := &counted{rule: func(b op.Builder, in []op.Val) []op.Val {
		out := prim.Add(b, in[0], in[0])
		if fails {
			panic("injected")
		}
		return []op.Val{out}
	}}
	_, x := r.leaf(4)
	for range 4 {
		assert.Panics(t, func() { r.call(rule, x) })
		r.Abandon()
		prim.Add(&r.Dispatcher, x, x) // recorded outside of every trace
	}
	fails = false
	seq := r.graph.Seq()
	r.call(rule, x)
	assert.Equal(t, seq+1, r.graph.Seq())
	assert.Equal(t, 5, rule.calls)
}

func TestNumbersOfDeferredCalls(t *testing.T) {
	var p deferrals
	p.forget()
	a := p.add(1, &Deferral{tensors: 1})
	assert.Equal(t, 1, p.find(a).tensors)
	p.nextGeneration()
	assert.NotNil(t, p.find(a), "calls under the last generation's numbers may be under way")
	b := p.add(1, &Deferral{tensors: 2})
	assert.NotEqual(t, a, b)
	assert.Equal(t, 2, p.find(b).tensors)
	p.nextGeneration()
	assert.Nil(t, p.find(a))
	p.forget()
	assert.Nil(t, p.find(b), "a new session voids them all")
	assert.Nil(t, p.find(0))
	for range maxDeferrals {
		a = p.add(3, &Deferral{})
	}
	assert.Equal(t, a>>16+1, p.add(4, &Deferral{})>>16, "a full generation ends")
}
