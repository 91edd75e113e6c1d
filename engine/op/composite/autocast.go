package composite

import (
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// autocastNames are the operators whose operands autocast casts, on the CPU and on GPUs: the operators of PyTorch's
// "Autocast Op Reference" that are one operator here. GPUs use the list of CUDA.
var autocastNames = [2]map[op.CastPolicy]string{
	{
		op.CastLower: "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bmm mm linalg_vecdot " +
			"baddbmm addmm addbmm linear matmul prelu linalg_multi_dot scaled_dot_product_attention",
		op.CastFull: "avg_pool3d adaptive_avg_pool3d max_pool3d adaptive_max_pool3d _max_unpool " +
			"binary_cross_entropy binary_cross_entropy_with_logits " +
			"grid_sample prod quantile nanquantile cdist trace cholesky_inverse cholesky_solve inverse " +
			"lu_solve pinverse mse_loss nll_loss smooth_l1_loss cross_entropy l1_loss huber_loss kl_div " +
			"linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky linalg_cholesky_ex " +
			"linalg_svdvals linalg_eigvalsh linalg_eigh linalg_inv linalg_inv_ex " +
			"linalg_householder_product linalg_tensorinv linalg_tensorsolve linalg_qr linalg_svd " +
			"linalg_lstsq geqrf ormqr svd triangular_solve",
		op.CastWidest: "stack cat index_copy",
	},
	{
		op.CastLower: "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bmm mm mv baddbmm " +
			"addmm addmv addr addbmm linear matmul prelu linalg_vecdot linalg_multi_dot _cell _recurrence " +
			"scaled_dot_product_attention",
		op.CastFull: "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus " +
			"layer_norm group_norm norm cosine_similarity nll_loss kl_div l1_loss smooth_l1_loss " +
			"huber_loss mse_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp " +
			"cross_entropy prod softmax log_softmax cumprod cumsum sum linalg_vector_norm " +
			"linalg_matrix_norm linalg_norm square rms_norm trapezoid cumulative_trapezoid sum_to_size pairwise_distance",
		op.CastWidest: "addcdiv addcmul atan2 cross dot vdot grid_sample scatter_add",
	},
}

// setAutocast sets op.Def.Autocast, for all overloads of a name alike.
func setAutocast() {
	for device, lists := range autocastNames {
		for policy, names := range lists {
			for _, d := range defsNamed(names) {
				d.Autocast[device] = policy
			}
		}
	}
}

// lowered casts x, which an operator multiplies as a matrix, to the dtype that autocast gives operands of matmul.
func lowered(a *op.Args, x op.Val) op.Val {
	to := a.Lower[min(int(x.Device()), 1)]
	if to == ir.InvalidDType || !x.DType().IsFloat() || x.DType() == ir.F64 {
		return x
	}
	return prim.Cast(a.B, x, to)
}

// newViews are PyTorch's view functions.
const newViews = "reshape view view_as reshape_as expand expand_as broadcast_to transpose swapaxes swapdims t _T _mT " +
	"permute movedim squeeze unsqueeze select narrow _index detach _data as_strided unflatten split split_with_sizes " +
	"chunk tensor_split unbind diagonal unfold hsplit vsplit dsplit broadcast_tensors meshgrid sum_to_size _index_tensor"

// setNewViews sets op.Def.NewView, for all overloads of a name alike.
func setNewViews() {
	for _, d := range defsNamed(newViews) {
		d.NewView = true
	}
}

// defsNamed lists all overloads of the names in a list separated by spaces. It panics at a name without an entry.
func defsNamed(names string) (found []*op.Def) {
	overloads := map[string][]*op.Def{}
	for _, d := range op.Defs() {
		overloads[d.Parsed.Name] = append(overloads[d.Parsed.Name], d)
	}
	for _, n := range strings.Fields(names) {
		if overloads[n] == nil {
			panic("BUG: no operator " + n)
		}
		found = append(found, overloads[n]...)
	}
	return found
}
