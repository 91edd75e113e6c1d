package comp

import (
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// concat is torch.cat: dtypes are promoted, and 1-d empty tensors are skipped as
// PyTorch does for old code.
func concat(b op.Builder, ts []op.Val, dim int64) op.Val {
	if len(ts) == 0 {
		fail(ir.ErrValue, "torch.cat(): expected a non-empty list of Tensors")
	}
	var used []op.Val
	d := resultType(b, ts...)
	for i, t := range ts {
		if len(t.Shape()) == 0 {
			fail(ir.ErrRuntime, "zero-dimensional tensor (at position %d) cannot be concatenated", i)
		}
		if len(t.Shape()) == 1 && t.Shape()[0] == 0 {
			continue
		}
		used = append(used, cast(b, t, d))
	}
	if len(used) == 0 {
		wrapDim(dim, 1)
		return prim.Zeros(b, d, ts[0].Device(), []int64{0})
	}
	first := used[0].Shape()
	k := wrapDim(dim, len(first))
	for i, t := range used[1:] {
		s := t.Shape()
		if len(s) != len(first) {
			fail(ir.ErrRuntime, "Tensors must have same number of dimensions: got %d and %d", len(first), len(s))
		}
		for j := range s {
			if j != k && s[j] != first[j] {
				fail(ir.ErrRuntime, "Sizes of tensors must match except in dimension %d. Expected size %d but got size %d for tensor number %d in the list.", k, first[j], s[j], i+1)
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
	d := wrapDim(dim, len(first)+1)
	parts := make([]op.Val, len(ts))
	for i, t := range ts {
		if !sameShape(t.Shape(), first) {
			fail(ir.ErrRuntime, "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d", ir.ShapeString(first), ir.ShapeString(t.Shape()), i)
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

func init() {
	joined := func(name, doc string, aliases []string, params string, eval op.Eval, s []op.Sample, errs ...op.Sample) {
		op.Register(op.Def{Sig: name + "(Tensor[] tensors" + params + ") -> Tensor", Doc: doc, Aliases: aliases, Where: op.Function, Out: true,
			Eval: eval, Samples: s, ErrorSamples: errs})
	}
	joined("cat", "Tensors joined along a dim.", []string{"concat", "concatenate"}, ", int dim=0", func(a *op.Args) []op.Val {
		ts := a.Vals()
		return a.Ret(concat(a.B, ts, a.Int()))
	}, samples("[T(2,3), T(4,3)]", "[T(2,3), T(2,1)], 1", "[I(2;0,5), T(2)]", "[T(2,3)], -1", "[T(2), torch.zeros(0), T(3)]", "[T(2,3), T(0,3), T(1,3)]"),
		sample("[T(2,3), T(2,2)]"), sample("[]"), sample("[T(2), T()]"), sample("[T(2)], 1"))
	joined("stack", "Tensors joined along a new dim.", nil, ", int dim=0", func(a *op.Args) []op.Val {
		ts := a.Vals()
		return a.Ret(stack(a.B, ts, a.Int()))
	}, samples("[T(2,3), T(2,3)]", "[T(2), T(2), T(2)], -1", "[T(), T()]", "[I(2;0,5), T(2)], 1"), sample("[T(2), T(3)]"), sample("[]"))
	joined("hstack", "Tensors joined column by column.", nil, "", func(a *op.Args) []op.Val {
		ts := atLeast(a.B, a.Vals(), 1)
		if len(ts) > 0 && len(ts[0].Shape()) == 1 {
			return a.Ret(concat(a.B, ts, 0))
		}
		return a.Ret(concat(a.B, ts, 1))
	}, samples("[T(2), T(3)]", "[T(2,3), T(2,1)]", "[T(), T()]"))
	joined("vstack", "Tensors joined row by row.", []string{"row_stack"}, "", func(a *op.Args) []op.Val {
		return a.Ret(concat(a.B, atLeast(a.B, a.Vals(), 2), 0))
	}, samples("[T(3), T(2,3)]", "[T(), T()]"))
	joined("dstack", "Tensors joined along the third dim.", nil, "", func(a *op.Args) []op.Val {
		return a.Ret(concat(a.B, atLeast(a.B, a.Vals(), 3), 2))
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
	registerRepeats()
	registerTriangles()
	registerReversals()
}

// tile repeats x: repeats has at least as many entries as x has dims.
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
		Sig: "tile(Tensor self, int[]* dims) -> Tensor", Doc: "repeat, with missing leading counts as 1.", Samples: samples("T(2,3), (2,)", "T(3), (2,2)"),
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
		Sig: "repeat_interleave(Tensor self, int repeats, int? dim=None) -> Tensor", Doc: "Each element repeated in place.",
		Samples: samples("T(3), 2", "T(2,3), 2, 1", "T(2,3), 3", "T(2,3), 2, -2"), ErrorSamples: samples("T(3), -1"),
		Eval: func(a *op.Args) []op.Val {
			x, n := a.Val(), a.Int()
			dim, given := a.OptInt()
			if n < 0 {
				fail(ir.ErrRuntime, "Repeats must be non-negative")
			}
			if !given {
				x, dim = prim.Reshape(a.B, x, []int64{x.L().Numel}), 0
			}
			if len(x.Shape()) == 0 {
				x = prim.Reshape(a.B, x, []int64{1})
			}
			d := wrapDim(dim, len(x.Shape()))
			wide := slices.Insert(slices.Clone(x.Shape()), d+1, n)
			v := prim.Copy(a.B, prim.Expand(a.B, prim.Unsqueeze(a.B, x, int64(d)+1), wide))
			out := slices.Clone(x.Shape())
			out[d] *= n
			return a.Ret(prim.Reshape(a.B, v, out))
		},
	})
}

func registerTriangles() {
	for _, m := range []struct {
		name  string
		upper bool
	}{{"tril", false}, {"triu", true}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, int diagonal=0) -> Tensor", Doc: map[bool]string{false: "The lower", true: "The upper"}[m.upper] + " triangle of matrices, zero elsewhere.",
			InPlace: true, Out: true, Samples: samples("T(3,4)", "T(4,3), 1", "T(2,3,3), -1", "I(3,3;1,9)", "B(3,3)"), ErrorSamples: samples("T(3)"),
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
		Sig: "diag(Tensor self, int diagonal=0) -> Tensor", Doc: "The diagonal of a matrix, or a matrix with that diagonal.", Out: true,
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
		Sig: "trace(Tensor self) -> Tensor", Doc: "The sum of a matrix' diagonal.", Samples: samples("T(3,3)", "T(2,4)", "I(3,3;0,9)"), ErrorSamples: samples("T(3)"),
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

// reverse turns the marked dims around: strides of views are not negative, so the
// slices are selected in reverse order.
func reverse(b op.Builder, x op.Val, mask []bool) op.Val {
	copied := false
	for d, m := range mask {
		if n := x.Shape()[d]; m && n > 1 {
			i := prim.Iota(b, op.IntVal(n-1), op.IntVal(-1), ir.I64, x.Device(), n)
			x, copied = prim.IndexSelect(b, x, i, int64(d)), true
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
		Samples: samples("T(3,4), (0,)", "T(2,3,4), (0,-1)", "I(3;0,9), (0,)", "T(3), ()", "T(1,3), (0,)"), ErrorSamples: samples("T(3), (1,)", "T(3), (0,0)"),
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
			Sig: name + "(Tensor self) -> Tensor", Doc: []string{"Rows", "Columns"}[i] + " in reverse order.", Samples: samples("T(3,4)"), ErrorSamples: samples("T()"),
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
		Sig: "roll(Tensor self, int[] shifts, int[] dims=()) -> Tensor", Doc: "The elements moved along dims, around the end.",
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
				y = rotate(a.B, y, wrapDim(d, len(x.Shape())), shifts[i])
			}
			return a.Ret(owned(a.B, y, x))
		},
	})
}

// owned copies y when it is still a view of x.
func owned(b op.Builder, y, x op.Val) op.Val {
	if y.Value == x.Value {
		return prim.Copy(b, y)
	}
	return y
}
