"""Sessions find attention and norms as PyTorch's programs write them, in files of ``torch.export`` and of ONNX."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import torchlette as tl

WIDTH, HEADS, LENGTH = 32, 4, 12
LEAST = torch.finfo(torch.float32).min
EACH = WIDTH // HEADS


def later() -> torch.Tensor:
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)


def counted() -> torch.Tensor:
    i = torch.arange(LENGTH)
    return i[None, :] > i[:, None]


#: Causal masks of scores, by how they are written.
MASKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "masked_fill, tril": lambda a: a.masked_fill(torch.ones(LENGTH, LENGTH).tril() == 0, -math.inf),
    "masked_fill, triu, least": lambda a: a.masked_fill(later(), LEAST),
    "masked_fill, arange, -1e9": lambda a: a.masked_fill(counted(), -1e9),
    "masked_fill_": lambda a: a.masked_fill_(torch.logical_not(~later()), -math.inf),
    "where, number": lambda a: torch.where(~later(), a, LEAST),
    "where, tensor": lambda a: torch.where(~later(), a, torch.full([], LEAST)),
    "where, -1e4": lambda a: torch.where(later(), torch.tensor(-1e4), a),
    "sum": lambda a: a + torch.full((LENGTH, LENGTH), -math.inf).triu(1),
    "sum, mask first": lambda a: torch.full((LENGTH, LENGTH), LEAST).triu(1) + a,
    "difference": lambda a: a - 1e9 * (1 - torch.ones(LENGTH, LENGTH).tril()),
}


class Attention(nn.Module):
    """Attention that is written out."""

    def __init__(self, mask: Any, product: str) -> None:
        super().__init__()
        self.mask, self.product = mask, product
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.view(2, LENGTH, HEADS, EACH).transpose(1, 2) for y in self.qkv(x).split(WIDTH, 2))
        if self.product == "einsum":
            weights = self.mask(torch.einsum("bhqd,bhkd->bhqk", q, k) / EACH**0.5).softmax(-1)
            y = torch.einsum("bhqk,bhkd->bhqd", weights, v)
        elif self.product == "bmm":
            q, k, v = (y.reshape(2 * HEADS, LENGTH, EACH) for y in (q, k, v))
            y = (self.mask(torch.bmm(q, k.transpose(1, 2)) * EACH**-0.5).softmax(-1) @ v).view(2, HEADS, LENGTH, EACH)
        elif self.product == "computed":
            y = self.mask(q @ k.transpose(-1, -2) / torch.tensor(float(EACH)).sqrt()).softmax(-1) @ v
        else:
            y = self.mask(q @ k.transpose(-1, -2) / EACH**0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(2, LENGTH, WIDTH))


class LayerNorm(nn.Module):
    """A layer norm that is written out."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.linear = kind, nn.Linear(WIDTH, WIDTH)
        self.w, self.b = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        m = x.mean(-1, keepdim=True)
        if self.kind == "pow":
            return (x - m) / torch.sqrt((x - m).pow(2).mean(-1, keepdim=True) + 1e-5) * self.w + self.b
        if self.kind == "var":
            return self.w * (x - m) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) + self.b
        v, m = torch.var_mean(x, -1, keepdim=True, unbiased=False)
        return (x - m) * torch.rsqrt(v + 1e-5) * self.w + self.b


def steps(m: nn.Module, kind: str, folder: Path, device: str = "cpu") -> list[str]:
    """Return what a session of a file executes, after a run that has PyTorch's values."""
    x, path = torch.randn(2, LENGTH, WIDTH), folder / "m"
    m.eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        want = m(x)
        if kind == "onnx":
            torch.onnx.export(m, (x,), path, dynamo=False, opset_version=17)
        else:
            program = torch.export.export(m, (x,))
            torch.export.save(program.run_decompositions() if kind == "core" else program, path)
    s = tl.InferenceSession(path, device=device)
    (y,) = s.run(None, {s.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(np.array(y)), want)
    return [row["op"] for row in s.profile()]


@pytest.mark.parametrize("kind", ["pt2", "core", "onnx"])
@pytest.mark.parametrize("name", MASKS)
def test_causal_masks_are_found(name: str, kind: str, tmp_path: Path) -> None:
    found = steps(Attention(MASKS[name], "matmul"), kind, tmp_path)
    assert found.count("attention") == 1 and "softmax" not in found
    assert len(found) == 4


@pytest.mark.parametrize("kind", ["pt2", "core", "onnx"])
@pytest.mark.parametrize("product", ["einsum", "bmm"])
def test_products_of_heads_are_found(product: str, kind: str, tmp_path: Path) -> None:
    found = steps(Attention(MASKS["where, number"], product), kind, tmp_path)
    assert found.count("attention") == 1 and "softmax" not in found


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("name", ["sum", "where, number"])
def test_scales_that_are_computed_are_numbers(name: str, device: str, tmp_path: Path) -> None:
    """On a GPU the passes fetch the constants that they look at."""
    found = steps(Attention(MASKS[name], "computed"), "pt2", tmp_path, device)
    assert found.count("attention") == 1 and "softmax" not in found


@pytest.mark.parametrize("kind", ["pt2", "core", "onnx"])
@pytest.mark.parametrize("norm", ["pow", "var", "var_mean"])
def test_layer_norms_are_found(norm: str, kind: str, tmp_path: Path) -> None:
    """The norm is computed in the steps of its weight and bias: no step has statistics."""
    assert steps(LayerNorm(norm), kind, tmp_path) == ["matmul", "add"]


def test_queries_without_a_key_keep_the_values_of_a_finite_number(tmp_path: Path) -> None:
    """They are the mean of all values, which attention does not compute."""
    hidden = later()
    hidden[3] = True
    assert "attention" not in steps(Attention(lambda a: a.masked_fill(hidden, -1e4), "matmul"), "pt2", tmp_path)
