"""Derivatives as functions and functional views of modules, under the names of ``torch.func``.

Arguments may be tensors or nested lists, tuples and dicts of them, and transforms nest.

All transforms share one tape. Each differentiates at points of its own, and its results keep the history that leads
outside of it: to captured tensors, to arguments that require grad, to the points of transforms around. A transform
around, or ``backward``, goes on with that history. A result without it requires no grad.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchlette import _C, autograd
from torchlette._runtime import fences
from torchlette._runtime.nested import replaced, tensors_in
from torchlette.nn.utils.stateless import functional_call
from torchlette._runtime.random import get_rng_state, set_rng_state

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "stack_module_state",
    "vjp",
    "vmap",
]

Tensor = _C.Tensor
Argnums = int | tuple[int, ...]


def _like(value: Any, tensors: Sequence[Tensor]) -> Any:
    """Return nested containers with ``tensors`` in place of theirs."""
    left = iter(tensors)
    return replaced(value, Tensor, lambda _: next(left))


def _check_tensors(value: Any) -> None:
    """Refuse nested arguments to differentiate by that hold anything but tensors."""
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_tensors(item)
    elif not isinstance(value, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")


def _outputs(value: Any, what: str) -> list[Tensor]:
    """Return the tensors of a function's result, which must hold nothing else."""
    others: list[Any] = []

    def note(item: Any) -> Any:
        if isinstance(item, (list, tuple, dict)):
            for part in item.values() if isinstance(item, dict) else item:
                note(part)
        elif not isinstance(item, Tensor):
            others.append(item)

    note(value)
    if others:
        raise RuntimeError(
            f"{what}: expected f(*primals) to return only tensors, got unsupported type {type(others[0])}"
        )
    tensors = tensors_in(value)
    if not tensors:
        raise RuntimeError(f"{what}: Expected f to be a function that has non-empty output (got output = {value!r})")
    return tensors


def _numbers(argnums: Argnums, count: int) -> tuple[int, ...]:
    """Return the numbers of the arguments to differentiate by, counted from the front."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
    found = tuple(n % count for n in numbers)
    if len(set(found)) < len(found):
        raise RuntimeError(f"argnums elements must be unique, got {found}")
    return found


class _Transform:
    """One transform of a function: its points, and what its results keep of their history."""

    def __init__(self, what: str) -> None:
        """Begin a transform; ``what`` names it in errors."""
        self.what = what
        self.recording = autograd.is_grad_enabled()  # no_grad around a transform: its results have no history
        self.leaves: list[
            Tensor
        ] = []  # the points that are leaves: they count as outside for transforms that the function calls

    def leaf(self, t: Tensor) -> Tensor:
        """Return a leaf of this transform with the values of ``t``."""
        self.leaves.append(t.detach().requires_grad_())
        return self.leaves[-1]

    def points(self, value: Any) -> Any:
        """Return points for nested tensors: views of those with a history, leaves with the values of others."""
        _check_tensors(value)
        with _recording():
            return replaced(value, Tensor, lambda t: t.view_as(t) if t.requires_grad else self.leaf(t))

    def call(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], has_aux: bool, given: Any = ()
    ) -> tuple[Any, Any]:
        """Return the result of ``func``, and what it returned beside it. It may write to new tensors and ``given``."""
        writable = tensors_in(given)
        plain = [t for t in writable if not t.requires_grad]
        try:
            with _recording(), fences.transform(writable):
                result = func(*args, **kwargs)
        finally:
            _C._close_leaves(self.leaves)
        for t, leads in zip(plain, self.lead_outside(plain), strict=True):
            if t.requires_grad and not leads:
                t.detach_()  # written to: its history is this transform's
        if not has_aux:
            return result, None
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError(f"{self.what}: output of function f should be a tuple: (output, aux) if has_aux is True")
        return result

    def leads_outside(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether results computed of ``tensors`` keep a history."""
        return self.recording and any(self.lead_outside(tensors))

    def lead_outside(self, tensors: Sequence[Tensor]) -> Sequence[bool]:
        """Return whether the history of each leads to anything but points of transforms that have ended."""
        if not any(t.requires_grad for t in tensors):
            return [False] * len(tensors)
        return _C._leads_outside(tensors)

    def gradients(
        self,
        roots: Sequence[Tensor],
        inputs: Sequence[Tensor],
        starts: Sequence[Tensor | None],
        retain: bool = False,
        create: bool | None = None,
    ) -> Sequence[Tensor]:
        """Return the gradients of ``roots`` by ``inputs``, recorded if ``create``, else if history leads outside."""
        pairs = [(r, s) for r, s in zip(roots, starts, strict=True) if r.requires_grad]
        if not pairs:
            return [_C.zeros_like(x, requires_grad=False) for x in inputs]
        roots, starts = zip(*pairs, strict=True)
        if create is None:
            create = self.leads_outside([*roots, *(s for s in starts if s is not None)])
        with _recording():
            return autograd.grad(
                roots, inputs, starts, retain_graph=retain or create, create_graph=create, materialize_grads=True
            )

    def settled(self, value: Any) -> Any:
        """Return nested results without the history that ends in this transform."""
        tensors = tensors_in(value)
        keeps = self.lead_outside(tensors) if self.recording else [False] * len(tensors)
        return _like(
            value, [t if k or not t.requires_grad else t.detach() for t, k in zip(tensors, keeps, strict=True)]
        )


class _recording:
    """Records whatever the modes around are: ``no_grad`` and ``inference_mode`` are about what comes of a transform."""

    def __enter__(self) -> None:
        self.inference = _C._set_inference_mode(False)
        self.grad = _C._set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self.grad)
        _C._set_inference_mode(self.inference)


def _chosen(
    transform: _Transform, argnums: Argnums, args: tuple[Any, ...]
) -> tuple[dict[int, Any], list[Any], list[Any]]:
    """Return the points by argument number, the arguments with them, and the arguments that are no points."""
    points = {n: transform.points(args[n]) for n in _numbers(argnums, len(args))}
    return points, [points.get(i, a) for i, a in enumerate(args)], [a for i, a in enumerate(args) if i not in points]


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of ``func``, which returns a tensor without dims, and its value.

    Args:
        func: The function; with ``has_aux`` it returns a pair, whose second part is handed on beside the value.
        argnums: The argument to differentiate by, or a tuple of them, whose gradients are then a tuple.
        has_aux: Whether ``func`` returns a pair.
    """

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        here = _Transform("grad_and_value(f)(*args)")
        points, given, others = _chosen(here, argnums, args)
        out, aux = here.call(func, given, kwargs, has_aux, [others, kwargs])
        if not isinstance(out, Tensor):
            raise RuntimeError(f"{here.what}: Expected f(*args) to return a Tensor, got {type(out)}")
        if out.dim() > 0:
            raise RuntimeError(
                f"{here.what}: Expected f(*args) to return a scalar Tensor, got tensor with {out.dim()} dims. "
                "Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        wanted = list(points.values())
        grads = tuple(here.settled(_like(wanted, here.gradients([out], tensors_in(wanted), [None]))))
        value = here.settled((out, aux) if has_aux else out)
        return (grads[0] if isinstance(argnums, int) else grads), value

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of ``func``; with ``has_aux`` also what it returned beside its value.

    The arguments are those of :func:`grad_and_value`.
    """
    both = grad_and_value(func, argnums, has_aux)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def _shape_of(value: Any) -> Any:
    """Return nested containers without their tensors, to compare."""
    return replaced(value, Tensor, lambda _: None)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the results of ``func`` and a function from their cotangents to a tuple of those of ``primals``.

    Args:
        func: From tensors, or nested containers of them, to such; with ``has_aux`` to a pair of such and of anything.
        *primals: Its arguments.
        has_aux: Whether ``func`` returns a pair, whose second part is returned last.
    """
    here = _Transform("vjp(f, *primals)")
    points = here.points(primals)
    out, aux = here.call(func, points, {}, has_aux)
    roots = _outputs(out, here.what)
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
        back = _Transform(here.what)
        back.recording = autograd.is_grad_enabled() if create_graph is None else create_graph
        return back.settled(
            _like(points, back.gradients(roots, tensors_in(points), tensors_in(cotangents), retain_graph))
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

    There is no forward mode. The gradient by the points is linear in its cotangents; its derivative by those is the
    product.

    Args:
        func: From tensors, or nested containers of them, to such; with ``has_aux`` to a pair of such and of anything.
        primals: Its arguments.
        tangents: The directions, nested as the arguments are.
        strict: Raise where a result does not depend on the arguments, instead of giving zeros.
        has_aux: Whether ``func`` returns a pair, whose second part is returned last.
    """
    here = _Transform("jvp(f, primals, tangents)")
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
    results, inputs = _outputs(out, here.what), tensors_in(points)
    moved = [r for r in results if r.requires_grad]
    if strict and len(moved) < len(results):
        raise RuntimeError(
            f"{here.what[:-1]}, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    slopes = iter(_product(here, moved, inputs, tensors_in(tangents)))
    found = _like(out, [next(slopes) if r.requires_grad else _C.zeros_like(r) for r in results])
    value = here.settled((out, found))
    return (*value, here.settled(aux)) if has_aux else value


def _product(
    here: _Transform, outs: Sequence[Tensor], inputs: Sequence[Tensor], directions: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Return the products of the Jacobians of ``outs`` by ``inputs`` with ``directions``."""
    if not outs:
        return []
    duals = [_C.zeros_like(o, requires_grad=True) for o in outs]
    _C._close_leaves(duals)
    with _recording():
        back = autograd.grad(outs, inputs, duals, create_graph=True, materialize_grads=True)
    return here.gradients(back, duals, directions)


def _jacobian(
    here: _Transform, func: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], has_aux: bool
) -> Any:
    """Return all derivatives of the results of ``func`` by the arguments ``argnums``, row by row."""
    points, given, others = _chosen(here, argnums, args)
    out, aux = here.call(func, given, {}, has_aux, others)
    wanted = tuple(points.values())
    inputs, parts = tensors_in(wanted), []
    for result in _outputs(out, here.what):
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
        parts.append(_like(wanted[0] if isinstance(argnums, int) else wanted, blocks))
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
        return _jacobian(_Transform("vjp(f, *primals)"), func, argnums, args, has_aux)

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
        for t in tensors_in([args[n] for n in _numbers(argnums, len(args))]):
            if not t.is_floating_point():
                raise ValueError(f"Expected primal to be floating point or complex, but got: {t.dtype}")
        return _jacobian(_Transform("jvp(f, primals, tangents)"), func, argnums, args, has_aux)

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that gives the Jacobian of the Jacobian of ``func``."""
    return jacfwd(jacrev(func, argnums), argnums)


def _dims_like(value: Any, dims: Any) -> list[int | None]:
    """Return the batch dim of each tensor of nested ``value``: ``dims`` is one for all, or nested as far as they
    differ.
    """
    if dims is None or isinstance(dims, int):
        return [dims] * len(tensors_in(value))
    items = list(value.values()) if isinstance(value, dict) else value
    parts = [dims[key] for key in value] if isinstance(dims, dict) else dims
    if not isinstance(value, (list, tuple, dict)) or len(items) != len(parts):
        raise ValueError(
            f"vmap: in_dims is wrong: got {dims!r}, want an int, None or the same containers as the arguments"
        )
    return [dim for item, part in zip(items, parts, strict=True) for dim in _dims_like(item, part)]


def _stacked(results: list[Any], dims: Any) -> Any:
    """Return nested results of all calls as one, its tensors stacked along ``dims``."""
    first = results[0]
    if isinstance(first, (list, tuple)):
        parts = dims if isinstance(dims, (list, tuple)) else [dims] * len(first)
        columns = [_stacked(list(column), dim) for column, dim in zip(zip(*results, strict=True), parts, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
    if isinstance(first, dict):
        found = {
            key: _stacked([r[key] for r in results], dims[key] if isinstance(dims, dict) else dims) for key in first
        }
        return OrderedDict(found) if isinstance(first, OrderedDict) else found
    if not isinstance(first, Tensor):
        raise ValueError(f"vmap: the function must return tensors, got type {type(first).__name__}")
    return first if dims is None else _C.stack(results, dim=dims)


def _row_of_none(t: Tensor, dim: int) -> Tensor:
    """Return a row for a function that is mapped over a dimension of size 0: zeros, which keep the history."""
    return (
        t.sum(dim) if t.is_floating_point() else t.new_zeros([n for d, n in enumerate(t.shape) if d != dim % t.dim()])
    )


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


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps ``func`` over a dimension of its arguments.

    ``func`` is called once for each index, and its results are stacked: the values are those of PyTorch's ``vmap``, the
    work is that of a loop. Over a dimension of size 0 it is called once, on zeros, for the shapes of its results.
    Keyword arguments are given whole.

    Args:
        func: From tensors, or nested containers of them, to such.
        in_dims: The dim of all arguments, or one for each, nested as they are; ``None`` gives an argument whole.
        out_dims: Where the dim is in the results.
        randomness: What random operations in ``func`` do: ``"error"`` raises, ``"same"`` gives each call the same
            numbers, ``"different"`` gives each its own. Of nested ``vmap`` one that refuses them is enough.
        chunk_size: Accepted for compatibility.

    Raises:
        RuntimeError: ``randomness`` is none of the three, or ``func`` draws random numbers where they are refused.
        ValueError: The dims do not fit the arguments, ``func`` returns something else than tensors, or ``chunk_size``
            is not positive.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for `randomness` are 'error', 'different', or 'same'. Got {randomness}."
        )

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims, tensors = _dims_like(args, in_dims), tensors_in(args)
        for t, d in zip(tensors, dims, strict=True):
            if d is not None and not -t.dim() <= d < t.dim():
                raise ValueError(
                    f"vmap: Got in_dim={d} for an input of dimensionality {t.dim()}, so expected in_dim to satisfy "
                    f"-{t.dim()} <= in_dim < {t.dim()}"
                )
        sizes = {t.shape[d] for t, d in zip(tensors, dims, strict=True) if d is not None}
        if not sizes:
            raise ValueError("vmap: no argument is mapped: got in_dims None for all, want one int at least")
        if len(sizes) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}"
            )
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
    """Return the parameters and the buffers of modules of one kind, each stacked along a new first dim: two
    dictionaries.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(members: str) -> dict[str, Any]:
        tables = [dict(getattr(model, members)()) for model in models]
        return {
            name: _C.stack([table[name].detach() for table in tables]).requires_grad_(first.requires_grad)
            for name, first in tables[0].items()
        }

    return stacked("named_parameters"), stacked("named_buffers")
