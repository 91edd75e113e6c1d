"""Bad calls, those of the operator database and others by hand, raise PyTorch's class."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import database
import pytest
import scope
import torch

import torchlette

#: Entries whose bad calls raise nothing or another class, with reasons; None covers all calls of an entry.
EXCEPTIONS: dict[str, tuple[set[int] | None, str]] = {
    "masked_select": (None, "results never lie in their operands' memory"),
    "aminmax": ({4}, "results never lie in each other's memory"),
    "__rdiv__": (None, "Tensor.__rdiv__(2, x) is 2 / x here; PyTorch asks the number for its reciprocal()"),
    "narrow": (
        None,
        "a start that is a tensor is read where PyTorch's rules hold, and refused as a coercion elsewhere",
    ),
}


def excepted(op: Any, number: int) -> bool:
    """Whether the list of exceptions has the call."""
    numbers, _ = EXCEPTIONS.get(op.name, (set(), ""))
    return numbers is None or number in numbers


def outcomes() -> Iterator[tuple[database.Outcome, bool]]:
    """Yield each bad call of the tiers' operators that exist here, and whether it is excepted."""
    for op in database.entries(scope.TIER_1 | scope.TIER_2 | scope.TIER_3):
        if op.error_inputs_func is None:
            continue
        try:
            database.counterpart(op)
        except AttributeError:
            continue
        for number, error_input in enumerate(op.error_inputs("cpu")):
            outcome = database.bad_call(op, error_input, number)
            if outcome is not None:
                yield outcome, excepted(op, number)


@pytest.mark.keeps_tensors
def test_the_database_s_bad_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """At least 95 % of the calls that are not excepted raise PyTorch's class, and there are 200 at least."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(outcomes())
    counted = [o for o, out in found if not out]
    right = [o for o in counted if o.right]
    with capsys.disabled():
        texts, out = sum(o.text_matches for o in right), len(found) - len(counted)
        print(
            f"\n{len(right)} of {len(counted)} bad calls raise PyTorch's class, {texts} with its message; {out} "
            f"excepted"
        )
        for o in counted:
            if not o.right:
                print(
                    f"  {o.place}: {type(o.got).__name__}: {str(o.got)[:80]} | want {type(o.want).__name__}: "
                    f"{str(o.want)[:80]}"
                )
    assert len(right) >= 200
    assert len(right) >= 0.95 * len(counted)


BY_HAND = """
lib.ones(2, 3) + lib.ones(4)
lib.ones(2, 3) @ lib.ones(2, 3)
lib.ones(2).view(3)
lib.ones(2, 3).sum(2)
lib.ones(2, 3).sum((0, 0))
lib.ones(2, 3)[2]
lib.ones(2, 3)[:, :, 0]
lib.ones(2, 3)[lib.tensor([5])].tolist()
lib.cat([])
lib.cat([lib.ones(2, 3), lib.ones(2, 4)])
lib.stack([lib.ones(2), lib.ones(3)])
lib.ones(-1)
lib.ones('a')
lib.zeros(2, dtype='float32')
lib.tensor([[1, 2], [3]])
lib.tensor('text')
lib.tensor(object())
lib.ones(2).item()
lib.ones(2).reshape(-1, -1)
lib.ones(2).expand(3)
lib.ones(2, 3).transpose(0, 2)
lib.ones(2, 3).permute(0)
lib.ones(2, 3).permute(0, 0)
lib.ones(2).squeeze(1)
lib.ones(2, requires_grad=True).numpy()
lib.ones(2).backward()
lib.ones(2, requires_grad=True).backward()
lib.ones(2, dtype=lib.int64, requires_grad=True)
lib.ones(2, requires_grad=True).add_(1)
lib.ones(2).requires_grad_().mul(2).requires_grad_(False)
lib.ones(2).register_hook(print)
lib.autograd.grad(lib.ones(1), lib.ones(1))
lib.autograd.grad(lib.ones(1, requires_grad=True).sum(), lib.ones(1, requires_grad=True))
lib.ones(2).expand(2, 2).add_(1)
lib.ones(2, dtype=lib.int64).add_(1.5)
lib.ones(2, dtype=lib.bool) - lib.ones(2, dtype=lib.bool)
-lib.ones(2, dtype=lib.bool)
lib.add(lib.ones(2), lib.ones(2), out=lib.ones(2, dtype=lib.int64))
lib.add(lib.ones(2))
lib.add(lib.ones(2), 1, 2, 3, 4)
lib.add(lib.ones(2), other=1, nothing=2)
lib.ones(2).nothing
lib.nothing
lib.nn.functional.softmax(lib.ones(2), 3)
lib.nn.functional.cross_entropy(lib.ones(2, 3), lib.tensor([0, 5])).item()
lib.nn.functional.embedding(lib.tensor([5]), lib.ones(3, 2)).tolist()
lib.nn.functional.linear(lib.ones(2, 3), lib.ones(4, 5))
lib.nn.functional.conv2d(lib.ones(1, 2, 5, 5), lib.ones(3, 4, 3, 3))
lib.nn.functional.layer_norm(lib.ones(2, 3), (4,))
lib.nn.Linear(2, 3)(lib.ones(2, 4))
lib.nn.Linear(2, 3).load_state_dict({})
lib.nn.Linear(2, 3).nothing
lib.nn.Sequential(lib.nn.ReLU())[3]
lib.nn.Parameter(lib.ones(2, dtype=lib.int64))
lib.optim.SGD([], lr=1)
lib.optim.SGD([lib.ones(2, requires_grad=True)], lr=-1)
lib.optim.Adam([lib.ones(2, requires_grad=True) * 1])
lib.optim.Adam([lib.ones(2, requires_grad=True)], betas=(2, 0))
lib.randint(0, 0, (2,))
lib.randint(5, 2, (2,))
lib.arange(0, 5, -1)
lib.linspace(0, 1, -1)
lib.eye(-1)
lib.full((2,), 'a')
lib.multinomial(lib.ones(2), 3)
lib.ones(3).topk(5)
lib.ones(2, 3).gather(0, lib.ones(2, 3))
lib.ones(2, 3).gather(1, lib.full((2, 1), 7)).tolist()
lib.ones(2, 3).index_select(0, lib.tensor([7])).tolist()
lib.ones(2, 3).masked_fill(lib.ones(2, 3), 1)
lib.where(lib.ones(2), 1.0, lib.ones(2))
lib.ones(2, 3).split(0)
lib.ones(2, 3).split([1, 2])
lib.ones(2, 3).chunk(0)
lib.einsum('ij,jk', lib.ones(2, 3), lib.ones(4, 5))
lib.ones(2).to('nowhere')
lib.device('nowhere')
lib.ones(2, device='nowhere')
lib.frombuffer(b'', dtype=lib.float32)
lib.from_numpy([1, 2])
lib.manual_seed('a')
lib.Generator().manual_seed('a')
lib.utils.data.DataLoader([1], batch_size=0)
lib.utils.data.random_split([1, 2], [3, 4])
lib.utils.data.RandomSampler([])
lib.no_grad().nothing
setattr(lib.ones(2), 'grad', 3)
setattr(lib.ones(2), 'grad', lib.ones(3))
setattr(lib.ones(2), 'data', 3)
setattr(lib.ones(2), 'requires_grad', 3)
lib.ones(2).retain_grad()
bool(lib.ones(2))
float(lib.ones(2))
int(lib.ones(0))
len(lib.tensor(1))
iter(lib.tensor(1))
lib.ones(2) @ 3
lib.ones(2) + 'a'
lib.ones(2) + None
lib.ones(2) < 'a'
lib.ones(2, 3).mean(dtype=lib.int64)
lib.ones(2, dtype=lib.int64).mean()
lib.ones(2, 3).var(5)
lib.ones(0).max()
lib.ones(0, 3).max(0)
lib.ones(0).argmax()
lib.ones(2, 3).norm(dim=4)
"""


def errors_of(code: str) -> list[Exception]:
    """Return the errors of a call under PyTorch and under this library."""
    import torchlette.torch as facade

    errors: list[Exception] = []
    for lib in (torch, facade):
        with pytest.raises(database.CLASSES) as caught:
            eval(code, {"lib": lib})
        errors.append(caught.value)
    return errors


@pytest.mark.parametrize("code", BY_HAND.split("\n")[1:-1])
def test_bad_calls_by_hand(code: str) -> None:
    """The class is PyTorch's, and ours has a text."""
    errors = errors_of(code)
    kind = next(c for c in database.CLASSES if isinstance(errors[0], c))
    assert isinstance(errors[1], kind), (
        f"got {type(errors[1]).__name__}: {errors[1]}; want {type(errors[0]).__name__}: {errors[0]}"
    )
    assert str(errors[1])
    assert not isinstance(errors[1], torchlette.InternalError)


PYTORCHS_TEXTS = """
lib.ones(3, 4).index_add(0, lib.zeros(2, 2, dtype=lib.int64), lib.ones(3, 4))
lib.ones(3, 4).index_add(0, lib.tensor([0.0, 1.0]), lib.ones(2, 4))
lib.ones(3, 4).index_add(0, lib.tensor([0, 1]), lib.ones(2, 4, dtype=lib.int64))
lib.ones(3, 4).index_reduce(0, lib.tensor([0, 1]), lib.ones(3, 4), "prod")
lib.ones(3, 4).masked_fill(lib.ones(5, dtype=lib.bool), 1.0)
lib.from_numpy([1])
"""


@pytest.mark.parametrize("code", PYTORCHS_TEXTS.split("\n")[1:-1])
def test_bad_calls_have_pytorchs_text(code: str) -> None:
    theirs, ours = (str(error).partition("\n")[0] for error in errors_of(code))
    assert ours == theirs
