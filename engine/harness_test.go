package engine

import (
	"math"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/composite"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// rig is an engine on the interpreter device, called as capi calls it.
type rig struct {
	t         *testing.T
	e         *Engine
	dev       *reference.Device
	sourceLoc uint32
}

// T is a tensor of a rig.
type T uint64

func newRig(t *testing.T) *rig {
	runtime.LockOSThread() // the execution lock identifies callers by their thread
	t.Cleanup(runtime.UnlockOSThread)
	r := &rig{t: t, dev: reference.New()}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return r.dev, nil }})
	r.e.planner.verify = true
	return r
}

// floats makes a float32 tensor.
func (r *rig) floats(shape []int64, v ...float32) T {
	if shape == nil {
		shape = []int64{int64(len(v))}
	}
	return r.data(ir.F32, shape, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v)))
}

// ints makes an int64 tensor.
func (r *rig) ints(v ...int64) T {
	return r.data(ir.I64, []int64{int64(len(v))}, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 8*len(v)))
}

func (r *rig) data(d ir.DType, shape []int64, b []byte) T {
	var o Out
	err := r.e.FromData(d, 0, shape, b, false, 0, &o)
	require.Nil(r.t, err)
	return T(o.Handle)
}

// grad makes x require grad.
func (r *rig) grad(x T) T {
	require.Nil(r.t, r.e.SetRequiresGrad(uint64(x), true))
	return x
}

// read returns the values of a float32 tensor.
func (r *rig) read(x T) []float32 {
	v, err := r.tryRead(x)
	require.Nil(r.t, err)
	return v
}

func (r *rig) tryRead(x T) ([]float32, *ir.Error) {
	m, err := r.e.Meta(uint64(x))
	if err != nil {
		return nil, err
	}
	v := make([]float32, ir.Numel(m.Shape))
	for {
		pending, err := r.e.Force(uint64(x), 1e9)
		if err != nil {
			return nil, err
		}
		if !pending {
			break
		}
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
	if len(v) == 0 {
		b = nil
	}
	return v, r.e.Read(uint64(x), b)
}

// readOnly returns n values of a float32 tensor that a Read computes, without a Force before it.
func (r *rig) readOnly(x T, n int) []float32 {
	v := make([]float32, n)
	require.Nil(r.t, r.e.Read(uint64(x), unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*n)))
	return v
}

// do calls an operator; see call.
func (r *rig) do(full string, args ...any) T {
	o, err := r.call(0, full, args...)
	require.Nil(r.t, err, "%s: %v", full, err)
	return o[0]
}

// inplace calls the in-place form of an operator.
func (r *rig) inplace(full string, args ...any) {
	_, err := r.call(1, full, args...)
	require.Nil(r.t, err, "%s: %v", full, err)
}

// call encodes args by the signature: T, []T, float64, int, bool, []int64, nil; missing args take their defaults.
func (r *rig) call(mode uint8, full string, args ...any) ([]T, *ir.Error) {
	d := op.DefNamed(full)
	c := Call{Op: d.ID, Mode: mode, SourceLoc: r.sourceLoc}
	for i := range d.Parsed.Params {
		p := &d.Parsed.Params[i]
		var a any
		if i < len(args) {
			a = args[i]
		} else {
			a = literal(p)
		}
		encodeArg(&c, p, a)
	}
	var outs [8]Out
	n, err := r.e.Op(&c, outs[:])
	if err != nil {
		return nil, err
	}
	var res []T
	for _, o := range outs[:n] {
		res = append(res, T(o.Handle))
	}
	return res, nil
}

// literal parses a parameter's default.
func literal(p *op.Param) any {
	switch p.Default {
	case "None", "":
		return nil
	case "True":
		return true
	case "False":
		return false
	case "()":
		return []int64{}
	}
	if f, err := strconv.ParseFloat(p.Default, 64); err == nil {
		if p.Type == "int" || p.Type == "Scalar" && f == math.Trunc(f) {
			return int(f)
		}
		return f
	}
	for i, w := range p.Words {
		if "'"+w+"'" == p.Default || "\""+w+"\"" == p.Default || w == p.Default {
			return i
		}
	}
	return nil
}

func encodeArg(c *Call, p *op.Param, a any) {
	number := func(v any) Scalar {
		switch x := v.(type) {
		case float64:
			return Scalar{Kind: op.ScalarFloat, Bits: math.Float64bits(x)}
		case int:
			return Scalar{Kind: op.ScalarInt, Bits: uint64(int64(x))}
		}
		return Scalar{}
	}
	switch p.Type {
	case "Tensor", "Operand":
		switch x := a.(type) {
		case T:
			c.In = append(c.In, uint64(x))
		case []T:
			c.Ints = append(c.Ints, int64(len(x)))
			for _, t := range x {
				c.In = append(c.In, uint64(t))
			}
		case nil:
			c.In = append(c.In, 0)
		default:
			c.In = append(c.In, dispatch.ScalarOperand)
			c.Scalars = append(c.Scalars, number(x))
		}
	case "float", "Scalar":
		c.Scalars = append(c.Scalars, number(a))
	default:
		encodeInts(c, p, a)
	}
}

func encodeInts(c *Call, p *op.Param, a any) {
	if p.List {
		switch x := a.(type) {
		case []int64:
			c.Ints = append(append(c.Ints, int64(len(x))), x...)
		case int:
			c.Ints = append(c.Ints, 1, int64(x))
		default:
			c.Ints = append(c.Ints, -1)
		}
		return
	}
	v := int64(0)
	switch x := a.(type) {
	case int:
		v = int64(x)
	case bool:
		if x {
			v = 1
		}
	case nil:
		if p.Type == "device" || p.Type == "str" {
			v = -1
		}
	}
	if p.Opt && (p.Type == "int" || p.Type == "bool") {
		given := int64(1)
		if a == nil {
			given = 0
		}
		c.Ints = append(c.Ints, given)
	}
	c.Ints = append(c.Ints, v)
}

// backward runs a whole walk without hooks.
func (r *rig) backward(x T, flags uint32) *ir.Error {
	id, err := r.e.Backward([]uint64{uint64(x)}, nil, nil, flags|AccumulateGrad)
	if err != nil {
		return err
	}
	var ev BackwardEvent
	return r.e.BackwardNext(id, 0, &ev)
}

// gradOf returns the values of a grad.
func (r *rig) gradOf(x T) []float32 {
	var o Out
	has, err := r.e.Grad(uint64(x), &o)
	require.Nil(r.t, err)
	require.True(r.t, has, "no grad")
	v := r.read(T(o.Handle))
	r.e.Release([]uint64{o.Handle})
	return v
}

func (r *rig) drop(xs ...T) {
	for _, x := range xs {
		r.e.Release([]uint64{uint64(x)})
	}
}

// step is mark_step.
func (r *rig) step() *ir.Error {
	for {
		pending, err := r.e.MarkStep(1e9)
		if !pending {
			return err
		}
	}
}

// stat reads a counter.
func (r *rig) stat(name string) int64 { return r.e.counts()[name] }
