package cpu_test

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// factorCase is a step with its operands and room for its results.
type factorCase struct {
	f        launch.Factor
	sizes    [4]int64 // matrices, m, n, k
	in, out  [][]byte
	outTypes []ir.DType
}

func (c *factorCase) results() [][]byte {
	out := make([][]byte, len(c.out))
	for i, b := range c.out {
		out[i] = make([]byte, len(b))
	}
	return out
}

// newFactor draws the operands; heavy adds to the diagonal, so that no pivot is small.
func newFactor(r *rand.Rand, f launch.Factor, batch, m, n, k int64, heavy float64) *factorCase {
	c := &factorCase{f: f, sizes: [4]int64{batch, m, n, k}}
	draw := func(rows, cols int64, heavy float64) []byte {
		b := make([]byte, batch*rows*cols*int64(f.Type.Size()))
		for i := range batch * rows * cols {
			v := r.NormFloat64()
			if i/cols%rows == i%cols {
				v += heavy
			}
			loopir.StoreBits(f.Type, b, i, ir.EncodeFloat(f.Type, v))
		}
		return b
	}
	room := func(d ir.DType, count int64) {
		c.out, c.outTypes = append(c.out, make([]byte, batch*count*int64(d.Size()))), append(c.outTypes, d)
	}
	least := min(m, n)
	c.in = append(c.in, draw(m, n, heavy))
	switch f.Op {
	case launch.FactorCholesky:
		room(f.Type, n*n)
		room(ir.I32, 1)
	case launch.FactorLU:
		room(f.Type, m*n)
		room(ir.I32, least)
		room(ir.I32, 1)
	case launch.FactorSolve:
		c.in = append(c.in, draw(n, k, 0))
		room(f.Type, n*k)
		room(f.Type, n*n)
		room(ir.I32, n)
		room(ir.I32, 1)
	case launch.FactorTriangular:
		c.in = append(c.in, draw(n, k, 0))
		room(f.Type, n*k)
	case launch.FactorQR:
		room(f.Type, m*least)
		room(f.Type, least*n)
	case launch.FactorPinv:
		c.in = append(c.in, draw(1, 1, 0), draw(1, 1, 0))
		clear(c.in[1])
		clear(c.in[2])
		room(f.Type, n*m)
	case launch.FactorExp:
		room(f.Type, n*n)
	case launch.FactorLDL:
		room(f.Type, n*n)
		room(ir.I32, n)
		room(ir.I32, 1)
	case launch.FactorLDLSolve:
		c.in = append(c.in, draw(n, k, 0), pivots(r, batch, n))
		room(f.Type, n*k)
	case launch.FactorEigh:
		room(f.Type, n)
		room(f.Type, n*n)
	case launch.FactorSVD:
		room(f.Type, m*least)
		room(f.Type, least)
		room(f.Type, least*n)
	}
	return c
}

// pivots draws those of matrices with blocks of one and of two rows.
func pivots(r *rand.Rand, batch, n int64) []byte {
	b := make([]byte, 4*batch*n)
	for i := int64(0); i < batch*n; i++ {
		p := 1 + i%n + r.Int64N(n-i%n)
		if i%n+1 < n && r.IntN(2) == 0 {
			p = -min(p+1, n)
			loopir.StoreBits(ir.I32, b, i, ir.EncodeInt(ir.I32, p))
			i++
		}
		loopir.StoreBits(ir.I32, b, i, ir.EncodeInt(ir.I32, p))
	}
	return b
}

func (c *factorCase) params() []uint64 {
	p := make([]uint64, 4+len(c.in))
	for i, n := range c.sizes {
		p[i] = uint64(n)
	}
	return p
}

// onDevice runs the step and returns its results and data error.
func (c *factorCase) onDevice(t *testing.T, d *cpu.Device) ([][]byte, device.Fault, bool) {
	out, _ := c.stoppedAt(t, d, 0)
	f, found, err := d.TakeFault()
	require.NoError(t, err)
	return out, f, found
}

// stoppedAt runs the step with a request to stop at poll number `at`, if that is not 0, and then what is left of it. It
// reports whether the run stopped. The memory of the results holds large numbers before.
func (c *factorCase) stoppedAt(t *testing.T, d *cpu.Device, at int32) (out [][]byte, stopped bool) {
	stop := new(device.Stop)
	step, bind := device.Step{Op: &c.f, Event: 7}, device.Binding{Stop: stop}
	out = c.results()
	for _, b := range out {
		for i := range b {
			b[i] = 0x7f
		}
	}
	all := append(append([][]byte{}, c.in...), out...)
	for i, b := range all {
		x, err := d.Alloc(max(int64(len(b)), 1))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, x)
	}
	for _, v := range c.params() {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, len(all))
	require.NoError(t, err)
	defer p.Release()
	if at > 0 {
		stop.AskAt(at)
	}
	if _, err = d.Run(p, &bind); errors.Is(err, device.ErrStopped) {
		stopped = true
		stop.Clear()
		_, err = d.Run(p, &bind)
	}
	require.NoError(t, err)
	for i, b := range out {
		require.NoError(t, d.Read(bind.Bufs[len(c.in)+i], ir.Bool, 0, b))
	}
	return out, stopped
}

// TestFactorsStoppedAnywhereGiveTheSameBits: what a stopped factorisation has left unset leads nowhere.
func TestFactorsStoppedAnywhereGiveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var cases []*factorCase
	for _, o := range []launch.FactorOp{launch.FactorCholesky, launch.FactorLU, launch.FactorSolve, launch.FactorQR,
		launch.FactorEigh, launch.FactorSVD, launch.FactorPinv, launch.FactorExp, launch.FactorLDL} {
		cases = append(cases, newFactor(r, launch.Factor{Op: o, Type: ir.F64}, 1, 150, 150, 3, 500))
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for _, c := range cases {
			want, _ := c.stoppedAt(t, d, 0)
			stops := 0
			for at := int32(1); ; at += max(1, at/4) {
				got, stopped := c.stoppedAt(t, d, at)
				require.Equal(t, want, got, "%v, stopped at poll %d", c.f.Op, at)
				if !stopped {
					break
				}
				stops++
			}
			require.Greater(t, stops, 2, "%v: there are few points to stop at", c.f.Op)
		}
	})
}

// TestFactorsHaveTheSameBitsOnAnyThreads: of sizes whose work threads share.
func TestFactorsHaveTheSameBitsOnAnyThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	var cases []*factorCase
	for _, d := range []ir.DType{ir.F64, ir.F32} {
		for _, o := range []launch.FactorOp{launch.FactorLU, launch.FactorSolve, launch.FactorEigh, launch.FactorTriangular} {
			cases = append(cases, newFactor(r, launch.Factor{Op: o, Type: d}, 1, 200, 200, 200, 40))
		}
		toIdentity(cases[len(cases)-3].in[1], d, 200) // an inverse
	}
	one, four := newDevice(t, cpu.Options{Threads: 1}), newDevice(t, cpu.Options{Threads: 4})
	for _, c := range cases {
		want, _, _ := c.onDevice(t, one)
		got, _, _ := c.onDevice(t, four)
		require.Equal(t, want, got, "%v of %v", c.f.Op, c.f.Type)
	}
}

// closeTo compares elements relative to the largest one; signs do not count where they are free.
func closeTo(t *testing.T, d ir.DType, want, got []byte, tol float64, signs bool) {
	t.Helper()
	n, top := int64(len(want)/d.Size()), 0.0
	at := func(b []byte, i int64) float64 {
		v := ir.DecodeFloat(d, loopir.LoadBits(d, b, i))
		if !signs {
			v = math.Abs(v)
		}
		return v
	}
	for i := range n {
		top = max(top, math.Abs(at(want, i)))
	}
	for i := range n {
		require.InDelta(t, at(want, i), at(got, i), tol*(top+1e-300), "element %d of %d", i, n)
	}
}

// toIdentity makes the identity of an n x n matrix.
func toIdentity(b []byte, d ir.DType, n int64) {
	for i := range n * n {
		loopir.StoreBits(d, b, i, ir.EncodeFloat(d, float64(b2i(i%(n+1) == 0))))
	}
}

// TestPivotIsTheFirstOfEquals looks for the largest magnitude at each place of a column, with an equal one later.
func TestPivotIsTheFirstOfEquals(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const rows, later, batch = 90, 7, 80
	for _, dtype := range []ir.DType{ir.F64, ir.F32} {
		c := newFactor(r, launch.Factor{Op: launch.FactorLU, Type: dtype}, batch, rows, 1, 0, 0)
		for i := range int64(batch) {
			loopir.StoreBits(dtype, c.in[0], i*rows+i, ir.EncodeFloat(dtype, -50))
			loopir.StoreBits(dtype, c.in[0], i*rows+i+later, ir.EncodeFloat(dtype, 50))
		}
		each(t, func(t *testing.T, d *cpu.Device) {
			got, _, _ := c.onDevice(t, d)
			for i := range int64(batch) {
				require.EqualValues(t, i+1, int32(loopir.LoadBits(ir.I32, got[1], i)), "matrix %d", i)
			}
		})
	}
}

// TestFactors compares each factorisation with the plain one, below and above the block size, and above the size from
// which threads share one matrix at a time.
func TestFactors(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var cases []*factorCase
	for _, d := range []ir.DType{ir.F64, ir.F32} {
		for _, n := range []int64{1, 2, 5, 60} {
			square := func(o launch.FactorOp, option int64, k int64, heavy float64) {
				cases = append(cases, newFactor(r, launch.Factor{Op: o, Type: d, Option: option}, 3, n, n, k, heavy))
			}
			square(launch.FactorCholesky, 0, 0, float64(3*n))
			square(launch.FactorSolve, 0, 3, 4)
			for option := range int64(4) {
				square(launch.FactorTriangular, option, n, float64(3*n))
			}
			square(launch.FactorExp, 0, 0, 0)
			square(launch.FactorLDL, 0, 0, 0)
			if n < 60 {
				square(launch.FactorLDLSolve, 0, 3, 3) // larger triangles of random numbers are nearly singular
				square(launch.FactorEigh, 0, 0, 0)
				square(launch.FactorEigh, launch.FactorUpper, 0, 0)
			}
			for _, m := range []int64{n, 2*n + 1, (n + 1) / 2} {
				for _, o := range []launch.FactorOp{launch.FactorLU, launch.FactorQR, launch.FactorSVD, launch.FactorPinv} {
					if n < 60 || o == launch.FactorLU || o == launch.FactorQR {
						cases = append(cases, newFactor(r, launch.Factor{Op: o, Type: d}, 2, m, n, 0, 3))
					}
				}
			}
		}
		// Several panels and blocks, in float too.
		large := func(o launch.FactorOp, option, m, n, k int64, heavy float64) {
			cases = append(cases, newFactor(r, launch.Factor{Op: o, Type: d, Option: option}, 1, m, n, k, heavy))
		}
		large(launch.FactorSolve, 0, 170, 170, 20, 4)
		large(launch.FactorSolve, 0, 100, 100, 200, 4)
		own := rand.New(rand.NewPCG(13, 14)) // the other matrices stay as they are
		inverse := newFactor(own, launch.Factor{Op: launch.FactorSolve, Type: d}, 1, 150, 150, 150, 4)
		toIdentity(inverse.in[1], d, 150)
		cases = append(cases, inverse)
		large(launch.FactorCholesky, 0, 170, 170, 0, 600)
		if !testing.Short() {
			large(launch.FactorCholesky, 0, 530, 530, 0, 2000) // wide panels
			large(launch.FactorLU, 0, 530, 520, 0, 3)
		}
		for option := range int64(4) {
			large(launch.FactorTriangular, option, 170, 170, 1, 600)
			large(launch.FactorTriangular, option, 130, 130, 90, 600)
		}
		large(launch.FactorEigh, 0, 90, 90, 0, 0)
		for _, size := range [][2]int64{{90, 90}, {100, 70}, {40, 90}} {
			large(launch.FactorSVD, 0, size[0], size[1], 0, 0)
		}
		for _, size := range [][2]int64{{170, 90}, {90, 170}, {100, 100}} {
			large(launch.FactorLU, 0, size[0], size[1], 0, 3)
			large(launch.FactorQR, 0, size[0], size[1], 0, 3)
		}
	}
	wants := make([][][]byte, len(cases))
	for i, c := range cases {
		wants[i] = c.results()
		_, err := launch.InterpretFactor(&c.f, c.params(), append(append([][]byte{}, c.in...), wants[i]...))
		require.NoError(t, err)
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for i, c := range cases {
			want := wants[i]
			got, _, _ := c.onDevice(t, d)
			for i := range want {
				if c.outTypes[i] == ir.I32 {
					require.Equal(t, want[i], got[i], "%v %v: result %d", c.f.Op, c.sizes, i)
					continue
				}
				tol := map[ir.DType]float64{ir.F64: 1e-8, ir.F32: 1e-4}[c.f.Type]
				closeTo(t, c.f.Type, want[i], got[i], tol, c.f.Op != launch.FactorEigh && c.f.Op != launch.FactorSVD)
			}
		}
	})
}

// TestFactorFaults: the first matrix that cannot be factored is reported, with its status.
func TestFactorFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	each(t, func(t *testing.T, d *cpu.Device) {
		for _, o := range []launch.FactorOp{launch.FactorCholesky, launch.FactorLU, launch.FactorSolve, launch.FactorEigh} {
			c := newFactor(r, launch.Factor{Op: o, Type: ir.F64, Check: true}, 4, 3, 3, 1, 20)
			status := int64(3)
			for i := range int64(6) { // the last two matrices lose their last row and column
				v := 0.0
				if o == launch.FactorEigh {
					v, status = math.NaN(), launch.NotFinite
				}
				loopir.StoreBits(ir.F64, c.in[0], 18+9*(i/3)+6+i%3, ir.EncodeFloat(ir.F64, v))
				loopir.StoreBits(ir.F64, c.in[0], 18+9*(i/3)+2+3*(i%3), ir.EncodeFloat(ir.F64, v))
			}
			_, f, found := c.onDevice(t, d)
			require.True(t, found, o)
			require.Equal(t, device.Fault{Event: 7, Element: 2<<32 | status}, f, o)
			c.f.Check = false
			_, _, found = c.onDevice(t, d)
			require.False(t, found, o)
		}
	})
}

// hard gives the elements of matrices whose spectra are degenerate or far apart.
var hard = map[string]func(i, j int64) float64{
	"zero":          func(i, j int64) float64 { return 0 },
	"identity":      func(i, j int64) float64 { return float64(b2i(i == j)) },
	"ones":          func(i, j int64) float64 { return 1 },
	"shift":         func(i, j int64) float64 { return float64(b2i(j == i+1)) },
	"graded":        func(i, j int64) float64 { return float64(b2i(i == j)) * math.Pow(10, -float64(i%30)) },
	"bidiagonal":    func(i, j int64) float64 { return float64(b2i(j == i && i%3 != 1) + 2*b2i(j == i+1)) },
	"large":         func(i, j int64) float64 { return 1e30 * math.Sin(float64(3*i+7*j+i*j)) },
	"small":         func(i, j int64) float64 { return 1e-30 * math.Sin(float64(3*i+7*j+i*j)) },
	"near identity": func(i, j int64) float64 { return float64(b2i(i == j)) + 1e-9*math.Sin(float64(3*i+7*j+i*j)) },
	"last row zero": func(i, j int64) float64 { return math.Sin(float64(i*j+i)) * float64(b2i(i != 7)) },
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestSpectraOfHardMatrices: the factors multiply to the matrix, vectors are orthonormal, and values are in order.
// Blocks of more than 32 rows and columns are divided, those of more than 65 twice.
func TestSpectraOfHardMatrices(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	each(t, func(t *testing.T, d *cpu.Device) {
		for name, element := range hard {
			for _, dtype := range []ir.DType{ir.F64, ir.F32} {
				for _, size := range [][2]int64{{1, 1}, {8, 8}, {70, 70}, {9, 4}, {4, 9}, {80, 30}, {70, 66}} {
					m, n := size[0], size[1]
					if testing.Short() && m*n > 100 && (m != n || dtype == ir.F32) {
						continue
					}
					op := launch.Factor{Op: launch.FactorSVD, Type: dtype}
					c := newFactor(r, op, 1, m, n, 0, 0)
					for i := range m * n {
						loopir.StoreBits(dtype, c.in[0], i, ir.EncodeFloat(dtype, element(i/n, i%n)))
					}
					got, _, _ := c.onDevice(t, d)
					requireSVD(t, name, dtype, m, n, c.in[0], got)
					if m != n {
						continue
					}
					symmetric := newFactor(r, launch.Factor{Op: launch.FactorEigh, Type: dtype}, 1, n, n, 0, 0)
					for i := range n * n {
						v := element(min(i/n, i%n), max(i/n, i%n))
						loopir.StoreBits(dtype, symmetric.in[0], i, ir.EncodeFloat(dtype, v))
					}
					got, _, _ = symmetric.onDevice(t, d)
					require.True(t, slices.IsSorted(floats(dtype, got[0])), name)
					requireSVD(t, name+", symmetric", dtype, n, n, symmetric.in[0], asSingular(dtype, n, got))
				}
			}
		}
	})
}

// TestStepsOfLargeReductionsAreShared: the bits do not depend on the number of threads. The first steps have several
// parts, whose last ones have few rows.
func TestStepsOfLargeReductionsAreShared(t *testing.T) {
	const m, n = 137, 131
	for _, dtype := range []ir.DType{ir.F64, ir.F32} {
		c := newFactor(rand.New(rand.NewPCG(15, 16)), launch.Factor{Op: launch.FactorSVD, Type: dtype}, 1, m, n, 0, 0)
		for i, isa := range instructionSets() {
			one, _, _ := c.onDevice(t, newDevice(t, cpu.Options{ISA: isa, Threads: 1}))
			three, _, _ := c.onDevice(t, newDevice(t, cpu.Options{ISA: isa, Threads: 3}))
			require.Equal(t, one, three, isa)
			if dtype == ir.F64 || i == 0 {
				requireSVD(t, isa, dtype, m, n, c.in[0], one)
			}
		}
	}
}

func floats(dtype ir.DType, b []byte) []float64 {
	out := make([]float64, len(b)/dtype.Size())
	for i := range out {
		out[i] = ir.DecodeFloat(dtype, loopir.LoadBits(dtype, b, int64(i)))
	}
	return out
}

// asSingular turns the results of Eigh, which ascend, into those of SVD.
func asSingular(dtype ir.DType, n int64, eigh [][]byte) [][]byte {
	values, vectors, order := floats(dtype, eigh[0]), floats(dtype, eigh[1]), make([]int64, n)
	for i := range order {
		order[i] = int64(i)
	}
	slices.SortFunc(order, func(i, j int64) int { return cmp.Compare(math.Abs(values[j]), math.Abs(values[i])) })
	out := [][]byte{make([]byte, len(eigh[1])), make([]byte, len(eigh[0])), make([]byte, len(eigh[1]))}
	put := func(b []byte, i int64, v float64) { loopir.StoreBits(dtype, b, i, ir.EncodeFloat(dtype, v)) }
	for k, from := range order {
		w := values[from]
		put(out[1], int64(k), math.Abs(w))
		for i := range n {
			put(out[0], i*n+int64(k), math.Copysign(1, w)*vectors[i*n+from])
			put(out[2], int64(k)*n+i, vectors[i*n+from])
		}
	}
	return out
}

func requireSVD(t *testing.T, name string, dtype ir.DType, m, n int64, a []byte, out [][]byte) {
	t.Helper()
	least := min(m, n)
	at := func(b []byte, i int64) float64 { return ir.DecodeFloat(dtype, loopir.LoadBits(dtype, b, i)) }
	u := func(i, k int64) float64 { return at(out[0], i*least+k) }
	vt := func(k, j int64) float64 { return at(out[2], k*n+j) }
	tol, top := map[ir.DType]float64{ir.F64: 1e-12, ir.F32: 2e-5}[dtype], at(out[1], 0)
	for k := range least {
		require.GreaterOrEqual(t, at(out[1], k), 0.0, name)
		if k > 0 {
			require.LessOrEqual(t, at(out[1], k), at(out[1], k-1), name)
		}
		for l := range least {
			var uu, vv float64
			for i := range m {
				uu += u(i, k) * u(i, l)
			}
			for j := range n {
				vv += vt(k, j) * vt(l, j)
			}
			require.InDelta(t, float64(b2i(k == l)), uu, tol, "%s %v: columns %d and %d of U", name, dtype, k, l)
			require.InDelta(t, float64(b2i(k == l)), vv, tol, "%s %v: rows %d and %d of Vt", name, dtype, k, l)
		}
	}
	for i := range m {
		for j := range n {
			sum := 0.0
			for k := range least {
				sum += u(i, k) * at(out[1], k) * vt(k, j)
			}
			require.InDelta(t, at(a, i*n+j), sum, tol*top+1e-300, "%s %v %dx%d: element %d, %d", name, dtype, m, n, i, j)
		}
	}
}
