package gpucode

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// FromGemm makes the programs of g with the tiles of o, one for each pass.
func FromGemm(g *launch.Gemm, o GemmOptions) ([]*gpuir.Program, error) {
	if o.Dot {
		if g.Sums != 0 {
			return nil, fmt.Errorf("gpucode: gemm: row reductions make no sums of an operand")
		}
		row := o.Row
		row.MaxWorkgroupBytes = o.MaxWorkgroupBytes
		return FromKernel(dotKernel(g), row)
	}
	if err := o.check(g); err != nil {
		return nil, err
	}
	m := newGemm(g, o, o.threads())
	m.generate()
	procs := []*gpuir.Program{m.p}
	if o.Parts > 1 {
		m := newGemm(g, o, joinThreads)
		m.joinParts()
		procs = append(procs, m.p)
	}
	return procs, checkShared(procs[0], o.MaxWorkgroupBytes)
}

// newGemm begins a program of g. With parts, scratch memory comes after the buffers.
func newGemm(g *launch.Gemm, o GemmOptions, threads int) *gemm {
	l := g.Layout()
	p := newProgram("gemm_"+g.Type.String(), l.Params, l.Bufs, threads)
	mapVectors := o.VecC && g.Epilogue != nil && vecForm(g.Epilogue)
	if o.VecC {
		p.Bufs[l.BufC].Vec = 4
	}
	for o, b := range l.BufOperands {
		if mapVectors && !g.Viewed(o) {
			p.Bufs[b].Vec = 4
		}
	}
	for _, b := range l.BufResults {
		if mapVectors {
			p.Bufs[b].Vec = 4
		}
	}
	if o.Parts > 1 {
		p.Bufs = append(p.Bufs, gpuir.Buf{Type: g.Type.ComputeType(), Access: loopir.ReadWrite, Vec: 4, Scratch: true})
	}
	m := &gemm{gen: gen{p: p, out: &p.Body}, g: g, t: o, l: l, mapVectors: mapVectors}
	m.resetValues()
	return m
}

// gemm generates one tiled program. Blocks of A and B go through registers to workgroup memory, A as [k][m] and B as
// [k][n]. From there every thread multiplies its rows by its columns.
type gemm struct {
	gen
	g    *launch.Gemm
	t    GemmOptions
	l    launch.GemmLayout
	a, b operand
	reach
	// mapVectors: C and the epilogue's operands are vectors of four, and the epilogue works on these.
	mapVectors bool

	m0 *gpuir.Node // first row of the block in C
	n0 *gpuir.Node
	// part is this workgroup's share of K, from k0 up to k1.
	part, k0, k1 *gpuir.Node
	// rows and cols are where this thread's pieces begin in the block; row and col are the first of them, in vectors.
	rows, cols []*gpuir.Node
	row, col   *gpuir.Node
	acc4       [][]int // [row][piece of columns]: variables of four columns
	sums       []int   // variables of the summed operand, by load
}

// operand is A or B on its way to workgroup memory. x stands for m in A and for n in B.
type operand struct {
	buf, array int
	vec        bool // 16-byte loads
	alongK     bool // vectors run along k
	bx         int  // block length along x
	row        int  // elements of a row in workgroup memory, with padding
	kStride    *gpuir.Node
	loads      []tileLoad
}

// unit is the number of elements of a load.
func (op *operand) unit() int {
	if op.vec {
		return 4
	}
	return 1
}

// tileLoad is one load of this thread: an element or a vector.
type tileLoad struct {
	fixed *gpuir.Node // address without k, in units of the load
	first *gpuir.Node // address in a block that begins at k = 0, in units of the load
	k     *gpuir.Node // k in the block
	row   coord       // k in the block, in units of the load
	// Where it goes in the tile: a vector; and a lane of it, unless whole vectors are stored.
	vector, lane *gpuir.Node
	reg          int // variable
}

func (m *gemm) generate() {
	o, l := m.t, m.l
	m.p.Groups = []gpuir.GroupFactor{{Params: l.Batch, Per: 1}, {Params: []int{l.M}, Per: int64(o.BM)},
		{Params: []int{l.N}, Per: int64(o.BN)}}
	batch := m.place()
	m.lanes()
	m.a = m.operand(l.BufA, m.g.AUnit == 'k', o.VecA, o.BM, l.M, l.AM, l.AK, m.batchBase(l.ABatch, l.AOffset, batch), m.m0)
	m.b = m.operand(l.BufB, m.g.BUnit == 'k', o.VecB, o.BN, l.N, l.BN, l.BK, m.batchBase(l.BBatch, l.BOffset, batch), m.n0)
	m.addTable()
	m.accumulators()
	m.beginSums()
	if o.Double {
		m.doubleBuffered()
	} else {
		m.singleBuffered()
	}
	m.storeJoinedSums()
	switch {
	case o.Parts > 1:
		m.storeParts(batch)
	case m.stages():
		m.stagedEpilogue(batch)
	default:
		m.epilogue(batch)
	}
}

// band is the number of rows of blocks that are worked column by column.
const band = 8

// place finds this workgroup's block of C and returns the batch index.
func (m *gemm) place() []*gpuir.Node {
	o, l := m.t, m.l
	tiles := func(p, per int) *gpuir.Node {
		return m.let(gpuir.NDiv(gpuir.NAdd(m.param(p), gpuir.NInt(per-1)), gpuir.NInt(per)))
	}
	group := m.divideK()
	tm, tn := tiles(l.M, o.BM), tiles(l.N, o.BN)
	area := m.let(gpuir.NMul(tm, tn))
	tile := m.let(gpuir.NRem(group, area))
	// Workgroups that run together share blocks of both operands: they work bands of rows, in each of which the row of
	// the block moves fastest.
	span := m.let(gpuir.NMul(tn, gpuir.NInt(band)))
	first := m.let(gpuir.NMul(gpuir.NDiv(tile, span), gpuir.NInt(band)))
	height := m.let(gpuir.N(loopir.OpMin, ir.I32, gpuir.NSub(tm, first), gpuir.NInt(band)))
	inBand := m.let(gpuir.NRem(tile, span))
	m.m0 = m.let(gpuir.NMul(gpuir.NAdd(first, gpuir.NRem(inBand, height)), gpuir.NInt(o.BM)))
	m.n0 = m.let(gpuir.NMul(gpuir.NDiv(inBand, height), gpuir.NInt(o.BN)))
	return m.batchIndex(m.let(gpuir.NDiv(group, area)))
}

// batchIndex gives the index of matrix number rest of the batch.
func (m *gemm) batchIndex(rest *gpuir.Node) []*gpuir.Node {
	l := m.l
	batch := make([]*gpuir.Node, len(l.Batch))
	for i := len(batch) - 1; i >= 0; i-- {
		if i == 0 {
			batch[0] = rest
			break
		}
		batch[i] = m.let(gpuir.NRem(rest, m.param(l.Batch[i])))
		rest = m.let(gpuir.NDiv(rest, m.param(l.Batch[i])))
	}
	return batch
}

func (m *gemm) batchBase(strides []int, offset int, batch []*gpuir.Node) *gpuir.Node {
	at := m.param(offset)
	for i, s := range strides {
		at = gpuir.NAdd(at, gpuir.NMul(batch[i], m.param(s)))
	}
	return m.let(at)
}

// lanes places the thread: its group of 32 in the block, its pieces in the group's tile.
func (m *gemm) lanes() {
	o := m.t
	lr, lc := o.WM/o.TM, o.WN/o.TN
	warp, lane := m.let(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(32))), m.let(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(32)))
	across := gpuir.NInt(o.BN / o.WN)
	laneRow, laneCol := m.pairs(lane, lc)
	row := m.let(gpuir.NAdd(gpuir.NMul(gpuir.NDiv(warp, across), gpuir.NInt(o.WM)), gpuir.NMul(laneRow, gpuir.NInt(4))))
	col := m.let(gpuir.NAdd(gpuir.NMul(gpuir.NRem(warp, across), gpuir.NInt(o.WN)), gpuir.NMul(laneCol, gpuir.NInt(4))))
	m.row, m.col = m.let(gpuir.NDiv(row, gpuir.NInt(4))), m.let(gpuir.NDiv(col, gpuir.NInt(4)))
	for i := range o.TM / 4 {
		m.rows = append(m.rows, m.let(gpuir.NAdd(row, gpuir.NInt(4*lr*i))))
	}
	for j := range o.TN / 4 {
		m.cols = append(m.cols, m.let(gpuir.NAdd(col, gpuir.NInt(4*lc*j))))
	}
}

// operand plans the loads of one matrix. Coordinates along x are clamped to the matrix: what lies beyond is computed
// from valid memory and never stored.
func (m *gemm) operand(buf int, alongK, vec bool, bx, size, xStride, kStride int, base, x0 *gpuir.Node) operand {
	o := m.t
	op := operand{buf: buf, vec: vec, alongK: alongK, bx: bx, row: bx + pad}
	unit := op.unit()
	m.p.Bufs[buf].Vec = unit
	stages := 1
	if o.Double {
		stages = 2
	}
	op.array = len(m.p.Shared)
	m.p.Shared = append(m.p.Shared, gpuir.SharedArray{Type: m.work(), Len: stages * o.BK * op.row / 4, Vec: 4})
	scale := func(n *gpuir.Node) *gpuir.Node { return gpuir.NDiv(n, gpuir.NInt(unit)) }
	if m.g.KDims == 0 {
		op.kStride = m.let(scale(m.param(kStride)))
	}
	zero := gpuir.NConst(m.work(), 0)
	if vec {
		zero = gpuir.NSplat(zero)
	}
	count := bx * o.BK / (unit * o.threads())
	var xs, ks []coord
	xUnit, kUnit := unit, 1
	if alongK {
		xUnit, kUnit = 1, unit
		xs, ks = m.shares(o.BK/unit, count, false)
	} else {
		ks, xs = m.shares(bx/unit, count, m.g.KDims > 0)
	}
	fixed := map[coord]*gpuir.Node{}
	for i := range count {
		x := m.let(gpuir.NMul(m.node(xs[i]), gpuir.NInt(xUnit)))
		if fixed[xs[i]] == nil {
			at := gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(x0, x), gpuir.NSub(m.param(size), gpuir.NInt(xUnit)))
			if m.g.NDims > 0 && buf == m.l.BufB {
				at = m.column(m.let(at), m.l.BNDim)
			} else if alongK || !vec {
				at = gpuir.NMul(at, m.param(xStride))
			}
			fixed[xs[i]] = m.let(scale(gpuir.NAdd(base, at)))
		}
		k := m.let(gpuir.NMul(m.node(ks[i]), gpuir.NInt(kUnit)))
		dst := m.let(gpuir.NAdd(gpuir.NMul(k, gpuir.NInt(op.row)), x))
		ld := tileLoad{k: k, row: ks[i], fixed: fixed[xs[i]], vector: m.let(gpuir.NDiv(dst, gpuir.NInt(4))), reg: -1}
		if !vec || alongK {
			ld.lane = m.let(gpuir.NRem(dst, gpuir.NInt(4)))
		}
		if m.g.KDims == 0 {
			ld.first = m.let(gpuir.NAdd(ld.fixed, m.alongK(&op, k)))
		}
		if o.Double {
			ld.reg, _ = m.variable(zero)
		}
		op.loads = append(op.loads, ld)
	}
	return op
}

// coord is a number: the sum of base, which may differ between threads (nil: 0), and a constant.
type coord struct {
	base  *gpuir.Node
	added int
}

func (m *gemm) node(p coord) *gpuir.Node {
	if p.base == nil {
		return gpuir.NInt(p.added)
	}
	return m.let(gpuir.NAdd(p.base, gpuir.NInt(p.added)))
}

// shares gives this thread's part in count loads of a tile whose rows have `per` units: the row of each, and the unit
// in the row. together: where the thread has several rows, they follow one another. For plain products the compiler
// derives the numbers: saying them here gains 5 % for 128x256 and loses 2 % for 64x256.
func (m *gemm) shares(per, count int, together bool) (rows, units []coord) {
	threads := m.t.threads()
	if m.g.KDims > 0 && per%threads == 0 {
		for i := range count {
			rows, units = append(rows, coord{nil, i / (per / threads)}),
				append(units, coord{gpuir.NLocal(), i % (per / threads) * threads})
		}
		return rows, units
	}
	if m.g.KDims == 0 || threads%per != 0 {
		for i := range count {
			q := m.let(gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(i*threads)))
			rows, units = append(rows, coord{m.let(gpuir.NDiv(q, gpuir.NInt(per))), 0}),
				append(units, coord{m.let(gpuir.NRem(q, gpuir.NInt(per))), 0})
		}
		return rows, units
	}
	row, step := m.let(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(per))), threads/per
	if together {
		row, step = m.let(gpuir.NMul(row, gpuir.NInt(count))), 1
	}
	unit := m.let(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(per)))
	for i := range count {
		rows, units = append(rows, coord{row, i * step}), append(units, coord{unit, 0})
	}
	return rows, units
}

// alongK is what k adds to the addresses of op.
func (m *gemm) alongK(op *operand, k *gpuir.Node) *gpuir.Node {
	if op.vec && op.alongK {
		return gpuir.NDiv(k, gpuir.NInt(4))
	}
	return gpuir.NMul(k, op.kStride)
}

// blockStart is what k0, where a block begins, adds to the addresses of op; nil where each load is located by itself.
func (m *gemm) blockStart(op *operand, k0, limit *gpuir.Node) *gpuir.Node {
	if limit != nil || m.g.KDims > 0 {
		return nil
	}
	return m.let(m.alongK(op, k0))
}

// fetch is load i of the block that begins at k0; zero from limit on, unless limit is nil. reads holds what was read of
// the table so far. Without a limit, `along` is what k0 adds to addresses.
func (m *gemm) fetch(op *operand, i int, k0, limit, along *gpuir.Node, reads tableReads) *gpuir.Node {
	ld := op.loads[i]
	if limit == nil && m.g.KDims == 0 {
		return m.let(gpuir.NLoad(op.buf, m.work(), op.unit(), m.let(gpuir.NAdd(ld.first, along))))
	}
	k := gpuir.NAdd(k0, ld.k)
	at := k
	if limit != nil {
		k = m.let(k)
		step := 1
		if op.vec && op.alongK {
			step = 4
		}
		at = m.let(gpuir.N(loopir.OpMin, ir.I32, k, gpuir.NSub(limit, gpuir.NInt(step))))
	}
	switch {
	case m.g.KDims > 0:
		at = m.located(op, &ld, reads)
	default:
		at = m.alongK(op, at)
	}
	v := m.let(gpuir.NLoad(op.buf, m.work(), op.unit(), m.let(gpuir.NAdd(ld.fixed, at))))
	if limit != nil {
		v = gpuir.N(loopir.OpSelect, v.Type, gpuir.NLt(k, limit), v, gpuir.NConst(v.Type, 0))
	}
	return v
}

// deposit writes a fetched value to the tile in workgroup memory; stage is the vector at which the tile begins.
func (m *gemm) deposit(op *operand, i int, v, stage *gpuir.Node) {
	ld := op.loads[i]
	at := m.let(gpuir.NAdd(stage, ld.vector))
	set := func(at, v *gpuir.Node) {
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: op.array, A: at, B: v, C: ld.lane})
	}
	if !op.vec || !op.alongK {
		set(at, v)
		return
	}
	v = m.let(v)
	for c := range 4 {
		set(gpuir.NAdd(at, gpuir.NInt(c*op.row/4)), gpuir.NLane(v, c))
	}
}

// work is the dtype of products and sums.
func (m *gemm) work() ir.DType { return m.g.Type.ComputeType() }

// multiplyAdd is x*y+z.
func (m *gemm) multiplyAdd(x, y, z *gpuir.Node) *gpuir.Node {
	if m.work().IsFloat() {
		return gpuir.N(loopir.OpFma, x.Type, x, y, z)
	}
	return gpuir.NAdd(gpuir.NMul(x, y), z)
}

func (m *gemm) operands() []*operand { return []*operand{&m.a, &m.b} }

func (m *gemm) singleBuffered() {
	var limit *gpuir.Node
	if m.t.KTail {
		limit = m.k1
	}
	m.loop(m.k0, m.k1, gpuir.NInt(m.t.BK), func(k0 *gpuir.Node) {
		if m.g.KDims > 0 {
			m.locate(k0, gpuir.NInt(0))
			m.barrier()
		}
		reads := tableReads{}
		for _, op := range m.operands() {
			along := m.blockStart(op, k0, limit)
			for i := range op.loads {
				m.deposit(op, i, m.addToSum(op, i, m.fetch(op, i, k0, limit, along, reads)), gpuir.NInt(0))
			}
		}
		m.barrier()
		m.multiply(gpuir.NInt(0), gpuir.NInt(0))
		m.barrier()
	})
}

// doubleBuffered loads the next tile to registers while it multiplies one, with one barrier for each block. Where K is
// no multiple of BK the first block is the short one, so that the loop's loads need no limit.
func (m *gemm) doubleBuffered() {
	o := m.t
	prefetch := func(k0, limit *gpuir.Node) []gpuir.Stmt {
		return m.nested(func() {
			reads := tableReads{}
			for _, op := range m.operands() {
				along := m.blockStart(op, k0, limit)
				for i := range op.loads {
					m.assign(op.loads[i].reg, m.fetch(op, i, k0, limit, along, reads))
				}
			}
		})
	}
	store := func(stage *gpuir.Node) {
		for _, op := range m.operands() {
			first := m.let(gpuir.NMul(stage, gpuir.NInt(o.BK*op.row/4)))
			for i := range op.loads {
				m.deposit(op, i, m.p.NVar(op.loads[i].reg), first)
			}
		}
	}
	from := m.k0 // where the first block would begin if it were whole
	var limit, beyond *gpuir.Node
	last := m.let(gpuir.NSub(m.k1, gpuir.NInt(o.BK)))
	if o.KTail {
		length := gpuir.NSub(m.k1, m.k0)
		short := gpuir.NAdd(gpuir.NRem(gpuir.NSub(length, gpuir.NInt(1)), gpuir.NInt(o.BK)), gpuir.NInt(1))
		limit = m.let(gpuir.NAdd(m.k0, short))
		// An empty part has no block.
		from = m.let(gpuir.N(loopir.OpSelect, ir.I32, gpuir.NLt(m.k0, m.k1), gpuir.NSub(limit, gpuir.NInt(o.BK)), m.k1))
		if o.Short {
			beyond = limit
			last = m.k0
		}
	}
	following := func(k0 *gpuir.Node) *gpuir.Node {
		return m.let(gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(k0, gpuir.NInt(o.BK)), last))
	}
	if m.g.KDims > 0 {
		m.locate(m.k0, gpuir.NInt(1))
		m.locate(following(from), gpuir.NInt(0))
		m.barrier()
		m.reach.stage = gpuir.NInt(1)
	}
	first := prefetch(m.k0, limit)
	first = append(first, m.nested(func() { store(gpuir.NInt(0)) })...)
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(m.k0, m.k1), Body: first})
	m.barrier()
	which, stage := m.variable(gpuir.NInt(0))
	m.loop(from, m.k1, gpuir.NInt(o.BK), func(k0 *gpuir.Node) {
		m.addFetched()
		// After the last block the same block is fetched again and not used: that is cheaper than a branch around the
		// loads.
		next := following(k0)
		m.reach.stage = stage
		*m.out = append(*m.out, prefetch(next, beyond)...)
		m.multiply(m.let(gpuir.NMul(stage, gpuir.NInt(o.BK*m.a.row/4))), m.let(gpuir.NMul(stage, gpuir.NInt(o.BK*m.b.row/4))))
		other := m.let(gpuir.NSub(gpuir.NInt(1), stage))
		if m.g.KDims > 0 {
			m.locate(following(next), other)
		}
		store(other)
		m.barrier()
		m.assign(which, other)
	})
}

// accumulators makes named vectors of four columns: a dynamically indexed array would be in memory.
func (m *gemm) accumulators() {
	zero := gpuir.NSplat(gpuir.NConst(m.work(), 0))
	for range m.t.TM {
		var row []int
		for range m.t.TN / 4 {
			v, _ := m.variable(zero)
			row = append(row, v)
		}
		m.acc4 = append(m.acc4, row)
	}
}

// multiply adds the product of the tiles that begin at vectors a0 and b0 of workgroup memory.
func (m *gemm) multiply(a0, b0 *gpuir.Node) {
	o := m.t
	a0, b0 = m.let(gpuir.NAdd(a0, m.row)), m.let(gpuir.NAdd(b0, m.col))
	step := func(k *gpuir.Node) {
		read := func(op *operand, first *gpuir.Node, pieces, apart int) []*gpuir.Node {
			at := gpuir.NAdd(first, gpuir.NMul(k, gpuir.NInt(op.row/4)))
			var v []*gpuir.Node
			for i := range pieces {
				v = append(v, m.let(m.p.NShared(op.array, gpuir.NAdd(at, gpuir.NInt(i*apart)))))
			}
			return v
		}
		a, b := read(&m.a, a0, o.TM/4, o.WM/o.TM), read(&m.b, b0, o.TN/4, o.WN/o.TN)
		for r := range o.TM {
			for j := range b {
				if o.Serpentine && r%2 == 1 {
					j = len(b) - 1 - j
				}
				acc := m.acc4[r][j]
				m.assign(acc, m.multiplyAdd(gpuir.NSplat(gpuir.NLane(a[r/4], r%4)), b[j], m.p.NVar(acc)))
			}
		}
	}
	if o.Rolled {
		m.loop(gpuir.NInt(0), gpuir.NInt(o.BK), gpuir.NInt(1), step)
		return
	}
	for k := range o.BK {
		m.nestedInline(func() { step(gpuir.NInt(k)) })
	}
}

// nestedInline runs f in place. Values of f are not found by code after it.
func (g *gen) nestedInline(f func()) {
	*g.out = append(*g.out, g.nested(f)...)
}
