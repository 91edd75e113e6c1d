"""Names of ``torch._C`` that packages use, beside those of this library's own extension module."""

from __future__ import annotations

from types import SimpleNamespace

from torchlette._runtime.override_levels import DisableTorchFunction as DisableTorchFunction
from torchlette._runtime.override_levels import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from torchlette._runtime.tensor_methods import _to_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _has_torch_function(args: Any) -> bool:
    """Return whether a class of the arguments, or a mode, answers calls."""
    from torchlette._compat.overrides import has_torch_function

    return has_torch_function(args)


def _log_api_usage_once(*event: object) -> None:
    """Do nothing: PyTorch's usage statistics, which libraries call when their classes are created."""


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return device, dtype, non_blocking and memory_format of the arguments of ``Module.to``."""
    from torchlette import device as make_device

    non_blocking, memory_format = bool(kwargs.get("non_blocking", False)), kwargs.get("memory_format")
    device, dtype, _ = _to_arguments(args, kwargs)
    return None if device is None else make_device(device), dtype, non_blocking, memory_format


_nn = SimpleNamespace(_parse_to=_parse_to)
