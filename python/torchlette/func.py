"""Derivatives as functions and functional views of modules, under the names of ``torch.func``.

Arguments may be tensors or nested lists, tuples and dicts of them. A derivative of a derivative is recorded as it is
taken, so they nest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchlette import _C, autograd
from torchlette._nested import replaced, tensors_in
from torchlette.autograd import functional
from torchlette.nn.utils.stateless import functional_call
from torchlette.random import get_rng_state, set_rng_state

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "stack_module_state", "vjp", "vmap"]

Tensor = _C.Tensor


def _inside(value: Any) -> Any:
    """Return nested tensors to differentiate by: views of recorded ones, leaves with the values of others."""
    return replaced(value, Tensor, lambda t: t.view_as(t) if t.requires_grad else t.detach().requires_grad_())


def _outside(value: Any, recorded: bool) -> Any:
    return value if recorded else replaced(value, Tensor, Tensor.detach)


def _like(value: Any, grads: Sequence[Tensor]) -> Any:
    """Return nested containers with ``grads`` in place of their tensors."""
    left = iter(grads)
    return replaced(value, Tensor, lambda _: next(left))


def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of ``func``, which returns a tensor of one element without dims, and its value.

    Args:
        func: The function; with ``has_aux`` it returns a pair, whose second part is handed on beside the value.
        argnums: The argument to differentiate by, or a tuple of them, whose gradients are then a tuple.
        has_aux: Whether ``func`` returns a pair.
    """

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        recorded = any(t.requires_grad for t in tensors_in(args))
        with autograd.enable_grad():
            points = {i: _inside(args[i]) for i in (n % len(args) for n in numbers)}
            result = func(*(points.get(i, a) for i, a in enumerate(args)), **kwargs)
            out, aux = result if has_aux else (result, None)
            if not isinstance(out, Tensor) or out.dim() > 0:
                got = f"a tensor with {out.dim()} dims" if isinstance(out, Tensor) else type(out).__name__
                raise RuntimeError(f"grad: expected the function to return a tensor without dims, got {got}")
            found = autograd.grad(out, tensors_in(list(points.values())), create_graph=recorded, materialize_grads=True)
        grads = tuple(_like(list(points.values()), found))
        value = _outside((out, aux) if has_aux else out, recorded)
        return (grads[0] if isinstance(argnums, int) else grads), value

    return wrapper


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of ``func``; with ``has_aux`` also what ``func`` returned beside its value.

    The arguments are those of :func:`grad_and_value`.
    """
    both = grad_and_value(func, argnums, has_aux)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the results of ``func`` and a function from their cotangents to a tuple of those of ``primals``; and, with ``has_aux``, the rest."""
    recorded = any(t.requires_grad for t in tensors_in(primals))
    with autograd.enable_grad():
        points = _inside(primals)
        result = func(*points)
        out, aux = result if has_aux else (result, None)

    def pull(*cotangents: Any) -> Any:
        roots, starts = tensors_in(out), tensors_in(cotangents)
        pairs = [(r, s) for r, s in zip(roots, starts, strict=True) if r.requires_grad]
        keep = recorded or any(t.requires_grad for t in starts)
        found = autograd.grad([r for r, _ in pairs], tensors_in(points), [s for _, s in pairs], True, keep, materialize_grads=True)
        return _like(points, found)

    value = _outside(out, recorded)
    return (value, pull, aux) if has_aux else (value, pull)


def _flat(func: Callable[..., Any], like: Any, seen: list[Any]) -> Callable[..., tuple[Tensor, ...]]:
    """Return ``func`` of nested ``like`` as a function from the tensors in it to those in its result, which ``seen`` gets."""

    def flat(*tensors: Tensor) -> tuple[Tensor, ...]:
        seen.append(func(*_like(like, tensors)))
        out = tuple(tensors_in(seen[-1]))
        if not out:
            raise RuntimeError(f"expected the function to return tensors, got {type(seen[-1]).__name__}")
        return out

    return flat


def jvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the results of ``func`` at ``primals`` and their derivatives along ``tangents``; and, with ``has_aux``, the rest of what it returned."""
    points, directions = tensors_in(primals), tensors_in(tangents)
    recorded = any(t.requires_grad for t in (*points, *directions))
    seen: list[Any] = []
    beside: list[Any] = []

    def first(*args: Any) -> Any:
        result = func(*args)
        if has_aux:
            result, aux = result
            beside.append(aux)
        return result

    values, slopes = functional.jvp(_flat(first, tuple(primals), seen), tuple(points), tuple(directions), create_graph=recorded)
    found = _like(seen[-1], values), _like(seen[-1], slopes)
    return (*found, _outside(beside[-1], recorded)) if has_aux else found


def jacrev(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of ``func`` by the arguments ``argnums``: shape(out) + shape(in).

    It is nested as the result is and, for each tensor of that, as the arguments are; a tuple of them if ``argnums`` is one.
    """

    def wrapper(*args: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        points = tuple(args[i] for i in numbers)
        recorded = any(t.requires_grad for t in tensors_in(points))
        seen: list[Any] = []
        beside: list[Any] = []

        def chosen(*points: Any) -> Any:
            given = dict(zip(numbers, points, strict=True))
            result = func(*(given.get(i, a) for i, a in enumerate(args)))
            if has_aux:
                beside.append(result[1])
                result = result[0]
            return result

        rows = functional.jacobian(_flat(chosen, points, seen), tuple(tensors_in(points)), create_graph=recorded)
        parts = iter([_like(points[0] if isinstance(argnums, int) else points, row) for row in rows])
        found = replaced(seen[-1], Tensor, lambda _: next(parts))
        return (found, _outside(beside[-1], recorded)) if has_aux else found

    return wrapper


#: There is no forward mode: the same numbers, computed in reverse.
jacfwd = jacrev


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of the Jacobian of ``func``."""
    return jacrev(jacrev(func, argnums), argnums)


def _dims_like(value: Any, dims: Any) -> list[int | None]:
    """Return the batch dim of each tensor of nested ``value``: ``dims`` is one for all, or nested as far as they differ."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tensors_in(value))
    items = list(value.values()) if isinstance(value, dict) else value
    parts = [dims[key] for key in value] if isinstance(dims, dict) else dims
    if not isinstance(value, (list, tuple, dict)) or len(items) != len(parts):
        raise ValueError(f"vmap: in_dims is wrong: got {dims!r}, want an int, None or the same containers as the arguments")
    return [dim for item, part in zip(items, parts, strict=True) for dim in _dims_like(item, part)]


def _stacked(results: list[Any], dims: Any) -> Any:
    """Return nested results of all calls as one, its tensors stacked along ``dims``."""
    first = results[0]
    if isinstance(first, (list, tuple)):
        parts = dims if isinstance(dims, (list, tuple)) else [dims] * len(first)
        columns = [_stacked(list(column), dim) for column, dim in zip(zip(*results, strict=True), parts, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
    if isinstance(first, dict):
        return {key: _stacked([r[key] for r in results], dims[key] if isinstance(dims, dict) else dims) for key in first}
    if not isinstance(first, Tensor):
        raise ValueError(f"vmap: the function must return tensors, got type {type(first).__name__}")
    return first if dims is None else _C.stack(results, dim=dims)


def _row_of_none(t: Tensor, dim: int) -> Tensor:
    """Return a row for a function that is mapped over a dimension of size 0: zeros, which keep the history."""
    return t.sum(dim) if t.is_floating_point() else t.new_zeros([n for d, n in enumerate(t.shape) if d != dim % t.dim()])


def _emptied(stacked: Any, dims: Any) -> Any:
    """Return nested stacked results without their rows."""
    if isinstance(stacked, Tensor):
        return stacked if dims is None else stacked.narrow(dims, 0, 0)
    if isinstance(stacked, dict):
        return {key: _emptied(item, dims[key] if isinstance(dims, dict) else dims) for key, item in stacked.items()}
    parts = dims if isinstance(dims, (list, tuple)) else [dims] * len(stacked)
    items = [_emptied(item, part) for item, part in zip(stacked, parts, strict=True)]
    return type(stacked)(*items) if hasattr(stacked, "_fields") else type(stacked)(items)


@contextlib.contextmanager
def _draws(randomness: str) -> Iterator[Callable[[], None]]:
    """Make draws errors, or give what to call before each row so that all draw the same numbers."""
    if randomness == "error":
        former = _C._set_refuse_draws(True)
        try:
            yield lambda: None
        finally:
            _C._set_refuse_draws(former)
    else:
        state = get_rng_state() if randomness == "same" else None
        yield lambda: None if state is None else set_rng_state(state)


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Callable[..., Any]:
    """Return a function that maps ``func`` over a dimension of its arguments.

    ``func`` is called once for each index, and its results are stacked: the values are those of PyTorch's ``vmap``, the
    work is that of a loop. Over a dimension of size 0 it is called once, on zeros, for the shapes of its results. Keyword
    arguments are given whole.

    Args:
        func: From tensors, or nested containers of them, to such.
        in_dims: The dim of all arguments, or one for each, nested as they are; ``None`` gives an argument whole.
        out_dims: Where the dim is in the results.
        randomness: What random operations in ``func`` do: ``"error"`` raises, ``"same"`` gives each call the same numbers,
            ``"different"`` gives each its own. Of nested ``vmap`` one that refuses them is enough.
        chunk_size: Accepted for compatibility.

    Raises:
        RuntimeError: ``randomness`` is none of the three, or ``func`` draws random numbers where they are refused.
        ValueError: The dims do not fit the arguments, ``func`` returns something else than tensors, or ``chunk_size`` is not positive.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for `randomness` are 'error', 'different', or 'same'. Got {randomness}.")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims, tensors = _dims_like(args, in_dims), tensors_in(args)
        for t, d in zip(tensors, dims, strict=True):
            if d is not None and not -t.dim() <= d < t.dim():
                raise ValueError(
                    f"vmap: Got in_dim={d} for an input of dimensionality {t.dim()}, so expected in_dim to satisfy -{t.dim()} <= in_dim < {t.dim()}"
                )
        sizes = {t.shape[d] for t, d in zip(tensors, dims, strict=True) if d is not None}
        if not sizes:
            raise ValueError("vmap: no argument is mapped: got in_dims None for all, want one int at least")
        if len(sizes) > 1:
            raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}")
        count = sizes.pop()
        with _draws(randomness) as next_row:
            if count == 0:
                row = [t if d is None else _row_of_none(t, d) for t, d in zip(tensors, dims, strict=True)]
                return _emptied(_stacked([func(*_like(args, row), **kwargs)], out_dims), out_dims)
            columns = [[t] * count if d is None else t.unbind(d) for t, d in zip(tensors, dims, strict=True)]
            results = []
            for row in zip(*columns, strict=True):
                next_row()
                results.append(func(*_like(args, row), **kwargs))
        return _stacked(results, out_dims)

    return wrapper


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of modules of one kind, each stacked along a new first dim: two dictionaries."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(members: str) -> dict[str, Any]:
        tables = [dict(getattr(model, members)()) for model in models]
        return {name: _C.stack([table[name].detach() for table in tables]).requires_grad_(first.requires_grad) for name, first in tables[0].items()}

    return stacked("named_parameters"), stacked("named_buffers")
