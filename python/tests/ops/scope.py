"""Which operators of PyTorch's operator database are compared, by tier: common, usual and rare ones."""

from __future__ import annotations

from typing import Any

TIER_1 = frozenset(
    """
T __getitem__ __radd__ __rdiv__ __rmatmul__ __rmul__ __rpow__ __rsub__ abs add addcdiv addcmul addmm all allclose amax
amin any arange argmax argmin argsort baddbmm bernoulli bitwise_and bitwise_not bitwise_or bitwise_xor bmm bool
broadcast_tensors broadcast_to bucketize cat cdist ceil chunk clamp clamp_max clamp_min clone contiguous cos cumprod
cumsum diag diagonal div dot double einsum empty empty_like eq equal erf exp expand expand_as expm1 exponential eye fill
flatten flip float floor floor_divide full full_like gather ge gt half hstack index_add index_copy index_put
index_select int isfinite isinf isnan item le lerp linalg.norm linalg.vector_norm linspace log log10 log1p log2
log_softmax logical_and logical_not logical_or logsumexp long lt mT masked_fill masked_scatter masked_select matmul max
maximum mean meshgrid min minimum mm movedim mul multinomial mv nan_to_num narrow ne neg new_empty new_full new_ones
new_zeros nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.avg_pool1d
nn.functional.avg_pool2d nn.functional.batch_norm nn.functional.binary_cross_entropy
nn.functional.binary_cross_entropy_with_logits nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.cosine_similarity nn.functional.cross_entropy nn.functional.dropout
nn.functional.elu nn.functional.embedding nn.functional.gelu nn.functional.glu nn.functional.group_norm
nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.huber_loss
nn.functional.instance_norm nn.functional.interpolate nn.functional.kl_div nn.functional.l1_loss
nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.mish nn.functional.mse_loss nn.functional.nll_loss nn.functional.normalize
nn.functional.one_hot nn.functional.pad nn.functional.pixel_shuffle nn.functional.relu nn.functional.relu6
nn.functional.rms_norm nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.smooth_l1_loss
nn.functional.softplus nn.functional.unfold nonzero norm normal ones ones_like outer permute pow prod quantile rand_like
randint randn randn_like reciprocal remainder repeat repeat_interleave reshape reshape_as roll round rsqrt scatter
scatter_add scatter_reduce searchsorted select sigmoid sign sin softmax sort split split_with_sizes sqrt square squeeze
stack std sub sum t take_along_dim tan tanh tile to topk transpose tril triu true_divide unbind unflatten unfold uniform
unique unsqueeze var var_mean view view_as vstack where zero_ zeros zeros_like
""".split()
)

TIER_2 = frozenset(
    """
H __rand__ __rmod__ __ror__ __rxor__ acos acosh addbmm addmv addr aminmax angle argwhere as_strided as_strided_scatter
asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d bincount bitwise_left_shift bitwise_right_shift
block_diag broadcast_shapes cartesian_prod cauchy cholesky_inverse cholesky_solve column_stack combinations conj
conj_physical copysign corrcoef cosh count_nonzero cov cross cummax cummin cumulative_trapezoid deg2rad diag_embed
diagflat diagonal_scatter diff digamma dist dsplit dstack empty_permuted empty_strided erfc erfinv exp2 fft.fftshift
fft.ifftshift fliplr flipud float_power fmax fmin fmod frac frexp gcd geometric gradient heaviside histc histogram
hsplit hypot i0 igamma igammac index_fill index_reduce inner isclose isin isneginf isposinf isreal kron kthvalue lcm
ldexp lgamma linalg.cholesky linalg.cholesky_ex linalg.cond linalg.cross linalg.det linalg.diagonal linalg.eigh
linalg.eigvalsh linalg.inv linalg.inv_ex linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq
linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_norm linalg.matrix_power
linalg.matrix_rank linalg.multi_dot linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_ex
linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve linalg.vander linalg.vecdot
log_normal logaddexp logaddexp2 logcumsumexp logdet logical_xor logit logspace lu lu_solve lu_unpack mH matrix_exp
median mode msort mvlgamma nanmean nanmedian nanquantile nansum new_empty_strided nextafter
nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d
nn.functional.adaptive_max_pool3d nn.functional.alpha_dropout nn.functional.avg_pool3d nn.functional.bilinear
nn.functional.celu nn.functional.channel_shuffle nn.functional.conv3d nn.functional.conv_transpose3d
nn.functional.cosine_embedding_loss nn.functional.ctc_loss nn.functional.dropout2d nn.functional.dropout3d
nn.functional.embedding_bag nn.functional.feature_alpha_dropout nn.functional.gaussian_nll_loss
nn.functional.grid_sample nn.functional.hardshrink nn.functional.hinge_embedding_loss
nn.functional.local_response_norm nn.functional.margin_ranking_loss nn.functional.max_pool3d
nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d
nn.functional.multi_head_attention_forward nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
nn.functional.multilabel_soft_margin_loss nn.functional.pairwise_distance nn.functional.pdist
nn.functional.pixel_unshuffle nn.functional.poisson_nll_loss nn.functional.prelu nn.functional.rrelu
nn.functional.selu nn.functional.soft_margin_loss nn.functional.softmin nn.functional.softshrink
nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold nn.functional.triplet_margin_loss
nn.functional.triplet_margin_with_distance_loss nn.functional.upsample_bilinear nn.functional.upsample_nearest
pinverse polygamma positive put rad2deg randint_like ravel real renorm resize_ resize_as_ rot90 rsub scalar_tensor
select_scatter sgn signal.windows.bartlett signal.windows.blackman signal.windows.cosine signal.windows.gaussian
signal.windows.hamming signal.windows.hann signal.windows.kaiser signbit sinc sinh slice_scatter special.entr
special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr special.ndtri special.polygamma
special.xlog1py special.zeta std_mean sum_to_size svd take tensor_split tensordot trace trapezoid trapz
triangular_solve tril_indices triu_indices trunc unique_consecutive unravel_index vdot vsplit xlogy
fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.ihfft2 fft.ihfftn
fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn istft stft
""".split()
)

#: Rare operators: compared on the CPU; those with their own implementation also on a GPU.
TIER_3 = frozenset(
    """
_batch_norm_with_update _chunk_cat _native_batch_norm_legit _segment_reduce _softmax_backward_data
_unsafe_masked_index _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa alias_copy as_strided_copy bfloat16
byte cdouble cfloat char constant_pad_nd diagonal_copy expand_copy geqrf grid_sampler_2d grid_sampler_3d
histogramdd linalg.householder_product linalg.matrix_sqrth linalg.polar masked.amax masked.amin masked.argmax
masked.argmin masked.cumprod masked.cumsum masked.log_softmax masked.logaddexp masked.logsumexp masked.mean
masked.median masked.norm masked.normalize masked.prod masked.softmax masked.softmin masked.std masked.sum masked.var
narrow_copy native_batch_norm native_dropout_backward native_group_norm native_layer_norm
nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.linear_cross_entropy
nonzero_static ormqr permute_copy resolve_conj resolve_neg short signal.windows.exponential
signal.windows.general_cosine signal.windows.general_hamming signal.windows.nuttall slice special.airy_ai
special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t
special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w
special.hermite_polynomial_h special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1
special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.shifted_chebyshev_polynomial_t
special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w
special.spherical_bessel_j0 split_with_sizes_copy squeeze_copy t_copy torch.ops.aten._safe_softmax.default
transpose_copy unbind_copy unfold_copy unsafe_chunk unsafe_split unsqueeze_copy view_copy
""".split()
)

#: Excluded entries, with the reasons: together with the tiers they are the whole database.
ABSENT = {
    **dict.fromkeys(
        """
        complex imag polar view_as_complex view_as_real linalg.eig linalg.eigvals
        """.split(),
        "test_complex.py has them",
    ),
    "hash_tensor": "of the CPU alone: test_uint64.py has it",
    "chalf": "there are no complex numbers of half precision",
    **dict.fromkeys("sparse.mm sparse.sampled_addmm to_sparse".split(), "there are no sparse layouts"),
    **dict.fromkeys(
        """
        jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary jiterator_binary_return_by_ref
        jiterator_unary torch._scaled_mm torch._scaled_mm_v2 torch.ops.aten._efficient_attention_forward
        torch.ops.aten._flash_attention_forward
        """.split(),
        "of CUDA",
    ),
    **dict.fromkeys(
        """
        max_pool2d_with_indices_backward torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        """.split(),
        "PyTorch's compiler calls it, no program does",
    ),
    **dict.fromkeys("pca_lowrank svd_lowrank".split(), "they draw: test_low_rank.py has them"),
}

#: Entries that draw, or whose values are undefined: shapes and dtypes are compared.
DRAWS = frozenset(
    """
bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial new_empty
new_empty_strided nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
nn.functional.feature_alpha_dropout nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
nn.functional.rrelu normal rand_like randint randint_like randn randn_like uniform
""".split()
)


def draws(name: str, sample: Any) -> bool:
    """Return whether a sample draws: one of :data:`DRAWS`, or attention with dropout."""
    if name == "nn.functional.scaled_dot_product_attention":
        return float(sample.kwargs.get("dropout_p", 0)) > 0
    if name == "nn.functional.multi_head_attention_forward":
        return float(sample.args[9]) > 0 and bool(sample.kwargs.get("training", True))
    return name in DRAWS
