package cpu_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// mapStep is out = x op y; y begins at the run-time offset 0, where it has one.
func mapStep(op loopir.Op, from, to ir.DType, n int64, offset, x, y, out int) device.Step {
	b := loopir.NewBuilder("member", 1, 0)
	// Parameters are numbered in the order in which they are made, after the size.
	params := []device.Param{device.Const(n)}
	off := -1
	if offset >= 0 {
		off = b.Offset()
		params = append(params, device.Param{From: device.Offset, Index: int32(offset)})
	}
	v := b.Bin(op, b.Load(b.Linear(b.Buf(from, loopir.Read), -1)), b.Load(b.Linear(b.Buf(from, loopir.Read), off)))
	dst := b.Linear(b.Buf(to, loopir.Write), -1)
	b.Map()
	b.Store(dst, b.Cast(to, v))
	return device.Step{Op: b.Kernel(), Bufs: []int{x, y, out}, Params: params}
}

// wideStep is a map with so many registers that its tiles are smaller than mapStep's.
func wideStep(n int64, x, y, out int) device.Step {
	b := loopir.NewBuilder("wide", 1, 0)
	a, c := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1)), b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	dst := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	sum, most := a, c
	var held []int
	for i := range 8 {
		held = append(held, b.Mul(b.Add(a, b.Float(ir.F32, float64(i))), c))
		sum = b.Add(sum, held[i])
	}
	for _, h := range held {
		most = b.Bin(loopir.OpMax, most, b.Mul(h, sum))
	}
	b.Map()
	b.Store(dst, most)
	return device.Step{Op: b.Kernel(), Bufs: []int{x, y, out}, Params: []device.Param{device.Const(n)}}
}

// Maps that are worked tile by tile together give the results of maps worked one after the other, even where buffers
// are reused, change their element size, or are read at other places than they were written.
func TestChains(t *testing.T) {
	const n, slots = 50_000, 5
	f := ir.F32
	programs := map[string][]device.Step{
		"through temporaries": {mapStep(loopir.OpAdd, f, f, n, -1, 0, 1, 2), mapStep(loopir.OpMul, f, f, n, -1, 2, 0, 3),
			mapStep(loopir.OpSub, f, f, n, -1, 3, 2, 2), mapStep(loopir.OpMax, f, f, n, -1, 2, 3, 4)},
		"over the operands": {mapStep(loopir.OpAdd, f, f, n, -1, 0, 1, 2), mapStep(loopir.OpSub, f, f, n, -1, 2, 1, 1),
			mapStep(loopir.OpMul, f, f, n, -1, 1, 2, 3)},
		"another size": {mapStep(loopir.OpAdd, f, ir.F16, n, -1, 0, 1, 2), mapStep(loopir.OpAdd, ir.F16, f, n, -1, 2,
			2, 3), mapStep(loopir.OpAdd, f, f, n, -1, 3, 0, 2)},
		"tiles of two sizes": {mapStep(loopir.OpAdd, f, f, n, -1, 0, 1, 2), wideStep(n, 2, 0, 3), mapStep(loopir.OpSub, f, f,
			n, -1, 3, 2, 2), wideStep(n, 2, 3, 4)},
		"elsewhere": {mapStep(loopir.OpAdd, f, f, n, -1, 0, 1, 2), mapStep(loopir.OpMul, f, f, n-3000, 0, 2, 2, 3),
			mapStep(loopir.OpAdd, f, f, n, 1, 2, 2, 4)},
		"elsewhere, one size": {mapStep(loopir.OpAdd, f, f, n/2, -1, 0, 1, 2), mapStep(loopir.OpMul, f, f, n/2, 0, 0, 2, 3),
			mapStep(loopir.OpAdd, f, f, n/2, 1, 3, 2, 4)},
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

// Values that only one tile group uses need no buffer, and all others are what they are with buffers for all,
// also under the profiler.
func TestValuesOfOneChainNeedNoBuffer(t *testing.T) {
	const n, slots = 50_000, 7
	f := ir.F32
	add := func(n int64, from, to ir.DType, offset, x, y, out int) device.Step {
		return mapStep(loopir.OpAdd, from, to, n, offset, x, y, out)
	}
	cases := map[string]struct {
		steps []device.Step
		want  []int // slots without buffers, of 2 to 5
		ends  []int
	}{
		"one after the other": {
			[]device.Step{add(n, f, f, -1, 0, 1, 2), add(n, f, f, 1, 0, 2, 3), add(n, f, f, 1, 3, 2, 4),
				add(n, f, f, -1, 4, 4, 6)},
			[]int{2, 3, 4}, []int{3, 3, 3, 3},
		},
		"never read": {
			[]device.Step{add(n, f, f, -1, 0, 1, 2), add(n, f, f, -1, 0, 0, 6)},
			[]int{2}, []int{1, 1},
		},
		"element sizes": {
			[]device.Step{add(n, f, ir.F16, -1, 0, 1, 2), add(n, ir.F16, f, -1, 2, 2, 3), add(n, f, f, -1, 3, 0, 4),
				add(n, f, f, -1, 4, 3, 6)},
			[]int{2, 3, 4}, []int{3, 3, 3, 3},
		},
		"sizes of tiles": {
			[]device.Step{add(n, f, f, -1, 0, 1, 2), wideStep(n, 2, 0, 3), add(n, f, f, -1, 3, 2, 4), wideStep(n, 4, 3, 6)},
			[]int{2, 3, 4}, []int{3, 3, 3, 3},
		},
		"written over": {
			[]device.Step{add(n, f, f, -1, 0, 1, 2), add(n, f, f, -1, 2, 1, 2), add(n, f, f, -1, 2, 0, 6)},
			[]int{2}, []int{2, 2, 2},
		},
		"read after it": {
			[]device.Step{add(n, f, f, -1, 0, 1, 2), add(n, f, f, -1, 2, 0, 3), add(n, f, f, -1, 3, 3, 4),
				add(n-3000, f, f, -1, 3, 0, 6)},
			[]int{2, 4}, []int{2, 2, 2, 3},
		},
		"between two groups": {
			[]device.Step{add(n, f, f, -1, 0, 1, 2), add(n, f, f, -1, 2, 2, 3), add(n/2, f, f, -1, 3, 3, 4),
				add(n/2, f, f, -1, 4, 3, 6)},
			[]int{2, 4}, []int{1, 1, 3, 3},
		},
		"alone": {
			[]device.Step{add(n, f, f, -1, 0, 1, 2), add(n-3000, f, f, -1, 0, 1, 6)},
			nil, []int{0, 1},
		},
		"few tiles": {
			[]device.Step{add(4096, f, f, -1, 0, 1, 2), add(4096, f, f, -1, 2, 1, 6)},
			nil, []int{0, 1},
		},
		"at an offset": {
			[]device.Step{add(n/2, f, f, -1, 0, 1, 5), add(n/2, f, f, 1, 0, 5, 2), add(n/2, f, f, -1, 2, 5, 6)},
			nil, []int{2, 2, 2},
		},
	}
	contents, own := make([][]byte, slots), rand.New(rand.NewPCG(3, 1))
	for i := range contents {
		contents[i] = make([]byte, 4*n)
		for e := range int64(n) {
			loopir.StoreBits(f, contents[i], e, ir.EncodeFloat(f, own.NormFloat64()))
		}
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for name, c := range cases {
			bytes, inner := make([]int64, slots), make([]bool, slots)
			for s := range bytes {
				bytes[s], inner[s] = 4*n, s >= 2 && s <= 5
			}
			for _, s := range c.steps { // what a step of half the elements or size writes is as large
				bytes[s.Bufs[2]] = int64(s.Params[0].Bits) * int64(s.Op.(*loopir.Kernel).Bufs[2].Type.Size())
			}
			if name == "at an offset" {
				bytes[5] = 4 * n
			}
			ends, err := d.FusionGroups(c.steps, bytes, inner)
			require.NoError(t, err)
			require.Equal(t, c.ends, ends, name)
			for s := range inner {
				require.Equal(t, slices.Contains(c.want, s), inner[s], "%s: slot %d", name, s)
			}
			want := playWithout(t, d, c.steps, contents, make([]bool, slots))
			require.Equal(t, want, playWithout(t, d, c.steps, contents, inner), name)
		}
		require.Zero(t, d.Stats()["kernels"], "forms are left")
	})
}

// playWithout runs the steps twice, the second time profiled, and returns the last slot. The slots of inner have no
// buffer.
func playWithout(t *testing.T, d *cpu.Device, steps []device.Step, contents [][]byte, inner []bool) (out []byte) {
	bind, to := &device.Binding{Offsets: []int64{2777, 0}}, make([]int, len(inner))
	for s := range inner {
		if inner[s] {
			continue
		}
		x, err := d.Alloc(int64(len(contents[s])))
		require.NoError(t, err)
		defer d.Free(x)
		to[s] = len(bind.Bufs)
		bind.Bufs = append(bind.Bufs, x)
	}
	last := len(bind.Bufs)
	for s := range inner {
		if inner[s] {
			to[s] = last
			last++
		}
	}
	list := slices.Clone(steps)
	for i := range list {
		list[i].Bufs = slices.Clone(list[i].Bufs)
		for b, s := range list[i].Bufs {
			list[i].Bufs[b] = to[s]
		}
	}
	p, err := d.Build(list, len(bind.Bufs))
	require.NoError(t, err)
	defer p.Release()
	for _, profiled := range []bool{false, true} {
		for s, b := range contents {
			if !inner[s] {
				require.NoError(t, d.Upload(bind.Bufs[to[s]], ir.Bool, 0, b))
			}
		}
		require.NoError(t, d.Profile(profiled))
		_, err = d.Run(p, bind)
		require.NoError(t, err)
		got := make([]byte, len(contents[0]))
		require.NoError(t, d.Read(bind.Bufs[to[len(to)-1]], ir.Bool, 0, got))
		require.True(t, out == nil || string(out) == string(got), "profiled")
		out = got
	}
	times := d.Profiles()
	require.Len(t, times, len(list))
	for i := range times[1:] {
		require.GreaterOrEqual(t, times[i].Duration, time.Duration(0))
		require.Equal(t, times[i].Start+times[i].Duration, times[i+1].Start)
	}
	return out
}
