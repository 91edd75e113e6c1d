package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Case is a kernel with a launch.
type Case struct {
	Kernel *loopir.Kernel
	Params []uint64
	Bufs   [][]byte
}

// Copy returns the case with buffers of its own.
func (c *Case) Copy() *Case {
	d := *c
	d.Bufs = make([][]byte, len(c.Bufs))
	for i, b := range c.Bufs {
		d.Bufs[i] = append([]byte(nil), b...)
	}
	return &d
}

// Limits say what the device supports.
type Limits struct {
	F64 bool
	// Small: only small integers, for devices that compute I64 in 32 bits.
	Small bool
}

// gen builds one case.
type gen struct {
	r      *rand.Rand
	lim    Limits
	b      *loopir.Builder
	sizes  []int64 // outer, inner
	outer  int
	params []uint64
	bufs   [][]byte
}

// Random is a case of any form.
func Random(r *rand.Rand, lim Limits) *Case {
	forms := []func(*rand.Rand, Limits) *Case{Map, Map, Dense, Rows, Reduce, Reduce, Softmax, Scan, Gather, Scatter, Arg,
		Draw}
	return forms[r.IntN(len(forms))](r, lim)
}

func newGen(r *rand.Rand, lim Limits, name string, outer, inner int) *gen {
	g := &gen{r: r, lim: lim, outer: outer, b: loopir.NewBuilder(name, outer, inner)}
	for range outer + inner {
		n := int64(1 + r.IntN(7))
		if r.IntN(4) == 0 {
			n = int64(1 + r.IntN(40))
		}
		g.sizes = append(g.sizes, n)
		g.params = append(g.params, uint64(n))
	}
	return g
}

func (g *gen) done() *Case {
	return &Case{Kernel: g.b.Kernel(), Params: g.params, Bufs: g.bufs}
}

func (g *gen) types() []ir.DType {
	t := []ir.DType{ir.Bool, ir.I32, ir.I64, ir.U32, ir.F16, ir.BF16, ir.F32, ir.F32, ir.F32, ir.U8, ir.I8, ir.I16,
		ir.U16}
	if g.lim.F64 {
		t = append(t, ir.F64, ir.U64)
	}
	return t
}

// buffer adds a buffer of n elements: random values, or poison where it is only written.
func (g *gen) buffer(t ir.DType, a loopir.BufAccess, n int64) int {
	data := make([]byte, n*int64(t.Size()))
	if a == loopir.Write {
		for i := range data {
			data[i] = 0xA5
		}
		if t == ir.Bool {
			clear(data)
		}
	} else {
		for i := range n {
			loopir.StoreBits(t, data, i, g.value(t))
		}
	}
	g.bufs = append(g.bufs, data)
	return g.b.Buf(t, a)
}

// value is random slot bits, with special values now and then.
func (g *gen) value(t ir.DType) uint64 {
	if t.IsFloat() {
		switch g.r.IntN(40) {
		case 0:
			return ir.EncodeFloat(t, math.NaN())
		case 1:
			return ir.EncodeFloat(t, math.Inf(1-2*g.r.IntN(2)))
		case 2:
			return ir.EncodeFloat(t, math.Copysign(0, -1))
		}
		return ir.EncodeFloat(t, g.r.NormFloat64()*2)
	}
	if t == ir.Bool {
		return uint64(g.r.IntN(2))
	}
	v := int64(g.r.IntN(41) - 20)
	if t == ir.U32 {
		v = int64(g.r.IntN(40))
	}
	if !g.lim.Small && g.r.IntN(10) == 0 {
		v = int64(g.r.Uint64())
	}
	return ir.EncodeInt(t, v)
}

// dims is the number of index dims that the access covers: all, or the outer ones.
func (g *gen) dims(inner bool) int {
	if inner {
		return len(g.sizes)
	}
	return g.outer
}

func (g *gen) numel(dims int) int64 {
	n := int64(1)
	for _, s := range g.sizes[:dims] {
		n *= s
	}
	return n
}

// input adds a buffer that is read through a random kind of access, and returns the access.
func (g *gen) input(t ir.DType, inner bool) int {
	d := g.dims(inner)
	offset, off := -1, int64(0)
	if g.r.IntN(2) == 0 {
		off = int64(g.r.IntN(3)) * 4 / int64(1+3*g.r.IntN(2))
		offset = g.b.Offset()
		g.params = append(g.params, uint64(off))
	}
	if g.r.IntN(3) == 0 {
		return g.b.Linear(g.buffer(t, loopir.Read, off+g.numel(d)), offset)
	}
	strides, extent := g.strides(d, off, g.r.IntN(3) == 0)
	return g.b.Access(g.buffer(t, loopir.Read, extent), offset, strides...)
}

// strides draws an order of the dims, and returns stride entries and the extent.
func (g *gen) strides(d int, off int64, gaps bool) (entries []int, extent int64) {
	entries = make([]int, d)
	extent = 1
	for _, i := range g.r.Perm(d) {
		if g.r.IntN(5) == 0 {
			entries[i] = loopir.Broadcast
			continue
		}
		if gaps && g.r.IntN(2) == 0 {
			extent += int64(g.r.IntN(3))
		}
		if extent == 1 {
			entries[i] = loopir.Unit
		} else {
			entries[i] = g.b.Stride()
			g.params = append(g.params, uint64(extent))
		}
		extent *= g.sizes[i]
	}
	return entries, extent + off
}

// output adds a written buffer: linear, or over permuted strides.
func (g *gen) output(t ir.DType, inner bool) int {
	d := g.dims(inner)
	if g.r.IntN(3) > 0 {
		return g.b.Linear(g.buffer(t, loopir.Write, g.numel(d)), -1)
	}
	entries := make([]int, d)
	extent := int64(1)
	for _, i := range g.r.Perm(d) {
		entries[i] = g.b.Stride()
		g.params = append(g.params, uint64(extent))
		extent *= g.sizes[i]
	}
	off := int64(g.r.IntN(4))
	offset := g.b.Offset()
	g.params = append(g.params, uint64(off))
	return g.b.Access(g.buffer(t, loopir.Write, extent+off), offset, entries...)
}

func (g *gen) scalar(t ir.DType) int {
	p := g.b.Scalar(t)
	g.params = append(g.params, g.value(t))
	return g.b.Param(p)
}

// body grows a pool of values by random operations, and returns the pool.
func (g *gen) body(pool []int, steps int) []int {
	for range steps {
		x := pool[g.r.IntN(len(pool))]
		pool = append(pool, g.operation(pool, x))
	}
	return pool
}

// like picks a value of the type of x, and converts one where there is none.
func (g *gen) like(pool []int, t ir.DType) int {
	for range 4 {
		if y := pool[g.r.IntN(len(pool))]; g.b.Type(y) == t {
			return y
		}
	}
	return g.convert(t, pool[g.r.IntN(len(pool))])
}

// convert casts; floats stay inside what integers can hold.
func (g *gen) convert(t ir.DType, x int) int {
	b := g.b
	if b.Type(x).IsFloat() && t.IsInt() {
		f := b.Type(x)
		x = b.Select(b.Un(loopir.OpIsNaN, x), b.Float(f, 3), b.Max(b.Float(f, 0), b.Min(x, b.Float(f, 100))))
	}
	if g.lim.Small && t == ir.I64 && b.Type(x).IsInt() {
		x = b.And(x, b.Int(b.Type(x), 0xff))
	}
	return b.Cast(t, x)
}

func (g *gen) operation(pool []int, x int) int {
	b, t := g.b, g.b.Type(x)
	y := g.like(pool, t)
	pick := func(ops ...loopir.Op) loopir.Op { return ops[g.r.IntN(len(ops))] }
	switch g.r.IntN(8) {
	case 0:
		return g.convert(g.types()[g.r.IntN(len(g.types()))].ComputeType(), x)
	case 1:
		if t != ir.Bool {
			return b.Bin(pick(loopir.OpEq, loopir.OpNe, loopir.OpLt, loopir.OpLe), x, y)
		}
	case 2:
		return b.Select(g.like(pool, ir.Bool), x, y)
	}
	switch {
	case t == ir.Bool:
		if g.r.IntN(3) == 0 {
			return b.Not(x)
		}
		return b.Bin(pick(loopir.OpAnd, loopir.OpOr, loopir.OpXor), x, y)
	case t.IsInt():
		if g.r.IntN(4) == 0 && t != ir.U32 {
			return b.Un(pick(loopir.OpNeg, loopir.OpAbs, loopir.OpNot), x)
		}
		if g.r.IntN(6) == 0 && !(g.lim.Small && t == ir.I64) {
			return b.Bin(pick(loopir.OpShl, loopir.OpShr), x, b.Int(t, int64(g.r.IntN(4))))
		}
		if g.lim.Small && t == ir.I64 {
			return b.Bin(pick(loopir.OpAdd, loopir.OpSub, loopir.OpDiv, loopir.OpRem, loopir.OpMin, loopir.OpMax, loopir.OpAnd,
				loopir.OpOr, loopir.OpXor), x, y)
		}
		return b.Bin(pick(loopir.OpAdd, loopir.OpSub, loopir.OpMul, loopir.OpDiv, loopir.OpRem, loopir.OpMin, loopir.OpMax,
			loopir.OpAnd, loopir.OpOr, loopir.OpXor), x, y)
	}
	return g.floatOperation(x, y)
}

func (g *gen) floatOperation(x, y int) int {
	b, t := g.b, g.b.Type(x)
	pick := func(ops ...loopir.Op) loopir.Op { return ops[g.r.IntN(len(ops))] }
	// Keeps magnitudes where all functions are well conditioned.
	tame := func(v int) int { return b.Un(loopir.OpTanh, v) }
	switch g.r.IntN(8) {
	case 0:
		return b.Un(pick(loopir.OpNeg, loopir.OpAbs, loopir.OpFloor, loopir.OpCeil, loopir.OpTrunc, loopir.OpRound), x)
	case 1:
		return b.Un(pick(loopir.OpExp, loopir.OpSin, loopir.OpCos, loopir.OpErf, loopir.OpTanh), tame(x))
	case 2:
		return b.Un(pick(loopir.OpSqrt, loopir.OpLog), b.Add(b.Abs(x), b.Float(t, 1.5)))
	case 3:
		return b.Un(loopir.OpIsNaN, x)
	case 4:
		return b.Pow(b.Add(b.Abs(tame(x)), b.Float(t, 0.25)), tame(y))
	case 5:
		return b.Fma(tame(x), tame(y), b.Float(t, 0.5))
	}
	return b.Bin(pick(loopir.OpAdd, loopir.OpSub, loopir.OpMul, loopir.OpMin, loopir.OpMax), x, y)
}

// store writes v to a new output of a random dtype.
func (g *gen) store(v int, inner bool) {
	t := g.b.Type(v)
	if t == ir.F32 {
		t = []ir.DType{ir.F32, ir.F32, ir.F16, ir.BF16}[g.r.IntN(4)]
	}
	g.b.Store(g.output(t, inner), v)
}

// Map is an elementwise kernel with one or two outputs.
func Map(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "map", r.IntN(4), 0)
	g.b.Map()
	var pool []int
	for range 1 + r.IntN(3) {
		pool = append(pool, g.b.Load(g.input(g.types()[r.IntN(len(g.types()))], false)))
	}
	pool = append(pool, g.scalar(ir.F32), g.scalar(ir.I64))
	if r.IntN(3) == 0 {
		pool = append(pool, g.b.LinearIndex())
		if g.outer > 0 {
			pool = append(pool, g.b.Index(r.IntN(g.outer)))
		}
	}
	pool = g.body(pool, 1+r.IntN(8))
	g.store(pool[len(pool)-1], false)
	if r.IntN(2) == 0 {
		g.store(pool[len(pool)-2], false)
	}
	return g.done()
}

// Dense is an elementwise kernel over contiguous operands and constants, with a multiple of four elements.
func Dense(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "dense", 2, 0)
	g.sizes[1] = 4 * int64(1+r.IntN(70))
	g.params[1] = uint64(g.sizes[1])
	b := g.b
	var pool []int
	types := []ir.DType{ir.F32, ir.F32, ir.F16, ir.BF16, ir.Bool, ir.I32, ir.U32}
	b.Map()
	for range 2 {
		t := types[r.IntN(len(types))]
		pool = append(pool, b.Load(b.Linear(g.buffer(t, loopir.Read, g.numel(2)), -1)))
	}
	offset := b.Offset()
	g.params = append(g.params, uint64(4*r.IntN(3)))
	shifted := b.Linear(g.buffer(ir.F32, loopir.Read, g.numel(2)+8), offset)
	pool = append(pool, b.Load(shifted), b.Load(b.Access(g.buffer(ir.F32, loopir.Read, 1), -1)), g.scalar(ir.F32))
	// A buffer that is read both as a vector and as a constant.
	pool = append(pool, b.Load(b.Access(0, -1)))
	if r.IntN(3) == 0 {
		draw := g.draws()
		for part := range loopir.NumDrawParts {
			pool = append(pool, draw(part))
		}
	}
	for range 1 + r.IntN(8) {
		x := pool[r.IntN(len(pool))]
		if y := g.operation(pool, x); b.Type(y) != ir.I64 {
			pool = append(pool, y)
		}
	}
	for _, v := range pool[len(pool)-2:] {
		t := b.Type(v)
		if t == ir.F32 {
			t = types[r.IntN(4)]
		}
		b.Store(b.Linear(g.buffer(t, loopir.Write, g.numel(2)), -1), v)
	}
	return g.done()
}

// Rows is a row program over contiguous rows of a multiple of four elements: a weighted normalization with statistics.
func Rows(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "rows", 1, 1)
	g.sizes[1] = 4 * int64(1+r.IntN(30))
	g.params[1] = uint64(g.sizes[1])
	b, n, c := g.b, g.sizes[0], g.sizes[1]
	row := b.Stride()
	gap := 4 * int64(r.IntN(2))
	g.params = append(g.params, uint64(c+gap))
	offset := b.Offset()
	g.params = append(g.params, uint64(4*r.IntN(3)))
	x := b.Un(loopir.OpTanh, b.Load(b.Access(g.buffer(ir.F32, loopir.Read, n*(c+gap)+8), offset, row, loopir.Unit)))
	w := b.Load(b.Access(g.buffer([]ir.DType{ir.F32, ir.F16, ir.BF16}[r.IntN(3)], loopir.Read, c), -1, loopir.Broadcast,
		loopir.Unit))
	scale := b.Load(b.Access(g.buffer(ir.F32, loopir.Read, n), -1, loopir.Unit))
	if r.IntN(3) == 0 { // dropout
		x = b.Select(b.Lt(g.draws()(loopir.DrawWord), b.Int(ir.U32, 3<<30)), x, b.Float(ir.F32, 0))
	}
	b.Each()
	sum := b.Reduce(loopir.Sum, x)
	low := b.Reduce(loopir.Min, g.convert(ir.I32, b.Mul(x, b.Float(ir.F32, 50))))
	negative := b.Reduce(loopir.Any, b.Lt(x, b.Float(ir.F32, 0)))
	mean := b.Div(b.Acc(sum), b.Cast(ir.F32, b.Param(1)))
	d := b.Sub(x, mean)
	b.Each()
	sq := b.Dot(d, d)
	b.Each()
	y := b.Mul(b.Fma(d, b.Un(loopir.OpTanh, w), b.Acc(sq)), scale)
	t := []ir.DType{ir.F32, ir.F16}[r.IntN(2)]
	b.Store(b.Linear(g.buffer(t, loopir.Write, n*c), -1), y)
	b.Map()
	b.Store(b.Linear(g.buffer(ir.F32, loopir.Write, n), -1), mean)
	b.Store(b.Linear(g.buffer(ir.I32, loopir.Write, n), -1), b.Acc(low))
	b.Store(b.Linear(g.buffer(ir.Bool, loopir.Write, n), -1), b.Acc(negative))
	return g.done()
}

// Reduce is a reduction of an expression with an outer epilogue. It may store elements in the stage that reduces them.
func Reduce(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "reduce", r.IntN(3), 1+r.IntN(2))
	b := g.b
	x := b.Load(g.input(ir.F32, true))
	n := b.Load(g.input(ir.I32, true))
	b.Each()
	s := b.Reduce(loopir.Sum, b.Un(loopir.OpTanh, x))
	m := b.Reduce([]loopir.ReduceOp{loopir.Max, loopir.Min}[r.IntN(2)], x)
	it := ir.I32
	if !lim.Small {
		it = ir.I64
	}
	i := b.Reduce([]loopir.ReduceOp{loopir.Sum, loopir.Prod, loopir.Max, loopir.Min}[r.IntN(4)], b.Cast(it, n))
	q := b.Reduce([]loopir.ReduceOp{loopir.Any, loopir.All}[r.IntN(2)], b.Lt(n, b.Int(ir.I32, 15)))
	if r.IntN(2) == 0 {
		g.store(b.Mul(x, b.Float(ir.F32, 2)), true)
	}
	b.Map()
	for _, v := range []int{b.Acc(s), b.Mul(b.Acc(m), b.Float(ir.F32, 0.5)), b.Acc(i), b.Acc(q)} {
		g.store(v, false)
	}
	return g.done()
}

// Softmax is a row program of three stages.
func Softmax(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "softmax", r.IntN(3), 1)
	b := g.b
	x := b.Un(loopir.OpTanh, b.Load(g.input(ir.F32, true)))
	b.Each()
	m := b.Reduce(loopir.Max, x)
	b.Each()
	e := b.Un(loopir.OpExp, b.Sub(x, b.Acc(m)))
	s := b.Reduce(loopir.Sum, e)
	b.Each()
	g.store(b.Div(e, b.Acc(s)), true)
	return g.done()
}

// Scan is a running sum and maximum.
func Scan(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "scan", r.IntN(3), 1)
	b := g.b
	x := b.Un(loopir.OpTanh, b.Load(g.input(ir.F32, true)))
	b.Scan()
	s := b.Reduce(loopir.Sum, x)
	m := b.Reduce(loopir.Max, b.Cast(ir.I32, b.Index(g.outer)))
	g.store(b.AccRun(s), true)
	g.store(b.Add(b.Cast(ir.F32, b.AccRun(m)), b.AccRun(s)), true)
	b.Map()
	g.store(b.Acc(s), false)
	return g.done()
}

// Arg is an argmax or argmin with value.
func Arg(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "arg", r.IntN(3), 1)
	b := g.b
	x := b.Load(g.input([]ir.DType{ir.F32, ir.I32}[r.IntN(2)], true))
	b.Each()
	a := b.ReduceIdx([]loopir.ReduceOp{loopir.ArgMax, loopir.ArgMin}[r.IntN(2)], x, b.Index(g.outer))
	b.Map()
	g.store(b.Acc(a), false)
	g.store(b.AccIdx(a), false)
	return g.done()
}

// Gather reads at checked computed indices, of which some are out of range.
func Gather(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "gather", 1+r.IntN(2), 0)
	b := g.b
	rows := int64(3 + r.IntN(30))
	size := b.Size()
	g.params = append(g.params, uint64(rows))
	table := g.buffer(ir.F32, loopir.Read, rows*2)
	b.Map()
	i := b.Cast(ir.I64, b.Load(g.input([]ir.DType{ir.I64, ir.I32}[r.IntN(2)], false)))
	at := b.InBounds(b.Abs(i), b.Param(size))
	g.store(b.LoadAt(table, b.Add(b.Mul(at, b.I64(2)), b.I64(1))), false)
	return g.done()
}

// Scatter combines at computed indices that repeat, with a guard.
func Scatter(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "scatter", 1+r.IntN(2), 0)
	b := g.b
	t := []ir.DType{ir.F32, ir.I32, ir.F16, ir.I64}[r.IntN(4)]
	rows := int64(1 + r.IntN(9))
	size := b.Size()
	g.params = append(g.params, uint64(rows))
	out := g.buffer(t, loopir.Atomic, rows)
	for i := range rows { // results must not depend on the order
		loopir.StoreBits(t, g.bufs[out], i, ir.EncodeInt(t, i))
	}
	mode, v := loopir.Add, b.Int(ir.I32, 3)
	if t != ir.I64 { // 64-bit integers are atomic in sums only
		mode = []loopir.StoreMode{loopir.Add, loopir.Multiply, loopir.Maximize, loopir.Minimize}[r.IntN(4)]
	}
	if mode == loopir.Multiply { // by 0 or 1: a power would overflow
		v = b.Int(ir.I32, r.Int64N(2))
	}
	b.Map()
	i := b.Cast(ir.I64, b.Load(g.input(ir.I32, false)))
	at := b.Rem(b.Abs(i), b.Param(size))
	b.StoreAt(b.Lt(b.I64(-5), i), out, at, b.Cast(t.ComputeType(), v), mode)
	return g.done()
}

// draws makes a stream and returns what gives the parts of the current element.
func (g *gen) draws() func(loopir.DrawPart) int {
	seed, drawOffset := g.b.Scalar(ir.I64), g.b.Scalar(ir.I64)
	g.params = append(g.params, g.r.Uint64(), g.r.Uint64())
	return func(p loopir.DrawPart) int { return g.b.Draw(p, g.b.Param(drawOffset), g.b.Param(seed)) }
}

// Draw stores random words and uniforms.
func Draw(r *rand.Rand, lim Limits) *Case {
	g := newGen(r, lim, "draw", 1+r.IntN(2), 0)
	b := g.b
	b.Map()
	draw := g.draws()
	word := draw(loopir.DrawWord)
	g.store(word, false)
	g.store(b.Add(b.Bin(loopir.OpXor, draw(loopir.DrawFirst), draw(loopir.DrawSecond)), draw(loopir.DrawOdd)), false)
	u := b.Mul(b.Cast(ir.F32, b.Bin(loopir.OpShr, word, b.Int(ir.U32, 8))), b.Float(ir.F32, 1.0/(1<<24)))
	g.store(u, false)
	return g.done()
}

// Close compares two runs: integers exactly, floats to rtol and atol scaled by the precision of the dtype. written
// limits the comparison to writable buffers.
func Close(k *loopir.Kernel, got, want [][]byte, rtol, atol float64) error {
	for i, b := range k.Bufs {
		if b.Access == loopir.Read {
			continue
		}
		rt, at := rtol, atol
		switch b.Type {
		case ir.F16:
			rt, at = max(rt, 2e-3), max(at, 1e-5)
		case ir.BF16:
			rt, at = max(rt, 1.6e-2), max(at, 1e-5)
		}
		ct := b.Type.ComputeType()
		for e := range int64(len(want[i]) / b.Type.Size()) {
			x := ir.DecodeFloat(ct, loopir.LoadBits(b.Type, got[i], e))
			y := ir.DecodeFloat(ct, loopir.LoadBits(b.Type, want[i], e))
			same := x == y || math.IsNaN(x) && math.IsNaN(y)
			if !same && !(b.Type.IsFloat() && math.Abs(x-y) <= at+rt*math.Abs(y)) {
				return fmt.Errorf("buffer %d (%v), element %d: got %v, want %v", i, b.Type, e, x, y)
			}
		}
	}
	return nil
}
