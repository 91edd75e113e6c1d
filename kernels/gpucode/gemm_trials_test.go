package gpucode

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
)

// TestEveryTrialMultiplies: each tile that may be timed gives the product, and also serves the other products of its
// class.
func TestEveryTrialMultiplies(t *testing.T) {
	seen := map[GemmTile]bool{}
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 12))
		m, n, k := int64(1+r.IntN(70)), int64(1+r.IntN(70)), int64(1+r.IntN(70))
		draw := kerneltest.RandomGemm
		if seed%3 == 0 {
			draw = kerneltest.RandomGemmSums
		}
		c := draw(r, []ir.DType{ir.F32, ir.F16}[seed%2], m, n, k, r.IntN(2) == 0)
		if seed%4 == 0 {
			c = kerneltest.RandomGemmDims(r, ir.F32, m, r.IntN(2) == 0, r.IntN(2) == 0)
		}
		caps := Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 1024, Units: 16, Software: r.IntN(2) == 0}
		table := ChooseGemm(c.Gemm, c.Params, caps)
		for i, tile := range gemmTrials(c.Gemm, c.Params, caps.withDefaults(), table.Tile()) {
			o, ok := tile.Options(c.Gemm, c.Params, caps)
			require.True(t, ok, "%v", tile)
			if i == 0 {
				table.Parts, o.Parts = max(table.Parts, 1), max(o.Parts, 1) // 0 is one part
				require.Equal(t, table, o, "the table's choice comes first")
			}
			checkGemm(t, c.Gemm, c, o)
			tile.Parts = 0
			seen[tile] = true
		}
	}
	for _, tile := range GemmTiles(Caps{Software: true}) {
		tile.Parts = 0
		require.Contains(t, seen, tile)
	}
}

// TestTilesOfTheTableMultiply: each tile, whole and in parts, is right on sizes that it does not divide.
func TestTilesOfTheTableMultiply(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 1024}
	for i, x := range candidates {
		r := rand.New(rand.NewPCG(uint64(i), 13))
		c := kerneltest.RandomGemm(r, ir.F32, int64(x.BM)+5, int64(x.BN)-3, 70, i%2 == 0)
		x.Parts = 1 + i%2
		o, ok := x.Tile().Options(c.Gemm, c.Params, caps)
		require.True(t, ok)
		checkGemm(t, c.Gemm, c, o)
	}
}

// TestTrialsOfAProduct: the trials have several tiles, and several of these do not divide K.
func TestTrialsOfAProduct(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264}
	for _, c := range []struct {
		m, n, k uint64
		dots    int
	}{{4096, 4096, 4096, 0}, {512, 512, 512, 0}, {512, 768, 3072, 0}, {31, 768, 50257, 0}, {8, 50257, 768, 1},
		{1, 768, 768, 1}} {
		g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
		params := []uint64{c.m, c.n, c.k, c.k, 1, 0, c.n, 1, 0}
		tiles, whole, dots := map[GemmTile]bool{}, 0, 0
		list := GemmTrials(g, params, caps)
		for _, tile := range list {
			if tile.Dot {
				dots++
			}
			if tile.Parts == 1 {
				whole++
			}
			tile.Parts = 0
			tiles[tile] = true
		}
		require.Len(t, list, mostTrials, "%v", c)
		require.GreaterOrEqual(t, whole, wholeTrials, "%v", c)
		require.GreaterOrEqual(t, len(tiles), 3, "%v", c)
		require.Equal(t, c.dots, dots, "%v", c)
	}
	small := []uint64{40, 40, 40, 40, 1, 0, 40, 1, 0}
	require.Len(t, GemmTrials(&launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, small, caps), 1, "too small to matter")
}

// TestGemmReachIsExact: buffers of the size that a product reaches are enough, and one element less is not.
func TestGemmReachIsExact(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 14))
		var c *kerneltest.GemmCase
		switch seed % 3 {
		case 0:
			c = kerneltest.RandomGemm(r, ir.F32, int64(1+r.IntN(9)), int64(1+r.IntN(9)), int64(1+r.IntN(9)), r.IntN(2) == 0)
		case 1:
			c = kerneltest.RandomGemmSums(r, ir.F32, int64(1+r.IntN(9)), int64(1+r.IntN(9)), int64(1+r.IntN(9)), r.IntN(2) == 0)
		case 2:
			c = kerneltest.RandomGemmDims(r, ir.F32, int64(1+r.IntN(9)), r.IntN(2) == 0, r.IntN(2) == 0)
		}
		reach := GemmReach(c.Gemm, c.Params)
		require.Len(t, reach, len(c.Bufs))
		for i := range reach {
			for less := range uint64(2) {
				bufs := c.Copy().Bufs
				for j, b := range c.Gemm.Layout().Bufs {
					bufs[j] = bufs[j][:uint64(b.Type.Size())*reach[j]]
				}
				bufs[i] = bufs[i][:len(bufs[i])/int(reach[i])*int(reach[i]-less)]
				err := launch.InterpretGemm(c.Gemm, c.Params, bufs)
				require.Equal(t, less == 0, err == nil, "buffer %d of %+v %v: %v", i, *c.Gemm, c.Params, err)
			}
		}
	}
}

// TestClassesOfProducts: what decides on a tile distinguishes classes. Offsets and neighbouring sizes do not.
func TestClassesOfProducts(t *testing.T) {
	plain := func() (*launch.Gemm, []uint64) {
		return &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, []uint64{2000, 768, 700, 700, 1, 0, 768, 1, 0}
	}
	g, params := plain()
	base := GemmClass(g, params)
	require.Equal(t, "float32 nn 2048x768x704", base)
	for _, c := range []struct {
		name   string
		same   bool
		change func(g *launch.Gemm, params []uint64)
	}{
		{"offsets", true, func(_ *launch.Gemm, p []uint64) { p[5], p[8] = 3, 1 }},
		{"neighbouring rows", true, func(_ *launch.Gemm, p []uint64) { p[0] = 1985 }},
		{"a neighbouring depth", true, func(_ *launch.Gemm, p []uint64) { p[2], p[3] = 696, 696 }},
		{"fewer rows", false, func(_ *launch.Gemm, p []uint64) { p[0] = 1984 }},
		{"type", false, func(g *launch.Gemm, _ []uint64) { g.Type = ir.F16 }},
		{"transposed", false, func(g *launch.Gemm, p []uint64) { g.BUnit, p[6], p[7] = 'k', 1, 700 }},
		{"rows that are no vectors", false, func(_ *launch.Gemm, p []uint64) { p[1], p[6] = 767, 767 }},
		{"an epilogue", true, func(g *launch.Gemm, _ []uint64) { g.Epilogue = kerneltest.Epilogue(ir.F32, 1, true) }},
	} {
		g, params := plain()
		c.change(g, params)
		require.Equal(t, c.same, GemmClass(g, params) == base, c.name)
	}
	g.Bias = true
	require.Equal(t, base+" bias", GemmClass(g, append(params, 1, 0)))
	for _, n := range []uint64{1, 4, 5, 32, 33, 512, 513, 1025, 50257, 1 << 40} {
		up := roundUp(n)
		require.Equal(t, up, roundUp(up), "%d", n)
		require.GreaterOrEqual(t, up, n)
		require.LessOrEqual(t, float64(up-n), max(31, float64(n)/16), "%d", n)
	}
}

// TestTilesOfAFileAreChecked: a tile that does not divide into threads, is too large or has no parts is refused. Parts
// that exceed the depth of another product of the class are fewer for it.
func TestTilesOfAFileAreChecked(t *testing.T) {
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
	params := []uint64{512, 512, 512, 512, 1, 0, 512, 1, 0}
	caps := Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 256}
	good := candidates[0].Tile()
	for _, c := range []struct {
		name   string
		change func(*GemmTile)
	}{
		{"zero", func(t *GemmTile) { *t = GemmTile{} }},
		{"negative", func(t *GemmTile) { t.TM = -4 }},
		{"odd lanes", func(t *GemmTile) { t.TM = 3 }},
		{"sides that do not divide", func(t *GemmTile) { t.WM = 48 }},
		{"workgroup memory", func(t *GemmTile) { t.BK = 128 }},
		{"threads", func(t *GemmTile) { t.BM, t.BN, t.BK = 256, 256, 4 }},
		{"no parts", func(t *GemmTile) { t.Parts = 0 }},
		{"huge", func(t *GemmTile) { t.BM = 1 << 62 }},
	} {
		bad := good
		c.change(&bad)
		_, ok := bad.Options(g, params, caps)
		require.False(t, ok, c.name)
	}
	good.Parts = 64
	o, ok := good.Options(g, params, caps)
	require.True(t, ok)
	require.Equal(t, 16, o.Parts)
	g.Type = ir.I64
	require.Equal(t, []GemmTile{{Dot: true}}, GemmTrials(g, params, caps))
	require.False(t, slices.ContainsFunc(GemmTrials(&launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, params, caps),
		func(t GemmTile) bool { return t.Dot }))
}
