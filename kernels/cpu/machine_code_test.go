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

// TestMachineCodeGivesTheBitsOfBlockPrograms: random kernels of every form give equal bits with and without machine code,
// apart from the payloads of NaN.
func TestMachineCodeGivesTheBitsOfBlockPrograms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cases := make([]*kerneltest.Case, 600)
	for i := range cases {
		cases[i] = kerneltest.Random(r, kerneltest.Limits{F64: true})
	}
	for _, isa := range instructionSets() {
		t.Run(isa, func(t *testing.T) {
			plain, hot := newDevice(t, cpu.Options{ISA: isa, Hot: -1}), newDevice(t, cpu.Options{ISA: isa, Hot: 1, Threads: 2})
			for i, c := range cases {
				l := launchOne{k: c.Kernel, par: c.Params, bufs: c.Bufs}
				want, fault, failed := run(t, plain, l)
				got, fault2, failed2 := run(t, hot, l)
				require.Equal(t, []any{fault, failed}, []any{fault2, failed2})
				requireBits(t, c.Kernel, got, want, "%s, case %d", c.Kernel.Name, i)
			}
			t.Log(hot.Stats()["kernels_machine_code"])
		})
	}
}
