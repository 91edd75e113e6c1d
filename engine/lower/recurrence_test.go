package lower_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// stepRef is one step for one element: its parts of x and p and the state give the new h and c.
func stepRef(r op.Recurrence, x, p []float64, h, c float64) (float64, float64) {
	switch r {
	case op.LSTM:
		c = sigmoid(x[1]+p[1])*c + sigmoid(x[0]+p[0])*math.Tanh(x[2]+p[2])
		return sigmoid(x[3]+p[3]) * math.Tanh(c), c
	case op.GRU:
		z, n := sigmoid(x[1]+p[1]), math.Tanh(x[2]+sigmoid(x[0]+p[0])*p[2])
		return (1-z)*n + z*h, 0
	case op.RNNTanh:
		return math.Tanh(x[0] + p[0]), 0
	}
	return max(x[0]+p[0], 0), 0
}

// layerRef returns the states of all steps and the last c.
func layerRef(r op.Recurrence, backwards bool, steps, batch, hidden int, x, w, h, c, bias []float64) (states,
	last []float64) {
	g := int(r.Gates())
	states = make([]float64, steps*batch*hidden)
	last = append([]float64{}, c...)
	for k := range steps {
		t := k
		if backwards {
			t = steps - 1 - k
		}
		now := make([]float64, len(h))
		for b := range batch {
			for j := range hidden {
				xs, ps := make([]float64, g), make([]float64, g)
				for i := range g {
					row := i*hidden + j
					xs[i], ps[i] = x[(t*batch+b)*g*hidden+row], bias[row]
					for l := range hidden {
						ps[i] += w[row*hidden+l] * h[b*hidden+l]
					}
				}
				at := b*hidden + j
				now[at], last[at] = stepRef(r, xs, ps, h[at], last[at])
			}
		}
		h = now
		copy(states[t*batch*hidden:], h)
	}
	return states, last
}

func TestRecurrence(t *testing.T) {
	for r := op.LSTM; r <= op.RNNRelu; r++ {
		for _, s := range [][3]int64{{1, 1, 1}, {3, 2, 4}, {4, 3, 5}, {2, 1, 7}} {
			for p := range placements {
				steps, batch, hidden := s[0], s[1], s[2]
				e := optest.New()
				place := func(i int, shape ...int64) op.Val {
					return placements[(p+i)%len(placements)].place(e, ir.F32, shape, source(-1, 1, false))
				}
				state := []int64{batch, hidden}
				x, w, bias := place(0, steps, batch, r.Gates()*hidden), place(1, r.Gates()*hidden, hidden),
					place(2, r.Gates()*hidden)
				h, c, in := place(3, state...), place(4, state...), []op.Val{x, w}
				if in = append(in, h); r == op.LSTM {
					in = append(in, c)
				}
				for _, backwards := range []int64{0, 1} {
					states, last := layerRef(r, backwards != 0, int(steps), int(batch), int(hidden), e.Floats(x), e.Floats(w),
						e.Floats(h), e.Floats(c), e.Floats(bias))
					for keep := range int64(2) {
						out := emit(e, op.RecurrenceNames[r], []int64{backwards, 1, keep}, append(in[:len(in):len(in)], bias)...)
						near(t, ir.F32, states, e.Floats(out[0]), r, s, p, backwards, keep)
						if r == op.LSTM {
							near(t, ir.F32, last, e.Floats(out[len(out)-1]), r, s, p, backwards, keep)
						}
						if keep != 0 { // the first state, and then those of all steps
							inner := prim.Slice(e, out[1], 0, 1-backwards, steps+1-backwards, 1)
							require.Equal(t, e.Floats(out[0]), e.Floats(inner))
							require.Equal(t, e.Floats(h), e.Floats(prim.Select(e, out[1], 0, backwards*steps)))
							stridedGradient(t, e, r, backwards, out, w, place)
						}
					}
				}
			}
		}
	}
}

// stridedGradient: the gradient does not depend on the layout of its operands.
func stridedGradient(t *testing.T, e *optest.Eager, r op.Recurrence, backwards int64, out []op.Val, w op.Val,
	place func(i int, shape ...int64) op.Val) {
	t.Helper()
	kept := out[1:2]
	switch r {
	case op.LSTM:
		kept = out[2:4]
	case op.GRU:
		kept = []op.Val{out[2], out[1]}
	}
	in := append([]op.Val{place(1, out[0].Shape()...), w}, kept...)
	has := int64(0)
	if r == op.LSTM {
		in, has = append(in, place(2, out[0].Shape()[1:]...)), 1
	}
	plain := make([]op.Val, len(in))
	for i, v := range in {
		plain[i] = prim.Contiguous(e, v)
	}
	want := emit(e, op.RecurrenceNames[r]+"_grad", []int64{backwards, has, 1}, plain...)
	for i, g := range emit(e, op.RecurrenceNames[r]+"_grad", []int64{backwards, has, 1}, in...) {
		near(t, ir.F32, e.Floats(want[i]), e.Floats(g), r, i)
	}
	// Without the first states' cotangents.
	for i, g := range emit(e, op.RecurrenceNames[r]+"_grad", []int64{backwards, has, 0}, in...) {
		near(t, ir.F32, e.Floats(want[i]), e.Floats(g), r, i)
	}
}

// TestStepsOfARecurrenceShareOneKernel: a step adds only its numbers to a plan.
func TestStepsOfARecurrenceShareOneKernel(t *testing.T) {
	const steps = 9
	for r := op.LSTM; r <= op.RNNRelu; r++ {
		state, gates := []int64{2, 3}, r.Gates()*3
		n := &lower.Node{Prim: op.PrimNamed("recurrence"), Attr: []int64{int64(r), 0, 0, 1}}
		shapes := [][]int64{{steps, 2, gates}, {gates, 3}, state, state}[:3+1-min(int(r), 1)]
		var in []op.Val
		e := optest.New()
		for i, s := range shapes {
			in = append(in, e.Tensor(ir.F32, s, make([]float64, ir.Numel(s))...))
			n.In = append(n.In, lower.Operand{DType: ir.F32, Layout: ir.DenseLayout(s), Buf: i})
		}
		specs, err := n.Prim.Infer(in, n.Attr, nil)
		require.NoError(t, err)
		for i, s := range specs {
			n.Out = append(n.Out, lower.Output{DType: s.DType, Layout: ir.DenseLayout(s.Shape), Buf: len(in) + i})
		}
		n.Bufs = len(in) + len(specs)
		res, err := lower.Lower(n)
		require.NoError(t, err)
		kernels := map[any]int{}
		for _, l := range res.Launches {
			if k, ok := l.Op.(*loopir.Kernel); ok {
				kernels[k]++
			}
		}
		most := 0
		for _, count := range kernels {
			most = max(most, count)
		}
		require.Equal(t, steps, most, op.RecurrenceNames[r])
	}
}
