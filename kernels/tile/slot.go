package tile

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// slot is one inner index that a lane works on, with the values computed at it. A
// row that is held keeps its slots from stage to stage; others live for one round of a loop.
type slot struct {
	here   *kir.Node // whether the index exists, nil: it does
	index  []*kir.Node
	linear *kir.Node
	vals   map[int]*kir.Node
	philox map[[3]int]*kir.Node
}

// open makes the slot of inner index number j.
func (g *gen) open(rowStart, j, here *kir.Node) *slot {
	g.enter(rowStart, j)
	return &slot{here: here, linear: g.linear, index: append([]*kir.Node(nil), g.index[g.k.Outer:]...),
		vals: map[int]*kir.Node{}, philox: map[[3]int]*kir.Node{}}
}

// at runs f at slot s.
func (g *gen) at(s *slot, f func()) {
	g.slot, g.linear = s, s.linear
	copy(g.index[g.k.Outer:], s.index)
	f()
	g.slot = nil
}

// work runs stage s at the slots. All loads are issued first: a store between them
// would keep the compiler from having several in flight.
func (g *gen) work(s *kir.Stage, slots []*slot, accs []accum, first int) {
	if len(slots) > 1 {
		uses := g.k.Uses(s)
		for _, sl := range slots {
			g.at(sl, func() {
				for i, used := range uses {
					if used && g.isInner[i] && g.k.Exprs[i].Op == kir.OpLoad {
						g.expr(i)
					}
				}
			})
		}
	}
	for _, sl := range slots {
		g.at(sl, func() {
			g.accumulate(accs, sl.here)
			if s.Prefix {
				for i, a := range accs {
					g.acc[first+i] = a.val
				}
			}
			guard := g.active
			if sl.here != nil && len(s.Stores)+len(s.Checks) > 0 {
				guard = g.let(kir.NAnd(g.active, sl.here))
			}
			g.effects(s, guard)
		})
	}
}

// heldSlots are the slots of a row that each lane holds whole.
func (g *gen) heldSlots(rowStart *kir.Node) []*slot {
	if g.held != nil {
		return g.held
	}
	last := g.let(kir.NSub(g.to, kir.NInt(1)))
	for n := range g.o.Hold {
		j := g.let(kir.NAdd(g.from, kir.NAdd(g.lane, kir.NInt(n*g.o.Lanes))))
		var here *kir.Node
		if !g.o.Full {
			// Lanes beyond the row read its last element and do not count it.
			here = g.let(kir.NLt(j, g.to))
			j = g.let(kir.N(kir.OpMin, ir.I32, j, last))
		}
		g.held = append(g.held, g.open(rowStart, j, here))
	}
	return g.held
}

// stride visits this lane's inner indices from `from` (the same for all lanes) up to `to`,
// Unroll at a time as long as there are so many.
func (g *gen) stride(from, to *kir.Node, body func(js []*kir.Node)) {
	lanes := kir.NInt(g.o.Lanes)
	one := func(j *kir.Node) { body([]*kir.Node{j}) }
	if g.o.Unroll <= 1 {
		g.loop(g.let(kir.NAdd(from, g.lane)), to, lanes, one)
		return
	}
	span := kir.NInt(g.o.Lanes * g.o.Unroll)
	whole := g.let(kir.NAdd(from, kir.NMul(kir.NDiv(kir.NSub(to, from), span), span)))
	g.loop(g.let(kir.NAdd(from, g.lane)), whole, span, func(j *kir.Node) {
		js := []*kir.Node{j}
		for n := 1; n < g.o.Unroll; n++ {
			js = append(js, g.let(kir.NAdd(j, kir.NInt(n*g.o.Lanes))))
		}
		body(js)
	})
	g.loop(g.let(kir.NAdd(whole, g.lane)), to, lanes, one)
}

// line is the number of elements of 32 bits in a line of a cache.
const line = 32

// peel visits this workgroup's inner indices up to the first that begins a line of memory, and gives that
// index. Threads that write part of a line each would make memory fetch it first.
func (g *gen) peel(rowStart *kir.Node, body func(js []*kir.Node)) *kir.Node {
	short := kir.NRem(kir.NSub(kir.NInt(line), kir.NRem(kir.NAdd(rowStart, g.from), kir.NInt(line))), kir.NInt(line))
	end := g.let(kir.N(kir.OpMin, ir.I32, g.to, kir.NAdd(g.from, short)))
	g.loop(g.let(kir.NAdd(g.from, g.lane)), end, kir.NInt(g.o.Lanes), func(j *kir.Node) { body([]*kir.Node{j}) })
	return end
}

// peels reports a kernel with inner stages that write rows as they lie in memory.
func peels(k *kir.Kernel) bool {
	for s := range k.Stages {
		if !k.Stages[s].OverInner || k.Stages[s].Prefix {
			continue
		}
		for _, r := range k.Stages[s].Stores {
			if r.Access >= 0 && k.Access[r.Access].Linear {
				return true
			}
		}
	}
	return false
}
