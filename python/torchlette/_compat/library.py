"""Operators that a program registers: named functions with their own gradients. Registration compiles nothing.

``custom_op`` functions run as they are; ``torchlette.ops.namespace.name`` finds them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any, NoReturn

from torchlette._runtime.aten import OpOverloadPacket
from torchlette._runtime.errors import LibraryError, NotSupportedError, RefusedNameError
from torchlette._runtime.gpus import is_gpu
from torchlette.autograd import Function

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "impl",
    "impl_abstract",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]

_ops: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """A function with a qualified name, ``"namespace::name"``."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        """Register the function."""
        if name.count("::") != 1:
            raise ValueError(f"Expected `name` to be of the form `namespace::name`, got {name!r}")
        self._qualname = name
        self._init_fn = fn
        self._composite = False  # calls go to the function itself
        self.__name__ = name.partition("::")[2]
        self.register_autograd(self._no_gradient)
        self._has_gradient = False
        _ops[name] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function without recording; the registered gradient applies."""
        if self._composite:
            return self._init_fn(*args, **kwargs)
        if kwargs:
            bound = inspect.signature(self._init_fn).bind(*args, **kwargs)
            bound.apply_defaults()
            args = (*bound.args, *bound.kwargs.values())
        return self._gradient.apply(*args)

    @property
    def default(self) -> CustomOpDef:
        """The operator itself: it has one overload."""
        return self

    def implement(self, fn: Callable[..., Any]) -> None:
        """Let a function compute the operator. Without a gradient of its own, it is differentiated like other code."""
        self._init_fn, self._composite = fn, not self._has_gradient

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

        self._has_gradient, self._composite = True, False
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


impl_abstract = register_fake


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Do nothing: the operators within an operator's function follow autocast."""


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Return ``func``: the operators within an operator's function are batched."""
    return func if func is not None else lambda later: later


def register_kernel(
    op: str | CustomOpDef, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Replace an operator's function; see :meth:`CustomOpDef.register_kernel`."""
    return _found(op).register_kernel(device_types, func)


#: Dispatch keys whose functions run here. Those of autograd, autocast and meta tensors have no use: an operator records
#: what its function computes, or what register_autograd says.
_KERNEL_KEYS = (
    "",
    "CPU",
    "CUDA",
    "CatchAll",
    "Default",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutograd",
    "cpu",
    "cuda",
    "default",
)


def _undefined(name: str) -> Callable[..., NoReturn]:
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"Could not run '{name}': no function is registered for it: see library.impl")

    return call


class Library:
    """A set of operators of one namespace that a program defines, and functions that compute them.

    Args:
        ns: The namespace.
        kind: "DEF", "FRAGMENT" or "IMPL".
        dispatch_key: What :meth:`impl` takes where it is not told.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        """Begin a set."""
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator, and return its name.

        Args:
            schema: The name, arguments and results, as in ``"scale(Tensor x, float k) -> Tensor"``.
            alias_analysis: Accepted for compatibility.
            tags: Accepted for compatibility.
        """
        name = schema.partition("(")[0].strip().partition(".")[0]
        if self.kind == "IMPL":
            raise RuntimeError(f"Library.define: the library of {self.ns} is an IMPL library: got {schema}")
        full = name if "::" in name else f"{self.ns}::{name}"
        CustomOpDef(full, _undefined(full))
        return name

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False, **options: Any
    ) -> None:
        """Let a function compute an operator.

        Args:
            op_name: The operator, or its name.
            fn: The function. It is differentiated like other code, unless ``register_autograd`` gives a gradient.
            dispatch_key: Which tensors it is for. Functions for autograd, autocast and meta tensors are not used.
            with_keyset: Must be false.
            options: Accepted for compatibility.
        """
        if with_keyset:
            raise NotSupportedError("Library.impl: with_keyset is not supported: there are no dispatch keys")
        if (dispatch_key or self.dispatch_key) in _KERNEL_KEYS:
            text = op_name if isinstance(op_name, str) else op_name._qualname
            _found(text if "::" in text else f"{self.ns}::{text}").implement(fn)

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Do nothing: every operator runs on every device."""

    def _destroy(self) -> None:
        """Do nothing: operators stay."""


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Define the operator ``"namespace::name"``; see :meth:`Library.define`."""
    Library(qualname.partition("::")[0], "FRAGMENT").define(qualname + schema)


def impl(qualname: str | Library, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Let a function compute an operator; a decorator where ``func`` is None.

    Args:
        qualname: ``"namespace::name"``; or a :class:`Library`, with the name as ``types`` and the key as ``func``.
        types: Device types or dispatch keys.
        func: The function.
        lib: Accepted for compatibility.
    """
    if isinstance(qualname, Library):
        library, key = qualname, func or ""

        def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(types, fn, key)
            return fn

        return decorate
    if func is None:
        return lambda later: impl(qualname, types, later)
    if any(kind in _KERNEL_KEYS for kind in ([types] if isinstance(types, str) else types)):
        _found(qualname).implement(func)
    return func


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

    def load_library(self, path: str) -> None:
        """Register the operators of torchvision's shared library; raise for others, which cannot be loaded."""
        folder, file = os.path.split(str(path))
        if os.path.basename(folder) == "torchvision" and file.startswith(("_C.", "_C_stable.")):
            from torchlette._compat.torchvision_ops import register

            register()
            return
        raise LibraryError(
            "ops.load_library: PyTorch's compiled operators cannot be loaded: write the function with tensors' "
            "operators"
        )


ops = _Operators()
