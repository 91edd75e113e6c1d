package lazy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// A window has the work that the requested values and the stores need, and the readers of versions that the stores
// replace. A node is live if something outside refers to its result. A store is exclusive if nothing else holds the old
// version.
func TestWindowsHoldWhatIsNeeded(t *testing.T) {
	for _, tc := range []struct {
		name   string
		record func(r *rig) (values []uint64, effects bool)
		want   string
	}{
		{"what was not asked for stays out", func(r *rig) ([]uint64, bool) {
			x := r.vector(1, 2)
			y := r.mul(r.mul(x, 2), 3)
			r.mul(x, 7)
			return []uint64{y}, false
		}, `input $0 : f64[2]
%0 = mul $0 2.0 : f64[2] live
%1 = mul %0 3.0 : f64[2] live
`},
		{"an intermediate whose tensor is gone", func(r *rig) ([]uint64, bool) {
			a := r.mul(r.vector(1, 2), 2)
			y := r.mul(a, 3)
			r.Release(a)
			return []uint64{y}, false
		}, `input $0 : f64[2]
%0 = mul $0 2.0 : f64[2]
%1 = mul %0 3.0 : f64[2] live
`},
		{"a value that is stored already", func(r *rig) ([]uint64, bool) { return []uint64{r.vector(1)}, false }, ""},
		{"a second result that somebody holds", func(r *rig) ([]uint64, bool) {
			x := r.vector(1, 2)
			var second uint64
			first := r.do(func(x ...op.Val) op.Val {
				v, i := prim.MaxDim(r, x[0], 0)
				second = r.Wrap(&i, nil)
				return v
			}, x)
			return []uint64{first}, second == 0
		}, `input $0 : f64[2]
%0 = extremum_dim{max_dim,0} $0 : f64[] live
%1 = result{1} %0 : i64[] live
`},
		{"stores in program order", func(r *rig) ([]uint64, bool) {
			x := r.vector(1, 2)
			r.mulIn(x, 2)
			r.mulIn(r.slice(x, 0, 1), 3)
			return nil, true
		}, `input $0 : f64[2]
%0 = mul $0 2.0 : f64[2]
%1 = mul %0[1] 3.0 : f64[1]
%2 = strided_scatter{[1]} %0 %1 0 : f64[2] live
store %0 over $0 base 0 exclusive
store %2 over %0 base 0 last exclusive
`},
		{"a reader of the old version joins", func(r *rig) ([]uint64, bool) {
			x := r.vector(1, 2)
			r.mul(x, 5)
			r.mulIn(x, 2)
			return nil, true
		}, `input $0 : f64[2]
%0 = mul $0 5.0 : f64[2] live
%1 = mul $0 2.0 : f64[2] live
store %1 over $0 base 0 last exclusive
`},
		{"an old version that another tensor holds", func(r *rig) ([]uint64, bool) {
			x := r.vector(1, 2)
			h, _ := r.Handle(x)
			r.NewHandle(r.NewBase(r.Base(h.Base).Value), h.Layout, 0, 0)
			r.mulIn(x, 2)
			return nil, true
		}, `input $0 : f64[2]
%0 = mul $0 2.0 : f64[2] live
store %0 over $0 base 0 last
`},
		{"what autograd saved is held", func(r *rig) ([]uint64, bool) {
			a := r.mul(r.leaf(1, 2), 2)
			y := r.do(func(x ...op.Val) op.Val { return r.computed(prim.Sin(r, x[0])) }, a)
			r.Release(a)
			return []uint64{y}, false
		}, `input $0 : f64[2]
%0 = mul $0 2.0 : f64[2] live
%1 = sin %0 : f64[2] live
`},
		{"regions are numbered anew in each window", func(r *rig) ([]uint64, bool) {
			x := r.vector(1, 2)
			r.BeginRegion()
			r.BeginRegion()
			a := r.mul(r.mul(x, 2), 3)
			first := r.Region()
			r.EnterRegion(0)
			b := r.mul(a, 4)
			r.EnterRegion(first)
			c := r.mul(b, 5)
			r.BeginRegion()
			d := r.mul(c, 6)
			r.EnterRegion(0)
			return []uint64{d}, false
		}, `input $0 : f64[2]
%0 = mul $0 2.0 : f64[2] region 1 live
%1 = mul %0 3.0 : f64[2] region 1 live
%2 = mul %1 4.0 : f64[2] live
%3 = mul %2 5.0 : f64[2] region 2 live
%4 = mul %3 6.0 : f64[2] region 3 live
`},
		{"two bases", func(r *rig) ([]uint64, bool) {
			x, y := r.vector(1), r.vector(2)
			r.mulIn(x, 2)
			r.mulIn(y, 3)
			return nil, true
		}, `input $0 : f64[1]
input $1 : f64[1]
%0 = mul $0 2.0 : f64[1] live
%1 = mul $1 3.0 : f64[1] live
store %0 over $0 base 0 last exclusive
store %1 over $1 base 1 last exclusive
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			handles, effects := tc.record(r)
			var values []uint32
			for _, h := range handles {
				values = append(values, r.resolve(h).Value)
			}
			n := 0
			if effects {
				n = len(r.log())
			}
			w := NewWindow(r.Session)
			for range 2 { // Clear removes every mark
				require.Equal(t, tc.want != "", w.Collect(values, n))
				require.Equal(t, tc.want, w.Program.String())
				require.NoError(t, w.Program.Verify())
				w.Clear()
			}
			w.Collect(values, n)
			w.Abandon() // as after a panic
			w.Collect(values, n)
			require.Equal(t, tc.want, w.Program.String())
			w.Clear()
		})
	}
}

// An inlined function gives the results of the original function: its constants have their captured values, its states
// their current ones, and its draws are new.
func TestACapturedFunctionIsTheFunction(t *testing.T) {
	r := newRig(t)
	r.Seed(1)
	constant, state := r.vector(1, 10), r.vector(0, 0)
	r.mulIn(state, 1) // a loc from here on
	m := r.Mark()
	arg := r.Placeholder(ir.F64, ir.CPU, []int64{2})
	seed, offset := r.RNG()
	noise := prim.RandUniform(r, seed, offset, ir.F64, ir.CPU, []int64{2})
	sum := prim.Add(r, prim.Mul(r, arg, r.bare(constant)), prim.Mul(r, noise, op.FloatVal(0)))
	require.Nil(t, r.store(state, r.computed(prim.Add(r, r.bare(state), arg))))
	c, err := r.Capture(m, []op.Val{arg}, []op.Val{sum})
	require.Nil(t, err)
	r.Rewind(m)
	r.Drain()
	require.Equal(t, []float64{0, 0}, r.read(state), "the recording was taken back")
	_, offset = r.RNG()
	require.EqualValues(t, 1, offset.Bits(), "with its draw")

	x := r.vector(2, 3)
	for call := range 3 {
		y := r.do(func(x ...op.Val) op.Val { return r.Inline(c, x, nil)[0] }, x)
		require.Equal(t, []float64{2, 30}, r.read(y))
		n := float64(call + 1)
		require.Equal(t, []float64{2 * n, 3 * n}, r.read(state))
		_, offset = r.RNG()
		require.EqualValues(t, 3+2*call, offset.Bits(), "each call draws")
		r.Release(y)
	}
	wide := r.tensor([]int64{2, 2}, 5, 0, 6, 0)
	column := r.do(func(x ...op.Val) op.Val { return prim.Select(r, x[0], 1, 0) }, wide)
	y := r.do(func(x ...op.Val) op.Val { return r.Inline(c, x, nil)[0] }, column)
	require.Equal(t, []float64{5, 60}, r.read(y), "an argument that is a view")
	r.Forget(c)
	r.settled(constant, state, x, y, wide, column)
}

// bare returns a tensor's value without its base.
func (r *rig) bare(hd uint64) op.Val { return r.computed(r.resolve(hd)) }

func TestGradientsFlowThroughACapturedFunction(t *testing.T) {
	r := newRig(t)
	m := r.Mark()
	arg := r.Placeholder(ir.F64, ir.CPU, []int64{2})
	hd := r.Wrap(&arg, nil)
	require.Nil(t, r.SetRequiresGrad(hd, true))
	in := r.resolve(hd)
	c, err := r.Capture(m, []op.Val{in}, []op.Val{r.computed(prim.Sin(r, prim.Mul(r, in, in)))})
	require.Nil(t, err)
	r.Rewind(m)
	r.Release(hd)
	r.Drain()
	x := r.leaf(0.5, 2)
	y := r.do(func(x ...op.Val) op.Val { return r.Inline(c, x, nil)[0] }, x)
	direct := r.leaf(0.5, 2)
	z := r.do(func(x ...op.Val) op.Val { return r.computed(prim.Sin(r, prim.Mul(r, x[0], x[0]))) }, direct)
	r.backward(y, false)
	r.backward(z, false)
	require.Equal(t, r.grad(direct), r.grad(x))
	r.Forget(c)
	r.settled(x, y, z, direct)
}

func TestWhatCannotBeCaptured(t *testing.T) {
	for want, f := range map[string]func(r *rig, arg op.Val){
		"a value was computed inside of the function": func(r *rig, arg op.Val) {
			r.graph().Realize(prim.Exp(r, r.bare(r.vector(1))).Value, 1)
		},
		"the random generator was seeded inside of the function": func(r *rig, _ op.Val) { r.Seed(7) },
	} {
		r := newRig(t)
		m := r.Mark()
		arg := r.Placeholder(ir.F64, ir.CPU, []int64{2})
		f(r, arg)
		_, err := r.Capture(m, []op.Val{arg}, []op.Val{arg})
		require.NotNil(t, err, want)
		require.Contains(t, err.Msg, want)
	}
}
