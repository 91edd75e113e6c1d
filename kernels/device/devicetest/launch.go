package devicetest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// checked gathers rows of a table with a range check.
func checked() *loopir.Kernel {
	b := loopir.NewBuilder("checked_gather", 1, 0)
	size := b.Size()
	i := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	table := b.Buf(ir.F32, loopir.Read)
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	at := b.InBounds(b.Cast(ir.I64, i), b.Param(size))
	b.Store(out, b.LoadAt(table, at))
	return b.Kernel()
}

func ints(v ...int32) []byte {
	var out []byte
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, uint32(x))
	}
	return out
}

// faults checks that a failed check is reported once, with its event and element.
func (s *suite) faults(t *testing.T) {
	st := launchStep(checked(), []uint64{4, 10})
	st.Event = 41
	table := s.put(t, ir.F32, floats(10, func(i int) float32 { return float32(i) }))
	good, bad := s.put(t, ir.I32, ints(0, 9, 3, 3)), s.put(t, ir.I32, ints(1, 2, -7, 4))
	out := s.alloc(t, ir.F32, 4)
	p, err := s.d.Build([]device.Step{st}, 3)
	require.NoError(t, err)
	defer p.Release()
	run := func(i device.Buffer) {
		_, err := s.d.Run(p, &device.Binding{Bufs: []device.Buffer{i, table, out}})
		require.NoError(t, err)
	}
	run(good)
	_, found, err := s.d.TakeFault()
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, floats(4, func(i int) float32 { return []float32{0, 9, 3, 3}[i] }), s.get(t, out, ir.F32, 4))

	run(bad)
	run(good)                // the fault stays although later runs are right
	s.get(t, out, ir.F32, 4) // and reading does not take it
	f, found, err := s.d.TakeFault()
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, device.Fault{Event: 41, Element: -7}, f)
	_, found, err = s.d.TakeFault()
	require.NoError(t, err)
	require.False(t, found)

	run(bad) // and it can be reported again
	_, found, err = s.d.TakeFault()
	require.NoError(t, err)
	require.True(t, found)
}

// replay runs one program with other buffers and scalars.
func (s *suite) replay(t *testing.T) {
	const n = 300
	b := loopir.NewBuilder("axpb", 1, 0)
	a, c := b.Scalar(ir.F32), b.Scalar(ir.I64)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(b.Mul(x, b.Param(a)), b.Cast(ir.F32, b.Param(c))))
	st := device.Step{Op: b.Kernel(), Bufs: []int{0, 1}, Params: []device.Param{
		device.Const(n), {From: device.Scalar, Index: 1}, {From: device.Scalar}}}
	two := st
	two.Bufs = []int{1, 2} // the second step reads what the first wrote
	p, err := s.d.Build([]device.Step{st, two}, 3)
	require.NoError(t, err)
	defer p.Release()
	data := floats(n, func(i int) float32 { return float32(i) })
	ins := []device.Buffer{s.put(t, ir.F32, data), s.put(t, ir.F32, data)}
	mids := []device.Buffer{s.alloc(t, ir.F32, n), s.alloc(t, ir.F32, n)}
	outs := []device.Buffer{s.alloc(t, ir.F32, n), s.alloc(t, ir.F32, n), s.alloc(t, ir.F32, n)}
	for i := range 9 {
		k := float32(i%4 + 1)
		bind := &device.Binding{Bufs: []device.Buffer{ins[i%2], mids[i%2], outs[i%3]},
			Scalars: []uint64{uint64(int64(-i)), ir.EncodeFloat(ir.F32, float64(k))}}
		_, err := s.d.Run(p, bind)
		require.NoError(t, err)
		clear(bind.Scalars) // bind may be reused when Run returns
		want := floats(n, func(j int) float32 { return (float32(j)*k-float32(i))*k - float32(i) })
		require.Equal(t, want, s.get(t, outs[i%3], ir.F32, n), "run %d", i)
	}
}

// offsets runs one program at run-time offsets of every alignment.
func (s *suite) offsets(t *testing.T) {
	const n, room = 64, 96
	b := loopir.NewBuilder("shift", 1, 0)
	from, to := b.Offset(), b.Offset()
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), from))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), to)
	b.Map()
	b.Store(out, b.Neg(x))
	st := device.Step{Op: b.Kernel(), Bufs: []int{0, 1}, Params: []device.Param{
		device.Const(n), {Bits: 4, From: device.Offset}, {From: device.Offset, Index: 1}}}
	p, err := s.d.Build([]device.Step{st}, 2)
	require.NoError(t, err)
	defer p.Release()
	in := s.put(t, ir.F32, floats(room, func(i int) float32 { return float32(i) }))
	dst := s.alloc(t, ir.F32, room)
	for _, o := range [][2]int64{{0, 0}, {4, 8}, {1, 0}, {3, 5}, {0, 0}, {8, 2}, {28, 32}} {
		require.NoError(t, s.d.Upload(dst, ir.F32, 0, floats(room, func(int) float32 { return 9 })))
		_, err := s.d.Run(p, &device.Binding{Bufs: []device.Buffer{in, dst}, Offsets: o[:]})
		require.NoError(t, err)
		want := floats(room, func(i int) float32 {
			if j := int64(i) - o[1]; j >= 0 && j < n {
				return -float32(4 + o[0] + j)
			}
			return 9
		})
		require.Equal(t, want, s.get(t, dst, ir.F32, room), "offsets %v", o)
	}
}

// release releases programs and buffers while others are running.
func (s *suite) release(t *testing.T) {
	k, params := s.affine(100)
	in := s.put(t, ir.F32, floats(100, func(i int) float32 { return float32(i) }))
	want := floats(100, func(i int) float32 { return 2*float32(i) + 1 })
	keep, err := s.d.Build([]device.Step{launchStep(k, params)}, 2)
	require.NoError(t, err)
	defer keep.Release()
	for range 3 {
		p, err := s.d.Build([]device.Step{launchStep(k, params)}, 2)
		require.NoError(t, err)
		out, err := s.d.Alloc(400)
		require.NoError(t, err)
		f, err := s.d.Run(p, &device.Binding{Bufs: []device.Buffer{in, out}})
		require.NoError(t, err)
		p.Release() // the run goes on
		require.NoError(t, s.d.Wait(f, timeout, nil))
		require.Equal(t, want, s.get(t, out, ir.F32, 100))
		s.d.Free(out)
	}
	out := s.alloc(t, ir.F32, 100)
	_, err = s.d.Run(keep, &device.Binding{Bufs: []device.Buffer{in, out}})
	require.NoError(t, err)
	require.Equal(t, want, s.get(t, out, ir.F32, 100))
}

// bigGrid launches more workgroups than one axis of a grid can have.
func (s *suite) bigGrid(t *testing.T) {
	const n = 65536*64 + 77 // above 65,535 groups of 64
	b := loopir.NewBuilder("big_iota", 1, 0)
	b.Buf(ir.I32, loopir.Write)
	out := b.Linear(0, -1)
	b.Map()
	b.Store(out, b.Cast(ir.I32, b.LinearIndex()))
	buf := s.alloc(t, ir.I32, n)
	s.run(t, []device.Step{launchStep(b.Kernel(), []uint64{n})}, buf)
	got := s.get(t, buf, ir.I32, n)
	for i := range n {
		if v := binary.LittleEndian.Uint32(got[4*i:]); v != uint32(i) {
			require.Equal(t, uint32(i), v, "element %d", i)
		}
	}
}

// empty runs kernels and products without elements, and programs without steps.
func (s *suite) empty(t *testing.T) {
	k, _ := s.affine(0)
	out := s.put(t, ir.F32, floats(4, func(int) float32 { return 3 }))
	in := s.alloc(t, ir.F32, 4)
	s.run(t, []device.Step{launchStep(k, []uint64{0})}, in, out)
	require.Equal(t, floats(4, func(int) float32 { return 3 }), s.get(t, out, ir.F32, 4))
	s.run(t, nil)
	require.NoError(t, s.d.Upload(out, ir.F32, 0, nil))
	require.NoError(t, s.d.Read(out, ir.F32, 0, nil))
}

// inFlight submits a chain of runs without waiting between them.
func (s *suite) inFlight(t *testing.T) {
	const n, runs = 1000, 60
	b := loopir.NewBuilder("increment", 1, 0)
	x := b.Buf(ir.F32, loopir.ReadWrite)
	at := b.Linear(x, -1)
	b.Map()
	b.Store(at, b.Add(b.Load(at), b.Float(ir.F32, 1)))
	p, err := s.d.Build([]device.Step{launchStep(b.Kernel(), []uint64{n})}, 1)
	require.NoError(t, err)
	defer p.Release()
	buf := s.put(t, ir.F32, floats(n, func(int) float32 { return 0 }))
	bind := &device.Binding{Bufs: []device.Buffer{buf}}
	var last device.Fence
	for range runs {
		f, err := s.d.Run(p, bind)
		require.NoError(t, err)
		require.GreaterOrEqual(t, f, last)
		last = f
	}
	require.GreaterOrEqual(t, s.d.Submitted(), last)
	require.NoError(t, s.d.Wait(last, timeout, nil))
	require.True(t, s.d.Done(last))
	require.True(t, s.d.Done(0))
	require.Equal(t, floats(n, func(int) float32 { return runs }), s.get(t, buf, ir.F32, n))
}

// interrupt ends a wait early, or finds that the wait has ended.
func (s *suite) interrupt(t *testing.T) {
	k, params := s.affine(1000)
	p, err := s.d.Build([]device.Step{launchStep(k, params)}, 2)
	require.NoError(t, err)
	defer p.Release()
	bufs := []device.Buffer{s.put(t, ir.F32, make([]byte, 4000)), s.alloc(t, ir.F32, 1000)}
	f, err := s.d.Run(p, &device.Binding{Bufs: bufs})
	require.NoError(t, err)
	if err := s.d.Wait(f, timeout, func() bool { return true }); err != nil {
		requireCode(t, err, ir.ErrInterrupted)
	}
	require.NoError(t, s.d.Wait(f, timeout, func() bool { return false }), "the work goes on")
	start := time.Now()
	require.NoError(t, s.d.Wait(f, timeout, nil))
	assert.Less(t, time.Since(start), time.Second, "a fence that has passed costs nothing")
}

// errors checks classes of errors.
func (s *suite) errors(t *testing.T) {
	const absurd = 1 << 56 // bytes, beyond any address space
	_, err := s.d.Alloc(min(s.d.Caps().MaxBuffer, absurd) + 1)
	requireCode(t, err, ir.ErrOutOfMemory)
	require.Contains(t, err.Error(), "bytes")
	b, err := s.d.Alloc(0)
	require.NoError(t, err)
	require.Positive(t, b.Bytes())
	s.d.Free(b)
	require.NotNil(t, caught(func() { _, _ = s.d.Build([]device.Step{{Op: launch.Fill{}, Bufs: []int{5}}}, 1) }),
		"a slot that is not there")
	after := s.put(t, ir.F32, floats(3, func(i int) float32 { return float32(i) }))
	require.Equal(t, floats(3, func(i int) float32 { return float32(i) }), s.get(t, after, ir.F32, 3),
		"the device goes on")
}
