"""Modes that answer operators under PyTorch's names, and helpers of wrapper subclasses.

A :class:`TorchDispatchMode` sees what functions written in Python call, not these functions; and the parts of
``linear``, ``matmul`` and softmax. Unlike in PyTorch it sees no backward passes, which the engine records by itself,
and the results that it sees have their gradients.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torchlette
from torchlette import _C
from torchlette._compat import overrides
from torchlette._compat.wrappers import ANSWERED_BY_OBJECTS
from torchlette._runtime.aten import OpOverload

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]

Tensor = _C.Tensor

#: Python's operators -> PyTorch's.
_OPERATORS = {
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "invert": "bitwise_not",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "getitem": "index",
    "setitem": "index_put_",
}
#: Operators whose overload for tensors, and numbers like them, is not "default".
_WITH_TENSOR = frozenset(
    "add sub mul div floor_divide remainder eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor".split()
)


class _Bound(OpOverload):
    """An operator of PyTorch that calls one of ours, whose arguments a mode got."""

    def __init__(self, name: str, overload: str, function: Callable[..., Any]) -> None:
        super().__init__(name, overload)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _named(function: Callable[..., Any]) -> _Bound:
    name: str = getattr(function, "__name__", "")
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        reflected, in_place = name[:1] == "r" and hasattr(Tensor, f"__{name[1:]}__"), False
        if not reflected:
            in_place = name[:1] == "i" and name != "invert" and hasattr(Tensor, f"__{name[1:]}__")
        name = name[1:] if reflected or in_place else name
        name = _OPERATORS.get(name, name) + ("_" if in_place else "")
    overload = "Tensor" if name.removesuffix("_") in _WITH_TENSOR else "default"
    return _Bound(name, overload, function)


class _Functions(overrides.TorchFunctionMode):
    """Gives calls to a :class:`TorchDispatchMode`."""

    def __init__(self, mode: TorchDispatchMode) -> None:
        self.mode = mode

    def __torch_function__(self, func: Callable[..., Any], types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ANSWERED_BY_OBJECTS:
            return func(*args, **kwargs)
        if isinstance(func, types.FunctionType):  # its calls are seen, not itself
            with self:
                return getattr(func, "__wrapped__", func)(*args, **kwargs)
        kinds = tuple(kind for kind in types_ if kind is not Tensor)

        def ask(operator: OpOverload, *args: Any, **kwargs: Any) -> Any:
            return self.mode.__torch_dispatch__(operator, kinds, args, kwargs)

        rule = _PARTS.get(name.strip("_"))
        if rule is not None and "out" not in kwargs:
            return rule(ask, *args, **kwargs)
        return ask(_named(func), *args, **kwargs)


# Operators that PyTorch divides into others -------------------------------------------------------------------------


def _product(ask: Callable[..., Any], x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """``linear``: the rows of ``x`` by the weight's."""
    rows = x if x.dim() == 2 else ask(OpOverload("view"), x, [math.prod(x.shape[:-1]), x.shape[-1]])
    turned = ask(OpOverload("t"), weight)
    out = ask(OpOverload("mm"), rows, turned) if bias is None else ask(OpOverload("addmm"), bias, rows, turned)
    return out if x.dim() == 2 else ask(OpOverload("view"), out, [*x.shape[:-1], weight.shape[0]])


def _matmul(ask: Callable[..., Any], x: Tensor, y: Tensor) -> Any:
    if x.dim() < 3 and y.dim() < 3 and x.dim() and y.dim():
        if x.dim() == y.dim():
            return ask(OpOverload("dot" if x.dim() == 1 else "mm"), x, y)
        if x.dim() == 2:
            return ask(OpOverload("mv"), x, y)
    if x.dim() < 2 or y.dim() < 2:
        return ask(_Bound("matmul", "default", _C.matmul), x, y)
    if y.dim() == 2:
        rows = ask(OpOverload("view"), x, [-1, x.shape[-1]]) if x.is_contiguous() else x.reshape(-1, x.shape[-1])
        return ask(OpOverload("view"), ask(OpOverload("mm"), rows, y), [*x.shape[:-1], y.shape[-1]])
    batch = torchlette.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    stacks = [ask(OpOverload("expand"), t, [*batch, *t.shape[-2:]]).reshape(-1, *t.shape[-2:]) for t in (x, y)]
    return ask(OpOverload("view"), ask(OpOverload("bmm"), *stacks), [*batch, x.shape[-2], y.shape[-1]])


def _softmax_by(name: str) -> Callable[..., Any]:
    def rule(ask: Callable[..., Any], x: Tensor, dim: int, *rest: Any, dtype: Any = None) -> Any:
        dtype = next((value for value in rest if isinstance(value, _C.dtype)), dtype)
        x = x if dtype is None else ask(OpOverload("_to_copy"), x, dtype=dtype)
        return ask(OpOverload(name), x, dim, False)

    return rule


def _convolution(dims: int) -> Callable[..., Any]:
    def rule(
        ask: Callable[..., Any],
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        if isinstance(padding, str):
            function = getattr(_C, f"conv{dims}d")
            return ask(
                _Bound("convolution", "default", function), input, weight, bias, stride, padding, dilation, groups
            )
        sizes = [[v] * dims if isinstance(v, int) else list(v) for v in (stride, padding, dilation)]
        return ask(OpOverload("convolution"), input, weight, bias, *sizes, False, [0] * dims, groups)

    return rule


_PARTS: dict[str, Callable[..., Any]] = {
    "linear": _product,
    "matmul": _matmul,
    "rmatmul": lambda ask, x, y: _matmul(ask, y, x),
    **{f"conv{dims}d": _convolution(dims) for dims in (1, 2, 3)},
    "softmax": _softmax_by("_softmax"),
    "log_softmax": _softmax_by("_log_softmax"),
}


# Modes ---------------------------------------------------------------------------------------------------------------


class TorchDispatchMode:
    """Answers operators in a ``with`` block by its ``__torch_dispatch__(func, types, args, kwargs)``.

    ``func`` is an operator of ``torch.ops.aten``; ``func(*args, **kwargs)`` computes it. Within that method the mode is
    off, and operators go to the mode around it.
    """

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer an operator; subclasses override it."""
        raise NotImplementedError

    def __enter__(self) -> TorchDispatchMode:
        pushed = _Functions(self)
        pushed.__enter__()
        self.__dict__.setdefault("_entered", []).append(pushed)
        return self

    def __exit__(self, *exc: object) -> None:
        self.__dict__["_entered"].pop().__exit__(*exc)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchDispatchMode:
        """Return a new mode, for ``with``: a former form."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that computes each operator."""

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute the operator."""
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    modes = overrides._get_current_function_mode_stack()
    return [mode.mode for mode in modes if isinstance(mode, _Functions)]


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    return next(reversed(_get_current_dispatch_mode_stack()), None)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Return whether a mode answers operators of this thread."""
    return bool(_get_current_dispatch_mode_stack())


@contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """A block in which no :class:`TorchDispatchMode` answers; it gives the modes that were entered."""
    old = _get_current_dispatch_mode_stack()
    with overrides.without_modes(_Functions):
        yield old


# Wrapper subclasses --------------------------------------------------------------------------------------------------


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether a class of tensors has ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    methods = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return isinstance(t, type) and issubclass(t, Tensor) and t is not Tensor and methods


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Return whether a tensor's class has ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    return is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """Return a wrapper of ``callback(name, tensor)`` of the tensors that a wrapper holds.

    Args:
        t: A wrapper for which :func:`is_traceable_wrapper_subclass` holds.
        callback: Called for each of its tensors.
        outer_size: The new wrapper's shape; None: the same.
        outer_stride: Its strides; None: the same.

    Raises:
        AssertionError: The class made a wrapper of another shape or other strides.
    """
    size = outer_size if outer_size is not None else t.size()
    stride = outer_stride if outer_stride is not None else t.stride()
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if tuple(made.shape) != tuple(size):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {size}, but got: "
            f"{made.shape}"
        )
    if tuple(made.stride()) != tuple(stride):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have stride equal to {stride}, but got: "
            f"{made.stride()}"
        )
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Return what an operator of a wrapper subclass must: the tensor written to, where it writes to one, else ``out``.

    Wrappers have no memory here, so that there is none for views to share.

    Args:
        func: The operator, in ``torch.ops.aten``.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        out: What was computed.
    """
    if kwargs and kwargs.get("out") is not None:
        return kwargs["out"]
    name = str(func).split(".")[1]
    return args[0] if name.endswith("_") and not name.endswith("__") else out
