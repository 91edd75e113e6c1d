package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// sumOperand stores g's sums, if it has any. Floats accumulate in float64 and are rounded once.
func sumOperand(g *Gemm, l *GemmLayout, params []uint64, bufs [][]byte) error {
	buf, from, stride, depth, size := l.BufA, l.AOffset, l.AM, l.AK, l.M
	switch {
	case g.Sums == 0:
		return nil
	case g.Sums != 'a' && g.Sums != 'b' || g.Batch > 0 || g.KDims > 0:
		return fmt.Errorf("of operand %q with %d batch dims and %d dims of K: want 'a' or 'b', and neither dims", g.Sums,
			g.Batch, g.KDims)
	case g.Sums == 'b':
		buf, from, stride, depth, size = l.BufB, l.BOffset, l.BN, l.BK, l.N
	}
	t := g.Type
	ct := t.ComputeType()
	for i := range int64(params[size]) {
		var sum float64
		var isum int64
		for k := range int64(params[l.K]) {
			at := int64(params[from]) + i*int64(params[stride]) + k*int64(params[depth])
			if err := loopir.Inside(t, bufs[buf], at); err != nil {
				return fmt.Errorf("buffer %d: %w", buf, err)
			}
			v := loopir.LoadBits(t, bufs[buf], at)
			if t.IsFloat() {
				sum += ir.DecodeFloat(ct, v)
			} else {
				isum += int64(loopir.CastBits(ct, ir.I64, v))
			}
		}
		if err := loopir.Inside(t, bufs[l.BufSums], i); err != nil {
			return fmt.Errorf("buffer %d: %w", l.BufSums, err)
		}
		bits := ir.EncodeInt(ct, isum)
		if t.IsFloat() {
			bits = ir.EncodeFloat(ct, sum)
		}
		loopir.StoreBits(t, bufs[l.BufSums], i, bits)
	}
	return nil
}
