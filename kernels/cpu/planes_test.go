package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Windows over the border of pictures, with zeros there: lines shorter than a vector and longer, less than four of
// them, windows that lie outside altogether, cropped pictures, windows one to three elements apart, terms one and two
// apart. Five pictures follow each other in memory; their results do, or lie apart. The epilogue has an operand for
// each picture. Threads and machine code do not show.
func TestSumsOverPaddedPictures(t *testing.T) {
	type line struct{ size, kernel, step, gap, front, out int64 }
	three := func(size, step int64) line { return line{size, 3, step, 1, 1, (size-1)/step + 1} }
	for _, dt := range []ir.DType{ir.F32, ir.F64} {
		for i, s := range [][2]line{
			{three(7, 1), three(7, 1)}, {three(14, 1), three(14, 1)}, {three(9, 2), three(67, 2)}, {three(8, 2), three(14, 2)},
			{three(6, 1), three(112, 1)}, {three(2, 1), three(3, 1)}, {three(12, 3), three(19, 3)}, {three(3, 1), three(1, 1)},
			{{9, 5, 1, 1, 2, 9}, {20, 5, 1, 1, 2, 20}}, {{9, 3, 1, 2, 2, 9}, {21, 3, 2, 2, 2, 11}},
			{{2, 2, 2, 1, 4, 5}, {3, 2, 1, 1, 5, 12}}, {{9, 3, 1, 1, 1, 4}, {40, 3, 2, 1, 0, 7}},
		} {
			b, c, x, finish := launch.NewEpilogue(dt, dt)
			g := &launch.Gemm{Type: dt, Batch: 1, KDims: 2, NDims: 2, Padded: true, CStrided: true, Views: "m", RowDims: 1,
				Epilogue: finish(b.Bin(loopir.OpMax, b.Add(c, x[0]), b.Float(dt, 0)))}
			const pictures = 5
			h, w := s[0], s[1]
			n, k, size, apart := h.out*w.out, h.kernel*w.kernel, h.size*w.size, int64(i%2*3)
			par := sizes(pictures, 1, n, k, k, 0, 0, 0, size, 0, 0, 1, n+apart, n, 1, 0,
				h.kernel, w.kernel, w.kernel, 1, h.gap*w.size, w.gap, h.out, w.out, h.step*w.size, w.step,
				h.size, h.step, h.gap, h.front, w.size, w.step, w.gap, w.front, pictures, 1, 0, 1)
			bufs := [][]byte{data(dt, pictures*k), data(dt, 1+pictures*size), data(dt, 1+pictures),
				make([]byte, pictures*(n+apart)*int64(dt.Size()))}
			want := copies(bufs)
			require.NoError(t, launch.InterpretGemm(g, par, want))
			for _, isa := range instructionSets() {
				what := fmt.Sprintf("%s %v %+v", isa, dt, s)
				one := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 1, Hot: -1}), g, par, bufs)
				same(t, dt, want[3], one, map[ir.DType]float64{ir.F32: 1e-5, ir.F64: 1e-12}[dt], what)
				three := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 3, Hot: 1}), g, par, bufs)
				require.Equal(t, one, three, what)
			}
		}
	}
}
