package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerIndexPrims() {
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

// Along expands a 1-d index to shape, along whose dim it runs.
func Along(b op.Builder, i op.Val, shape []int64, dim int64) op.Val {
	s := make([]int64, len(shape))
	for k := range s {
		s[k] = 1
	}
	if len(s) > 0 {
		s[ir.WrapDim(dim, len(s))] = i.L().Numel
	}
	return Expand(b, Reshape(b, i, s), shape)
}

// gatherLike checks dim, index dtype and rank of gather(x, i) and of scatters.
func gatherLike(name string, in []op.Val, attr []int64) (int, error) {
	d, err := ir.CheckDim(attr[0], len(in[0].Shape()))
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

func registerGathers() {
	pGather = op.RegisterPrim(op.Prim{Name: "gather", IndexInput: 1, Doc: "x at indices along a dim", NIn: 2, SaveIn: 2,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			d, err := gatherLike("gather", in, attr)
			if err != nil {
				return nil, err
			}
			for k := range in[1].Shape() {
				if k != d && sizeAt(in[1], k) > sizeAt(in[0], k) {
					return nil, ir.Errorf(ir.ErrRuntime, "Size does not match at dimension %d expected index %s to be no larger than "+
						"self %s apart from dimension %d",
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
	pIndexSelect = op.RegisterPrim(op.Prim{Name: "index_select", IndexInput: 1, Doc: "slices of x that a 1-d index names",
		NIn: 2, SaveIn: 2,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			d, err := ir.CheckDim(attr[0], len(in[0].Shape()))
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

func scatterInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	d, err := gatherLike("scatter", in, attr)
	if err != nil {
		return nil, err
	}
	if src := in[2]; src.IsTensor() {
		if src.DType() != in[0].DType() {
			return nil, ir.Errorf(ir.ErrRuntime, "scatter(): Expected self.dtype to be equal to src.dtype")
		}
		for k := range in[1].Shape() {
			if n := sizeAt(in[1], k); n != sizeAt(src, k) || k != d && n > sizeAt(in[0], k) {
				return nil, ir.Errorf(ir.ErrRuntime, "Expected index %s to be no larger than self %s apart from dimension %d and "+
					"to have the size of src %s",
					ir.ShapeString(in[1].Shape()), ir.ShapeString(in[0].Shape()), d, ir.ShapeString(src.Shape()))
			}
		}
	}
	return append(out, op.OutSpec{DType: in[0].DType(), Shape: in[0].Shape()}), nil
}

// The modes of scatter (the first two) and of scatter_reduce. The numbers are those of loopir.StoreMode.
const (
	ScatterSet int64 = iota
	ScatterSum
	ScatterProd
	ScatterMax
	ScatterMin
)

func registerScatters() {
	base := [][2]int{{0, 0}}
	pScatter = op.RegisterPrim(op.Prim{Name: "scatter", IndexInput: 1, Doc: "x with src written, or added, at indices " +
		"along a dim", NIn: 3, SaveIn: 2, InPlace: base, UpdatesInput: true, Unordered: true, Infer: scatterInfer,
		VJP: func(c *op.VJPCall) []op.Val {
			out := []op.Val{c.Cot[0], {}, {}}
			if c.Need[0] && c.Attr[1] == ScatterSet {
				out[0] = Scatter(c.B, c.Cot[0], c.In[1], num(0), c.Attr[0])
			}
			if c.Need[2] {
				out[2] = Gather(c.B, c.Cot[0], c.In[1], c.Attr[0])
			}
			return out
		}})
	pScatterReduce = op.RegisterPrim(op.Prim{Name: "scatter_reduce", IndexInput: 1, Doc: "x with src multiplied, or its " +
		"maximum or minimum taken, at indices along a dim",
		NIn: 3, SaveIn: 7, SaveOut: 1, InPlace: base, UpdatesInput: true, Unordered: true, Infer: scatterInfer,
		VJP: func(c *op.VJPCall) []op.Val {
			if c.Attr[1] == ScatterProd {
				return scatterProdVJP(c)
			}
			return scatterExtremumVJP(c)
		}})
}

// scatterExtremumVJP divides the cotangent of a place equally among the elements that equal its result.
func scatterExtremumVJP(c *op.VJPCall) []op.Val {
	b, x, i, src, y, d := c.B, c.In[0], c.In[1], c.In[2], c.Out[0], c.Attr[0]
	inX := Cast(b, Eq(b, x, y), x.DType())
	inSrc := Cast(b, Eq(b, src, Gather(b, y, i, d)), x.DType())
	share := Div(b, c.Cot[0], ScatterAdd(b, inX, i, inSrc, d))
	return []op.Val{Mul(b, share, inX), {}, Mul(b, Gather(b, share, i, d), inSrc)}
}

// scatterProdVJP multiplies each factor's cotangent by the product of the others: the result over the factor, or, where
// the factor is the only zero of src, the result without it.
func scatterProdVJP(c *op.VJPCall) []op.Val {
	b, x, i, src, g, d := c.B, c.In[0], c.In[1], c.In[2], c.Cot[0], c.Attr[0]
	out := make([]op.Val, 3)
	if c.Need[0] {
		filled := Where(b, Eq(b, x, num(0)), num(1), x)
		out[0] = Mul(b, g, Div(b, ScatterReduce(b, filled, i, src, d, ScatterProd), filled))
	}
	if c.Need[2] {
		zero := Eq(b, src, num(0))
		zeros := Gather(b, ScatterAdd(b, ZerosLike(b, x), i, Cast(b, zero, x.DType()), d), i, d)
		only := BitwiseAnd(b, zero, Eq(b, zeros, num(1)))
		without := ScatterReduce(b, x, i, Where(b, only, num(1), src), d, ScatterProd)
		rest := Div(b, Gather(b, Mul(b, g, c.Out[0]), i, d), Where(b, zero, num(1), src))
		out[2] = Where(b, only, Gather(b, Mul(b, g, without), i, d), rest)
	}
	return out
}
