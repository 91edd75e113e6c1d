package compile

import (
	"math"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// groupThreads is the most threads of a workgroup that holds a loop.
const groupThreads = 256

// Costs that do not depend on the data, in operations of a thread.
const (
	stepWork   = 64   // of a step
	launchWork = 4000 // of a dispatch that waits for the one before
)

// grouping makes one launch of a loop on a GPU, which a workgroup runs with its values in workgroup memory.
type grouping struct {
	*unrolling
	op      *launch.GroupLoop
	numbers map[groupValue]int // of slots of op
	last    []int              // by slot of op: the last step that touches it
	read    []bool             // by slot of op: a step reads it
	written []bool             // by slot of op: a step so far has written it
	work    int64              // of an iteration, in operations of a thread
	most    int64              // iterations of a launch
	caps    *device.Caps
	results map[int]int // by slot of the body's plan: the result that is stored there
}

// groupValue is a slot of the body's plan with the dtype of what is in it.
type groupValue struct {
	slot int
	t    ir.DType
}

// newGrouping returns the reason why one workgroup cannot run the body's plan; "" if it can.
func (u *unrolling) newGrouping(dev ir.DeviceID) (g *grouping, reason string) {
	defer func() {
		if why, ok := recover().(refusal); ok {
			g, reason = nil, string(why)
		}
	}()
	g = &grouping{unrolling: u, numbers: map[groupValue]int{}, caps: u.b.Caps(dev), work: stepWork,
		op:      &launch.GroupLoop{Operands: u.op.Operands, Condition: -1, Reverse: u.l.Reverse, Drawn: u.op.Drawn},
		results: u.outputs(u.plan, u.body)}
	switch {
	case g.caps.MaxWorkgroupBytes == 0:
		refuse("the device has no workgroup memory")
	case u.plan.Repeats > 0:
		refuse("the body has a loop that repeats kernels")
	case len(g.results) != len(g.body.Results):
		refuse("the body does not compute a result")
	}
	for s := range u.steps() {
		g.step(s)
	}
	g.nested()
	g.carries()
	g.condition()
	g.buffers()
	g.place()
	g.bound()
	g.draws()
	return g, ""
}

// refusal is the reason why a body has no form.
type refusal string

func refuse(why string) { panic(refusal(why)) }

// step adds a step of the body's plan.
func (g *grouping) step(s *device.Step) {
	op, bufs, from := s.Op, s.Bufs, s.Params
	params := make([]uint64, len(s.Params))
	for i, q := range s.Params {
		params[i] = g.constant(q)
	}
	switch k := op.(type) {
	case *loopir.Kernel, *launch.Iterate:
	case *launch.GroupLoop:
		if k.Checks() || k.Drawn > 0 {
			refuse("a loop in the body draws, or checks data")
		}
	case *launch.Gemm:
		if k.KDims > 0 || k.NDims > 0 {
			refuse("the body has a convolution")
		}
		if k.Sums != 0 {
			plain := *k
			plain.Sums = 0
			g.add(&plain, bufs[:len(bufs)-1], params)
			g.drawn(&g.op.Steps[len(g.op.Steps)-1], from)
			op, bufs, params = summed(k, bufs, params)
			from = nil
		}
	case launch.Fill:
		op, params = g.fill(bufs[0], params)
		from = nil
	case launch.Copy:
		op, params = g.copied(bufs[0], bufs[1], params)
		from = nil
	default:
		refuse("the body has a step that is neither elementwise nor a small product: " + op.Label())
	}
	g.add(op, bufs, params)
	g.drawn(&g.op.Steps[len(g.op.Steps)-1], from)
	if st := &g.op.Steps[len(g.op.Steps)-1]; st.Checks() {
		st.Event = g.event(s)
	}
}

// drawn notes which parameters of a step are the loop's seed and Philox offset.
func (g *grouping) drawn(st *launch.GroupStep, from []device.Param) {
	for i, q := range from {
		if q.From != device.Scalar {
			continue
		}
		for _, d := range g.loopLowering.op.Draws {
			switch int(q.Index) {
			case d - 1:
				st.Seeds = append(st.Seeds, i)
			case d:
				st.Drawn = append(st.Drawn, i)
			}
		}
	}
}

// bound finds how many iterations one launch has at most. A device that ends loops counts those in an iteration, too.
func (g *grouping) bound() {
	if g.most = perDispatch(g.caps, g.work); g.caps.Iterations != nil {
		g.most = min(g.most, g.countable())
	}
	switch {
	case g.most < 1:
		refuse("the device ends the loops of an iteration")
	case !g.l.While && g.l.Length > g.most:
		refuse(tooLong)
	}
}

// countable is the most iterations of a launch whose loops the device does not end.
func (g *grouping) countable() int64 {
	params := make([]uint64, len(g.op.Parameters()))
	count := func(length uint64) int64 {
		params[launch.GroupLength] = length
		return g.caps.Iterations(g.op, params)
	}
	one := count(1)
	more := max(1, count(2)-one)
	return 1 + (g.caps.MaxIterations-one)/more
}

// draws bounds the Philox offsets of one launch, which are computed in 32 bits.
func (g *grouping) draws() {
	if g.op.Drawn > 0 && min(g.l.Length, g.most) > math.MaxInt32/2/g.op.Drawn {
		refuse("the loop draws too many numbers in one dispatch")
	}
}

// summed is the kernel that makes the sums of a product, with its buffers and parameters.
func summed(k *launch.Gemm, bufs []int, params []uint64) (launch.Op, []int, []uint64) {
	l := k.Layout()
	buf, list := l.BufA, []int{l.M, l.K, l.AM, l.AK, l.AOffset}
	if k.Sums == 'b' {
		buf, list = l.BufB, []int{l.N, l.K, l.BN, l.BK, l.BOffset}
	}
	b := loopir.NewBuilder("sums_"+k.Type.String(), 1, 1)
	x, y := b.Stride(), b.Stride()
	from := b.Access(b.Buf(k.Type, loopir.Read), b.Offset(), x, y)
	to := b.Linear(b.Buf(k.Type, loopir.Write), -1)
	b.Each()
	sum := b.Reduce(loopir.Sum, b.Load(from))
	b.Map()
	b.Store(to, b.Acc(sum))
	values := make([]uint64, len(list))
	for i, p := range list {
		values[i] = params[p]
	}
	return b.Kernel(), []int{bufs[buf], bufs[l.BufSums]}, values
}

// add adds a step over slots of the body's plan.
func (g *grouping) add(op launch.Op, bufs []int, params []uint64) {
	st := launch.GroupStep{Op: op, Params: params}
	for n, use := range op.Buffers() {
		if use.Access == loopir.Atomic {
			refuse("the body scatters")
		}
		v := g.value(bufs[n], use.Type)
		given, reads := g.op.Slots[v].In >= 0, use.Access != loopir.Write
		if given && use.Access != loopir.Read {
			refuse("the body writes an operand in place")
		}
		if reads && !given && !g.written[v] {
			refuse("the body reads a value as another dtype")
		}
		g.read[v], g.written[v] = g.read[v] || reads, g.written[v] || use.Access != loopir.Read
		g.last[v] = len(g.op.Steps)
		st.Slots = append(st.Slots, v)
	}
	c := op.Cost(params, &g.caps.Storage)
	if k, ok := op.(*launch.GroupLoop); ok {
		g.work += stepWork * int64(len(k.Steps)) * int64(params[launch.GroupLength])
	}
	if p, ok := op.(*launch.Gemm); ok && p.BUnit != 'n' && !st.ByElement() {
		const conflicts = 2 // neighbouring threads read columns that share banks of memory
		c.Flops *= conflicts
	}
	g.work += stepWork + (c.Flops+c.Bytes/4)/groupThreads
	g.op.Steps = append(g.op.Steps, st)
}

// constant is a parameter of the body's plan without where an operand begins.
func (g *grouping) constant(q device.Param) uint64 {
	switch q.From {
	case device.Offset:
		return q.Bits + uint64(g.body.Offsets[q.Index])
	case device.Scalar:
		return q.Bits + g.body.Scalars[q.Index]
	}
	return q.Bits
}

// typeOf is the dtype in which loop kernels and products use a slot of the body's plan.
func (g *grouping) typeOf(slot int) ir.DType {
	for s := range g.steps() {
		for n, b := range s.Bufs {
			if t := s.Op.Buffers()[n].Type; b == slot && t != ir.U8 {
				return t
			}
		}
	}
	refuse("the body copies bytes of no known dtype")
	return 0
}

// fill is a fill as a loop kernel, with its parameters.
func (g *grouping) fill(slot int, params []uint64) (op launch.Op, list []uint64) {
	t := g.typeOf(slot)
	b := loopir.NewBuilder("zero_"+t.String(), 1, 0)
	to := b.Linear(b.Buf(t, loopir.Write), b.Offset())
	b.Map()
	b.Store(to, b.Bits(t.ComputeType(), 0))
	width := uint64(g.caps.Storage[t])
	at := params[0] / width
	return b.Kernel(), []uint64{min(params[1]/width, g.behind(slot, t, at)), at}
}

// copied is a copy as a loop kernel, with its parameters.
func (g *grouping) copied(from, to int, params []uint64) (op launch.Op, list []uint64) {
	t := g.typeOf(from)
	b := loopir.NewBuilder("copy_"+t.String(), 1, 0)
	src, dst := b.Linear(b.Buf(t, loopir.Read), b.Offset()), b.Linear(b.Buf(t, loopir.Write), b.Offset())
	b.Map()
	b.Store(dst, b.Load(src))
	width := uint64(g.caps.Storage[t])
	at, put := params[0]/width, params[1]/width
	return b.Kernel(), []uint64{min(params[2]/width, g.behind(from, t, at), g.behind(to, t, put)), at, put}
}

// behind is the number of elements of a slot from one on. Fills and copies of bytes end at a word.
func (g *grouping) behind(slot int, t ir.DType, at uint64) uint64 {
	return uint64(g.op.Slots[g.value(slot, t)].Numel) - at
}

// value is the slot of the launch for a slot of the body's plan that is used in a dtype.
func (g *grouping) value(slot int, t ir.DType) int {
	key := groupValue{slot, t}
	if v, ok := g.numbers[key]; ok {
		return v
	}
	if slot >= len(g.plan.Slots) {
		refuse("the body has values without memory")
	}
	switch t {
	case ir.F32, ir.F16, ir.BF16, ir.I32, ir.I64, ir.Bool:
	default:
		refuse("a workgroup does not hold " + t.String())
	}
	s := &g.plan.Slots[slot]
	width := int64(g.caps.Storage[t])
	v := launch.GroupSlot{Type: t, Numel: (s.Bytes + width - 1) / width, Array: -1, In: -1, Next: -1, Out: -1, Kept: -1}
	var av *ir.Aval
	r, is := g.results[slot]
	switch {
	case s.Kind == External:
		av, v.In = ir.AvalOf(g.body.Inputs[s.Index].Aval), s.Index
		v.Carry = s.Index < g.l.Carries
		v.Moves = !v.Carry && s.Index < g.l.Carries+g.l.Xs
		if v.Carry && g.l.Keep {
			v.Kept = g.kept(s.Index)
		}
	case is:
		av, v.Out = g.body.Aval(g.body.Results[r].Value), g.loopLowering.result(r)
		if r < g.l.Carries {
			v.Turn = launch.New
		}
	}
	if av != nil {
		if v.Numel = av.Layout.Numel; av.DType != t {
			refuse("the body reads a value as another dtype")
		}
	}
	g.numbers[key] = len(g.op.Slots)
	g.op.Slots = append(g.op.Slots, v)
	g.last, g.read, g.written = append(g.last, -1), append(g.read, false), append(g.written, false)
	return g.numbers[key]
}

// carries connects the carries with their next values.
func (g *grouping) carries() {
	next := map[int]int{} // by carry: its next value
	for key, v := range g.numbers {
		if r, is := g.results[key.slot]; is && r < g.l.Carries && g.op.Slots[v].Turn == launch.New {
			next[r] = v
		}
	}
	if len(next) != g.l.Carries {
		refuse("the body does not compute a carry")
	}
	for i := range g.op.Slots {
		if s := &g.op.Slots[i]; s.Carry {
			s.Next, s.Turn = next[s.In], launch.Old
		}
	}
	for slot := range g.plan.Slots { // carries that no step reads are kept, or left as they are, all the same
		s := &g.plan.Slots[slot]
		if s.Kind != External || s.Index >= g.l.Carries || !g.l.Keep && !g.l.While {
			continue
		}
		t := ir.AvalOf(g.body.Inputs[s.Index].Aval).DType
		if _, ok := g.numbers[groupValue{slot, t}]; !ok {
			v := g.value(slot, t)
			g.op.Slots[v].Next, g.op.Slots[v].Turn = next[s.Index], launch.Old
		}
	}
}

// nested bounds the text of loops in the body, which drivers take seconds to compile where it is long.
func (g *grouping) nested() {
	const most = 4
	if n, loops := products(g.op); loops && n > most {
		refuse("a loop in the body has too many products")
	}
}

// products counts the products of a loop with those of loops in its body, and reports that it has such.
func products(op *launch.GroupLoop) (n int, loops bool) {
	for i := range op.Steps {
		switch k := op.Steps[i].Op.(type) {
		case *launch.Gemm:
			n++
		case *launch.GroupLoop:
			more, _ := products(k)
			n, loops = n+more, true
		}
	}
	return n, loops
}

// condition finds the slot of the carry that ends the loop. With one, all carries have slots, for what no iteration
// changes.
func (g *grouping) condition() {
	if !g.l.While {
		return
	}
	n := 0
	for i := range g.op.Slots {
		if s := &g.op.Slots[i]; s.Carry {
			n++
			if s.In == 0 {
				g.op.Condition = i
			}
		}
	}
	if n != g.l.Carries {
		refuse("the body uses a carry in several dtypes, or it has no memory")
	}
}

// buffers numbers the buffers of the launch: all operands, then what is written.
func (g *grouping) buffers() {
	for i := range g.op.Operands {
		g.op.Bufs = append(g.op.Bufs, loopir.Buf{Type: g.n.In[i].DType, Access: loopir.Read})
	}
	for i := range g.n.Out {
		g.op.Bufs = append(g.op.Bufs, loopir.Buf{Type: g.n.Out[i].DType, Access: loopir.Write})
	}
	if len(g.op.Bufs) > g.caps.MaxStorageBuffers {
		refuse("the loop has more operands and results than the device has storage buffers")
	}
	for i := range g.op.Slots {
		if s := &g.op.Slots[i]; !g.l.While && (s.Moves || s.Kept >= 0 || s.Out >= 0) && s.Numel > math.MaxInt32/g.l.Length {
			refuse("the loop has too many elements for 32-bit addresses")
		}
	}
}

// place gives values workgroup memory: carries, and what steps pass on; then, as far as there is room, what products
// read.
func (g *grouping) place() {
	g.threads()
	room := int64(g.caps.MaxWorkgroupBytes)
	for i := range g.op.Steps {
		room -= g.op.Steps[i].Scratch(g.op.Threads)
	}
	for i := range g.op.Slots {
		if s := &g.op.Slots[i]; s.Turn == launch.New {
			room -= g.array(s, true)
		}
	}
	for i := range g.op.Slots {
		if s := &g.op.Slots[i]; s.Carry {
			s.Array = g.op.Slots[s.Next].Array
		}
	}
	if room -= g.placeTemporaries(); room < 0 {
		refuse("the carries and temporaries do not fit the memory of a workgroup")
	}
	g.placeOperands(room)
}

// placeTemporaries gives arrays to what steps pass on, and returns the bytes of new ones.
func (g *grouping) placeTemporaries() (bytes int64) {
	ends := map[int]int{} // by array of temporaries: the last step that needs it
	for step := range g.op.Steps {
		for _, v := range g.op.Steps[step].Slots {
			s := &g.op.Slots[v]
			if s.Array >= 0 || s.In >= 0 || s.Out >= 0 && !g.read[v] {
				continue
			}
			if s.Array = g.free(s, step, ends); s.Array < 0 {
				bytes += g.array(s, false)
			}
			if ends[s.Array] = g.last[v]; s.Out >= 0 {
				ends[s.Array] = len(g.op.Steps)
			}
		}
	}
	return bytes
}

// placeOperands gives arrays to what products read from outside, as far as there is room.
func (g *grouping) placeOperands(room int64) {
	for i := range g.op.Steps {
		p, ok := g.op.Steps[i].Op.(*launch.Gemm)
		if !ok {
			continue
		}
		l := p.Layout()
		for _, b := range []int{l.BufA, l.BufB} {
			s := &g.op.Slots[g.op.Steps[i].Slots[b]]
			a := launch.GroupArray{Type: s.Type, Numel: s.Numel}
			if s.Array < 0 && s.In >= 0 && a.Bytes() <= room {
				room -= g.array(s, false)
			}
		}
	}
}

// array gives a slot a new array and returns its bytes.
func (g *grouping) array(s *launch.GroupSlot, two bool) int64 {
	a := launch.GroupArray{Type: s.Type, Numel: s.Numel, Two: two}
	s.Array = len(g.op.Arrays)
	g.op.Arrays = append(g.op.Arrays, a)
	return a.Bytes()
}

// free is an array that a slot can have from a step on, -1 for none.
func (g *grouping) free(s *launch.GroupSlot, step int, ends map[int]int) int {
	for n := range g.op.Arrays {
		end, ok := ends[n]
		if a := &g.op.Arrays[n]; ok && end < step && a.Type == s.Type && a.Numel >= s.Numel {
			return n
		}
	}
	return -1
}

// threads finds how many threads have something to do.
func (g *grouping) threads() {
	most := int64(1)
	for i := range g.op.Slots {
		most = max(most, g.op.Slots[i].Numel)
	}
	for g.op.Threads = 32; g.op.Threads < groupThreads && int64(g.op.Threads) < most; {
		g.op.Threads *= 2
	}
}

// pays reports that one workgroup is at least as fast as dispatches of all steps.
func (g *grouping) pays() bool { return g.work <= launchWork*int64(max(1, len(g.op.Steps))) }

// lower makes the launches.
func (g *grouping) lower() *lower.Result {
	s := &spread{res: &lower.Result{}, by: g.op.Drawn}
	if s.by != 0 {
		s.from = device.ScalarOf(1)
	}
	s.launch = func(n int64, first device.Param, offsets []device.Param) device.Step {
		st := device.Step{Op: g.op, Params: append([]device.Param{device.Const(n)}, offsets...)}
		if g.op.Drawn > 0 {
			st.Params = append(st.Params, device.ScalarOf(0), first)
		}
		return st
	}
	for b := range g.op.Bufs {
		s.bufs = append(s.bufs, b)
	}
	return g.dispatches(s, g.work, g.most)
}
