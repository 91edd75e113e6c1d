package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// until runs a body while the carry of number 1 is below most. from are the carries behind it.
func (r *rig) until(most T, length int64, from []T, body func(x []T) []T) ([]T, *ir.Error) {
	n := r.do("mul", most, 0.0)
	outs, err := r.loop(func(x []T) []T {
		n := r.do("add", x[1], 1.0)
		return append([]T{r.do("lt", n, most), n}, body(x[1:])...)
	}, LoopCall{Length: length, While: true}, append([]T{r.do("lt", n, most), n}, from...), nil, nil)
	if err != nil {
		return nil, err
	}
	return outs[1:], nil
}

// repeats requires that the loop recorded last runs on the device of its operands, on path C on a device other than the
// CPU.
func (r *rig) repeats(dev ir.DeviceID) {
	path, on, reason := r.path()
	assert.Equal(r.t, ir.DeviceName(dev), on, reason)
	if dev != ir.CPU {
		assert.Equal(r.t, "C", path, reason)
	}
}

// TestADeviceRunsItsKernelsUntilAConditionIsFalse: a loop that no kernel holds has the carries of the CPU, for as many
// iterations as one run of its kernels has and for others; what is recorded behind it reads them.
func TestADeviceRunsItsKernelsUntilAConditionIsFalse(t *testing.T) {
	for _, most := range []float32{0, 1, 15, 16, 17, 40} {
		for _, length := range []int64{1 << 62, 24, 7} {
			var got [2][][]float32
			for dev := range ir.DeviceID(2) {
				r, put := twoDevices(t)
				x := r.do("select", put(dev, []int64{2, 3}, 9, 9, 9, 3, 1, 2), 0, 1)
				outs, err := r.until(put(dev, []int64{}, most), length, []T{x, x}, func(c []T) []T {
					sorted, err := r.call(0, "sort", c[1], -1, true)
					require.Nil(t, err)
					moved := r.do("add", sorted[0], r.do("mul", c[1], c[0]))
					return []T{r.do("mul", moved, 0.25), r.do("neg", c[1])}
				})
				require.Nil(t, err)
				r.repeats(dev)
				for _, o := range append(outs, r.do("add", outs[1], outs[2])) {
					got[dev] = append(got[dev], r.read(o))
				}
			}
			assert.Equal(t, got[0], got[1], "%v iterations, at most %d", most, length)
		}
	}
}

// An index that the iteration after the last one would have is not looked at. One that an iteration has is an error
// with the CPU's text, and ends the loop.
func TestADeviceChecksTheDataOfIterationsThatRun(t *testing.T) {
	for _, most := range []float32{3, 6} {
		var got [2][]float32
		var texts [2]string
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			if dev == 1 && most > 3 {
				most = 1e9
			}
			x, places := put(dev, []int64{3}, 5, 7, 11), put(dev, []int64{5}, 0, 1, 2, 3, 4)
			outs, err := r.until(put(dev, []int64{}, most), 1<<62, []T{put(dev, []int64{1}, 0)}, func(c []T) []T {
				at := r.do("sum", r.do("lt", places, c[0]), []int64{0}, true)
				return []T{r.do("add", r.do("mul", c[1], 10.0), r.do("index_select", x, 0, at))}
			})
			require.Nil(t, err)
			r.repeats(dev)
			list, err := r.tryRead(outs[1])
			if err != nil {
				texts[dev] = fmt.Sprint(err.Code, err.Msg)
			}
			got[dev] = list
		}
		require.Equal(t, texts[0], texts[1])
		if most == 3 {
			assert.Equal(t, got[0], got[1])
			assert.Equal(t, []float32{5*100 + 7*10 + 11}, got[1])
		} else {
			assert.Contains(t, texts[1], "index 3 is out of bounds")
		}
	}
}

// A branch that checks data runs where it is taken.
func TestADeviceRunsABranchThatChecksDataWhereItIsTaken(t *testing.T) {
	for _, flag := range []float32{0, 1} {
		r, put := twoDevices(t)
		x, index := put(1, []int64{3}, 4, 0, 1), r.do("argmax", put(1, []int64{8, 1}, 0, 0, 0, 0, 0, 0, 0, 1), 0)
		outs, err := r.loop(func(c []T) []T {
			return []T{r.do("logical_not", c[0]), r.do("index_select", r.do("sin", x), 0, index)}
		}, LoopCall{Length: 1, While: true}, []T{r.do("gt", put(1, []int64{}, flag), 0.5), put(1, []int64{1}, 2)}, nil, nil)
		require.Nil(t, err)
		r.repeats(1)
		list, err := r.tryRead(outs[1])
		if flag == 0 {
			require.Nil(t, err)
			assert.Equal(t, []float32{2}, list)
			continue
		}
		require.NotNil(t, err)
		assert.Contains(t, err.Msg, "index 7 is out of bounds")
	}
}

// Each iteration draws the numbers of its place, and so do the operators behind the loop.
func TestIterationsThatRepeatDrawAsPlacesDo(t *testing.T) {
	var got [2][][]float32
	for dev := range ir.DeviceID(2) {
		r, put := twoDevices(t)
		x := put(dev, []int64{3}, 1, 2, 3)
		for _, most := range []float32{5, 40} {
			outs, err := r.until(put(dev, []int64{}, most), 1<<62, []T{x}, func(c []T) []T {
				sorted, err := r.call(0, "sort", c[1], -1, false)
				require.Nil(t, err)
				return []T{r.do("add", sorted[0], r.do("rand_like", c[1]))}
			})
			require.Nil(t, err)
			r.repeats(dev)
			got[dev] = append(got[dev], r.read(outs[1]))
		}
		got[dev] = append(got[dev], r.read(r.do("rand_like", x)))
	}
	assert.Equal(t, got[0], got[1])
}

// A loop without end in a branch that is not taken, or in an iteration after the last one, does not run.
func TestALoopWithoutEndRunsOnlyWhereItIsReached(t *testing.T) {
	watch := time.AfterFunc(30*time.Second, func() { panic("a loop that is not reached runs") })
	defer watch.Stop()
	// endless halves x until it is 1. It does not end if that never happens, and is of one kernel, or of several.
	endless := func(r *rig, x T, sorts bool) T {
		goes := func(x T) T { return r.do("any", r.do("ne", x, 1.0)) }
		outs, err := r.loop(func(c []T) []T {
			next := r.do("mul", c[1], 0.5)
			if sorts {
				sorted, err := r.call(0, "sort", next, -1, false)
				require.Nil(t, err)
				next = sorted[0]
			}
			return []T{goes(next), next}
		}, LoopCall{Length: 1 << 40, While: true}, []T{goes(x), x}, nil, nil)
		require.Nil(t, err)
		return outs[1]
	}
	for _, sorts := range []bool{false, true} {
		r, put := twoDevices(t)
		three := put(1, []int64{1}, 3)
		outs, err := r.loop(func(c []T) []T {
			return []T{r.do("logical_not", c[0]), endless(r, three, sorts)}
		}, LoopCall{Length: 1, While: true}, []T{r.do("gt", put(1, []int64{}, 0), 0.5), three}, nil, nil)
		require.Nil(t, err)
		r.repeats(1)
		assert.Equal(t, []float32{3}, r.read(outs[1]))

		// The iteration after the last one would halve 0.
		outs, err = r.until(put(1, []int64{}, 3), 1<<40, []T{put(1, []int64{1}, 8)}, func(c []T) []T {
			first := r.do("lt", c[0], 2.0)
			ended := endless(r, c[1], sorts)
			return []T{r.do("where", first, r.do("mul", ended, 4.0), r.do("mul", ended, 0.0))}
		})
		require.Nil(t, err)
		r.repeats(1)
		assert.Equal(t, []float32{0}, r.read(outs[1]))
	}
}

// Loops that a condition ends nest, also in loops of a known length and in branches; they draw their own numbers.
func TestRepeatsNest(t *testing.T) {
	outer := map[string]func(r *rig, x, most T, body func(x, n T) T) ([]T, *ir.Error){
		"until": func(r *rig, x, most T, body func(x, n T) T) ([]T, *ir.Error) {
			return r.until(most, 1<<62, []T{x}, func(c []T) []T { return []T{body(c[1], c[0])} })
		},
		"times": func(r *rig, x, most T, body func(x, n T) T) ([]T, *ir.Error) {
			return r.loop(func(c []T) []T {
				return []T{r.do("add", c[0], 1.0), body(c[1], c[0])}
			}, LoopCall{Length: 3}, []T{r.do("mul", most, 0.0), x}, nil, nil)
		},
		"branch": func(r *rig, x, most T, body func(x, n T) T) ([]T, *ir.Error) {
			outs, err := r.loop(func(c []T) []T {
				return []T{r.do("logical_not", c[0]), c[1], body(c[2], c[1])}
			}, LoopCall{Length: 1, While: true}, []T{r.do("gt", most, 0.0), most, x}, nil, nil)
			return outs[1:], err
		},
	}
	for name, run := range outer {
		var got [2][][]float32
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			outs, err := run(r, put(dev, []int64{3}, 1, 2, 3), put(dev, []int64{}, 3), func(x, n T) T {
				outs, err := r.until(r.do("add", n, 1.0), 1<<62, []T{x}, func(c []T) []T {
					moved := r.do("mul", r.do("flip", c[1], []int64{0}), 0.5)
					if name != "until" { // as many iterations of as many draws each are too many
						moved = r.do("add", moved, r.do("rand_like", c[1]))
					}
					return []T{moved}
				})
				require.Nil(t, err)
				return r.do("add", r.do("roll", outs[1], 1, 0), r.do("rand_like", x))
			})
			require.Nil(t, err)
			r.repeats(dev)
			got[dev] = [][]float32{r.read(outs[0]), r.read(outs[1])}
		}
		assert.Equal(t, got[0], got[1], name)
	}
}

// Draws in a loop that only a condition ends, in another one, are refused: each takes the numbers of 2^40 iterations.
func TestDrawsOfALoopWithoutBoundInAnotherAreRefused(t *testing.T) {
	for dev := range ir.DeviceID(2) {
		r, put := twoDevices(t)
		most := put(dev, []int64{}, 3)
		_, err := r.until(most, 1<<62, []T{put(dev, []int64{2}, 1, 2)}, func(c []T) []T {
			outs, err := r.until(most, 1<<62, c[1:], func(c []T) []T {
				return []T{r.do("add", c[1], r.do("rand_like", c[1]))}
			})
			require.Nil(t, err)
			return outs[1:]
		})
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrNotImplemented, err.Code)
		assert.Contains(t, err.Msg, "takes those of 2^40 iterations; bound it by a number, or draw outside of it")
	}
}

// An index out of bounds in a loop in a loop has the text of the operator that refuses it, on the CPU and on a device.
func TestAFaultInANestedLoopNamesItsOperator(t *testing.T) {
	for _, length := range []int64{2, 1 << 62} { // of the inner loop
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			x, at := put(dev, []int64{3}, 1, 2, 3), r.do("argmax", put(dev, []int64{4, 1}, 0, 0, 0, 1), 0)
			fine := r.do("argmax", put(dev, []int64{2, 1}, 0, 1), 0)
			first := r.do("gt", r.do("sum", x), 0.0)
			outs, err := r.loop(func(c []T) []T {
				before := r.do("add", c[0], r.do("index_select", c[0], 0, fine))
				inner, err := r.loop(func(c []T) []T {
					good := r.do("index_select", r.do("reshape", r.do("sin", c[1]), []int64{1, 3}), 1, fine)
					bad := r.do("index_select", r.do("reshape", c[1], []int64{1, 3}), 1, at)
					return []T{r.do("logical_not", c[0]), r.do("add", c[1], r.do("reshape", r.do("add", good, bad), []int64{1}))}
				}, LoopCall{Length: length, While: length > 2}, []T{first, before}, nil, nil)
				require.Nil(t, err)
				return []T{r.do("cos", inner[1])}
			}, LoopCall{Length: 2}, []T{x}, nil, nil)
			require.Nil(t, err)
			_, on, reason := r.path()
			assert.Equal(t, ir.DeviceName(dev), on, reason)
			_, err = r.tryRead(outs[0])
			require.NotNil(t, err)
			assert.Equal(t, "in a loop: index 3 is out of bounds for dimension 1 with size 3", err.Msg)
		}
	}
}

// A run that stops at a poll, also while it waits for the condition, goes on there when the value is read again.
func TestARepeatGoesOnAfterAStop(t *testing.T) {
	polls := 0
	for n := int32(1); n == 1 || polls > 0; n++ {
		r, put := twoDevices(t)
		j := &trip{rig: r}
		outs, err := r.until(put(1, []int64{}, 3), 1<<62, []T{put(1, []int64{2}, 2, 1)}, func(c []T) []T {
			return []T{r.do("add", r.do("flip", c[1], []int64{0}), r.do("rand_like", c[1]))}
		})
		require.Nil(t, err)
		r.e.askAt(n)
		var got []float32
		j.again(func() (err *ir.Error) {
			got, err = r.tryRead(outs[1])
			return err
		})
		r.e.waiter.jobs.end(&job{stopping: true})
		polls = j.stops
		plain, put := twoDevices(t)
		outs, err = plain.until(put(1, []int64{}, 3), 1<<62, []T{put(1, []int64{2}, 2, 1)}, func(c []T) []T {
			return []T{plain.do("add", plain.do("flip", c[1], []int64{0}), plain.do("rand_like", c[1]))}
		})
		require.Nil(t, err)
		assert.Equal(t, plain.read(outs[1]), got, "stopped at poll %d", n)
		require.Less(t, n, int32(300))
	}
}
