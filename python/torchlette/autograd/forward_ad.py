"""Forward mode differentiation with dual tensors, under the names of ``torch.autograd.forward_ad``.

A dual tensor has a tangent beside its elements. Inside of :class:`dual_level`, each operation on dual tensors computes
the tangent of its result too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

from torchlette import _C
from torchlette._runtime import forward

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

Tensor = _C.Tensor

# The open level of this module, and its number in the engine; PyTorch allows one.
_current_level = -1
_opened: list[forward.level] = []


def enter_dual_level() -> int:
    """Begin a level of forward mode and return its number, 0.

    Raises:
        RuntimeError: A level is open already.
    """
    global _current_level
    if _opened:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    here = forward.level()
    here.__enter__()
    _opened.append(here)
    forward.shown.append(here.number)
    _current_level = 0
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: all tangents are gone.

    Args:
        level: Its number; None: the open one.

    Raises:
        RuntimeError: ``level`` is not the open one, or none is open.
    """
    global _current_level
    if level is None:
        level = _current_level
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    if level != _current_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    forward.shown.pop()
    _opened.pop().__exit__(None, None, None)
    _current_level = -1


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a dual tensor: a copy of ``tensor`` with ``tangent``, of the same shape, as its tangent.

    Both keep their history, so the result can be differentiated in reverse too.

    Args:
        tensor: The elements, of a floating-point dtype.
        tangent: The tangent, of the same shape.
        level: The number of the open level; None: the innermost one.

    Raises:
        RuntimeError: No level is open, the shapes differ, or one of the two has a tangent already.
        ValueError: A dtype is not floating point.

    >>> from torchlette.autograd import forward_ad
    >>> x = torchlette.tensor([1.0, 2.0])
    >>> with forward_ad.dual_level():
    ...     y = forward_ad.make_dual(x, torchlette.ones(2)) ** 2
    ...     print(forward_ad.unpack_dual(y).tangent.tolist())
    [2.0, 4.0]
    """
    if (_current_level if level is None else level) < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {t.dtype}")
    number = _number(level)
    if forward.tangent(tangent, number) is not None:
        raise RuntimeError(
            f"Setting a forward grad that itself has a forward gradient at the same level{_current_level} is not "
            "supported."
        )
    return forward.dual(tensor, tangent, number)


class UnpackedDualTensor(NamedTuple):
    """A dual tensor in its parts; ``tangent`` is None where there is none."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return ``tensor`` without its tangent, and the tangent: None for a tensor that is not dual.

    Args:
        tensor: Any tensor.
        level: The number of the open level; None: the innermost one.
    """
    if (_current_level if level is None else level) < 0:
        return UnpackedDualTensor(tensor, None)
    number = _number(level)
    return UnpackedDualTensor(forward.primal(tensor, number), forward.tangent(tensor, number))


def _number(level: int | None) -> int:
    """Return the engine's number of a level."""
    if not _opened or level not in (None, _current_level):
        raise RuntimeError(f"forward AD: level {level} is not open")
    return _opened[-1].number


class dual_level:
    """A block in which dual tensors exist, or a decorator of functions that run in one.

    When it ends, all tangents are gone. Levels do not nest; :func:`torchlette.func.jvp` does.
    """

    def __enter__(self) -> int:
        """Begin the level."""
        return enter_dual_level()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        """End the level."""
        exit_dual_level()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``fn`` in a level."""

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return fn(*args, **kwargs)

        return inside
