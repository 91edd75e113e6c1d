package gpucode

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// SortOptions decide how a sort is divided.
type SortOptions struct {
	Threads int
	// Width is the length, a power of two, of the parts of rows that one workgroup sorts; it sorts SortBlock/Width
	// parts.
	Width int
	// Merges is the number of passes after the first. Each doubles the length of the sorted runs.
	Merges int
	I64    bool // the device has 64-bit integers; otherwise I64 is computed in I32
}

// Passes is the number of programs.
func (o *SortOptions) Passes() int { return 1 + o.Merges }

// MaxSortElements keeps the sort's scratch buffer within 32-bit indices.
const MaxSortElements = math.MaxInt32 / 6

// ChooseSort picks the options of s launched with params.
func ChooseSort(s *launch.Sort, params []uint64, caps Caps) SortOptions {
	n := params[s.Layout().N]
	o := SortOptions{Threads: rowWorkgroup(caps.withDefaults()), I64: caps.I64, Width: launch.SortBlock}
	if n <= launch.SortBlock {
		o.Width = 1 << bits.Len64(max(n, 2)-1)
		return o
	}
	o.Merges = bits.Len64((n - 1) / launch.SortBlock)
	return o
}

// FromSort makes the programs of s with the options o. The first sorts parts of rows in workgroup memory by a bitonic
// network (Batcher, 1968). Each of the others merges pairs of sorted runs, one element for each thread: the element's
// position in the merged run is its position in its own run plus the number of elements before it in the other, found
// by bisection. Keys are one or two words whose order as unsigned numbers is the order of the elements.
func FromSort(s *launch.Sort, o SortOptions) ([]*gpuir.Program, error) {
	if s.Type == ir.F64 {
		return nil, fmt.Errorf("gpucode: sort: float64 is not supported")
	}
	if o.Threads <= 0 || o.Width < 2 || o.Width > launch.SortBlock || o.Width&(o.Width-1) != 0 ||
		(o.Merges > 0) != s.Room || s.Room && o.Width != launch.SortBlock {
		return nil, fmt.Errorf("gpucode: sort: options %+v do not suit %+v", o, *s)
	}
	var procs []*gpuir.Program
	for pass := range o.Passes() {
		l := s.Layout()
		p := newProgram("sort_"+s.Type.String(), l.Params, l.Bufs, o.Threads)
		m := &sorter{gen: gen{p: p, o: Options{I64: o.I64}, out: &p.Body, shared: map[sharedKey]int{}}, s: s, so: o, l: l,
			words: 1}
		m.resetValues()
		if m.typ(s.Type) == ir.I64 {
			m.words = 2
		}
		m.rows, m.n = m.let(gpuir.NMul(m.param(l.Outer), m.param(l.Inner))), m.param(l.N)
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
	s     *launch.Sort
	so    SortOptions
	l     launch.SortLayout
	words int // words of a key
	rows  *gpuir.Node
	n     *gpuir.Node
}

// element is a key, the most significant word first, and a position in the row.
type element struct {
	key   []*gpuir.Node
	place *gpuir.Node
}

func boolean(op loopir.Op, x, y *gpuir.Node) *gpuir.Node { return gpuir.N(op, ir.Bool, x, y) }

// less orders elements by key, and equal keys by position where places is set.
func (x element) less(y element, places bool) *gpuir.Node {
	last := len(x.key) - 1
	r := boolean(loopir.OpLt, x.key[last], y.key[last])
	if places {
		r = boolean(loopir.OpOr, r, boolean(loopir.OpAnd, boolean(loopir.OpEq, x.key[last], y.key[last]),
			gpuir.NLt(x.place, y.place)))
	}
	for w := last - 1; w >= 0; w-- {
		r = boolean(loopir.OpOr, boolean(loopir.OpLt, x.key[w], y.key[w]),
			boolean(loopir.OpAnd, boolean(loopir.OpEq, x.key[w], y.key[w]), r))
	}
	return r
}

func u32(v uint32) *gpuir.Node { return gpuir.NConst(ir.U32, uint64(v)) }

// value is the element of the operand at a position of a row.
func (m *sorter) value(row, place *gpuir.Node) *gpuir.Node {
	o, i := gpuir.NDiv(row, m.param(m.l.Inner)), gpuir.NRem(row, m.param(m.l.Inner))
	at := gpuir.NAdd(gpuir.NAdd(m.param(m.l.Offset), gpuir.NMul(o, m.param(m.l.StrideOuter))),
		gpuir.NAdd(gpuir.NMul(place, m.param(m.l.Step)), gpuir.NMul(i, m.param(m.l.StrideLast))))
	return m.let(gpuir.NLoad(m.l.X, m.typ(m.s.Type.ComputeType()), 1, m.let(at)))
}

// keyOf is the words of a value's key.
func (m *sorter) keyOf(v *gpuir.Node) []*gpuir.Node {
	const sign = 1 << 31
	var key []*gpuir.Node
	xor := func(x, y *gpuir.Node) *gpuir.Node { return gpuir.N(loopir.OpXor, ir.U32, x, y) }
	switch v.Type {
	case ir.F32:
		zero := gpuir.NFloat(ir.F32, 0)
		u := m.let(gpuir.N(loopir.OpBitcast, ir.U32, m.let(gpuir.N(loopir.OpSelect, ir.F32, boolean(loopir.OpEq, v, zero),
			zero, v))))
		flip := gpuir.N(loopir.OpSelect, ir.U32, boolean(loopir.OpLt, u, u32(sign)), u32(sign), u32(math.MaxUint32))
		key = append(key, gpuir.N(loopir.OpSelect, ir.U32, gpuir.N(loopir.OpIsNaN, ir.Bool, v), u32(math.MaxUint32),
			xor(u, flip)))
	case ir.I32:
		key = append(key, xor(gpuir.N(loopir.OpBitcast, ir.U32, v), u32(sign)))
	case ir.I64:
		high := gpuir.N(loopir.OpShr, ir.I64, v, gpuir.NConst(ir.I64, 32))
		low := gpuir.N(loopir.OpAnd, ir.I64, v, gpuir.NConst(ir.I64, math.MaxUint32))
		key = append(key, xor(gpuir.N(loopir.OpCast, ir.U32, high), u32(sign)), gpuir.N(loopir.OpCast, ir.U32, low))
	case ir.Bool:
		key = append(key, gpuir.N(loopir.OpCast, ir.U32, v))
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

// result stores the element that comes to position at of a row, where it is among those kept.
func (m *sorter) result(row, at, place *gpuir.Node) {
	keep, inner := m.param(m.l.Keep), m.param(m.l.Inner)
	body := m.nested(func() {
		v := m.value(row, place)
		o := gpuir.NAdd(gpuir.NMul(gpuir.NDiv(row, inner), keep), at)
		to := m.let(gpuir.NAdd(gpuir.NMul(o, inner), gpuir.NRem(row, inner)))
		m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: m.l.Values, A: to, B: v})
		if m.s.Alone {
			return
		}
		index := place
		if m.so.I64 {
			index = gpuir.N(loopir.OpCast, ir.I64, place)
		}
		m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: m.l.Indices, A: to, B: index})
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(at, keep), Body: body})
}

// section is the start of a part of the scratch buffer, in its first or second half: word w of the keys, or with w =
// words the positions.
func (m *sorter) section(half, w int) *gpuir.Node {
	return gpuir.NMul(gpuir.NInt(half*(m.words+1)+w), gpuir.NMul(m.rows, m.n))
}

func (m *sorter) fromRoom(half int, at *gpuir.Node, places bool) element {
	word := func(w int) *gpuir.Node {
		return m.let(gpuir.NLoad(m.l.Room, ir.U32, 1, m.let(gpuir.NAdd(m.section(half, w), at))))
	}
	var e element
	for w := range m.words {
		e.key = append(e.key, word(w))
	}
	if places {
		e.place = m.let(gpuir.N(loopir.OpCast, ir.I32, word(m.words)))
	}
	return e
}

func (m *sorter) toRoom(half int, at *gpuir.Node, e element) {
	for w, x := range append(append([]*gpuir.Node{}, e.key...), gpuir.N(loopir.OpCast, ir.U32, e.place)) {
		m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: m.l.Room, A: m.let(gpuir.NAdd(m.section(half, w), at)), B: x})
	}
}

// blocks sorts SortBlock elements in workgroup memory: parts of Width elements, each of one row.
func (m *sorter) blocks() {
	width := gpuir.NInt(m.so.Width)
	var arrays []int
	for w := range m.words {
		arrays = append(arrays, m.array(ir.U32, w, launch.SortBlock))
	}
	places := m.array(ir.I32, 0, launch.SortBlock)
	rows := []int{m.l.Outer, m.l.Inner}
	var locate func(t *gpuir.Node) (row, place *gpuir.Node)
	if m.s.Room {
		m.p.Groups = []gpuir.GroupFactor{{Params: rows, Per: 1}, {Params: []int{m.l.N}, Per: launch.SortBlock}}
		parts := m.let(gpuir.NDiv(gpuir.NAdd(m.n, gpuir.NInt(launch.SortBlock-1)), width))
		row, first := m.let(gpuir.NDiv(gpuir.NGroup(), parts)), m.let(gpuir.NMul(gpuir.NRem(gpuir.NGroup(), parts), width))
		locate = func(t *gpuir.Node) (*gpuir.Node, *gpuir.Node) { return row, m.let(gpuir.NAdd(first, t)) }
	} else {
		m.p.Groups = []gpuir.GroupFactor{{Params: rows, Per: int64(launch.SortBlock / m.so.Width)}}
		first := m.let(gpuir.NMul(gpuir.NGroup(), gpuir.NInt(launch.SortBlock/m.so.Width)))
		locate = func(t *gpuir.Node) (*gpuir.Node, *gpuir.Node) {
			return m.let(gpuir.NAdd(first, gpuir.NDiv(t, width))), m.let(gpuir.NRem(t, width))
		}
	}
	set := func(t *gpuir.Node, e element) {
		for w, a := range arrays {
			m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: a, A: t, B: e.key[w]})
		}
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: places, A: t, B: e.place})
	}
	get := func(t *gpuir.Node) (e element) {
		for _, a := range arrays {
			e.key = append(e.key, m.let(m.p.NShared(a, t)))
		}
		e.place = m.let(m.p.NShared(places, t))
		return e
	}
	each := func(n int, body func(t *gpuir.Node)) {
		m.loop(gpuir.NLocal(), gpuir.NInt(n), gpuir.NInt(m.so.Threads), body)
	}
	each(launch.SortBlock, func(t *gpuir.Node) {
		row, place := locate(t)
		inside := m.nested(func() { set(t, element{m.keyOf(m.value(row, place)), place}) })
		// Padding comes after every element: its key is the greatest, and so is its position.
		outside := m.nested(func() {
			e := element{place: place}
			for range arrays {
				e.key = append(e.key, u32(math.MaxUint32))
			}
			set(t, e)
		})
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NAnd(gpuir.NLt(row, m.rows), gpuir.NLt(place, m.n)), Body: inside,
			Else: outside})
	})
	m.network(each, get, set)
	m.barrier()
	each(launch.SortBlock, func(t *gpuir.Node) {
		row, at := locate(t)
		body := m.nested(func() {
			e := get(t)
			if m.s.Room {
				m.toRoom(0, m.let(gpuir.NAdd(gpuir.NMul(row, m.n), at)), e)
			} else {
				m.result(row, at, e.place)
			}
		})
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NAnd(gpuir.NLt(row, m.rows), gpuir.NLt(at, m.n)), Body: body})
	})
}

// network is the bitonic network over parts of Width elements: for runs of 2^a elements, alternately ascending and
// descending, it exchanges over distances of 2^(a-1) down to 1.
func (m *sorter) network(each func(int, func(*gpuir.Node)), get func(*gpuir.Node) element,
	set func(*gpuir.Node, element)) {
	one := gpuir.NInt(1)
	i32 := func(op loopir.Op, x, y *gpuir.Node) *gpuir.Node { return m.let(gpuir.N(op, ir.I32, x, y)) }
	m.loop(one, gpuir.NInt(bits.Len(uint(m.so.Width))), one, func(a *gpuir.Node) {
		m.loop(gpuir.NInt(0), a, one, func(b *gpuir.Node) {
			m.barrier()
			shift := m.let(gpuir.NSub(gpuir.NSub(a, one), b))
			distance := i32(loopir.OpShl, one, shift)
			each(launch.SortBlock/2, func(t *gpuir.Node) {
				low := i32(loopir.OpAnd, t, gpuir.NSub(distance, one))
				i := m.let(gpuir.NAdd(i32(loopir.OpShl, i32(loopir.OpShr, t, shift), gpuir.NAdd(shift, one)), low))
				j := m.let(gpuir.NAdd(i, distance))
				x, y := get(i), get(j)
				turn := i32(loopir.OpAnd, i32(loopir.OpShr, gpuir.NRem(i, gpuir.NInt(m.so.Width)), a), one)
				up := m.let(boolean(loopir.OpEq, turn, gpuir.NInt(0)))
				swap := boolean(loopir.OpEq, gpuir.N(loopir.OpCast, ir.I32, y.less(x, true)), gpuir.N(loopir.OpCast, ir.I32, up))
				m.emit(gpuir.Stmt{Op: gpuir.SIf, A: swap, Body: m.nested(func() {
					set(i, y)
					set(j, x)
				})})
			})
		})
	})
}

// merge merges runs of SortBlock<<pass elements in pairs.
func (m *sorter) merge(pass int) {
	run := launch.SortBlock << pass
	from, to := pass%2, 1-pass%2
	m.p.Groups = []gpuir.GroupFactor{{Params: []int{m.l.Outer, m.l.Inner, m.l.N}, Per: int64(m.so.Threads)}}
	e := m.let(gpuir.NAdd(gpuir.NMul(gpuir.NGroup(), gpuir.NInt(m.so.Threads)), gpuir.NLocal()))
	low := func(x, y *gpuir.Node) *gpuir.Node { return m.let(gpuir.N(loopir.OpMin, ir.I32, x, y)) }
	body := m.nested(func() {
		row := m.let(gpuir.NDiv(e, m.n))
		start := m.let(gpuir.NMul(row, m.n))
		at := m.let(gpuir.NSub(e, start))
		base := m.let(gpuir.NMul(gpuir.NDiv(at, gpuir.NInt(2*run)), gpuir.NInt(2*run)))
		middle := low(gpuir.NAdd(base, gpuir.NInt(run)), m.n)
		right := m.let(gpuir.N(loopir.OpLe, ir.Bool, middle, at))
		choose := func(x, y *gpuir.Node) *gpuir.Node { return m.let(gpuir.N(loopir.OpSelect, ir.I32, right, x, y)) }
		mine := m.fromRoom(from, e, true)
		first := choose(base, middle)
		keep := m.param(m.l.Keep)
		lo, loNow := m.variable(first)
		end := choose(middle, low(gpuir.NAdd(base, gpuir.NInt(2*run)), m.n))
		hi, hiNow := m.variable(low(end, gpuir.NAdd(first, keep)))
		// In a run of 2^k elements, k+1 steps of bisection find the position.
		m.loop(gpuir.NInt(0), gpuir.NInt(bits.Len(uint(run))), gpuir.NInt(1), func(*gpuir.Node) {
			step := m.nested(func() {
				mid := m.let(gpuir.NDiv(gpuir.NAdd(loNow, hiNow), gpuir.NInt(2)))
				other := m.fromRoom(from, m.let(gpuir.NAdd(start, mid)), false)
				// Of equal elements those of the left run come first.
				ahead := m.let(gpuir.N(loopir.OpSelect, ir.Bool, right, gpuir.N(loopir.OpNot, ir.Bool, mine.less(other, false)),
					other.less(mine, false)))
				m.emit(gpuir.Stmt{Op: gpuir.SIf, A: ahead,
					Body: m.nested(func() { m.assign(lo, gpuir.NAdd(mid, gpuir.NInt(1))) }),
					Else: m.nested(func() { m.assign(hi, mid) })})
			})
			m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(loNow, hiNow), Body: step})
		})
		own := gpuir.NSub(at, choose(middle, base))
		place := m.let(gpuir.NAdd(gpuir.NAdd(base, own), gpuir.NSub(loNow, first)))
		if pass == m.so.Merges-1 {
			m.result(row, place, mine.place)
		} else {
			m.toRoom(to, m.let(gpuir.NAdd(start, place)), mine)
		}
	})
	// Only the first Keep elements of a run matter: the others are neither moved nor compared.
	at := gpuir.NRem(gpuir.NRem(e, m.n), gpuir.NInt(run))
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NAnd(gpuir.NLt(e, gpuir.NMul(m.rows, m.n)),
		gpuir.NLt(at, m.param(m.l.Keep))), Body: body})
}
