package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerProductPrims() {
	pMatmul = op.RegisterPrim(op.Prim{Name: "matmul", Doc: "batched matrix product, with bias", NIn: -1, SaveIn: 3,
		Infer:   matmulInfer,
		SaveFor: swapped,
		VJP: func(c *op.VJPCall) []op.Val {
			b, g := c.B, c.Cot[0]
			out := make([]op.Val, len(c.In))
			if c.Need[0] {
				out[0] = productLike(b, c.In[0], g, Transpose(b, c.In[1], -1, -2))
			}
			if c.Need[1] {
				out[1] = productLike(b, c.In[1], Transpose(b, c.In[0], -1, -2), g)
			}
			if len(c.In) > 2 && c.Need[2] {
				var dims []int64
				for i := range len(g.Shape()) - 1 {
					dims = append(dims, int64(i))
				}
				out[2] = Sum(b, g, dims)
			}
			return out
		},
		FLOPs: func(in []op.Val, out []op.OutSpec) int64 {
			return 2 * ir.Numel(out[0].Shape) * in[0].Shape()[len(in[0].Shape())-1]
		}})
}

// productLike is x @ y, the cotangent of like. It is computed transposed where like is transposed in memory, so that
// the cotangent of a weight's transpose is dense.
func productLike(b op.Builder, like, x, y op.Val) op.Val {
	st := like.L().Stride
	if n := len(st); st[n-1] != 1 && st[n-2] == 1 {
		return Transpose(b, Matmul(b, Transpose(b, y, -1, -2), Transpose(b, x, -1, -2), op.Val{}), -1, -2)
	}
	return Matmul(b, x, y, op.Val{})
}

func matmulInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	x, y := in[0].Shape(), in[1].Shape()
	r := len(x)
	if in[0].DType() != in[1].DType() {
		return nil, ir.Errorf(ir.ErrRuntime, "expected m1 and m2 to have the same dtype, but got: %s != %s",
			in[0].DType().CName(), in[1].DType().CName())
	}
	if d := in[0].DType(); d == ir.Bool {
		return nil, notImplemented("addmm_impl_cpu_", d)
	}
	if r < 2 || r != len(y) || !slices.Equal(x[:r-2], y[:r-2]) {
		return nil, ir.Errorf(ir.ErrRuntime, "matmul: operands must have equal batch dims: got %s and %s", ir.ShapeString(x),
			ir.ShapeString(y))
	}
	if x[r-1] != y[r-2] {
		return nil, ir.Errorf(ir.ErrRuntime, "mat1 and mat2 shapes cannot be multiplied (%dx%d and %dx%d)", x[r-2], x[r-1],
			y[r-2], y[r-1])
	}
	if attr[0] != 0 {
		if s := in[2].Shape(); len(s) != 1 || s[0] != y[r-1] || in[2].DType() != in[0].DType() {
			return nil, ir.Errorf(ir.ErrRuntime, "matmul: bias must have shape [%d] and the operands' dtype: got %s", y[r-1],
				ir.ShapeString(s))
		}
	}
	return append(out, op.OutSpec{DType: in[0].DType(), Shape: append(slices.Clone(x[:r-1]), y[r-1])}), nil
}
