"""The runner of PyTorch's test files, on a source tree of one small test file."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent

PROGRAM = """
import torch
import pytest
from torch.testing._internal.common_utils import TestCase, parametrize
from torch._private import decorator

class TestSmall(TestCase):
    @decorator(3)
    def test_values(self):
        self.assertEqual(torch.ones(2).sum().item(), 2)
    def test_wrong(self):
        assert torch.ones(2).sum().item() == 3, "sparse"
    @pytest.mark.skip
    def test_left_out(self):
        pass
    def test_public_names_have_no_standin(self):
        with pytest.raises(AttributeError):
            torch.a_public_name
        assert not torch._a_private_name()
"""


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("pytorch_suite_run", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_counts_and_reasons_of_a_file_are_written(runner, tmp_path):
    internal = tmp_path / "torch" / "testing" / "_internal"
    internal.mkdir(parents=True)
    (internal / "__init__.py").write_text("")
    (internal / "common_utils.py").write_text("from unittest import TestCase\nparametrize = None\n")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_small.py").write_text(PROGRAM)
    out = tmp_path / "out.md"
    assert runner.main([str(tmp_path), "--files", "test_small.py", "test_none.py", "--out", str(out)]) == 0
    text = out.read_text()
    assert "| test_small.py | 2 | 1 | 1 |" in text
    assert "| 1 | tensors are dense: sparse layouts are refused |" in text


def test_parts_of_a_file_are_added_and_long_tests_stop(runner, tmp_path):
    (tmp_path / "torch" / "testing" / "_internal").mkdir(parents=True)
    (tmp_path / "test").mkdir()
    tests = "".join(f"def test_{i}():\n    assert {i} != 2, 'two'\n" for i in range(4))
    tests += "def test_long():\n    import time\n    time.sleep(60)\n"
    (tmp_path / "test" / "test_small.py").write_text(tests)
    options = [str(tmp_path), "--files", "test_small.py", "--parts", "2", "--each", "1"]
    out = tmp_path / "out.md"
    assert runner.main([*options, "--out", str(out)]) == 0
    assert "| test_small.py | 3 | 2 | 0 |  |" in out.read_text()
    assert runner.main([*options, "--limit", "0.01", "--out", str(out)]) == 0
    assert "part 0: stopped after 0.01 s part 1: stopped" in out.read_text()


def test_messages_without_a_known_reason_are_counted(runner):
    assert runner.reasons({"a b": 2, "c": 1}, {"b$": "B"}) == {"B": 2, "unexplained": 1}


def test_reasons_of_a_test_go_by_its_name(runner):
    known = {r"^test_b.* \| no$": "by name", "a": "by message"}
    assert runner.reasons({"test_a | no": 1, "test_b1 | no": 2, "test_c | a": 1}, known) == {
        "unexplained": 1,
        "by name": 2,
        "by message": 1,
    }
