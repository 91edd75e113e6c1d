package lower

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Factorisations on devices that do not run launch.Factor. A matrix is halved, by columns or as a triangle, down to the
// size of one launch.FactorBlock. A product joins the halves.

// A panel of LU or QR has up to panelColumns columns. One workgroup reads it once for each of them, so a tall panel
// that does not stay in workgroup memory has fewer: leastLU or leastQR. QR's are wider, since each is a pass over the
// matrix.
const panelColumns, leastLU, leastQR = 32, 8, 16

// panelThreads is the least number of threads that share a panel. For each column they go twice over all of it.
const panelThreads = 64

// panel is the number of columns of a panel of so many rows. It is small where the device would end the loops of more.
func (b *blocks) panel(rows, least int64) int64 {
	n, room := int64(panelColumns), 2*b.p.n.FactorSide*b.p.n.FactorSide
	for n > least && rows*n > room {
		n /= 2
	}
	for most := b.p.n.MaxIterations; most > 0 && n > 1 && 2*rows*n*(n+3)/panelThreads > most; {
		n /= 2
	}
	return n
}

// byBlocks are the operations that are lowered to blocks.
var byBlocks = map[launch.FactorOp]func(*blocks){
	launch.FactorCholesky:    (*blocks).cholesky,
	launch.FactorLU:          func(b *blocks) { b.lu(b.p.out(0), b.p.out(1), b.p.out(2)) },
	launch.FactorPermutation: func(b *blocks) { b.permutation(b.p.dense(0), b.p.out(0)) },
	launch.FactorSolve:       (*blocks).solve,
	launch.FactorTriangular:  (*blocks).triangular,
	launch.FactorQR:          (*blocks).qr,
}

// blocks lowers one factorisation.
type blocks struct {
	p              *program
	batch, m, n, k int64
	option         int64
	check          bool
	room           *arg // of a product that is subtracted
	first, second  *arg // of the products of reflections
}

// dense is operand i, copied where it is strided.
func (p *program) dense(i int) *arg { return p.contiguous(p.in(i)) }

// whole is an argument over all matrices of m rows and n columns, as one batch dim.
func (b *blocks) whole(x *arg, m, n int64) *arg {
	y := *x
	y.shape = []int64{b.batch, m, n}
	y.stride = ir.DenseStrides(y.shape)
	return &y
}

// matrixOf is a dense argument as an operand of products.
func (b *blocks) matrixOf(x *arg, m, n int64) matrix {
	return matrix{x.buf, []int64{m * n}, n, 1, x.offset}
}

// from is the part of x from row i and column j on.
func (x matrix) from(i, j int64) matrix {
	x.offset = x.offset.Plus(i*x.row + j*x.col)
	return x
}

func (x matrix) transposed() matrix {
	x.row, x.col = x.col, x.row
	return x
}

// arg is m rows and n columns of x as an argument of a kernel.
func (b *blocks) arg(x matrix, m, n int64, u use) *arg {
	return &arg{dtype: ir.F32, shape: []int64{b.batch, m, n}, stride: []int64{x.batch[0], x.row, x.col}, buf: x.buf,
		offset: x.offset, use: u}
}

// step appends a step over m rows and n columns of x.
func (b *blocks) step(f launch.FactorBlock, m, n, at int64, x *matrix, bufs []int, rest ...device.Param) {
	s := device.Step{Op: &f, Params: constants(b.batch, m, n, at)}
	if x != nil {
		s.Bufs, s.Params = append(s.Bufs, x.buf), append(s.Params, x.strides()...)
	}
	s.Bufs, s.Params = append(s.Bufs, bufs...), append(s.Params, rest...)
	b.p.res.Launches = append(b.p.res.Launches, s)
}

// product is c = x y, of m rows, n columns and k terms.
func (b *blocks) product(m, n, k int64, x, y, c matrix) {
	g := launch.Gemm{CStrided: true}
	if b.batch == 1 {
		x.batch, y.batch, c.batch = nil, nil, nil
		b.p.product(g, ir.F32, nil, [3]int64{m, n, k}, x, y, epilogue{}, c)
		return
	}
	b.p.product(g, ir.F32, []int64{b.batch}, [3]int64{m, n, k}, x, y, epilogue{}, c)
}

// subtract is c -= x y. The product is a temporary, since a launch does not read the buffer that it writes.
func (b *blocks) subtract(m, n, k int64, x, y, c matrix) {
	if m == 0 || n == 0 || k == 0 {
		return
	}
	if b.room == nil {
		b.room = b.p.temp(ir.F32, []int64{0})
	}
	t := b.matrixOf(b.grown(b.room, m*n), m, n)
	b.product(m, n, k, x, y, t)
	to := b.arg(c, m, n, reads|writes)
	by := b.arg(t, m, n, reads)
	kernel := b.p.kernel("subtract_float32", to.shape, nil, 0, to, by)
	kernel.Map()
	kernel.store(to, kernel.Sub(kernel.load(to), kernel.load(by)))
	kernel.launch()
}

// grown makes a temporary large enough for so many elements of each matrix.
func (b *blocks) grown(x *arg, elements int64) *arg {
	t := &b.p.res.Temps[x.buf-b.p.n.Bufs]
	t.Numel = max(t.Numel, b.batch*elements)
	return x
}

// half is about half of n, a multiple of side.
func half(n, side int64) int64 { return (n/2 + side - 1) / side * side }

// copied copies operand i to x.
func (b *blocks) copied(i int, x *arg) {
	if from := b.p.in(i); ir.Numel(from.shape) > 0 {
		b.p.copy(from, x)
	}
}

// cleared stores zeros.
func (b *blocks) cleared(x *arg) {
	b.p.fill(x, func(k *kernel) int { return k.Cast(x.dtype, k.I64(0)) })
}

// reported raises the first status.
func (b *blocks) reported(status *arg) {
	if b.check {
		b.step(launch.FactorBlock{Op: launch.BlockStatus}, 1, 1, 0, nil, []int{status.buf})
	}
}

// triangle keeps a triangle of the first rows of x, of columns columns, in out.
func (b *blocks) triangle(x, out matrix, rows, columns int64, upper bool) {
	if rows == 0 || columns == 0 {
		return
	}
	from, to := b.arg(x, rows, columns, reads), b.arg(out, rows, columns, writes)
	args := []*arg{from, to}
	if x.buf == out.buf {
		to.use |= reads
		from, args = to, []*arg{to}
	}
	k := b.p.kernel("triangle_float32", to.shape, nil, 2, args...)
	k.Map()
	i, j := k.Index(k.outer-2), k.Index(k.outer-1)
	if upper {
		i, j = j, i
	}
	k.store(to, k.Select(k.Le(j, i), k.load(from), k.Float(ir.F32, 0)))
	k.launch()
}

func (b *blocks) cholesky() {
	l, status := b.p.out(0), b.p.out(1)
	b.cleared(status)
	if b.n == 0 {
		return
	}
	b.copied(0, l)
	x := b.matrixOf(l, b.n, b.n)
	b.choleskyOf(x, b.n, 0, status.buf)
	if b.n > b.p.n.FactorSide {
		b.triangle(x, x, b.n, b.n, false)
	}
	b.reported(status)
}

// choleskyOf factors n rows and columns of x.
func (b *blocks) choleskyOf(x matrix, n, at int64, status int) {
	if n <= b.p.n.FactorSide {
		b.step(launch.FactorBlock{Op: launch.BlockCholesky}, n, n, at, &x, []int{status})
		return
	}
	h := half(n, b.p.n.FactorSide)
	below, rest := x.from(h, 0), x.from(h, h)
	b.choleskyOf(x, h, at, status)
	b.solveTriangle(x, below.transposed(), h, n-h, false, false)
	b.subtract(n-h, n-h, h, below, below.transposed(), rest)
	b.choleskyOf(rest, n-h, at+h, status)
}

// solveTriangle replaces n rows and k columns of y by x of a x = y.
func (b *blocks) solveTriangle(a, y matrix, n, k int64, upper, unit bool) {
	if n == 0 || k == 0 {
		return
	}
	if side := b.p.n.FactorSide; n > side {
		h := half(n, side)
		first, second := y, y.from(h, 0)
		if upper {
			b.solveTriangle(a.from(h, h), second, n-h, k, upper, unit)
			b.subtract(h, k, n-h, a.from(0, h), second, first)
			b.solveTriangle(a, first, h, k, upper, unit)
			return
		}
		b.solveTriangle(a, first, h, k, upper, unit)
		b.subtract(n-h, k, h, a.from(h, 0), first, second)
		b.solveTriangle(a.from(h, h), second, n-h, k, upper, unit)
		return
	}
	f := launch.FactorBlock{Op: launch.BlockTriangular, Upper: upper, Unit: unit, Same: a.buf == y.buf}
	var bufs []int
	if !f.Same {
		bufs = []int{a.buf}
	}
	b.step(f, n, k, 0, &y, bufs, a.strides()...)
}

func (b *blocks) triangular() {
	x := b.p.out(0)
	b.copied(1, x)
	a := b.p.in(0)
	r := len(a.shape)
	batch, st := collapse(a.shape[:r-2], [][]int64{a.stride[:r-2]}, 0)
	if len(batch) > 1 {
		a = b.p.contiguous(a)
		st = [][]int64{{b.n * b.n}}
	}
	y := matrix{a.buf, st[0], a.stride[r-2], a.stride[r-1], a.offset}
	upper, unit := b.option&launch.FactorUpper != 0, b.option&launch.FactorUnit != 0
	b.solveTriangle(y, b.matrixOf(x, b.n, b.k), b.n, b.k, upper, unit)
}

func (b *blocks) lu(x, pivots, status *arg) {
	b.cleared(status)
	if b.m == 0 || b.n == 0 {
		return
	}
	b.copied(0, x)
	a := b.matrixOf(x, b.m, b.n)
	least := min(b.m, b.n)
	b.luColumns(a, 0, least, pivots.buf, status.buf)
	if b.n > least { // columns to the right of the last pivot
		b.solveTriangle(a, a.from(0, least), least, b.n-least, false, true)
	}
	b.reported(status)
}

// luColumns factors columns from lo on, below row lo, and exchanges whole rows.
func (b *blocks) luColumns(a matrix, lo, hi int64, pivots, status int) {
	n, widest := hi-lo, b.panel(b.m-lo, leastLU)
	if side := b.p.n.FactorSide; b.m <= side && b.n <= side {
		widest = side // all of the matrix is in workgroup memory
	}
	if n <= widest {
		stride := device.Const(min(b.m, b.n))
		x := a.from(lo, lo)
		b.step(launch.FactorBlock{Op: launch.BlockLU}, b.m-lo, n, lo, &x, []int{pivots, status}, stride)
		if b.n > n {
			b.step(launch.FactorBlock{Op: launch.BlockSwap}, n, b.n, lo, &a, []int{pivots}, stride, device.Const(lo),
				device.Const(n))
		}
		return
	}
	h := half(n, min(leastLU, widest))
	mid := lo + h
	b.luColumns(a, lo, mid, pivots, status)
	right := a.from(lo, mid)
	b.solveTriangle(a.from(lo, lo), right, h, hi-mid, false, true)
	b.subtract(b.m-mid, hi-mid, h, a.from(mid, lo), right, a.from(mid, mid))
	b.luColumns(a, mid, hi, pivots, status)
}

// permutation is the order of rows that pivots make.
func (b *blocks) permutation(pivots, order *arg) {
	b.step(launch.FactorBlock{Op: launch.BlockPermutation}, b.m, b.n, 0, nil, []int{pivots.buf, order.buf}, pivots.offset)
}

func (b *blocks) solve() {
	x, lu, pivots, status := b.p.out(0), b.p.out(1), b.p.out(2), b.p.out(3)
	b.lu(lu, pivots, status)
	if b.n == 0 || b.k == 0 {
		return
	}
	order := b.p.temp(ir.I64, []int64{b.batch, b.n, 1})
	b.permutation(pivots, order)
	y := b.p.dense(1)
	at := asOperand(order, []int64{b.batch, b.n, b.k}, []int64{b.n, 1, 0})
	b.p.gather("gather", b.whole(y, b.n, b.k), at, b.whole(x, b.n, b.k), 1)
	a, to := b.matrixOf(lu, b.n, b.n), b.matrixOf(x, b.n, b.k)
	b.solveTriangle(a, to, b.n, b.k, false, true)
	b.solveTriangle(a, to, b.n, b.k, true, false)
}

// qr reflects panels of columns. A panel's reflections are I - V T V'. Products apply them to the columns on the right.
// Then q begins as the identity, and the reflections are applied to it, the last panel first.
func (b *blocks) qr() {
	q, r := b.p.out(0), b.p.out(1)
	least, columns := min(b.m, b.n), q.shape[len(q.shape)-1]
	b.p.fillIdentity(b.whole(q, b.m, columns))
	if least == 0 {
		b.cleared(r)
		return
	}
	work, v := b.p.temp(ir.F32, []int64{b.batch, b.m, b.n}), b.p.temp(ir.F32, []int64{b.batch, b.m, least})
	b.copied(0, &arg{dtype: ir.F32, shape: b.p.in(0).shape, stride: ir.DenseStrides(b.p.in(0).shape), buf: work.buf,
		use: writes})
	narrow := min(leastQR, b.panel(b.m, leastQR))
	most := (least + narrow - 1) / narrow // panels
	const square = panelColumns * panelColumns
	t := b.p.temp(ir.F32, []int64{b.batch, most * square})
	a, reflections := b.matrixOf(work, b.m, b.n), b.matrixOf(v, b.m, least)
	type panel struct {
		lo, width int64
		v, t      matrix
	}
	var panels []panel
	for lo, w := int64(0), int64(0); lo < least; lo += w {
		w = min(b.panel(b.m-lo, leastQR), least-lo)
		z := matrix{t.buf, []int64{most * square}, panelColumns, 1, device.Const(int64(len(panels)) * square)}
		x, y := a.from(lo, lo), reflections.from(lo, lo)
		b.step(launch.FactorBlock{Op: launch.BlockQR}, b.m-lo, w, lo, &x, []int{y.buf, z.buf}, slices.Concat(y.strides(),
			z.strides())...)
		b.reflect(y, z.transposed(), a.from(lo, lo+w), b.m-lo, w, b.n-lo-w)
		panels = append(panels, panel{lo, w, y, z})
	}
	to := b.matrixOf(q, b.m, columns)
	for _, x := range slices.Backward(panels) {
		b.reflect(x.v, x.t, to.from(x.lo, x.lo), b.m-x.lo, x.width, columns-x.lo)
	}
	rows := r.shape[len(r.shape)-2]
	b.triangle(a, b.matrixOf(r, rows, b.n), rows, b.n, true)
}

// reflect is c -= v t v' c, where c has n columns and v m rows and k columns.
func (b *blocks) reflect(v, t, c matrix, m, k, n int64) {
	if n == 0 {
		return
	}
	if b.first == nil {
		b.first, b.second = b.p.temp(ir.F32, []int64{0}), b.p.temp(ir.F32, []int64{0})
	}
	x, y := b.matrixOf(b.grown(b.first, k*n), k, n), b.matrixOf(b.grown(b.second, k*n), k, n)
	b.product(k, n, m, v.transposed(), c, x)
	b.product(k, n, k, t, x, y)
	b.subtract(m, n, k, v, y, c)
}

// fillIdentity stores ones on the diagonal and zeros elsewhere.
func (p *program) fillIdentity(x *arg) {
	if ir.Numel(x.shape) == 0 {
		return
	}
	k := p.kernel("identity_float32", x.shape, nil, 2, x)
	k.Map()
	same := k.Bin(loopir.OpEq, k.Index(k.outer-2), k.Index(k.outer-1))
	k.store(x, k.Select(same, k.Float(ir.F32, 1), k.Float(ir.F32, 0)))
	k.launch()
}
