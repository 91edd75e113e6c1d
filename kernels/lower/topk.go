package lower

import (
	"math"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

func init() { register(map[string]lowering{"topk": lowerTopk}) }

// topkChunk is how many elements one kernel picks: its text grows with it.
const topkChunk = 16

// lowerTopk picks one element a stage: the first, in the order (key, index), after
// the one picked before. Keys sort NaN above all; equal keys sort by index, and a NaN's
// index is moved out of the range of the others, so that no key is NaN. A launch picks
// up to topkChunk elements and the next one reads where it stopped.
func lowerTopk(p *program) {
	count := p.n.Attr[0]
	if len(p.n.In[0].Layout.Shape) == 0 {
		count = 1 // a 0-dim tensor is its own choice, whatever k
	}
	x, values, indices := p.in(0).raise(), p.out(0).raise(), p.out(1).raise()
	if ir.Numel(values.shape) == 0 {
		return
	}
	for from := int64(0); from < count; from += topkChunk {
		p.pick(x, values, indices, from, min(from+topkChunk, count))
	}
}

// picker builds the stages of one chunk.
type picker struct {
	k         *kernel
	t         ir.DType // type of keys
	n         int      // size of the dim
	largest   bool
	isFloat   bool
	lowest    int // the key of elements that are out
	lastX     int // those of the element picked last; -1 at first
	lastPlace int
}

func (p *program) pick(x, values, indices *arg, from, to int64) {
	d := wrap(p.n.Attr[1], len(x.shape))
	s := along([]int64{int64(d)}, x.shape)
	step := func(a *arg) (clone *arg, stride int64) {
		c := *a
		stride = c.stride[d]
		c.computed, c.once = true, true
		c.over(concat(append(append([]int64{}, c.stride[:d]...), c.stride[d+1:]...), []int64{0}))
		return &c, stride
	}
	src := *x
	v, vStep := step(values)
	ix, iStep := step(indices)
	at := *x
	at.computed = true
	atStride := at.stride[d]
	at.over(concat(append(append([]int64{}, x.stride[:d]...), x.stride[d+1:]...), []int64{0}))
	if from > 0 {
		ix.use = reads | writes
	}
	k := p.kernel("topk_"+x.dtype.String(), s.outer, s.inner, 0, s.full(&src), &at, v, ix)
	xStride, vStride, iStride := k.size(atStride), k.size(vStep), k.size(iStep)
	first := k.number(from)
	element := func(place int) int {
		return k.LoadAt(at.kbuf, k.Add(k.address(&at), k.Mul(place, xStride)))
	}
	q := newPicker(k, x.dtype, p.n.Attr[2] != 0, k.size(s.count()))
	if from > 0 {
		last := k.LoadAt(ix.kbuf, k.Add(k.address(ix), k.Mul(k.Sub(first, k.I64(1)), iStride)))
		q.lastX, q.lastPlace = q.key(element(last), last)
	}
	var places []int
	for j := from; j < to; j++ {
		k.Each()
		places = append(places, q.next(k.load(&src)))
	}
	k.Map()
	for j, place := range places {
		row := k.Add(first, k.I64(int64(j)))
		k.StoreAt(-1, v.kbuf, k.Add(k.address(v), k.Mul(row, vStride)), element(place), kir.Set)
		k.StoreAt(-1, ix.kbuf, k.Add(k.address(ix), k.Mul(row, iStride)), place, kir.Set)
	}
	k.launch()
}

func newPicker(k *kernel, d ir.DType, largest bool, n int) *picker {
	q := &picker{k: k, t: d.ComputeType(), n: n, largest: largest, isFloat: d.IsFloat(), lastX: -1}
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	switch q.t {
	case ir.Bool:
		q.t, low, high = ir.I32, math.MinInt32, math.MaxInt32
	case ir.I32:
		low, high = math.MinInt32, math.MaxInt32
	case ir.U32:
		low, high = 0, math.MaxUint32
	}
	switch {
	case q.isFloat && largest:
		q.lowest = k.Float(q.t, math.Inf(-1))
	case q.isFloat:
		q.lowest = k.Float(q.t, math.Inf(1))
	case largest:
		q.lowest = k.Int(q.t, low)
	default:
		q.lowest = k.Int(q.t, high)
	}
	return q
}

// key gives the sort key and place of element number i. A NaN counts as +inf: before
// real infinities among the largest (place i-n), after them among the smallest (i+n).
func (q *picker) key(x, i int) (key, place int) {
	k := q.k
	if !q.isFloat {
		return k.Cast(q.t, x), i
	}
	moved := k.Sub(i, q.n)
	if !q.largest {
		moved = k.Add(i, q.n)
	}
	nan := k.Un(kir.OpIsNaN, x)
	return k.Select(nan, k.Float(q.t, math.Inf(1)), x), k.Select(nan, moved, i)
}

// next adds the accumulator of one pick and gives the index it picks.
func (q *picker) next(x int) int {
	k := q.k
	key, place := q.key(x, k.Index(k.outer))
	op := kir.ArgMin
	worse := k.Gt
	if q.largest {
		op, worse = kir.ArgMax, k.Lt
	}
	if q.lastX >= 0 {
		after := k.Or(worse(key, q.lastX), k.And(k.Eq(key, q.lastX), k.Gt(place, q.lastPlace)))
		out := k.Mul(q.n, k.I64(3)) // beyond every place, so that a real element of that key wins
		key, place = k.Select(after, key, q.lowest), k.Select(after, place, out)
	}
	acc := k.ReduceIdx(op, key, place)
	q.lastX, q.lastPlace = k.Acc(acc), k.AccIdx(acc)
	if !q.isFloat {
		return q.lastPlace
	}
	i := k.Select(k.Lt(q.lastPlace, k.I64(0)), k.Add(q.lastPlace, q.n), q.lastPlace)
	return k.Select(k.Ge(i, q.n), k.Sub(i, q.n), i)
}
