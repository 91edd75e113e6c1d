package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// NewEpilogue begins a map that a product of dtype t may apply to its elements, with that many operands of dtype t. It
// returns the value of an element of C as a store has rounded it, the operands' values, and the function that stores
// the result and finishes the map.
func NewEpilogue(t ir.DType, operands int) (b *loopir.Builder, c int, x []int, finish func(v int) *loopir.Kernel) {
	b = loopir.NewBuilder("epilogue_"+t.String(), 1, 0)
	out := b.Linear(b.Buf(t, loopir.ReadWrite), -1)
	for range operands {
		x = append(x, b.Linear(b.Buf(t, loopir.Read), -1))
	}
	b.Map()
	c = b.Load(out)
	for i := range x {
		x[i] = b.Load(x[i])
	}
	return b, c, x, func(v int) *loopir.Kernel {
		b.Store(out, v)
		return b.Kernel()
	}
}

// CheckEpilogue reports an epilogue that does not have the form that [Gemm] requires.
func (g *Gemm) CheckEpilogue() error {
	k := g.Epilogue
	if k == nil {
		return nil
	}
	switch {
	case k.Outer != 1 || k.Inner != 0 || len(k.Params) != 1 || k.Checks,
		len(k.Stages) != 1 || len(k.Stages[0].Stores) != 1:
		return fmt.Errorf("gemm: epilogue %s is no map of one store over one dim", k.Name)
	case len(k.Bufs) == 0 || k.Bufs[0].Type != g.Type || k.Bufs[0].Access != loopir.ReadWrite:
		return fmt.Errorf("gemm: epilogue %s does not begin with a buffer of %v that is read and written", k.Name, g.Type)
	}
	for _, b := range k.Bufs[1:] {
		if b.Access != loopir.Read {
			return fmt.Errorf("gemm: epilogue %s writes an operand", k.Name)
		}
	}
	for _, a := range k.Access {
		if !a.Linear || a.Offset >= 0 {
			return fmt.Errorf("gemm: epilogue %s reads or writes other elements than its own", k.Name)
		}
	}
	for _, e := range k.Exprs {
		if e.Op == loopir.OpIndex || e.Op == loopir.OpLinear || e.Op == loopir.OpLoadAt {
			return fmt.Errorf("gemm: epilogue %s depends on where an element is", k.Name)
		}
	}
	if s := k.Stages[0].Stores[0]; s.Access < 0 || k.Access[s.Access].Buf != 0 || s.Guard >= 0 || s.Mode != loopir.Set {
		return fmt.Errorf("gemm: epilogue %s does not store C", k.Name)
	}
	return nil
}

// Plain is g without an epilogue. Choices that decide the order of additions are made for it, so that an epilogue
// changes no bit.
func (g *Gemm) Plain() *Gemm {
	if g.Epilogue == nil {
		return g
	}
	p := *g
	p.Epilogue = nil
	return &p
}
