package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// legacyEmpty reports a vector without elements. cat joins it to tensors of any shape, as PyTorch does for old code.
func legacyEmpty(t op.Val) bool { return len(t.Shape()) == 1 && t.Shape()[0] == 0 }

// concat is torch.cat: dtypes are promoted.
func concat(b op.Builder, ts []op.Val, dim int64) op.Val {
	if len(ts) == 0 {
		fail(ir.ErrValue, "torch.cat(): expected a non-empty list of Tensors")
	}
	used, d := make([]op.Val, len(ts)), resultType(b, ts...)
	first := 0
	for i, t := range ts {
		if len(t.Shape()) == 0 {
			fail(ir.ErrRuntime, "zero-dimensional tensor (at position %d) cannot be concatenated", i)
		}
		if used[i] = cast(b, t, d); legacyEmpty(ts[first]) {
			first = i
		}
	}
	shape := used[first].Shape()
	k := ir.WrapDim(dim, len(shape))
	nothing := slices.Clone(shape)
	nothing[k] = 0
	for i, t := range used {
		s := t.Shape()
		if legacyEmpty(t) {
			used[i] = prim.Reshape(b, t, nothing)
			continue
		}
		if len(s) != len(shape) {
			fail(ir.ErrRuntime, "Tensors must have same number of dimensions: got %d and %d", len(shape), len(s))
		}
		for j := range s {
			if j != k && s[j] != shape[j] {
				fail(ir.ErrRuntime, "Sizes of tensors must match except in dimension %d. Expected size %d but got size %d for "+
					"tensor number %d in the list.", k, shape[j], s[j], i)
			}
		}
	}
	if len(used) == 1 {
		return prim.Copy(b, used[0])
	}
	return prim.Cat(b, used, int64(k))
}

func stack(b op.Builder, ts []op.Val, dim int64) op.Val {
	if len(ts) == 0 {
		fail(ir.ErrRuntime, "stack expects a non-empty TensorList")
	}
	first := ts[0].Shape()
	d := ir.WrapDim(dim, len(first)+1)
	parts := make([]op.Val, len(ts))
	for i, t := range ts {
		if !ir.SameShape(t.Shape(), first) {
			fail(ir.ErrRuntime, "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d",
				ir.ShapeString(first), ir.ShapeString(t.Shape()), i)
		}
		shape := slices.Insert(slices.Clone(first), d, 1)
		parts[i] = prim.Reshape(b, t, shape)
	}
	d0 := resultType(b, ts...)
	for i := range parts {
		parts[i] = cast(b, parts[i], d0)
	}
	if len(parts) == 1 {
		return prim.Copy(b, parts[0])
	}
	return prim.Cat(b, parts, int64(d))
}

// stacked returns the tensors of an operator that stacks, each with at least n dims.
func stacked(a *op.Args, n int) []op.Val {
	ts := a.Vals()
	if len(ts) == 0 {
		fail(ir.ErrRuntime, "%s expects a non-empty TensorList", a.Op.Parsed.Name)
	}
	return atLeast(a.B, ts, n)
}

// atLeast gives every tensor at least n dims, as torch.atleast_nd does.
func atLeast(b op.Builder, ts []op.Val, n int) []op.Val {
	out := slices.Clone(ts)
	for i, t := range out {
		s := t.Shape()
		if len(s) >= n {
			continue
		}
		shape := []int64{1, 1, 1}[:n]
		switch {
		case n == 2 && len(s) == 1:
			shape = []int64{1, s[0]}
		case n == 3 && len(s) == 1:
			shape = []int64{1, s[0], 1}
		case n == 3 && len(s) == 2:
			shape = []int64{s[0], s[1], 1}
		}
		out[i] = prim.Reshape(b, t, shape)
	}
	return out
}

func registerJoinOps() {
	joined := func(name, doc string, aliases []string, params string, eval op.Eval, s []op.Sample, errs ...op.Sample) {
		op.Register(op.Def{Sig: name + "(Tensor[] tensors" + params + ") -> Tensor", Doc: doc, Aliases: aliases,
			Where: op.Function, Out: true, OutApart: true,
			Eval: eval, Samples: s, ErrorSamples: errs})
	}
	joined("cat", "Tensors joined along a dim.", []string{"concat", "concatenate"}, ", int dim=0",
		func(a *op.Args) []op.Val {
			ts := a.Vals()
			return a.Ret(concat(a.B, ts, a.Int()))
		}, samples("[T(2,3), T(4,3)]", "[T(2,3), T(2,1)], 1", "[I(2;0,5), T(2)]", "[T(2,3)], -1",
			"[T(2), torch.zeros(0), T(3)]", "[T(2,3), T(0,3), T(1,3)]"), sample("[T(2,3), T(2,2)]"), sample("[]"),
		sample("[T(2), T()]"), sample("[T(2)], 1"))
	joined("stack", "Tensors joined along a new dim.", nil, ", int dim=0", func(a *op.Args) []op.Val {
		ts := a.Vals()
		return a.Ret(stack(a.B, ts, a.Int()))
	}, samples("[T(2,3), T(2,3)]", "[T(2), T(2), T(2)], -1", "[T(), T()]", "[I(2;0,5), T(2)], 1"), sample("[T(2), T(3)]"),
		sample("[]"))
	joined("hstack", "Tensors joined column by column.", nil, "", func(a *op.Args) []op.Val {
		ts := stacked(a, 1)
		if len(ts[0].Shape()) == 1 {
			return a.Ret(concat(a.B, ts, 0))
		}
		return a.Ret(concat(a.B, ts, 1))
	}, samples("[T(2), T(3)]", "[T(2,3), T(2,1)]", "[T(), T()]"))
	joined("vstack", "Tensors joined row by row.", []string{"row_stack"}, "", func(a *op.Args) []op.Val {
		return a.Ret(concat(a.B, stacked(a, 2), 0))
	}, samples("[T(3), T(2,3)]", "[T(), T()]"))
	joined("dstack", "Tensors joined along the third dim.", nil, "", func(a *op.Args) []op.Val {
		return a.Ret(concat(a.B, stacked(a, 3), 2))
	}, samples("[T(2,3), T(2,3)]", "[T(2), T(2)]"))
	joined("column_stack", "1-d tensors as columns of a matrix.", nil, "", func(a *op.Args) []op.Val {
		ts := slices.Clone(a.Vals())
		for i, t := range ts {
			if len(t.Shape()) < 2 {
				ts[i] = prim.Reshape(a.B, t, []int64{t.L().Numel, 1})
			}
		}
		return a.Ret(concat(a.B, ts, 1))
	}, samples("[T(3), T(3)]", "[T(3), T(3,2)]"))
	registerProducts()
	registerRepeats()
	registerTriangles()
	registerReversals()
}

// tile repeats x; repeats has at least as many entries as x has dims.
func tile(b op.Builder, x op.Val, repeats []int64) op.Val {
	lead := len(repeats) - len(x.Shape())
	var split, wide, out []int64
	for i, r := range repeats {
		if r < 0 {
			fail(ir.ErrRuntime, "Trying to create tensor with negative dimension %d: %s", r, ir.ShapeString(repeats))
		}
		n := int64(1)
		if i >= lead {
			n = x.Shape()[i-lead]
		}
		split, wide, out = append(split, 1, n), append(wide, r, n), append(out, r*n)
	}
	v := prim.Expand(b, prim.Reshape(b, x, split), wide)
	return prim.Reshape(b, prim.Copy(b, v), out)
}

func registerRepeats() {
	op.Register(op.Def{
		Sig: "repeat(Tensor self, int[]* repeats) -> Tensor", Doc: "The tensor repeated along each dim.", Where: op.Method,
		Samples: samples("T(2,3), (2,1)", "T(3), (2,2)", "T(2), (0,)", "T(), (3,)"), ErrorSamples: samples("T(2,3), (2,)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			r, _ := a.IntList()
			if len(r) < len(x.Shape()) {
				fail(ir.ErrRuntime, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
			}
			return a.Ret(tile(a.B, x, r))
		},
	})
	op.Register(op.Def{
		Sig: "tile(Tensor self, int[]* dims) -> Tensor", Doc: "repeat, with missing leading counts as 1.",
		Samples: samples("T(2,3), (2,)", "T(3), (2,2)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			r, _ := a.IntList()
			for len(r) < len(x.Shape()) {
				r = append([]int64{1}, r...)
			}
			return a.Ret(tile(a.B, x, r))
		},
	})
	op.Register(op.Def{
		Sig:          "repeat_interleave(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
		Doc:          "Each element repeated in place.",
		Samples:      samples("T(3), 2", "T(2,3), 2, 1", "T(2,3), 3", "T(2,3), 2, -2", "T(), 3", "T(3), 2 | output_size=6"),
		ErrorSamples: samples("T(3), -1", "T(3), 2 | output_size=5"),
		Eval: func(a *op.Args) []op.Val {
			x, n := a.Val(), a.Int()
			if n < 0 {
				fail(ir.ErrRuntime, "Repeats must be non-negative")
			}
			x, d := interleaved(a, x)
			out := slices.Clone(x.Shape())
			out[d] *= n
			if size, given := a.OptInt(); given && size != out[d] {
				fail(ir.ErrRuntime, "repeat_interleave: Invalid output_size, expected %d but got %d", out[d], size)
			}
			wide := slices.Insert(slices.Clone(x.Shape()), d+1, n)
			v := prim.Copy(a.B, prim.Expand(a.B, prim.Unsqueeze(a.B, x, int64(d)+1), wide))
			return a.Ret(prim.Reshape(a.B, v, out))
		},
	})
	op.Register(op.Def{
		Sig: "_repeat_interleave(Tensor self, Tensor repeats, int? dim=None, *, int output_size) -> Tensor", Where: op.Hidden,
		Doc: "Element i repeated repeats[i] times; output_size is their sum.", Eval: evalRepeatInterleave,
		Samples: samples("T(3), torch.tensor([2, 0, 1]) | output_size=3",
			"T(2,3), torch.tensor([1, 2]), 0 | output_size=3"),
		ErrorSamples: samples("T(3), torch.tensor([1, 2]) | output_size=3"),
	})
}

// interleaved reads dim; without one the tensor is flattened.
func interleaved(a *op.Args, x op.Val) (op.Val, int) {
	dim, given := a.OptInt()
	if !given || len(x.Shape()) == 0 {
		x = flat(a.B, x)
	}
	if !given {
		dim = 0
	}
	return x, ir.WrapDim(dim, len(x.Shape()))
}

// evalRepeatInterleave selects for position j the element whose number is the count of runs that end at or before j.
func evalRepeatInterleave(a *op.Args) []op.Val {
	x, repeats, b := a.Val(), a.Val(), a.B
	x, d := interleaved(a, x)
	total, n := a.Int(), x.Shape()[d]
	if r := repeats.Shape(); len(r) > 1 || !repeats.DType().IsInt() {
		fail(ir.ErrRuntime, "repeats must be 0-dim or 1-dim tensor of integers: got %s of shape %s",
			typeName(repeats.DType()), ir.ShapeString(r))
	} else if m := repeats.L().Numel; m != n && m != 1 {
		fail(ir.ErrRuntime, "repeats must have the same size as input along dim, but got repeats.size(0) = %d and "+
			"input.size(%d) = %d", m, d, n)
	}
	ends := prim.Cumsum(b, prim.Cast(b, prim.Expand(b, asVector(b, repeats), []int64{n}), ir.I64), 0)
	count := prim.IndexAdd(b, prim.Zeros(b, ir.I64, x.Device(), []int64{total + 1}), ends, prim.OnesLike(b, ends), 0)
	return a.Ret(prim.IndexSelect(b, x, prim.Slice(b, prim.Cumsum(b, count, 0), 0, 0, total, 1), int64(d)))
}

// grid views each vector along its own dim, in the joint shape.
func grid(b op.Builder, ts []op.Val) []op.Val {
	shape := make([]int64, len(ts))
	for i, t := range ts {
		if len(t.Shape()) > 1 {
			fail(ir.ErrRuntime, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: %s",
				ir.ShapeString(t.Shape()))
		}
		shape[i] = t.L().Numel
	}
	out := make([]op.Val, len(ts))
	for i, t := range ts {
		out[i] = prim.Along(b, asVector(b, t), shape, int64(i))
	}
	return out
}

func registerProducts() {
	op.Register(op.Def{
		Sig: "meshgrid(Tensor[]* tensors, *, str(ij|xy)? indexing=None) -> Tensor[]",
		Doc: "Each vector along its own dim, expanded over the others.", Where: op.Function, View: true,
		Samples: samples("[T(3), T(2)]", "[T(3), T(2), T()]", "[T(3), T(2), T(4)] | indexing='xy'",
			"[T(3), T(2)] | indexing='ij'"),
		ErrorSamples: samples("[T(3), T(2,2)]", "[]", "[T(3), I(2;0,2)]"), Eval: evalMeshgrid,
	})
	op.Register(op.Def{
		Sig: "broadcast_tensors(Tensor[]* tensors) -> Tensor[]", Doc: "The tensors expanded to their joint shape.",
		Where: op.Function, View: true,
		Samples: samples("T(3,1), T(4)", "T(), T(2,2)", "T(3)"), ErrorSamples: samples("T(3), T(2)"),
		Eval: func(a *op.Args) []op.Val {
			ts := slices.Clone(a.Vals())
			var shape []int64
			for _, t := range ts {
				shape = ir.BroadcastShape(shape, t.Shape())
			}
			for i, t := range ts {
				ts[i] = prim.Expand(a.B, t, shape)
			}
			return ts
		},
	})
	op.Register(op.Def{
		Sig: "cartesian_prod(Tensor[]* tensors) -> Tensor", Doc: "All tuples of elements of vectors, as rows.",
		Where: op.Function, View: true,
		Samples: samples("T(3), T(2)", "T(2), T(1), T(3)", "T(3)", "T(2), T(0)"), ErrorSamples: samples("T(3), T(2,2)",
			"T(3), T()"),
		Eval: func(a *op.Args) []op.Val {
			ts, b := a.Vals(), a.B
			for _, t := range ts {
				if len(t.Shape()) != 1 {
					fail(ir.ErrRuntime, "Expect a 1D vector, but got shape %s", ir.ShapeString(t.Shape()))
				}
			}
			if len(ts) == 1 {
				return a.Ret(ts[0])
			}
			columns := grid(b, ts)
			for i, t := range columns {
				columns[i] = flat(b, t)
			}
			return a.Ret(stack(b, columns, 1))
		},
	})
}

func evalMeshgrid(a *op.Args) []op.Val {
	ts := slices.Clone(a.Vals())
	if len(ts) == 0 {
		fail(ir.ErrRuntime, "meshgrid expects a non-empty TensorList")
	}
	for _, t := range ts {
		if t.DType() != ts[0].DType() {
			fail(ir.ErrRuntime, "torch.meshgrid expects all tensors to have the same dtype")
		}
	}
	xy := a.Int() == 1 && len(ts) > 1
	if !xy {
		return grid(a.B, ts)
	}
	ts[0], ts[1] = ts[1], ts[0]
	out := grid(a.B, ts)
	out[0], out[1] = out[1], out[0]
	return out
}

func registerTriangles() {
	for _, m := range []struct {
		name  string
		upper bool
	}{{"tril", false}, {"triu", true}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, int diagonal=0) -> Tensor", Doc: map[bool]string{false: "The lower",
				true: "The upper"}[m.upper] + " triangle of matrices, zero elsewhere.",
			InPlace: true, Out: true, Samples: samples("T(3,4)", "T(4,3), 1", "T(2,3,3), -1", "I(3,3;1,9)", "B(3,3)"),
			ErrorSamples: samples("T(3)"),
			Eval: func(a *op.Args) []op.Val {
				x, k := a.Val(), a.Int()
				if len(x.Shape()) < 2 {
					fail(ir.ErrRuntime, "%s: input tensor must have at least 2 dimensions", m.name)
				}
				return a.Ret(prim.Tri(a.B, x, k, m.upper))
			},
		})
	}
	op.Register(op.Def{
		Sig: "diag(Tensor self, int diagonal=0) -> Tensor", Doc: "The diagonal of a matrix, or a matrix with that diagonal.",
		Out:     true,
		Samples: samples("T(3)", "T(3), 1", "T(3,4)", "T(3,4), -1", "T(2), -2"), ErrorSamples: samples("T()"),
		Eval: func(a *op.Args) []op.Val {
			x, k, b := a.Val(), a.Int(), a.B
			switch len(x.Shape()) {
			case 1:
				n := x.Shape()[0] + max(k, -k)
				zeros := prim.Zeros(b, x.DType(), x.Device(), []int64{n, n})
				v := ir.InternLayout(x.Shape(), []int64{n + 1})
				return a.Ret(prim.StridedScatter(b, zeros, x, v, max(k, 0)+max(-k, 0)*n))
			case 2:
				return a.Ret(prim.Copy(b, diagonal(b, x, k, 0, 1)))
			}
			fail(ir.ErrRuntime, "diag(): Supports 1D or 2D tensors. Got %dD", len(x.Shape()))
			return nil
		},
	})
	op.Register(op.Def{
		Sig: "trace(Tensor self) -> Tensor", Doc: "The sum of a matrix' diagonal.", Samples: samples("T(3,3)", "T(2,4)",
			"I(3,3;0,9)"), ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if r := len(x.Shape()); r != 2 {
				fail(ir.ErrRuntime, "trace: expected a matrix, but got tensor with dim %d", r)
			}
			d := diagonal(a.B, x, 0, 0, 1)
			return a.Ret(sum(a.B, d, all(d), false, ir.InvalidDType))
		},
	})
}

// reverse reverses the marked dims. Strides of views are not negative, so the slices are selected in reverse order.
func reverse(b op.Builder, x op.Val, mask []bool) op.Val {
	copied := false
	for d, m := range mask {
		if n := x.Shape()[d]; m && n > 1 {
			x, copied = prim.Flip(b, x, int64(d)), true
		}
	}
	if !copied {
		return prim.Copy(b, x)
	}
	return x
}

// rotate moves the elements of dim d by shift, around the end.
func rotate(b op.Builder, x op.Val, d int, shift int64) op.Val {
	if len(x.Shape()) == 0 || x.Shape()[d] == 0 {
		return x
	}
	n := x.Shape()[d]
	at := ((-shift)%n + n) % n
	if at == 0 {
		return x
	}
	return prim.Cat(b, []op.Val{prim.Slice(b, x, int64(d), at, n, 1), prim.Slice(b, x, int64(d), 0, at, 1)}, int64(d))
}

func registerReversals() {
	op.Register(op.Def{
		Sig: "flip(Tensor self, int[]* dims) -> Tensor", Doc: "The order of the elements reversed along dims.",
		Samples:      samples("T(3,4), (0,)", "T(2,3,4), (0,-1)", "I(3;0,9), (0,)", "T(3), ()", "T(1,3), (0,)"),
		ErrorSamples: samples("T(3), (1,)", "T(3), (0,0)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			mask := make([]bool, len(x.Shape()))
			if len(dims) > 0 {
				mask = dimMask(dims, len(x.Shape()))
			}
			return a.Ret(reverse(a.B, x, mask))
		},
	})
	for i, name := range []string{"flipud", "fliplr"} {
		op.Register(op.Def{
			Sig: name + "(Tensor self) -> Tensor", Doc: []string{"Rows", "Columns"}[i] + " in reverse order.",
			Samples: samples("T(3,4)"), ErrorSamples: samples("T()"),
			Eval: func(a *op.Args) []op.Val {
				x := a.Val()
				if len(x.Shape()) <= i {
					fail(ir.ErrRuntime, "Input must be >= %d-d.", i+1)
				}
				mask := make([]bool, len(x.Shape()))
				mask[i] = true
				return a.Ret(reverse(a.B, x, mask))
			},
		})
	}
	op.Register(op.Def{
		Sig:          "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
		Doc:          "Rotated by k quarter turns, from the first dim towards the second.",
		Samples:      samples("T(2,3)", "T(2,3), 2", "T(2,3,4), -1, (1,2)", "T(2,3), 4", "I(2,2;0,9), 3, (-1,0)"),
		ErrorSamples: samples("T(3)", "T(3,3), 1, (0,0)", "T(3,3), 1, (0,)", "T(3,3), 1, (0,2)"),
		Eval:         evalRot90,
	})
	op.Register(op.Def{
		Sig:          "roll(Tensor self, int[] shifts, int[] dims=()) -> Tensor",
		Doc:          "The elements moved along dims, around the end.",
		Samples:      samples("T(3,4), 1", "T(3,4), 1, 0", "T(3,4), (1,-2), (0,1)", "T(5), 7, 0", "T(0,3), 1, 0"),
		ErrorSamples: samples("T(3,4), (1,), (0,1)", "T(3), 1, 2"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			shifts, _ := a.IntList()
			dims, _ := a.IntList()
			if len(dims) == 0 && len(shifts) == 1 {
				flat := rotate(a.B, prim.Reshape(a.B, x, []int64{x.L().Numel}), 0, shifts[0])
				return a.Ret(owned(a.B, prim.Reshape(a.B, flat, x.Shape()), x))
			}
			if len(shifts) != len(dims) || len(shifts) == 0 {
				fail(ir.ErrRuntime, "shifts and dimensions must align. shifts: %d, dims:%d", len(shifts), len(dims))
			}
			y := x
			needDim(x, int(dims[0]))
			for i, d := range dims {
				y = rotate(a.B, y, ir.WrapDim(d, len(x.Shape())), shifts[i])
			}
			return a.Ret(owned(a.B, y, x))
		},
	})
}

func evalRot90(a *op.Args) []op.Val {
	x, k := a.Val(), a.Int()
	dims, _ := a.IntList()
	rank := len(x.Shape())
	if len(dims) != 2 {
		fail(ir.ErrRuntime, "expected total rotation dims == 2, but got dims = %d", len(dims))
	}
	if rank < 2 {
		fail(ir.ErrRuntime, "expected total dims >= 2, but got total dims = %d", rank)
	}
	i, j, mask := ir.WrapDim(dims[0], rank), ir.WrapDim(dims[1], rank), make([]bool, rank)
	if i == j {
		fail(ir.ErrRuntime, "expected rotation dims to be different, but got dim0 = %d and dim1 = %d", dims[0], dims[1])
	}
	turns := (k%4 + 4) % 4
	mask[i], mask[j] = turns >= 2, turns == 1 || turns == 2
	y := reverse(a.B, x, mask)
	if turns%2 == 1 {
		y = prim.Transpose(a.B, y, int64(i), int64(j))
	}
	return a.Ret(y)
}

// owned copies y where it is still a view of x.
func owned(b op.Builder, y, x op.Val) op.Val {
	if y.Value == x.Value {
		return prim.Copy(b, y)
	}
	return y
}
