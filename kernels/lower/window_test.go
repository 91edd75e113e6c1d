package lower_test

import (
	"math/rand/v2"
	"testing"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
)

// TestConvInPlace: windows read where they lie give what windows laid out as columns give, and so does the
// weight's cotangent, for a batch that does not divide into parts.
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
			win.Kernel, win.Stride, win.Dilation = append(win.Kernel, k), append(win.Stride, 1+r.Int64N(2)), append(win.Dilation, 1)
			win.Lo, win.Base = append(win.Lo, r.Int64N(k)), append(win.Base, 1)
			win.Out = append(win.Out, (size+win.Lo[len(win.Lo)-1]-k)/win.Stride[len(win.Stride)-1]+1)
			in, kernel = append(in, size), append(kernel, k)
		}
		attr := append(win.Attr(), groups)
		cotangent := append([]int64{n, o}, win.Out...)
		x, w, gy := draw(ir.Numel(in), source(-1, 1, false)), draw(ir.Numel(kernel), source(-1, 1, false)), draw(ir.Numel(cotangent), source(-1, 1, false))
		var y, dw [3][]float64
		for form := range y {
			e := optest.New()
			e.GemmDims = form > 0
			if form == 2 {
				e.GemmRows = 3
			}
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
