"""Finding the operation whose gradient is wrong: NaN gradients raise, with the line of the forward pass."""

from __future__ import annotations

import warnings
from types import TracebackType

from torchlette import _C

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


class _Mode:
    """Whether anomaly detection is on, and whether it looks for NaN."""

    enabled = False
    check_nan = True


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on."""
    return _Mode.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly detection looks for NaN."""
    return _Mode.check_nan


def inspect(name: str, index: int, site: str, grad: _C.Tensor) -> None:
    """Raise when ``grad``, gradient ``index`` of function ``name``, has a NaN; reads it."""
    if not grad.is_floating_point() or not grad.detach().isnan().any().item():
        return
    warnings.warn(
        f"Error detected in {name}. Traceback of forward call that caused the error:\n  {site}\n", stacklevel=2
    )
    raise RuntimeError(f"Function '{name}' returned nan values in its {index}th output.")


class detect_anomaly:
    """Check the backward passes of a block. Every gradient is read, which is slow.

    A gradient with a NaN raises ``RuntimeError`` with the function's name, and a warning shows the line that
    recorded it.

    Args:
        check_nan: Whether to look for NaN.
    """

    def __init__(self, check_nan: bool = True) -> None:
        """Choose whether to look for NaN."""
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = (_Mode.enabled, _Mode.check_nan)
        _Mode.enabled, _Mode.check_nan = True, self.check_nan

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _Mode.enabled, _Mode.check_nan = self._before


class set_detect_anomaly:
    """Switch anomaly detection at once; as a context manager, until the end of the block.

    Args:
        mode: Whether it is on.
        check_nan: Whether to look for NaN.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        """Switch now."""
        self._before = (_Mode.enabled, _Mode.check_nan)
        _Mode.enabled, _Mode.check_nan = bool(mode), bool(check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _Mode.enabled, _Mode.check_nan = self._before
