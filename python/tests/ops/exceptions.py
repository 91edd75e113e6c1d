"""Where parity with PyTorch is not asserted, each with its reason. Nothing else may skip a comparison.

Keys are full operator names ("max.dim") or ("name", what).
"""

from __future__ import annotations

_DRAWS = "a draw: our Philox counts (seed, offset, element), PyTorch's otherwise; shape and dtype are compared"
_UNDEFINED = "its values are undefined"
_SIGNS = "the signs of vectors are free; values up to signs and gradients are compared by the operator database's tests"

#: Operators whose values cannot agree: only shape and dtype are compared, and there is no gradient.
VALUES: dict[str, str] = {
    "rand": _DRAWS,
    "randn": _DRAWS,
    "randint": _DRAWS,
    "randperm": _DRAWS,
    "rand_like": _DRAWS,
    "randn_like": _DRAWS,
    "randint_like": _DRAWS,
    "bernoulli": _DRAWS,
    "multinomial": _DRAWS,
    "normal": _DRAWS,
    "normal_": _DRAWS,
    "uniform_": _DRAWS,
    "random_": _DRAWS,
    "bernoulli_": _DRAWS,
    "exponential_": _DRAWS,
    "cauchy_": _DRAWS,
    "geometric_": _DRAWS,
    "log_normal_": _DRAWS,
    "empty": _UNDEFINED,
    "empty_like": _UNDEFINED,
    "empty_strided": _UNDEFINED,
    "new_empty": _UNDEFINED,
    "new_empty_strided": _UNDEFINED,
    "empty_permuted": _UNDEFINED,
}

#: Operators that take or give complex numbers: tests/ops/test_complex.py calls them.
COMPLEX = ("linalg_eig", "linalg_eigvals", "imag", "view_as_real", "view_as_complex", "complex", "polar")

_CONSTANT = "the result does not depend on the operand: PyTorch attaches a gradient of zeros, we attach none"
_TIES = "which of several equal elements is chosen is not specified"
_FACTOR = (
    "the factor of the sample is no triangle: PyTorch's gradient multiplies by what it does not read; triangles agree"
)
_NONE = "the gradient is 0: ours is there, PyTorch's is None"
_LOST_EXP = "PyTorch's polynomial loses small elements in float32 (1e-3 of them) and everything in half types (nan)"
_GARBAGE = "PyTorch gives memory that it has not written, or NaN as an integer"
_TWO_WRONGS = "both raise; several things are wrong with the call and the two libraries name different ones"

#: Cases by operator and words of the case's label, such as "gradient sample0 float32 empty". On the CPU an exception
#: that no case needs fails the test, see :func:`processor.report_stale`. Differences by rounding need no exception, see
#: :func:`oracle.assert_near`.
CASES: dict[tuple[str, str], str] = {
    ("norm", "gradient sample5"): _CONSTANT,
    (
        "std_mean",
        "gradient broadcast",
    ): "the deviation of equal elements is a rounding error, and its gradient one over it",
    ("topk", "forward int64"): _TIES,
    ("topk", "forward int32"): _TIES,
    ("topk", "forward uint8"): _TIES,
    ("topk", "forward broadcast"): _TIES,
    ("topk", "forward sample7 bfloat16"): _TIES,
    ("topk", "forward sample8 bfloat16"): _TIES,
    ("topk", "forward sample8 float16"): _TIES,
    ("kthvalue", "forward int32"): _TIES,
    ("kthvalue", "forward uint8"): _TIES,
    ("pairwise_distance", "forward uint8"): "PyTorch subtracts in uint8, where differences below 0 wrap",
    ("kthvalue", "forward broadcast"): _TIES,
    ("median.dim", "forward broadcast"): _GARBAGE,
    ("nanmedian.dim", "forward broadcast"): _GARBAGE,
    ("median", "forward empty"): _GARBAGE,
    ("nanmedian", "forward empty"): _GARBAGE,
    ("median", "forward sample4"): _GARBAGE,
    ("nanmedian", "forward sample4"): _GARBAGE,
    ("isin", "forward transposed"): "PyTorch flattens by view() and refuses strided input; we reshape",
    ("isin", "forward broadcast"): "PyTorch flattens by view() and refuses strided input; we reshape",
    ("affine_grid_generator", "forward scalar"): _TWO_WRONGS,
    ("affine_grid_generator", "forward int64"): "PyTorch computes places in integers, which no grid is made of",
    ("affine_grid_generator", "forward int32"): "PyTorch computes places in integers, which no grid is made of",
    ("affine_grid_generator", "forward uint8"): "PyTorch computes places in integers, which no grid is made of",
    ("embedding_renorm_", "forward broadcast"): "PyTorch writes to an expanded weight, whose rows are one",
    ("scaled_dot_product_attention", "forward empty"): "PyTorch does not look at the mask when the batch is empty",
    ("scaled_dot_product_attention", "gradient empty"): "PyTorch does not look at the mask when the batch is empty",
    (
        "zero_",
        "forward broadcast",
    ): "writing through an expanded view is refused for every operator; PyTorch lets two of them through",
    (
        "fill_",
        "forward broadcast",
    ): "writing through an expanded view is refused for every operator; PyTorch lets two of them through",
    (
        "take_along_dim",
        "forward transposed",
    ): "without dim PyTorch flattens by view() and refuses strided input; we reshape",
    (
        "take_along_dim",
        "forward broadcast",
    ): "without dim PyTorch flattens by view() and refuses strided input; we reshape",
    ("as_strided_scatter", "gradient"): "PyTorch gives self the gradient of what was overwritten, and none of the rest",
    ("addmv", "forward empty"): _TWO_WRONGS,
    ("bernoulli_", "forward empty"): "PyTorch lets probabilities without elements stand for any shape",
    ("batch_norm", "forward empty"): "PyTorch fails in its own select() of no channels",
    ("special_bessel_y1", "forward float64"): "PyTorch's float64 is 4e-7 off; ours is within 4e-13 of SciPy's",
    ("ormqr", "gradient empty"): _NONE,
    ("linalg_eigh", "forward"): _SIGNS,
    ("linalg_eigh", "gradient"): _SIGNS,
    ("linalg_svd", "forward float64"): _SIGNS,
    ("cholesky_solve", "gradient"): _FACTOR,
    ("cholesky_inverse", "gradient"): _FACTOR,
    ("linalg_norm", "gradient sample5"): _NONE,
    ("linalg_vector_norm", "gradient sample3"): _NONE,
    ("linalg_norm", "gradient sample2 empty"): _CONSTANT,
    ("linalg_matrix_norm", "gradient sample2 empty"): _CONSTANT,
    ("linalg_householder_product", "gradient sample2 empty"): _NONE,
    ("orgqr", "gradient sample2 empty"): _NONE,
    ("kron", "forward transposed"): "PyTorch takes a view of the product that strided operands do not allow, and fails",
    ("linalg_matrix_exp", "forward float16"): _LOST_EXP,
    ("linalg_matrix_exp", "forward bfloat16"): _LOST_EXP,
    ("matrix_exp", "forward float16"): _LOST_EXP,
    ("matrix_exp", "forward bfloat16"): _LOST_EXP,
    (
        "cumprod",
        "forward bool_",
    ): "PyTorch multiplies in bool; we refuse to narrow the product, as both do for other in-place operators",
    (
        "cumsum",
        "forward bool_",
    ): "PyTorch adds in bool; we refuse to narrow the sum, as both do for other in-place operators",
}

#: Operators that factor a matrix. For a matrix of equal rows their results are rounding errors, which differ between
#: processors. The broadcast layout of a matrix is therefore a batch of equal matrices.
FACTORED = frozenset(
    (
        *("linalg_det", "det", "linalg_slogdet", "slogdet", "logdet", "linalg_inv", "inverse", "linalg_inv_ex"),
        *("linalg_tensorinv", "linalg_tensorsolve", "linalg_solve", "linalg_solve_ex", "linalg_lu_solve", "lu_solve"),
        *(
            "linalg_cholesky",
            "linalg_cholesky_ex",
            "cholesky_inverse",
            "cholesky_solve",
            "linalg_lu",
            "linalg_lu_factor",
        ),
        *("linalg_lu_factor_ex", "linalg_qr", "geqrf", "linalg_eigh", "linalg_eigvalsh", "linalg_matrix_sqrth"),
        *("linalg_svd", "linalg_svdvals", "svd", "linalg_polar", "linalg_norm.str_ord", "linalg_matrix_norm"),
        *(
            "linalg_matrix_norm.str_ord",
            "linalg_cond",
            "linalg_cond.p_str",
            "linalg_matrix_rank",
            "linalg_matrix_rank.tol",
        ),
        *("linalg_pinv", "linalg_pinv.rcond", "pinverse", "linalg_lstsq", "linalg_matrix_power", "matrix_power"),
    )
)

#: Operators whose gradient is by definition not the derivative, or is rounded away in float64.
GRADCHECK: dict[str, str] = {
    "float": "rounds to float32, so that central differences are noise",
    "half": "rounds to float16, so that central differences are noise",
    "bfloat16": "rounds to bfloat16, so that central differences are noise",
    "embedding": "the gradient of the row padding_idx is zero by definition",
    **dict.fromkeys(
        (
            *(
                "cholesky_inverse",
                "cholesky_solve",
                "linalg_cholesky",
                "linalg_cholesky_ex",
                "linalg_eigh",
                "linalg_eigvalsh",
            ),
            *("linalg_matrix_sqrth", "linalg_pinv", "linalg_pinv.rcond"),
        ),
        "one triangle of a symmetric matrix is read; the gradient is PyTorch's, of the matrix as a whole",
    ),
}

#: (place, name) pairs that PyTorch does not have.
PLACES: dict[tuple[str, str], str] = {
    ("method", "var_mean"): "beside var and std, which PyTorch has as methods",
    ("method", "std_mean"): "beside var and std, which PyTorch has as methods",
}

#: Operators whose method takes its operands in another order than the function.
METHODS: dict[str, str] = {"where": "torch.where(condition, a, b) is a.where(condition, b)"}


def excuse(op: str, label: str) -> str:
    """Return the words of the exception that covers a case, "" when none does."""
    words = set(label.split())
    return next((text for full, text in CASES if full == op and words.issuperset(text.split())), "")
