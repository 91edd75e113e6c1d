package lower

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func init() { register(map[string]lowering{"quantized_conv": lowerQuantizedConv}) }

// lowerQuantizedConv makes a launch; attributes: windows, groups, outputs of one, dtype, zeros of x and of the result,
// its limits, rows, dynamic, shifted, narrow. Only sessions on devices that have it record the primitive.
func lowerQuantizedConv(p *program) {
	if !p.n.Quantized {
		panic(ir.Errorf(ir.ErrNotImplemented, "quantized_conv: the device has no convolution of 8-bit elements"))
	}
	w, attr := op.WindowsOf(p.n.Attr)
	groups, outputs, isRows, dynamic, shifted := attr[0], attr[1], attr[7] != 0, attr[8] != 0, attr[9] != 0
	x, out := p.in(0), p.out(0)
	y := *out
	s := device.Step{Op: &launch.QuantizedConv{X: x.dtype, Y: out.dtype, Dynamic: dynamic, Shifted: shifted,
		Narrow: attr[10] != 0},
		Params: make([]device.Param, launch.ConvParams)}
	if ir.Numel(out.shape) == 0 {
		return
	}
	if isRows { // positions are a column
		if len(x.shape) > 2 {
			x = p.contiguous(x)
		}
		rows := func(a *arg) *arg {
			v, last := *a, len(a.shape)-1
			count := ir.Numel(a.shape[:last])
			v.shape, v.stride = []int64{1, a.shape[last], count, 1}, []int64{0, a.stride[last], a.stride[last-1], 0}
			return &v
		}
		x, y = rows(x), *rows(out)
	}
	setConstants(s.Params, launch.ConvBatch, x.shape[0], groups, x.shape[1]/groups, outputs, x.shape[2], x.shape[3],
		y.shape[2], y.shape[3])
	setConstants(s.Params, launch.ConvTapsHigh, w.Kernel...)
	setConstants(s.Params, launch.ConvStepHigh, w.Stride...)
	setConstants(s.Params, launch.ConvTop, w.Lo...)
	setConstants(s.Params, launch.ConvGapHigh, w.Dilation...)
	setConstants(s.Params, launch.ConvZeroX, attr[3:7]...)
	setConstants(s.Params, launch.ConvStrideX, x.stride...)
	setConstants(s.Params, launch.ConvStrideY, y.stride...)
	for i := range len(p.n.In) {
		a, at := x, launch.ConvOffsets+i
		if i > 0 {
			a = p.contiguous(p.in(i))
		}
		if i > 4 && !dynamic { // shifts come last
			at += 2
		}
		s.Bufs, s.Params[at] = append(s.Bufs, a.buf), a.offset
	}
	s.Bufs = append(s.Bufs, out.buf)
	p.res.Launches = append(p.res.Launches, s)
}

// setConstants makes parameters constants, from number first on.
func setConstants(params []device.Param, first int, values ...int64) {
	for i, v := range values {
		params[first+i] = device.Const(v)
	}
}
