package devicetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Float results may differ from the interpreter's by what assert_close allows for f32, times the length of the chains
// of operations in random kernels.
const (
	rtol = 2e-5
	atol = 2e-5
)

func floats(n int, f func(i int) float32) []byte {
	out := make([]byte, 0, 4*n)
	for i := range n {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f(i)))
	}
	return out
}

func f32At(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// affine is y = 2x+1 over n elements; exact in f32 for small integers.
func (s *suite) affine(n int) (*loopir.Kernel, []uint64) {
	b := loopir.NewBuilder("affine", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(b.Mul(x, b.Float(ir.F32, 2)), b.Float(ir.F32, 1)))
	return b.Kernel(), []uint64{uint64(n)}
}

// cases runs n random cases of a form. Seeds are fixed, so that a failure repeats.
func (s *suite) cases(t *testing.T, form func(*rand.Rand, kerneltest.Limits) *kerneltest.Case, seed uint64, n int) {
	r := rand.New(rand.NewPCG(seed, 17))
	ran := 0
	for range n {
		c := form(r, s.limits())
		if !s.supports(c.Kernel) {
			continue
		}
		s.check(t, c, rtol, atol)
		ran++
	}
	require.Positive(t, ran)
}

func (s *suite) elementwise(t *testing.T) {
	s.cases(t, kerneltest.Map, 11, 16)
	s.cases(t, kerneltest.Dense, 12, 12)
}

func (s *suite) reduce(t *testing.T)  { s.cases(t, kerneltest.Reduce, 21, 12) }
func (s *suite) softmax(t *testing.T) { s.cases(t, kerneltest.Softmax, 22, 8) }
func (s *suite) prefix(t *testing.T)  { s.cases(t, kerneltest.Scan, 23, 8) }
func (s *suite) random(t *testing.T)  { s.cases(t, kerneltest.Draw, 24, 4) }

func (s *suite) index(t *testing.T) {
	s.cases(t, kerneltest.Arg, 31, 8)
	s.cases(t, kerneltest.Gather, 32, 8)
	s.cases(t, kerneltest.Scatter, 33, 8)
}

// longRows reduces few long rows, which a device may share between workgroups: sums, a maximum with its index, then
// squares about the mean; over contiguous rows, or columns.
func (s *suite) longRows(t *testing.T) {
	for _, columns := range []bool{false, true} {
		for _, size := range [][2]int{{1, 150_000}, {3, 60_001}, {40, 3300}} {
			s.check(t, longRows(size[0], size[1], columns), rtol, atol)
		}
	}
}

func longRows(m, n int, columns bool) *kerneltest.Case {
	b := loopir.NewBuilder("long_rows", 1, 1)
	count := b.Cast(ir.F32, b.Param(1))
	stride := b.Stride()
	strides, at := []int{stride, loopir.Unit}, uint64(n)
	if columns {
		strides, at = []int{loopir.Unit, stride}, uint64(m)
	}
	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, strides...))
	var outs []int
	for _, t := range []ir.DType{ir.F32, ir.F32, ir.I64, ir.F32} {
		outs = append(outs, b.Access(b.Buf(t, loopir.Write), -1, loopir.Unit, loopir.Broadcast))
	}
	b.Each()
	mean := b.Div(b.Acc(b.Reduce(loopir.Sum, x)), count)
	top := b.ReduceIdx(loopir.ArgMax, x, b.Index(1))
	b.Each()
	d := b.Sub(x, mean)
	squares := b.Dot(d, d)
	b.Map()
	for i, v := range []int{mean, b.Acc(top), b.AccIdx(top), b.Div(b.Acc(squares), count)} {
		b.Store(outs[i], v)
	}
	r := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	fill := func(int) float32 { return 7 }
	return &kerneltest.Case{Kernel: b.Kernel(), Params: []uint64{uint64(m), uint64(n), at}, Bufs: [][]byte{
		floats(m*n, func(int) float32 { return r.Float32()*2 - 1 }), floats(m, fill), floats(m, fill), make([]byte, 8*m),
		floats(m, fill)}}
}

// broadcast adds a row and a column to a transposed matrix of odd sizes.
func (s *suite) broadcast(t *testing.T) {
	const m, n = 37, 53
	b := loopir.NewBuilder("outer_add", 2, 0)
	sm, sn := b.Stride(), b.Stride()
	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, sm, sn))
	row := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Broadcast, loopir.Unit))
	col := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Unit, loopir.Broadcast))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(b.Add(x, row), col))
	c := &kerneltest.Case{Kernel: b.Kernel(), Params: []uint64{m, n, 1, m}, Bufs: [][]byte{
		floats(m*n, func(i int) float32 { return float32(i) }), floats(n, func(i int) float32 { return float32(1000 * i) }),
		floats(m, func(i int) float32 { return float32(-i) }), floats(m*n, func(int) float32 { return -1 })}}
	s.check(t, c, 0, 0)
}

// scatterAdd sends many elements to few places, so that threads collide.
func (s *suite) scatterAdd(t *testing.T) {
	const n, rows = 5000, 3
	b := loopir.NewBuilder("collide", 1, 0)
	i := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	out := b.Buf(ir.F32, loopir.Atomic)
	b.Map()
	b.StoreAt(-1, out, b.Cast(ir.I64, i), b.Float(ir.F32, 1), loopir.Add)
	idx := make([]byte, 0, 4*n)
	for j := range n {
		idx = binary.LittleEndian.AppendUint32(idx, uint32(j*j%rows))
	}
	c := &kerneltest.Case{Kernel: b.Kernel(), Params: []uint64{n},
		Bufs: [][]byte{idx, floats(rows, func(int) float32 { return 0.5 })}}
	s.check(t, c, 0, 0)
}

// functions compares every float function with float64 arithmetic over a range.
func (s *suite) functions(t *testing.T) {
	const n = 999
	const loose = 1.3e-6 // assert_close's default for float32
	for _, c := range []struct {
		op     loopir.Op
		lo, hi float64
		rtol   float64 // of max(1, |value|)
		f      func(float64) float64
	}{
		{loopir.OpSqrt, 0, 1e6, 1.2e-7, math.Sqrt}, {loopir.OpExp, -20, 20, loose, math.Exp}, {loopir.OpLog, 1e-6, 1e6, loose,
			math.Log},
		{loopir.OpSin, -60, 60, loose, math.Sin}, {loopir.OpCos, -60, 60, loose, math.Cos}, {loopir.OpTanh, -100, 100, loose,
			math.Tanh},
		{loopir.OpErf, -5, 5, loose, math.Erf}, {loopir.OpRound, -50, 50, 0, math.RoundToEven}, {loopir.OpFloor, -50, 50, 0,
			math.Floor},
		{loopir.OpTrunc, -50, 50, 0, math.Trunc}, {loopir.OpCeil, -50, 50, 0, math.Ceil}, {loopir.OpAbs, -50, 50, 0,
			math.Abs},
	} {
		t.Run(c.op.String(), func(t *testing.T) {
			b := loopir.NewBuilder("unary_"+c.op.String(), 1, 0)
			x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
			out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
			b.Map()
			b.Store(out, b.Un(c.op, x))
			in := floats(n, func(i int) float32 { return float32(c.lo + (c.hi-c.lo)*float64(i)/(n-1)) })
			bi, bo := s.put(t, ir.F32, in), s.alloc(t, ir.F32, n)
			s.run(t, []device.Step{launchStep(b.Kernel(), []uint64{n})}, bi, bo)
			got := s.get(t, bo, ir.F32, n)
			for i := range n {
				want := c.f(float64(f32At(in, i)))
				require.InDelta(t, want, float64(f32At(got, i)), c.rtol*max(1, math.Abs(want)), "%s(%v)", c.op, f32At(in, i))
			}
		})
	}
}

// gemmParams returns the launch parameters of a product of dense operands, of which a and b may be stored transposed.
func gemmParams(g *launch.Gemm, batch, m, n, k int, at, bt bool) []uint64 {
	var p []uint64
	add := func(v ...int) {
		for _, x := range v {
			p = append(p, uint64(x))
		}
	}
	if g.Batch == 1 {
		add(batch)
	}
	add(m, n, k)
	if g.Batch == 1 {
		add(m * k)
	}
	if at {
		add(1, m)
	} else {
		add(k, 1)
	}
	add(0)
	if g.Batch == 1 {
		add(k * n)
	}
	if bt {
		add(1, k)
	} else {
		add(n, 1)
	}
	add(0)
	if g.Bias {
		add(1, 0)
	}
	return p
}

func (s *suite) gemm(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	for _, c := range []struct {
		m, n, k, batch int
		at, bt, bias   bool
		function       int
		dtype          ir.DType
		residual       bool
	}{
		{8, 8, 8, 0, false, false, false, 0, ir.F32, false},
		{64, 64, 64, 0, false, false, true, 1, ir.F32, false},
		{33, 17, 29, 0, true, false, false, 0, ir.F32, false},
		{31, 65, 10, 0, false, true, true, 2, ir.F32, false},
		{5, 3, 70, 3, false, false, false, 0, ir.F32, false},
		{1, 40, 33, 0, false, true, false, 0, ir.F32, false},
		{40, 1, 33, 0, false, false, true, 3, ir.F32, false},
		{16, 16, 16, 2, true, true, true, 4, ir.F32, false},
		{12, 20, 9, 0, false, false, false, 0, ir.F16, false},
		{7, 5, 0, 0, false, false, false, 0, ir.F32, false},
		{31, 65, 10, 0, false, true, true, 3, ir.F32, true},
		{5, 6, 70, 3, true, false, false, 0, ir.F32, true},
		{1, 40, 33, 0, false, true, true, 0, ir.F32, true},
		{40, 1, 33, 0, false, false, true, 0, ir.F32, true},
		{200, 96, 300, 0, false, false, true, 0, ir.F32, true},
		{33, 40, 70, 0, false, false, true, 3, ir.F16, true},
		{36, 40, 64, 0, false, true, true, 2, ir.F16, true},
		{3, 40, 33, 2, false, true, false, 2, ir.F16, true},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d_%v_%v_%v", c.m, c.n, c.k, c.at, c.bt, c.dtype), func(t *testing.T) {
			g := &launch.Gemm{Type: c.dtype, AUnit: 'k', BUnit: 'n', Bias: c.bias, Epilogue: kerneltest.Epilogue(c.dtype,
				c.function, c.residual)}
			if c.batch > 0 {
				g.Batch = 1
			}
			if c.at {
				g.AUnit = 'm'
			}
			if c.bt {
				g.BUnit = 'k'
			}
			s.checkGemm(t, r, g, gemmParams(g, c.batch, c.m, c.n, c.k, c.at, c.bt), max(c.batch, 1), c.m, c.n, c.k)
		})
	}
}

// gemmSums checks the sums of an operand beside the product, at sizes and in dtypes that take different paths.
func (s *suite) gemmSums(t *testing.T) {
	if s.d.Caps().GemmSums == 0 {
		t.Skip("the device's products make no sums")
	}
	r := rand.New(rand.NewPCG(43, 1))
	for _, c := range []struct {
		m, n, k int
		at, bt  bool
		g       launch.Gemm
	}{
		{33, 17, 29, true, false, launch.Gemm{Type: ir.F32, AUnit: 'm', BUnit: 'n', Sums: 'a'}},
		{64, 40, 700, true, false, launch.Gemm{Type: ir.F32, AUnit: 'm', BUnit: 'n', Sums: 'a', Bias: true,
			Epilogue: kerneltest.Epilogue(ir.F32, 1, true)}},
		{20, 300, 70, false, true, launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'k', Sums: 'a'}},
		{31, 65, 10, false, true, launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'k', Sums: 'b'}},
		{96, 200, 300, false, false, launch.Gemm{Type: ir.F16, AUnit: 'k', BUnit: 'n', Sums: 'b'}},
		{40, 36, 900, true, false, launch.Gemm{Type: ir.F32, AUnit: 'm', BUnit: 'n', Sums: 'b'}},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d_%c", c.m, c.n, c.k, c.g.Sums), func(t *testing.T) {
			s.checkGemm(t, r, &c.g, gemmParams(&c.g, 0, c.m, c.n, c.k, c.at, c.bt), 1, c.m, c.n, c.k)
		})
	}
}

// gemmPrologues checks products that normalize the rows of A first, as many as the device takes.
func (s *suite) gemmPrologues(t *testing.T) {
	if s.d.Caps().GemmPrologues == 0 {
		t.Skip("the device's products have no prologue")
	}
	r := rand.New(rand.NewPCG(47, 1))
	for _, c := range []struct {
		m, n, k, batch       int
		bt                   bool
		centre, weight, bias bool
		g                    launch.Gemm
	}{
		{1, 300, 768, 0, false, true, true, true, launch.Gemm{Type: ir.F32, Bias: true}},
		{1, 40, 768, 0, true, true, true, true, launch.Gemm{Type: ir.F32}},
		{3, 37, 33, 0, false, false, true, false, launch.Gemm{Type: ir.F32,
			Epilogue: kerneltest.Epilogue(ir.F32, 3, true)}},
		{2, 20, 130, 2, true, true, false, false, launch.Gemm{Type: ir.F32, Batch: 1}},
		{4, 64, 257, 0, false, true, true, true, launch.Gemm{Type: ir.F16, Bias: true}},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d_%v", c.m, c.n, c.k, c.g.Type), func(t *testing.T) {
			g := &c.g
			g.Prologue, g.AUnit, g.BUnit = kerneltest.Norm(g.Type, c.centre, c.weight, c.bias), 'k', 'n'
			if c.bt {
				g.BUnit = 'k'
			}
			params := append(gemmParams(g, c.batch, c.m, c.n, c.k, false, c.bt), uint64(c.k), ir.EncodeFloat(ir.F32, 1e-5))
			s.checkGemm(t, r, g, params, max(c.batch, 1), c.m, c.n, c.k)
		})
	}
}

func (s *suite) checkGemm(t *testing.T, r *rand.Rand, g *launch.Gemm, params []uint64, batch, m, n, k int) {
	sizes := []int{batch * m * k, batch * k * n}
	if g.Bias {
		sizes = append(sizes, n)
	}
	for range g.Layout().BufOperands {
		sizes = append(sizes, batch*m*n)
	}
	sizes = append(sizes, batch*m*n)
	results := len(sizes) - 1
	switch g.Sums {
	case 'a':
		sizes = append(sizes, m)
	case 'b':
		sizes = append(sizes, n)
	}
	vectors := len(sizes)
	for range g.Layout().BufVectors {
		sizes = append(sizes, k)
	}
	var host [][]byte
	var bufs []device.Buffer
	for i, size := range sizes {
		b := make([]byte, size*g.Type.Size())
		for e := range size {
			v := float64(float32(r.Float64()*2 - 1))
			if i >= results && i < vectors {
				v = 77 // must be overwritten
			}
			loopir.StoreBits(g.Type, b, int64(e), ir.EncodeFloat(g.Type, v))
		}
		host = append(host, b)
		bufs = append(bufs, s.put(t, g.Type, b))
	}
	require.NoError(t, launch.InterpretGemm(g, params, host))
	s.run(t, []device.Step{launchStep(g, params)}, bufs...)
	tol := 1e-5
	if g.Type == ir.F16 {
		tol = 4e-3
	}
	for i := results; i < vectors; i++ {
		got := s.get(t, bufs[i], g.Type, sizes[i])
		for e := range sizes[i] {
			want := ir.DecodeFloat(g.Type, loopir.LoadBits(g.Type, host[i], int64(e)))
			have := ir.DecodeFloat(g.Type, loopir.LoadBits(g.Type, got, int64(e)))
			require.InDelta(t, want, have, tol*(1+math.Abs(want)), "buffer %d, element %d", i, e)
		}
	}
}

// transpose copies the transpose of a matrix of odd sizes, by its strides.
func (s *suite) transpose(t *testing.T) {
	const m, n = 71, 130
	b := loopir.NewBuilder("transpose", 2, 0)
	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Unit, b.Stride()))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, x)
	c := &kerneltest.Case{Kernel: b.Kernel(), Params: []uint64{m, n, m}, Bufs: [][]byte{
		floats(m*n, func(i int) float32 { return float32(i) }), floats(m*n, func(int) float32 { return -1 })}}
	s.check(t, c, 0, 0)
}
