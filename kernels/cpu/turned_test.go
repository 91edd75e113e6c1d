package cpu_test

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// picture is a convolution of a batch: rows of weights times windows of square images.
type picture struct{ batch, rows, channels, kernel, step, out int64 }

// product returns the product, whose epilogue adds a number for each row and drops what is negative, and its buffers:
// weights, images, numbers, result.
func (s picture) product(dt ir.DType) (*launch.Gemm, []uint64, [][]byte) {
	b, c, x, finish := launch.NewEpilogue(dt, dt)
	e := finish(b.Bin(loopir.OpMax, b.Add(c, x[0]), b.Float(dt, 0)))
	g := &launch.Gemm{Type: dt, Batch: 1, KDims: 3, NDims: 2, Epilogue: e, Views: "m", RowDims: 2}
	in := (s.out-1)*s.step + s.kernel
	n, k, taps := s.out*s.out, s.channels*s.kernel*s.kernel, s.kernel*s.kernel
	par := sizes(s.batch, s.rows, n, k, 0, k, 1, 0, s.channels*in*in, 0, 0, 0,
		s.channels, s.kernel, s.kernel, taps, s.kernel, 1, in*in, in, 1, s.out, s.out, in*s.step, s.step,
		s.batch, s.rows, 0, 1, 0, 0)
	return g, par, [][]byte{data(dt, s.rows*k), data(dt, s.batch*s.channels*in*in), data(dt, s.rows),
		make([]byte, s.batch*s.rows*n*int64(dt.Size()))}
}

// matrices is the plain product that a picture with windows of one element is.
func (s picture) matrices(dt ir.DType) (*launch.Gemm, []uint64, [][]byte) {
	g, _, bufs := s.product(dt)
	n := s.out * s.out
	g.KDims, g.NDims = 0, 0
	return g, sizes(s.batch, s.rows, n, s.channels, 0, s.channels, 1, 0, s.channels*n, n, 1, 0, s.batch, s.rows, 0, 1, 0,
		0), bufs
}

// runTwice runs g on a device that has packed the weights, and then cleared them. The second run has machine code where
// the device makes it at once.
func runTwice(t *testing.T, o cpu.Options, g *launch.Gemm, par []uint64, bufs [][]byte) []byte {
	t.Helper()
	d := newDevice(t, o)
	bufs = copies(bufs)
	step, bind := device.Step{Op: g}, device.Binding{}
	for i, b := range bufs {
		w := d.NewWindow()
		w.Set(unsafe.Pointer(unsafe.SliceData(b)), int64(len(b)))
		step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, w)
	}
	for _, v := range par {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, len(bufs))
	require.NoError(t, err)
	defer p.Release()
	weights := &constants{bind: &bind, slots: []int{0, 2}}
	require.NoError(t, d.Pack(p, &bind, weights))
	require.Equal(t, []int{0}, weights.replaced, "the weights are packed")
	clear(bufs[0])
	for range 2 {
		_, err = d.Run(p, &bind)
		require.NoError(t, err)
	}
	return bufs[3]
}

// Convolutions with constant weights read them from their pack: lines shorter than a tile and longer, one or more of
// them in a tile, windows one, two and three elements apart, several blocks of the depth and of the positions.
func TestConvolutionsReadPackedWeights(t *testing.T) {
	for _, s := range []picture{
		{1, 24, 33, 1, 1, 7}, {2, 70, 290, 1, 1, 7}, {1, 41, 40, 3, 1, 5}, {3, 33, 8, 2, 1, 14}, {1, 32, 40, 1, 1, 20},
		{1, 30, 9, 3, 2, 8}, {2, 64, 70, 1, 2, 3}, {1, 25, 4, 3, 3, 9},
	} {
		for _, dt := range []ir.DType{ir.F32, ir.F64} {
			g, par, bufs := s.product(dt)
			if s.kernel*s.step == 1 {
				g, par, bufs = s.matrices(dt)
			}
			want := copies(bufs)
			require.NoError(t, launch.InterpretGemm(g, par, want))
			for _, isa := range instructionSets() {
				what := fmt.Sprintf("%s %v %+v", isa, dt, s)
				one := runTwice(t, cpu.Options{ISA: isa, Threads: 1, Hot: -1}, g, par, bufs)
				same(t, dt, want[3], one, map[ir.DType]float64{ir.F32: 1e-4, ir.F64: 1e-12}[dt], what)
				three := runTwice(t, cpu.Options{ISA: isa, Threads: 3, Hot: 1}, g, par, bufs)
				require.Equal(t, one, three, "%s: threads and machine code do not show", what)
			}
		}
	}
}

// Where lines fill tiles, windows one or two elements apart are read in place: of several blocks of lines and parts of
// the depth, lines of several tiles of unlike heights, windows of one element, batches, the last panel part of one.
// Processors that multiply by one element of a vector read them from packs, and of long lines pack no weights.
func TestConvolutionsReadWindowsInPlace(t *testing.T) {
	if runtime.GOARCH == "arm64" {
		t.Skip("packs windows")
	}
	for _, s := range []picture{
		{1, 24, 4, 3, 1, 33}, {1, 25, 65, 2, 2, 14}, {2, 25, 33, 1, 2, 15},
	} {
		for _, dt := range []ir.DType{ir.F32, ir.F64} {
			g, par, bufs := s.product(dt)
			want := copies(bufs)
			require.NoError(t, launch.InterpretGemm(g, par, want))
			for _, isa := range instructionSets() {
				what := fmt.Sprintf("%s %v %+v", isa, dt, s)
				one := runTwice(t, cpu.Options{ISA: isa, Threads: 1, Hot: -1}, g, par, bufs)
				same(t, dt, want[3], one, map[ir.DType]float64{ir.F32: 1e-4, ir.F64: 1e-12}[dt], what)
				three := runTwice(t, cpu.Options{ISA: isa, Threads: 3, Hot: 1}, g, par, bufs)
				require.Equal(t, one, three, "%s: threads and machine code do not show", what)
			}
		}
	}
}

// Epilogues with an operand for each row give the same bits as block programs and as machine code: of products and of
// sums over windows, in rows of a few elements and of more than a tile.
func TestEpiloguesByRowsAreTheSameInMachineCode(t *testing.T) {
	for _, s := range []picture{
		{2, 1, 1, 3, 1, 3}, {3, 1, 1, 3, 1, 27}, {1, 1, 1, 3, 2, 60}, {2, 9, 3, 1, 1, 3}, {1, 40, 5, 1, 1, 30},
	} {
		for _, dt := range []ir.DType{ir.F32, ir.F64} {
			g, par, bufs := s.product(dt)
			want := copies(bufs)
			require.NoError(t, launch.InterpretGemm(g, par, want))
			for _, isa := range instructionSets() {
				what := fmt.Sprintf("%s %v %+v", isa, dt, s)
				blocks := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 2, Hot: -1}), g, par, bufs)
				same(t, dt, want[3], blocks, map[ir.DType]float64{ir.F32: 1e-4, ir.F64: 1e-12}[dt], what)
				code := runGemm(t, newDevice(t, cpu.Options{ISA: isa, Threads: 2, Hot: 1}), g, par, bufs)
				require.Equal(t, blocks, code, what)
			}
		}
	}
}
