"""Tensors record, are computed when read, and let go of memory: bindings, coercion, tidy, keep, dispose, finalizers."""

from __future__ import annotations

import copy
import gc
import operator
import pickle

import numpy as np
import pytest
import torch

import torchlette
from torchlette.testing.counters import Delta, levels, stats


def binding(t: torchlette.Tensor) -> str:
    """Return the binding of a tensor's base: value, pending or loc."""
    return torchlette.explain(t)["binding"]


def test_ops_only_record(device: str) -> None:
    """Nothing runs until a value is demanded."""
    a = torchlette.ones(3, device=device)
    with Delta() as seen:
        b = (a + 1) * 2
    assert seen["nodes_executed"] == 0
    assert seen["nodes_recorded"] >= 2
    assert b.tolist() == [4.0] * 3


def test_a_binding_is_a_value_then_pending_then_a_loc(device: str) -> None:
    """A write binds an SSA base to a pending loc; running it makes the binding final at mark_step."""
    a = torchlette.ones(4, device=device) * 1
    assert binding(a) == "ssa"
    a.add_(1)
    assert binding(a) == "pending_loc"
    torchlette.mark_step()
    assert binding(a) == "loc"
    a.add_(1)
    assert binding(a) == "loc"
    assert a.tolist() == [3.0] * 4


def test_alias_shares_its_base(device: str) -> None:
    """Views name the base of what they view; results do not."""
    a = torchlette.zeros(4, 3, device=device)
    base = torchlette.explain(a)["base"]
    for v in (a[1], a.t(), a.view(12), a.detach(), a[:, 1:].transpose(0, 1)):
        assert torchlette.explain(v)["base"] == base
    for r in (a + 0, a.clone(), a.t().contiguous()):
        assert torchlette.explain(r)["base"] != base


def test_commits_count_mutations(device: str) -> None:
    """Each in-place op is one base_commit, in program order, and aliases see the same count."""
    a = torchlette.zeros(4, device=device)
    v = a[1:]
    before = torchlette.explain(a)["commits_scheduled"]
    a.add_(1)
    v.mul_(2)
    v.zero_()
    assert torchlette.explain(a)["commits_scheduled"] == before + 3
    assert torchlette.explain(v)["commits_scheduled"] == before + 3
    assert a.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_minimal_forcing(device: str) -> None:
    """A read of a pure value runs only the work that the value depends on."""
    a = torchlette.ones(8, device=device)
    a.tolist()
    other = [a * float(i) for i in range(2, 30)]
    wanted = a + 5
    with Delta() as seen:
        assert wanted[0].item() == 6.0
    assert seen["nodes_executed"] <= 2
    assert other[0][0].item() == 2.0


def test_views_see_writes_both_ways(device: str) -> None:
    """Writes through any alias are seen through every other."""
    a = torchlette.arange(12, device=device).float().reshape(3, 4).clone()
    t, row = a.t(), a[1]
    row.mul_(10)
    assert t[:, 1].tolist() == [40.0, 50.0, 60.0, 70.0]
    t[0].fill_(-1)
    assert a[:, 0].tolist() == [-1.0, -1.0, -1.0]
    assert row[0].item() == -1.0
    a.zero_()
    assert t.sum().item() == 0.0


COERCIONS = {
    "bool": bool,
    "float": float,
    "int": int,
    "index": operator.index,
    "if": lambda t: 1 if t else 0,
    "not": operator.not_,
    "and": lambda t: t and 1,
    "range": range,
    "list index": lambda t: [1, 2, 3][t],
    "format": lambda t: f"{t:.3f}",
    "in": lambda t: t in [0, 5],
}


@pytest.mark.parametrize("name", COERCIONS)
def test_host_coercion_is_refused(name: str, device: str) -> None:
    """Python cannot turn a tensor into a number by accident; the error names the way out."""
    t = torchlette.ones((), dtype=torchlette.int64, device=device) + 1
    with Delta() as seen, pytest.raises(torchlette.TensorHostCoercionError, match=r"item\(\)"):
        COERCIONS[name](t)
    assert seen["nodes_executed"] == 0


def test_repr_reads_nothing(device: str) -> None:
    """repr shows metadata; it never computes."""
    t = torchlette.ones(3, device=device) + 1
    with Delta() as seen:
        text = repr(t)
    assert seen["nodes_executed"] == 0
    assert "3" in text and "float32" in text and "2." not in text


def test_the_facade_reads(device: str) -> None:
    """Under ``torchlette.torch`` the same coercions read, and print shows values."""
    import torchlette.torch as torch

    t = torch.ones((), device=device) + 1
    assert float(t) == 2.0
    assert bool(t)
    assert f"{t:.2f}" == "2.00"
    assert "2." in repr(torch.ones(3, device=device) + 1)
    u = torchlette.ones((), device=device)
    with pytest.raises(torchlette.TensorHostCoercionError):
        float(u)


def test_tidy_disposes_what_is_not_returned(device: str) -> None:
    """A scope disposes of the tensors created in it, except kept and returned ones."""
    with torchlette.tidy():
        inner = torchlette.ones(3, device=device)
        kept = torchlette.keep(inner + 1)
    assert kept.tolist() == [2.0] * 3
    with pytest.raises(torchlette.DisposedTensorError):
        inner.tolist()

    caught: list[torchlette.Tensor] = []

    def f(x: torchlette.Tensor) -> dict[str, list[torchlette.Tensor]]:
        caught.append(x * 2)
        return {"out": [caught[0] + 1]}

    out = torchlette.tidy(f, torchlette.ones(2, device=device))
    assert out["out"][0].tolist() == [3.0, 3.0]
    with pytest.raises(torchlette.DisposedTensorError):
        caught[0].tolist()


def test_tidy_nests(device: str) -> None:
    """A tensor that an inner scope returned outlives the scopes around; one that it kept, too; others end with it."""
    dropped: list[torchlette.Tensor] = []

    def f() -> torchlette.Tensor:
        dropped.append(torchlette.ones(2, device=device))
        return dropped[0] * 3

    with torchlette.tidy():
        outer = torchlette.ones(2, device=device)
        with torchlette.tidy():
            inner = torchlette.tidy(f)
            same = torchlette.tidy(lambda: outer)
        assert inner.tolist() == [3.0, 3.0]
    assert inner.tolist() == [3.0, 3.0]
    assert same.tolist() == [1.0, 1.0]
    with pytest.raises(torchlette.DisposedTensorError):
        dropped[0].tolist()


def test_tidy_closes_on_error(device: str) -> None:
    """An exception closes the scope like a return does."""
    leaked: list[torchlette.Tensor] = []
    with pytest.raises(ZeroDivisionError), torchlette.tidy():
        leaked.append(torchlette.ones(2, device=device))
        raise ZeroDivisionError
    with pytest.raises(torchlette.DisposedTensorError):
        leaked[0].tolist()
    assert torchlette.ones(2, device=device).tolist() == [1.0, 1.0]


def test_dispose(device: str) -> None:
    """dispose is idempotent, ends one handle, and leaves aliases alone."""
    a = torchlette.ones(4, device=device)
    v = a[1:]
    a.dispose()
    a.dispose()
    for use in (lambda: a + 1, a.tolist, lambda: a.add_(1), a.sum):
        with pytest.raises(torchlette.DisposedTensorError):
            use()
    assert v.tolist() == [1.0] * 3


def test_finalize_queue(device: str) -> None:
    """Dropped tensors wait in a queue and are drained by the next call; the finalizer does no more."""
    torchlette.zeros((), device=device).tolist()
    base = levels()
    for i in range(10_000):
        torchlette.full((4,), float(i), device=device)
    assert levels() == base


def test_finalize_queue_while_busy(device: str) -> None:
    """Tensors dropped in a reference cycle by a collection in mid-call are released too."""

    class Node:
        def __init__(self) -> None:
            self.me = self
            self.t = torchlette.ones(16, device=device)

    base = levels()
    gc.disable()
    try:
        for _ in range(500):
            Node()
        x = torchlette.ones(4, device=device)
        for i in range(200):
            x = x + 1
            if i % 50 == 0:
                gc.collect()
        assert x.tolist() == [201.0] * 4
    finally:
        gc.enable()
    del x
    assert levels() == base


def test_numpy_of_a_gpus_tensor_is_a_snapshot(device: str) -> None:
    """numpy() pins the version it shows and cannot be written; on the CPU it shows the memory."""
    a = torchlette.ones(4, device=device)
    shown = a.numpy()
    a.add_(1)
    np.testing.assert_array_equal(shown, np.full(4, 2 if device == "cpu" else 1, dtype="float32"))
    np.testing.assert_array_equal(a.numpy(), np.full(4, 2, dtype="float32"))
    if device != "cpu":
        with pytest.raises(ValueError, match="read-only"):
            shown[0] = 5


def test_tensor_copies(device: str) -> None:
    """Later writes to the array are not seen."""
    array = np.ones(4, dtype="float32")
    t = torchlette.tensor(array, device=device)
    array[:] = 7
    assert t.tolist() == [1.0] * 4


def test_deepcopy_and_pickle(device: str) -> None:
    """Copies are new tensors with the same value, dtype, device and requires_grad."""
    a = (torchlette.arange(6, device=device).float().reshape(2, 3)).clone().requires_grad_()
    for b in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert b.tolist() == a.tolist()
        assert b.requires_grad and b.is_leaf and str(b.device) == str(a.device)
        with torchlette.no_grad():
            b.zero_()
        assert a.detach()[1, 2].item() == 5.0


def test_memory_returns(device: str) -> None:
    """check_leaks names the tensors that outlive its block."""
    with torchlette.check_leaks():
        x = torchlette.ones(100, 100, device=device)
        (x @ x).sum().item()
        del x
    keep: list[torchlette.Tensor] = []
    with pytest.raises(torchlette.LeakError, match=r"test_lifetime\.py"), torchlette.check_leaks():
        keep.append(torchlette.ones(100, 100, device=device))


def test_the_cotangent_of_logits_is_written_over_them(device: str) -> None:
    """A step that trains through a cross-entropy needs one buffer of the logits' size, and its values are PyTorch's."""
    rows, width, classes = 64, 4, 8192  # logits of 2 MiB
    w = (
        (0.01 * torchlette.arange(classes * width, device=device).float().remainder(37))
        .view(classes, width)
        .requires_grad_()
    )
    x = torchlette.arange(rows * width, device=device).float().remainder(5).view(rows, width)
    target = torchlette.arange(rows, device=device) * 3

    def step() -> torchlette.Tensor:
        loss = torchlette.nn.functional.cross_entropy(x @ w.T, target)
        return torchlette.autograd.grad(loss, w)[0]

    got = step().tolist()
    gc.collect()
    torchlette._C._set_option("reset_peak", "")
    live = stats()["live_bytes"]
    again = step().tolist()
    assert again == got
    assert stats()["peak_bytes"] - live < 1.5 * rows * classes * 4
    theirs = torch.tensor(w.tolist(), requires_grad=True)
    loss = torch.nn.functional.cross_entropy(torch.tensor(x.tolist()) @ theirs.T, torch.tensor(target.tolist()))
    torch.testing.assert_close(torch.tensor(got), torch.autograd.grad(loss, theirs)[0])


def test_a_value_is_not_written_over_while_it_is_read_in_another_order(device: str) -> None:
    """A scatter reuses the buffer of the tensor that it updates at its last read, unless its source is a view of that
    tensor.
    """
    found = []
    for lib, place in ((torchlette, device), (torch, "cpu")):
        x = lib.arange(64 * 64, device=place).float().view(64, 64)
        index = (lib.arange(64, device=place).view(64, 1) + lib.arange(64, device=place)) % 64
        found.append(((x + 1).scatter(1, index, (x + 1).t()), (lambda v: v.scatter(1, index, v.t()))(x + 1)))
    for got, want in zip(*found, strict=True):
        assert got.tolist() == want.tolist()


def test_mark_step_runs_effects(device: str) -> None:
    """mark_step forces writes that nothing reads, flush submits them."""
    a = torchlette.ones(8, device=device)
    a.add_(1)
    with Delta() as seen:
        torchlette.mark_step()
    assert seen["nodes_executed"] >= 1
    a.mul_(2)
    torchlette.flush()
    assert stats()["nodes_pending"] == 0
    assert a.tolist() == [4.0] * 8
