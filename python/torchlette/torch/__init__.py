"""PyTorch's name for the library: ``import torchlette.torch as torch``.

Every name is that of :mod:`torchlette`, re-exported; nothing is implemented here. What differs is one policy:
in a module that imported this one, and for tensors that come from it, ``float(t)``, ``bool(t)``, ``print(t)`` and
the like read the value, as PyTorch scripts expect, where :mod:`torchlette` raises and names ``.item()``. How both work
is told in :mod:`torchlette.torch._import_hook`.

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
importlib.import_module(f"{__name__}._C").__dict__["_log_api_usage_once"] = lambda *event: None
