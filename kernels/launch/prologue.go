package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// NewPrologue begins a kernel that works the rows of A before a product of dtype t multiplies them. A vector is an
// operand with one element for each column of A; vectors has the dtypes of these. NewPrologue returns the element of A
// and the elements v of the vectors. finish stores y in place of A's element and ends the kernel. The kernel's
// parameters are the number of rows, K, and further sizes and scalars. It may fold values over the row in stages before
// the last one.
func NewPrologue(t ir.DType, vectors ...ir.DType) (b *loopir.Builder, a int, v []int,
	finish func(y int) *loopir.Kernel) {
	b = loopir.NewBuilder("prologue_"+t.String(), 1, 1)
	a = b.Load(b.Linear(b.Buf(t, loopir.Read), -1))
	for _, d := range vectors {
		v = append(v, b.Load(b.Access(b.Buf(d, loopir.Read), -1, loopir.Broadcast, loopir.Unit)))
	}
	return b, a, v, func(y int) *loopir.Kernel {
		b.Each()
		b.Store(b.Linear(b.Buf(t, loopir.Write), -1), y)
		return b.Kernel()
	}
}

// CheckPrologue reports a prologue that does not have the form that [Gemm] requires.
func (g *Gemm) CheckPrologue() error {
	k := g.Prologue
	if k == nil {
		return nil
	}
	last := len(k.Stages) - 1
	switch {
	case g.KDims > 0 || g.Sums != 0:
		return fmt.Errorf("gemm: prologue of a product with %d dims of K, sums %q", g.KDims, g.Sums)
	case k.Outer != 1 || k.Inner != 1 || k.Checks || last < 0 || len(k.Bufs) < 2:
		return fmt.Errorf("gemm: prologue %s does not work rows", k.Name)
	}
	for _, p := range k.Params[2:] {
		if p.Kind != loopir.Size && p.Kind != loopir.Scalar {
			return fmt.Errorf("gemm: prologue %s has a stride or an offset", k.Name)
		}
	}
	for n, b := range k.Bufs {
		if out := n == len(k.Bufs)-1; out != (b.Access == loopir.Write) || (out || n == 0) && b.Type != g.Type {
			return fmt.Errorf("gemm: prologue %s: buffer %d is no row of A, vector or result", k.Name, n)
		}
	}
	for n, s := range k.Stages[:last] {
		if s.Prefix || len(s.Stores) > 0 {
			return fmt.Errorf("gemm: prologue %s stores, or shows sums, in stage %d", k.Name, n)
		}
	}
	if s := &k.Stages[last]; s.Prefix || !s.OverInner || len(s.Accs) > 0 || len(s.Stores) != 1 || s.Stores[0].Access < 0 ||
		s.Stores[0].Guard >= 0 {
		return fmt.Errorf("gemm: prologue %s does not store each element once, at last", k.Name)
	}
	return rowsOnly(k)
}

// rowsOnly reports a prologue that reads or writes other elements than those of a row and of vectors.
func rowsOnly(k *loopir.Kernel) error {
	for _, a := range k.Access {
		rows := a.Buf == 0 || a.Buf == len(k.Bufs)-1
		if a.Offset >= 0 || a.Linear != rows || !rows && (a.Stride[0] != loopir.Broadcast || a.Stride[1] != loopir.Unit) {
			return fmt.Errorf("gemm: prologue %s reads or writes other elements than those of a row", k.Name)
		}
	}
	for _, e := range k.Exprs {
		if e.Op == loopir.OpIndex || e.Op == loopir.OpLinear || e.Op == loopir.OpLoadAt {
			return fmt.Errorf("gemm: prologue %s depends on where an element is", k.Name)
		}
	}
	return nil
}

// layOutPrologue numbers the buffers and the parameters of the prologue.
func (g *Gemm) layOutPrologue(l *GemmLayout) {
	if g.Prologue == nil {
		return
	}
	k := g.Prologue
	for _, b := range k.Bufs[1 : len(k.Bufs)-1] {
		l.BufVectors = append(l.BufVectors, len(l.Bufs))
		l.Bufs = append(l.Bufs, b)
	}
	for _, p := range k.Params[2:] {
		l.RowParams = append(l.RowParams, len(l.Params))
		l.Params = append(l.Params, p)
	}
}

// workRows runs the prologue, if there is one: it returns params and bufs with a dense A that the prologue has made.
func (g *Gemm) workRows(l *GemmLayout, params []uint64, bufs [][]byte) ([]uint64, [][]byte, error) {
	if g.Prologue == nil {
		return params, bufs, nil
	}
	if err := g.CheckPrologue(); err != nil {
		return nil, nil, err
	}
	var sizes, rowStrides []uint64
	for i, p := range l.Batch {
		sizes, rowStrides = append(sizes, params[p]), append(rowStrides, params[l.ABatch[i]])
	}
	sizes, rowStrides = append(sizes, params[l.M]), append(rowStrides, params[l.AM])
	rows, depth := loopir.Count(sizes), int64(params[l.K])
	a, made := make([]byte, rows*depth*int64(g.Type.Size())), make([]byte, rows*depth*int64(g.Type.Size()))
	index := make([]int64, len(sizes))
	for r := range rows {
		loopir.Unravel(index, sizes, r)
		from := int64(params[l.AOffset])
		for i, n := range index {
			from += n * int64(rowStrides[i])
		}
		for k := range depth {
			at := from + k*int64(params[l.AK])
			if err := loopir.Inside(g.Type, bufs[l.BufA], at); err != nil {
				return nil, nil, fmt.Errorf("gemm: row %d of A: %w", r, err)
			}
			loopir.StoreBits(g.Type, a, r*depth+k, loopir.LoadBits(g.Type, bufs[l.BufA], at))
		}
	}
	own, used := []uint64{uint64(rows), uint64(depth)}, [][]byte{a}
	for _, p := range l.RowParams {
		own = append(own, params[p])
	}
	for _, b := range l.BufVectors {
		used = append(used, bufs[b])
	}
	if _, err := loopir.Interpret(g.Prologue, own, append(used, made)); err != nil {
		return nil, nil, fmt.Errorf("gemm: %w", err)
	}
	params, bufs = append([]uint64{}, params...), append([][]byte{}, bufs...)
	bufs[l.BufA], params[l.AOffset], params[l.AM], params[l.AK] = made, 0, uint64(depth), 1
	step := depth * int64(params[l.M])
	for i := len(l.ABatch) - 1; i >= 0; i-- {
		params[l.ABatch[i]] = uint64(step)
		step *= int64(sizes[i])
	}
	return params, bufs, nil
}
