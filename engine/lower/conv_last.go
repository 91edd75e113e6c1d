package lower

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func init() { register(map[string]lowering{"conv_last": lowerConvLast}) }

// lowerConvLast makes a launch; attributes: windows, outputs, alone, has add, bits of the limits. Only sessions on
// devices that have it record the primitive.
func lowerConvLast(p *program) {
	if !p.n.Quantized {
		panic(ir.Errorf(ir.ErrNotImplemented, "conv_last: the device has no convolution of channels that come last"))
	}
	w, attr := op.WindowsOf(p.n.Attr)
	x, out := p.in(0), p.out(0)
	s := device.Step{Op: &launch.ConvLast{Alone: attr[1] != 0, Add: attr[2] != 0},
		Params: make([]device.Param, launch.LastParams)}
	if ir.Numel(out.shape) == 0 {
		return
	}
	setConstants(s.Params, launch.LastBatch, x.shape[0], x.shape[3], attr[0], x.shape[1], x.shape[2], out.shape[1],
		out.shape[2])
	setConstants(s.Params, launch.LastTapsHigh, w.Kernel...)
	setConstants(s.Params, launch.LastStepHigh, w.Stride...)
	setConstants(s.Params, launch.LastTop, w.Lo...)
	setConstants(s.Params, launch.LastGapHigh, w.Dilation...)
	setConstants(s.Params, launch.LastLeast, attr[3:5]...)
	setConstants(s.Params, launch.LastStrideX, x.stride...)
	setConstants(s.Params, launch.LastOffsets, 0, 0, 0, 0)
	for i := range 3 + attr[2] {
		a := x
		if i > 0 {
			a = p.contiguous(p.in(int(i)))
		}
		s.Bufs, s.Params[launch.LastOffsets+i] = append(s.Bufs, a.buf), a.offset
	}
	s.Bufs = append(s.Bufs, out.buf)
	p.res.Launches = append(p.res.Launches, s)
}
