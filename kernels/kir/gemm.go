package kir

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/ir"
)

// GemmLayout numbers the launch parameters of a Gemm. Every stride is present,
// also those that AUnit and BUnit say are 1. Bias fields are -1 without a
// bias, C's stride fields without CStrided.
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
	CNDim               []int // with CDims
	Params              []Param
	BufA, BufB, BufBias int   // BufBias is -1 without a bias
	BufC, BufSums       int   // BufSums is -1 without sums
	BufOperands         []int // of the epilogue: its buffers from 1 on
	Bufs                []Buf
}

// Layout gives the parameter and buffer numbers of g.
func (g *Gemm) Layout() GemmLayout {
	l := GemmLayout{BiasN: -1, BiasOffset: -1, CM: -1, CN: -1, COffset: -1, BufBias: -1, BufSums: -1}
	one := func(k ParamKind) int {
		l.Params = append(l.Params, Param{Kind: k, Type: ir.I64})
		return len(l.Params) - 1
	}
	several := func(n int, k ParamKind) []int {
		var v []int
		for range n {
			v = append(v, one(k))
		}
		return v
	}
	many := func(k ParamKind) []int { return several(g.Batch, k) }
	buf := func(a BufAccess) int {
		l.Bufs = append(l.Bufs, Buf{Type: g.Type, Access: a})
		return len(l.Bufs) - 1
	}
	l.Batch = many(Size)
	l.M, l.N, l.K = one(Size), one(Size), one(Size)
	l.ABatch = many(Stride)
	l.AM, l.AK, l.AOffset = one(Stride), one(Stride), one(Offset)
	l.BBatch = many(Stride)
	l.BK, l.BN, l.BOffset = one(Stride), one(Stride), one(Offset)
	l.BufA, l.BufB = buf(Read), buf(Read)
	if g.Bias {
		l.BiasN, l.BiasOffset = one(Stride), one(Offset)
		l.BufBias = buf(Read)
	}
	if g.Epilogue != nil {
		for _, b := range g.Epilogue.Bufs[1:] {
			l.BufOperands = append(l.BufOperands, buf(Read))
			l.Bufs[len(l.Bufs)-1].Type = b.Type
		}
	}
	if g.CStrided {
		l.CBatch = many(Stride)
		l.CM, l.CN, l.COffset = one(Stride), one(Stride), one(Offset)
	}
	l.BufC = buf(Write)
	if g.Sums != 0 {
		l.BufSums = buf(Write)
	}
	l.KSize, l.AKDim, l.BKDim = several(g.KDims, Size), several(g.KDims, Stride), several(g.KDims, Stride)
	l.NSize, l.BNDim = several(g.NDims, Size), several(g.NDims, Stride)
	if g.CDims {
		l.CNDim = several(g.NDims, Stride)
	}
	return l
}

// along gives the element where number i of an index over size lies; without dims it is i strides of one.
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

// The constants of the tanh form of GELU (Hendrycks and Gimpel, 2016): sqrt(2/pi), and the cubic's factor.
const (
	GeluTanhScale = 0.7978845608028654
	GeluTanhCubic = 0.044715
)

// InterpretGemm computes g over canonical host bytes; floats accumulate in
// float64 and round once at the store.
func InterpretGemm(g *Gemm, params []uint64, bufs [][]byte) error {
	l := g.Layout()
	if len(params) != len(l.Params) || len(bufs) != len(l.Bufs) {
		return fmt.Errorf("gemm: %d parameters and %d buffers, want %d and %d", len(params), len(bufs), len(l.Params), len(l.Bufs))
	}
	if err := g.CheckEpilogue(); err != nil {
		return err
	}
	if err := sumOperand(g, &l, params, bufs); err != nil {
		return fmt.Errorf("gemm: sums: %w", err)
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
	for b := range count(sizes) {
		unravel(index, sizes, b)
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
				if err := gemmElement(g, &l, params, bufs, a0+m*p(l.AM), b0+along(params, l.NSize, l.BNDim, l.BN, n), bias, c); err != nil {
					return fmt.Errorf("gemm: batch %d, row %d, column %d: %w", b, m, n, err)
				}
			}
		}
	}
	return nil
}

// gemmElement computes one element of C from the elements where its row of A
// and column of B begin.
func gemmElement(g *Gemm, l *GemmLayout, params []uint64, bufs [][]byte, a, b, bias, c int64) error {
	t := g.Type
	ct := t.ComputeType()
	var sum float64
	var isum int64
	one := ir.EncodeInt(ct, 1)
	load := func(buf int, at int64) (uint64, error) {
		if err := inside(t, bufs[buf], at); err != nil {
			return 0, fmt.Errorf("buffer %d: %w", buf, err)
		}
		return LoadBits(t, bufs[buf], at), nil
	}
	add := func(x, y uint64) {
		if t.IsFloat() {
			sum += ir.DecodeFloat(ct, x) * ir.DecodeFloat(ct, y)
		} else {
			isum += int64(castBits(ct, ir.I64, x)) * int64(castBits(ct, ir.I64, y))
		}
	}
	for k := range int64(params[l.K]) {
		x, err := load(l.BufA, a+along(params, l.KSize, l.AKDim, l.AK, k))
		if err != nil {
			return err
		}
		y, err := load(l.BufB, b+along(params, l.KSize, l.BKDim, l.BK, k))
		if err != nil {
			return err
		}
		add(x, y)
	}
	if bias >= 0 {
		x, err := load(l.BufBias, bias)
		if err != nil {
			return err
		}
		add(x, one)
	}
	if err := inside(t, bufs[l.BufC], c); err != nil {
		return fmt.Errorf("buffer C: %w", err)
	}
	if t.IsFloat() {
		StoreBits(t, bufs[l.BufC], c, ir.EncodeFloat(ct, sum))
	} else {
		StoreBits(t, bufs[l.BufC], c, ir.EncodeInt(ct, isum))
	}
	return finishElement(g, l, bufs, c)
}

// finishElement applies the epilogue to element c of C.
func finishElement(g *Gemm, l *GemmLayout, bufs [][]byte, c int64) error {
	if g.Epilogue == nil {
		return nil
	}
	var own [][]byte
	for i, b := range append([]int{l.BufC}, l.BufOperands...) {
		t := g.Epilogue.Bufs[i].Type
		if err := inside(t, bufs[b], c); err != nil {
			return fmt.Errorf("buffer %d: %w", b, err)
		}
		own = append(own, bufs[b][c*int64(t.Size()):])
	}
	_, err := Interpret(g.Epilogue, []uint64{1}, own)
	return err
}
