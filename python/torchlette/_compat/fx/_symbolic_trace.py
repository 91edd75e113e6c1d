"""Tracing: a module is called with proxies, and what it calls on them becomes a graph."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torchlette import _C
from torchlette._compat.fx.graph import Graph
from torchlette._compat.fx.graph_module import GraphModule
from torchlette._compat.fx.node import Argument, map_aggregate
from torchlette._compat.fx.proxy import ParameterProxy, Proxy, TracerBase
from torchlette.nn.modules.module import Module

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]


class _Placeholder:
    def __repr__(self) -> str:
        return "PH"


#: In ``concrete_args``: an argument that is traced.
PH = _Placeholder()

#: (id of a module's globals, name) -> the globals: functions whose calls become nodes.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Let calls of a function of the calling module become nodes, so that tracing does not look into it.

    Args:
        fn_or_name: The function, as a decorator, or its name, also of a built-in function.
    """
    name = fn_or_name if isinstance(fn_or_name, str) else getattr(fn_or_name, "__name__", None)
    if name is None:
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


class ProxyableClassMeta(type):
    """The class of a class whose construction from proxies is traced through."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object, or record that it is made."""
        made = super().__call__(*args, **kwargs)
        found = _proxies((args, kwargs))
        return found[0].tracer.create_proxy("call_function", cls, args, kwargs) if found else made


def _proxies(values: Any) -> list[Proxy]:
    found: list[Proxy] = []
    map_aggregate(values, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that records a call with proxies as one node."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = _proxies((args, kwargs))
        if found:
            return found[0].tracer.create_proxy("call_function", function, args, kwargs)
        return function(*args, **kwargs)

    return wrapped


@contextmanager
def _replaced(place: dict[str, Any], name: str, value: Any) -> Iterator[None]:
    absent = object()
    before = place.get(name, absent)
    place[name] = value
    try:
        yield
    finally:
        if before is absent:
            place.pop(name, None)
        else:
            place[name] = before


class Tracer(TracerBase):
    """Traces modules. Submodules of ``torch.nn`` are leaves: one node each. Subclasses change what is a leaf."""

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        """Record calls of the functions of some modules, and of some functions, as nodes.

        Args:
            autowrap_modules: Modules, whose functions become nodes.
            autowrap_functions: Functions, found in the globals of the traced function.
            param_shapes_constant: Whether the shape of a parameter is a constant of the graph.
        """
        self._autowrap_modules = tuple(autowrap_modules)
        self._autowrap_functions = set(autowrap_functions)
        for module in autowrap_modules:
            names = [n for n in dir(module) if not n.startswith("_")]
            self._autowrap_functions.update(f for n in names if callable(f := getattr(module, n)))
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.tensor_attrs: dict[Any, str] = {}
        self._constants: dict[int, str] = {}

    # What subclasses change --------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether calls of a submodule become one node: those of ``torch.nn`` but containers."""
        library = m.__module__.startswith(("torchlette.nn", "torchlette.torch.nn", "torch.nn"))
        return library and type(m).__name__ != "Sequential"

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a submodule of the root.

        Raises:
            NameError: It is not installed as a submodule.
        """
        if self.submodule_paths is not None and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a leaf, or call ``forward`` to trace into the submodule."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def create_arg(self, a: Any) -> Argument:
        """Return an argument of a node: parameters, buffers and other tensors become attributes of the root."""
        if isinstance(a, _C.Tensor):
            path = self._path_of_tensor(a)
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _path_of_tensor(self, a: _C.Tensor) -> str:
        for name, parameter in (*self.root.named_parameters(), *self.root.named_buffers()):
            if a is parameter:
                return name
        path = self.tensor_attrs.get(id(a)) or self._constants.get(id(a))
        if path is None:
            count = 0
            while hasattr(self.root, f"_tensor_constant{count}"):
                count += 1
            path = self._constants[id(a)] = f"_tensor_constant{count}"
            setattr(self.root, path, a)
        return path

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return what an attribute of a module gives while it is traced: a proxy for a parameter."""
        if isinstance(attr_val, _C.Tensor):
            wanted = _is_parameter(attr_val) or self.proxy_buffer_attributes
            for name, parameter in (*self.root.named_parameters(), *self.root.named_buffers()):
                if attr_val is parameter and wanted:
                    if name not in parameter_proxy_cache:
                        factory = None
                        if self.param_shapes_constant:
                            factory = lambda node, n=name, p=attr_val: ParameterProxy(self, node, n, p)  # noqa: E731
                        parameter_proxy_cache[name] = self.create_proxy(
                            "get_attr", name, (), {}, proxy_factory_fn=factory
                        )
                    return parameter_proxy_cache[name]
        return attr_val

    # Tracing -----------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return the function to trace and its arguments: proxies, or the values of ``concrete_args``."""
        fn, concrete = inspect.unwrap(root_fn), concrete_args or {}
        args: list[Any] = [self.root] if is_module else []
        kwargs: dict[str, Any] = {}
        parameters = list(inspect.signature(fn).parameters.values())
        for p in parameters[1:] if is_module else parameters:
            if p.name in concrete and concrete[p.name] is not PH:
                if p.kind is p.KEYWORD_ONLY:
                    kwargs[p.name] = concrete[p.name]
                else:
                    args.append(concrete[p.name])
                continue
            stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            default = () if p.default is p.empty or stars else (p.default,)
            kind = None if p.annotation is p.empty else p.annotation
            made = self.create_proxy("placeholder", stars + p.name, default, {}, name=p.name, type_expr=kind)
            if p.kind is p.VAR_POSITIONAL:
                kwargs[stars] = made
            elif p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD):
                kwargs[p.name if not stars else stars] = made
            else:
                args.append(made)
        spread, named = kwargs.pop("*", None), kwargs.pop("**", None)
        if spread is None and named is None and not kwargs:
            return root_fn, args

        def call(*given: Any) -> Any:
            return fn(*given, *((spread,) if spread is not None else ()), **kwargs, **({} if named is None else {}))

        return call, args

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Return the graph of a module or function.

        Args:
            root: What is called. ``self.root`` becomes the module, for a function one without contents.
            concrete_args: Values of arguments by name, which become constants of the graph.
        """
        if isinstance(root, Module):
            self.root = root
            function = getattr(type(root), self.traced_func_name)
            self.submodule_paths = {module: path for path, module in root.named_modules()}
        else:
            self.root, function, self.submodule_paths = Module(), root, {}
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {}
        self._constants = {}
        for path, module in self.root.named_modules():
            for key, value in vars(module).items():
                if isinstance(value, _C.Tensor):
                    self.tensor_attrs[id(value)] = f"{path}.{key}".lstrip(".")
        fn, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with ExitStack() as patches:
            self._patch(patches, getattr(inspect.unwrap(function), "__globals__", {}))
            result = fn(*args)
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=None)
        self.submodule_paths = None
        return self.graph

    def _patch(self, patches: ExitStack, module_globals: dict[str, Any]) -> None:
        """Until the patches are undone, let modules, their parameters, and recorded functions make nodes."""
        parameters: dict[str, Any] = {}
        call, attribute = Module.__call__, Module.__getattribute__

        def traced_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        def traced_attribute(module: Module, name: str) -> Any:
            value = attribute(module, name)
            return self.getattr(name, value, parameters) if isinstance(value, _C.Tensor) else value

        for name, value in (("__call__", traced_call), ("__getattribute__", traced_attribute)):
            patches.callback(_restore_attribute(Module, name))
            setattr(Module, name, value)
        for (_, name), table in list(_wrapped.items()):
            found = table.get(name, getattr(builtins, name, None))
            if found is not None:
                patches.enter_context(_replaced(table, name, _recording(found)))
        for name, value in list(module_globals.items()):
            if callable(value) and _hashed(value) and value in self._autowrap_functions:
                patches.enter_context(_replaced(module_globals, name, _recording(value)))
        for module in self._autowrap_modules:
            for name, value in list(vars(module).items()):
                if callable(value) and not name.startswith("_"):
                    patches.enter_context(_replaced(vars(module), name, _recording(value)))


def _hashed(value: Any) -> bool:
    return type(value).__hash__ is not None


def _is_parameter(t: _C.Tensor) -> bool:
    from torchlette.nn.parameter import Parameter

    return isinstance(t, Parameter)


def _restore_attribute(cls: type, name: str) -> Callable[[], None]:
    own, before = name in vars(cls), vars(cls).get(name)
    return lambda: setattr(cls, name, before) if own else delattr(cls, name)


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Return a module that does what a module or function does, with a graph of its calls.

    Args:
        root: What is traced; it is called once, with proxies.
        concrete_args: Values of arguments by name, which become constants.

    Raises:
        TraceError: The code asks for a value, as ``if x.sum() > 0`` does.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, Module) else root.__name__)
