"""Functions as programs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._runtime.captured import traced
from torchlette._runtime.nested import tensors_in
from torchlette.func.transform import with_tensors

__all__ = ["functionalize", "make_jaxpr", "make_program"]

Tensor = _C.Tensor


def make_program(func: Callable[..., Any]) -> Callable[..., str]:
    """Return a function that gives the program of ``func`` for its arguments as text, without computing anything.

    The text has the inputs, a line for each primitive with its operands, views, numbers, dtype and shape, and the
    stores. Comments name the source lines. The first inputs are the tensors among the arguments, in order; later ones
    are what ``func`` reads besides.

    Args:
        func: Takes tensors, or nested containers of them, and other objects.

    Raises:
        RuntimeError: ``func`` looks at elements of its arguments.

    >>> text = torchlette.func.make_program(lambda x: x * 2)(torchlette.ones(3, device="cpu"))
    >>> print(*(line.split("  #")[0] for line in text.splitlines()), sep="\\n")
    input $0 : f32[3]
    %0 = mul $0 2.0 : f32[3] live
    return %0
    """

    @functools.wraps(func)
    def program(*args: Any, **kwargs: Any) -> str:
        tensors = tensors_in((args, kwargs))
        number = traced(tensors, lambda points: _called(func, args, kwargs, points))
        try:
            text: str = json.loads(_C._info("captured", number))
        finally:
            _C._captured_free(number)
        return text

    return program


def _called(func: Callable[..., Any], args: Any, kwargs: Any, points: list[Tensor]) -> list[Tensor]:
    """Return the tensors of ``func``'s result for other tensors."""
    given, named = with_tensors((args, kwargs), points)
    return tensors_in(func(*given, **named))


#: JAX's name.
make_jaxpr = make_program


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function with the results of ``func`` that records no in-place writes.

    Every program is recorded this way: a write makes a new value, and only the last one of a tensor is stored. The
    function is here so that code for PyTorch runs.

    Args:
        func: Any function of tensors.
        remove: ``"mutations"`` or ``"mutations_and_views"``; views are parts of operands, and never operations.

    Raises:
        RuntimeError: ``remove`` is not one of the two.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced "
            "with their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be "
            "replaced with their non-aliasing counterparts, {view}_copy.\n"
        )
    return functools.wraps(func)(lambda *args, **kwargs: func(*args, **kwargs))
