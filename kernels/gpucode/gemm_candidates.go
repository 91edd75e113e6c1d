package gpucode

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// GemmTile is the part of [GemmOptions] that is kept for a class of products: without what the launch decides.
type GemmTile struct {
	BM         int  `json:"bm,omitempty"`
	BN         int  `json:"bn,omitempty"`
	BK         int  `json:"bk,omitempty"`
	WM         int  `json:"wm,omitempty"`
	WN         int  `json:"wn,omitempty"`
	TM         int  `json:"tm,omitempty"`
	TN         int  `json:"tn,omitempty"`
	Serpentine bool `json:"serpentine,omitempty"`
	Double     bool `json:"double,omitempty"`
	Rolled     bool `json:"rolled,omitempty"`
	Parts      int  `json:"parts,omitempty"`
	Dot        bool `json:"dot,omitempty"` // each element is a row reduction; the other fields are zero
}

// Tile is the part of o that is kept.
func (o *GemmOptions) Tile() GemmTile {
	if o.Dot {
		return GemmTile{Dot: true}
	}
	return GemmTile{BM: o.BM, BN: o.BN, BK: o.BK, WM: o.WM, WN: o.WN, TM: o.TM, TN: o.TN, Serpentine: o.Serpentine,
		Double: o.Double, Rolled: o.Rolled, Parts: max(o.Parts, 1)}
}

// String is the block, the lanes and the parts.
func (t GemmTile) String() string {
	if t.Dot {
		return "row reductions"
	}
	return fmt.Sprintf("%dx%dx%d lanes %dx%d of %dx%d parts %d", t.BM, t.BN, t.BK, t.TM, t.TN, t.WM, t.WN, t.Parts)
}

// maxSide bounds a tile's sides and parts, so that arithmetic with numbers from a file cannot overflow.
const maxSide = 1024

// Options gives the options for g launched with params in tile t; false where the tile does not suit the product or the
// device. A product of the class with a smaller K may have fewer parts.
func (t GemmTile) Options(g *launch.Gemm, params []uint64, caps Caps) (GemmOptions, bool) {
	caps = caps.withDefaults()
	if t.Dot && (g.KDims > 0 || g.Sums != 0) {
		return GemmOptions{}, false
	}
	if t.Dot {
		l := g.Layout()
		return chooseDot(g, params, &l, caps), true
	}
	o := GemmOptions{BM: t.BM, BN: t.BN, BK: t.BK, WM: t.WM, WN: t.WN, TM: t.TM, TN: t.TN, Serpentine: t.Serpentine,
		Double: t.Double, Rolled: t.Rolled, Parts: t.Parts,
		MaxWorkgroupBytes: caps.MaxWorkgroupBytes, I64: caps.I64}
	if max(t.BM, t.BN, t.BK, t.WM, t.WN, t.TM, t.TN, t.Parts) > maxSide || t.Parts < 1 || o.check(g) != nil ||
		!o.fits(g, caps) {
		return GemmOptions{}, false
	}
	for size := sizeOf(g, params); !size.divides(&o, o.Parts); {
		o.Parts--
	}
	Align(g, &o, params)
	return o, true
}

// roundUp is the size that stands for n and its neighbours, which differ little to tiles of 32 and more.
func roundUp(n uint64) uint64 {
	step := uint64(32)
	switch {
	case n <= dotLimit:
		return n
	case n <= 32:
		step = 8
	case n > 512: // steps of a sixteenth of the power of two below
		step = 1 << (bits.Len64(n-1) - 5)
	}
	return (n + step - 1) / step * step
}

// withoutOffsets is params with every offset 0: offsets are known at run time only, and one tile serves them all.
func withoutOffsets(l *launch.GemmLayout, params []uint64) []uint64 {
	params = slices.Clone(params)
	for i, p := range l.Params {
		if p.Kind == loopir.Offset {
			params[i] = 0
		}
	}
	return params
}

// GemmClass names the products that share a choice of tile: dtype, layouts of the operands, sizes M x N x K rounded by
// [roundUp], batch, and what else the text of a tile depends on. The epilogue is no part of it, since sums must be
// added in one order with and without. "float32 nt 512x3072x768" multiplies by a transposed second operand.
func GemmClass(g *launch.Gemm, params []uint64) string {
	l := g.Layout()
	size := sizeOf(g, params)
	var b strings.Builder
	letter := map[byte]string{'k': "n", 'm': "t"}[g.AUnit] + map[byte]string{'n': "n", 'k': "t"}[g.BUnit]
	if g.AUnit == 0 || g.BUnit == 0 {
		letter = fmt.Sprintf("strided %q", []byte{g.AUnit, g.BUnit})
	}
	fmt.Fprintf(&b, "%s %s %dx%dx%d", g.Type, letter, roundUp(size.m), roundUp(size.n), roundUp(size.k))
	if g.Batch > 0 {
		fmt.Fprintf(&b, " batch %d in %d", roundUp(size.batch), g.Batch)
	}
	if g.KDims > 0 {
		fmt.Fprintf(&b, " windows %d, %d", g.KDims, g.NDims)
	}
	va, vb, vc := vectors(g, withoutOffsets(&l, params), &l)
	for _, c := range []struct {
		is   bool
		text string
	}{
		{!va, " scalar a"}, {!vb, " scalar b"}, {!vc, " scalar c"}, {g.Bias, " bias"},
		{g.Sums != 0, " sums " + string(rune(max(g.Sums, ' ')))}, {g.CStrided, " strided"}, {g.CDims, " columns"},
	} {
		if c.is {
			b.WriteString(c.text)
		}
	}
	return b.String()
}

// rolledTrials are the tiles for devices where compiling is slow.
var rolledTrials = []GemmOptions{
	rolled,
	{BM: 64, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Rolled: true},
	{BM: 32, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Rolled: true},
	{BM: 16, BN: 32, BK: 8, WM: 16, WN: 32, TM: 4, TN: 4, Rolled: true},
}

// GemmTiles lists every tile that may be timed on a device.
func GemmTiles(caps Caps) (list []GemmTile) {
	if !caps.Software {
		for _, c := range candidates {
			list = append(list, c.Tile())
		}
		return list
	}
	for _, o := range rolledTrials {
		list = append(list, o.Tile())
	}
	return list
}

const (
	// mostTrials is the number of tiles that are timed for a class. wholeTrials of them do not divide K, as suits a
	// device with fewer processors than the estimates assume. The others come with at most mostParts numbers of parts
	// each.
	mostTrials, wholeTrials, mostParts = 8, 3, 2
	// leastWork is the number of multiply-adds from which a product is worth timing: below it any tile takes a few
	// microseconds.
	leastWork = 1 << 16
	// dotTrials is the largest M or N for which row reductions are tried.
	dotTrials = 16
)

// GemmTrials lists the tiles worth timing for g launched with params, the table's choice first. A list of one means
// that there is nothing to choose.
func GemmTrials(g *launch.Gemm, params []uint64, caps Caps) []GemmTile {
	caps = caps.withDefaults()
	size := sizeOf(g, params)
	table := ChooseGemm(g, params, caps)
	if !tiled(g.Type) || float64(size.m)*float64(size.n)*float64(size.k)*float64(size.batch) < leastWork {
		return []GemmTile{table.Tile()}
	}
	return gemmTrials(g, params, caps, table.Tile())
}

// gemmTrials lists the table's choice, then others.
func gemmTrials(g *launch.Gemm, params []uint64, caps Caps, table GemmTile) []GemmTile {
	size, list := sizeOf(g, params), []GemmTile{table}
	add := func(t GemmTile, most int) {
		if _, ok := t.Options(g, params, caps); ok && !slices.Contains(list, t) && len(list) < most {
			list = append(list, t)
		}
	}
	if min(size.m, size.n) <= dotTrials {
		add(GemmTile{Dot: true}, mostTrials)
	}
	if caps.Software {
		for _, t := range GemmTiles(caps) {
			add(t, mostTrials)
		}
		return list
	}
	type trial struct {
		tile    GemmTile
		seconds float64
	}
	var ranked []trial
	eachTile(candidates, g, size, caps, func(o GemmOptions, seconds float64) {
		ranked = append(ranked, trial{o.Tile(), seconds})
	})
	slices.SortStableFunc(ranked, func(a, b trial) int { return cmp.Compare(a.seconds, b.seconds) })
	parts := map[GemmTile]int{}
	for _, r := range ranked {
		whole := r.tile
		whole.Parts = 0
		if parts[whole]++; parts[whole] <= mostParts {
			add(r.tile, mostTrials-wholeTrials)
		}
	}
	for _, r := range ranked {
		if r.tile.Parts == 1 {
			add(r.tile, mostTrials)
		}
	}
	return list
}

// GemmReach gives, for each buffer, the number of elements that g reaches when launched with params; math.MaxUint64
// where they fit no device.
func GemmReach(g *launch.Gemm, params []uint64) []uint64 {
	l := g.Layout()
	size := sizeOf(g, params)
	reach := func(offset int, counts, strides []int) uint64 {
		last := float64(params[offset])
		for i, c := range counts {
			last += float64(params[c]-1) * float64(params[strides[i]])
		}
		if last >= math.MaxInt32 {
			return math.MaxUint64
		}
		return uint64(last) + 1
	}
	axis := func(dims, strides []int, count, stride int) (counts, steps []int) {
		if len(dims) > 0 {
			return dims, strides
		}
		return []int{count}, []int{stride}
	}
	kCounts, kSteps := axis(l.KSize, l.AKDim, l.K, l.AK)
	out := []uint64{reach(l.AOffset, slices.Concat(l.Batch, []int{l.M}, kCounts), slices.Concat(l.ABatch, []int{l.AM},
		kSteps))}
	kCounts, kSteps = axis(l.KSize, l.BKDim, l.K, l.BK)
	nCounts, nSteps := axis(l.NSize, l.BNDim, l.N, l.BN)
	out = append(out, reach(l.BOffset, slices.Concat(l.Batch, kCounts, nCounts), slices.Concat(l.BBatch, kSteps, nSteps)))
	if g.Bias {
		out = append(out, reach(l.BiasOffset, []int{l.N}, []int{l.BiasN}))
	}
	result := size.batch * size.m * size.n
	if g.CStrided {
		nCounts, nSteps = []int{l.N}, []int{l.CN}
		if g.CDims {
			nCounts, nSteps = l.NSize, l.CNDim
		}
		result = reach(l.COffset, slices.Concat(l.Batch, []int{l.M}, nCounts), slices.Concat(l.CBatch, []int{l.CM}, nSteps))
	}
	for o, v := range l.Views {
		if g.Viewed(o) {
			out = append(out, reach(v.Offset, append([]int{l.N}, l.RowSize...), append([]int{v.N}, v.Rows...)))
		} else {
			out = append(out, result)
		}
	}
	for range 1 + len(l.BufResults) {
		out = append(out, result)
	}
	switch g.Sums {
	case 'a':
		out = append(out, size.m)
	case 'b':
		out = append(out, size.n)
	}
	return out
}
