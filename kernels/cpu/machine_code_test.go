package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// requireBits requires equal bits, where NaN equals NaN.
func requireBits(t *testing.T, k *loopir.Kernel, got, want [][]byte, message ...any) {
	t.Helper()
	for i, b := range k.Bufs {
		for e := range int64(len(want[i]) / b.Type.Size()) {
			x, y := loopir.LoadBits(b.Type, got[i], e), loopir.LoadBits(b.Type, want[i], e)
			if v := ir.DecodeFloat(b.Type.ComputeType(), y); x != y && !(b.Type.IsFloat() && math.IsNaN(v) &&
				math.IsNaN(ir.DecodeFloat(b.Type.ComputeType(), x))) {
				require.Equal(t, y, x, append(message, i, e)...)
			}
		}
	}
}

// TestMachineCodeGivesTheBitsOfBlockPrograms: random kernels of every form, and larger ones, give equal bits with and
// without machine code, apart from the payloads of NaN.
func TestMachineCodeGivesTheBitsOfBlockPrograms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var cases []launchOne
	for range 600 {
		c := kerneltest.Random(r, kerneltest.Limits{F64: true})
		cases = append(cases, launchOne{k: c.Kernel, par: c.Params, bufs: c.Bufs})
	}
	for _, dt := range []ir.DType{ir.F32, ir.F64, ir.BF16} {
		cases = append(cases, bundleKernel(dt, 9, 15, 300, 1), bundleKernel(dt, 70, 3, 257, 2))
	}
	cases = append(cases, normKernel(70, 768), normKernel(3, 5000), softmaxKernel(40, 768, false, true),
		softmaxKernel(90, 700, true, false), unaryMap(100_001, chain))
	for _, isa := range instructionSets() {
		t.Run(isa, func(t *testing.T) {
			plain, hot := newDevice(t, cpu.Options{ISA: isa, Hot: -1}), newDevice(t, cpu.Options{ISA: isa, Hot: 1, Threads: 2})
			for i, l := range cases {
				want, fault, failed := run(t, plain, l)
				got, fault2, failed2 := run(t, hot, l)
				require.Equal(t, []any{fault, failed}, []any{fault2, failed2})
				requireBits(t, l.k, got, want, "%s, case %d", l.k.Name, i)
			}
			require.Equal(t, isa == "avx2" || isa == "avx512", hot.Stats()["kernels_machine_code"] > 300)
		})
	}
}

// TestMachineCodeSpills: a kernel with more values than registers, and more operands than addresses fit, for every
// number of lanes after the last block.
func TestMachineCodeSpills(t *testing.T) {
	for n := range int64(40) {
		b := loopir.NewBuilder("spills", 1, 0)
		l := launchOne{par: sizes(1000 + n)}
		var loads, products []int
		for range 14 {
			loads = append(loads, b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1)))
			l.bufs = append(l.bufs, data(ir.F32, 1000+n))
		}
		out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
		l.bufs = append(l.bufs, make([]byte, 4*(1000+n)))
		b.Map()
		for i := range 48 {
			products = append(products, b.Mul(loads[i%14], b.Add(loads[(i+3)%14], b.Float(ir.F32, float64(i)))))
		}
		sum := products[0]
		for i := range products[1:] {
			sum = b.Sub(products[len(products)-1-i], sum)
		}
		b.Store(out, sum)
		l.k = b.Kernel()
		for _, isa := range instructionSets() {
			want, _, _ := run(t, newDevice(t, cpu.Options{ISA: isa, Hot: -1, Threads: 1}), l)
			got, _, _ := run(t, newDevice(t, cpu.Options{ISA: isa, Hot: 1, Threads: 1}), l)
			requireBits(t, l.k, got, want, isa, n)
		}
	}
}
