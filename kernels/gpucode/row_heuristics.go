package gpucode

import (
	"slices"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// ScratchBytes is the scratch memory that the passes of a kernel may use. Products may ask for more; see
// [GemmOptions.ScratchBytes].
const ScratchBytes = 16 << 20

const (
	// fewest is the least number of inner steps that a lane should have in a loop.
	fewest = 4
	// heldFloats is the number of registers that a lane spends on the row it holds: with those of the arithmetic, two
	// workgroups of 256 threads fit a compute unit.
	heldFloats = 64
	// unroll is the number of loads of each operand that a lane has in flight, for vectors. For single elements it is
	// four times as many, which are as many bytes.
	unroll = 4
	// splitFrom is the number of elements from which a second pass pays: a workgroup reads as many in the time between
	// two dependent dispatches. On an H200 sums of 8 rows of 32768 take 5.5 us in two passes; one row takes 3.1 us in
	// one, and one of 131072 takes 5.3 us in two.
	splitFrom = 128 << 10
	// splitArgsFrom is that number for places of extremes, of which a step compares values and places. The place of the
	// greatest of 50257 took 8.4 us in one pass on an H200, and takes 6.1 in two.
	splitArgsFrom = 24 << 10
	// sector is the number of contiguous elements that memory gives at full rate; a cache line has several sectors.
	// A workgroup of that many columns reads rows of up to sectorRows elements in the time of a second pass.
	sector, sectorRows = 8, 8 << 10
)

// chooseRow decides how threads share the rows of k.
func (o *Options) chooseRow(k *loopir.Kernel, params []uint64, caps Caps) {
	outer, inner := product(params[:k.Outer]), product(params[k.Outer:k.Outer+k.Inner])
	o.Workgroup, o.Lanes = rowWorkgroup(caps), 1
	if caps.Subgroup > 1 && o.Workgroup%caps.Subgroup == 0 {
		o.Subgroup = caps.Subgroup
	}
	if !caps.Software && !hasPrefix(k) {
		o.Unroll = max(unroll, 4*unroll/(o.Vec*max(1, innerLoads(k))))
	}
	columns := o.columns(outer, inner, caps)
	peel := func() {
		o.Prologue = !caps.Software && o.Vec == 1 && !o.OuterFast && o.Lanes >= line && inner%8 != 0 && peels(k)
	}
	if o.Parts = o.parts(k, outer, inner, columns, caps); o.Parts > 1 {
		o.Lanes = o.Workgroup / columns
		peel()
		return
	}
	steps := inner / uint64(o.Vec)
	if !caps.Software && !hasPrefix(k) && !ordered(k) && o.hold(k, outer, steps, columns, caps) {
		return
	}
	o.chooseLanes(outer, steps, columns, caps)
	peel()
	o.divide(k, outer, inner, columns, caps)
}

// divide shares rows between workgroups, or passes, where the device would end the loops of one. It does not depend on
// the alignment of views, as parts do not.
func (o *Options) divide(k *loopir.Kernel, outer, inner uint64, columns int, caps Caps) {
	if caps.MaxIterations == 0 {
		return
	}
	one := Options{Workgroup: rowWorkgroup(caps), OuterFast: o.OuterFast, Lanes: 1, MaxWorkgroupBytes: o.MaxWorkgroupBytes}
	one.chooseLanes(outer, inner, columns, caps)
	if ordered(k) {
		one.Lanes = 1
	}
	// Each stage is a loop, and sums are loops of blocks.
	steps := max(1, int(caps.MaxIterations)/(len(k.Stages)+1))
	parts := func(lanes int) uint64 { return ceil(ceil(inner, lanes), steps) }
	switch n := parts(one.Lanes); {
	case n <= 1:
	case hasPrefix(k) && len(k.Stages) == 1 && o.Lanes > 1:
		o.Turns = int(parts(o.Lanes))
	case splits(k):
		o.Lanes, o.Unroll = o.Workgroup/columns, 0
		o.Parts = int(parts(o.Lanes))
	}
}

// columns is the number of rows that consecutive threads work on: a cache line of them where they are contiguous in
// memory, else one. Where lines are too few for the device and one pass reads short rows, it is a part of a line.
func (o *Options) columns(outer, inner uint64, caps Caps) int {
	if !o.OuterFast {
		return 1
	}
	n := line
	if caps.Software {
		n = 8
	}
	for n > sector && inner <= sectorRows && ceil(outer, n) < uint64(caps.Units) {
		n /= 2
	}
	for n > 1 && uint64(n/2) >= outer {
		n /= 2
	}
	return n
}

// columnShare is a size of workgroups whose threads work on four rows, and the most inner indices that such a thread
// holds.
type columnShare struct{ threads, hold int }

// columnShares lists shares in order of preference: for plain products, for those that first normalize a row of
// float32, and for those that normalize a row of halves. Each index that is held takes five registers, or seven with a
// norm. The rounding of a norm of halves takes as long as a load. Measured on an H200, in us, launches in a row (plain;
// float32; halves):
//
//	rows x length   256 threads           512                  1024
//	2304 x 768      6.87; 5.97; 9.26      5.43; 6.90; 7.21     5.79; 6.85; 6.73
//	3072 x 768            6.61; 9.54            7.50; 7.63           7.39; 7.18
//	768 x 3072                            7.46                 6.61
var columnShares = [3][]columnShare{
	{{512, 12}, {1024, 12}, {256, 24}},
	{{256, 24}, {512, 16}, {1024, 8}},
	{{512, 6}, {1024, 8}, {256, 24}},
}

// chooseColumns lets threads work on four rows of k at a time, whose elements have loads of 16 bytes. A workgroup has a
// cache line of float32 rows, and half of one where such workgroups are less than half of the compute units. Rows that
// are too long to be held are worked in loops, by as many threads as there may be.
func (o *Options) chooseColumns(k *loopir.Kernel, params []uint64, prologue bool, caps Caps) {
	outer, inner := product(params[:k.Outer]), product(params[k.Outer:k.Outer+k.Inner])
	columns := line
	if ceil(outer, columns)*4 < uint64(caps.Units) {
		columns /= 2
	}
	shares := columnShares[0]
	if prologue {
		shares = columnShares[1]
		if halfColumns(k) {
			shares = columnShares[2]
		}
	}
	c := columnShare{threads: 1024}
	for c.threads > caps.MaxThreads { // which need not be a power of two
		c.threads /= 2
	}
	for _, s := range shares {
		if s.threads <= caps.MaxThreads && ceil(inner, s.threads*4/columns) <= uint64(s.hold) {
			c = s
			break
		}
	}
	lanes := c.threads * 4 / columns
	for lanes > 4 && uint64(lanes/2) >= inner {
		lanes /= 2
	}
	steps := ceil(inner, lanes)
	if caps.Software || lanes < 4 || inner == 0 || caps.MaxIterations > 0 && steps > uint64(caps.MaxIterations)/4 {
		return
	}
	o.OuterVec, o.Workgroup, o.Lanes, o.Hold, o.Full, o.Unroll = true, lanes*columns/4, lanes, 0, false, 2*unroll
	if steps <= uint64(c.hold) {
		o.Hold, o.Full, o.Unroll = int(steps), steps*uint64(lanes) == inner, 0
	}
	if o.Subgroup > o.Workgroup {
		o.Subgroup = 0
	}
}

// halfColumns reports that the vectors that threads load have elements of two bytes.
func halfColumns(k *loopir.Kernel) bool {
	for n, used := range columnLoads(k) {
		if used && k.Bufs[k.Access[n].Buf].Type.Size() < 4 {
			return true
		}
	}
	return false
}

// parts is the number of workgroups that share a row. It must not depend on the alignment of views, since all passes of
// a kernel must agree on it.
func (o *Options) parts(k *loopir.Kernel, outer, inner uint64, columns int, caps Caps) int {
	from, width := uint64(splitFrom), 4
	if findsPlaces(k) {
		from, width = splitArgsFrom, 1 // which have no form of four elements
	}
	work := inner * uint64(innerStages(k)) // of a workgroup
	if o.OuterFast || !accumulates(k) {
		work = outer * inner
	}
	if caps.Software || outer == 0 || work < from || !splits(k) {
		return 1
	}
	if !accumulates(k) {
		return o.sharers(outer, inner, caps)
	}
	bindings := len(k.Bufs) + 1 // and scratch memory
	if k.Checks {
		bindings++
	}
	if bindings > caps.MaxBuffers {
		return 1
	}
	groups, each := outer, uint64(width*o.Workgroup)
	if o.OuterFast {
		if inner <= sectorRows {
			return 1
		}
		groups, each = ceil(outer, columns), uint64(o.Workgroup/columns)
	} else if groups > uint64(caps.Units/3) {
		return 1 // one workgroup of many threads for each row fills the device
	}
	n := uint64(1)
	for groups*n*2 <= uint64(4*caps.Units) && inner >= 2*n*each*2*fewest {
		n *= 2
	}
	for n > 1 && n*outer*scratchWords(k)*4 > ScratchBytes {
		n /= 2
	}
	return int(n)
}

// innerStages counts the stages that read a row.
func innerStages(k *loopir.Kernel) int {
	n := 0
	for s := range k.Stages {
		if k.Stages[s].OverInner {
			n++
		}
	}
	return n
}

// findsPlaces reports a kernel that looks for the places of extremes.
func findsPlaces(k *loopir.Kernel) bool {
	return slices.ContainsFunc(k.Stages, func(s loopir.Stage) bool {
		return slices.ContainsFunc(s.Accs, func(a loopir.Acc) bool { return a.Op.IsArg() })
	})
}

// sharers is the number of workgroups that share a row where no result joins theirs: as many as fill the device.
func (o *Options) sharers(outer, inner uint64, caps Caps) int {
	n := uint64(1)
	for !o.OuterFast && outer*n*2 <= uint64(8*caps.Units) && inner >= 2*n*uint64(o.Workgroup)*fewest {
		n *= 2
	}
	return int(n)
}

// hold lets lanes keep their rows in registers where rows are short enough.
func (o *Options) hold(k *loopir.Kernel, outer, steps uint64, columns int, caps Caps) bool {
	if steps == 0 {
		return false
	}
	most := caps.MaxThreads / columns
	for 4*4*most*columns > o.MaxWorkgroupBytes {
		most /= 2
	}
	most = min(most, 1024)
	loads := max(1, innerLoads(k))
	fits := func(lanes, budget int) bool {
		return ceil(steps, lanes)*uint64(o.Vec*loads) <= uint64(budget)
	}
	s := o.Subgroup
	// Four loads at a time keep memory busy; of single elements, four times as many.
	held := uint64(4 * fewest / o.Vec)
	switch {
	case columns == 1 && s > 1 && steps > uint64(s) && steps <= 2*held*uint64(s) && fits(s, heldFloats) &&
		outer*uint64(s) >= uint64(256*caps.Units):
		o.Lanes = s // no barrier
	default:
		for o.Lanes < most && (ceil(steps, o.Lanes) > held || !fits(o.Lanes, heldFloats) ||
			outer*uint64(o.Lanes) < uint64(128*caps.Units) && steps > uint64(o.Lanes)) {
			o.Lanes *= 2
		}
		budget := heldFloats
		if o.Lanes*columns > 512 {
			budget /= 2
		}
		if !fits(o.Lanes, budget) || ceil(steps, o.Lanes) > 2*held {
			o.Lanes = 1
			return false
		}
	}
	o.Hold, o.Unroll = int(ceil(steps, o.Lanes)), 0
	o.Full = uint64(o.Hold*o.Lanes) == steps
	for o.Workgroup > max(64, s) && outer*uint64(o.Lanes) < uint64(o.Workgroup*caps.Units) {
		o.Workgroup /= 2
	}
	o.Workgroup = max(o.Workgroup, o.Lanes*columns)
	return true
}

// innerLoads counts the values of a row that stages read.
func innerLoads(k *loopir.Kernel) int {
	n := 0
	for i, in := range innerExprs(k) {
		if in && k.Exprs[i].Op == loopir.OpLoad {
			n++
		}
	}
	return n
}

// chooseLanes decides how many threads share a row where lanes loop. Where consecutive threads take consecutive inner
// elements, each lane keeps a few steps. Where they take consecutive outer ones, the lanes of a row are far apart in
// memory, so only as many share it as fill the device.
func (o *Options) chooseLanes(outer, steps uint64, columns int, caps Caps) {
	most := o.Workgroup
	if !caps.Software {
		most = min(1024, caps.MaxThreads)
	}
	for 4*4*most > o.MaxWorkgroupBytes { // room for a few accumulators of each thread
		most /= 2
	}
	if !o.OuterFast {
		limit := o.Workgroup
		if outer < uint64(caps.Units) {
			limit = most
		}
		for o.Lanes < limit && steps >= uint64(2*o.Lanes)*fewest {
			o.Lanes *= 2
		}
		o.Workgroup = max(min(o.Workgroup, most), o.Lanes)
		return
	}
	for o.Lanes < most/columns && outer*uint64(o.Lanes) < uint64(caps.Units)*512 && steps >= uint64(2*o.Lanes)*fewest {
		o.Lanes *= 2
	}
	o.Workgroup = max(min(o.Workgroup, most), o.Lanes*columns)
}
