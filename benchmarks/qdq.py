"""Quantized models as ONNX files: residual blocks (QDQ), and linear layers that quantize their inputs in each run."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Channels, and height and width of the picture, of the stages of ResNet-18.
STAGES = ((64, 56), (128, 28), (256, 14), (512, 7))


class Graph:
    """Nodes and tensors of a model that is being written."""

    def __init__(self) -> None:
        """Begin without any."""
        import onnx
        from onnx import helper, numpy_helper

        self.onnx, self.helper, self.numpy = onnx, helper, numpy_helper
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

    def dynamic(self, name: str, x: str, shape: tuple[int, int], most: int) -> str:
        """Multiply by random weights of int8, and add a bias; x is quantized in each run."""
        numbers, step, zero = (f"{x}_{n}" for n in ("numbers", "step", "zero"))
        self.nodes.append(self.helper.make_node("DynamicQuantizeLinear", [x], [numbers, step, zero]))
        weight = np.clip(np.round(self.rng.normal(size=shape) * most / 4), -most, most).astype(np.int8)
        parts = self.tensor(f"{name}_w", weight), zero, self.tensor(f"{name}_zero", np.int8(0))
        sums = self.node("MatMulInteger", f"{name}_sums", numbers, *parts)
        factor = self.node("Mul", f"{name}_factor", step, self.tensor(f"{name}_scale", np.float32(0.16 / most)))
        scaled = self.node("Mul", f"{name}_scaled", self.node("Cast", f"{name}_floats", sums, to=1), factor)
        return self.node(
            "Add", name, scaled, self.tensor(f"{name}_b", self.rng.normal(size=shape[1]).astype(np.float32))
        )

    def model(self, shape: list[int], y: str) -> bytes:
        """Return the file of the nodes between x, of this shape, and y."""
        kinds = (("x", shape), (y, None))
        values = [self.helper.make_tensor_value_info(n, self.onnx.TensorProto.FLOAT, s) for n, s in kinds]
        graph = self.helper.make_graph(self.nodes, "graph", values[:1], values[1:], self.tensors)
        model = self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 17)], ir_version=8)
        text: bytes = model.SerializeToString()
        return text


def blocks(channels: int, size: int) -> bytes:
    """Return a model of two residual blocks."""
    g = Graph()
    x, scale = g.quantized("x", 0.02, 120), 0.02
    for i in range(2):
        y = g.quantized(g.node("Relu", f"a{i}_relu", g.convolution(f"a{i}", x, scale, channels)), 0.02, 0)
        y = g.quantized(g.convolution(f"b{i}", y, 0.02, channels), 0.04, 128)
        x, scale = g.quantized(g.node("Relu", f"c{i}", g.node("Add", f"sum{i}", x, y)), 0.03, 0), 0.03
    return g.model([1, channels, size, size], x)


def layers(rows: int, width: int, inner: int, most: int) -> bytes:
    """Return a model of two linear layers with GELU between, as onnxruntime's quantize_dynamic writes them.

    Args:
        rows: Of the input.
        width: Of a row.
        inner: Of a row between the layers.
        most: The greatest magnitude of weights: 64 with reduce_range, else 127.
    """
    g = Graph()
    y = g.dynamic("a", "x", (width, inner), most)
    root, one, half = (g.tensor(n, np.float32(v)) for n, v in (("root", 2**0.5), ("one", 1), ("half", 0.5)))
    gate = g.node("Add", "gate", g.node("Erf", "erf", g.node("Div", "part", y, root)), one)
    y = g.node("Mul", "gelu", g.node("Mul", "gated", y, gate), half)
    return g.model([1, rows, width], g.dynamic("b", y, (inner, width), most))
