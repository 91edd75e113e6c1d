"""First derivatives: gradients, vector-Jacobian and Jacobian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C, autograd
from torchlette._runtime.nested import replaced, tensors_in
from torchlette.func.transform import (
    Argnums,
    Transform,
    chosen_arguments,
    jacobian_product,
    output_tensors,
    with_tensors,
)

__all__ = ["grad", "grad_and_value", "jvp", "vjp"]

Tensor = _C.Tensor


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of ``func``, which returns a tensor without dims, and its value.

    Args:
        func: The function; with ``has_aux`` it returns a pair, whose second part is returned beside the value.
        argnums: The argument to differentiate by, or a tuple of them, which gives a tuple of gradients.
        has_aux: Whether ``func`` returns a pair.
    """

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

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def _shape_of(value: Any) -> Any:
    """Return the structure of nested containers, to compare."""
    return replaced(value, Tensor, lambda _: None)


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
        if not root.is_floating_point():
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
                f"with dtype {root.dtype}"
            )

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        if _shape_of(cotangents) != _shape_of(out):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {_shape_of(cotangents)}, primal output: {_shape_of(out)}"
            )
        back = Transform(here.what)
        back.recording = autograd.is_grad_enabled() if create_graph is None else create_graph
        return back.settled(
            with_tensors(points, back.gradients(roots, tensors_in(points), tensors_in(cotangents), retain_graph))
        )

    value = here.settled(out)
    return (value, pull, here.settled(aux)) if has_aux else (value, pull)


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Return the results of ``func`` at ``primals`` and their derivatives along ``tangents``.

    There is no forward mode. The vector-Jacobian product is linear in its cotangents; its derivative with respect to
    them, in the direction of ``tangents``, is the Jacobian-vector product.

    Args:
        func: From tensors, or nested containers of them, to such; with ``has_aux`` to a pair of such and of anything.
        primals: Its arguments.
        tangents: The directions, nested as the arguments are.
        strict: Raise where a result does not depend on the arguments, instead of giving zeros.
        has_aux: Whether ``func`` returns a pair, whose second part is returned last.

    >>> x = torchlette.tensor([1.0, 2.0])
    >>> torchlette.func.jvp(lambda x: x**2, (x,), (torchlette.ones(2),))[1].tolist()
    [2.0, 4.0]
    """
    here = Transform("jvp(f, primals, tangents)")
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{here.what}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    if _shape_of(primals) != _shape_of(tangents):
        raise RuntimeError(
            f"{here.what}: Expected primals and tangents to have the same python structure. For example, if primals "
            f"is a tuple of 3 tensors, tangents also must be. Got primals with structure {_shape_of(primals)} and "
            f"tangents "
            f"with structure {_shape_of(tangents)}"
        )
    for p, d in zip(tensors_in(primals), tensors_in(tangents), strict=True):
        if not p.is_floating_point():
            raise ValueError(f"Expected primal to be floating point or complex, but got: {p.dtype}")
        if p.shape != d.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(p.shape)} while the "
                f"given forward gradient is of size {list(d.shape)}."
            )
    points = here.points(primals)
    out, aux = here.call(func, points, {}, has_aux)
    results, inputs = output_tensors(out, here.what), tensors_in(points)
    moved = [r for r in results if r.requires_grad]
    if strict and len(moved) < len(results):
        raise RuntimeError(
            f"{here.what[:-1]}, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    slopes = iter(jacobian_product(here, moved, inputs, tensors_in(tangents)))
    found = with_tensors(out, [next(slopes) if r.requires_grad else _C.zeros_like(r) for r in results])
    value = here.settled((out, found))
    return (*value, here.settled(aux)) if has_aux else value
