"""Runs one of PyTorch's test files in this process: python standins.py SOURCE FILE [pytest arguments].

``import torch`` gives this library. ``torch.testing._internal``, which PyTorch's tests import, comes from PyTorch's
sources. Those import private modules and names of PyTorch's: a stand-in answers them, which does nothing. Public names
have none, but for those in PUBLIC: docs/refused.md refuses their features, and the helpers of all tests import them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any

#: Names that PyTorch's helpers use when they are imported or compare values: layouts and dtypes that are refused here.
PUBLIC = (
    "quint8 qint8 qint32 quint4x2 quint2x4 uint16 uint32 uint64 complex32 float8_e4m3fn float8_e5m2 float8_e4m3fnuz "
    "float8_e5m2fnuz sparse_csr sparse_csc sparse_bsr sparse_bsc sparse_coo _mkldnn jagged sparse "
    "per_tensor_affine per_channel_affine per_channel_affine_float_qparams per_tensor_symmetric per_channel_symmetric"
).split()
#: Undocumented names of submodules that test files import at their start, and the optimizer of sparse gradients.
ABSENT = (
    "autograd.kineto_available autograd.profiler.emit_itt autograd.function.InplaceFunction profiler.itt nn.Container "
    "optim.SparseAdam"
).split()
#: Modules of PyTorch's compilers, TorchScript, quantisation and back ends: every name of theirs has a stand-in.
FOREIGN = ("_C", "_dynamo", "_dynamo.config", "_dynamo.utils", "_utils", "_inductor", "jit", "ao", "backends")


class _Kind(type):
    __all__ = ()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], type) and issubclass(args[0], unittest.TestCase):
            return args[0]  # a decorator of tests
        return super().__call__(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn

    def __iter__(cls) -> Any:
        return iter(())

    def __contains__(cls, item: object) -> bool:
        return False


class StandIn(metaclass=_Kind):
    """Stands for a private class, function, decorator, context or list."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> bool:
        return False

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __contains__(self, item: object) -> bool:
        return False

    def __len__(self) -> int:
        return 0


def absent(name: str) -> Any:
    """Return a function for an operator that is not here: entries of PyTorch's database fail when it is called."""

    def operator(*args: Any, **kwargs: Any) -> Any:
        raise AttributeError(f"torch has no {name}")

    operator.__name__ = name.rpartition(".")[2]
    made: Any = operator
    made._create_jit_fn = made._create_multi_output_jit_fn = lambda *args, **kwargs: operator
    return operator


class Sources(importlib.abc.MetaPathFinder):
    """Finds torch.testing._internal in PyTorch's sources."""

    def __init__(self, source: str) -> None:
        self.source = source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("torch.testing._"):
            return None
        if name.endswith(".common_quantization"):  # of what is refused; tests take decorators from it
            return importlib.machinery.ModuleSpec(name, Missing(), is_package=True)
        file = os.path.join(self.source, *name.split("."))
        if os.path.isdir(file):
            return importlib.util.spec_from_file_location(
                name, os.path.join(file, "__init__.py"), submodule_search_locations=[file]
            )
        if not os.path.exists(file + ".py"):
            return None
        spec = importlib.util.spec_from_file_location(name, file + ".py")
        assert spec is not None and spec.loader is not None
        run = spec.loader.exec_module
        if name.endswith(".opinfo.core"):
            loader: Any = spec.loader
            loader.exec_module = lambda module: (run(module), _lenient_database(module))[0]
        return spec


def _lenient_database(module: types.ModuleType) -> None:
    """Keep entries of operators that are not here."""
    before: Any = module._getattr_qual

    def lookup(owner: Any, name: str, default: Any = module._NOTHING) -> Any:
        try:
            return before(owner, name, default)
        except AttributeError:
            return absent(name)

    module.__dict__["_getattr_qual"] = lookup


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes a module of stand-ins for a private module of PyTorch's that is not here."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        parts = name.split(".")
        private = (
            parts[0] == "torchgen"
            or parts[0] == "torch"
            and (
                any(part.startswith("_") for part in parts[1:])
                or parts[1] in ("ao", "backends", "storage")
                or name in ("torch.optim.SparseAdam", "torch.autograd.profiler_util", "torch.utils.weak")
            )
        )
        if private and parts[-1][:1].isupper():  # a class, of which answer_private makes a stand-in
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if not private or any(self._has(finder, name, path) for finder in sys.meta_path):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _has(self, finder: Any, name: str, path: Any) -> bool:
        try:
            return finder is not self and finder.find_spec(name, path) is not None
        except ModuleNotFoundError:  # below a stand-in
            return False

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__dict__["__path__"] = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        answer_private(module, "", everything=True)


def answer_private(module: types.ModuleType, source: str, everything: bool = False) -> None:
    """Let a module answer private names that it lacks, if PyTorch's sources ask; or every name."""
    before: Callable[[str], Any] | None = module.__dict__.get("__getattr__")

    def answer(name: str) -> Any:
        problem = AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        if before is not None:
            try:
                return before(name)
            except AttributeError as error:
                problem = error
        caller = sys._getframe(1).f_globals
        asked = str(caller.get("__file__") or "").startswith(source)
        asked = asked and not name.startswith(("__", "_foreach"))
        if asked and (everything or name.startswith("_")):
            return StandIn
        if asked and "common_methods_invocations" in caller["__name__"]:
            return absent(name)
        raise problem

    module.__dict__["__getattr__"] = answer


#: Functions of PyTorch's sources that its tests compare with: references of loops, and their helpers.
REFERENCES = {
    "_higher_order_ops.scan": ("first_slice_copy", "_fake_scan"),
    "_higher_order_ops.associative_scan": ("_fake_associative_scan",),
    "_higher_order_ops.utils": ("_stack_pytree", "_unstack_pytree"),
}


def references(source: str) -> dict[str, Any]:
    """Return the definitions that ``REFERENCES`` names, from PyTorch's sources."""
    import torch

    space: dict[str, Any] = {"torch": torch, "pytree": importlib.import_module("torch.utils._pytree")}
    space |= vars(importlib.import_module("typing"))
    for module, names in REFERENCES.items():
        file = os.path.join(source, "torch", *module.split(".")) + ".py"
        if os.path.exists(file):
            with open(file) as text:
                tree = ast.parse(text.read())
            tree.body = [node for node in tree.body if getattr(node, "name", None) in names]
            exec(compile(tree, file, "exec"), space)
    return {name: space[name] for names in REFERENCES.values() for name in names if name in space}


def make_fx(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Stand for the tracer of graphs: what it returns calls the function, and has no graph."""

    def trace(*inputs: Any) -> Any:
        function(*inputs)
        return functools.wraps(function)(lambda *inputs: function(*inputs))

    return trace


def control_flow(source: str) -> None:
    """Let PyTorch's tests of loops and branches have their references, and a tracer."""
    found = {**references(source), "make_fx": make_fx}
    found["UnsupportedAliasMutationException"] = type("UnsupportedAliasMutationException", (RuntimeError,), {})
    for name in (
        "functorch.experimental.control_flow",
        "torch._higher_order_ops.scan",
        "torch._higher_order_ops.associative_scan",
        "torch.fx.experimental.proxy_tensor",
    ):
        module = importlib.import_module(name)
        answer_private(module, source, everything=True)
        module.__dict__.update(found)
    torch: Any = importlib.import_module("torch")
    importlib.import_module("torch._ops").__dict__["ops"] = torch.ops
    torch.cuda.get_device_capability = lambda *args: (8, 0)  # TORCHLETTE_CUDA=software runs tests of GPUs


def backward_only(check: Callable[..., Any]) -> Callable[..., Any]:
    """Let a check of gradients leave out what is refused: tangents and batches of gradients."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in ("check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "check_fwd_over_rev"):
            kwargs.pop(name, None)
        return check(*args, **kwargs)

    return checked


def prepare(source: str) -> None:
    """Let ``import torch`` give this library, with stand-ins for what PyTorch's tests import besides."""
    from torchlette import as_torch
    from torchlette.torch import _import_hook

    as_torch.activate()
    import torch

    mirror = _import_hook.mirror

    def mirror_with_answers(facade: types.ModuleType, core: types.ModuleType) -> None:
        mirror(facade, core)
        private = any(part.startswith("_") for part in facade.__name__.split("."))
        answer_private(facade, source, everything=private)

    _import_hook.mirror = mirror_with_answers
    sys.meta_path.insert(0, Sources(source))
    sys.meta_path.insert(1, Missing())
    sys.modules["torch._C._profiler"] = importlib.import_module("torch._profiler")
    for name in FOREIGN:
        answer_private(importlib.import_module(f"torch.{name}"), source, everything=True)
    for name in ("", ".cuda", ".nn.functional", ".linalg", ".special", ".optim.optimizer", ".autograd"):
        answer_private(importlib.import_module("torch" + name), source)
    torch._C._get_privateuse1_backend_name = lambda: "privateuseone"
    for name in PUBLIC:
        try:
            getattr(torch, name)
        except AttributeError:
            setattr(torch, name, type(name, (StandIn,), {})())
    for name in ABSENT:
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(f"torch.{module}"), attribute, StandIn)
    for name in ("functorch", "functorch.experimental"):
        module = importlib.import_module(name)
        module.__dict__["__path__"] = []
        answer_private(module, source, everything=True)
    control_flow(source)
    importlib.import_module("torch._C").__dict__["__path__"] = []  # submodules have stand-ins too
    importlib.import_module("torch.library").CustomOpDef._opoverload = property(lambda definition: definition)
    for name in ("gradcheck", "gradgradcheck"):
        setattr(torch.autograd, name, backward_only(getattr(torch.autograd, name)))
    utilities: Any = importlib.import_module("torch.utils._import_utils")
    utilities._check_module_exists = lambda name: importlib.util.find_spec(name) is not None
    storage: Any = types.ModuleType("torch.storage")
    storage.TypedStorage = storage.UntypedStorage = type("Storage", (StandIn,), {})
    torch.storage = sys.modules["torch.storage"] = storage
    sys.path.insert(0, os.path.join(source, "test"))


class Parts:
    """A plugin of pytest that runs one part of a file's tests, and stops tests that take long."""

    def pytest_addoption(self, parser: Any) -> None:
        parser.addoption("--part", default="0/1", help="number of the part, and how many there are")
        parser.addoption("--each", type=int, default=0, help="seconds for one test")

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        part, parts = map(int, config.getoption("--part").split("/"))
        items[:] = items[part * len(items) // parts : (part + 1) * len(items) // parts]

    def pytest_runtest_setup(self, item: Any) -> None:
        if each := item.config.getoption("--each"):
            signal.signal(signal.SIGALRM, lambda *frame: self.stop(each))
            signal.alarm(each)

    def pytest_runtest_teardown(self, item: Any) -> None:
        if item.config.getoption("--each"):
            signal.alarm(0)

    def stop(self, each: int) -> None:
        raise TimeoutError(f"stopped after {each} s")


def main() -> int:
    """Run the file of the command line."""
    import pytest

    source, file, *rest = sys.argv[1:]
    sys.argv = [file]
    source = os.path.abspath(source)
    prepare(source)
    tests = os.path.join(source, "test")
    options = ["-p", "no:cacheprovider", "--noconftest", "-q", "--rootdir", tests, "-c", os.devnull]
    return int(pytest.main([os.path.join(tests, file), *options, *rest], [Parts()]))


if __name__ == "__main__":
    sys.exit(main())
