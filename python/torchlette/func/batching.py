"""Functions and modules over a batch of arguments or of states."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.levels import MODES, fits, is_mapped, level_of, spread_dims, unwrapped
from torchlette._runtime.nested import each, tensors_in
from torchlette._runtime.random import restore_state, saved_state
from torchlette.func.transform import with_tensors

__all__ = ["debug_unwrap", "replace_all_batch_norm_modules_", "stack_module_state", "vmap"]

Tensor = _C.Tensor


class _InDims:
    """The dims of arguments that a call maps, and the errors of what does not fit them."""

    def __init__(self, what: str, dims: Any, args: tuple[Any, ...]) -> None:
        self.call = f"vmap({what}, in_dims={dims}, ...)(<inputs>): "
        self.dims, self.args = dims, args
        if not isinstance(dims, (int, tuple)):
            raise ValueError(
                f"{self.call}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
                f"inputs, got: {type(dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({what})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
                f"over a function with no inputs. The latter is unsupported."
            )

    def of(self, value: Any, dims: Any) -> list[int | None]:
        """Return the batch dim of each tensor of nested ``value``; ``dims`` is a prefix of its nesting or one dim."""
        one = dims is None or isinstance(dims, int)
        if isinstance(value, (list, tuple, dict)):
            items = list(value.values()) if isinstance(value, dict) else value
            if one:
                parts = [dims] * len(items)
            elif isinstance(dims, dict) and isinstance(value, dict) and dims.keys() == value.keys():
                parts = [dims[key] for key in value]
            elif type(dims) is type(value) and len(dims) == len(value):
                parts = list(dims)
            else:
                raise self.unlike()
            return [dim for item, part in zip(items, parts, strict=True) for dim in self.of(item, part)]
        if isinstance(dims, (list, tuple, dict)):
            raise self.unlike()
        if not one:
            raise ValueError(
                f"{self.call}Got in_dim={dims} for an input but in_dim must be either an integer dimension or None."
            )
        if isinstance(value, Tensor):
            if dims is not None and not -value.dim() <= dims < value.dim():
                raise ValueError(
                    f"{self.call}Got in_dim={dims} for some input, but that input is a Tensor of dimensionality "
                    f"{value.dim()} so expected in_dim to satisfy -{value.dim()} <= in_dim < {value.dim()}."
                )
            return [dims]
        if dims is not None:
            raise ValueError(
                f"{self.call}Got in_dim={dims} for an input but the input is of type {type(value)}. We cannot vmap "
                f"over non-Tensor arguments, please use None as the respective in_dim"
            )
        return []

    def unlike(self) -> ValueError:
        """Return the error of dims that are nested in another way than the arguments."""
        from torchlette.utils._pytree import tree_flatten

        return ValueError(
            f"{self.call}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(self.dims)[1]} but inputs has structure {tree_flatten(self.args)[1]}."
        )


def _mapped_out(
    value: Any, dims: Any, level: int, size: int, what: str, given: dict[int, tuple[Tensor, int]] | None = None
) -> Any:
    """Return nested results of a level with their batch at ``dims``, a prefix of their nesting or one dim.

    A result that is an argument is that of the caller, which ``given`` has by the identity of the mapped one.
    """
    if type(dims) is tuple and len(dims) == 1 and isinstance(value, Tensor):
        dims = dims[0]
    if not fits(value, dims):
        raise _unlike_outputs(value, dims, what)
    left = iter(spread_dims(value, dims))

    def out(item: Any) -> Any:
        dim = next(left)
        if dim is None:
            if isinstance(item, Tensor) and is_mapped(item, level, size):
                raise ValueError(f"vmap({what}, ...): `{what}` can not return a BatchedTensor when out_dim is None")
            return item
        if not isinstance(item, Tensor):
            raise ValueError(
                f"vmap({what}, ...): `{what}` must only return Tensors, got type {type(item)}. "
                f"Did you mean to set out_dims= to None for output?"
            )
        whole, at = given.get(id(item), (None, 0)) if given else (None, 0)
        if whole is not None and dim in range(-whole.dim(), whole.dim()) and (at - dim) % whole.dim() == 0:
            return whole
        return _C._vmap_out(item, dim, level, size)

    return each(value, out)


def _unlike_outputs(value: Any, dims: Any, what: str) -> ValueError:
    """Return the error of ``out_dims`` that are no dims, or nested in another way than the results."""
    from torchlette.utils._pytree import tree_flatten

    found, structure = tree_flatten(dims)
    if not all(d is None or isinstance(d, int) for d in found):
        return ValueError(
            f"vmap({what}, ..., out_dims={dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    return ValueError(
        f"vmap({what}, ..., out_dims={dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
        f"out_dims has structure {structure} but outputs has structure {tree_flatten(value)[1]}."
    )


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
    sizes = [t.shape[d] for t, d in zip(tensors, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            f"mapped dimension"
        )
    return sizes[0]


def batch_size_of(func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...]) -> int:
    """Return the size of the dims that ``in_dims`` maps."""
    what = getattr(func, "__name__", repr(func))
    return _batch_size(tensors_in(args), _InDims(what, in_dims, args).of(args, in_dims))


def _joined(chunks: list[Any], dims: Any) -> Any:
    """Return the nested results of all chunks joined along ``dims``; those without a dim are of the first chunk."""
    columns: list[list[Any]] = []
    for chunk in chunks:
        columns.append([])
        each(chunk, columns[-1].append)
    if type(dims) is tuple and len(dims) == 1 and isinstance(chunks[0], Tensor):
        dims = dims[0]
    left = iter(zip(zip(*columns, strict=True), spread_dims(chunks[0], dims), strict=True))

    def joined(item: Any) -> Any:
        parts, dim = next(left)
        return item if dim is None else _C.cat(parts, dim=dim)

    return each(chunks[0], joined)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps ``func`` over a dimension of its arguments.

    ``func`` is called once, for any size of the dimension: its operators see one element and compute all. Keyword
    arguments are passed whole. In ``func``, Python cannot read elements of mapped tensors, and a tensor that is not
    mapped cannot be written in place with one that is.

    Args:
        func: Maps tensors, or nested containers of them, to the same.
        in_dims: The dim of all arguments, or one for each, nested as they are; ``None`` passes an argument whole.
        out_dims: The position of the mapped dim in the results, nested as they are; ``None`` for a result that is not
            mapped, and for one that is no tensor.
        randomness: What random operations in ``func`` do: ``"error"`` raises, ``"same"`` gives each element the same
            numbers, ``"different"`` gives each its own. Nested ``vmap`` calls raise if one of them has ``"error"``.
        chunk_size: The most elements of a call of ``func``, which is called as often as needed; ``None``: all.

    Raises:
        RuntimeError: ``randomness`` is another word, ``func`` draws random numbers where they are refused, reads
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
            own = {id(g): (t, d) for g, t, d in zip(given, tensors, dims, strict=True) if d is not None}
            return _mapped_out(func(*with_tensors(args, given), **kwargs), out_dims, level, n, what, own)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims, tensors = _InDims(what, in_dims, args).of(args, in_dims), tensors_in(args)
        count = _batch_size(tensors, dims)
        if chunk_size is None or count <= chunk_size:
            return call(args, kwargs, tensors, dims, count)
        state, results = saved_state(), []
        for start in range(0, count, chunk_size):
            if randomness == "same":
                restore_state(state)
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
        for name, first in tables[0].items():
            if any(table[name].requires_grad != first.requires_grad for table in tables):
                raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        return {
            name: _C.stack([table[name].detach() for table in tables]).requires_grad_(first.requires_grad)
            for name, first in tables[0].items()
        }

    return stacked("named_parameters"), stacked("named_buffers")


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let each ``nn.BatchNorm`` of a module compute by the statistics of its batch, and follow none; returns ``root``.

    Running statistics cannot be written under :func:`vmap`, where each element of the batch has its own.
    """
    from torchlette.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return a tensor with all elements of the calls of :func:`vmap` in progress, to look at while debugging.

    Other transforms wrap nothing: there it is the tensor itself. Its dims may come in another order in PyTorch. What is
    computed from it leaves the transform.

    Args:
        tensor: Any tensor.
        recurse: Whether the batches of all calls become dims, or that of the innermost one.

    >>> def f(x):
    ...     print(tuple(torchlette.func.debug_unwrap(x).shape))
    ...     return x
    >>> y = torchlette.func.vmap(f)(torchlette.ones(2, 3))
    (2, 3)
    """
    return unwrapped(tensor, None if recurse else 1)
