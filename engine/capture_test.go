package engine

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

type function func(x ...T) []T

// capture records f on placeholders like args, captures the recording, and rewinds it.
func (r *rig) capture(f function, args ...T) (*lazy.Captured, *ir.Error) {
	s := r.e.session
	m := s.Mark()
	r.e.TidyBegin()
	defer func() {
		r.e.TidyEnd(nil)
		s.Rewind(m)
	}()
	var ph []T
	var vals, outs []op.Val
	for _, a := range args {
		like, err := s.Resolve(uint64(a))
		require.Nil(r.t, err)
		v := s.Placeholder(like.DType(), like.Device(), like.Shape())
		h := T(s.Wrap(&v, nil))
		if like.Tape != 0 {
			r.grad(h)
		}
		v, err = s.Resolve(uint64(h))
		require.Nil(r.t, err)
		ph, vals = append(ph, h), append(vals, v)
		s.Drain()
	}
	for _, h := range f(ph...) {
		v, err := s.Resolve(uint64(h))
		require.Nil(r.t, err)
		outs = append(outs, v)
	}
	c, err := s.Capture(m, vals, outs)
	if err == nil {
		text := c.Program.String()
		p, bad := program.Parse(text)
		require.NoError(r.t, bad, "%s", text)
		require.Equal(r.t, text, p.String())
		require.True(r.t, p.Same(c.Program), "%s", text)
		r.t.Cleanup(func() { s.Forget(c) })
	}
	return c, err
}

// alone calls f and drops every tensor that it does not return, like a captured function.
func (r *rig) alone(f function, args ...T) []T {
	r.e.TidyBegin()
	outs := f(args...)
	var hs []uint64
	for _, h := range outs {
		hs = append(hs, uint64(h))
	}
	r.e.TidyEnd(hs)
	return outs
}

// inline calls a captured function.
func (r *rig) inline(c *lazy.Captured, args ...T) (outs []T, err *ir.Error) {
	s := r.e.session
	defer func() {
		if x := recover(); x != nil {
			e, ok := x.(*ir.Error)
			if !ok {
				panic(x)
			}
			err = e
		}
		s.Drain()
	}()
	s.Taping(s.GradMode)
	var vals []op.Val
	var src []uint64
	for _, a := range args {
		v, err := s.Resolve(uint64(a))
		if err != nil {
			return nil, err
		}
		vals, src = append(vals, v), append(src, uint64(a))
	}
	for _, v := range s.Inline(c, vals, nil) {
		outs = append(outs, T(s.Wrap(&v, src)))
	}
	return outs, nil
}

// bits reads tensors.
func (r *rig) bits(xs ...T) [][]uint32 {
	var all [][]uint32
	for _, x := range xs {
		var b []uint32
		for _, v := range r.read(x) {
			b = append(b, math.Float32bits(v))
		}
		all = append(all, b)
	}
	return all
}

// numbers makes n floats that depend on k.
func numbers(n, k int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32((i*37+k*11)%23)/7 - 1.3
	}
	return v
}

func TestACapturedFunctionInlinedIsTheFunction(t *testing.T) {
	var w, state T
	for _, c := range []struct {
		name string
		f    func(r *rig) function
	}{
		{"arithmetic", func(r *rig) function {
			return func(x ...T) []T { return []T{r.do("add", r.do("mul", x[0], x[1]), 2.5)} }
		}},
		{"views", func(r *rig) function {
			return func(x ...T) []T {
				u := r.do("select", r.do("t", x[0]), 0, 1)
				e := r.do("expand", r.do("unsqueeze", u, 1), []int64{2, 4})
				return []T{r.do("mul", e, 3.0), r.do("t", r.do("add", x[0], x[1])), u, r.do("matmul", x[0], r.do("t", x[1]))}
			}
		}},
		{"draws", func(r *rig) function {
			return func(x ...T) []T {
				n := r.do("rand_like", x[0])
				r.drop(r.do("rand_like", x[0])) // an unused draw also takes its offset
				return []T{r.do("add", x[0], n), r.do("dropout", x[1], 0.5, true), n}
			}
		}},
		{"a constant", func(r *rig) function {
			return func(x ...T) []T { return []T{r.do("matmul", x[0], w), r.do("add", r.do("full_like", x[1], 3.0), x[1])} }
		}},
		{"several results of one primitive", func(r *rig) function {
			return func(x ...T) []T {
				o, err := r.call(0, "max.dim", x[0], 1, false)
				require.Nil(r.t, err)
				return []T{r.do("mul", o[0], 2.0)}
			}
		}},
		{"state", func(r *rig) function {
			return func(x ...T) []T {
				before := r.do("mul", state, 2.0)
				r.inplace("add", state, r.do("sum", x[0]))
				r.inplace("mul", state, 0.5)
				return []T{before, r.do("add", state, x[1])}
			}
		}},
		{"a view of state", func(r *rig) function {
			return func(x ...T) []T {
				r.inplace("mul", r.do("select", state, 0, 1), r.do("select", x[1], 0, 0))
				return []T{r.do("neg", state)}
			}
		}},
		{"state that is only written", func(r *rig) function {
			return func(x ...T) []T {
				r.inplace("copy_", state, x[0])
				return []T{r.do("neg", x[1])}
			}
		}},
		{"an argument is written", func(r *rig) function {
			return func(x ...T) []T {
				old := r.do("clone", x[0])
				r.inplace("mul", r.do("t", x[0]), 3.0)
				r.inplace("add", r.do("select", x[0], 1, 2), 1.0)
				return []T{old, x[0], r.do("select", x[0], 0, 1)}
			}
		}},
		{"a tensor of its own is written", func(r *rig) function {
			return func(x ...T) []T {
				y := r.do("mul", x[0], 2.0)
				r.inplace("add", r.do("select", y, 0, 0), x[1])
				return []T{y}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			w, state = r.floats([]int64{4, 3}, numbers(12, 5)...), r.floats([]int64{2, 4}, numbers(8, 9)...)
			r.inplace("add", state, 1.0) // it is a loc from here on
			f := c.f(r)
			if c.name == "a tensor of its own is written" {
				f = func(x ...T) []T { return c.f(r)(x[0], r.do("select", x[1], 0, 0)) }
			}
			args := func(k int) []T {
				return []T{r.floats([]int64{2, 4}, numbers(8, k)...), r.floats([]int64{2, 4}, numbers(8, k+1)...)}
			}
			was := r.bits(state)
			captured, err := r.capture(f, args(1)...)
			require.Nil(t, err)
			assert.Equal(t, was, r.bits(state), "capturing writes nothing")
			start := r.do("clone", state)
			r.bits(start)
			rng := r.e.RNGState()
			call := func(run func(args []T) []T) (all [][]uint32) {
				r.inplace("copy_", state, start)
				r.e.SetRNGState(rng)
				for k := range 3 {
					a := args(10 * k)
					outs := run(a)
					all = append(all, r.bits(append(append(outs, a...), state)...)...)
				}
				return append(all, r.bits(r.do("rand_like", state))...)
			}
			want := call(func(a []T) []T { return r.alone(f, a...) })
			got := call(func(a []T) []T {
				outs, err := r.inline(captured, a...)
				require.Nil(t, err, "%v", err)
				return outs
			})
			assert.Equal(t, want, got, "%s", captured.Program)
		})
	}
}

func TestGradientsFlowThroughAnInlinedProgram(t *testing.T) {
	r := newRig(t)
	r.e.SetRNGState([4]uint64{7, 3})
	w := r.grad(r.floats([]int64{4, 3}, numbers(12, 5)...))
	f := func(x ...T) []T {
		y := r.do("matmul", r.do("dropout", x[0], 0.5, true), w)
		z := r.do("mul", y, r.do("expand", r.do("unsqueeze", r.do("select", w, 0, 1), 0), []int64{2, 3}))
		square := r.do("detach", r.do("mul", x[0], x[0]))
		return []T{r.do("add", r.do("sum", r.do("tanh", z)), r.do("sum", r.do("mul", x[0], square)))}
	}
	x := func() T { return r.grad(r.floats([]int64{2, 4}, numbers(8, 2)...)) }
	c, err := r.capture(f, x())
	require.Nil(t, err)
	rng := r.e.RNGState()
	run := func(call func(x T) T) [][]float32 {
		r.e.SetRNGState(rng)
		a := x()
		require.Nil(t, r.e.SetGrad(uint64(w), 0))
		loss := call(a)
		require.Nil(t, r.backward(loss, 0))
		return [][]float32{r.read(loss), r.gradOf(a), r.gradOf(w)}
	}
	want := run(func(a T) T { return f(a)[0] })
	got := run(func(a T) T {
		outs, err := r.inline(c, a)
		require.Nil(t, err)
		return outs[0]
	})
	assert.Equal(t, want[0], got[0])
	assert.InDeltaSlice(t, want[1], got[1], 1e-6, "what was detached passes no gradient")
	assert.InDeltaSlice(t, want[2], got[2], 1e-6, "what is captured gets its gradient")
	plain, err := r.inline(c, r.floats([]int64{2, 4}, numbers(8, 2)...))
	require.Nil(t, err)
	require.Nil(t, r.e.SetGrad(uint64(w), 0))
	require.Nil(t, r.backward(plain[0], 0))
	r.gradOf(w)
}

func TestAnArgumentThatIsAView(t *testing.T) {
	r := newRig(t)
	f := func(x ...T) []T {
		return []T{r.do("add", x[0], 1.0), r.do("mul", r.do("t", x[0]), 2.0), r.do("select", r.do("mul", x[0], 3.0), 0, 1)}
	}
	big := r.floats([]int64{4, 6}, numbers(24, 3)...)
	views := []T{
		r.do("t", r.do("as_strided", big, []int64{4, 2}, []int64{6, 2}, 1)),
		r.do("as_strided", big, []int64{2, 4}, []int64{4, 1}, 8),
		r.do("expand", r.do("as_strided", big, []int64{1, 4}, []int64{4, 1}, 2), []int64{2, 4}),
	}
	for i, v := range views {
		c, err := r.capture(f, r.do("clone", v))
		require.Nil(t, err)
		outs, err := r.inline(c, v)
		require.Nil(t, err)
		assert.Equal(t, r.bits(f(v)...), r.bits(outs...), "view %d", i)
	}
	// The write goes through the view.
	c, err := r.capture(func(x ...T) []T { r.inplace("mul", x[0], 2.0); return []T{x[0]} }, r.do("clone", views[0]))
	require.Nil(t, err)
	want := r.do("clone", big)
	r.inplace("mul", r.do("t", r.do("as_strided", want, []int64{4, 2}, []int64{6, 2}, 1)), 2.0)
	outs, err := r.inline(c, views[0])
	require.Nil(t, err)
	assert.Equal(t, r.bits(want), r.bits(big))
	r.inplace("add", outs[0], 1.0)
	r.inplace("add", r.do("t", r.do("as_strided", want, []int64{4, 2}, []int64{6, 2}, 1)), 1.0)
	assert.Equal(t, r.bits(want), r.bits(big), "the result is an alias of the argument")
	_, err = r.inline(c, views[2])
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "more than one element")
}

func TestWhatCannotBeCapturedOrCalledSaysWhy(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	refused := func(want string, f function, args ...T) {
		t.Helper()
		_, err := r.capture(f, args...)
		require.NotNil(t, err)
		assert.Contains(t, err.Msg, want)
		assert.Equal(t, []float32{1, 2}, r.read(x), "the session goes on")
	}
	y := r.floats(nil, 5)
	refused("a value was computed inside", func(a ...T) []T {
		r.read(r.do("add", y, 1.0))
		return a
	}, x)
	refused("seeded inside", func(a ...T) []T { r.e.Seed(3); return a }, x)
	var read *ir.Error
	c, err := r.capture(func(a ...T) []T {
		_, read = r.tryRead(r.do("add", a[0], 1.0))
		return []T{r.do("mul", a[0], 2.0)}
	}, x)
	require.NotNil(t, read)
	assert.Contains(t, read.Msg, "read while a function of it is captured")
	require.Nil(t, err, "the read did nothing")
	for want, args := range map[string][]T{
		"takes 1 arguments, got 2":            {x, x},
		"argument 0 of the captured function": {r.floats(nil, 1, 2, 3)},
		"want float32 of shape [2] on cpu":    {r.ints(1, 2)},
	} {
		_, err := r.inline(c, args...)
		require.NotNil(t, err)
		assert.Contains(t, err.Msg, want)
	}
	w := r.grad(r.floats(nil, 1, 2))
	c, err = r.capture(func(a ...T) []T { r.inplace("mul", a[0], 2.0); return a }, x)
	require.Nil(t, err)
	_, err = r.inline(c, r.do("mul", w, 1.0))
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "writes to a tensor with a history")
}

func TestCapturingLeavesNothingBehind(t *testing.T) {
	r := newRig(t)
	x, state := r.floats(nil, 1, 2), r.floats(nil, 3, 4)
	r.inplace("add", state, 1.0)
	live := func() [4]int64 {
		require.Nil(t, r.step())
		return [4]int64{r.stat("tape_nodes"), r.stat("live_bases"), r.stat("live_nodes"), r.stat("live_storages")}
	}
	before := live()
	c, err := r.capture(func(a ...T) []T {
		r.inplace("add", state, a[0])
		return []T{r.do("add", r.do("mul", a[0], state), r.do("rand_like", a[0]))}
	}, x)
	require.Nil(t, err)
	outs, err := r.inline(c, x)
	require.Nil(t, err)
	r.drop(outs...)
	r.e.session.Forget(c)
	assert.Equal(t, before, live())
	assert.Equal(t, []float32{5, 7}, r.read(state))
}

// Random functions of two arguments, a constant and a state.
func TestRandomFunctionsCapturedAndInlined(t *testing.T) {
	rnd := rand.New(rand.NewSource(4))
	for n := range 60 {
		r := newRig(t)
		// Epilogue fusion changes where a product is rounded, and depends on the contents of a window.
		r.e.planner.debug.Off = []string{"fuse_epilogue"}
		konst, state := r.floats([]int64{3, 3}, numbers(9, 1)...), r.floats([]int64{3, 3}, numbers(9, 2)...)
		r.inplace("add", state, 1.0)
		type call struct{ kind, a, b int }
		var calls []call
		for range 3 + rnd.Intn(10) {
			calls = append(calls, call{rnd.Intn(9), rnd.Intn(100), rnd.Intn(100)})
		}
		text := fmt.Sprint(calls)
		f := func(x ...T) []T {
			v := append([]T{konst, state}, x...)
			for _, c := range calls {
				a, b := v[c.a%len(v)], v[c.b%len(v)]
				switch c.kind {
				case 0, 1:
					v = append(v, r.do("add", a, b))
				case 2:
					v = append(v, r.do("matmul", a, r.do("t", b)))
				case 3:
					v = append(v, r.do("t", a))
				case 4:
					v = append(v, r.do("mul", r.do("rand_like", a), b))
				case 5:
					r.inplace("add", state, r.do("tanh", a))
				case 6:
					r.inplace("copy_", r.do("select", x[0], 1, c.b%3), r.do("select", a, 0, c.a%3))
				case 7:
					v = append(v, r.do("expand", r.do("unsqueeze", r.do("select", a, c.b%2, 1), 1), []int64{3, 3}))
				case 8:
					v = append(v, r.do("tanh", a))
				}
			}
			return v[len(v)-2:]
		}
		args := func(k int) []T {
			return []T{r.floats([]int64{3, 3}, numbers(9, k)...), r.floats([]int64{3, 3}, numbers(9, k+3)...)}
		}
		c, err := r.capture(f, args(0)...)
		require.Nil(t, err, "%d: %s: %v", n, text, err)
		start, rng := r.do("clone", state), r.e.RNGState()
		r.bits(start)
		run := func(call func(a ...T) []T) [][]uint32 {
			r.inplace("copy_", state, start)
			r.e.SetRNGState(rng)
			a := args(5)
			first := r.bits(append(append(call(a...), a...), state)...)
			b := args(8)
			return append(first, r.bits(append(append(call(b...), b...), state)...)...)
		}
		want := run(func(a ...T) []T { return r.alone(f, a...) })
		got := run(func(a ...T) []T {
			outs, err := r.inline(c, a...)
			require.Nil(t, err, "%s", text)
			return outs
		})
		require.Equal(t, want, got, "%s\n%s", text, c.Program)
	}
}

// A captured function that goes back to a state of its own draws the same numbers twice, others in each call.
func TestACapturedFunctionDrawsAgainFromAStateOfItsOwn(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	drop := func(a T) T { return r.do("dropout", a, 0.5, true) }
	id, err := r.captureFunction(func(a ...T) T {
		state := r.e.RNGState()
		first := drop(a[0])
		after := r.e.RNGState()
		r.e.SetRNGState(state)
		again := drop(a[0])
		r.e.SetRNGState(after)
		return r.do("add", r.do("sub", first, again), r.do("mul", drop(a[0]), 2.0))
	}, x)
	require.Nil(t, err)
	var calls [][]float32
	for range 2 {
		out, ok := r.callCaptured(id, x)
		require.True(t, ok)
		calls = append(calls, r.read(out))
	}
	for _, v := range calls[0] {
		assert.Contains(t, []float32{0, 4}, v)
	}
	assert.NotEqual(t, calls[0], calls[1])
	r.e.ForgetCaptured(id)

	older := r.e.RNGState()
	_, err = r.captureFunction(func(a ...T) T { r.e.SetRNGState(older); return drop(a[0]) }, x)
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "seeded inside")
}
