"""Loops of a known length."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette.lax.body import BodyTypeError, check_carry, flatten, like_elements, trace, type_text
from torchlette.lax.branches import while_loop
from torchlette.lax.report import Paths, check_path

__all__ = ["fori_loop", "map", "scan"]

Tensor = _C.Tensor


def _length(what: str, xs: list[Tensor], length: Any) -> int:
    """Return the number of iterations, on which all of ``xs`` and ``length`` agree."""
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError:
            raise TypeError(f"{what}: length must be an integer, got {type(length)}") from None
        if length < 0:
            raise ValueError(f"{what}: length must not be negative, got {length}")
    for x in xs:
        if x.dim() == 0:
            raise ValueError(f"{what} got a tensor without dims in xs: want the iterations as its first dim")
    sizes = [x.shape[0] for x in xs]
    if length is None and not sizes:
        raise ValueError(f"{what} got no values to scan over and `length` not provided.")
    found = sizes[0] if length is None else length
    if any(size != found for size in sizes):
        if length is None:
            raise ValueError(f"{what} got values with different leading axis sizes: {str(sizes)[1:-1]}.")
        raise ValueError(f"{what} got `length` argument of {length} which disagrees with leading axis sizes {sizes}.")
    return found


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    accept_path: Paths = None,
) -> tuple[Any, Any]:
    """Run ``carry, y = f(carry, x)`` for each ``x`` of ``xs``; return the last carry, and all ``y`` stacked.

    ``f`` runs once, on placeholders. What it records becomes the body of a loop that the engine runs. Tensors from
    outside that ``f`` reads get their gradients too.

    Args:
        f: A function of a carry and an element of ``xs`` that returns a carry of the same types and shapes, and a tree
            of tensors or ``None``.
        init: The first carry: a tree of tensors and numbers. Numbers become tensors.
        xs: A tree of tensors [length, ...], or ``None``; then ``f`` gets ``None``.
        length: The number of iterations; needed where ``xs`` has no tensors.
        reverse: Begin with the last element of ``xs``. The y of an element stays at the element's place.
        unroll: Accepted as in JAX. The engine's loops cost no Python, so it changes nothing.
        accept_path: The ways of running the loop that the caller accepts, such as "A" or {"A", "C"}; ``None``: all.
            See :func:`loop_report`.

    Raises:
        RuntimeError: The loop takes a path that ``accept_path`` lacks. The message says why.
        TypeError: The carry changes its structure, a dtype or a shape.
        ValueError: ``xs`` and ``length`` disagree.
        TransformPurityError: ``f`` writes in place to a tensor from outside.
    """
    del unroll
    if not callable(f):
        raise TypeError(f"lax.scan: f argument should be a callable, got {type(f)}.")
    carry, carry_tree = flatten("scan", init)
    elements, xs_tree = flatten("scan", xs)
    count = _length("scan", elements, length)

    def body(args: list[Tensor]) -> Any:
        result = f(carry_tree.build(args[: len(carry)]), xs_tree.build(args[len(carry) :]))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise BodyTypeError(f"scan body output must be a pair, got {type(result)}.")
        check_carry("scan body", result[0], carry, carry_tree)
        return [result[0], result[1]]

    traced = trace("scan", body, [*carry, *like_elements(elements)])
    if count == 0:
        empty = [_C.empty((0, *shape), dtype=d, device=dev) for shape, d, dev in traced.types[len(carry) :]]
        return tuple(traced.tree.build([*carry, *empty]))
    outs = traced.loop(carry, elements, count, reverse)
    check_path("scan", accept_path)
    return tuple(traced.tree.build(outs))


def fori_loop(
    lower: int | Tensor,
    upper: int | Tensor,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    accept_path: Paths = None,
) -> Any:
    """Return ``val`` after ``val = body_fun(i, val)`` for each ``i`` from ``lower`` up to ``upper``, not included.

    Args:
        lower: The first number. With a tensor as a bound the loop has no reverse-mode gradient, as in JAX.
        upper: The number after the last one.
        body_fun: A function of a tensor of dtype int64 without dims and of a value, which returns a value of the same
            types and shapes.
        init_val: The first value: a tree of tensors and numbers.
        unroll: Accepted as in JAX.
        accept_path: As in :func:`scan`.
    """
    del unroll
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        first, last = (v if isinstance(v, Tensor) else _C.tensor(v) for v in (lower, upper))
        counted = (first, init_val)
        step = lambda c: (c[0] + 1, body_fun(c[0], c[1]))  # noqa: E731
        return while_loop(lambda c: c[0] < last, step, counted, accept_path=accept_path)[1]
    begin, end = int(operator.index(lower)), int(operator.index(upper))
    numbers = _C.arange(begin, max(begin, end))
    return scan(lambda carry, i: (body_fun(i, carry), None), init_val, numbers, accept_path=accept_path)[0]


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:  # noqa: A001
    """Return ``f`` of each element of ``xs``, stacked. One element is computed after the other.

    Args:
        f: A function of a tree of tensors.
        xs: A tree of tensors [n, ...].
        batch_size: That many elements are computed at once by ``vmap``; ``None``: one.
    """
    if batch_size is not None:
        return _mapped_in_batches(f, xs, batch_size)
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


def _mapped_in_batches(f: Callable[[Any], Any], xs: Any, size: int) -> Any:
    from torchlette.func import vmap

    elements, tree = flatten("map", xs)
    count = _length("map", elements, None)
    whole = count // size * size
    parts = []
    if whole:
        grouped = [x[:whole].reshape(count // size, size, *x.shape[1:]) for x in elements]
        outs, out_tree = flatten("map", map(vmap(f), tree.build(grouped)))
        parts.append([y.flatten(0, 1) for y in outs])
    if whole < count or not parts:
        outs, out_tree = flatten("map", vmap(f)(tree.build([x[whole:] for x in elements])))
        parts.append(outs)
    return out_tree.build([_C.cat(pair) for pair in zip(*parts, strict=True)])


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return ``e0``, ``fn(e0, e1)``, ``fn(fn(e0, e1), e2)``, ... along ``axis``.

    Elements are combined in the order of JAX and PyTorch, in 2 log2(n) rounds and about 2n combinations (G. E.
    Blelloch, 1990).

    Args:
        fn: An associative function of two trees like ``elems`` that works element by element.
        elems: A tree of tensors of one size in ``axis``.
        reverse: From the last element to the first.
        axis: The dimension.

    Raises:
        TypeError: ``fn`` returns another structure, dtype or shape.
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, tree = flatten("associative_scan", elems)
    if not leaves:
        raise ValueError("associative_scan: elems has no tensors")
    if any(leaf.shape[axis] != leaves[0].shape[axis] for leaf in leaves):
        shapes = [list(leaf.shape) for leaf in leaves]
        raise ValueError(f"Array inputs to associative_scan must have the same first dimension. (saw: {shapes})")
    if reverse:
        leaves = [leaf.flip(axis) for leaf in leaves]
    axis += leaves[0].dim() if axis < 0 else 0

    def combine(before: list[Tensor], now: list[Tensor]) -> list[Tensor]:
        combined, found = flatten("associative_scan", fn(tree.build(before), tree.build(now)))
        if len(combined) != len(leaves):
            raise BodyTypeError(f"associative_scan: fn must return a tree like its arguments, got {found}, want {tree}")
        for a, b in zip(before, combined, strict=True):
            if (a.dtype, a.shape, a.device) != (b.dtype, b.shape, b.device):
                raise BodyTypeError(
                    f"associative_scan: fn must return tensors of the types of its arguments, got {type_text(b)}, want "
                    f"{type_text(a)}"
                )
        return combined

    leaves = _prefixes(combine, leaves, axis)
    return tree.build([leaf.flip(axis) for leaf in leaves] if reverse else leaves)


def _prefixes(
    combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor], dim: int
) -> list[Tensor]:
    """Return running results: those of pairs give every second one, and these with single elements the others."""
    n = xs[0].shape[dim]
    if n < 2:
        return xs

    def pick(ts: list[Tensor], begin: int, end: int) -> list[Tensor]:
        return [t[(*[slice(None)] * dim, slice(begin, end, 2))] for t in ts]

    odd = _prefixes(combine, combine(pick(xs, 0, n - 1), pick(xs, 1, n)), dim)
    even = [x.narrow(dim, 0, 1) for x in xs]
    if n > 2:
        rest = combine([t.narrow(dim, 0, (n - 1) // 2) for t in odd], pick(xs, 2, n))
        even = [_C.cat([first, others], dim) for first, others in zip(even, rest, strict=True)]
    return [_interleaved(a, b, dim) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor, dim: int) -> Tensor:
    """Return elements of two tensors in turns; ``even`` may have one more."""
    n = odd.shape[dim]
    pairs = _C.stack([even.narrow(dim, 0, n), odd], dim + 1).flatten(dim, dim + 1)
    return pairs if even.shape[dim] == n else _C.cat([pairs, even.narrow(dim, n, 1)], dim)
