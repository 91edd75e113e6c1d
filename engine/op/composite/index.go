package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
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
			fail(ir.ErrIndex, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "+
				"convert a 0-dim tensor to a number")
		}
		fail(ir.ErrIndex, "too many indices for tensor of dimension %d", l.Rank())
	}
	of := func(l *ir.Layout) (*ir.Layout, int64) { return windowOf(l, n, items) }
	out, offset := of(l)
	return b.View(x, out, x.Offset+offset, op.StridedOp(l, of))
}

// windowOf is the view that items, which index n dims, make of layout l.
func windowOf(l *ir.Layout, n int, items [][]int64) (*ir.Layout, int64) {
	w := window{shape: slices.Clone(l.Shape), stride: slices.Clone(l.Stride)}
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
	return ir.InternLayout(w.shape, w.stride), w.offset
}

func registerIndexOps() {
	op.Register(op.Def{
		Sig: "_index(Tensor self, int[] spec) -> Tensor", Doc: "Basic indexing: integers, slices, None, Ellipsis.",
		Where: op.Hidden, View: true,
		Samples: samples("T(3,4), [0, 1]", "T(3,4), [1, 3, 0, 2, 0]", "T(3,4), [3, 0, -1]",
			"T(3,4), [2, 1, 7, 1, 4, 2, 0, 0]"),
		ErrorSamples: samples("T(3), [0, 3]", "T(3), [0, 0, 0, 0]", "T(), [0, 0]"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			spec, _ := a.IntList()
			return a.Ret(basicIndex(a.B, x, spec))
		},
	})
	op.Register(op.Def{
		Sig: "_setitem_(Tensor self, Operand value) -> Tensor", Doc: "Assignment to an indexed view: value is broadcast, " +
			"its leading dims of size 1 dropped.",
		Where: op.Hidden, InPlaceOnly: true, Overwrites: true, Expands: true,
		Samples: samples("T(3,4), 2.5", "T(3,4), T(4)", "T(3,4), T(1,1,4)", "I(3;0,5), 1.5"),
		Eval: func(a *op.Args) []op.Val {
			x, v, b := a.Val(), a.Val(), a.B
			for v.IsTensor() && len(v.Shape()) > len(x.Shape()) && v.Shape()[0] == 1 {
				v = prim.Reshape(b, v, v.Shape()[1:])
			}
			return a.Ret(assigned(b, x, v))
		},
	})
	op.Register(op.Def{
		Sig: "_index_tensor(Tensor self, Tensor[] indices, int[] which) -> Tensor",
		Doc: "Indexing of the dims in which by integer tensors.", Where: op.Hidden,
		Samples: samples("T(5,4), [I(3;0,5)], [0]", "T(5,4), [I(3;0,5), I(3;0,4)], [0, 1]", "T(2,5,3), [I(2,2;-5,5)], [1]",
			"T(2,5,3), [I(4;0,2), I(4;0,3)], [0, 2]", "T(3,4), [I(2,1;0,3), I(3;0,4)], [0, 1]"),
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
		Samples: samples("T(5,4), [torch.tensor([0, 2])], [0], T(2,4)", "T(5,4), [torch.tensor([0, 0])], [0], T(4), True",
			"T(5,4), [torch.tensor([1, 2]), torch.tensor([0, 3])], [0, 1], 2.5"),
		Eval: func(a *op.Args) []op.Val {
			x, ts := a.Val(), a.Vals()
			which, _ := a.IntList()
			v := a.Val()
			g := gathering(a.B, x, ts, which)
			return a.Ret(g.put(a.B, v, a.Bool()))
		},
	})
	op.Register(op.Def{
		Sig: "_rows_under_mask(Tensor self, Tensor count, int rows) -> Tensor", Where: op.Hidden, NoGrad: notOfData,
		Doc:     "self, the rows that true elements of a mask take; count, of one element, must be rows.",
		Samples: samples("I(3;0,2), I(1;2,2), 2"),
		Eval: func(a *op.Args) []op.Val {
			x, count, b := a.Val(), a.Val(), a.B
			ok := prim.Eq(b, count, op.IntVal(a.Int()))
			return a.Ret(prim.Require(b, expandTo(b, ok, x.Shape()), x, prim.RequireRows))
		},
	})
	op.Register(op.Def{
		Sig:   "_mask_put_(Tensor self, Tensor mask, Operand value) -> Tensor",
		Doc:   "Assignment of one value where a mask over the leading dims holds.",
		Where: op.Hidden, InPlaceOnly: true, Samples: samples("T(3,4), B(3,4), 0.0", "T(3,4), B(3), -1"),
		ErrorSamples: samples("T(3,4), B(2), 1.0"), Eval: evalMaskPut,
	})
}

// assigned is value as self's new content: cast, moved and broadcast.
func assigned(b op.Builder, self, value op.Val) op.Val {
	if !value.IsTensor() {
		return prim.Fill(b, asType(b, value, self.DType()), self.DType(), self.Device(), self.Shape())
	}
	s, v := self.Shape(), value.Shape()
	if !ir.SameShape(s, v) && !ir.SameShape(ir.BroadcastShape(s, v), s) {
		fail(ir.ErrRuntime, "output with shape %s doesn't match the broadcast shape %s", ir.ShapeString(s),
			ir.ShapeString(ir.BroadcastShape(s, v)))
	}
	value = prim.ToDevice(b, asType(b, value, self.DType()), self.Device())
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
			fail(ir.ErrIndex, "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index "+
				"%d", ir.ShapeString(m), i, ir.ShapeString(s), i)
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
			fail(ir.ErrNotImplemented, "_mask_put_: assignment through a mask: got values of shape %s, want one value",
				ir.ShapeString(v.Shape()))
		}
	}
	return a.Ret(maskedFill(b, x, prim.Reshape(b, mask, shape), v))
}

// gathered is an advanced indexing in linear form: the indexed dims are neighbours and count as one dim, whose elements
// one linear index names.
type gathered struct {
	x     op.Val  // the tensor, with its dims in the order perm
	perm  []int64 // dims before, indexed dims, dims behind
	dim   int64   // number of dims before
	n     int     // number of indexed dims
	lin   op.Val  // 1-d
	index []int64 // shape of the broadcast indices
	rows  int64   // product of the indexed sizes
}

func gathering(b op.Builder, x op.Val, ts []op.Val, which []int64) *gathered {
	if len(ts) != len(which) || len(ts) == 0 {
		fail(ir.ErrIndex, "_index_tensor: got %d indices for %d dims", len(ts), len(which))
	}
	g := &gathered{n: len(ts)}
	for _, d := range which {
		if d < 0 || int(d) >= len(x.Shape()) {
			fail(ir.ErrIndex, "too many indices for tensor of dimension %d", len(x.Shape()))
		}
	}
	g.place(len(x.Shape()), ts, which)
	g.x = prim.Permute(b, x, g.perm)
	g.linear(b, ts, x.Shape(), which)
	return g
}

// place orders the dims. The index's dims come in the result where the indexed dims are, if these are neighbours, else
// in front. An index without dims is a selection that was made before, and counts for neither.
func (g *gathered) place(rank int, ts []op.Val, which []int64) {
	var dims []int64
	for i, t := range ts {
		if len(t.Shape()) > 0 {
			dims = append(dims, which[i])
		}
	}
	if len(dims) == 0 {
		dims = which
	}
	first, last := dims[0], dims[len(dims)-1]
	var before, behind []int64
	apart := false
	for d := range int64(rank) {
		switch {
		case slices.Contains(which, d):
		case d < first:
			before = append(before, d)
		default:
			apart = apart || d < last
			behind = append(behind, d)
		}
	}
	if apart {
		before, behind = nil, append(before, behind...)
	}
	g.dim = int64(len(before))
	g.perm = slices.Concat(before, which, behind)
}

// linear builds the flat index. Where a component is out of range the whole index is -1, which the kernel's range check
// reports.
func (g *gathered) linear(b op.Builder, ts []op.Val, shape, which []int64) {
	for _, t := range ts {
		if d := t.DType(); !d.IsInt() || d.IsNarrow() {
			fail(ir.ErrIndex, "tensors used as indices must be long, int, byte or bool tensors")
		}
	}
	g.index = indexShape(ts)
	g.rows = 1
	var outside op.Val
	for k := len(ts) - 1; k >= 0; k-- {
		n := shape[which[k]]
		t := wrapped(b, prim.ToDevice(b, cast(b, expand(b, ts[k], g.index), ir.I64), g.x.Device()), n)
		if len(ts) > 1 {
			bad := prim.BitwiseOr(b, prim.Lt(b, t, op.IntVal(0)), prim.Ge(b, t, op.IntVal(n)))
			if outside.IsTensor() {
				bad = prim.BitwiseOr(b, outside, bad)
			}
			outside = bad
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
	if outside.IsTensor() {
		g.lin = prim.Where(b, outside, op.IntVal(-1), g.lin)
	}
	g.lin = flat(b, g.lin)
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
			shape = ir.BroadcastShape(shape, t.Shape())
		}
	}
	return shape
}

// with is x's shape with other dims in place of the indexed ones.
func (g *gathered) with(dims ...int64) []int64 {
	s := g.x.Shape()
	return slices.Concat(s[:g.dim], dims, s[int(g.dim)+g.n:])
}

func (g *gathered) get(b op.Builder) op.Val {
	y := prim.IndexSelect(b, prim.Reshape(b, g.x, g.with(g.rows)), g.lin, g.dim)
	return prim.Reshape(b, y, g.with(g.index...))
}

// put is the tensor with values written, or added, at the indices.
func (g *gathered) put(b op.Builder, values op.Val, accumulate bool) op.Val {
	d, shape := g.x.DType(), g.with(g.lin.L().Numel)
	values = asType(b, values, d)
	if values.IsScalar() {
		values = prim.Expand(b, prim.Fill(b, values, d, g.x.Device(), nil), shape)
	} else {
		want := g.with(g.index...)
		values = prim.ToDevice(b, values, g.x.Device())
		for len(values.Shape()) > len(want) && values.Shape()[0] == 1 {
			values = prim.Reshape(b, values, values.Shape()[1:])
		}
		checkValueShape(values.Shape(), want)
		values = prim.Reshape(b, prim.Expand(b, values, want), shape)
	}
	write := prim.Scatter
	if accumulate {
		write = overInts(prim.ScatterAdd)
	}
	y := write(b, prim.Reshape(b, g.x, g.with(g.rows)), prim.Along(b, g.lin, shape, g.dim), values, g.dim)
	back := make([]int64, len(g.perm))
	for i, p := range g.perm {
		back[p] = int64(i)
	}
	return prim.Permute(b, prim.Reshape(b, y, g.x.Shape()), back)
}

func checkValueShape(got, want []int64) {
	lead := len(want) - len(got)
	ok := lead >= 0
	for i := range got {
		ok = ok && (got[i] == 1 || got[i] == want[i+lead])
	}
	if !ok {
		fail(ir.ErrRuntime, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
			ir.ShapeString(got), ir.ShapeString(want))
	}
}
