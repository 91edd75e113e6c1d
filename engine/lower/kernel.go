package lower

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// program collects the launches of one node.
type program struct {
	n      *Node
	res    Result
	scalar []int // by operand: its number among the scalar operands
}

// use says what a kernel does with an argument.
type use uint8

const (
	reads    use = 1 << iota
	writes       // plain stores
	combines     // atomic stores that combine with the old value
)

// arg is a tensor argument of a kernel that is being built.
type arg struct {
	dtype  ir.DType
	shape  []int64
	stride []int64      // of the dims of shape; over replaces it by strides of the kernel's dims
	buf    int          // local buffer
	offset device.Param // Constant 0 needs no parameter
	use    use
	// once: used in stages that run once for each outer index; its inner strides are 0.
	once bool
	// strided: used in stages of both kinds, so that it has no row-major number.
	strided bool
	// computed: addressed by expressions (see address) and not by an access.
	computed bool
	// at is the number of elements by which the argument moves in a step of a series (see launchAt); nil: it stays.
	at func(step int64) int64

	access   int
	kbuf     int
	linear   bool
	offParam int   // parameter number, -1: none
	params   []int // by collapsed dim: a loop IR stride (parameter number, Unit or Broadcast)
}

// in makes an argument of operand i.
func (p *program) in(i int) *arg {
	o := &p.n.In[i]
	return &arg{dtype: o.DType, shape: o.Layout.Shape, stride: o.Layout.Stride, buf: o.Buf, offset: device.OffsetOf(i),
		use: reads}
}

// out makes an argument of output k.
func (p *program) out(k int) *arg {
	o := &p.n.Out[k]
	a := &arg{dtype: o.DType, shape: o.Layout.Shape, stride: o.Layout.Stride, buf: o.Buf, use: writes}
	if o.Through {
		a.offset = device.OffsetOf(len(p.n.In) + k)
	}
	return a
}

// temp makes a dense temporary.
func (p *program) temp(d ir.DType, shape []int64) *arg {
	p.res.Temps = append(p.res.Temps, Temp{DType: d, Numel: ir.Numel(shape)})
	return &arg{dtype: d, shape: shape, stride: ir.DenseStrides(shape), buf: p.n.Bufs + len(p.res.Temps) - 1, use: writes}
}

// over gives an argument the strides of the kernel's dims.
func (a *arg) over(stride []int64) *arg { a.stride = stride; return a }

// kernel is a loop IR kernel under construction, with the launch's parameters.
type kernel struct {
	*loopir.Builder
	p      *program
	outer  int
	params []device.Param
	bufs   []int
	moves  []offsetStep
	body   ir.DType // of the operands of the elementwise primitive whose body is being built
	// inner: the last stage begun visits the inner space. mapped: some stage runs once for each outer index. onePass:
	// there is one stage over the inner space.
	inner, mapped, onePass bool
}

// offsetStep says how an offset parameter changes from step to step of a series.
type offsetStep struct {
	param int
	at    func(step int64) int64
}

// kernel begins a kernel over outer and inner dims. The strides of args cover the outer dims, then the inner dims. Dims
// that every argument can merge are merged, except the last `fixed` outer dims, so that the text depends on as little
// as possible.
func (p *program) kernel(name string, outer, inner []int64, fixed int, args ...*arg) *kernel {
	no := len(outer)
	so, si := make([][]int64, len(args)), make([][]int64, len(args))
	for i, a := range args {
		so[i], si[i] = a.stride[:no], a.stride[no:]
	}
	outer, so = collapse(outer, so, fixed)
	if len(inner) > 0 {
		inner, si = collapse(inner, si, 0)
	}
	k := &kernel{Builder: loopir.NewBuilder(name, len(outer), len(inner)), p: p, outer: len(outer)}
	for _, n := range outer {
		k.params = append(k.params, device.Const(n))
	}
	for _, n := range inner {
		k.params = append(k.params, device.Const(n))
	}
	k.bind(args)
	for i, a := range args {
		k.addAccess(a, outer, inner, so[i], si[i])
	}
	return k
}

// bind numbers the buffers. Arguments over one buffer share a binding.
func (k *kernel) bind(args []*arg) {
	uses := map[int]use{}
	for _, a := range args {
		uses[a.buf] |= a.use
	}
	slot := map[int]int{}
	for _, a := range args {
		s, ok := slot[a.buf]
		if !ok {
			var access loopir.BufAccess
			switch uses[a.buf] {
			case reads:
				access = loopir.Read
			case writes:
				access = loopir.Write
			case combines:
				access = loopir.Atomic
			case reads | writes:
				access = loopir.ReadWrite
			default:
				panic("BUG: lower: a buffer both combines atomically and does something else")
			}
			s = k.Buf(a.dtype, access)
			slot[a.buf] = s
			k.bufs = append(k.bufs, a.buf)
		}
		a.kbuf = s
	}
}

// addAccess makes the access of an argument.
func (k *kernel) addAccess(a *arg, outer, inner, so, si []int64) {
	a.offParam = -1
	if a.at != nil {
		k.moves = append(k.moves, offsetStep{len(k.params), a.at})
	}
	if a.at != nil || a.offset != (device.Param{}) {
		a.offParam = k.offset(a.offset)
	}
	shape, stride := outer, so
	if !a.once && len(inner) > 0 {
		shape, stride = concat(outer, inner), concat(so, si)
	}
	a.linear = dense(shape, stride) && !a.strided && !(a.computed && len(inner) > 0)
	if a.linear {
		if !a.computed {
			a.access = k.Linear(a.kbuf, a.offParam)
		}
		return
	}
	for d, s := range stride {
		switch {
		case s == 0 || shape[d] == 1:
			a.params = append(a.params, loopir.Broadcast)
		case s == 1:
			a.params = append(a.params, loopir.Unit)
		default:
			k.params = append(k.params, device.Const(s))
			a.params = append(a.params, k.Stride())
		}
	}
	if !a.computed {
		a.access = k.Access(a.kbuf, a.offParam, a.params...)
	}
}

// offset adds an offset parameter.
func (k *kernel) offset(v device.Param) int {
	k.params = append(k.params, v)
	return k.Offset()
}

// size adds a size parameter and reads it.
func (k *kernel) size(n int64) int {
	k.params = append(k.params, device.Const(n))
	return k.Param(k.Size())
}

// number adds a signed constant as a parameter, so that the text does not depend on it.
func (k *kernel) number(v int64) int { return k.Cast(ir.I64, k.number32(v)) }

// number32 is number in I32.
func (k *kernel) number32(v int64) int {
	k.params = append(k.params, device.Const(int64(ir.EncodeInt(ir.I32, v))))
	return k.Param(k.Scalar(ir.I32))
}

// scalar reads scalar operand i as a value of t's compute type.
func (k *kernel) scalar(i int, t ir.DType) int {
	k.params = append(k.params, device.ScalarOf(k.p.scalar[i]))
	return k.Cast(t, k.Param(k.Scalar(k.p.n.In[i].DType)))
}

// load reads an argument at its access.
func (k *kernel) load(a *arg) int { return k.Load(a.access) }

// store writes v, of any dtype, to an argument.
func (k *kernel) store(a *arg, v int) { k.Store(a.access, k.Cast(a.dtype, v)) }

// address is the element number that a computed argument's strides give.
func (k *kernel) address(a *arg) int {
	at := k.I64(0)
	if a.offParam >= 0 {
		at = k.Param(a.offParam)
	}
	if a.linear {
		return k.Add(at, k.LinearIndex())
	}
	for d, s := range a.params {
		switch s {
		case loopir.Broadcast:
		case loopir.Unit:
			at = k.Add(at, k.Index(d))
		default:
			at = k.Add(at, k.Mul(k.Index(d), k.Param(s)))
		}
	}
	return at
}

// launch finishes the kernel and appends its step.
func (k *kernel) launch() { k.series()(0) }

// series finishes the kernel. launchAt appends a step of a series: all its steps share the kernel and differ in offsets
// only.
func (k *kernel) series() (launchAt func(step int64)) {
	built := k.Kernel()
	if len(built.Params) != len(k.params) {
		panic("BUG: lower: kernel and launch disagree on parameters")
	}
	return func(step int64) {
		params := k.params
		if len(k.moves) > 0 {
			params = slices.Clone(params)
			for _, m := range k.moves {
				params[m.param] = params[m.param].Plus(m.at(step))
			}
		}
		k.p.res.Launches = append(k.p.res.Launches, device.Step{Op: built, Bufs: k.bufs, Params: params})
	}
}

// collapse drops dims of size 1 and merges neighbours that are contiguous in every operand, except the last `fixed`
// dims. At least one dim remains.
func collapse(shape []int64, stride [][]int64, fixed int) ([]int64, [][]int64) {
	var size []int64
	out := make([][]int64, len(stride))
	last := len(shape) - fixed
	for d, n := range shape {
		if d < last {
			if n == 1 {
				continue
			}
			if k := len(size) - 1; k >= 0 && mergeable(out, stride, k, d, n) {
				size[k] *= n
				for i := range out {
					out[i][k] = stride[i][d]
				}
				continue
			}
		}
		size = append(size, n)
		for i := range out {
			out[i] = append(out[i], stride[i][d])
		}
	}
	if len(size) == 0 {
		size = []int64{1}
		for i := range out {
			out[i] = []int64{1}
		}
	}
	return size, out
}

func mergeable(out, stride [][]int64, k, d int, n int64) bool {
	for i := range out {
		if out[i][k] != stride[i][d]*n {
			return false
		}
	}
	return true
}

// dense reports row-major strides without gaps; dims of size 1 do not count.
func dense(shape, stride []int64) bool {
	run := int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		if shape[d] == 1 {
			continue
		}
		if stride[d] != run {
			return false
		}
		run *= shape[d]
	}
	return true
}

func concat(a, b []int64) []int64 { return append(append(make([]int64, 0, len(a)+len(b)), a...), b...) }

// wrap turns a dim into one in [0, rank). The primitive's rule has checked it.
func wrap(dim int64, rank int) int {
	if dim < 0 {
		dim += int64(max(rank, 1))
	}
	return int(dim)
}

// atLeast1D gives a 0-dim argument one dim of size 1, so that rules along a dim need no special case.
func (a *arg) atLeast1D() *arg {
	if len(a.shape) == 0 {
		a.shape, a.stride = []int64{1}, []int64{1}
	}
	return a
}

// zeroed zeroes the stride of a dim, along which the argument is addressed by other means.
func zeroed(stride []int64, dim int) []int64 {
	s := append([]int64{}, stride...)
	s[dim] = 0
	return s
}
