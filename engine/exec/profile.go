package exec

import (
	"time"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/plan"
	"github.com/torchlette/torchlette/kernels/kir"
)

// Timing is one step that ran while profiling.
type Timing struct {
	Event    uint32 // of the step: 1 + the local number of its node
	Device   string
	Kernel   string
	Start    time.Time
	Duration time.Duration
	// Flops counts arithmetic on floats; Bytes what the step must read and write at least once.
	Flops, Bytes int64
}

// SetProfiling turns timing on or off, also for devices opened later.
func (x *Executor) SetProfiling(on bool) {
	x.Profiling = on
	x.Timings = x.Timings[:0]
	for _, pl := range x.Places {
		x.profile(pl.Dev)
	}
}

// profile tells a device whether to time; one that cannot gives no times.
func (x *Executor) profile(d device.Device) {
	if p, ok := d.(device.Profiler); ok {
		_ = p.Profile(x.Profiling)
	}
}

// note takes the times of a segment that began to run at began. A device's clock is
// its own: its first step counts as having begun then.
func (x *Executor) note(s *plan.Segment, d device.Device, began time.Time) {
	p, ok := d.(device.Profiler)
	if !ok {
		return
	}
	times := p.Profiles()
	s.Times = make([]time.Duration, len(s.Steps))
	for _, t := range times {
		st, name := &s.Steps[t.Step], KernelName(&s.Steps[t.Step])
		var flops, bytes int64
		if s.Times[t.Step] == 0 { // a kernel of several passes counts once
			flops, bytes = Cost(st, d.Caps())
		}
		if t.Joined {
			name = jointAttention + st.Attention.Type.String()
			flops, bytes = jointCost(&s.Steps[t.Step-1], st, d.Caps())
		}
		s.Times[t.Step] += t.Duration
		x.Timings = append(x.Timings, Timing{Event: st.Event, Device: d.Caps().Name, Kernel: name,
			Start: began.Add(t.Start - times[0].Start), Duration: t.Duration, Flops: flops, Bytes: bytes})
	}
}

// KernelName names what a step runs.
func KernelName(st *device.Step) string {
	switch st.Kind {
	case device.RunKernel:
		return st.Kernel.Name
	case device.RunGemm:
		return "gemm_" + st.Gemm.Type.String()
	case device.RunAttention:
		return st.Attention.Pass.String() + "_" + st.Attention.Type.String()
	case device.RunFactor:
		return st.Factor.Op.String() + "_" + st.Factor.Type.String()
	case device.RunSort:
		return "sort_" + st.Sort.Type.String()
	case device.CopyBytes:
		return "copy_bytes"
	}
	return "fill_zero"
}

// Cost counts a step's arithmetic and its least traffic: every element that an access
// reaches counts once.
func Cost(st *device.Step, c *device.Caps) (flops, bytes int64) {
	size := func(p int) int64 { return int64(st.Params[p].Bits) }
	switch st.Kind {
	case device.CopyBytes:
		return 0, 2 * size(2)
	case device.FillZero:
		return 0, size(1)
	case device.RunGemm:
		l := st.Gemm.Layout()
		m, n, k, batch := size(l.M), size(l.N), size(l.K), int64(1)
		for _, p := range l.Batch {
			batch *= size(p)
		}
		flops, bytes = 2*batch*m*n*k, batch*(m*k+k*n+m*n)
		switch st.Gemm.Sums {
		case 'a':
			flops, bytes = flops+m*k, bytes+m
		case 'b':
			flops, bytes = flops+n*k, bytes+n
		}
		return flops, bytes * int64(c.Storage[st.Gemm.Type])
	case device.RunAttention:
		return attentionCost(st.Attention, c, size)
	case device.RunFactor: // as LU: what others take beyond depends on the values
		matrices, m, n := size(0), size(1), size(2)
		return 2 * matrices * m * n * min(m, n) / 3, 2 * matrices * m * n * int64(c.Storage[st.Factor.Type])
	case device.RunSort: // operand and results once
		l := st.Sort.Layout()
		rows, value := size(l.Outer)*size(l.Inner), int64(c.Storage[st.Sort.Type])
		return 0, rows * (size(l.N)*value + size(l.Keep)*(value+int64(c.Storage[ir.I64])))
	}
	return kernelCost(st.Kernel, c, size)
}

// attentionCost counts the products that the pass cannot do without, over half the pairs
// where attention is causal, and operands and results once.
func attentionCost(a *kir.Attention, c *device.Caps, size func(int) int64) (flops, bytes int64) {
	l := a.Layout()
	queries, keys := size(l.Batch)*size(l.Heads)*size(l.Queries), size(l.Batch)*size(l.KeyHeads)*size(l.Keys)
	pairs := queries * size(l.Keys)
	if a.Causal {
		pairs /= 2
	}
	w, wv := size(l.Width), size(l.WidthV)
	in := queries*w + keys*(w+wv)
	switch a.Pass {
	case kir.AttentionForward: // scores, results
		flops, bytes = 2*pairs*(w+wv), in+queries*wv
	case kir.AttentionGradQ: // scores, cotangents of probabilities, dq
		flops, bytes = 2*pairs*(2*w+wv), in+queries*(w+wv)
	case kir.AttentionGradMask: // likewise, without a product
		flops, bytes = 2*pairs*(w+wv), in+queries*wv
	default: // scores, cotangents of probabilities, dk and dv
		flops, bytes = 2*pairs*(2*w+2*wv), in+queries*wv+keys*(w+wv)
	}
	return flops, bytes * int64(c.Storage[a.Type])
}

// jointAttention begins the name of a pass that makes all three gradients of attention.
const jointAttention = "attention_grad_qkv_"

// jointCost is that of both gradients' passes, which share the scores and the cotangents of probabilities: the products of
// the forward pass's shape.
func jointCost(q, kv *device.Step, c *device.Caps) (flops, bytes int64) {
	shared := *kv.Attention
	shared.Pass = kir.AttentionForward
	fq, bq := Cost(q, c)
	fkv, bkv := Cost(kv, c)
	once, operands := attentionCost(&shared, c, func(p int) int64 { return int64(kv.Params[p].Bits) })
	return fq + fkv - once, bq + bkv - operands
}

func kernelCost(k *kir.Kernel, c *device.Caps, size func(int) int64) (flops, bytes int64) {
	outer, inner := int64(1), int64(1)
	for d := range k.Outer + k.Inner {
		if d < k.Outer {
			outer *= size(d)
		} else {
			inner *= size(d)
		}
	}
	read, written := make([]int64, len(k.Bufs)), make([]int64, len(k.Bufs))
	for i := range k.Stages {
		stage := &k.Stages[i]
		n := outer
		if stage.OverInner {
			n *= inner
		}
		flops += n * int64(stageCost(k, stage, n, size, read, written))
	}
	for b := range k.Bufs {
		bytes += (read[b] + written[b]) * int64(c.Storage[k.Bufs[b].Type])
	}
	return flops, bytes
}

// stageCost gives the arithmetic of a stage for one of its n indices, and notes the
// elements of each buffer that it reads and writes.
func stageCost(k *kir.Kernel, s *kir.Stage, n int64, size func(int) int64, read, written []int64) (ops int) {
	reach := func(a *kir.Access) int64 {
		if a.Linear {
			return n
		}
		r := int64(1)
		for d, st := range a.Stride {
			if st != kir.Broadcast && (d < k.Outer || s.OverInner) {
				r *= size(d)
			}
		}
		return r
	}
	for i, used := range k.Uses(s) {
		e := &k.Exprs[i]
		switch {
		case !used:
		case e.Op == kir.OpLoad:
			a := &k.Access[e.Imm]
			read[a.Buf] = max(read[a.Buf], reach(a))
		case e.Op == kir.OpLoadAt:
			read[e.Imm] = max(read[e.Imm], n)
		case arithmetic(e):
			ops++
		}
	}
	for i := range s.Stores {
		st := &s.Stores[i]
		if st.Access >= 0 {
			a := &k.Access[st.Access]
			written[a.Buf] = max(written[a.Buf], reach(a))
		} else {
			written[st.Buf] = max(written[st.Buf], n)
		}
	}
	return ops + len(s.Accs)
}

// arithmetic reports an operation that counts as one on floats; a fused one counts as one too.
func arithmetic(e *kir.Expr) bool {
	float := e.Type == ir.F32 || e.Type == ir.F64
	return float && (e.Op >= kir.OpAdd && e.Op <= kir.OpPow || e.Op >= kir.OpFloor && e.Op <= kir.OpErf)
}
