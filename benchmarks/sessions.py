"""Inference sessions beside onnxruntime with bound buffers, and beside ``torch.compile``.

``python benchmarks/sessions.py [--record] [NAME ...]`` prints a row for each model whose name contains one of the given
texts, and for each rival, on 2 threads. Ratios below 1 say that torchlette is faster. All sides have the same weights,
and read and write arrays in place. ``python benchmarks/sessions.py memory`` prints the memory of sessions instead: see
``session_memory.py``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("TORCHLETTE_NUM_THREADS", "2")
os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np  # noqa: E402
import qdq  # noqa: E402
import session_memory  # noqa: E402
import torch  # noqa: E402
from measure import Row, main, race, rest  # noqa: E402
from nets import NETS, layer, onnxruntime_session, our_session  # noqa: E402

import torchlette  # noqa: E402

Model = Callable[[Any], Any]


def mlp(width: int) -> Model:
    """Three linear layers with ReLU between."""

    def make(lib: Any) -> Any:
        linear, relu = lib.nn.Linear, lib.nn.ReLU
        return lib.nn.Sequential(linear(width, width), relu(), linear(width, width), relu(), linear(width, width))

    return make


def block(width: int, fused: bool, heads: int = 4) -> Model:
    """A transformer's layer; its attention is written out, or scaled_dot_product_attention."""

    def make(lib: Any) -> Any:
        def naive(q: Any, k: Any, v: Any) -> Any:
            return ((q @ k.transpose(-2, -1)) / (width // heads) ** 0.5).softmax(-1) @ v

        return layer(lib, width, heads, lib.nn.functional.scaled_dot_product_attention if fused else naive)

    return make


def convolution(inputs: int, outputs: int, size: int, stride: int, groups: int) -> Model:
    """A convolution with batch norm and ReLU6, as MobileNetV2 has them."""

    def make(lib: Any) -> Any:
        conv = lib.nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return lib.nn.Sequential(conv, lib.nn.BatchNorm2d(outputs), lib.nn.ReLU6())

    return make


def rotary(length: int, width: int, spelling: str) -> Model:
    """Rotary positions of heads that lie behind their positions: of halves (Llama), or of neighbours (GPT-J)."""

    def make(lib: Any) -> Any:
        class Turn(lib.nn.Module):  # type: ignore[misc,name-defined]  # a class of either library
            def __init__(self) -> None:
                super().__init__()
                table = lib.arange(length).float()[:, None] / 100.0 ** (lib.arange(width // 2) / width)
                table = lib.cat((table, table), -1) if spelling == "halves" else table.repeat_interleave(2, -1)
                self.register_buffer("cos", table.cos())
                self.register_buffer("sin", table.sin())

            def forward(self, x: Any) -> Any:
                x, n = x.transpose(1, 2), width // 2
                if spelling == "halves":
                    return x * self.cos + lib.cat((-x[..., n:], x[..., :n]), -1) * self.sin
                return x * self.cos + lib.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * self.sin

        return Turn()

    return make


# Inputs, outputs, size of the kernel, stride, groups, height and width of the image: of MobileNetV2, then of ResNet-18.
CONVOLUTIONS = (
    *((3, 32, 3, 2, 1, 224), (16, 96, 1, 1, 1, 112), (24, 144, 1, 1, 1, 56), (144, 24, 1, 1, 1, 56)),
    *((32, 192, 1, 1, 1, 28), (64, 384, 1, 1, 1, 14), (576, 96, 1, 1, 1, 14), (960, 160, 1, 1, 1, 7)),
    *((96, 96, 3, 2, 96, 112), (144, 144, 3, 1, 144, 56), (384, 384, 3, 1, 384, 14), (960, 960, 3, 1, 960, 7)),
    *((3, 64, 7, 2, 1, 224), (64, 64, 3, 1, 1, 56), (64, 128, 3, 2, 1, 56), (128, 128, 3, 1, 1, 28)),
    *((256, 256, 3, 1, 1, 14), (512, 512, 3, 1, 1, 7)),
)


def convolutions() -> Iterable[tuple[str, Model, tuple[int, ...]]]:
    """Give the rows of single convolutions: name, model, shape of the input."""
    for inputs, outputs, size, stride, groups, image in CONVOLUTIONS:
        channels = f"{inputs} to {outputs}" if groups == 1 else f"depthwise {outputs}"
        name = f"conv {channels}, {size}x{size} by {stride}, {image}x{image}"
        yield name, convolution(inputs, outputs, size, stride, groups), (1, inputs, image, image)


def models() -> Iterable[tuple[str, Model, np.ndarray[Any, Any], int]]:
    """Give the rows: name, model, input, calls to time together."""
    rng = np.random.default_rng(0)
    for name, model, shape in shapes():
        calls = max(1, 200_000 // max(1, int(np.prod(shape)) * shape[-1] // 64))
        yield name, model, rng.normal(size=shape).astype("float32"), calls
    for name, model, shape in convolutions():
        yield name, model, rng.normal(size=shape).astype("float32"), 10
    for name, (model, make) in NETS.items():
        yield name, model, make(rng), 1


def shapes() -> Iterable[tuple[str, Model, tuple[int, ...]]]:
    """Give the rows of small models: name, model, shape of the input."""
    for rows, width in ((1, 512), (32, 512), (128, 512), (1, 2048), (32, 2048)):
        yield f"MLP {rows}x{width}", mlp(width), (rows, width)
    for batch, length, width in ((1, 16, 64), (4, 16, 64), (4, 64, 128), (4, 128, 256)):
        for fused in (False, True):
            name = f"block {batch}x{length}x{width}, {'sdpa' if fused else 'naive'}"
            yield name, block(width, fused), (batch, length, width)
    for heads, length, width in ((32, 1, 128), (12, 128, 64), (32, 512, 64)):
        for spelling in ("halves", "neighbours"):
            name = f"rotary positions {heads}x{length}x{width}, {spelling}"
            yield name, rotary(length, width, spelling), (1, length, heads, width)
    yield "a call: 1 row of 4", lambda lib: lib.nn.Sequential(lib.nn.Linear(4, 4)), (1, 4)


def ours(model: Model, weights: dict[str, Any], x: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """Return a run of our session with bound arrays."""
    session = our_session(model, weights, x, threads=2)
    binding = session.io_binding()
    binding.bind_input(session.get_inputs()[0].name, x)
    run = session.run_with_iobinding
    run(binding)
    return lambda: run(binding)


def onnxruntime(model: Any, x: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """Return a run of onnxruntime's session with bound arrays."""
    session = onnxruntime_session(model, x, threads=2)
    ort: Any = importlib.import_module("onnxruntime")
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, x)
    with torch.no_grad():
        y = model(torch.from_numpy(x)).numpy()
    binding.bind_ortvalue_output(session.get_outputs()[0].name, ort.OrtValue.ortvalue_from_numpy(np.zeros_like(y)))
    return lambda: session.run_with_iobinding(binding)


def compiled(model: Any, x: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """Return a call of PyTorch's compiled module, with frozen weights."""
    t = torch.from_numpy(x)
    fn = torch.compile(model, options={"freezing": True})

    def run() -> Any:
        with torch.no_grad():
            return fn(t)

    run()
    return run


def rows(names: Iterable[str] = ()) -> Iterable[Row]:
    """Race the rows whose names contain one of the texts; without texts, all."""
    rivals: dict[str, Callable[[Any, np.ndarray[Any, Any]], Callable[[], Any]]] = {"torch.compile": compiled}
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        rivals = {"onnxruntime": onnxruntime, **rivals}
    torch.set_num_threads(2)
    if "onnxruntime" in rivals:
        yield from quantized(names)
        yield from dynamic(names)
    for name, model, x, calls in models():
        if names and not any(n in name for n in names):
            continue
        torch.manual_seed(0)
        reference = model(torch).eval()
        mine = ours(model, reference.state_dict(), x)
        for rival, make in rivals.items():
            try:
                theirs = make(reference, x)
            except Exception as exc:  # torch.compile needs a C++ compiler
                print(f"{name}, to {rival}: {type(exc).__name__}")
                continue
            repeat = [_repeated(f, calls) for f in (mine, theirs)]
            a, b = race(*repeat, rounds=15, before=rest)
            yield Row(f"{name}, to {rival}", a / calls, b / calls)


def quantized(names: Iterable[str] = ()) -> Iterable[Row]:
    """Race quantized blocks of ResNet-18 with onnxruntime."""
    for channels, size in qdq.STAGES:
        name = f"QDQ blocks {channels}x{size}x{size}"
        if names and not any(n in name for n in names):
            continue
        x = np.random.default_rng(0).normal(size=(1, channels, size, size))
        yield _raced(name, qdq.blocks(channels, size), x, 1)


def dynamic(names: Iterable[str] = ()) -> Iterable[Row]:
    """Race the layers between attentions of BERT, with weights of int8 and inputs that are quantized in each run."""
    for rows in (1, 8, 128):
        for narrow in (True, False):
            name = f"dynamic int8 {rows}x768 by 3072, {'7' if narrow else '8'} bits"
            if names and not any(n in name for n in names):
                continue
            x = np.random.default_rng(0).normal(size=(1, rows, 768))
            yield _raced(name, qdq.layers(rows, 768, 3072, 64 if narrow else 127), x, max(1, 64 // rows))


def _raced(name: str, model: bytes, x: np.ndarray[Any, Any], calls: int) -> Row:
    """Race an ONNX model with onnxruntime."""
    feeds = {"x": x.astype("float32")}
    mine = torchlette.InferenceSession(model, device="cpu", threads=2)
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    theirs = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    runs = [_repeated(lambda s=s: s.run(None, feeds), calls) for s in (mine, theirs)]  # type: ignore[misc]
    a, b = race(*runs, rounds=15, before=rest)
    return Row(f"{name}, to onnxruntime", a / calls, b / calls)


def _repeated(f: Callable[[], Any], calls: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(calls):
            f()

    return run


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        session_memory.main()
    else:
        main("sessions", rows, named=True)
