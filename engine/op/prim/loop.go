package prim

import (
	"math"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerLoopPrims() {
	pLoop = op.RegisterPrim(op.Prim{Name: "loop", Doc: "a body, a number of times", NIn: -1, SaveIn: ^uint32(0),
		Infer: loopInfer, VJP: loopVJP, ScalarDType: i64Scalars, Seed: loopSeed, DataError: loopFault,
		SavesOut: func(attr []int64, k, n int) bool {
			l := op.LoopOf(attr)
			return l.Keep && k >= n-l.Carries
		}})
}

// loopSeed: a body that draws makes the loop draw.
func loopSeed(attr []int64) (number int, ok bool) {
	b := op.LoopOf(attr).Body()
	return 0, b != nil && b.DrawsTaken() > 0
}

func loopFault(attr []int64, element int64) *ir.Error {
	const high = 64 - ir.LoopEventBits
	e := op.LoopOf(attr).Body().DataError(int(element>>ir.LoopEventBits), element<<high>>high)
	if where := "in a loop: "; !strings.HasPrefix(e.Msg, where) {
		e.Msg = where + e.Msg
	}
	return e
}

func loopInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	if len(attr) != len((&op.Loop{}).Attr()) {
		return nil, ir.Errorf(ir.ErrInternal, "loop: %d attributes", len(attr))
	}
	l := op.LoopOf(attr)
	b := l.Body()
	if b == nil || l.Length < 1 || l.Carries < 0 || l.Xs < 0 {
		return nil, ir.Errorf(ir.ErrInternal, "loop: its attributes name no body, or no iteration")
	}
	want, results := b.Operands(), b.Outcomes()
	n := len(want)
	if l.While && (l.Xs > 0 || len(results) != l.Carries || l.Carries == 0 || ir.AvalOf(want[0]).DType != ir.Bool) {
		return nil, ir.Errorf(ir.ErrRuntime, "loop: with a condition, expected a bool as first carry, no xs and no ys")
	}
	if l.While && ir.AvalOf(want[0]).Layout.Rank() > 0 {
		return nil, ir.Errorf(ir.ErrInternal, "loop: the condition is no scalar")
	}
	if b.DrawsTaken() > 0 {
		n += 2
	}
	if len(in) != n || l.Carries+l.Xs > len(want) || l.Carries > len(results) {
		return nil, ir.Errorf(ir.ErrRuntime, "loop: got %d operands, want %d", len(in), n)
	}
	if err := checkLoopOperands(l, in[:len(want)], want); err != nil {
		return nil, err
	}
	for k, id := range results {
		av := ir.AvalOf(id)
		shape := av.Shape()
		if k < l.Carries && id != want[k] {
			return nil, ir.Errorf(ir.ErrType, "loop: carry %d changes from %s to %s", k, typeText(ir.AvalOf(want[k])),
				typeText(av))
		}
		if k >= l.Carries {
			shape = slices.Concat([]int64{l.Length}, shape)
		}
		out = append(out, op.OutSpec{DType: av.DType, Shape: shape})
	}
	for k := range l.Carries {
		if av := ir.AvalOf(want[k]); l.Keep {
			out = append(out, op.OutSpec{DType: av.DType, Shape: slices.Concat([]int64{l.Length}, av.Shape())})
		}
	}
	const most = 255
	if len(out) > most {
		return nil, ir.Errorf(ir.ErrNotImplemented, "loop: %d carries and results, want at most %d", len(out), most)
	}
	return out, nil
}

// checkLoopOperands compares a loop's operands with those of its body: xs have one more dim, of iterations.
func checkLoopOperands(l *op.Loop, in []op.Val, want []ir.AvalID) error {
	for i, id := range want {
		av := ir.AvalOf(id)
		shape := av.Shape()
		if i >= l.Carries && i < l.Carries+l.Xs {
			shape = slices.Concat([]int64{l.Length}, shape)
		}
		if !in[i].IsTensor() || in[i].DType() != av.DType || !slices.Equal(in[i].Shape(), shape) {
			return ir.Errorf(ir.ErrRuntime, "loop: operand %d: got %s of shape %s, want %s of shape %s", i,
				in[i].DType(), ir.ShapeString(in[i].Shape()), av.DType, ir.ShapeString(shape))
		}
	}
	return nil
}

// keepBytes is how many bytes of carries a loop keeps for its gradient: to write and read them again takes less time
// than to compute them again. Beyond that it keeps those of some iterations, from which the gradient computes the
// others.
const keepBytes = 32 << 20

// LoopOver runs a body l.Length times, at least once, and returns the last carries and the stacked results. in are the
// operands without seed and Philox offset; l.Keep is ignored.
func LoopOver(b op.Builder, l op.Loop, in []op.Val) []op.Val {
	if l.While && len(in[0].Shape()) > 0 {
		return masked(b, l, in)
	}
	in = slices.Clone(in)
	for i := range in {
		in[i] = Contiguous(b, in[i])
	}
	body, bytes := l.Body(), int64(0)
	for _, id := range body.Operands()[:l.Carries] {
		bytes += ir.AvalOf(id).Bytes()
	}
	results := len(body.Outcomes())
	if !slices.ContainsFunc(in, b.(op.BodyBuilder).OnTape) || l.While || bytes*l.Length <= keepBytes || l.Length < 4 {
		return drawnLoop(b, l, in)[:results]
	}
	return segmented(b, l, in)[:results]
}

// masked runs a loop whose condition is a bool for each element of a batch until all are false.
func masked(b op.Builder, l op.Loop, in []op.Val) []op.Val {
	alive := AnyElement(b, in[0])
	l.ID = b.(op.BodyBuilder).MaskedBody(&l)
	l.Carries++
	return LoopOver(b, l, slices.Concat([]op.Val{alive}, in))[1:]
}

// AnyElement is whether any element of a bool tensor is true.
func AnyElement(b op.Builder, x op.Val) op.Val {
	return Amax(b, Reshape(b, x, []int64{ir.Numel(x.Shape())}), []int64{0})
}

// endlessDraws is how many iterations of a loop that only its condition ends have Philox offsets of their own. What is
// drawn after the loop begins behind them.
const endlessDraws = 1 << 40

// drawnLoop records a loop with fresh draws. It keeps its carries where it is differentiated.
func drawnLoop(b op.Builder, l op.Loop, in []op.Val) []op.Val {
	if n := int64(l.Body().DrawsTaken()); n > 0 {
		length := l.Length
		if l.While {
			length = min(length, endlessDraws)
		}
		if n > math.MaxInt64/length {
			fail(ir.ErrNotImplemented, "loop: %d iterations of a body that takes %d random offsets are too many: a loop that "+
				"only a condition ends takes those of 2^40 iterations; bound it by a number, or draw outside of it", length, n)
		}
		seed, first := b.(op.BodyBuilder).DrawMany(n * length)
		in = append(slices.Clip(in), seed, first)
	}
	return recordLoop(b, l, in)
}

// recordLoop records one node.
func recordLoop(b op.Builder, l op.Loop, in []op.Val) []op.Val {
	l.Keep = slices.ContainsFunc(in, b.(op.BodyBuilder).OnTape) && !l.While
	return emitLoop(b, l, in)
}

// emitLoop records one node on the device that runs it: that of its operands where it can run the loop, else the CPU.
// Its results are where its operands were.
func emitLoop(b op.Builder, l op.Loop, in []op.Val) []op.Val {
	at := slices.IndexFunc(in, func(v op.Val) bool { return v.IsTensor() && v.Device() != ir.CPU })
	if at < 0 {
		return b.EmitN(pLoop, l.Attr(), in...)
	}
	dev, work := in[at].Device(), ir.CPU
	if b.(op.BodyBuilder).LoopReason(&l, dev) == "" {
		work = dev
	}
	in = slices.Clone(in)
	for i := range in {
		if in[i].IsTensor() {
			in[i] = ToDevice(b, in[i], work)
		}
	}
	outs := slices.Clone(b.EmitN(pLoop, l.Attr(), in...))
	for k := range outs {
		outs[k] = ToDevice(b, outs[k], dev)
	}
	return outs
}

// segmented runs the loop as a loop over segments of about sqrt(length) iterations, and a loop over the rest. Only the
// carries before each segment are kept: the gradient runs a segment again.
func segmented(b op.Builder, l op.Loop, in []op.Val) []op.Val {
	size := int64(1)
	for size*size < l.Length {
		size++
	}
	count, rest := l.Length/size, l.Length%size
	outer := l
	outer.ID, outer.Length = b.(op.BodyBuilder).SegmentBody(&l, size), count
	tail := l
	tail.Length = rest
	from := [2]int64{0, count * size} // the first places of the segments and of the rest
	if l.Reverse {
		from = [2]int64{rest, 0} // the rest comes first in xs, last in time
	}
	run := func(l op.Loop, from, n int64, segments []int64, in []op.Val) []op.Val {
		in = slices.Clone(in)
		for i := l.Carries; i < l.Carries+l.Xs; i++ {
			x := Slice(b, in[i], 0, from, from+n, 1)
			in[i] = Contiguous(b, Reshape(b, x, slices.Concat(segments, in[i].Shape()[1:])))
		}
		return drawnLoop(b, l, in)
	}
	first := run(outer, from[0], count*size, []int64{count, size}, in)
	ys := len(l.Body().Outcomes())
	outs := slices.Clone(first[:ys])
	for k := l.Carries; k < ys; k++ {
		outs[k] = Reshape(b, outs[k], slices.Concat([]int64{count * size}, outs[k].Shape()[2:]))
	}
	if rest == 0 {
		return outs
	}
	last := run(tail, from[1], rest, []int64{rest}, slices.Concat(outs[:l.Carries], in[l.Carries:]))
	copy(outs, last[:l.Carries])
	for k := l.Carries; k < ys; k++ {
		parts := []op.Val{outs[k], last[k]}
		if l.Reverse {
			slices.Reverse(parts)
		}
		outs[k] = Cat(b, parts, 0)
	}
	return outs
}

// batchLoopBody: the body computes the batch, so the loop stays one. Where a condition differs in the batch, the loop
// ends with the last element, and each element keeps its carries from its own end on.
func batchLoopBody(c *op.BatchCall) []op.Val {
	l, n := *op.LoopOf(c.Attr), len(c.Sizes)
	body := l.Body()
	if body.DrawsTaken() > 0 { // each element draws numbers of its own
		return BatchLoop(c)
	}
	xs := l.Carries + l.Xs
	turn := func(v op.Val, from, to int) op.Val {
		dims := make([]int64, len(v.Shape()))
		for i := range dims {
			dims[i] = int64(i)
		}
		return Permute(c.B, v, slices.Insert(slices.Delete(dims, from, from+1), to, int64(from)))
	}
	in, batched := slices.Clone(c.In), make([]bool, len(c.In))
	for i := range in {
		if batched[i] = c.Batched[i] || i < xs && (i > 0 || !l.While); !batched[i] {
			continue
		}
		in[i] = whole(c, i)
		if i >= l.Carries && i < xs {
			in[i] = turn(in[i], n, 0) // iterations come first
		}
		in[i] = Contiguous(c.B, in[i])
	}
	plain := l.ID
	l.ID = c.B.(op.BodyBuilder).BatchBody(&l, batched, c.Sizes)
	if l.While && !batched[0] && l.Body().Outcomes()[0] != l.Body().Operands()[0] { // it differs in the batch
		in[0], batched[0], l.ID = Contiguous(c.B, spreadBatch(c, c.In[0])), true, plain
		l.ID = c.B.(op.BodyBuilder).BatchBody(&l, batched, c.Sizes)
	}
	if l.While && batched[0] {
		return masked(c.B, l, in)
	}
	outs := slices.Clone(emitLoop(c.B, l, in))
	for k := range outs {
		switch {
		case k >= l.Carries:
			outs[k] = turn(outs[k], 0, n)
		case l.While && k == 0:
			outs[k] = spreadBatch(c, outs[k])
		}
	}
	return outs
}

// loopVJP is the rule of loop: a loop over the same places in the other order. It draws as the loop did, because a
// draw belongs to a place and not to a time.
func loopVJP(c *op.VJPCall) []op.Val {
	l := op.LoopOf(c.Attr)
	body := l.Body()
	avals, results := body.Operands(), len(body.Outcomes())
	if l.While && l.Length > 1 {
		fail(ir.ErrRuntime, "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with tensors as "+
			"bounds: how many carries to keep is known only afterwards. Use lax.scan or a fori_loop over numbers.")
	}
	out := c.Out
	if !l.Keep && !l.While { // an iteration of a loop over segments: it runs again, and keeps its carries
		again := *l
		again.Keep = true
		out = emitLoop(c.B, again, c.In)
	}
	given := make([]bool, len(c.Cot)-l.Carries) // of ys, then of the carries kept
	for k := range given {
		given[k] = present(c.Cot[l.Carries+k])
	}
	var in, xs []op.Val
	if l.While {
		in = append(in, c.In[0])
	}
	for i := range l.Carries {
		if av := ir.AvalOf(avals[i]); !av.DType.IsFloat() {
			continue
		}
		cot := c.Cot[i]
		if !present(cot) {
			cot = ZerosLike(c.B, c.In[i])
		}
		in = append(in, cot)
	}
	for i := l.Carries + l.Xs; i < len(avals); i++ {
		if c.Need[i] {
			in = append(in, ZerosLike(c.B, c.In[i]))
		}
	}
	id, read := c.B.(op.BodyBuilder).GradientBody(l, c.Need[:len(avals)], given)
	back := op.Loop{ID: id, Carries: len(in), Length: l.Length, Reverse: !l.Reverse, While: l.While}
	if l.While { // one iteration, or none: nothing is stacked
		in = slices.Concat(in, c.In)
	} else {
		xs = append(xs, c.In[l.Carries:l.Carries+l.Xs]...)
		xs = append(xs, out[results:results+l.Carries]...)
		for k, is := range given {
			if is {
				xs = append(xs, c.Cot[l.Carries+k])
			}
		}
		read = read[len(in):]
		rest := read[len(xs):]
		xs = onlyRead(xs, read)
		back.Xs = len(xs)
		in = slices.Concat(in, xs, onlyRead(c.In[l.Carries+l.Xs:], rest))
	}
	for i := range in {
		if in[i].IsTensor() {
			in[i] = Contiguous(c.B, in[i])
		}
	}
	return loopCotangents(c, l, avals, recordLoop(c.B, back, in))
}

// onlyRead returns the values that are read, and those beyond the list.
func onlyRead(vals []op.Val, read []bool) (list []op.Val) {
	for i, v := range vals {
		if i >= len(read) || read[i] {
			list = append(list, v)
		}
	}
	return list
}

// loopCotangents sorts the results of a loop's gradient by operand.
func loopCotangents(c *op.VJPCall, l *op.Loop, avals []ir.AvalID, got []op.Val) []op.Val {
	cots := make([]op.Val, len(c.In))
	next := 0
	if l.While {
		next++
	}
	take := func(i int, need bool) {
		if need {
			cots[i] = got[next]
		}
		next++
	}
	for i := range l.Carries {
		if ir.AvalOf(avals[i]).DType.IsFloat() {
			take(i, c.Need[i])
		}
	}
	for i := l.Carries + l.Xs; i < len(avals); i++ {
		if c.Need[i] {
			take(i, true)
		}
	}
	for i := l.Carries; i < l.Carries+l.Xs; i++ {
		if c.Need[i] {
			take(i, true)
		}
	}
	return cots
}

func typeText(a *ir.Aval) string { return a.DType.String() + ir.ShapeString(a.Shape()) }
