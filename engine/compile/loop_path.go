package compile

import (
	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// dispatchExprs bounds the expressions of an iteration that one dispatch runs: they become text to compile.
const dispatchExprs = 1 << 10

// DispatchWork bounds the expressions of all iterations that one dispatch runs, which take up to about a second.
// Drivers end what takes longer. Tests make it small.
var DispatchWork int64 = 1 << 28

// sideBySide is about how many lanes a device runs at the same time. More of them take turns.
const sideBySide = 1 << 14

// chunkShare is the number of repeating dispatches with the work of the longest dispatch. Some tens of them may be in
// flight when a wait begins, and a request to stop waits for them.
const chunkShare = 8

// mostAhead is how many runs of a repeat are submitted at most before its condition is read again.
const mostAhead = 64

const tooLong = "the loop is too long for one dispatch"

const workgroupLacks = "; a workgroup does not hold the loop: "

// perDispatch is the most iterations of one dispatch of a device, where each has so much work.
func perDispatch(caps *device.Caps, work int64) int64 {
	n := max(1, DispatchWork/work)
	if most := caps.MaxIterations; most > 0 {
		return min(n, most)
	}
	return n
}

// Caps describes devices.
type Caps = func(ir.DeviceID) *device.Caps

// ResidentReason returns the reason why the values of a loop's body cannot be in registers; "" if they can.
func ResidentReason(l *op.Loop, caps Caps) string {
	_, why := resident(l, caps)
	if why == "" && !caps(ir.CPU).Resident {
		return "this processor's code for loops is off, or there is none"
	}
	return why
}

// DeviceLoop returns the path of a loop on a device other than the CPU, "" for none, and the reason why it is not path
// A or not on the device.
func DeviceLoop(l *op.Loop, dev ir.DeviceID, caps Caps) (path, reason string) {
	k, err := planned(l, caps)
	if err != nil {
		return "", err.Error()
	}
	_, why := k.dispatch(dev)
	if why == "" {
		return "A", ""
	}
	p := k.newPaths(dev, mostIn)
	switch {
	case p.group != nil:
		return "B", why
	case p.unrolled == nil:
		return "", p.whyC
	case p.whyB != "" && p.whyB != why:
		return "C", why + workgroupLacks + p.whyB
	}
	return "C", why
}

// paths are the forms of a loop that has none for path A, and the reason against each.
type paths struct {
	group      *grouping  // path B: the one that the loop takes
	unrolled   *unrolling // path C, where it is possible
	whyB, whyC string
}

// newPaths looks for the paths of a loop, on path C with iterations of at most so many steps.
func (k *loopLowering) newPaths(dev ir.DeviceID, most int) (p paths) {
	u, why := k.newBody(dev)
	if why != "" {
		return paths{whyB: why, whyC: why}
	}
	if p.whyC = u.unrolls(most); p.whyC == "" {
		p.unrolled = u
	}
	g, why := u.newGrouping(dev)
	switch {
	case why != "":
		p.whyB = why
	case p.unrolled == nil || p.unrolled.repeats && k.l.While:
		p.group = g
	case k.l.Length < oftenRun && !k.l.While:
		p.whyB = "the loop is short"
	case !g.pays():
		p.whyB = "an iteration has work for the whole device"
	default:
		p.group = g
	}
	return p
}

// dispatch returns the resident form of a loop for dispatches of a device, or the reason why it has none.
func (k *loopLowering) dispatch(dev ir.DeviceID) (form *launch.Resident, reason string) {
	caps := k.b.Caps(dev)
	form, why := k.op.Resident()
	switch {
	case why != "":
		return nil, why
	case len(form.Exprs) > dispatchExprs:
		return nil, "the body computes too many elements in each iteration"
	}
	used := map[int]bool{}
	for i := range form.Ports {
		used[form.Ports[i].Buf] = true
		if form.Ports[i].Type == ir.F64 || caps.Storage[form.Ports[i].Type] == 0 {
			return nil, "the device does not have " + form.Ports[i].Type.String()
		}
	}
	for i := range form.Exprs {
		if form.Exprs[i].Type == ir.F64 {
			return nil, "the device does not have float64"
		}
	}
	if len(used) > caps.MaxStorageBuffers {
		return nil, "the loop has more operands and results than the device has storage buffers"
	}
	return form, ""
}

// resident returns the resident form of a loop, or the reason why it has none.
func resident(l *op.Loop, caps Caps) (*launch.Resident, string) {
	k, err := planned(l, caps)
	if err != nil {
		return nil, err.Error()
	}
	return k.op.Resident()
}

// planned plans a loop by itself.
func planned(l *op.Loop, caps Caps) (*loopLowering, error) {
	n := &lower.Node{Attr: l.Attr()}
	body := l.Body()
	for _, id := range body.Operands() {
		av := ir.AvalOf(id)
		n.In = append(n.In, lower.Operand{DType: av.DType, Layout: av.Layout, Buf: n.Bufs})
		n.Bufs++
	}
	out := func(id ir.AvalID) {
		av := ir.AvalOf(id)
		n.Out = append(n.Out, lower.Output{DType: av.DType, Layout: av.Layout, Buf: n.Bufs})
		n.Bufs++
	}
	for _, id := range body.Outcomes() {
		out(id)
	}
	for _, id := range body.Operands()[:l.Carries] {
		if l.Keep {
			out(id)
		}
	}
	return (&Builder{Caps: caps, Lowered: &lower.Memo{}}).newLoop(n)
}

// onDevice makes the launches of a loop on a GPU: dispatches of many iterations, or the steps of each one. Recording
// has found that it has one of these forms; a loop in a body may have none.
func (k *loopLowering) onDevice(dev ir.DeviceID) (*lower.Result, error) {
	form, why := k.dispatch(dev)
	if why == "" {
		return k.iterate(form, k.b.Caps(dev)), nil
	}
	const more = 4 // where passes are switched off
	p := k.newPaths(dev, more*mostIn)
	switch {
	case p.group != nil:
		return p.group.lower(), nil
	case p.unrolled != nil:
		return p.unrolled.lower(), nil
	}
	return nil, ir.Errorf(ir.ErrNotImplemented, "a loop on a GPU: %s", p.whyC)
}

// iterate makes the launches of a loop whose values stay in registers.
func (k *loopLowering) iterate(form *launch.Resident, caps *device.Caps) *lower.Result {
	it := &launch.Iterate{Form: form, Operands: k.op.Operands, Reverse: k.l.Reverse}
	s := &spread{from: device.Const(0), res: &lower.Result{}}
	numbers := map[int]int{} // by buffer of the loop: that of the launch
	for i := range form.Ports {
		p := &form.Ports[i]
		n, ok := numbers[p.Buf]
		if !ok {
			n = len(numbers)
			numbers[p.Buf] = n
			use := loopir.Buf{Type: p.Type, Access: loopir.Write}
			if p.Buf < k.op.Operands {
				use.Access = loopir.Read
			}
			it.Bufs, s.bufs = append(it.Bufs, use), append(s.bufs, p.Buf)
		}
		p.Buf = n
	}
	if form.Moves() {
		s.by = 1
	}
	s.launch = func(n int64, first device.Param, offsets []device.Param) device.Step {
		list := []device.Param{device.Const(form.Lanes), device.Const(n), first}
		return device.Step{Op: it, Params: append(list, offsets...)}
	}
	work, turns := int64(len(form.Exprs)+1), max(1, (form.Lanes+sideBySide-1)/sideBySide)
	return k.dispatches(s, work*turns, perDispatch(caps, work*turns))
}

// spread is how a loop of path A or B becomes dispatches of some iterations.
type spread struct {
	// launch makes the dispatch of n iterations. first is the number that moves with the place.
	launch func(n int64, first device.Param, offsets []device.Param) device.Step
	bufs   []int        // by buffer of the launch: that of the loop
	from   device.Param // the moving number at place 0
	by     int64        // from a place to the next one
	res    *lower.Result
}

// dispatches makes the dispatches of a loop: one where it has at most so many iterations. A longer one is some
// iterations, which read the operands, and then two dispatches that repeat: while the condition is true, or as often as
// the length says. The first one of these writes carries to temporaries and the second one to the results, so each run
// reads them where the previous run wrote them. Their places move from run to run.
func (k *loopLowering) dispatches(s *spread, work, most int64) *lower.Result {
	if k.l.Length <= most {
		k.round(s, 0, 1, k.l.Length, s.from)
		return s.res
	}
	const rounds = 3
	second := max(1, DispatchWork/work)
	each := max(1, min(second/chunkShare, most/2))
	n := (k.l.Length-1)%(2*each) + 1
	repeat := lower.Repeat{From: 1, To: rounds, Flag: -1, Ahead: min(mostAhead, max(1, second/(2*each)))}
	if k.l.While { // a short one ends in the first dispatch
		n += max(0, most-n) / (2 * each) * 2 * each
		repeat.Flag = k.n.Out[0].Buf
	}
	repeat.Most = (k.l.Length - n) / (2 * each)
	if s.by != 0 {
		s.res.Moving = []device.Param{s.from}
		repeat.Moves = []lower.Move{{Number: 0, By: 2 * each * s.by}}
		if k.l.Reverse {
			repeat.Moves[0].By *= -1
		}
	}
	s.res.Repeats = []lower.Repeat{repeat}
	begun := int64(0) // the iterations of the rounds before
	for r := range rounds {
		place, first := begun, s.from
		if k.l.Reverse {
			place = k.l.Length - begun - n
		}
		if s.by != 0 {
			first = device.ScalarOf(k.scalars()).Plus(place * s.by)
		}
		k.round(s, r, rounds, n, first)
		begun, n = begun+n, each
	}
	return s.res
}

// round adds the dispatch of a round, with so many iterations and its moving number.
func (k *loopLowering) round(s *spread, r, rounds int, n int64, first device.Param) {
	st := s.launch(n, first, k.offsets(r))
	for _, b := range s.bufs {
		st.Bufs = append(st.Bufs, k.inRound(s.res, b, r, rounds))
	}
	s.res.Launches = append(s.res.Launches, st)
}

// scalars counts the node's run-time numbers. Its moving numbers follow them.
func (k *loopLowering) scalars() (n int) {
	for i := range k.n.In {
		if k.n.In[i].Scalar {
			n++
		}
	}
	return n
}

// offsets are the parameters for where operands begin in a round: carries of a round before begin at 0.
func (k *loopLowering) offsets(r int) (list []device.Param) {
	for i := range k.op.Operands {
		if i < k.l.Carries && r > 0 {
			list = append(list, device.Const(0))
		} else {
			list = append(list, device.OffsetOf(i))
		}
	}
	return list
}

// inRound is the local buffer that stands for buffer b of the loop in a round. Rounds write carries to the results and
// to temporaries in turn, the last one to the results.
func (k *loopLowering) inRound(res *lower.Result, b, r, rounds int) int {
	carry, from := b, r-1 // the round that wrote it
	if b >= k.op.Operands {
		carry, from = b-k.op.Operands, r
	}
	if carry >= k.l.Carries || from < 0 {
		return k.bufs[b]
	}
	if (rounds-1-from)%2 == 0 {
		return k.bufs[k.result(carry)]
	}
	for len(res.Temps) < k.l.Carries {
		o := &k.n.Out[len(res.Temps)]
		res.Temps = append(res.Temps, lower.Temp{DType: o.DType, Numel: o.Layout.Numel})
	}
	return k.n.Bufs + carry
}
