"""What programs use of ``torch._dynamo``: its errors, its settings, graph breaks, and the class of compiled modules.

There is no bytecode analysis: :func:`torchlette.compiler.compile` marks what a function records, on every call.
"""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._compat.compiler import allow_in_graph, assume_constant_result, disable, list_backends, reset
from torchlette._compat.optimized_module import OptimizedModule
from torchlette._runtime.errors import Unsupported
from torchlette._runtime.regions import is_compiling, refuses_reads

from . import config as config
from . import exc as exc

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "reset",
]


def graph_break(msg: str = "") -> None:
    """Mark a place where a value may be read; an error in a function that was compiled with ``fullgraph=True``."""
    if refuses_reads():
        raise Unsupported(f"Call to `torch._dynamo.graph_break()`: {msg or 'the function was compiled as one graph'}")


def mark_dynamic(t: _C.Tensor, index: int | list[int] | tuple[int, ...] | None = None, **bounds: Any) -> None:
    """Do nothing: a size that was not met before costs one more plan."""


maybe_mark_dynamic = mark_static = mark_unbacked = mark_dynamic


def mark_static_address(t: _C.Tensor, guard: bool = False) -> None:
    """Do nothing: no plan holds an address of a tensor."""
