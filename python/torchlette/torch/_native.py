"""Names of ``torch._C`` that packages use, beside those of this library's own extension module."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace

from torchlette._runtime.override_levels import DisableTorchFunction as DisableTorchFunction
from torchlette._runtime.override_levels import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from torchlette._runtime.tensor_methods import _to_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _are_functorch_transforms_active() -> bool:
    """Return whether ``vmap``, a level of forward mode, or a transform by backward is in progress."""
    from torchlette._runtime import fences, forward, levels

    return bool(levels.levels() or forward.levels() or fences.is_transforming())


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


class DispatchKey(Enum):
    """Names of PyTorch's dispatch keys. There are none here: operators run on every device."""

    CPU, CUDA, XPU, Meta, Python, Autograd, AutogradCPU, AutogradCUDA, AutocastCPU, AutocastCUDA, AutocastXPU = range(
        11
    )
    CompositeImplicitAutograd, CompositeExplicitAutograd, ADInplaceOrView, BackendSelect, Dense, Undefined = range(
        11, 17
    )


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, *keys: DispatchKey) -> None:
        """Hold the keys."""
        self._keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self._keys, *other._keys)

    def has(self, key: DispatchKey) -> bool:
        """Return whether a key is in the set."""
        return key in self._keys


class _ExcludeDispatchKeyGuard:
    """A block without effect: there are no dispatch keys."""

    def __init__(self, keys: DispatchKeySet) -> None:
        """Ignore the keys."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


#: The class of the class Tensor.
_TensorMeta = type
_IncludeDispatchKeyGuard = _AutoDispatchBelowAutograd = _ExcludeDispatchKeyGuard


def _get_tracing_state() -> None:
    """Return None: nothing is traced by torch.jit."""
