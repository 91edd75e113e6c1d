package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Gemm is a batched matrix product C[b,m,n] = epilogue(sum_k A[b,m,k] * B[b,k,n] + bias[n]) with operands in any stride
// order.
//
// Parameters, in this order, missing ones omitted: batch sizes, M, N, K; A's batch strides, m stride, k stride, offset;
// B's batch strides, k stride, n stride, offset; the bias's n stride, offset. C is dense [batch..., M, N]; with
// CStrided its batch strides, m stride, n stride and offset come next.
//
// With KDims and NDims, the depth is the row-major number of an index over KDims dims of both operands, and a column of
// B is one over NDims dims. A convolution's windows are such a B. Their parameters come next: the sizes of K's dims,
// A's strides and B's strides over them, the sizes of N's dims, and B's strides over those; the k and n strides before
// are not used. With CDims, C's strides over N's dims replace its n stride. Then come the sizes of the RowDims, and for
// each operand of the epilogue with a view its strides over these, its n stride and its offset. The epilogue's scalars
// come next, and the prologue's parameters last.
//
// With Padded, B's windows reach over the border of a picture, where elements are zeros. Dim d of N and dim d of K walk
// dim d of the picture: its index is Step n + Gap k - Front, with an element from 0 to below Size. Size, Step, Gap and
// Front of all dims come after B's strides over N's dims. These are still strides of elements, and the offset is that
// of the picture's first one.
//
// Sums are those of A over k, a dense vector of M, or of B over k, one of N; only without batch dims. Buffers: A, B,
// [bias], [operands of the epilogue], C, [further results of the epilogue], [sums], [vectors of the prologue].
// Gemm.Layout numbers all of these.
// Strides that the text takes as 1 stay parameters.
type Gemm struct {
	Type  ir.DType // of all operands; F16 accumulates in F32
	Batch int      // number of batch dims, collapsed: 0 to 3
	// AUnit and BUnit name the dim along which an operand is contiguous: 'k' or 'm' of A, 'n' or 'k' of B, 0 for
	// neither.
	AUnit, BUnit byte
	Bias         bool
	// Epilogue is a map over C's elements after they are rounded to Type; nil: none. It is the same kernel that would run
	// after the product, so that C has the same bits either way. Its form: one outer dim; buffer 0 is C, read and
	// written; then come operands of any dtype, which are read, and further results, laid out as C; every access is
	// Linear without offset; one stage that stores C first and then each further result; its parameters from 1 on are
	// scalars. Where C is dense it may depend on the element's number. See Gemm.CheckEpilogue.
	Epilogue *loopir.Kernel
	// Prologue works the rows of A, each of K elements; the product multiplies what it stores, rounded to Type. nil: none.
	// It is the kernel that would run before the product. Its form is that of [NewPrologue]; see Gemm.CheckPrologue. It
	// excludes KDims and Sums, and a device has it for products of device.Caps.GemmPrologues rows at most.
	Prologue *loopir.Kernel
	// Views has a letter for each operand of the epilogue: 'c' where it is laid out as C, else it is read by strides, and
	// the letter says what its elements depend on: 'n' on the column, 'm' on the row, 'x' on both. "" stands for all 'c'.
	// Strides are over columns and over RowDims dims, up to MaxRowDims, that make up the number of a row of all matrices
	// of the batch.
	Views        string
	RowDims      int
	CStrided     bool
	Sums         byte // 'a' or 'b': the operand whose sums are a second result; 0 for none
	KDims, NDims int  // both 0, or both 1 to MaxGemmDims; where device.Caps.GemmDims allows
	Padded       bool // with KDims and NDims alike; where device.Caps.GemmPads, with one row of two dims
	CDims        bool
}

// MaxGemmDims bounds the dims of a product's depth and of its columns: for a 3d convolution they are the channels and
// three dims of the kernel.
const MaxGemmDims = 4

// MaxRowDims bounds the dims of a row's number in which operands of an epilogue have strides.
const MaxRowDims = 3

// View numbers the parameters of an operand that the epilogue reads by strides.
type View struct {
	Rows      []int // over the RowDims
	N, Offset int
}

// Pad numbers the parameters of a dim of the picture that windows reach over.
type Pad struct {
	Size, Step, Gap, Front int
}

// GemmLayout numbers the launch parameters of a Gemm. Every stride has a number, even those that AUnit and BUnit say
// are 1. Bias fields are -1 without a bias, C's stride fields without CStrided.
type GemmLayout struct {
	Batch               []int
	M, N, K             int
	ABatch              []int
	AM, AK, AOffset     int
	BBatch              []int
	BK, BN, BOffset     int
	BiasN, BiasOffset   int
	CBatch              []int
	CM, CN, COffset     int
	KSize, AKDim, BKDim []int // with KDims
	NSize, BNDim        []int // with NDims
	Pads                []Pad // with Padded, by dim
	CNDim               []int // with CDims
	Params              []loopir.Param
	BufA, BufB, BufBias int   // BufBias is -1 without a bias
	BufC, BufSums       int   // BufSums is -1 without sums
	BufOperands         []int // of the epilogue: its buffers from 1 on that it reads
	BufResults          []int // of the epilogue: the buffers after those, which it writes
	RowSize             []int
	Views               []View // by operand; zero for one that is laid out as C
	Scalars             []int  // of the epilogue: its parameters from 1 on
	BufVectors          []int  // of the prologue: its buffers after A
	RowParams           []int  // of the prologue: its parameters from 2 on
	Bufs                []loopir.Buf
}

// Layout returns the numbers of g's parameters and buffers.
func (g *Gemm) Layout() GemmLayout {
	l := GemmLayout{BiasN: -1, BiasOffset: -1, CM: -1, CN: -1, COffset: -1, BufBias: -1, BufSums: -1}
	one := func(k loopir.ParamKind) int {
		l.Params = append(l.Params, loopir.Param{Kind: k, Type: ir.I64})
		return len(l.Params) - 1
	}
	several := func(n int, k loopir.ParamKind) []int {
		var v []int
		for range n {
			v = append(v, one(k))
		}
		return v
	}
	many := func(k loopir.ParamKind) []int { return several(g.Batch, k) }
	buf := func(a loopir.BufAccess) int {
		l.Bufs = append(l.Bufs, loopir.Buf{Type: g.Type, Access: a})
		return len(l.Bufs) - 1
	}
	l.Batch = many(loopir.Size)
	l.M, l.N, l.K = one(loopir.Size), one(loopir.Size), one(loopir.Size)
	l.ABatch = many(loopir.Stride)
	l.AM, l.AK, l.AOffset = one(loopir.Stride), one(loopir.Stride), one(loopir.Offset)
	l.BBatch = many(loopir.Stride)
	l.BK, l.BN, l.BOffset = one(loopir.Stride), one(loopir.Stride), one(loopir.Offset)
	l.BufA, l.BufB = buf(loopir.Read), buf(loopir.Read)
	if g.Bias {
		l.BiasN, l.BiasOffset = one(loopir.Stride), one(loopir.Offset)
		l.BufBias = buf(loopir.Read)
	}
	if g.Epilogue != nil {
		for _, b := range g.Epilogue.Bufs[1:] {
			if b.Access == loopir.Read {
				l.BufOperands = append(l.BufOperands, buf(loopir.Read))
				l.Bufs[len(l.Bufs)-1].Type = b.Type
			}
		}
	}
	if g.CStrided {
		l.CBatch = many(loopir.Stride)
		l.CM, l.CN, l.COffset = one(loopir.Stride), one(loopir.Stride), one(loopir.Offset)
	}
	l.BufC = buf(loopir.Write)
	if g.Epilogue != nil {
		for _, b := range g.Epilogue.Bufs[1+len(l.BufOperands):] {
			l.BufResults = append(l.BufResults, buf(loopir.Write))
			l.Bufs[len(l.Bufs)-1].Type = b.Type
		}
	}
	if g.Sums != 0 {
		l.BufSums = buf(loopir.Write)
	}
	l.KSize, l.AKDim, l.BKDim = several(g.KDims, loopir.Size), several(g.KDims, loopir.Stride),
		several(g.KDims, loopir.Stride)
	l.NSize, l.BNDim = several(g.NDims, loopir.Size), several(g.NDims, loopir.Stride)
	if g.Padded {
		for range g.NDims {
			l.Pads = append(l.Pads, Pad{one(loopir.Size), one(loopir.Stride), one(loopir.Stride), one(loopir.Offset)})
		}
	}
	if g.CDims {
		l.CNDim = several(g.NDims, loopir.Stride)
	}
	l.RowSize = several(g.RowDims, loopir.Size)
	for o := range l.BufOperands {
		l.Views = append(l.Views, View{})
		if v := &l.Views[o]; g.Viewed(o) {
			v.Rows = several(g.RowDims, loopir.Stride)
			v.N, v.Offset = one(loopir.Stride), one(loopir.Offset)
		}
	}
	if g.Epilogue != nil {
		for _, p := range g.Epilogue.Params[1:] {
			l.Scalars = append(l.Scalars, one(p.Kind))
			l.Params[len(l.Params)-1].Type = p.Type
		}
	}
	g.layOutPrologue(&l)
	return l
}

// along is the element offset of index number i over size; without dims it is i strides of one.
func along(params []uint64, size, strides []int, one int, i int64) int64 {
	if len(size) == 0 {
		return i * int64(params[one])
	}
	at := int64(0)
	for d := len(size) - 1; d >= 0; d-- {
		n := int64(params[size[d]])
		at += i % n * int64(params[strides[d]])
		i /= n
	}
	return at
}

// The constants of the tanh form of GELU (Hendrycks and Gimpel, 2016): sqrt(2/pi), and the factor of the cubic.
const (
	GeluTanhScale = 0.7978845608028654
	GeluTanhCubic = 0.044715
)

// InterpretGemm computes g over canonical host bytes. Floats accumulate in float64 and are rounded once, at the store.
func InterpretGemm(g *Gemm, params []uint64, bufs [][]byte) error {
	l := g.Layout()
	if len(params) != len(l.Params) || len(bufs) != len(l.Bufs) {
		return fmt.Errorf("gemm: %d parameters and %d buffers, want %d and %d", len(params), len(bufs), len(l.Params),
			len(l.Bufs))
	}
	if err := g.CheckEpilogue(); err != nil {
		return err
	}
	if err := sumOperand(g, &l, params, bufs); err != nil {
		return fmt.Errorf("gemm: sums: %w", err)
	}
	params, bufs, err := g.workRows(&l, params, bufs)
	if err != nil {
		return err
	}
	sizes := make([]uint64, len(l.Batch))
	for i, p := range l.Batch {
		sizes[i] = params[p]
	}
	mm, nn := int64(params[l.M]), int64(params[l.N])
	dot := func(strides []int, index []int64, rest ...int64) int64 {
		at := int64(0)
		for i, s := range strides {
			at += index[i] * int64(params[s])
		}
		for i := 0; i < len(rest); i += 2 {
			at += rest[i] * rest[i+1]
		}
		return at
	}
	p := func(n int) int64 { return int64(params[n]) }
	index := make([]int64, len(sizes))
	e := newElements(g, &l, params, bufs)
	for b := range loopir.Count(sizes) {
		loopir.Unravel(index, sizes, b)
		a0 := p(l.AOffset) + dot(l.ABatch, index)
		b0 := p(l.BOffset) + dot(l.BBatch, index)
		for m := range mm {
			for n := range nn {
				c := (b*mm+m)*nn + n
				if g.CStrided {
					c = p(l.COffset) + dot(l.CBatch, index, m, p(l.CM))
					if g.CDims {
						c += along(params, l.NSize, l.CNDim, l.CN, n)
					} else {
						c += n * p(l.CN)
					}
				}
				bias := int64(-1)
				if g.Bias {
					bias = p(l.BiasOffset) + n*p(l.BiasN)
				}
				at := element{c: c, row: b*mm + m, col: n}
				if err := gemmElement(e, a0+m*p(l.AM), b0, bias, at); err != nil {
					return fmt.Errorf("gemm: batch %d, row %d, column %d: %w", b, m, n, err)
				}
			}
		}
	}
	return nil
}

// spot returns the element of B for column n and term k, counted from the matrix's first. It is false where that is
// outside the picture.
func (l *GemmLayout) spot(params []uint64, n, k int64) (int64, bool) {
	at := along(params, l.NSize, l.BNDim, l.BN, n) + along(params, l.KSize, l.BKDim, l.BK, k)
	for d := len(l.Pads) - 1; d >= 0; d-- {
		p := func(i int) int64 { return int64(params[i]) }
		pad, unit := l.Pads[d], int64(0)
		index := n%p(l.NSize[d])*p(pad.Step) + k%p(l.KSize[d])*p(pad.Gap) - p(pad.Front)
		if index < 0 || index >= p(pad.Size) {
			return 0, false
		}
		if p(pad.Step) != 0 {
			unit = p(l.BNDim[d]) / p(pad.Step)
		}
		at -= p(pad.Front) * unit
		n, k = n/p(l.NSize[d]), k/p(l.KSize[d])
	}
	return at, true
}

// gemmElement computes one element of C, from the elements at which its row of A and its matrix of B begin.
func gemmElement(e *elements, a, b, bias int64, to element) error {
	g, l, params, bufs, c := e.g, e.l, e.params, e.bufs, to.c
	t := g.Type
	ct := t.ComputeType()
	var sum float64
	var isum int64
	one := ir.EncodeInt(ct, 1)
	load := func(buf int, at int64) (uint64, error) {
		if err := loopir.Inside(t, bufs[buf], at); err != nil {
			return 0, fmt.Errorf("buffer %d: %w", buf, err)
		}
		return loopir.LoadBits(t, bufs[buf], at), nil
	}
	add := func(x, y uint64) {
		if t.IsFloat() {
			sum += ir.DecodeFloat(ct, x) * ir.DecodeFloat(ct, y)
		} else {
			isum += int64(loopir.CastBits(ct, ir.I64, x)) * int64(loopir.CastBits(ct, ir.I64, y))
		}
	}
	for k := range int64(params[l.K]) {
		x, err := load(l.BufA, a+along(params, l.KSize, l.AKDim, l.AK, k))
		if err != nil {
			return err
		}
		if at, inside := l.spot(params, to.col, k); inside {
			y, err := load(l.BufB, b+at)
			if err != nil {
				return err
			}
			add(x, y)
		}
	}
	if bias >= 0 {
		x, err := load(l.BufBias, bias)
		if err != nil {
			return err
		}
		add(x, one)
	}
	if err := loopir.Inside(t, bufs[l.BufC], c); err != nil {
		return fmt.Errorf("buffer C: %w", err)
	}
	if t.IsFloat() {
		loopir.StoreBits(t, bufs[l.BufC], c, ir.EncodeFloat(ct, sum))
	} else {
		loopir.StoreBits(t, bufs[l.BufC], c, ir.EncodeInt(ct, isum))
	}
	return e.finish(to)
}
