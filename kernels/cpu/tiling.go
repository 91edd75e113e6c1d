package cpu

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// A kernel is worked tile by tile. A tile has outer lanes, one for each outer index, and tile lanes, one for each pair
// of an outer and an inner index. There are five shapes:
//
//	map:     outer lanes only
//	rows:    some outer indices, each with its whole inner space (inner fastest)
//	row:     one outer index and a piece of its inner space
//	bundle:  some outer indices, of which a stage over the inner space works one at a time
//	columns: many outer indices (fastest), and as many inner ones as fit
//
// An expression has lanes for the dims that it depends on, and runs as seldom as these allow: once a run, once an outer
// tile, or once an inner tile.

// tileLanes is the number of lanes that a tile aims for: eight registers of 4-byte elements fill an L1 cache of 32 KiB.
const tileLanes = 1024

// A map with few registers takes larger tiles, since the cost of a tile then counts for more. Twice tileLanes, so that
// tile groups may mix both sizes.
const (
	mapLanes     = 2 * tileLanes
	mapRegisters = 32 << 10 // bytes
)

// wholeRow bounds the rows that are one tile where several stages visit them: the next stage then finds in registers
// what one stage computed.
const wholeRow = 4096

// bundleBytes bounds what a bundle's rows take in buffers: they stay in an L1 cache beside the next rows on the way in
// and the kept registers. bundles is the least number of bundles, which threads share.
const (
	bundleBytes = 16 << 10
	bundles     = 32
)

// Lanes of a tile, and rows of a tile of columns, where no registers are needed: only the cost of a tile counts.
const (
	bareLanes = 16 * tileLanes
	bareRows  = 8
)

// transposeLeast is the least size of both dims of a tile that is read transposed.
const transposeLeast = 4

// chunkElems is the number of elements that are accumulated apart and then joined. It is a constant, so that sums do
// not depend on the number of threads.
const chunkElems = 1 << 16

// tilePlan says how a kernel of given sizes is worked: its tiles, its maps, and what each expression depends on.
type tilePlan struct {
	k     *loopir.Kernel
	par   []int64 // sizes and strides; other entries are 0
	slots []int   // slot of each buffer
	// The affine maps, and the number of the map of each access, of each index, of the row-major number in outer and in
	// inner stages, and of each expression that is linear in the indices.
	maps     []*affine
	ofAccess []int
	ofIndex  []int
	ofLinear [2]int
	ofNumber []int
	spaces   [2]*space // outer and inner
	columns  bool      // tiles have the shape columns
	bundle   bool      // tiles have the shape bundle
	passes   int       // stages over the inner space
	most     int64     // lanes of a map's tile
	// oneTile: the inner space is one tile, so that tile registers outlive a stage.
	oneTile bool
	live    []bool       // expressions that are used
	uses    []int        // by expression: how often it is used
	mask    []uint64     // by expression: the dims that it depends on
	lanes   [2]uint64    // by group: the dims that vary within a tile
	accs    []loopir.Acc // of all stages
	stageOf []int        // by accumulator: its stage
	hidden  []hiddenAcc  // the running extremes of Prefix ArgMax and ArgMin
}

// hiddenAcc keeps the running extreme of a Prefix ArgMax or ArgMin.
type hiddenAcc struct{ stage, of int }

// Bits of a mask: the outer dims, the inner dims, and in each group one bit for what varies without an affine map.
const (
	innerBit   = 32
	outerVary  = uint64(1) << 31
	innerVary  = uint64(1) << 63
	innerMask  = uint64(1<<64 - 1<<innerBit)
	unusedMap  = -1
	maxAccs    = 64
	maxDimsRun = 20 // TLK_MAX_DIMS
)

func newPlan(k *loopir.Kernel, par []int64, slots []int, most int64) (*tilePlan, error) {
	p := &tilePlan{k: k, par: par, slots: slots, most: most}
	for s := range k.Stages {
		for _, a := range k.Stages[s].Accs {
			p.accs = append(p.accs, a)
			p.stageOf = append(p.stageOf, s)
		}
	}
	if k.Outer > maxDimsRun || k.Inner > maxDimsRun || len(p.accs) > maxAccs {
		return nil, fmt.Errorf("kernel %s: %d outer dims, %d inner dims, %d accumulators are more than this device handles",
			k.Name, k.Outer, k.Inner, len(p.accs))
	}
	p.findMaps()
	p.spaces[outer] = &space{size: collapse(outer, par[:k.Outer], p.maps)}
	p.spaces[inner] = &space{size: collapse(inner, par[k.Outer:k.Outer+k.Inner], p.maps)}
	p.chooseTiles()
	p.findMasks()
	return p, nil
}

// findNumbers makes maps of sums and multiples of indices: such a number is stepped along, not computed.
func (p *tilePlan) findNumbers() []*affine {
	k := p.k
	fresh := func() *affine {
		return &affine{buf: -1, typ: ir.I64, offset: -1, stride: [2][]int64{make([]int64, k.Outer), make([]int64, k.Inner)}}
	}
	list, varies := make([]*affine, len(k.Exprs)), make([]bool, len(k.Exprs))
	for i, e := range k.Exprs {
		if e.Type != ir.I64 {
			continue
		}
		var x, y *affine
		if e.A >= 0 {
			x = list[e.A]
		}
		if e.B >= 0 {
			y = list[e.B]
		}
		m := fresh()
		switch e.Op {
		case loopir.OpConst:
			m.base = int64(e.Imm)
		case loopir.OpParam:
			switch k.Params[e.Imm].Kind {
			case loopir.Size, loopir.Stride:
				m.base = p.par[e.Imm]
			case loopir.Offset:
				m.offset = int(e.Imm)
			default:
				continue
			}
		case loopir.OpIndex:
			p.setStride(m, int(e.Imm), 1)
			varies[i] = true
		case loopir.OpAdd, loopir.OpMul:
			if e.Op == loopir.OpMul && x != nil && !varies[e.A] && x.offset < 0 {
				x, y = y, x
			}
			if x == nil || y == nil || x.offset >= 0 && y.offset >= 0 || e.Op == loopir.OpMul && (varies[e.A] && varies[e.B] ||
				x.offset >= 0 || y.offset >= 0) {
				continue
			}
			scale, add := int64(1), y
			if e.Op == loopir.OpMul {
				scale, add = y.base, fresh()
			}
			m.base, m.offset = x.base*scale+add.base, max(x.offset, add.offset)
			for g := range m.stride {
				for d := range m.stride[g] {
					m.stride[g][d] = x.stride[g][d]*scale + add.stride[g][d]
				}
			}
			varies[i] = varies[e.A] || varies[e.B]
		default:
			continue
		}
		list[i] = m
	}
	for i, e := range k.Exprs {
		if !varies[i] || e.Op == loopir.OpIndex {
			list[i] = nil
		}
	}
	return list
}

// usedBy marks the expressions that st needs. Those behind a number are not marked.
func (p *tilePlan) usedBy(st *loopir.Stage, numbers []*affine) []bool {
	used := make([]bool, len(p.k.Exprs))
	st.Roots(func(x int) { used[x] = true })
	for i := len(used) - 1; i >= 0; i-- {
		if e := p.k.Exprs[i]; used[i] && numbers[i] == nil {
			for _, a := range [...]int{e.A, e.B, e.C} {
				if a >= 0 {
					used[a] = true
				}
			}
		}
	}
	return used
}

// findMaps lists the affine maps that live expressions and stores use, as strides.
func (p *tilePlan) findMaps() {
	k := p.k
	p.live = make([]bool, len(k.Exprs))
	p.uses = make([]int, len(k.Exprs))
	p.ofAccess, p.ofIndex = fill(len(k.Access), unusedMap), fill(k.Outer+k.Inner, unusedMap)
	p.ofLinear = [2]int{unusedMap, unusedMap}
	p.ofNumber = fill(len(k.Exprs), unusedMap)
	numbers := p.findNumbers()
	for s := range k.Stages {
		st := &k.Stages[s]
		group := outer
		if st.OverInner {
			group = inner
		}
		for i, used := range p.usedBy(st, numbers) {
			if !used {
				continue
			}
			p.live[i] = true
			if numbers[i] != nil {
				if p.ofNumber[i] == unusedMap {
					p.maps = append(p.maps, numbers[i])
					p.ofNumber[i] = len(p.maps) - 1
				}
				continue
			}
			switch e := k.Exprs[i]; e.Op {
			case loopir.OpLoad:
				p.addAccess(int(e.Imm), group)
			case loopir.OpIndex:
				if d := int(e.Imm); p.ofIndex[d] == unusedMap {
					p.setStride(p.newMap(-1, ir.I64, -1), d, 1)
					p.ofIndex[d] = len(p.maps) - 1
				}
			case loopir.OpLinear:
				if p.ofLinear[group] == unusedMap {
					p.linear(p.newMap(-1, ir.I64, -1), group)
					p.ofLinear[group] = len(p.maps) - 1
				}
			}
		}
		for _, r := range st.Stores {
			if r.Access >= 0 {
				p.addAccess(r.Access, group)
			}
		}
		st.Roots(func(n int) { p.uses[n]++ })
	}
	for i, e := range k.Exprs {
		if p.live[i] && numbers[i] == nil {
			for _, a := range [...]int{e.A, e.B, e.C} {
				if a >= 0 {
					p.uses[a]++
				}
			}
		}
	}
}

func fill(n, v int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func (p *tilePlan) newMap(buf int, t ir.DType, offset int) *affine {
	m := &affine{buf: buf, typ: t, offset: offset}
	m.stride[outer] = make([]int64, p.k.Outer)
	m.stride[inner] = make([]int64, p.k.Inner)
	p.maps = append(p.maps, m)
	return m
}

// setStride sets the stride of dim d; outer dims come first.
func (p *tilePlan) setStride(m *affine, d int, v int64) {
	if d < p.k.Outer {
		m.stride[outer][d] = v
	} else {
		m.stride[inner][d-p.k.Outer] = v
	}
}

// linear gives m the strides of the row-major number of the index, in a stage of that group.
func (p *tilePlan) linear(m *affine, group int) {
	k, n := p.k, int64(1)
	if group == inner {
		for d := k.Inner - 1; d >= 0; d-- {
			m.stride[inner][d] = n
			n *= p.par[k.Outer+d]
		}
	}
	for d := k.Outer - 1; d >= 0; d-- {
		m.stride[outer][d] = n
		n *= p.par[d]
	}
}

func (p *tilePlan) addAccess(n, group int) {
	if p.ofAccess[n] != unusedMap {
		return
	}
	a := p.k.Access[n]
	m := p.newMap(a.Buf, p.k.Bufs[a.Buf].Type, a.Offset)
	p.ofAccess[n] = len(p.maps) - 1
	if a.Linear {
		p.linear(m, group)
		return
	}
	for d, s := range a.Stride {
		v := int64(0)
		switch s {
		case loopir.Broadcast:
		case loopir.Unit:
			v = 1
		default:
			v = p.par[s]
		}
		p.setStride(m, d, v)
	}
}

func (p *tilePlan) chooseTiles() {
	o, i := p.spaces[outer], p.spaces[inner]
	prefix := false
	for _, s := range p.k.Stages {
		if s.OverInner {
			p.passes++
			prefix = prefix || s.Prefix
		}
	}
	n := i.numel()
	whole, lanes := int64(tileLanes), int64(tileLanes)
	switch {
	case p.passes > 1:
		whole = wholeRow
	case p.bare():
		whole, lanes = bareLanes, bareLanes
	}
	switch {
	case p.passes == 0:
		o.cut(p.most)
		if d := p.transposedDim(); d >= 0 {
			o.cutTransposed(d)
		}
		i.whole()
		p.oneTile = true
	case p.alongOuter():
		p.columns = true
		o.cut(tileLanes)
		i.single()
		if len(i.size) > 0 && p.bare() {
			i.chunk = min(i.size[i.t], bareRows)
		} else if w := o.lanes(); o.tiles() == 1 && w <= tileLanes/2 && len(i.size) > 0 && !prefix {
			i.chunk = max(1, min(i.size[i.t], floorPower(tileLanes/w)))
		}
	case !prefix && p.bundleRows(n) > 1:
		i.whole()
		o.single()
		o.chunk = p.bundleRows(n)
		p.oneTile, p.bundle = true, true
	case n <= whole:
		i.whole()
		p.oneTile = true
		if len(o.size) > 0 {
			o.cut(max(1, lanes/max(1, n)))
		}
	default:
		o.single()
		i.cut(lanes)
	}
}

// floorPower is the largest power of two that is at most n, for n of at least 1.
func floorPower(n int64) int64 { return 1 << (bits.Len64(uint64(n)) - 1) }

// chunkTiles is the number of inner tiles that accumulate apart. Over columns a chunk has 64 rows or a larger power of
// two, of which tiles are parts, so that sums do not depend on the tiles.
func (p *tilePlan) chunkTiles(lanes int64) int64 {
	if !p.columns {
		return max(1, chunkElems/max(1, lanes))
	}
	columns := max(1, min(tileLanes, p.spaces[outer].numel()))
	return max(1, floorPower(chunkElems/columns)/max(1, p.spaces[inner].lanes()))
}

// bundleRows is the number of rows, of n elements each, in a bundle; 0 where the kernel has no bundles. Bundles are for
// rows that several stages visit and that are long enough to be worked one by one.
func (p *tilePlan) bundleRows(n int64) int64 {
	o := p.spaces[outer]
	if p.passes < 2 || n < rowLanes || len(o.size) == 0 {
		return 1
	}
	bytes := int64(0)
	for _, m := range p.maps {
		varies := func(g int) bool { return slices.ContainsFunc(m.stride[g], func(s int64) bool { return s != 0 }) }
		if m.buf >= 0 && varies(outer) && varies(inner) {
			bytes += n * int64(m.typ.Size())
		}
	}
	return min(bundleBytes/max(1, bytes), o.numel()/bundles, o.size[len(o.size)-1])
}

// transposedDim is the dim along which some load is contiguous that is not so along the last dim; -1: none. Reading
// such a load row by row would touch a cache line for each element.
func (p *tilePlan) transposedDim() int {
	size := p.spaces[outer].size
	last := len(size) - 1
	for _, m := range p.maps {
		if m.buf < 0 || last < 1 || size[last] < transposeLeast || m.stride[outer][last] == 0 || m.stride[outer][last] == 1 {
			continue
		}
		for d := range last {
			if m.stride[outer][d] == 1 && size[d] >= transposeLeast {
				return d
			}
		}
	}
	return -1
}

// bare reports that the kernel's only stage folds contiguous elements in place: its tiles need no registers.
func (p *tilePlan) bare() bool {
	for _, s := range p.k.Stages {
		if !s.OverInner {
			continue
		}
		if s.Prefix || len(s.Stores) > 0 || len(s.Checks) > 0 {
			return false
		}
		for _, a := range s.Accs {
			e := p.k.Exprs[a.Val]
			if e.Op != loopir.OpLoad || p.uses[a.Val] != 1 || a.Idx >= 0 && !p.countsInner(a.Idx) {
				return false
			}
			m := p.maps[p.ofAccess[e.Imm]]
			if m.typ != m.typ.ComputeType() || !p.columns && !dense(p.wholeWalk(m)) {
				return false
			}
		}
	}
	return true
}

// wholeWalk is the walk of m over the whole index space.
func (p *tilePlan) wholeWalk(m *affine) []dim {
	o, i := &space{size: p.spaces[outer].size}, &space{size: p.spaces[inner].size}
	o.whole()
	i.whole()
	return walk(m, [2]*space{o, i}, []int{outer, inner})
}

// countsInner reports that expression x is the index along the kernel's only inner dim.
func (p *tilePlan) countsInner(x int) bool {
	e := p.k.Exprs[x]
	return e.Op == loopir.OpIndex && int(e.Imm) == p.k.Outer && p.k.Inner == 1
}

// alongOuter reports that loads run along the last outer dim and not along the inner ones.
func (p *tilePlan) alongOuter() bool {
	o, i := p.spaces[outer], p.spaces[inner]
	if len(o.size) == 0 || len(i.size) == 0 || o.numel() < 4 {
		return false
	}
	vote := 0
	for _, m := range p.maps {
		if m.buf < 0 {
			continue
		}
		so, si := m.stride[outer][len(o.size)-1], m.stride[inner][len(i.size)-1]
		switch { // what repeats along a group is small
		case si == 1 && so > 1:
			vote--
		case so == 1 && si > 1:
			vote++
		}
	}
	return vote > 0
}

// findMasks finds the dims that each expression depends on.
func (p *tilePlan) findMasks() {
	for g, s := range p.spaces {
		for d := range s.size {
			if s.inTile(d) {
				p.lanes[g] |= 1 << (g*innerBit + d)
			}
		}
	}
	written := map[int]bool{}
	for _, s := range p.k.Stages {
		for _, r := range s.Stores {
			written[p.slots[p.storeBuf(r)]] = true
		}
	}
	p.mask = make([]uint64, len(p.k.Exprs))
	for i, e := range p.k.Exprs {
		if !p.live[i] {
			continue
		}
		if n := p.ofNumber[i]; n != unusedMap {
			p.mask[i] = mapMask(p.maps[n])
			continue
		}
		switch e.Op {
		case loopir.OpLoad:
			m := p.maps[p.ofAccess[e.Imm]]
			p.mask[i] = mapMask(m)
			if written[p.slots[m.buf]] {
				p.mask[i] |= outerVary
			}
			continue
		case loopir.OpIndex:
			p.mask[i] = mapMask(p.maps[p.ofIndex[e.Imm]])
			continue
		case loopir.OpLinear:
			for _, n := range p.ofLinear {
				if n != unusedMap {
					p.mask[i] |= mapMask(p.maps[n])
				}
			}
			continue
		case loopir.OpAcc, loopir.OpAccIdx:
			p.mask[i] = outerVary | p.allDims(outer)
			continue
		case loopir.OpAccRun:
			p.mask[i] = outerVary | innerVary | p.allDims(outer) | p.allDims(inner)
			continue
		case loopir.OpLoadAt:
			if written[p.slots[e.Imm]] {
				p.mask[i] |= outerVary
			}
		}
		for _, a := range [...]int{e.A, e.B, e.C} {
			if a >= 0 {
				p.mask[i] |= p.mask[a]
			}
		}
	}
}

func mapMask(m *affine) (v uint64) {
	for g := range m.stride {
		for d, s := range m.stride[g] {
			if s != 0 {
				v |= 1 << (g*innerBit + d)
			}
		}
	}
	return v
}

func (p *tilePlan) allDims(g int) (v uint64) {
	for d := range p.spaces[g].size {
		v |= 1 << (g*innerBit + d)
	}
	return v
}

func (p *tilePlan) storeBuf(r loopir.Store) int {
	if r.Access >= 0 {
		return p.k.Access[r.Access].Buf
	}
	return r.Buf
}
