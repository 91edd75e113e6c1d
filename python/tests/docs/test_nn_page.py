"""docs/nn.md lists exactly the names of ``torch.nn`` that this library lacks."""

from __future__ import annotations

import importlib
import re
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pytest
import torch

PAGE = Path(__file__).resolve().parents[3] / "docs" / "nn.md"
MODULES = [
    f"nn{name}"
    for name in ("", ".functional", ".init", ".utils", ".utils.prune", ".utils.rnn", ".attention", ".parallel")
]
#: Names without an underscore that PyTorch does not document: helpers that its modules import or define for themselves.
INTERNAL = re.compile(
    r"nn\.(common_types|factory_kwargs)"
    r"|nn\.functional\.(assert_int_or_pair|boolean_dispatch|grad|(handle|has)_torch_function\w*|native_channel_shuffle"
    r"|scaled_addmm_?)"
    r"|nn\.utils\.memory_format|nn\.utils\.rnn\.(PackedSequence_|bind)"
    r"|nn\.attention\.can_use_(efficient|flash)_attention"
    r"|nn\.parallel\.(DistributedDataParallelCPU|scatter_gather)"
)


def listed() -> list[str]:
    """Return the names of the page's table."""
    table = PAGE.read_text().partition("## What is not there")[2].partition("|---|---|")[2]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ")]
    return [name for cell in cells for name in re.findall(r"`(.+?)`", cell)]


def public(module: str) -> list[str]:
    """Return what PyTorch defines under a module, without names of other packages that it imports."""
    names = []
    theirs = importlib.import_module(f"torch.{module}")
    for name, value in vars(theirs).items():
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
        if not name.startswith("_") and callable(value) | isinstance(value, ModuleType) and home.startswith("torch.nn"):
            names.append(f"{module}.{name}")
    return names


def here(name: str) -> bool:
    """Report whether the library has a name."""
    module, _, last = name.rpartition(".")
    return hasattr(importlib.import_module(f"torchlette.torch.{module}"), last)


LISTED = listed()


@pytest.mark.parametrize("name", LISTED)
def test_a_listed_name_is_only_pytorchs(name: str) -> None:
    """A listed name exists in PyTorch and not here."""
    assert attrgetter(name)(torch) is not None
    assert not here(name)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_missing_is_listed(module: str) -> None:
    """Every public name of the module is here or on the page."""
    names = public(module)
    assert len(names) > 3
    assert [n for n in names if not here(n) and not INTERNAL.fullmatch(n) and n not in LISTED] == []
