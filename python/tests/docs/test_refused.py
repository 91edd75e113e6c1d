"""The names that are refused: the page is the table, nothing on it exists, and each says why."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import _refused

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_the_table() -> None:
    """docs/refused.md is what ``_refused.page`` gives: write that to it when they differ."""
    assert (ROOT / "docs" / "refused.md").read_text() == _refused.page()


@pytest.mark.parametrize("name", sorted(_refused.FUNCTIONS))
def test_functions(name: str) -> None:
    """A refused name is PyTorch's or was, does not exist here, and says why."""
    with pytest.raises(AttributeError) as caught:
        attrgetter(name)(torchlette)
    assert _refused.FUNCTIONS[name] in str(caught.value)
    module, _, last = name.rpartition(".")
    assert not hasattr(attrgetter(module)(facade) if module else facade, last)


@pytest.mark.parametrize("name", sorted(_refused.METHODS))
def test_methods(name: str) -> None:
    """A refused method raises when it is called."""
    assert hasattr(torch.Tensor, name)
    with pytest.raises(NotImplementedError):
        getattr(torchlette.ones(2), name)(1)
