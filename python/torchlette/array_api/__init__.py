"""The Python array API standard, version 2025.12: ``import torchlette.array_api as xp``.

Arrays are :class:`torchlette.Tensor`; ``x.__array_namespace__()`` is this module. Names, signatures, dtypes and special
values are the standard's where PyTorch's differ: two operands promote by the standard's table, ``uint16`` to ``uint64``
included, axes are ``axis`` and ``keepdims``, ``finfo(...).dtype`` is a dtype. The extensions ``fft`` and ``linalg`` are
there. Errors have the classes of the standard's page of a function, or PyTorch's.

See https://data-apis.org/array-api/2025.12/.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from torchlette.array_api import _creation, _elementwise, _manipulation, _reductions, fft, linalg
from torchlette.array_api._creation import *  # noqa: F403
from torchlette.array_api._dtypes import (
    KINDS,
    NamespaceInfo,
    astype,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from torchlette.array_api._elementwise import *  # noqa: F403
from torchlette.array_api._manipulation import *  # noqa: F403
from torchlette.array_api._reductions import *  # noqa: F403

__array_api_version__ = "2025.12"

_DTYPES: dict[str, Any] = {str(d).rpartition(".")[2]: d for kind in ("bool", "numeric") for d in KINDS[kind]}
globals().update(_DTYPES)

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi


def __array_namespace_info__() -> NamespaceInfo:
    """Return what the namespace offers: its capabilities, devices and dtypes."""
    return NamespaceInfo()


def namespace(api_version: str | None = None) -> Any:
    """Return this module for a version of the standard, the newest where it is None.

    Raises:
        ValueError: ``api_version`` is unknown, or newer than :data:`__array_api_version__`.
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", __array_api_version__):
        raise ValueError(f"expected api_version up to {__array_api_version__!r}, got {api_version!r}")
    return sys.modules[__name__]


__all__ = [
    "__array_api_version__", "__array_namespace_info__", "astype", "can_cast", "e", "fft", "finfo", "iinfo", "inf",
    "isdtype", "linalg", "nan", "newaxis", "pi", "result_type",
    *_DTYPES, *_creation.__all__, *_elementwise.__all__, *_manipulation.__all__, *_reductions.__all__,
]  # fmt: skip
