package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
)

// unrollAtMost makes loops of more steps repeat.
func unrollAtMost(t *testing.T, steps int64) {
	before := compile.MostUnrolled
	compile.MostUnrolled = steps
	t.Cleanup(func() { compile.MostUnrolled = before })
}

// TestALongLoopRepeatsItsKernels: a loop of more steps than are unrolled has the values and the gradients of the CPU,
// for carries and xs that are views, both directions, and numbers of iterations that fill runs and that do not.
func TestALongLoopRepeatsItsKernels(t *testing.T) {
	unrollAtMost(t, 16)
	for _, c := range []LoopCall{{Length: 1}, {Length: 2}, {Length: 9}, {Length: 12, Reverse: true},
		{Length: 17, Reverse: true}, {Length: 22}} {
		var got [2][][]float32
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			w, init := r.grad(put(dev, []int64{2}, 1, 0.5)), r.grad(put(dev, []int64{2, 2}, 9, 9, 1, 3))
			numbers := make([]float32, 60)
			for i := range numbers {
				numbers[i] = float32(i % 7)
			}
			all := r.grad(put(dev, []int64{30, 2}, numbers...))
			from, xs := r.do("select", init, 0, 1), r.do("narrow", all, 0, 1, int(c.Length))
			outs, err := r.loop(r.reversing(w), c, []T{from}, []T{from}, []T{xs})
			require.Nil(t, err)
			r.repeats(dev)
			for _, o := range outs {
				got[dev] = append(got[dev], r.read(o))
			}
			loss := r.do("add", r.do("sum", r.do("mul", outs[0], outs[0])), r.do("sum", r.do("mul", outs[2], outs[2])))
			require.Nil(t, r.backward(loss, 0))
			r.repeats(dev)
			for _, x := range []T{w, init, all} {
				got[dev] = append(got[dev], r.gradOf(x))
			}
		}
		assert.Equal(t, got[0], got[1], c)
	}
}

// Each iteration of a long loop draws the numbers of its place, and so do the operators behind the loop.
func TestLongLoopsDrawAsPlacesDo(t *testing.T) {
	unrollAtMost(t, 8)
	var got [2][][]float32
	for dev := range ir.DeviceID(2) {
		r, put := twoDevices(t)
		x := put(dev, []int64{3}, 1, 2, 3)
		for _, reverse := range []bool{false, true} {
			outs, err := r.loop(func(x []T) []T { return []T{r.do("add", x[0], r.do("rand_like", x[0])), x[0]} },
				LoopCall{Length: 21, Reverse: reverse}, []T{x}, nil, nil)
			require.Nil(t, err)
			r.repeats(dev)
			got[dev] = append(got[dev], r.read(outs[0]), r.read(outs[1]))
		}
		got[dev] = append(got[dev], r.read(r.do("rand_like", x)))
	}
	assert.Equal(t, got[0], got[1])
}

// Long loops nest: what the inner one reads, stacks and draws depends on the places of both.
func TestLongLoopsNest(t *testing.T) {
	unrollAtMost(t, 64)
	for _, length := range []int64{2, 13} { // of the outer loop
		for _, reverse := range []bool{false, true} {
			var got [2][][]float32
			for dev := range ir.DeviceID(2) {
				r, put := twoDevices(t)
				numbers := make([]float32, length*9*2)
				for i := range numbers {
					numbers[i] = float32(i%5) * 0.25
				}
				xs, w := put(dev, []int64{length, 9, 2}, numbers...), put(dev, []int64{9, 2}, numbers[:18]...)
				x := put(dev, []int64{2}, 1, 2)
				outs, err := r.loop(func(c []T) []T {
					first := r.do("select", c[1], 0, 0)
					inner, err := r.loop(func(c []T) []T {
						next := r.do("mul", r.do("add", r.do("flip", c[0], []int64{0}), r.do("mul", c[1], c[2])), 0.5)
						next = r.do("add", next, r.do("select", w, 0, 1))
						return []T{r.do("add", next, r.do("rand_like", c[0])), r.do("neg", c[0])}
					}, LoopCall{Length: 9, Reverse: reverse}, []T{c[0]}, []T{first, first}, []T{c[1], w})
					require.Nil(t, err)
					return []T{r.do("roll", inner[0], 1, 0), inner[1]}
				}, LoopCall{Length: length, Reverse: !reverse}, []T{x}, []T{r.do("select", xs, 0, 0)}, []T{xs})
				require.Nil(t, err)
				r.repeats(dev)
				got[dev] = [][]float32{r.read(outs[0]), r.read(outs[1]), r.read(r.do("rand_like", x))}
			}
			assert.Equal(t, got[0], got[1], "%d iterations, inner in reverse: %v", length, reverse)
		}
	}
}

// An index out of bounds in a long loop has the text of the CPU's loop. The next run of the plan is none the worse.
func TestADataErrorInALongLoopNamesItsKernel(t *testing.T) {
	unrollAtMost(t, 8)
	var texts [2]string
	for dev := range ir.DeviceID(2) {
		r, put := twoDevices(t)
		for _, at := range []int{2, 7} {
			x, rows := put(dev, []int64{3}, 1, 2, 3), make([]float32, 20*8)
			rows[13*8+at] = 1
			index := r.do("argmax", put(dev, []int64{20, 8}, rows...), 1, true)
			outs, err := r.loop(func(c []T) []T {
				return []T{r.do("add", r.do("sin", c[0]), r.do("index_select", r.do("cos", c[0]), 0, c[1]))}
			}, LoopCall{Length: 20}, []T{x}, []T{r.do("select", index, 0, 0)}, []T{index})
			require.Nil(t, err)
			r.repeats(dev)
			_, err = r.tryRead(outs[0])
			if at < 3 {
				require.Nil(t, err)
				continue
			}
			require.NotNil(t, err)
			assert.Equal(t, ir.ErrIndex, err.Code)
			texts[dev] = err.Msg
		}
	}
	assert.Equal(t, texts[0], texts[1])
	assert.Contains(t, texts[1], "index 7 is out of bounds")
}

// A long loop that stops at a poll goes on there when the value is read again.
func TestALongLoopGoesOnAfterAStop(t *testing.T) {
	unrollAtMost(t, 8)
	sameAfterAnyStop(t, func(r *rig, put putter) T {
		xs := put(1, []int64{12}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
		outs, err := r.loop(func(c []T) []T {
			return []T{r.do("add", r.do("mul", r.do("flip", c[0], []int64{0}), c[1]), r.do("rand_like", c[0]))}
		}, LoopCall{Length: 12}, []T{put(1, []int64{2}, 2, 1)}, []T{r.do("select", xs, 0, 0)}, []T{xs})
		require.Nil(t, err)
		r.repeats(1)
		return outs[0]
	})
}

// sameAfterAnyStop requires that a value of a loop is the same wherever its run stops; the next read goes on.
func sameAfterAnyStop(t *testing.T, record func(r *rig, put putter) T) {
	t.Helper()
	run := func(polls int32) (got []float32, stops int) {
		r, put := twoDevices(t)
		j := &trip{rig: r}
		value := record(r, put)
		if polls > 0 {
			r.e.askAt(polls)
		}
		j.again(func() (err *ir.Error) {
			got, err = r.tryRead(value)
			return err
		})
		r.e.waiter.jobs.end(&job{stopping: true})
		return got, j.stops
	}
	want, _ := run(0)
	for n, stops := int32(1), 1; stops > 0; n++ {
		var got []float32
		got, stops = run(n)
		assert.Equal(t, want, got, "stopped at poll %d", n)
		require.Less(t, n, int32(300))
	}
}

// A plan has as many kernels for a loop of any length beyond some, and results are written once, at their places.
func TestALongLoopHasAsManyKernelsForAnyLength(t *testing.T) {
	unrollAtMost(t, 64)
	var kernels []int64
	for _, length := range []int64{65, 129, 1025} {
		r, put := twoDevices(t)
		xs := r.do("select", r.do("expand", put(1, []int64{1, 1, 2}, 1, 2), []int64{1, length, 2}), 0, 0)
		xs = r.do("clone", xs)
		r.read(xs)
		outs, err := r.loop(func(c []T) []T { return []T{r.do("add", r.do("flip", c[0], []int64{0}), c[1]), c[0]} },
			LoopCall{Length: length}, []T{put(1, []int64{2}, 0, 0)}, []T{r.do("select", xs, 0, 0)}, []T{xs})
		require.Nil(t, err)
		r.repeats(1)
		ys := r.read(outs[1])
		assert.Equal(t, []float32{1, 2, 3, 3}, ys[2:6])
		log := info[[]windowRun](r, "windows")
		last := log[len(log)-1]
		kernels = append(kernels, last.Kernels)
		assert.Less(t, last.Written, 4*8*length, "bytes")
	}
	assert.Equal(t, kernels[0], kernels[1])
	assert.Equal(t, kernels[0], kernels[2])
}
