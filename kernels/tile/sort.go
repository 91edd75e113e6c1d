package tile

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// SortOptions decide the form of a sort.
type SortOptions struct {
	Threads int
	// Width is the length, a power of two, of the parts of rows that one workgroup sorts; it sorts
	// SortBlock/Width of them.
	Width int
	// Merges is the number of passes after the first; each doubles the length of what is in order.
	Merges int
	I64    bool // the device has 64-bit integers; otherwise I64 is worked in I32
}

// Passes is the number of programs.
func (o *SortOptions) Passes() int { return 1 + o.Merges }

// MaxSortElements keeps the room within 32-bit indices.
const MaxSortElements = math.MaxInt32 / 6

// ChooseSort picks the form of s launched with params.
func ChooseSort(s *kir.Sort, params []uint64, caps Caps) SortOptions {
	n := params[s.Layout().N]
	o := SortOptions{Threads: rowWorkgroup(caps.withDefaults()), I64: caps.I64, Width: kir.SortBlock}
	if n <= kir.SortBlock {
		o.Width = 1 << bits.Len64(max(n, 2)-1)
		return o
	}
	o.Merges = bits.Len64((n - 1) / kir.SortBlock)
	return o
}

// FromSort makes the programs of s in the form o says. The first sorts parts of rows in workgroup memory, by
// a bitonic network. In each of the others a thread moves one element of two runs in order: its
// place in the run of both is its place in its own and the number of elements before it in the other,
// found by bisection. Keys are one or two words whose order as unsigned numbers is that of the elements.
func FromSort(s *kir.Sort, o SortOptions) ([]*kir.Proc, error) {
	if s.Type == ir.F64 {
		return nil, fmt.Errorf("tile: sort: float64 is not supported")
	}
	if o.Threads <= 0 || o.Width < 2 || o.Width > kir.SortBlock || o.Width&(o.Width-1) != 0 || (o.Merges > 0) != s.Room || s.Room && o.Width != kir.SortBlock {
		return nil, fmt.Errorf("tile: sort: no form %+v of %+v", o, *s)
	}
	var procs []*kir.Proc
	for pass := range o.Passes() {
		l := s.Layout()
		p := &kir.Proc{Name: "sort_" + s.Type.String(), Params: l.Params, Workgroup: o.Threads}
		for _, b := range l.Bufs {
			p.Bufs = append(p.Bufs, kir.ProcBuf{Type: b.Type, Access: b.Access, Vec: 1})
		}
		m := &sorter{gen: gen{p: p, o: Options{I64: o.I64}, out: &p.Body, shared: map[sharedKey]int{}}, s: s, so: o, l: l, words: 1}
		m.resetValues()
		if m.typ(s.Type) == ir.I64 {
			m.words = 2
		}
		m.rows, m.n = m.let(kir.NMul(m.param(l.Outer), m.param(l.Inner))), m.param(l.N)
		if pass == 0 {
			m.blocks()
		} else {
			m.merge(pass - 1)
		}
		procs = append(procs, p)
	}
	return procs, nil
}

// sorter generates one pass.
type sorter struct {
	gen
	s     *kir.Sort
	so    SortOptions
	l     kir.SortLayout
	words int // of a key
	rows  *kir.Node
	n     *kir.Node
}

// element is a key, the most significant word first, and a place in the row.
type element struct {
	key   []*kir.Node
	place *kir.Node
}

func boolean(op kir.Op, x, y *kir.Node) *kir.Node { return kir.N(op, ir.Bool, x, y) }

// less orders elements by key; place decides between equal keys where it is asked for.
func (x element) less(y element, places bool) *kir.Node {
	last := len(x.key) - 1
	r := boolean(kir.OpLt, x.key[last], y.key[last])
	if places {
		r = boolean(kir.OpOr, r, boolean(kir.OpAnd, boolean(kir.OpEq, x.key[last], y.key[last]), kir.NLt(x.place, y.place)))
	}
	for w := last - 1; w >= 0; w-- {
		r = boolean(kir.OpOr, boolean(kir.OpLt, x.key[w], y.key[w]), boolean(kir.OpAnd, boolean(kir.OpEq, x.key[w], y.key[w]), r))
	}
	return r
}

func u32(v uint32) *kir.Node { return kir.NConst(ir.U32, uint64(v)) }

// value is the element of the operand at a place of a row.
func (m *sorter) value(row, place *kir.Node) *kir.Node {
	o, i := kir.NDiv(row, m.param(m.l.Inner)), kir.NRem(row, m.param(m.l.Inner))
	at := kir.NAdd(kir.NAdd(m.param(m.l.Offset), kir.NMul(o, m.param(m.l.StrideOuter))),
		kir.NAdd(kir.NMul(place, m.param(m.l.Step)), kir.NMul(i, m.param(m.l.StrideLast))))
	return m.let(kir.NLoad(m.l.X, m.typ(m.s.Type.ComputeType()), 1, m.let(at)))
}

// keyOf gives the words of a value's key.
func (m *sorter) keyOf(v *kir.Node) []*kir.Node {
	const sign = 1 << 31
	var key []*kir.Node
	xor := func(x, y *kir.Node) *kir.Node { return kir.N(kir.OpXor, ir.U32, x, y) }
	switch v.Type {
	case ir.F32:
		zero := kir.NFloat(ir.F32, 0)
		u := m.let(kir.N(kir.OpBitcast, ir.U32, m.let(kir.N(kir.OpSelect, ir.F32, boolean(kir.OpEq, v, zero), zero, v))))
		flip := kir.N(kir.OpSelect, ir.U32, boolean(kir.OpLt, u, u32(sign)), u32(sign), u32(math.MaxUint32))
		key = append(key, kir.N(kir.OpSelect, ir.U32, kir.N(kir.OpIsNaN, ir.Bool, v), u32(math.MaxUint32), xor(u, flip)))
	case ir.I32:
		key = append(key, xor(kir.N(kir.OpBitcast, ir.U32, v), u32(sign)))
	case ir.I64:
		high := kir.N(kir.OpShr, ir.I64, v, kir.NConst(ir.I64, 32))
		low := kir.N(kir.OpAnd, ir.I64, v, kir.NConst(ir.I64, math.MaxUint32))
		key = append(key, xor(kir.N(kir.OpCast, ir.U32, high), u32(sign)), kir.N(kir.OpCast, ir.U32, low))
	case ir.Bool:
		key = append(key, kir.N(kir.OpCast, ir.U32, v))
	default:
		key = append(key, v)
	}
	for i := range key {
		if m.s.Descending {
			key[i] = xor(key[i], u32(math.MaxUint32))
		}
		key[i] = m.let(key[i])
	}
	return key
}

// result stores the element that comes to position at of a row, when it is among those kept.
func (m *sorter) result(row, at, place *kir.Node) {
	keep, inner := m.param(m.l.Keep), m.param(m.l.Inner)
	body := m.nested(func() {
		v := m.value(row, place)
		o := kir.NAdd(kir.NMul(kir.NDiv(row, inner), keep), at)
		to := m.let(kir.NAdd(kir.NMul(o, inner), kir.NRem(row, inner)))
		index := place
		if m.so.I64 {
			index = kir.N(kir.OpCast, ir.I64, place)
		}
		m.emit(kir.Stmt{Op: kir.SStore, Ref: m.l.Values, A: to, B: v})
		m.emit(kir.Stmt{Op: kir.SStore, Ref: m.l.Indices, A: to, B: index})
	})
	m.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(at, keep), Body: body})
}

// section is the start of a part of the room: word w of the keys, or (w = words) the places, of
// the first or second half.
func (m *sorter) section(half, w int) *kir.Node {
	return kir.NMul(kir.NInt(half*(m.words+1)+w), kir.NMul(m.rows, m.n))
}

func (m *sorter) fromRoom(half int, at *kir.Node, places bool) element {
	word := func(w int) *kir.Node {
		return m.let(kir.NLoad(m.l.Room, ir.U32, 1, m.let(kir.NAdd(m.section(half, w), at))))
	}
	var e element
	for w := range m.words {
		e.key = append(e.key, word(w))
	}
	if places {
		e.place = m.let(kir.N(kir.OpCast, ir.I32, word(m.words)))
	}
	return e
}

func (m *sorter) toRoom(half int, at *kir.Node, e element) {
	for w, x := range append(append([]*kir.Node{}, e.key...), kir.N(kir.OpCast, ir.U32, e.place)) {
		m.emit(kir.Stmt{Op: kir.SStore, Ref: m.l.Room, A: m.let(kir.NAdd(m.section(half, w), at)), B: x})
	}
}

// blocks sorts SortBlock elements in workgroup memory: parts of Width elements, of one row each.
func (m *sorter) blocks() {
	width := kir.NInt(m.so.Width)
	var arrays []int
	for w := range m.words {
		arrays = append(arrays, m.array(ir.U32, w, kir.SortBlock))
	}
	places := m.array(ir.I32, 0, kir.SortBlock)
	rows := []int{m.l.Outer, m.l.Inner}
	var locate func(t *kir.Node) (row, place *kir.Node)
	if m.s.Room {
		m.p.Groups = []kir.GroupFactor{{Params: rows, Per: 1}, {Params: []int{m.l.N}, Per: kir.SortBlock}}
		parts := m.let(kir.NDiv(kir.NAdd(m.n, kir.NInt(kir.SortBlock-1)), width))
		row, first := m.let(kir.NDiv(kir.NGroup(), parts)), m.let(kir.NMul(kir.NRem(kir.NGroup(), parts), width))
		locate = func(t *kir.Node) (*kir.Node, *kir.Node) { return row, m.let(kir.NAdd(first, t)) }
	} else {
		m.p.Groups = []kir.GroupFactor{{Params: rows, Per: int64(kir.SortBlock / m.so.Width)}}
		first := m.let(kir.NMul(kir.NGroup(), kir.NInt(kir.SortBlock/m.so.Width)))
		locate = func(t *kir.Node) (*kir.Node, *kir.Node) {
			return m.let(kir.NAdd(first, kir.NDiv(t, width))), m.let(kir.NRem(t, width))
		}
	}
	set := func(t *kir.Node, e element) {
		for w, a := range arrays {
			m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: a, A: t, B: e.key[w]})
		}
		m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: places, A: t, B: e.place})
	}
	get := func(t *kir.Node) (e element) {
		for _, a := range arrays {
			e.key = append(e.key, m.let(m.p.NShared(a, t)))
		}
		e.place = m.let(m.p.NShared(places, t))
		return e
	}
	each := func(n int, body func(t *kir.Node)) { m.loop(kir.NLocal(), kir.NInt(n), kir.NInt(m.so.Threads), body) }
	each(kir.SortBlock, func(t *kir.Node) {
		row, place := locate(t)
		inside := m.nested(func() { set(t, element{m.keyOf(m.value(row, place)), place}) })
		// What fills a part up comes after every element: its key is the last, and its place too.
		outside := m.nested(func() {
			e := element{place: place}
			for range arrays {
				e.key = append(e.key, u32(math.MaxUint32))
			}
			set(t, e)
		})
		m.emit(kir.Stmt{Op: kir.SIf, A: kir.NAnd(kir.NLt(row, m.rows), kir.NLt(place, m.n)), Body: inside, Else: outside})
	})
	m.network(each, get, set)
	m.barrier()
	each(kir.SortBlock, func(t *kir.Node) {
		row, at := locate(t)
		body := m.nested(func() {
			e := get(t)
			if m.s.Room {
				m.toRoom(0, m.let(kir.NAdd(kir.NMul(row, m.n), at)), e)
			} else {
				m.result(row, at, e.place)
			}
		})
		m.emit(kir.Stmt{Op: kir.SIf, A: kir.NAnd(kir.NLt(row, m.rows), kir.NLt(at, m.n)), Body: body})
	})
}

// network is the bitonic network over parts of Width elements: for runs of 2^a elements, in turn up and
// down, exchanges over distances of 2^(a-1) to 1.
func (m *sorter) network(each func(int, func(*kir.Node)), get func(*kir.Node) element, set func(*kir.Node, element)) {
	one := kir.NInt(1)
	i32 := func(op kir.Op, x, y *kir.Node) *kir.Node { return m.let(kir.N(op, ir.I32, x, y)) }
	m.loop(one, kir.NInt(bits.Len(uint(m.so.Width))), one, func(a *kir.Node) {
		m.loop(kir.NInt(0), a, one, func(b *kir.Node) {
			m.barrier()
			shift := m.let(kir.NSub(kir.NSub(a, one), b))
			distance := i32(kir.OpShl, one, shift)
			each(kir.SortBlock/2, func(t *kir.Node) {
				low := i32(kir.OpAnd, t, kir.NSub(distance, one))
				i := m.let(kir.NAdd(i32(kir.OpShl, i32(kir.OpShr, t, shift), kir.NAdd(shift, one)), low))
				j := m.let(kir.NAdd(i, distance))
				x, y := get(i), get(j)
				turn := i32(kir.OpAnd, i32(kir.OpShr, kir.NRem(i, kir.NInt(m.so.Width)), a), one)
				up := m.let(boolean(kir.OpEq, turn, kir.NInt(0)))
				swap := boolean(kir.OpEq, kir.N(kir.OpCast, ir.I32, y.less(x, true)), kir.N(kir.OpCast, ir.I32, up))
				m.emit(kir.Stmt{Op: kir.SIf, A: swap, Body: m.nested(func() {
					set(i, y)
					set(j, x)
				})})
			})
		})
	})
}

// merge joins runs of SortBlock<<pass elements, two by two.
func (m *sorter) merge(pass int) {
	run := kir.SortBlock << pass
	from, to := pass%2, 1-pass%2
	m.p.Groups = []kir.GroupFactor{{Params: []int{m.l.Outer, m.l.Inner, m.l.N}, Per: int64(m.so.Threads)}}
	e := m.let(kir.NAdd(kir.NMul(kir.NGroup(), kir.NInt(m.so.Threads)), kir.NLocal()))
	low := func(x, y *kir.Node) *kir.Node { return m.let(kir.N(kir.OpMin, ir.I32, x, y)) }
	body := m.nested(func() {
		row := m.let(kir.NDiv(e, m.n))
		start := m.let(kir.NMul(row, m.n))
		at := m.let(kir.NSub(e, start))
		base := m.let(kir.NMul(kir.NDiv(at, kir.NInt(2*run)), kir.NInt(2*run)))
		middle := low(kir.NAdd(base, kir.NInt(run)), m.n)
		right := m.let(kir.N(kir.OpLe, ir.Bool, middle, at))
		choose := func(x, y *kir.Node) *kir.Node { return m.let(kir.N(kir.OpSelect, ir.I32, right, x, y)) }
		mine := m.fromRoom(from, e, true)
		first := choose(base, middle)
		keep := m.param(m.l.Keep)
		lo, loNow := m.variable(first)
		end := choose(middle, low(kir.NAdd(base, kir.NInt(2*run)), m.n))
		hi, hiNow := m.variable(low(end, kir.NAdd(first, keep)))
		// Of a run of 2^k elements, k+1 steps find the place.
		m.loop(kir.NInt(0), kir.NInt(bits.Len(uint(run))), kir.NInt(1), func(*kir.Node) {
			step := m.nested(func() {
				mid := m.let(kir.NDiv(kir.NAdd(loNow, hiNow), kir.NInt(2)))
				other := m.fromRoom(from, m.let(kir.NAdd(start, mid)), false)
				// Of equal elements those of the left run come first.
				ahead := m.let(kir.N(kir.OpSelect, ir.Bool, right, kir.N(kir.OpNot, ir.Bool, mine.less(other, false)), other.less(mine, false)))
				m.emit(kir.Stmt{Op: kir.SIf, A: ahead,
					Body: m.nested(func() { m.assign(lo, kir.NAdd(mid, kir.NInt(1))) }),
					Else: m.nested(func() { m.assign(hi, mid) })})
			})
			m.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(loNow, hiNow), Body: step})
		})
		own := kir.NSub(at, choose(middle, base))
		place := m.let(kir.NAdd(kir.NAdd(base, own), kir.NSub(loNow, first)))
		if pass == m.so.Merges-1 {
			m.result(row, place, mine.place)
		} else {
			m.toRoom(to, m.let(kir.NAdd(start, place)), mine)
		}
	})
	// Only the first elements of a run count: the others are neither moved nor looked at.
	at := kir.NRem(kir.NRem(e, m.n), kir.NInt(run))
	m.emit(kir.Stmt{Op: kir.SIf, A: kir.NAnd(kir.NLt(e, kir.NMul(m.rows, m.n)), kir.NLt(at, m.param(m.l.Keep))), Body: body})
}
