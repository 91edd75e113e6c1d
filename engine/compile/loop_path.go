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

// conditionalRounds is the most dispatches of a loop that a condition ends. Those after its end do nothing.
const conditionalRounds = 8

// sideBySide is about how many lanes a device runs at the same time. More of them take turns.
const sideBySide = 1 << 14

// chunkShare is how many of the dispatches that repeat have the work of the longest dispatch. Some tens of them may be
// in flight when a wait begins, and a request to stop waits for them.
const chunkShare = 8

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

// ResidentReason says what keeps the values of a loop's body from registers; "": nothing.
func ResidentReason(l *op.Loop, caps Caps) string {
	_, why := resident(l, caps)
	if why == "" && !caps(ir.CPU).Resident {
		return "this processor's code for loops is off, or there is none"
	}
	return why
}

// DeviceLoop says which path a loop takes on a device other than the CPU, "" for none, and what keeps it from path A or
// from the device.
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

// paths are the forms of a loop that has none for path A, and what keeps it from each.
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

// dispatch returns the resident form of a loop that dispatches of a device run, or what keeps it from one.
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

// resident returns the resident form of a loop, or what keeps it from one.
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

// iterate makes the launches of a loop whose values stay in registers: one, or with a condition as many as may take
// a second each. Each of these goes on from the carries that the one before has left.
func (k *loopLowering) iterate(form *launch.Resident, caps *device.Caps) *lower.Result {
	it := &launch.Iterate{Form: form, Operands: k.op.Operands, Reverse: k.l.Reverse}
	var bufs []int // by buffer of the launch: that of the loop
	numbers := map[int]int{}
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
			it.Bufs, bufs = append(it.Bufs, use), append(bufs, p.Buf)
		}
		p.Buf = n
	}
	res := &lower.Result{}
	work, turns := int64(len(form.Exprs)+1), max(1, (form.Lanes+sideBySide-1)/sideBySide)
	if most := perDispatch(caps, work*turns); !k.l.While && k.l.Length > most {
		k.chunks(res, it, bufs, max(1, most/chunkShare))
		return res
	}
	each, rounds := k.rounds(perDispatch(caps, work))
	last := *it
	last.Ends = each*int64(rounds) < k.l.Length
	for r := range rounds {
		if r == rounds-1 {
			it = &last
		}
		k.round(res, it, bufs, r, rounds, each, device.Const(0))
	}
	return res
}

// round adds the dispatch of a round, with so many iterations and its first place.
func (k *loopLowering) round(res *lower.Result, it *launch.Iterate, bufs []int, r, rounds int, each int64,
	first device.Param) {
	st := device.Step{Op: it, Params: []device.Param{device.Const(it.Form.Lanes), device.Const(each), first}}
	st.Params = append(st.Params, k.offsets(r)...)
	for _, b := range bufs {
		st.Bufs = append(st.Bufs, k.inRound(res, b, r, rounds))
	}
	res.Launches = append(res.Launches, st)
}

// chunks makes the dispatches of a loop of a known length that is too long for one: some iterations, which read the
// operands, and then two dispatches of each iterations that repeat. The first one of these writes carries to
// temporaries and the second one to the results, so each run finds them where the run before has left them. Their
// places move from run to run.
func (k *loopLowering) chunks(res *lower.Result, it *launch.Iterate, bufs []int, each int64) {
	const rounds = 3
	begun := int64(0) // the iterations of the rounds before
	n := (k.l.Length-1)%(2*each) + 1
	for r := range rounds {
		first, run := begun, 2*each
		if k.l.Reverse {
			first, run = k.l.Length-begun-n, -run
		}
		place := device.Const(first)
		if r == 1 {
			res.Repeats = []lower.Repeat{{From: r, To: rounds, Flag: -1, Most: (k.l.Length - begun) / (2 * each)}}
			if it.Form.Moves() {
				res.Moving = []device.Param{device.Const(0)}
				res.Repeats[0].Moves = []lower.Move{{Number: 0, By: run}}
			}
		}
		if len(res.Moving) > 0 {
			place = device.ScalarOf(k.scalars()).Plus(first)
		}
		k.round(res, it, bufs, r, rounds, n, place)
		begun, n = begun+n, each
	}
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

// rounds returns how many iterations each dispatch of a loop runs, where it runs so many at most, and how many
// dispatches there are.
func (k *loopLowering) rounds(most int64) (each int64, rounds int) {
	if k.l.Length <= most {
		return k.l.Length, 1
	}
	return most, int(min((k.l.Length+most-1)/most, conditionalRounds))
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
