"""Every entry of PyTorch's database of optimizers: options, state, saved form and errors are PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import database
import oracle
import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db

import torchlette.torch as facade

STEPS = 4
SHAPES = ((4, 3), (5,), ())
#: Optimizers that torchlette does not have.
ABSENT = frozenset({"SparseAdam"})
CLASSES = (NotImplementedError, IndexError, TypeError, ValueError, AssertionError, RuntimeError, AttributeError)
#: Bad options that raise another class than PyTorch's, by words of their description.
UNRAISED = {"complex": "there are no complex numbers"}


def values(seed: int, name: str) -> list[torch.Tensor]:
    """Return values for parameters or gradients; Muon takes a matrix alone."""
    draw = torch.Generator().manual_seed(seed)
    drawn = [torch.rand(shape, generator=draw) - 0.4 for shape in SHAPES]
    return drawn[:1] if name == "Muon" else drawn


def run(lib: Any, name: str, options: dict[str, Any], convert: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Return the parameters after some steps, and the optimizer, which was saved and loaded on the way."""
    params = [convert(v).requires_grad_() for v in values(0, name)]
    optimizer = getattr(lib.optim, name)(params, **convert(options))

    def closure() -> Any:
        """Return a loss with an optimum near the search: a diverging search would amplify rounding."""
        optimizer.zero_grad()
        loss = sum(((p - 0.3) ** 2).sum() for p in params) * (-1.0 if options.get("maximize") else 1.0)
        loss.backward()
        return loss

    for step in range(STEPS):
        for p, g in zip(params, values(step + 1, name), strict=True):
            p.grad = convert(g)
        optimizer.step(*([closure] if name == "LBFGS" else []))
        if step == STEPS // 2 and name != "LBFGS":
            saved, optimizer = optimizer.state_dict(), getattr(lib.optim, name)(params, **convert(options))
            optimizer.load_state_dict(saved)
    return params, optimizer


def cases() -> list[Any]:
    """Return an optimizer's name and options for each sample of the database, with and without ``foreach``."""
    out = []
    for info in optim_db:
        name = info.optim_cls.__name__
        for sample in info.optim_inputs_func("cpu") if name not in ABSENT else ():
            if not sample.kwargs.get("differentiable") and not sample.kwargs.get("capturable"):
                out.append(pytest.param(name, sample.kwargs, id=f"{name}-{sample.desc}"))
                if "foreach" in info.supported_impls and not any(
                    isinstance(v, torch.Tensor) for v in sample.kwargs.values()
                ):
                    out.append(
                        pytest.param(name, {**sample.kwargs, "foreach": True}, id=f"{name}-{sample.desc}-foreach")
                    )
    return out


@pytest.mark.parametrize(("name", "options"), cases())
def test_parameters_and_state_are_pytorchs(name: str, options: dict[str, Any]) -> None:
    tolerance = (
        {"rtol": 0.0, "atol": 0.02 * STEPS * float(options.get("lr", 1e-3))} if name == "Muon" else {}
    )  # its directions are of bfloat16
    try:
        want, theirs = run(torch, name, options, lambda x: x.clone() if isinstance(x, torch.Tensor) else x)
    except CLASSES as error:
        with pytest.raises(next(c for c in CLASSES if isinstance(error, c))):
            run(facade, name, options, lambda x: database.Converter("cpu")(x))
        return
    got, ours = run(facade, name, options, lambda x: database.Converter("cpu")(x))
    for g, w in zip(got, want, strict=True):
        oracle.assert_equal(g, w, "parameter", **tolerance)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert set(mine["param_groups"][0]) == set(other["param_groups"][0])
    for number, entry in other["state"].items():
        assert set(mine["state"][number]) == set(entry)
        for key, value in entry.items():
            if isinstance(value, torch.Tensor) and name != "LBFGS":
                oracle.assert_equal(mine["state"][number][key], value, key)


def bad_cases() -> list[Any]:
    """Return the database's bad options of each optimizer."""
    out = []
    for info in optim_db:
        name = info.optim_cls.__name__
        for case in info.optim_error_inputs_func("cpu", torch.float32) if name not in ABSENT else ():
            sample = case.optimizer_error_input
            if not any(word in sample.desc for word in UNRAISED):
                out.append(pytest.param(name, sample, id=f"{name}-{sample.desc}"))
    return out


@pytest.mark.parametrize(("name", "sample"), bad_cases())
def test_bad_options_raise_pytorchs_class(name: str, sample: Any) -> None:
    def attempt(lib: Any, convert: Callable[[Any], Any]) -> None:
        params = convert(sample.params if sample.params is not None else values(0, name))
        if isinstance(sample.params, set):
            params = {convert(p) for p in sample.params}
        getattr(lib.optim, name)(params, **convert(sample.kwargs)).step(*([lambda: 0.0] if name == "LBFGS" else []))

    error = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            attempt(torch, lambda x: x)
        except CLASSES as raised:
            error = raised
        if error is None:
            attempt(facade, database.Converter("cpu"))
            return
        with pytest.raises(next(c for c in CLASSES if isinstance(error, c))):
            attempt(facade, database.Converter("cpu"))
