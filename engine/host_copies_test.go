package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// aheadDevice is the interpreter, as a device.AheadReader. A read copies the elements when it begins.
type aheadDevice struct {
	*reference.Device
	joins                            bool // runs make the copies that their bindings ask for
	joined, reads, finished, dropped int
}

func (d *aheadDevice) Run(p device.Program, bind *device.Binding) (device.Fence, error) {
	f, err := d.Device.Run(p, bind)
	if c := bind.Copy; d.joins && c != nil && err == nil {
		d.joined++
		c.Read, err = d.StartRead(bind.Bufs[c.Slot], c.DType, c.Off, c.N)
	}
	return f, err
}

type aheadRead struct {
	d    *aheadDevice
	data []byte
}

func (d *aheadDevice) StartRead(b device.Buffer, t ir.DType, off, n int64) (device.PendingRead, error) {
	d.reads++
	r := &aheadRead{d, make([]byte, n*int64(t.Size()))}
	return r, d.Read(b, t, off, r.data)
}

func (d *aheadDevice) TakeKnownFault() (device.Fault, bool) {
	f, found, _ := d.TakeFault()
	return f, found
}

func (r *aheadRead) Finish(dst []byte, _ func() bool) error {
	r.d.finished++
	copy(dst, r.data)
	return nil
}

func (r *aheadRead) Drop() { r.d.dropped++ }

func newAheadRig(t *testing.T) (*rig, *aheadDevice) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d := &aheadDevice{Device: reference.New()}
	r := &rig{t: t, dev: d.Device}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	return r, d
}

func (r *rig) copyToHost(x T) {
	r.t.Helper()
	for {
		pending, err := r.e.CopyToHost(uint64(x), time.Millisecond)
		require.Nil(r.t, err)
		if !pending {
			return
		}
	}
}

// A read takes the copy of its version, once. Another version, and a tensor that is read again, are read as usual.
func TestAReadTakesTheCopyUnderWay(t *testing.T) {
	r, d := newAheadRig(t)
	x := r.do("mul", r.floats(nil, 1, 2, 3), 2.0)
	r.copyToHost(x)
	r.copyToHost(x)
	require.Equal(t, 1, d.reads)
	require.Equal(t, []float32{2, 4, 6}, r.read(x))
	require.Equal(t, 1, d.finished)
	require.Equal(t, []float32{2, 4, 6}, r.read(x))
	r.copyToHost(x)
	r.inplace("add", x, 1.0)
	require.Equal(t, []float32{3, 5, 7}, r.read(x))
	require.Equal(t, 1, d.finished)
	view := r.view(x, []int64{2}, []int64{2}, 0)
	r.copyToHost(view)
	require.Equal(t, []float32{3, 7}, r.read(view))
	require.Equal(t, 2, d.finished)
}

// The value and the pending stores of other tensors are one window.
func TestACopyToTheHostRunsWhatIsPending(t *testing.T) {
	r, _ := newAheadRig(t)
	x := r.floats(nil, 1, 2, 3, 4)
	r.inplace("mul", x, 10.0)
	y := r.do("neg", r.floats(nil, 5))
	windows := r.e.stats.windows
	r.copyToHost(y)
	require.Zero(t, r.e.session.PendingEffects())
	require.Equal(t, windows+1, r.e.stats.windows)
	require.Equal(t, []float32{-5}, r.read(y))
}

// The window that computes a value makes the copy of its elements: for a read, and for a copy that begins ahead.
func TestTheWindowOfAReadMakesItsCopy(t *testing.T) {
	r, d := newAheadRig(t)
	d.joins = true
	joined := func(n int, want []float32, x T) {
		t.Helper()
		require.Equal(t, want, r.readOnly(x, len(want)))
		require.Equal(t, n, d.joined)
		require.Equal(t, d.joined, d.finished+d.dropped)
		require.Zero(t, r.e.read.value, "a copy needs no dense value")
	}
	x := r.do("mul", r.floats(nil, 1, 2, 3, 4), 2.0)
	joined(1, []float32{2, 4, 6, 8}, x)
	joined(1, []float32{2, 4, 6, 8}, x) // no window runs
	r.inplace("add", x, 1.0)
	joined(2, []float32{5, 7}, r.view(x, []int64{2}, []int64{1}, 1))
	joined(3, []float32{3, 7}, r.view(x, []int64{2}, []int64{2}, 0)) // a window that makes it dense
	y := r.do("neg", x)
	r.copyToHost(y)
	require.Equal(t, 4, d.joined)
	joined(4, []float32{-3, -5, -7, -9}, y)
	_, err := r.e.Force(uint64(r.do("neg", y)), time.Second)
	require.Nil(t, err)
	require.Equal(t, 4, d.joined, "nobody reads it")
}

// A window with several results copies the one that is read.
func TestAWindowCopiesTheValueThatIsRead(t *testing.T) {
	r, d := newAheadRig(t)
	d.joins = true
	x := r.floats(nil, 1, 2)
	a, b := r.do("add", x, 1.0), r.do("add", x, 2.0)
	r.inplace("mul", a, 10.0)
	r.copyToHost(b) // runs the write of a too
	require.Equal(t, []float32{20, 30}, r.read(a))
	require.Equal(t, []float32{3, 4}, r.read(b))
	require.Equal(t, 1, d.joined)
}

// Copies end with their tensor, and the oldest makes room for another one.
func TestCopiesToTheHostEnd(t *testing.T) {
	r, d := newAheadRig(t)
	var list []T
	for range maxHostCopies + 2 {
		x := r.do("neg", r.floats(nil, 1))
		r.copyToHost(x)
		list = append(list, x)
	}
	require.Equal(t, 2, d.dropped)
	r.e.Release([]uint64{uint64(list[5]), uint64(list[6])})
	require.Nil(t, r.realize())
	require.Equal(t, 4, d.dropped)
	require.Len(t, r.e.copies.list, maxHostCopies-2)
	require.Equal(t, []float32{-1}, r.read(list[0]))
	require.Equal(t, []float32{-1}, r.read(list[9]))
	require.Equal(t, 1, d.finished)
	require.Nil(t, r.e.Reset())
	require.Empty(t, r.e.copies.list)
}

// Indices that are said to be in range are clamped, and nothing is told.
func TestIndicesInBoundsAreNotChecked(t *testing.T) {
	r := newRig(t)
	x, i := r.floats(nil, 0, 0, 0), r.do("add", r.ints(8, -6), 1)
	y := r.do("_unsafe_index_copy", x, 0, i, r.floats(nil, 1, 2))
	require.Equal(t, []float32{2, 0, 1}, r.read(y))
	_, err := r.tryRead(r.do("index_copy", x, 0, i, r.floats(nil, 1, 2)))
	require.NotNil(t, err)
	require.Equal(t, ir.ErrIndex, err.Code)
}
