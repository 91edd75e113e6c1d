package engine

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// primProgram is a program made of primitives.
type primProgram struct {
	in, out []SessionPort
	f       func(s *lazy.Session, x []op.Val) []op.Val
}

func (p *primProgram) ports() (in, out []SessionPort) { return p.in, p.out }

func (p *primProgram) close(*Engine) {}

func (p *primProgram) example() (shapes [][]int64, err *ir.Error) {
	for _, q := range p.in {
		shapes = append(shapes, slices.Clone(q.Shape))
		for d, n := range q.Shape {
			shapes[len(shapes)-1][d] = max(n, 1)
		}
	}
	return shapes, nil
}

func (p *primProgram) record(e *Engine, args []uint64) ([]uint64, *ir.Error) {
	x, err := e.resolveAll(args)
	if err != nil {
		return nil, err
	}
	var hs []uint64
	for _, v := range p.f(e.session, x) {
		hs = append(hs, e.session.Wrap(&v, args))
	}
	return hs, nil
}

// newSessionRig makes a rig on the CPU, where sessions have devices of their own, or on the interpreter, where they
// share the engine's.
func newSessionRig(t *testing.T, own bool) *rig {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	r := &rig{t: t}
	c := Config{Open: func(ir.DeviceID) (device.Device, error) { return reference.New(), nil }}
	if own {
		c.Open = func(ir.DeviceID) (device.Device, error) { return cpu.New(cpu.Options{Threads: 2}) }
		c.OpenHost = func(n int) (device.Host, error) { return cpu.New(cpu.Options{Threads: n}) }
	}
	r.e = New(c)
	return r
}

func port(name string, shape ...int64) SessionPort {
	return SessionPort{Name: name, DType: ir.F32, Shape: shape, Dims: make([]string, len(shape))}
}

// value makes an argument.
func value(name string, x []float32, shape ...int64) SessionValue {
	v := SessionValue{DType: uint8(ir.F32), Rank: int32(len(shape)), Data: unsafe.Pointer(unsafe.SliceData(x)),
		Bytes: uint64(4 * len(x))}
	copy(v.Shape[:], shape)
	copy(v.Name[:], name)
	return v
}

// runSession runs s and returns its first result.
func runSession(t *testing.T, s *InferenceSession, in ...SessionValue) []float32 {
	var y []float32
	out := make([]SessionValue, 4)
	_, err := s.Run(in, out, func(k int, bytes int64) unsafe.Pointer {
		x := make([]float32, bytes/4)
		if k == 0 {
			y = x
		}
		return unsafe.Pointer(unsafe.SliceData(x))
	})
	require.Nil(t, err)
	return y
}

// affine is relu(x w + b) + fold, where fold depends on constants only.
func affine(r *rig, w, b T) *primProgram {
	return &primProgram{in: []SessionPort{port("x", -1, 3)}, out: []SessionPort{port("y", -1, 2)},
		f: func(s *lazy.Session, x []op.Val) []op.Val {
			weight, bias := r.val(w), r.val(b)
			twice := prim.Add(s, bias, bias)
			y := prim.Relu(s, prim.Matmul(s, x[0], prim.Transpose(s, weight, 0, 1), op.Val{}))
			return []op.Val{prim.Add(s, y, prim.Expand(s, twice, y.Shape()))}
		}}
}

// Both kinds of session give the program's values for each shape, and from its second run on a shape records nothing
// and builds nothing.
func TestSessionsRunFrozenPlans(t *testing.T) {
	for _, own := range []bool{true, false} {
		r := newSessionRig(t, own)
		w, b := r.floats([]int64{2, 3}, 1, 2, 3, -1, -2, -3), r.floats(nil, 10, 20)
		s, err := r.e.newSession(affine(r, w, b), SessionOptions{})
		require.Nil(t, err)
		two := value("x", []float32{1, 0, 0, 0, 1, -1}, 2, 3)
		assert.Equal(t, []float32{21, 40, 20, 41}, runSession(t, s, two))
		assert.Equal(t, []float32{26, 40}, runSession(t, s, value("x", []float32{1, 1, 1}, 1, 3)))
		before := r.stat("nodes_recorded")
		built := s.shapes[0].plan
		for range 3 {
			assert.Equal(t, []float32{21, 40, 20, 41}, runSession(t, s, two))
		}
		assert.Equal(t, before, r.stat("nodes_recorded"))
		assert.Same(t, built, s.shapes[1].plan)
		assert.Len(t, s.shapes, 2)
		assert.Empty(t, runSession(t, s, value("x", nil, 0, 3)))
		s.Close()
		_, err = s.Run([]SessionValue{two}, make([]SessionValue, 1), nil)
		require.NotNil(t, err)
		assert.Equal(t, []float32{10, 20}, r.read(b), "the constants are as they were")
	}
}

// What only constants decide is computed once: the plan does without it.
func TestConstantsAreFolded(t *testing.T) {
	kernels := map[bool]int{}
	for _, off := range []bool{false, true} {
		r := newSessionRig(t, true)
		if off {
			r.e.planner.debug.Off = []string{"fold_constants"}
		}
		w, b := r.floats([]int64{2, 3}, 1, 2, 3, -1, -2, -3), r.floats(nil, 10, 20)
		p := affine(r, w, b)
		plain := p.f
		p.f = func(s *lazy.Session, x []op.Val) []op.Val {
			y := plain(s, x)
			row := prim.Sum(s, r.val(w), []int64{1})
			return []op.Val{prim.Add(s, y[0], prim.Expand(s, row, y[0].Shape()))}
		}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		assert.Equal(t, []float32{27, 34}, runSession(t, s, value("x", []float32{1, 0, 0}, 1, 3)))
		kernels[off] = s.shapes[0].plan.Plan.Kernels
		s.Close()
	}
	assert.Less(t, kernels[false], kernels[true])
}

// Attention that is written out becomes the primitive, with any mask of constants, and gives the same values.
func TestAttentionIsFound(t *testing.T) {
	rows := func(shape ...int64) []float32 {
		x := make([]float32, ir.Numel(shape))
		for i := range x {
			x[i] = float32((i*7+3)%11)/11 - 0.4
		}
		return x
	}
	inf := op.FloatVal(math.Inf(-1))
	masks := map[string]func(s *lazy.Session, x, keep op.Val) op.Val{
		"none": func(_ *lazy.Session, x, _ op.Val) op.Val { return x },
		"where": func(s *lazy.Session, x, keep op.Val) op.Val {
			return prim.Where(s, prim.Expand(s, prim.LogicalNot(s, keep), x.Shape()), inf, x)
		},
		"sum": func(s *lazy.Session, x, keep op.Val) op.Val {
			return prim.Add(s, x, prim.Expand(s, prim.Cast(s, keep, ir.F32), x.Shape()))
		},
	}
	for name, mask := range masks {
		for _, shape := range [][]int64{{2, 3, 4, 8}, {6, 4, 8}} {
			var values [2][]float32
			for off := range 2 {
				r := newSessionRig(t, true)
				if off == 1 {
					r.e.planner.debug.Off = []string{"find_attention"}
				}
				keep := r.data(ir.Bool, []int64{4, 4}, []byte{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1})
				p := &primProgram{in: []SessionPort{port("q", shape...), port("k", shape...), port("v", shape...)},
					out: []SessionPort{port("y", shape...)}, f: func(s *lazy.Session, x []op.Val) []op.Val {
						scores := prim.Mul(s, prim.Matmul(s, x[0], prim.Transpose(s, x[1], -1, -2), op.Val{}), op.FloatVal(0.3))
						w := prim.Softmax(s, mask(s, scores, r.val(keep)), int64(len(shape)-1))
						y := prim.Matmul(s, w, x[2], op.Val{})
						if len(shape) == 4 {
							y = prim.Copy(s, prim.Transpose(s, y, 1, 2))
							y = prim.Transpose(s, y, 1, 2)
						}
						return []op.Val{y}
					}}
				s, err := r.e.newSession(p, SessionOptions{})
				require.Nil(t, err)
				values[off] = runSession(t, s, value("q", rows(shape...), shape...), value("k", rows(shape...), shape...),
					value("v", rows(shape...), shape...))
				text := s.shapes[0].plan.Plan.Program.String()
				assert.Equal(t, off == 0, strings.Contains(text, "attention"), "%s %v\n%s", name, shape, text)
				skips := strings.Contains(text, "attention{1,0,0}")
				assert.Equal(t, off == 0 && name == "where", skips, "%s: only that mask is causal\n%s", name, text)
				s.Close()
			}
			assert.InDeltaSlice(t, values[1], values[0], 1e-5, "%s %v", name, shape)
		}
	}
}

// A session refuses what does not fit, and goes on.
func TestSessionsRefuseWrongArguments(t *testing.T) {
	r := newSessionRig(t, true)
	w, b := r.floats([]int64{2, 3}, 1, 2, 3, -1, -2, -3), r.floats(nil, 10, 20)
	s, err := r.e.newSession(affine(r, w, b), SessionOptions{})
	require.Nil(t, err)
	good := value("x", []float32{1, 0, 0}, 1, 3)
	double := good
	double.DType = uint8(ir.F64)
	short := good
	short.Bytes = 8
	odd := good
	odd.Data = unsafe.Add(unsafe.Pointer(unsafe.SliceData(make([]float32, 4))), 1)
	absent := good
	absent.Data = nil
	for want, in := range map[string][]SessionValue{
		"its data is NULL": {absent}, `missing input "x"`: {}, `unknown input "z"`: {value("z", make([]float32, 3), 1, 3)},
		`given twice`: {good, good}, `dtype: got float64, want float32`: {double},
		`shape: got [1, 2], want [any 3]`: {value("x", make([]float32, 2), 1, 2)},
		`got 8 bytes, want 12`:            {short}, "not aligned": {odd},
	} {
		_, err := s.Run(in, make([]SessionValue, 1), nil)
		require.NotNil(t, err, want)
		assert.Contains(t, err.Msg, want)
		assert.Equal(t, ir.ErrValue, err.Code)
	}
	assert.Equal(t, []float32{21, 40}, runSession(t, s, good))
}

// Shapes beyond the limit make room for each other.
func TestSessionsForgetTheOldestShape(t *testing.T) {
	r := newSessionRig(t, true)
	w, b := r.floats([]int64{2, 3}, 1, 2, 3, -1, -2, -3), r.floats(nil, 10, 20)
	s, err := r.e.newSession(affine(r, w, b), SessionOptions{})
	require.Nil(t, err)
	for n := range int64(maxShapes + 3) {
		y := runSession(t, s, value("x", make([]float32, 3*n), n, 3))
		assert.Len(t, y, int(2*n))
	}
	assert.Len(t, s.shapes, maxShapes)
	assert.Equal(t, int64(maxShapes+2), s.shapes[0].shapes[0][0])
}

// Sessions and the engine run at once, from several threads.
func TestSessionsRunOnSeveralThreads(t *testing.T) {
	r := newSessionRig(t, true)
	w, b := r.floats([]int64{2, 3}, 1, 2, 3, -1, -2, -3), r.floats(nil, 10, 20)
	p := affine(r, w, b)
	one, err := r.e.newSession(p, SessionOptions{Threads: 1})
	require.Nil(t, err)
	two, err := r.e.newSession(p, SessionOptions{Threads: 2})
	require.Nil(t, err)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := []*InferenceSession{one, two}[i%2]
			for k := range 20 {
				n := int64(1 + (i+k)%3)
				x := make([]float32, 3*n)
				x[0] = 1
				assert.Equal(t, []float32{21, 40}, runSession(t, s, value("x", x, n, 3))[:2])
			}
		}()
	}
	wait.Wait()
	one.Close()
	two.Close()
}

// The results are values of their own: an argument, a view, one value twice.
func TestResultsOfSessionsAreDense(t *testing.T) {
	r := newSessionRig(t, true)
	p := &primProgram{in: []SessionPort{port("x", 2, 2)},
		out: []SessionPort{port("a", 2, 2), port("b", 2, 2), port("c", 2, 2)}, f: func(s *lazy.Session, x []op.Val) []op.Val {
			y := prim.Neg(s, x[0])
			return []op.Val{prim.Transpose(s, y, 0, 1), x[0], y}
		}}
	s, err := r.e.newSession(p, SessionOptions{})
	require.Nil(t, err)
	got, out := [3][4]float32{}, make([]SessionValue, 3)
	_, err = s.Run([]SessionValue{value("x", []float32{1, 2, 3, 4}, 2, 2)}, out,
		func(k int, _ int64) unsafe.Pointer { return unsafe.Pointer(&got[k]) })
	require.Nil(t, err)
	assert.Equal(t, [3][4]float32{{-1, -3, -2, -4}, {1, 2, 3, 4}, {-1, -2, -3, -4}}, got)
	assert.Equal(t, "b", nameOf(&out[1]))
}

// A result that only constants decide is written at each run, like others.
func TestResultsMayBeConstant(t *testing.T) {
	r := newSessionRig(t, true)
	w := r.floats(nil, 1, 2)
	p := &primProgram{in: []SessionPort{port("x", 2)}, out: []SessionPort{port("a", 2), port("b", 2), port("c", 2)},
		f: func(s *lazy.Session, x []op.Val) []op.Val {
			y := prim.Neg(s, prim.Exp(s, prim.Sub(s, r.val(w), r.val(w))))
			return []op.Val{y, prim.Zeros(s, ir.F32, ir.CPU, []int64{2}), prim.Add(s, x[0], y)}
		}}
	s, err := r.e.newSession(p, SessionOptions{})
	require.Nil(t, err)
	for range 2 {
		got, out := [3][2]float32{{9, 9}, {9, 9}}, make([]SessionValue, 3)
		_, err = s.Run([]SessionValue{value("x", []float32{1, 2}, 2)}, out,
			func(k int, _ int64) unsafe.Pointer { return unsafe.Pointer(&got[k]) })
		require.Nil(t, err)
		assert.Equal(t, [3][2]float32{{-1, -1}, {0, 0}, {0, 1}}, got)
	}
}
