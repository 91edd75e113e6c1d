"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Pads the last dimensions: ``padding`` is one amount, or pairs (before, after) from the last dim backwards."""

    _N: int
    _MODE: str

    def __init__(self, padding: int | Sequence[int]) -> None:
        """Keep the amounts."""
        super().__init__()
        self.padding = (padding,) * (2 * self._N) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self._N:
            raise ValueError(
                f"{type(self).__name__}: padding is wrong: got {len(self.padding)} amounts, want {2 * self._N}"
            )

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return ``input`` with its last dimensions padded."""
        return F.pad(input, self.padding, self._MODE)

    def extra_repr(self) -> str:
        """Show the amounts."""
        return str(self.padding)


class _ConstantPad(_Pad):
    """Pads with ``value``."""

    _MODE = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        """Keep the amounts and the value."""
        super().__init__(padding)
        self.value = value

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return ``input`` with its last dimensions padded."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Show the amounts and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Pads with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        """Keep the amounts."""
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ConstantPad1d(_ConstantPad):
    """Pad the last dimension with a value."""

    _N = 1


class ConstantPad2d(_ConstantPad):
    """Pad the last two dimensions with a value."""

    _N = 2


class ConstantPad3d(_ConstantPad):
    """Pad the last three dimensions with a value."""

    _N = 3


class ZeroPad1d(_ZeroPad):
    """Pad the last dimension with zeros."""

    _N = 1


class ZeroPad2d(_ZeroPad):
    """Pad the last two dimensions with zeros."""

    _N = 2


class ZeroPad3d(_ZeroPad):
    """Pad the last three dimensions with zeros."""

    _N = 3


class ReflectionPad1d(_Pad):
    """Pad the last dimension by mirroring the elements inside of the edges."""

    _N = 1
    _MODE = "reflect"


class ReflectionPad2d(_Pad):
    """Pad the last two dimensions by mirroring the elements inside of the edges."""

    _N = 2
    _MODE = "reflect"


class ReflectionPad3d(_Pad):
    """Pad the last three dimensions by mirroring the elements inside of the edges."""

    _N = 3
    _MODE = "reflect"


class ReplicationPad1d(_Pad):
    """Pad the last dimension with the edges."""

    _N = 1
    _MODE = "replicate"


class ReplicationPad2d(_Pad):
    """Pad the last two dimensions with the edges."""

    _N = 2
    _MODE = "replicate"


class ReplicationPad3d(_Pad):
    """Pad the last three dimensions with the edges."""

    _N = 3
    _MODE = "replicate"


class _CircularPad(_Pad):
    """Pads with the opposite ends, of tensors with or without a batch."""

    _MODE = "circular"

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        if input.dim() not in (self._N + 1, self._N + 2):
            raise ValueError(f"expected {self._N + 1}D or {self._N + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pad the last dimension with the opposite ends."""

    _N = 1


class CircularPad2d(_CircularPad):
    """Pad the last two dimensions with the opposite ends."""

    _N = 2


class CircularPad3d(_CircularPad):
    """Pad the last three dimensions with the opposite ends."""

    _N = 3
