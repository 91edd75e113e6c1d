package launch

import (
	"fmt"
	"math"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Quantized is a product of float32 rows with weights of 8 or 4 bits, multiplied by a scale for each output, or for
// each group of terms of an output: y = x (scale * w + offset) + bias. Rows of x are contiguous.
//
// Weights are two's complement fields of 32-bit words, the first term in the lowest bits. Outputs lie in panels of
// PanelWidth: weights are [panels, Words, PanelWidth], scales and offsets [panels, groups, PanelWidth]. Scales are
// float32 for 8 bits, bfloat16 for 4 bits; offsets are bfloat16. What lies beyond the last term or output is ignored.
//
// Parameters are the sizes M, N and K, the distance of rows of x, and the element offsets of x, weights, scales,
// offsets and bias; buffers come in this order, those that are absent left out, and the dense result.
type Quantized struct {
	Bits  int
	Group int64 // terms that share a scale
	// Dynamic: rows of x are quantized too, to integers of 8 bits with a scale for each group: the greatest magnitude
	// over 127. The sums of int8 products are exact.
	Dynamic      bool
	Offset, Bias bool
}

// PanelWidth is the number of outputs in a panel.
const PanelWidth = 16

// paddedTerms: rows of 8 bits are padded to a multiple.
const paddedTerms = 64

// QuantizedParams is the number of launch parameters.
const QuantizedParams = 9

// Words is the number of words that hold the terms of an output.
func (q *Quantized) Words(k int64) int64 {
	if q.Bits == 8 {
		return (k + paddedTerms - 1) / paddedTerms * paddedTerms / 4
	}
	return (k + 7) / 8
}

// Groups is the number of groups of k terms.
func (q *Quantized) Groups(k int64) int64 { return (k + q.Group - 1) / q.Group }

// ScaleType is the dtype of scales.
func (q *Quantized) ScaleType() ir.DType {
	if q.Bits == 8 {
		return ir.F32
	}
	return ir.BF16
}

// Label implements Op.
func (q *Quantized) Label() string {
	if q.Dynamic {
		return fmt.Sprintf("product_int8_weights_of_%d_bits", q.Bits)
	}
	return fmt.Sprintf("product_weights_of_%d_bits", q.Bits)
}

// Buffers implements Op.
func (q *Quantized) Buffers() []loopir.Buf {
	list := []loopir.Buf{{Type: ir.F32, Access: loopir.Read}, {Type: ir.I32, Access: loopir.Read},
		{Type: q.ScaleType(), Access: loopir.Read}}
	if q.Offset {
		list = append(list, loopir.Buf{Type: ir.BF16, Access: loopir.Read})
	}
	if q.Bias {
		list = append(list, loopir.Buf{Type: ir.F32, Access: loopir.Read})
	}
	return append(list, loopir.Buf{Type: ir.F32, Access: loopir.Write})
}

// Parameters implements Op.
func (q *Quantized) Parameters() []loopir.Param {
	list := make([]loopir.Param, QuantizedParams)
	for i := range list {
		list[i] = loopir.Param{Kind: loopir.Offset, Type: ir.I64}
		if i < 3 {
			list[i].Kind = loopir.Size
		}
	}
	list[3].Kind = loopir.Stride
	return list
}

// Key implements Op.
func (q *Quantized) Key() string { return fmt.Sprintf("quantized%+v", *q) }

// Cost implements Op.
func (q *Quantized) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	m, n, k := int64(params[0]), int64(params[1]), int64(params[2])
	return loopir.Cost{Flops: 2 * m * n * k,
		Bytes: n*k*int64(q.Bits)/8 + n*q.Groups(k)*int64(width[q.ScaleType()]) + m*(n+k)*int64(width[ir.F32])}
}

// quantizedRun reads the operands of a run.
type quantizedRun struct {
	*Quantized
	bufs    [][]byte
	offset  []int64 // of the operands; of those left out, too
	m, n, k int64
	stride  int64
	err     error
}

// load reads element i of operand b, whose offset is number o.
func (r *quantizedRun) load(t ir.DType, b, o int, i int64) uint64 {
	at := i + r.offset[o]
	if err := loopir.Inside(t, r.bufs[b], at); err != nil {
		r.err = fmt.Errorf("%s: operand %d: %w", r.Label(), b, err)
		return 0
	}
	return loopir.LoadBits(t, r.bufs[b], at)
}

func (r *quantizedRun) float(t ir.DType, b, o int, i int64) float64 {
	return ir.DecodeFloat(t, r.load(t, b, o, i))
}

// weight is term k of output n.
func (r *quantizedRun) weight(n, k int64) int32 {
	each := int64(32 / r.Bits)
	word := int32(r.load(ir.I32, 1, 1, (n/PanelWidth*r.Words(r.k)+k/each)*PanelWidth+n%PanelWidth))
	return word << (32 - int64(r.Bits)*(k%each+1)) >> (32 - r.Bits)
}

// table is the place of the group of term k of output n among scales and offsets.
func (r *quantizedRun) table(n, k int64) int64 {
	return (n/PanelWidth*r.Groups(r.k)+k/r.Group)*PanelWidth + n%PanelWidth
}

// row returns a row of x. That is rounded to what integers and scales hold where rows are quantized.
func (r *quantizedRun) row(m int64) []float64 {
	x := make([]float64, r.k)
	for k := range x {
		x[k] = r.float(ir.F32, 0, 0, m*r.stride+int64(k))
	}
	if r.Dynamic {
		for group := range slices.Chunk(x, int(min(r.Group, max(r.k, 1)))) {
			quantizeGroup(group)
		}
	}
	return x
}

// quantizeGroup rounds numbers to multiples of the greatest magnitude over 127. Where one is not finite all are NaN.
func quantizeGroup(x []float64) {
	top := float32(0)
	for _, v := range x {
		if top = max(top, float32(math.Abs(v))); math.IsInf(v, 0) || math.IsNaN(v) {
			top = float32(math.NaN())
		}
	}
	factor, scale := 127/top, float64(top/127)
	if math.IsInf(float64(factor), 0) {
		factor, scale = 0, 0
	}
	for k, v := range x {
		x[k] = math.RoundToEven(float64(float32(v)*factor)) * scale
	}
}

// Interpret implements Op: in float64, but for the integers of rows and their scales.
func (q *Quantized) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(q, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	r := quantizedRun{Quantized: q, bufs: bufs, m: int64(params[0]), n: int64(params[1]), k: int64(params[2]),
		stride: int64(params[3])}
	for _, p := range params[4:] {
		r.offset = append(r.offset, int64(p))
	}
	out := len(bufs) - 1
	for m := range r.m {
		x := r.row(m)
		for n := range r.n {
			sum := 0.0
			for k := range r.k {
				w := float64(r.weight(n, k)) * r.float(q.ScaleType(), 2, 2, r.table(n, k))
				if q.Offset {
					w += r.float(ir.BF16, 3, 3, r.table(n, k))
				}
				sum += x[k] * w
			}
			if q.Bias {
				sum += r.float(ir.F32, out-1, 4, n)
			}
			if err := loopir.Inside(ir.F32, bufs[out], m*r.n+n); err != nil {
				return loopir.Fault{}, fmt.Errorf("%s: result: %w", q.Label(), err)
			}
			loopir.StoreBits(ir.F32, bufs[out], m*r.n+n, ir.EncodeFloat(ir.F32, sum))
		}
	}
	return loopir.Fault{}, r.err
}
