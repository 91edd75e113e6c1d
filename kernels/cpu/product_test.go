package cpu_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/launch"
)

// Rows of the second operand that are read in place: in several blocks of the depth, whole, with and without others
// between them. Each instruction set gives the same result for any number of threads.
func TestProductsByRowsOfTheSecondOperand(t *testing.T) {
	for _, dt := range []ir.DType{ir.F32, ir.F64} {
		for _, s := range []struct{ m, n, k, apart int64 }{
			{7, 391, 2100, 0}, {31, 500, 300, 0}, {31, 500, 300, 9}, {33, 420, 270, 0}, {3, 390, 64, 0},
			{1, 301, 768, 0}, {1, 70, 1000, 30}, {1, 9, 5000, 0}, {1, 6, 13, 1}, {259, 40, 300, 0},
		} {
			if testing.Short() && s.m*s.n*s.k > 2e6 {
				continue
			}
			what := fmt.Sprintf("%v %+v", dt, s)
			g := &launch.Gemm{Type: dt}
			stride := s.k + s.apart
			bufs := [][]byte{data(dt, s.m*s.k), data(dt, s.n*stride), make([]byte, s.m*s.n*int64(dt.Size()))}
			par := sizes(s.m, s.n, s.k, s.k, 1, 0, 1, stride, 0)
			want := copies(bufs)
			require.NoError(t, launch.InterpretGemm(g, par, want))
			for _, isa := range instructionSets() {
				sameOnThreads(t, isa, g, par, bufs, want[2], what)
			}
		}
	}
}

// sameOnThreads requires the bits of a product to be the same on one thread and on three, near to want, and returns it.
func sameOnThreads(
	t *testing.T, isa string, g *launch.Gemm, par []uint64, bufs [][]byte, want []byte, what string,
) []byte {
	t.Helper()
	one := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 1}), g, par, bufs)
	// The error of a sum grows with the root of its terms.
	root := math.Sqrt(float64(par[2]))
	same(t, g.Type, want, one, map[ir.DType]float64{ir.F32: 1e-5, ir.F64: 1e-13}[g.Type]*root, what+" "+isa)
	three := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 3}), g, par, bufs)
	require.Equal(t, one, three, "%s %s", what, isa)
	return one
}

// Panels of the second operand that their first tile packs: whole ones and one that is not, several blocks of the
// depth, rows near and far from each other. The bits are those of six rows, which pack nothing, and of any number of
// threads.
func TestProductsOfRowsThatPackPanels(t *testing.T) {
	for _, dt := range []ir.DType{ir.F32, ir.F64} {
		for _, s := range []struct {
			m, n, k, stride int64
			turned          bool
		}{
			{31, 100, 300, 100, false}, {31, 100, 300, 100, true}, {7, 64, 520, 75, false}, {13, 128, 270, 1024, false},
			{100, 70, 65, 70, true}, {6, 64, 70, 64, false}, {192, 48, 40, 50, true},
		} {
			what := fmt.Sprintf("%v %+v", dt, s)
			g := &launch.Gemm{Type: dt}
			bufs := [][]byte{data(dt, s.m*s.k), data(dt, s.k*s.stride), make([]byte, s.m*s.n*int64(dt.Size()))}
			am, ak := s.k, int64(1)
			if s.turned {
				am, ak = 1, s.m
			}
			par := sizes(s.m, s.n, s.k, am, ak, 0, s.stride, 1, 0)
			want := copies(bufs)
			require.NoError(t, launch.InterpretGemm(g, par, want))
			for _, isa := range instructionSets() {
				one := sameOnThreads(t, isa, g, par, bufs, want[2], what)
				few := sizes(6, s.n, s.k, am, ak, 0, s.stride, 1, 0) // read in place: nothing is packed
				first := [][]byte{bufs[0], bufs[1], make([]byte, 6*s.n*int64(dt.Size()))}
				rows := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 1}), g, few, first)
				require.Equal(t, rows, one[:len(rows)], "%s %s", what, isa)
			}
		}
	}
}
