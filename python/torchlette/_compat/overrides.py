"""``__torch_function__``: classes that answer calls of their objects, and modes that answer all calls of a thread.

A class with ``__torch_function__(func, types, args, kwargs)`` answers the calls of operators and of functions that are
written in Python, as functions, methods and Python operators, that get one of its objects. Results of a subclass of
Tensor without its own are objects of the subclass. :class:`TorchFunctionMode` answers every call.

Until a program makes such a class or mode, or uses ``torch.fx``, calls ask for neither, and functions that are written
in Python have no code for it: :func:`enable` replaces them in their modules.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette._compat.wrappers import dispatch, wraps
from torchlette._runtime.override_levels import EVERYTHING, DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

Tensor = _C.Tensor
_FUNCTION, _FACADE_FUNCTION, _METHOD, _PROPERTY = range(4)


# Modes ---------------------------------------------------------------------------------------------------------------


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[TorchFunctionMode] = []


_modes = _Modes()


class TorchFunctionMode:
    """Answers every call of an operator in a ``with`` block, by its ``__torch_function__``.

    Within that method the mode is off, and calls go to the mode around it.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Answer a call; subclasses override it."""
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        enable()
        _modes.stack.append(self)
        _C._count_modes(len(_modes.stack))
        return self

    def __exit__(self, *exc: object) -> None:
        _modes.stack.pop()
        _C._count_modes(len(_modes.stack))

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        """Return a new mode, for ``with``: a former form."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls the function."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> TorchFunctionMode | None:
    return _modes.stack[-1] if _modes.stack else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(_modes.stack)


@contextmanager
def without_modes(kind: type) -> Iterator[None]:
    """A block in which no mode of a class answers."""
    stack = _modes.stack
    _modes.stack = [mode for mode in stack if not isinstance(mode, kind)]
    _C._count_modes(len(_modes.stack))
    try:
        yield
    finally:
        _modes.stack = stack
        _C._count_modes(len(stack))


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A block in which classes and modes answer calls again."""
    before = _C._switch_off_overrides(0)
    try:
        yield
    finally:
        _C._switch_off_overrides(before)


# Calls ---------------------------------------------------------------------------------------------------------------


@functools.cache
def _public(kind: int, name: str) -> Any:
    """Return the function that a call named, as programs see it."""
    if kind == _METHOD:
        return getattr(Tensor, name)
    if kind == _PROPERTY:
        return getattr(Tensor, name).__get__
    return _C._facade[name] if kind == _FACADE_FUNCTION and name in _C._facade else getattr(_C, name)


def _ordered(arguments: Iterable[Any]) -> list[Any]:
    """Return the first argument of each class, subclasses before their bases."""
    found: list[Any] = []
    for argument in arguments:
        if any(type(argument) is type(other) for other in found):
            continue
        at = next((i for i, other in enumerate(found) if issubclass(type(argument), type(other))), len(found))
        found.insert(at, argument)
    return found


def _answer(func: Any, overriding: Sequence[Any], args: Any, kwargs: Any) -> Any:
    """Ask the innermost mode and then the classes, until one answers."""
    ordered = _ordered(overriding)
    kinds = tuple(map(type, ordered))
    if _modes.stack and _C._switch_off_overrides(-1) < EVERYTHING:
        mode = _modes.stack.pop()
        _C._count_modes(len(_modes.stack))
        try:
            result = mode.__torch_function__(func, kinds, args, kwargs)
        finally:
            _modes.stack.append(mode)
            _C._count_modes(len(_modes.stack))
        if result is not NotImplemented:
            return result
    for argument in ordered:
        # The class's method, even where an object has an attribute of that name.
        method = argument.__torch_function__
        if method is _C._disabled_torch_function_impl:  # asked for its __torch_dispatch__
            method = Tensor.__torch_function__  # type: ignore[attr-defined]
        result = method(func, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = resolve_name(func) or getattr(func, "__name__", repr(func))
    text = f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n\n"
    asked = [f"  - mode object {mode}\n" for mode in _modes.stack[-1:]]
    asked += [f"  - tensor subclass {kind}\n" for kind in kinds]
    raise TypeError(text + "".join(asked))


def _answer_call(kind: int, name: str, overriding: list[Any], args: Any, kwargs: Any) -> Any:
    """Answer a call of an operator: the extension calls this."""
    return _answer(_public(kind, name), overriding, args, kwargs)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether a class of the arguments, or a mode, answers calls."""
    if _modes.stack and _C._switch_off_overrides(-1) < EVERYTHING:
        return True
    return bool(_C._overriding(tuple(relevant_args)))


def has_torch_function_unary(argument: Any) -> bool:
    """Return :func:`has_torch_function` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """Return :func:`has_torch_function` of the arguments."""
    return has_torch_function(arguments)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the classes of arguments, and modes, answer a call of a function.

    Args:
        public_api: The function that was called.
        relevant_args: The arguments whose classes are asked.
        args: All positional arguments.
        kwargs: All keyword arguments.

    Raises:
        TypeError: None of them answers.
    """
    return _answer(public_api, _C._overriding(tuple(relevant_args)), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """Return a decorator that lets classes answer calls of a function.

    Args:
        dispatcher: Takes the function's arguments and returns those whose classes are asked.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# Subclasses of Tensor ------------------------------------------------------------------------------------------------


@functools.cache
def get_default_nowrap_functions() -> set[Any]:
    """Return the functions whose results Tensor's ``__torch_function__`` leaves as they are."""
    return {_property("grad")}


def _property(name: str) -> Any:
    return getattr(Tensor, name).__get__


def _converted(result: Any, cls: type, args: Any) -> Any:
    """Return a result as an object of a subclass."""
    if isinstance(result, Tensor) and not isinstance(result, cls):
        if any(result is a for a in args):
            return result.as_subclass(cls)
        result.__class__ = cls  # a new tensor, of which nobody else knows
        return result
    if isinstance(result, (tuple, list)):
        items = [_converted(item, cls, args) for item in result]
        return type(result)(items) if hasattr(type(result), "n_fields") or type(result) in (tuple, list) else result
    return result


def default_answer(cls: type, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Any) -> Any:
    """Call a function of objects of ``cls``, and return its result as such an object: ``Tensor.__torch_function__``."""
    if any(map(wraps, types)):
        return dispatch(tuple(types), func, args, kwargs)
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        if cls is Tensor or func in get_default_nowrap_functions():
            return result
        return _converted(result, cls, (*args, *(kwargs or {}).values()))


#: Methods of Tensor that are written in Python and that classes answer: the operators within have other names.
_PYTHON_METHODS = """
    to cpu cuda wgpu type numpy new_tensor nonzero nonzero_static argwhere masked_select unique unique_consecutive
    bincount histogram where equal allclose lu backward register_hook detach_ __deepcopy__ __repr__ __format__
""".split()


def _answered(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        relevant = (*args, *kwargs.values())
        if has_torch_function(relevant):
            return handle_torch_function(wrapped, relevant, *args, **kwargs)
        return function(*args, **kwargs)

    return wrapped


def _answer_python_functions() -> None:
    """Replace the functions that are written in Python in the modules where programs find them."""
    import torchlette
    import torchlette.torch as facade

    later = [name for name, module in vars(torchlette)["_LAZY_NAMES"].items() if module.startswith("_ops.")]
    made: dict[Any, Callable[..., Any]] = {}
    for package in (torchlette, facade):
        for space in (package, package.nn.functional, package.linalg, package.special):
            for name in {*vars(space), *(later if space is package else ())}:
                value = getattr(space, name)
                if name.startswith("_") or not isinstance(value, types.FunctionType) or value in made.values():
                    continue
                if value in made or _takes_tensors(value):
                    setattr(space, name, made.setdefault(value, _answered(value)))


def _takes_tensors(function: types.FunctionType) -> bool:
    return any("Tensor" in str(annotation) for annotation in function.__annotations__.values())


@functools.cache
def enable() -> None:
    """Let classes answer calls: at the first class that does."""
    _C._enable_overrides()
    for name in _PYTHON_METHODS:
        method = getattr(Tensor, name)
        if isinstance(method, types.FunctionType):
            setattr(Tensor, name, _answered(method))
    _answer_python_functions()


# What there is -------------------------------------------------------------------------------------------------------


def is_tensor_like(inp: Any) -> bool:
    """Return whether an object is a tensor or has ``__torch_function__``."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


@functools.cache
def _overridable() -> tuple[dict[Any, list[Any]], dict[Any, str]]:
    import torchlette.torch as facade

    functions: dict[Any, list[Any]] = {}
    names: dict[Any, str] = {}
    spaces = [
        (facade, "torch"),
        (facade.nn.functional, "torch.nn.functional"),
        (facade.nn.init, "torch.nn.init"),
        (facade.linalg, "torch.linalg"),
        (facade.special, "torch.special"),
        (facade.fft, "torch.fft"),
        (Tensor, "torch.Tensor"),
    ]
    ignored = get_ignored_functions()
    for space, prefix in spaces:
        for name in dir(space):
            if name.startswith("_") and (space is not Tensor or not name.endswith("__")) or name == "__weakref__":
                continue
            value = getattr(space, name)
            if space is Tensor and not callable(value) and hasattr(value, "__get__"):
                value, name = value.__get__, f"{name}.__get__"
            function = callable(value) and not isinstance(value, (type, types.ModuleType))
            if not function or getattr(value, "__module__", None) in ("typing", "builtins") or value in ignored:
                continue
            functions.setdefault(space, []).append(value)
            names.setdefault(value, f"{prefix}.{name}")
    for name in _C._where:  # under torchlette the functions are other objects
        core = getattr(_C, name, None)
        if core is not None and callable(core):
            names.setdefault(core, f"torch.{name}")
    return functions, names


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions and methods whose calls a class may answer, by the module or class that has them."""
    return {space: list(functions) for space, functions in _overridable()[0].items()}


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the name by which programs call a function or method of Tensor; None for others."""
    return _overridable()[1].get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function is a method of Tensor, or gets or sets a property."""
    return func in _overridable()[0][Tensor] or getattr(func, "__name__", None) in ("__get__", "__set__")


@functools.cache
def get_ignored_functions() -> set[Any]:
    """Return functions of ``torch`` whose calls no class answers, for they take no tensors."""
    import torchlette.torch as facade

    names = """
        typename is_tensor is_storage set_default_device set_default_dtype get_default_dtype manual_seed seed
        initial_seed get_rng_state set_rng_state save load compile set_printoptions is_grad_enabled set_num_threads
        get_num_threads as_tensor tensor from_numpy zeros ones empty full rand randn randint randperm arange linspace
        logspace eye frombuffer from_dlpack is_inference_mode_enabled use_deterministic_algorithms
        are_deterministic_algorithms_enabled finfo iinfo
    """.split()
    return {getattr(facade, name) for name in names if hasattr(facade, name)}


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return a function that takes anything and gives -1 for each overridable function."""
    return {f: lambda *args, **kwargs: -1 for functions in _overridable()[0].values() for f in functions}
