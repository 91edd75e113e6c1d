package cpu

// #include "vector/cpu.h"
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// fourier makes the tables of transforms in C memory: roots of unity, computed in double and rounded once.
type fourier struct {
	mem   *arena
	d     ir.DType
	lanes int64
	rows  int64 // of a column's buffer: the most that any of them needs
	// numbers of scratch of a row's two steps, and of a convolution of rows
	between, room int64
}

// numbers stores values of the transform's type.
func (p *fourier) numbers(n int64, value func(i int64) float64) unsafe.Pointer {
	if p.d == ir.F64 {
		to := array[float64](p.mem, int(max(n, 1)))
		for i := range n {
			to[i] = value(i)
		}
		return unsafe.Pointer(&to[0])
	}
	to := array[float32](p.mem, int(max(n, 1)))
	for i := range n {
		to[i] = float32(value(i))
	}
	return unsafe.Pointer(&to[0])
}

// pairs stores n complex numbers.
func (p *fourier) pairs(n int64, value func(i int64) (re, im float64)) unsafe.Pointer {
	var im float64
	return p.numbers(2*n, func(i int64) (v float64) {
		if i%2 != 0 {
			return im
		}
		v, im = value(i / 2)
		return v
	})
}

// radices factors n into lengths of butterflies; rest is what has no factor up to TLK_FFT_PRIME.
func radices(n int64) (list []int64, rest int64) {
	for _, r := range []int64{8, 4, 2} {
		for n%r == 0 {
			if r == 8 && n%16 == 0 && n%64 != 0 && n%128 != 0 {
				break // 16 is 4 4, which costs less than 8 2
			}
			list, n = append(list, r), n/r
		}
	}
	for r := int64(3); r <= C.TLK_FFT_PRIME; r += 2 {
		for n%r == 0 {
			list, n = append(list, r), n/r
		}
	}
	return list, n
}

func smooth(n int64) bool { _, rest := radices(n); return rest == 1 }

// convolution is the length of the transforms of a convolution that gives n elements: the least 2^a b with b up to 9
// and odd, of at least 2n-1.
func convolution(n int64) int64 {
	best := int64(0)
	for _, b := range []int64{1, 3, 5, 7, 9} {
		m := b
		for m < 2*n-1 {
			m *= 2
		}
		if best == 0 || m < best {
			best = m
		}
	}
	return best
}

// column makes the tables of a column transform.
func (p *fourier) column(n int64) *C.tl_fft_col {
	c := &array[C.tl_fft_col](p.mem, 1)[0]
	c.n = C.int64_t(n)
	p.rows = max(p.rows, (n+p.lanes)/p.lanes*p.lanes)
	list, rest := radices(n)
	if rest > 1 {
		m := convolution(n)
		c.conv = p.column(m)
		c.chirp, c.spectrum = p.chirp(n), p.spectrum(n, m)
		return c
	}
	pass := array[C.tl_fft_pass](p.mem, max(len(list), 1))
	c.passes, c.pass = C.int64_t(len(list)), &pass[0]
	s := int64(1)
	for i, r := range list {
		m := n / (r * s)
		pass[i] = C.tl_fft_pass{r: C.int64_t(r), m: C.int64_t(m), s: C.int64_t(s)}
		pass[i].turn = p.pairs((m-1)*(r-1), func(e int64) (re, im float64) {
			return launch.RootOfUnity((e/(r-1)+1)*(e%(r-1)+1), r*m)
		})
		if r%2 != 0 {
			pass[i].root = p.pairs(r, func(e int64) (re, im float64) {
				re, im = launch.RootOfUnity(e, r)
				return re, -im
			})
		}
		s *= r
	}
	return c
}

// chirpAt is exp(-pi i j j / n).
func chirpAt(j, n int64) (re, im float64) {
	return launch.RootOfUnity(int64(uint64(j)*uint64(j)%uint64(2*n)), 2*n)
}

func (p *fourier) chirp(n int64) unsafe.Pointer {
	return p.pairs(n, func(j int64) (re, im float64) { return chirpAt(j, n) })
}

// spectrum is the transform of the conjugate chirp, which the chirped elements are convolved with, over m.
func (p *fourier) spectrum(n, m int64) unsafe.Pointer {
	x := make([]complex128, m)
	for j := range n {
		re, im := chirpAt(j, n)
		x[j] = complex(re, -im)
		if j > 0 {
			x[m-j] = x[j]
		}
	}
	x = transformed(x)
	return p.pairs(m, func(j int64) (re, im float64) { return real(x[j]) / float64(m), imag(x[j]) / float64(m) })
}

// transformed is the transform of x, whose length has small factors.
func transformed(x []complex128) []complex128 {
	n := int64(len(x))
	list, _ := radices(n)
	root := make([]complex128, n)
	for k := range n {
		re, im := launch.RootOfUnity(k, n)
		root[k] = complex(re, im)
	}
	y, s := make([]complex128, n), int64(1)
	for _, r := range list {
		m := n / (r * s)
		for p := range m {
			for k := range r {
				for q := range s {
					sum := complex128(0)
					for j := range r {
						sum += root[k*(p+m*j)%(r*m)*s] * x[q+s*(p+m*j)]
					}
					y[q+s*(r*p+k)] = sum
				}
			}
		}
		x, y, s = y, x, s*r
	}
	return x
}

// mostRoots is the length up to which a row's roots between its steps are all in one table.
const mostRoots = 1 << 13

// split divides n into the factors of a row's two steps: the first at least the second, both near the root. cost is in
// lanes times elements.
func (p *fourier) split(n int64) (n1, n2, cost int64) {
	up := func(x int64) int64 { return (x + p.lanes - 1) / p.lanes * p.lanes }
	for f := int64(1); f*f <= n; f++ {
		if n%f != 0 || !smooth(f) || !smooth(n/f) {
			continue
		}
		for _, pair := range [][2]int64{{n / f, f}, {f, n / f}} {
			// A factor far above the other costs passes over buffers that leave the caches.
			c := pair[0]*up(pair[1]) + pair[1]*up(pair[0]) + max(0, n/f-1024)*p.lanes
			if cost == 0 || c <= cost {
				n1, n2, cost = pair[0], pair[1], c
			}
		}
	}
	return n1, n2, cost
}

// row makes the tables of a row transform.
func (p *fourier) row(n int64) *C.tl_fft_row {
	t := &array[C.tl_fft_row](p.mem, 1)[0]
	t.n = C.int64_t(n)
	if !smooth(n) {
		m := convolution(n)
		p.room = max(p.room, 2*m)
		t.conv = p.row(m)
		t.chirp, t.spectrum = p.chirp(n), p.spectrum(n, m)
		return t
	}
	n1, n2, _ := p.split(n)
	l := p.lanes
	padded := (n1 + l - 1) / l * l
	t.n1, t.n2, t.padded = C.int64_t(n1), C.int64_t(n2), C.int64_t(padded)
	t.first = p.column(n1)
	if t.second = t.first; n2 != n1 {
		t.second = p.column(n2)
	}
	p.between = max(p.between, padded*n2*2)
	blocks := int64(1)
	if n <= mostRoots {
		blocks = (n2 + l - 1) / l
	}
	t.turn = p.numbers(blocks*padded*2*l, func(i int64) float64 {
		re, im := launch.RootOfUnity(i/(2*l)%padded*(i/(2*l*padded)*l+i%l)%n, n)
		if i/l%2 != 0 {
			return im
		}
		return re
	})
	if n > mostRoots {
		p.products(t, n)
	}
	return t
}

// products makes two tables, by the high and the low bits of an index. Any root of n is a product of two entries.
func (p *fourier) products(t *C.tl_fft_row, n int64) {
	bits := 1
	for int64(1)<<(2*bits) < n {
		bits++
	}
	double := *p
	double.d = ir.F64
	t.bits = C.int64_t(bits)
	t.low = (*C.double)(double.pairs(1<<bits, func(k int64) (re, im float64) { return launch.RootOfUnity(k%n, n) }))
	t.high = (*C.double)(double.pairs(n>>bits+1, func(k int64) (re, im float64) {
		return launch.RootOfUnity(k<<bits%n, n)
	}))
}
