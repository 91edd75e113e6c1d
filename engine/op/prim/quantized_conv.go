package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var pQuantizedConv op.PrimID

// QuantizedConv are the attributes of a convolution of 8-bit elements; see launch.QuantizedConv. Sizes are those of a
// group. Rows: x is a matrix of rows of channels, with windows of one element, and so is the result.
type QuantizedConv struct {
	Windows         op.Windows
	Groups, Outputs int64
	DType           ir.DType // of the result
	ZeroX, ZeroY    int64
	Least, Most     int64 // of the result, where that is integers
	Rows            bool
}

// quantizedConvLists is the number of attributes after the windows.
const quantizedConvLists = 8

// Attr encodes q.
func (q *QuantizedConv) Attr() []int64 {
	rows := int64(0)
	if q.Rows {
		rows = 1
	}
	return append(q.Windows.Attr(), q.Groups, q.Outputs, int64(q.DType), q.ZeroX, q.ZeroY, q.Least, q.Most, rows)
}

// QuantizedConvOf decodes what Attr made.
func QuantizedConvOf(attr []int64) (q QuantizedConv, ok bool) {
	w, a := op.WindowsOf(attr)
	if len(w.Kernel) != 2 || len(a) != quantizedConvLists {
		return q, false
	}
	return QuantizedConv{Windows: w, Groups: a[0], Outputs: a[1], DType: ir.DType(a[2]), ZeroX: a[3], ZeroY: a[4],
		Least: a[5], Most: a[6], Rows: a[7] != 0}, true
}

// Panels are the shapes of the weights, and of scales, biases and sums, for channels of a group.
func (q *QuantizedConv) Panels(channels int64) (words, outputs []int64) {
	taps := ir.Numel(q.Windows.Kernel)
	if channels == 1 && q.Outputs == 1 {
		panels := (q.Groups + QuantizedPanel - 1) / QuantizedPanel
		return []int64{panels, (taps + 3) / 4, QuantizedPanel}, []int64{panels * QuantizedPanel}
	}
	panels := q.Groups * ((q.Outputs + QuantizedPanel - 1) / QuantizedPanel)
	return []int64{panels, taps * ((channels + 3) / 4), QuantizedPanel}, []int64{panels * QuantizedPanel}
}

// registerQuantizedConv; attributes: those of QuantizedConv.
func registerQuantizedConv() {
	pQuantizedConv = op.RegisterPrim(op.Prim{Name: "quantized_conv", NIn: 5, Infer: quantizedConvInfer,
		Doc:   "convolution of elements of 8 bits, or a product of rows, with exact sums that are scaled and rounded",
		NoVJP: "quantized programs are for inference", FLOPs: func(in []op.Val, out []op.OutSpec) int64 {
			shape := in[1].Shape()
			return 2 * ir.Numel(out[0].Shape) * shape[1] * 4
		}})
}

func quantizedConvInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	q, ok := QuantizedConvOf(attr)
	x := in[0].Shape()
	rank := 4
	if q.Rows {
		rank = 2
	}
	if !ok || len(x) != rank || !q.Windows.Steps() || q.Windows.Far() || q.Groups < 1 || q.Outputs < 1 ||
		x[1]%q.Groups != 0 || in[0].DType() != ir.U8 && in[0].DType() != ir.I8 || q.Rows && q.Groups != 1 ||
		q.DType != ir.F32 && q.DType != ir.U8 && q.DType != ir.I8 {
		return nil, ir.Errorf(ir.ErrRuntime, "quantized_conv: got %s of shape %s with %d attributes",
			in[0].DType().ScalarType(), ir.ShapeString(x), len(attr))
	}
	words, outputs := q.Panels(x[1] / q.Groups)
	for i, want := range [][]int64{words, outputs, outputs, outputs} {
		d := []ir.DType{ir.I32, ir.F32, ir.F32, ir.I32}[i]
		if v := in[i+1]; v.DType() != d || !ir.SameShape(v.Shape(), want) {
			return nil, ir.Errorf(ir.ErrRuntime, "quantized_conv: operand %d: got %s of shape %s, want %s of shape %s", i+1,
				v.DType().ScalarType(), ir.ShapeString(v.Shape()), d.ScalarType(), ir.ShapeString(want))
		}
	}
	shape := []int64{x[0], q.Groups * q.Outputs}
	if !q.Rows {
		shape = slices.Concat(shape, q.Windows.Out)
	}
	return append(out, op.OutSpec{DType: q.DType, Shape: shape}), nil
}
