package wgsl

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// add is x + y*s over contiguous operands, one of them half precision.
func add() *loopir.Kernel {
	b := loopir.NewBuilder("map_axpy", 1, 0)
	s := b.Scalar(ir.F32)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	y := b.Load(b.Linear(b.Buf(ir.F16, loopir.Read), b.Offset()))
	out := b.Linear(b.Buf(ir.F16, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Fma(y, b.Param(s), x))
	return b.Kernel()
}

func softmax() *loopir.Kernel {
	b := loopir.NewBuilder("softmax", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Each()
	m := b.Reduce(loopir.Max, x)
	b.Each()
	e := b.Un(loopir.OpExp, b.Sub(x, b.Acc(m)))
	s := b.Reduce(loopir.Sum, e)
	b.Each()
	b.Store(out, b.Div(e, b.Acc(s)))
	return b.Kernel()
}

// gather reads checked rows and counts them with atomics.
func gather(count ir.DType) *loopir.Kernel {
	b := loopir.NewBuilder("gather", 2, 0)
	size := b.Size()
	table := b.Buf(ir.BF16, loopir.Read)
	i := b.Load(b.Access(b.Buf(ir.I64, loopir.Read), -1, loopir.Unit))
	hits := b.Buf(count, loopir.Atomic)
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	at := b.InBounds(i, b.Param(size))
	b.Store(out, b.LoadAt(table, b.Add(b.Mul(at, b.Param(1)), b.Index(1))))
	b.StoreAt(b.Eq(b.Index(1), b.I64(0)), hits, at, b.Int(count, 1), loopir.Add)
	return b.Kernel()
}

// functions uses every helper and the values that have no literals.
func functions() *loopir.Kernel {
	b := loopir.NewBuilder("functions", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	n := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	out, ints := b.Linear(b.Buf(ir.F32, loopir.Write), -1), b.Linear(b.Buf(ir.I32, loopir.Write), -1)
	b.Map()
	v := b.Un(loopir.OpErf, b.Un(loopir.OpTanh, b.Pow(x, b.Float(ir.F32, -0.5))))
	for _, op := range []loopir.Op{loopir.OpSin, loopir.OpCos, loopir.OpLog, loopir.OpExp, loopir.OpSqrt, loopir.OpRound} {
		v = b.Un(op, v)
	}
	v = b.Max(b.Rem(v, x), b.Select(b.Un(loopir.OpIsNaN, x), b.Float(ir.F32, math.Inf(-1)), b.Float(ir.F32, math.NaN())))
	b.Store(out, b.Min(v, b.Div(x, v)))
	w := b.Pow(b.Div(n, b.Int(ir.I32, math.MinInt32)), b.Rem(n, b.Int(ir.I32, 7)))
	b.Store(ints, b.Bin(loopir.OpShl, b.Bin(loopir.OpShr, w, n), b.Int(ir.I32, 3)))
	return b.Kernel()
}

// narrowed rounds as stores in both half types do.
func narrowed() *loopir.Kernel {
	b := loopir.NewBuilder("narrowed", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Narrow(ir.BF16, b.Mul(b.Narrow(ir.F16, x), b.Float(ir.F32, 0.3))))
	return b.Kernel()
}

func scan() *loopir.Kernel {
	b := loopir.NewBuilder("cumsum", 1, 1)
	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, b.Stride(), loopir.Unit))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Scan()
	s := b.Reduce(loopir.Sum, x)
	b.Store(out, b.AccRun(s))
	return b.Kernel()
}

func argmax() *loopir.Kernel {
	b := loopir.NewBuilder("argmax", 1, 1)
	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Unit, b.Stride()))
	out := b.Linear(b.Buf(ir.I64, loopir.Write), -1)
	b.Each()
	a := b.ReduceIdx(loopir.ArgMax, x, b.Index(1))
	b.Map()
	b.Store(out, b.AccIdx(a))
	return b.Kernel()
}

func draw() *loopir.Kernel {
	b := loopir.NewBuilder("rand", 1, 0)
	seed, drawOffset := b.Scalar(ir.I64), b.Scalar(ir.I64)
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	w := b.Draw(loopir.DrawWord, b.Param(drawOffset), b.Param(seed))
	b.Store(out, b.Mul(b.Cast(ir.F32, b.Bin(loopir.OpShr, w, b.Int(ir.U32, 8))), b.Float(ir.F32, 1.0/(1<<24))))
	return b.Kernel()
}

func TestGolden(t *testing.T) {
	plain := gpucode.Options{Workgroup: 64, Vec: 1, Lanes: 1}
	vec := gpucode.Options{Workgroup: 256, Vec: 4, Lanes: 1}
	lanes := gpucode.Options{Workgroup: 64, Vec: 1, Lanes: 16}
	columns := gpucode.Options{Workgroup: 64, Vec: 1, Lanes: 8, OuterFast: true, I64: true}
	held := gpucode.Options{Workgroup: 128, Vec: 4, Lanes: 64, Hold: 2, Subgroup: 32}
	parts := gpucode.Options{Workgroup: 64, Vec: 1, Lanes: 8, OuterFast: true, Unroll: 2, Parts: 4, I64: true}
	wide := gpucode.Options{Workgroup: 64, Vec: 1, Lanes: 1, I64: true}
	for _, tc := range []struct {
		name string
		k    *loopir.Kernel
		tile gpucode.Options
		o    Options
	}{
		{"axpy_vec4_packed", add(), vec, Options{}},
		{"axpy_vec4_f16_immediates", add(), vec, Options{F16: true, Immediates: true}},
		{"axpy_scalar_packed", add(), plain, Options{}},
		{"softmax_lane", softmax(), plain, Options{}},
		{"softmax_lanes", softmax(), lanes, Options{}},
		{"gather_i32_cas", gather(ir.F32), plain, Options{}},
		{"gather_i64_native", gather(ir.F32), wide, Options{I64: true, F32Atomics: true}},
		{"gather_i64_count", gather(ir.I64), wide, Options{I64: true}},
		{"gather_f16_count", gather(ir.F16), plain, Options{}},
		{"functions", functions(), plain, Options{}},
		{"functions_ours", functions(), plain, Options{Poly: 1<<9 - 1}},
		{"cumsum_lane", scan(), plain, Options{}},
		{"cumsum_lanes", scan(), lanes, Options{}},
		{"softmax_held", softmax(), held, Options{}},
		{"argmax_parts", argmax(), parts, Options{I64: true}},
		{"argmax_columns", argmax(), columns, Options{I64: true}},
		{"rand", draw(), plain, Options{}},
		{"rand_vec4", draw(), vec, Options{}},
		{"narrowed", narrowed(), plain, Options{F16: true}},
		{"narrowed_vec4", narrowed(), vec, Options{F16: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := gpucode.FromKernel(tc.k, tc.tile)
			require.NoError(t, err)
			for i, pass := range p {
				name := tc.name
				if len(p) > 1 {
					name += fmt.Sprintf("_pass%d", i)
				}
				golden(t, name, pass, tc.o)
			}
		})
	}
	p, err := gpucode.FromKernel(softmax(), lanes)
	require.NoError(t, err)
	golden(t, "softmax_lanes_x3", gpuir.Merge(p[0], 3, []bool{true, false}), Options{})
	goldenGemm(t)
	sums := &launch.Gemm{Type: ir.F32, AUnit: 'm', BUnit: 'n', Sums: 'a'}
	p, err = gpucode.FromGemm(sums, gpucode.GemmOptions{BM: 32, BN: 32, BK: 8, WM: 16, WN: 32, TM: 4, TN: 4, Rolled: true,
		VecA: true, VecB: true, Parts: 2})
	require.NoError(t, err)
	golden(t, "gemm_sums_pass0", p[0], Options{})
	golden(t, "gemm_sums_pass1", p[1], Options{})
	goldenAttention(t)
}

// goldenGemm prints a product in the small form, in a tile whose threads store their own columns, and in one of rows
// that do not begin at vectors, which neighbouring threads store by way of workgroup memory.
func goldenGemm(t *testing.T) {
	for _, tc := range []struct {
		name     string
		columns  uint64
		residual bool
		caps     gpucode.Caps
	}{
		{"gemm_rolled", 36, false, gpucode.Caps{Software: true}},
		{"gemm_32x32", 36, false, gpucode.Caps{}},
		{"gemm_ragged", 35, true, gpucode.Caps{}},
	} {
		g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n', Bias: true, Epilogue: kerneltest.Epilogue(ir.F32, 3,
			tc.residual)}
		params := []uint64{40, tc.columns, 20, 20, 1, 0, tc.columns, 1, 0, 1, 0}
		p, err := gpucode.FromGemm(g, gpucode.ChooseGemm(g, params, tc.caps))
		require.NoError(t, err)
		golden(t, tc.name, p[0], Options{})
	}
}

// goldenAttention prints each pass in the small form; a mask, causality and dropout are in one each.
func goldenAttention(t *testing.T) {
	for name, a := range map[string]*launch.Attention{
		"attention":         {Type: ir.F32, Causal: true},
		"attention_grad_q":  {Type: ir.F32, Pass: launch.AttentionGradQ, Mask: ir.Bool},
		"attention_grad_kv": {Type: ir.F32, Pass: launch.AttentionGradKV, Causal: true},
		"attention_grad_mask": {Type: ir.F32, Pass: launch.AttentionGradMask, Mask: ir.F32, Dropout: true,
			Sum: [4]bool{true, false, true, false}},
	} {
		params := make([]uint64, len(a.Layout().Params))
		copy(params, []uint64{1, 2, 2, 9, 9, 8, 8})
		p, err := gpucode.FromAttention(a, gpucode.ChooseAttention(a, params, gpucode.Caps{Software: true}))
		require.NoError(t, err)
		golden(t, name, p[0], Options{})
	}
}

func golden(t *testing.T, name string, p *gpuir.Program, o Options) {
	t.Helper()
	m, err := Print(p, o)
	require.NoError(t, err)
	again, err := Print(p, o)
	require.NoError(t, err)
	require.Equal(t, m.Text, again.Text)
	path := filepath.Join("testdata", name+".wgsl")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(m.Text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), m.Text, "run with -update if this is meant")
}

func TestBindingsAndParameters(t *testing.T) {
	p, err := gpucode.FromKernel(gather(ir.I32), gpucode.Options{Workgroup: 64, Vec: 1})
	require.NoError(t, err)
	m, err := Print(p[0], Options{})
	require.NoError(t, err)
	require.Equal(t, []Binding{
		{BindStorage, 0, true}, {BindStorage, 1, true}, {BindStorage, 2, false}, {BindStorage, 3, false},
		{BindError, -1, false}, {BindParams, -1, false},
	}, m.Bindings)
	require.Equal(t, []Word{{0, false, true}, {1, false, true}, {2, false, true}, {-1, false, false}}, m.Words)
	require.Equal(t, 16, m.ParamBytes())
	dst := make([]byte, m.ParamBytes())
	require.NoError(t, m.Pack(dst, []uint64{5, 6, 7}, 9))
	for i, want := range []uint32{5, 6, 7, 9} {
		require.Equal(t, want, binary.LittleEndian.Uint32(dst[4*i:]))
	}
	require.ErrorContains(t, m.Pack(dst, []uint64{5, 1 << 31, 7}, 9), "does not fit 32 bits")
	m, err = Print(p[0], Options{Immediates: true})
	require.NoError(t, err)
	require.Equal(t, BindError, m.Bindings[len(m.Bindings)-1].Kind)
	require.Contains(t, m.Text, "var<immediate> P: Params;")
}

func TestScalarsOf64BitsTakeTwoWords(t *testing.T) {
	p, err := gpucode.FromKernel(draw(), gpucode.Options{Workgroup: 64, Vec: 1})
	require.NoError(t, err)
	m, err := Print(p[0], Options{})
	require.NoError(t, err)
	require.Equal(t, []Word{{0, false, true}, {1, false, false}, {1, true, false}, {2, false, false}, {2, true, false}},
		m.Words)
	dst := make([]byte, m.ParamBytes())
	require.NoError(t, m.Pack(dst, []uint64{1, 0x1122334455667788, math.MaxUint64}, 0))
	require.Equal(t, uint32(0x55667788), binary.LittleEndian.Uint32(dst[4:]))
	require.Equal(t, uint32(0x11223344), binary.LittleEndian.Uint32(dst[8:]))
}

// Integers of 64 bits may not appear where the device has none, whatever the kernel.
func TestNo64BitTextWithoutTheFeature(t *testing.T) {
	wide := regexp.MustCompile(`[iu]64|[0-9]li\b`)
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := kerneltest.Random(r, kerneltest.Limits{})
		p, err := gpucode.FromKernel(c.Kernel, gpucode.Choose(c.Kernel, c.Params, gpucode.Caps{}))
		require.NoError(t, err)
		for _, pass := range p {
			m, err := Print(pass, Options{F16: r.IntN(2) == 0})
			require.NoError(t, err)
			require.NotRegexp(t, wide, m.Text)
			// What strconv calls infinities and NaN is no WGSL.
			require.NotRegexp(t, `NaN|Inf`, m.Text)
		}
	}
}
