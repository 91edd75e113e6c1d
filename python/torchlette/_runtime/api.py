"""The functions of ``torchlette`` that are written in Python; ``torchlette/__init__.py`` re-exports them."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType

from torchlette import _C
from torchlette._runtime.dtypes import can_cast, finfo, iinfo, promote_types, result_type
from torchlette._runtime.errors import LeakError
from torchlette._runtime.random import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from torchlette.autograd import anomaly_mode, enable_grad, inference_mode, no_grad, set_grad_enabled
from torchlette.io.dlpack import from_dlpack, frombuffer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Generator",
    "can_cast",
    "check_leaks",
    "default_generator",
    "enable_grad",
    "explain",
    "finfo",
    "flush",
    "fork_rng",
    "from_dlpack",
    "frombuffer",
    "get_default_device",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "iinfo",
    "inference_mode",
    "initial_seed",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_nonzero",
    "is_signed",
    "is_tensor",
    "keep",
    "manual_seed",
    "mark_step",
    "memory_stats",
    "no_grad",
    "numel",
    "promote_types",
    "realize",
    "reset",
    "result_type",
    "seed",
    "set_anomaly_enabled",
    "set_busy_policy",
    "set_default_device",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_rng_state",
    "stats",
    "tidy",
]

mark_step = _C.mark_step
flush = _C.flush
reset = _C._reset
is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled
get_default_dtype = _C.get_default_dtype
get_default_device = _C.get_default_device
is_anomaly_enabled = anomaly_mode.is_anomaly_enabled
is_anomaly_check_nan_enabled = anomaly_mode.is_anomaly_check_nan_enabled
set_anomaly_enabled = anomaly_mode.set_detect_anomaly


# Questions about tensors -----------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Return whether ``obj`` is a tensor."""
    return isinstance(obj, _C.Tensor)


def is_floating_point(input: _C.Tensor) -> bool:
    """Return whether the dtype of ``input`` is a floating point type."""
    return input.is_floating_point()


def is_complex(input: _C.Tensor) -> bool:
    """Return ``False``: there are no complex dtypes."""
    return input.is_complex()


def is_signed(input: _C.Tensor) -> bool:
    """Return whether the dtype of ``input`` has negative values."""
    return input.dtype.is_signed


def is_nonzero(input: _C.Tensor) -> bool:
    """Read a tensor of one element and return whether it is not zero."""
    if input.numel() != 1:
        how_many = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {how_many} is ambiguous")
    return bool(input.item())


def numel(input: _C.Tensor) -> int:
    """Return the number of elements."""
    return input.numel()


# Defaults --------------------------------------------------------------------------------


def set_default_dtype(d: Any) -> None:
    """Set the dtype of floating point tensors that are made without one."""
    _C._set_default_dtype(d)


class _DeviceScope:
    """The device set by :func:`set_default_device`; as a context manager, until the end of the block."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _C._set_default_device(self.before)


def set_default_device(device: Any) -> _DeviceScope:
    """Set the device of tensors that are made without one; usable as ``with set_default_device("cpu"):`` too."""
    return _DeviceScope(_C._set_default_device(device))


class _DeviceBlocks(threading.local):
    """What was the default device before each ``with device(...):`` block that is open in a thread."""

    def __init__(self) -> None:
        self.before: list[Any] = []


_device_blocks = _DeviceBlocks()


def _enter_device(self: _C.device) -> _C.device:
    """Make this the device of tensors that are made without one, until the end of the block."""
    _device_blocks.before.append(_C._set_default_device(self))
    return self


def _exit_device(
    self: _C.device, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
) -> None:
    _C._set_default_device(_device_blocks.before.pop())


_C.device.__enter__ = _enter_device  # type: ignore[attr-defined]
_C.device.__exit__ = _exit_device  # type: ignore[attr-defined]


def set_num_threads(n: int) -> None:
    """Set the number of threads that CPU kernels run on."""
    if not isinstance(n, int) or n <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _C._set_option("num_threads", str(n))


def get_num_threads() -> int:
    """Return the number of threads that CPU kernels run on."""
    _C.zeros((), device="cpu").item()  # opens the CPU device
    return stats().get("device_threads", 1)


def set_busy_policy(policy: str) -> None:
    """Choose what a thread does that would compute while another one does.

    Code that imports ``torchlette.torch`` waits for its turn under either policy, as PyTorch's does.

    Args:
        policy: ``"raise"`` (the default): :class:`EngineBusyError`; ``"wait"``: other code waits too, in the order of
            coming.
    """
    if policy not in ("raise", "wait"):
        raise ValueError(f"set_busy_policy: policy is wrong: got {policy!r}, want 'raise' or 'wait'")
    _C._set_busy_wait(policy == "wait")


# Lifetimes -------------------------------------------------------------------------------


def _tensors_in(value: Any, found: list[Any]) -> list[Any]:
    """Collect the tensors of nested containers and of modules' parameters and buffers."""
    if isinstance(value, _C.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _tensors_in(item, found)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            _tensors_in(item, found)
    elif hasattr(value, "parameters") and hasattr(value, "buffers"):
        found.extend([*value.parameters(), *value.buffers()])
    return found


class _TidyScope:
    """Disposes at its end of all tensors made inside that were not kept."""

    def __enter__(self) -> None:
        _C._tidy(True)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _C._tidy(False)


def tidy(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Dispose at once of tensors that are no longer wanted, instead of when Python drops them.

    ``with tidy():`` disposes at the end of the block of what was made inside and not passed to :func:`keep`;
    ``tidy(fn, *args)`` calls ``fn`` in such a scope and spares the tensors that it returns, as :func:`keep` does: no
    scope around disposes of them either.
    """
    if fn is None:
        return _TidyScope()
    _C._tidy(True)
    returned: list[Any] = []
    try:
        result = fn(*args, **kwargs)
        _tensors_in(result, returned)
    finally:
        _C._tidy(False, returned)
    return result


def keep(value: Any) -> Any:
    """Exempt a tensor, or those in a container or module, from the tidy scopes around; return ``value``."""
    for tensor in _tensors_in(value, []):
        tensor.keep()
    return value


def realize(*tensors: Any) -> None:
    """Compute tensors now and wait until their values are there: for timing, and before work outside of the library.

    Programs need no such call: a read computes what it needs. All tensors are computed together, so that what they
        share is
    computed once, and nothing is copied to the host.

    Args:
        tensors: Tensors, nested lists, tuples, sets and dicts of them, and modules, whose parameters and buffers count.
            Other items of containers are passed over.

    Raises:
        TypeError: An argument is none of these.
        IndexError: A kernel met an index out of range, in these values or in work submitted before.
        OutOfMemoryError: The values do not fit into the device's memory.

    Example:
        >>> import torchlette
        >>> x = torchlette.arange(3)
        >>> y, z = x + 1, x * 2
        >>> torchlette.realize(y, {"z": z})
        >>> y.tolist(), z.tolist()
        ([1, 2, 3], [0, 2, 4])
    """
    found: list[Any] = []
    for value in tensors:
        if type(value) is _C.Tensor:
            found.append(value)
        elif (
            isinstance(value, (_C.Tensor, dict, list, tuple, set))
            or hasattr(value, "parameters")
            and hasattr(value, "buffers")
        ):
            _tensors_in(value, found)
        else:
            raise TypeError(f"realize: got {type(value).__name__}, want tensors, containers of them, or modules")
    _C._realize(found)


def _info(kind: str, *tensor: _C.Tensor) -> Any:
    import json

    return json.loads(_C._info(kind, *tensor))


# Looking inside --------------------------------------------------------------------------


def memory_stats() -> dict[str, dict[str, int]]:
    """Return, for each device in use, its live, pooled and peak bytes and its live buffers."""
    return _info("memory_stats")


def stats() -> dict[str, Any]:
    """Return the engine's counters: plans built and replayed, windows, kernels run, bytes written, live objects."""
    return _info("stats")


def explain(tensor: _C.Tensor, *, program: bool = False) -> dict[str, Any]:
    """Return where a tensor stands: its binding, versions, layout, the operation that makes it and the line that made
    it.

    A computed tensor has ``window`` and ``plan`` (number, runs, nodes, bytes written, mean microseconds of a run on the
    host, ``kernels`` with FLOPs, bytes and microseconds of the last profiled run, and ``built_because``); a pending one
    has ``pending``: nodes, stores and outside values of the window that would run, and its plan or why it needs a new
    one.

    With ``program=True``, ``program`` is the text of that window's program: inputs, one line a primitive with its
    operands, views, numbers, dtype and shape, the stores, and the source lines as comments. Of a computed tensor it
    holds the numbers of the run for which the plan was built; data from the host, and values whose plan was evicted,
    have none.

    >>> import torchlette
    >>> x = torchlette.ones(2, 3, device="cpu")
    >>> x.tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    >>> text = torchlette.explain(x * 2, program=True)["program"]
    >>> print(*(line.split("  #")[0] for line in text.splitlines()), sep="\\n")
    input $0 : f32[2,3]
    %0 = mul $0 2.0 : f32[2,3] live
    """
    return _info("explain_program" if program else "explain", tensor)


class check_leaks:
    """Raise at the end of a block if tensors made inside are still alive, naming the line that made each.

    Args:
        allowed: How many may stay.
    """

    def __init__(self, allowed: int = 0) -> None:
        """Choose how many tensors may stay."""
        self.allowed = allowed

    def __enter__(self) -> check_leaks:
        self.before = self._live()
        return self

    @staticmethod
    def _live() -> Counter[str]:
        """Return how many live tensors each line has made."""
        import gc

        gc.collect()
        return Counter(_info("leaks"))

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if exc is not None:
            return
        left = self._live() - self.before
        if left.total() > self.allowed:
            lines = [f"  {count} made at {site or 'an unknown line'}" for site, count in left.most_common()]
            raise LeakError(
                f"check_leaks: {left.total()} tensors made in the block are still alive, want at most {self.allowed}:\n"
                + "\n".join(lines)
            )
