package gpucode

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Caps is what the generators must know of a device.
type Caps struct {
	MaxWorkgroupBytes int // default 16384, the least WebGPU allows
	MaxThreads        int // threads of a workgroup; default 256
	MaxBuffers        int // storage buffers of a program; default 8, the least WebGPU allows
	Units             int // workgroups that run at once, at two for each compute unit; default 256
	// Subgroup is the number of threads of every subgroup; 0 where there are none or the number varies.
	Subgroup int
	I64      bool
	// Software asks for short text: compiling is slow and lanes are few.
	Software bool
	// MaxIterations is after how many iterations, of all its loops together, the device ends those of a thread; 0: it
	// does not.
	MaxIterations int64
}

func (c Caps) withDefaults() Caps {
	if c.MaxWorkgroupBytes == 0 {
		c.MaxWorkgroupBytes = 16384
	}
	if c.MaxThreads == 0 {
		c.MaxThreads = 256
	}
	if c.MaxBuffers == 0 {
		c.MaxBuffers = 8
	}
	if c.Units == 0 {
		c.Units = 256
	}
	return c
}

// Options decide how a kernel's work is divided. They are part of its text.
type Options struct {
	Workgroup int // threads of a workgroup, a power of two
	// Vec is 1 or 4. With 4, threads work on four consecutive elements of a map or of the inner dim; [CanVec] says when
	// they may.
	Vec int
	// Lanes is the number of threads that share an outer index of a kernel with an inner space: a power of two up to
	// Workgroup.
	Lanes int
	// OuterFast: consecutive threads take consecutive outer indices, which is good where those are contiguous in
	// memory. Otherwise they take consecutive inner ones.
	OuterFast bool
	// OuterVec: with OuterFast a thread works on four consecutive indices of the last outer dim. What varies along that
	// dim it loads as vectors of four; [CanOuterVec] says when it may.
	OuterVec bool
	// Hold is the number of inner indices, or vectors of four, that a lane keeps in registers from stage to stage: all
	// that it has. With 0, stages loop over the row, Unroll indices at a time.
	Hold, Unroll int
	// Ahead: lanes that hold a row load all of it before the first stage, so that no load waits until a value is folded.
	// What all rows share comes from the cache, and is loaded where it is used.
	Ahead bool
	// Full: the row is Hold*Lanes inner indices long, not less.
	Full bool
	// Prologue: loops over rows begin with the elements before the first full cache line.
	Prologue bool
	// Parts is the number of workgroups that share the inner space, in several passes.
	Parts int
	// Turns is the number of passes that share the inner space of a scan, one after the other; 0: one.
	Turns int
	// Subgroup is the number of threads of a subgroup; 0: subgroups are not used.
	Subgroup int
	// CrossDim is one more than a dim along which a map reads operands that are contiguous along it: in squares over
	// that dim and the last. 0: none.
	CrossDim int
	// VecPerThread is the number of vectors of a map that a thread works on, where it is more than one.
	VecPerThread int
	// I64: the device has 64-bit integers; otherwise I64 is computed in I32.
	I64               bool
	MaxWorkgroupBytes int
}

// Choose picks options for k launched with params.
func Choose(k *loopir.Kernel, params []uint64, caps Caps) Options {
	caps = caps.withDefaults()
	o := Options{
		Workgroup: rowWorkgroup(caps), Vec: 1, Lanes: 1,
		I64: caps.I64, MaxWorkgroupBytes: caps.MaxWorkgroupBytes,
	}
	if CanVec(k, params) {
		o.Vec = 4
	}
	if k.Inner == 0 {
		if o.CrossDim = chooseCrossDim(k, params, caps); o.CrossDim > 0 {
			o.Workgroup, o.Vec = squareThreads, 1
		}
		o.VecPerThread = chooseVecPerThread(k, params, o, caps)
		return o
	}
	o.OuterFast = outerContiguous(k)
	o.chooseRow(k, params, caps)
	return o
}

// rowWorkgroup is the usual number of threads of a workgroup.
func rowWorkgroup(caps Caps) int {
	if caps.Software {
		return min(64, caps.MaxThreads)
	}
	return min(256, caps.MaxThreads)
}

// outerContiguous reports that most loads move by one along the last outer dim and not along the inner ones.
func outerContiguous(k *loopir.Kernel) bool {
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
			unitInner = unitInner || s == loopir.Unit
			moves = moves || s != loopir.Broadcast
		}
		switch {
		case !moves:
		case unitInner:
			votes--
		case a.Stride[k.Outer-1] == loopir.Unit:
			votes++
		}
	}
	return votes > 0
}

// usedInner reports a buffer that is read: a linear access to it counts as running along the inner dims.
func usedInner(k *loopir.Kernel, buf int) bool { return k.Bufs[buf].Access != loopir.Write }

func product(v []uint64) uint64 {
	n := uint64(1)
	for _, x := range v {
		n *= x
	}
	return n
}

func (o Options) check(k *loopir.Kernel) error {
	pow2 := func(n int) bool { return n > 0 && n&(n-1) == 0 }
	switch {
	case !pow2(o.Workgroup):
		return fmt.Errorf("gpucode: workgroup of %d threads, want a power of two", o.Workgroup)
	case o.CrossDim > 0 && (o.CrossDim >= k.Outer || k.Inner > 0 || k.Checks || o.Workgroup != squareThreads ||
		o.Vec != 1 || writesLoaded(k)):
		return fmt.Errorf("gpucode: kernel %s: cannot be worked in squares with options %+v", k.Name, o)
	case o.Vec != 1 && o.Vec != 4:
		return fmt.Errorf("gpucode: vector width %d, want 1 or 4", o.Vec)
	case o.VecPerThread > 1 && (o.Vec != 4 || !allowsSeveralVectors(k)):
		return fmt.Errorf("gpucode: kernel %s: a thread cannot work on %d vectors", k.Name, o.VecPerThread)
	case k.Inner > 0 && (!pow2(o.Lanes) || o.Lanes > o.Workgroup):
		return fmt.Errorf("gpucode: %d lanes, want a power of two of at most %d", o.Lanes, o.Workgroup)
	case o.OuterVec && (!o.OuterFast || o.Vec != 1 || o.Lanes < 4 || o.Parts > 1 || !outerVecForm(k)):
		return fmt.Errorf("gpucode: kernel %s: threads cannot work on four rows with options %+v", k.Name, o)
	case o.Ahead && o.Hold == 0:
		return fmt.Errorf("gpucode: kernel %s: only held rows are loaded ahead", k.Name)
	case k.Inner > 0 && o.Hold > 0 && (o.Parts > 1 || hasPrefix(k) || ordered(k)), o.Unroll > 1 && hasPrefix(k),
		o.Parts > 1 && !splits(k):
		return fmt.Errorf("gpucode: kernel %s: cannot be held in registers, unrolled or split with options %+v", k.Name, o)
	case o.Subgroup > 0 && o.Workgroup%o.Subgroup != 0:
		return fmt.Errorf("gpucode: subgroups of %d do not divide a workgroup of %d", o.Subgroup, o.Workgroup)
	case o.Vec == 4 && !vecForm(k):
		return fmt.Errorf("gpucode: kernel %s has no four-element form", k.Name)
	}
	for _, b := range k.Bufs {
		if b.Type == ir.F64 {
			return fmt.Errorf("gpucode: kernel %s: float64 is not supported", k.Name)
		}
	}
	for _, e := range k.Exprs {
		if e.Type == ir.F64 {
			return fmt.Errorf("gpucode: kernel %s: float64 is not supported", k.Name)
		}
	}
	return nil
}
