package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

func init() {
	registerGathers()
	registerScatters()
}

func sizeAt(v op.Val, d int) int64 {
	if s := v.Shape(); len(s) > 0 {
		return s[d]
	}
	return 1
}

func checkIndexType(name, types string, i op.Val) error {
	if d := i.DType(); d != ir.I64 && d != ir.I32 {
		return ir.Errorf(ir.ErrRuntime, "%s(): Expected dtype %s for index", name, types)
	}
	return nil
}

// gatherLike checks dim, index type and rank of gather(x, i) and of scatters.
func gatherLike(name string, in []op.Val, attr []int64) (int, error) {
	d, err := checkDim(attr[0], len(in[0].Shape()))
	if err != nil {
		return 0, err
	}
	if err := checkIndexType(name, "int32/int64", in[1]); err != nil {
		return 0, err
	}
	if max(len(in[0].Shape()), 1) != max(len(in[1].Shape()), 1) {
		of := "self"
		if name == "gather" {
			of = "input"
		}
		return 0, ir.Errorf(ir.ErrRuntime, "Index tensor must have the same number of dimensions as %s tensor", of)
	}
	return d, checkNotEmpty(ir.ErrRuntime, in[0], in[1], d)
}

// checkNotEmpty refuses any index into a dim of size 0.
func checkNotEmpty(class ir.Code, x, i op.Val, d int) error {
	if sizeAt(x, d) == 0 && i.L().Numel > 0 {
		return ir.Errorf(class, "index out of range: dimension %d has size 0", d)
	}
	return nil
}

// inIndex brings the cotangent of a source back to its shape, of which only the
// leading region of the index's shape was read.
func inIndex(b op.Builder, g op.Val, shape []int64) op.Val {
	if slices.Equal(g.Shape(), shape) {
		return g
	}
	l := ir.InternLayout(g.Shape(), ir.DenseStrides(shape))
	return StridedScatter(b, Zeros(b, g.DType(), g.Device(), shape), g, l, 0)
}

func registerGathers() {
	pGather = op.RegisterPrim(op.Prim{Name: "gather", IndexInput: 1, Doc: "x at indices along a dim", NIn: 2, SaveIn: 2,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			d, err := gatherLike("gather", in, attr)
			if err != nil {
				return nil, err
			}
			for k := range in[1].Shape() {
				if k != d && sizeAt(in[1], k) > sizeAt(in[0], k) {
					return nil, ir.Errorf(ir.ErrRuntime, "Size does not match at dimension %d expected index %s to be no larger than self %s apart from dimension %d",
						k, ir.ShapeString(in[1].Shape()), ir.ShapeString(in[0].Shape()), d)
				}
			}
			return append(out, op.OutSpec{DType: in[0].DType(), Shape: in[1].Shape()}), nil
		},
		VJP: func(c *op.VJPCall) []op.Val {
			g := c.Cot[0]
			zeros := Zeros(c.B, g.DType(), g.Device(), c.In[0].Shape())
			return []op.Val{ScatterAdd(c.B, zeros, c.In[1], g, c.Attr[0]), {}}
		}})
	pIndexSelect = op.RegisterPrim(op.Prim{Name: "index_select", IndexInput: 1, Doc: "slices of x that a 1-d index names", NIn: 2, SaveIn: 2,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			d, err := checkDim(attr[0], len(in[0].Shape()))
			if err != nil {
				return nil, err
			}
			if len(in[1].Shape()) > 1 {
				return nil, ir.Errorf(ir.ErrIndex, "index_select(): Index is supposed to be a vector")
			}
			if err := checkIndexType("index_select", "int32 or int64", in[1]); err != nil {
				return nil, err
			}
			if err := checkNotEmpty(ir.ErrIndex, in[0], in[1], d); err != nil {
				return nil, err
			}
			shape := slices.Clone(in[0].Shape())
			if len(shape) > 0 {
				shape[d] = in[1].L().Numel
			}
			return append(out, op.OutSpec{DType: in[0].DType(), Shape: shape}), nil
		},
		VJP: func(c *op.VJPCall) []op.Val {
			g := c.Cot[0]
			zeros := Zeros(c.B, g.DType(), g.Device(), c.In[0].Shape())
			return []op.Val{IndexAdd(c.B, zeros, c.In[1], g, c.Attr[0]), {}}
		}})
}

func scatterInfer(name string) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		d, err := gatherLike(name, in, attr)
		if err != nil {
			return nil, err
		}
		if src := in[2]; src.IsTensor() {
			if src.DType() != in[0].DType() {
				return nil, ir.Errorf(ir.ErrRuntime, "scatter(): Expected self.dtype to be equal to src.dtype")
			}
			for k := range in[1].Shape() {
				n := sizeAt(in[1], k)
				if n > sizeAt(src, k) || k != d && n > sizeAt(in[0], k) {
					return nil, ir.Errorf(ir.ErrRuntime, "Expected index %s to be no larger than self %s apart from dimension %d and to be no larger size than src %s",
						ir.ShapeString(in[1].Shape()), ir.ShapeString(in[0].Shape()), d, ir.ShapeString(src.Shape()))
				}
			}
		}
		return append(out, op.OutSpec{DType: in[0].DType(), Shape: in[0].Shape()}), nil
	}
}

func indexAddInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	x, i, src := in[0], in[1], in[2]
	d, err := checkDim(attr[0], len(x.Shape()))
	if err != nil {
		return nil, err
	}
	if len(i.Shape()) > 1 {
		return nil, ir.Errorf(ir.ErrIndex, "index_add_(): Index is supposed to be a vector, but got dim: %d", len(i.Shape()))
	}
	if err := checkIndexType("index_add_", "int32/int64", i); err != nil {
		return nil, err
	}
	if x.DType() != src.DType() {
		return nil, ir.Errorf(ir.ErrRuntime, "index_add_(): self (%s) and source (%s) must have the same scalar type", scalarTypeNames[x.DType()], scalarTypeNames[src.DType()])
	}
	if i.L().Numel != sizeAt(src, d) {
		return nil, ir.Errorf(ir.ErrRuntime, "index_add_(): Number of indices (%d) should be equal to source.size(dim): (%d), for dim: %d", i.L().Numel, sizeAt(src, d), d)
	}
	ok := len(x.Shape()) == len(src.Shape())
	for k := 0; ok && k < len(x.Shape()); k++ {
		ok = k == d || x.Shape()[k] == src.Shape()[k]
	}
	if !ok {
		return nil, ir.Errorf(ir.ErrRuntime, "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = %s source.shape = %s",
			ir.ShapeString(x.Shape()), ir.ShapeString(src.Shape()))
	}
	return append(out, op.OutSpec{DType: x.DType(), Shape: x.Shape()}), checkNotEmpty(ir.ErrRuntime, x, i, d)
}

func registerScatters() {
	base := [][2]int{{0, 0}}
	pScatterAdd = op.RegisterPrim(op.Prim{Name: "scatter_add", IndexInput: 1, Doc: "x with src added at indices along a dim", NIn: 3, SaveIn: 2, InPlace: base, Updates: true, Infer: scatterInfer("scatter_add"),
		VJP: func(c *op.VJPCall) []op.Val {
			out := []op.Val{c.Cot[0], {}, {}}
			if c.Need[2] {
				out[2] = inIndex(c.B, Gather(c.B, c.Cot[0], c.In[1], c.Attr[0]), c.In[2].Shape())
			}
			return out
		}})
	pScatter = op.RegisterPrim(op.Prim{Name: "scatter", IndexInput: 1, Doc: "x with src written at indices along a dim", NIn: 3, SaveIn: 2, InPlace: base, Updates: true, Infer: scatterInfer("scatter"),
		VJP: func(c *op.VJPCall) []op.Val {
			out := make([]op.Val, 3)
			if c.Need[0] {
				out[0] = Scatter(c.B, c.Cot[0], c.In[1], num(0), c.Attr[0])
			}
			if c.Need[2] {
				out[2] = inIndex(c.B, Gather(c.B, c.Cot[0], c.In[1], c.Attr[0]), c.In[2].Shape())
			}
			return out
		}})
	pIndexAdd = op.RegisterPrim(op.Prim{Name: "index_add", IndexInput: 1, Doc: "x with slices of src added where a 1-d index says", NIn: 3, SaveIn: 2, InPlace: base, Updates: true, Infer: indexAddInfer,
		VJP: func(c *op.VJPCall) []op.Val {
			out := []op.Val{c.Cot[0], {}, {}}
			if c.Need[2] {
				out[2] = IndexSelect(c.B, c.Cot[0], c.In[1], c.Attr[0])
			}
			return out
		}})
}
