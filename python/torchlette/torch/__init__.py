"""PyTorch's name for the library: ``import torchlette.torch as torch``.

Every name is that of :mod:`torchlette`, re-exported; nothing is implemented here. What differs is one policy:
in a module that imported this one, and for tensors that come from it, ``float(t)``, ``bool(t)``, ``print(t)`` and
the like read the value, as PyTorch scripts expect, where :mod:`torchlette` raises and names ``.item()``.

Modules mirror those of :mod:`torchlette`: ``torchlette.torch.nn.functional`` has the names of
``torchlette.nn.functional``, the same objects.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torchlette
from torchlette._runtime import refused

_CORE = "torchlette"
_FACADE = __name__
# Modules that exist here only: they answer questions about hardware that PyTorch scripts ask, and keep its first names.
_OWN = ("cuda", "backends", "accelerator", "mps", "tensor_types", "version", "xpu")
# Modules that PyTorch cuts otherwise than this library: names in them are found where they are here.
_MOVED = {
    "autograd.variable": "autograd",
    "nn.modules.channelshuffle": "nn.modules.shuffle",
    "nn.modules.fold": "nn.modules.conv",
    "nn.modules.instancenorm": "nn.modules.batchnorm",
    "nn.modules.pixelshuffle": "nn.modules.shuffle",
    "nn.parallel.distributed": "nn.parallel",
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
            "multivariate": "lkj_cholesky lowrank_multivariate_normal multivariate_normal",
            "transformed": "logistic_normal relaxed_bernoulli relaxed_categorical transformed_distribution",
        }.items()
        for old in olds.split()
    },
}
_PARENTS = {moved.rpartition(".")[0] for moved in _MOVED}


def _is_core_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith(_CORE + ".")


def _mirror(facade: ModuleType, core: ModuleType) -> None:
    """Give ``facade`` the names of ``core``; modules among them are mirrored when they are first used."""
    names = vars(core)
    for name, value in names.items():
        if not (name.startswith("__") or _is_core_module(value)):
            facade.__dict__.setdefault(name, value)
    if "__all__" in names:
        facade.__dict__["__all__"] = list(names["__all__"])

    def module_attribute(name: str) -> Any:
        if f"{facade.__name__}.{name}".removeprefix(_FACADE + ".") in _MOVED:
            return importlib.import_module(f"{facade.__name__}.{name}")
        value = getattr(core, name)  # imports it if need be; raises AttributeError for unknown names
        if _is_core_module(value) and value.__name__ == f"{core.__name__}.{name}" and value.__name__ != _FACADE:
            value = importlib.import_module(f"{facade.__name__}.{name}")
        facade.__dict__[name] = value
        return value

    facade.__dict__["__getattr__"] = module_attribute
    facade.__dict__["__dir__"] = lambda: sorted({*facade.__dict__, *dir(core)})


class _MirrorFinder:
    """Finds ``torchlette.torch.x.y`` as the mirror of ``torchlette.x.y``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        relative = name.removeprefix(_FACADE + ".")
        if relative == name or relative.partition(".")[0] in _OWN:
            return None
        core_name = f"{_CORE}.{_MOVED.get(relative, relative)}"
        if core_name == _FACADE:
            return None
        core = importlib.util.find_spec(core_name)
        if core is None:
            reason = refused.FUNCTIONS.get(relative)
            if reason:
                raise ModuleNotFoundError(f"No module named {name!r}: {reason}", name=name)
            return None
        is_package = core.submodule_search_locations is not None or relative in _PARENTS
        return importlib.machinery.ModuleSpec(name, _MirrorFinder, origin=core.origin, is_package=is_package)

    @staticmethod
    def create_module(spec: importlib.machinery.ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        relative = module.__name__.removeprefix(_FACADE + ".")
        core = importlib.import_module(f"{_CORE}.{_MOVED.get(relative, relative)}")
        module.__doc__ = core.__doc__
        _mirror(module, core)


if not any(
    finder is _MirrorFinder or getattr(finder, "__qualname__", "") == "_MirrorFinder" for finder in sys.meta_path
):
    sys.meta_path.insert(0, _MirrorFinder)  # type: ignore[arg-type]

_mirror(sys.modules[__name__], torchlette)
# The same functions, but their tensors are marked: operators hand the mark on to their results.
globals().update(
    {
        name: fn
        for name, fn in torchlette._C._facade.items()
        if getattr(torchlette, name, None) is getattr(torchlette._C, name)
    }
)

from torchlette.torch import accelerator, backends, cuda, mps, version, xpu  # noqa: E402, F401
from torchlette.torch.tensor_types import *  # noqa: E402, F403
from torchlette.torch.version import __version__ as __version__  # noqa: E402

# PyTorch counts who uses what; libraries call this when their classes are made.
importlib.import_module(f"{_FACADE}._C").__dict__["_log_api_usage_once"] = lambda *event: None
