package engine

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// savedSession is a saved program as a session records it: its forward function, on constants of its own.
type savedSession struct {
	p         *saved.Program
	f         *saved.Function
	constants []uint64
	device    ir.DeviceID
	precision ir.DType
}

// OpenSession opens a file of a saved program for inference.
func (e *Engine) OpenSession(path string, o SessionOptions) (id uint64, err *ir.Error) {
	program, err := e.OpenProgram(path)
	if err != nil {
		return 0, err
	}
	defer e.ForgetCaptured(program)
	e.mapProgram(program)
	p, err := e.ProgramOf(program)
	if err != nil {
		return 0, err
	}
	var hs []uint64
	defer func() { e.Release(hs) }()
	for i := range p.Constants {
		var out Out
		if err := e.ProgramConstant(program, i, &out); err != nil {
			return 0, err
		}
		hs = append(hs, out.Handle)
	}
	o.Sole = true
	return e.OpenSessionOf(program, hs, o)
}

// OpenSessionOf opens a session on an opened program, with tensors as its constants. They stay the caller's, and may
// change without effect on the session.
func (e *Engine) OpenSessionOf(program uint64, constants []uint64, o SessionOptions) (id uint64, err *ir.Error) {
	p, err := e.ProgramOf(program)
	if err != nil {
		return 0, err
	}
	x := &savedSession{p: p, f: p.Functions["forward"], device: o.Device, precision: o.Precision}
	switch {
	case x.f == nil:
		return 0, ir.Errorf(ir.ErrValue, "session: the program has no function \"forward\": it trains")
	case len(x.f.Supplied) > 0:
		return 0, ir.Errorf(ir.ErrNotImplemented, "session: the program computes with numbers that a call supplies")
	case len(constants) != len(p.Constants):
		return 0, ir.Errorf(ir.ErrValue, "session: got %d constants, want %d", len(constants), len(p.Constants))
	}
	s, err := e.newSession(x, o)
	if err == nil {
		err = s.inEngine(func() *ir.Error { return x.hold(e, constants) })
	}
	if err == nil {
		err = s.openState(x)
	}
	if err != nil {
		if s != nil {
			s.Close()
		}
		return 0, err
	}
	return e.sessions.add(s), nil
}

// hold makes tensors of the constants' values on the session's device. It moves one after the other, so that few pages
// of a file are in host memory.
func (x *savedSession) hold(e *Engine, constants []uint64) *ir.Error {
	vals, err := e.resolveAll(constants)
	if err != nil {
		return err
	}
	old := e.session.Taping(false)
	defer e.session.Taping(old)
	for _, v := range vals {
		from := v.Value
		if v.Tape, v.Base = 0, 0; v.Device() != x.device {
			v = prim.ToDevice(e.session, v, x.device)
		}
		h := e.session.Wrap(&v, nil)
		if x.constants = append(x.constants, h); x.device == ir.CPU {
			continue
		}
		if v, err = e.session.Resolve(h); err != nil {
			return err
		}
		// The original is not needed any more.
		if err := e.force(pendingOf(e, []uint32{v.Value}), e.session.PendingEffects()); err != nil {
			return err
		}
		if n := e.graph.Node(from); n.Op == ir.OpLeaf && n.Store != 0 && v.Value != from {
			e.runtime.Unload(n.Store, false)
		}
	}
	if x.device == ir.CPU {
		return nil
	}
	if err := e.runtime.Wait(); err != nil {
		return asError(err)
	}
	e.runtime.ReturnUnused() // the memory of uploads
	return nil
}

// ports implements sessionProgram.
func (x *savedSession) ports() (in, out []SessionPort) {
	for i := range x.f.Inputs {
		in = append(in, x.port(x.f.Inputs[i].Name, &x.f.Inputs[i]))
	}
	for _, o := range x.f.Outputs {
		out = append(out, x.port(o.Name, x.f.Value(o.ID)))
	}
	return in, out
}

func (x *savedSession) port(name string, v *saved.Value) SessionPort {
	q := SessionPort{Name: name, DType: v.DType}
	for _, size := range v.Shape {
		n, known := size.Constant()
		text := ""
		if !known {
			n, text = -1, size.String()
		}
		q.Shape, q.Dims = append(q.Shape, n), append(q.Dims, text)
	}
	return q
}

// example implements sessionProgram: each dim is as small as it may be, but at least 1.
func (x *savedSession) example() (shapes [][]int64, err *ir.Error) {
	var sizes []int64
	for _, d := range x.p.Dims {
		sizes = append(sizes, max(d.Min, 1))
	}
	for i := range x.f.Inputs {
		var shape []int64
		for _, size := range x.f.Inputs[i].Shape {
			n, err := size.Int(sizes)
			if err != nil {
				return nil, err
			}
			shape = append(shape, n)
		}
		shapes = append(shapes, shape)
	}
	return shapes, nil
}

// record implements sessionProgram. Constants that the function changes are arguments after its inputs, and results
// after its outputs: operators write to the arguments in place.
func (x *savedSession) record(e *Engine, args []uint64) (results []uint64, err *ir.Error) {
	constants := slices.Clone(x.constants)
	for i, k := range x.f.State {
		constants[k] = args[len(x.f.Inputs)+i]
	}
	r := &ProgramRun{Program: x.p, Function: x.f, Inputs: args[:len(x.f.Inputs)], Constants: constants, Evaluation: true,
		precision: x.precision}
	outs, err := e.runInside(r)
	for i := range outs {
		results = append(results, outs[i].Handle)
	}
	if err == nil {
		for _, k := range x.f.State {
			results = append(results, e.session.Dup(constants[k]))
		}
	}
	return results, err
}

// close implements sessionProgram.
func (x *savedSession) close(e *Engine) {
	for _, h := range x.constants {
		e.session.Release(h)
	}
	x.constants = nil
}
