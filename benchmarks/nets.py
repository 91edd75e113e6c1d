"""Whole models of the field, for PyTorch and for torchlette: each takes the library, and returns a module."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from vision import resnet18

__all__ = ["NETS", "layer"]


def inverted(lib: Any, inputs: int, outputs: int, stride: int, expand: int) -> Any:
    """Return MobileNetV2's block: narrow, wide depthwise, narrow convolutions (Sandler et al. 2018, table 1)."""
    nn = lib.nn
    wide = inputs * expand

    def layer(i: int, o: int, size: int, stride: int, groups: int) -> list[Any]:
        conv = nn.Conv2d(i, o, size, stride, size // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(o), nn.ReLU6()]

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            parts = layer(inputs, wide, 1, 1, 1) if expand > 1 else []
            self.body = nn.Sequential(*parts, *layer(wide, wide, 3, stride, wide), *layer(wide, outputs, 1, 1, 1)[:2])

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            return x + y if stride == 1 and inputs == outputs else y

    return Block()


def mobilenet_v2(lib: Any) -> Any:
    """Return MobileNetV2 of width 1 (Sandler et al. 2018, table 2)."""
    nn = lib.nn
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    inputs = 32
    for expand, outputs, count, stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for k in range(count):
            layers.append(inverted(lib, inputs, outputs, stride if k == 0 else 1, expand))
            inputs = outputs
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def layer(lib: Any, width: int, heads: int, attend: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a transformer's layer with the norms first; attend takes queries, keys and values."""
    nn = lib.nn

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = (
                y.reshape(b, t, heads, width // heads).transpose(1, 2)
                for y in self.qkv(self.norm(x)).split(width, dim=2)
            )
            x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(b, t, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    return Layer()


def transformer(lib: Any, width: int, layers: int, heads: int, causal: bool, front: Any, last: Any) -> Any:
    """Return layers between a front and a last module."""
    nn = lib.nn
    attend = partial(nn.functional.scaled_dot_product_attention, is_causal=causal)
    stack = (layer(lib, width, heads, attend) for _ in range(layers))
    return nn.Sequential(front, *stack, nn.LayerNorm(width), last)


def tokens(lib: Any, vocabulary: int, length: int, width: int) -> Any:
    """Return the embedding of tokens and positions."""
    nn = lib.nn

    class Front(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)
            self.position = nn.Parameter(lib.zeros(length, width))

        def forward(self, ids: Any) -> Any:
            return self.token(ids) + self.position

    return Front()


def patches(lib: Any, width: int) -> Any:
    """Return the embedding of an image's patches of 16x16, a class token before them."""
    nn = lib.nn

    class Front(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, width, 16, 16)
            self.token = nn.Parameter(lib.zeros(1, 1, width))
            self.position = nn.Parameter(lib.zeros(197, width))

        def forward(self, x: Any) -> Any:
            y = self.patch(x).flatten(2).transpose(1, 2)
            return lib.cat([self.token, y], 1) + self.position

    return Front()


def gpt2(lib: Any) -> Any:
    """Return the shape of GPT-2 with 124M parameters, on 128 tokens."""
    return transformer(lib, 768, 12, 12, True, tokens(lib, 50257, 128, 768), lib.nn.Linear(768, 50257, bias=False))


def minilm(lib: Any) -> Any:
    """Return the shape of MiniLM-L6, on 64 tokens."""
    return transformer(lib, 384, 6, 12, False, tokens(lib, 30522, 64, 384), lib.nn.Identity())


def vit(lib: Any) -> Any:
    """Return the shape of ViT-B/16."""
    return transformer(lib, 768, 12, 12, False, patches(lib, 768), lib.nn.Linear(768, 1000))


def lstm(lib: Any) -> Any:
    """Return two layers of LSTM cells; its result is the sequence."""
    nn = lib.nn

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(256, 512, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    return Net()


def image(rng: np.random.Generator) -> Any:
    """Return an image of 224x224."""
    return rng.normal(size=(1, 3, 224, 224)).astype("float32")


#: By name: the model, and what gives its input.
NETS = {
    "GPT-2 124M 1x128": (gpt2, lambda rng: rng.integers(50257, size=(1, 128))),
    "ResNet-18 1": (resnet18, image),
    "ViT-B/16 1": (vit, image),
    "LSTM 1x128, 2 layers of 512": (lstm, lambda rng: rng.normal(size=(1, 128, 256)).astype("float32")),
    "MiniLM 8x64": (minilm, lambda rng: rng.integers(30522, size=(8, 64))),
    "MobileNetV2 1": (mobilenet_v2, image),
}


def our_session(model: Callable[[Any], Any], weights: dict[str, Any], x: Any, threads: int) -> Any:
    """Return our session of a model with PyTorch's weights."""
    import torchlette
    import torchlette.torch as facade
    from torchlette import export

    with torchlette.device("cpu"):
        m = model(facade).eval()
    m.load_state_dict({k: facade.from_numpy(v.numpy()) for k, v in weights.items()})
    return torchlette.InferenceSession(export.export(m, (facade.from_numpy(x),)), threads=threads)


def onnxruntime_session(reference: Any, x: Any, threads: int, profile: str | None = None) -> Any:
    """Return onnxruntime's session of a module of PyTorch; ``profile`` is where the names of its profiles begin."""
    import torch

    ort: Any = importlib.import_module("onnxruntime")
    file = io.BytesIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(reference, (torch.from_numpy(x),), file, dynamo=False, opset_version=17)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, profile
    return ort.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
