"""Operators that a program registers: named functions with their own gradients. Registration compiles nothing.

``custom_op`` functions run as they are; ``torchlette.ops.namespace.name`` finds them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from torchlette._runtime.aten import OpOverloadPacket
from torchlette._runtime.errors import LibraryError, NotSupportedError, RefusedNameError
from torchlette._runtime.gpus import is_gpu
from torchlette.autograd import Function

__all__ = ["CustomOpDef", "Library", "custom_op", "register_autograd", "register_fake", "register_kernel"]

_ops: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """A function with a qualified name, ``"namespace::name"``."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        """Register the function."""
        if name.count("::") != 1:
            raise ValueError(f"Expected `name` to be of the form `namespace::name`, got {name!r}")
        self._qualname = name
        self._init_fn = fn
        self.__name__ = name.partition("::")[2]
        self.register_autograd(self._no_gradient)
        _ops[name] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function without recording; the registered gradient applies."""
        if kwargs:
            bound = inspect.signature(self._init_fn).bind(*args, **kwargs)
            bound.apply_defaults()
            args = (*bound.args, *bound.kwargs.values())
        return self._gradient.apply(*args)

    @property
    def default(self) -> CustomOpDef:
        """The operator itself: it has one overload."""
        return self

    def _no_gradient(self, *args: Any) -> NoReturn:
        raise RuntimeError(
            f"Trying to backward through {self._qualname} but no autograd formula was registered. Please use "
            f"register_autograd to add one."
        )

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Give the operator a gradient.

        Args:
            backward: Maps (ctx, gradients of the results) to the gradients of the arguments.
            setup_context: Called as ``setup_context(ctx, inputs, output)`` to save what ``backward`` needs.
        """
        own = self

        class Recorded(Function):
            @staticmethod
            def forward(*args: Any) -> Any:
                return own._init_fn(*args)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                if setup_context is not None:
                    setup_context(ctx, inputs, output)

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                return backward(ctx, *gradients)

        Recorded.__name__ = self.__name__
        self._gradient = Recorded

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Return ``fn``: shapes are taken from the results, so a fake function is never called."""
        return fn

    register_vmap = register_fake

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Replace the function by one for all of its devices; a decorator where ``fn`` is None."""
        if fn is None:
            return lambda later: self.register_kernel(device_types, later)
        kinds = [device_types] if isinstance(device_types, str) else list(device_types or ["cpu"])
        if "cpu" in kinds or any(is_gpu(kind) for kind in kinds):
            self._init_fn = fn
        return fn


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any = (),
    device_types: Any = None,
    schema: str | None = None,
) -> Any:
    """Register ``fn`` as the operator ``name``; a decorator where ``fn`` is None.

    Args:
        name: ``"namespace::name"``.
        fn: The function.
        mutates_args: Names of the arguments that the function writes to. It must be empty, as the function is not
            recorded.
        device_types: Accepted for compatibility.
        schema: Accepted for compatibility.
    """
    if mutates_args:
        raise NotSupportedError(
            f"custom_op: {name} mutates {mutates_args}: write a function that returns new tensors, or call the "
            f"function itself"
        )
    return CustomOpDef(name, fn) if fn is not None else lambda later: CustomOpDef(name, later)


def _found(op: str | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _ops:
        raise NotSupportedError(
            f"library: there is no operator {op!r}: make it with custom_op; the library's own cannot be changed"
        )
    return _ops[op]


def register_autograd(
    op: str | CustomOpDef,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Give an operator a gradient; see :meth:`CustomOpDef.register_autograd`."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def register_fake(
    op: str | CustomOpDef, func: Callable[..., Any] | None = None, /, *, lib: Any = None, **options: Any
) -> Any:
    """Return ``func``: shapes are taken from the results, so a fake function is never called."""
    return func if func is not None else lambda later: later


def register_kernel(
    op: str | CustomOpDef, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Replace an operator's function; see :meth:`CustomOpDef.register_kernel`."""
    return _found(op).register_kernel(device_types, func)


class Library:
    """PyTorch's operator tables, which do not exist here."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        """Raise: the operators are the engine's."""
        raise NotSupportedError(
            "library.Library: the engine takes no operators: library.custom_op registers a function, autograd.Function "
            "a gradient"
        )


class _Namespace:
    """``torchlette.ops.namespace``."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> CustomOpDef | OpOverloadPacket:
        if self.__name__ == "aten" and not name.startswith("__"):
            return OpOverloadPacket(name)
        if (found := _ops.get(f"{self.__name__}::{name}")) is not None:
            return found
        raise RefusedNameError(
            f"torch.ops.{self.__name__}.{name}: library.custom_op registered no such operator, and the library's own "
            f"are not named so"
        )


class _Operators:
    """``torchlette.ops``: the registered operators by namespace."""

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace(name)

    def load_library(self, path: str) -> NoReturn:
        """Raise: shared libraries of PyTorch operators are not supported."""
        raise LibraryError(
            "ops.load_library: PyTorch's compiled operators cannot be loaded: write the function with tensors' "
            "operators"
        )


ops = _Operators()
