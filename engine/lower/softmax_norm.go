package lower

import (
	"math"

	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{
		"softmax":            lowerSoftmax,
		"softmax_grad":       lowerSoftmaxGrad,
		"layer_norm":         lowerLayerNorm,
		"layer_norm_grad":    lowerLayerNormGrad,
		"layer_norm_grad_wb": lowerLayerNormGradWB,
		"scan":               lowerScan,
	})
}

// logNamed names a kernel by attribute 1: softmax, or its logarithm.
func (p *program) logNamed(name string) (named string, log bool) {
	if log = p.n.Attr[1] != 0; log {
		name = "log_" + name
	}
	return name + "_" + p.n.In[0].DType.String(), log
}

// lowerSoftmax takes the maximum and the sum of exp(x-max) of a row, then stores.
func lowerSoftmax(p *program) {
	x, out := p.in(0), p.out(0)
	s := along(p.n.Attr[:1], x.shape)
	if s.rows()*s.count() == 0 {
		return
	}
	name, log := p.logNamed("softmax")
	k := p.kernel(name, s.outer, s.inner, 0, s.full(x), s.full(out))
	k.Each()
	top := k.Reduce(loopir.Max, k.load(x))
	k.Each()
	shifted := k.Sub(k.load(x), k.Acc(top))
	e := k.Un(loopir.OpExp, shifted)
	sum := k.Reduce(loopir.Sum, e)
	k.Each()
	if log {
		k.store(out, k.Sub(shifted, k.Un(loopir.OpLog, k.Acc(sum))))
	} else {
		k.store(out, k.Mul(e, k.Div(k.Float(x.dtype.ComputeType(), 1), k.Acc(sum)))) // the sum is at least 1
	}
	k.launch()
}

// lowerSoftmaxGrad is y*(gy - sum(gy*y)); for the logarithm it is gy - exp(y)*sum(gy).
func lowerSoftmaxGrad(p *program) {
	gy, y, out := p.in(0), p.in(1), p.out(0)
	s := along(p.n.Attr[:1], gy.shape)
	if s.rows()*s.count() == 0 {
		return
	}
	name, log := p.logNamed("softmax_grad")
	k := p.kernel(name, s.outer, s.inner, 0, s.full(gy), s.full(y), s.full(out))
	k.Each()
	g, v := k.load(gy), k.load(y)
	term := g
	if !log {
		term = k.Mul(g, v)
	}
	sum := k.Reduce(loopir.Sum, term)
	k.Each()
	if log {
		k.store(out, k.Sub(g, k.Mul(k.Un(loopir.OpExp, v), k.Acc(sum))))
	} else {
		k.store(out, k.Mul(v, k.Sub(g, k.Acc(sum))))
	}
	k.launch()
}

// normalized splits off the last n dims.
func normalized(n int64, shape []int64) split {
	var dims []int64
	for i := int64(len(shape)) - n; i < int64(len(shape)); i++ {
		dims = append(dims, i)
	}
	return along(dims, shape)
}

// lowerLayerNorm normalizes rows (Ba, Kiros and Hinton, 2016); attributes: normalized dims, has w, has b, about 0.
func lowerLayerNorm(p *program) {
	s := normalized(p.n.Attr[0], p.in(0).shape)
	if p.n.Attr[3] != 0 {
		p.normalize("rms_norm", s, p.n.Attr[1:3], false, false)
	} else {
		p.normalize("layer_norm", s, p.n.Attr[1:3], false, true)
	}
}

// normalize stores (x-mean)*rstd*w+b, mean and rstd, and the variance where there is a fourth output. has says whether
// there are w and b; with perRow these have an element for each row, else for each column. A row is read three times,
// since the squares are of differences from the mean; without centre the mean counts as 0, and a row is read twice.
func (p *program) normalize(name string, s split, has []int64, perRow, centre bool) {
	x, y := p.in(0), p.out(0)
	if s.rows() == 0 {
		return
	}
	args := []*arg{s.full(x), s.full(y)}
	var stats []*arg
	for i := range p.n.Out[1:] {
		stats = append(stats, s.once(p.out(1+i)))
	}
	if s.count() == 0 {
		for i := range stats {
			a := p.out(1 + i)
			p.fill(a, func(k *kernel) int { return k.Float(a.dtype, math.NaN()) })
		}
		return
	}
	args = append(args, stats...)
	next := 1
	optional := func(has int64) *arg {
		if has == 0 {
			return nil
		}
		a := p.in(next)
		if perRow {
			a = s.row(a)
		} else {
			a = s.column(a)
		}
		next++
		args = append(args, a)
		return a
	}
	w := optional(has[0])
	b := optional(has[1])
	t := x.dtype.ComputeType()
	k := p.kernel(name+"_"+x.dtype.String(), s.outer, s.inner, 0, args...)
	n, eps := k.Cast(t, k.size(s.count())), k.scalar(next, t)
	k.Each()
	m, centred := k.Float(t, 0), k.load(x)
	if centre {
		m = k.Div(k.Acc(k.Reduce(loopir.Sum, centred)), n)
		k.Each()
		centred = k.Sub(centred, m)
	}
	variance := k.Div(k.Acc(k.Reduce(loopir.Sum, k.Mul(centred, centred))), n)
	r := k.Div(k.Float(t, 1), k.Un(loopir.OpSqrt, k.Add(variance, eps)))
	k.Map()
	for i, v := range []int{m, r, variance}[:len(stats)] {
		k.store(stats[i], v)
	}
	k.Each()
	var v int
	switch {
	case w != nil && perRow:
		v = k.Mul(centred, k.Mul(r, k.load(w)))
	case w != nil && b != nil:
		k.store(y, k.Fma(k.Mul(centred, r), k.load(w), k.load(b)))
		k.launch()
		return
	case w != nil:
		v = k.Mul(k.Mul(centred, r), k.load(w))
	default:
		v = k.Mul(centred, r)
	}
	if b != nil {
		v = k.Add(v, k.load(b))
	}
	k.store(y, v)
	k.launch()
}

// lowerLayerNormGrad is rstd*(gw - m(gw) - c*rstd^2*m(gw*c)) with m the mean of a row, c = x-mean and gw = gy*w. About
// 0, by the third attribute, it leaves out m(gw).
func lowerLayerNormGrad(p *program) {
	gy, x, mean, rstd, out := p.in(0), p.in(1), p.in(2), p.in(3), p.out(0)
	s := normalized(p.n.Attr[0], x.shape)
	if s.rows()*s.count() == 0 {
		return
	}
	args := []*arg{s.full(gy), s.full(x), s.row(mean), s.row(rstd), s.full(out)}
	var w *arg
	if p.n.Attr[1] != 0 {
		w = s.column(p.in(4))
		args = append(args, w)
	}
	add := func(_ *kernel, v int) int { return v }
	if p.n.Residual {
		residual := s.full(p.in(len(p.n.In) - 1))
		args = append(args, residual)
		add = func(k *kernel, v int) int { return k.Add(v, k.load(residual)) }
	}
	t := x.dtype.ComputeType()
	k := p.kernel("layer_norm_grad_"+x.dtype.String(), s.outer, s.inner, 0, args...)
	n := k.Cast(t, k.size(s.count()))
	k.Each()
	gw, r := k.load(gy), k.load(rstd)
	if w != nil {
		gw = k.Mul(gw, k.load(w))
	}
	centred := k.Sub(k.load(x), k.load(mean))
	c := k.Mul(r, k.Acc(k.Reduce(loopir.Sum, k.Mul(gw, centred))))
	rest := k.Float(t, 0)
	if p.n.Attr[2] == 0 {
		rest = k.Mul(r, k.Div(k.Acc(k.Reduce(loopir.Sum, gw)), n))
	}
	k.Each()
	slope := k.Mul(r, k.Mul(r, k.Div(c, n)))
	k.store(out, add(k, k.Fma(centred, k.Neg(slope), k.Fma(gw, r, k.Neg(rest)))))
	k.launch()
}

// lowerLayerNormGradWB reduces over rows; its outer space is the normalized dims.
func lowerLayerNormGradWB(p *program) {
	gy, x, mean, rstd, dw, db := p.in(0), p.in(1), p.in(2), p.in(3), p.out(0), p.out(1)
	var dims []int64
	for i := int64(0); i < int64(len(x.shape))-p.n.Attr[0]; i++ {
		dims = append(dims, i)
	}
	s := along(dims, x.shape)
	if s.rows() == 0 {
		return
	}
	if s.count() == 0 {
		for _, a := range []*arg{dw, db} {
			p.fill(a, func(k *kernel) int { return k.Int(a.dtype, 0) })
		}
		return
	}
	if len(dims) == 0 { // one row: statistics have no dims, the row space one of size 1
		mean.over([]int64{0})
		rstd.over([]int64{0})
	}
	k := p.kernel("layer_norm_grad_wb_"+x.dtype.String(), s.outer, s.inner, 0,
		s.full(gy), s.full(x), s.column(mean), s.column(rstd), s.once(dw), s.once(db))
	k.Each()
	g := k.load(gy)
	a := k.Reduce(loopir.Sum, k.Mul(g, k.Mul(k.Sub(k.load(x), k.load(mean)), k.load(rstd))))
	c := k.Reduce(loopir.Sum, g)
	k.Map()
	k.store(dw, k.Acc(a))
	k.store(db, k.Acc(c))
	k.launch()
}

// scanOperations are in the order of prim.ScanSum and the constants after it.
var scanOperations = [...]loopir.ReduceOp{loopir.Sum, loopir.Prod, loopir.Max, loopir.Min, loopir.LogSum}

func lowerScan(p *program) {
	x, out := p.in(0), p.out(0)
	s := along(p.n.Attr[:1], x.shape)
	if s.rows()*s.count() == 0 {
		return
	}
	k := p.kernel("scan_"+x.dtype.String(), s.outer, s.inner, 0, s.full(x), s.full(out))
	k.Scan()
	acc := k.Reduce(scanOperations[p.n.Attr[1]], k.load(x))
	k.store(out, k.AccRun(acc))
	k.launch()
}
