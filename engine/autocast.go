package engine

import (
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// What autocast does with an operator's float32 and half operands. Float64 is never cast.
type castPolicy uint8

const (
	keepTypes  castPolicy = iota
	castLower             // to the dtype of the context
	castFull              // to float32
	castWidest            // to float32 when one of them is
)

// autocastNames are the operators that autocast casts the operands of, by device: the CPU, GPUs. They are those of
// PyTorch's "Autocast Op Reference" that are one operator here; for GPUs the list of CUDA.
var autocastNames = [2]map[castPolicy]string{
	{
		castLower: "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bmm mm linalg_vecdot baddbmm " +
			"addmm addbmm linear matmul prelu " +
			"scaled_dot_product_attention",
		castFull: "avg_pool3d adaptive_avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits grid_sample prod " +
			"quantile nanquantile cdist trace " +
			"cholesky_inverse cholesky_solve inverse lu_solve pinverse mse_loss nll_loss smooth_l1_loss cross_entropy l1_loss " +
			"huber_loss kl_div " +
			"linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky linalg_cholesky_ex linalg_svdvals linalg_eigvalsh " +
			"linalg_eigh linalg_inv " +
			"linalg_inv_ex linalg_householder_product linalg_tensorinv linalg_tensorsolve linalg_qr linalg_svd linalg_lstsq",
		castWidest: "stack cat index_copy",
	},
	{
		castLower: "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bmm mm mv baddbmm addmm addmv " +
			"addr addbmm linear matmul prelu " +
			"linalg_vecdot linalg_multi_dot scaled_dot_product_attention",
		castFull: "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm " +
			"group_norm norm cosine_similarity " +
			"nll_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss binary_cross_entropy_with_logits dist pdist cdist " +
			"renorm logsumexp cross_entropy " +
			"prod softmax log_softmax cumprod cumsum sum linalg_vector_norm linalg_matrix_norm",
		castWidest: "addcdiv addcmul atan2 cross dot grid_sample scatter_add",
	},
}

// autocastPolicies are autocastNames by device and operator.
var autocastPolicies = func() (table [2]map[string]castPolicy) {
	for i, lists := range autocastNames {
		table[i] = map[string]castPolicy{}
		for policy, names := range lists {
			for _, n := range strings.Fields(names) {
				table[i][n] = policy
			}
		}
	}
	return table
}()

// autocast gives the operands that the rule of d sees: in themselves, or those that the present context casts. Forms
// that write into a tensor keep its dtype, and so are not cast.
func (e *Engine) autocast(c *Call, d *op.Def, in []op.Val) []op.Val {
	if e.session.Autocast == [2]ir.DType{} || c.Mode != ModeFunctional || d.InPlaceOnly {
		return in
	}
	which := func(v op.Val) int { return min(int(v.Device()), 1) }
	var out []op.Val
	full := false
	for i := range in {
		full = full || in[i].IsTensor() && in[i].DType() == ir.F32
	}
	for i, v := range in {
		if !v.IsTensor() || !v.DType().IsFloat() || v.DType() == ir.F64 || e.session.Autocast[which(v)] == ir.InvalidDType {
			continue
		}
		to := v.DType()
		switch autocastPolicies[which(v)][d.Parsed.Name] {
		case castLower:
			to = e.session.Autocast[which(v)]
		case castFull:
			to = ir.F32
		case castWidest:
			if full {
				to = ir.F32
			}
		}
		if to == v.DType() {
			continue
		}
		if out == nil {
			out = append(out, in...)
		}
		out[i] = prim.Cast(e.session, v, to)
	}
	if out == nil {
		return in
	}
	return out
}
