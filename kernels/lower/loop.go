package lower

import (
	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// part is one tensor's place in a loop nest: operand id (outputs follow the inputs) and
// its stride along each dim of the nest, before collapsing.
type part struct {
	id     int
	stride []int64
	add    int64 // constant added to the offset
	// scalar, when >= 0, is the scalar operand that holds the offset.
	scalar int
	buf    int
	atomic bool
}

// loop builds one kernel over a nest of outer and inner dims.
type loop struct {
	n      *Node
	b      *kir.Builder
	sizes  []int64
	outer  int
	parts  []part
	params []Param
	bufs   []int       // local buffers in kernel order
	bufNo  map[int]int // local buffer to kernel buffer
	scal   map[int]int
	access []int
	stride map[[2]int]int
}

// keepAll marks dims that must not be merged or dropped.
type nest struct {
	shape []int64
	split int    // dims before it are outer
	keep  []bool // nil: all may be merged
}

// strideOf gives an operand's or output's layout.
func (n *Node) layout(id int) *ir.Layout {
	if id < len(n.In) {
		return n.In[id].Layout
	}
	return n.Out[id-len(n.In)].Layout
}

func (n *Node) bufOf(id int) int {
	if id < len(n.In) {
		return n.In[id].Buf
	}
	return n.Out[id-len(n.In)].Buf
}

func (n *Node) dtype(id int) ir.DType {
	if id < len(n.In) {
		return n.In[id].DType
	}
	return n.Out[id-len(n.In)].DType
}

// out is the id of output k.
func (n *Node) out(k int) int { return len(n.In) + k }

// whole is the part of a tensor whose dims are the nest's.
func (n *Node) whole(id int) part {
	return part{id: id, stride: n.layout(id).Stride, scalar: -1, buf: n.bufOf(id)}
}

// newLoop collapses the nest jointly over the parts and declares sizes and buffers.
// With outputs among the parts a buffer that is also read becomes ReadWrite.
func newLoop(n *Node, name string, ns nest, parts []part) *loop {
	sizes, outer, cut := collapse(ns, parts)
	l := &loop{n: n, sizes: sizes, outer: outer, parts: cut, bufNo: map[int]int{}, scal: map[int]int{}, stride: map[[2]int]int{}}
	l.b = kir.NewBuilder(name, outer, len(sizes)-outer)
	for _, s := range sizes {
		l.params = append(l.params, Param{Kind: Constant, Value: s})
	}
	l.declare()
	for range l.parts {
		l.access = append(l.access, -1)
	}
	return l
}

// collapse drops dims of size 1 and merges neighbours that every part walks alike, in
// the outer and the inner group separately. An inner group keeps at least one dim.
func collapse(ns nest, parts []part) (sizes []int64, outer int, cut []part) {
	cut = make([]part, len(parts))
	copy(cut, parts)
	for i := range cut {
		cut[i].stride = nil
	}
	group := func(from, to int) int {
		start := len(sizes)
		for d := from; d < to; d++ {
			n := ns.shape[d]
			kept := ns.keep != nil && ns.keep[d]
			if n == 1 && !kept {
				continue
			}
			last := len(sizes) - 1
			merge := last >= start && !kept && !(ns.keep != nil && lastKept(ns, d))
			for i := range parts {
				if merge && cut[i].stride[last] != parts[i].stride[d]*n {
					merge = false
				}
			}
			if merge {
				sizes[last] *= n
				for i := range parts {
					cut[i].stride[last] = parts[i].stride[d]
				}
				continue
			}
			sizes = append(sizes, n)
			for i := range parts {
				cut[i].stride = append(cut[i].stride, parts[i].stride[d])
			}
		}
		return len(sizes) - start
	}
	outer = group(0, ns.split)
	if ns.split < len(ns.shape) && group(ns.split, len(ns.shape)) == 0 {
		sizes = append(sizes, 1)
		for i := range parts {
			cut[i].stride = append(cut[i].stride, 0)
		}
	}
	return sizes, outer, cut
}

// lastKept reports that the nearest earlier dim of size other than 1 is kept.
func lastKept(ns nest, d int) bool {
	for k := d - 1; k >= 0; k-- {
		if ns.keep[k] {
			return true
		}
		if ns.shape[k] != 1 {
			return false
		}
	}
	return false
}

// declare adds the buffers in order of first use.
func (l *loop) declare() {
	read, write, atomic := map[int]bool{}, map[int]bool{}, map[int]bool{}
	typ := map[int]ir.DType{}
	var order []int
	for _, p := range l.parts {
		if _, ok := typ[p.buf]; !ok {
			order = append(order, p.buf)
			typ[p.buf] = l.n.dtype(p.id)
		}
		switch {
		case p.atomic:
			atomic[p.buf] = true
		case p.id >= len(l.n.In):
			write[p.buf] = true
		default:
			read[p.buf] = true
		}
	}
	for _, lb := range order {
		a := kir.Read
		switch {
		case atomic[lb]:
			a = kir.Atomic
		case write[lb] && read[lb]:
			a = kir.ReadWrite
		case write[lb]:
			a = kir.Write
		}
		l.bufNo[lb] = l.b.Buf(typ[lb], a)
		l.bufs = append(l.bufs, lb)
	}
}

// constant adds a parameter that the builder has just declared.
func (l *loop) constant(p int, v int64) int {
	l.params = append(l.params, Param{Kind: Constant, Value: v})
	return p
}

// offset declares the offset parameter of part i, -1 for an output at 0.
func (l *loop) offset(i int) int {
	p := &l.parts[i]
	switch {
	case p.scalar >= 0:
		l.params = append(l.params, Param{Kind: ScalarOf, Index: p.scalar})
	case p.id >= len(l.n.In) && !l.n.Out[p.id-len(l.n.In)].Through && p.add == 0:
		return -1
	case p.id >= len(l.n.In) && !l.n.Out[p.id-len(l.n.In)].Through:
		l.params = append(l.params, Param{Kind: Constant, Value: p.add})
	default:
		l.params = append(l.params, Param{Kind: OffsetOf, Index: p.id, Value: p.add})
	}
	return l.b.Offset()
}

// at declares the affine access of part i.
func (l *loop) at(i int) int {
	if l.access[i] >= 0 {
		return l.access[i]
	}
	p := &l.parts[i]
	off := l.offset(i)
	if l.linear(p.stride) {
		l.access[i] = l.b.Linear(l.bufNo[p.buf], off)
		return l.access[i]
	}
	st := make([]int, len(l.sizes))
	for d := range l.sizes {
		switch s := p.stride[d]; s {
		case 0:
			st[d] = kir.Broadcast
		case 1:
			st[d] = kir.Unit
		default:
			st[d] = l.constant(l.b.Stride(), s)
		}
	}
	l.access[i] = l.b.Access(l.bufNo[p.buf], off, st...)
	return l.access[i]
}

// linear reports strides that are the nest's own row-major order.
func (l *loop) linear(stride []int64) bool {
	acc := int64(1)
	for d := len(l.sizes) - 1; d >= 0; d-- {
		if stride[d] != acc && l.sizes[d] != 1 {
			return false
		}
		acc *= l.sizes[d]
	}
	return true
}

// load reads part i.
func (l *loop) load(i int) int { return l.b.Load(l.at(i)) }

// store writes part i.
func (l *loop) store(i, val int) { l.b.Store(l.at(i), l.fit(i, val)) }

// fit converts a value to the compute type of part i.
func (l *loop) fit(i, val int) int {
	return l.b.Cast(l.n.dtype(l.parts[i].id).ComputeType(), val)
}

// scalar reads scalar operand j (counted among scalars) of type t.
func (l *loop) scalar(j int, t ir.DType) int {
	p, ok := l.scal[j]
	if !ok {
		p = l.b.Scalar(t)
		l.params = append(l.params, Param{Kind: ScalarOf, Index: j})
		l.scal[j] = p
	}
	return l.b.Param(p)
}

// size declares a size that is no dim of the nest.
func (l *loop) size(v int64) int { return l.b.Param(l.constant(l.b.Size(), v)) }

// element is the element number of part i at the present index, plus further terms.
func (l *loop) element(i int) int {
	p := &l.parts[i]
	e := -1
	add := func(x int) {
		if e < 0 {
			e = x
		} else {
			e = l.b.Add(e, x)
		}
	}
	if off := l.offset(i); off >= 0 {
		add(l.b.Param(off))
	}
	for d := range l.sizes {
		if p.stride[d] != 0 {
			add(l.b.Mul(l.b.Index(d), l.b.Param(l.constant(l.b.Stride(), p.stride[d]))))
		}
	}
	if e < 0 {
		return l.b.I64(0)
	}
	return e
}

// launch finishes the kernel.
func (l *loop) launch() Launch {
	return Launch{Kind: device.RunKernel, Kernel: l.b.Kernel(), Bufs: l.bufs, Params: l.params}
}

// one is the result of a single launch.
func (l *loop) one() (*Result, error) { return &Result{Launches: []Launch{l.launch()}}, nil }

// scalarIndex counts the scalar operands before input i.
func (n *Node) scalarIndex(i int) int {
	k := 0
	for j := 0; j < i; j++ {
		if n.In[j].Scalar {
			k++
		}
	}
	return k
}
