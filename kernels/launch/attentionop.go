package launch

import (
	"github.com/torchlette/torchlette/kernels/loopir"
)

import "fmt"

// Label implements Op.
func (a *Attention) Label() string { return a.Pass.String() + "_" + a.Type.String() }

// Buffers implements Op.
func (a *Attention) Buffers() []loopir.Buf { return a.Layout().Bufs }

// Parameters implements Op.
func (a *Attention) Parameters() []loopir.Param { return a.Layout().Params }

// Key implements Op.
func (a *Attention) Key() string { return fmt.Sprintf("attention%+v", *a) }

// Cost implements Op. It counts the products that the pass needs, over half of the pairs where attention is causal, and
// operands and results once.
func (a *Attention) Cost(params []uint64, width *loopir.Widths) (c loopir.Cost) {
	l := a.Layout()
	size := func(p int) int64 { return int64(params[p]) }
	queries, keys := size(l.Batch)*size(l.Heads)*size(l.Queries), size(l.Batch)*size(l.KeyHeads)*size(l.Keys)
	pairs := queries * size(l.Keys)
	if a.Causal {
		pairs /= 2
	}
	w, wv := size(l.Width), size(l.WidthV)
	in := queries*w + keys*(w+wv)
	switch a.Pass {
	case AttentionForward: // scores, results
		c = loopir.Cost{Flops: 2 * pairs * (w + wv), Bytes: in + queries*wv}
	case AttentionGradQ: // scores, cotangents of the weights, dq
		c = loopir.Cost{Flops: 2 * pairs * (2*w + wv), Bytes: in + queries*(w+wv)}
	case AttentionGradMask: // scores, cotangents of the weights
		c = loopir.Cost{Flops: 2 * pairs * (w + wv), Bytes: in + queries*wv}
	case AttentionGradKV: // scores, cotangents of the weights, dk and dv
		c = loopir.Cost{Flops: 2 * pairs * (2*w + 2*wv), Bytes: in + queries*wv + keys*(w+wv)}
	case AttentionGradQKV: // scores, cotangents of the weights, dk, dv and dq
		c = loopir.Cost{Flops: 2 * pairs * (3*w + 2*wv), Bytes: in + queries*(w+wv) + keys*(w+wv)}
	}
	if a.Append { // new rows are read and stored, in place of rows that would be read
		c.Bytes += size(l.Batch) * size(l.KeyHeads) * (w + wv)
	}
	c.Bytes *= int64(width[a.Type])
	return c
}

// Interpret implements Op; see [InterpretAttention].
func (a *Attention) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	return loopir.Fault{}, InterpretAttention(a, params, bufs)
}
