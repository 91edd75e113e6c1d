"""Pruned modules, their states and gradients equal PyTorch's, and so do the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.utils.prune
from module_oracle import copy_parameters, ours, theirs

import torchlette.nn.utils.prune

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "identity": lambda p, m: p.identity(m[0], "weight"),
    "l1 share": lambda p, m: p.l1_unstructured(m[0], "weight", 0.3),
    "l1 number": lambda p, m: p.l1_unstructured(m[0], "bias", 2),
    "ln": lambda p, m: p.ln_structured(m[0], "weight", amount=0.5, n=2, dim=0),
    "l1 slices": lambda p, m: p.ln_structured(m[2], "weight", amount=2, n=1, dim=1),
    "max slices": lambda p, m: p.ln_structured(m[2], "weight", amount=1, n=float("inf"), dim=-1),
    "none": lambda p, m: p.ln_structured(m[0], "weight", amount=0, n=2, dim=0),
    "again": lambda p, m: (p.l1_unstructured(m[0], "weight", 0.3), p.l1_unstructured(m[0], "weight", 0.5)),
    "slices, then elements": lambda p, m: (
        p.ln_structured(m[0], "weight", 2, 2, 0),
        p.l1_unstructured(m[0], "weight", 3),
    ),
    "elements, then slices": lambda p, m: (
        p.l1_unstructured(m[0], "weight", 9),
        p.ln_structured(m[0], "weight", 0.5, 2, 1),
    ),
    "slices twice": lambda p, m: (
        p.ln_structured(m[0], "weight", 2, 2, 0),
        p.ln_structured(m[0], "weight", 1, 2, 0),
        p.identity(m[0], "weight"),
    ),
    "global": lambda p, m: p.global_unstructured(
        [(m[0], "weight"), (m[2], "weight")], pruning_method=p.L1Unstructured, amount=0.4
    ),
    "global again": lambda p, m: [
        p.global_unstructured(((m[0], "weight"), (m[2], "bias")), p.L1Unstructured, amount=6) for _ in range(2)
    ],
    "removed": lambda p, m: (p.l1_unstructured(m[0], "weight", 0.3), p.remove(m[0], "weight")),
}


def net(lib: Any) -> Any:
    """Return two layers with one between."""
    return lib.nn.Sequential(lib.nn.Linear(4, 6), lib.nn.Tanh(), lib.nn.Linear(6, 3))


def both() -> tuple[Any, Any]:
    """Return PyTorch's net and ours with its parameters."""
    torch.manual_seed(0)
    expected, got = net(torch), net(torchlette)
    copy_parameters(expected, got)
    return expected, got


@pytest.mark.parametrize("name", PROGRAMS)
def test_pruned_as_in_pytorch(name: str) -> None:
    """The state, the output, the gradients and a step are PyTorch's."""
    x, nets = torch.randn(5, 4), both()
    for lib, m in zip((torch, torchlette), nets, strict=True):
        PROGRAMS[name](lib.nn.utils.prune, m)
        assert lib.nn.utils.prune.is_pruned(m) == (name != "removed")
        optimizer = lib.optim.SGD(m.parameters(), lr=0.1)
        m(x if lib is torch else ours(x)).square().sum().backward()
        optimizer.step()
    want, got = nets
    assert list(got.state_dict()) == list(want.state_dict())
    for path, value in want.state_dict().items():
        torch.testing.assert_close(theirs(got.state_dict()[path]), value, msg=lambda text, path=path: f"{path}: {text}")
    for (path, p), q in zip(want.named_parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(theirs(q.grad), p.grad, msg=lambda text, path=path: f"{path}: {text}")
    torch.testing.assert_close(theirs(got(ours(x))), want(x))


def test_scores_instead_of_parameters() -> None:
    """Scores choose, the parameter is pruned."""
    want, got = both()
    scores = torch.rand(6, 4)
    torch.nn.utils.prune.l1_unstructured(want[0], "weight", 5, importance_scores=scores)
    torchlette.nn.utils.prune.l1_unstructured(got[0], "weight", 5, importance_scores=ours(scores))
    torch.testing.assert_close(theirs(got[0].weight), want[0].weight)
    method = torchlette.nn.utils.prune.L1Unstructured(2)
    assert method.prune(torchlette.tensor([3.0, -1.0, 2.0])).tolist() == [3.0, 0.0, 0.0]


def test_by_chance() -> None:
    """The requested number of elements or whole slices is pruned; each call chooses others."""
    p, m = torchlette.nn.utils.prune, torchlette.nn.Linear(40, 30)
    p.random_unstructured(m, "weight", amount=0.25)
    assert m.weight_mask.eq(0).sum().item() == 300
    p.random_structured(m, "weight", amount=10, dim=0)
    assert m.weight_mask.sum(1).eq(0).sum().item() == 10
    twin = p.random_unstructured(torchlette.nn.Linear(40, 30), "weight", 0.25)
    assert not torchlette.equal(twin.weight_mask, m.weight_mask)


@pytest.mark.parametrize(
    "bad",
    [
        lambda p, m: p.l1_unstructured(m[0], "weight", -1),
        lambda p, m: p.l1_unstructured(m[0], "weight", 1.5),
        lambda p, m: p.l1_unstructured(m[0], "weight", "all"),
        lambda p, m: p.l1_unstructured(m[0], "weight", 25),
        lambda p, m: p.l1_unstructured(m[0], "wait", 1),
        lambda p, m: p.ln_structured(m[0], "bias", 1, 2, 0),
        lambda p, m: p.ln_structured(m[0], "weight", 1, 2, 2),
        lambda p, m: p.remove(m[0], "weight"),
        lambda p, m: p.global_unstructured([(m[0], "weight")], p.LnStructured, amount=1, n=2),
        lambda p, m: p.global_unstructured(3, p.L1Unstructured, amount=1),
        lambda p, m: p.l1_unstructured(m[0], "weight", 1, importance_scores=m[0].bias),
        lambda p, m: p.custom_from_mask(m[0], "weight", m[0].bias),
    ],
)
def test_errors(bad: Callable[[Any, Any], Any]) -> None:
    """Calls that PyTorch refuses raise the same class."""
    want, got = both()
    with pytest.raises(Exception) as expected:
        bad(torch.nn.utils.prune, want)
    with pytest.raises(expected.type):
        bad(torchlette.nn.utils.prune, got)
