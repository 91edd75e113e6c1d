"""Index expressions drawn at random, against PyTorch: read, write, add, and the gradients of all three.

An expression mixes ints, slices, None, Ellipsis, bools, index tensors of any integer dtype, masks, lists and arrays; a
few are wrong, and then both libraries must refuse them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette

EXPRESSIONS = {"cpu": 60, "wgpu": 12}  # of one seed; each new shape costs a software adapter a kernel
SEEDS = {"cpu": range(12), "wgpu": range(3)}
#: The parts of an expression, and how often each is drawn.
KINDS = {
    "int": 0.14,
    "slice": 0.2,
    "tensor": 0.3,
    "mask": 0.1,
    "none": 0.08,
    "ellipsis": 0.06,
    "list": 0.06,
    "array": 0.04,
    "bool": 0.02,
}
Rng = np.random.Generator
Key = Any


class Drawn:
    """A random index expression: ``key(lib, device)`` gives it with that library's tensors."""

    def __init__(self, rng: Rng, shape: tuple[int, ...]) -> None:
        self.rng = rng
        self.wrong = rng.random() < 0.06
        self.broadcast = tuple(rng.integers(1, 4, rng.integers(0, 3)))  # of the index tensors
        self.parts: list[tuple[str, Any]] = []
        at, ellipsis = 0, False
        while at < len(shape) and rng.random() < 0.9:
            kind = rng.choice(
                ["int", "slice", "tensor", "mask", "none", "ellipsis", "list", "array", "bool"],
                p=[0.14, 0.2, 0.3, 0.1, 0.08, 0.06, 0.06, 0.04, 0.02],
            )
            if kind == "ellipsis":
                if ellipsis:
                    continue
                ellipsis = True
                at += int(rng.integers(0, 2))
                self.parts.append((kind, Ellipsis))
                continue
            at += self.draw(kind, shape[at:])
        self.tuple = len(self.parts) != 1 or rng.random() < 0.5

    def draw(self, kind: str, sizes: tuple[int, ...]) -> int:
        """Append a part; return how many dims it takes."""
        rng, n = self.rng, sizes[0]
        low, high = (-n - 1, n + 1) if self.wrong else (-n, n)
        if kind == "none":
            self.parts.append((kind, None))
            return 0
        if kind == "bool":
            self.parts.append((kind, bool(rng.random() < 0.7)))
            return 0
        if kind == "slice":
            start, stop = (None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in range(2))
            self.parts.append((kind, slice(start, stop, [None, 1, 2, 3][rng.integers(0, 4)])))
            return 1
        if kind == "mask":
            rank = int(rng.integers(1, min(len(sizes), 2) + 1))
            mask = rng.random(sizes[:rank]) < 0.5
            self.parts.append(("tensor", mask if not self.wrong else np.append(mask, mask[:1], 0)))
            return rank
        if n == 0 and not self.wrong:  # an empty dim has no index but the empty ones
            self.parts.append(("tensor", np.zeros(0, np.int64)))
        elif kind == "int":
            self.parts.append((kind, int(rng.integers(low, high))))
        elif kind == "list":
            self.parts.append((kind, rng.integers(low, high, self.broadcast or (1,)).tolist()))
        else:
            shape = tuple(
                1 if rng.random() < 0.3 else k for k in self.broadcast[rng.integers(0, len(self.broadcast) + 1) :]
            )
            if shape == ():  # PyTorch checks this index even if the rest selects nothing; ours does not
                low, high = -n, n
            self.parts.append(
                (kind, rng.integers(low, max(high, low + 1), shape).astype([np.int64, np.int32][rng.integers(0, 2)]))
            )
        return 1

    def key(self, lib: Any, device: str) -> Key:
        """Return the expression for a library."""
        make: Callable[[Any], Any] = torch.tensor if lib is torch else lambda v: torchlette.tensor(v, device=device)
        parts = tuple(make(v) if kind == "tensor" else v for kind, v in self.parts)
        return parts if self.tuple else parts[0]

    def __str__(self) -> str:
        return str([v.tolist() if isinstance(v, np.ndarray) else v for _, v in self.parts]) + (
            "" if self.tuple else " (no tuple)"
        )


def outcome(f: Callable[..., Any], *args: Any) -> tuple[Any, Exception | None]:
    """Return the result of a call, forced, or its exception."""
    try:
        result = f(*args)
        for t in result:
            t.tolist()
    except Exception as error:
        with contextlib.suppress(Exception):
            torchlette.mark_step()  # the rest of what was recorded with the bad index
        return None, error
    return result, None


def get(lib: Any, x: Any, key: Key, cot: Callable[[Any], Any], value: Any) -> list[Any]:
    """Read, and the gradient of reading."""
    y = x[key]
    y.backward(cot(y))
    return [y.detach(), x.grad]


def put(lib: Any, x: Any, key: Key, cot: Callable[[Any], Any], value: Any) -> list[Any]:
    """Write, and the gradients of what was there and of what was written."""
    y = x * 1
    y[key] = value
    y.backward(cot(y))
    if x.grad is None:  # all of it was overwritten: PyTorch gives zeros, ours no gradient
        x.grad = lib.zeros_like(x)
    return [y.detach(), x.grad, *([value.grad] if hasattr(value, "grad") else [])]


def add(lib: Any, x: Any, key: Key, cot: Callable[[Any], Any], value: Any) -> list[Any]:
    """``+=``, where a repeated index counts once."""
    y = x * 1
    y[key] += value
    y.backward(cot(y))
    return [y.detach(), x.grad, *([value.grad] if hasattr(value, "grad") else [])]


def accumulate(lib: Any, x: Any, key: Key, cot: Callable[[Any], Any], value: Any) -> list[Any]:
    """``index_put(accumulate=True)``, where a repeated index adds each time."""
    y = x.index_put(key if isinstance(key, tuple) else (key,), value, accumulate=True)
    y.backward(cot(y))
    return [y.detach(), x.grad, value.grad]


def draw_value(rng: Rng, shape: tuple[int, ...], *, number: bool) -> Any:
    """Return a number, or an array that broadcasts to ``shape``."""
    if number:
        return float(rng.integers(-9, 10))
    kept = shape[rng.integers(0, len(shape) + 1) :]
    return rng.standard_normal([1 if rng.random() < 0.3 else n for n in kept]).astype(np.float32)


def compare(rng: Rng, device: str) -> tuple[bool, str]:
    """Compare one random expression in one use; return whether PyTorch accepts it, and the failure."""
    shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 5, rng.integers(0, 5)))
    drawn = Drawn(rng, shape)
    numbers = torch.arange(int(np.prod(shape))).reshape(shape)
    places, error = outcome(lambda: [numbers[drawn.key(torch, "cpu")]])
    picked = tuple(places[0].shape) if error is None else ()
    repeated = error is None and places[0].unique().numel() < places[0].numel()
    uses = [get, put, add]
    if all(kind == "tensor" for kind, _ in drawn.parts) and drawn.parts:
        uses.append(accumulate)
    use = uses[rng.integers(0, len(uses))]
    value = draw_value(rng, picked, number=use is not accumulate and (repeated or rng.random() < 0.3))
    x = rng.standard_normal(shape).astype(np.float32)
    cotangents = rng.standard_normal(4096).astype(np.float32)

    def run(lib: Any) -> tuple[Any, Exception | None]:
        make = (
            (lambda a: oracle.theirs(a, requires_grad=True))
            if lib is torch
            else (lambda a: oracle.ours(a, device, requires_grad=True))
        )
        plain = oracle.theirs if lib is torch else lambda a: oracle.ours(a, device)
        cot = lambda y: plain(cotangents[: y.numel()].reshape(tuple(y.shape)))  # noqa: E731
        v = make(value) if isinstance(value, np.ndarray) else value
        return outcome(use, lib, make(x), drawn.key(lib, device), cot, v)

    (want, refused), (got, failed) = run(torch), run(torchlette)
    label = f"{use.__name__} of {shape} at {drawn}, value {getattr(value, 'shape', value)}"
    if refused is not None or failed is not None:
        agree = refused is not None and failed is not None and isinstance(failed, type(refused))
        return refused is None, "" if agree else f"{label}: PyTorch {refused!r}, ours {failed!r}"
    try:
        oracle.assert_equal(got, want)
    except AssertionError as error:
        return True, f"{label}: {error}"
    return True, ""


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions(seed: int, device: str) -> None:
    if seed not in SEEDS[device]:
        pytest.skip("the software adapter runs fewer")
    rng = np.random.default_rng(seed)
    results = [compare(rng, device) for _ in range(EXPRESSIONS[device])]
    failures = [text for _, text in results if text]
    assert not failures, f"{len(failures)} of {len(results)} differ:\n" + "\n".join(failures[:20])
    assert sum(accepted for accepted, _ in results) > len(results) / 2  # the draw is not all errors


#: Lists with tensors, sequences, slices, None or Ellipsis in them stand for tuples in PyTorch; other lists are indices.
LISTED = [
    lambda lib: [[0, 1], [1, 2]],
    lambda lib: [(0, 1), (1, 2)],
    lambda lib: [[]],
    lambda lib: [[0, 1], 0],
    lambda lib: [lib.tensor(0), lib.tensor(1)],
    lambda lib: [lib.tensor([0, 1]), 1],
    lambda lib: [lib.tensor([True, False, True]), 1],
    lambda lib: [np.array([0, 1]), np.array([1, 2])],
    lambda lib: [np.array(1), np.array(2)],
    lambda lib: [range(2), range(2)],
    lambda lib: [slice(0, 1), 0],
    lambda lib: [None, 0],
    lambda lib: [..., 0],
    lambda lib: [[[0, 1], [1, 2]]],
    lambda lib: [[0]] * 32,
    lambda lib: [lib.tensor(0)] * 4,
    lambda lib: [True, 2],
    lambda lib: [1.7, 0.2],
    lambda lib: np.array([1.0, 2.0]),
    lambda lib: np.array([[0, 1], [1, 2]]),
    lambda lib: (..., np.array([0.0, 1.0])),
    lambda lib: {0},
]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("make", LISTED)
def test_lists_that_stand_for_tuples(make: Callable[[Any], Key], device: str) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)

    def run(lib: Any) -> list[Any]:
        t = oracle.theirs(x) if lib is torch else oracle.ours(x, device)
        read = t[make(lib)].clone()
        t[make(lib)] = -1
        return [read, t]

    (want, refused), (got, failed) = outcome(run, torch), outcome(run, torchlette)
    assert (refused is None) == (failed is None), f"PyTorch {refused!r}, ours {failed!r}"
    if refused is None:
        oracle.assert_equal(got, want)
    else:
        assert isinstance(failed, type(refused))


def test_a_list_that_stands_for_a_tuple_warns() -> None:
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        torchlette.ones(2, 2)[[[0], [1]]]


def test_masks_on_the_cpu_serve_every_device(device: str) -> None:
    mask, x = torchlette.tensor([True, False, True], device="cpu"), torchlette.arange(3.0, device=device)
    assert x[mask].tolist() == [0, 2]
    x[mask] = 5
    assert x.tolist() == [5, 1, 5]
    x[(mask,)] = torchlette.tensor(7.0, device="cpu")
    assert x.tolist() == [7, 1, 7]
    x[mask] += 1
    assert x.tolist() == [8, 1, 8]
    wide = torchlette.ones(3, 2, device=device)
    wide[mask] = 0
    assert wide.tolist() == [[0, 0], [1, 1], [0, 0]]
    if device != "cpu":
        with pytest.raises(RuntimeError, match="device"):
            torchlette.arange(3.0, device="cpu")[mask.to(device)] = 0
