"""The generated page of imported operators."""

from __future__ import annotations

from pathlib import Path

from torchlette._import.page import page

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_of_imported_operators_is_current():
    """docs/imported-operators.md is what ``page`` gives: write that to it when they differ."""
    assert (ROOT / "docs" / "imported-operators.md").read_text() == page()
