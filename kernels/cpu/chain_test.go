package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/kir"
)

// mapStep is out = x op y; y begins at the run-time offset 0, where it has one.
func mapStep(op kir.Op, from, to ir.DType, n int64, offset, x, y, out int) device.Step {
	b := kir.NewBuilder("member", 1, 0)
	// Parameters are numbered in the order of their making, after the size.
	params := []device.Param{device.Const(n)}
	off := -1
	if offset >= 0 {
		off = b.Offset()
		params = append(params, device.Param{Offset: int32(offset), Scalar: -1})
	}
	v := b.Bin(op, b.Load(b.Linear(b.Buf(from, kir.Read), -1)), b.Load(b.Linear(b.Buf(from, kir.Read), off)))
	dst := b.Linear(b.Buf(to, kir.Write), -1)
	b.Map()
	b.Store(dst, b.Cast(to, v))
	return device.Step{Kind: device.RunKernel, Kernel: b.Kernel(), Bufs: []int{x, y, out}, Params: params}
}

// wideStep is a map whose many registers make its tiles smaller than those of mapStep.
func wideStep(n int64, x, y, out int) device.Step {
	b := kir.NewBuilder("wide", 1, 0)
	a, c := b.Load(b.Linear(b.Buf(ir.F32, kir.Read), -1)), b.Load(b.Linear(b.Buf(ir.F32, kir.Read), -1))
	dst := b.Linear(b.Buf(ir.F32, kir.Write), -1)
	sum, most := a, c
	var held []int
	for i := range 8 {
		held = append(held, b.Mul(b.Add(a, b.Float(ir.F32, float64(i))), c))
		sum = b.Add(sum, held[i])
	}
	for _, h := range held {
		most = b.Bin(kir.OpMax, most, b.Mul(h, sum))
	}
	b.Map()
	b.Store(dst, most)
	return device.Step{Kind: device.RunKernel, Kernel: b.Kernel(), Bufs: []int{x, y, out}, Params: []device.Param{device.Const(n)}}
}

// Maps that are worked tile by tile together give what they give one after the other, also
// where buffers are reused, change their element size, or are read elsewhere than they were written.
func TestChains(t *testing.T) {
	const n, slots = 50_000, 5
	f := ir.F32
	programs := map[string][]device.Step{
		"through temporaries": {mapStep(kir.OpAdd, f, f, n, -1, 0, 1, 2), mapStep(kir.OpMul, f, f, n, -1, 2, 0, 3), mapStep(kir.OpSub, f, f, n, -1, 3, 2, 2), mapStep(kir.OpMax, f, f, n, -1, 2, 3, 4)},
		"over the operands":   {mapStep(kir.OpAdd, f, f, n, -1, 0, 1, 2), mapStep(kir.OpSub, f, f, n, -1, 2, 1, 1), mapStep(kir.OpMul, f, f, n, -1, 1, 2, 3)},
		"another size":        {mapStep(kir.OpAdd, f, ir.F16, n, -1, 0, 1, 2), mapStep(kir.OpAdd, ir.F16, f, n, -1, 2, 2, 3), mapStep(kir.OpAdd, f, f, n, -1, 3, 0, 2)},
		"tiles of two sizes":  {mapStep(kir.OpAdd, f, f, n, -1, 0, 1, 2), wideStep(n, 2, 0, 3), mapStep(kir.OpSub, f, f, n, -1, 3, 2, 2), wideStep(n, 2, 3, 4)},
		"elsewhere":           {mapStep(kir.OpAdd, f, f, n, -1, 0, 1, 2), mapStep(kir.OpMul, f, f, n-3000, 0, 2, 2, 3), mapStep(kir.OpAdd, f, f, n, 1, 2, 2, 4)},
		"elsewhere, one size": {mapStep(kir.OpAdd, f, f, n/2, -1, 0, 1, 2), mapStep(kir.OpMul, f, f, n/2, 0, 0, 2, 3), mapStep(kir.OpAdd, f, f, n/2, 1, 3, 2, 4)},
	}
	contents := make([][]byte, slots)
	for i := range contents {
		contents[i] = data(f, n)
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for name, steps := range programs {
			play := func(programs ...[]device.Step) [][]byte {
				bind := &device.Binding{Offsets: []int64{2777, 0}}
				for _, b := range contents {
					x, err := d.Alloc(int64(len(b)))
					require.NoError(t, err)
					defer d.Free(x)
					require.NoError(t, d.Upload(x, ir.Bool, 0, b))
					bind.Bufs = append(bind.Bufs, x)
				}
				for _, s := range programs {
					p, err := d.Build(s, slots)
					require.NoError(t, err)
					_, err = d.Run(p, bind)
					require.NoError(t, err)
					p.Release()
				}
				out := copies(contents)
				for i := range out {
					require.NoError(t, d.Read(bind.Bufs[i], ir.Bool, 0, out[i]))
				}
				return out
			}
			var single [][]device.Step
			for _, s := range steps {
				single = append(single, []device.Step{s})
			}
			require.Equal(t, play(single...), play(steps), name)
		}
	})
}
