package lazy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// An in-place write moves the history of all aliases. A program with aliases and one without have equal gradients.
func TestGradientsThroughWritesAndViews(t *testing.T) {
	for _, tc := range []struct {
		name string
		loss func(r *rig, x uint64) uint64 // of the leaf (2, 3); its elements are summed
		want []float64
	}{
		{"a write to a result", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			r.mulIn(y, 3)
			return y
		}, []float64{6, 6}},
		{"a write to a view is in what it views", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			r.mulIn(r.slice(y, 0, 1), 5)
			return y
		}, []float64{10, 2}},
		{"a write to the whole is in its views", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			v := r.slice(y, 1, 2)
			r.mulIn(y, 5)
			return v
		}, []float64{0, 10}},
		{"two views, one written", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			a, b := r.slice(y, 0, 2), r.slice(y, 0, 1)
			r.mulIn(b, 7)
			return a
		}, []float64{14, 2}},
		{"a view of a view", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			r.mulIn(r.slice(r.slice(y, 0, 2), 1, 2), 7)
			return y
		}, []float64{2, 14}},
		{"what was read before keeps its gradient", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			before := r.mul(y, 1)
			r.mulIn(y, 3)
			return r.add(before, y)
		}, []float64{8, 8}},
		{"a value with a history written into a tensor without", func(r *rig, x uint64) uint64 {
			y := r.vector(0, 0)
			half := r.slice(x, 0, 1)
			require.Nil(r.t, r.write(r.slice(y, 1, 2), func(op.Val) op.Val { return r.resolve(half) }))
			return y
		}, []float64{1, 0}},
		{"a value without a history written over one", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			require.Nil(r.t, r.write(r.slice(y, 0, 1), func(op.Val) op.Val { return r.resolve(r.vector(9)) }))
			return y
		}, []float64{0, 2}},
		{"a write without a tape is no step", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			r.Taping(false)
			r.mulIn(y, 3)
			r.Taping(true)
			return r.mul(y, 1)
		}, []float64{2, 2}},
		{"a detached alias has a history of its own", func(r *rig, x uint64) uint64 {
			y := r.mul(x, 2)
			d := r.do(func(v ...op.Val) op.Val { return r.Detach(v[0]) }, y)
			h, _ := r.Handle(d)
			require.False(r.t, r.RequiresGrad(h))
			return r.add(y, d)
		}, []float64{2, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			x := r.leaf(2, 3)
			r.backward(tc.loss(r, x), false)
			require.Equal(t, tc.want, r.grad(x))
			var all []uint64
			r.EachHandle(func(hd uint64, h *Handle) {
				if h.Flags&FlagInternal == 0 {
					all = append(all, hd)
				}
			})
			r.settled(all...)
		})
	}
}

// sine returns the sine of a copy of the first n elements; nobody can write to the copy that it saves.
func sine(r *rig, n int64) func(v ...op.Val) op.Val {
	return func(v ...op.Val) op.Val {
		return r.computed(prim.Sin(r, r.computed(prim.Copy(r, prim.Slice(r, v[0], 0, 0, n, 1)))))
	}
}

// randomLoss runs a random program of views, products and in-place products on a leaf and returns its loss.
func randomLoss(r *rig, seed uint64, x uint64) uint64 {
	rnd := rand.New(rand.NewPCG(seed, 3))
	vals, size := []uint64{r.mul(x, 2)}, []int64{4}
	for range 14 {
		i := rnd.IntN(len(vals))
		switch rnd.IntN(4) {
		case 0:
			from := rnd.Int64N(size[i])
			to := from + 1 + rnd.Int64N(size[i]-from)
			vals, size = append(vals, r.slice(vals[i], from, to)), append(size, to-from)
		case 1:
			r.mulIn(vals[i], 0.5+rnd.Float64())
		case 2: // in place, by the value of another handle
			j := rnd.IntN(len(vals))
			y := r.do(sine(r, 1), vals[j])
			require.Nil(r.t, r.write(vals[i], func(v op.Val) op.Val {
				return prim.Mul(r, v, prim.Expand(r, r.resolve(y), v.Shape()))
			}))
		case 3:
			y := r.do(sine(r, size[i]), vals[i])
			vals, size = append(vals, y), append(size, size[i])
		}
	}
	loss := r.vector(0)
	for _, v := range vals {
		part := r.do(func(v ...op.Val) op.Val { return prim.Reshape(r, prim.Sum(r, v[0], []int64{0}), []int64{1}) }, v)
		loss = r.add(loss, part)
	}
	return loss
}

// The gradient of a random program with aliases and in-place writes equals its difference quotient.
func TestGradientsOfRandomProgramsWithAliases(t *testing.T) {
	for seed := range uint64(40) {
		at := []float64{0.3, -0.2, 0.5, 0.1}
		value := func(v []float64) float64 {
			r := newRig(t)
			r.Taping(false)
			return r.read(randomLoss(r, seed, r.vector(v...)))[0]
		}
		r := newRig(t)
		x := r.leaf(at...)
		loss := randomLoss(r, seed, x)
		require.InDelta(t, value(at), r.read(loss)[0], 1e-9*(1+value(at)), "taping changes no value")
		r.backward(loss, false)
		for i := range at {
			const h = 1e-6
			shifted := func(d float64) float64 {
				v := append([]float64(nil), at...)
				v[i] += d
				return value(v)
			}
			want := (shifted(h) - shifted(-h)) / (2 * h)
			require.InEpsilon(t, 1+want, 1+r.grad(x)[i], 1e-4, "seed %d, element %d", seed, i)
		}
	}
}

func TestGradSlots(t *testing.T) {
	r := newRig(t)
	x := r.leaf(2, 3)
	y := r.mul(x, 2)
	require.Nil(t, r.grad(x))
	r.backward(y, false)
	first, _ := r.Grad(x)
	require.Equal(t, []float64{2, 2}, r.grad(x))
	user := r.Dup(first)
	y2 := r.mul(x, 3)
	r.backward(y2, false)
	again, _ := r.Grad(x)
	require.Equal(t, first, again, "later gradients are added in place")
	require.Equal(t, []float64{5, 5}, r.read(user), "so that who holds the first one sees them")
	h, _ := r.Handle(again)
	require.Equal(t, GradState, r.Loc(r.Base(h.Base).Loc).Role)
	require.Equal(t, "grad_state", GradState.String())
	y3 := r.mul(x, 1)
	r.backward(y3, true)
	require.Equal(t, []float64{6, 6}, r.grad(x))
	require.Equal(t, []float64{5, 5}, r.read(user), "under create_graph a new one takes its place")

	wrong := r.tensor([]int64{1}, 1)
	half := r.do(func(v ...op.Val) op.Val { return r.computed(prim.Cast(r, v[0], ir.F32)) }, user)
	require.Contains(t, r.SetGrad(x, wrong).Msg, "assigned grad has data of a different size")
	require.Contains(t, r.SetGrad(x, half).Msg, "assigned grad has data of a different type")
	require.Nil(t, r.SetGrad(x, user))
	r.mulIn(user, 2)
	require.Equal(t, []float64{10, 10}, r.grad(x), "an alias of what was assigned")
	require.Nil(t, r.SetGrad(x, 0))
	require.Nil(t, r.grad(x))
	y4 := r.mul(x, 4)
	r.Release(x) // before the walk, so that nothing can read its gradient
	r.backward(y4, false)
	r.settled(y, y2, y3, y4, user, wrong, half)
}

func TestRequiresGrad(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 2)
	at := func(hd uint64) *Handle { h, err := r.Handle(hd); require.Nil(t, err); return h }
	y := r.mul(x, 2)
	require.Equal(t, []bool{true, true, true, false},
		[]bool{r.RequiresGrad(at(x)), r.IsLeaf(at(x)), r.RequiresGrad(at(y)), r.IsLeaf(at(y))})
	require.Contains(t, r.SetRequiresGrad(y, false).Msg, "you can only change requires_grad flags of leaf variables.")
	require.Nil(t, r.SetRequiresGrad(y, true))
	ints := r.do(func(v ...op.Val) op.Val { return r.computed(prim.Cast(r, v[0], ir.I64)) }, x)
	require.Contains(t, r.SetRequiresGrad(ints, true).Msg, "only Tensors of floating point")
	require.False(t, r.RequiresGrad(at(ints)))
	require.Contains(t, r.RetainGrad(ints).Msg, "can't retain_grad on Tensor that has requires_grad=False")
	require.Nil(t, r.RetainGrad(y))
	require.Nil(t, r.RetainGrad(y), "again")
	z := r.mul(y, 3)
	r.backward(z, false)
	require.Equal(t, []float64{3, 3}, r.grad(y))
	require.Equal(t, []float64{6, 6}, r.grad(x))
	again := r.mul(y, 5)
	r.backward(again, false)
	require.Equal(t, []float64{8, 8}, r.grad(y), "the grad of an earlier walk stays")
	r.mulIn(y, 2)
	written := r.mul(y, 7)
	r.backward(written, false)
	require.Equal(t, []float64{15, 15}, r.grad(y), "of what was written")
	require.Nil(t, r.SetRequiresGrad(x, false))
	require.False(t, r.RequiresGrad(at(x)))
	require.True(t, r.IsLeaf(at(x)))
	r.mulIn(x, 2)
	plain := r.mul(x, 1)
	require.False(t, r.RequiresGrad(at(plain)))
	r.settled(x, y, ints, z, again, written, plain)
}

// A hook dies with the handle if nothing else keeps the step of the hook.
func TestOwnsStep(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 2)
	y := r.mul(x, 2)
	edge := r.resolve(y).Tape
	require.True(t, r.OwnsStep(y, edge))
	require.False(t, r.OwnsStep(y, r.resolve(x).Tape))
	z := r.mul(y, 3)
	require.False(t, r.OwnsStep(y, edge), "a later step keeps it")
	r.Release(z)
	require.True(t, r.OwnsStep(y, edge))
	r.mulIn(y, 2)
	require.True(t, r.OwnsStep(y, edge), "a step before its in-place operation")
	r.Release(y)
	require.False(t, r.OwnsStep(y, edge), "a stale handle")
	r.settled(x)
}

// Writes to the saved result of an in-place step are detected like writes to any other saved value.
func TestSavedResultsOfWritesAreGuarded(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRig(t)
		x := r.leaf(1, 2)
		y := r.mul(x, 2)
		require.Nil(t, r.write(y, func(v op.Val) op.Val { return prim.Exp(r, v) }))
		if again {
			r.mulIn(y, 3)
		}
		root := r.resolve(y)
		cot := prim.Fill(r, op.FloatVal(1), ir.F64, ir.CPU, root.Shape())
		r.Taping(false)
		w := r.begin(root, cot, false)
		_, err := w.Next(op.Val{})
		w.Close()
		if again {
			require.ErrorContains(t, err, "which is output 0 of Exp, is at version 2; expected version 1")
		} else {
			require.NoError(t, err)
		}
		r.settled(x, y)
	}
}

// A write replaces a lone non-dense result: nobody can observe that its strides change.
func TestALoneResultIsReplaced(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 2, 3, 4)
	y := r.do(func(x ...op.Val) op.Val {
		square := prim.Reshape(r, x[0], []int64{2, 2})
		return r.computed(prim.Transpose(r, prim.Mul(r, square, op.FloatVal(2)), 0, 1))
	}, x)
	require.False(t, r.resolve(y).L().Dense)
	_, before := r.Commit(r.resolve(y).Base)
	r.mulIn(y, 3)
	v := r.resolve(y)
	require.True(t, v.L().Dense)
	_, after := r.Commit(v.Base)
	require.Equal(t, before+1, after, "its version goes on")
	require.Equal(t, []float64{6, 18, 12, 24}, r.read(y))
	r.backward(y, false)
	require.Equal(t, []float64{6, 6, 6, 6}, r.grad(x))
	var commits int
	for _, e := range r.log() {
		if e.Kind == Commit && e.Base == v.Base {
			commits++
		}
	}
	require.Equal(t, 1, commits, "the write is logged for the new base")
	r.Release(x)
	r.Release(y)
	require.Zero(t, r.bases())
}
