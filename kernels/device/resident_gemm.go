package device

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// gemmRun evaluates a product for the first lane.
type gemmRun struct {
	*flattener
	g      *launch.Gemm
	l      launch.GemmLayout
	bufs   []int
	params []uint64
	sp     *space // batch dims, rows, columns
}

func (f *flattener) gemm(g *launch.Gemm, bufs []int, params []uint64) {
	if g.Sums != 0 || g.KDims > 0 || g.RowDims > 0 {
		refuse("the body has a product in a form that is not scalar")
	}
	if e := g.Epilogue; e != nil && slices.ContainsFunc(e.Exprs, func(x loopir.Expr) bool {
		return x.Op == loopir.OpLinear || x.Op == loopir.OpIndex
	}) {
		refuse("the body has a product in a form that is not scalar")
	}
	r := &gemmRun{flattener: f, g: g, l: g.Layout(), bufs: bufs, params: params}
	var sizes []int64
	for _, p := range append(slices.Clone(r.l.Batch), r.l.M, r.l.N) {
		sizes = append(sizes, r.param(p))
	}
	r.sp = f.over(sizes)
	for c := range r.sp.part {
		r.element(c)
	}
}

func (r *gemmRun) param(p int) int64 { return int64(r.params[p]) }

// along returns strides over the space: those of the batch, and over rows and columns.
func (r *gemmRun) along(batch []int, m, n int64) []int64 {
	var list []int64
	for _, p := range batch {
		list = append(list, r.param(p))
	}
	return append(list, m, n)
}

// at is the byte of an operand at index c, and the bytes to the next lane's.
func (r *gemmRun) at(strides []int64, offset, c int64, t ir.DType) (at, lane int64) {
	for d, i := range r.sp.digits(c) {
		offset += i * strides[d]
	}
	size := int64(t.Size())
	return offset * size, r.sp.lane(strides) * size
}

// element computes element c of the product, in the order of the depth.
func (r *gemmRun) element(c int64) {
	l, t, b := &r.l, r.g.Type, r.b
	size := int64(t.Size())
	depth := r.param(l.K)
	if depth == 0 {
		refuse("the body reduces empty dims")
	}
	r.count(int(2 * depth))
	x, xlane := r.at(r.along(l.ABatch, r.param(l.AM), 0), r.param(l.AOffset), c, t)
	y, ylane := r.at(r.along(l.BBatch, 0, r.param(l.BN)), r.param(l.BOffset), c, t)
	sum := -1
	for k := range depth {
		p := r.load(r.bufs[l.BufA], t, x+k*r.param(l.AK)*size, xlane)
		q := r.load(r.bufs[l.BufB], t, y+k*r.param(l.BK)*size, ylane)
		switch {
		case sum < 0:
			sum = b.Mul(p, q)
		case t.IsFloat():
			sum = b.Fma(p, q, sum)
		default:
			sum = b.Add(sum, b.Mul(p, q))
		}
	}
	if r.g.Bias {
		over := make([]int64, len(r.sp.sizes))
		over[len(over)-1] = r.param(l.BiasN)
		at, lane := r.at(over, r.param(l.BiasOffset), c, t)
		sum = b.Add(sum, r.load(r.bufs[l.BufBias], t, at, lane))
	}
	r.finishElement(c, sum)
}

// finishElement applies the epilogue to a sum, and stores the results.
func (r *gemmRun) finishElement(c int64, sum int) {
	l, t := &r.l, r.g.Type
	dense := make([]int64, len(r.sp.sizes))
	copy(dense, r.sp.trail)
	strides, offset := dense, int64(0)
	if r.g.CStrided {
		strides, offset = r.along(l.CBatch, r.param(l.CM), r.param(l.CN)), r.param(l.COffset)
	}
	put := func(buf int, t ir.DType, v int) {
		at, lane := r.at(strides, offset, c, t)
		if (lane == 0) == r.sp.split {
			refuse("an element needs other elements of a carry or value")
		}
		r.store(r.bufs[buf], t, at, lane, v)
	}
	if r.g.Epilogue == nil {
		put(l.BufC, t, sum)
		return
	}
	vals := []int{r.wrapped(t, sum)}
	for i, buf := range l.BufOperands {
		over, from := strides, offset
		if v := &l.Views[i]; r.g.Viewed(i) {
			over, from = make([]int64, len(dense)), r.param(v.Offset)
			over[len(dense)-1] = r.param(v.N)
		}
		ot := l.Bufs[buf].Type
		at, lane := r.at(over, from, c, ot)
		vals = append(vals, r.load(r.bufs[buf], ot, at, lane))
	}
	for range l.BufResults {
		vals = append(vals, -1)
	}
	var scalars []int
	for i, p := range l.Scalars {
		scalars = append(scalars, r.b.Bits(r.g.Epilogue.Params[1+i].Type, r.params[p]))
	}
	outs := append([]int{l.BufC}, l.BufResults...)
	for i, v := range r.g.Epilogue.Inline(r.b, vals, scalars) {
		put(outs[i], l.Bufs[outs[i]].Type, v)
	}
}
