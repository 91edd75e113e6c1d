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
	// Vec is 1 or 4: with 4, a thread of a map works on four consecutive
	// elements. [CanVec] says when that is right.
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
		Workgroup: min(256, caps.MaxThreads), Vec: 1, Lanes: 1,
		I64: caps.I64, MaxWorkgroupBytes: caps.MaxWorkgroupBytes,
	}
	if caps.Software {
		o.Workgroup = min(64, caps.MaxThreads)
	}
	if k.Inner == 0 {
		if CanVec(k, params) {
			o.Vec = 4
		}
		return o
	}
	outer, inner := product(params[:k.Outer]), product(params[k.Outer:k.Outer+k.Inner])
	o.OuterFast = outerContiguous(k)
	o.Lanes = chooseLanes(o, outer, inner, caps)
	return o
}

// chooseLanes gives each lane at least four inner elements when rows are
// plenty, and fewer threads a row the more rows there are.
func chooseLanes(o Options, outer, inner uint64, caps Caps) int {
	lanes := 1
	if o.OuterFast {
		// Threads of a row are WG/lanes apart in memory: spread only as far as
		// needed to fill the device, keeping 32 columns together.
		for lanes < o.Workgroup/32 && outer*uint64(lanes) < uint64(caps.Units)*512 && inner >= uint64(lanes)*8 {
			lanes *= 2
		}
		if outer < 32 {
			for lanes < o.Workgroup && inner >= uint64(lanes)*4 && outer <= uint64(o.Workgroup/(2*lanes)) {
				lanes *= 2
			}
		}
		return lanes
	}
	for lanes < o.Workgroup && inner >= uint64(lanes)*4 {
		lanes *= 2
	}
	return lanes
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

// CanVec reports that the four-element form of k is right for these launch
// parameters: every access linear or constant, a multiple of four
// elements, offsets multiples of four.
func CanVec(k *kir.Kernel, params []uint64) bool {
	if !vecForm(k) {
		return false
	}
	if product(params[:k.Outer])%4 != 0 {
		return false
	}
	for _, a := range k.Access {
		if a.Linear && a.Offset >= 0 && params[a.Offset]%4 != 0 {
			return false
		}
	}
	return true
}

// vecForm reports that k's text allows the four-element form.
func vecForm(k *kir.Kernel) bool {
	if k.Inner > 0 || k.NoVec || k.Outer == 0 || k.Checks {
		return false
	}
	for _, a := range k.Access {
		if !a.Linear {
			for _, s := range a.Stride {
				if s != kir.Broadcast {
					return false
				}
			}
		}
	}
	for _, b := range k.Bufs {
		if b.Type == ir.I64 {
			return false
		}
	}
	for _, e := range k.Exprs {
		switch e.Op {
		case kir.OpLoadAt, kir.OpIndex, kir.OpLinear, kir.OpPhilox:
			return false
		}
	}
	for i := range k.Stages {
		for _, s := range k.Stages[i].Stores {
			if s.Access < 0 || !k.Access[s.Access].Linear || s.Mode != kir.Set || s.Guard >= 0 {
				return false
			}
		}
	}
	return true
}

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
