package launch_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// small is attention with two query heads to one key head, three queries, four keys and rows of two columns.
type small struct {
	attention  launch.Attention
	q, k, v, g []float64
	mask       []float64
}

func (s *small) run(t *testing.T, pass launch.AttentionPass, stats []float64) [][]float64 {
	a := s.attention
	a.Pass = pass
	l := a.Layout()
	params := make([]uint64, len(l.Params))
	copy(params, []uint64{1, 2, 1, 3, 4, 2, 2})
	params[l.Scale] = ir.EncodeFloat(ir.F64, 0.8)
	if a.Dropout {
		params[l.Seed], params[l.DrawOffset], params[l.Rate] = 7, 3, ir.EncodeFloat(ir.F64, 0.3)
	}
	bufs := make([][]byte, len(l.Bufs))
	operand := func(o launch.AttentionOperand, t ir.DType, v []float64, strides ...uint64) {
		if o.Buf >= 0 {
			copy(params[o.Param:], strides)
			bufs[o.Buf] = of(t, v...)
		}
	}
	operand(l.Q, ir.F64, s.q, 0, 6, 2, 1)
	operand(l.K, ir.F64, s.k, 0, 8, 2, 1)
	operand(l.V, ir.F64, s.v, 0, 8, 2, 1)
	operand(l.G, ir.F64, s.g, 0, 2, 4, 1) // as out lies: [query, head, column]
	operand(l.Mask, ir.F64, s.mask, 0, 0, 4, 1)
	if l.Stats >= 0 {
		bufs[l.Stats] = of(ir.F64, stats...)
	}
	for _, b := range l.Out {
		bufs[b] = of(ir.F64, make([]float64, 24)...)
	}
	_, err := a.Interpret(params, bufs)
	require.NoError(t, err)
	var out [][]float64
	for _, b := range l.Out {
		out = append(out, values(ir.F64, bufs[b]))
	}
	return out
}

// loss is the sum of g*out, and stats what the gradients read of each row: lse, and delta of that row.
func (s *small) loss(t *testing.T) (loss float64, stats []float64) {
	r := s.run(t, launch.AttentionForward, nil)
	stats = make([]float64, 12)
	for i := range 12 {
		row, head := i/4, i/2%2
		d := s.g[i] * r[0][i]
		loss += d
		stats[2*(3*head+row)+1] += d
	}
	for i := range 6 {
		stats[2*i] = r[1][i]
	}
	return loss, stats
}

// The gradient passes are the derivative of the forward pass, in each form that a launch can have.
func TestGradientPassesAreTheDerivativeOfTheForwardPass(t *testing.T) {
	for _, a := range []launch.Attention{
		{}, {Causal: true}, {Mask: ir.F64}, {Dropout: true}, {Causal: true, Mask: ir.F64, Dropout: true},
	} {
		a.Type = ir.F64
		t.Run(fmt.Sprintf("%+v", a), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			random := func(n int) []float64 {
				v := make([]float64, n)
				for i := range v {
					v[i] = r.NormFloat64()
				}
				return v
			}
			s := &small{attention: a, q: random(12), k: random(8), v: random(8), g: random(12), mask: random(12)}
			_, stats := s.loss(t)
			numeric := func(x []float64) []float64 {
				d := make([]float64, len(x))
				for i, at := range x {
					const h = 1e-5
					x[i] = at + h
					up, _ := s.loss(t)
					x[i] = at - h
					down, _ := s.loss(t)
					x[i], d[i] = at, (up-down)/(2*h)
				}
				return d
			}
			closeTo := func(want, got []float64) { require.InDeltaSlice(t, want, got[:len(want)], 1e-7) }
			dq := numeric(s.q)
			// dq is dense by [query, head, column], and q here by [head, query, column].
			var wantQ []float64
			for i := range 12 {
				wantQ = append(wantQ, dq[i/2%2*6+i/4*2+i%2])
			}
			closeTo(wantQ, s.run(t, launch.AttentionGradQ, stats)[0])
			kv := s.run(t, launch.AttentionGradKV, stats)
			closeTo(numeric(s.k), kv[0])
			closeTo(numeric(s.v), kv[1])
			joint := s.run(t, launch.AttentionGradQKV, stats)
			require.Equal(t, append(kv, s.run(t, launch.AttentionGradQ, stats)[0]), joint, "the joint pass is both passes")
			if a.Mask != ir.InvalidDType {
				s.attention.Sum = [4]bool{true, true, false, false}
				closeTo(numeric(s.mask), s.run(t, launch.AttentionGradMask, stats)[0])
			}
		})
	}
}

// Weights that dropout keeps grow by 1/(1-rate), and a row that may see no key has out 0 and lse +inf.
func TestForwardPassOfAttention(t *testing.T) {
	inf := math.Inf(-1)
	s := &small{attention: launch.Attention{Type: ir.F64, Mask: ir.F64}, q: make([]float64, 12), k: make([]float64, 8),
		v: []float64{1, 10, 2, 20, 3, 30, 6, 60}, mask: []float64{0, 0, 0, 0, 0, inf, 0, inf, inf, inf, inf, inf}}
	r := s.run(t, launch.AttentionForward, nil)
	require.InDeltaSlice(t, []float64{3, 30, 3, 30, 2, 20, 2, 20, 0, 0, 0, 0}, r[0][:12], 1e-12)
	require.InDelta(t, math.Log(4), r[1][0], 1e-12)
	require.InDelta(t, math.Log(2), r[1][1], 1e-12)
	require.Equal(t, math.Inf(1), r[1][2])
	s.attention = launch.Attention{Type: ir.F64, Causal: true}
	r = s.run(t, launch.AttentionForward, nil)
	require.InDeltaSlice(t, []float64{1, 10, 1, 10, 1.5, 15, 1.5, 15, 2, 20, 2, 20}, r[0][:12], 1e-12)
	s.attention = launch.Attention{Type: ir.F64, Dropout: true}
	s.v = []float64{1, 1, 1, 1, 1, 1, 1, 1}
	for _, v := range s.run(t, launch.AttentionForward, nil)[0][:12] {
		kept := v * 4 * 0.7
		require.InDelta(t, math.Round(kept), kept, 1e-6, "a whole number of weights is kept")
	}
}

// New rows are stored, at a place that is clamped, before the keys are read.
func TestForwardPassStoresNewRows(t *testing.T) {
	for place, row := range map[int64]int{-3: 0, 0: 0, 2: 2, 3: 3, 9: 3} {
		a := launch.Attention{Type: ir.F64, Append: true}
		l := a.Layout()
		params := make([]uint64, len(l.Params))
		copy(params, []uint64{1, 2, 1, 1, 4, 2, 2})
		params[l.Scale], params[l.PlaceOffset] = ir.EncodeFloat(ir.F64, 0.8), 1
		bufs := make([][]byte, len(l.Bufs))
		for o, v := range map[launch.AttentionOperand][]float64{l.Q: {1, 2, 3, 4}, l.K: {0, 1, 1, 0, 2, 1, 1, 1},
			l.V: {1, 2, 3, 4, 5, 6, 7, 8}, l.NewK: {2, 3}, l.NewV: {-1, 9}} {
			copy(params[o.Param:], []uint64{0, 2, 2, 1})
			bufs[o.Buf] = of(ir.F64, v...)
		}
		bufs[l.Place] = make([]byte, 16)
		loopir.StoreBits(ir.I64, bufs[l.Place], 1, uint64(place))
		bufs[l.Out[0]], bufs[l.Out[1]] = make([]byte, 32), make([]byte, 16)
		plain := a
		plain.Append = false
		before, p := plain.Layout(), make([]uint64, len(plain.Layout().Params))
		copy(p, params)
		expected := [][]byte{bufs[l.Q.Buf], slices.Clone(bufs[l.K.Buf]), slices.Clone(bufs[l.V.Buf]), make([]byte, 32),
			make([]byte, 16)}
		copy(expected[before.K.Buf][16*row:], bufs[l.NewK.Buf])
		copy(expected[before.V.Buf][16*row:], bufs[l.NewV.Buf])
		_, err := plain.Interpret(p, expected)
		require.NoError(t, err)
		_, err = a.Interpret(params, bufs)
		require.NoError(t, err)
		require.Equal(t, expected, [][]byte{bufs[l.Q.Buf], bufs[l.K.Buf], bufs[l.V.Buf], bufs[l.Out[0]], bufs[l.Out[1]]})
		params[l.PlaceOffset] = 2
		_, err = a.Interpret(params, bufs)
		require.ErrorContains(t, err, "buffer")
	}
	for _, a := range []launch.Attention{{Append: true, Dropout: true}, {Append: true, Pass: launch.AttentionGradQ}} {
		_, err := a.Interpret(nil, nil)
		require.ErrorContains(t, err, "without dropout")
	}
}
