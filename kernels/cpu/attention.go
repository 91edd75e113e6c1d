package cpu

// #include "cpu.h"
import "C"

import (
	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// maxAttentionWidth is WIDTH of attention.c: the columns of a head for which workers have room.
const maxAttentionWidth = 256

// attention lays out a pass: the numbers of its parameters and buffers.
func attention(p *program, a *kir.Attention, params []device.Param) (*C.tl_attention, error) {
	l := a.Layout()
	if len(params) != len(l.Params) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: attention: %d parameters, want %d", len(params), len(l.Params))
	}
	if a.Type == ir.F64 || max(params[l.Width].Bits, params[l.WidthV].Bits) > maxAttentionWidth {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: attention of %v with heads of %d and %d columns", a.Type, params[l.Width].Bits, params[l.WidthV].Bits)
	}
	c := &array[C.tl_attention](p, 1)[0]
	n := func(v int) C.int32_t { return C.int32_t(v) }
	c._type, c.pass, c.mask = C.int32_t(a.Type), C.int32_t(a.Pass), C.int32_t(a.Mask)
	for _, f := range []struct {
		to *C.int32_t
		on bool
	}{{&c.causal, a.Causal}, {&c.dropout, a.Dropout}, {&c.sum[0], a.Sum[0]}, {&c.sum[1], a.Sum[1]}, {&c.sum[2], a.Sum[2]}, {&c.sum[3], a.Sum[3]}} {
		if f.on {
			*f.to = 1
		}
	}
	c.batch, c.heads, c.keyheads, c.queries, c.keys, c.width, c.widthv = n(l.Batch), n(l.Heads), n(l.KeyHeads), n(l.Queries), n(l.Keys), n(l.Width), n(l.WidthV)
	c.scale, c.seed, c.nonce, c.rate = n(l.Scale), n(l.Seed), n(l.Nonce), n(l.Rate)
	c.q, c.k, c.v, c.m, c.g = n(l.Q.Param), n(l.K.Param), n(l.V.Param), n(l.Mask.Param), n(l.G.Param)
	c.bq, c.bk, c.bv, c.bm, c.bg = n(l.Q.Buf), n(l.K.Buf), n(l.V.Buf), n(l.Mask.Buf), n(l.G.Buf)
	c.bstats = n(l.Stats)
	c.out0, c.out1 = n(l.Out[0]), n(l.Out[len(l.Out)-1])
	return c, nil
}
