package lower

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{
		"gather":              lowerGather,
		"index_select":        lowerIndexSelect,
		"scatter":             lowerScatter,
		"scatter_reduce":      lowerScatter,
		"cat":                 lowerCat,
		"strided_scatter":     lowerStridedScatter,
		"strided_scatter_add": lowerStridedScatterAdd,
	})
}

// lane gives a 1-d index the strides of a tensor of that rank: it varies along dim only.
func lane(a *arg, dim, rank int) *arg {
	st := make([]int64, rank)
	if len(a.stride) > 0 {
		st[dim] = a.stride[0]
	}
	return a.over(st)
}

// indexed makes x addressable at computed positions along dim; its other dims follow the index space. It returns the
// dim's stride.
func indexed(x *arg, dim int) (stride int64) {
	stride = x.stride[dim]
	x.computed = true
	x.over(zeroed(x.stride, dim))
	return stride
}

func lowerGather(p *program) {
	x, i, out := p.in(0).atLeast1D(), p.in(1).atLeast1D(), p.out(0).atLeast1D()
	d := wrap(p.n.Attr[0], len(x.shape))
	p.gather("gather", x, i, out, d)
}

func lowerIndexSelect(p *program) {
	x, i, out := p.in(0).atLeast1D(), p.in(1), p.out(0).atLeast1D()
	d := wrap(p.n.Attr[0], len(x.shape))
	p.gather("index_select", x, lane(i, d, len(x.shape)), out, d)
}

// gather stores x[..., i, ...] over out's shape.
func (p *program) gather(name string, x, i, out *arg, d int) {
	if ir.Numel(out.shape) == 0 {
		return
	}
	size := x.shape[d]
	stride := indexed(x, d)
	k := p.kernel(name+"_"+x.dtype.String(), out.shape, nil, 0, x, i, out)
	k.Map()
	j := k.InBounds(k.Cast(ir.I64, k.load(i)), k.size(size))
	k.store(out, k.LoadAt(x.kbuf, k.Add(k.address(x), k.Mul(j, k.size(stride)))))
	k.launch()
}

// copy writes x to out, of the same shape.
func (p *program) copy(x, out *arg) { p.copies([]*arg{x}, []*arg{out}) }

// copies writes each of xs, which share a layout, to its place, of the same shape.
func (p *program) copies(xs, places []*arg) {
	if ir.Numel(xs[0].shape) == 0 {
		return
	}
	k := p.kernel("copy_"+xs[0].dtype.String(), xs[0].shape, nil, 0, slices.Concat(xs, places)...)
	k.Map()
	for i, x := range xs {
		k.store(places[i], k.load(x))
	}
	k.launch()
}

// base copies operand 0 to output 0, unless the plan has both in one buffer.
func (p *program) base() {
	if p.n.In[0].Buf != p.n.Out[0].Buf {
		p.copy(p.in(0), p.out(0))
	}
}

// lowerScatter stores src, a tensor or a number, at the places of output 0 that the index names; attributes: dim,
// loopir.StoreMode, op.InBounds where indices need no check, and op.Deterministic where it is asked for.
func lowerScatter(p *program) {
	p.base()
	i, out := p.in(1).atLeast1D(), p.out(0).atLeast1D()
	if ir.Numel(i.shape) == 0 {
		return
	}
	d, mode := wrap(p.n.Attr[0], len(i.shape)), loopir.StoreMode(p.n.Attr[1])
	logical := mode == loopir.Add && out.dtype == ir.Bool // a sum of bools is their or
	if logical {
		mode = loopir.Set
	}
	if !p.n.In[2].Scalar && p.ordered(mode, out.dtype) {
		p.orderedScatter(i, out, p.in(2).atLeast1D(), d, mode)
		return
	}
	if mode != loopir.Set {
		out.use = combines
	}
	size := out.shape[d]
	stride := indexed(out, d)
	args := []*arg{i, out}
	var src *arg
	if !p.n.In[2].Scalar {
		src = p.in(2).atLeast1D()
		args = append(args, src)
	}
	k := p.kernel("scatter_"+out.dtype.String(), i.shape, nil, 0, args...)
	k.Map()
	j := k.Cast(ir.I64, k.load(i))
	if slices.Contains(p.n.Attr[2:], op.InBounds) {
		j = k.Clamped(j, k.size(size))
	} else {
		j = k.InBounds(j, k.size(size))
	}
	var v int
	if src != nil {
		v = k.load(src)
	} else {
		v = k.scalar(2, out.dtype)
	}
	guard := -1
	if logical {
		guard, v = v, k.Bool(true) // concurrent stores write the same value
	}
	k.StoreAt(guard, out.kbuf, k.Add(k.address(out), k.Mul(j, k.size(stride))), v, mode)
	k.launch()
}

// mostParts is the number of inputs of cat that one kernel copies: with the output they are the 8 buffers that every
// WebGPU device binds.
const mostParts = 7

// lowerCat copies each input into its part of the output; neighbouring inputs of one layout share a kernel.
func lowerCat(p *program) {
	at := int64(0)
	for i := 0; i < len(p.n.In); {
		var parts, places []*arg
		for ; i < len(p.n.In) && len(parts) < mostParts; i++ {
			x, out := p.in(i), p.out(0)
			if len(parts) > 0 && !(slices.Equal(x.shape, parts[0].shape) && slices.Equal(x.stride, parts[0].stride)) {
				break
			}
			d := wrap(p.n.Attr[0], len(x.shape))
			out.shape = x.shape
			out.offset.Bits = uint64(at * out.stride[d])
			parts, places = append(parts, x), append(places, out)
			at += x.shape[d]
		}
		p.copies(parts, places)
	}
}

// window is the view of output 0 that a strided scatter writes; its offset is scalar operand 0.
func (p *program) window() (*arg, *ir.Layout) {
	l := ir.LayoutOf(ir.LayoutID(p.n.Attr[0]))
	out := p.out(0)
	out.shape, out.stride = l.Shape, l.Stride
	out.offset = device.ScalarOf(0)
	return out, l
}

func lowerStridedScatter(p *program) {
	p.base()
	out, _ := p.window()
	p.copy(p.in(1), out)
}

// lowerStridedScatterAdd needs atomics only where the view overlaps itself.
func lowerStridedScatterAdd(p *program) {
	p.base()
	out, l := p.window()
	value := p.in(1)
	if l.Numel == 0 {
		return
	}
	if l.Overlap && p.ordered(loopir.Add, out.dtype) {
		p.orderedWindow(value, out, p.n.Out[0].Layout.Numel)
		return
	}
	out.use = reads | writes
	if l.Overlap && out.dtype != ir.Bool {
		out.use = combines
	}
	k := p.kernel("strided_scatter_add_"+out.dtype.String(), l.Shape, nil, 0, value, out)
	k.Map()
	switch {
	case out.dtype == ir.Bool:
		k.StoreIf(k.load(value), out.access, k.Bool(true))
	case l.Overlap:
		k.StoreAdd(out.access, k.load(value))
	default:
		k.store(out, k.Add(k.load(out), k.load(value)))
	}
	k.launch()
}
