"""Running out of memory: the values that do not fit fail, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import torchlette
import torchlette.torch as tl

#: Rows that fit no machine: 1.6 PB of float32 exceed a process's address space.
MANY = 10**14


def network(device: str) -> tl.nn.Module:
    """A small network with fixed parameters."""
    net = tl.nn.Sequential(tl.nn.Linear(4, 8), tl.nn.ReLU(), tl.nn.Linear(8, 1))
    with tl.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(tl.linspace(-1, 1, p.numel(), device="cpu").reshape(p.shape) * (k + 1))
    return net.to(device)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda ps: tl.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda ps: tl.optim.Adam(ps, lr=0.1),
    "AdamW": lambda ps: tl.optim.AdamW(ps, lr=0.1, weight_decay=0.5),
    "RMSprop": lambda ps: tl.optim.RMSprop(ps, lr=0.1),
}


def train(net: tl.nn.Module, optimizer: Any, rows: int, device: str) -> Any:
    """One training step; gives the loss."""
    optimizer.zero_grad()
    loss = net(tl.ones(rows, 4, device=device)).mean()
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_that_does_not_fit_leaves_training_as_it_was(device: str, name: str) -> None:
    """The failed step raises OutOfMemoryError with sizes; all other steps have the bits of a training without it."""
    net, twin = network(device), network(device)
    optimizer, spared = OPTIMIZERS[name](net.parameters()), OPTIMIZERS[name](twin.parameters())
    for rows in (MANY, 6, MANY, 3, 5):
        if rows != MANY:
            assert train(net, optimizer, rows, device).item() == train(twin, spared, rows, device).item()
        else:
            with pytest.raises(tl.OutOfMemoryError, match=r"\d+ bytes"):
                train(net, optimizer, rows, device)
        for p, q in zip(net.parameters(), twin.parameters(), strict=True):
            assert p.tolist() == q.tolist()


def test_a_step_that_does_not_fit_is_raised_where_the_loss_is_read(device: str) -> None:
    """Reading the loss raises before the parameters change; zero_grad and half the batch go on."""
    net = network(device)
    optimizer = tl.optim.SGD(net.parameters(), lr=0.1)
    before = [p.tolist() for p in net.parameters()]
    optimizer.zero_grad()
    loss = net(tl.ones(MANY, 4, device=device)).mean()
    with pytest.raises(tl.OutOfMemoryError, match="bytes"):
        loss.item()
    with pytest.raises(tl.OutOfMemoryError, match="bytes"):
        loss.item()
    assert [p.tolist() for p in net.parameters()] == before
    assert train(net, optimizer, 5, device).item() != 0
    assert [p.tolist() for p in net.parameters()] != before


def test_a_huge_tensor_concerns_nobody_else(device: str) -> None:
    """A failed allocation is not raised by reads, steps and flushes of other values."""
    other = torchlette.ones(3, device=device)
    huge = torchlette.zeros(10**15, device=device)
    assert (other + 1).sum().item() == 6
    torchlette.mark_step()
    torchlette.flush()
    for _ in range(2):
        with pytest.raises(torchlette.OutOfMemoryError, match="bytes"):
            huge[:3].sum().item()
    assert (other + 2).sum().item() == 9
    part = huge[5:7] + 1
    with pytest.raises(torchlette.OutOfMemoryError, match="bytes"):
        part.sum().item()


def test_out_of_memory_names_the_line(device: str) -> None:
    """The note names the line of the failed operator instead of the line of the read."""
    huge = torchlette.zeros(10**15, device=device)
    total = huge.sum()
    with pytest.raises(torchlette.OutOfMemoryError) as caught:
        total.item()
    assert any("test_memory.py" in note for note in caught.value.__notes__)


def test_a_lost_write_is_told_once(device: str) -> None:
    """An in-place write of a failed value leaves the tensor unchanged and raises once."""
    x = torchlette.ones(3, device=device)
    x += torchlette.zeros(10**15, device=device)[:3]
    with pytest.raises(torchlette.OutOfMemoryError):
        x.tolist()
    assert x.tolist() == [1.0, 1.0, 1.0]
    torchlette.mark_step()
    x += 1
    assert x.tolist() == [2.0, 2.0, 2.0]
