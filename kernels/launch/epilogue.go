package launch

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// NewEpilogue begins a map that a product of dtype t may apply to its elements, with operands of these dtypes. It
// returns the value of an element of C as a store has rounded it, the operands' values, and the function that stores
// the result and finishes the map. The map may have scalars; its first parameter is the number of elements.
func NewEpilogue(t ir.DType, operands ...ir.DType) (b *loopir.Builder, c int, x []int,
	finish func(v int) *loopir.Kernel) {
	b = loopir.NewBuilder("epilogue_"+t.String(), 1, 0)
	out := b.Linear(b.Buf(t, loopir.ReadWrite), -1)
	for _, d := range operands {
		x = append(x, b.Linear(b.Buf(d, loopir.Read), -1))
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
	case k.Outer != 1 || k.Inner != 0 || k.Checks || !scalars(k.Params[1:]),
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
		if e.Op == loopir.OpIndex || e.Op == loopir.OpLoadAt || e.Op == loopir.OpLinear && g.CStrided {
			return fmt.Errorf("gemm: epilogue %s depends on where an element is", k.Name)
		}
	}
	if s := k.Stages[0].Stores[0]; s.Access < 0 || k.Access[s.Access].Buf != 0 || s.Guard >= 0 || s.Mode != loopir.Set {
		return fmt.Errorf("gemm: epilogue %s does not store C", k.Name)
	}
	return nil
}

// Numbered reports a map that depends on the number of its element, as dropout does.
func Numbered(k *loopir.Kernel) bool {
	return k != nil && slices.ContainsFunc(k.Exprs, func(e loopir.Expr) bool { return e.Op == loopir.OpLinear })
}

func scalars(list []loopir.Param) bool {
	return !slices.ContainsFunc(list, func(p loopir.Param) bool { return p.Kind != loopir.Scalar })
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
