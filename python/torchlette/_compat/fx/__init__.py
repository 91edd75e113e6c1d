"""Graphs of Python calls, as PyTorch's ``torch.fx``: traced from a module, changed by a program, and run as Python.

:func:`symbolic_trace` calls a module with :class:`Proxy` objects and records what is called on them in a
:class:`Graph`. A :class:`GraphModule` is a module whose ``forward`` is Python code made from a graph. The engine knows
nothing of it: it records and compiles what that code calls.
"""

from __future__ import annotations

from torchlette._compat.fx._symbolic_trace import (
    PH,
    ProxyableClassMeta,
    Tracer,
    symbolic_trace,
    wrap,
)
from torchlette._compat.fx.graph import CodeGen, Graph, PythonCode
from torchlette._compat.fx.graph_module import GraphModule
from torchlette._compat.fx.interpreter import Interpreter, Transformer
from torchlette._compat.fx.node import Node, has_side_effect, map_arg
from torchlette._compat.fx.proxy import Proxy
from torchlette._compat.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "PythonCode",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
