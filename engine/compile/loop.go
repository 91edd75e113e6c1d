package compile

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// isLoop reports that node i is a loop.
func (b *Builder) isLoop(i int) bool { return op.PrimID(b.Program.Nodes[i].Op) == prim.Known.Loop }

// loopLowering turns a loop into one launch that runs the plan of its body.
type loopLowering struct {
	b    *Builder
	n    *lower.Node
	l    *op.Loop
	body *program.Program
	plan *Plan
	op   *device.Loop
	bufs []int // of the launch: the node's local buffers, then temporaries
	res  lower.Result
}

// lowerLoop makes the launch of a node whose operands and results n describes.
func (b *Builder) lowerLoop(n *lower.Node) (*lower.Result, error) {
	k, err := b.newLoop(n)
	if err != nil {
		return nil, err
	}
	if dev := b.aval(b.lowering.at).Device; dev != ir.CPU {
		return k.onDevice(dev)
	}
	st := device.Step{Op: k.op, Bufs: k.bufs}
	for i := range k.n.In {
		if k.n.In[i].Scalar {
			st.Params = append(st.Params, device.ScalarOf(i-k.op.Operands))
		} else {
			st.Params = append(st.Params, device.OffsetOf(i))
		}
	}
	k.res.Launches = []device.Step{st}
	return &k.res, nil
}

// newLoop plans the body of a loop and wires its slots.
func (b *Builder) newLoop(n *lower.Node) (*loopLowering, error) {
	l := op.LoopOf(n.Attr)
	k := &loopLowering{b: b, n: n, l: l, body: l.Body().(*program.Program)}
	if err := k.checkDense(); err != nil {
		return nil, err
	}
	var err error
	if k.plan, err = k.planBody(ir.CPU); err != nil {
		return nil, err
	}
	k.op = &device.Loop{Slots: len(k.plan.Slots), Length: l.Length, Reverse: l.Reverse, While: l.While,
		Drawn: int64(k.body.Drawn), Offsets: k.body.Offsets, Scalars: k.body.Scalars}
	if len(k.plan.Segments) > 0 {
		k.op.Steps = slices.Clone(k.plan.Segments[0].Steps)
		for i := range k.op.Steps {
			k.op.Steps[i].Event = k.event(&k.op.Steps[i])
		}
	}
	k.op.Lanes = k.lanes()
	for _, d := range k.body.Draws {
		k.op.Draws = append(k.op.Draws, int(d.Scalar))
	}
	k.buffers()
	k.wire()
	return k, nil
}

// event is the number of a step of the body's plan in faults.
func (k *loopLowering) event(s *device.Step) uint32 { return k.body.Event(int(s.Event)-1) + s.Inner }

// lanes returns the sizes of the leading dims of the largest carry or result, the most dims first: counts of elements
// that may be independent.
func (k *loopLowering) lanes() (list []int64) {
	var largest []int64
	most := int64(1)
	for i := range k.body.Results {
		if av := k.body.Aval(k.body.Results[i].Value); av.Layout.Numel > most {
			largest, most = av.Shape(), av.Layout.Numel
		}
	}
	n := int64(1)
	for _, size := range largest {
		if n *= size; size > 1 {
			list = append(list, n)
		}
	}
	slices.Reverse(list)
	return list
}

// buildBody is Builder.Build, which reaches lowerLoop through the table of passes.
var buildBody func(*Builder) (*Plan, error)

func init() { buildBody = (*Builder).Build }

// planBody plans the body by itself, once for all iterations. On a GPU, where buffers have no addresses, operands lie
// behind offsets.
func (k *loopLowering) planBody(dev ir.DeviceID) (*Plan, error) {
	b := k.b
	nested := &Builder{Program: k.body, Caps: b.Caps, TileFuser: b.TileFuser, Lowered: b.Lowered,
		Debug: Debug{Off: b.Debug.Off}, Often: b.Often}
	if dev != ir.CPU {
		nested.Program, nested.Moving = k.body.On(dev), true
		nested.Often = nested.Often || k.l.Length >= oftenRun
	}
	plan, err := buildBody(nested)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(plan.Segments, func(s Segment) bool { return s.Transfer }) {
		return nil, ir.Errorf(ir.ErrNotImplemented,
			"the body of a loop moves tensors between devices: move them before the loop")
	}
	return plan, nil
}

// buffers lists the launch's buffers: operands, results, one spare buffer for each carry, and the body's temporaries.
func (k *loopLowering) buffers() {
	for i := range k.n.In {
		if o := &k.n.In[i]; !o.Scalar {
			k.buffer(o.DType, loopir.Read, o.Buf)
			k.op.Operands++
		}
	}
	for i := range k.n.Out {
		o := &k.n.Out[i]
		access := loopir.Write
		if i < k.l.Carries || i >= len(k.body.Results) {
			access = loopir.ReadWrite
		}
		k.buffer(o.DType, access, o.Buf)
	}
}

func (k *loopLowering) buffer(d ir.DType, access loopir.BufAccess, local int) int {
	k.op.Uses = append(k.op.Uses, loopir.Buf{Type: d, Access: access})
	k.bufs = append(k.bufs, local)
	return len(k.bufs) - 1
}

// temp adds a temporary of so many bytes.
func (k *loopLowering) temp(bytes int64) int {
	k.res.Temps = append(k.res.Temps, lower.Temp{DType: ir.U8, Numel: bytes})
	return k.buffer(ir.U8, loopir.ReadWrite, k.n.Bufs+len(k.res.Temps)-1)
}

// wire gives each slot of the body's plan its memory.
func (k *loopLowering) wire() {
	xs := k.l.Carries + k.l.Xs
	written := k.outputs(k.plan, k.body)
	for n := range k.plan.Slots {
		s := &k.plan.Slots[n]
		w := device.Wire{Operand: -1, Kept: -1, Spare: -1}
		switch s.Kind {
		case External:
			av := ir.AvalOf(k.body.Inputs[s.Index].Aval)
			w.Buf, w.Operand, w.Width, w.Bytes = s.Index, s.Index, av.DType.Size(), av.Bytes()
			switch {
			case s.Index < k.l.Carries:
				w.Route, w.Carry, w.Kept, w.Last = device.CarryIn, s.Index, k.kept(s.Index), k.result(s.Index)
			case s.Index < xs:
				w.Route = device.Advances
			}
		case Output:
			if r, ok := written[n]; ok {
				k.wireResult(&w, r)
				break
			}
			w.Buf = k.temp(s.Bytes)
		default:
			w.Buf = k.temp(s.Bytes)
		}
		k.op.Wires = append(k.op.Wires, w)
	}
}

// wireResult gives result r of the body its memory.
func (k *loopLowering) wireResult(w *device.Wire, r int) {
	w.Buf, w.Bytes = k.result(r), k.body.Aval(k.body.Results[r].Value).Bytes()
	if r >= k.l.Carries {
		w.Route = device.Advances
		return
	}
	w.Route, w.Carry, w.Kept = device.CarryOut, r, k.kept(r)
	if w.Kept < 0 && k.l.Length > 1 {
		w.Spare = k.temp(max(w.Bytes, 1))
	}
}

// result is the buffer of result r.
func (k *loopLowering) result(r int) int { return k.op.Operands + r }

// kept is the buffer that keeps carry i of all iterations, -1 for none.
func (k *loopLowering) kept(i int) int {
	if !k.l.Keep {
		return -1
	}
	return k.op.Operands + len(k.body.Results) + i
}

// outputs returns, by slot of a plan of the body, the result that is stored there.
func (k *loopLowering) outputs(plan *Plan, body *program.Program) map[int]int {
	written := map[int]int{}
	for _, p := range plan.Results {
		r := slices.IndexFunc(body.Results, func(r program.Result) bool { return r.Value == program.NodeRef(p.Local) })
		if r >= 0 {
			written[p.Slot] = r
		}
	}
	return written
}

// checkDense refuses operands that the launch cannot address. Recording makes them dense.
func (k *loopLowering) checkDense() error {
	for i := range k.n.In {
		if o := &k.n.In[i]; !o.Scalar && !o.Layout.Dense {
			return ir.Errorf(ir.ErrInternal, "BUG: operand %d of a loop is a view that is not dense", i)
		}
	}
	return nil
}
