package launch

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// NewEpilogue begins a map that a product of dtype t may apply to its elements, with operands of these dtypes. It
// returns the value of an element of C as a store has rounded it, the operands' values, and the function that stores v
// to C and the further results, and finishes the map. The map may have scalars; its first parameter is the number of
// elements.
func NewEpilogue(t ir.DType, operands ...ir.DType) (b *loopir.Builder, c int, x []int,
	finish func(v int, further ...Result) *loopir.Kernel) {
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
	return b, c, x, func(v int, further ...Result) *loopir.Kernel {
		b.Store(out, v)
		for _, r := range further {
			b.Store(b.Linear(b.Buf(r.Type, loopir.Write), -1), r.Value)
		}
		return b.Kernel()
	}
}

// Result is a further result of an epilogue.
type Result struct {
	Type  ir.DType
	Value int
}

// Viewed reports that operand o of the epilogue is read by strides.
func (g *Gemm) Viewed(o int) bool { return o < len(g.Views) && g.Views[o] != 'c' }

// CheckEpilogue reports an epilogue that does not have the form that [Gemm] requires.
func (g *Gemm) CheckEpilogue() error {
	k := g.Epilogue
	if k == nil {
		return nil
	}
	switch {
	case k.Outer != 1 || k.Inner != 0 || k.Checks || !scalars(k.Params[1:]),
		len(k.Stages) != 1 || len(k.Stages[0].Stores) == 0:
		return fmt.Errorf("gemm: epilogue %s is no map over one dim", k.Name)
	case len(k.Bufs) == 0 || k.Bufs[0].Type != g.Type || k.Bufs[0].Access != loopir.ReadWrite:
		return fmt.Errorf("gemm: epilogue %s does not begin with a buffer of %v that is read and written", k.Name, g.Type)
	}
	results := len(k.Bufs) - len(k.Stages[0].Stores) // the number of C and of the operands, less 1
	for n, b := range k.Bufs[1:] {
		if b.Access == loopir.ReadWrite || (b.Access == loopir.Read) != (n < results) {
			return fmt.Errorf("gemm: epilogue %s writes an operand, or stores a result more or less than once", k.Name)
		}
	}
	if g.RowDims > MaxRowDims || len(g.Views) > results {
		return fmt.Errorf("gemm: views %q in %d dims for %d operands", g.Views, g.RowDims, results)
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
	return storesInOrder(k, results)
}

// storesInOrder reports a map that does not store C and then each buffer after the operands, of which there are n.
func storesInOrder(k *loopir.Kernel, n int) error {
	for i, s := range k.Stages[0].Stores {
		buf := 0
		if i > 0 {
			buf = n + i
		}
		if s.Access < 0 || k.Access[s.Access].Buf != buf || s.Guard >= 0 || s.Mode != loopir.Set {
			return fmt.Errorf("gemm: epilogue %s does not store C and then each further result", k.Name)
		}
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

// Plain is g without an epilogue and a prologue. Choices that decide the order of additions are made for it, so that an
// epilogue changes no bit.
func (g *Gemm) Plain() *Gemm {
	if g.Epilogue == nil && g.Prologue == nil {
		return g
	}
	p := *g
	p.Epilogue, p.Views, p.RowDims, p.Prologue = nil, "", 0, nil
	return &p
}

// elements finishes the elements of C.
type elements struct {
	g      *Gemm
	l      *GemmLayout
	params []uint64
	bufs   [][]byte
	own    [][]byte // the buffers of the epilogue; those read by views are scratch, laid out as C
	scalar []uint64
}

// element is an element of C: where it lies, its row in all matrices of the batch, and its column.
type element struct{ c, row, col int64 }

func newElements(g *Gemm, l *GemmLayout, params []uint64, bufs [][]byte) *elements {
	e := &elements{g: g, l: l, params: params, bufs: bufs, own: [][]byte{bufs[l.BufC]}, scalar: []uint64{0}}
	for o, b := range l.BufOperands {
		if g.Viewed(o) {
			count := len(bufs[l.BufC]) / g.Type.Size()
			e.own = append(e.own, make([]byte, count*l.Bufs[b].Type.Size()))
		} else {
			e.own = append(e.own, bufs[b])
		}
	}
	for _, b := range l.BufResults {
		e.own = append(e.own, bufs[b])
	}
	for _, p := range l.Scalars {
		e.scalar = append(e.scalar, params[p])
	}
	return e
}

// finish applies the epilogue to an element.
func (e *elements) finish(at element) error {
	if e.g.Epilogue == nil {
		return nil
	}
	for o, b := range e.l.BufOperands {
		if v := &e.l.Views[o]; e.g.Viewed(o) {
			from := int64(e.params[v.Offset]) + at.col*int64(e.params[v.N])
			if e.g.RowDims > 0 {
				from += along(e.params, e.l.RowSize, v.Rows, -1, at.row)
			}
			t := e.l.Bufs[b].Type
			if err := loopir.Inside(t, e.bufs[b], from); err != nil {
				return fmt.Errorf("operand %d: %w", o, err)
			}
			loopir.StoreBits(t, e.own[1+o], at.c, loopir.LoadBits(t, e.bufs[b], from))
		}
	}
	e.scalar[0] = uint64(at.c + 1)
	_, err := loopir.InterpretPart(e.g.Epilogue, e.scalar, e.own, at.c, at.c+1)
	return err
}
