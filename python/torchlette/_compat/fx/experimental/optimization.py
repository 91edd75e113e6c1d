"""``torch.fx.experimental.optimization``: passes that make a model's graph smaller for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from torchlette._compat.fx._symbolic_trace import Tracer, symbolic_trace
from torchlette._compat.fx.graph import Graph
from torchlette._compat.fx.graph_module import GraphModule
from torchlette._compat.fx.interpreter import Transformer
from torchlette._compat.fx.node import Node
from torchlette.nn import modules as nn
from torchlette.nn.modules.module import Module
from torchlette.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]

#: The layers that take a batch norm in: their class, the norm's, and the function that makes one layer of both.
_PAIRS: tuple[tuple[type, type, Any], ...] = (
    (nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval),
    (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
    (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
    (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval),
)


def _module_of(node: Any, modules: dict[str, Module]) -> Module | None:
    """Return the module that a node calls, None for other nodes."""
    if not isinstance(node, Node) or node.op != "call_module" or not isinstance(node.target, str):
        return None
    return modules.get(node.target)


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Module]) -> bool:
    """Return whether a node and the one that gives its first argument call modules of two classes.

    Args:
        pattern: The class of the first module, and that of the node's.
        node: The second node.
        modules: Path -> module.
    """
    if not node.args:
        return False
    found = (_module_of(n, modules) for n in (node.args[0], node))
    return all(type(module) is kind for kind, module in zip(pattern, found, strict=False))


def replace_node_module(node: Node, modules: dict[str, Module], new_module: Module) -> None:
    """Put another module in the place of the one that a node calls.

    Args:
        node: A node that calls a module.
        modules: Path -> module, with the parent of each; it is changed too.
        new_module: The other module.
    """
    if not isinstance(node.target, str):
        raise AssertionError(f"Expected str target, got {type(node.target)}")
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """Return a model in evaluation mode with each batch norm folded into the convolution or linear layer before it.

    Layers whose results others read too stay, and so do norms without running statistics.

    Args:
        model: What is traced.
        inplace: Whether its layers may be replaced; else they are copied first.
        no_trace: Whether a :class:`GraphModule` is taken as it is.
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for layer_kind, norm_kind, fused in _PAIRS:
        for node in graph.nodes:
            if not matches_module_pattern((layer_kind, norm_kind), node, modules):
                continue
            before, norm = node.args[0], modules[node.target]
            if len(before.users) > 1 or not norm.track_running_stats:
                continue
            replace_node_module(before, modules, fused(modules[before.target], norm))
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _WithoutDropout(Transformer):
    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(self.submodules[target], nn.Dropout):
            if len(args) != 1:
                raise AssertionError(f"Expected 1 arg for Dropout, got {len(args)}")
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: Module) -> Module:
    """Return a traced model without its ``Dropout`` layers."""
    return _WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Return a module that runs some nodes of a graph.

    Args:
        orig_module: Has the modules and tensors that the nodes name.
        nodes: In the order in which they run.
        inputs: The nodes whose values are the module's arguments.
        outputs: The nodes whose values it returns, as a list.
    """
    graph = Graph()
    copies = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output([copies[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(model: Module, pass_config: dict[str, Any] | None = None, tracer: Any = Tracer) -> Module:
    """Return a model with batch norms folded and without dropout. The engine chooses the layouts of memory by itself.

    Args:
        model: In evaluation mode.
        pass_config: "conv_bn_fuse" and "remove_dropout": whether to, by default both. "mkldnn_layout_optimize" changes
            nothing.
        tracer: Accepted for compatibility.
    """
    chosen = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if chosen["conv_bn_fuse"]:
        model = fuse(model)
    return remove_dropout(model) if chosen["remove_dropout"] else model
