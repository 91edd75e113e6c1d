package gpucode

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// IterateOptions decide the form of a loop's program.
type IterateOptions struct {
	Workgroup int  // threads of a workgroup; each has a lane
	I64       bool // the device has 64-bit integers; otherwise I64 is computed in I32
}

// ChooseIterate picks the options of a loop.
func ChooseIterate(caps Caps) IterateOptions {
	const threads = 64 // loops have few lanes: small workgroups spread them over the device
	return IterateOptions{Workgroup: threads, I64: caps.I64}
}

// FromIterate makes the program of a loop whose values stay in registers: each thread runs all iterations of a lane.
func FromIterate(op *launch.Iterate, o IterateOptions) (*gpuir.Program, error) {
	f := op.Form
	k := &loopir.Kernel{Name: "loop", Outer: 1, Params: op.Parameters(), Bufs: op.Bufs, Exprs: f.Exprs}
	for i := range f.Ports {
		if f.Ports[i].Type == ir.F64 {
			return nil, fmt.Errorf("gpucode: loop: float64 is not supported")
		}
		k.Access = append(k.Access, loopir.Access{Buf: f.Ports[i].Buf, Offset: -1, Linear: true})
	}
	w := &iterateGen{gen: newGen(k, Options{Workgroup: o.Workgroup, I64: o.I64}), op: op}
	w.given = map[int]*gpuir.Node{}
	w.p.Groups = []gpuir.GroupFactor{{Params: []int{launch.IterateLanes}, Per: int64(o.Workgroup)}}
	id := w.let(gpuir.NAdd(gpuir.NMul(gpuir.NGroup(), gpuir.NInt(o.Workgroup)), gpuir.NLocal()))
	w.index[0] = id
	body := w.nested(w.lane)
	w.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(id, w.param(launch.IterateLanes)), Body: body})
	return w.p, nil
}

// iterateGen is the state of the generation of a loop.
type iterateGen struct {
	*gen
	op *launch.Iterate
}

// lane emits all iterations of a lane.
func (w *iterateGen) lane() {
	f := w.op.Form
	for i := range f.Ports {
		if p := &f.Ports[i]; !p.Carry && p.Place == 0 && w.reads(i) {
			w.given[i] = w.let(w.at(i, nil))
		}
	}
	vars := make([]int, len(f.Carries))
	for i, c := range f.Carries {
		vars[i], w.given[c.In] = w.variable(w.at(c.In, nil))
	}
	end, endVar := w.param(launch.IterateLength), -1
	going := func() *gpuir.Node { return w.given[f.Condition] }
	stop := func() *gpuir.Node { return gpuir.N(loopir.OpSelect, ir.I32, going(), end, gpuir.NInt(0)) }
	if f.Condition >= 0 {
		endVar, end = w.variable(stop())
	}
	w.loop(gpuir.NInt(0), end, gpuir.NInt(1), func(t *gpuir.Node) {
		place := t
		if w.op.Reverse {
			place = gpuir.NSub(gpuir.NSub(w.param(launch.IterateLength), gpuir.NInt(1)), t)
		}
		if f.Moves() {
			place = w.let(gpuir.NAdd(place, w.param(launch.IterateFirst)))
		}
		for i := range f.Ports {
			if p := &f.Ports[i]; p.Place != 0 && w.reads(i) {
				w.given[i] = w.let(w.at(i, place))
			}
		}
		w.step(place, vars)
		if f.Condition >= 0 {
			w.assign(endVar, stop())
		}
	})
	for _, c := range f.Carries {
		w.put(c.Out, nil, w.given[c.In])
	}
}

// step emits the stores of one iteration, and the carries of the next one.
func (w *iterateGen) step(place *gpuir.Node, vars []int) {
	for _, s := range w.op.Form.Stores {
		w.put(s.Port, place, w.expr(s.Val))
	}
	var next []*gpuir.Node
	for _, c := range w.op.Form.Carries {
		if c.Kept >= 0 {
			w.put(c.Kept, place, w.given[c.In])
		}
		v := w.expr(c.Next)
		if v.Op == gpuir.PVar { // perhaps of another carry, which changes before it is read
			v = w.copy(v)
		}
		next = append(next, v)
	}
	for i, v := range next {
		w.assign(vars[i], v)
	}
}

// copy names the value that a variable has now.
func (w *iterateGen) copy(n *gpuir.Node) *gpuir.Node {
	v := w.p.NewVar(n.Type, n.Width)
	w.emit(gpuir.Stmt{Op: gpuir.SLet, Var: v, A: n})
	return w.p.NVar(v)
}

// reads reports that an expression reads a port.
func (w *iterateGen) reads(port int) bool {
	for _, e := range w.op.Form.Exprs {
		if e.Op == loopir.OpLoad && int(e.Imm) == port {
			return true
		}
	}
	return false
}

// address is the element of a port at a place; nil: the port does not move.
func (w *iterateGen) address(port int, place *gpuir.Node) *gpuir.Node {
	p := &w.op.Form.Ports[port]
	n := gpuir.NAdd(gpuir.NInt(int(p.At)), gpuir.NMul(w.index[0], gpuir.NInt(int(p.Lane))))
	if p.Operand >= 0 {
		n = gpuir.NAdd(n, w.param(launch.IterateOffsets+p.Operand))
	}
	if place != nil {
		n = gpuir.NAdd(n, gpuir.NMul(place, gpuir.NInt(int(p.Place))))
	}
	return w.let(n)
}

// at loads the element of a port.
func (w *iterateGen) at(port int, place *gpuir.Node) *gpuir.Node {
	p := &w.op.Form.Ports[port]
	return gpuir.NLoad(p.Buf, w.typ(p.Type.ComputeType()), 1, w.address(port, place))
}

// put stores the element of a port. What all lanes share is stored by the first one.
func (w *iterateGen) put(port int, place, v *gpuir.Node) {
	p := &w.op.Form.Ports[port]
	body := w.nested(func() {
		w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: p.Buf, A: w.address(port, place), B: v})
	})
	if p.Lane != 0 {
		*w.out = append(*w.out, body...)
		return
	}
	w.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(w.index[0], gpuir.NInt(1)), Body: body})
}
