"""How the library was built, for programs that print it."""

from __future__ import annotations

import platform

from torchlette import _C
from torchlette._version import __version__


def show() -> str:
    """Return the versions, and the processor's features that kernels use."""
    from torchlette._runtime.api import _info

    cpu = (_info("devices") or [{}])[0]
    features = ", ".join(cpu.get("Features") or ())
    return f"torchlette {__version__}, {platform.machine()}, kernels: {features or 'plain'}\n"


def parallel_info() -> str:
    """Return the number of threads that CPU kernels run on."""
    from torchlette._runtime.api import get_num_threads

    return f"threads of CPU kernels: {get_num_threads()}\ndefault dtype: {_C.get_default_dtype()}\n"
