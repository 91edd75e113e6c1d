package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerSpacesOps() {
	creation("linspace(Scalar start, Scalar end, int steps"+factoryParams,
		"steps numbers from start to end, evenly spaced.", op.Function, func(a *op.Args) []op.Val {
			start, end, n := a.Scalar(), a.Scalar(), a.Int()
			o := factory(a, rampType(a.B, start, end))
			return a.Ret(cast(a.B, anyRamp(a.B, start, end, n, o), o.dtype))
		}, samples("0, 1, 5", "-2.0, 3.0, 7", "1, 9, 1", "0, 1, 0", "0, 10, 5 | dtype=torch.int64",
			"4.3, -3, 9 | dtype=torch.int64", "-1, 1, 6 | dtype=torch.float64"), sample("0, 1, -1"))
	creation("logspace(Scalar start, Scalar end, int steps, float base=10.0"+factoryParams,
		"base to the power of steps numbers from start to end, evenly spaced.", op.Function, func(a *op.Args) []op.Val {
			start, end, n, base := a.Scalar(), a.Scalar(), a.Int(), a.Float()
			o := factory(a, rampType(a.B, start, end))
			return a.Ret(cast(a.B, prim.Pow(a.B, op.FloatVal(base), anyRamp(a.B, start, end, n, o)), o.dtype))
		}, samples("0, 1, 5", "-2.0, 2.0, 7", "1, 9, 1", "0, 1, 0", "0, 6, 4, 2 | dtype=torch.int64",
			"-1, 1, 6 | dtype=torch.float64"), sample("0, 1, -1"))
	creation("scalar_tensor(Scalar s"+factoryParams, "A 0-dim tensor of the default dtype.", op.Function,
		func(a *op.Args) []op.Val {
			v := a.Scalar()
			return a.Ret(filled(a.B, v, factory(a, a.B.DefaultDType()), nil))
		}, samples("1", "2.5", "True", "3 | dtype=torch.int64"))
	registerStrided()
	registerTriangleIndices()
}

// rampType is the default dtype of a range: complex where an end is.
func rampType(b op.Builder, start, end op.Val) ir.DType {
	if start.Number || end.Number {
		return complexDefault(b)
	}
	return b.DefaultDType()
}

// anyRamp is ramp, also between complex numbers.
func anyRamp(b op.Builder, start, end op.Val, n int64, o options) op.Val {
	if !o.dtype.IsComplex() {
		for _, v := range []op.Val{start, end} {
			asType(b, v, o.dtype) // refuses a complex number
		}
		return ramp(b, start.Float(), end.Float(), n, o)
	}
	t := ramp(b, 0, 1, n, options{dtype: o.dtype.Real(), device: o.device})
	first := filled(b, start, o, []int64{n})
	return prim.Add(b, first, prim.Mul(b, prim.Sub(b, filled(b, end, o, []int64{n}), first), t))
}

// ramp is n numbers from start to end, in the compute type of o's dtype. The second half is counted from the end, so
// that both ends are exact. For integers the ends are truncated first.
func ramp(b op.Builder, start, end float64, n int64, o options) op.Val {
	if n < 0 {
		fail(ir.ErrRuntime, "number of steps must be non-negative")
	}
	d := o.dtype.ComputeType()
	if !d.IsFloat() {
		start, end = math.Trunc(start), math.Trunc(end)
		if d = ir.F32; o.device == ir.CPU {
			d = ir.F64
		}
	}
	step := 0.0
	if n > 1 {
		step = (end - start) / float64(n-1)
	}
	half := n / 2
	if n < 2 {
		half = n
	}
	front := prim.Iota(b, op.FloatVal(start), op.FloatVal(step), d, o.device, half)
	if n < 2 {
		return front
	}
	back := prim.Iota(b, op.FloatVal(end), op.FloatVal(-step), d, o.device, n-half)
	return prim.Cat(b, []op.Val{front, prim.Flip(b, back, 0)}, 0)
}

// strided is a tensor of zeros with given strides; its storage is as large as they need.
func strided(b op.Builder, size, stride []int64, o options) op.Val {
	if len(size) != len(stride) {
		fail(ir.ErrRuntime, "mismatch in length of strides and shape")
	}
	for i, s := range checkSizes("empty_strided", size) {
		if stride[i] < 0 {
			fail(ir.ErrRuntime, "as_strided: Negative strides are not supported at the moment, got strides: %s, sizes %d",
				ir.ShapeString(stride), s)
		}
	}
	l := ir.InternLayout(size, stride)
	return prim.AsStrided(b, prim.Zeros(b, o.dtype, o.device, []int64{max(l.Span, 0)}), size, stride, 0)
}

func registerStrided() {
	creation("empty_strided(int[] size, int[] stride"+factoryParams,
		"A tensor of unspecified content, here zeros, with given strides.", op.Function, func(a *op.Args) []op.Val {
			size, _ := a.IntList()
			stride, _ := a.IntList()
			return a.Ret(strided(a.B, size, stride, factory(a, a.B.DefaultDType())))
		}, samples("(2,3), (1,2)", "(), ()", "(0,3), (3,1)", "(2,2), (2,4) | dtype=torch.int64"), sample("(2,), (1,2)"),
		sample("(2,), (-1,)"))
	op.Register(op.Def{
		Sig:   "new_empty_strided(Tensor self, int[] size, int[] stride" + factoryParams,
		Doc:   "A tensor of unspecified content with given strides. Dtype and device are self's.",
		Where: op.Method, NoGrad: notOfData, Samples: samples("T(3), (2,3), (1,2)", "I(2;0,5), (4,), (2,)"),
		ErrorSamples: samples("T(3), (2,), (1,2)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			size, _ := a.IntList()
			stride, _ := a.IntList()
			return a.Ret(strided(a.B, size, stride, likeOptions(a, x)))
		},
	})
	creation("empty_permuted(int[] size, int[] physical_layout"+factoryParams,
		"A tensor of unspecified content, here zeros, whose dims lie in memory in the given order.", op.Function,
		func(a *op.Args) []op.Val {
			size, _ := a.IntList()
			order, _ := a.IntList()
			if len(order) != len(size) {
				fail(ir.ErrRuntime,
					"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) "+
						"= %d is not equal to len(physical_layout) = %d", len(size), len(order))
			}
			stride, seen := make([]int64, len(size)), make([]bool, len(size))
			run := int64(1)
			for i := len(order) - 1; i >= 0; i-- {
				d := order[i]
				if d < 0 || d >= int64(len(size)) {
					fail(ir.ErrRuntime, "Dimension out of range (expected to be between 0 and %d, but got %d at index %d).  NB: "+
						"negative dims not currently supported; file an issue if you want it.", len(size)-1, d, i)
				}
				if seen[d] {
					fail(ir.ErrRuntime, "Duplicate dim not allowed")
				}
				seen[d], stride[d] = true, run
				run *= max(size[d], 1)
			}
			return a.Ret(strided(a.B, size, stride, factory(a, a.B.DefaultDType())))
		}, samples("(2,3), (1,0)", "(2,3,4), (0,2,1)", "(), ()"), sample("(2,3), (0,)"), sample("(2,3), (0,0)"))
}

// leftOf counts the elements of a matrix whose column is less than their row plus k.
func leftOf(rows, cols, k int64) int64 {
	some := min(max(1-k, 0), rows)      // the first row with such an element
	all := min(max(cols-k, some), rows) // the first row that is full
	return (all-some)*(some+all-1+2*k)/2 + (rows-all)*cols
}

// registerTriangleIndices: the linear indices of a triangle are the smallest of all elements', when those outside count
// as the last. Their number is known while recording.
func registerTriangleIndices() {
	for _, m := range []struct {
		name, doc string
		inside    binaryEmit
		diagonal  int64 // 1: a row's first part, with the diagonal; 0: the rest
	}{{"tril_indices", "lower", prim.Le, 1}, {"triu_indices", "upper", prim.Ge, 0}} {
		creation(m.name+"(int row, int col, int offset=0"+factoryParams, "Row and column indices of the "+m.doc+
			" triangle of a matrix, row by row; shape (2, count).", op.Function, func(a *op.Args) []op.Val {
			rows, cols, offset, b := a.Int(), a.Int(), a.Int(), a.B
			o := factory(a, ir.I64)
			if rows < 0 || cols < 0 {
				fail(ir.ErrRuntime, "%s: row and col must be non-negative, got %d and %d", m.name, rows, cols)
			}
			if rows > ir.MaxElements/max(cols, 1) || cols > ir.MaxElements {
				fail(ir.ErrRuntime, "%s: a matrix of %d by %d is too large", m.name, rows, cols)
			}
			offset = min(max(offset, -rows-1), cols+1)
			count := leftOf(rows, cols, offset+m.diagonal)
			if m.diagonal == 0 {
				count = rows*cols - count
			}
			if count == 0 {
				return a.Ret(prim.Zeros(b, o.dtype, o.device, []int64{2, 0}))
			}
			i := prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, o.device, rows*cols)
			place := func(i op.Val) (row, col op.Val) {
				return prim.FloorDivide(b, i, op.IntVal(cols)), prim.Remainder(b, i, op.IntVal(cols))
			}
			row, col := place(i)
			kept := m.inside(b, prim.Sub(b, col, row), op.IntVal(offset))
			first, _ := prim.Topk(b, prim.Where(b, kept, i, op.IntVal(rows*cols)), count, 0, false)
			row, col = place(first)
			both := []op.Val{prim.Unsqueeze(b, row, 0), prim.Unsqueeze(b, col, 0)}
			return a.Ret(cast(b, prim.Cat(b, both, 0), o.dtype))
		}, samples("3, 3", "4, 3, -1", "3, 4, 1", "2, 2, -5", "0, 3"), sample("-1, 3"))
	}
}
