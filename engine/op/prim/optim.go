package prim

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

const optimizerStep = op.NotDifferentiable("an optimizer's step is an update, not a function to differentiate")

func registerOptimPrims() {
	// Attributes: sgd nesterov, maximize, has buf, has overflow; adam decoupled, amsgrad, maximize, has overflow.
	pSGDStep = op.RegisterPrim(op.Prim{Name: "sgd_step", Doc: "one step of SGD: p, buf?", NIn: -1, NoVJP: optimizerStep,
		InPlace: [][2]int{{0, 0}, {1, 2}}, Infer: stepInfer("sgd_step", func(attr []int64) (tensors int, state []int) {
			if attr[2] != 0 {
				return 3 + int(attr[3]), []int{0, 2}
			}
			return 2 + int(attr[3]), []int{0}
		})})
	pAdamStep = op.RegisterPrim(op.Prim{Name: "adam_step", Doc: "one step of Adam or AdamW: p, m, v, vmax?", NIn: -1,
		NoVJP:   optimizerStep,
		InPlace: [][2]int{{0, 0}, {1, 2}, {2, 3}, {3, 4}}, Infer: stepInfer("adam_step", func(attr []int64) (tensors int,
			state []int) {
			if attr[1] != 0 {
				return 5 + 3*int(attr[3]), []int{0, 2, 3, 4}
			}
			return 4 + 3*int(attr[3]), []int{0, 2, 3}
		})})
}

// stepInfer gives one output for each state tensor. operands returns the number of tensor inputs, and which of them are
// state.
func stepInfer(name string, operands func(attr []int64) (tensors int, state []int)) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		n, state := operands(attr)
		for _, x := range in[:n] {
			if !ir.SameShape(x.Shape(), in[0].Shape()) {
				return nil, ir.Errorf(ir.ErrRuntime, "%s: tensors must have the parameter's shape: got %s, want %s", name,
					ir.ShapeString(x.Shape()), ir.ShapeString(in[0].Shape()))
			}
			if !x.DType().IsFloat() {
				return nil, notImplemented(name, x.DType())
			}
		}
		for _, i := range state {
			out = append(out, op.OutSpec{DType: in[i].DType(), Shape: in[i].Shape()})
		}
		return out, nil
	}
}
