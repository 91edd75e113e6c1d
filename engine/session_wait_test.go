package engine

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// waiting is a session with a number, and room for its one result.
type waiting struct {
	*rig
	s    *InferenceSession
	id   uint64
	y    []float32
	outs []SessionValue
}

func newWaiting(t *testing.T, own bool, p func(r *rig) *primProgram) *waiting {
	w := &waiting{rig: newSessionRig(t, own), y: make([]float32, 64), outs: make([]SessionValue, 1)}
	s, err := w.e.newSession(p(w.rig), SessionOptions{Threads: 1})
	require.Nil(t, err)
	w.s, w.id = s, w.e.sessions.add(s)
	return w
}

// begin begins a run.
func (w *waiting) begin(slice time.Duration, in ...SessionValue) (run uint64, pending bool, err *ir.Error) {
	w.outs[0] = SessionValue{Data: unsafe.Pointer(&w.y[0]), Bytes: 4 * uint64(len(w.y))}
	return w.e.BeginSession(w.id, in, w.outs, false, slice)
}

// stoppedRun begins a run while another thread's holds the session, asks it to stop, and waits for its error.
func (w *waiting) stoppedRun(t *testing.T, x SessionValue) {
	t.Helper()
	w.s.mu.Lock()
	run, pending, err := w.begin(0, x)
	require.Nil(t, err)
	require.True(t, pending)
	pending, err = w.e.WaitSession(run, false, time.Millisecond)
	require.Nil(t, err)
	require.True(t, pending)
	r, err := w.e.sessionRuns.of(run)
	require.Nil(t, err)
	r.stop.Ask()
	w.s.mu.Unlock()
	pending, err = w.e.WaitSession(run, true, 0)
	assert.False(t, pending)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrInterrupted, err.Code)
	_, err = w.e.WaitSession(run, false, 0)
	require.NotNil(t, err, "the run's number is of no use any more")
	assert.Equal(t, ir.ErrHandle, err.Code)
}

func affineOnes(r *rig) *primProgram {
	return affine(r, r.floats([]int64{2, 3}, 1, 2, 3, -1, -2, -3), r.floats(nil, 10, 20))
}

// The first run of a shape goes on beside its caller; a plan that turned out to be brief runs in the calling thread.
func TestBriefRunsOfASessionStayInTheirThread(t *testing.T) {
	for _, own := range []bool{true, false} {
		w := newWaiting(t, own, affineOnes)
		x := value("x", []float32{1, 0, 0, 0, 1, -1}, 2, 3)
		out := make([]SessionValue, 1)
		_, pending, err := w.e.BeginSession(w.id, []SessionValue{x}, out, true, time.Minute)
		require.Nil(t, err)
		require.False(t, pending)
		assert.Equal(t, []int64{2, 2}, out[0].shape())
		assert.False(t, w.s.shapes[0].brief, "nothing has run")
		for range 3 {
			_, pending, err = w.begin(time.Minute, x)
			require.Nil(t, err)
			require.False(t, pending)
			assert.Equal(t, []float32{21, 40, 20, 41}, w.y[:4])
		}
		w.s.shapes[0].brief = true
		done, err := w.s.briefly([]SessionValue{x}, w.outs, false)
		assert.Nil(t, err)
		assert.True(t, done)
		for range 20 {
			_, pending, err = w.begin(0, x)
			require.Nil(t, err)
			require.False(t, pending, "it has run when the call returns")
		}
		_, _, err = w.begin(time.Minute, value("other", nil, 0, 3))
		require.NotNil(t, err)
		assert.Contains(t, err.Msg, "unknown input")
		require.Nil(t, w.e.CloseSession(w.id))
		_, _, err = w.begin(time.Minute, x)
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrHandle, err.Code)
	}
}

// A run waits for the one before it beside its caller, who can ask it to stop; then the session goes on.
func TestARunOfASessionIsStopped(t *testing.T) {
	for _, own := range []bool{true, false} {
		w := newWaiting(t, own, affineOnes)
		x := value("x", []float32{1, 0, 0, 0, 1, -1}, 2, 3)
		_, _, err := w.begin(time.Minute, x)
		require.Nil(t, err)
		w.s.shapes[0].brief = true

		w.stoppedRun(t, x)
		clear(w.y)
		w.s.shapes[0].brief = false
		_, pending, err := w.begin(time.Minute, x)
		require.Nil(t, err)
		require.False(t, pending)
		assert.Equal(t, []float32{21, 40, 20, 41}, w.y[:4])
		require.Nil(t, w.e.CloseSession(w.id))
	}
}

// A stop while the constants of a shape are computed leaves no plan behind, and the next run makes it.
func TestAStopWhileConstantsAreFoldedLeavesNothing(t *testing.T) {
	w := newWaiting(t, true, affineOnes)
	x := value("x", []float32{1, 1, 1}, 1, 3)
	w.stoppedRun(t, x)
	assert.Empty(t, w.s.shapes)
	_, _, err := w.begin(time.Minute, x)
	require.Nil(t, err)
	assert.Equal(t, []float32{26, 40}, w.y[:2])
	require.Nil(t, w.e.CloseSession(w.id))
}

// A plan whose values decide how long it runs is never taken for a brief one.
func TestALoopThatAConditionEndsIsNotBrief(t *testing.T) {
	loop := op.Loop{Carries: 1, Length: 4, While: true}
	g, bad := program.Parse("input $0 : f32[2]\n%0 = neg $0 : f32[2] live\nreturn %0\n")
	require.NoError(t, bad)
	assert.False(t, openEnded(g))
	g.Nodes[0].Op, g.Nodes[0].Attr = uint16(prim.Known.Loop), ir.InternAttr(loop.Attr())
	assert.True(t, openEnded(g))
}

// The plan of a padded convolution with a bias and a shift makes no padded value, and adds once.
func TestSessionsFoldPadsAndShifts(t *testing.T) {
	three := []int64{3, 3}
	one := []int64{1, 1}
	win := op.Windows{Kernel: three, Stride: one, Lo: []int64{0, 0}, Dilation: one, Base: one, Out: []int64{4, 4}}
	var values [2][]float32
	for off := range 2 {
		r := newSessionRig(t, true)
		if off == 1 {
			r.e.planner.debug.Off = []string{"fold_pads", "fold_shifts"}
		}
		weights := make([]float32, 3*2*9)
		for i := range weights {
			weights[i] = float32(i%7) - 3
		}
		w := r.floats([]int64{3, 2, 3, 3}, weights...)
		bias, shift := r.floats([]int64{1, 3, 1, 1}, 2, -0.5, 3), r.floats([]int64{1, 3, 1, 1}, 1, 8, -2)
		p := &primProgram{in: []SessionPort{port("x", 1, 2, 4, 4)}, out: []SessionPort{port("y", 1, 3, 4, 4)},
			f: func(s *lazy.Session, x []op.Val) []op.Val {
				zeros := prim.Zeros(s, ir.F32, ir.CPU, []int64{1, 2, 6, 6})
				full := prim.StridedScatter(s, zeros, x[0], ir.InternLayout(x[0].Shape(), []int64{72, 36, 6, 1}), 7)
				y := prim.Conv(s, full, r.val(w), win, 1)
				y = prim.Add(s, y, prim.Expand(s, r.val(bias), y.Shape()))
				return []op.Val{prim.Add(s, y, prim.Expand(s, r.val(shift), y.Shape()))}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		x := make([]float32, 32)
		for i := range x {
			x[i] = float32(i*5%11) - 4
		}
		values[off] = runSession(t, s, value("x", x, 1, 2, 4, 4))
		plan := s.shapes[0].plan.Plan.Program
		adds, scatters := 0, 0
		for i := range plan.Nodes {
			switch op.PrimID(plan.Nodes[i].Op) {
			case prim.Known.Add:
				adds++
			case prim.Known.StridedScatter:
				scatters++
			}
		}
		assert.Equal(t, [2]int{1 + off, off}, [2]int{adds, scatters})
	}
	assert.Equal(t, values[1], values[0], "small whole numbers: sums in any order")
}

// An error while a plan is frozen is that error.
func TestAPlanThatNeedsTooMuchMemoryIsRefused(t *testing.T) {
	r := newSessionRig(t, true)
	p := &primProgram{in: []SessionPort{port("x", 1)}, out: []SessionPort{port("y", 1)},
		f: func(s *lazy.Session, x []op.Val) []op.Val {
			n := int64(1) << 46
			y, _ := prim.Sort(s, prim.Expand(s, x[0], []int64{n}), 0, false)
			return []op.Val{prim.Slice(s, y, 0, 0, 1, 1)}
		}}
	s, err := r.e.newSession(p, SessionOptions{})
	require.Nil(t, err)
	_, err = s.Prepare([]SessionValue{value("x", []float32{1}, 1)}, nil)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrOutOfMemory, err.Code)
	s.Close()
}
