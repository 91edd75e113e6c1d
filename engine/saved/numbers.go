package saved

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// Compute evaluates the function's formulas on the program's numbers. It returns the supplied numbers of the steps, and
// the numbers after a run. fits is false if a guard does not hold: another function of the program may fit.
func (f *Function) Compute(p *Program, numbers []float64) (supplied, after []float64, fits bool) {
	all := slices.Grow(slices.Clone(numbers), len(f.Formulas))
	for i := range f.Formulas {
		all = append(all, f.Formulas[i].Expr.Float(all))
	}
	n := len(numbers)
	for _, g := range f.Guards {
		if all[n+g.Formula] != g.Want {
			return nil, nil, false
		}
	}
	for _, k := range f.Supplied {
		supplied = append(supplied, all[n+k])
	}
	after = slices.Clone(numbers)
	for _, w := range f.Writes {
		after[w.Number] = all[n+w.Formula]
		if p.Numbers[w.Number].DType == ir.F32 {
			after[w.Number] = float64(float32(after[w.Number]))
		}
	}
	return supplied, after, true
}
