package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	registerRows(map[string]*Rows{
		"softmax":            softmax,
		"softmax_grad":       softmaxGrad,
		"layer_norm":         layerNorm,
		"layer_norm_grad":    layerNormGrad,
		"layer_norm_grad_wb": layerNormGradWB,
	})
	register(map[string]lowering{"scan": lowerScan})
}

// logNamed names a kernel by attribute 1: softmax, or its logarithm.
func logNamed(name string) func(attr []int64) string {
	return func(attr []int64) string {
		if attr[1] != 0 {
			return "log_" + name
		}
		return name
	}
}

// alongDim splits along the dim in the first attribute.
func alongDim(attr, shape []int64) split { return along(attr[:1], shape) }

// softmax takes the maximum and the sum of exp(x-max) of a row.
var softmax = &Rows{name: logNamed("softmax"), split: alongDim, Whole: true, passes: always(2),
	body: func(o *operands) []int {
		k, x := o.k, o.x[0]
		k.Each()
		top := k.Reduce(loopir.Max, x)
		k.Each()
		shifted := k.Sub(x, k.Acc(top))
		e := k.Un(loopir.OpExp, shifted)
		sum := k.Reduce(loopir.Sum, e)
		if o.attr[1] != 0 {
			return []int{k.Sub(shifted, k.Un(loopir.OpLog, k.Acc(sum)))}
		}
		return []int{k.Mul(e, k.Div(k.Float(k.Type(x), 1), k.Acc(sum)))} // the sum is at least 1
	}}

// softmaxGrad is y*(gy - sum(gy*y)); for the logarithm it is gy - exp(y)*sum(gy).
var softmaxGrad = &Rows{name: logNamed("softmax_grad"), split: alongDim, Whole: true, passes: always(1),
	body: func(o *operands) []int {
		k, g, v := o.k, o.x[0], o.x[1]
		k.Each()
		if o.attr[1] != 0 {
			sum := k.Reduce(loopir.Sum, g)
			return []int{k.Sub(g, k.Mul(k.Un(loopir.OpExp, v), k.Acc(sum)))}
		}
		sum := k.Dot(g, v)
		return []int{k.Mul(v, k.Sub(g, k.Acc(sum)))}
	}}

// normalized splits off the last n dims.
func normalized(n int64, shape []int64) split {
	var dims []int64
	for i := int64(len(shape)) - n; i < int64(len(shape)); i++ {
		dims = append(dims, i)
	}
	return along(dims, shape)
}

func alongLast(attr, shape []int64) split { return normalized(attr[0], shape) }

// layerNorm normalizes rows (Ba, Kiros and Hinton, 2016); attributes: normalized dims, has w, has b, about 0.
var layerNorm = &Rows{split: alongLast, Whole: true, empty: notANumber,
	name: func(attr []int64) string {
		if attr[3] != 0 {
			return "rms_norm"
		}
		return "layer_norm"
	},
	Level: func(_ []int64, operand int) Level {
		if operand > 0 {
			return Column
		}
		return Full
	},
	passes: func(attr []int64) int {
		if attr[3] != 0 {
			return 1
		}
		return 2
	},
	body: func(o *operands) []int { return o.normalize(o.attr[1:3], false, o.attr[3] == 0) },
}

// normalize is (x-mean)*rstd*w+b, mean, rstd and the variance. has says whether there are w and b; with perRow these
// have an element for each row, else for each column. A row is visited twice before, since the squares are of
// differences from the mean; without centre the mean counts as 0, and it is visited once.
func (o *operands) normalize(has []int64, perRow, centre bool) []int {
	k, t := o.k, o.types[0].ComputeType()
	w, b, next := -1, -1, 1
	for i, to := range []*int{&w, &b} {
		if has[i] != 0 {
			*to = o.x[next]
			next++
		}
	}
	n, eps := k.Cast(t, k.size(o.s.count())), o.scalar(next, t)
	k.Each()
	m, centred := k.Float(t, 0), o.x[0]
	if centre {
		m = k.Div(k.Acc(k.Reduce(loopir.Sum, centred)), n)
		k.Each()
		centred = k.Sub(centred, m)
	}
	variance := k.Div(k.Acc(k.Dot(centred, centred)), n)
	r := k.Div(k.Float(t, 1), k.Un(loopir.OpSqrt, k.Add(variance, eps)))
	y := k.Mul(centred, r)
	switch {
	case w >= 0 && perRow:
		y = k.Mul(centred, k.Mul(r, w))
	case w >= 0 && b >= 0:
		return []int{k.Fma(y, w, b), m, r, variance}[:o.outs]
	case w >= 0:
		y = k.Mul(y, w)
	}
	if b >= 0 {
		y = k.Add(y, b)
	}
	return []int{y, m, r, variance}[:o.outs]
}

// layerNormGrad is rstd*(gw - m(gw) - c*rstd^2*m(gw*c)) with m the mean of a row, c = x-mean and gw = gy*w. About 0, by
// the third attribute, it leaves out m(gw).
var layerNormGrad = &Rows{Main: 1, split: alongLast, Whole: true, name: named("layer_norm_grad"), passes: always(1),
	Level: func(_ []int64, operand int) Level { return [...]Level{Full, Full, Row, Row, Column}[operand] },
	body: func(o *operands) []int {
		k, t := o.k, o.types[1].ComputeType()
		gw, x, mean, r := o.x[0], o.x[1], o.x[2], o.x[3]
		n := k.Cast(t, k.size(o.s.count()))
		k.Each()
		if o.attr[1] != 0 {
			gw = k.Mul(gw, o.x[4])
		}
		centred := k.Sub(x, mean)
		c := k.Mul(r, k.Acc(k.Dot(gw, centred)))
		rest := k.Float(t, 0)
		if o.attr[2] == 0 {
			rest = k.Mul(r, k.Div(k.Acc(k.Reduce(loopir.Sum, gw)), n))
		}
		slope := k.Mul(r, k.Mul(r, k.Div(c, n)))
		return []int{k.Fma(centred, k.Neg(slope), k.Fma(gw, r, k.Neg(rest)))}
	}}

// layerNormGradWB is the gradients of a norm's weight and bias. It reduces the dims before the normalized ones, whose
// number is the first attribute: sum(gy*(x-mean)*rstd) and sum(gy).
var layerNormGradWB = &Rows{Main: 1, name: named("layer_norm_grad_wb"), passes: always(1),
	split: func(attr, shape []int64) split {
		var dims []int64
		for i := int64(0); i < int64(len(shape))-attr[0]; i++ {
			dims = append(dims, i)
		}
		return along(dims, shape)
	},
	Level: func(_ []int64, operand int) Level { return [...]Level{Full, Full, Column, Column}[operand] },
	empty: func(k *kernel, d ir.DType) int { return k.Int(d, 0) },
	body: func(o *operands) []int {
		k, g, x, mean, r := o.k, o.x[0], o.x[1], o.x[2], o.x[3]
		k.Each()
		w := k.Dot(g, k.Mul(k.Sub(x, mean), r))
		b := k.Reduce(loopir.Sum, g)
		return []int{k.Acc(w), k.Acc(b)}
	}}

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
