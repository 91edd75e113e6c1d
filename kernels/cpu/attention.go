package cpu

// #include "vector/cpu.h"
import "C"

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// maxAttentionWidth is WIDTH of attention.c: the most columns of a head for which a worker has memory.
const maxAttentionWidth = 256

// attention makes the C form of a pass: the numbers of its parameters and buffers.
func attention(mem *arena, a *launch.Attention, params []device.Param) (*C.tl_attention, error) {
	l := a.Layout()
	if len(params) != len(l.Params) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: attention: %d parameters, want %d", len(params), len(l.Params))
	}
	if a.Append {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: attention that stores new rows")
	}
	if a.Type == ir.F64 || max(params[l.Width].Bits, params[l.WidthV].Bits) > maxAttentionWidth {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: attention of %v with heads of %d and %d columns: want no float64 "+
			"and at most %d columns", a.Type, params[l.Width].Bits, params[l.WidthV].Bits, maxAttentionWidth)
	}
	c := &array[C.tl_attention](mem, 1)[0]
	n := func(v int) C.int32_t { return C.int32_t(v) }
	c._type, c.pass, c.mask = C.int32_t(a.Type), C.int32_t(a.Pass), C.int32_t(a.Mask)
	for _, f := range []struct {
		to *C.int32_t
		on bool
	}{{&c.causal, a.Causal}, {&c.dropout, a.Dropout}, {&c.sum[0], a.Sum[0]}, {&c.sum[1], a.Sum[1]}, {&c.sum[2], a.Sum[2]},
		{&c.sum[3], a.Sum[3]}} {
		if f.on {
			*f.to = 1
		}
	}
	c.batch, c.heads, c.keyheads, c.queries, c.keys, c.width, c.widthv = n(l.Batch), n(l.Heads), n(l.KeyHeads),
		n(l.Queries), n(l.Keys), n(l.Width), n(l.WidthV)
	c.scale, c.seed, c.draw_offset, c.rate = n(l.Scale), n(l.Seed), n(l.DrawOffset), n(l.Rate)
	c.q, c.k, c.v, c.m, c.g = n(l.Q.Param), n(l.K.Param), n(l.V.Param), n(l.Mask.Param), n(l.G.Param)
	c.bq, c.bk, c.bv, c.bm, c.bg = n(l.Q.Buf), n(l.K.Buf), n(l.V.Buf), n(l.Mask.Buf), n(l.G.Buf)
	c.bstats = n(l.Stats)
	c.out0, c.out1, c.dq = n(l.Out[0]), n(l.Out[min(1, len(l.Out)-1)]), -1
	if a.Pass == launch.AttentionGradQKV {
		c.pass, c.dq = C.int32_t(launch.AttentionGradKV), n(l.Out[2])
	}
	return c, nil
}

// A joint pass has one task for each head; the two passes that it replaces have one for each block of 64 rows. So it is
// used if there are jointHeads heads, enough for many threads, or at most jointKeys keys, which are few blocks. Results
// must not depend on the number of threads, so the choice does not either.
const (
	jointHeads = 64
	jointKeys  = 256
)

// joinGradients replaces a pass for the gradient of q, and the next pass, for the gradients of k and v of the same
// operands, by one joint pass.
func joinGradients(p *program, steps []device.Step, list []C.tl_step) error {
	for i := range len(steps) - 1 {
		s, next := &steps[i], &steps[i+1]
		q, ok := s.Op.(*launch.Attention)
		kv, also := next.Op.(*launch.Attention)
		if !ok || !also || q.Pass != launch.AttentionGradQ || kv.Pass != launch.AttentionGradKV {
			continue
		}
		l := q.Layout()
		operands, dq := s.Bufs[:l.Out[0]], s.Bufs[l.Out[0]]
		if !slices.Equal(operands, next.Bufs[:len(operands)]) || !slices.Equal(s.Params, next.Params) ||
			slices.Contains(next.Bufs, dq) {
			continue
		}
		if heads := s.Params[l.Batch].Bits * s.Params[l.KeyHeads].Bits; heads < jointHeads &&
			s.Params[l.Keys].Bits > jointKeys {
			continue
		}
		slots := array[C.int32_t](&p.mem, len(next.Bufs)+1)
		for n, b := range append(slices.Clone(next.Bufs), dq) {
			slots[n] = C.int32_t(b)
		}
		joint := *kv
		joint.Pass = launch.AttentionGradQKV
		code, err := attention(&p.mem, &joint, next.Params)
		if err != nil {
			return err
		}
		to := &list[i+1]
		to.nbuf, to.slot, to.buf, to.attention = C.int32_t(len(slots)), first(slots),
			first(array[*C.char](&p.mem, len(slots))), code
		list[i].attention.pass = C.TLK_ATTENTION_NONE
		if p.joined == nil {
			p.joined = map[int]launch.Op{}
		}
		p.joined[i+1] = &joint
	}
	return nil
}
