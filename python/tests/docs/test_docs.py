"""Every Python block of the pages runs, and every command and path that they name exists."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
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
def test_python_block_runs(
    place: str, code: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block runs as it stands, in an empty folder; where it shows output after ``# ->``, that is what it prints."""
    monkeypatch.chdir(tmp_path)
    exec(compile(code, place, "exec"), {"__name__": "__main__"})
    shown = re.findall(r"# -> (.*)$", code, re.MULTILINE)
    if shown:
        assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [s.strip() for s in shown]


def test_the_readme_has_an_example() -> None:
    """The list of blocks is not empty by accident."""
    assert any(place.startswith("README.md") for place, _ in PYTHON)


GO = [block for block in blocks("go") if block[0].startswith("add-a")]


@pytest.mark.parametrize(("place", "code"), GO, ids=[p for p, _ in GO])
def test_go_block_is_code_that_a_test_runs(place: str, code: str) -> None:
    """A Go block of a how-to page stands, word for word, in a Go test that the page names."""
    page = (ROOT / "docs" / "howto" / place.partition(":")[0]).read_text()
    named = [ROOT / path for path in re.findall(r"`([\w./-]+_test\.go)`", page)]
    assert any(code in path.read_text() for path in named if path.exists()), f"{place}: in none of {named}"


def test_the_how_to_pages_have_go_blocks() -> None:
    """The list of blocks is not empty by accident."""
    assert {place.partition(":")[0] for place, _ in GO} >= {
        "add-an-operator.md",
        "add-a-primitive.md",
        "add-a-pass.md",
        "add-a-dtype.md",
    }


def make_targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([\w-]+)\s*:", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    """``make x`` names a target; ``python path`` names a file."""
    text = page.read_text()
    for target in re.findall(r"`make ([\w-]+)`", text) + re.findall(r"^make ([\w-]+)", text, re.MULTILINE):
        assert target in make_targets(), f"{page.name} names make {target}"
    for command in re.findall(r"`(python [\w./ -]+)`", text):
        script = shlex.split(command)[1]
        if not script.startswith("-"):
            assert (ROOT / script).exists(), f"{page.name} names {script}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    """Relative links and paths in code spans lead somewhere."""
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", FENCE.sub("", re.sub(r"`[^`\n]+`", "", text))):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"
    for path in re.findall(
        r"`((?:ir|engine|kernels|gpu|python|docs|ci|cmd|capi|demo|examples|benchmarks)/[\w./-]+)`", text
    ):
        if "..." not in path:
            assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_a_decision_has_at_most_twelve_lines() -> None:
    """Decisions are short, so that the page is read."""
    sections = re.split(r"^## ", (ROOT / "docs" / "rationale.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) > 20
    for section in sections:
        title, *lines = section.splitlines()
        assert len([line for line in lines if line.strip()]) <= 12, title


def test_the_project_names_its_repository() -> None:
    """The URL of the package's metadata is that of the Go module."""
    module = re.search(r"^module (\S+)", (ROOT / "go.mod").read_text(), re.MULTILINE)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert module and urls["Repository"] == f"https://{module.group(1)}"


def test_every_test_file_has_a_row() -> None:
    """CONTRIBUTING's tables name each folder of Python tests, and each file of those about mechanisms."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tests = ROOT / "python" / "tests"
    for folder in sorted(p.name for p in tests.iterdir() if list(p.glob("test_*.py"))):
        assert f"`python/tests/{folder}`" in text, folder
    for folder in ("engine", "faults", "programs"):
        for path in sorted((tests / folder).glob("test_*.py")):
            assert f"`python/tests/{folder}/{path.name}`" in text, path.name


def test_every_go_package_with_tests_is_named() -> None:
    """A package with tests beside it is in a table of CONTRIBUTING, by one of its files or by its folder."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for top in ("capi", "cmd", "engine", "gpu", "ir", "kernels"):
        for folder in sorted({p.parent.relative_to(ROOT).as_posix() for p in (ROOT / top).rglob("*_test.go")}):
            assert re.search(rf"`{re.escape(folder)}(/\w+_test\.go)?`", text), folder
