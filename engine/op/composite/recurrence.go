package composite

import (
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerRecurrenceOps() {
	mode := "str(" + strings.Join(op.RecurrenceNames, "|") + ") mode"
	op.Register(op.Def{
		Sig: "_cell(Tensor input, Tensor hidden, Tensor? state, " + mode + ") -> Tensor[]", Where: op.Hidden, Eval: evalCell,
		Doc: "The elementwise part of a recurrent step: the input's and the state's parts of the gates [..., gates * " +
			"hidden] and the state [..., hidden] that enters, the cell's of an LSTM and the hidden one of a GRU, give " +
			"the new hidden state and an LSTM's new cell.",
		Samples: samples("T(2,12), T(2,12), T(2,3), 'lstm'", "T(9), T(9), T(3), 'gru'",
			"T(2,3), T(2,3), None, 'rnn_tanh'", "T(2,3), T(2,3), None, 'rnn_relu'"),
		ErrorSamples: samples("T(2,12), T(3,12), T(2,3), 'lstm'", "T(2,10), T(2,10), T(2,3), 'gru'"),
	})
	op.Register(op.Def{
		Sig: "_recurrence(Tensor input, Tensor weight, Tensor hx, Tensor? cx, Tensor? bias, " + mode +
			", bool backwards) -> Tensor[]",
		Where: op.Hidden, Eval: evalRecurrence,
		Doc: "One direction of a recurrent layer over the input's part of the gates [steps, batch, gates * hidden]: the " +
			"hidden states of all steps " +
			"[steps, batch, hidden], and an LSTM's last cell [batch, hidden].",
		Samples: samples("T(3,2,12), T(12,3), T(2,3), T(2,3), T(12), 'lstm', False",
			"T(3,2,9), T(9,3), T(2,3), None, None, 'gru', True", "T(2,2,3), T(3,3), T(2,3), None, T(3), 'rnn_tanh', False",
			"T(2,2,3), T(3,3), T(2,3), None, None, 'rnn_relu', True"),
		ErrorSamples: samples("T(3,2,12), T(12,4), T(2,3), T(2,3), None, 'lstm', False",
			"T(3,2,8), T(9,3), T(2,3), None, None, 'gru', True"),
	})
}

// evalCell promotes dtypes: under autocast the gates are narrower than the state.
func evalCell(a *op.Args) []op.Val {
	x, p, state, b := a.Val(), a.Val(), a.Val(), a.B
	r := op.Recurrence(a.Int())
	needFloat("cell", x)
	d := ir.Promote(x.DType(), p.DType())
	if state.IsTensor() {
		d = ir.Promote(d, state.DType())
	}
	shape := x.Shape()
	flat := func(v op.Val) op.Val {
		if !v.IsTensor() {
			return v
		}
		s := v.Shape()
		return cast(b, prim.Reshape(b, v, []int64{ir.Numel(s[:len(s)-1]), s[len(s)-1]}), d)
	}
	h, c := prim.Cell(b, r, flat(x), flat(p), flat(state))
	out := append(append([]int64{}, shape[:len(shape)-1]...), h.Shape()[1])
	h = prim.Reshape(b, h, out)
	if r != op.LSTM {
		return a.Ret(h)
	}
	return a.Ret(h, prim.Reshape(b, c, out))
}

func evalRecurrence(a *op.Args) []op.Val {
	x, w, h, c, bias := a.Val(), a.Val(), a.Val(), a.Val(), a.Val()
	r, backwards := op.Recurrence(a.Int()), a.Bool()
	states, last := prim.Recur(a.B, r, backwards, x, w, h, c, bias)
	if r != op.LSTM {
		return a.Ret(states)
	}
	return a.Ret(states, last)
}
