package engine

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// putter puts numbers on a device.
type putter = func(dev ir.DeviceID, shape []int64, v ...float32) T

// twoDevices is an engine with interpreters as the CPU and as another device. put makes a float32 tensor on a device.
func twoDevices(t *testing.T) (r *rig, put putter) {
	r = newRig(t)
	other := reference.New()
	r.e = New(Config{Open: func(id ir.DeviceID) (device.Device, error) {
		if id != ir.CPU {
			return other, nil
		}
		return r.dev, nil
	}})
	return r, func(dev ir.DeviceID, shape []int64, v ...float32) T {
		var o Out
		b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
		require.Nil(t, r.e.FromData(ir.F32, dev, shape, b, false, 0, &o))
		return T(o.Handle)
	}
}

// path is where the loop recorded last runs, and how.
func (r *rig) path() (path, dev, reason string) {
	list := r.e.loops.paths(r.e.devices.caps)
	last := list[len(list)-1]
	return last.Path, last.Device, last.Reason
}

// reversing are carries of two elements, which change their order, are multiplied by w and added to a place of xs; ys
// are the old carries and their sums.
func (r *rig) reversing(w T) func(x []T) []T {
	return func(x []T) []T {
		next := r.do("add", r.do("mul", r.do("flip", x[0], []int64{0}), w), x[1])
		return []T{next, x[0], r.do("sum", next)}
	}
}

// TestIterationsOnADeviceAreStepsOfThePlan: a loop with no form for one dispatch has the values and the gradients of
// the CPU on another device, for carries and xs that are views, both directions, and one iteration.
func TestIterationsOnADeviceAreStepsOfThePlan(t *testing.T) {
	for _, c := range []LoopCall{{Length: 3}, {Length: 3, Reverse: true}, {Length: 4}, {Length: 1}} {
		var got [2][][]float32
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			w, init := r.grad(put(dev, []int64{2}, 2, 0.5)), r.grad(put(dev, []int64{2, 2}, 9, 9, 1, 3))
			all := r.grad(put(dev, []int64{6, 2}, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
			from, xs := r.do("select", init, 0, 1), r.do("narrow", all, 0, 1, int(c.Length))
			outs, err := r.loop(r.reversing(w), c, []T{from}, []T{from}, []T{xs})
			require.Nil(t, err)
			path, at, reason := r.path()
			assert.Equal(t, "C", path)
			assert.Equal(t, ir.DeviceName(dev), at)
			assert.Contains(t, reason, "the body checks data, such as indices")
			for _, o := range outs {
				got[dev] = append(got[dev], r.read(o))
			}
			loss := r.do("add", r.do("sum", r.do("mul", outs[0], outs[0])), r.do("sum", r.do("mul", outs[2], outs[2])))
			require.Nil(t, r.backward(loss, 0))
			path, at, _ = r.path()
			assert.Equal(t, ir.DeviceName(dev), at, path)
			for _, x := range []T{w, init, all} {
				got[dev] = append(got[dev], r.gradOf(x))
			}
		}
		assert.Equal(t, got[0], got[1])
	}
}

// TestAWorkgroupHoldsLoopsOfProducts: a loop of products whose carries fit the memory of a workgroup is one launch on
// another device, with the values and the gradients of the CPU, for several carries, both directions, and results that
// are stacked.
func TestAWorkgroupHoldsLoopsOfProducts(t *testing.T) {
	const n, length = 12, 8
	filled := func(count int, scale float32) []float32 {
		list := make([]float32, count)
		for i := range list {
			list[i] = scale * float32((7*i+3)%11-5)
		}
		return list
	}
	for _, reverse := range []bool{false, true} {
		var got [2][][]float32
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			r.e.devices.caps(1).MaxWorkgroupBytes = 16 << 10
			w := r.grad(put(dev, []int64{n, n}, filled(n*n, 0.03)...))
			init := r.grad(put(dev, []int64{n, n}, filled(n*n, 0.1)...))
			xs := r.grad(put(dev, []int64{length, n}, filled(length*n, 0.2)...))
			total := put(dev, []int64{n}, filled(n, 1)...)
			at := r.do("select", xs, 0, 0)
			outs, err := r.loop(func(x []T) []T {
				next := r.do("tanh", r.do("add", r.do("matmul", x[0], w), x[2]))
				return []T{next, r.do("add", x[1], r.do("sum", next, []int64{1}, false)), r.do("sum", x[0], []int64{0}, false)}
			}, LoopCall{Length: length, Reverse: reverse}, []T{init, total}, []T{at}, []T{xs})
			require.Nil(t, err)
			path, on, reason := r.path()
			assert.Equal(t, ir.DeviceName(dev), on, reason)
			if dev == 1 {
				assert.Equal(t, "B", path, reason)
			}
			for _, o := range outs {
				got[dev] = append(got[dev], r.read(o))
			}
			loss := r.do("add", r.do("sum", r.do("mul", outs[0], outs[0])), r.do("sum", r.do("mul", outs[2], outs[2])))
			require.Nil(t, r.backward(r.do("add", loss, r.do("sum", outs[1])), 0))
			for _, x := range []T{w, init, xs} {
				got[dev] = append(got[dev], r.gradOf(x))
			}
		}
		for i := range got[0] {
			assert.InDeltaSlice(t, got[0][i], got[1][i], 1e-4, "value %d", i)
		}
	}
}

// TestAConditionEndsALoopOnADevice: a loop with a condition whose values stay in registers is dispatches of the device,
// each of which goes on where the one before has ended.
func TestAConditionEndsALoopOnADevice(t *testing.T) {
	r, put := twoDevices(t)
	less := func(x T, most float64) T { return r.do("lt", x, most) }
	run := func(begins float32, most int64, body func(x []T) []T) []T {
		from := put(1, []int64{}, begins)
		carries := []T{less(from, 20), from, put(1, []int64{3}, 1, 2, 3)}
		outs, err := r.loop(body, LoopCall{Length: most, While: true}, carries, nil, nil)
		require.Nil(t, err)
		return outs
	}
	doubles := func(x []T) []T {
		n := r.do("add", x[1], 1.0)
		return []T{less(n, 20), n, r.do("add", x[2], x[1])}
	}
	for _, c := range []struct {
		begins float32
		most   int64
		want   []float32
	}{
		{17, 1 << 40, []float32{1 + 54, 2 + 54, 3 + 54}}, {20, 1 << 40, []float32{1, 2, 3}}, {17, 1, []float32{18, 19, 20}},
	} {
		outs := run(c.begins, c.most, doubles)
		path, on, reason := r.path()
		assert.Equal(t, []string{"A", "wgpu:0", ""}, []string{path, on, reason})
		assert.Equal(t, c.want, r.read(outs[2]))
	}
}

// A kernel ends a loop by its condition, where products change a carry, where nothing reads one, and where one stays
// the same. A loop that is longer than a dispatch takes further ones, as long as the condition is true. They begin with
// the carries of the one before. A bound on the iterations ends it, too.
func TestALoopOfOneKernelRunsUntilItsConditionIsFalse(t *testing.T) {
	mixes := func(r *rig, x T) T { return r.do("matmul", r.do("flip", x, []int64{0}), r.do("t", x)) }
	adds := func(r *rig, x T) T { return r.do("mul", x, 0.75) }
	for path, change := range map[string]func(r *rig, x T) T{"A": adds, "B": mixes} {
		dispatchAtMost(t, map[string]int64{"A": 40, "B": 1 << 11}[path])
		for _, c := range []struct {
			most   float32
			length int64
		}{{0, 1 << 40}, {1, 1 << 40}, {2, 1 << 40}, {5, 1 << 40}, {9, 1 << 40}, {32, 1 << 40}, {33, 1 << 40},
			{200, 1 << 40}, {200, 150}, {200, 151}} {
			var got [2][][]float32
			for dev := range ir.DeviceID(2) {
				r, put := twoDevices(t)
				r.e.devices.caps(1).MaxWorkgroupBytes = 16 << 10
				end, x := put(dev, []int64{}, c.most), put(dev, []int64{2, 2}, 0.5, 0.25, -0.5, 0.75)
				n := put(dev, []int64{}, 0)
				carries := []T{r.do("lt", n, end), n, x, put(dev, []int64{2}, 3, 4), r.do("neg", x)}
				outs, err := r.loop(func(x []T) []T {
					n := r.do("add", x[1], 1.0)
					return []T{r.do("lt", n, end), n, change(r, x[2]), r.do("clone", x[3]), r.do("mul", x[2], 2.0)}
				}, LoopCall{Length: c.length, While: true}, carries, nil, nil)
				require.Nil(t, err)
				took, on, reason := r.path()
				assert.Equal(t, ir.DeviceName(dev), on, reason)
				if dev == 1 {
					assert.Equal(t, path, took, reason)
				}
				for _, o := range append(outs[1:], r.do("add", outs[2], outs[4])) {
					got[dev] = append(got[dev], r.read(o))
				}
			}
			require.Equal(t, min(c.most, float32(c.length)), got[1][0][0])
			assert.Equal(t, got[0], got[1], "%s: %v", path, c)
		}
	}
}

// TestAWorkgroupRunsTheLoopsOfItsBody: a branch in the body is a step of the launch, in values and gradients.
func TestAWorkgroupRunsTheLoopsOfItsBody(t *testing.T) {
	var got [2][][]float32
	for dev := range ir.DeviceID(2) {
		r, put := twoDevices(t)
		r.e.devices.caps(1).MaxWorkgroupBytes = 16 << 10
		x := r.grad(put(dev, []int64{3, 3}, 0.1, 0.2, -0.3, 0.4, 0.5, 0.6, -0.7, 0.8, 0.9))
		xs := put(dev, []int64{8}, 1, -1, 1, 1, -1, -1, 1, -1)
		chosen := func(x T, place T) T {
			outs, err := r.loop(func(c []T) []T {
				return []T{r.do("logical_not", c[0]), r.do("matmul", r.do("t", x), x)}
			}, LoopCall{Length: 1, While: true}, []T{r.do("gt", place, 0.0), r.do("mul", x, 0.5)}, nil, nil)
			require.Nil(t, err)
			return outs[1]
		}
		outs, err := r.loop(func(c []T) []T {
			return []T{r.do("tanh", r.do("add", r.do("t", c[0]), chosen(c[0], c[1])))}
		}, LoopCall{Length: 8}, []T{x}, []T{r.do("select", xs, 0, 0)}, []T{xs})
		require.Nil(t, err)
		if path, on, reason := r.path(); dev == 1 {
			assert.Equal(t, []string{"B", "wgpu:0"}, []string{path, on}, reason)
		}
		require.Nil(t, r.backward(r.do("sum", r.do("mul", outs[0], outs[0])), 0))
		got[dev] = [][]float32{r.read(outs[0]), r.gradOf(x)}
	}
	for i := range got[0] {
		assert.InDeltaSlice(t, got[0][i], got[1][i], 1e-5, "value %d", i)
	}
}

// TestADeviceComputesBothBranches: of a loop of one iteration that no kernel holds, results are chosen, also those that
// are not finite in the other branch.
func TestADeviceComputesBothBranches(t *testing.T) {
	for _, flag := range []float32{0, 1} {
		var got [2][][]float32
		for dev := range ir.DeviceID(2) {
			r, put := twoDevices(t)
			x, old := put(dev, []int64{3}, 4, 0, 1), put(dev, []int64{3}, 7, 8, 9)
			pred := r.do("gt", put(dev, []int64{}, flag), 0.5)
			outs, err := r.loop(func(c []T) []T {
				sorted, err := r.call(0, "sort", r.do("log", x), -1, false)
				require.Nil(t, err)
				return []T{r.do("logical_not", c[0]), sorted[0]}
			}, LoopCall{Length: 1, While: true}, []T{pred, old}, nil, nil)
			require.Nil(t, err)
			path, on, reason := r.path()
			assert.Equal(t, []string{"C", ir.DeviceName(dev)}, []string{path, on}, reason)
			got[dev] = append(got[dev], r.read(outs[1]))
		}
		assert.Equal(t, got[0], got[1])
	}
}

// An unrolled loop draws the numbers of the CPU's loop, and so do the operators after it.
func TestUnrolledIterationsDrawAsPlacesDo(t *testing.T) {
	var got [2][][]float32
	for dev := range ir.DeviceID(2) {
		r, put := twoDevices(t)
		x := put(dev, []int64{3}, 1, 2, 3)
		for _, reverse := range []bool{false, true} {
			outs, err := r.loop(func(x []T) []T { return []T{r.do("add", x[0], r.do("rand_like", x[0]))} },
				LoopCall{Length: 3, Reverse: reverse}, []T{x}, nil, nil)
			require.Nil(t, err)
			_, at, reason := r.path()
			assert.Equal(t, ir.DeviceName(dev), at, reason)
			got[dev] = append(got[dev], r.read(outs[0]))
		}
		got[dev] = append(got[dev], r.read(r.do("rand_like", x)))
	}
	assert.Equal(t, got[0], got[1])
}

// A data error in an unrolled loop has the text that the CPU's loop gives.
func TestADataErrorInAnUnrolledLoopNamesItsKernel(t *testing.T) {
	var texts [2]string
	for dev := range ir.DeviceID(2) {
		r, put := twoDevices(t)
		x, rows := put(dev, []int64{3}, 1, 2, 3), make([]float32, 24)
		rows[21] = 1 // in row 7
		index := r.do("argmax", put(dev, []int64{8, 3}, rows...), 0)
		outs, err := r.loop(func(x []T) []T { return []T{r.do("index_select", r.do("sin", x[0]), 0, index)} },
			LoopCall{Length: 2}, []T{x}, nil, nil)
		require.Nil(t, err)
		_, at, reason := r.path()
		assert.Equal(t, ir.DeviceName(dev), at, reason)
		_, err = r.tryRead(outs[0])
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrIndex, err.Code)
		texts[dev] = err.Msg
	}
	assert.Equal(t, texts[0], texts[1])
	assert.Contains(t, texts[1], "index 7 is out of bounds")
}
