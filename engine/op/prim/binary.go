package prim

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerBinaryPrims() {
	registerFieldOps()
	registerRoundingOps()
	registerExtrema()
	registerComparisons()
	registerSelection()
}

// swapped saves an operand where the other one needs a gradient.
func swapped(need []bool) (in uint32) {
	if need[0] {
		in |= saveY
	}
	if need[1] {
		in |= saveX
	}
	return in
}

// binary registers an elementwise primitive of two operands. dx and dy give the cotangents; each is called only where
// its cotangent is wanted.
func binary(p op.Prim, a accepts, dx, dy func(c *op.VJPCall) op.Val) op.PrimID {
	p.NIn, p.Elementwise = 2, true
	p.Infer = mapInfer(p.Name, a, ir.InvalidDType)
	if p.Variants != nil {
		p.Infer = variantInfer(p.Variants, a, ir.InvalidDType)
	}
	p.VJP = func(c *op.VJPCall) []op.Val {
		var out [2]op.Val
		if c.Need[0] {
			out[0] = dx(c)
		}
		if c.Need[1] {
			out[1] = dy(c)
		}
		return out[:]
	}
	return op.RegisterPrim(p)
}

func pass(c *op.VJPCall) op.Val { return c.Cot[0] }

func zero(c *op.VJPCall) op.Val { return ZerosLike(c.B, c.Cot[0]) }

func registerFieldOps() {
	pAdd = binary(op.Prim{Name: "add", Doc: "x+y; bools: or"}, all, pass, pass)
	pSub = binary(op.Prim{Name: "sub", Doc: "x-y"}, numbers, pass,
		func(c *op.VJPCall) op.Val { return Neg(c.B, c.Cot[0]) })
	pMul = binary(op.Prim{Name: "mul", Doc: "x*y; bools: and", SaveIn: 3, SaveFor: swapped}, all,
		func(c *op.VJPCall) op.Val { return Mul(c.B, c.Cot[0], c.In[1]) },
		func(c *op.VJPCall) op.Val { return Mul(c.B, c.Cot[0], c.In[0]) })
	pDiv = binary(op.Prim{Name: "div", Doc: "x/y; integers: truncated", SaveIn: 3, SaveFor: func(need []bool) uint32 {
		if need[1] {
			return 3
		}
		return saveY
	}}, numbers,
		func(c *op.VJPCall) op.Val { return Div(c.B, c.Cot[0], c.In[1]) },
		func(c *op.VJPCall) op.Val {
			return Neg(c.B, Mul(c.B, c.Cot[0], Div(c.B, Div(c.B, c.In[0], c.In[1]), c.In[1])))
		})
	pPow = binary(op.Prim{Name: "pow", Doc: "x to the power y", SaveIn: 3, SaveOut: 1}, numbers, powBase, powExponent)
}

// powBase is y*x**(y-1), and 0 where y is 0, at x = 0 too.
func powBase(c *op.VJPCall) op.Val {
	b, g, x, y := c.B, c.Cot[0], c.In[0], c.In[1]
	if y.IsScalar() {
		switch e := y.Float(); e {
		case 0:
			return ZerosLike(b, g)
		case 1:
			return g
		case 2:
			return Mul(b, g, Mul(b, x, num(2)))
		default:
			return Mul(b, g, Mul(b, Pow(b, x, num(e-1)), num(e)))
		}
	}
	return Where(b, Eq(b, y, num(0)), num(0), Mul(b, g, Mul(b, y, Pow(b, x, Sub(b, y, num(1))))))
}

// powExponent is x**y*log(x), and 0 where x is 0 and y >= 0.
func powExponent(c *op.VJPCall) op.Val {
	b, g, x, y, r := c.B, c.Cot[0], c.In[0], c.In[1], c.Out[0]
	if x.IsScalar() {
		base := x.Float()
		full := Mul(b, g, Mul(b, r, num(math.Log(base))))
		if base == 0 {
			return Where(b, Ge(b, y, num(0)), num(0), full)
		}
		return full
	}
	full := Mul(b, g, Mul(b, r, Log(b, x)))
	if y.IsScalar() {
		return full
	}
	flat := BitwiseAnd(b, Eq(b, x, num(0)), Ge(b, y, num(0)))
	return Where(b, flat, num(0), full)
}

func registerRoundingOps() {
	pFloorDivide = binary(op.Prim{Name: "floor_divide", Doc: "floor(x/y)"}, numbers, zero, zero)
	pRemainder = binary(op.Prim{Name: "remainder", Doc: "x - y*floor(x/y)", SaveIn: 3, SaveFor: func(need []bool) uint32 {
		if need[1] {
			return 3
		}
		return 0
	}}, numbers, pass, func(c *op.VJPCall) op.Val {
		return Neg(c.B, Mul(c.B, c.Cot[0], FloorDivide(c.B, c.In[0], c.In[1])))
	})
}

// clipShare is x's share of the cotangent of the larger or smaller of x and y. Ties between tensors share it in halves;
// against a number (clamp) the bound passes it whole.
func clipShare(c *op.VJPCall, x, y op.Val) op.Val {
	b, g := c.B, c.Cot[0]
	loses, inside := Lt, Ge
	if c.Attr[0] == least {
		loses, inside = Gt, Le
	}
	if y.IsScalar() {
		return Where(b, inside(b, x, y), g, num(0))
	}
	return Where(b, Eq(b, x, y), Mul(b, g, num(0.5)), Where(b, loses(b, x, y), num(0), g))
}

func registerExtrema() {
	pClip = binary(op.Prim{Name: "clip", Doc: "the larger or the smaller of two; NaN wins", SaveIn: 3,
		Variants: []string{"maximum", "minimum"}}, all,
		func(c *op.VJPCall) op.Val { return clipShare(c, c.In[0], c.In[1]) },
		func(c *op.VJPCall) op.Val { return clipShare(c, c.In[1], c.In[0]) })
}

// The variants of compare.
const (
	CompareEq int64 = iota
	compareNe
	compareLt
	CompareLe
	compareGt
	CompareGe
)

// The variants of bitwise.
const (
	bitwiseAnd int64 = iota
	bitwiseOr
	bitwiseXor
)

func registerComparisons() {
	plain := func(name, doc string, members []string, a accepts, result ir.DType) op.PrimID {
		return op.RegisterPrim(op.Prim{Name: name, Doc: doc, NIn: 2, Elementwise: true, NoVJP: noTape, Variants: members,
			Infer: variantInfer(members, a, result)})
	}
	pBitwise = plain("bitwise", "x and, or, exclusive or y, bit by bit", []string{"bitwise_and", "bitwise_or",
		"bitwise_xor"}, logical, ir.InvalidDType)
	pCompare = plain("compare", "whether a relation of x to y holds", []string{"eq", "ne", "lt", "le", "gt", "ge"}, all,
		ir.Bool)
}

func registerSelection() {
	pWhere = op.RegisterPrim(op.Prim{Name: "where", Doc: "x where cond holds, else y", NIn: 3, Elementwise: true,
		SaveIn: 1,
		Infer: func(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			if !in[0].IsTensor() || in[0].DType() != ir.Bool {
				return nil, ir.Errorf(ir.ErrRuntime, "where expected condition to be a boolean tensor, but got a tensor with "+
					"dtype %s", in[0].DType().ScalarType())
			}
			s, err := elementwise("where", all, in[1:])
			if err == nil && !ir.SameShape(s.Shape, in[0].Shape()) {
				err = ir.Errorf(ir.ErrRuntime, "where: operands must have one shape: got %s and %s", ir.ShapeString(in[0].Shape()),
					ir.ShapeString(s.Shape))
			}
			return append(out, s), err
		},
		ScalarDType: func(_ []op.Val, out []op.OutSpec, _ int) ir.DType { return out[0].DType },
		VJP: func(c *op.VJPCall) []op.Val {
			var out [3]op.Val
			if c.Need[1] {
				out[1] = Where(c.B, c.In[0], c.Cot[0], num(0))
			}
			if c.Need[2] {
				out[2] = Where(c.B, c.In[0], num(0), c.Cot[0])
			}
			return out[:]
		}})
	pCast = op.RegisterPrim(op.Prim{Name: "cast", Doc: "conversion by value", NIn: 1, Elementwise: true, Shared: true,
		DTypeAttr: true,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			if d := attr[0]; d <= int64(ir.InvalidDType) || d >= int64(ir.NumDTypes) {
				return nil, ir.Errorf(ir.ErrType, "cast: unknown dtype %d", d)
			}
			return append(out, op.OutSpec{DType: ir.DType(attr[0]), Shape: in[0].Shape()}), nil
		},
		VJP: func(c *op.VJPCall) []op.Val { return []op.Val{Cast(c.B, c.Cot[0], c.In[0].DType())} }})
	pTri = op.RegisterPrim(op.Prim{Name: "tri", Doc: "upper or lower triangle of the last two dims", NIn: 1,
		Elementwise: true,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			if len(in[0].Shape()) < 2 {
				name := "tril"
				if attr[1] != 0 {
					name = "triu"
				}
				return nil, ir.Errorf(ir.ErrRuntime, "%s: input tensor must have at least 2 dimensions", name)
			}
			return append(out, op.OutSpec{DType: in[0].DType(), Shape: in[0].Shape()}), nil
		},
		VJP: func(c *op.VJPCall) []op.Val { return []op.Val{Tri(c.B, c.Cot[0], c.Attr[0], c.Attr[1] != 0)} }})
}
