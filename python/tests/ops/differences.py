"""Samples of the operator database whose results are not PyTorch's, each with its reason. Nothing else may differ.

A key is an entry's label. A sample is excused if its description, such as ``forward inplace float16 #3``, contains the
words. On the CPU an exception that no sample needs fails the test.
"""

from __future__ import annotations

_TIES = "which of several equal elements comes first is not specified: ours is stable"
_UNSIGNED = "PyTorch subtracts in uint8, where differences below 0 wrap"
_PICTURES = "PyTorch's weights of uint8 are integers of a few bits: results are 1 or 2 apart"
_NONE = "the gradient is 0: ours is there, PyTorch's is None"
_INEXACT = "PyTorch's float64 is 4e-7 off; ours is within 4e-13 of SciPy's"

EXCEPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "argsort": (("float16", "uint8", "bool"), _TIES),
    "sort": (("float16", "uint8", "bool"), _TIES),
    "topk": (("int64", "uint8"), _TIES),
    "kthvalue": (("int64", "uint8"), _TIES),
    "mode": (("float16", "int64", "uint8", "bool"), _TIES),
    "as_strided_scatter": (
        ("gradient",),
        "PyTorch gives self the gradient of what was overwritten and none of the rest; ours is the other way about, as "
        "for slice_scatter",
    ),
    "matrix_exp": (
        ("float16",),
        "PyTorch's half precision result is NaN or far off; ours is within rounding of float64's",
    ),
    "_upsample_bilinear2d_aa": (("uint8",), _PICTURES),
    "nn.functional.interpolate.bicubic": (("uint8",), _PICTURES),
    "nn.functional.interpolate.bilinear": (("uint8",), _PICTURES),
    "nn.functional.upsample_bilinear": (("uint8",), _PICTURES),
    "nn.functional.margin_ranking_loss": (("uint8",), _UNSIGNED),
    "nn.functional.pairwise_distance": (("uint8",), _UNSIGNED),
    "nn.functional.triplet_margin_loss": (("uint8",), _UNSIGNED),
    "nn.functional.triplet_margin_with_distance_loss": (("uint8",), _UNSIGNED),
    "ormqr": (("gradient",), _NONE),
    "special.bessel_j0": (("forward function float64",), _INEXACT),
    "special.bessel_y1": (("forward function float64",), _INEXACT),
}

#: Further exceptions, of samples that report.py takes and the tests do not.
SELDOM: dict[str, tuple[tuple[str, ...], str]] = {
    "linalg.det": (("gradient",), "PyTorch 2.11 gives None, 2.15 and ours a gradient"),
    "linalg.householder_product": (("gradient",), _NONE),
    "masked.norm": (("gradient",), _NONE),
    "pow": (("complex64",), "PyTorch's 0 ** 1j is NaN, ours 0"),
    "renorm": (("gradient complex64",), "PyTorch's gradient is NaN"),
    "native_group_norm": (
        ("gradient",),
        "of PyTorch the statistics require a gradient where only the weight and the bias do",
    ),
}


def excuse(label: str, what: str, *, seldom: bool = False) -> str | None:
    """Return why a sample may differ, None where it may not; with ``seldom`` also for those that no test takes."""
    for table in (EXCEPTIONS, SELDOM) if seldom else (EXCEPTIONS,):
        words, reason = table.get(label, ((), ""))
        if any(w in what for w in words):
            return reason
    return None
