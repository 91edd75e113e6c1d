"""The GPU through WebGPU: whether kernels are chosen by timing them."""

from __future__ import annotations

import sys
import types

from torchlette import _C
from torchlette._runtime.api import _info

TYPE_CHECKING = False
if TYPE_CHECKING:
    #: Whether tiles of matrix products are timed; see the property below.
    benchmark: bool

__all__ = ["benchmark"]


class _Module(types.ModuleType):
    """The class of this module: its switch is stored in the engine."""

    @property
    def benchmark(self) -> bool:
        """Whether the tiles of matrix products and convolutions are timed, as ``torch.backends.cudnn.benchmark`` has
        algorithms timed.

        ``False`` unless ``TORCHLETTE_AUTOTUNE=1`` or this was set. While it is ``True``, the first product of a class
        (dtype, layout, rounded sizes) that a device meets is run in up to 8 tiles on scratch memory, and the fastest is
        kept: in this process, and in ``tiles.json`` in the cache directory for later ones. It affects plans built from
        then on. Tiles may sum in different orders, so switching it on may change last bits; see
        ``docs/performance.md``.

        Raises:
            TypeError: It is set to a value that is not a ``bool``.
        """
        return _info("options")["autotune"] == "1"

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"backends.wgpu.benchmark: got {type(value).__name__}, want bool")
        _C._set_option("autotune", str(int(value)))


sys.modules[__name__].__class__ = _Module
