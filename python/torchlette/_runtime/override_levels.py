"""Blocks in which ``__torch_function__`` is not asked; see :mod:`torchlette.overrides`."""

from __future__ import annotations

from torchlette import _C

__all__ = ["EVERYTHING", "DisableTorchFunction", "DisableTorchFunctionSubclass"]

_SUBCLASSES, EVERYTHING = 1, 2


class DisableTorchFunctionSubclass:
    """A block in which no class answers calls; modes do."""

    _level = _SUBCLASSES

    def __enter__(self) -> None:
        self._before = _C._switch_off_overrides(max(self._level, _C._switch_off_overrides(-1)))

    def __exit__(self, *exc: object) -> None:
        _C._switch_off_overrides(self._before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A block in which no class and no mode answers calls."""

    _level = EVERYTHING
