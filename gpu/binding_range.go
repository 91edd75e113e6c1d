package gpu

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// A tensor larger than a binding is worked in windows. A map whose accesses are all linear or constant does not depend
// on its position in its tensors, so the same kernel runs over parts of them, through bindings at aligned offsets.
// checkBinding refuses other kernels over such tensors.

// windowGrain keeps the byte offsets of windows multiples of bufferAlign for every element width.
const windowGrain = bufferAlign

// window is the part of its tensors that a step works on.
type window struct {
	base, size int64 // in elements; size 0: all of them
	linear     []bool
}

// windows splits s where a tensor that it reaches exceeds a binding.
func (c kernelCode) windows(s device.Step) []step {
	d, k, whole := c.d, c.k, []step{{Step: s}}
	if !windowable(k) {
		return whole
	}
	total, width := int64(1), int64(1)
	for _, q := range s.Params[:k.Outer] {
		total *= int64(q.Bits)
	}
	linear := make([]bool, len(k.Bufs))
	for _, a := range k.Access {
		if a.Linear {
			linear[a.Buf] = true
			width = max(width, int64(d.caps.Storage[k.Bufs[a.Buf].Type]))
		}
	}
	// A sixteenth of a binding leaves most of it to the offsets at which views begin.
	size := d.limits.MaxStorageBinding / 16 / windowGrain * windowGrain
	if total*width <= d.limits.MaxStorageBinding || size == 0 {
		return whole
	}
	var parts []step
	for base := int64(0); base < total; base += size {
		part := s
		part.Params = append([]device.Param(nil), s.Params...)
		for i := range k.Outer {
			part.Params[i] = device.Const(1)
		}
		n := min(size, total-base)
		part.Params[k.Outer-1] = device.Const(n)
		parts = append(parts, step{Step: part, window: window{base: base, size: n, linear: linear}})
	}
	return parts
}

// windowable reports a map that accesses only the elements at its own linear index.
func windowable(k *loopir.Kernel) bool {
	if k.Inner != 0 || k.Outer == 0 {
		return false
	}
	linear, constant := map[int]bool{}, map[int]bool{}
	for _, a := range k.Access {
		if a.Linear {
			linear[a.Buf] = true
			continue
		}
		constant[a.Buf] = true
		if slices.ContainsFunc(a.Stride, func(s int) bool { return s != loopir.Broadcast }) {
			return false
		}
	}
	for b := range linear {
		if constant[b] {
			return false
		}
	}
	for _, e := range k.Exprs {
		switch e.Op {
		case loopir.OpIndex, loopir.OpLinear, loopir.OpLoadAt:
			return false
		case loopir.OpParam:
			if e.Imm < uint64(k.Outer) {
				return false // reads a size, which windows change
			}
		}
	}
	for i := range k.Stages {
		for _, st := range k.Stages[i].Stores {
			if st.Access < 0 || !k.Access[st.Access].Linear {
				return false
			}
		}
	}
	return true
}

// offset is the byte at which the binding of a kernel's buffer begins.
func (w *window) offset(local int, width int64) int64 {
	if w.size == 0 || !w.linear[local] {
		return 0
	}
	return w.base * width
}

// checkWindow refuses run-time offsets that move a window out of its binding.
func (p *program) checkWindow(s *step, bind *device.Binding) error {
	if s.window.size == 0 {
		return nil
	}
	for i, q := range s.Params {
		if s.params[i].Kind != loopir.Offset {
			continue
		}
		const widest = 8
		if v := runtimeValue(q, bind); (v+s.window.size)*widest > p.dev.limits.MaxStorageBinding {
			return ir.Errorf(ir.ErrRuntime, "%s: a tensor is too large for a kernel on %s: a view begins at element %d, and a "+
				"binding shows %d bytes",
				s.name(), p.dev.caps.Name, v, p.dev.limits.MaxStorageBinding)
		}
	}
	return nil
}
