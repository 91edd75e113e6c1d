"""Functions and modules over a batch of arguments or of states."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.levels import MODES, is_mapped, level_of
from torchlette._runtime.nested import tensors_in
from torchlette._runtime.random import get_rng_state, set_rng_state
from torchlette.func.transform import with_tensors

__all__ = ["stack_module_state", "vmap"]

Tensor = _C.Tensor


def _dims_like(value: Any, dims: Any) -> list[int | None]:
    """Return the batch dim of each tensor of nested ``value``; ``dims`` is a prefix of its nesting or one dim."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tensors_in(value))
    items = list(value.values()) if isinstance(value, dict) else value
    parts = [dims[key] for key in value] if isinstance(dims, dict) else dims
    if not isinstance(value, (list, tuple, dict)) or len(items) != len(parts):
        raise ValueError(
            f"vmap: in_dims is wrong: got {dims!r}, want an int, None or the same containers as the arguments"
        )
    return [dim for item, part in zip(items, parts, strict=True) for dim in _dims_like(item, part)]


def _mapped_out(value: Any, dims: Any, level: int, size: int, what: str) -> Any:
    """Return nested results of a level with their batch at ``dims``, a prefix of their nesting or one dim."""
    if isinstance(value, (list, tuple)):
        parts = dims if isinstance(dims, (list, tuple)) else [dims] * len(value)
        if len(parts) != len(value):
            raise ValueError(
                f"vmap({what}, ...): out_dims is not compatible with the structure of `outputs`: got {dims!r} for "
                f"{len(value)} results"
            )
        items = [_mapped_out(v, d, level, size, what) for v, d in zip(value, parts, strict=True)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        found = {
            k: _mapped_out(v, dims[k] if isinstance(dims, dict) else dims, level, size, what) for k, v in value.items()
        }
        return OrderedDict(found) if isinstance(value, OrderedDict) else found
    if not isinstance(value, Tensor):
        raise ValueError(f"vmap({what}, ...): `{what}` must only return Tensors, got type {type(value)}.")
    if isinstance(dims, (list, tuple, dict)):
        raise ValueError(f"vmap({what}, ...): out_dims is not compatible with the structure of `outputs`: got {dims!r}")
    if dims is None:
        if is_mapped(value, level, size):
            raise ValueError(f"vmap({what}, ...): `{what}` can not return a BatchedTensor when out_dim is None")
        return value
    return _C._vmap_out(value, dims, level, size)


def check_randomness(randomness: str) -> None:
    """Raise RuntimeError unless ``randomness`` is one of the three modes."""
    if randomness not in MODES:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


@contextlib.contextmanager
def draws(randomness: str) -> Iterator[None]:
    """Refuse draws in the block where ``randomness`` is ``"error"``."""
    if randomness != "error":
        yield
        return
    _C._vmap(MODES["error"])
    try:
        yield
    finally:
        _C._vmap(0)


def _batch_size(tensors: Sequence[Tensor], dims: Sequence[int | None]) -> int:
    """Return the size of the mapped dims, which must agree."""
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
    return sizes.pop()


def _joined(chunks: list[Any], dims: Any) -> Any:
    """Return the nested results of all chunks joined along ``dims``."""
    first = chunks[0]
    if isinstance(first, Tensor):
        return first if dims is None else _C.cat(chunks, dim=dims)
    if isinstance(first, dict):
        found = {k: _joined([c[k] for c in chunks], dims[k] if isinstance(dims, dict) else dims) for k in first}
        return OrderedDict(found) if isinstance(first, OrderedDict) else found
    parts = dims if isinstance(dims, (list, tuple)) else [dims] * len(first)
    items = [_joined(list(column), d) for column, d in zip(zip(*chunks, strict=True), parts, strict=True)]
    return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps ``func`` over a dimension of its arguments.

    ``func`` is called once, whatever the size of the dimension: its operators see one element and compute all. Keyword
    arguments are passed whole. In ``func``, Python cannot read elements of mapped tensors, and a tensor that is not
    mapped cannot be written in place with one that is.

    Args:
        func: Maps tensors, or nested containers of them, to the same.
        in_dims: The dim of all arguments, or one for each, nested as they are; ``None`` passes an argument whole.
        out_dims: The position of the mapped dim in the results, nested as they are; ``None`` for a result that is not
            mapped.
        randomness: What random operations in ``func`` do: ``"error"`` raises, ``"same"`` gives each element the same
            numbers, ``"different"`` gives each its own. Nested ``vmap`` calls raise if one of them has ``"error"``.
        chunk_size: The most elements of a call of ``func``, which is called as often as needed; ``None``: all.

    Raises:
        RuntimeError: ``randomness`` is none of the three, ``func`` draws random numbers where they are refused, reads
            elements of a mapped tensor, or writes mapped values into a tensor that is not mapped.
        ValueError: The dims do not fit the arguments or results, ``func`` returns something else than tensors, or
            ``chunk_size`` is not positive.

    >>> x = torchlette.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torchlette.func.vmap(torchlette.dot)(x, x).tolist()
    [5.0, 25.0]
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    check_randomness(randomness)
    what = getattr(func, "__name__", repr(func))

    def call(args: Any, kwargs: dict[str, Any], tensors: Sequence[Tensor], dims: Sequence[int | None], n: int) -> Any:
        with level_of(n, randomness) as level:
            given = [t if d is None else _C._vmap_in(t, d, level) for t, d in zip(tensors, dims, strict=True)]
            return _mapped_out(func(*with_tensors(args, given), **kwargs), out_dims, level, n, what)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims, tensors = _dims_like(args, in_dims), tensors_in(args)
        count = _batch_size(tensors, dims)
        if chunk_size is None or count <= chunk_size:
            return call(args, kwargs, tensors, dims, count)
        state, results = get_rng_state(), []
        for start in range(0, count, chunk_size):
            if randomness == "same":
                set_rng_state(state)
            n = min(chunk_size, count - start)
            part = [t if d is None else t.narrow(d, start, n) for t, d in zip(tensors, dims, strict=True)]
            results.append(call(args, kwargs, part, dims, n))
        return _joined(results, out_dims)

    return functools.wraps(func)(wrapper) if hasattr(func, "__name__") else wrapper


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two dictionaries, of the parameters and of the buffers of equal modules, each stacked along a new first
    dim.
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
