package launch

import (
	"fmt"
	"strconv"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Label implements Op.
func (g *Gemm) Label() string { return "gemm_" + g.Type.String() }

// Buffers implements Op.
func (g *Gemm) Buffers() []loopir.Buf { return g.Layout().Bufs }

// Parameters implements Op.
func (g *Gemm) Parameters() []loopir.Param { return g.Layout().Params }

// Key implements Op.
func (g *Gemm) Key() string {
	key := fmt.Sprintf("gemm%+v", *g.Plain())
	if g.Epilogue != nil {
		key += g.Views + strconv.Itoa(g.RowDims) + loopir.Key(g.Epilogue)
	}
	if g.Prologue != nil {
		key += " after " + loopir.Key(g.Prologue)
	}
	return key
}

// Cost implements Op. It counts a multiplication and an addition for each term, and operands and results once.
func (g *Gemm) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	l := g.Layout()
	batch := int64(1)
	for _, p := range l.Batch {
		batch *= int64(params[p])
	}
	m, n, k := int64(params[l.M]), int64(params[l.N]), int64(params[l.K])
	c := loopir.Cost{Flops: 2 * batch * m * n * k, Bytes: batch * (m*k + k*n + m*n)}
	switch g.Sums {
	case 'a':
		c.Flops, c.Bytes = c.Flops+m*k, c.Bytes+m
	case 'b':
		c.Flops, c.Bytes = c.Flops+n*k, c.Bytes+n
	}
	c.Bytes *= int64(width[g.Type])
	return c
}

// Interpret implements Op; see [InterpretGemm].
func (g *Gemm) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	return loopir.Fault{}, InterpretGemm(g, params, bufs)
}
