"""The associative scan gives the values and gradients of its loop."""

from __future__ import annotations

import importlib

import pytest

import torchlette.torch as facade


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(reverse: bool) -> None:
    """A recurrence h = a h + b as a scan of pairs, against its loop; sizes that are no power of two."""
    scan = importlib.import_module("torchlette.torch._higher_order_ops.associative_scan").associative_scan
    a, b = (facade.rand(2, 7, 3, requires_grad=True) for _ in range(2))
    _, got = scan(lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (a, b), dim=1, reverse=reverse)
    h, rows = facade.zeros(2, 3), []
    for t in reversed(range(7)) if reverse else range(7):
        h = a[:, t] * h + b[:, t]
        rows.append(h)
    want = facade.stack(rows[::-1] if reverse else rows, 1)
    facade.testing.assert_close(got, want)
    for mine, theirs in zip(
        facade.autograd.grad(got.sum(), (a, b)), facade.autograd.grad(want.sum(), (a, b)), strict=True
    ):
        facade.testing.assert_close(mine, theirs)
    for call, text in ((lambda: scan(None, a, 0), "must be a callable"), (lambda: scan(max, [], 0), "at least 1")):
        with pytest.raises(ValueError, match=text):
            call()
