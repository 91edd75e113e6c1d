"""The text of tensors and of named results is PyTorch's, over shapes, dtypes, magnitudes and print options."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette._runtime.repr import printoptions

SHAPES = [
    (),
    (0,),
    (1,),
    (3,),
    (30,),
    (2, 3),
    (0, 3),
    (2, 0, 3),
    (2, 3, 4),
    (2, 2, 2, 3),
    (1, 1),
    (1001,),
    (40, 30),
    (11, 11, 11),
    (3, 400),
]
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.uint16,
    torch.uint32,
]
NUMBERS = [
    float("nan"),
    float("inf"),
    -float("inf"),
    0.0,
    -0.0,
    1.0,
    0.1,
    1e-10,
    1e10,
    100000.5,
    3.0,
    -2.5,
    123456789.0,
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"precision": 2},
    {"precision": 8},
    {"threshold": 5},
    {"edgeitems": 1, "threshold": 3},
    {"linewidth": 40},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short"},
    {"profile": "default"},
]


def tensors() -> Iterator[torch.Tensor]:
    """Yield some six hundred tensors."""
    torch.manual_seed(0)
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        x = torch.randn(shape) * 5
        yield (x.abs() if dtype in (torch.uint16, torch.uint32) else x).to(dtype)
    for exponent, dtype in itertools.product(
        (-8, -5, -3, 0, 3, 5, 9, 30), (torch.float32, torch.float64, torch.bfloat16)
    ):
        yield (torch.randn(5) * 10.0**exponent).to(dtype)
        yield (torch.randn(2, 3) * 10.0**exponent).round().to(dtype)
    for n in (1, 2, 3):
        yield from map(torch.tensor, itertools.combinations(NUMBERS, n))
    for v in NUMBERS:
        yield torch.tensor(v)
        yield torch.tensor(v, dtype=torch.float64).requires_grad_()
        yield torch.tensor([v] * 4).reshape(2, 2).half()
    for i in (0, 1, -1, 10**9, -(10**18), 2**31 - 1):
        yield torch.tensor(i)
        yield torch.tensor([i, 3])


def counterpart(t: torch.Tensor) -> torchlette.Tensor:
    """Return our tensor of the same values."""
    d = t.detach()
    made = (
        facade.tensor(d.float().numpy()).to(facade.bfloat16)
        if t.dtype is torch.bfloat16
        else facade.tensor(d.numpy().copy())
    )
    return made.reshape(tuple(t.shape)).detach().requires_grad_(t.requires_grad)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tensors(options: dict[str, Any]) -> None:
    """Every tensor prints alike under the same options."""
    torch.set_printoptions(**options)
    try:
        with printoptions(**options):
            for t in tensors():
                assert repr(counterpart(t)) == repr(t)
    finally:
        torch.set_printoptions(profile="default", sci_mode=None)


RESULTS = [
    "a.max(1)",
    "a.min(0)",
    "a.topk(2)",
    "a * 2",
    "a[0]",
    "(a * 1).add_(1)",
    "a.sum()",
    "a.detach()",
    "a.requires_grad_(False)",
    "[a, a.sum()]",
    "{'a': a}",
    "a.shape",
    "a.dtype",
    "a.device",
    "a.double()",
    "lib.nn.Parameter(a.detach())",
]


@pytest.mark.parametrize("code", RESULTS)
def test_results(code: str) -> None:
    """What operators return, with the function that made it."""
    want, got = (
        repr(eval(code, {"lib": lib, "a": lib.tensor([[1.0, 2.5, -3.0], [0.5, 7.0, 2.0]], requires_grad=True)}))
        for lib in (torch, facade)
    )
    assert got == want


def test_printoptions_are_put_back() -> None:
    """The context restores what was set before."""
    before = torchlette.get_printoptions()
    with printoptions(precision=2):
        assert repr(facade.tensor(1.23456)) == "tensor(1.23)"
    assert torchlette.get_printoptions() == before


def test_the_text_of_a_subclass_begins_with_its_name() -> None:
    texts = []
    for lib in (torch, facade):
        named = type("Named", (lib.Tensor,), {})
        made = lib.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(named)
        texts.append([repr(made), repr(made[0] * 2), f"{made[0]}"])
    assert texts[1] == texts[0]
    assert texts[1][0].startswith("Named([[1., 2.],\n       [3")


@pytest.mark.parametrize("shape", [(1 << 40,), (2, 1 << 30, 1 << 20), (1 << 30, 2)])
def test_only_the_ends_of_dims_are_read(shape: tuple[int, ...], device: str) -> None:
    """The text of a view of more elements than memory holds is PyTorch's."""
    text = repr(facade.tensor(1.5, device=device).expand(shape))
    assert re.sub(r",\s+device='wgpu:0'", "", text) == repr(torch.tensor(1.5).expand(shape))


def test_the_text_of_a_pending_tensor_leaves_its_value(device: str) -> None:
    """A text that reads only the ends of a draw does not change what is drawn."""
    x = facade.randn(2000, device=device)
    text = repr(x)
    assert repr(x) == text == repr(facade.tensor(x.tolist(), device=device))
