package tile

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// Caps is what the generators must know of a device.
type Caps struct {
	MaxWorkgroupBytes int // default 16384, the least WebGPU allows
	MaxThreads        int // threads a workgroup; default 256
	Units             int // workgroups that run at once, at two a compute unit; default 256
	I64               bool
	// Software asks for small text: compiling is dear and lanes are few.
	Software bool
}

func (c Caps) withDefaults() Caps {
	if c.MaxWorkgroupBytes == 0 {
		c.MaxWorkgroupBytes = 16384
	}
	if c.MaxThreads == 0 {
		c.MaxThreads = 256
	}
	if c.Units == 0 {
		c.Units = 256
	}
	return c
}

// Options decide the form of a kernel. They are part of its text.
type Options struct {
	Workgroup int // threads a workgroup, a power of two
	// Vec is 1 or 4: with 4, threads work on four consecutive elements of a map
	// or of the inner dim. [CanVec] says when that is right.
	Vec int
	// Lanes is the number of threads that share an outer index of a kernel
	// with an inner space: a power of two from 1 to Workgroup.
	Lanes int
	// OuterFast: consecutive threads take consecutive outer indices (good when
	// those are contiguous in memory); else consecutive inner ones.
	OuterFast bool
	// I64: the device has 64-bit integers; otherwise I64 is worked in I32.
	I64               bool
	MaxWorkgroupBytes int
}

// Choose picks options for k launched with params.
func Choose(k *kir.Kernel, params []uint64, caps Caps) Options {
	caps = caps.withDefaults()
	o := Options{
		Workgroup: rowWorkgroup(caps), Vec: 1, Lanes: 1,
		I64: caps.I64, MaxWorkgroupBytes: caps.MaxWorkgroupBytes,
	}
	if CanVec(k, params) {
		o.Vec = 4
	}
	if k.Inner == 0 {
		return o
	}
	outer, inner := product(params[:k.Outer]), product(params[k.Outer:k.Outer+k.Inner])
	o.OuterFast = outerContiguous(k)
	o.chooseLanes(outer, inner/uint64(o.Vec), caps)
	return o
}

// rowWorkgroup is the usual number of threads a workgroup.
func rowWorkgroup(caps Caps) int {
	if caps.Software {
		return min(64, caps.MaxThreads)
	}
	return min(256, caps.MaxThreads)
}

// fewest is the least number of inner steps a lane should have.
const fewest = 4

// chooseLanes spreads each row over threads: over as many as leave each lane a
// few steps when consecutive threads take consecutive inner elements; over as
// many as fill the device when they take consecutive outer ones, since the
// lanes of a row are then far apart in memory.
func (o *Options) chooseLanes(outer, inner uint64, caps Caps) {
	most := o.Workgroup
	if !caps.Software {
		most = min(1024, caps.MaxThreads)
	}
	for 4*4*most > o.MaxWorkgroupBytes { // room for a few accumulators a thread
		most /= 2
	}
	if !o.OuterFast {
		limit := o.Workgroup
		if outer < uint64(caps.Units) {
			limit = most
		}
		for o.Lanes < limit && inner >= uint64(2*o.Lanes)*fewest {
			o.Lanes *= 2
		}
		o.Workgroup = max(min(o.Workgroup, most), o.Lanes)
		return
	}
	// Eight columns together use whole 32-byte sectors.
	columns := 8
	for columns > 1 && uint64(columns/2) >= outer {
		columns /= 2
	}
	for o.Lanes < most/columns && outer*uint64(o.Lanes) < uint64(caps.Units)*512 && inner >= uint64(2*o.Lanes)*fewest {
		o.Lanes *= 2
	}
	o.Workgroup = max(min(o.Workgroup, most), o.Lanes*columns)
}

// outerContiguous reports that most loads move by one along the last outer dim
// and not along the inner ones.
func outerContiguous(k *kir.Kernel) bool {
	if k.Outer == 0 {
		return false
	}
	votes := 0
	for _, a := range k.Access {
		if a.Linear {
			if usedInner(k, a.Buf) {
				votes--
			}
			continue
		}
		unitInner := false
		moves := false
		for _, s := range a.Stride[k.Outer:] {
			unitInner = unitInner || s == kir.Unit
			moves = moves || s != kir.Broadcast
		}
		switch {
		case !moves:
		case unitInner:
			votes--
		case a.Stride[k.Outer-1] == kir.Unit:
			votes++
		}
	}
	return votes > 0
}

// usedInner reports a buffer read through some access: a linear one is then
// counted as running along the inner dims.
func usedInner(k *kir.Kernel, buf int) bool { return k.Bufs[buf].Access != kir.Write }

func product(v []uint64) uint64 {
	n := uint64(1)
	for _, x := range v {
		n *= x
	}
	return n
}

func (o Options) check(k *kir.Kernel) error {
	pow2 := func(n int) bool { return n > 0 && n&(n-1) == 0 }
	switch {
	case !pow2(o.Workgroup):
		return fmt.Errorf("tile: workgroup of %d threads, want a power of two", o.Workgroup)
	case o.Vec != 1 && o.Vec != 4:
		return fmt.Errorf("tile: vector width %d, want 1 or 4", o.Vec)
	case k.Inner > 0 && (!pow2(o.Lanes) || o.Lanes > o.Workgroup):
		return fmt.Errorf("tile: %d lanes for a workgroup of %d", o.Lanes, o.Workgroup)
	case o.Vec == 4 && !vecForm(k):
		return fmt.Errorf("tile: kernel %s has no four-element form", k.Name)
	}
	for _, b := range k.Bufs {
		if b.Type == ir.F64 {
			return fmt.Errorf("tile: kernel %s: float64 is not supported", k.Name)
		}
	}
	for _, e := range k.Exprs {
		if e.Type == ir.F64 {
			return fmt.Errorf("tile: kernel %s: float64 is not supported", k.Name)
		}
	}
	return nil
}
