package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	registerRows(map[string]*Rows{
		"cross_entropy":      crossEntropy,
		"cross_entropy_grad": crossEntropyGrad,
	})
}

// crossEntropy is log(sum of exp(x)) - x[class]. It visits a row twice, for its maximum and for the sum of
// exp(x-maximum), then picks the element of its class. The ignored class is no fault. No probability is stored.
var crossEntropy = &Rows{name: named("cross_entropy"), split: alongDim, passes: always(2), picks: true,
	Level: func(_ []int64, operand int) Level { return [...]Level{Full, Row}[operand] },
	body: func(o *operands) []int {
		k, x := o.k, o.x[0]
		k.Each()
		most := k.Reduce(loopir.Max, x)
		k.Each()
		sum := k.Reduce(loopir.Sum, k.Un(loopir.OpExp, k.Sub(x, k.Acc(most))))
		k.Map()
		t64, ignore := k.Cast(ir.I64, o.x[1]), k.I64(o.attr[1])
		ignored := k.Eq(t64, ignore)
		v := o.at(0, k.InBounds(k.Select(ignored, k.I64(0), t64), k.size(o.s.count())))
		l := k.Un(loopir.OpLog, k.Acc(sum))
		zero, one := k.Float(k.Type(l), 0), k.Float(k.Type(l), 1)
		return []int{k.Select(ignored, zero, k.Sub(l, k.Sub(v, k.Acc(most)))), k.Select(ignored, zero, one), k.Acc(most), l}
	}}

// crossEntropyGrad is g*(exp(x-top)/exp(logsum) - onehot), with one factor g for each row; g counts as 0 in ignored
// rows.
var crossEntropyGrad = &Rows{Main: 1, name: named("cross_entropy_grad"), split: alongDim, Whole: true,
	passes: always(0),
	Level:  func(_ []int64, operand int) Level { return [...]Level{Row, Full, Row, Row, Row}[operand] },
	body: func(o *operands) []int {
		k, all, x, top, logsum := o.k, o.x[0], o.x[1], o.x[3], o.x[4]
		// A class fits 32 bits, or the forward pass found a fault.
		class := k.Cast(ir.I64, k.Cast(ir.I32, o.x[2]))
		zero := k.Float(k.Type(all), 0)
		ignored := k.Eq(class, k.I64(o.attr[1]))
		grad := k.Select(ignored, zero, all)
		scale := k.Mul(grad, k.Un(loopir.OpExp, k.Neg(logsum)))
		p0 := k.Mul(k.Un(loopir.OpExp, k.Sub(x, top)), scale)
		hit := k.Eq(k.Index(k.outer), class)
		return []int{k.Select(ignored, zero, k.Sub(p0, k.Select(hit, grad, zero)))}
	}}
