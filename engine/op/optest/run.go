package optest

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// poison fills memory that a kernel must write before it is read.
func poison(n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xA5
	}
	return b
}

// Run executes n on buffers in canonical form. bufs are the node's local buffers; offsets has one for each operand,
// then one for each output; scalars has one for each scalar operand.
func Run(n *lower.Node, bufs [][]byte, offsets []int64, scalars []uint64) (loopir.Fault, error) {
	res, err := lower.Lower(n)
	if err != nil {
		return loopir.Fault{}, err
	}
	bufs = bufs[:n.Bufs:n.Bufs]
	for _, t := range res.Temps {
		bufs = append(bufs, poison(t.Numel*int64(t.DType.Size())))
	}
	for i, l := range res.Launches {
		params := l.Values(&device.Binding{Offsets: offsets, Scalars: scalars})
		local := make([][]byte, len(l.Bufs))
		for j, b := range l.Bufs {
			local[j] = bufs[b]
		}
		fault, err := l.Op.Interpret(params, local)
		if err != nil || fault.Failed {
			return fault, wrapError(n, i, err)
		}
	}
	return loopir.Fault{}, nil
}

func wrapError(n *lower.Node, step int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: launch %d: %w", n.Prim.Name, step, err)
}

// Encode writes numbers as elements of d.
func Encode(d ir.DType, v []float64) []byte {
	b := make([]byte, len(v)*d.Size())
	for i, x := range v {
		if d.IsFloat() || d == ir.Bool {
			loopir.StoreBits(d, b, int64(i), ir.EncodeFloat(d, x))
		} else {
			loopir.StoreBits(d, b, int64(i), ir.EncodeInt(d, int64(x)))
		}
	}
	return b
}

// Decode reads the elements of a view in row-major order.
func Decode(d ir.DType, b []byte, l *ir.Layout, offset int64) []float64 {
	out := make([]float64, l.Numel)
	index := make([]int64, l.Rank())
	for n := range out {
		r := int64(n)
		for k := l.Rank() - 1; k >= 0; k-- {
			index[k] = r % l.Shape[k]
			r /= l.Shape[k]
		}
		out[n] = ir.DecodeFloat(d, loopir.LoadBits(d, b, offset+l.Element(index)))
	}
	return out
}
