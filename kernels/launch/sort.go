package launch

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Sort sorts rows and keeps the first elements of each, with their positions. The order is stable: equal elements stay
// in the order of their positions, in both directions. NaN is above all numbers, and the zeros are equal.
//
// The operand has three dims, [outer, N, inner], with any strides; a row runs along N. The results are dense, [outer,
// Keep, inner].
type Sort struct {
	Type       ir.DType
	Descending bool
	// Alone: nobody reads the positions, and there is no buffer for them.
	Alone bool
	// Room adds a scratch buffer with SortWords(Type) U32 for each element of the operand. Devices use it for rows
	// longer than SortBlock.
	Room bool
}

// SortBlock is the longest row that is sorted without a scratch buffer.
const SortBlock = 1024

// SortWords is the scratch words of an element: key and position, twice.
func SortWords(t ir.DType) int64 {
	if t.Size() == 8 {
		return 8
	}
	return 4
}

// SortLayout numbers the launch parameters and buffers of a Sort; Indices and Room are -1 where there are none.
type SortLayout struct {
	Outer, N, Inner, Keep         int
	StrideOuter, Step, StrideLast int // of the operand's dims, in order
	Offset                        int
	X, Values, Indices, Room      int
	Params                        []loopir.Param
	Bufs                          []loopir.Buf
}

// Layout returns the numbers of s's parameters and buffers.
func (s *Sort) Layout() SortLayout {
	l := SortLayout{Indices: -1, Room: -1}
	for _, p := range []*int{&l.Outer, &l.N, &l.Inner, &l.Keep, &l.StrideOuter, &l.Step, &l.StrideLast, &l.Offset} {
		*p = len(l.Params)
		kind := loopir.Size
		switch {
		case p == &l.Offset:
			kind = loopir.Offset
		case len(l.Params) >= 4:
			kind = loopir.Stride
		}
		l.Params = append(l.Params, loopir.Param{Kind: kind, Type: ir.I64})
	}
	l.X, l.Values = 0, 1
	l.Bufs = []loopir.Buf{{Type: s.Type, Access: loopir.Read}, {Type: s.Type, Access: loopir.Write}}
	if !s.Alone {
		l.Indices = len(l.Bufs)
		l.Bufs = append(l.Bufs, loopir.Buf{Type: ir.I64, Access: loopir.Write})
	}
	if s.Room {
		l.Room = len(l.Bufs)
		l.Bufs = append(l.Bufs, loopir.Buf{Type: ir.U32, Access: loopir.ReadWrite})
	}
	return l
}

// InterpretSort computes s over canonical host bytes.
func InterpretSort(s *Sort, params []uint64, bufs [][]byte) error {
	l := s.Layout()
	if len(params) != len(l.Params) || len(bufs) != len(l.Bufs) {
		return fmt.Errorf("sort: %d parameters and %d buffers, want %d and %d", len(params), len(bufs), len(l.Params),
			len(l.Bufs))
	}
	p := func(i int) int64 { return int64(params[i]) }
	n, inner, keep := p(l.N), p(l.Inner), p(l.Keep)
	places, bits := make([]int64, n), make([]uint64, n)
	for r := range p(l.Outer) * inner {
		o, i := r/inner, r%inner
		for j := range n {
			at := p(l.Offset) + o*p(l.StrideOuter) + j*p(l.Step) + i*p(l.StrideLast)
			if err := loopir.Inside(s.Type, bufs[l.X], at); err != nil {
				return fmt.Errorf("sort: operand: %w", err)
			}
			places[j], bits[j] = j, loopir.LoadBits(s.Type, bufs[l.X], at)
		}
		slices.SortStableFunc(places, func(a, b int64) int {
			if s.Descending {
				a, b = b, a
			}
			return orderOf(s.Type.ComputeType(), bits[a], bits[b])
		})
		for j := range keep {
			at := (o*keep+j)*inner + i
			if err := loopir.Inside(s.Type, bufs[l.Values], at); err != nil {
				return fmt.Errorf("sort: result: %w", err)
			}
			loopir.StoreBits(s.Type, bufs[l.Values], at, bits[places[j]])
			if s.Alone {
				continue
			}
			if err := loopir.Inside(ir.I64, bufs[l.Indices], at); err != nil {
				return fmt.Errorf("sort: positions: %w", err)
			}
			loopir.StoreBits(ir.I64, bufs[l.Indices], at, uint64(places[j]))
		}
	}
	return nil
}

// orderOf compares slots of a compute type; NaN is above all numbers.
func orderOf(t ir.DType, x, y uint64) int {
	if t.IsFloat() {
		a, b := ir.DecodeFloat(t, x), ir.DecodeFloat(t, y)
		switch an, bn := math.IsNaN(a), math.IsNaN(b); {
		case an && bn:
			return 0
		case an:
			return 1
		case bn:
			return -1
		}
		return cmp.Compare(a, b)
	}
	switch {
	case loopir.Compare(loopir.OpLt, t, x, y):
		return -1
	case loopir.Compare(loopir.OpLt, t, y, x):
		return 1
	}
	return 0
}
