package lower_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// convolution3x3 lowers and runs a 3x3 convolution with folds. Whole numbers make both algorithms exact.
// It returns the names of the kernels, and the result.
func convolution3x3(t *testing.T, wide bool, in, kernel, lo []int64, groups int64, turned bool, folds []lower.Fold) (
	names []string, y []float64) {
	t.Helper()
	win := op.Windows{Kernel: []int64{3, 3}, Lo: lo}
	for d, size := range in[2:] {
		win.Stride, win.Dilation, win.Base = append(win.Stride, 1), append(win.Dilation, 1), append(win.Base, 1)
		win.Out = append(win.Out, size+2*lo[d]-2)
	}
	image, weights := ir.DenseLayout(in), ir.DenseLayout(kernel)
	if turned { // as channels_last
		s := in
		image = ir.InternLayout(in, []int64{s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]})
	}
	out := ir.DenseLayout(slices.Concat([]int64{in[0], kernel[0]}, win.Out))
	bias := ir.InternLayout(out.Shape, []int64{0, 1, 0, 0})
	n := &lower.Node{Prim: op.PrimNamed("conv"), Attr: append(win.Attr(), groups), Bufs: 4, GemmDims: true, Wide: wide,
		In: []lower.Operand{{DType: ir.F32, Layout: image, Buf: 0}, {DType: ir.F32, Layout: weights, Buf: 1},
			{DType: ir.F32, Layout: bias, Buf: 2}},
		Out:   []lower.Output{{DType: ir.F32, Layout: out, Buf: 3}},
		Folds: folds}
	for f := range folds {
		n.Kept = []int{^(f + 1)}
	}
	res, err := lower.Lower(n)
	require.NoError(t, err)
	for _, l := range res.Launches {
		if k, ok := l.Op.(*loopir.Kernel); ok {
			names = append(names, k.Name)
		}
	}
	bufs := [][]byte{optest.Encode(ir.F32, draw(image.Numel, source(-4, 4, true))),
		optest.Encode(ir.F32, draw(weights.Numel, source(-2, 2, true))),
		optest.Encode(ir.F32, draw(out.Shape[1], source(-9, 9, true))), make([]byte, 4*out.Numel)}
	_, err = optest.Run(n, bufs, make([]int64, len(n.In)+1), nil)
	require.NoError(t, err)
	return names, optest.Decode(ir.F32, bufs[3], out, 0)
}

// TestConvolutionsByTilesEqualDirectOnes: also for tiles that reach over the edge, paddings, groups, and batches in
// chunks; with a bias that the last kernel adds, or one of its own where tiles reach over the edge.
func TestConvolutionsByTilesEqualDirectOnes(t *testing.T) {
	defer lower.SetWinogradLeast(0)()
	bias := []lower.Fold{{Prim: op.PrimNamed("add"), In: []int{^0, 2}, DType: ir.F32},
		{Prim: op.PrimNamed("neg"), In: []int{^1}, DType: ir.F32}}
	tiled := []string{"winograd_kernels", "winograd_tiles", "winograd_sums"}
	for _, c := range []struct {
		name       string
		in, lo     []int64
		out        int64
		groups     int64
		turned     bool
		chunkBytes int64
		folds      []lower.Fold
		want       []string
	}{
		{name: "even", in: []int64{1, 64, 4, 6}, lo: []int64{1, 1}, out: 72, groups: 1, want: tiled},
		{name: "odd", in: []int64{1, 112, 5, 7}, lo: []int64{1, 1}, out: 100, groups: 1, want: tiled},
		{name: "no padding", in: []int64{1, 64, 6, 8}, lo: []int64{0, 0}, out: 64, groups: 1, want: tiled},
		{name: "padding of two", in: []int64{1, 64, 4, 4}, lo: []int64{2, 0}, out: 64, groups: 1, want: tiled},
		{name: "groups", in: []int64{2, 128, 4, 4}, lo: []int64{1, 1}, out: 128, groups: 2, want: tiled},
		{name: "strided image", in: []int64{2, 64, 4, 4}, lo: []int64{1, 1}, out: 64, groups: 1, turned: true, want: tiled},
		{name: "folds", in: []int64{1, 64, 4, 4}, lo: []int64{1, 1}, out: 64, groups: 1, folds: bias, want: tiled},
		{name: "folds over the edge", in: []int64{1, 104, 3, 4}, lo: []int64{1, 1}, out: 100, groups: 1, folds: bias,
			want: append(slices.Clone(tiled), "epilogue_float32")},
		{name: "chunks", in: []int64{3, 64, 4, 4}, lo: []int64{1, 1}, out: 64, groups: 1, chunkBytes: 2 * 4 * 16 * 128 * 4,
			want: []string{"winograd_kernels", "winograd_tiles", "winograd_sums", "winograd_tiles", "winograd_sums"}},
		{name: "few channels", in: []int64{1, 16, 4, 4}, lo: []int64{1, 1}, out: 16, groups: 1,
			want: []string{"pad_float32"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.chunkBytes > 0 {
				defer lower.SetWinogradBytes(c.chunkBytes)()
			}
			kernel := []int64{c.out, c.in[1] / c.groups, 3, 3}
			_, want := convolution3x3(t, false, c.in, kernel, c.lo, c.groups, c.turned, c.folds)
			names, got := convolution3x3(t, true, c.in, kernel, c.lo, c.groups, c.turned, c.folds)
			require.Equal(t, want, got)
			require.Equal(t, c.want, names)
		})
	}
}
