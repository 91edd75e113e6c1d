package launch

import (
	"errors"
	"fmt"
	"math"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Attention is one pass of out = softmax(scale q k' + mask) v over batch and heads that never stores the weights (Dao
// et al., FlashAttention, 2022). Each pass computes them from tiles of q and k. The gradients also read the logarithm
// of the sum of exponentials, lse, that the forward pass kept for each row. Consecutive query heads share a key head. A
// row that may see no key has out 0 and lse +inf.
//
// The operands q, k, v, mask and g, the cotangent of out, have any strides; a mask's are 0 along dims that share it.
// All others are dense: out and dq [batch, query, head, column], dk and dv [batch, key, key head, column], dmask
// [batch, head, query, key] with size 1 in the dims of Sum, lse [batch, head, query], and stats [batch, head, query,
// 2]. The gradients read stats: lse, and delta, the sum of g*out. These two are one buffer, since a device may bind no
// more than eight.
type Attention struct {
	Type   ir.DType // of operands and results; arithmetic, lse and stats are in its compute type
	Pass   AttentionPass
	Causal bool     // query i sees keys 0 to i
	Mask   ir.DType // InvalidDType: none; Bool: true keeps a score; a float: added to the scores
	// Dropout: weights are multiplied by 0 with probability rate, else by 1/(1-rate). The weight of a query and a key
	// has number row*n + key, where row counts the queries of all heads and batches, and n is the number of keys
	// rounded up to a multiple of four. Its uniform number is that of dropout's element with the same number.
	Dropout bool
	// Append, of the forward pass without dropout: the launch first stores a new row in k and one in v, for each batch
	// and key head, and attends to them as to the others. The number of the row comes from a buffer and is clamped into
	// [0, Keys). A device has it for AppendQueries queries, and device.Caps.AttentionAppends columns of a head, at most.
	Append bool
	// Sum, of AttentionGradMask, marks the dims (batch, head, query, key) that share the mask.
	Sum [4]bool
}

// AppendQueries is the most queries of an Attention with Append. A step of one token has several where heads share a
// key head and the program counts them as queries of one head.
const AppendQueries = 4

// AttentionPass says what an Attention computes.
type AttentionPass uint8

// The passes and their results. AttentionForward: out, lse. AttentionGradQ: dq. AttentionGradKV: dk, dv.
// AttentionGradMask: dmask. AttentionGradQKV, which a device may make of two passes: dk, dv, dq.
const (
	AttentionForward AttentionPass = iota
	AttentionGradQ
	AttentionGradKV
	AttentionGradMask
	AttentionGradQKV
)

// String is the pass in names of kernels.
func (p AttentionPass) String() string {
	return [...]string{"attention", "attention_grad_q", "attention_grad_kv", "attention_grad_mask",
		"attention_grad_qkv"}[p]
}

// AttentionOperand is an operand of any strides: its buffer, and the first of its five parameters, which are the
// strides of batch, head, row and column, and the offset.
type AttentionOperand struct{ Buf, Param int }

// AttentionLayout numbers the parameters and buffers of an Attention; -1 for what the pass lacks. Heads counts query
// heads, a multiple of KeyHeads. Queries and Keys are the lengths of the sequences, Width the columns of q and k,
// WidthV those of v.
type AttentionLayout struct {
	Batch, Heads, KeyHeads, Queries, Keys, Width, WidthV int
	Scale, Seed, DrawOffset, Rate                        int
	Q, K, V, Mask, G                                     AttentionOperand
	NewK, NewV                                           AttentionOperand // of one row, whose stride is not used
	Place, PlaceOffset                                   int              // buffer and parameter of the rows' number
	Stats                                                int
	Out                                                  []int
	Params                                               []loopir.Param
	Bufs                                                 []loopir.Buf
}

// Layout returns the numbers of a's parameters and buffers.
func (a *Attention) Layout() AttentionLayout {
	none := AttentionOperand{-1, -1}
	l := AttentionLayout{Mask: none, G: none, NewK: none, NewV: none, Place: -1, PlaceOffset: -1, Stats: -1, Seed: -1,
		DrawOffset: -1, Rate: -1}
	param := func(k loopir.ParamKind, t ir.DType) int {
		l.Params = append(l.Params, loopir.Param{Kind: k, Type: t})
		return len(l.Params) - 1
	}
	buf := func(t ir.DType, access loopir.BufAccess) int {
		l.Bufs = append(l.Bufs, loopir.Buf{Type: t, Access: access})
		return len(l.Bufs) - 1
	}
	operand := func(t ir.DType, access loopir.BufAccess) AttentionOperand {
		o := AttentionOperand{Buf: buf(t, access), Param: len(l.Params)}
		for range 4 {
			param(loopir.Stride, ir.I64)
		}
		param(loopir.Offset, ir.I64)
		return o
	}
	for _, p := range []*int{&l.Batch, &l.Heads, &l.KeyHeads, &l.Queries, &l.Keys, &l.Width, &l.WidthV} {
		*p = param(loopir.Size, ir.I64)
	}
	ct := a.Type.ComputeType()
	l.Scale = param(loopir.Scalar, ct)
	if a.Dropout {
		l.Seed, l.DrawOffset, l.Rate = param(loopir.Scalar, ir.I64), param(loopir.Scalar, ir.I64), param(loopir.Scalar, ct)
	}
	kept := loopir.Read
	if a.Append {
		kept = loopir.ReadWrite
	}
	l.Q, l.K, l.V = operand(a.Type, loopir.Read), operand(a.Type, kept), operand(a.Type, kept)
	if a.Mask != ir.InvalidDType {
		l.Mask = operand(a.Mask, loopir.Read)
	}
	if a.Append {
		l.NewK, l.NewV = operand(a.Type, loopir.Read), operand(a.Type, loopir.Read)
		l.Place, l.PlaceOffset = buf(ir.I64, loopir.Read), param(loopir.Offset, ir.I64)
	}
	if a.Pass == AttentionForward {
		l.Out = []int{buf(a.Type, loopir.Write), buf(ct, loopir.Write)}
		return l
	}
	l.G = operand(a.Type, loopir.Read)
	l.Stats = buf(ct, loopir.Read)
	if a.Pass == AttentionGradMask {
		l.Out = []int{buf(a.Mask, loopir.Write)}
		return l
	}
	l.Out = []int{buf(a.Type, loopir.Write)}
	if a.Pass == AttentionGradKV || a.Pass == AttentionGradQKV {
		l.Out = append(l.Out, buf(a.Type, loopir.Write))
	}
	if a.Pass == AttentionGradQKV {
		l.Out = append(l.Out, buf(a.Type, loopir.Write))
	}
	return l
}

// attention is one interpretation.
type attention struct {
	a                                      *Attention
	l                                      AttentionLayout
	params                                 []uint64
	bufs                                   [][]byte
	batch, heads, group, rows, cols, e, ev int64
	scale                                  float64
	err                                    error
}

// InterpretAttention computes a over canonical host bytes in float64. Results are rounded once, at the store.
func InterpretAttention(a *Attention, params []uint64, bufs [][]byte) error {
	x := &attention{a: a, l: a.Layout(), params: params, bufs: bufs}
	l := &x.l
	if err := a.checkAppend(); err != nil {
		return err
	}
	if len(params) != len(l.Params) || len(bufs) != len(l.Bufs) {
		return fmt.Errorf("attention: %d parameters and %d buffers, want %d and %d", len(params), len(bufs), len(l.Params),
			len(l.Bufs))
	}
	n := func(p int) int64 { return int64(params[p]) }
	x.batch, x.heads, x.group, x.rows, x.cols, x.e, x.ev = n(l.Batch), n(l.Heads), n(l.Heads)/max(n(l.KeyHeads), 1),
		n(l.Queries), n(l.Keys), n(l.Width), n(l.WidthV)
	x.scale = ir.DecodeFloat(a.Type.ComputeType(), params[l.Scale])
	if a.Pass == AttentionGradMask {
		x.gradMask()
		return x.err
	}
	x.appendRows()
	for b := range x.batch {
		if a.Pass == AttentionGradKV || a.Pass == AttentionGradQKV {
			for h := range x.heads / x.group {
				x.gradKV(b, h)
			}
		}
		if a.Pass == AttentionGradKV {
			continue
		}
		for h := range x.heads {
			for i := range x.rows {
				if a.Pass == AttentionForward {
					x.forward(b, h, i)
				} else {
					x.gradQ(b, h, i)
				}
			}
		}
	}
	return x.err
}

func (x *attention) read(buf int, at int64) float64 {
	t := x.l.Bufs[buf].Type
	if err := loopir.Inside(t, x.bufs[buf], at); err != nil {
		if x.err == nil {
			x.err = fmt.Errorf("attention: buffer %d: %w", buf, err)
		}
		return 0
	}
	return ir.DecodeFloat(t.ComputeType(), loopir.LoadBits(t, x.bufs[buf], at))
}

func (x *attention) load(o AttentionOperand, b, h, row, col int64) float64 {
	return x.read(o.Buf, x.at(o, b, h, row, col))
}

// at is the place of an element of an operand.
func (x *attention) at(o AttentionOperand, b, h, row, col int64) int64 {
	p := func(i int) int64 { return int64(x.params[o.Param+i]) }
	return b*p(0) + h*p(1) + row*p(2) + col*p(3) + p(4)
}

func (x *attention) write(out int, at int64, v float64) { x.writeTo(x.l.Out[out], at, v) }

func (x *attention) writeTo(buf int, at int64, v float64) {
	t := x.l.Bufs[buf].Type
	if err := loopir.Inside(t, x.bufs[buf], at); err != nil {
		if x.err == nil {
			x.err = fmt.Errorf("attention: buffer %d: %w", buf, err)
		}
		return
	}
	loopir.StoreBits(t, x.bufs[buf], at, ir.EncodeFloat(t.ComputeType(), v))
}

func (a *Attention) checkAppend() error {
	if a.Append && (a.Pass != AttentionForward || a.Dropout) {
		return errors.New("attention: only the forward pass without dropout stores new rows")
	}
	return nil
}

// appendRows stores the new rows of k and v, where there are some.
func (x *attention) appendRows() {
	if !x.a.Append {
		return
	}
	l, at := &x.l, int64(x.params[x.l.PlaceOffset])
	if err := loopir.Inside(ir.I64, x.bufs[l.Place], at); err != nil {
		x.err = fmt.Errorf("attention: buffer %d: %w", l.Place, err)
		return
	}
	row := max(0, min(int64(loopir.LoadBits(ir.I64, x.bufs[l.Place], at)), x.cols-1))
	for b := range x.batch {
		for h := range x.heads / x.group {
			for e := range x.e {
				x.writeTo(l.K.Buf, x.at(l.K, b, h, row, e), x.load(l.NewK, b, h, 0, e))
			}
			for e := range x.ev {
				x.writeTo(l.V.Buf, x.at(l.V, b, h, row, e), x.load(l.NewV, b, h, 0, e))
			}
		}
	}
}

// dot is the product of row i of o and row j of p.
func (x *attention) dot(o AttentionOperand, ho, i int64, p AttentionOperand, hp, j, b, width int64) float64 {
	sum := 0.0
	for e := range width {
		sum += x.load(o, b, ho, i, e) * x.load(p, b, hp, j, e)
	}
	return sum
}

// score is the score of query i and key j, -inf where i may not see j.
func (x *attention) score(b, h, i, j int64) float64 {
	s := x.scale * x.dot(x.l.Q, h, i, x.l.K, h/x.group, j, b, x.e)
	switch {
	case x.a.Causal && j > i:
		return math.Inf(-1)
	case x.a.Mask == ir.Bool:
		if x.load(x.l.Mask, b, h, i, j) == 0 {
			return math.Inf(-1)
		}
	case x.a.Mask != ir.InvalidDType:
		s += x.load(x.l.Mask, b, h, i, j)
	}
	return s
}

func (x *attention) forward(b, h, i int64) {
	s, top, sum := make([]float64, x.cols), math.Inf(-1), 0.0
	for j := range s {
		s[j] = x.score(b, h, i, int64(j))
		top = max(top, s[j]) // NaN wins
	}
	lse := math.Inf(1)
	if !math.IsInf(top, -1) {
		for j := range s {
			s[j] = math.Exp(s[j] - top)
			sum += s[j]
		}
		lse = top + math.Log(sum)
	}
	for e := range x.ev {
		v := 0.0
		if !math.IsInf(top, -1) {
			for j := range s {
				v += s[j] / sum * x.kept(b, h, i, int64(j)) * x.load(x.l.V, b, h/x.group, int64(j), e)
			}
		}
		x.write(0, ((b*x.rows+i)*x.heads+h)*x.ev+e, v)
	}
	x.write(1, (b*x.heads+h)*x.rows+i, lse)
}

// kept is the dropout factor of the weight of query i and key j.
func (x *attention) kept(b, h, i, j int64) float64 {
	if !x.a.Dropout {
		return 1
	}
	n := (((b*x.heads+h)*x.rows+i)*((x.cols+3)/4))*4 + j
	seed, drawOffset, ct := x.params[x.l.Seed], x.params[x.l.DrawOffset], x.a.Type.ComputeType()
	rate := ir.DecodeFloat(ct, x.params[x.l.Rate])
	if math.Ldexp(float64(loopir.Draw(loopir.DrawWord, uint64(n), drawOffset, seed)>>8), -24) < rate {
		return 0
	}
	return 1 / (1 - rate)
}

// weight is the softmax of score (i, j) after dropout, and the cotangent of that score.
func (x *attention) weight(b, h, i, j int64) (p, ds float64) {
	row := (b*x.heads+h)*x.rows + i
	p = math.Exp(x.score(b, h, i, j) - x.read(x.l.Stats, 2*row))
	dp, kept := x.dot(x.l.G, h, i, x.l.V, h/x.group, j, b, x.ev), x.kept(b, h, i, j)
	return p * kept, p * (dp*kept - x.read(x.l.Stats, 2*row+1))
}

// gradMask sums the cotangents of the scores over the dims that share the mask.
func (x *attention) gradMask() {
	size := [4]int64{x.batch, x.heads, x.rows, x.cols}
	var stride [4]int64
	n := int64(1)
	for d := 3; d >= 0; d-- {
		if !x.a.Sum[d] {
			stride[d] = n
			n *= size[d]
		}
	}
	sum := make([]float64, n)
	for b := range size[0] {
		for h := range size[1] {
			for i := range size[2] {
				for j := range size[3] {
					_, ds := x.weight(b, h, i, j)
					sum[b*stride[0]+h*stride[1]+i*stride[2]+j*stride[3]] += ds
				}
			}
		}
	}
	for i, v := range sum {
		x.write(0, int64(i), v)
	}
}

func (x *attention) gradQ(b, h, i int64) {
	ds := make([]float64, x.cols)
	for j := range ds {
		_, ds[j] = x.weight(b, h, i, int64(j))
	}
	for e := range x.e {
		v := 0.0
		for j := range ds {
			v += ds[j] * x.load(x.l.K, b, h/x.group, int64(j), e)
		}
		x.write(len(x.l.Out)-1, ((b*x.rows+i)*x.heads+h)*x.e+e, x.scale*v)
	}
}

func (x *attention) gradKV(b, hk int64) {
	for j := range x.cols {
		dk, dv := make([]float64, x.e), make([]float64, x.ev)
		for h := hk * x.group; h < (hk+1)*x.group; h++ {
			for i := range x.rows {
				p, ds := x.weight(b, h, i, j)
				for e := range dk {
					dk[e] += x.scale * ds * x.load(x.l.Q, b, h, i, int64(e))
				}
				for e := range dv {
					dv[e] += p * x.load(x.l.G, b, h, i, int64(e))
				}
			}
		}
		at := (b*x.cols+j)*(x.heads/x.group) + hk
		for e, v := range dk {
			x.write(0, at*x.e+int64(e), v)
		}
		for e, v := range dv {
			x.write(1, at*x.ev+int64(e), v)
		}
	}
}
