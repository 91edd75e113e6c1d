"""``autograd.functional``: what strict mode and wrong calls raise, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch as pytorch

import torchlette.torch as torchlette_torch

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "constant": lambda torch, x: torch.ones(()),
    "detached": lambda torch, x: x.sum().detach(),
    "unused": lambda torch, x: torch.ones((), requires_grad=True) * 2,
    "linear": lambda torch, x: x.sum() * 3,
    "quadratic": lambda torch, x: (x * x).sum(),
    "cubic": lambda torch, x: (x**3).sum(),
    "pair": lambda torch, x: ((x * x).sum(), (x * x).sum()),
    "vector": lambda torch, x: x * x,
    "number": lambda torch, x: 3,
}


def outcome(torch: Any, name: str, function: str, **options: Any) -> Any:
    """Return the error of a call as its class and text, or None."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    arguments = (x,) if name in ("jacobian", "hessian") else (x, options.pop("v", None))
    try:
        getattr(torch.autograd.functional, name)(lambda y: FUNCTIONS[function](torch, y), *arguments, **options)
    except (RuntimeError, TypeError) as error:
        return (RuntimeError if isinstance(error, RuntimeError) else TypeError), str(error)
    return None


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ["vjp", "vhp", "jacobian", "hessian"])
def test_strict_mode_raises_what_pytorch_raises(name: str, function: str, create_graph: bool) -> None:
    found = []
    for torch in (torchlette_torch, pytorch):
        options: dict[str, Any] = {"strict": True, "create_graph": create_graph}
        if name == "vhp":
            options["v"] = torch.ones(2)
        found.append(outcome(torch, name, function, **options))
    assert found[0] == found[1]


@pytest.mark.parametrize("function", ["constant", "detached", "unused"])
@pytest.mark.parametrize("name", ["jvp", "hvp"])
def test_strict_mode_of_pushed_products(name: str, function: str) -> None:
    found = [outcome(torch, name, function, strict=True, v=torch.ones(2)) for torch in (torchlette_torch, pytorch)]
    assert found[0] == found[1]
    assert found[0] is not None


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
def test_wrong_vectors_raise(name: str) -> None:
    for v in (lambda torch: (torch.ones(2), torch.ones(2)), lambda torch: torch.ones(3), lambda torch: 4):
        found = [outcome(torch, name, "cubic", v=v(torch)) for torch in (torchlette_torch, pytorch)]
        assert found[0] == found[1]


def test_strict_and_vectorized_together_raise() -> None:
    found = [outcome(torch, "jacobian", "cubic", strict=True, vectorize=True) for torch in (torchlette_torch, pytorch)]
    assert found[0] == found[1]
