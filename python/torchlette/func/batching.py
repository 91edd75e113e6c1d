"""Functions and modules over a batch of arguments or of states."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchlette import _C
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


def _stacked(results: list[Any], dims: Any) -> Any:
    """Stack the nested results of all calls along ``dims``."""
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
    """Return the stand-in row for a dimension of size 0: zeros that keep the history."""
    return (
        t.sum(dim) if t.is_floating_point() else t.new_zeros([n for d, n in enumerate(t.shape) if d != dim % t.dim()])
    )


def _emptied(stacked: Any, dims: Any) -> Any:
    """Return nested stacked results cut to size 0."""
    if isinstance(stacked, Tensor):
        return stacked if dims is None else stacked.narrow(dims, 0, 0)
    if isinstance(stacked, dict):
        return {key: _emptied(item, dims[key] if isinstance(dims, dict) else dims) for key, item in stacked.items()}
    parts = dims if isinstance(dims, (list, tuple)) else [dims] * len(stacked)
    items = [_emptied(item, part) for item, part in zip(stacked, parts, strict=True)]
    return type(stacked)(*items) if hasattr(stacked, "_fields") else type(stacked)(items)


def check_randomness(randomness: str) -> None:
    """Raise RuntimeError unless ``randomness`` is one of the three modes."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


@contextlib.contextmanager
def draws(randomness: str) -> Iterator[Callable[[], None]]:
    """Apply a ``randomness`` mode: refuse draws, or yield the function to call before each row."""
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

    ``func`` is called once for each index, and its results are stacked: the values equal those of PyTorch's ``vmap``,
    the cost is that of a loop. For a dimension of size 0 it is called once, on zeros, to learn the shapes of its
    results. Keyword arguments are passed whole.

    Args:
        func: Maps tensors, or nested containers of them, to the same.
        in_dims: The dim of all arguments, or one for each, nested as they are; ``None`` passes an argument whole.
        out_dims: The position of the mapped dim in the results.
        randomness: What random operations in ``func`` do: ``"error"`` raises, ``"same"`` gives each call the same
            numbers, ``"different"`` gives each its own. Nested ``vmap`` calls raise if one of them has ``"error"``.
        chunk_size: Accepted for compatibility.

    Raises:
        RuntimeError: ``randomness`` is none of the three, or ``func`` draws random numbers where they are refused.
        ValueError: The dims do not fit the arguments, ``func`` returns something else than tensors, or ``chunk_size``
            is not positive.

    >>> x = torchlette.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torchlette.func.vmap(torchlette.dot)(x, x).tolist()
    [5.0, 25.0]
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    check_randomness(randomness)

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
        with draws(randomness) as next_row:
            if count == 0:
                row = [t if d is None else _row_of_none(t, d) for t, d in zip(tensors, dims, strict=True)]
                return _emptied(_stacked([func(*with_tensors(args, row), **kwargs)], out_dims), out_dims)
            columns = [[t] * count if d is None else t.unbind(d) for t, d in zip(tensors, dims, strict=True)]
            results = []
            for row in zip(*columns, strict=True):
                next_row()
                results.append(func(*with_tensors(args, row), **kwargs))
        return _stacked(results, out_dims)

    return wrapper


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
