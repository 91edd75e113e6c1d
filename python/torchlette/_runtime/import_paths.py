"""Public import paths of modules whose files are in the folders ``_runtime``, ``_compat`` and ``io``.

PyTorch's modules are flat: a program imports ``torch.hub``, ``torch.library``, ``torch.serialization``. The files here
are in folders by subject. This finder joins the two, so that no file of the form ``hub.py: from ._compat.hub import *``
is needed:

* ``import torchlette.hub`` loads the file ``_compat/hub.py`` as the module ``torchlette.hub``. That name is also in
  tracebacks, pickles and ``__module__`` of its classes: users see ``torchlette.errors.OutOfMemoryError``.
* ``import torchlette._compat.hub``, the form that the package itself uses because type checkers can follow it, gives
  the same module object. A module is never loaded twice.
* A former name, found only in old pickles, gives the module that now has its functions.

A new public module in one of the folders needs an entry in ``FOLDERS``. A module imported at its first use is also
listed in ``torchlette._LAZY_MODULES``.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PACKAGE = __name__.partition(".")[0]
_ROOT = os.path.dirname(os.path.dirname(__file__))

#: Public module: the folder of its file. Both names are relative to torchlette.
FOLDERS = {
    "errors": "_runtime",
    "dtypes": "_runtime",
    "random": "_runtime",
    "return_types": "_runtime",
    "__config__": "_compat",
    "__future__": "_compat",
    "_dynamo": "_compat",
    "_higher_order_ops": "_compat",
    "_subclasses": "_compat",
    "_tensor_str": "_compat",
    "_utils": "_compat",
    "ao": "_compat",
    "compiler": "_compat",
    "functional": "_compat",
    "futures": "_compat",
    "fx": "_compat",
    "hub": "_compat",
    "jit": "_compat",
    "library": "_compat",
    "multiprocessing": "_compat",
    "overrides": "_compat",
    "types": "_compat",
    "serialization": "io",
    "utils.dlpack": "io",
}

#: Former name of a module -> the module that now has its functions. Pickles refer to functions by these names.
FORMER = {
    "_api": "_runtime.api",
    "_grid": "_ops.histogram",
    "_selection": "_ops.indexing",
    "_settings": "_runtime.settings",
    "_shapes": "_ops.shapes",
    "_tensor": "_runtime.tensor_methods",
    "einstein": "_ops.einsum",
    "layouts": "_ops.memory_format",
    "legacy": "_compat.deprecated",
    "lowrank": "_ops.linear_algebra",
    "native": "_compat.native_names",
    "nn.channel_functions": "nn.functional",
    "nn.embedding_functions": "nn.functional",
    "nn.loss_functions": "nn.functional",
    "nn.spatial_functions": "nn.functional",
    "nn.window_functions": "nn.functional",
    "products": "_ops.linear_algebra",
    "segments": "_ops.segment",
    "window_functions": "_ops.windows",
}

_ALIASES = FORMER | {f"{folder}.{name.rpartition('.')[2]}": name for name, folder in FOLDERS.items()}


def _aliased(relative: str) -> str | None:
    """Return the module that ``relative`` is an alias of; modules inside an aliased package are aliases too."""
    name, rest = relative, ""
    while name not in _ALIASES:
        name, dot, last = name.rpartition(".")
        if not dot:
            return None
        rest = f".{last}{rest}"
    return _ALIASES[name] + rest


class PublicPathFinder:
    """The finder of public modules, and the loader of aliases."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a public module in its folder; for an alias return a spec that :meth:`exec_module` loads."""
        package, _, relative = name.partition(".")
        if package != _PACKAGE or not relative:
            return None
        if relative in FOLDERS:
            return PathFinder.find_spec(name, [os.path.join(_ROOT, FOLDERS[relative])])
        if _aliased(relative) is None:
            return None
        return ModuleSpec(name, PublicPathFinder)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Return None: Python makes a default module, which :meth:`exec_module` replaces."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Replace ``module`` by the module that it is an alias of."""
        relative = _aliased(module.__name__.removeprefix(_PACKAGE + "."))
        sys.modules[module.__name__] = import_module(f"{_PACKAGE}.{relative}")


def install() -> None:
    """Insert the finder before Python's own, once per process."""
    if not any(getattr(finder, "__qualname__", "") == PublicPathFinder.__qualname__ for finder in sys.meta_path):
        sys.meta_path.insert(0, PublicPathFinder)  # type: ignore[arg-type]
