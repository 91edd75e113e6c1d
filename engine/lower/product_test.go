package lower_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// matmulRef multiplies row-major operands.
func matmulRef(a, b, bias []float64, batch, m, k, n int64) []float64 {
	out := make([]float64, batch*m*n)
	for t := range batch {
		for i := range m {
			for j := range n {
				s := 0.0
				for l := range k {
					s += a[(t*m+i)*k+l] * b[(t*k+l)*n+j]
				}
				if bias != nil {
					s += bias[j]
				}
				out[(t*m+i)*n+j] = s
			}
		}
	}
	return out
}

func TestMatmul(t *testing.T) {
	batches := [][]int64{nil, {2}, {2, 3}, {1, 2}, {2, 1, 2, 3}, {0}}
	sizes := [][3]int64{{2, 3, 4}, {1, 3, 2}, {3, 1, 1}, {2, 0, 3}, {0, 2, 3}, {2, 3, 1}}
	for _, batch := range batches {
		for _, s := range sizes {
			m, k, n := s[0], s[1], s[2]
			for p := range placements {
				e := optest.New()
				a := placements[p].place(e, ir.F32, append(slices.Clone(batch), m, k), source(-1, 1, false))
				b := placements[(2*p+1)%len(placements)].place(e, ir.F32, append(slices.Clone(batch), k, n), source(-1, 1, false))
				bias := placements[p%4].place(e, ir.F32, []int64{n}, source(-1, 1, false))
				plain := matmulRef(e.Floats(a), e.Floats(b), nil, ir.Numel(batch), m, k, n)
				near(t, ir.F32, plain, e.Floats(emit(e, "matmul", []int64{0}, a, b)[0]), batch, s, p)
				biased := matmulRef(e.Floats(a), e.Floats(b), e.Floats(bias), ir.Numel(batch), m, k, n)
				near(t, ir.F32, biased, e.Floats(emit(e, "matmul", []int64{1}, a, b, bias)[0]), batch, s, p)
			}
		}
	}
	e := optest.New()
	x := e.Tensor(ir.I64, []int64{2, 2}, 1, 2, 3, 4)
	near(t, ir.I64, []float64{7, 10, 15, 22}, e.Floats(emit(e, "matmul", []int64{0}, x, x)[0]))
	for _, d := range []ir.DType{ir.F16, ir.BF16} {
		h := e.Tensor(d, []int64{1, 2}, 0.5, 2)
		column := e.View(h, ir.InternLayout([]int64{2, 1}, []int64{1, 1}), 0, op.ViewOp{})
		near(t, d, []float64{4.25}, e.Floats(emit(e, "matmul", []int64{0}, h, column)[0]))
	}
}

func gemmOf(t *testing.T, a, b *ir.Layout) (*launch.Gemm, []device.Param) {
	t.Helper()
	r := a.Rank()
	shape := append(slices.Clone(a.Shape[:r-1]), b.Shape[r-1])
	n := &lower.Node{Prim: op.PrimNamed("matmul"), Attr: []int64{0}, Bufs: 3,
		Out: []lower.Output{{DType: ir.F32, Layout: ir.DenseLayout(shape), Buf: 2}},
		In:  []lower.Operand{{DType: ir.F32, Layout: a}, {DType: ir.F32, Layout: b, Buf: 1}}}
	res, err := lower.Lower(n)
	require.NoError(t, err)
	require.Len(t, res.Launches, 1)
	return res.Launches[0].Op.(*launch.Gemm), res.Launches[0].Params
}

// TestFoldsAreTheKernelsThatWouldRunAlone: folds apply in order, each rounded to the result's dtype, as separate maps
// would round it.
func TestFoldsAreTheKernelsThatWouldRunAlone(t *testing.T) {
	for _, d := range []ir.DType{ir.F32, ir.F64, ir.F16, ir.BF16} {
		l := ir.DenseLayout([]int64{3, 5})
		gelu, add := op.PrimNamed("gelu"), op.PrimNamed("add")
		in := func(buf int) lower.Operand { return lower.Operand{DType: d, Layout: l, Buf: buf} }
		n := &lower.Node{Prim: op.PrimNamed("matmul"), Attr: []int64{0}, Bufs: 4,
			Out: []lower.Output{{DType: d, Layout: l, Buf: 3}},
			In: []lower.Operand{{DType: d, Layout: ir.DenseLayout([]int64{3, 2})},
				{DType: d, Layout: ir.DenseLayout([]int64{2, 5}), Buf: 1},
				{DType: d, Layout: l, Buf: 2, Whole: true}},
			Kept: []int{^2},
			Folds: []lower.Fold{{Prim: gelu, Attr: []int64{1}, In: []int{^0}, DType: d},
				{Prim: add, In: []int{2, ^1}, DType: d}}}
		res, err := lower.Lower(n)
		require.NoError(t, err)
		require.Len(t, res.Launches, 1)
		require.Equal(t, []int{0, 1, 2, 3}, res.Launches[0].Bufs)
		g := res.Launches[0].Op.(*launch.Gemm)
		require.NoError(t, g.CheckEpilogue())
		r := source(-3, 3, false)
		values := func() []byte {
			b := make([]byte, 15*d.Size())
			for i := range int64(15) {
				loopir.StoreBits(d, b, i, ir.EncodeFloat(d, r()))
			}
			return b
		}
		c, x := values(), values()
		want := slices.Clone(c)
		for _, alone := range []*lower.Node{
			{Prim: gelu, Attr: []int64{1}, Bufs: 1, In: []lower.Operand{in(0)}, Out: []lower.Output{{DType: d, Layout: l}}},
			{Prim: add, Bufs: 2, In: []lower.Operand{in(1), in(0)}, Out: []lower.Output{{DType: d, Layout: l}}},
		} {
			one, err := lower.Lower(alone)
			require.NoError(t, err)
			bufs := [][]byte{want, x}
			var own [][]byte
			for _, b := range one.Launches[0].Bufs {
				own = append(own, bufs[b])
			}
			params := make([]uint64, len(one.Launches[0].Params)) // offsets are 0
			params[0] = 15
			_, err = loopir.Interpret(one.Launches[0].Op.(*loopir.Kernel), params, own)
			require.NoError(t, err)
		}
		_, err = loopir.Interpret(g.Epilogue, []uint64{15}, [][]byte{c, x})
		require.NoError(t, err)
		require.Equal(t, want, c, "%v", d)
	}
}

// TestGemmForms: transposed operands are read in place, and a batch of rows against one matrix is one tall product.
func TestGemmForms(t *testing.T) {
	dense := ir.DenseLayout([]int64{4, 5})
	g, _ := gemmOf(t, dense, ir.InternLayout([]int64{5, 3}, []int64{1, 5}))
	require.Equal(t, byte('k'), g.AUnit)
	require.Equal(t, byte('k'), g.BUnit)
	g, _ = gemmOf(t, ir.InternLayout([]int64{4, 5}, []int64{1, 4}), ir.DenseLayout([]int64{5, 3}))
	require.Equal(t, byte('m'), g.AUnit)
	require.Equal(t, byte('n'), g.BUnit)
	g, _ = gemmOf(t, ir.InternLayout([]int64{4, 5}, []int64{20, 2}), ir.InternLayout([]int64{5, 3}, []int64{9, 3}))
	require.Zero(t, g.AUnit)
	require.Zero(t, g.BUnit)
	g, params := gemmOf(t, ir.DenseLayout([]int64{2, 6, 4, 5}), ir.InternLayout([]int64{2, 6, 5, 3}, []int64{0, 0, 3, 1}))
	require.Zero(t, g.Batch)
	require.EqualValues(t, 48, params[0].Bits, "rows of the merged product")
	g, _ = gemmOf(t, ir.DenseLayout([]int64{2, 6, 4, 5}), ir.DenseLayout([]int64{2, 6, 5, 3}))
	require.Equal(t, 1, g.Batch)
	g, params = gemmOf(t, ir.DenseLayout([]int64{6, 1, 5}), ir.InternLayout([]int64{6, 5, 3}, []int64{0, 3, 1}))
	require.Zero(t, g.Batch)
	require.EqualValues(t, 6, params[0].Bits)
}

// TestMatmulManyBatchDims: more batch dims than a GEMM takes are made dense first.
func TestMatmulManyBatchDims(t *testing.T) {
	e := optest.New()
	batch := []int64{2, 2, 2, 2}
	storage := e.Tensor(ir.F32, []int64{16 * 81}, draw(16*81, source(-1, 1, false))...)
	a := e.View(storage, ir.InternLayout(append(slices.Clone(batch), 2, 3), []int64{3, 100, 30, 300, 7, 1}), 2,
		op.ViewOp{})
	b := e.View(storage, ir.InternLayout(append(slices.Clone(batch), 3, 2), []int64{200, 11, 60, 5, 2, 1}), 9, op.ViewOp{})
	near(t, ir.F32, matmulRef(e.Floats(a), e.Floats(b), nil, 16, 2, 3, 2),
		e.Floats(emit(e, "matmul", []int64{0}, a, b)[0]))
}

func TestSGD(t *testing.T) {
	w, g, m := []float64{1, -2, 0.5}, []float64{0.3, 0.1, -0.2}, []float64{0.05, 0, -1}
	for _, nesterov := range []float64{0, 1} {
		for _, maximize := range []float64{0, 1} {
			for _, hasBuf := range []float64{0, 1} {
				for _, first := range []float64{0, 1} {
					lr, mu, damp, decay := 0.1, 0.9, 0.2, 0.01
					if nesterov == 1 {
						damp = 0
					}
					e := optest.New()
					in := []op.Val{e.Tensor(ir.F64, []int64{3}, w...), e.Tensor(ir.F64, []int64{3}, g...)}
					if hasBuf == 1 {
						in = append(in, e.Tensor(ir.F64, []int64{3}, m...))
					}
					for _, s := range []float64{lr, mu, damp, decay, first} {
						in = append(in, op.FloatVal(s))
					}
					o := emit(e, "sgd_step", []int64{int64(nesterov), int64(maximize), int64(hasBuf), 0}, in...)
					wantW, wantM := make([]float64, 3), make([]float64, 3)
					for i := range w {
						d := g[i]
						if maximize == 1 {
							d = -d
						}
						d += decay * w[i]
						if hasBuf == 1 {
							if wantM[i] = mu*m[i] + (1-damp)*d; first == 1 {
								wantM[i] = d
							}
							if nesterov == 1 {
								d += mu * wantM[i]
							} else {
								d = wantM[i]
							}
						}
						wantW[i] = w[i] - lr*d
					}
					near(t, ir.F64, wantW, e.Floats(o[0]))
					if hasBuf == 1 {
						near(t, ir.F64, wantM, e.Floats(o[1]))
					}
				}
			}
		}
	}
}

func TestAdam(t *testing.T) {
	w, g := []float64{1, -2, 0.5}, []float64{0.3, 0.1, -0.2}
	m, v, top := []float64{0.05, 0, -0.1}, []float64{0.2, 0.01, 0.3}, []float64{0.1, 0.5, 0.3}
	lr, b1, b2, eps, decay, step := 0.01, 0.9, 0.99, 1e-8, 0.02, 3.0
	bias1, bias2 := 1-math.Pow(b1, step), 1-math.Pow(b2, step)
	for _, decoupled := range []int64{0, 1} {
		for _, amsgrad := range []int64{0, 1} {
			for _, maximize := range []int64{0, 1} {
				e := optest.New()
				vec := func(x []float64) op.Val { return e.Tensor(ir.F64, []int64{3}, x...) }
				in := []op.Val{vec(w), vec(g), vec(m), vec(v)}
				if amsgrad == 1 {
					in = append(in, vec(top))
				}
				for _, s := range []float64{lr, b1, b2, eps, decay, bias1, bias2, 1 - b1, 1 - b2} {
					in = append(in, op.FloatVal(s))
				}
				o := emit(e, "adam_step", []int64{decoupled, amsgrad, maximize, 0}, in...)
				want := make([][]float64, 4)
				for i := range w {
					x, d := w[i], g[i]
					if maximize == 1 {
						d = -d
					}
					if decoupled == 1 {
						x -= lr * decay * x
					} else {
						d += decay * x
					}
					nm, nv := b1*m[i]+(1-b1)*d, b2*v[i]+(1-b2)*d*d
					big := nv
					if amsgrad == 1 {
						big = math.Max(nv, top[i])
					}
					x -= lr * (nm / bias1) / (math.Sqrt(big/bias2) + eps)
					for j, y := range []float64{x, nm, nv, big} {
						want[j] = append(want[j], y)
					}
				}
				for j, y := range o {
					near(t, ir.F64, want[j], e.Floats(y), j)
				}
			}
		}
	}
}
