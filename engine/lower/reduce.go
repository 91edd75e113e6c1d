package lower

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{
		"sum":     folding("sum", loopir.Sum, 0),
		"prod":    folding("prod", loopir.Prod, 1),
		"amax":    folding("amax", loopir.Max, 0),
		"amin":    folding("amin", loopir.Min, 1),
		"argmax":  arg1("argmax", loopir.ArgMax),
		"argmin":  arg1("argmin", loopir.ArgMin),
		"max_dim": arg1("max_dim", loopir.ArgMax),
		"min_dim": arg1("min_dim", loopir.ArgMin),
		"var":     lowerVar,
	})
	register(map[string]lowering{"sum_squares": foldingOf("sum_squares", loopir.Sum, 0, square)})
}

// split divides the dims of a tensor into kept and reduced ones.
type split struct {
	kept, reduced []int
	outer, inner  []int64
}

// along splits shape; dims may be negative. Without reduced dims, the inner space has one dim of size 1.
func along(dims, shape []int64) split {
	var s split
	gone := make([]bool, len(shape))
	for _, d := range dims {
		if len(shape) > 0 {
			gone[wrap(d, len(shape))] = true
		}
	}
	for i, n := range shape {
		if gone[i] {
			s.reduced, s.inner = append(s.reduced, i), append(s.inner, n)
		} else {
			s.kept, s.outer = append(s.kept, i), append(s.outer, n)
		}
	}
	if len(s.inner) == 0 {
		s.inner = []int64{1}
	}
	return s
}

// full gives an argument of the tensor's own shape its strides over (outer, inner).
func (s split) full(a *arg) *arg {
	st := make([]int64, 0, len(a.stride)+1)
	for _, d := range s.kept {
		st = append(st, a.stride[d])
	}
	for _, d := range s.reduced {
		st = append(st, a.stride[d])
	}
	if len(s.reduced) == 0 {
		st = append(st, 0)
	}
	return a.over(st)
}

// row gives an argument of the outer shape its strides; it is constant along a row.
func (s split) row(a *arg) *arg {
	return a.over(concat(a.stride, make([]int64, len(s.inner))))
}

// once is row for a load or store in a stage that runs once for each row.
func (s split) once(a *arg) *arg {
	a.once = true
	return s.row(a)
}

// column gives an argument of the inner shape its strides; it is the same in every row.
func (s split) column(a *arg) *arg {
	return a.over(concat(make([]int64, len(s.outer)), a.stride))
}

func (s split) rows() int64  { return ir.Numel(s.outer) }
func (s split) count() int64 { return ir.Numel(s.inner) }

// dims are the dims in a reduction's attributes, after the variant where there is one.
func (p *program) dims() []int64 {
	if p.n.Prim.Variants != nil {
		return p.n.Attr[1:]
	}
	return p.n.Attr
}

// folding lowers a reduction over dims. empty is its value over no elements; for extrema that exists for bools only.
func folding(name string, op loopir.ReduceOp, empty int64) lowering {
	return foldingOf(name, op, empty, func(_ *kernel, v int) int { return v })
}

func square(k *kernel, v int) int { return k.Mul(v, v) }

// foldingOf is folding of a function of the elements.
func foldingOf(name string, op loopir.ReduceOp, empty int64, of func(k *kernel, v int) int) lowering {
	return func(p *program) {
		x, out := p.in(0), p.out(0)
		s := along(p.dims(), x.shape)
		if s.rows() == 0 {
			return
		}
		if s.count() == 0 {
			p.fill(out, func(k *kernel) int { return k.Int(out.dtype, empty) })
			return
		}
		op := op
		if x.dtype == ir.Bool {
			switch op {
			case loopir.Max:
				op = loopir.Any
			case loopir.Min:
				op = loopir.All
			}
		}
		k := p.kernel(name+"_"+x.dtype.String(), s.outer, s.inner, 0, s.full(x), s.once(out))
		k.Each()
		v := of(k, k.load(x))
		acc := k.Reduce(op, v)
		k.Map()
		k.store(out, k.Acc(acc))
		k.launch()
	}
}

// arg1 lowers a reduction along one dim that gives an index, after a value where there are two outputs.
func arg1(name string, op loopir.ReduceOp) lowering {
	return func(p *program) {
		x := p.in(0)
		s := along(p.dims(), x.shape)
		if s.rows() == 0 {
			return
		}
		args := []*arg{s.full(x)}
		var outs []*arg
		for i := range p.n.Out {
			outs = append(outs, s.once(p.out(i)))
		}
		k := p.kernel(name+"_"+x.dtype.String(), s.outer, s.inner, 0, append(args, outs...)...)
		k.Each()
		v := k.load(x)
		if x.dtype == ir.Bool {
			v = k.Cast(ir.I32, v)
		}
		acc := k.ReduceIdx(op, v, k.Index(k.outer))
		k.Map()
		if len(outs) == 2 {
			k.store(outs[0], k.Acc(acc))
		}
		k.store(outs[len(outs)-1], k.AccIdx(acc))
		k.launch()
	}
}

// lowerVar makes two passes over a row: the mean, then the squares of differences from it.
func lowerVar(p *program) {
	x, variance, mean := p.in(0), p.out(0), p.out(1)
	s := along(p.n.Attr, x.shape)
	if s.rows() == 0 {
		return
	}
	if s.count() == 0 {
		for _, a := range []*arg{variance, mean} {
			p.fill(a, func(k *kernel) int { return k.Float(a.dtype, math.NaN()) })
		}
		return
	}
	t := x.dtype.ComputeType()
	k := p.kernel("var_"+x.dtype.String(), s.outer, s.inner, 0, s.full(x), s.once(variance), s.once(mean))
	n := k.Cast(t, k.size(s.count()))
	k.Each()
	sum := k.Reduce(loopir.Sum, k.load(x))
	m := k.Div(k.Acc(sum), n)
	k.Each()
	centred := k.Sub(k.load(x), m)
	squares := k.Reduce(loopir.Sum, k.Mul(centred, centred))
	k.Map()
	freedom := k.Max(k.Sub(n, k.scalar(1, t)), k.Float(t, 0))
	k.store(variance, k.Div(k.Acc(squares), freedom))
	k.store(mean, m)
	k.launch()
}
