package lower

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func init() {
	register(map[string]lowering{"fft": lowerFFT, "ifft": lowerFFT, "rfft": lowerFFT, "irfft": lowerFFT,
		"fft_of_reals": lowerFFT})
}

// side is the operand or the result of a transform, or numbers between two passes: [outer, n, inner] numbers.
type side struct {
	a                  *arg
	outer, inner, step int64 // strides, in elements
	real               bool  // reals, else pairs of neighbours
	half               bool  // only elements 0 to n/2: the others are their conjugates
	exchange           bool  // imaginary parts come first: the transform of such numbers is the inverse
}

// transform is a node of fft.
type transform struct {
	p            *program
	kind         launch.FFTKind
	n            int64
	scale        float64
	outer, inner int64
	from, to     side
}

// reals reports a transform of reals.
func (t *transform) reals() bool {
	return t.kind == launch.FFTOfReals || t.kind == launch.FFTAllOfReals
}

// lowerFFT; attributes: kind, dim, n, the bits of the factor.
func lowerFFT(p *program) {
	x, out := p.in(0), p.out(0)
	if ir.Numel(out.shape) == 0 {
		return
	}
	attr := p.n.Attr
	t := &transform{p: p, kind: launch.FFTKind(attr[0]), n: attr[2], scale: math.Float64frombits(uint64(attr[3]))}
	t.read(x, int(attr[1]))
	_, count, _, pair := t.kind.Sizes(t.n)
	back := t.kind == launch.FFTInverse || t.kind == launch.FFTToReals
	t.to = side{a: out, outer: count * t.inner * pair, inner: pair, step: t.inner * pair, real: pair == 1,
		half: t.kind == launch.FFTOfReals, exchange: back}
	t.from.real, t.from.half, t.from.exchange = t.reals(), t.kind == launch.FFTToReals, back
	if p.n.Fourier {
		l := device.Step{Op: &launch.FFT{Type: x.dtype, Kind: t.kind, N: t.n, Scale: t.scale}, Bufs: []int{t.from.a.buf,
			out.buf}}
		l.Params = append(constants(t.outer, t.inner, t.from.outer, t.from.step, t.from.inner), t.from.a.offset)
		p.res.Launches = append(p.res.Launches, l)
		return
	}
	t.passes()
}

// read finds the three dims of the operand, which is copied where it has more, or where reals repeat: kernels take
// neighbours for pairs.
func (t *transform) read(x *arg, d int) {
	rank := len(x.shape)
	if !t.reals() {
		rank--
	}
	for {
		outer, so := collapse(x.shape[:d], [][]int64{x.stride[:d]}, 0)
		inner, si := collapse(x.shape[d+1:rank], [][]int64{x.stride[d+1 : rank]}, 0)
		apart := !t.reals() || x.stride[d] != 0
		if apart && len(outer) == 1 && len(inner) == 1 && (rank == len(x.shape) || x.stride[rank] == 1) {
			t.outer, t.inner = outer[0], inner[0]
			t.from = side{a: x, outer: so[0][0], inner: si[0][0], step: x.stride[d]}
			return
		}
		x = t.p.contiguous(x)
	}
}

// mostRadix is the greatest prime that is a radix of a pass.
const mostRadix = 13

// radices factors n into the lengths of passes; ok is false where a prime factor is too large.
func radices(n int64) (list []int64, ok bool) {
	for _, r := range []int64{16, 8, 4, 2, 9, 3, 5, 7, 11, mostRadix} {
		for n%r == 0 {
			list, n = append(list, r), n/r
		}
	}
	return list, n == 1
}

// between is a dense temporary of rows of n pairs.
func (t *transform) between(outer, inner, n int64) side {
	return side{a: t.p.temp(t.to.a.dtype, []int64{outer, inner, n, 2}), outer: inner * n * 2, inner: n * 2, step: 2}
}

// passes makes loop kernels: Stockham's passes, each thread a butterfly; or a convolution, where n has a large prime
// factor.
func (t *transform) passes() {
	if list, ok := radices(t.n); ok {
		t.stockham(list, t.n, t.from, t.to, t.outer, t.inner)
		return
	}
	t.convolve()
}

// stockham makes the passes from one side to another, which is scaled where it is the result. Of n = r m s elements,
// the r elements s(p + m k) + q make elements s(r p + k) + q.
func (t *transform) stockham(list []int64, n int64, from, to side, outer, inner int64) {
	if len(list) == 0 {
		list = []int64{1}
	}
	if len(list) == 1 && from.a.buf == to.a.buf { // threads would read what others have written
		list = []int64{1, list[0]}
	}
	s, x := int64(1), from
	var spare side
	for i, r := range list {
		y := to
		if i < len(list)-1 {
			if y = spare; y.a == nil || y.a.buf == x.a.buf {
				y = t.between(outer, inner, n)
			}
		}
		t.pass(r, n/(r*s), s, n, x, y, outer, inner)
		if i > 0 {
			spare = x
		}
		x, s = y, s*r
	}
}

// reading copies an argument, so that a kernel may number it.
func reading(a *arg) *arg { x := *a; x.use, x.computed = reads, true; return &x }

func writing(a *arg) *arg { x := *a; x.use, x.computed = writes, true; return &x }

func (t *transform) pass(r, m, s, n int64, from, to side, outer, inner int64) {
	x, y := reading(from.a).over([]int64{from.outer, from.inner, 0, 0}), writing(to.a).over([]int64{to.outer, to.inner,
		0, 0})
	k := &roots{kernel: t.p.kernel("fft_pass_"+x.dtype.String(), []int64{outer, inner, m, s}, nil, 4, x, y)}
	k.Map()
	k.d = x.dtype.ComputeType()
	step, each := k.size(s), k.Index(2)
	at := k.Add(k.Mul(each, step), k.Index(3)) // s p + q
	in := make([]complexExpr, r)
	xs := k.address(x)
	for j := range r {
		e := at
		if j > 0 {
			e = k.Add(at, k.size(j*s*m))
		}
		in[j] = k.take(x, from, xs, e, n)
	}
	out := k.dft(in)
	if m > 1 {
		k.turn(out, each, k.size(r*m))
	}
	ys, place := k.address(y), k.Add(k.Mul(each, k.size(s*r)), k.Index(3)) // s r p + q
	for j := range r {
		e := place
		if j > 0 {
			e = k.Add(place, k.size(j*s))
		}
		if to.a.buf == t.to.a.buf {
			out[j] = k.scaled(out[j], t.scale)
		}
		k.give(y, to, ys, e, n, out[j])
	}
	k.launch()
}

// convolve is Bluestein's algorithm: the transform is a convolution with the chirp exp(-i pi j j / n), and that a
// product of transforms of a power of two.
func (t *transform) convolve() {
	m := int64(1)
	for m < 2*t.n-1 {
		m *= 2
	}
	list, _ := radices(m)
	dense := func(outer, inner int64) (a, b side) { return t.between(outer, inner, m), t.between(outer, inner, m) }
	chirp, spectrum := dense(1, 1)
	t.map1(m, 1, 1, side{}, chirp, func(k *roots, _ func() complexExpr, j int) complexExpr {
		near := k.Min(j, k.Sub(k.size(m), j))
		c := k.chirp(k.Min(near, k.size(t.n-1)), t.n)
		c.im = k.Neg(c.im)
		return k.within(near, t.n, c)
	})
	t.stockham(list, m, chirp, spectrum, 1, 1)
	a, b := dense(t.outer, t.inner)
	t.map1(m, t.outer, t.inner, t.from, a, func(k *roots, load func() complexExpr, j int) complexExpr {
		c := k.chirp(k.Min(j, k.size(t.n-1)), t.n)
		return k.within(j, t.n, k.times(load(), c))
	})
	t.stockham(list, m, a, b, t.outer, t.inner)
	// The inverse is the transform of numbers whose parts are exchanged, with exchanged parts.
	over := side{a: spectrum.a, step: 2}
	t.map2(m, b, over, a, func(k *roots, x, c complexExpr) complexExpr {
		v := k.scaled(k.times(x, c), 1/float64(m))
		return complexExpr{v.im, v.re}
	})
	t.stockham(list, m, a, b, t.outer, t.inner)
	last := b
	last.exchange = true
	t.map1(t.n, t.outer, t.inner, last, t.to, func(k *roots, load func() complexExpr, j int) complexExpr {
		return k.scaled(k.times(load(), k.chirp(j, t.n)), t.scale)
	})
}

// map1 computes count elements of a side from those of another, which may be absent. An element beyond its end is read
// at the end.
func (t *transform) map1(count, outer, inner int64, from, to side, f func(k *roots, load func() complexExpr,
	j int) complexExpr) {
	y := writing(to.a).over([]int64{to.outer, to.inner, 0})
	args, x := []*arg{y}, (*arg)(nil)
	if from.a != nil {
		x = reading(from.a).over([]int64{from.outer, from.inner, 0})
		args = append(args, x)
	}
	k := &roots{kernel: t.p.kernel("fft_chirp_"+y.dtype.String(), []int64{outer, inner, count}, nil, 3, args...)}
	k.Map()
	k.d = y.dtype.ComputeType()
	j := k.Index(2)
	v := f(k, func() complexExpr { return k.take(x, from, k.address(x), k.Min(j, k.size(t.n-1)), t.n) }, j)
	k.give(y, to, k.address(y), j, t.n, v)
	k.launch()
}

// map2 computes m elements of rows from those of other rows and of one row.
func (t *transform) map2(m int64, from, one, to side, f func(k *roots, x, c complexExpr) complexExpr) {
	x, c := reading(from.a).over([]int64{from.outer, from.inner, 0}), reading(one.a).over([]int64{0, 0, 0})
	y := writing(to.a).over([]int64{to.outer, to.inner, 0})
	k := &roots{kernel: t.p.kernel("fft_product_"+y.dtype.String(), []int64{t.outer, t.inner, m}, nil, 3, x, c, y)}
	k.Map()
	k.d = y.dtype.ComputeType()
	j := k.Index(2)
	v := f(k, k.take(x, from, k.address(x), j, m), k.take(c, one, k.address(c), j, m))
	k.give(y, to, k.address(y), j, m, v)
	k.launch()
}
