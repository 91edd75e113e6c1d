"""Mistakes that users make, with what PyTorch does then: the class and text of its error, or its warning."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade

LIBS = [torch, facade]


def outcome(run: Callable[[], Any]) -> tuple[list[type], str, list[str]]:
    """Return the built-in classes of the error, its text, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run()
            error = None
        except Exception as e:
            error = e
    classes = [c for c in type(error).__mro__ if c.__module__ == "builtins"]
    return classes, str(error), [f"{w.category.__name__}: {w.message}" for w in caught]


def test_a_gradient_that_backward_does_not_keep_warns() -> None:
    for lib in LIBS:
        x = lib.ones(2, requires_grad=True)
        hidden, kept = x * 2, x * 3
        kept.retain_grad()
        (hidden + kept).sum().backward()
        (text,) = outcome(lambda at=hidden: at.grad)[2]
        assert "UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is being accessed." in text
        assert ".retain_grad()" in text
        for t in (x, kept, x.detach(), lib.ones(1)):
            assert outcome(lambda at=t: at.grad)[2] == []


def test_memory_that_is_not_shared_with_processes_raises(device: str) -> None:
    t = torchlette.ones(2, device=device)
    net = torchlette.nn.Linear(2, 2, device=device)
    if device == "cpu":
        with pytest.raises(NotImplementedError, match="shared between processes"):
            t.share_memory_()
        with pytest.raises(NotImplementedError, match="shared between processes"):
            net.share_memory()
    else:  # as tensors of CUDA in PyTorch
        assert t.share_memory_() is t
        assert net.share_memory() is net


@pytest.mark.parametrize("keep", [0, 7, 300, -40])
def test_files_that_are_cut_off_raise_a_class_of_pytorchs(keep: int, tmp_path: Path) -> None:
    """A run that resumes from the last checkpoint that can be read catches these."""
    file = io.BytesIO()
    torch.save({"weights": torch.ones(1000)}, file)
    path = tmp_path / "cut.pt"
    path.write_bytes(file.getvalue()[:keep])
    with pytest.raises(torchlette.FileFormatError) as caught:
        facade.load(path)
    assert isinstance(caught.value, (RuntimeError, EOFError, ValueError))
    classes = outcome(lambda: torch.load(path))[0]
    assert isinstance(caught.value, classes[0]) or classes[0] in (KeyError, OSError)  # what the bytes happen to be


def test_saving_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    for lib in LIBS:
        classes, text, _ = outcome(lambda of=lib: of.save({"a": of.ones(1)}, os.path.join(tmp_path, "no", "a.pt")))
        assert RuntimeError in classes
        assert text == f"Parent directory {tmp_path}/no does not exist."


def test_a_loss_of_no_probabilities_raises(device: str) -> None:
    """A sigmoid that was forgotten: the read of the loss or of its gradient raises PyTorch's error."""
    bce = facade.nn.functional.binary_cross_entropy
    with pytest.raises(RuntimeError) as want:
        torch.nn.functional.binary_cross_entropy(torch.tensor([0.5, 1.5]), torch.ones(2))
    for wrong in (-0.25, 1.5, float("nan")):
        x = facade.tensor([0.5, wrong], device=device, requires_grad=True)
        with pytest.raises(RuntimeError, match=str(want.value)):
            bce(x, facade.ones(2, device=device)).item()
    edges = facade.tensor([0.0, 1.0], device=device)
    assert bce(edges, facade.tensor([0.0, 1.0], device=device)).item() == 0


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "linear of rows": lambda t: t.nn.Linear(4, 5)(t.ones(2, 3)),
    "linear of batches": lambda t: t.nn.Linear(4, 5)(t.ones(2, 2, 3)),
    "linear without bias": lambda t: t.nn.Linear(4, 5, bias=False)(t.ones(2, 3)),
    "matmul": lambda t: t.ones(2, 3) @ t.ones(4, 5),
    "shapes that differ twice": lambda t: t.ones(3, 2) + t.ones(2, 3),
    "rows by a tensor": lambda t: t.ones(3, 2)[t.tensor([9])].tolist(),
    "gather": lambda t: t.ones(2, 4).gather(1, t.tensor([[7]])).tolist(),
    "scatter": lambda t: t.zeros(2).scatter_(0, t.tensor([3]), 1.0).tolist(),
    "a class too large": lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.tensor([0, 9])).item(),
    "convolution": lambda t: t.nn.Conv2d(3, 4, 3)(t.ones(1, 3, 2, 5)),
    "pooling": lambda t: t.nn.MaxPool2d(3)(t.ones(1, 1, 2, 2)),
    "kthvalue": lambda t: t.kthvalue(t.ones(3), 5),
    "cholesky_solve": lambda t: t.cholesky_solve(t.ones(2), t.ones(2)),
    "bincount": lambda t: t.bincount(t.ones(2)),
    "an unused input": lambda t: t.autograd.grad(t.ones(2, requires_grad=True).sum(), [t.ones(2, requires_grad=True)]),
    "negative sizes": lambda t: t.rand(2, -1),
    "negative sizes of zeros": lambda t: t.zeros(2, -1),
    "prelu of two dtypes": lambda t: t.nn.functional.prelu(t.ones(2, 3).double(), t.ones(1)),
    "a cell's input": lambda t: t.nn.LSTMCell(3, 4)(t.ones(2, 5)),
    "a cell's state": lambda t: t.nn.LSTMCell(3, 4)(t.ones(2, 3), (t.ones(2, 4), t.ones(2, 5))),
    "a cell's batch": lambda t: t.nn.RNNCell(3, 4)(t.ones(2, 3), t.ones(3, 4)),
    "keys of attention": lambda t: t.nn.MultiheadAttention(4, 2, kdim=3, vdim=3)(
        t.ones(2, 1, 4), t.ones(2, 1, 5), t.ones(2, 1, 3)
    ),
    "a gradient of integers": lambda t: t.ones(2).long().requires_grad_(),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_texts_of_mistakes_are_pytorchs(name: str) -> None:
    (classes, ours, _), (wanted, theirs, _) = (outcome(lambda at=t: MISTAKES[name](at)) for t in (facade, torch))
    assert ours == theirs
    assert wanted[0] in classes


def test_a_gradient_of_the_wrong_type() -> None:
    for lib in LIBS:
        x = lib.ones(2, requires_grad=True)
        classes, text, _ = outcome(lambda at=x: setattr(at, "grad", 1))
        assert classes[0] is TypeError
        assert text == "assigned grad expected to be a Tensor or None but got grad of type int"
