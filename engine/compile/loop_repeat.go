package compile

import (
	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// A run of a repeat has at most mostRepeated iterations, and about repeatedSteps steps.
const (
	mostRepeated  = 16
	repeatedSteps = 256
)

// until makes the steps of a loop that a condition ends: copies of the carries to the results, and some iterations,
// which run again while the condition is true. An iteration computes the next carries in temporaries and then moves
// them to the results if the condition was true before it. So iterations after the end change nothing. They may report
// errors in data, and a loop in them may have no end. So a body that checks data, or has a loop that a condition ends,
// has one iteration, which begins only if the condition is true.
func (u *unrolling) until() {
	for r := range u.l.Carries {
		u.copy(r, u.n.Out[r].Layout.Numel, device.OffsetOf(r), u.n.In[r].Buf, device.Const(0))
	}
	exact, each := u.checks() || u.waits(), int64(1)
	for n := int64(max(u.perIteration(), 1)); !exact && each < mostRepeated && each*n < repeatedSteps &&
		u.l.Length%(2*each) == 0; {
		each *= 2
	}
	u.begin(lower.Repeat{Flag: u.n.Out[0].Buf, Most: u.l.Length / each, Exact: exact,
		Ahead: mostAhead}, each)
	for t := range each {
		u.iteration(t, t)
		for r := u.l.Carries - 1; r >= 0; r-- { // the condition last
			u.move(r)
		}
	}
	u.res.Repeats[u.own].To = len(u.res.Launches)
}

// times makes the steps of a long loop of a known length: some iterations, the first of which read the operands, and as
// many that repeat. Their number is even, so each run reads carries where the previous run wrote them. Three things
// move from run to run: the place of xs, the place of ys and kept carries, and the Philox offset.
func (u *unrolling) times() {
	each := int64(2)
	for n := int64(max(u.perIteration(), 1)); 2*each*n <= min(repeatedSteps, MostUnrolled); {
		each *= 2
	}
	first := (u.l.Length-1)%each + 1
	for t := range first {
		u.iteration(t, u.op.Place(t))
	}
	if first == u.l.Length {
		return
	}
	u.begin(lower.Repeat{Flag: -1, Most: (u.l.Length - first) / each}, each)
	for t := first; t < first+each; t++ {
		u.iteration(t, u.op.Place(t))
	}
	u.res.Repeats[u.own].To = len(u.res.Launches)
}

// begin begins the repeat of the loop, whose runs have so many iterations.
func (u *unrolling) begin(r lower.Repeat, iterations int64) {
	u.own, u.runs, u.moves = len(u.res.Repeats), iterations, map[movement]int{}
	if u.l.Reverse {
		u.runs = -iterations
	}
	r.From = len(u.res.Launches)
	u.res.Repeats = append(u.res.Repeats, r)
}

// movement is a number that moves from run to run of a repeat.
type movement struct {
	from  device.Source
	index int32
	next  int64 // from a place to the next one
}

// moved is a parameter that grows by next at each place: in a repeat a moving number.
func (u *unrolling) moved(q device.Param, next int64) device.Param {
	if u.own < 0 || next == 0 {
		return q
	}
	m := movement{q.From, q.Index, next}
	n, ok := u.moves[m]
	if !ok {
		n = u.moving(device.Param{From: q.From, Index: q.Index}, next)
		u.moves[m] = n
	}
	return device.ScalarOf(u.scalars + n).Plus(int64(q.Bits))
}

// moving adds a moving number, which the loop's own repeat moves.
func (u *unrolling) moving(from device.Param, next int64) int {
	n := len(u.res.Moving)
	u.res.Moving = append(u.res.Moving, from)
	if u.own >= 0 && next != 0 {
		r := &u.res.Repeats[u.own]
		r.Moves = append(r.Moves, lower.Move{Number: n, By: next * u.runs})
	}
	return n
}

// inBody is the number that stands for moving number k of the body's plan in iteration t.
func (u *unrolling) inBody(k int, t, place int64) int {
	n, ok := u.within[k]
	if !ok {
		n = u.moving(u.fixedParam(u.plan.Moving[k], t, place))
		u.within[k] = n
	}
	return n
}

// move adds the step that moves the next value of carry r to its result if the condition is true.
func (u *unrolling) move(r int) {
	o := &u.n.Out[r]
	b := loopir.NewBuilder("move_"+o.DType.String(), 1, 0)
	next := b.Linear(b.Buf(o.DType, loopir.Read), -1)
	to := b.Linear(b.Buf(o.DType, loopir.ReadWrite), -1)
	st := device.Step{Bufs: []int{u.carries[r], o.Buf}, Params: []device.Param{device.Const(o.Layout.Numel)}}
	flag := to
	if r > 0 {
		flag = b.Access(b.Buf(ir.Bool, loopir.Read), -1, loopir.Broadcast)
		st.Bufs = append(st.Bufs, u.n.Out[0].Buf)
	}
	b.Map()
	b.Store(to, b.Select(b.Load(flag), b.Load(next), b.Load(to)))
	st.Op = b.Kernel()
	u.res.Launches = append(u.res.Launches, st)
}

// inner adds the beginning or the end of a repeat of the body's plan, at segment i.
func (u *unrolling) inner(r *Repeat, i int, t, place int64) {
	list := &u.res.Repeats
	if i == r.End {
		for k := len(*list) - 1; ; k-- {
			if (*list)[k].To == 0 && k != u.own {
				(*list)[k].To = len(u.res.Launches)
				return
			}
		}
	}
	made := lower.Repeat{From: len(u.res.Launches), Flag: -1, Most: r.Most, Exact: r.Exact, Ahead: r.Ahead}
	if r.Flag >= 0 {
		made.Flag = u.at(r.Flag, t)
	}
	for _, m := range r.Moves {
		made.Moves = append(made.Moves, lower.Move{Number: u.inBody(m.Number, t, place), By: m.By})
	}
	*list = append(*list, made)
}
