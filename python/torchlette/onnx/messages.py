"""The messages of an ONNX file: attributes, types, graphs within nodes."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.onnx.tensors import CODES, letter
from torchlette.onnx.wire import Writer

__all__ = ["PARTS", "attribute", "bytes_of", "graph_of", "value_info"]

#: Of a dtype of complex numbers: that of their parts.
PARTS = {_C.complex64: _C.float32, _C.complex128: _C.float64}


def bytes_of(values: Sequence[Any], dtype: _C.dtype) -> bytes:
    """Return numbers as a file has them."""
    if dtype is _C.float16:
        return struct.pack(f"<{len(values)}e", *values)
    if dtype is _C.bfloat16:
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    if dtype is _C.bool:
        return bytes(map(bool, values))
    return array(letter(dtype), values).tobytes()


def graph_of(
    nodes: Sequence[Writer],
    inputs: Sequence[tuple[str, _C.dtype, list[Any]]],
    outputs: Sequence[tuple[str, _C.dtype, list[Any]]],
) -> Writer:
    """Return a graph within a node.

    Args:
        nodes: Its nodes.
        inputs: The names, dtypes and sizes of what it gets.
        outputs: The same of what it gives.
    """
    graph = Writer()
    for node in nodes:
        graph.add_message(1, node)
    graph.add_text(2, "body")
    for number, values in ((11, inputs), (12, outputs)):
        for value in values:
            graph.add_message(number, value_info(*value))
    return graph


def attribute(name: str, value: Any) -> Writer:
    """Return an attribute: a number, a text, a graph, or a list."""
    w = Writer()
    w.add_text(1, name)
    if isinstance(value, Writer):
        w.add_message(6, value)
        w.add_int(20, 5)
        return w
    items = value if isinstance(value, (list, tuple)) else [value]
    first = items[0] if items else 0
    several = isinstance(value, (list, tuple))
    if isinstance(first, str):
        kind, number, add = (8, 9, w.add_text) if several else (3, 4, w.add_text)
    elif isinstance(first, float):
        kind, number, add = (6, 7, w.add_float) if several else (1, 2, w.add_float)
    else:
        kind, number, add = (7, 8, w.add_int) if several else (2, 3, w.add_int)
    for item in items:
        add(number, int(item) if isinstance(item, bool) else item)
    w.add_int(20, kind)
    return w


def value_info(name: str, dtype: _C.dtype, shape: Sequence[Any]) -> Writer:
    """Return the type of a value. Complex numbers are pairs: the last dim has the size 2.

    Args:
        name: The name of the value.
        dtype: Its dtype.
        shape: Its sizes, or the names of sizes.
    """
    dims = Writer()
    for n in shape:
        dim = Writer()
        if isinstance(n, int):
            dim.add_int(1, n)
        elif n.removeprefix("=").isidentifier():
            dim.add_text(2, n.removeprefix("="))
        dims.add_message(1, dim)
    if dtype in PARTS:
        pair = Writer()
        pair.add_int(1, 2)
        dims.add_message(1, pair)
    tensor, kind, info = Writer(), Writer(), Writer()
    tensor.add_int(1, CODES[PARTS.get(dtype, dtype)])
    tensor.add_message(2, dims)
    kind.add_message(1, tensor)
    info.add_text(1, name)
    info.add_message(2, kind)
    return info
