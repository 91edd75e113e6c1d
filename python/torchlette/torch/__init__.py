"""PyTorch's name for the library: ``import torchlette.torch as torch``.

Every name is re-exported from :mod:`torchlette`; nothing is implemented here. One rule differs: in a module that
imports this one, and for tensors created through it, ``float(t)``, ``bool(t)``, ``print(t)`` and the like read the
value, as PyTorch scripts expect. Under :mod:`torchlette` they raise an error that names ``.item()``.
:mod:`torchlette.torch._import_hook` describes both mechanisms.

Modules mirror those of :mod:`torchlette`: ``torchlette.torch.nn.functional`` has the names of
``torchlette.nn.functional``, the same objects.
"""

from __future__ import annotations

import importlib
import sys

import torchlette
from torchlette.torch import _import_hook

_import_hook.install()
_import_hook.mirror(sys.modules[__name__], torchlette)
# The same functions, but they mark the tensors that they create; operators pass the mark on to their results.
globals().update(
    {
        name: fn
        for name, fn in torchlette._C._facade.items()
        if vars(torchlette).get(name) is getattr(torchlette._C, name)
    }
)

from torchlette._compat.native_names import group_norm, layer_norm  # noqa: E402, F401
from torchlette.torch import version  # noqa: E402, F401
from torchlette.torch.tensor_types import *  # noqa: E402, F403
from torchlette.torch.version import __version__ as __version__  # noqa: E402

# Names of PyTorch's extension module that packages use.
importlib.import_module(f"{__name__}._C").__dict__.update(
    {name: value for name, value in vars(importlib.import_module(f"{__name__}._native")).items() if name[:2] != "__"}
)
