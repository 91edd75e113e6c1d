package autograd

import (
	"github.com/torchlette/torchlette/engine/op"
)

// Pull walks back from roots with the cotangents cots and returns the cotangents of edges, which the caller releases;
// Kind None if there is none. It runs inside of a call: the steps between have no hooks. With create it records what it
// does.
func (t *Tape) Pull(b Rules, roots, cots []op.Val, edges []uint32, create bool) ([]op.Val, error) {
	pending := t.pending
	t.pending = nil
	defer func() { t.pending = pending }()
	w := t.Begin(b, nil, roots, cots, Options{RetainGraph: true, CreateGraph: create, Inputs: edges})
	defer w.Close()
	if _, err := w.Next(op.Val{}); err != nil {
		return nil, err
	}
	found := append([]op.Val(nil), w.Results...)
	for i := range w.Results {
		w.Results[i] = op.Val{} // the caller's
	}
	return found, nil
}
