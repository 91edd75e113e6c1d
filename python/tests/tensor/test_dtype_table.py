"""Facts about dtypes have one home, the engine's table: Python has the module generated from it and no list beside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import _C
from torchlette._runtime import dtype_table

PACKAGE = Path(torchlette.__file__).parent
NAMES = {d._name for d in dtype_table.DTYPES}
#: All names of dtypes in lists: the names, their aliases, PyTorch's classes, the short names in files.
CALLED = (
    {name: name for name in NAMES}
    | {name: d._name for name, d in vars(_C).items() if d in dtype_table.DTYPES}
    | {f"{scalar}{kind}": d._name for d, scalar in dtype_table.SCALAR_TYPES.items() for kind in ("Tensor", "Storage")}
    | {short: d._name for d, short in dtype_table.SHORT_NAMES.items()}
)
BUILTINS = {"bool", "int", "float"}
#: A list of all floating point dtypes, as tolerances are, is a fact about them and no list of all dtypes.
MOST = 4


def named(node: ast.AST) -> set[str]:
    """Return the dtypes that the code below a node names, outside of functions."""
    found = set()
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        found = {node.attr} & CALLED.keys()
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = {node.value} & CALLED.keys()
    elif isinstance(node, ast.Name):
        found = ({node.id} & CALLED.keys()) - BUILTINS
    found = {CALLED[name] for name in found}
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda | ast.arguments):
            found |= named(child)
    return found


def lists(tree: ast.Module) -> Iterator[tuple[int, set[str]]]:
    """Yield the dtypes of a module's own code, and those of each collection within a function."""
    yield 1, named(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set):
            yield node.lineno, named(node)


def second_lists(text: str) -> list[int]:
    """Return the lines of a source at which a list of dtypes begins."""
    return [line for line, dtypes in lists(ast.parse(text)) if len(dtypes) > MOST]


def test_no_other_file_lists_the_dtypes() -> None:
    sources = [p for p in PACKAGE.rglob("*.py") if p.name != "dtype_table.py"]
    assert len(sources) > 150
    assert {str(p.relative_to(PACKAGE)): found for p in sources if (found := second_lists(p.read_text()))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "SIZES = {'float16': 2, 'float32': 4, 'int8': 1, 'int32': 4, 'int64': 8}",
        "def f():\n    return (_C.float16, _C.float32, _C.int8, _C.int32, _C.bool)",
        "A = kind('FloatTensor')\nB = kind('IntTensor')\nC = kind('LongTensor')\nD = kind('ByteTensor')\nE = _C.half",
        "NAMES = ['F32', 'F16', 'I8', 'U8', 'BOOL']",
    ],
)
def test_a_second_list_is_found(text: str) -> None:
    assert second_lists(text)


def test_the_table_is_that_of_the_extension() -> None:
    """The extension numbers the dtypes in the table's order and answers as its kinds say."""
    own = {d for d in vars(_C).values() if isinstance(d, _C.dtype)}
    assert [d._id for d in dtype_table.DTYPES] == list(range(1, len(dtype_table.DTYPES) + 1))
    assert {d for d in own if d._id <= len(dtype_table.DTYPES)} == set(dtype_table.DTYPES)
    for d, kind in dtype_table.KINDS.items():
        assert (d.is_floating_point, d.is_signed, d.is_complex) == (kind == "f", kind in ("f", "i", "c"), kind == "c")
        assert (d in dtype_table.MANTISSAS) == (kind == "f")


def test_the_stub_declares_the_dtypes_of_the_extension() -> None:
    declared = re.findall(r"^(\w+): dtype$", (PACKAGE / "_C.pyi").read_text(), re.MULTILINE)
    assert sorted(declared) == sorted(name for name, d in vars(_C).items() if isinstance(d, _C.dtype))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_facts_are_pytorchs(name: str) -> None:
    """Names of classes, limits, size and promotion of each dtype are what PyTorch has."""
    ours, theirs = getattr(facade, name), getattr(torch, name)
    assert facade.zeros(1, dtype=ours).type() == torch.zeros(1, dtype=theirs).type()
    assert ours.itemsize == theirs.itemsize
    if theirs.is_floating_point:
        assert repr(facade.finfo(ours)) == repr(torch.finfo(theirs))
        assert facade.finfo(ours).max == torch.finfo(theirs).max
    elif name != "bool" and not theirs.is_complex:
        assert repr(facade.iinfo(ours)) == repr(torch.iinfo(theirs))
    for other in sorted(NAMES):
        if not {"uint16", "uint32", "uint64"} & {name, other}:  # PyTorch promotes it with few types
            got = facade.promote_types(ours, getattr(facade, other))
            assert str(got) == str(torch.promote_types(theirs, getattr(torch, other)))
        assert facade.can_cast(ours, getattr(facade, other)) == torch.can_cast(theirs, getattr(torch, other))
