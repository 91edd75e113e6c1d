"""Whole Jacobians and Hessians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._runtime.nested import replaced, tensors_in
from torchlette.func.transform import (
    Argnums,
    Transform,
    argument_numbers,
    chosen_arguments,
    output_tensors,
    with_tensors,
)

__all__ = ["hessian", "jacfwd", "jacrev"]

Tensor = _C.Tensor


def _jacobian(here: Transform, func: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], has_aux: bool) -> Any:
    """Return all derivatives of the results of ``func`` by the arguments ``argnums``, row by row."""
    points, given, others = chosen_arguments(here, argnums, args)
    out, aux = here.call(func, given, {}, has_aux, others)
    wanted = tuple(points.values())
    inputs, parts = tensors_in(wanted), []
    for result in output_tensors(out, here.what):
        if not result.is_floating_point() and here.what.startswith("vjp"):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
                f"with dtype {result.dtype}"
            )
        create = here.leads_outside([result])
        seeds = (
            _C.eye(result.numel(), dtype=result.dtype, device=result.device).unbind(0) if result.requires_grad else ()
        )
        rows = [here.gradients([result], inputs, [seed.reshape(result.shape)], True, create) for seed in seeds]
        columns = zip(*rows, strict=True) if rows else ((),) * len(inputs)
        blocks = [
            _C.stack(list(column)).reshape((*result.shape, *x.shape))
            if column
            else _C.zeros(
                (*result.shape, *x.shape),
                dtype=x.dtype if result.is_floating_point() else result.dtype,
                device=x.device,
            )
            for column, x in zip(columns, inputs, strict=True)
        ]
        parts.append(with_tensors(wanted[0] if isinstance(argnums, int) else wanted, blocks))
    left = iter(here.settled(parts))
    found = replaced(out, Tensor, lambda _: next(left))
    return (found, here.settled(aux)) if has_aux else found


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of ``func`` by the arguments ``argnums``: shape(out) + shape(in).

    It is nested as the result is and, for each tensor of that, as the arguments are; a tuple of them if ``argnums`` is
    one.

    Args:
        func: From tensors, or nested containers of them, to such; with ``has_aux`` to a pair of such and of anything.
        argnums: The argument to differentiate by, or a tuple of them.
        has_aux: Whether ``func`` returns a pair; the function returned then gives a pair too.
        chunk_size: Accepted for compatibility: rows are computed one by one.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def wrapper(*args: Any) -> Any:
        return _jacobian(Transform("vjp(f, *primals)"), func, argnums, args, has_aux)

    return wrapper


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of ``func``, as :func:`jacrev` does: there is no forward mode.

    Args:
        func: As of :func:`jacrev`.
        argnums: As of :func:`jacrev`.
        has_aux: As of :func:`jacrev`.
        randomness: Accepted for compatibility: ``func`` is called once.
    """

    def wrapper(*args: Any) -> Any:
        for t in tensors_in([args[n] for n in argument_numbers(argnums, len(args))]):
            if not t.is_floating_point():
                raise ValueError(f"Expected primal to be floating point or complex, but got: {t.dtype}")
        return _jacobian(Transform("jvp(f, primals, tangents)"), func, argnums, args, has_aux)

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of the Jacobian of ``func``."""
    return jacfwd(jacrev(func, argnums), argnums)
