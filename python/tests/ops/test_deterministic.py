"""Deterministic algorithms give the same results by other kernels, and the same bits each time."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn.functional as F  # noqa: E402


@pytest.fixture
def deterministic():
    tl.use_deterministic_algorithms(True)
    yield
    tl.use_deterministic_algorithms(False)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def index(n, size, seed=1):
    return np.random.default_rng(seed).integers(0, size, n)


def embedding(lib, make):
    w = make(draw(11, 6)).requires_grad_()
    i = make(index((5, 40), 11))
    (lib.nn.functional.embedding(i, w) * make(draw(5, 40, 6, seed=2))).sum().backward()
    return w.grad


def put(lib, make):
    x = make(draw(7, 3))
    return x.index_put((make(index(50, 7)),), make(draw(50, 3, seed=2)), accumulate=True)


def overlapping(lib, make):
    x = make(draw(20)).requires_grad_()
    (x.unfold(0, 8, 3) * make(draw(5, 8, seed=2))).sum().backward()
    return x.grad


def product(lib, make):
    return make(draw(4, 3)).scatter_reduce(0, make(index((30, 3), 4)), make(1 + 0.1 * draw(30, 3, seed=2)), "prod")


CASES = {
    "scatter_add": lambda lib, make: make(draw(5, 4)).scatter_add(
        1, make(index((5, 90), 4)), make(draw(5, 90, seed=2))
    ),
    "index_add": lambda lib, make: make(draw(5, 6)).index_add(0, make(index(70, 5)), make(draw(70, 6, seed=2))),
    "index_put": put,
    "embedding": embedding,
    "overlapping": overlapping,
    "product": product,
}


def kernels(t):
    return {k["name"].split("_")[0] for k in tl.explain(t)["plan"]["kernels"]}


@pytest.mark.parametrize("case", CASES)
def test_the_same_results_by_other_kernels(device, deterministic, case):
    """The mode is read when an operation is recorded: the same call has two plans, and switching back replays the
    first.
    """
    call = CASES[case]
    want = call(torch, torch.tensor)

    def ours():
        y = call(tl, lambda a: tl.tensor(a, device=device))
        torch.testing.assert_close(torch.tensor(y.cpu().numpy()), want.detach(), rtol=1e-4, atol=1e-5)
        return y

    bits = [ours().cpu().numpy().tobytes() for _ in range(5)]  # by the rule, then recalled, then replayed
    assert len(set(bits)) == 1
    assert ("runs" in kernels(ours())) == (device != "cpu")
    tl.use_deterministic_algorithms(False)
    assert "runs" not in kernels(ours())


def test_the_last_value_written_stays(device, deterministic):
    i, v = index(500, 7), draw(500)
    want = np.zeros(7, np.float32)
    want[i] = v
    got = tl.zeros(7, device=device).scatter(0, tl.tensor(i, device=device), tl.tensor(v, device=device))
    np.testing.assert_array_equal(got.cpu().numpy(), want)


def test_an_index_out_of_range_is_still_found(device, deterministic):
    i = tl.tensor([0, 3, 9], device=device) + 0
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        tl.zeros(4, device=device).scatter_add(0, i, tl.ones(3, device=device)).tolist()


def test_integers_and_wide_rows(device, deterministic):
    n = 3000  # more than one block of the sort
    i = index(n, 5)
    x = tl.zeros(5, dtype=tl.int64, device=device).index_add(
        0, tl.tensor(i, device=device), tl.ones(n, dtype=tl.int64, device=device)
    )
    assert x.tolist() == np.bincount(i, minlength=5).tolist()
    y = tl.zeros(5, device=device).index_add(0, tl.tensor(i, device=device), tl.tensor(draw(n), device=device))
    np.testing.assert_allclose(y.cpu().numpy(), np.bincount(i, draw(n).astype(np.float64), 5), rtol=1e-4, atol=1e-4)


def test_the_switches():
    assert not tl.are_deterministic_algorithms_enabled()
    for mode, number in (("warn", 1), ("error", 2), (1, 1), (2, 2), ("default", 0)):
        tl.set_deterministic_debug_mode(mode)
        assert tl.get_deterministic_debug_mode() == number
        assert tl.are_deterministic_algorithms_enabled() == (number > 0)
        assert tl.is_deterministic_algorithms_warn_only_enabled() == (number == 1)
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        tl.set_deterministic_debug_mode("loud")
    with pytest.raises(TypeError, match="must be str or int"):
        tl.set_deterministic_debug_mode(1.5)


def test_modules_read_the_mode_when_they_run(device):
    """A gradient recorded after the switch is deterministic though its forward pass was not."""
    w = tl.tensor(draw(9, 4), device=device, requires_grad=True)
    y = F.embedding(tl.tensor(index(60, 9), device=device), w)
    tl.use_deterministic_algorithms(True)
    y.sum().backward()
    w.grad.tolist()
    assert ("runs" in kernels(w.grad)) == (device != "cpu")
    tl.use_deterministic_algorithms(False)
