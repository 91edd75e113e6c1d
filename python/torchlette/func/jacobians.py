"""Whole Jacobians and Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.nested import replaced, tensors_in
from torchlette.func.batching import check_randomness, vmap
from torchlette.func.forward import directional
from torchlette.func.transform import (
    Argnums,
    Transform,
    argument_numbers,
    check_real,
    chosen_arguments,
    output_tensors,
    with_tensors,
)

__all__ = ["hessian", "jacfwd", "jacrev"]

Tensor = _C.Tensor


def _rows(
    here: Transform, result: Tensor, inputs: list[Tensor], backward_draws: str, chunk_size: int | None
) -> Sequence[Tensor]:
    """Return the derivatives of all elements of a result, one row each, by each of the inputs."""
    if not result.requires_grad:
        return []
    create = here.leads_outside([result])
    seeds = _C.eye(result.numel(), dtype=result.dtype, device=result.device).reshape(result.numel(), *result.shape)

    def row(seed: Tensor) -> list[Tensor]:
        return list(here.gradients([result], inputs, [seed], True, create))

    found: list[Tensor] = vmap(row, randomness=backward_draws, chunk_size=chunk_size)(seeds)
    return found


def _jacobian(
    here: Transform,
    func: Callable[..., Any],
    argnums: Argnums,
    args: tuple[Any, ...],
    has_aux: bool,
    backward_draws: str = "different",
    chunk_size: int | None = None,
) -> Any:
    """Return all derivatives of the results of ``func`` by the arguments ``argnums``."""
    check_real(args, "jacrev", "inputs")
    points, given, others = chosen_arguments(here, argnums, args)
    out, aux = here.call(func, given, {}, has_aux, others)
    wanted = tuple(points.values())
    inputs, parts = tensors_in(wanted), []
    check_real(out, "jacrev", "outputs")
    for result in output_tensors(out, here.what):
        if not result.is_floating_point() and here.what.startswith("vjp"):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
                f"with dtype {result.dtype}"
            )
        found_rows = _rows(here, result, inputs, backward_draws, chunk_size)
        columns: Sequence[Tensor | None] = found_rows or [None] * len(inputs)
        blocks = [
            column.reshape((*result.shape, *x.shape))
            if column is not None
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


def _jacobian_by_columns(
    func: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], has_aux: bool, randomness: str
) -> Any:
    """Return the Jacobian by one call of ``func``, mapped over the directions of the arguments' elements."""
    numbers = argument_numbers(argnums, len(args))
    wanted = tuple(args[n] for n in numbers)
    inputs, others = tensors_in(wanted), tensors_in([a for i, a in enumerate(args) if i not in numbers])

    def chosen(*tensors: Tensor) -> Any:
        given = dict(zip(numbers, with_tensors(wanted, tensors), strict=True))
        return func(*(given.get(i, a) for i, a in enumerate(args)))

    def pushed(*tangents: Tensor) -> Any:
        out, columns, *aux = directional(chosen, tuple(inputs), tangents, False, has_aux, others)
        check_real(out, "jacfwd", "outputs")
        beside[:] = aux  # it may hold other objects than tensors
        return columns, tensors_in(aux)

    sizes = [x.numel() for x in inputs]
    basis = [
        part.to(x.dtype).reshape((sum(sizes), *x.shape))
        for part, x in zip(_C.eye(sum(sizes), device=inputs[0].device).split(sizes, 1), inputs, strict=True)
    ]
    beside: list[Any] = []
    columns, aux = vmap(pushed, randomness=randomness)(*basis)

    def block(result: Tensor) -> Any:
        parts = result.split(sizes)
        found = [
            part.movedim(0, -1).reshape((*result.shape[1:], *x.shape)) for part, x in zip(parts, inputs, strict=True)
        ]
        return with_tensors(wanted[0] if isinstance(argnums, int) else wanted, found)

    jacobian = replaced(columns, Tensor, block)
    return (jacobian, with_tensors(beside[0], [t[0] for t in aux])) if has_aux else jacobian


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of ``func`` by the arguments ``argnums``: shape(out) + shape(in).

    The Jacobian has the nesting of the result, with the nesting of the argument at each of its tensors. A tuple
    ``argnums`` gives a tuple of those.

    Args:
        func: Maps tensors, or nested containers of them, to the same; with ``has_aux``, to a pair of that and any
            object.
        argnums: The argument to differentiate by, or a tuple of them.
        has_aux: Whether ``func`` returns a pair; the function returned then gives a pair too.
        chunk_size: The most rows of a backward pass; ``None``: all rows in one. The backward pass may draw random
            numbers only if it is 1.

    Raises:
        RuntimeError: ``func`` returns something else than floating point tensors, an argument is complex, ``argnums``
            names no argument, or the backward pass draws random numbers.
        ValueError: ``chunk_size`` is not positive, or an argument holds something else than tensors.

    >>> x = torchlette.tensor([1.0, 2.0])
    >>> torchlette.func.jacrev(lambda x: x**2)(x).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        backward_draws = "different" if chunk_size == 1 else "error"
        return _jacobian(Transform("vjp(f, *primals)"), func, argnums, args, has_aux, backward_draws, chunk_size)

    return wrapper


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of ``func``, computed forward: :func:`vmap` of :func:`jvp`.

    It costs less than :func:`jacrev` where the arguments have fewer elements than the results.

    Args:
        func: As of :func:`jacrev`.
        argnums: As of :func:`jacrev`.
        has_aux: As of :func:`jacrev`.
        randomness: What random operations in ``func`` do, as in :func:`vmap`: raise, draw once for all columns, or draw
            for each column. The auxiliary result is that of the first column.

    Raises:
        RuntimeError: ``randomness`` is another word, ``func`` draws random numbers where they are refused, or an
            argument or a result is complex.
        ValueError: An argument to differentiate by holds something else than floating point tensors.

    >>> x = torchlette.tensor([1.0, 2.0])
    >>> torchlette.func.jacfwd(lambda x: x**2)(x).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        check_real(args, "jacfwd", "inputs")
        for t in tensors_in([args[n] for n in argument_numbers(argnums, len(args))]):
            if not t.is_floating_point():
                raise ValueError(f"Expected primal to be floating point or complex, but got: {t.dtype}")
        check_randomness(randomness)
        return _jacobian_by_columns(func, argnums, args, has_aux, randomness)

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that gives the Hessian of ``func``: the Jacobian, forward, of the Jacobian, in reverse.

    ``func`` may not draw random numbers.

    The arguments are those of :func:`jacrev`.
    """
    return jacfwd(jacrev(func, argnums), argnums)
