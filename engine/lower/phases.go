package lower

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
)

// A convolution whose input has zeros between its elements (Base above 1) is the input's cotangent of a strided
// convolution, or a transposed convolution. It meets an element only at every Base-th tap. Positions that meet elements
// at the same taps form a phase: a convolution of the elements alone, with those taps, that writes every so many
// positions.

// phase describes a dim of a convolution in one of its phases.
type phase struct {
	first, period int64 // its positions among all
	tap, every    int64 // its taps among the kernel's
	win           op.Windows
}

// maxPhases bounds the launches; with more phases, the zeros are multiplied.
const maxPhases = 64

// phasesAlong lists the phases of dim d of w: one where no zeros are between elements.
func phasesAlong(w *op.Windows, d int) []phase {
	base, stride, dilation, lo, taps := w.Base[d], w.Stride[d], w.Dilation[d], w.Lo[d], w.Kernel[d]
	period, every := period(w, d), base/common(base, dilation)
	var list []phase
	for r := range min(period, w.Out[d]) {
		tap := int64(0)
		for tap < min(every, taps) && (r*stride+tap*dilation-lo)%base != 0 {
			tap++
		}
		p := phase{first: r, period: period, tap: tap, every: every}
		count := int64(0)
		if tap < min(every, taps) {
			count = (taps - tap + every - 1) / every
		}
		p.win = op.Windows{Kernel: []int64{count}, Stride: []int64{period * stride / base},
			Lo:       []int64{(lo - r*stride - tap*dilation) / base},
			Dilation: []int64{every * dilation / base}, Base: []int64{1}, Out: []int64{(w.Out[d] - r + period - 1) / period}}
		list = append(list, p)
	}
	return list
}

// period is after how many positions along dim d the phases of w repeat.
func period(w *op.Windows, d int) int64 { return w.Base[d] / common(w.Base[d], w.Stride[d]) }

// common is the greatest common divisor of positive numbers.
func common(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// phasesOf lists the phases of each dim of w; nil where there is one in all, or too many.
func phasesOf(w *op.Windows) [][]phase {
	list, n := make([][]phase, len(w.Kernel)), int64(1)
	for d := range list {
		if n *= min(period(w, d), w.Out[d]); n > maxPhases {
			return nil
		}
	}
	if !slices.ContainsFunc(w.Base, func(b int64) bool { return b > 1 }) {
		return nil
	}
	for d := range list {
		list[d] = phasesAlong(w, d)
	}
	return list
}

// covering returns the range that windows of all phases read along a dim: the number of zeros before the first element,
// and the number of elements including those zeros.
func covering(list []phase) (front, size int64) {
	for _, p := range list {
		if p.win.Kernel[0] > 0 {
			front = max(front, p.win.Lo[0])
		}
	}
	for _, p := range list {
		if w := p.win; w.Kernel[0] > 0 {
			size = max(size, front-w.Lo[0]+(w.Out[0]-1)*w.Stride[0]+(w.Kernel[0]-1)*w.Dilation[0]+1)
		}
	}
	return front, size
}

// convPhases makes a convolution phase by phase.
func (p *program) convPhases(v *convolution, dims [][]phase, x, w, y *arg) {
	one := slices.Repeat([]int64{1}, len(dims))
	cover, count := op.Windows{Kernel: one, Stride: one, Dilation: one, Base: one}, 1
	for _, list := range dims {
		front, size := covering(list)
		cover.Lo, cover.Out = append(cover.Lo, front), append(cover.Out, size)
		count *= len(list)
	}
	if !slices.Contains(cover.Out, 0) {
		x = p.padded(x, &cover, zeros, false)
	}
	at := make([]int, len(dims))
	for rest := range count {
		for d := len(at) - 1; d >= 0; d-- {
			at[d], rest = rest%len(dims[d]), rest/len(dims[d])
		}
		p.convPhase(v, dims, at, cover.Lo, x, w, y)
	}
}

// convPhase makes the phase with these numbers along the dims; x begins with front zeros along each.
func (p *program) convPhase(v *convolution, dims [][]phase, at []int, front []int64, x, w, y *arg) {
	view := func(a *arg) *arg {
		c := *a
		c.shape, c.stride = slices.Clone(a.shape), slices.Clone(a.stride)
		return &c
	}
	x, w, y = view(x), view(w), view(y)
	sub := *v
	sub.win = op.Windows{}
	for i, n := range at {
		d, ph := 2+i, &dims[i][n]
		for l, list := range sub.win.Lists() {
			*list = append(*list, (*ph.win.Lists()[l])[0])
		}
		sub.win.Lo[i] = 0
		x.offset = x.offset.Plus((front[i] - ph.win.Lo[0]) * x.stride[d])
		x.shape[d] -= front[i] - ph.win.Lo[0]
		w.offset = w.offset.Plus(ph.tap * w.stride[d])
		w.shape[d], w.stride[d] = ph.win.Kernel[0], w.stride[d]*ph.every
		y.offset = y.offset.Plus(ph.first * y.stride[d])
		y.shape[d], y.stride[d] = ph.win.Out[0], y.stride[d]*ph.period
	}
	sub.setSizes(x.dtype)
	p.conv(&sub, x, w, y, nil)
}
