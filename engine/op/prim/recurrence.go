package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func named(suffix string) []string {
	names := slices.Clone(op.RecurrenceNames)
	for i := range names {
		names[i] += suffix
	}
	return names
}

const noAgain op.NotDifferentiable = "where it is differentiated again, the rule of the recurrence records " +
	"elementary primitives"

func registerRecurrencePrims() {
	pCell = op.RegisterPrim(op.Prim{Name: "cell", Variants: named("_cell"),
		Doc: "the elementwise part of a recurrent step", NIn: -1,
		SaveIn: 4, SaveOut: 1, Infer: cellInfer, VJP: cellVJP})
	pCellGrad = op.RegisterPrim(op.Prim{Name: "cell_grad", Variants: named("_cell_grad"),
		Doc: "cotangents of cell's operands", NIn: -1,
		Infer: cellGradInfer, NoVJP: noAgain})
	pRecurrence = op.RegisterPrim(op.Prim{Name: "recurrence", Variants: op.RecurrenceNames,
		Doc: "one direction of a recurrent layer over all steps", NIn: -1,
		SaveIn: 2, SaveOut: 2 | 4 | 8, Infer: recurrenceInfer, VJP: recurrenceVJP, FLOPs: recurrenceFlops})
	pRecurrenceGrad = op.RegisterPrim(op.Prim{Name: "recurrence_grad", Variants: named("_grad"), NIn: -1,
		Doc: "cotangents of recurrence's input, first states and products", Infer: recurrenceGradInfer, NoVJP: noAgain,
		FLOPs: recurrenceFlops})
}

// recurrenceFlops counts the products of the state with the weight, operand 1. Operand 0 is the gates [T, B, gates*H]
// or the states [T, B, H].
func recurrenceFlops(in []op.Val, _ []op.OutSpec) int64 {
	s := in[0].Shape()
	return 2 * s[0] * s[1] * in[1].L().Numel
}

// fits checks that operands are float, of one dtype, and of these shapes.
func fits(name string, in []op.Val, shapes ...[]int64) error {
	d := in[0].DType()
	if !d.IsFloat() {
		return notImplemented(name, d)
	}
	for i, x := range in {
		if x.DType() != d || !slices.Equal(x.Shape(), shapes[i]) {
			return ir.Errorf(ir.ErrRuntime, "%s: operand %d: got %s of shape %s, want %s of shape %s",
				name, i, x.DType(), ir.ShapeString(x.Shape()), d, ir.ShapeString(shapes[i]))
		}
	}
	return nil
}

// cellInfer is the rule of cell. Operands: x and p [B, gates*H], and the state [B, H] that enters: c of an LSTM, h of a
// GRU. Attributes: recurrence, keep. Results: with keep what the gradient reads [kept, B, H], unless that is h'; h' [B,
// H]; c' [B, H] of an LSTM.
func cellInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	r, s := op.Recurrence(attr[0]), in[0].Shape()
	if len(s) != 2 || s[1]%r.Gates() != 0 {
		return nil, ir.Errorf(ir.ErrRuntime, "cell: got gates of shape %s, want [batch, %d * hidden]", ir.ShapeString(s),
			r.Gates())
	}
	d, state := in[0].DType(), []int64{s[0], s[1] / r.Gates()}
	if err := fits("cell", in, s, s, state); err != nil {
		return nil, err
	}
	if attr[1] != 0 && !r.Plain() {
		out = append(out, op.OutSpec{DType: d, Shape: append([]int64{r.Kept()}, state...)})
	}
	out = append(out, op.OutSpec{DType: d, Shape: state})
	if r == op.LSTM {
		out = append(out, op.OutSpec{DType: d, Shape: state})
	}
	return out, nil
}

// cellGradInfer is the rule of cell's gradient. Operands: what cell kept; the state that entered, except of a plain
// one; the cotangents of h' and of an LSTM's c', where they exist. Attributes: recurrence, has h's, has c's. Results:
// the cotangents of x, of p where it is another one (GRU), and of the state, except of a plain one.
func cellGradInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	r, d := op.Recurrence(attr[0]), in[0].DType()
	s := in[len(in)-1].Shape()
	gates := op.OutSpec{DType: d, Shape: []int64{s[0], r.Gates() * s[1]}}
	out = append(out, gates)
	if r == op.GRU {
		out = append(out, gates)
	}
	if !r.Plain() {
		out = append(out, op.OutSpec{DType: d, Shape: s})
	}
	return out, nil
}

// recurrenceInfer is the rule of recurrence. Operands: x [T, B, gates*H], w [gates*H, H], the first state h [B, H], c
// [B, H] of an LSTM, bias? [gates*H]. Attributes: recurrence, backwards, has bias, keep. Results: the states h of all
// steps [T, B, H]; with keep, in the order of time, the states including the first [T+1, B, H], what cell keeps of a
// gated one [T, kept, B, H], and an LSTM's c including the first [T+1, B, H]; and the last c [B, H] of an LSTM.
func recurrenceInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	r, s := op.Recurrence(attr[0]), in[0].Shape()
	if len(s) != 3 || s[0] == 0 || s[2]%r.Gates() != 0 {
		return nil, ir.Errorf(ir.ErrRuntime, "recurrence: got gates of shape %s, want [steps, batch, %d * hidden]",
			ir.ShapeString(s), r.Gates())
	}
	d, steps, batch, h := in[0].DType(), s[0], s[1], s[2]/r.Gates()
	state := []int64{batch, h}
	shapes := [][]int64{s, {s[2], h}, state}
	if r == op.LSTM {
		shapes = append(shapes, state)
	}
	if err := fits("recurrence", in, append(shapes, []int64{s[2]})...); err != nil {
		return nil, err
	}
	result := func(shape ...int64) { out = append(out, op.OutSpec{DType: d, Shape: shape}) }
	result(steps, batch, h)
	if attr[3] != 0 {
		result(steps+1, batch, h)
		if !r.Plain() {
			result(steps, r.Kept(), batch, h)
		}
		if r == op.LSTM {
			result(steps+1, batch, h)
		}
	}
	if r == op.LSTM {
		result(batch, h)
	}
	return out, nil
}

// recurrenceGradInfer is the rule of recurrence's gradient. Operands: the cotangent of the states of all steps [T, B,
// H], w, what cell kept (except of a plain one), the states including the first [T+1, B, H] (c of an LSTM), and the
// cotangent of an LSTM's last c where it exists. Attributes: recurrence, backwards, has the last, wants the first
// states' cotangents. Results: the cotangents of x, of the products where these are others (GRU), and of h and an
// LSTM's c where wanted.
func recurrenceGradInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	r, d, s := op.Recurrence(attr[0]), in[0].DType(), in[0].Shape()
	gates := op.OutSpec{DType: d, Shape: []int64{s[0], s[1], r.Gates() * s[2]}}
	state := op.OutSpec{DType: d, Shape: []int64{s[1], s[2]}}
	out = append(out, gates)
	if r == op.GRU {
		out = append(out, gates)
	}
	if attr[3] != 0 {
		out = append(out, state)
		if r == op.LSTM {
			out = append(out, state)
		}
	}
	return out, nil
}

// Cell is one step of r. state has Kind None for a plain one; c has Kind None except for an LSTM.
func Cell(b op.Builder, r op.Recurrence, x, p, state op.Val) (h, c op.Val) {
	in := []op.Val{x, p}
	if !r.Plain() {
		in = append(in, state)
	}
	keep := anyNeedsGrad(b, in)
	out := b.EmitN(pCell, []int64{int64(r), flag(keep)}, in...)
	if keep && !r.Plain() {
		out = out[1:]
	}
	if r == op.LSTM {
		return out[0], out[1]
	}
	return out[0], op.Val{}
}

// Recur runs r over x [T, B, gates*H] from h and, for an LSTM, c; bias may have Kind None. It returns the states of all
// steps, and the last c of an LSTM.
func Recur(b op.Builder, r op.Recurrence, backwards bool, x, w, h, c, bias op.Val) (states, last op.Val) {
	in := []op.Val{x, w, h}
	if r == op.LSTM {
		in = append(in, c)
	}
	if bias.IsTensor() {
		in = append(in, bias)
	}
	out := b.EmitN(pRecurrence, []int64{int64(r), flag(backwards), flag(bias.IsTensor()), flag(anyNeedsGrad(b, in))},
		in...)
	if r == op.LSTM {
		last = out[len(out)-1]
	}
	return out[0], last
}

func anyNeedsGrad(b op.Builder, in []op.Val) bool { return slices.ContainsFunc(in, b.NeedsGrad) }

func present(v op.Val) bool { return v.Kind != op.None }

// twiceDifferentiated reports that the gradient is itself differentiated: it has a history, or cotangents reach what
// the rule itself read.
func twiceDifferentiated(c *op.VJPCall, kept []op.Val) bool {
	return anyNeedsGrad(c.B, c.In) || anyNeedsGrad(c.B, c.Out) || anyNeedsGrad(c.B, c.Cot) || slices.ContainsFunc(kept,
		present)
}

func cellVJP(c *op.VJPCall) []op.Val {
	b, r, out := c.B, op.Recurrence(c.Attr[0]), make([]op.Val, len(c.In))
	kept, cots := c.Out[0], c.Cot
	var state, gkept, gc op.Val
	if !r.Plain() {
		state, gkept, cots = c.In[2], c.Cot[0], c.Cot[1:]
	}
	if r == op.LSTM {
		gc = cots[1]
	}
	if gh := cots[0]; twiceDifferentiated(c, []op.Val{gkept}) {
		planes := kept
		if r.Plain() {
			planes = Unsqueeze(b, kept, 0)
		}
		g := cellGradient(b, r, planes, state, gh, gc, gkept)
		out[0], out[1] = Cat(b, g.x, 1), Cat(b, g.p, 1)
		if !r.Plain() {
			out[2] = g.state
		}
		return out
	}
	in := []op.Val{kept}
	if !r.Plain() {
		in = append(in, state)
	}
	for _, g := range []op.Val{cots[0], gc} {
		if present(g) {
			in = append(in, g)
		}
	}
	d := b.EmitN(pCellGrad, []int64{int64(r), flag(present(cots[0])), flag(present(gc))}, in...)
	out[0], out[1] = d[0], d[0]
	if r == op.GRU {
		out[1] = d[1]
	}
	if !r.Plain() {
		out[2] = d[len(d)-1]
	}
	return out
}

// cellCots are the cotangents of a cell's operands: of the parts of x and of p, and of the state that entered.
type cellCots struct {
	x, p  []op.Val
	state op.Val
}

// cellGradient is cell_grad in elementary primitives. It is differentiable in the planes [kept, B, H] and the state,
// and takes cotangents of the planes too. Cotangents may have Kind None.
func cellGradient(b op.Builder, r op.Recurrence, planes, state, gh, gc, gplanes op.Val) (g cellCots) {
	v, gv := make([]op.Val, r.Kept()), make([]op.Val, r.Kept())
	for i := range v {
		v[i] = Select(b, planes, 0, int64(i))
		if present(gplanes) {
			gv[i] = Select(b, gplanes, 0, int64(i))
		}
	}
	times := func(g op.Val, by ...op.Val) op.Val {
		for _, y := range by {
			if present(g) {
				g = Mul(b, g, y)
			}
		}
		return g
	}
	less := func(y op.Val) op.Val { return Sub(b, num(1), y) }
	plus := func(x, y op.Val) op.Val { return sumCot(b, x, y) }
	sigmoid := func(g, y op.Val) op.Val { return times(g, y, less(y)) }
	tanh := func(g, y op.Val) op.Val { return times(g, less(Mul(b, y, y))) }
	switch r {
	case op.LSTM:
		gc = plus(gc, tanh(plus(times(gh, v[3]), gv[4]), v[4]))
		g.x = []op.Val{sigmoid(plus(times(gc, v[2]), gv[0]), v[0]), sigmoid(plus(times(gc, state), gv[1]), v[1]),
			tanh(plus(times(gc, v[0]), gv[2]), v[2]), sigmoid(plus(times(gh, v[4]), gv[3]), v[3])}
		g.state = times(gc, v[1])
	case op.GRU:
		reset, update, fresh := v[0], v[1], v[2]
		gz := sigmoid(plus(times(gh, Sub(b, state, fresh)), gv[1]), update)
		gn := tanh(plus(times(gh, less(update)), gv[2]), fresh)
		gr := sigmoid(plus(times(gn, v[3]), gv[0]), reset)
		g.x, g.p = []op.Val{gr, gz, gn}, []op.Val{gr, gz, plus(times(gn, reset), gv[3])}
		g.state = times(gh, update)
	case op.RNNTanh:
		g.x = []op.Val{tanh(plus(gh, gv[0]), v[0])}
	default:
		if g.x = []op.Val{plus(gh, gv[0])}; present(g.x[0]) {
			g.x[0] = Where(b, Le(b, v[0], num(0)), num(0), g.x[0])
		}
	}
	if g.p == nil {
		g.p = g.x
	}
	for _, list := range [][]op.Val{g.x, g.p} {
		for i := range list {
			if !present(list[i]) {
				list[i] = ZerosLike(b, v[0])
			}
		}
	}
	return g
}

func recurrenceVJP(c *op.VJPCall) []op.Val {
	b, r := c.B, op.Recurrence(c.Attr[0])
	x := layerGrad{b: b, r: r, backwards: c.Attr[1] != 0, w: c.In[1], states: c.Out[1], g: c.Cot[0], gstates: c.Cot[1]}
	if !r.Plain() {
		x.kept, x.gkept = c.Out[2], c.Cot[2]
	}
	if r == op.LSTM {
		x.cells, x.gcells, x.glast = c.Out[3], c.Cot[3], c.Cot[4]
	}
	if !present(x.g) {
		x.g = Zeros(b, c.In[0].DType(), c.In[0].Device(), c.Out[0].Shape())
	}
	start := c.Need[2] || r == op.LSTM && c.Need[3]
	var gx, gp, gh, gc op.Val
	if twiceDifferentiated(c, []op.Val{x.gstates, x.gkept, x.gcells}) {
		gx, gp, gh, gc = x.elementary()
	} else {
		gx, gp, gh, gc = x.primitive(start)
	}
	out := make([]op.Val, len(c.In))
	out[0], out[2] = gx, gh
	if r == op.LSTM {
		out[3] = gc
	}
	if c.Need[1] {
		s := gp.Shape()
		entering := Slice(b, x.states, 0, flag(x.backwards), s[0]+flag(x.backwards), 1)
		rows := func(v op.Val) op.Val { return Reshape(b, v, []int64{s[0] * s[1], v.Shape()[2]}) }
		out[1] = Matmul(b, Transpose(b, rows(gp), 0, 1), rows(entering), op.Val{})
	}
	if n := len(c.In) - 1; c.Attr[2] != 0 && c.Need[n] {
		out[n] = Sum(b, gp, []int64{0, 1})
	}
	return out
}

// layerGrad holds what the gradient of a recurrence reads, and the cotangents of its results; g always exists.
type layerGrad struct {
	b                                op.Builder
	r                                op.Recurrence
	backwards                        bool
	w, states, kept, cells           op.Val
	g, gstates, gkept, gcells, glast op.Val
}

// primitive returns the cotangents of x, the products, h and c by recurrence_grad; h's and c's only where start is set.
func (l *layerGrad) primitive(start bool) (gx, gp, gh, gc op.Val) {
	in := []op.Val{l.g, l.w}
	if !l.r.Plain() {
		in = append(in, l.kept)
	}
	if l.r == op.LSTM {
		in = append(in, l.cells)
	} else {
		in = append(in, l.states)
	}
	if present(l.glast) {
		in = append(in, l.glast)
	}
	d := l.b.EmitN(pRecurrenceGrad, []int64{int64(l.r), flag(l.backwards), flag(present(l.glast)), flag(start)}, in...)
	gx, gp, d = d[0], d[0], d[1:]
	if l.r == op.GRU {
		gp, d = d[0], d[1:]
	}
	if start {
		gh = d[0]
		if l.r == op.LSTM {
			gc = d[1]
		}
	}
	return gx, gp, gh, gc
}

// elementary is primitive in elementary primitives, step by step. It is differentiable in all that it reads, and takes
// cotangents of what the recurrence kept.
func (l *layerGrad) elementary() (gx, gp, gh, gc op.Val) {
	b, steps := l.b, l.g.Shape()[0]
	at := func(v op.Val, i int64) op.Val {
		if !present(v) {
			return v
		}
		return Select(b, v, 0, i)
	}
	xs, ps := make([]op.Val, steps), make([]op.Val, steps)
	gc = l.glast
	direct := op.Val{} // the part of a GRU's h' that does not go through the gates
	for k := steps - 1; k >= 0; k-- {
		t, enters, leaves := k, k, k+1
		if l.backwards {
			t = steps - 1 - k
			enters, leaves = t+1, t
		}
		h := sumCot(b, sumCot(b, sumCot(b, at(l.g, t), at(l.gstates, leaves)), gh), direct)
		planes, state := at(l.kept, t), at(l.states, enters)
		if l.r.Plain() {
			planes = Slice(b, l.states, 0, leaves, leaves+1, 1)
		}
		if l.r == op.LSTM {
			state, gc = at(l.cells, enters), sumCot(b, gc, at(l.gcells, leaves))
		}
		d := cellGradient(b, l.r, planes, state, h, gc, at(l.gkept, t))
		xs[t], ps[t] = Unsqueeze(b, Cat(b, d.x, 1), 0), Unsqueeze(b, Cat(b, d.p, 1), 0)
		gh = Matmul(b, Select(b, ps[t], 0, 0), l.w, op.Val{})
		if l.r == op.LSTM {
			gc = d.state
		} else {
			direct = d.state
		}
	}
	first := int64(0)
	if l.backwards {
		first = steps
	}
	gh = sumCot(b, sumCot(b, gh, direct), at(l.gstates, first))
	if l.r == op.LSTM {
		gc = sumCot(b, gc, at(l.gcells, first))
	}
	return Cat(b, xs, 0), Cat(b, ps, 0), gh, gc
}
