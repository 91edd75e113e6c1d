package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// prepared builds l as a program with its binding; scalars and offsets are constants.
func prepared(t testing.TB, d *cpu.Device, l launchOne) (device.Program, *device.Binding, func()) {
	t.Helper()
	step := device.Step{Op: l.k}
	bind := &device.Binding{}
	for i, b := range l.bufs {
		x, err := d.Alloc(int64(len(b)))
		require.NoError(t, err)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, x)
	}
	for _, v := range l.par {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, len(l.bufs))
	require.NoError(t, err)
	return p, bind, func() {
		p.Release()
		for _, b := range bind.Bufs {
			d.Free(b)
		}
	}
}

func unaryMap(n int64, f func(b *loopir.Builder, x int) int) launchOne {
	b := loopir.NewBuilder("unary", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, f(b, x))
	return launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{data(ir.F32, n), make([]byte, 4*n)}}
}

func addMap(n int64) launchOne {
	b := loopir.NewBuilder("add", 1, 0)
	x, y := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1)), b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(x, y))
	return launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{data(ir.F32, n), data(ir.F32, n), make([]byte, 4*n)}}
}

func un(op loopir.Op) func(*loopir.Builder, int) int {
	return func(b *loopir.Builder, x int) int { return b.Un(op, x) }
}

// chain is the chain of eight operations in docs/performance.md.
func chain(b *loopir.Builder, x int) int {
	v := x
	for i := range 4 {
		v = b.Add(b.Mul(v, b.Float(ir.F32, 1.01+float64(i))), x)
	}
	return v
}

// normKernel is layer norm over rows, with a factor and a summand for each column.
func normKernel(n0, n1 int64) launchOne {
	b := loopir.NewBuilder("norm", 1, 1)
	x, y := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1)), b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	w, c := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Broadcast, loopir.Unit)),
		b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Broadcast, loopir.Unit))
	n := b.Cast(ir.F32, b.Param(1))
	b.Each()
	centred := b.Sub(x, b.Div(b.Acc(b.Reduce(loopir.Sum, x)), n))
	b.Each()
	variance := b.Div(b.Acc(b.Reduce(loopir.Sum, b.Mul(centred, centred))), n)
	r := b.Div(b.Float(ir.F32, 1), b.Un(loopir.OpSqrt, b.Add(variance, b.Float(ir.F32, 1e-5))))
	b.Each()
	b.Store(y, b.Fma(b.Mul(centred, r), w, c))
	return launchOne{k: b.Kernel(), par: sizes(n0, n1), bufs: [][]byte{data(ir.F32, n0*n1), make([]byte, 4*n0*n1),
		data(ir.F32, n1), data(ir.F32, n1)}, tol: 1e-5}
}

func BenchmarkKernels(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, c := range []struct {
			name string
			l    launchOne
		}{
			{"add4", addMap(4)}, {"add1K", addMap(1024)}, {"add256K", addMap(1 << 18)}, {"add16M", addMap(1 << 24)},
			{"exp256K", unaryMap(1<<18, un(loopir.OpExp))}, {"log256K", unaryMap(1<<18, un(loopir.OpLog))},
			{"tanh256K", unaryMap(1<<18, un(loopir.OpTanh))},
			{"erf256K", unaryMap(1<<18, un(loopir.OpErf))}, {"sin256K", unaryMap(1<<18, un(loopir.OpSin))},
			{"chain256K", unaryMap(1<<18, chain)}, {"chain4K", unaryMap(1<<12, chain)},
			{"softmax1024x768", softmaxKernel(1024, 768, false, false)}, {"softmax64Kx8", softmaxKernel(1<<16, 8, false, false)},
			{"sumrows1024x1024", reduceKernel(loopir.Sum, ir.F32, "rows", 1024, 1024)},
			{"sumrows256Kx4", reduceKernel(loopir.Sum, ir.F32, "rows", 1<<18, 4)},
			{"sumcols1024x1024", reduceKernel(loopir.Sum, ir.F32, "columns", 1024, 1024)},
			{"sumcols8x128K", reduceKernel(loopir.Sum, ir.F32, "columns", 8, 1<<17)},
			{"sum16M", reduceKernel(loopir.Sum, ir.F32, "rows", 1, 1<<24)},
			{"argmax1024x1024", reduceKernel(loopir.ArgMax, ir.F32, "rows", 1024, 1024)},
			{"maxrows4Kx4K", reduceKernel(loopir.Max, ir.F32, "rows", 4096, 4096)},
			{"sumrows4Kx4K", reduceKernel(loopir.Sum, ir.F32, "rows", 4096, 4096)},
			{"argmaxcols4Kx4K", reduceKernel(loopir.ArgMax, ir.F32, "columns", 4096, 4096)},
			{"norm256x768", normKernel(256, 768)}, {"norm4096x768", normKernel(4096, 768)},
			{"cumsum1M", scanKernel(loopir.Sum, ir.F32, 1, 1<<20)}, {"cummax1M", scanKernel(loopir.Max, ir.F32, 1, 1<<20)},
			{"cummax1M_i64", scanKernel(loopir.Max, ir.I64, 1, 1<<20)}, {"logcumsumexp1M", scanKernel(loopir.LogSum, ir.F32, 1,
				1<<20)},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, threads), func(b *testing.B) {
				d := newDevice(b, cpu.Options{Threads: threads})
				p, bind, done := prepared(b, d, c.l)
				defer done()
				n := 0
				for _, x := range c.l.bufs {
					n += len(x)
				}
				b.SetBytes(int64(n))
				for b.Loop() {
					_, _ = d.Run(p, bind)
				}
			})
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, s := range []struct {
			m, n, k    int64
			transposed bool
		}{{64, 64, 64, false}, {128, 128, 128, false}, {512, 512, 512, false}, {1024, 1024, 1024, false},
			{1024, 1024, 1024, true}, {31, 768, 768, false}, {31, 768, 768, true}, {512, 3072, 768, true}, {1, 768, 3072, false},
			{1, 768, 3072, true}} {
			b.Run(fmt.Sprintf("%dx%dx%d_%v/%d", s.m, s.n, s.k, s.transposed, threads), func(b *testing.B) {
				d := newDevice(b, cpu.Options{Threads: threads})
				bk, bn := s.n, int64(1)
				if s.transposed {
					bk, bn = 1, s.k
				}
				step := device.Step{Op: &launch.Gemm{Type: ir.F32}, Bufs: []int{0, 1, 2}}
				for _, v := range []int64{s.m, s.n, s.k, s.k, 1, 0, bk, bn, 0} {
					step.Params = append(step.Params, device.Const(v))
				}
				bind := &device.Binding{}
				for _, n := range []int64{s.m * s.k, s.k * s.n, s.m * s.n} {
					x, err := d.Alloc(4 * n)
					require.NoError(b, err)
					require.NoError(b, d.Upload(x, ir.F32, 0, data(ir.F32, n)))
					defer d.Free(x)
					bind.Bufs = append(bind.Bufs, x)
				}
				p, err := d.Build([]device.Step{step}, 3)
				require.NoError(b, err)
				defer p.Release()
				for b.Loop() {
					_, _ = d.Run(p, bind)
				}
				b.ReportMetric(float64(2*s.m*s.n*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
