package gpucode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// randomAppend draws a launch that stores a row: its number is the first, the last, one between, or out of range.
func randomAppend(r *rand.Rand, n kerneltest.AttentionSize) (c *kerneltest.AttentionCase, place int) {
	place = r.IntN(5)
	number := []int64{0, n.Keys - 1, r.Int64N(n.Keys), -1 - r.Int64N(1<<20), n.Keys + r.Int64N(1<<20)}[place]
	return kerneltest.RandomAppend(r, []ir.DType{ir.F32, ir.F16}[r.IntN(2)], n, number), place
}

// appendOptions are the options of a launch on a device with subgroups or without, with integers of 64 bits or without,
// and with few keys a block.
func appendOptions(t *testing.T, r *rand.Rand, c *kerneltest.AttentionCase, lanes bool) AttentionOptions {
	caps := Caps{MaxThreads: 256, I64: r.IntN(2) == 0}
	if lanes {
		caps.Subgroup = []int{8, 32}[r.IntN(2)]
	}
	o, ok := chooseQuery(c.Attention, c.Params, caps.withDefaults())
	require.True(t, ok)
	require.Equal(t, lanes, o.KeyLanes > 0)
	require.Equal(t, caps.I64, o.I64)
	if lanes {
		o.RowThreads = max(64, o.Subgroup, padded(uint64(o.WidthV/4), o.Subgroup)) / o.Lanes
		o.Cols = o.RowThreads * o.Unroll
	} else {
		o.Cols, o.Lanes, o.Unroll = 32, 32, 1+r.IntN(4)
	}
	o.Parts = []int{1, 2, 5}[r.IntN(3)]
	return o
}

// A launch stores the new rows, and attends as if they had been there before: with threads that share keys and with
// blocks, in one part or several, whose heads share keys or do not.
func TestSingleQueriesStoreNewRows(t *testing.T) {
	for _, lanes := range []bool{false, true} {
		t.Run(fmt.Sprintf("lanes %v", lanes), func(t *testing.T) {
			masks, places, seen := map[ir.DType]bool{}, map[int]bool{}, map[string]int{}
			for seed := range uint64(50) {
				r := rand.New(rand.NewPCG(seed, 11))
				n := kerneltest.AttentionSize{Batch: 1 + r.Int64N(2), Heads: 4, Group: []int64{1, 2, 4}[r.IntN(3)],
					Queries: 1 + r.Int64N(launch.AppendQueries), Keys: 1 + r.Int64N(90), Aligned: r.IntN(2) == 0}
				n.Width, n.WidthV = 16*(1+r.Int64N(3)), 16*(1+r.Int64N(3))
				if !n.Aligned {
					n.Width, n.WidthV = n.Width-r.Int64N(4), n.WidthV-r.Int64N(4)
				}
				c, place := randomAppend(r, n)
				o := appendOptions(t, r, c, lanes)
				checkAttention(t, c, o)
				masks[c.Attention.Mask], places[place] = true, true
				for what, on := range map[string]bool{"vectors": o.Vec, "no vectors": !o.Vec, "causal": c.Attention.Causal,
					"parts": o.Parts > 1, "group": n.Group > 1, "halves": c.Attention.Type == ir.F16, "I64": o.I64} {
					if on {
						seen[what]++
					}
				}
			}
			require.Len(t, masks, 4)
			require.Len(t, places, 5)
			require.Len(t, seen, 7)
		})
	}
}

// The result of a workgroup does not depend on what another one stores: whether memory has the old row or the new one
// makes no difference.
func TestNewRowsAreNotReadFromMemory(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 13))
		n := kerneltest.AttentionSize{Batch: 2, Heads: 4, Group: 2, Queries: 1, Keys: 40, Width: 16, WidthV: 32,
			Aligned: true}
		c := kerneltest.RandomAppend(r, ir.F32, n, r.Int64N(40))
		o, l := appendOptions(t, r, c, seed%2 == 0), c.Attention.Layout()
		once := c.Copy()
		attend(t, c.Attention, o, once)
		again := once.Copy() // its caches have the new rows
		clear(again.Bufs[l.Out[0]])
		attend(t, c.Attention, o, again)
		require.Equal(t, once.Bufs, again.Bufs)
		require.NotEqual(t, c.Bufs[l.K.Buf], once.Bufs[l.K.Buf])
	}
}

// Of the workgroups that share a key head, the one of the first head and the first part stores the new row. In this
// test each workgroup that stores writes its number, and the last number remains.
func TestOneWorkgroupStoresARow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 15))
	n := kerneltest.AttentionSize{Batch: 1, Heads: 4, Group: 2, Queries: 1, Keys: 40, Width: 16, WidthV: 16, Aligned: true}
	c := kerneltest.RandomAppend(r, ir.F32, n, 7)
	l := c.Attention.Layout()
	for _, lanes := range []bool{false, true} {
		o := appendOptions(t, r, c, lanes)
		o.Parts = 2
		list, err := FromAttention(c.Attention, o)
		require.NoError(t, err)
		caches := []launch.AttentionOperand{l.K, l.V}
		for _, cache := range caches {
			require.Positive(t, storeNumbers(list[0].Body, cache.Buf))
		}
		got := c.Copy()
		_, err = gpuir.Interpret(list[0], c.Params, append(got.Bufs, make([]byte, o.ScratchBytes(c.Attention, c.Params))))
		require.NoError(t, err)
		for _, cache := range caches {
			for h, group := range []float64{0, 4} { // they are numbered by head, and by part within
				at := int64(h)*int64(c.Params[cache.Param+1]) + 7*int64(c.Params[cache.Param+2]) + int64(c.Params[cache.Param+4])
				require.Equal(t, group, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got.Bufs[cache.Buf], at)))
			}
		}
	}
}

// storeNumbers makes stores to a buffer store the number of the workgroup. It returns how many there are.
func storeNumbers(body []gpuir.Stmt, buf int) (stores int) {
	for i := range body {
		s := &body[i]
		stores += storeNumbers(s.Body, buf) + storeNumbers(s.Else, buf)
		if s.Op == gpuir.SStore && s.Ref == buf {
			stores++
			wide := s.B.Width == 4
			if s.B = gpuir.N(loopir.OpCast, ir.F32, gpuir.NGroup()); wide {
				s.B = gpuir.NSplat(s.B)
			}
		}
	}
	return stores
}

func TestTilesStoreNoNewRows(t *testing.T) {
	a := &launch.Attention{Type: ir.F32, Append: true}
	o := fewRowsAttention
	o.Width, o.WidthV, o.MaxWorkgroupBytes = 64, 64, 48<<10
	_, err := FromAttention(a, o)
	require.ErrorContains(t, err, "tiles store no new rows")
	_, err = FromAttention(&launch.Attention{Type: ir.F32}, o)
	require.NoError(t, err)
}

// Every launch that a device admits has options for single queries.
func TestAdmittedAppendsHaveOptions(t *testing.T) {
	none := 0
	for _, caps := range []Caps{{MaxBuffers: 10}, {MaxBuffers: 9}, {MaxBuffers: 10, Software: true},
		{MaxBuffers: 10, MaxThreads: 128}, {MaxBuffers: 10, Subgroup: 4}, {MaxBuffers: 10, Subgroup: 32, MaxThreads: 1024},
		{MaxBuffers: 16, Subgroup: 32, MaxThreads: 1024, MaxWorkgroupBytes: 48 << 10},
		{MaxBuffers: 10, MaxWorkgroupBytes: 8192},
	} {
		widest := uint64(WidestAppend(caps))
		if widest == 0 {
			none++
			continue
		}
		a := &launch.Attention{Type: ir.F32, Append: true}
		l := a.Layout()
		for _, keys := range []uint64{1, 100, 5000} {
			for _, width := range []uint64{1, 16, 100, 256, widest - 1, widest} {
				for _, columns := range []uint64{16, width} {
					params := make([]uint64, len(l.Params))
					for p, v := range map[int]uint64{l.Batch: 1, l.Heads: 4, l.KeyHeads: 2,
						l.Queries: launch.AppendQueries, l.Keys: keys, l.Width: width, l.WidthV: columns} {
						params[p] = v
					}
					o := ChooseAttention(a, params, caps)
					list, err := FromAttention(a, o)
					require.NoError(t, err)
					require.LessOrEqual(t, len(list[0].Bufs), caps.MaxBuffers)
					require.Equal(t, loopir.ReadWrite, list[0].Bufs[l.K.Buf].Access)
				}
			}
		}
	}
	require.Equal(t, 4, none)
}
