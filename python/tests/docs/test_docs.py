"""Every Python block of the pages runs, and every command and path that they name exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Yield the fenced blocks of one language with their place."""
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            if match.group(1) == language:
                line = text[: match.start()].count("\n") + 2
                yield f"{page.name}:{line}", match.group(2)


PYTHON = list(blocks("python"))


@pytest.mark.parametrize(("place", "code"), PYTHON, ids=[p for p, _ in PYTHON])
def test_python_block_runs(place: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A block runs as it stands; where it shows output after ``# ->``, that is what it prints."""
    exec(compile(code, place, "exec"), {"__name__": "__main__"})
    shown = re.findall(r"# -> (.*)$", code, re.MULTILINE)
    if shown:
        assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [s.strip() for s in shown]


def test_the_readme_has_an_example() -> None:
    """The list of blocks is not empty by accident."""
    assert any(place.startswith("README.md") for place, _ in PYTHON)


def make_targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([\w-]+)\s*:", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_exist(page: Path) -> None:
    """``make x`` names a target; ``python path`` names a file."""
    text = page.read_text()
    for target in re.findall(r"`make ([\w-]+)`", text) + re.findall(r"^make ([\w-]+)", text, re.MULTILINE):
        assert target in make_targets(), f"{page.name} names make {target}"
    for command in re.findall(r"`(python [\w./ -]+)`", text):
        script = shlex.split(command)[1]
        if not script.startswith("-"):
            assert (ROOT / script).exists(), f"{page.name} names {script}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_paths_exist(page: Path) -> None:
    """Relative links and paths in code spans lead somewhere."""
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"
    for path in re.findall(r"`((?:engine|kernels|gpu|python|docs|ci|capi|demo|examples|benchmarks)/[\w./-]+)`", text):
        if "..." not in path:
            assert (ROOT / path).exists(), f"{page.name} names {path}"
