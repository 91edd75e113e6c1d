"""torchlette.realize: values are there when it returns, computed together, and its errors are those of reads."""

from __future__ import annotations

from collections import namedtuple

import pytest

import torchlette
import torchlette.torch as facade


def test_values_are_there(device: str) -> None:
    """Nothing is left to run for tensors in any container, and nothing else was run."""
    x = torchlette.arange(6.0, device=device).reshape(2, 3)
    a, b, c, d, other = x + 1, (x * 2).t()[1:], x.sum(), x.exp(), x.log()
    pair = namedtuple("pair", "first second")(a, [b])
    before = torchlette.stats()["nodes_executed"]
    torchlette.realize(pair, {"c": c, "none": None}, {d})
    after = torchlette.stats()["nodes_executed"]
    assert after > before
    torchlette.realize(a, b, c, d)
    assert torchlette.stats()["nodes_executed"] == after
    assert (a.tolist(), c.item()) == ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 15.0)
    assert b.tolist() == [[2.0, 8.0], [4.0, 10.0]]
    other.tolist()
    assert torchlette.stats()["nodes_executed"] > after


def test_one_window_for_all(device: str) -> None:
    """What two tensors share is computed once, in one window."""
    x = torchlette.ones(4, device=device)
    torchlette.realize(x)
    before = torchlette.stats()["windows"]
    shared = x.exp()
    torchlette.realize(shared + 1, [shared * 2])
    assert torchlette.stats()["windows"] == before + 1


def test_in_place_writes_and_views_of_them(device: str) -> None:
    x = torchlette.zeros(3, 2, device=device)
    x[1] = 5.0
    view = x.t()
    torchlette.realize(view)
    x.add_(1)
    torchlette.realize(x)
    assert view.tolist() == [[1.0, 6.0, 1.0], [1.0, 6.0, 1.0]]


def test_modules_and_gradients(device: str) -> None:
    net = torchlette.nn.Linear(3, 2, device=device)
    net(torchlette.ones(4, 3, device=device)).sum().backward()
    torchlette.realize(net, [p.grad for p in net.parameters()])
    assert net.weight.grad.tolist() == [[4.0] * 3] * 2


def test_bad_index_raises(device: str) -> None:
    """A data error of these values, or of work submitted before, comes out of realize as out of a read."""
    x, i = torchlette.ones(3, device=device), torchlette.tensor([1, 7], device=device) + 0
    with pytest.raises(IndexError, match="out of bounds"):
        torchlette.realize(x[i])
    torchlette.realize(x * 2)


def test_bad_arguments() -> None:
    for bad in (3, None, "x"):
        with pytest.raises(TypeError, match="realize"):
            torchlette.realize(bad)
    with pytest.raises(TypeError):
        torchlette._C._realize([torchlette.ones(2), 3])
    gone = torchlette.ones(2) + 1
    gone.dispose()
    with pytest.raises(torchlette.DisposedTensorError):
        torchlette.realize([gone])
    torchlette.realize()
    torchlette.realize([], {}, [None, 3])


def test_many_tensors(device: str) -> None:
    x = torchlette.ones(2, device=device)
    many = [x * k for k in range(40)]
    torchlette.realize(many)
    assert many[39].tolist() == [39.0, 39.0]


def test_the_facade_has_it() -> None:
    assert facade.realize is torchlette.realize
