package lower_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// TestConvInPlace: windows read in place give the same values as windows laid out as columns, and so does the weight's
// cotangent, for a batch that does not divide into parts.
func TestConvInPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	for i := range 30 {
		dims := 1 + i%2
		win := op.Windows{}
		groups := 1 + r.Int64N(2)
		n, c, o := 1+r.Int64N(70), groups*(1+r.Int64N(3)), groups*(1+r.Int64N(4))
		in, kernel := []int64{n, c}, []int64{o, c / groups}
		for range dims {
			size, k := 4+r.Int64N(4), 1+r.Int64N(3)
			win.Kernel, win.Stride, win.Dilation = append(win.Kernel, k), append(win.Stride, 1+r.Int64N(2)),
				append(win.Dilation, 1)
			win.Lo, win.Base = append(win.Lo, r.Int64N(k)), append(win.Base, 1)
			win.Out = append(win.Out, (size+win.Lo[len(win.Lo)-1]-k)/win.Stride[len(win.Stride)-1]+1)
			in, kernel = append(in, size), append(kernel, k)
		}
		attr := append(win.Attr(), groups)
		cotangent := append([]int64{n, o}, win.Out...)
		x, w, gy := draw(ir.Numel(in), source(-1, 1, false)), draw(ir.Numel(kernel), source(-1, 1, false)),
			draw(ir.Numel(cotangent), source(-1, 1, false))
		var y, dw [3][]float64
		for form := range y {
			e := optest.New()
			e.GemmDims, e.Wide = form > 0, form == 2
			image := e.Tensor(ir.F64, in, x...)
			y[form] = e.Floats(emit(e, "conv", attr, image, e.Tensor(ir.F64, kernel, w...))[0])
			dw[form] = e.Floats(emit(e, "conv_weight_grad", attr, image, e.Tensor(ir.F64, cotangent, gy...))[0])
		}
		for form := 1; form < len(y); form++ {
			near(t, ir.F64, y[0], y[form], win, groups)
			near(t, ir.F64, dw[0], dw[form], win, groups)
		}
	}
}

// TestConvPhases: a convolution with zeros between the input's elements equals its definition, for every combination of
// zeros, positions and taps, and for cropped inputs.
func TestConvPhases(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	phases := 0
	for i := range 300 {
		win := op.Windows{}
		in, kernel := []int64{2, 2}, []int64{3, 2}
		dims, base := 1+i%2, int64(5)
		if i%60 == 0 {
			dims = 3 // too many phases, where all of them have that base
		}
		for range dims {
			size, k := 1+r.Int64N(6), 1+r.Int64N(5)
			add := func(l *[]int64, v int64) { *l = append(*l, v) }
			add(&win.Kernel, k)
			add(&win.Stride, 1+r.Int64N(3))
			add(&win.Lo, r.Int64N(k+3)-2)
			add(&win.Dilation, 1+r.Int64N(3))
			if dims < 3 {
				base = 1 + r.Int64N(5)
			}
			add(&win.Base, base)
			add(&win.Out, 1+r.Int64N(9))
			in, kernel = append(in, size), append(kernel, k)
			if base > 1 {
				phases++
			}
		}
		x, w := draw(ir.Numel(in), source(-1, 1, false)), draw(ir.Numel(kernel), source(-1, 1, false))
		want := convolved(x, w, in, kernel, &win)
		for form := range 3 {
			e := optest.New()
			e.GemmDims, e.Wide = form > 0, form == 2
			y := emit(e, "conv", append(win.Attr(), 1), e.Tensor(ir.F64, in, x...), e.Tensor(ir.F64, kernel, w...))
			near(t, ir.F64, want, e.Floats(y[0]), win, in, form)
		}
	}
	require.Greater(t, phases, 200)
}

// convolved is a convolution by its definition.
func convolved(x, w []float64, in, kernel []int64, win *op.Windows) []float64 {
	var y []float64
	digits := func(n int64, size []int64) []int64 {
		d := make([]int64, len(size))
		for i := len(size) - 1; i >= 0; i-- {
			d[i], n = n%size[i], n/size[i]
		}
		return d
	}
	for b := range in[0] {
		for o := range kernel[0] {
			for place := range ir.Numel(win.Out) {
				p, sum := digits(place, win.Out), 0.0
				for k := range ir.Numel(kernel[1:]) {
					tap := digits(k, kernel[1:])
					at, inside := b*in[1]+tap[0], true
					for d, q := range p {
						e := q*win.Stride[d] + tap[1+d]*win.Dilation[d] - win.Lo[d]
						inside = inside && e >= 0 && e%win.Base[d] == 0 && e/win.Base[d] < in[2+d]
						at = at*in[2+d] + e/win.Base[d]
					}
					if inside {
						sum += x[at] * w[o*ir.Numel(kernel[1:])+k]
					}
				}
				y = append(y, sum)
			}
		}
	}
	return y
}

// TestFramed: a border that is written alone gives the values of the definition, in 1 to 3 dims, of cropped inputs too,
// and of any padding.
func TestFramed(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 9))
	for i := range 60 {
		win, in, kernel := op.Windows{}, []int64{2, 2}, []int64{3, 2}
		for range 1 + i%3 {
			size, k := 1+r.Int64N(5), 1+r.Int64N(3)
			win.Kernel, win.Stride = append(win.Kernel, k), append(win.Stride, 1+r.Int64N(2))
			win.Lo, win.Dilation = append(win.Lo, r.Int64N(k+2)-1), append(win.Dilation, 1+r.Int64N(2))
			win.Base, win.Out = append(win.Base, 1), append(win.Out, 1+r.Int64N(6))
			in, kernel = append(in, size), append(kernel, k)
		}
		x, w := draw(ir.Numel(in), source(-1, 1, false)), draw(ir.Numel(kernel), source(-1, 1, false))
		var largest [2][]float64
		for k := range largest {
			restore := lower.SetFramedRow([]int64{1, 1 << 40}[k])
			e := optest.New()
			e.GemmDims = true
			image := e.Tensor(ir.F64, in, x...)
			y := emit(e, "conv", append(win.Attr(), 1), image, e.Tensor(ir.F64, kernel, w...))
			near(t, ir.F64, convolved(x, w, in, kernel, &win), e.Floats(y[0]), win, in)
			largest[k] = e.Floats(emit(e, "window_max", win.Attr(), image)[0]) // within -inf, which temporaries are not
			restore()
		}
		assert.Equal(t, largest[1], largest[0], "%v of %v", win, in)
	}
}

// TestPaddingCostsItsBorder: what is written around long rows is the border, and the run at each end.
func TestPaddingCostsItsBorder(t *testing.T) {
	three, one := []int64{3, 3}, []int64{1, 1}
	written := func(size int64) (sum int64) {
		win := op.Windows{Kernel: three, Stride: one, Lo: one, Dilation: one, Base: one, Out: []int64{size, size}}
		x, w, y := ir.DenseLayout([]int64{1, 4, size, size}), ir.DenseLayout([]int64{8, 4, 3, 3}),
			ir.DenseLayout([]int64{1, 8, size, size})
		res, err := lower.Lower(&lower.Node{Prim: op.PrimNamed("conv"), Attr: append(win.Attr(), 1), Bufs: 3, GemmDims: true,
			In:  []lower.Operand{{DType: ir.F32, Layout: x, Buf: 0}, {DType: ir.F32, Layout: w, Buf: 1}},
			Out: []lower.Output{{DType: ir.F32, Layout: y, Buf: 2}}})
		require.NoError(t, err)
		for i := range res.Launches {
			k, ok := res.Launches[i].Op.(*loopir.Kernel)
			if !ok || !strings.HasPrefix(k.Name, "fill") {
				continue
			}
			elements := int64(1)
			for p, q := range k.Params {
				if q.Kind == loopir.Size {
					elements *= int64(res.Launches[i].Params[p].Bits)
				}
			}
			sum += elements
		}
		return sum
	}
	assert.Equal(t, int64(4*18*18), written(16), "all of it")
	assert.Equal(t, int64(4*(66*66-64*64)+2*66+2), written(64))
}

// TestDepthwiseConvolutionsWithoutPaddedCopies: where the device has zeros around pictures, a convolution of channels
// by themselves is one product, with the values of a padded copy; cropped ones too.
func TestDepthwiseConvolutionsWithoutPaddedCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for i := range 20 {
		c, size := 1+r.Int64N(4), []int64{3 + r.Int64N(5), 3 + r.Int64N(5)}
		win := op.Windows{Kernel: []int64{1 + r.Int64N(3), 3}, Stride: []int64{1 + r.Int64N(2), 1 + r.Int64N(3)},
			Dilation: []int64{1, 1 + r.Int64N(2)}, Base: []int64{1, 1}, Lo: []int64{r.Int64N(3), 1 + r.Int64N(2)},
			Out: []int64{1 + r.Int64N(3), 1 + r.Int64N(4)}}
		x, w := draw(2*c*size[0]*size[1], source(-1, 1, false)), draw(c*win.Kernel[0]*3, source(-1, 1, false))
		var y [2][]float64
		for form := range y {
			e := optest.New()
			e.GemmDims, e.GemmPads = true, form == 1
			image := e.Tensor(ir.F64, []int64{2, c, size[0], size[1]}, x...)
			y[form] = e.Floats(emit(e, "conv", append(win.Attr(), c), image, e.Tensor(ir.F64, []int64{c, 1, win.Kernel[0], 3},
				w...))[0])
		}
		near(t, ir.F64, y[0], y[1], i, win)
	}
	win := op.Windows{Kernel: []int64{3, 3}, Stride: []int64{1, 1}, Lo: []int64{1, 1}, Dilation: []int64{1, 1},
		Base: []int64{1, 1}, Out: []int64{8, 8}}
	for groups, launches := range map[int64]int{4: 1, 2: 3} {
		x := ir.DenseLayout([]int64{1, 4, 8, 8})
		res, err := lower.Lower(&lower.Node{Prim: op.PrimNamed("conv"), Attr: append(win.Attr(), groups), Bufs: 3,
			GemmDims: true, GemmPads: true, In: []lower.Operand{{DType: ir.F32, Layout: x, Buf: 0},
				{DType: ir.F32, Layout: ir.DenseLayout([]int64{4, 4 / groups, 3, 3}), Buf: 1}},
			Out: []lower.Output{{DType: ir.F32, Layout: x, Buf: 2}}})
		require.NoError(t, err)
		assert.Len(t, res.Launches, launches, "%d groups", groups)
	}
}
