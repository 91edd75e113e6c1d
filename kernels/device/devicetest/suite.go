package devicetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// timeout bounds every wait of the suite.
const timeout = 60 * time.Second

// Run runs the suite. open makes a device; the suite closes it.
func Run(t *testing.T, open func() device.Device) {
	d := open()
	t.Cleanup(d.Close)
	s := &suite{d: d}
	for _, c := range []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"Caps", (*suite).caps},
		{"Transfer", (*suite).transfer},
		{"TransferRange", (*suite).transferRange},
		{"Steps", (*suite).copySteps},
		{"Map", (*suite).elementwise},
		{"Broadcast", (*suite).broadcast},
		{"Transpose", (*suite).transpose},
		{"Reduce", (*suite).reduce},
		{"LongRows", (*suite).longRows},
		{"Rows", (*suite).softmax},
		{"Prefix", (*suite).prefix},
		{"Index", (*suite).index},
		{"ScatterAdd", (*suite).scatterAdd},
		{"Random", (*suite).random},
		{"Functions", (*suite).functions},
		{"Gemm", (*suite).gemm},
		{"GemmSums", (*suite).gemmSums},
		{"GemmPrologues", (*suite).gemmPrologues},
		{"Attention", (*suite).attention},
		{"AttentionAppends", (*suite).attentionAppends},
		{"Sort", (*suite).sorts},
		{"Faults", (*suite).faults},
		{"Replay", (*suite).replay},
		{"Offsets", (*suite).offsets},
		{"Programs", (*suite).programs},
		{"Release", (*suite).release},
		{"BigGrid", (*suite).bigGrid},
		{"Empty", (*suite).empty},
		{"Ordering", (*suite).ordering},
		{"InFlight", (*suite).inFlight},
		{"Interrupt", (*suite).interrupt},
		{"Errors", (*suite).errors},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(s, t) })
	}
}

type suite struct{ d device.Device }

// supports reports that the device has every dtype that a kernel uses.
func (s *suite) supports(k *loopir.Kernel) bool {
	for _, b := range k.Bufs {
		if s.d.Caps().Storage[b.Type] == 0 {
			return false
		}
	}
	for _, e := range k.Exprs {
		if s.d.Caps().Storage[e.Type] == 0 {
			return false
		}
	}
	n := len(k.Bufs)
	if k.Checks {
		n++
	}
	return n <= s.d.Caps().MaxStorageBuffers
}

// limits are the limits of random kernels.
func (s *suite) limits() kerneltest.Limits {
	return kerneltest.Limits{F64: s.d.Caps().Storage[ir.F64] != 0, Small: s.d.Caps().Storage[ir.I64] != 8}
}

// alloc makes a buffer of n elements of t.
func (s *suite) alloc(t *testing.T, d ir.DType, n int) device.Buffer {
	b, err := s.d.Alloc(int64(n * s.d.Caps().Storage[d]))
	require.NoError(t, err)
	t.Cleanup(func() { s.d.Free(b) })
	return b
}

// put makes a buffer with data.
func (s *suite) put(t *testing.T, d ir.DType, data []byte) device.Buffer {
	b := s.alloc(t, d, len(data)/d.Size())
	require.NoError(t, s.d.Upload(b, d, 0, data))
	return b
}

func (s *suite) get(t *testing.T, b device.Buffer, d ir.DType, n int) []byte {
	out := make([]byte, n*d.Size())
	require.NoError(t, s.d.Read(b, d, 0, out))
	return out
}

// launchStep is a step of op over slots 0, 1, 2, ... with constant parameters.
func launchStep(op launch.Op, params []uint64) device.Step {
	st := device.Step{Op: op}
	for i := range op.Buffers() {
		st.Bufs = append(st.Bufs, i)
	}
	for _, p := range params {
		st.Params = append(st.Params, device.Param{Bits: p})
	}
	return st
}

// run builds and runs steps over bufs, and waits.
func (s *suite) run(t *testing.T, steps []device.Step, bufs ...device.Buffer) {
	p, err := s.d.Build(steps, len(bufs))
	require.NoError(t, err)
	defer p.Release()
	f, err := s.d.Run(p, &device.Binding{Bufs: bufs})
	require.NoError(t, err)
	require.NoError(t, s.d.Wait(f, timeout, nil))
	require.True(t, s.d.Done(f))
}

// check runs a case on the device and on the interpreter, and compares all buffers that the kernel may write.
func (s *suite) check(t *testing.T, c *kerneltest.Case, rtol, atol float64) {
	t.Helper()
	if s.d.Caps().Storage[ir.I64] == 4 {
		narrow(c)
	}
	want, got := c.Copy(), c.Copy()
	fault, err := loopir.Interpret(c.Kernel, want.Params, want.Bufs)
	require.NoError(t, err)
	bufs := make([]device.Buffer, len(c.Bufs))
	for i, b := range c.Kernel.Bufs {
		bufs[i] = s.put(t, b.Type, got.Bufs[i])
	}
	s.run(t, []device.Step{launchStep(c.Kernel, c.Params)}, bufs...)
	for i, b := range c.Kernel.Bufs {
		got.Bufs[i] = s.get(t, bufs[i], b.Type, len(want.Bufs[i])/b.Type.Size())
	}
	require.NoError(t, kerneltest.Close(c.Kernel, got.Bufs, want.Bufs, rtol, atol), "kernel %s, parameters %v",
		c.Kernel.Name, c.Params)
	// Which of several failing elements is reported depends on the threads.
	_, found, err := s.d.TakeFault()
	require.NoError(t, err)
	require.Equal(t, fault.Failed, found)
}

// narrow takes int64 data, and the fill of outputs, into the range of 32 bits.
func narrow(c *kerneltest.Case) {
	for i, b := range c.Kernel.Bufs {
		if b.Type != ir.I64 {
			continue
		}
		for e := int64(0); e < int64(len(c.Bufs[i])/8); e++ {
			loopir.StoreBits(ir.I64, c.Bufs[i], e, uint64(int64(int32(loopir.LoadBits(ir.I64, c.Bufs[i], e)))))
		}
	}
}

func requireCode(t *testing.T, err error, code ir.Code) {
	t.Helper()
	var e *ir.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, e.Msg)
}

// caught runs f and returns the value that it panicked with.
func caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}
