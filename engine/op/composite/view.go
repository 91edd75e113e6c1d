package composite

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// viewDef registers an operator whose results are views of its first tensor.
func viewDef(sig, doc string, aliases []string, eval op.Eval, s []op.Sample, errs ...op.Sample) {
	op.Register(op.Def{Sig: sig, Doc: doc, Aliases: aliases, View: true, Eval: eval, Samples: s, ErrorSamples: errs})
}

// methodView is viewDef for names that are methods only.
func methodView(sig, doc string, eval op.Eval, s []op.Sample, errs ...op.Sample) {
	op.Register(op.Def{Sig: sig, Doc: doc, Where: op.Method, View: true, Eval: eval, Samples: s, ErrorSamples: errs})
}

// inferShape replaces a -1 so that the shape has numel elements.
func inferShape(shape []int64, numel int64) []int64 {
	out := slices.Clone(shape)
	at, known := -1, int64(1)
	for i, n := range out {
		switch {
		case n == -1 && at >= 0:
			fail(ir.ErrRuntime, "only one dimension can be inferred")
		case n == -1:
			at = i
		case n < 0:
			fail(ir.ErrRuntime, "invalid shape dimension %d", n)
		default:
			known *= n
		}
	}
	if numel == known && at < 0 || at >= 0 && known > 0 && numel%known == 0 {
		if at >= 0 {
			out[at] = numel / known
		}
		return out
	}
	if at >= 0 && known == 0 && numel == 0 {
		fail(ir.ErrRuntime, "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 "+
			"can be any value and is ambiguous", ir.ShapeString(shape))
	}
	fail(ir.ErrRuntime, "shape '%s' is invalid for input of size %d", ir.ShapeString(shape), numel)
	return nil
}

// viewAs is x.view(shape): an error where strides cannot express it.
func viewAs(b op.Builder, x op.Val, shape []int64) op.Val {
	shape = inferShape(shape, x.L().Numel)
	if !prim.CanView(x, shape) {
		fail(ir.ErrRuntime, "view size is not compatible with input tensor's size and stride (at least one dimension spans "+
			"across two contiguous subspaces). Use .reshape(...) instead.")
	}
	return prim.Reshape(b, x, shape)
}

// expandTo is x.expand(sizes): -1 keeps a size.
func expandTo(b op.Builder, x op.Val, sizes []int64) op.Val {
	old, out := x.Shape(), slices.Clone(sizes)
	lead := len(sizes) - len(old)
	if lead < 0 {
		fail(ir.ErrRuntime, "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or "+
			"equal to the number of dimensions in the tensor (%d)",
			typeName(x.DType()), ir.ShapeString(old), ir.ShapeString(sizes), len(sizes), len(old))
	}
	for i := len(out) - 1; i >= 0; i-- {
		switch {
		case out[i] == -1 && i < lead:
			fail(ir.ErrRuntime, "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension %d", i)
		case out[i] == -1:
			out[i] = old[i-lead]
		case out[i] < 0:
			fail(ir.ErrRuntime, "expand: sizes must be non-negative or -1: got %s", ir.ShapeString(sizes))
		case i >= lead && old[i-lead] != out[i] && old[i-lead] != 1:
			fail(ir.ErrRuntime, "The expanded size of the tensor (%d) must match the existing size (%d) at non-singleton "+
				"dimension %d.  Target sizes: %s.  Tensor sizes: %s",
				out[i], old[i-lead], i, ir.ShapeString(sizes), ir.ShapeString(old))
		}
	}
	return prim.Expand(b, x, out)
}

func registerViewOps() {
	viewDef("reshape(Tensor self, int[]* shape) -> Tensor", "The elements in another shape; a copy where strides cannot "+
		"express it.", nil, func(a *op.Args) []op.Val {
		x := a.Val()
		shape, _ := a.IntList()
		return a.Ret(prim.Reshape(a.B, x, inferShape(shape, x.L().Numel)))
	}, samples("T(3,4), (4,3)", "T(3,4), (-1,)", "T(2,3,4), (6,-1)", "T(0,3), (3,0)", "T(), (1,1)", "T(1), ()"),
		sample("T(3), (2,2)"), sample("T(4), (-1,-1)"), sample("T(0,3), (-1,0)"))
	methodView("view(Tensor self, int[]* size) -> Tensor", "The elements in another shape, sharing storage.",
		func(a *op.Args) []op.Val {
			x := a.Val()
			shape, _ := a.IntList()
			return a.Ret(viewAs(a.B, x, shape))
		}, samples("T(3,4), (4,3)", "T(3,4), (-1,)", "T(2,3,4), (6,-1)", "T(), (1,)"), sample("T(3), (2,2)"),
		sample("T(3,4).t(), (12,)"))
	methodView("view.dtype(Tensor self, dtype dtype) -> Tensor",
		"The storage as complex numbers or as their parts; the tensor itself in its own dtype.", func(a *op.Args) []op.Val {
			x, d := a.Val(), a.DType()
			switch {
			case d == x.DType().Real() && d != x.DType():
				return a.Ret(flatPairs(a.B, x))
			case d == x.DType().Complex() && d != x.DType():
				return a.Ret(pairedView(a.B, x))
			case d != x.DType():
				fail(ir.ErrNotImplemented, "view: a storage has one dtype: got %v to be read as %v, want .to(dtype), which "+
					"converts the values, or numpy().view(dtype)", x.DType(), d)
			}
			return a.Ret(x)
		}, samples("I(3,4;0,9), torch.int64"))
	like := func(f func(b op.Builder, x op.Val, shape []int64) op.Val) op.Eval {
		return func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			return a.Ret(f(a.B, x, y.Shape()))
		}
	}
	methodView("view_as(Tensor self, Tensor other) -> Tensor", "view with other's shape.", like(viewAs),
		samples("T(3,4), T(4,3)"), sample("T(3), T(4)"))
	methodView("reshape_as(Tensor self, Tensor other) -> Tensor", "reshape to other's shape.",
		like(func(b op.Builder, x op.Val, shape []int64) op.Val {
			return prim.Reshape(b, x, inferShape(shape, x.L().Numel))
		}), samples("T(3,4), T(4,3)"), sample("T(3), T(4)"))
	methodView("expand_as(Tensor self, Tensor other) -> Tensor", "expand to other's shape.", like(expandTo),
		samples("T(3,1), T(3,4)"), sample("T(3), T(4)"))
	methodView("expand(Tensor self, int[]* size) -> Tensor", "Dims of size 1 repeated without a copy; -1 keeps a size.",
		evalExpand, samples("T(3,1), (3,4)", "T(3,1), (2,-1,4)", "T(), (2,3)", "T(1,0), (5,0)"), sample("T(3), (4,)"),
		sample("T(3,4), (4,)"), sample("T(3), (-1,3)"))
	viewDef("broadcast_to(Tensor self, int[] size) -> Tensor", "expand, as a function.", nil, evalExpand,
		samples("T(3,1), (3,4)", "T(4), (2,4)"), sample("T(3), (4,)"))
	methodView("sum_to_size(Tensor self, int[]* size) -> Tensor",
		"The sum over the dims in which size broadcasts to the tensor's shape.", evalSumToSize,
		samples("T(2,3), (1,3)", "T(2,3), (3,)", "T(2,3), (2,3)", "I(2,3;0,9), (2,1)", "T(4,2,3), ()", "T(), ()", "B(), ()"),
		sample("T(3), (2,)"), sample("T(3), (1,3)"))
	registerAtLeast()
	registerDimOrder()
	registerUnitDims()
	registerSplits()
	registerParts()
	registerCopies()
}

func evalExpand(a *op.Args) []op.Val {
	x := a.Val()
	sizes, _ := a.IntList()
	return a.Ret(expandTo(a.B, x, sizes))
}

func evalSumToSize(a *op.Args) []op.Val {
	x := a.Val()
	size, _ := a.IntList()
	if _, ok := ir.ExpandLayout(ir.DenseLayout(size), x.Shape()); !ok {
		fail(ir.ErrRuntime, "size %s is not expandable to size %s.", ir.ShapeString(size), ir.ShapeString(x.Shape()))
	}
	if len(size) == 0 { // the sum of all, of its dtype, even where there is one element
		return a.Ret(owned(a.B, sum(a.B, x, all(x), false, ir.InvalidDType), x))
	}
	if ir.SameShape(size, x.Shape()) {
		return a.Ret(x)
	}
	if d := x.DType(); !d.IsInexact() {
		x = prim.Cast(a.B, x, ir.I64)
	}
	return a.Ret(prim.SumTo(a.B, x, size))
}

// registerAtLeast registers atleast_1d to atleast_3d, of one tensor and of several.
func registerAtLeast() {
	for n := 1; n <= 3; n++ {
		name, doc := fmt.Sprintf("atleast_%dd", n), fmt.Sprintf("Views with at least %d dims.", n)
		op.Register(op.Def{
			Sig: name + "(Tensor self) -> Tensor", Doc: doc, Where: op.Function, View: true, Samples: samples("T()", "T(3)",
				"T(3,4)", "T(2,3,4)"),
			Eval: func(a *op.Args) []op.Val { return a.Ret(atLeast(a.B, []op.Val{a.Val()}, n)[0]) },
		})
		op.Register(op.Def{
			Sig: name + ".list(Tensor[]* tensors) -> Tensor[]", Doc: doc, Where: op.Function, View: true,
			Samples: samples("[T(), T(3), T(2,2)]", "T(), T(2,3)"),
			Eval:    func(a *op.Args) []op.Val { return atLeast(a.B, a.Vals(), n) },
		})
	}
}

func registerDimOrder() {
	transposes := func(a *op.Args) []op.Val {
		x, i, j := a.Val(), a.Int(), a.Int()
		return a.Ret(prim.Transpose(a.B, x, i, j))
	}
	s := samples("T(3,4), 0, 1", "T(2,3,4), -1, 0", "T(), 0, -1", "T(2,3), 1, 1")
	viewDef("transpose(Tensor self, int dim0, int dim1) -> Tensor", "Two dims swapped.", nil, transposes, s,
		sample("T(3), 0, 1"))
	viewDef("swapaxes(Tensor self, int axis0, int axis1) -> Tensor", "Two dims swapped.", nil, transposes, s)
	viewDef("swapdims(Tensor self, int dim0, int dim1) -> Tensor", "Two dims swapped.", nil, transposes, s)
	viewDef("t(Tensor self) -> Tensor", "A matrix transposed; fewer dims pass.", nil, func(a *op.Args) []op.Val {
		x := a.Val()
		if r := len(x.Shape()); r > 2 {
			fail(ir.ErrRuntime, "t() expects a tensor with <= 2 dimensions, but self is %dD", r)
		} else if r < 2 {
			return a.Ret(x)
		}
		return a.Ret(prim.Transpose(a.B, x, 0, 1))
	}, samples("T(3,4)", "T(3)", "T()"), sample("T(2,2,2)"))
	op.Register(op.Def{
		Sig: "_T(Tensor self) -> Tensor", Doc: "All dims in reverse order: Tensor.T.", Where: op.Hidden, View: true,
		Samples: samples("T(3,4)", "T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			r := len(x.Shape())
			perm := make([]int64, r)
			for i := range perm {
				perm[i] = int64(r - 1 - i)
			}
			return a.Ret(prim.Permute(a.B, x, perm))
		},
	})
	op.Register(op.Def{
		Sig: "_mT(Tensor self) -> Tensor", Doc: "The last two dims swapped: Tensor.mT.", Where: op.Hidden, View: true,
		Samples:      samples("T(3,4)", "T(2,3,4)"),
		ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if r := len(x.Shape()); r < 2 {
				fail(ir.ErrRuntime, "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.", r)
			}
			return a.Ret(prim.Transpose(a.B, x, -2, -1))
		},
	})
	swapped := "The last two dims swapped and conjugated; Tensor.mH."
	viewDef("adjoint(Tensor self) -> Tensor", swapped, nil, func(a *op.Args) []op.Val {
		x := a.Val()
		if r := len(x.Shape()); r == 0 {
			return a.Ret(x)
		} else if r < 2 {
			fail(ir.ErrRuntime, "tensor.adjoint() is only supported on matrices or batches of matrices. Got %d-D tensor.", r)
		}
		return a.Ret(prim.Conj(a.B, prim.Transpose(a.B, x, -2, -1)))
	}, samples("T(3,4)", "T(2,3,4)"), sample("T(3)"))
	op.Register(op.Def{
		Sig: "_H(Tensor self) -> Tensor", Doc: "A matrix transposed and conjugated: Tensor.H.", Where: op.Hidden, View: true,
		Samples: samples("T(3,4)"), ErrorSamples: samples("T(3)", "T(2,3,4)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if r := len(x.Shape()); r != 2 && r != 0 {
				fail(ir.ErrRuntime, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.", r)
			} else if r == 0 {
				return a.Ret(x)
			}
			return a.Ret(prim.Conj(a.B, prim.Transpose(a.B, x, 0, 1)))
		},
	})
	viewDef("permute(Tensor self, int[]* dims) -> Tensor", "The dims in another order.", nil, func(a *op.Args) []op.Val {
		x := a.Val()
		dims, _ := a.IntList()
		return a.Ret(prim.Permute(a.B, x, dims))
	}, samples("T(2,3,4), (2,0,1)", "T(3,4), (-1,0)", "T(), ()"), sample("T(3,4), (0,)"), sample("T(3,4), (0,0)"),
		sample("T(3,4), (0,5)"))
	viewDef("movedim(Tensor self, int[] source, int[] destination) -> Tensor",
		"Dims moved to other places, the rest in order.", []string{"moveaxis"}, evalMovedim, samples("T(2,3,4), 0, 2",
			"T(2,3,4), (0,1), (1,-1)", "T(2,3), 0, 0"), sample("T(2,3), (0,1), (1,)"), sample("T(2,3), (0,0), (1,0)"))
}

func evalMovedim(a *op.Args) []op.Val {
	x := a.Val()
	src, _ := a.IntList()
	dst, _ := a.IntList()
	r := len(x.Shape())
	if len(src) != len(dst) {
		fail(ir.ErrRuntime, "movedim: Invalid source or destination dims: source (%s dims) should contain the same number "+
			"of dims as destination (%s dims)", ir.ShapeString(src), ir.ShapeString(dst))
	}
	perm, moved := make([]int64, r), make([]bool, r+1)
	for i := range perm {
		perm[i] = -1
	}
	for i := range src {
		s, d := ir.WrapDim(src[i], r), ir.WrapDim(dst[i], r)
		if r == 0 {
			continue
		}
		if moved[s] {
			fail(ir.ErrRuntime, "movedim: repeated dim in `source` (%s)", ir.ShapeString(src))
		}
		if perm[d] >= 0 {
			fail(ir.ErrRuntime, "movedim: repeated dim in `destination` (%s)", ir.ShapeString(dst))
		}
		moved[s], perm[d] = true, int64(s)
	}
	next := 0
	for i := range perm {
		if perm[i] >= 0 {
			continue
		}
		for moved[next] {
			next++
		}
		perm[i] = int64(next)
		next++
	}
	return a.Ret(prim.Permute(a.B, x, perm))
}

func registerUnitDims() {
	viewDef("squeeze(Tensor self) -> Tensor", "Without dims of size 1.", nil, func(a *op.Args) []op.Val {
		return a.Ret(prim.Squeeze(a.B, a.Val(), nil))
	}, samples("T(1,3,1)", "T(3)", "T(1)"))
	viewDef("squeeze.dims(Tensor self, int[] dim) -> Tensor", "Without the named dims where they have size 1.", nil,
		func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			if len(dims) == 0 {
				return a.Ret(x)
			}
			dimMask(dims, len(x.Shape()))
			return a.Ret(prim.Squeeze(a.B, x, dims))
		}, samples("T(1,3,1), 0", "T(1,3,1), (0,-1)", "T(3,1), 0", "T(), 0"), sample("T(3), 2"))
	viewDef("unsqueeze(Tensor self, int dim) -> Tensor", "With a new dim of size 1.", nil, func(a *op.Args) []op.Val {
		x := a.Val()
		return a.Ret(prim.Unsqueeze(a.B, x, a.Int()))
	}, samples("T(3,4), 0", "T(3,4), -1", "T(), 0"), sample("T(3), 3"))
	viewDef("flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", "A range of dims as one.", nil,
		func(a *op.Args) []op.Val {
			x := a.Val()
			shape := x.Shape()
			i, j := ir.WrapDim(a.Int(), len(shape)), ir.WrapDim(a.Int(), len(shape))
			if i > j {
				fail(ir.ErrRuntime, "flatten() has invalid args: start_dim cannot come after end_dim")
			}
			if len(shape) == 0 {
				return a.Ret(prim.Reshape(a.B, x, []int64{1}))
			}
			out := append(slices.Clone(shape[:i]), ir.Numel(shape[i:j+1]))
			return a.Ret(prim.Reshape(a.B, x, append(out, shape[j+1:]...)))
		}, samples("T(2,3,4)", "T(2,3,4), 1", "T(2,3,4), 0, 1", "T()", "T(2,0,3)"), sample("T(2,3), 1, 0"))
	viewDef("ravel(Tensor self) -> Tensor", "All dims as one; a copy unless the tensor is contiguous.", nil,
		func(a *op.Args) []op.Val {
			x := prim.Contiguous(a.B, a.Val())
			return a.Ret(prim.Reshape(a.B, x, []int64{x.L().Numel}))
		}, samples("T(2,3)", "T(2,3).t()", "T()"))
	viewDef("unflatten(Tensor self, int dim, int[] sizes) -> Tensor", "One dim as several.", nil,
		func(a *op.Args) []op.Val {
			x := a.Val()
			d := ir.WrapDim(a.Int(), len(x.Shape()))
			sizes, _ := a.IntList()
			if len(sizes) == 0 {
				fail(ir.ErrRuntime, "unflatten: sizes must be non-empty")
			}
			if len(x.Shape()) == 0 {
				x = prim.Reshape(a.B, x, []int64{1})
			}
			n, known, open := x.Shape()[d], int64(1), 0
			for _, s := range sizes {
				if s == -1 {
					open++
				} else {
					known *= s
				}
			}
			if open > 1 {
				fail(ir.ErrRuntime, "unflatten got an unexpected error:\nonly one dimension can be inferred")
			}
			if open == 0 && known != n || open == 1 && (known == 0 || n%known != 0) {
				fail(ir.ErrRuntime, "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%d) in the input tensor",
					ir.ShapeString(sizes), d, n)
			}
			shape := slices.Concat(x.Shape()[:d], inferShape(sizes, n), x.Shape()[d+1:])
			return a.Ret(prim.Reshape(a.B, x, shape))
		}, samples("T(2,12), 1, (3,4)", "T(12), 0, (-1,4)", "T(2,6,3), -2, (2,3)"), sample("T(2,3), 1, (2,2)"),
		sample("T(2,3), 1, (-1,-1)"), sample("T(2,3), 1, ()"))
}

func registerParts() {
	viewDef("select(Tensor self, int dim, int index) -> Tensor", "The slice at one index of a dim, which goes.", nil,
		func(a *op.Args) []op.Val {
			x, d, i := a.Val(), a.Int(), a.Int()
			return a.Ret(prim.Select(a.B, x, d, i))
		}, samples("T(3,4), 0, 1", "T(3,4), -1, -2"), sample("T(3,4), 0, 3"), sample("T(), 0, 0"), sample("T(3), 1, 0"))
	viewDef("narrow(Tensor self, int dim, int start, int length) -> Tensor", "A range of a dim.", nil,
		func(a *op.Args) []op.Val {
			x, dim, start, length := a.Val(), a.Int(), a.Int(), a.Int()
			return a.Ret(narrow(a.B, x, dim, start, length))
		}, samples("T(3,4), 1, 1, 2", "T(3,4), 0, -2, 1", "T(3), 0, 3, 0"), sample("T(3), 0, 1, 5"), sample("T(3), 0, 4, 0"),
		sample("T(3), 0, 0, -1"))
	viewDef("diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
		"The diagonal over two dims, as the last dim.", nil, func(a *op.Args) []op.Val {
			x, offset, i, j := a.Val(), a.Int(), a.Int(), a.Int()
			return a.Ret(diagonal(a.B, x, offset, i, j))
		}, samples("T(3,4)", "T(3,4), 1", "T(3,4), -2", "T(2,3,4), 0, 1, 2", "T(2,3,4), 1, -1, 0", "T(3,4), 9"),
		sample("T(3,4), 0, 0, 0"), sample("T(3)"))
	methodView("unfold(Tensor self, int dimension, int size, int step) -> Tensor",
		"Windows along a dim, as a new last dim.", evalUnfold, samples("T(7), 0, 3, 2", "T(3,5), 1, 2, 1", "T(4), 0, 4, 1",
			"T(), 0, 1, 1", "T(3), 0, 0, 1"), sample("T(3), 0, 4, 1"), sample("T(3), 0, 2, 0"), sample("T(3), 0, -1, 1"))
	op.Register(op.Def{
		Sig: "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
		Doc: "A view of the storage with any sizes and strides.", View: true, ReadsOffset: true,
		Samples:      samples("T(12), (3,2), (4,1)", "T(12), (2,2), (1,2), 3"),
		ErrorSamples: samples("T(3), (2,2), (2,1)", "T(3), (2,), (2,1)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			l, offset := stridedArgs(a, x)
			return a.Ret(prim.AsStrided(a.B, x, l.Shape, l.Stride, offset))
		},
	})
}

// stridedArgs reads size, stride and storage_offset, whose default is x's own.
func stridedArgs(a *op.Args, x op.Val) (l *ir.Layout, offset int64) {
	size, _ := a.IntList()
	stride, _ := a.IntList()
	offset, given := a.OptInt()
	if !given {
		offset = elementOffset(x)
	}
	if len(size) != len(stride) {
		fail(ir.ErrRuntime, "mismatch in length of strides and shape")
	}
	for _, s := range stride {
		if s < 0 {
			fail(ir.ErrRuntime, "as_strided: Negative strides are not supported at the moment, got strides: %s",
				ir.ShapeString(stride))
		}
	}
	for _, n := range size {
		if n < 0 {
			fail(ir.ErrRuntime, "as_strided: sizes must be non-negative: got %s", ir.ShapeString(size))
		}
	}
	if offset < 0 {
		fail(ir.ErrRuntime, "as_strided: storage_offset must be non-negative: got %d", offset)
	}
	return ir.InternLayout(size, stride), offset
}

// elementOffset is x's storage offset in elements of its dtype.
func elementOffset(x op.Val) int64 {
	if x.DType().IsComplex() {
		return x.Offset / 2
	}
	return x.Offset
}

func narrow(b op.Builder, x op.Val, dim, start, length int64) op.Val {
	if len(x.Shape()) == 0 {
		fail(ir.ErrRuntime, "narrow() cannot be applied to a 0-dim tensor.")
	}
	if length < 0 {
		fail(ir.ErrRuntime, "narrow(): length must be non-negative.")
	}
	d := ir.WrapDim(dim, len(x.Shape()))
	n := x.Shape()[d]
	if start < -n || start > n {
		fail(ir.ErrIndex, "start out of range (expected to be in range of [%d, %d], but got %d)", -n, n, start)
	}
	if start < 0 {
		start += n
	}
	if start+length > n {
		fail(ir.ErrRuntime, "start (%d) + length (%d) exceeds dimension size (%d).", start, length, n)
	}
	return prim.Slice(b, x, int64(d), start, start+length, 1)
}

func diagonal(b op.Builder, x op.Val, offset, dim1, dim2 int64) op.Val {
	l := x.L()
	i, j := ir.WrapDim(dim1, l.Rank()), ir.WrapDim(dim2, l.Rank())
	if i == j {
		fail(ir.ErrRuntime, "diagonal dimensions cannot be identical %d, %d", dim1, dim2)
	}
	n := min(l.Shape[i], l.Shape[j]-offset)
	if offset < 0 {
		n = min(l.Shape[i]+offset, l.Shape[j])
	}
	n = max(n, 0)
	of := func(l *ir.Layout) (*ir.Layout, int64) {
		start := int64(0)
		if n > 0 && offset >= 0 {
			start = offset * l.Stride[j]
		} else if n > 0 {
			start = -offset * l.Stride[i]
		}
		var shape, stride []int64
		for k := range l.Shape {
			if k != i && k != j {
				shape, stride = append(shape, l.Shape[k]), append(stride, l.Stride[k])
			}
		}
		return ir.InternLayout(append(shape, n), append(stride, l.Stride[i]+l.Stride[j])), start
	}
	out, start := of(l)
	return b.View(x, out, x.Offset+start, op.StridedOp(l, of))
}

func evalUnfold(a *op.Args) []op.Val {
	x, dim, size, step := a.Val(), a.Int(), a.Int(), a.Int()
	l := x.L()
	d, n := ir.WrapDim(dim, l.Rank()), int64(1)
	if l.Rank() > 0 {
		n = l.Shape[d]
	}
	switch {
	case size < 0:
		fail(ir.ErrRuntime, "size is %d but must be >= 0", size)
	case size > n:
		fail(ir.ErrRuntime, "maximum size for tensor at dimension %d is %d but size is %d", d, n, size)
	case step <= 0:
		fail(ir.ErrRuntime, "step is %d but must be > 0", step)
	}
	if l.Rank() == 0 { // the window is the only dim
		return a.Ret(a.B.View(x, ir.InternLayout([]int64{size}, []int64{1}), x.Offset, op.ViewOp{Kind: op.ViewStrided}))
	}
	of := func(l *ir.Layout) (*ir.Layout, int64) {
		shape, stride := append(slices.Clone(l.Shape), size), append(slices.Clone(l.Stride), l.Stride[d])
		shape[d], stride[d] = (l.Shape[d]-size)/step+1, l.Stride[d]*step
		return ir.InternLayout(shape, stride), 0
	}
	out, _ := of(l)
	return a.Ret(a.B.View(x, out, x.Offset, op.StridedOp(l, of)))
}

func registerCopies() {
	methodView("contiguous(Tensor self) -> Tensor", "The tensor itself when it is dense, else a dense copy.",
		func(a *op.Args) []op.Val {
			return a.Ret(prim.Contiguous(a.B, a.Val()))
		}, samples("T(3,4)", "T(3,4).t()"))
	op.Register(op.Def{
		Sig: "clone(Tensor self) -> Tensor", Doc: "A copy.", Samples: samples("T(3,4)", "T(3,4).t()", "I(3;0,5)", "T()"),
		Eval: func(a *op.Args) []op.Val { return a.Ret(prim.Copy(a.B, a.Val())) },
	})
	viewDef("detach(Tensor self) -> Tensor", "An alias without gradient history.", nil, func(a *op.Args) []op.Val {
		return a.Ret(a.B.Detach(a.Val()))
	}, samples("T(3,4)"))
	op.Register(op.Def{
		Sig: "_data(Tensor self) -> Tensor", Doc: "An alias without history whose writes count apart: Tensor.data.",
		Where: op.Hidden, View: true, OwnWrites: true, Samples: samples("T(3,4)"),
		Eval: func(a *op.Args) []op.Val { return a.Ret(a.B.Detach(a.Val())) },
	})
}
