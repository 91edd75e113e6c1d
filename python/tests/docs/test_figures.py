"""Figures that a page takes from a recorded result are those of the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "docs" / "performance.md"]
#: | [row](benchmarks/results/file.json) ... | ratio to PyTorch | ...
ROW = re.compile(r"^\| \[([^]]+)\]\(((?:\.\./)?benchmarks/results/[\w-]+\.json)\)[^|]*\| ([\d.]+) \|", re.MULTILINE)


def rows() -> Iterator[tuple[str, str, Path, str]]:
    """Yield page, row, file and figure of each row that names a recorded result."""
    for page in PAGES:
        for name, link, figure in ROW.findall(page.read_text()):
            yield page.name, name, page.parent / link, figure


ROWS = list(rows())


def test_there_are_rows() -> None:
    """The tables are found: the README has six rows for each device, the page of performance more."""
    found = [page for page, *_ in ROWS]
    assert found.count("README.md") == 12
    assert found.count("performance.md") > 40


@pytest.mark.parametrize(("page", "name", "path", "figure"), ROWS, ids=[f"{r[0]}: {r[1]}" for r in ROWS])
def test_a_figure_is_the_recorded_one(page: str, name: str, path: Path, figure: str) -> None:
    """The ratio of the row, rounded as the page rounds it."""
    ratios = [row["ratio"] for row in json.loads(path.read_text())["rows"] if row["name"] == name]
    assert len(ratios) == 1, f"{page}: {path.name} has {len(ratios)} rows {name}"
    assert f"{ratios[0]:.2f}" == figure
