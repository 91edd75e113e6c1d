"""Lets ``import torch`` give :mod:`torchlette.torch`, so that packages written for PyTorch run on this library.

Three ways, none of which is on by default:

* ``python -m torchlette.as_torch script.py [args]`` (or ``-m module [args]``) runs one program.
* ``TORCHLETTE_AS_TORCH=1`` does it for every Python process with this variable.
* The distribution ``torchlette-as-torch`` does it for an environment; installers then find a package ``torch``.

``torch.x.y`` is the module ``torchlette.torch.x.y`` itself, not a copy. ``importlib.metadata.version("torch")`` is
``torch.__version__``: the version of PyTorch whose names are followed, and this library's behind "+". All code of the
process follows PyTorch's rules, as if it had imported ``torchlette.torch``. Errors bear the names of the built-in
classes that PyTorch raises. A process that has imported PyTorch itself
is refused.

``python -m torchlette.as_torch --report script.py`` also prints which names the program asked for and did not get, with
the lines that asked.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys

from torchlette import _C

# Every process with TORCHLETTE_AS_TORCH imports this file: what only some need is imported when they need it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType, ModuleType
    from typing import Any

__all__ = ["activate", "main"]

_FACADE = "torchlette.torch"
#: Packages beside ``torch`` -> the module that has their names.
_BESIDE = {
    "functorch": "torchlette._compat.functorch",
    "functorch.experimental": "torchlette._compat.functorch",
    "functorch.experimental.control_flow": "torchlette._higher_order_ops",
}


def _distribution() -> Any:
    """Return the distribution ``torch``, for programs that ask for its version."""
    from importlib.metadata import Distribution
    from pathlib import Path

    from torchlette.torch.version import __version__

    class Metadata(Distribution):
        def read_text(self, filename: str) -> str | None:
            text = f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\nSummary: torchlette as torch\n"
            return text if filename == "METADATA" else None

        def locate_file(self, path: Any) -> Path:
            return Path(__file__).parent / str(path)

    return Metadata()


class TorchFinder:
    """Finds ``torch`` and its modules, ``functorch``, and the metadata of the distribution ``torch``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return a spec for ``torch`` and the modules that ``torchlette.torch`` has."""
        if name != "torch" and not name.startswith("torch.") and name not in _BESIDE:
            return None
        found = importlib.util.find_spec(_BESIDE.get(name) or _FACADE + name.removeprefix("torch"))
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None or name in _BESIDE
        loader: Any = TorchFinder
        return importlib.machinery.ModuleSpec(name, loader, origin=found.origin, is_package=is_package)

    @staticmethod
    def create_module(spec: importlib.machinery.ModuleSpec) -> None:
        """Return None: Python makes a default module, which :meth:`exec_module` replaces."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Put the module of ``torchlette.torch`` under PyTorch's name."""
        if module.__name__ in _BESIDE:
            beside = importlib.import_module(_BESIDE[module.__name__])
            if not hasattr(beside, "__path__"):
                beside.__path__ = []  # a package, to Python's import
            sys.modules[module.__name__] = beside
            return
        path = _FACADE + module.__name__.removeprefix("torch")
        found = importlib.import_module(path)
        found.__name__ = module.__name__  # packages compare it
        sys.modules[module.__name__] = found
        for name, value in vars(found).items():  # functions of their modules' names: the import would take them
            inside = sys.modules.get(f"{path}.{name}")
            if inside is not None and value is not inside:
                sys.modules[f"{module.__name__}.{name}"] = inside

    @staticmethod
    def find_distributions(context: Any = None) -> Iterator[Any]:
        """Return the metadata of ``torch`` when it is asked for by that name, or with all others."""
        if context is None or context.name is None or context.name.lower() == "torch":
            yield _distribution()


def activate() -> None:
    """Let ``import torch`` give ``torchlette.torch`` in this process.

    Raises:
        ImportError: PyTorch itself was imported before.
    """
    from torchlette._runtime.errors import take_built_in_names

    known = sys.modules.get("torch")
    if known is not None and known is not sys.modules.get(_FACADE) and getattr(known, "_C", None) is not None:
        raise ImportError(
            f"torchlette.as_torch: PyTorch was imported before, from {known.__file__}: call activate() before any "
            f"'import torch'"
        )
    if not any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder())
        _C._set_facade_everywhere(True)
        take_built_in_names()
        _C.Tensor.__name__ = _C.Tensor.__qualname__ = "Tensor"
        _C.Tensor.__module__ = "torch"


# What a program asked for and did not get ------------------------------------------------------------------------


def _asking_line(frame: FrameType | None) -> str:
    """Return the innermost line outside of this package and of Python's import machinery."""
    own = os.path.dirname(__file__)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith((own, "<frozen")) or "importlib" in file):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


class Report:
    """Collects the names of PyTorch that are asked for and are not here."""

    def __init__(self) -> None:
        """Begin with none."""
        self.missing: dict[str, dict[str, int]] = {}

    def note(self, name: str) -> None:
        """Add a name, and the line that asks."""
        lines = self.missing.setdefault(name, {})
        line = _asking_line(sys._getframe(1))
        lines[line] = lines.get(line, 0) + 1

    def install(self) -> None:
        """Watch the modules of ``torchlette.torch``, its finder, and tensors."""
        from torchlette.torch import _import_hook

        _import_hook.on_missing = self.note

        def tensor_attribute(tensor: Any, name: str) -> Any:
            if not name.startswith("__") or name == "__torch_function__":
                self.note(f"torch.Tensor.{name}")
            raise AttributeError(f"'{type(tensor).__name__}' object has no attribute '{name}'", name=name, obj=tensor)

        _C.Tensor.__getattr__ = tensor_attribute  # type: ignore[attr-defined]

    def text(self) -> str:
        """Return a line for each name, the most asked first, with the lines that asked below it."""
        if not self.missing:
            return "torchlette.as_torch: every name that the program asked for is there"
        lines = [f"torchlette.as_torch: {len(self.missing)} names that the program asked for are not there"]
        for name, places in sorted(self.missing.items(), key=lambda item: (-sum(item[1].values()), item[0])):
            lines.append(f"  {name}")
            lines += [f"    {place}" + (f" ({count} times)" if count > 1 else "") for place, count in places.items()]
        return "\n".join(lines)


def _program(arguments: list[str]) -> Callable[[], object]:
    """Return the function that runs a script or, after ``-m``, a module, with ``sys.argv`` as it expects."""
    import runpy

    if arguments[0] == "-m":
        if len(arguments) < 2:
            raise SystemExit("torchlette.as_torch: -m: expected the name of a module")
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        return lambda: runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.realpath(arguments[0])))
    return lambda: runpy.run_path(arguments[0], run_name="__main__")


def main() -> None:
    """Run the program of the command line with ``torch`` answered by this library."""
    arguments = sys.argv[1:]
    wanted = arguments[:1] == ["--report"]
    program = arguments[wanted:]
    if not program or program[0] in ("-h", "--help"):
        raise SystemExit("usage: python -m torchlette.as_torch [--report] (script.py | -m module) [args]")
    os.environ["TORCHLETTE_AS_TORCH"] = "1"  # for the processes that the program starts
    activate()
    report = Report() if wanted else None
    if report is not None:
        report.install()
    run = _program(program)
    sys.modules["torchlette.as_torch"] = sys.modules["__main__"]
    try:
        run()
    finally:
        if report is not None:
            print(report.text(), file=sys.stderr)


if __name__ == "__main__":
    main()
