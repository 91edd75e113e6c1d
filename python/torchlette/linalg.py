"""Linear algebra: the operators of ``torch.linalg``."""

from __future__ import annotations

from typing import NoReturn

from torchlette import _C
from torchlette._runtime.errors import LinAlgError, NotSupportedError

__all__ = ["LinAlgError", "eig", "eigvals"]

_PLACE = 16
_PREFIX = "linalg_"

_names = {
    name.removeprefix(_PREFIX): getattr(_C, name)
    for name, places in _C._where.items()
    if places & _PLACE and name.startswith(_PREFIX)
}
globals().update(_names)
__all__ += sorted(_names)


def eig(A: _C.Tensor) -> NoReturn:
    """Raise: a general matrix has complex eigenvalues; for symmetric matrices use :func:`eigh`."""
    raise NotSupportedError(
        "linalg.eig: complex numbers are not supported: use linalg.eigh where the matrix is symmetric, or linalg.svd"
    )


def eigvals(A: _C.Tensor) -> NoReturn:
    """Raise: a general matrix has complex eigenvalues; for symmetric matrices use :func:`eigvalsh`."""
    raise NotSupportedError(
        "linalg.eigvals: complex numbers are not supported: use linalg.eigvalsh where the matrix is symmetric, or "
        "linalg.svdvals"
    )
