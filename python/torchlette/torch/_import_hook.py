"""The import hook of ``torchlette.torch``: how PyTorch's module names are found, and whose rules a tensor follows.

**Mirrors.** ``torchlette.torch`` implements no operator. ``import torchlette.torch.nn.functional`` gives a new module
object, the *mirror* of ``torchlette.nn.functional``: its names are bound to the same objects. There are no files of
mirrors. A finder on ``sys.meta_path`` makes them:

1. Python asks :class:`MirrorFinder` for ``torchlette.torch.x.y`` before it looks for files.
2. ``find_spec`` takes ``torchlette.x.y`` for it, or the module that :data:`MOVED` names: PyTorch's
   ``optim/adamw.py`` is ``torchlette.optim.adam`` here. If neither exists, a name that docs/refused.md lists raises
   ``ModuleNotFoundError`` with its reason; for any other name the finder answers None, and Python raises.
3. ``exec_module`` imports the original and calls :func:`mirror`, which copies its names. Modules among the names are
   left out: the mirror's ``__getattr__`` imports their mirrors at the first use. So ``torch.nn.functional`` is never
   the module ``torchlette.nn.functional``, although ``torch.nn.functional.relu is torchlette.nn.functional.relu``.

Modules in :data:`OWN` have files in this folder instead of mirrors: they answer hardware queries such as
``torch.cuda.is_available()``, and ``torch.save`` writes PyTorch's files where ``torchlette.save`` writes safetensors.

Setting a name in a mirror (``torch.nn.functional.relu = mine``) changes the mirror only; setting it in the original
later does not change mirrors that have copied it.

**API flavours.** ``torchlette`` raises where a tensor would silently become a Python number; ``torchlette.torch``
reads it, as PyTorch does. The two share every class and almost every function, so the class of a tensor cannot tell
them apart. Each tensor therefore has a mark, the *API flavour*, which ``float(t)``, ``bool(t)``, ``print(t)`` and the
like check. Three rules set it:

1. A tensor that is computed from tensors gets the mark if one of its operands has it.
2. A tensor created without operands (``torch.zeros(3)``, ``torch.tensor(data)``) gets it from the function: the
   functions of ``_C`` exist twice, in ``_C`` and, with the mark, in the dict ``_C._facade``. The facade's
   ``__init__.py`` binds the second kind.
3. A tensor that this package itself creates without operands (the parameters of ``nn.Linear(3, 4)``, a draw of a
   distribution) gets it from the calling code: the extension walks the stack to the first frame outside of the package
   and looks whether
   that frame's module has imported the facade, that is, whether one of its global names is bound to
   ``torchlette.torch`` or a module below it. The answer is cached for each place in the code.

A coercion is allowed if the tensor has the mark, or if the code that coerces has imported the facade by the test of
rule 3. The second half is for tensors of libraries that are written for ``torchlette`` and used by a PyTorch script.

Consequences worth knowing: ``from torchlette.torch import zeros`` alone imports no module object, so that rule 3 does
not hold in that file, while rule 2 does; and a module that has both ``import torchlette`` and
``import torchlette.torch as torch`` at its top gets PyTorch's rules for all that it coerces.

The C side is in ``python/csrc``: ``globals_in_facade`` and ``creation_api`` (source_loc.c), ``coercion_allowed``
(coercion.c), ``_facade`` (bindings.c).
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from torchlette._runtime import refused

_CORE = "torchlette"
_FACADE = "torchlette.torch"
#: Modules that exist in the facade only.
OWN = (
    "_import_hook",
    "_native",
    "accelerator",
    "backends",
    "cuda",
    "mps",
    "onnx",
    "serialization",
    "tensor_types",
    "version",
    "xpu",
)
#: Packages of those whose modules are mirrors all the same.
OWN_PARENTS = ("onnx",)
#: Names of the facade -> the module of its own that has them.
OWN_NAMES = {"Event": "cuda", "Stream": "cuda", "save": "serialization"}
#: PyTorch module -> the module of this library that has its names, where PyTorch divides its code differently.
MOVED = {
    "_custom_ops": "library",
    "autograd.variable": "autograd",
    "nn.modules.channelshuffle": "nn.modules.shuffle",
    "nn.modules.fold": "nn.modules.conv",
    "nn.modules.instancenorm": "nn.modules.batchnorm",
    "nn.modules.pixelshuffle": "nn.modules.shuffle",
    "nn.parallel.distributed": "nn.parallel",
    "nn.parallel.scatter_gather": "nn.parallel",
    "optim.adamw": "optim.adam",
    "utils.data._utils": "utils.data",
    "utils.data._utils.collate": "utils.data.collate",
    **{
        f"distributions.{old}": f"distributions.{new}"
        for new, olds in {
            "compound": "independent mixture_same_family",
            "discrete": "bernoulli binomial categorical geometric multinomial negative_binomial one_hot_categorical "
            "poisson",
            "distribution": "exp_family",
            "gamma": "beta chi2 dirichlet fishersnedecor inverse_gamma studentT",
            "location_scale": "cauchy exponential gumbel half_cauchy half_normal kumaraswamy laplace log_normal normal "
            "pareto uniform weibull",
            "multivariate": "lkj_cholesky lowrank_multivariate_normal multivariate_normal wishart",
            "transformed": "logistic_normal relaxed_bernoulli relaxed_categorical transformed_distribution",
        }.items()
        for old in olds.split()
    },
}
#: Called with the name of each module and attribute that is not there; see torchlette.as_torch.
on_missing: Callable[[str], None] | None = None

_PARENTS = {moved.rpartition(".")[0] for moved in MOVED}


def _is_core_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith(_CORE + ".")


def submodules(core: ModuleType) -> set[str]:
    """Return the names of a package's modules: PyTorch's packages have them as attributes without an import."""
    folders = [p for p in getattr(core, "__path__", ()) if os.path.isdir(p)]
    return {entry.removesuffix(".py") for folder in folders for entry in os.listdir(folder)}


def mirror(facade: ModuleType, core: ModuleType) -> None:
    """Give ``facade`` the names of ``core``; modules among them are mirrored when they are first used."""
    names = vars(core)
    if type(core) is not ModuleType:  # names that are one for both modules
        facade.__class__ = type(core)
    moved = facade.__name__ != _FACADE and facade.__name__.rpartition(".")[2] != core.__name__.rpartition(".")[2]
    for name, value in names.items():
        own = f"{facade.__name__}.{name}".removeprefix(_FACADE + ".") in OWN_NAMES
        if not (own or name.startswith("__") or _is_core_module(value)):
            if (
                not moved and f"{core.__name__}.{name}" in sys.modules
            ):  # a function of its module's name: the import would take it
                importlib.import_module(f"{facade.__name__}.{name}")
                facade.__dict__[name] = value
            facade.__dict__.setdefault(name, value)
    if "__all__" in names:
        facade.__dict__["__all__"] = list(names["__all__"])

    path = facade.__name__  # torchlette.as_torch gives the module another name

    def module_attribute(name: str) -> Any:
        relative = f"{path}.{name}".removeprefix(_FACADE + ".")
        if relative in MOVED or relative in OWN:
            return importlib.import_module(f"{path}.{name}")
        if relative in OWN_NAMES:
            value = getattr(importlib.import_module(f"{_FACADE}.{OWN_NAMES[relative]}"), name)
            facade.__dict__[name] = value
            return value
        try:
            value = getattr(core, name)  # imports it if need be
        except AttributeError:
            if not name.startswith("__") and name in submodules(core):
                return importlib.import_module(f"{path}.{name}")
            if on_missing is not None and not name.startswith("__"):
                on_missing(f"torch.{relative}")
            raise
        if _is_core_module(value) and value.__name__ == f"{core.__name__}.{name}" and value.__name__ != _FACADE:
            value = importlib.import_module(f"{path}.{name}")
        facade.__dict__[name] = value
        return value

    facade.__dict__["__getattr__"] = module_attribute
    facade.__dict__["__dir__"] = lambda: sorted({*facade.__dict__, *dir(core)})


class MirrorFinder:
    """Finds ``torchlette.torch.x.y`` as the mirror of ``torchlette.x.y``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        relative = name.removeprefix(_FACADE + ".")
        head = relative.partition(".")[0]
        if relative == name or head in OWN and (relative == head or head not in OWN_PARENTS):
            return None
        core_name = f"{_CORE}.{MOVED.get(relative, relative)}"
        if core_name == _FACADE:
            return None
        core = importlib.util.find_spec(core_name)
        if core is None:
            if on_missing is not None:
                on_missing(f"torch.{relative}")
            reason = refused.FUNCTIONS.get(relative)
            if reason:
                raise ModuleNotFoundError(f"No module named {name!r}: {reason}", name=name)
            return None
        is_package = core.submodule_search_locations is not None or relative in _PARENTS
        return importlib.machinery.ModuleSpec(name, MirrorFinder, origin=core.origin, is_package=is_package)

    @staticmethod
    def create_module(spec: importlib.machinery.ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        relative = module.__name__.removeprefix(_FACADE + ".")
        core = importlib.import_module(f"{_CORE}.{MOVED.get(relative, relative)}")
        module.__doc__ = core.__doc__
        mirror(module, core)


def install() -> None:
    """Put the finder before Python's own, once in a process."""
    if not any(getattr(finder, "__qualname__", "") == MirrorFinder.__qualname__ for finder in sys.meta_path):
        sys.meta_path.insert(0, MirrorFinder)  # type: ignore[arg-type]
