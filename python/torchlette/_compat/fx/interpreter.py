"""Running a graph node by node, for programs that look at each value or change what each node does."""

from __future__ import annotations

from typing import Any

from torchlette._compat.fx._symbolic_trace import Tracer
from torchlette._compat.fx.graph import Graph
from torchlette._compat.fx.graph_module import GraphModule
from torchlette._compat.fx.node import Node, map_arg
from torchlette._compat.fx.proxy import Proxy
from torchlette.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a module's graph; subclasses override the method of a kind of node."""

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        """Run ``module``.

        Args:
            module: A :class:`GraphModule`, or the module of ``graph``.
            garbage_collect_values: Whether a value is dropped after its last use.
            graph: The graph; None: the module's.
        """
        self.module, self.graph = module, graph if graph is not None else module.graph
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.garbage_collect_values = garbage_collect_values
        last = {used: node for node in self.graph.nodes for used in node.all_input_nodes}
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        for used, node in last.items():
            self.user_to_last_uses.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Return the graph's result for arguments.

        Args:
            args: For the placeholders, in order.
            initial_env: Values of nodes that do not run.
            enable_io_processing: Accepted for compatibility.
        """
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            for used in self.user_to_last_uses.get(node, ()) if self.garbage_collect_values else ():
                self.env.pop(used, None)
            if node.op == "output":
                return self.env[node]
        return None

    def run_node(self, n: Node) -> Any:
        """Return the value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the next argument, or its default."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a method of the first argument."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return the attribute of a path."""
        found: Any = self.module
        for part in target.split("."):
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Any, Any]:
        """Return a node's arguments with values in place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return arguments with values in place of nodes."""
        return map_arg(args, lambda node: self.env[node])


class Transformer(Interpreter):
    """Runs a graph on proxies, and so makes a new one; subclasses override the method of a kind of node."""

    def __init__(self, module: GraphModule) -> None:
        """Transform ``module``."""
        super().__init__(module)
        self.new_graph = Graph()

        class Appending(Tracer):
            """Appends to the new graph, into no submodule."""

            def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
                return True

        self.tracer = Appending()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Append the argument."""
        return Proxy(self.new_graph.placeholder(target, default_value=args[0] if args else ...), self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Append the attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Append the call of a submodule."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Append the call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return a module of the new graph."""
        result = super().run()
        if result is not None:
            self.new_graph.output(map_arg_of_proxies(result))
        return GraphModule(self.module, self.new_graph)


def map_arg_of_proxies(value: Any) -> Any:
    """Return nested arguments with nodes in place of proxies."""
    from torchlette._compat.fx.node import map_aggregate

    return map_aggregate(value, lambda a: a.node if isinstance(a, Proxy) else a)
