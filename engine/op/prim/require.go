package prim

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Requirement is what data must be; it selects the text of the error.
type Requirement int64

// Requirements of draws, of cov's weights, of binary_cross_entropy and of values under a mask, with PyTorch's texts.
const (
	RequireProbability Requirement = iota
	RequireDeviation
	RequireWeights
	RequireWeightSum
	RequireRate
	RequireCounts
	RequireImportance
	RequireUnit
	RequireRows
)

var requirements = [...]string{
	RequireProbability: "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
	RequireDeviation:   "normal expects all elements of std >= 0.0",
	RequireWeights:     "probability tensor contains either `inf`, `nan` or element < 0",
	RequireWeightSum:   "invalid multinomial distribution (sum of probabilities <= 0)",
	RequireRate:        "invalid Poisson rate, expected rate to be non-negative",
	RequireCounts:      "cov(): fweights cannot be negative",
	RequireImportance:  "cov(): aweights cannot be negative",
	RequireUnit:        "all elements of input should be between 0 and 1",
	RequireRows: "shape mismatch: value tensor cannot be broadcast to indexing result: it has another number of rows " +
		"than the mask has true elements",
}

var pRequire op.PrimID

func registerRequire() {
	pRequire = op.RegisterPrim(op.Prim{Name: "require", Doc: "x; where ok does not hold, reading a result of it raises " +
		"an error", NIn: 2, Elementwise: true,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			ok, x := in[0], in[1]
			if ok.DType() != ir.Bool || !ir.SameShape(ok.Shape(), x.Shape()) {
				return nil, ir.Errorf(ir.ErrRuntime, "require: expected a bool tensor of shape %s, got %s of shape %s",
					ir.ShapeString(x.Shape()), ok.DType(), ir.ShapeString(ok.Shape()))
			}
			if attr[0] < 0 || attr[0] >= int64(len(requirements)) {
				return nil, ir.Errorf(ir.ErrRuntime, "require: unknown requirement %d", attr[0])
			}
			return append(out, op.OutSpec{DType: x.DType(), Shape: x.Shape()}), nil
		},
		VJP: func(c *op.VJPCall) []op.Val { return []op.Val{{}, c.Cot[0]} },
		DataError: func(attr []int64, _ int64) *ir.Error {
			return ir.Errorf(ir.ErrRuntime, "%s", requirements[attr[0]])
		},
	})
}

// Require is x. Where ok, of x's shape, does not hold, the read of a result that depends on it raises RuntimeError with
// the text of r.
func Require(b op.Builder, ok, x op.Val, r Requirement) op.Val {
	return b.Emit(pRequire, []int64{int64(r)}, ok, x)
}
