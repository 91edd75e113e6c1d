package comp

import (
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// Items of _index's spec: a kind, then its values.
const (
	itemInt      = 0 // index
	itemSlice    = 1 // given (1 start, 2 stop, 4 step), start, stop, step
	itemNone     = 2
	itemEllipsis = 3
)

// window is a view under construction: indexing several dims is one view step.
type window struct {
	shape, stride []int64
	offset        int64
	dim           int // next dim to be indexed
}

func (w *window) drop() {
	w.shape = slices.Delete(w.shape, w.dim, w.dim+1)
	w.stride = slices.Delete(w.stride, w.dim, w.dim+1)
}

func (w *window) at(i int64, original int) {
	n := w.shape[w.dim]
	if i < -n || i >= n {
		fail(ir.ErrIndex, "index %d is out of bounds for dimension %d with size %d", i, original, n)
	}
	if i < 0 {
		i += n
	}
	w.offset += i * w.stride[w.dim]
	w.drop()
}

func (w *window) slice(given, start, stop, step int64) {
	n := w.shape[w.dim]
	if given&4 == 0 {
		step = 1
	}
	if step == 0 {
		fail(ir.ErrValue, "slice step cannot be zero")
	}
	if step < 0 {
		fail(ir.ErrValue, "step must be greater than zero")
	}
	if given&1 == 0 {
		start = 0
	}
	if given&2 == 0 {
		stop = n
	}
	bound := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	start, stop = bound(start), bound(stop)
	size := max(0, (stop-start+step-1)/step)
	if size > 0 {
		w.offset += start * w.stride[w.dim]
	}
	w.shape[w.dim], w.stride[w.dim] = size, w.stride[w.dim]*step
	w.dim++
}

// consumed counts the dims that a spec indexes, and checks its form.
func consumed(spec []int64) (n int, items [][]int64) {
	for len(spec) > 0 {
		size := map[int64]int{itemInt: 2, itemSlice: 5, itemNone: 1, itemEllipsis: 1}[spec[0]]
		if size == 0 || size > len(spec) {
			fail(ir.ErrValue, "_index: malformed specification")
		}
		if spec[0] == itemInt || spec[0] == itemSlice {
			n++
		}
		items, spec = append(items, spec[:size]), spec[size:]
	}
	return n, items
}

// basicIndex is x[spec] for integers, slices, None and Ellipsis.
func basicIndex(b op.Builder, x op.Val, spec []int64) op.Val {
	l := x.L()
	n, items := consumed(spec)
	if n > l.Rank() {
		if l.Rank() == 0 && len(items) == 1 && items[0][0] == itemInt {
			fail(ir.ErrIndex, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number")
		}
		fail(ir.ErrIndex, "too many indices for tensor of dimension %d", l.Rank())
	}
	w := window{shape: slices.Clone(l.Shape), stride: slices.Clone(l.Stride), offset: x.Offset}
	original, seen := 0, false
	for _, it := range items {
		switch it[0] {
		case itemInt:
			w.at(it[1], original)
			original++
		case itemSlice:
			w.slice(it[1], it[2], it[3], it[4])
			original++
		case itemNone:
			w.shape, w.stride = slices.Insert(w.shape, w.dim, 1), slices.Insert(w.stride, w.dim, 0)
			if w.dim+1 < len(w.stride) {
				w.stride[w.dim] = w.shape[w.dim+1] * w.stride[w.dim+1]
			}
			w.dim++
		case itemEllipsis:
			if seen { // further ones count as a full slice, as in PyTorch
				w.dim, original = w.dim+1, original+1
				break
			}
			seen = true
			w.dim, original = w.dim+l.Rank()-n, original+l.Rank()-n
		}
	}
	return b.View(x, ir.InternLayout(w.shape, w.stride), w.offset, op.ViewOp{Kind: op.ViewStrided})
}

func init() {
	op.Register(op.Def{
		Sig: "_index(Tensor self, int[] spec) -> Tensor", Doc: "Basic indexing: integers, slices, None, Ellipsis.", Where: op.Hidden, View: true,
		Samples:      samples("T(3,4), [0, 1]", "T(3,4), [1, 3, 0, 2, 0]", "T(3,4), [3, 0, -1]", "T(3,4), [2, 1, 7, 1, 4, 2, 0, 0]"),
		ErrorSamples: samples("T(3), [0, 3]", "T(3), [0, 0, 0, 0]", "T(), [0, 0]"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			spec, _ := a.IntList()
			return a.Ret(basicIndex(a.B, x, spec))
		},
	})
	op.Register(op.Def{
		Sig: "_setitem_(Tensor self, Operand value) -> Tensor", Doc: "Assignment to an indexed view: value is broadcast, its leading dims of size 1 dropped.",
		Where: op.Hidden, InPlaceOnly: true, Samples: samples("T(3,4), 2.5", "T(3,4), T(4)", "T(3,4), T(1,1,4)", "I(3;0,5), 1.5"),
		Eval: func(a *op.Args) []op.Val {
			x, v, b := a.Val(), a.Val(), a.B
			for v.IsTensor() && len(v.Shape()) > len(x.Shape()) && v.Shape()[0] == 1 {
				v = prim.Reshape(b, v, v.Shape()[1:])
			}
			return a.Ret(assigned(b, x, v))
		},
	})
	op.Register(op.Def{
		Sig: "_index_tensor(Tensor self, Tensor[] indices, int[] which) -> Tensor", Doc: "Indexing of the dims in which by integer tensors.", Where: op.Hidden,
		Samples: samples("T(5,4), [I(3;0,5)], [0]", "T(5,4), [I(3;0,5), I(3;0,4)], [0, 1]", "T(2,5,3), [I(2,2;-5,5)], [1]", "T(2,5,3), [I(4;0,2), I(4;0,3)], [0, 2]",
			"T(3,4), [I(2,1;0,3), I(3;0,4)], [0, 1]"),
		Eval: func(a *op.Args) []op.Val {
			x, ts := a.Val(), a.Vals()
			which, _ := a.IntList()
			g := gathering(a.B, x, ts, which)
			return a.Ret(g.get(a.B))
		},
	})
	op.Register(op.Def{
		Sig: "_index_put_(Tensor self, Tensor[] indices, int[] which, Operand values, bool accumulate=False) -> Tensor",
		Doc: "Assignment through integer tensors that index the dims in which.", Where: op.Hidden, InPlaceOnly: true,
		Samples: samples("T(5,4), [torch.tensor([0, 2])], [0], T(2,4)", "T(5,4), [torch.tensor([0, 0])], [0], T(4), True", "T(5,4), [torch.tensor([1, 2]), torch.tensor([0, 3])], [0, 1], 2.5"),
		Eval: func(a *op.Args) []op.Val {
			x, ts := a.Val(), a.Vals()
			which, _ := a.IntList()
			v := a.Val()
			g := gathering(a.B, x, ts, which)
			return a.Ret(g.put(a.B, v, a.Bool()))
		},
	})
	op.Register(op.Def{
		Sig: "_mask_put_(Tensor self, Tensor mask, Operand value) -> Tensor", Doc: "Assignment of one value where a mask over the leading dims holds.",
		Where: op.Hidden, InPlaceOnly: true, Samples: samples("T(3,4), B(3,4), 0.0", "T(3,4), B(3), -1"), ErrorSamples: samples("T(3,4), B(2), 1.0"), Eval: evalMaskPut,
	})
	op.Register(op.Def{
		Sig: "index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor", Doc: "values written (or added) at integer indices of the leading dims.",
		InPlace: true, Samples: samples("T(5,4), (torch.tensor([0, 2]),), T(2,4)", "T(5,4), (torch.tensor([0, 0]), torch.tensor([1, 1])), T(2), True"),
		Eval: func(a *op.Args) []op.Val {
			x, ts, v := a.Val(), a.Vals(), a.Val()
			which := make([]int64, len(ts))
			for i := range which {
				which[i] = int64(i)
			}
			if v.DType() != x.DType() {
				fail(ir.ErrRuntime, "Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.", typeName(x.DType()), typeName(v.DType()))
			}
			g := gathering(a.B, x, ts, which)
			return a.Ret(g.put(a.B, v, a.Bool()))
		},
	})
}

// assigned is value as self's new content: cast, moved and broadcast.
func assigned(b op.Builder, self, value op.Val) op.Val {
	if !value.IsTensor() {
		return prim.Fill(b, asType(b, value, self.DType()), self.DType(), self.Device(), self.Shape())
	}
	s, v := self.Shape(), value.Shape()
	if !sameShape(s, v) && !sameShape(broadcastShape(s, v), s) {
		fail(ir.ErrRuntime, "output with shape %s doesn't match the broadcast shape %s", ir.ShapeString(s), ir.ShapeString(broadcastShape(s, v)))
	}
	value = prim.ToDevice(b, value, self.Device())
	return expand(b, cast(b, value, self.DType()), s)
}

func evalMaskPut(a *op.Args) []op.Val {
	x, mask, v, b := a.Val(), a.Val(), a.Val(), a.B
	if mask.DType() != ir.Bool {
		fail(ir.ErrIndex, "tensors used as indices must be long, int, byte or bool tensors")
	}
	s, m := x.Shape(), mask.Shape()
	if len(m) > len(s) {
		fail(ir.ErrIndex, "too many indices for tensor of dimension %d", len(s))
	}
	for i := range m {
		if m[i] != s[i] {
			fail(ir.ErrIndex, "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d", ir.ShapeString(m), i, ir.ShapeString(s), i)
		}
	}
	shape := slices.Clone(m)
	for len(shape) < len(s) {
		shape = append(shape, 1)
	}
	if v = asType(b, v, x.DType()); v.IsTensor() {
		for len(v.Shape()) > 0 && v.L().Numel == 1 {
			v = prim.Reshape(b, v, v.Shape()[1:])
		}
		if len(v.Shape()) > 0 {
			fail(ir.ErrNotImplemented, "_mask_put_: assignment through a mask: got values of shape %s, want one value", ir.ShapeString(v.Shape()))
		}
	}
	return a.Ret(maskedFill(b, x, prim.Reshape(b, mask, shape), v))
}

// gathered is an advanced indexing in linear form: the indexed dims of x are moved to
// the front and flattened, and one linear index names their elements.
type gathered struct {
	x      op.Val  // indexed dims first
	perm   []int64 // from the tensor's dims to x's
	lin    op.Val  // 1-d
	index  []int64 // shape of the broadcast indices
	rows   int64   // product of the indexed sizes
	rest   []int64 // sizes of the other dims
	result []int64 // permutation that puts index dims where PyTorch does
}

func gathering(b op.Builder, x op.Val, ts []op.Val, which []int64) *gathered {
	if len(ts) != len(which) || len(ts) == 0 {
		fail(ir.ErrIndex, "_index_tensor: got %d indices for %d dims", len(ts), len(which))
	}
	g := &gathered{}
	shape := x.Shape()
	indexed := make([]bool, len(shape))
	for _, d := range which {
		if d < 0 || int(d) >= len(shape) {
			fail(ir.ErrIndex, "too many indices for tensor of dimension %d", len(shape))
		}
		indexed[d] = true
		g.perm = append(g.perm, d)
	}
	for d := range shape {
		if !indexed[d] {
			g.perm, g.rest = append(g.perm, int64(d)), append(g.rest, shape[d])
		}
	}
	g.x = prim.Permute(b, x, g.perm)
	g.linear(b, ts, shape, which)
	g.place(which)
	return g
}

// linear builds the flat index. A component out of range makes the whole -1, which the
// kernel's range check reports.
func (g *gathered) linear(b op.Builder, ts []op.Val, shape, which []int64) {
	for i, t := range ts {
		if !t.DType().IsInt() {
			fail(ir.ErrIndex, "tensors used as indices must be long, int, byte or bool tensors")
		}
		if i == 0 {
			g.index = t.Shape()
		} else if j := g.index; !sameShape(j, t.Shape()) {
			g.index = indexShape(ts)
		}
	}
	g.rows = 1
	for k := len(ts) - 1; k >= 0; k-- {
		n := shape[which[k]]
		t := prim.ToDevice(b, cast(b, expand(b, ts[k], g.index), ir.I64), g.x.Device())
		t = prim.Where(b, prim.Lt(b, t, op.IntVal(0)), prim.Add(b, t, op.IntVal(n)), t)
		if len(ts) > 1 {
			bad := prim.BitwiseOr(b, prim.Lt(b, t, op.IntVal(0)), prim.Ge(b, t, op.IntVal(n)))
			// Far enough below zero that the other components cannot lift it.
			t = prim.Where(b, bad, op.IntVal(-(1 << 30)), t)
		}
		if g.rows != 1 {
			t = prim.Mul(b, t, op.IntVal(g.rows))
		}
		if k == len(ts)-1 {
			g.lin = t
		} else {
			g.lin = prim.Add(b, g.lin, t)
		}
		g.rows *= n
	}
	g.lin = prim.Reshape(b, g.lin, []int64{ir.Numel(g.index)})
}

func indexShape(ts []op.Val) (shape []int64) {
	defer func() {
		if recover() != nil {
			text := ""
			for i, t := range ts {
				if i > 0 {
					text += ", "
				}
				text += ir.ShapeString(t.Shape())
			}
			fail(ir.ErrIndex, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", text)
		}
	}()
	for i, t := range ts {
		if i == 0 {
			shape = t.Shape()
		} else {
			shape = broadcastShape(shape, t.Shape())
		}
	}
	return shape
}

// place finds where the index dims go: before the first indexed dim when the indexed
// dims are adjacent, else to the front.
func (g *gathered) place(which []int64) {
	lead := int(which[0])
	for i := 1; i < len(which); i++ {
		if which[i] != which[i-1]+1 {
			lead = 0
		}
	}
	n := len(g.index)
	for d := 0; d < lead; d++ {
		g.result = append(g.result, int64(n+d))
	}
	for d := 0; d < n; d++ {
		g.result = append(g.result, int64(d))
	}
	for d := lead; d < len(g.rest); d++ {
		g.result = append(g.result, int64(n+d))
	}
}

func (g *gathered) flat(b op.Builder) op.Val {
	return prim.Reshape(b, g.x, append([]int64{g.rows}, g.rest...))
}

func (g *gathered) get(b op.Builder) op.Val {
	y := prim.IndexSelect(b, g.flat(b), g.lin, 0)
	y = prim.Reshape(b, y, slices.Concat(g.index, g.rest))
	return prim.Permute(b, y, g.result)
}

// put is the tensor with values written, or added, at the indices.
func (g *gathered) put(b op.Builder, values op.Val, accumulate bool) op.Val {
	d, n := g.x.DType(), g.lin.L().Numel
	values = asType(b, values, d)
	shape := append([]int64{n}, g.rest...)
	if values.IsScalar() {
		values = prim.Expand(b, prim.Fill(b, values, d, g.x.Device(), nil), shape)
	} else {
		full := slices.Concat(g.index, g.rest)
		want := make([]int64, len(full))
		inverse := make([]int64, len(full))
		for i, p := range g.result {
			want[i], inverse[p] = full[p], int64(i)
		}
		values = prim.ToDevice(b, values, g.x.Device())
		for len(values.Shape()) > len(want) && values.Shape()[0] == 1 {
			values = prim.Reshape(b, values, values.Shape()[1:])
		}
		checkValueShape(values.Shape(), want)
		values = prim.Reshape(b, prim.Permute(b, prim.Expand(b, values, want), inverse), shape)
	}
	flat := g.flat(b)
	var y op.Val
	if accumulate {
		y = overBools(prim.IndexAdd)(b, flat, g.lin, values, 0)
	} else {
		i := g.lin
		for range g.rest {
			i = prim.Unsqueeze(b, i, -1)
		}
		y = prim.Scatter(b, flat, prim.Expand(b, i, shape), values, 0)
	}
	y = prim.Reshape(b, y, g.x.Shape())
	back := make([]int64, len(g.perm))
	for i, p := range g.perm {
		back[p] = int64(i)
	}
	return prim.Permute(b, y, back)
}

func checkValueShape(got, want []int64) {
	lead := len(want) - len(got)
	ok := lead >= 0
	for i := range got {
		ok = ok && (got[i] == 1 || got[i] == want[i+lead])
	}
	if !ok {
		fail(ir.ErrRuntime, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s", ir.ShapeString(got), ir.ShapeString(want))
	}
}
