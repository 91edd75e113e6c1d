"""First derivatives: gradients and vector-Jacobian products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchlette import _C, autograd
from torchlette._runtime.nested import tensors_in
from torchlette.func.forward import structure_of
from torchlette.func.transform import (
    Argnums,
    Transform,
    chosen_arguments,
    output_tensors,
    with_tensors,
)

__all__ = ["grad", "grad_and_value", "vjp"]

Tensor = _C.Tensor


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of ``func``, which returns a tensor without dims, and its value.

    Args:
        func: The function; with ``has_aux`` it returns a pair, whose second part is returned beside the value.
        argnums: The argument to differentiate by, or a tuple of them, which gives a tuple of gradients.
        has_aux: Whether ``func`` returns a pair.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        here = Transform("grad_and_value(f)(*args)")
        points, given, others = chosen_arguments(here, argnums, args)
        out, aux = here.call(func, given, kwargs, has_aux, [others, kwargs])
        if not isinstance(out, Tensor):
            raise RuntimeError(f"{here.what}: Expected f(*args) to return a Tensor, got {type(out)}")
        if out.dim() > 0:
            raise RuntimeError(
                f"{here.what}: Expected f(*args) to return a scalar Tensor, got tensor with {out.dim()} dims. "
                "Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        wanted = list(points.values())
        grads = tuple(here.settled(with_tensors(wanted, here.gradients([out], tensors_in(wanted), [None]))))
        value = here.settled((out, aux) if has_aux else out)
        return (grads[0] if isinstance(argnums, int) else grads), value

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of ``func``; with ``has_aux``, also the auxiliary result.

    The arguments are those of :func:`grad_and_value`.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the results of ``func`` and a function that maps their cotangents to a tuple of the cotangents of
    ``primals``.

    Args:
        func: From tensors, or nested containers of them, to such; with ``has_aux`` to a pair of such and of anything.
        *primals: Its arguments.
        has_aux: Whether ``func`` returns a pair, whose second part is returned last.
    """
    here = Transform("vjp(f, *primals)")
    points = here.points(primals)
    out, aux = here.call(func, points, {}, has_aux)
    roots = output_tensors(out, here.what)
    for root in roots:
        if not (root.is_floating_point() or root.is_complex()):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
                f"with dtype {root.dtype}"
            )

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        if structure_of(cotangents) != structure_of(out):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {structure_of(cotangents)}, primal output: {structure_of(out)}"
            )
        back = Transform(here.what)
        back.recording = autograd.is_grad_enabled() if create_graph is None else create_graph
        return back.settled(
            with_tensors(points, back.gradients(roots, tensors_in(points), tensors_in(cotangents), retain_graph))
        )

    value = here.settled(out)
    return (value, pull, here.settled(aux)) if has_aux else (value, pull)
