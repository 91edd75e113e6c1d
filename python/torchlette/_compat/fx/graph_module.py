"""Modules whose ``forward`` is the code of a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from typing import Any

from torchlette import _C
from torchlette._compat.fx.graph import Graph
from torchlette.nn.modules.module import Module

__all__ = ["GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_numbers = itertools.count()


class _CodeOnlyModule(Module):
    """A module with a given ``__dict__``, to copy attributes from."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Give a module the attribute of a path of another one; modules on the way are made."""
    *prefix, field = target.split(".")
    for item in prefix:
        source, made = getattr(from_module, item), getattr(to_module, item, None)
        if source is made:
            return  # with all that is in it
        if made is None:
            made = Module()
            setattr(to_module, item, made)
        from_module, to_module = source, made
    _set(to_module, field, getattr(from_module, field), getattr(from_module, "_non_persistent_buffers_set", ()))


def _assign_attr(from_obj: Any, to_module: Any, target: str) -> None:
    """Set the attribute of a path; modules on the way are made."""
    *prefix, field = target.split(".")
    for item in prefix:
        if getattr(to_module, item, None) is None:
            setattr(to_module, item, Module())
        to_module = getattr(to_module, item)
    _set(to_module, field, from_obj, ())


def _set(module: Any, field: str, value: Any, transient: Any) -> None:
    from torchlette.nn.parameter import Parameter

    if isinstance(value, _C.Tensor) and not isinstance(value, Parameter):
        module.register_buffer(field, value, persistent=field not in transient)
    else:
        setattr(module, field, value)


def _compiled(source: str, names: dict[str, Any]) -> Any:
    """Return the function of a text. Tracebacks show its lines."""
    file = f"<torch.fx graph {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = dict(names)
    exec(compile(source, file, "exec"), scope)
    return scope["forward"]


def _made_again(
    body: dict[str, Any], graph: Graph | None, name: str, source: str, names: dict[str, Any]
) -> GraphModule:
    """Unpickle a module: the code is traced again into a graph."""
    from torchlette._compat.fx._symbolic_trace import Tracer

    root = _CodeOnlyModule(body)
    type_of_root = type(name, (_CodeOnlyModule,), {"forward": _compiled(source, names)})
    root.__class__ = type_of_root

    class KeepModules(Tracer):
        """Calls of submodules stay."""

        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    return GraphModule(root, KeepModules().trace(root), name)


class GraphModule(Module):
    """A module made from a graph. Assigning ``graph``, or :meth:`recompile` after changes, makes its code anew."""

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """Make a class of its own for each module: the class has the code."""
        for base in cls.__mro__:
            if base.__name__ == "GraphModuleImpl":
                return Module.__new__(cls)
        return Module.__new__(type("GraphModuleImpl", (cls,), {}))

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        """Take from ``root`` what the graph's nodes refer to.

        Args:
            root: A module, or a dictionary of path -> attribute.
            graph: The graph.
            class_name: The name of the module's class.
        """
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        paths = [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            self.meta = dict(getattr(root, "meta", {}))
            for path in paths:
                _copy_attr(root, self, path)
        else:
            for path in sorted(paths, key=lambda p: p.count(".")):
                if path not in root:
                    raise RuntimeError(
                        f"Node target {path} was referenced in the graph, but it was not provided in ``root``!"
                    )
                _assign_attr(root[path], self, path)
        self.graph = graph
        self._tracer_cls = graph._tracer_cls

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of ``forward``."""
        return self._code

    def recompile(self) -> Any:
        """Make the code of the graph as it is now; return it."""
        made = self._graph.python_code("self")
        self._code, self._names = made.src, made.globals
        type(self).forward = _compiled(made.src, made.globals)
        return made

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """Print the code, and return it."""
        text = f"class {type(self).__name__}(torch.nn.Module):\n" + self.code
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Set the submodule of a path; return whether the path is free of other attributes."""
        *prefix, field = target.split(".")
        place: Any = self
        for item in prefix:
            if not hasattr(place, item):
                setattr(place, item, Module())
            place = getattr(place, item)
            if not isinstance(place, Module):
                return False
        place.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule of a path; return whether there was one."""
        *prefix, field = target.split(".")
        place: Any = self
        for item in prefix:
            place = getattr(place, item, None)
        if not isinstance(getattr(place, field, None), Module):
            return False
        delattr(place, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that no node calls or reads."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[: k + 1]) for k in range(len(parts)))
                if node.op == "call_module":
                    called = self.get_submodule(str(node.target))
                    used.update(f"{node.target}.{name}" for name, _ in called.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def _deepcopy_init(self) -> Any:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self).__mro__[1])
        memo[id(self)] = made
        fake = _CodeOnlyModule(copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "_names"}, memo))
        self._deepcopy_init()(made, fake, fake.__dict__["_graph"], type(self).__name__)
        made.meta = copy.deepcopy(self.meta, memo)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.deepcopy(self.graph), type(self).__name__)
        made.meta = dict(self.meta)
        return made

    def __reduce__(self) -> Any:
        body = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_names", "_tracer_cls")}
        return _made_again, (body, None, type(self).__name__, self._code, _picklable(self._names))

    def __str__(self) -> str:
        return f"{super().__repr__()}\n\n\n\n{self._code}"


class _Modules(dict):  # type: ignore[type-arg]
    """Names of a code; modules among them are pickled by name."""

    def __reduce__(self) -> Any:
        import types

        modules = {k: v.__name__ for k, v in self.items() if isinstance(v, types.ModuleType)}
        return _imported, (modules, {k: v for k, v in self.items() if k not in modules})


def _imported(modules: dict[str, str], others: dict[str, Any]) -> _Modules:
    import importlib

    return _Modules({k: importlib.import_module(v) for k, v in modules.items()} | others)


def _picklable(names: dict[str, Any]) -> _Modules:
    return _Modules(names)
