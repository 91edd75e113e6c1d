package prim

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// The operations of scan: its second attribute.
const (
	ScanSum int64 = iota
	ScanProd
	ScanMax // NaN wins; without gradient
	ScanMin
	ScanLogSum // log(sum(exp(x)))
)

func registerOrderPrims() {
	registerScan()
	registerSort()
	pSearch = op.RegisterPrim(op.Prim{Name: "search", Doc: "how many elements of a row in order are below a value, or, " +
		"to the right, not above it", NIn: 2, NoVJP: noTape, Infer: searchInfer})
}

func registerScan() {
	pScan = op.RegisterPrim(op.Prim{Name: "scan", Doc: "running sum, product, extremum or logarithm of a sum of " +
		"exponentials along a dim", NIn: 1, SaveIn: 1, SaveOut: 1,
		InPlace: [][2]int{{0, 0}},
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			if attr[1] == ScanLogSum {
				return rowInfer("logcumsumexp", floats)(in, attr, out)
			}
			return rowInfer("scan", numbers)(in, attr, out)
		},
		VJP: func(c *op.VJPCall) []op.Val {
			b, g, dim := c.B, c.Cot[0], c.Attr[0]
			switch c.Attr[1] {
			case ScanSum:
				return []op.Val{sumFrom(b, g, dim)}
			case ScanProd:
				if b.NeedsGrad(c.In[0]) && count(c.Attr[:1], c.In[0].Shape()) <= maxPairwiseProd {
					return []op.Val{cumprodPairwise(b, g, c.In[0], dim)}
				}
				return []op.Val{cumprodGrad(b, g, c.In[0], c.Out[0], dim)}
			case ScanLogSum:
				return []op.Val{logcumsumexpGrad(b, g, c.In[0], c.Out[0], dim)}
			}
			panic(ir.Errorf(ir.ErrInternal, "BUG: scan: a running extremum on the tape"))
		}})
}

// sumFrom is the sum of g from each element on: the sum of all, less the sum up to the element, plus the element.
func sumFrom(b op.Builder, g op.Val, dim int64) op.Val {
	return Add(b, Sub(b, sumSpread(b, g, dim), Scan(b, g, dim, ScanSum)), g)
}

// cumprodGrad: before the first zero of a row the gradient is the sum from the element on of gy*y, divided by x. At the
// zero it is that sum with products that leave out the zero. After it, it is 0.
func cumprodGrad(b op.Builder, g, x, y op.Val, dim int64) op.Val {
	zero := Eq(b, x, num(0))
	zeros := Scan(b, Cast(b, zero, ir.I32), dim, ScanSum)
	before := Eq(b, zeros, op.IntVal(0))
	first := BitwiseAnd(b, zero, Eq(b, zeros, op.IntVal(1)))
	direct := Div(b, sumFrom(b, Mul(b, g, y), dim), Where(b, zero, num(1), x))
	others := Scan(b, Where(b, first, num(1), x), dim, ScanProd)
	atZero := sumFrom(b, Where(b, before, num(0), Mul(b, g, others)), dim)
	return Where(b, before, direct, Where(b, first, atZero, num(0)))
}

// cumprodPairwise is the same by n running products, in each of which one element is replaced by 1: element k is the
// sum over i >= k of gy[i] times the product of the elements up to i without x[k]. It is differentiable at zeros.
func cumprodPairwise(b op.Builder, g, x op.Val, dim int64) op.Val {
	if len(x.Shape()) == 0 {
		return g
	}
	last := int64(len(x.Shape()) - 1)
	rows := func(v op.Val) op.Val { // [..., n, n], of which each row is v
		v = Unsqueeze(b, Transpose(b, v, dim, last), last)
		shape := slices.Clone(v.Shape())
		shape[last] = shape[last+1]
		return Expand(b, v, shape)
	}
	wide := rows(x)
	upper := Tri(b, OnesLike(b, b.Detach(wide)), 0, true)
	others := Scan(b, Where(b, eye(b, wide), num(1), wide), last+1, ScanProd)
	sum := Sum(b, Mul(b, Mul(b, rows(g), others), upper), []int64{last + 1})
	return Transpose(b, sum, dim, last)
}

// logcumsumexpGrad is exp(x) times the sum from the element on of g*exp(-y), in logarithms, separately for positive and
// negative cotangents.
func logcumsumexpGrad(b op.Builder, g, x, y op.Val, dim int64) op.Val {
	part := func(sign op.Val) op.Val {
		sum := Flip(b, Scan(b, Flip(b, Sub(b, signedLog(b, sign), y), dim), dim, ScanLogSum), dim)
		return Exp(b, Add(b, sum, x))
	}
	return Sub(b, part(g), part(Neg(b, g)))
}

// signedLog is the logarithm of the positive elements of v; of others, the least finite number.
func signedLog(b op.Builder, v op.Val) op.Val {
	has := Gt(b, v, num(0))
	return Where(b, has, Log(b, Where(b, has, v, num(1))), num(-Largest(v.DType())))
}

// Largest is the greatest finite value of a float dtype.
func Largest(d ir.DType) float64 {
	switch d {
	case ir.F16:
		return 65504
	case ir.BF16:
		return math.Ldexp(2-math.Ldexp(1, -7), 127)
	case ir.F64:
		return math.MaxFloat64
	}
	return math.MaxFloat32
}

func registerSort() {
	pSort = op.RegisterPrim(op.Prim{Name: "sort",
		Doc: "the first k elements along a dim in stable order, NaN above all, " +
			"and their indices", NIn: 1, SaveOut: 2,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			x := in[0]
			d, err := ir.CheckDim(attr[1], len(x.Shape()))
			if err != nil {
				return nil, err
			}
			if attr[0] < 0 || attr[0] > sizeAt(x, d) {
				return nil, ir.Errorf(ir.ErrRuntime, "selected index k out of range")
			}
			shape := slices.Clone(x.Shape())
			if len(shape) > 0 {
				shape[d] = attr[0]
			}
			return append(out, op.OutSpec{DType: x.DType(), Shape: shape}, op.OutSpec{DType: ir.I64, Shape: shape}), nil
		},
		VJP: func(c *op.VJPCall) []op.Val {
			g, shape := c.Cot[0], c.In[0].Shape()
			if g.Kind == op.None || len(shape) == 0 {
				return []op.Val{g}
			}
			return []op.Val{Scatter(c.B, Zeros(c.B, g.DType(), g.Device(), shape), c.Out[1], g, c.Attr[1])}
		}})
}

// searchInfer is the rule of search: rows [..., n] and values [..., m] with the same leading dims, of one dtype.
func searchInfer(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	rows, v := in[0].Shape(), in[1].Shape()
	if in[0].DType() != in[1].DType() || len(rows) == 0 || len(rows) != len(v) || !slices.Equal(rows[:len(rows)-1],
		v[:len(v)-1]) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: search: rows %v%s, values %v%s", in[0].DType(), ir.ShapeString(rows),
			in[1].DType(), ir.ShapeString(v))
	}
	return append(out, op.OutSpec{DType: ir.I64, Shape: v}), nil
}
