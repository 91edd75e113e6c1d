package device

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// step runs a step on expressions.
func (f *flattener) step(s *Step) {
	params := s.Values(&Binding{Offsets: f.l.Offsets, Scalars: f.l.Scalars})
	switch op := s.Op.(type) {
	case *loopir.Kernel:
		f.kernel(op, s.Bufs, params)
	case *launch.Gemm:
		f.gemm(op, s.Bufs, params)
	case launch.Copy:
		f.copy(s.Bufs[0], s.Bufs[1], int64(params[0]), int64(params[1]), int64(params[2]))
	case launch.Fill:
		from, to := int64(params[0]), int64(params[0]+params[1])
		for at := range f.slots[s.Bufs[0]] {
			if at >= from && at < to {
				delete(f.slots[s.Bufs[0]], at)
			}
		}
		f.zeros[s.Bufs[0]] = append(f.zeros[s.Bufs[0]], [2]int64{from, to})
	default:
		refuse("the body has a step that is neither elementwise nor a small product: " + op.Label())
	}
}

// copy copies n bytes between slots.
func (f *flattener) copy(src, dst int, from, to, n int64) {
	if f.given(src) {
		t := f.l.Uses[f.wire(src).Buf].Type
		size := int64(t.Size())
		count, lane := n/size, int64(0)
		if f.lanes > 1 && count%f.lanes == 0 {
			count /= f.lanes
			lane = count * size
		}
		f.count(int(count))
		for i := range count {
			f.store(dst, t, to+i*size, lane, f.load(src, t, from+i*size, lane))
		}
		return
	}
	f.each(src, func(at int64, c cell) {
		if at >= from && at < from+n {
			f.store(dst, c.typ, at-from+to, c.lane, c.val)
		}
	})
}

// space is the outer index space of a step. Lanes are its outermost part.
type space struct {
	sizes []int64
	trail []int64 // by dim: the indices of the dims after it
	part  int64   // indices of one lane
	split bool    // lanes differ; else each of them computes the same
}

// over makes the space of a step. An index space that is no multiple of the lanes is computed by each lane.
func (f *flattener) over(sizes []int64) *space {
	s := &space{sizes: sizes, trail: make([]int64, len(sizes)), part: 1}
	for d, n := range slices.Backward(sizes) {
		s.trail[d] = s.part
		s.part *= n
	}
	if f.lanes > 1 && s.part%f.lanes == 0 {
		s.split = true
		s.part /= f.lanes
		for _, t := range s.trail {
			if t%s.part != 0 && s.part%t != 0 {
				refuse("an element needs other elements of a carry or value")
			}
		}
	}
	return s
}

// digits are the positions along the dims of index c of the first lane.
func (s *space) digits(c int64) []int64 {
	list := make([]int64, len(s.sizes))
	for d, t := range s.trail {
		list[d] = c / t % s.sizes[d]
	}
	return list
}

// lane is how far an address with these strides moves from a lane to the next one.
func (s *space) lane(strides []int64) int64 {
	if !s.split {
		return 0
	}
	// The dims of a lane's number have it as their index: a dim counts in steps of its trail.
	move, known := int64(0), false
	for d, t := range slices.Backward(s.trail) {
		switch {
		case s.sizes[d]*t <= s.part || s.sizes[d] == 1:
			continue
		case !known: // the innermost dim of the lanes, perhaps in part
			move, known = strides[d]*max(1, s.part/t), true
		case strides[d] != move*(t/s.part):
			refuse("an element needs other elements of a carry or value")
		}
	}
	return move
}

// kernelRun evaluates a kernel for the first lane.
type kernelRun struct {
	*flattener
	k      *loopir.Kernel
	bufs   []int
	params []uint64
	outer  *space
	inner  *space
	at, in int64   // numbers of the outer and the inner index
	index  []int64 // of the first lane
	over   bool    // the stage runs over the inner space
	vals   []int
	acc    []int
}

func sizesOf(params []uint64) []int64 {
	list := make([]int64, len(params))
	for i, p := range params {
		list[i] = int64(p)
	}
	return list
}

func (f *flattener) kernel(k *loopir.Kernel, bufs []int, params []uint64) {
	if k.Checks {
		refuse("the body checks data, such as indices")
	}
	r := &kernelRun{flattener: f, k: k, bufs: bufs, params: params, outer: f.over(sizesOf(params[:k.Outer])),
		vals: make([]int, len(k.Exprs))}
	r.inner = (&flattener{lanes: 1}).over(sizesOf(params[k.Outer : k.Outer+k.Inner]))
	n := 0
	live := make([][]bool, len(k.Stages))
	for s := range k.Stages {
		live[s] = k.Uses(&k.Stages[s])
		n += len(k.Stages[s].Accs)
	}
	r.acc = make([]int, n)
	for c := range r.outer.part {
		r.at = c
		first := 0
		for s := range k.Stages {
			r.stage(&k.Stages[s], live[s], first)
			first += len(k.Stages[s].Accs)
		}
	}
}

func (r *kernelRun) stage(s *loopir.Stage, live []bool, first int) {
	r.over = s.OverInner
	for i := range s.Accs {
		r.acc[first+i] = -1
	}
	n := int64(1)
	if s.OverInner {
		if n = r.inner.part; n == 0 {
			refuse("the body reduces empty dims")
		}
	}
	for j := range n {
		r.in = j
		r.index = append(r.outer.digits(r.at), r.inner.digits(j)...)
		r.count(len(r.k.Exprs))
		r.eval(live, false)
		for i := range s.Accs {
			r.accumulate(&s.Accs[i], first+i)
		}
		if s.Prefix {
			r.eval(live, true)
		}
		r.stores(s)
	}
}

func (r *kernelRun) stores(s *loopir.Stage) {
	type write struct {
		slot, val int
		t         ir.DType
		at, lane  int64
	}
	var list []write
	for i := range s.Stores {
		st := &s.Stores[i]
		w := write{slot: st.Buf, val: r.vals[st.Val]}
		if st.Access >= 0 {
			w.slot = r.k.Access[st.Access].Buf
			w.at, w.lane = r.address(&r.k.Access[st.Access])
		} else {
			w.at = r.number(r.vals[st.Index])
		}
		w.t = r.k.Bufs[w.slot].Type
		size := int64(w.t.Size())
		w.slot, w.at, w.lane = r.bufs[w.slot], w.at*size, w.lane*size
		if (w.lane == 0) == r.outer.split {
			refuse("an element needs other elements of a carry or value")
		}
		if st.Mode != loopir.Set {
			w.val = r.b.Bin(st.Mode.Op(), r.load(w.slot, w.t, w.at, w.lane), w.val)
		}
		if st.Guard >= 0 {
			w.val = r.b.Select(r.vals[st.Guard], w.val, r.load(w.slot, w.t, w.at, w.lane))
		}
		list = append(list, w)
	}
	for _, w := range list { // all values are read before any is written
		r.store(w.slot, w.t, w.at, w.lane, w.val)
	}
}

// number is the value of a constant expression.
func (r *kernelRun) number(e int) int64 {
	if x := r.b.Exprs()[e]; x.Op == loopir.OpConst {
		return int64(x.Imm)
	}
	refuse("the body gathers or scatters by computed indices")
	return 0
}

// address is the element of an access at the current index of the first lane, and the elements to the next lane's.
func (r *kernelRun) address(a *loopir.Access) (at, lane int64) {
	if a.Offset >= 0 {
		at = int64(r.params[a.Offset])
	}
	if a.Linear {
		n := int64(1)
		if r.over {
			n = r.inner.part
		}
		if r.outer.split {
			lane = r.outer.part * n
		}
		return at + r.at*n + r.in, lane
	}
	strides := make([]int64, len(a.Stride))
	for d, s := range a.Stride {
		switch s {
		case loopir.Broadcast:
		case loopir.Unit:
			strides[d] = 1
		default:
			strides[d] = int64(r.params[s])
		}
		if d < r.k.Outer || r.over {
			at += r.index[d] * strides[d]
		}
	}
	return at, r.outer.lane(strides[:r.k.Outer])
}

func (r *kernelRun) eval(live []bool, again bool) {
	for i, e := range r.k.Exprs {
		if !live[i] || again && (e.Op == loopir.OpLoad || e.Op == loopir.OpLoadAt) {
			continue
		}
		if e.Op.IsLeaf() {
			r.vals[i] = r.leaf(e)
			continue
		}
		for _, a := range [...]*int{&e.A, &e.B, &e.C} {
			if *a < 0 {
				continue
			}
			if *a = r.vals[*a]; *a < 0 { // depends on an accumulator that has not begun
				e.Op = loopir.OpInvalid
			}
		}
		r.vals[i] = -1
		if e.Op != loopir.OpInvalid {
			r.vals[i] = r.b.Again(e)
		}
	}
}

func (r *kernelRun) leaf(e loopir.Expr) int {
	b := r.b
	switch e.Op {
	case loopir.OpConst:
		return b.Bits(e.Type, e.Imm)
	case loopir.OpParam:
		v := r.params[e.Imm]
		if e.Type.Size() < 8 {
			v = uint64(uint32(v))
		}
		return b.Bits(e.Type, v)
	case loopir.OpIndex:
		d := int(e.Imm)
		if d < r.k.Outer {
			one := make([]int64, r.k.Outer)
			one[d] = 1
			return r.position(r.index[d], r.outer.lane(one))
		}
		return b.I64(r.index[d])
	case loopir.OpLinear:
		at, lane := r.address(&loopir.Access{Linear: true, Offset: -1})
		return r.position(at, lane)
	case loopir.OpAcc, loopir.OpAccRun:
		return r.acc[e.Imm]
	case loopir.OpLoad:
		a := &r.k.Access[e.Imm]
		at, lane := r.address(a)
		t := r.k.Bufs[a.Buf].Type
		size := int64(t.Size())
		return r.load(r.bufs[a.Buf], t, at*size, lane*size)
	case loopir.OpLoadAt:
		t := r.k.Bufs[e.Imm].Type
		return r.load(r.bufs[e.Imm], t, r.number(r.vals[e.A])*int64(t.Size()), 0)
	}
	refuse("the body finds the place of an extreme")
	return 0
}

// position is at + the lane's number * lane.
func (r *kernelRun) position(at, lane int64) int {
	if lane == 0 {
		return r.b.I64(at)
	}
	return r.b.Add(r.b.Mul(r.b.Index(0), r.b.I64(lane)), r.b.I64(at))
}

// accumulate adds the current value to accumulator n.
func (r *kernelRun) accumulate(a *loopir.Acc, n int) {
	b, v := r.b, r.vals[a.Val]
	x := r.k.Exprs[a.Val]
	switch {
	case a.Op.IsArg():
		refuse("the body finds the place of an extreme")
	case r.acc[n] < 0:
		r.acc[n] = v
	case a.Unrounded && x.Op == loopir.OpMul && x.Type.IsFloat():
		r.acc[n] = b.Fma(r.vals[x.A], r.vals[x.B], r.acc[n])
	default:
		r.acc[n] = b.Bin(a.Op.Op(), r.acc[n], v)
	}
}
