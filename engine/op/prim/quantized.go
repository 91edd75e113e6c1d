package prim

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var pQuantizedProduct op.PrimID

// QuantizedPanel is the number of outputs in a panel: launch.PanelWidth.
const QuantizedPanel = 16

// registerQuantized; attributes: bits, group (at least K for one scale a row), outputs, has offset, has bias, dynamic.
func registerQuantized() {
	pQuantizedProduct = op.RegisterPrim(op.Prim{Name: "quantized_product", NIn: -1, Infer: quantizedInfer,
		Doc:   "product of float32 rows with weights of 8 or 4 bits, which have a scale and perhaps an offset for each group",
		NoVJP: "quantized programs are for inference", FLOPs: func(in []op.Val, out []op.OutSpec) int64 {
			return 2 * ir.Numel(out[0].Shape) * in[0].Shape()[1]
		}})
}

// Quantized are the attributes of a product with quantized weights; see launch.Quantized.
type Quantized struct {
	Bits, Group, Outputs int64
	Dynamic              bool
}

// QuantizedProduct emits x[m, k] times weights, plus bias; offset and bias may be absent.
func QuantizedProduct(b op.Builder, q Quantized, x, w, scale, offset, bias op.Val) op.Val {
	in, attr := []op.Val{x, w, scale}, []int64{q.Bits, q.Group, q.Outputs, 0, 0, 0}
	for i, v := range []op.Val{offset, bias} {
		if v.IsTensor() {
			in, attr[3+i] = append(in, v), 1
		}
	}
	if q.Dynamic {
		attr[5] = 1
	}
	return b.Emit(pQuantizedProduct, attr, in...)
}

func quantizedInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	bits, group, n := attr[0], attr[1], attr[2]
	if len(in[0].Shape()) != 2 || in[0].DType() != ir.F32 {
		return nil, ir.Errorf(ir.ErrRuntime, "quantized_linear: got an input of %s and shape %s, want rows of float32",
			in[0].DType().ScalarType(), ir.ShapeString(in[0].Shape()))
	}
	k := in[0].Shape()[1]
	if bits != 4 && bits != 8 || n < 0 || group < 1 || group%8 != 0 && group < k ||
		bits == 8 && (group < k || attr[3] != 0) {
		return nil, ir.Errorf(ir.ErrRuntime, "quantized_linear: got %d bits in groups of %d, want 8 bits with one scale for "+
			"each output and no offsets, or 4 bits in groups of a multiple of 8", bits, group)
	}
	panels, words := (n+QuantizedPanel-1)/QuantizedPanel, (k+7)/8
	scale, groups := ir.BF16, (k+group-1)/group
	if bits == 8 {
		words, scale = (k+63)/64*16, ir.F32
	}
	want := []struct {
		d     ir.DType
		shape []int64
	}{{ir.I32, []int64{panels, words, QuantizedPanel}}, {scale, []int64{panels, groups, QuantizedPanel}}}
	if attr[3] != 0 {
		want = append(want, want[1])
	}
	if attr[4] != 0 {
		want = append(want, want[0])
		want[len(want)-1].d, want[len(want)-1].shape = ir.F32, []int64{n}
	}
	for i, s := range want {
		if x := in[i+1]; x.DType() != s.d || !ir.SameShape(x.Shape(), s.shape) {
			return nil, ir.Errorf(ir.ErrRuntime, "quantized_linear: operand %d: got %s of shape %s, want %s of shape %s for %d "+
				"outputs of %d terms", i+1, x.DType().ScalarType(), ir.ShapeString(x.Shape()), s.d.ScalarType(),
				ir.ShapeString(s.shape), n, k)
		}
	}
	return append(out, op.OutSpec{DType: ir.F32, Shape: []int64{in[0].Shape()[0], n}}), nil
}
