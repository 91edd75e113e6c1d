package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// dispatchAtMost makes loops whose lanes have more work than this several dispatches.
func dispatchAtMost(t *testing.T, work int64) {
	before := compile.DispatchWork
	compile.DispatchWork = work
	t.Cleanup(func() { compile.DispatchWork = before })
}

// inRegisters requires that the loop recorded last runs on a device in registers; on the CPU it may run otherwise.
func (r *rig) inRegisters(dev ir.DeviceID) {
	path, on, reason := r.path()
	assert.Equal(r.t, ir.DeviceName(dev), on, reason)
	if dev != ir.CPU {
		assert.Equal(r.t, []string{"A", ""}, []string{path, reason})
	}
}

// TestALoopInRegistersThatIsTooLongForADispatchIsSeveral: it has the values and the gradients of the CPU, for carries
// and xs that are views, a carry that all lanes share, both directions, and numbers of iterations that fill the
// dispatches and that do not. Work of 200 is 18 iterations of the loop in one dispatch, and 2 in one that repeats.
func TestALoopInRegistersThatIsTooLongForADispatchIsSeveral(t *testing.T) {
	dispatchAtMost(t, 200)
	for _, c := range []LoopCall{{Length: 5}, {Length: 19}, {Length: 20, Reverse: true}, {Length: 21},
		{Length: 43, Reverse: true}, {Length: 64}} {
		var got [2][][]float32
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			w, init := r.grad(put(dev, []int64{2}, 1, 0.5)), r.grad(put(dev, []int64{2, 2}, 9, 9, 1, 3))
			numbers := make([]float32, 140)
			for i := range numbers {
				numbers[i] = float32(i%7) * 0.25
			}
			all := r.grad(put(dev, []int64{70, 2}, numbers...))
			from, xs := r.do("select", init, 0, 1), r.do("narrow", all, 0, 1, int(c.Length))
			outs, err := r.loop(func(c []T) []T {
				next := r.do("add", r.do("mul", r.do("add", c[0], c[1]), w), c[2])
				return []T{next, r.do("mul", c[1], 0.5), c[0], r.do("mul", next, c[2])}
			}, c, []T{from, put(dev, []int64{}, 8)}, []T{from}, []T{xs})
			require.Nil(t, err)
			r.inRegisters(dev)
			for _, o := range outs {
				got[dev] = append(got[dev], r.read(o))
			}
			loss := r.do("add", r.do("sum", outs[0]), r.do("sum", r.do("mul", outs[2], outs[3])))
			require.Nil(t, r.backward(loss, 0))
			r.inRegisters(dev)
			for _, x := range []T{w, init, all} {
				got[dev] = append(got[dev], r.gradOf(x))
			}
		}
		require.Equal(t, len(got[0]), len(got[1]))
		for i := range got[0] {
			assert.InDeltaSlice(t, got[0][i], got[1][i], 1e-4, "value %d of %v", i, c)
		}
	}
}

// A loop of carries alone is several dispatches, too. Lanes that do not run side by side take turns, so loops with many
// of them have fewer iterations in a dispatch. So have loops on a device that ends loops in kernels.
func TestDispatchesHaveAsManyIterationsAsADeviceRuns(t *testing.T) {
	dispatchAtMost(t, 1<<10)
	for _, c := range []struct{ lanes, most, kernels int64 }{{3, 0, 1}, {1 << 15, 0, 3}, {3, 150, 1}, {3, 149, 3}} {
		r, put := twoDevices(t)
		r.e.devices.caps(1).MaxIterations = c.most
		x := r.do("clone", r.do("expand", put(1, []int64{1}, 8), []int64{c.lanes}))
		r.read(x)
		outs, err := r.loop(func(c []T) []T { return []T{r.do("add", r.do("mul", c[0], 0.5), 1.0)} },
			LoopCall{Length: 150}, []T{x}, nil, nil)
		require.Nil(t, err)
		r.inRegisters(1)
		assert.Equal(t, float32(2), r.read(outs[0])[c.lanes-1])
		log := info[[]windowRun](r, "windows")
		assert.Equal(t, c.kernels, log[len(log)-1].Kernels, c)
	}
}

// Such loops nest in loops of kernels that are unrolled and that repeat: the places of the inner one move with both.
func TestLoopsOfSeveralDispatchesNest(t *testing.T) {
	dispatchAtMost(t, 128)
	unrollAtMost(t, 64)
	for _, length := range []int64{3, 13} { // of the outer loop
		for _, reverse := range []bool{false, true} {
			var got [2][][]float32
			for dev := range ir.DeviceID(2) {
				r, put := twoDevices(t)
				numbers := make([]float32, length*40*2)
				for i := range numbers {
					numbers[i] = float32(i%5) * 0.25
				}
				xs := put(dev, []int64{length, 40, 2}, numbers...)
				outs, err := r.loop(func(c []T) []T {
					first := r.do("select", c[1], 0, 0)
					inner, err := r.loop(func(c []T) []T {
						return []T{r.do("add", r.do("mul", c[0], 0.5), c[1]), r.do("sub", c[0], c[1])}
					}, LoopCall{Length: 40, Reverse: reverse}, []T{c[0]}, []T{first}, []T{c[1]})
					require.Nil(t, err)
					return []T{r.do("add", r.do("flip", inner[0], []int64{0}), r.do("rand_like", first)), inner[1]}
				}, LoopCall{Length: length, Reverse: !reverse}, []T{put(dev, []int64{2}, 1, 2)},
					[]T{r.do("select", xs, 0, 0)}, []T{xs})
				require.Nil(t, err)
				r.repeats(dev)
				got[dev] = [][]float32{r.read(outs[0]), r.read(outs[1])}
			}
			assert.Equal(t, got[0], got[1], "%d iterations, inner in reverse: %v", length, reverse)
		}
	}
}

// A loop of several dispatches that stops at a poll goes on there when the value is read again.
func TestALoopOfSeveralDispatchesGoesOnAfterAStop(t *testing.T) {
	dispatchAtMost(t, 64)
	sameAfterAnyStop(t, func(r *rig, put putter) T {
		numbers := make([]float32, 60)
		for i := range numbers {
			numbers[i] = float32(i)
		}
		xs := put(1, []int64{30, 2}, numbers...)
		outs, err := r.loop(func(c []T) []T { return []T{r.do("add", r.do("mul", c[0], 0.75), c[1]), c[0]} },
			LoopCall{Length: 30, Reverse: true}, []T{put(1, []int64{2}, 2, 1)}, []T{r.do("select", xs, 0, 0)}, []T{xs})
		require.Nil(t, err)
		r.inRegisters(1)
		return outs[1]
	})
}

// A device that ends loops counts those in an iteration of a loop in a workgroup, too: a loop that would have too many
// is kernels, and one that a condition ends takes more dispatches.
func TestALoopInAWorkgroupCountsTheLoopsInIt(t *testing.T) {
	for _, c := range []struct {
		inside int64 // iterations of an iteration's loops
		path   string
	}{{1, "B"}, {30, "B"}, {31, "C"}} {
		for _, while := range []bool{false, true} {
			r, put := twoDevices(t)
			caps := r.e.devices.caps(1)
			caps.MaxWorkgroupBytes, caps.MaxIterations = 16<<10, 311
			caps.Iterations = func(o launch.Op, params []uint64) int64 {
				assert.IsType(t, &launch.GroupLoop{}, o)
				return int64(params[launch.GroupLength])*(1+c.inside) + 1
			}
			x := put(1, []int64{2, 2}, 0.5, 0.25, -0.5, 0.75)
			n, end := put(1, []int64{}, 0), put(1, []int64{}, 10)
			body := func(x []T) []T {
				n := r.do("add", x[1], 1.0)
				return []T{r.do("lt", n, end), n, r.do("matmul", r.do("flip", x[2], []int64{0}), r.do("t", x[2]))}
			}
			call := LoopCall{Length: 10, While: while}
			if while {
				call.Length = 1 << 40
			}
			outs, err := r.loop(body, call, []T{r.do("lt", n, end), n, x}, nil, nil)
			require.Nil(t, err)
			path, _, reason := r.path()
			if while {
				assert.Equal(t, "B", path, reason)
			} else {
				assert.Equal(t, c.path, path, reason)
			}
			assert.Equal(t, []float32{10}, r.read(outs[1]))
			log := info[[]windowRun](r, "windows")
			if while {
				assert.Greater(t, log[len(log)-1].Kernels, int64(2))
			}
		}
	}
}
