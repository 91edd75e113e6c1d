package gpu

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// kernelCode is the code of loop kernels.
type kernelCode struct {
	plain
	d *Device
	k *loopir.Kernel
}

func (c kernelCode) options(params []uint64) any { return gpucode.Choose(c.k, params, c.d.tile) }

func (c kernelCode) programs(o any) ([]*gpuir.Program, error) {
	return gpucode.FromKernel(c.k, o.(gpucode.Options))
}

func (c kernelCode) merges(uint64) bool { return true }

// check refuses launches that 32-bit indices cannot address.
func (c kernelCode) check(params []uint64, reach []span) error {
	total := int64(1)
	for _, n := range params[:c.k.Outer+c.k.Inner] {
		if n != 0 && total > math.MaxInt32/int64(n) {
			return ir.Errorf(ir.ErrRuntime, "%s: too many elements for %s: got more than %d",
				c.k.Name, c.d.caps.Name, math.MaxInt32)
		}
		total *= int64(n)
	}
	for _, r := range reach {
		if r.hi > math.MaxInt32 {
			return ir.Errorf(ir.ErrRuntime, "%s: a tensor has too many elements for %s: got %d, want at most %d",
				c.k.Name, c.d.caps.Name, r.hi, math.MaxInt32)
		}
	}
	return nil
}

// reach follows the accesses of the kernel. Where addresses are computed, nothing is known.
func (c kernelCode) reach(s *device.Step) []span {
	k, params := c.k, s.Constants()
	out := make([]span, len(k.Bufs))
	for i := range out {
		out[i].lo = math.MaxInt64
	}
	for _, a := range k.Access {
		at, base := &out[a.Buf], int64(0)
		if a.Offset >= 0 {
			base = int64(params[a.Offset])
			at.moves = at.moves || s.Params[a.Offset].Varies()
		}
		at.lo = min(at.lo, base)
		if r := accessReach(k, &a, params); r > 0 {
			at.hi = max(at.hi, base+r)
		}
	}
	for i := range out {
		out[i].lo = min(out[i].lo, out[i].hi)
	}
	for _, e := range k.Exprs {
		if e.Op == loopir.OpLoadAt {
			out[e.Imm].hi = -1
		}
	}
	for i := range k.Stages {
		for _, st := range k.Stages[i].Stores {
			if st.Access < 0 {
				out[st.Buf].hi = -1
			}
		}
	}
	return out
}

// accessReach is the number of elements, from its first, over which an access reaches.
func accessReach(k *loopir.Kernel, a *loopir.Access, params []uint64) int64 {
	n, span := int64(1), int64(1)
	for dim := range k.Outer + k.Inner {
		size := int64(params[dim])
		if dim >= k.Outer {
			size = max(size, 1) // results of empty rows are written
		}
		n *= size
		if a.Linear {
			continue
		}
		stride := int64(0)
		switch s := a.Stride[dim]; {
		case s == loopir.Unit:
			stride = 1
		case s >= 0:
			stride = int64(params[s])
		}
		span += max(0, (size-1)*stride)
	}
	if n == 0 {
		return 0
	}
	if a.Linear {
		return n
	}
	return span
}
