package lower

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	registerRows(map[string]*Rows{
		"sum":         folding("sum", 0, loopir.Sum, 0),
		"prod":        folding("prod", 0, loopir.Prod, 1),
		"amax":        folding("amax", 1, loopir.Max, 0),
		"amin":        folding("amin", 1, loopir.Min, 1),
		"max_all":     folding("max_all", 1, loopir.Max, 0),
		"min_all":     folding("min_all", 1, loopir.Min, 1),
		"sum_squares": squares,
		"argmax":      arg1("argmax", loopir.ArgMax),
		"argmin":      arg1("argmin", loopir.ArgMin),
		"max_dim":     arg1("max_dim", loopir.ArgMax),
		"min_dim":     arg1("min_dim", loopir.ArgMin),
		"var":         variance,
	})
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
	if len(s.reduced) == 0 {
		return a.over(make([]int64, len(s.outer)+1))
	}
	return a.over(concat(make([]int64, len(s.outer)), a.stride))
}

func (s split) rows() int64  { return ir.Numel(s.outer) }
func (s split) count() int64 { return ir.Numel(s.inner) }

// alongDims splits along the dims in the attributes from number first on: a variant comes before them.
func alongDims(first int) func(attr, shape []int64) split {
	return func(attr, shape []int64) split { return along(attr[first:], shape) }
}

func named(name string) func([]int64) string { return func([]int64) string { return name } }

// folding is a reduction over the dims in the attributes from number first on. empty is its value over no elements; for
// extrema that exists for bools only.
func folding(name string, first int, op loopir.ReduceOp, empty int64) *Rows {
	return foldingOf(name, first, empty, func(o *operands) int {
		op := op
		if o.types[0] == ir.Bool {
			switch op {
			case loopir.Max:
				op = loopir.Any
			case loopir.Min:
				op = loopir.All
			}
		}
		return o.k.Reduce(op, o.x[0])
	})
}

// squares is the sum of the squares of the elements.
var squares = foldingOf("sum_squares", 0, 0, func(o *operands) int { return o.k.Dot(o.x[0], o.x[0]) })

// foldingOf makes a reduction of an accumulator.
func foldingOf(name string, first int, empty int64, acc func(o *operands) int) *Rows {
	return &Rows{name: named(name), split: alongDims(first), passes: always(1),
		empty: func(k *kernel, d ir.DType) int { return k.Int(d, empty) },
		body: func(o *operands) []int {
			o.k.Each()
			return []int{o.k.Acc(acc(o))}
		}}
}

// arg1 is a reduction along one dim that gives an index, after a value where there are two outputs.
func arg1(name string, op loopir.ReduceOp) *Rows {
	return &Rows{name: named(name), split: alongDims(1), passes: always(1), body: func(o *operands) []int {
		k, v := o.k, o.x[0]
		k.Each()
		if o.types[0] == ir.Bool {
			v = k.Cast(ir.I32, v)
		}
		acc := k.ReduceIdx(op, v, k.Index(k.outer))
		if o.outs == 2 {
			return []int{k.Acc(acc), k.AccIdx(acc)}
		}
		return []int{k.AccIdx(acc)}
	}}
}

// variance makes two passes over a row: the mean, then the squares of differences from it.
var variance = &Rows{name: named("var"), split: alongDims(0), passes: always(2), empty: notANumber,
	body: func(o *operands) []int {
		k, t := o.k, o.types[0].ComputeType()
		n := k.Cast(t, k.size(o.s.count()))
		k.Each()
		m := k.Div(k.Acc(k.Reduce(loopir.Sum, o.x[0])), n)
		k.Each()
		centred := k.Sub(o.x[0], m)
		squares := k.Dot(centred, centred)
		freedom := k.Max(k.Sub(n, o.scalar(1, t)), k.Float(t, 0))
		return []int{k.Div(k.Acc(squares), freedom), m}
	}}

func notANumber(k *kernel, d ir.DType) int { return k.Float(d, math.NaN()) }
