"""Operators on 0-dim tensors, empty tensors and tensors of one element.

An operator computes or refuses them; neither the call nor the backward pass gives an internal error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import database
import pytest
import scope
import torch

import torchlette
import torchlette.torch

SHAPES = ((), (0,), (2, 0), (0, 3), (1,), (1, 1), (0, 0, 0))
#: The shapes that are given to one operand while the others keep theirs.
ALONE = ((), (0,), (1,), (1, 1))
LABELS = [database.label(op) for op in database.entries(scope.TIER_1 | scope.TIER_2 | scope.TIER_3)]
ENTRIES = {database.label(op): op for op in database.op_db}
SAMPLES = 6


def tensors(value: Any) -> list[Any]:
    """Return the tensors of nested arguments or results, in order."""
    if isinstance(value, (torch.Tensor, torchlette.Tensor)):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [t for item in items for t in tensors(item)]


def replaced(value: Any, shapes: Iterator[tuple[int, ...] | None]) -> Any:
    """Return an argument with ones of the next shapes in place of its tensors; None keeps a tensor."""
    if isinstance(value, torch.Tensor):
        shape = next(shapes)
        return value.detach() if shape is None else torch.ones(shape, dtype=value.dtype)
    if type(value) in (list, tuple):
        return type(value)(replaced(item, shapes) for item in value)
    if isinstance(value, dict):
        return {key: replaced(item, shapes) for key, item in value.items()}
    return value


def calls(sample: Any) -> Iterator[tuple[Any, Any]]:
    """Yield positional and keyword arguments of one sample in each form."""
    arguments = [[sample.input, *sample.args], sample.kwargs]
    count = len(tensors(arguments))
    forms = [(shape,) * count for shape in SHAPES]
    if count > 1:
        forms += [tuple(s if k == i else None for k in range(count)) for i in range(count) for s in ALONE]
    for form in forms:
        args, kwargs = replaced(arguments, iter(form))
        yield args, kwargs


def attempt(f: Any, args: Any, kwargs: Any) -> str:
    """Call and read the result and the gradients; return the text of an internal error, else nothing."""
    convert = database.Converter("cpu")
    try:
        ours = [convert(a) for a in args]
        named = {k: convert(v) for k, v in kwargs.items()}
        leaves = [t.requires_grad_() for t in tensors([ours, named]) if t.is_floating_point()]
        results = tensors(f(*ours, **named))
        roots = [t for t in results if t.requires_grad]
        for t in results:
            t.tolist()
        if roots and leaves:
            for g in torchlette.autograd.grad([t.sum() for t in roots], leaves, allow_unused=True):
                if g is not None:
                    g.tolist()
    except Exception as error:  # refused: each operator's own tests check the class
        if isinstance(error, torchlette.errors.InternalError) or "BUG" in str(error):
            return f"{[tuple(getattr(a, 'shape', ())) for a in tensors([args, kwargs])]}: {error}"
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", LABELS)
def test_no_operator_fails_inside(label: str) -> None:
    op = ENTRIES[label]
    f = database.counterpart(op)
    found = set()
    for dtype in (torch.float32, torch.int64):
        if dtype in op.dtypes:
            for sample in itertools.islice(op.sample_inputs("cpu", dtype), SAMPLES):
                found |= {attempt(f, args, kwargs) for args, kwargs in calls(sample)}
    assert found - {""} == set()


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.nn.functional.cross_entropy(lib.tensor(1.0), lib.tensor([0, 0])),
        lambda lib: lib.nn.functional.ctc_loss(lib.ones(5, 2, 3), lib.tensor(1), [5, 5], [1, 1]),
        lambda lib: lib.nn.functional.ctc_loss(lib.ones(5, 3), lib.tensor(1), lib.tensor(5), lib.tensor(1)),
        lambda lib: lib.nn.functional.ctc_loss(lib.ones(5, 2, 3), lib.ones(1, 1, 1, dtype=lib.long), [5, 5], [1, 1]),
        lambda lib: lib.nn.functional.conv1d(lib.tensor(1.0), lib.tensor(1.0), padding="same"),
        lambda lib: lib.nn.functional.conv2d(lib.ones(1, 1, 3, 3), lib.tensor(1.0), padding="same"),
        lambda lib: lib.searchsorted(lib.tensor(1.0), lib.tensor(1.0), sorter=lib.tensor(0)),
        lambda lib: lib.linalg.lstsq(lib.ones(3, 2), lib.tensor(1.0)),
        lambda lib: lib.linalg.lstsq(lib.ones(2, 3, 2), lib.ones(3)),
    ],
)
def test_refused_in_pytorchs_class(call: Any) -> None:
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        call(torch)
    for lib in (torchlette, torchlette.torch):
        with pytest.raises(type(theirs.value)):
            call(lib)
