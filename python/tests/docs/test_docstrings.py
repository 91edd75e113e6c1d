"""Public functions with three or more parameters document each parameter.

Public is what a module without an underscore in its path lists in ``__all__``: functions, and classes with their
methods. Operators that are generated have their text from their schema.
"""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import torchlette
from torchlette import _C

#: From this number of parameters on, an Args section is required.
MANY = 3
#: Programs for the project's own tests; their functions are called by their command lines.
TOOLS = ("torchlette.testing.fuzz", "torchlette.testing.holding", "torchlette.testing.programs")


def modules() -> Iterator[ModuleType]:
    """Yield the public modules."""
    yield torchlette
    for info in pkgutil.walk_packages(torchlette.__path__, "torchlette."):
        parts = info.name.split(".")[1:]
        if (
            not any(part.startswith("_") for part in parts)
            and not info.name.startswith(TOOLS)
            and info.ispkg | (parts[-1] not in ("libtorchlette", "tensorboard", "cpp_extension"))
        ):
            yield importlib.import_module(info.name)


def functions() -> dict[str, tuple[Callable[..., Any], str]]:
    """Return public functions and methods by name, with the documentation of a method's class."""
    found: dict[str, tuple[Callable[..., Any], str]] = {}

    def add(name: str, value: Any, outer: str = "") -> None:
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function) and (function.__module__ or "").startswith("torchlette"):
            found.setdefault(f"{function.__module__}.{function.__qualname__}", (function, outer))

    for module in modules():
        own = dir(module) if module is torchlette else ()
        for name in getattr(module, "__all__", [n for n in own if not n.startswith("_")]):
            value = getattr(module, name)
            add(name, value)
            if inspect.isclass(value) and value.__module__.startswith("torchlette"):
                for inner, method in vars(value).items():
                    if not inner.startswith("_"):
                        add(f"{name}.{inner}", method)
                    elif inner == "__init__" and not dataclasses.is_dataclass(value):
                        add(f"{name}.{inner}", method, inspect.getdoc(value) or "")
    return found


def parameters(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that a caller gives by name or place."""
    names = []
    for i, p in enumerate(inspect.signature(function).parameters.values()):
        receiver = i == 0 and p.name in ("self", "cls", "ctx")
        if not receiver and not p.name.startswith("_") and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            names.append(p.name)
    return names


def described(text: str) -> set[str]:
    """Return the parameters that the section ``Args`` of a text names."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n|\n)+)", text + "\n", re.MULTILINE)
    names = re.findall(r"^    ([\w, ]+):", section.group(1), re.MULTILINE) if section else []
    return {name.strip() for line in names for name in line.split(",")}


#: A text that refers to another one: "As :func:`grad`", "The arguments are those of :class:`Linear`".
ELSEWHERE = re.compile(r"[Aa]rguments are those of|parameters are those of")

FUNCTIONS = functions()
MANY_PARAMETERS = {name: value for name, value in FUNCTIONS.items() if len(parameters(value[0])) >= MANY}


def test_the_functions_are_found() -> None:
    """The list is not short by accident: functions, classes, methods, what is imported when it is first used."""
    assert len(FUNCTIONS) > 900
    assert len(MANY_PARAMETERS) > 300
    ends = ("functional.unfold", "func.jacrev", "sgd.SGD.__init__", "Module.register_buffer", "indexing.unique")
    for end in ends:
        assert any(name.endswith(end) for name in MANY_PARAMETERS), end


def test_a_parameter_without_a_text_is_found() -> None:
    def f(a: int, b: int, c: int) -> None: ...

    text = "Return.\n\nArgs:\n    a, b: Numbers,\n        both.\n\nRaises:\n    c: It."
    assert parameters(f) == ["a", "b", "c"]
    assert described(text) == {"a", "b"}


@pytest.mark.parametrize("name", sorted(MANY_PARAMETERS))
def test_every_parameter_is_described(name: str) -> None:
    function, outer = MANY_PARAMETERS[name]
    text = (inspect.getdoc(function) or "") + "\n\n" + outer
    if not ELSEWHERE.search(text):
        assert [
            p for p in parameters(function) if p not in described(inspect.getdoc(function) or "") | described(outer)
        ] == []


EXAMPLES = [
    test
    for name, (function, outer) in sorted(FUNCTIONS.items())
    for test in [
        doctest.DocTestParser().get_doctest(
            (inspect.getdoc(function) or "") + "\n\n" + outer, {"torchlette": torchlette}, name, None, None
        )
    ]
    if test.examples
]


@pytest.mark.parametrize("test", EXAMPLES, ids=[test.name for test in EXAMPLES])
def test_examples_run(test: doctest.DocTest) -> None:
    """Examples print the output that they show."""
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("name", sorted(_C._where))
def test_generated_operators_say_what_they_take(name: str) -> None:
    """``help`` of an operator has a signature with types and defaults for each form, and a sentence."""
    places = (getattr(place, name, None) for place in (_C, torchlette.Tensor))
    operator = next(place for place in places if callable(place))
    forms, _, sentence = (inspect.getdoc(operator) or "").partition("\n\n")
    assert all(re.match(r"\w+(\.\w+)?\(.*\) -> ", form) for form in forms.splitlines()), forms
    assert len(sentence) > 3 and not sentence.isspace(), sentence
