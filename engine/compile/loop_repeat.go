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

// repeat makes the steps of a loop that a condition ends: copies of the carries to the results, and some iterations,
// which run again while the condition is true. An iteration computes the next carries in temporaries and then moves
// them to the results if the condition was true before it. So iterations after the end change nothing, but may report
// errors in data: a body that checks data has one iteration, which begins only if the condition is true.
func (u *unrolling) repeat() {
	for r := range u.l.Carries {
		u.copy(r, u.n.Out[r].Layout.Numel, device.OffsetOf(r), u.n.In[r].Buf, 0)
	}
	checks, each := u.checks(), int64(1)
	for n := int64(max(u.perIteration(), 1)); !checks && each < mostRepeated && each*n < repeatedSteps &&
		u.l.Length%(2*each) == 0; {
		each *= 2
	}
	at := len(u.res.Repeats)
	u.res.Repeats = append(u.res.Repeats, lower.Repeat{From: len(u.res.Launches), Flag: u.n.Out[0].Buf,
		Most: u.l.Length / each, Exact: checks})
	if len(u.op.Draws) > 0 {
		u.res.Repeats[at].Number, u.res.Repeats[at].By = device.ScalarOf(1), each*u.op.Drawn
	}
	for t := range each {
		u.iteration(t, t)
		for r := u.l.Carries - 1; r >= 0; r-- { // the condition last
			u.move(r)
		}
	}
	u.res.Repeats[at].To = len(u.res.Launches)
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
			if (*list)[k].To == 0 && (k > 0 || !u.repeats) {
				(*list)[k].To = len(u.res.Launches)
				return
			}
		}
	}
	made := lower.Repeat{From: len(u.res.Launches), Flag: u.at(r.Flag, t), Most: r.Most, Exact: r.Exact, By: int64(r.By)}
	if r.Scalar >= 0 {
		made.Number = u.param(device.ScalarOf(r.Scalar), t, place)
	}
	*list = append(*list, made)
}
