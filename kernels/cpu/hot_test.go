package cpu

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// squares builds a program that computes x * x + x for n small floats on a device that makes code after hot
// operations. run runs it and returns the results.
func squares(t *testing.T, hot, n int64) (d *Device, p *program, run func() []byte) {
	t.Helper()
	b := loopir.NewBuilder("squares", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(b.Mul(x, x), x))
	d, err := New(Options{Threads: 1, Hot: hot})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	bind := &device.Binding{}
	for range 2 {
		m, err := d.Alloc(4 * n)
		require.NoError(t, err)
		bind.Bufs = append(bind.Bufs, m)
	}
	in := make([]byte, 4*n)
	for i := range n {
		loopir.StoreBits(ir.F32, in, i, ir.EncodeFloat(ir.F32, float64(i%1000)))
	}
	require.NoError(t, d.Upload(bind.Bufs[0], ir.F32, 0, in))
	built, err := d.Build([]device.Step{{Op: b.Kernel(), Bufs: []int{0, 1}, Params: []device.Param{device.Const(n)}}}, 2)
	require.NoError(t, err)
	return d, built.(*program), func() []byte {
		_, err := d.Run(built, bind)
		require.NoError(t, err)
		got := make([]byte, 4*n)
		require.NoError(t, d.Read(bind.Bufs[1], ir.F32, 0, got))
		for i := int64(0); i < n; i += 1 + n/1000 {
			x := float64(i % 1000)
			require.Equal(t, x*x+x, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got, i)))
		}
		return got
	}
}

// hasCode reports that the device's instruction set has machine code.
func hasCode(d *Device) bool { return d.hot >= 0 }

func TestKernelsGetMachineCodeWhenHot(t *testing.T) {
	for _, c := range []struct{ elements, runs int64 }{{1 << 19, 1}, {4, hotWork/callWork - 50}} {
		d, p, run := squares(t, 0, c.elements)
		f := p.codes[0]
		for range c.runs - 1 {
			run()
		}
		require.Nil(t, f.code.at, "%d elements, before", c.elements)
		for range 60 {
			run()
		}
		require.Equal(t, hasCode(d), f.code.at != nil, "%d elements, after", c.elements)
		p.Release()
		require.Nil(t, f.code.at, "code goes with its kernel")
	}
}

func TestNoCodeBelowZero(t *testing.T) {
	d, p, run := squares(t, -1, 1<<16)
	run()
	run()
	require.Zero(t, d.Stats()["kernels_machine_code"])
	p.Release()
}

// TestRefusedMemoryForCode: where the system maps no executable memory, block programs run on.
func TestRefusedMemoryForCode(t *testing.T) {
	held := mapCode
	defer func() { mapCode = held }()
	asked := 0
	mapCode = func([]byte) unsafe.Pointer { asked++; return nil }
	d, p, run := squares(t, 1, 1000)
	for range 3 {
		run()
	}
	require.Zero(t, d.Stats()["kernels_machine_code"])
	if hasCode(d) {
		require.Equal(t, 1, asked, "a refused kernel is not tried again")
	}
	p.Release()
}

// TestCodeIsNeverWritable: no memory of the process is writable and executable, and code is executable.
func TestCodeIsNeverWritable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads the list of mappings of Linux")
	}
	d, p, run := squares(t, 1, 1000)
	defer p.Release()
	run()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	at, found := uint64(uintptr(p.codes[0].code.at)), false
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var access string
		_, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access)
		require.NoError(t, err)
		assert.False(t, strings.Contains(access, "w") && strings.Contains(access, "x"), line)
		found = found || from <= at && at < to && strings.HasPrefix(access, "r-x")
	}
	require.Equal(t, hasCode(d), found)
}

// An epilogue's heat counts the elements of its product, not those of its plan.
func TestEpiloguesGetHotByElements(t *testing.T) {
	for n, hot := range map[int64]bool{16: false, 1024: true} {
		b, c, x, finish := launch.NewEpilogue(ir.F32, ir.F32)
		g := &launch.Gemm{Type: ir.F32, Epilogue: finish(b.Add(b.Mul(c, x[0]), x[0]))}
		d, err := New(Options{Threads: 1})
		require.NoError(t, err)
		step, bind := device.Step{Op: g}, &device.Binding{}
		for i, size := range []int64{n, n, n * n, n * n} {
			m, err := d.Alloc(4 * size)
			require.NoError(t, err)
			require.NoError(t, d.Upload(m, ir.F32, 0, make([]byte, 4*size)))
			step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, m)
		}
		for _, v := range []int64{n, n, 1, 1, 1, 0, n, 1, 0} {
			step.Params = append(step.Params, device.Const(v))
		}
		p, err := d.Build([]device.Step{step}, 4)
		require.NoError(t, err)
		_, err = d.Run(p, bind)
		require.NoError(t, err)
		require.Equal(t, hot && hasCode(d), p.(*program).codes[0].code.at != nil, "%d by %d elements", n, n)
		p.Release()
		d.Close()
	}
}

// Machine code of an epilogue reads an operand with one element for each row once a row, if a row is one call: with an
// exponential, which has no machine code, a call takes the elements of several rows.
func TestEpiloguesReadTheElementOfARowOnce(t *testing.T) {
	for _, exp := range []bool{false, true} {
		b, c, x, finish := launch.NewEpilogue(ir.F32, ir.F32)
		v := b.Add(b.Mul(c, x[0]), x[0])
		if exp {
			v = b.Add(b.Un(loopir.OpExp, v), x[0])
		}
		const m, n = 5, 20
		g := &launch.Gemm{Type: ir.F32, Epilogue: finish(v), Views: "m", RowDims: 1}
		in := [][]byte{make([]byte, 4*m), make([]byte, 4*n), make([]byte, 4*m), make([]byte, 4*m*n)}
		for i := range int64(m) {
			loopir.StoreBits(ir.F32, in[0], i, ir.EncodeFloat(ir.F32, float64(i)))
			loopir.StoreBits(ir.F32, in[2], i, ir.EncodeFloat(ir.F32, float64(3-i)))
		}
		for i := range int64(n) {
			loopir.StoreBits(ir.F32, in[1], i, ir.EncodeFloat(ir.F32, float64(i)/16))
		}
		par := []uint64{m, n, 1, 1, 1, 0, n, 1, 0, m, 1, 0, 0}
		var got [2][]byte
		for hot := range got {
			d, err := New(Options{Threads: 1, Hot: int64(2*hot - 1)})
			require.NoError(t, err)
			step, bind := device.Step{Op: g}, &device.Binding{}
			for i, b := range in {
				x, err := d.Alloc(int64(len(b)))
				require.NoError(t, err)
				require.NoError(t, d.Upload(x, ir.F32, 0, b))
				step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, x)
			}
			for _, v := range par {
				step.Params = append(step.Params, device.Const(int64(v)))
			}
			p, err := d.Build([]device.Step{step}, 4)
			require.NoError(t, err)
			for range 2 {
				_, err = d.Run(p, bind)
				require.NoError(t, err)
			}
			got[hot] = make([]byte, 4*m*n)
			require.NoError(t, d.Read(bind.Bufs[3], ir.F32, 0, got[hot]))
			f := p.(*program).codes[0]
			require.Equal(t, uint8(2), f.key.once)
			if hot == 1 && hasCode(d) {
				assert.Equal(t, !exp, f.readsOnce, "exponential: %v", exp)
			}
			p.Release()
			d.Close()
		}
		require.Equal(t, got[0], got[1])
		want := copyAll(in)
		require.NoError(t, launch.InterpretGemm(g, par, want))
		for i := range int64(m * n) {
			w := ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, want[3], i))
			require.InDelta(t, w, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got[1], i)), 1e-5*(1+max(w, -w)))
		}
	}
}

func copyAll(b [][]byte) (c [][]byte) {
	for _, x := range b {
		c = append(c, append([]byte{}, x...))
	}
	return c
}
