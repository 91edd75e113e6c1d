package prim

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var pConvLast op.PrimID

// ConvLast are the attributes of a convolution of pictures whose channels come last; see launch.ConvLast.
type ConvLast struct {
	Windows     op.Windows
	Outputs     int64
	Alone, Add  bool
	Least, Most float64
}

const (
	convLastTaps  = 64 // of a window, at most
	convLastLists = 5  // attributes after the windows
)

// Attr encodes c.
func (c *ConvLast) Attr() []int64 {
	bit := map[bool]int64{true: 1}
	return append(c.Windows.Attr(), c.Outputs, bit[c.Alone], bit[c.Add], int64(math.Float32bits(float32(c.Least))),
		int64(math.Float32bits(float32(c.Most))))
}

// Panels are the shapes of the weights and of the bias, for this many channels of x.
func (c *ConvLast) Panels(channels int64) (weights, bias []int64) {
	panels, taps := (c.Outputs+QuantizedPanel-1)/QuantizedPanel, ir.Numel(c.Windows.Kernel)
	bias = []int64{panels * QuantizedPanel}
	if c.Alone {
		return []int64{taps, channels}, bias
	}
	return []int64{panels, taps * channels, QuantizedPanel}, bias
}

// Possible reports windows and sizes that the kernels have.
func (c *ConvLast) Possible(channels int64) bool {
	w := &c.Windows
	if len(w.Kernel) != 2 || !w.Steps() || w.Far() || w.Base[0] != 1 || w.Base[1] != 1 || c.Outputs < 1 || channels < 1 {
		return false
	}
	if taps := ir.Numel(w.Kernel); taps < 1 || taps > convLastTaps {
		return false
	}
	return !c.Alone || c.Outputs == channels && channels >= QuantizedPanel && !c.Add
}

// Winograd reports windows and sizes of convolutions whose results are computed by Winograd's F(2x2, 3x3);
// the kernels choose these from some number of squares on.
func (c *ConvLast) Winograd(channels int64) bool {
	w := &c.Windows
	return !c.Alone && channels >= QuantizedPanel && c.Outputs >= QuantizedPanel &&
		slices.Equal(w.Kernel, []int64{3, 3}) && slices.Equal(w.Stride, []int64{1, 1}) &&
		slices.Equal(w.Dilation, []int64{1, 1})
}

// registerConvLast; attributes: those of ConvLast.
func registerConvLast() {
	pConvLast = op.RegisterPrim(op.Prim{Name: "conv_last", NIn: -1, Infer: convLastInfer,
		Doc:   "convolution of pictures whose channels come last, with a bias, perhaps an addend, and limits",
		NoVJP: "sessions make it, which have no gradients", FLOPs: func(in []op.Val, out []op.OutSpec) int64 {
			return 2 * ir.Numel(out[0].Shape) * ir.Numel(in[1].Shape()) / max(1, in[2].Shape()[0])
		}})
}

func convLastInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	w, a := op.WindowsOf(attr)
	bad := func() ([]op.OutSpec, error) {
		return nil, ir.Errorf(ir.ErrRuntime, "conv_last: got %d operands and %d attributes that do not fit", len(in),
			len(attr))
	}
	if len(a) != convLastLists || len(in) != 3+int(a[2]) || len(in[0].Shape()) != 4 {
		return bad()
	}
	c := ConvLast{Windows: w, Outputs: a[0], Alone: a[1] != 0, Add: a[2] != 0}
	x := in[0].Shape()
	if !c.Possible(x[3]) {
		return bad()
	}
	shape := []int64{x[0], w.Out[0], w.Out[1], c.Outputs}
	weights, bias := c.Panels(x[3])
	for i, want := range [][]int64{x, weights, bias, shape}[:len(in)] {
		if in[i].DType() != ir.F32 || !ir.SameShape(in[i].Shape(), want) {
			return bad()
		}
	}
	return append(out, op.OutSpec{DType: ir.F32, Shape: shape}), nil
}
