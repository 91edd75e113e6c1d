package gpucode

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// GemmOptions is a tile configuration. A workgroup computes BM x BN of C. Its threads are cut into groups of 32, which
// compute WM x WN each; a thread computes TM x TN as 4x4 pieces spread over its group's tile.
type GemmOptions struct {
	BM, BN, BK int
	WM, WN     int
	TM, TN     int
	// Serpentine: every other row of a thread's results is multiplied from its end, so that a vector of B is used twice
	// in succession. This changes the compiler's choice of registers and not the sums.
	Serpentine bool
	// Double: two tiles in workgroup memory; the next block is loaded during the arithmetic.
	Double bool
	// VecA, VecB and VecC: 16-byte accesses. They require that the length of the unit stride's dim, the other strides
	// and the offset are multiples of four. See [GemmAligned].
	VecA, VecB, VecC bool
	// KTail: K may be no multiple of BK. Short: K may be less than BK.
	KTail, Short bool
	// Rolled keeps loops in the text, for devices where compiling is slow.
	Rolled bool
	// Parts is the number of workgroups that share a block of C, each with a part of K. A second pass adds their sums
	// in order.
	Parts int
	// Dot makes each element a row reduction with the options of Row: for 64-bit integers, and where M or N is tiny.
	Dot               bool
	Row               Options
	MaxWorkgroupBytes int
	I64               bool // the device has 64-bit integers, which an epilogue may use
}

// Passes is the number of programs of g with these options.
func (o *GemmOptions) Passes(g *launch.Gemm) int {
	if o.Dot {
		return len(o.Row.Passes(dotKernel(g)))
	}
	if o.Parts > 1 {
		return 2
	}
	return 1
}

// threads is the number of threads of a workgroup.
func (o *GemmOptions) threads() int { return o.BM / o.WM * (o.BN / o.WN) * 32 }

// candidate is a tile with what the estimate of its time needs.
type candidate struct {
	GemmOptions
	// share is the share of unitRate that the tile reaches once `warps` groups of 32 threads run on a compute unit.
	share float64
	warps float64
	// transposed is a factor on share where B is contiguous along k and is transposed on its way to workgroup memory.
	transposed float64
	// unaligned is a factor on share where rows of C cannot be stored by vectors.
	unaligned float64
	// occupancy is the number of workgroups that run on a compute unit at once, 0 for many. tailPenalty is the share of
	// a workgroup's time that is lost where a compute unit's last workgroup runs alone.
	occupancy   uint64
	tailPenalty float64
	// windows are factors on share where B's elements are windows (KDims), loaded one by one: along the columns, and
	// along the depth.
	windows [2]float64
}

// candidates were fitted to 941 times of cmd/gemmtiles on an H200, for 28 shapes: squares of 512 to 4096, and GPT-2's
// products for 31, 512 and 2048 tokens with their gradients. For each shape the estimate picks a tile at most 3 %
// slower than the best one. The factors of windows are of an earlier fit, scaled as the shares changed.
var candidates = []candidate{
	{GemmOptions{BM: 64, BN: 128, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true}, 1.093, 5.266,
		0.977, 0.996, 3, 0.288, [2]float64{0.71, 0.83}},
	{GemmOptions{BM: 128, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true}, 1.093, 5.359,
		0.973, 0.999, 3, 0.398, [2]float64{0.75, 0.8}},
	{GemmOptions{BM: 128, BN: 128, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true}, 1.05, 6.183,
		0.979, 1, 3, 0, [2]float64{0.68, 0.73}},
	{GemmOptions{BM: 128, BN: 128, BK: 16, WM: 64, WN: 32, TM: 8, TN: 8, Double: true}, 1.063, 3.776, 0.956, 0.905, 1,
		0.191, [2]float64{0.86, 0.76}},
	{GemmOptions{BM: 64, BN: 256, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true}, 1.111, 5.192,
		0.96, 0.953, 2, 0.948, [2]float64{0.74, 0.81}},
	{GemmOptions{BM: 128, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true}, 1.063, 5.006,
		0.999, 1, 2, 0.311, [2]float64{0.74, 0.85}},
	{GemmOptions{BM: 128, BN: 256, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true}, 1.111, 8.166,
		0.984, 0.932, 4, 0.743, [2]float64{0.6, 0.67}},
	{GemmOptions{BM: 64, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Serpentine: true, Double: true}, 0.94, 6.385, 0.927,
		1, 0, 0, [2]float64{0.81, 0.78}},
	{GemmOptions{BM: 64, BN: 64, BK: 16, WM: 32, WN: 32, TM: 8, TN: 4, Serpentine: true, Double: true}, 0.941, 5.557,
		0.978, 0.93, 2, 0.981, [2]float64{0.73, 0.71}},
	{GemmOptions{BM: 32, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Serpentine: true, Double: true}, 0.891, 7.074, 0.853,
		0.945, 2, 1, [2]float64{0.65, 0.76}},
	{GemmOptions{BM: 32, BN: 64, BK: 16, WM: 16, WN: 32, TM: 4, TN: 4, Serpentine: true, Double: true}, 0.768, 5.697, 0.85,
		0.939, 3, 0, [2]float64{0.86, 0.88}},
	{GemmOptions{BM: 32, BN: 32, BK: 16, WM: 16, WN: 32, TM: 4, TN: 4, Serpentine: true, Double: true}, 0.784, 6.932,
		0.882, 0.866, 2, 0.479, [2]float64{0.73, 0.75}},
}

// rolled is the only tile for devices where compiling is slow.
var rolled = GemmOptions{BM: 32, BN: 32, BK: 8, WM: 16, WN: 32, TM: 4, TN: 4, Rolled: true}

// dotLimit is the largest M or N for which row reductions beat tiles.
const dotLimit = 4

// MostPrologues is the most rows of products with a prologue: those worked as row reductions. Each of their columns
// works the row anew.
const MostPrologues = dotLimit

// ChooseGemm picks the tile and the parts of K with the least estimated time for g launched with params.
func ChooseGemm(g *launch.Gemm, params []uint64, caps Caps) GemmOptions {
	caps = caps.withDefaults()
	l, size := g.Layout(), sizeOf(g, params)
	if !tiled(g.Type) || min(size.m, size.n) <= dotLimit && g.KDims == 0 && g.Sums == 0 {
		return chooseDot(g, params, &l, caps)
	}
	best, bestTime := rolled, 0.0
	eachTile(candidates, g, size, caps, func(o GemmOptions, t float64) {
		if bestTime == 0 || t < bestTime {
			best, bestTime = o, t
		}
	})
	best.MaxWorkgroupBytes, best.I64 = caps.MaxWorkgroupBytes, caps.I64
	if most := caps.MaxIterations; most > 0 { // a block of K is a loop
		blocks := max(1, int(most)/(best.BK+2))
		best.Parts = max(best.Parts, int(ceil(ceil(size.k, best.BK), blocks)))
	}
	Align(g, &best, params)
	return best
}

// eachTile calls show for each tile of list and each number of parts of K that suit g and the device's limits, with the
// estimated seconds.
func eachTile(list []candidate, g *launch.Gemm, size gemmSize, caps Caps, show func(o GemmOptions, seconds float64)) {
	for _, c := range list {
		if caps.Software || !c.fits(g, caps) {
			continue
		}
		for _, parts := range [...]int{1, 2, 3, 4, 6, 8, 16, 32, 64} {
			if !size.divides(&c.GemmOptions, parts) || parts > 8 && size.k < deep {
				break
			}
			o := c.GemmOptions
			o.Parts = parts
			show(o, c.estimate(g, size, parts, caps))
		}
	}
}

// fits reports that a device has the threads and the workgroup memory for o.
func (o *GemmOptions) fits(g *launch.Gemm, caps Caps) bool {
	return o.threads() <= caps.MaxThreads && o.sharedBytes(g) <= caps.MaxWorkgroupBytes
}

// deep is the K from which a product may be cut into more than 8 parts: one of few rows and columns, whose tiles would
// leave most of the device idle.
const deep = 16384

// tiled reports the dtypes that tiles support: those with 32-bit sums.
func tiled(t ir.DType) bool {
	w := t.ComputeType()
	return w == ir.F32 || w == ir.I32
}

// gemmSize is the size of a product.
type gemmSize struct{ m, n, k, batch uint64 }

func sizeOf(g *launch.Gemm, params []uint64) gemmSize {
	l := g.Layout()
	z := gemmSize{m: params[l.M], n: params[l.N], k: params[l.K], batch: 1}
	for _, p := range l.Batch {
		z.batch *= params[p]
	}
	return z
}

// divides reports that K may be cut into parts: each has several blocks, and the sums fit scratch memory.
func (z gemmSize) divides(o *GemmOptions, parts int) bool {
	return parts == 1 || z.k >= uint64(4*parts*o.BK) && z.partBytes(parts) <= maxPartBytes
}

// partBytes is the bytes of the sums of all parts of K, with rows padded to vectors.
func (z gemmSize) partBytes(parts int) uint64 {
	return uint64(parts) * z.batch * z.m * (z.n + 3) / 4 * 16
}

// maxPartBytes bounds the sums of the parts: larger ones would leave the cache.
const maxPartBytes = 64 << 20

// ScratchBytes is the scratch memory that the passes of g need when launched with params.
func (o *GemmOptions) ScratchBytes(g *launch.Gemm, params []uint64) uint64 {
	if o.Dot && o.Row.Parts > 1 {
		return ScratchBytes
	}
	if o.Parts <= 1 {
		return 0
	}
	return sizeOf(g, params).partBytes(o.Parts) + sumBytes(g, params, o.Parts)
}

const (
	// unitRate is the multiplications and additions a second of a compute unit at share 1.
	unitRate = 155e9
	// joinSeconds is the least time of the second pass: a dispatch that waits for another. By benchmarks/gpu_kernels.py
	// 512x3072x768 nt takes 66 us whole and 72 us in two parts. In cmd/gemmtiles launches overlap and show 3 us of it.
	joinSeconds = 7e-6
	// joinRate is the bytes a second at which sums are written and read again, mostly in cache.
	joinRate = 4e12
)

// estimate is the seconds that a product takes without the start of a dispatch: the tiles on the busiest compute unit,
// at the rate that the tile reaches with so many threads, and the second pass.
func (c *candidate) estimate(g *launch.Gemm, z gemmSize, parts int, caps Caps) float64 {
	units := uint64(max(caps.Units/2, 1))
	groups := ceil(z.m, c.BM) * ceil(z.n, c.BN) * z.batch * uint64(parts)
	each := (groups + units - 1) / units
	share := c.share * min(1, float64(each*uint64(c.threads()))/(32*c.warps))
	if g.BUnit == 'k' {
		share *= c.transposed
	}
	if g.KDims > 0 && g.BUnit == 'k' {
		share *= c.windows[1]
	} else if g.KDims > 0 {
		share *= c.windows[0]
	}
	if parts == 1 && z.n%4 != 0 {
		share *= c.unaligned
	}
	rounds := float64(each)
	if c.occupancy > 0 && each > c.occupancy && each%c.occupancy == 1 {
		rounds += c.tailPenalty
	}
	t := rounds * float64(c.BM*c.BN) * float64(ceil(z.k, parts)) / (share * unitRate)
	if parts > 1 {
		t += joinSeconds + float64(uint64(2*parts+1)*4*z.batch*z.m*z.n)/joinRate
	}
	return t
}

// Align sets the options of o that depend on the sizes, strides and offsets of a launch.
func Align(g *launch.Gemm, o *GemmOptions, params []uint64) {
	l := g.Layout()
	o.VecA, o.VecB, o.VecC = vectors(g, params, &l)
	o.KTail = params[l.K]%uint64(o.BK) != 0
	o.Short = params[l.K] < uint64(o.BK)
}

func ceil(n uint64, per int) uint64 { return (n + uint64(per) - 1) / uint64(per) }

func chooseDot(g *launch.Gemm, params []uint64, l *launch.GemmLayout, caps Caps) GemmOptions {
	k := dotKernel(g.Plain()) // an epilogue does not change the order of additions
	row := Choose(k, params[:len(k.Params)], caps)
	// The larger operand decides which threads are neighbours.
	row.OuterFast = g.BUnit == 'n'
	if params[l.N] == 1 {
		row.OuterFast = g.AUnit == 'm'
	}
	if row.OuterFast || g.Prologue != nil && !vecForm(dotKernel(g)) {
		row.Vec = 1
	}
	row.Hold, row.Full = 0, false
	row.chooseRow(k, params, caps)
	if row.OuterFast && row.Parts == 1 && CanOuterVec(k, params) && outerVecForm(dotKernel(g)) {
		row.chooseColumns(k, params, g.Prologue != nil, caps)
	}
	row.Ahead = g.Prologue != nil && row.Hold > 0
	return GemmOptions{Dot: true, Row: row, MaxWorkgroupBytes: caps.MaxWorkgroupBytes}
}

// vectors reports which operands allow 16-byte accesses.
func vectors(g *launch.Gemm, params []uint64, l *launch.GemmLayout) (a, b, c bool) {
	four := func(ps ...int) bool {
		for _, p := range ps {
			if params[p]%4 != 0 {
				return false
			}
		}
		return true
	}
	a, b = four(l.ABatch...) && four(l.AOffset), four(l.BBatch...) && four(l.BOffset)
	if g.KDims == 0 {
		a = a && (g.AUnit == 'k' && four(l.AM, l.K) || g.AUnit == 'm' && four(l.AK, l.M))
		b = b && (g.BUnit == 'n' && four(l.BK, l.N) || g.BUnit == 'k' && four(l.BN, l.K))
	} else {
		a = a && (g.AUnit == 'k' && four(l.AM) && fours(params, l.KSize, l.AKDim) || g.AUnit == 'm' && four(l.M) &&
			four(l.AKDim...))
		b = b && (g.BUnit == 'n' && four(l.BKDim...) && fours(params, l.NSize, l.BNDim) || g.BUnit == 'k' &&
			four(l.BNDim...) && fours(params, l.KSize, l.BKDim))
	}
	c = four(l.N)
	if g.CStrided {
		c = c && four(l.CBatch...) && four(l.CM, l.COffset)
		if g.CDims {
			c = c && params[l.CNDim[g.NDims-1]] == 1 && fours(params, l.NSize, l.CNDim)
		} else {
			c = c && params[l.CN] == 1
		}
	}
	return a, b, c
}

// GemmAligned reports that o, chosen for other offsets, suits params too.
func GemmAligned(g *launch.Gemm, o GemmOptions, params []uint64) bool {
	l := g.Layout()
	a, b, c := vectors(g, params, &l)
	return (a || !o.VecA) && (b || !o.VecB) && (c || !o.VecC)
}

// pad is the padding of rows of tiles in workgroup memory, in elements. It keeps 16-byte alignment and spreads
// transposed stores over the banks.
const pad = 4

func (o *GemmOptions) sharedBytes(g *launch.Gemm) int {
	n := (o.BM + pad + o.BN + pad) * o.BK * 4
	if o.Double {
		n *= 2
	}
	return n + o.tableBytes(g)
}

func (o *GemmOptions) check(g *launch.Gemm) error {
	if o.BM <= 0 || o.BN <= 0 || o.BK <= 0 || o.WM <= 0 || o.WN <= 0 || o.TM <= 0 || o.TN <= 0 {
		return fmt.Errorf("gpucode: gemm: incomplete tile %+v", *o)
	}
	t := o.threads()
	switch {
	case g.Prologue != nil:
		return fmt.Errorf("gpucode: gemm: tiles do not work the rows of A first")
	case g.Sums != 0 && (g.Batch > 0 || g.KDims > 0 || g.Sums != 'a' && g.Sums != 'b'):
		return fmt.Errorf("gpucode: gemm: no sums of operand %q with %d batch dims and %d dims of K", g.Sums, g.Batch,
			g.KDims)
	case !tiled(g.Type):
		return fmt.Errorf("gpucode: gemm: dtype %v is not supported by tiles", g.Type)
	case o.BM%o.WM != 0 || o.BN%o.WN != 0 || o.WM%o.TM != 0 || o.WN%o.TN != 0 || o.TM%4 != 0 || o.TN%4 != 0,
		o.WM/o.TM*(o.WN/o.TN) != 32:
		return fmt.Errorf("gpucode: gemm: tile %+v does not divide into 32 threads of 4x4 pieces", *o)
	case o.BK%4 != 0 || o.BM*o.BK%(4*t) != 0 || o.BN*o.BK%(4*t) != 0:
		return fmt.Errorf("gpucode: gemm: %d threads do not divide the loads of tile %+v", t, *o)
	case o.VecA && g.AUnit == 0 || o.VecB && g.BUnit == 0:
		return fmt.Errorf("gpucode: gemm: vector loads without a unit stride")
	}
	return nil
}
