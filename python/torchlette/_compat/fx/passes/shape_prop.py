"""Shapes of a graph's values, found by running it."""

from __future__ import annotations

from typing import Any, NamedTuple

from torchlette import _C
from torchlette._compat.fx.interpreter import Interpreter
from torchlette._compat.fx.node import Node
from torchlette._ops.memory_format import contiguous_format
from torchlette.utils._pytree import tree_leaves, tree_map_only

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What :class:`ShapeProp` notes of a tensor."""

    shape: _C.Size
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _described(t: Any) -> TensorMetadata:
    memory_format = contiguous_format if t.is_contiguous() else None
    return TensorMetadata(t.shape, t.dtype, t.requires_grad, tuple(t.stride()), memory_format, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and notes in each node's ``meta`` what its value is: ``tensor_meta``, and the Python type."""

    def run_node(self, n: Node) -> Any:
        """Run a node and note what its value is."""
        result = super().run_node(n)
        if any(isinstance(t, _C.Tensor) for t in tree_leaves(result)):
            n.meta["tensor_meta"] = tree_map_only(_C.Tensor, _described, result)
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on the arguments and return its result."""
        return super().run(*args)
