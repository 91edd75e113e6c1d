package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerMovePrims() {
	pCat = op.RegisterPrim(op.Prim{Name: "cat", Doc: "tensors joined along a dim", NIn: -1, Infer: catInfer,
		VJP: func(c *op.VJPCall) []op.Val {
			out := make([]op.Val, len(c.In))
			d := ir.WrapDim(c.Attr[0], len(c.Cot[0].Shape()))
			at := int64(0)
			for i, x := range c.In {
				n := x.Shape()[d]
				if c.Need[i] {
					out[i] = Slice(c.B, c.Cot[0], int64(d), at, at+n, 1)
				}
				at += n
			}
			return out
		}})
	pStridedScatter = op.RegisterPrim(op.Prim{Name: "strided_scatter", Doc: "base with value written at a view of it",
		NIn:     3,
		InPlace: [][2]int{{0, 0}}, UpdatesInput: true, Infer: stridedScatterInfer("strided_scatter"), ScalarDType: i64Scalars,
		LayoutAttrs: []int{0}, WritesView: true,
		VJP: func(c *op.VJPCall) []op.Val {
			l, off := ir.LayoutOf(ir.LayoutID(c.Attr[0])), int64(c.In[2].Bits())
			out := make([]op.Val, 3)
			if c.Need[0] {
				zero := Expand(c.B, Zeros(c.B, c.Cot[0].DType(), c.Cot[0].Device(), nil), l.Shape)
				out[0] = StridedScatter(c.B, c.Cot[0], zero, l, off)
			}
			if c.Need[1] {
				out[1] = atView(c.B, c.Cot[0], l, off)
			}
			return out
		}})
	pStridedScatterAdd = op.RegisterPrim(op.Prim{Name: "strided_scatter_add", Doc: "base with value added at a view of it",
		NIn:     3,
		InPlace: [][2]int{{0, 0}}, UpdatesInput: true, Unordered: true, Infer: stridedScatterInfer("strided_scatter_add"),
		ScalarDType: i64Scalars,
		LayoutAttrs: []int{0},
		VJP: func(c *op.VJPCall) []op.Val {
			out := []op.Val{c.Cot[0], {}, {}}
			if c.Need[1] {
				out[1] = atView(c.B, c.Cot[0], ir.LayoutOf(ir.LayoutID(c.Attr[0])), int64(c.In[2].Bits()))
			}
			return out
		}})
}

// atView is the view (l, off) of g's dense form.
func atView(b op.Builder, g op.Val, l *ir.Layout, off int64) op.Val {
	g = Contiguous(b, g)
	return AsStrided(b, g, l.Shape, l.Stride, g.Offset+off)
}

func catInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	if len(in) == 0 {
		return nil, ir.Errorf(ir.ErrValue, "expected a non-empty list of Tensors")
	}
	first := in[0].Shape()
	if len(first) == 0 {
		return nil, ir.Errorf(ir.ErrRuntime, "zero-dimensional tensor (at position 0) cannot be concatenated")
	}
	d, err := ir.CheckDim(attr[0], len(first))
	if err != nil {
		return nil, err
	}
	shape := slices.Clone(first)
	for i, x := range in[1:] {
		s := x.Shape()
		if len(s) != len(first) {
			return nil, ir.Errorf(ir.ErrRuntime, "Tensors must have same number of dimensions: got %d and %d", len(first),
				len(s))
		}
		if x.DType() != in[0].DType() {
			return nil, ir.Errorf(ir.ErrRuntime, "cat: tensors must have one dtype: got %v and %v", in[0].DType(), x.DType())
		}
		for k := range s {
			if k != d && s[k] != first[k] {
				return nil, ir.Errorf(ir.ErrRuntime, "Sizes of tensors must match except in dimension %d. Expected size %d but "+
					"got size %d for tensor number %d in the list.", d, first[k], s[k], i+1)
			}
		}
		shape[d] += s[d]
	}
	return append(out, op.OutSpec{DType: in[0].DType(), Shape: shape}), nil
}

func stridedScatterInfer(name string) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		base, value := in[0], in[1]
		l := ir.LayoutOf(ir.LayoutID(attr[0]))
		if base.DType() != value.DType() {
			return nil, ir.Errorf(ir.ErrRuntime, "%s: base and value must have one dtype: got %v and %v", name, base.DType(),
				value.DType())
		}
		if !slices.Equal(l.Shape, value.Shape()) {
			return nil, ir.Errorf(ir.ErrRuntime, "%s: value must have the view's shape: got %s, want %s", name,
				ir.ShapeString(value.Shape()), ir.ShapeString(l.Shape))
		}
		return append(out, op.OutSpec{DType: base.DType(), Shape: base.Shape()}), nil
	}
}
