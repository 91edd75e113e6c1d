"""Checkpointed calls give the gradients of plain ones, and PyTorch's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import checkpoint as theirs

import torchlette
from torchlette.utils import checkpoint as ours

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


def models() -> tuple[Any, Any]:
    """Return the same two-layer network in both libraries."""
    made = [
        lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.Tanh(), lib.nn.Linear(8, 8), lib.nn.Tanh(), lib.nn.Linear(8, 2))
        for lib in (torch, torchlette)
    ]
    made[1].load_state_dict({k: torchlette.tensor(v.numpy()) for k, v in made[0].state_dict().items()})
    return made[0], made[1]


def plain(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """All parameters' gradients."""
    c.checkpoint(lambda z: model(z) * 2, a * 1, **options).pow(2).sum().backward()
    return [a.grad, *(p.grad for p in model.parameters())]


def sequential(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Of a model in segments."""
    c.checkpoint_sequential(model, 2, a * 1, **options).pow(2).sum().backward()
    return [a.grad, *(p.grad for p in model.parameters())]


def nested_arguments(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Tensors in containers, and one that the function finds by itself."""
    outside = a.exp()
    y = c.checkpoint(lambda z, k: (model(z) * k["w"][0] + outside.sum(), 3), a * 1, k={"w": [a.sum()]}, **options)
    (y[0].pow(2).sum() * y[1]).backward()
    return [a.grad, *(p.grad for p in model.parameters())]


def by_grad(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Through autograd.grad, with a hook that must run once."""
    weight = next(model.parameters())
    handle = weight.register_hook(lambda g: g * 3)
    y = c.checkpoint(model, a * 1, **options)
    found = lib.autograd.grad(y.pow(2).sum(), [a, *model.parameters()])
    handle.remove()
    return found


def twice(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Second derivatives."""
    (g,) = lib.autograd.grad(c.checkpoint(model, a * 1, **options).pow(2).sum(), a, create_graph=True)
    g.pow(2).sum().backward()
    return [a.grad, *(p.grad for p in model.parameters())]


CASES = [(f, reentrant) for f in (plain, sequential, nested_arguments, by_grad, twice) for reentrant in (True, False)]


@pytest.mark.parametrize(("program", "reentrant"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_equal_to_pytorch(program: Callable[..., Any], reentrant: bool) -> None:
    """The same gradients, or the same class of error."""
    results: list[Any] = []
    for lib, c, model in zip((torch, torchlette), (theirs, ours), models(), strict=True):
        try:
            found = program(lib, c, model, lib.tensor(X, requires_grad=True), use_reentrant=reentrant)
            results.append([None if g is None else g.detach().numpy() for g in found])
        except (RuntimeError, ValueError) as error:
            results.append((ValueError if isinstance(error, ValueError) else RuntimeError, str(error)[:60]))
    want, got = results
    if isinstance(want, tuple):
        assert got == want
        return
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_second_run_draws_the_same_numbers(reentrant: bool) -> None:
    """Dropout masks equal the first run's, and later draws are unaffected."""
    drop, a = torchlette.nn.Dropout(0.5), torchlette.ones(100, requires_grad=True)
    y = ours.checkpoint(drop, a * 1, use_reentrant=reentrant)
    state = torchlette.get_rng_state()
    y.sum().backward()
    assert torchlette.equal(a.grad, y.detach())
    assert torchlette.equal(torchlette.get_rng_state(), state)


def test_a_function_that_changes_is_found() -> None:
    """A second run of another shape raises; without reentrance, if a tensor of another shape is saved."""
    for reentrant in (True, False):
        sizes = iter([2, 3])
        a = torchlette.ones(4, requires_grad=True)
        y = ours.checkpoint(lambda z, sizes=sizes: z[: next(sizes)].exp() * 2, a, use_reentrant=reentrant)
        with pytest.raises(ours.CheckpointError, match="differ"):
            y.sum().backward()


def norms(lib: Any) -> Any:
    """Return layers with buffers that change in training."""
    return lib.nn.Sequential(
        lib.nn.Linear(4, 3),
        lib.nn.BatchNorm1d(3),
        lib.nn.Unflatten(1, (3, 1)),
        lib.nn.BatchNorm1d(3, momentum=None),
        lib.nn.Flatten(),
        lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(3, 3)),
        lib.nn.utils.spectral_norm(lib.nn.Linear(3, 2)),
        lib.nn.Unflatten(1, (1, 2)),
        lib.nn.InstanceNorm1d(1, track_running_stats=True),
    )


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
def test_running_statistics_are_updated_once(reentrant: bool, depth: int, device: str) -> None:
    """Buffers, outputs and gradients are those of the plain call, where PyTorch's statistics move twice."""
    state = norms(torchlette).to(device).state_dict()
    x = torchlette.tensor(X, device=device)
    found = []
    for checkpointed in (False, True):
        model = norms(torchlette).to(device)
        model.load_state_dict(state)
        run: Callable[..., Any] = model
        for _ in range(depth if checkpointed else 0):
            run = lambda z, inner=run: ours.checkpoint(inner, z, use_reentrant=reentrant)  # noqa: E731
        for _ in range(2):
            a = x.clone().requires_grad_()
            run(a * 1).pow(3).sum().backward()
        found.append({"a": a.grad, **model.state_dict(), **{f"{n}.grad": p.grad for n, p in model.named_parameters()}})
    plain, again = found
    assert any(name.endswith("num_batches_tracked") for name in plain)
    for name in plain:
        np.testing.assert_allclose(
            again[name].cpu().numpy(), plain[name].cpu().numpy(), rtol=1e-5, atol=1e-6, err_msg=name
        )


def test_pytorch_updates_running_statistics_twice() -> None:
    """The difference that the module's documentation states."""
    model = torch.nn.BatchNorm1d(4)
    theirs.checkpoint(model, torch.tensor(X, requires_grad=True), use_reentrant=False).sum().backward()
    assert int(model.num_batches_tracked) == 2


WRITES: dict[str, Callable[[torchlette.Tensor, torchlette.Tensor], Any]] = {
    "in place": lambda seen, z: seen.add_(1),
    "through a view": lambda seen, z: seen[1:].mul_(2),
    "by index": lambda seen, z: seen.__setitem__(0, 7.0),
    "a result of the body": lambda seen, z: seen.copy_(z.detach()[0]),
    "into out": lambda seen, z: torchlette.add(z.detach()[0], 1, out=seen),
    "into a smaller out": lambda seen, z: torchlette.mul(z.detach(), 1, out=seen),
    "of itself": lambda seen, z: seen.copy_(seen),
    "another tensor in its place": lambda seen, z: setattr(seen, "data", z.detach()[0] + 1),
}


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", WRITES)
def test_a_second_write_is_refused(name: str, reentrant: bool, device: str) -> None:
    """A function that writes to an older tensor raises when it is run again; the tensor has the first run's value."""
    seen, a = torchlette.zeros(4, device=device), torchlette.tensor(X, device=device, requires_grad=True)

    def body(z: Any) -> Any:
        with torchlette.no_grad():
            WRITES[name](seen, z)
        return z * z

    y = ours.checkpoint(body, a * 1, use_reentrant=reentrant)
    once = seen.tolist()
    with pytest.raises(ours.CheckpointImpureRegionError, match=r"is_recomputing"):
        y.sum().backward()
    assert seen.tolist() == once
    seen.add_(1)  # the fence is gone
    (a * 2).sum().backward()
    assert a.grad.tolist() == [[2.0] * 4] * 3


def test_a_write_behind_the_last_saved_tensor_is_not_repeated() -> None:
    """The second run has stopped there."""
    seen, a = torchlette.zeros(4), torchlette.tensor(X, requires_grad=True)

    def body(z: Any) -> Any:
        y = z * z
        seen.add_(1)
        return y

    ours.checkpoint(body, a, use_reentrant=False).sum().backward()
    assert seen.tolist() == [1.0] * 4
    with pytest.raises(ours.CheckpointImpureRegionError):
        ours.checkpoint(body, a, use_reentrant=False, early_stop=False).sum().backward()


def test_what_the_body_makes_may_be_written_to(device: str) -> None:
    """New tensors may be written in both runs, older ones in the first run only."""
    count, a = torchlette.zeros((), device=device), torchlette.tensor(X, device=device, requires_grad=True)

    def body(z: Any) -> Any:
        if not ours.is_recomputing():
            count.add_(1)
        y = z * 2
        y.mul_(z)
        y[0] = 1.0
        buffer = torchlette.zeros(4, device=device)
        buffer += 2
        return y * buffer

    ours.checkpoint(body, a * 1, use_reentrant=False).sum().backward()
    assert count.item() == 1
    want = torch.tensor(X, requires_grad=True)
    (want * want * 4)[1:].sum().backward()
    np.testing.assert_allclose(a.grad.cpu().numpy(), want.grad.numpy(), rtol=1e-6)
    assert not ours.is_recomputing()


def test_other_threads_write_while_one_recomputes() -> None:
    """A fence is of its thread."""
    import threading

    seen, a = torchlette.zeros(4), torchlette.tensor(X, requires_grad=True)
    errors: list[BaseException] = []

    def write() -> None:
        try:
            seen.add_(1)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    def body(z: Any) -> Any:
        if ours.is_recomputing():
            thread = threading.Thread(target=write)
            thread.start()
            thread.join()
        return z * z

    ours.checkpoint(body, a * 1, use_reentrant=False).sum().backward()
    assert not errors
    assert seen.tolist() == [1.0] * 4


def test_error_classes() -> None:
    """They are this library's, and those that PyTorch users catch."""
    for kind in (
        ours.CheckpointError,
        ours.CheckpointImpureRegionError,
        torchlette.LeakError,
        torchlette.GradcheckError,
    ):
        assert issubclass(kind, torchlette.TorchletteError)
        assert issubclass(kind, RuntimeError)
    assert issubclass(ours.CheckpointImpureRegionError, ours.CheckpointError)
