"""Pickles that contain the program's own functions and classes.

A pickle names a function by its module, so that a spawned process runs the program again to import it: its prints, its
training, its loaders. A forked process, as PyTorch's workers on Linux are, has the functions already. Here they travel
by value: code, defaults, closures, and the global names that the code reads. So scripts without
``if __name__ == "__main__":``, notebooks, lambdas and local classes work in workers.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import io
import marshal
import pickle
import sys
import types
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, TypeVar

__all__ = ["ByValue"]

#: Objects of ``dataclasses`` that are compared by identity.
_SENTINELS = {
    id(value): name
    for name, value in vars(dataclasses).items()
    if type(value).__name__ in ("_MISSING_TYPE", "_FIELD_BASE", "_KW_ONLY_TYPE", "_HAS_DEFAULT_FACTORY_CLASS")
}
#: What a class gets by being made.
_MADE = frozenset("__dict__ __weakref__ __module__ __qualname__ __slots__ _abc_impl __firstlineno__".split())
_HEAP_TYPE = 1 << 9
_MAIN = ("__main__", "__mp_main__")


class ByValue:
    """An object that is pickled with the functions and classes of the program that it refers to."""

    def __init__(self, value: Any) -> None:
        """Hold the object."""
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        out = io.BytesIO()
        _Pickler(out, pickle.HIGHEST_PROTOCOL).dump(self.value)
        as_torch = any(type(finder).__name__ == "TorchFinder" for finder in sys.meta_path)
        return _load, (out.getvalue(), as_torch)


def _load(data: bytes, as_torch: bool) -> ByValue:
    if as_torch:
        from torchlette.as_torch import activate

        activate()
    return ByValue(pickle.loads(data))


def _importable(thing: Any) -> bool:
    """Return whether another process finds a function or class by its name."""
    if thing.__module__ in (None, *_MAIN):
        return False
    found: Any = sys.modules.get(thing.__module__)
    for part in thing.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is thing


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a code object and those inside it may read from their globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class _Pickler(ForkingPickler):
    """Pickles by value what :func:`_importable` refuses."""

    def reducer_override(self, thing: Any) -> Any:
        """Return how an object is made again; NotImplemented: as usual."""
        if isinstance(thing, FunctionType):
            return NotImplemented if _importable(thing) else _reduced_function(thing)
        if isinstance(thing, type):
            if _importable(thing) or not thing.__flags__ & _HEAP_TYPE:
                return NotImplemented
            return _reduced_class(thing)
        reduce = _REDUCERS.get(type(thing))
        if reduce is not None:
            return reduce(thing)
        if id(thing) in _SENTINELS:
            return getattr, (dataclasses, _SENTINELS[id(thing)])
        return NotImplemented


def _reduced_cell(cell: CellType) -> tuple[Any, ...]:
    try:
        return _empty_cell, (), (cell.cell_contents,), None, None, _fill_cell
    except ValueError:
        return _empty_cell, ()


def _empty_cell() -> CellType:
    return CellType()


def _fill_cell(cell: CellType, state: tuple[Any]) -> None:
    (cell.cell_contents,) = state


_REDUCERS: dict[type, Any] = {
    CellType: _reduced_cell,
    TypeVar: lambda t: (
        _type_variable,
        (t.__module__, t.__name__, t.__constraints__, t.__bound__, t.__covariant__, t.__contravariant__),
    ),
    ModuleType: lambda m: (importlib.import_module, ("__main__" if m.__name__ in _MAIN else m.__name__,)),
    MappingProxyType: lambda m: (_read_only, (dict(m),)),
    staticmethod: lambda f: (staticmethod, (f.__func__,)),
    classmethod: lambda f: (classmethod, (f.__func__,)),
    property: lambda p: (property, (p.fget, p.fset, p.fdel, p.__doc__)),
    functools.cached_property: lambda p: (_cached_property, (p.func, p.attrname)),
    type(functools.lru_cache(_importable)): lambda f: (_cached_function, (f.__wrapped__, f.cache_parameters())),
}


def _type_variable(module: str, name: str, constraints: Any, bound: Any, up: bool, down: bool) -> Any:
    found = getattr(sys.modules.get(module), name, None)
    if type(found) is TypeVar:
        return found
    made = TypeVar(name, *constraints, bound=bound, covariant=up, contravariant=down)  # type: ignore[misc]
    vars(sys.modules["__main__"]).setdefault(name, made)
    return made


def _read_only(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(items)


def _cached_property(function: Any, name: str | None) -> Any:
    made: Any = functools.cached_property(function)
    made.attrname = name
    return made


def _cached_function(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduced_function(f: FunctionType) -> tuple[Any, ...]:
    read = {name: f.__globals__[name] for name in dict.fromkeys(_names(f.__code__)) if name in f.__globals__}
    state = {
        "__defaults__": f.__defaults__,
        "__kwdefaults__": f.__kwdefaults__,
        "__annotations__": f.__annotations__,
        "__doc__": f.__doc__,
        "__qualname__": f.__qualname__,
        "__module__": f.__module__,
    }
    key = None if f.__globals__.get("__name__") in _MAIN else id(f.__globals__)
    made = (marshal.dumps(f.__code__), f.__name__, key, f.__closure__)
    return _make_function, made, (read, state, dict(f.__dict__)), None, None, _fill_function


#: Globals of functions that are of no module, by a number of the sending process.
_globals: dict[int, dict[str, Any]] = {}


def _make_function(code: bytes, name: str, key: int | None, closure: tuple[CellType, ...] | None) -> FunctionType:
    if key is None:
        scope = vars(sys.modules["__main__"])
    else:
        scope = _globals.setdefault(key, {"__builtins__": __builtins__})
    return FunctionType(marshal.loads(code), scope, name, None, closure)


def _fill_function(f: FunctionType, state: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]) -> None:
    read, attributes, more = state
    for name, value in read.items():
        f.__globals__.setdefault(name, value)
    for name, value in attributes.items():
        setattr(f, name, value)
    f.__dict__.update(more)
    _publish(f)


def _publish(thing: Any) -> None:
    """Let the pickles that go back find a function or class of the program by its name."""
    if thing.__module__ == "__main__" and thing.__qualname__.isidentifier():
        vars(sys.modules["__main__"]).setdefault(thing.__name__, thing)


def _reduced_class(cls: Any) -> tuple[Any, ...]:
    module = "__main__" if cls.__module__ in _MAIN else cls.__module__
    space = {"__module__": module, "__qualname__": cls.__qualname__}
    own = {name: value for name, value in vars(cls).items() if name not in _MADE}
    if isinstance(cls, enum.EnumType):
        every: dict[str, Any] = dict(cls.__members__)
        members = {name: member.value for name, member in every.items()}
        kept = (FunctionType, staticmethod, classmethod, property)
        own = {
            name: value
            for name, value in own.items()
            if isinstance(value, kept) and name not in ("__new__", "_generate_next_value_", "__reduce_ex__")
        }
        return _make_enum, (type(cls), cls.__name__, cls.__bases__, space, members), own, None, None, _fill_class
    space |= {name: vars(cls)[name] for name in ("__slots__", "__orig_bases__") if name in vars(cls)}
    own = {name: value for name, value in own.items() if not isinstance(value, types.MemberDescriptorType)}
    return _make_class, (type(cls), cls.__name__, cls.__bases__, space), own, None, None, _fill_class


def _make_class(kind: type, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
    made: type = types.new_class(name, bases, {"metaclass": kind}, lambda ns: ns.update(space))
    _publish(made)
    return made


def _make_enum(kind: Any, name: str, bases: tuple[type, ...], space: dict[str, Any], members: dict[str, Any]) -> type:
    scope = kind.__prepare__(name, bases)
    for key, value in (space | members).items():
        scope[key] = value
    made: type = kind(name, bases, scope)
    _publish(made)
    return made


def _fill_class(cls: type, own: dict[str, Any]) -> None:
    for name, value in own.items():
        setattr(cls, name, value)
