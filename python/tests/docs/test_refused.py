"""The names that are refused: the page is the table, nothing on it exists, and each says why."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette._runtime import refused

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_the_table() -> None:
    """docs/refused.md is what ``refused.page`` gives: write that to it when they differ."""
    assert (ROOT / "docs" / "refused.md").read_text() == refused.page()


@pytest.mark.parametrize("name", sorted(name for name in refused.FUNCTIONS if "." not in name))
def test_functions(name: str) -> None:
    """A refused name is PyTorch's or was, does not exist here, and says why."""
    with pytest.raises(AttributeError) as caught:
        getattr(torchlette, name)
    assert refused.FUNCTIONS[name] in str(caught.value)
    assert not hasattr(facade, name)


@pytest.mark.parametrize("name", sorted(refused.METHODS))
def test_methods(name: str) -> None:
    """A refused method raises when it is called."""
    assert hasattr(torch.Tensor, name)
    with pytest.raises(NotImplementedError):
        getattr(torchlette.ones(2), name)(1)
