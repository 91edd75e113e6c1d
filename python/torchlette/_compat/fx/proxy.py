"""Stand-ins for values while a module is traced: what is done with them becomes nodes."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torchlette import _C
from torchlette._compat.fx.node import Argument, Node, Target, map_aggregate
from torchlette._compat.overrides import enable

if TYPE_CHECKING:
    from torchlette._compat.fx.graph import Graph

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """The traced code asked for a value, which does not exist while it is traced."""


class TracerBase:
    """Makes nodes for what is done with proxies."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Append a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """Return the stand-in for a node's result."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Append a node whose arguments are those given, and return its stand-in."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """Return an argument of a node: proxies become nodes.

        Raises:
            NotImplementedError: An object that the code of a graph cannot hold.
        """
        if hasattr(type(a), "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {key: self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        plain = (str, int, float, bool, complex, _C.dtype, _C.Tensor, _C.device, Node)
        if a is None or a is ... or isinstance(a, plain) or type(a).__name__ in ("memory_format", "layout"):
            return a
        if callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Raise: a condition has no value while it is traced."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return the items that an unpacking asks for; raise where the caller does not say how many."""
        import dis

        frame = sys._getframe(2)
        instructions = {i.offset: i for i in dis.get_instructions(frame.f_code)}
        found = instructions.get(frame.f_lasti)
        if found is not None and found.opname == "UNPACK_SEQUENCE":
            item: Any = obj
            return (item[i] for i in range(int(found.arg or 0)))
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument."
        )

    def keys(self, obj: Proxy) -> Any:
        """Return the proxy of ``obj.keys()``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that appends to a graph."""

    def __init__(self, graph: Graph) -> None:
        """Append to ``graph``."""
        self.graph = graph


class Proxy:
    """Stands for the result of a node. Operators, attributes, methods and functions of it append nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        """Stand for ``node``; without a tracer, nodes go to the node's graph."""
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Call the value."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __index__(self) -> int:
        raise TraceError("a traced value cannot be used as an index of Python")

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """Return the proxy of the keys."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Append a node for a call of an operator."""
        found: list[TracerBase] = []
        map_aggregate((args, kwargs or {}), lambda a: found.append(a.tracer) if isinstance(a, Proxy) else None)
        name = getattr(func, "__name__", "")
        if _is_method(func):
            if name == "__get__":  # a property
                return Attribute(args[0], func.__self__.__name__)
            return found[0].create_proxy("call_method", name, args, kwargs or {})
        return found[0].create_proxy("call_function", func, args, kwargs or {})


def _is_method(func: Any) -> bool:
    if getattr(func, "__name__", "") == "__get__":
        return True
    return (
        getattr(func, "__objclass__", None) is _C.Tensor or vars(_C.Tensor).get(getattr(func, "__name__", "")) is func
    )


class Attribute(Proxy):
    """An attribute of a traced value: a method call if it is called at once, else a node of its own."""

    def __init__(self, root: Proxy, attr: str) -> None:
        """Name the attribute."""
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node, made when it is first needed."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Append a call of the method."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose shape may be asked while it is traced."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        """Stand for ``param``."""
        super().__init__(node, tracer)
        self.param, self.name = param, name

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, *args: Any) -> Any:
        """Return the parameter's shape, or one size."""
        return self.param.size(*args)

    def dim(self) -> int:
        """Return the number of dims."""
        return int(self.param.dim())

    ndim = property(dim)

    def numel(self) -> int:
        """Return the number of elements."""
        return int(self.param.numel())


_BINARY = (
    "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul eq ne lt gt le ge getitem iadd isub imul"
).split()
_UNARY = ("neg", "pos", "invert", "abs")


def _install() -> None:
    def direct(function: Callable[..., Any]) -> Callable[..., Proxy]:
        return lambda self, *args: self.tracer.create_proxy("call_function", function, (self, *args), {})

    def reflected(function: Callable[..., Any]) -> Callable[..., Proxy]:
        return lambda self, other: self.tracer.create_proxy("call_function", function, (other, self), {})

    for name in (*_BINARY, *_UNARY):
        function = getattr(operator, name)
        plain = name.rstrip("_")
        setattr(Proxy, f"__{plain}__", direct(function))
        if name in _BINARY[:13]:
            setattr(Proxy, f"__r{plain}__", reflected(function))
    Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


_install()
enable()  # Proxy answers calls of functions that are written in Python too
