package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var pQuantizedConv op.PrimID

// QuantizedConv are the attributes of a convolution of 8-bit elements; see launch.QuantizedConv. Sizes are those of a
// group. Rows: x has rows of channels, with windows of one element, and so has the result.
type QuantizedConv struct {
	Windows         op.Windows
	Groups, Outputs int64
	DType           ir.DType // of the result
	ZeroX, ZeroY    int64
	Least, Most     int64 // of the result, where that is integers
	Rows            bool
	Dynamic         bool // operands after the sums: the zero of x, and a step of all scales
	Shifted         bool // the last operand: what weights are less, for each output
	Narrow          bool // weights are between -64 and 64, before they are shifted
}

// quantizedConvLists is the number of attributes after the windows.
const quantizedConvLists = 11

// Attr encodes q.
func (q *QuantizedConv) Attr() []int64 {
	attr := append(q.Windows.Attr(), q.Groups, q.Outputs, int64(q.DType), q.ZeroX, q.ZeroY, q.Least, q.Most)
	for _, on := range []bool{q.Rows, q.Dynamic, q.Shifted, q.Narrow} {
		attr = append(attr, 0)
		if on {
			attr[len(attr)-1] = 1
		}
	}
	return attr
}

// QuantizedConvOf decodes what Attr made.
func QuantizedConvOf(attr []int64) (q QuantizedConv, ok bool) {
	w, a := op.WindowsOf(attr)
	if len(w.Kernel) != 2 || len(a) != quantizedConvLists {
		return q, false
	}
	return QuantizedConv{Windows: w, Groups: a[0], Outputs: a[1], DType: ir.DType(a[2]), ZeroX: a[3], ZeroY: a[4],
		Least: a[5], Most: a[6], Rows: a[7] != 0, Dynamic: a[8] != 0, Shifted: a[9] != 0,
		Narrow: a[10] != 0}, true
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

// operand is the dtype and shape of an operand.
type quantizedOperand struct {
	d     ir.DType
	shape []int64
}

// operands are those after x, whose dtype is d, for channels of a group.
func (q *QuantizedConv) operands(d ir.DType, channels int64) []quantizedOperand {
	words, outputs := q.Panels(channels)
	list := []quantizedOperand{{ir.I32, words}, {ir.F32, outputs}, {ir.F32, outputs}, {ir.I32, outputs}}
	if q.Dynamic {
		list = append(list, quantizedOperand{d, []int64{1}}, quantizedOperand{ir.F32, []int64{1}})
	}
	if q.Shifted {
		list = append(list, quantizedOperand{ir.I32, outputs})
	}
	return list
}

// registerQuantizedConv; attributes: those of QuantizedConv.
func registerQuantizedConv() {
	pQuantizedConv = op.RegisterPrim(op.Prim{Name: "quantized_conv", NIn: -1, Infer: quantizedConvInfer,
		Doc:   "convolution of elements of 8 bits, or a product of rows, with exact sums that are scaled and rounded",
		NoVJP: "quantized programs are for inference", FLOPs: func(in []op.Val, out []op.OutSpec) int64 {
			shape := in[1].Shape()
			return 2 * ir.Numel(out[0].Shape) * shape[1] * 4
		}})
}

func quantizedConvInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	q, ok := QuantizedConvOf(attr)
	x := in[0].Shape()
	channels := 1 // the dim
	if q.Rows {
		channels = len(x) - 1
	}
	if !ok || q.Rows && len(x) < 2 || !q.Rows && len(x) != 4 || q.Dynamic && q.DType != ir.F32 ||
		!q.Windows.Steps() || q.Windows.Far() || q.Groups < 1 || q.Outputs < 1 || x[channels]%q.Groups != 0 ||
		in[0].DType() != ir.U8 && in[0].DType() != ir.I8 || q.Rows && q.Groups != 1 ||
		q.DType != ir.F32 && q.DType != ir.U8 && q.DType != ir.I8 {
		return nil, ir.Errorf(ir.ErrRuntime, "quantized_conv: got %s of shape %s with %d attributes",
			in[0].DType().ScalarType(), ir.ShapeString(x), len(attr))
	}
	operands := q.operands(in[0].DType(), x[channels]/q.Groups)
	if len(in) != 1+len(operands) {
		return nil, ir.Errorf(ir.ErrRuntime, "quantized_conv: got %d operands, want %d", len(in), 1+len(operands))
	}
	for i, want := range operands {
		if v := in[i+1]; v.DType() != want.d || !ir.SameShape(v.Shape(), want.shape) {
			return nil, ir.Errorf(ir.ErrRuntime, "quantized_conv: operand %d: got %s of shape %s, want %s of shape %s", i+1,
				v.DType().ScalarType(), ir.ShapeString(v.Shape()), want.d.ScalarType(), ir.ShapeString(want.shape))
		}
	}
	shape := append(slices.Clone(x[:channels]), q.Groups*q.Outputs)
	if !q.Rows {
		shape = append(shape, q.Windows.Out...)
	}
	return append(out, op.OutSpec{DType: q.DType, Shape: shape}), nil
}
