package cpu_test

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
)

// Convolutions with packed weights, as sessions run them. least-us is the time of the fastest run, in which other
// programs of the machine show least.
func BenchmarkConvolutions(b *testing.B) {
	for _, s := range []picture{
		{1, 64, 3, 7, 2, 112}, {1, 64, 64, 3, 1, 56}, {1, 128, 64, 3, 2, 28}, {1, 128, 128, 3, 1, 28},
		{1, 256, 256, 3, 1, 14}, {1, 512, 512, 3, 1, 7}, {1, 32, 3, 3, 2, 112}, {1, 16, 32, 1, 1, 112},
		{1, 96, 16, 1, 1, 112}, {1, 24, 96, 1, 1, 56}, {1, 144, 24, 1, 1, 56}, {1, 24, 144, 1, 1, 56}, {1, 32, 192, 1, 1, 28},
		{1, 192, 32, 1, 1, 28}, {1, 384, 64, 1, 1, 14}, {1, 96, 576, 1, 1, 14}, {1, 160, 960, 1, 1, 7},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%+v/%d", s, threads), func(b *testing.B) {
				g, par, bufs := s.product(ir.F32)
				if s.kernel*s.step == 1 {
					g, par, bufs = s.matrices(ir.F32)
				}
				d := newDevice(b, cpu.Options{Threads: threads, Hot: 1})
				step, bind := device.Step{Op: g}, device.Binding{}
				for i, x := range bufs {
					w := d.NewWindow()
					w.Set(unsafe.Pointer(unsafe.SliceData(x)), int64(len(x)))
					step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, w)
				}
				for _, v := range par {
					step.Params = append(step.Params, device.Const(int64(v)))
				}
				p, err := d.Build([]device.Step{step}, len(bufs))
				require.NoError(b, err)
				defer p.Release()
				require.NoError(b, d.Pack(p, &bind, &constants{bind: &bind, slots: []int{0, 2}}))
				least := time.Hour
				for b.Loop() {
					begin := time.Now()
					_, _ = d.Run(p, &bind)
					least = min(least, time.Since(begin))
				}
				b.ReportMetric(float64(least.Nanoseconds())/1000, "least-us")
			})
		}
	}
}
