package gpucode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

var attentionPasses = []launch.AttentionPass{launch.AttentionForward, launch.AttentionGradQ, launch.AttentionGradKV,
	launch.AttentionGradMask}

// attend interprets the passes of a over got, with scratch memory of arbitrary content.
func attend(t *testing.T, a *launch.Attention, o AttentionOptions, got *kerneltest.AttentionCase) (statements int) {
	t.Helper()
	list, err := FromAttention(a, o)
	require.NoError(t, err)
	scratch := bytes.Repeat([]byte{0xA5}, int(o.ScratchBytes(a, got.Params)))
	for _, p := range list {
		bufs := got.Bufs
		if len(list) > 1 {
			bufs = append(slices.Clone(bufs), scratch)
		}
		_, err = gpuir.Interpret(p, got.Params, bufs)
		require.NoError(t, err, "%+v %+v %v", *a, o, got.Params)
		statements += statementsOf(p.Body)
	}
	return statements
}

func checkAttention(t *testing.T, c *kerneltest.AttentionCase, o AttentionOptions) {
	t.Helper()
	want, got := c.Copy(), c.Copy()
	require.NoError(t, launch.InterpretAttention(c.Attention, want.Params, want.Bufs))
	attend(t, c.Attention, o, got)
	k := &loopir.Kernel{Bufs: c.Attention.Layout().Bufs}
	require.NoError(t, kerneltest.Close(k, got.Bufs, want.Bufs, 1e-4, 1e-4), "%+v %+v %v", *c.Attention, o, c.Params)
}

func TestEveryTileAttends(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 256}
	for _, pass := range attentionPasses {
		tiles := []AttentionOptions{rolledAttention, smallAttention}
		for _, c := range attentionTiles[pass] {
			tiles = append(tiles, c.AttentionOptions)
		}
		for i, tile := range tiles {
			t.Run(fmt.Sprintf("%d_%dx%d", pass, tile.Rows, tile.Cols), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(i), uint64(pass)))
				n := kerneltest.AttentionSize{Batch: 1, Heads: 2, Group: 2, Queries: int64(tile.Rows) + 3, Keys: int64(tile.Cols) +
					5, Width: 32, WidthV: 12, Aligned: i%2 == 0}
				c := kerneltest.RandomAttention(r, ir.F32, pass, n)
				o := tile
				o.Vec, o.MaxWorkgroupBytes = ChooseAttention(c.Attention, c.Params, caps).Vec, caps.MaxWorkgroupBytes
				unit := 4 * o.Lanes
				if o.Chunk > 0 {
					unit = max(unit, 4*o.threads()/o.ChunkRows)
				}
				o.Width, o.WidthV = padded(32, unit), padded(12, unit)
				checkAttention(t, c, o)
			})
		}
	}
}

func TestRandomAttentionAsChosen(t *testing.T) {
	vecs, exact, masks, causal, drops, sums := 0, 0, 0, 0, 0, 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 5))
		group := int64(1 + r.IntN(2))
		n := kerneltest.AttentionSize{Batch: int64(1 + r.IntN(2)), Heads: 2, Group: group, Queries: int64(1 + r.IntN(20)),
			Keys:  int64(1 + r.IntN(20)),
			Width: int64(1 + r.IntN(34)), WidthV: int64(1 + r.IntN(34)), Aligned: r.IntN(2) == 0}
		if n.Aligned {
			n.Width, n.WidthV = 16*int64(1+r.IntN(2)), 4*int64(1+r.IntN(8))
		}
		if r.IntN(2) == 0 {
			n.WidthV = n.Width
		}
		c := kerneltest.RandomAttention(r, []ir.DType{ir.F32, ir.F32, ir.F16}[r.IntN(3)], attentionPasses[r.IntN(4)], n)
		o := ChooseAttention(c.Attention, c.Params, Caps{MaxWorkgroupBytes: 32 << 10, Software: r.IntN(4) > 0})
		checkAttention(t, c, o)
		for _, s := range []struct {
			n  *int
			on bool
		}{{&vecs, o.Vec}, {&exact, o.Exact}, {&masks, c.Attention.Mask != ir.InvalidDType}, {&causal, c.Attention.Causal},
			{&drops, c.Attention.Dropout}, {&sums, c.Attention.Sum != [4]bool{}}} {
			if s.on {
				*s.n++
			}
		}
	}
	for _, n := range []int{vecs, exact, masks, causal, drops, sums} {
		require.Greater(t, n, 10)
	}
}

// A workgroup works a single query over a part of the keys: in one pass, or in two with parts of a few keys, of which
// the last may be empty.
func TestSingleQueriesAttendInParts(t *testing.T) {
	masks, causal, several := map[ir.DType]bool{}, 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := kerneltest.AttentionSize{Batch: 1 + r.Int64N(2), Heads: 2, Group: 1 + r.Int64N(2), Queries: 1 + r.Int64N(4),
			Keys: 1 + r.Int64N(90), Width: 1 + r.Int64N(20), WidthV: 1 + r.Int64N(20), Aligned: r.IntN(2) == 0}
		if n.Aligned {
			n.Width, n.WidthV = 4*(1+r.Int64N(5)), 4*(1+r.Int64N(5))
		}
		c := kerneltest.RandomAttention(r, []ir.DType{ir.F32, ir.F16}[r.IntN(2)], launch.AttentionForward, n)
		if c.Attention.Dropout {
			continue
		}
		o, ok := chooseQuery(c.Attention, c.Params, Caps{}.withDefaults())
		require.True(t, ok)
		o.Cols, o.Lanes, o.Parts, o.Unroll = 32, 32, []int{1, 2, 5}[r.IntN(3)], 1+r.IntN(4)
		checkAttention(t, c, o)
		masks[c.Attention.Mask] = true
		if c.Attention.Causal {
			causal++
		}
		if o.Parts > 1 {
			several++
		}
	}
	require.Len(t, masks, 4)
	require.Greater(t, min(causal, several), 5)
}

// Threads of a subgroup share a key: all of them or some, with a vector of columns each or several, over keys in one
// block or in many, and over parts that may be empty.
func TestThreadsShareTheKeysOfSingleQueries(t *testing.T) {
	masks, lanes, shared, blocks := map[ir.DType]bool{}, map[int]bool{}, 0, 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 9))
		n := kerneltest.AttentionSize{Batch: 1 + r.Int64N(2), Heads: 2, Group: 1 + r.Int64N(2), Queries: 1 + r.Int64N(4),
			Keys: 1 + r.Int64N(90), Aligned: r.IntN(2) == 0}
		n.Width, n.WidthV = 16*(1+r.Int64N(6)), 16*(1+r.Int64N(6))
		if !n.Aligned {
			n.Width, n.WidthV = n.Width-r.Int64N(4), n.WidthV-r.Int64N(4)
		}
		c := kerneltest.RandomAttention(r, []ir.DType{ir.F32, ir.F16}[r.IntN(2)], launch.AttentionForward, n)
		if c.Attention.Dropout {
			continue
		}
		caps := Caps{Subgroup: []int{8, 32}[r.IntN(2)], MaxThreads: 256}
		o, ok := chooseQuery(c.Attention, c.Params, caps.withDefaults())
		require.True(t, ok)
		require.Positive(t, o.KeyLanes, "%+v", n)
		if r.IntN(2) == 0 {
			o.RowThreads = max(64, o.Subgroup, padded(uint64(o.WidthV/4), o.Subgroup)) / o.Lanes
			o.Cols = o.RowThreads * o.Unroll
		}
		o.Parts = []int{1, 1, 2, 5}[r.IntN(4)]
		checkAttention(t, c, o)
		masks[c.Attention.Mask], lanes[o.KeyLanes] = true, true
		if o.Width > 4*o.KeyLanes {
			shared++
		}
		if int64(o.Cols) < n.Keys {
			blocks++
		}
	}
	require.Len(t, masks, 4)
	require.Greater(t, min(len(lanes), shared, blocks), 2)
}

func TestSharedKeysNeedTheirForm(t *testing.T) {
	a := &launch.Attention{Type: ir.F32}
	good := AttentionOptions{Rows: 1, Cols: 64, RowThreads: 16, Lanes: 16, KeyLanes: 16, Subgroup: 32, Unroll: 4,
		Width: 64, WidthV: 64, Parts: 1}
	_, err := FromAttention(a, good)
	require.NoError(t, err)
	for name, change := range map[string]func(o *AttentionOptions){
		"width":    func(o *AttentionOptions) { o.Width = 96 },
		"lanes":    func(o *AttentionOptions) { o.KeyLanes = 8 },
		"unroll":   func(o *AttentionOptions) { o.Unroll = 2 },
		"subgroup": func(o *AttentionOptions) { o.Subgroup = 8 },
	} {
		bad := good
		change(&bad)
		_, err := FromAttention(a, bad)
		require.ErrorContains(t, err, "threads cannot share the keys", name)
	}
	a.Dropout = true
	_, err = FromAttention(a, good)
	require.ErrorContains(t, err, "without dropout")
}

// A short text gives the bits of the long one, so it keeps the blocks of keys.
func TestBriefAttentionKeepsSharedKeys(t *testing.T) {
	a := &launch.Attention{Type: ir.F32}
	l := a.Layout()
	params := make([]uint64, len(l.Params))
	for p, v := range map[int]uint64{l.Batch: 1, l.Heads: 12, l.KeyHeads: 12, l.Queries: 1, l.Keys: 256, l.Width: 64,
		l.WidthV: 64} {
		params[p] = v
	}
	caps := Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 1024, Units: 264, Subgroup: 32}
	o := ChooseAttention(a, params, caps)
	require.Equal(t, 16, o.KeyLanes)
	require.Equal(t, 256, o.Cols)
	require.Equal(t, o, BriefAttention(a, params, caps))
}

// Few workgroups share long keys; one has short ones, and launches that fill the device are not divided.
func TestKeysOfSingleQueriesAreDivided(t *testing.T) {
	for _, tc := range []struct {
		batch, heads, queries, keys uint64
		parts                       int
	}{{1, 12, 1, 256, 1}, {1, 12, 1, 1023, 1}, {1, 12, 1, 1024, 2}, {1, 12, 1, 4096, 8}, {1, 12, 1, 1 << 20, 16},
		{64, 12, 1, 4096, 1}, {1, 12, 4, 4096, 4}, {1, 12, 5, 4096, 0}} {
		a := &launch.Attention{Type: ir.F32}
		l := a.Layout()
		params := make([]uint64, len(l.Params))
		for p, v := range map[int]uint64{l.Batch: tc.batch, l.Heads: tc.heads, l.KeyHeads: tc.heads, l.Queries: tc.queries,
			l.Keys: tc.keys, l.Width: 64, l.WidthV: 64} {
			params[p] = v
		}
		o := ChooseAttention(a, params, Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 1024, Units: 264})
		require.Equal(t, tc.parts, o.Parts, "%+v", tc)
		require.Equal(t, tc.parts > 1, o.ScratchBytes(a, params) > 0, "%+v", tc)
	}
}

func TestAttentionInChunks(t *testing.T) {
	for i, o := range []AttentionOptions{
		{Rows: 16, Cols: 16, RowThreads: 4, Lanes: 4, Chunk: 16, ChunkRows: 8, Unroll: 2},
		{Rows: 16, Cols: 8, RowThreads: 4, Lanes: 4, Chunk: 8, ChunkRows: 8, Unroll: 1},
		{Rows: 32, Cols: 16, RowThreads: 8, Lanes: 8, Chunk: 32, ChunkRows: 16, Unroll: 2},
		{Rows: 16, Cols: 16, RowThreads: 4, Lanes: 4, Chunk: 8, ChunkRows: 8, Double: true, Unroll: 2},
		{Rows: 16, Cols: 16, RowThreads: 4, Lanes: 8, Chunk: 32, ChunkRows: 16, Double: true, Unroll: 2},
	} {
		for _, pass := range attentionPasses[:3] {
			for seed := range uint64(4) {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				c := kerneltest.RandomAttention(r, ir.F32, pass, kerneltest.AttentionSize{Batch: 1, Heads: 2,
					Group: int64(1 + seed%2), Queries: 37, Keys: 35, Width: 28, WidthV: 24, Aligned: seed%2 == 0})
				o.Width, o.WidthV, o.Vec = 32, 32, attentionVectors(c.Attention, c.Params,
					&[]launch.AttentionLayout{c.Attention.Layout()}[0])
				o.MaxWorkgroupBytes = 48 << 10
				checkAttention(t, c, o)
			}
		}
	}
}

// TestMaskGradientSums tries all ways in which dims may share a mask.
func TestMaskGradientSums(t *testing.T) {
	for shared := range 16 {
		r := rand.New(rand.NewPCG(uint64(shared), 6))
		c := kerneltest.RandomAttention(r, ir.F32, launch.AttentionGradMask, kerneltest.AttentionSize{Batch: 2, Heads: 2,
			Group: 1, Queries: 19, Keys: 10, Width: 3, WidthV: 4})
		size := []int64{2, 2, 19, 10}
		for d := range size {
			if c.Attention.Sum[d] = shared>>d&1 == 1; c.Attention.Sum[d] {
				size[d] = 1
			}
		}
		c.Bufs[len(c.Bufs)-1] = make([]byte, ir.Numel(size)*int64(c.Attention.Mask.Size()))
		o := ChooseAttention(c.Attention, c.Params, Caps{MaxWorkgroupBytes: 32 << 10, Software: shared%2 == 0})
		checkAttention(t, c, o)
	}
}

// TestWideProduct: the counters of random blocks have 64 bits where products have 32.
func TestWideProduct(t *testing.T) {
	a := &launch.Attention{Type: ir.F32, Dropout: true}
	l := a.Layout()
	p := &gpuir.Program{Name: "product", Params: l.Params, Workgroup: 1,
		Bufs:   []gpuir.Buf{{Type: ir.U32, Access: loopir.Write, Vec: 1}},
		Groups: []gpuir.GroupFactor{{Params: []int{l.Batch}, Per: 1}}}
	m := &attention{gen: gen{p: p, out: &p.Body}, a: a, l: l}
	m.resetValues()
	values := []uint32{0, 3, 0x10000, 0x7fffffff, 0xfffffffe}
	var want []byte
	at := 0
	for _, x := range values {
		for _, y := range values {
			n := func(v uint32) *gpuir.Node { return gpuir.NConst(ir.U32, uint64(v)) }
			lo, hi := m.wideProduct(n(x), n(y), n(x))
			for _, w := range []*gpuir.Node{lo, hi} {
				m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: 0, A: gpuir.NInt(at), B: w})
				at++
			}
			want = binary.LittleEndian.AppendUint64(want, uint64(x)*uint64(y)+uint64(x))
		}
	}
	got, params := make([]byte, len(want)), make([]uint64, len(l.Params))
	params[l.Batch] = 1
	_, err := gpuir.Interpret(p, params, [][]byte{got})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestAttentionRespectsWorkgroupMemory: for heads of every width there is a tile on every device.
func TestAttentionRespectsWorkgroupMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for _, pass := range attentionPasses {
		for _, width := range [][2]int64{{8, 8}, {64, 64}, {128, 128}, {256, 256}, {256, 64}, {20, 256}} {
			c := kerneltest.RandomAttention(r, ir.F32, pass, kerneltest.AttentionSize{Batch: 1, Heads: 1, Group: 1, Queries: 2,
				Keys: 2, Width: width[0], WidthV: width[1], Aligned: true})
			for _, caps := range []Caps{{}, {MaxWorkgroupBytes: 32 << 10}, {MaxWorkgroupBytes: 48 << 10},
				{MaxWorkgroupBytes: 48 << 10, Units: 1}, {Software: true}} {
				o := ChooseAttention(c.Attention, c.Params, caps)
				list, err := FromAttention(c.Attention, o)
				require.NoError(t, err)
				require.Equal(t, o.sharedBytes(c.Attention), list[0].SharedBytes())
			}
		}
	}
}

func TestChooseAttentionFollowsTheMeasurements(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264}
	for _, tc := range []struct {
		pass              launch.AttentionPass
		batch, heads, n   int64
		width             int64
		rows, cols, lanes int
	}{
		{launch.AttentionForward, 4, 12, 1024, 64, 64, 64, 16},
		{launch.AttentionForward, 4, 12, 1024, 32, 64, 48, 8},
		{launch.AttentionForward, 1, 12, 512, 64, 32, 64, 16},
		{launch.AttentionForward, 1, 16, 4096, 128, 64, 64, 16},
		{launch.AttentionForward, 1, 16, 4096, 256, 64, 64, 16},
		{launch.AttentionForward, 1, 1, 64, 32, 64, 48, 8},
		{launch.AttentionForward, 1, 12, 8, 64, 8, 64, 16},
		{launch.AttentionForward, 1, 12, 9, 64, 32, 64, 16},
		{launch.AttentionGradQ, 4, 12, 1024, 64, 64, 64, 16},
		{launch.AttentionGradQ, 1, 12, 512, 64, 32, 32, 16},
		{launch.AttentionGradKV, 1, 16, 4096, 128, 64, 64, 16},
		{launch.AttentionGradMask, 1, 16, 4096, 128, 32, 16, 16},
		{launch.AttentionGradKV, 1, 16, 4096, 96, 32, 16, 8},
	} {
		a := &launch.Attention{Type: ir.F32, Pass: tc.pass, Causal: true}
		params := []uint64{uint64(tc.batch), uint64(tc.heads), uint64(tc.heads), uint64(tc.n), uint64(tc.n), uint64(tc.width),
			uint64(tc.width), 0}
		for range 4 {
			params = append(params, 0, 0, uint64(tc.width), 1, 0)
		}
		o := ChooseAttention(a, params, caps)
		require.Equal(t, []int{tc.rows, tc.cols, tc.lanes}, []int{o.Rows, o.Cols, o.Lanes}, "%+v", tc)
		require.True(t, o.Vec && o.Exact)
	}
}

// A run may change from the short text to the long one between two steps of a training loop.
func TestBriefAttentionHasTheBitsOfTheChosenTile(t *testing.T) {
	shorter := 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 5))
		pass := attentionPasses[seed%4]
		n := kerneltest.AttentionSize{Batch: 1, Heads: 2, Group: 1, Queries: 34 + r.Int64N(20), Keys: 34 + r.Int64N(20),
			Width: 64, WidthV: 64, Aligned: true}
		c := kerneltest.RandomAttention(r, ir.F32, pass, n)
		caps := Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 256, Units: 1 + int(seed/4%2)*1000}
		var bits [2][][]byte
		var texts [2]int
		for i, choose := range []func(*launch.Attention, []uint64, Caps) AttentionOptions{ChooseAttention, BriefAttention} {
			o := choose(c.Attention, c.Params, caps)
			got := c.Copy()
			texts[i] = attend(t, c.Attention, o, got)
			bits[i] = got.Bufs
		}
		require.Equal(t, bits[0], bits[1], "%+v %+v", *c.Attention, n)
		require.LessOrEqual(t, texts[1], texts[0])
		if 3*texts[1] <= 2*texts[0] {
			shorter++
		}
	}
	require.Greater(t, shorter, 3)
}

func statementsOf(body []gpuir.Stmt) int {
	n := len(body)
	for i := range body {
		n += statementsOf(body[i].Body) + statementsOf(body[i].Else)
	}
	return n
}
