package gpucode

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// slot is one inner index that a lane works on, with the values computed at it. Slots of a row that is held in
// registers last from stage to stage; others last for one iteration of a loop.
type slot struct {
	here   *gpuir.Node // whether the index exists; nil: it does
	index  []*gpuir.Node
	linear *gpuir.Node
	vals   map[int]*gpuir.Node
	drawn  map[[2]int]*gpuir.Node
}

// open makes the slot of inner index number j.
func (g *gen) open(rowStart, j, here *gpuir.Node) *slot {
	g.enter(rowStart, j)
	return &slot{here: here, linear: g.linear, index: append([]*gpuir.Node(nil), g.index[g.k.Outer:]...),
		vals: map[int]*gpuir.Node{}, drawn: map[[2]int]*gpuir.Node{}}
}

// at runs f at slot s.
func (g *gen) at(s *slot, f func()) {
	g.slot, g.linear = s, s.linear
	copy(g.index[g.k.Outer:], s.index)
	f()
	g.slot = nil
}

// work runs stage s at the slots. All loads are issued first: after a store between them the compiler could not have
// several in flight.
func (g *gen) work(s *loopir.Stage, slots []*slot, accs []accum, first int) {
	if len(slots) > 1 {
		uses := g.k.Uses(s)
		for _, sl := range slots {
			g.at(sl, func() {
				for i, used := range uses {
					if used && g.isInner[i] && g.k.Exprs[i].Op == loopir.OpLoad {
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
				guard = g.let(gpuir.NAnd(g.active, sl.here))
			}
			g.effects(s, guard)
		})
	}
}

// heldSlots are the slots of a row that lanes hold whole.
func (g *gen) heldSlots(rowStart *gpuir.Node) []*slot {
	if g.held != nil {
		return g.held
	}
	last := g.let(gpuir.NSub(g.to, gpuir.NInt(1)))
	for n := range g.o.Hold {
		j := g.let(gpuir.NAdd(g.from, gpuir.NAdd(g.lane, gpuir.NInt(n*g.o.Lanes))))
		var here *gpuir.Node
		if !g.o.Full {
			// Lanes beyond the row read its last element and do not count it.
			here = g.let(gpuir.NLt(j, g.to))
			j = g.let(gpuir.N(loopir.OpMin, ir.I32, j, last))
		}
		g.held = append(g.held, g.open(rowStart, j, here))
	}
	if g.o.Ahead {
		g.loadAhead()
	}
	return g.held
}

// loadAhead issues the loads of held rows before the first stage. Operands that all rows share come from the cache, so
// stages load them; a thread of four rows loads them ahead too, since they are few beside the rows.
func (g *gen) loadAhead() {
	own := func(a loopir.Access) bool {
		return a.Linear || g.o.OuterVec ||
			slices.ContainsFunc(a.Stride[:g.k.Outer], func(s int) bool { return s != loopir.Broadcast })
	}
	early := make([]bool, len(g.k.Exprs))
	for s := range g.k.Stages {
		if st := &g.k.Stages[s]; st.OverInner {
			for i, used := range g.k.Uses(st) {
				e := g.k.Exprs[i]
				early[i] = early[i] || used && g.isInner[i] && e.Op == loopir.OpLoad && own(g.k.Access[e.Imm])
			}
		}
	}
	for _, sl := range g.held {
		g.at(sl, func() {
			for i, load := range early {
				if load {
					g.expr(i)
				}
			}
		})
	}
}

// stride visits this lane's inner indices from `from`, which is the same for all lanes, up to `to`: Unroll at a time,
// then the rest one by one.
func (g *gen) stride(from, to *gpuir.Node, body func(js []*gpuir.Node)) {
	lanes := gpuir.NInt(g.o.Lanes)
	one := func(j *gpuir.Node) { body([]*gpuir.Node{j}) }
	if g.o.Unroll <= 1 {
		g.loop(g.let(gpuir.NAdd(from, g.lane)), to, lanes, one)
		return
	}
	span := gpuir.NInt(g.o.Lanes * g.o.Unroll)
	whole := g.let(gpuir.NAdd(from, gpuir.NMul(gpuir.NDiv(gpuir.NSub(to, from), span), span)))
	g.loop(g.let(gpuir.NAdd(from, g.lane)), whole, span, func(j *gpuir.Node) {
		js := []*gpuir.Node{j}
		for n := 1; n < g.o.Unroll; n++ {
			js = append(js, g.let(gpuir.NAdd(j, gpuir.NInt(n*g.o.Lanes))))
		}
		body(js)
	})
	g.loop(g.let(gpuir.NAdd(whole, g.lane)), to, lanes, one)
}

// line is the number of 32-bit elements of a cache line.
const line = 32

// peel visits this workgroup's inner indices up to the first that begins a cache line, and returns that index. Where
// threads write part of a line each, memory must read the line first.
func (g *gen) peel(rowStart *gpuir.Node, body func(js []*gpuir.Node)) *gpuir.Node {
	short := gpuir.NRem(gpuir.NSub(gpuir.NInt(line), gpuir.NRem(gpuir.NAdd(rowStart, g.from), gpuir.NInt(line))),
		gpuir.NInt(line))
	end := g.let(gpuir.N(loopir.OpMin, ir.I32, g.to, gpuir.NAdd(g.from, short)))
	g.loop(g.let(gpuir.NAdd(g.from, g.lane)), end, gpuir.NInt(g.o.Lanes), func(j *gpuir.Node) { body([]*gpuir.Node{j}) })
	return end
}

// peels reports a kernel with inner stages that write contiguous rows.
func peels(k *loopir.Kernel) bool {
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
