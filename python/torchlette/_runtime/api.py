"""The functions of ``torchlette`` that are written in Python; ``torchlette/__init__.py`` re-exports them."""

from __future__ import annotations

import copyreg
import threading
from collections import Counter
from types import SimpleNamespace, TracebackType

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
    """Return whether the dtype of ``input`` is complex."""
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
    """Set the dtype of floating point tensors that are created without a dtype."""
    _C._set_default_dtype(d)


class _DeviceScope:
    """The effect of :func:`set_default_device`; as a context manager it ends with the block."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _C._set_default_device(self.before)


def set_default_device(device: Any) -> _DeviceScope:
    """Set the device of tensors created without a device; None is the CPU.

    ``with set_default_device("cpu"):`` limits it to a block. Without it, ``TORCHLETTE_DEVICE`` decides; else the device
    is a GPU where there is one, and the CPU for code that imports ``torchlette.torch``.
    """
    return _DeviceScope(_C._set_default_device("cpu" if device is None else device))


class _DeviceBlocks(threading.local):
    """A thread's stack of default devices to restore, one for each open ``with device(...):`` block."""

    def __init__(self) -> None:
        self.before: list[Any] = []


_device_blocks = _DeviceBlocks()


def _enter_device(self: _C.device) -> _C.device:
    """Make this the default device until the end of the block."""
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
    """Choose what happens when a thread calls the engine while another thread is using it.

    Code that imports ``torchlette.torch`` waits under either policy, as in PyTorch.

    Args:
        policy: ``"raise"`` (the default) raises :class:`EngineBusyError`; ``"wait"`` lets threads wait, first come
            first served.
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
    """A scope that, at its end, disposes of all tensors created inside and not kept."""

    def __enter__(self) -> None:
        _C._tidy(True)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _C._tidy(False)


def tidy(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Dispose of intermediate tensors at the end of a scope, instead of when Python drops them.

    ``with tidy():`` disposes, at the end of the block, of every tensor created inside and not passed to :func:`keep`.
    ``tidy(fn, *args)`` calls ``fn`` in such a scope and keeps the tensors that it returns; outer scopes keep them too.
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
    """Exempt a tensor, or the tensors of a container or module, from all open tidy scopes; return ``value``."""
    for tensor in _tensors_in(value, []):
        tensor.keep()
    return value


def realize(*tensors: Any) -> None:
    """Compute tensors and wait for their values: for timing, and before work outside of the library.

    Ordinary programs need no such call: a read computes what it needs. All tensors are computed together, so shared
    work runs once; nothing is copied to the host.

    Args:
        tensors: Tensors, nested lists, tuples, sets and dicts of them, and modules, whose parameters and buffers count.
            Other items of containers are ignored.

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
    """Return a tensor's state: its binding, versions, layout, the operation that computes it and the source line of
    that operation.

    A computed tensor has ``window`` and ``plan`` (number, runs, nodes, bytes written, mean microseconds of a run on the
    host, ``kernels`` with FLOPs, bytes and microseconds of the last profiled run, and ``built_because``); a pending one
    has ``pending``: nodes, stores and outside values of the window that would run, and its plan or the reason for a new
    one.

    With ``program=True``, ``program`` is the text of that window's program: inputs, one line a primitive with its
    operands, views, numbers, dtype and shape, the stores, and the source lines as comments. For a computed tensor the
    numbers are those of the run that built the plan. Data from the host and values whose plan was evicted have no
    program.

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
    """Raise at the end of a block if tensors created inside are still alive; the error names the line that created
    each.

    Args:
        allowed: The number of tensors that may stay alive.
    """

    def __init__(self, allowed: int = 0) -> None:
        """Store the allowed number."""
        self.allowed = allowed

    def __enter__(self) -> check_leaks:
        self.before = self._live()
        return self

    @staticmethod
    def _live() -> Counter[str]:
        """Return the number of live tensors by the line that created them."""
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


def extension_functions(in_facade: bool) -> Any:
    """Return an object whose attributes are the extension's functions of an API flavour."""
    return SimpleNamespace(**_C._facade) if in_facade else _C


def _reduced(binding: Any) -> tuple[Any, tuple[bool]]:
    return extension_functions, (any(getattr(f, "__self__", None) is binding for f in _C._facade.values()),)


# Python pickles a function of the extension as an attribute of the object that it is bound to. With this, modules that
# hold one, such as an activation, can be pickled.
copyreg.pickle(type(_C.relu.__self__), _reduced)  # type: ignore[attr-defined]
