"""The runner of the array API's suite, on a suite of one small file."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CONFIG = """
def pytest_addoption(parser):
    for name in ("--derandomize", "--disable-deadline"):
        parser.addoption(name, action="store_true")
    parser.addoption("--max-examples", type=int)
"""

PROGRAM = """
import os, pytest
def test_module_is_the_one_asked_for():
    assert os.environ["ARRAY_API_TESTS_MODULE"] == "a.b"
class TestInside:
    @pytest.mark.parametrize("text", ["x(1) -> +0"])
    def test_wrong(self, text):
        assert not text
"""


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("array_api_suite_run", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_failures_are_counted_and_must_be_known(runner, tmp_path, capsys):
    (tmp_path / "conftest.py").write_text(CONFIG)
    (tmp_path / "array_api_tests").mkdir()
    (tmp_path / "array_api_tests" / "__init__.py").write_text("")
    (tmp_path / "array_api_tests" / "test_small.py").write_text(PROGRAM)
    known, out = tmp_path / "known.txt", tmp_path / "out.md"
    known.write_text("")
    arguments = [str(tmp_path), "--module", "a.b", "--known", str(known), "--out", str(out)]
    assert runner.main(arguments) == 1
    name = "array_api_tests/test_small.py::TestInside::test_wrong[x(1) -> +0]"
    assert f"not known: {name}" in capsys.readouterr().out
    known.write_text(f"# zero is\n# odd\n{name}\n")
    assert runner.main(arguments) == 0
    text = out.read_text()
    assert "| test_small.py | 1 | 1 | 0 |" in text and "| 1 | zero is odd |" in text
    assert text.count("## a.b, 10 examples") == 1


def test_known_failures_have_reasons(runner):
    known = runner.known_failures(HERE / "known_failures.txt")
    assert 0 < len(known) <= 33
    assert all(known.values())
