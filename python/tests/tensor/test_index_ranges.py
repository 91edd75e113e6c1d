"""Indices from the host are checked at the call, and only the elements of a storage that serve as indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oracle
import pytest
import torch

import torchlette

#: Column 0 holds good indices, column 1 bad ones.
PAIRS = [[1, 77], [2, 80], [0, 90]]

# : Calls with a vector of three indices into 10 rows or 5 classes. Those that raise at the call see the indices as they
# were given.
AT_THE_CALL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "embedding": lambda lib, x, i: lib.nn.functional.embedding(i, x),
    "embedding_bag": lambda lib, x, i: lib.nn.functional.embedding_bag(i[None], x),
    "gather": lambda lib, x, i: x.gather(0, i[:, None]),
    "scatter": lambda lib, x, i: x.scatter(0, i[:, None], 1.0),
    "scatter of a source": lambda lib, x, i: x.scatter(0, i[:, None], x[:3]),
    "scatter_add": lambda lib, x, i: x.scatter_add(0, i[:, None], x[:3]),
    "scatter_reduce": lambda lib, x, i: x.scatter_reduce(0, i[:, None], x[:3], "amax"),
    "index_select": lambda lib, x, i: x.index_select(0, i),
    "index_add": lambda lib, x, i: x.index_add(0, i, x[:3]),
    "index_copy": lambda lib, x, i: x.index_copy(0, i, x[:3]),
    "index_fill": lambda lib, x, i: x.index_fill(0, i, 3.0),
    "index_reduce": lambda lib, x, i: x.index_reduce(0, i, x[:3], "prod"),
    "cross_entropy": lambda lib, x, i: lib.nn.functional.cross_entropy(x[:3], i),
    "multi_margin_loss": lambda lib, x, i: lib.nn.functional.multi_margin_loss(x[:3], i),
    "one_hot": lambda lib, x, i: lib.nn.functional.one_hot(i, 10),
}
#: These bring indices into range first, or read them on the host.
LATER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "take": lambda lib, x, i: x.take(i),
    "put": lambda lib, x, i: x.put(i, x[0, :3]),
    "take_along_dim": lambda lib, x, i: x.take_along_dim(i[:, None], 0),
    "nll_loss": lambda lib, x, i: lib.nn.functional.nll_loss(x[:3], i),
    "x[i]": lambda lib, x, i: x[i],
    "x[:, i]": lambda lib, x, i: x[:, i],
    "x[i, i]": lambda lib, x, i: x[i, i],
    "index_put": lambda lib, x, i: x.index_put((i,), lib.tensor(1.0, device=x.device)),
    "int32": lambda lib, x, i: x.index_select(0, i.int()),
}
ALWAYS_GOOD: dict[str, Callable[[Any, Any, Any], Any]] = {
    "bincount": lambda lib, x, i: i.bincount(),
    "repeat_interleave": lambda lib, x, i: x[:3].repeat_interleave(i, 0),
}


def _inputs(lib: Any, device: str) -> tuple[Any, Any]:
    return lib.arange(50.0, device=device).reshape(10, 5), lib.tensor(PAIRS, device=device)


@pytest.mark.parametrize("name", [*AT_THE_CALL, *LATER, *ALWAYS_GOOD])
def test_a_good_column_beside_a_bad_one(device: str, name: str) -> None:
    call = (AT_THE_CALL | LATER | ALWAYS_GOOD)[name]
    (x, pairs), (y, theirs) = _inputs(torchlette, device), _inputs(torch, "cpu")
    for _ in range(3):  # by the rule, and by what was learnt from it
        oracle.assert_equal(call(torchlette, x, pairs[:, 0]), call(torch, y, theirs[:, 0]))


@pytest.mark.parametrize("name", AT_THE_CALL)
def test_a_bad_column_raises_at_the_call(device: str, name: str) -> None:
    (x, pairs), (y, theirs) = _inputs(torchlette, device), _inputs(torch, "cpu")
    with pytest.raises((IndexError, RuntimeError)):
        AT_THE_CALL[name](torch, y, theirs[:, 1])
    for bad in (pairs[:, 1], pairs[:, 1].clone()[:0].new_tensor([0, 1, 77]), pairs.t()[1]):
        with pytest.raises(IndexError, match="out of bounds"):
            AT_THE_CALL[name](torchlette, x, bad)


@pytest.mark.parametrize("name", [*AT_THE_CALL, *LATER])
def test_computed_indices_are_checked_on_the_device(device: str, name: str) -> None:
    call = (AT_THE_CALL | LATER)[name]
    (x, pairs), (y, theirs) = _inputs(torchlette, device), _inputs(torch, "cpu")
    pairs = pairs + 0
    oracle.assert_equal(call(torchlette, x, pairs[:, 0]), call(torch, y, theirs[:, 0]))
    with pytest.raises(IndexError, match="out of bounds"):
        call(torchlette, x, pairs[:, 1]).tolist()


VIEWS: dict[str, Callable[[Any], Any]] = {
    "steps": lambda p: p.flatten()[::2],
    "a row of the transpose": lambda p: p.t()[0],
    "an expanded element": lambda p: p[1:2, 0].expand(3),
    "as_strided": lambda p: p.as_strided((3,), (2,)),
    "as_strided with repeats": lambda p: p.as_strided((3,), (0,), 4),
    "a view of a view": lambda p: p[:, :1].t()[0][1:],
    "select": lambda p: p.select(1, 0),
    "unfold": lambda p: p.unfold(0, 2, 1)[0, 0],
    "nothing": lambda p: p[:0, 1],
    "a diagonal": lambda p: p.diagonal(-1)[:0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_judged_alone(device: str, name: str) -> None:
    (x, pairs), (y, theirs) = _inputs(torchlette, device), _inputs(torch, "cpu")
    oracle.assert_equal(x.index_select(0, VIEWS[name](pairs)), y.index_select(0, VIEWS[name](theirs)))


def test_writes_to_the_base_count(device: str) -> None:
    """After an in-place write neither the old elements' range nor the old view's is used."""
    x, pairs = _inputs(torchlette, device)
    bad = pairs[:, 1]
    with pytest.raises(IndexError):
        x.index_select(0, bad)
    pairs.remainder_(10)
    assert x.index_select(0, bad)[:, 0].tolist() == [35.0, 0.0, 0.0]
    torchlette.flush()
    assert x.index_select(0, bad)[:, 0].tolist() == [35.0, 0.0, 0.0]
    assert x.index_select(0, pairs.flatten())[:, 0].tolist() == [5.0, 35.0, 10.0, 0.0, 0.0, 0.0]
    pairs[0, 1] = 99
    torchlette.flush()
    with pytest.raises(IndexError):
        x.index_select(0, bad).tolist()


def test_ignored_classes_beside_others(device: str) -> None:
    both = torch.tensor([[1, -100], [-100, 4], [2, 50]])
    x = torch.arange(15.0).reshape(3, 5)
    ours, theirs = torchlette.tensor(both.tolist(), device=device), torch.nn.functional.cross_entropy(x, both[:, 0])
    logits = torchlette.arange(15.0, device=device).reshape(3, 5)
    oracle.assert_equal(torchlette.nn.functional.cross_entropy(logits, ours[:, 0]), theirs)
    with pytest.raises(IndexError):
        torchlette.nn.functional.cross_entropy(logits, ours[:, 1])
