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
	sp     *space // batch dims, rows, dims of the columns
	rows   *space // dims of the rows of all matrices, columns
	depth  *space // dims of the depth
}

func (f *flattener) gemm(g *launch.Gemm, bufs []int, params []uint64) {
	if g.Sums != 0 || g.Prologue != nil {
		refuse("the body has a product in a form that is not scalar")
	}
	if e := g.Epilogue; e != nil && slices.ContainsFunc(e.Exprs, func(x loopir.Expr) bool {
		return x.Op == loopir.OpLinear || x.Op == loopir.OpIndex
	}) {
		refuse("the body has a product in a form that is not scalar")
	}
	r := &gemmRun{flattener: f, g: g, l: g.Layout(), bufs: bufs, params: params}
	columns, terms := r.l.NSize, r.l.KSize
	if len(terms) == 0 {
		columns, terms = []int{r.l.N}, []int{r.l.K}
	}
	r.sp = f.over(r.list(slices.Concat(r.l.Batch, []int{r.l.M}, columns)...))
	r.rows = f.over(r.list(append(slices.Clone(r.l.RowSize), r.l.N)...))
	r.depth = (&flattener{lanes: 1}).over(r.list(terms...))
	if r.depth.part == 0 {
		refuse("the body reduces empty dims")
	}
	for c := range r.sp.part {
		r.element(c)
	}
}

// list are the values of parameters.
func (r *gemmRun) list(params ...int) (list []int64) {
	for _, p := range params {
		list = append(list, r.param(p))
	}
	return list
}

func (r *gemmRun) param(p int) int64 { return int64(r.params[p]) }

// along returns strides over the space: those of the batch, over rows, and over the dims of the columns; without such
// strides n is the stride from column to column.
func (r *gemmRun) along(batch []int, m int64, dims []int, n int64) []int64 {
	list := append(r.list(batch...), m)
	if len(dims) > 0 {
		return append(list, r.list(dims...)...)
	}
	for _, t := range r.sp.trail[len(list):] {
		list = append(list, n*t)
	}
	return list
}

// columns returns strides over the space of what depends on the column alone.
func (r *gemmRun) columns(n int64) []int64 {
	list := make([]int64, len(r.sp.trail))
	for d := len(r.l.Batch) + 1; d < len(list); d++ {
		list[d] = n * r.sp.trail[d]
	}
	return list
}

// at is the byte of an operand at index c of a space, and the bytes to the next lane's.
func (s *space) at(strides []int64, offset, c int64, t ir.DType) (at, lane int64) {
	for d, i := range s.digits(c) {
		offset += i * strides[d]
	}
	size := int64(t.Size())
	return offset * size, s.lane(strides) * size
}

// term is the byte of term k of an operand, behind the first one.
func (r *gemmRun) term(dims []int, one int, k int64) int64 {
	strides := []int64{r.param(one)}
	if len(dims) > 0 {
		strides = r.list(dims...)
	}
	at, _ := r.depth.at(strides, 0, k, r.g.Type)
	return at
}

// element computes element c of the product, in the order of the depth.
func (r *gemmRun) element(c int64) {
	l, t, b := &r.l, r.g.Type, r.b
	r.count(int(2 * r.depth.part))
	x, xlane := r.sp.at(r.along(l.ABatch, r.param(l.AM), nil, 0), r.param(l.AOffset), c, t)
	y, ylane := r.sp.at(r.along(l.BBatch, 0, l.BNDim, r.param(l.BN)), r.param(l.BOffset), c, t)
	sum := -1
	for k := range r.depth.part {
		p := r.load(r.bufs[l.BufA], t, x+r.term(l.AKDim, l.AK, k), xlane)
		q := r.load(r.bufs[l.BufB], t, y+r.term(l.BKDim, l.BK, k), ylane)
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
		at, lane := r.sp.at(r.columns(r.param(l.BiasN)), r.param(l.BiasOffset), c, t)
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
		strides, offset = r.along(l.CBatch, r.param(l.CM), l.CNDim, r.param(l.CN)), r.param(l.COffset)
	}
	put := func(buf int, t ir.DType, v int) {
		at, lane := r.sp.at(strides, offset, c, t)
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
		sp, over, from := r.sp, strides, offset
		if v := &l.Views[i]; r.g.Viewed(i) {
			sp, over, from = r.rows, append(r.list(v.Rows...), r.param(v.N)), r.param(v.Offset)
			if len(l.RowSize) == 0 { // what depends on the column alone
				sp, over = r.sp, r.columns(r.param(v.N))
			}
		}
		ot := l.Bufs[buf].Type
		at, lane := sp.at(over, from, c, ot)
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
