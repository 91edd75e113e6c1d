"""Recording: what ``a + b`` on four floats costs the caller, against PyTorch's whole ``a + b``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from measure import Row, main, race

import torchlette

N = 10_000


def _loop(a: Any, b: Any) -> None:
    for _ in range(N):
        a + b


def rows() -> Iterator[Row]:
    """Measure with and without a tape."""
    for grad in (False, True):
        sides = []
        for lib in (torchlette, torch):
            a = lib.ones(4, device="cpu").requires_grad_(grad)
            sides.append((a, lib.ones(4, device="cpu")))
        (a, b), (c, d) = sides
        ours, theirs = race(lambda a=a, b=b: _loop(a, b), lambda c=c, d=d: _loop(c, d))
        yield Row("record a + b, tape" if grad else "record a + b", ours / N, theirs / N)


if __name__ == "__main__":
    main("record", rows)
