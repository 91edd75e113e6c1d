package lower

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// mostSpans bounds the kernels of one dim of a pool: positions at the front, inside, and at the back.
const mostSpans = 3

// span is a run of positions along a dim that read the same elements, those from low to before high, of their windows.
// The others lie outside the tensor.
type span struct{ first, count, low, high int64 }

// spansOf divides the positions along dim d of w over n elements. It returns nil where a window has no element, or
// there are more than mostSpans.
func spansOf(w *op.Windows, d int, n int64) (spans []span) {
	if w.Base[d] != 1 {
		return nil
	}
	for o := range w.Out[d] {
		start := o*w.Stride[d] - w.Lo[d]
		low := max(0, -ir.FloorDiv(start, w.Dilation[d]))
		high := min(w.Kernel[d], ir.FloorDiv(n-1-start, w.Dilation[d])+1)
		if low >= high {
			return nil
		}
		if k := len(spans); k > 0 && spans[k-1].low == low && spans[k-1].high == high {
			spans[k-1].count++
			continue
		}
		if len(spans) == mostSpans {
			return nil
		}
		spans = append(spans, span{first: o, count: 1, low: low, high: high})
	}
	return spans
}

// lowerGreatest computes the values of a max pool without indices, one dim after the other, without a padded copy: a
// window of a x b elements takes a + b steps. Of zeros with both signs either may be the maximum. It returns false, and
// does nothing, if it does not apply.
func (p *program) lowerGreatest(in, out *arg, w *op.Windows) bool {
	lead := len(in.shape) - len(w.Kernel)
	spans, dims := make([][]span, len(w.Kernel)), []int(nil)
	for d, n := range w.Kernel {
		if spans[d] = spansOf(w, d, in.shape[lead+d]); spans[d] == nil || n > fewTaps {
			return false
		}
		if n > 1 || w.Stride[d] > 1 || w.Out[d] != in.shape[lead+d] {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 {
		return false
	}
	x := in
	for i, d := range dims {
		shape := slices.Clone(x.shape)
		shape[lead+d] = w.Out[d]
		y := out
		if i < len(dims)-1 {
			y = p.temp(in.dtype, shape)
		}
		for _, s := range spans[d] {
			p.greatestAlong(x, y, lead+d, &s, w.Stride[d], w.Dilation[d], s.first*w.Stride[d]-w.Lo[d])
		}
		x = asOperand(y, y.shape, y.stride)
	}
	return true
}

// greatestAlong stores the maxima of the windows of s along dim d of x. Elements of a window are gap apart. The first
// window begins at element start, and each further one step elements later.
func (p *program) greatestAlong(x, y *arg, d int, s *span, step, gap, start int64) {
	part := func(a *arg, from, stride int64) *arg {
		b := &arg{dtype: a.dtype, buf: a.buf, offset: a.offset, use: a.use, shape: slices.Clone(a.shape),
			stride: slices.Clone(a.stride)}
		b.offset = b.offset.Plus(from * a.stride[d])
		b.shape[d], b.stride[d] = s.count, a.stride[d]*stride
		return b
	}
	to := part(y, s.first, 1)
	args := []*arg{to}
	for t := s.low; t < s.high; t++ {
		args = append(args, part(x, start+t*gap, step))
	}
	k := p.kernel("window_max_"+x.dtype.String(), to.shape, nil, 0, args...)
	k.Map()
	best := k.load(args[1])
	for _, a := range args[2:] {
		best = k.Bin(loopir.OpMax, k.load(a), best)
	}
	k.store(to, best)
	k.launch()
}
