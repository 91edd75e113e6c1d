package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/launch"
)

// Products with one row whose columns are windows of an image, one or two elements apart: lines shorter than a vector,
// of whole vectors, and of whole vectors with some columns left. The last window ends where the buffer does.
func TestSumsOverWindows(t *testing.T) {
	for _, dt := range []ir.DType{ir.F32, ir.F64} {
		for _, s := range []struct{ wide, high, kernel, step int64 }{
			{1, 1, 1, 1}, {3, 2, 3, 1}, {7, 7, 3, 1}, {14, 3, 5, 1}, {28, 2, 3, 1}, {67, 3, 3, 1}, {112, 2, 3, 1},
			{1, 2, 3, 2}, {3, 2, 2, 2}, {7, 7, 3, 2}, {14, 3, 5, 2}, {16, 1, 1, 2}, {28, 2, 3, 2}, {64, 1, 1, 2},
			{67, 3, 3, 2}, {112, 2, 3, 2},
		} {
			what := fmt.Sprintf("%v %+v", dt, s)
			g := &launch.Gemm{Type: dt, KDims: 2, NDims: 2}
			n, k := s.wide*s.high, s.kernel*s.kernel
			line := (s.wide-1)*s.step + s.kernel
			lines := (s.high-1)*s.step + s.kernel
			bufs := [][]byte{data(dt, k), data(dt, line*lines), make([]byte, n*int64(dt.Size()))}
			par := sizes(1, n, k, k, 0, 0, 0, 0, 0, s.kernel, s.kernel, s.kernel, 1, line, 1, s.high, s.wide, line*s.step,
				s.step)
			want := copies(bufs)
			require.NoError(t, launch.InterpretGemm(g, par, want))
			for _, isa := range instructionSets() {
				one := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 1}), g, par, bufs)
				same(t, dt, want[2], one, map[ir.DType]float64{ir.F32: 1e-5, ir.F64: 1e-12}[dt], what+" "+isa)
				three := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 3}), g, par, bufs)
				require.Equal(t, one, three, "%s %s", what, isa)
			}
		}
	}
}
