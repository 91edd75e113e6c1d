"""Products apply maps of their results: values beside PyTorch's, and the bits of single kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as ours

MAPS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "scale, activation, residual": lambda lib, y, r, m: (y * 0.3 + 1).relu() + r,
    "a result that is read three times": lambda lib, y, r, m: y * y.sigmoid() + y.tanh(),
    "by column and row": lambda lib, y, r, m: (y * r[0] - r[:, :1]).tanh(),
    "a gate": lambda lib, y, r, m: lib.nn.functional.silu(y) * r,
    "a comparison and a mask": lambda lib, y, r, m: lib.where(m, lib.where(y > 0.5, r - y, y), 0.0),
    "integers between": lambda lib, y, r, m: (y * 3).to(lib.int32).to(lib.float32) * r,
    "halves between": lambda lib, y, r, m: ((y * 0.7).to(lib.float16) * 1.5).to(lib.float32),
    "half precision, then back": lambda lib, y, r, m: 2 - (y - 1).exp() / (1 + y * y),
}

CONVOLUTION_MAPS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    **{name: MAPS[name] for name in ("a gate", "a comparison and a mask", "half precision, then back")},
    "by channel and image": lambda lib, y, r, m: y * r.flatten()[: y.shape[1]].view(-1, 1, 1) - r[:, :, :1, :1],
}


def operands(lib: Any, device: str, m: int, n: int, k: int) -> list[Any]:
    g = torch.Generator().manual_seed(m + n + k)
    x, w, r = (torch.randn(shape, generator=g) for shape in ((m, k), (k, n), (m, n)))
    return [lib.tensor(t.tolist()).to(device) for t in (x * 0.3, w * 0.3, r, r > 0)]


@pytest.mark.parametrize("size", ((4, 6, 3), (1, 40, 17), (70, 64, 32), (65, 130, 300)), ids=str)
@pytest.mark.parametrize("name", MAPS)
def test_maps_of_products(name: str, size: tuple[int, int, int], device: str) -> None:
    f = MAPS[name]
    x, w, r, m = operands(torch, "cpu", *size)
    want = f(torch, x @ w, r, m)
    x, w, r, m = operands(ours, device, *size)
    ours.mm(x, w).tolist()
    seen = []
    while len(seen) < 4 or torchlette.stats()["plans_compiling"]:
        y = f(ours, x @ w, r, m)
        seen.append(y.tolist())
        assert len(seen) < 5000
        if len(seen) > 3:
            time.sleep(0.005)
    y = f(ours, x @ w, r, m)
    values = y.tolist()
    rtol = 2e-3 if "halves" in name else None
    torch.testing.assert_close(torch.tensor(values), want, rtol=rtol, atol=rtol)
    kernels = len(torchlette.explain(y)["plan"]["kernels"])
    assert kernels == 1
    if device == "cpu":
        p = ours.mm(x, w)
        p.tolist()
        assert f(ours, p, r, m).tolist() == values


def test_products_store_what_is_held(device: str) -> None:
    x, w, r, _ = operands(ours, device, 33, 40, 17)

    def run() -> tuple[Any, ...]:
        y = x @ w
        a = (y + r[0]).relu()
        return y, a, a * 2

    kernels: list[int] = []

    def together() -> list[Any]:
        held = run()
        found = held[2].tolist(), held[1].tolist(), held[0].tolist()
        kernels.append(len(torchlette.explain(held[2])["plan"]["kernels"]))
        return list(found)

    seen = []
    while len(seen) < 4 or torchlette.stats()["plans_compiling"]:
        seen.append(together())
        time.sleep(0.005 * (len(seen) > 3))
    seen.append(together())  # by kernels that the device had not ready before
    assert kernels[-1] == 1
    y = x @ w
    want = [y.tolist()]
    a = (y + r[0]).relu()
    want.append(a.tolist())
    want.append((a * 2).tolist())
    if device == "cpu":
        assert seen[-1] == want[::-1]
    for got, expected in zip(seen[-1], want[::-1], strict=True):
        torch.testing.assert_close(torch.tensor(got), torch.tensor(expected))


@pytest.mark.parametrize("stride, padding, groups", ((1, 0, 1), (2, 1, 1), (1, 1, 2), (1, 1, 4)), ids=str)
@pytest.mark.parametrize("name", CONVOLUTION_MAPS)
def test_maps_of_convolutions(name: str, stride: int, padding: int, groups: int, device: str) -> None:
    def run(lib: Any, device: str) -> Any:
        g = torch.Generator().manual_seed(1)
        x, w = torch.randn(2, 4, 13, 11, generator=g), torch.randn(8, 4 // groups, 3, 3, generator=g)
        x, w = (lib.tensor(t.tolist()).to(device) for t in (x * 0.3, w * 0.3))
        shape = torch.nn.functional.conv2d(
            torch.zeros(2, 4, 13, 11), torch.zeros(8, 4 // groups, 3, 3), None, stride, padding, 1, groups
        ).shape
        r = torch.randn(shape, generator=g)
        r, m = (lib.tensor(t.tolist()).to(device) for t in (r, r > 0))
        r.tolist()
        found = []
        while len(found) < 4 or lib is ours and torchlette.stats()["plans_compiling"]:
            y = lib.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)
            found.append(CONVOLUTION_MAPS[name](lib, y, r, m).tolist())
            time.sleep(0.005 * (len(found) > 4))
        y = lib.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)
        return CONVOLUTION_MAPS[name](lib, y, r, m).tolist()

    torch.testing.assert_close(torch.tensor(run(ours, device)), torch.tensor(run(torch, "cpu")))


def test_dropout_on_a_product_keeps_its_bits(device: str) -> None:
    x, w, _, _ = operands(ours, device, 33, 40, 17)
    p = ours.mm(x, w)
    p.tolist()
    found = []
    for together in (True, False) * 4:
        torchlette.manual_seed(3)
        y = ours.nn.functional.dropout(x @ w if together else p, 0.4) * 2
        found.append(y.tolist())
        time.sleep(0.02)
    if device == "cpu":
        assert all(v == found[0] for v in found)
    for v in found:
        torch.testing.assert_close(torch.tensor(v), torch.tensor(found[0]))
