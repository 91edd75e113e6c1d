package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerCtcOps() {
	op.Register(op.Def{
		Sig: "_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0) -> " +
			"Tensor", Where: op.Hidden, Eval: evalCTC,
		Doc: "The negative log likelihood of targets [N, S] under log_probs [T, N, C], summed over all alignments with " +
			"blanks (A. Graves et al., 2006): [N]. " +
			"As in PyTorch the gradient is that of logits whose log_softmax is log_probs.",
		Samples: samples("T(6,2,4), torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([6, 5]), torch.tensor([3, 2])",
			"T(3,1,4), torch.tensor([[1, 1, 2]]), torch.tensor([3]), torch.tensor([3])"),
	})
}

// ctcNever is the logarithm of a probability of zero. It is finite, so that the difference of two is a number.
const ctcNever = -1e30

// evalCTC walks the trellis of targets with blanks between them, one step at a time (Graves et al., 2006). alpha is the
// log probability of all paths that end at a state. Inputs that have ended keep their alpha.
func evalCTC(a *op.Args) []op.Val {
	lp, targets, lengths, wanted, blank, b := a.Val(), a.Val(), a.Val(), a.Val(), a.Int(), a.B
	needFloat("ctc_loss", lp)
	steps, n, classes := lp.Shape()[0], lp.Shape()[1], lp.Shape()[2]
	if blank < 0 || blank >= classes {
		fail(ir.ErrRuntime, "blank must be in label range: got %d, want 0 to %d", blank, classes-1)
	}
	states := 2*targets.Shape()[1] + 1
	shape := []int64{n, states}
	ext, skips := ctcStates(b, targets, blank, shape)
	read := prim.Gather(b, lp, expand(b, prim.Unsqueeze(b, ext, 0), []int64{steps, n, states}), 2)
	over := func(v op.Val) op.Val { return expand(b, prim.Unsqueeze(b, v, 1), shape) }
	state := prim.Along(b, prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, lp.Device(), states), shape, 1)
	never := op.FloatVal(ctcNever)
	first := prim.BitwiseAnd(b, prim.Lt(b, state, op.IntVal(2)),
		prim.Le(b, state, over(prim.Mul(b, wanted, op.IntVal(2)))))
	alpha := prim.Where(b, first, prim.Select(b, read, 0, 0), never)
	for t := int64(1); t < steps; t++ {
		from := []op.Val{alpha, ctcShift(b, alpha, 1), prim.Where(b, skips, ctcShift(b, alpha, 2), never)}
		next := prim.Add(b, logSumOf(b, from...), prim.Select(b, read, 0, t))
		alpha = prim.Where(b, prim.Gt(b, over(lengths), op.IntVal(t)), next, alpha)
	}
	at := func(i op.Val) op.Val {
		picked := prim.Gather(b, alpha, prim.Unsqueeze(b, prim.Maximum(b, i, op.IntVal(0)), 1), 1)
		return prim.Where(b, prim.Ge(b, i, op.IntVal(0)), prim.Squeeze(b, picked, []int64{1}), never)
	}
	last := prim.Mul(b, wanted, op.IntVal(2))
	loss := prim.Neg(b, logSumOf(b, at(last), at(prim.Sub(b, last, op.IntVal(1)))))
	impossible := prim.Gt(b, b.Detach(loss), op.FloatVal(-ctcNever/2))
	loss = prim.Where(b, impossible, op.FloatVal(math.Inf(1)), loss)
	// Without a step only an empty target is possible, and certain.
	certain := prim.Eq(b, wanted, op.IntVal(0))
	ended := prim.Where(b, certain, prim.ZerosLike(b, loss), op.FloatVal(math.Inf(1)))
	loss = prim.Where(b, prim.Le(b, lengths, op.IntVal(0)), b.Detach(ended), loss)
	return a.Ret(prim.Add(b, loss, ctcNormalizer(b, lp, lengths)))
}

// ctcStates gives the class of each state, blank at even ones, and whether a path may come from two states before:
// where the label differs from the last one.
func ctcStates(b op.Builder, targets op.Val, blank int64, shape []int64) (ext, skips op.Val) {
	n, s := targets.Shape()[0], targets.Shape()[1]
	blanks := func(k int64) op.Val { return prim.Fill(b, op.IntVal(blank), ir.I64, targets.Device(), []int64{n, k}) }
	if s == 0 {
		return blanks(1), prim.Fill(b, op.BoolVal(false), ir.Bool, targets.Device(), shape)
	}
	labels := cast(b, targets, ir.I64)
	pairs := prim.Cat(b, []op.Val{prim.Unsqueeze(b, blanks(s), 2), prim.Unsqueeze(b, labels, 2)}, 2)
	ext = prim.Cat(b, []op.Val{prim.Reshape(b, pairs, []int64{n, 2 * s}), blanks(1)}, 1)
	before := prim.Slice(b, prim.Cat(b, []op.Val{blanks(2), ext}, 1), 1, 0, 2*s+1, 1)
	return ext, prim.BitwiseAnd(b, prim.Ne(b, ext, op.IntVal(blank)), prim.Ne(b, ext, before))
}

// ctcShift moves states up by k; ctcNever comes in.
func ctcShift(b op.Builder, alpha op.Val, k int64) op.Val {
	n, states := alpha.Shape()[0], alpha.Shape()[1]
	k = min(k, states)
	in := prim.Fill(b, op.FloatVal(ctcNever), alpha.DType(), alpha.Device(), []int64{n, k})
	return prim.Cat(b, []op.Val{in, prim.Slice(b, alpha, 1, 0, states-k, 1)}, 1)
}

// logSumOf is log(sum exp) of finite operands, element by element.
func logSumOf(b op.Builder, xs ...op.Val) op.Val {
	top := b.Detach(xs[0])
	for _, x := range xs[1:] {
		top = prim.Maximum(b, top, b.Detach(x))
	}
	var total op.Val
	for i, x := range xs {
		e := prim.Exp(b, prim.Sub(b, x, top))
		if i == 0 {
			total = e
		} else {
			total = prim.Add(b, total, e)
		}
	}
	return prim.Add(b, prim.Log(b, total), top)
}

// ctcNormalizer is zero. Its gradient, the probabilities of the steps that count, is what log_softmax would add.
func ctcNormalizer(b op.Builder, lp, lengths op.Val) op.Val {
	steps := prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, lp.Device(), lp.Shape()[0])
	counts := prim.Lt(b, prim.Along(b, steps, lp.Shape(), 0), prim.Along(b, lengths, lp.Shape(), 1))
	total := prim.Sum(b, prim.Where(b, counts, prim.Exp(b, lp), op.FloatVal(0)), []int64{0, 2})
	return prim.Sub(b, total, b.Detach(total))
}
