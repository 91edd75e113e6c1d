"""Quantized residual blocks as ONNX files: QuantizeLinear and DequantizeLinear around each convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Channels, and height and width of the picture, of the stages of ResNet-18.
STAGES = ((64, 56), (128, 28), (256, 14), (512, 7))


class Graph:
    """Nodes and tensors of a model that is being written."""

    def __init__(self) -> None:
        """Begin without any."""
        from onnx import helper, numpy_helper

        self.helper, self.numpy = helper, numpy_helper
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.rng = np.random.default_rng(0)

    def node(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result, and return its name."""
        self.nodes.append(self.helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def tensor(self, name: str, value: Any) -> str:
        """Add a constant, and return its name."""
        self.tensors.append(self.numpy.from_array(np.asarray(value), name))
        return name

    def quantized(self, x: str, scale: float, zero: int) -> str:
        """Quantize to uint8, and return the name of the floats that the numbers stand for."""
        steps = self.tensor(f"{x}_scale", np.float32(scale)), self.tensor(f"{x}_zero", np.uint8(zero))
        numbers = self.node("QuantizeLinear", f"{x}_numbers", x, *steps)
        return self.node("DequantizeLinear", f"{x}_floats", numbers, *steps)

    def weights(self, name: str, values: Any, scale: Any) -> str:
        """Add numbers with a scale for each output, and return the name of the floats that they stand for."""
        zeros = self.tensor(f"{name}_zero", np.zeros(len(scale), values.dtype))
        parts = self.tensor(f"{name}_numbers", values), self.tensor(f"{name}_scale", scale), zeros
        return self.node("DequantizeLinear", name, *parts, axis=0)

    def convolution(self, name: str, x: str, scale: float, channels: int) -> str:
        """Convolve by 3x3 random weights of int8."""
        steps = self.rng.uniform(0.0005, 0.0015, channels).astype(np.float32)
        numbers = self.rng.integers(-127, 128, (channels, channels, 3, 3)).astype(np.int8)
        bias = self.rng.integers(-2000, 2000, channels).astype(np.int32)
        parts = self.weights(f"{name}_w", numbers, steps), self.weights(f"{name}_b", bias, steps * np.float32(scale))
        return self.node("Conv", name, x, *parts, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def blocks(channels: int, size: int) -> bytes:
    """Return a model of two residual blocks."""
    from onnx import TensorProto

    g = Graph()
    x, scale = g.quantized("x", 0.02, 120), 0.02
    for i in range(2):
        y = g.quantized(g.node("Relu", f"a{i}_relu", g.convolution(f"a{i}", x, scale, channels)), 0.02, 0)
        y = g.quantized(g.convolution(f"b{i}", y, 0.02, channels), 0.04, 128)
        x, scale = g.quantized(g.node("Relu", f"c{i}", g.node("Add", f"sum{i}", x, y)), 0.03, 0), 0.03
    ports = (("x", [1, channels, size, size]), (x, None))
    values = [g.helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports]
    graph = g.helper.make_graph(g.nodes, "blocks", values[:1], values[1:], g.tensors)
    model = g.helper.make_model(graph, opset_imports=[g.helper.make_opsetid("", 17)], ir_version=8)
    text: bytes = model.SerializeToString()
    return text
