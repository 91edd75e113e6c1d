"""Which GPUs ``torchlette.torch`` calls "cuda", and whose choice its default device is.

``torch.cuda`` names the GPUs that there are, as in PyTorch's build for ROCm: ``cuda:0`` is ``wgpu:0``. Software
adapters do not count, unless ``TORCHLETTE_CUDA=software``; ``TORCHLETTE_CUDA=0`` leaves none.
"""

from __future__ import annotations

import functools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def default_is_named() -> bool:
    """Return whether ``TORCHLETTE_DEVICE`` names the default device, which else is the CPU under torchlette.torch."""
    return bool(os.environ.get("TORCHLETTE_DEVICE"))


@functools.cache
def cuda_adapters() -> tuple[dict[str, Any], ...]:
    """Return the adapters of cuda:0, cuda:1 and so on. The first call loads the graphics driver."""
    from torchlette._runtime.api import _info

    wanted = os.environ.get("TORCHLETTE_CUDA", "")
    if wanted == "0":
        return ()
    return tuple(a for a in _info("adapters") or () if wanted == "software" or not a["Software"])


def cuda_count() -> int:
    """Return the number of GPUs that are called "cuda"."""
    return len(cuda_adapters())


def is_gpu(device_type: str) -> bool:
    """Return whether a device type names a GPU that tensors can be on."""
    return device_type == "wgpu" or (device_type == "cuda" and cuda_count() > 0)
