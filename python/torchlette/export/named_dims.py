"""Named dims: what a caller declares, and the sizes at which a function is recorded to find what depends on them."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import Unsupported
from torchlette.export.fitting import Sizes, affine, fit, fit_float
from torchlette.export.nests import parts

__all__ = ["Dim", "declared", "dims", "merged", "probes", "settle"]

#: Steps from the example's size to the sizes that are tried, and its multiples.
_NEAR, _FAR = (1, 2, 3, 5, 16), (2, 3, 4)
_ENOUGH = 7
#: Characters of an error that another one shows.
_SHOWN = 300


class _Hint:
    """What ``dynamic_shapes`` says of a size without a name; it may be called with a range."""

    def __init__(self, word: str, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
        self.word, self.min, self.max = word, min, max

    def __call__(self, *, min: int | None = None, max: int | None = None) -> _Hint:  # noqa: A002
        """Return the hint with a range."""
        if self.word == "STATIC":
            raise TypeError("Dim.STATIC has no range")
        return _Hint(self.word, min, max)

    def __repr__(self) -> str:
        return f"Dim.{self.word}"


class Dim:
    """A named size of an argument, for ``dynamic_shapes``.

    ``2 * dim``, ``dim + 1`` and ``dim - 1`` are sizes that depend on it. Sizes without a name are ``Dim.DYNAMIC``,
    which may differ from the example's, ``Dim.AUTO``, which may where the function works for other sizes, and
    ``Dim.STATIC``. ``Dim.DYNAMIC(min=2, max=8)`` has a range.

    Args:
        name: An identifier. Dims of one name have one size in each call.
        min: The smallest size; ``None`` for 0.
        max: The largest size; ``None`` for no bound.

    Raises:
        ValueError: The name is no identifier, or the range is empty or negative.
    """

    AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
        """Check name and range."""
        if not isinstance(name, str) or not name.isascii() or not name.isidentifier() or name == "sqrt":
            raise ValueError(f"Dim: the name is wrong: got {name!r}, want an identifier")
        self.__name__, self.min, self.max = name, 0 if min is None else min, max
        #: Sizes that are tried are ``n * step[0] + step[1]``.
        self.step = 1, 0
        #: Whether the size is the example's if the function works for no other one.
        self.auto = False
        if self.min < 0 or max is not None and max < self.min:
            raise ValueError(f"Dim {name}: the range is empty or negative: got min={min}, max={max}")

    def __mul__(self, n: int) -> Affine:
        return Affine(self, 1, 0) * n

    def __add__(self, n: int) -> Affine:
        return Affine(self, 1, 0) + n

    def __sub__(self, n: int) -> Affine:
        return self + -n

    __rmul__, __radd__ = __mul__, __add__

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


class Affine:
    """``factor * dim + offset``: a size that depends on a named one."""

    def __init__(self, dim: Dim, factor: int, offset: int) -> None:
        """Keep the dim and the numbers."""
        self.dim, self.factor, self.offset = dim, factor, offset

    def __mul__(self, n: int) -> Affine:
        if type(n) is not int or n <= 0:
            raise NotImplementedError(f"a dim is multiplied by {n!r}, want a positive integer")
        return Affine(self.dim, self.factor * n, self.offset * n)

    def __add__(self, n: int) -> Affine:
        if type(n) is not int:
            raise NotImplementedError(f"{n!r} is added to a dim, want an integer")
        return Affine(self.dim, self.factor, self.offset + n)

    def __sub__(self, n: int) -> Affine:
        return self + -n

    __rmul__, __radd__ = __mul__, __add__

    def __repr__(self) -> str:
        return affine(self.factor, self.dim.__name__, self.offset)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:  # noqa: A002
    """Return a :class:`Dim` for each name, all of one range."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class _Declared:
    """The named dims of a call: the shapes of its tensors with names, the dims, and the example's sizes."""

    def __init__(self, shapes: list[list[int | str]], dims: dict[str, Dim], sizes: Sizes) -> None:
        self.shapes, self.dims, self.sizes = shapes, dims, sizes

    def note(self, shape: list[int | str], axis: int, dim: Dim | Affine, where: str) -> None:
        """Give one dim of a tensor a name."""
        of = dim if isinstance(dim, Affine) else Affine(dim, 1, 0)
        dim, name, size = of.dim, of.dim.__name__, shape[axis]
        known = self.dims.setdefault(name, dim)
        if (known.min, known.max) != (dim.min, dim.max):
            raise ValueError(f"export: dynamic_shapes: two dims have the name {name!r}: got {known} and {dim}")
        assert isinstance(size, int)
        n, rest = divmod(size - of.offset, of.factor)
        if rest:
            raise ValueError(f"export: {where}: dim {axis} is {size}, which is no value of {of}")
        if n < dim.min or dim.max is not None and n > dim.max:
            given = f"dim {axis} is {size}" + (f", so {name} is {n}" if n != size else "")
            raise ValueError(f"export: {where}: {given}, out of the range of {dim}")
        if self.sizes.setdefault(name, n) != n:
            raise ValueError(f"export: {where}: dim {axis} is {size}, but {name} is {self.sizes[name]} elsewhere")
        shape[axis] = name if of.factor == 1 and of.offset == 0 else f"={of}"

    def rename(self, name: str, to: str | int) -> None:
        """Let a dim be another one, or a number."""
        for shape in self.shapes:
            shape[:] = [to if n == name else n for n in shape]
        del self.dims[name], self.sizes[name]

    def unnamed(self, hint: _Hint, where: str) -> Dim:
        """Return a dim with a name of its own."""
        stem = re.sub(r"\W+", "_", where).strip("_")
        stem = stem if stem.isascii() and stem.isidentifier() else "size"
        name = next(n for k in itertools.count() if (n := f"{stem}_{k}" if k else stem) not in self.dims)
        dim = Dim(name, min=hint.min, max=hint.max)
        dim.auto = hint.word == "AUTO"
        return dim


def _note(found: _Declared, value: Any, dynamic: Any, shapes: list[list[int | str]], where: str) -> None:
    """Go along an argument and what ``dynamic_shapes`` says of it."""
    if isinstance(value, _C.Tensor):
        shape: list[int | str] = list(value.shape)
        shapes.append(shape)
        entries = dynamic.items() if isinstance(dynamic, Mapping) else enumerate(dynamic or ())
        for axis, dim in entries:
            if not -len(shape) <= axis < len(shape):
                raise ValueError(f"export: dynamic_shapes of {where}: it has no dim {axis}: its shape is {shape}")
            if dim is None or dim is Dim.STATIC or isinstance(dim, int) and dim == shape[axis]:
                continue
            if isinstance(dim, str) and dim.startswith("="):
                shape[axis] = dim
                continue
            if isinstance(dim, _Hint):
                if dim.word == "AUTO" and shape[axis] in (0, 1):
                    continue  # as in torch.export
                dim = found.unnamed(dim, f"{where}_{axis % len(shape)}")
            if not isinstance(dim, (Dim, Affine)):
                raise TypeError(f"export: dynamic_shapes of {where}: got {dim!r}, want a Dim, an integer or None")
            found.note(shape, axis % len(shape), dim, where)
    elif (fields := parts(value)) is not None:
        shown = dict(parts(dynamic) or ()) if not isinstance(dynamic, (Mapping, tuple)) else dynamic
        for i, (key, v) in enumerate(fields):
            given = shown.get(key) if isinstance(shown, Mapping) else shown[i] if i < len(shown) else None
            _note(found, v, given, shapes, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        if dynamic is not None and (not isinstance(dynamic, (list, tuple)) or len(dynamic) != len(value)):
            raise ValueError(f"export: dynamic_shapes of {where}: got {dynamic!r}, want a list of {len(value)} items")
        for i, v in enumerate(value):
            _note(found, v, dynamic[i] if dynamic is not None else None, shapes, f"{where}[{i}]")
    elif isinstance(value, Mapping):
        if dynamic is not None and (not isinstance(dynamic, Mapping) or set(dynamic) - set(value)):
            raise ValueError(f"export: dynamic_shapes of {where}: got {dynamic!r}, want a dict of some of its keys")
        for key, v in value.items():
            _note(found, v, (dynamic or {}).get(key), shapes, f"{where}[{key!r}]")


def _spread(fn: Any, count: int, kwargs: Mapping[str, Any], dynamic: Mapping[str, Any]) -> dict[str, Any]:
    """Give the entries for ``*args`` and ``**kwargs`` of a function to the arguments that they are of."""
    out = dict(dynamic)
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return out
    for k, p in enumerate(parameters):
        if p.name in kwargs or p.name not in out:
            continue
        if p.kind is p.VAR_POSITIONAL:
            items = out.pop(p.name) or [None] * (count - k)
            if not isinstance(items, (list, tuple)) or len(items) != count - k:
                raise ValueError(
                    f"export: dynamic_shapes of {p.name}: got {items!r}, want a tuple of {count - k} items"
                )
            out |= {f"{p.name}_{i}": v for i, v in enumerate(items)}
        elif p.kind is p.VAR_KEYWORD:
            out |= out.pop(p.name) or {}
    return out


def declared(
    args: Sequence[Any], names: Sequence[str], kwargs: Mapping[str, Any], dynamic: Any, fn: Any = None
) -> _Declared:
    """Return the named dims of a call.

    Args:
        args: The positional arguments, with their names.
        names: The names.
        kwargs: The keyword arguments.
        dynamic: As in ``torch.export``: a dict by the arguments' names, or a tuple in their order. Of a tensor it has a
            dict ``{axis: Dim}``, a list with a Dim or None for each axis, or None.
        fn: The function, for the names of ``*args`` and ``**kwargs``.

    Raises:
        TypeError: An entry is no Dim.
        ValueError: Names, ranges or sizes do not fit the arguments.
    """
    found = _Declared([], {}, {})
    wanted = [*names, *kwargs]
    if isinstance(dynamic, Mapping):
        dynamic = _spread(fn, len(args), kwargs, dynamic)
        if unknown := set(dynamic) - set(wanted):
            raise ValueError(f"export: dynamic_shapes names {sorted(unknown)}, want some of {wanted}")
        dynamic = [dynamic.get(name) for name in wanted]
    elif dynamic is not None and len(dynamic) != len(wanted):
        raise ValueError(f"export: dynamic_shapes has {len(dynamic)} items, want {len(wanted)}: {wanted}")
    for i, value in enumerate([*args, *kwargs.values()]):
        _note(found, value, dynamic[i] if dynamic is not None else None, found.shapes, wanted[i])
    return found


def _sizes_to_try(dim: Dim, size: int) -> list[int]:
    top = dim.max if dim.max is not None else max(4 * size, size + 16)
    step, rest = dim.step
    near = [size + k * step for k in _NEAR] + [size * k for k in _FAR] + [size * 2 + 1]
    down = [size - k * step for k in (1, 2, 3, 4)] + [size // 2]
    good = (n for n in near + down if max(dim.min, 2) <= n <= top and n % step == rest)
    return [n for n in dict.fromkeys(good) if n != size]


def settle(found: _Declared, trace: Callable[[Sizes], dict[str, Any]]) -> None:
    """Decide which sizes of ``Dim.AUTO`` differ from the example's: those for which the function has the same steps.

    One that differs only together with others of its size gets the name of one of these.
    """
    if not any(dim.auto for dim in found.dims.values()):
        return
    first = trace(found.sizes)

    def works(names: Sequence[str]) -> bool:
        for size in _sizes_to_try(found.dims[names[0]], found.sizes[names[0]])[:2]:
            point = {**found.sizes, **dict.fromkeys(names, size)}
            try:
                _same_steps(first["steps"], trace(point)["steps"], found.sizes, point)
            except Exception:  # noqa: S112  the function does not work there
                continue
            return True
        return False

    stuck = [n for n, dim in found.dims.items() if dim.auto and not works([n])]
    while stuck:
        name = stuck.pop(0)
        same = [n for n in found.dims if n != name and found.sizes[n] == found.sizes[name]]
        partner = next((n for n in same if works([name, n])), None)
        together = [name, *[n for n in same if n in stuck]]
        if partner is not None:
            found.rename(name, partner)
            stuck = [n for n in stuck if n != partner]  # it works, together with this one
        elif len(together) > 2 and works(together):
            for n in together[1:]:
                found.rename(n, name)
            stuck = [n for n in stuck if n not in together]
        else:
            found.rename(name, found.sizes[name])


def _works(trace: Callable[[Sizes], Any], base: Sizes, names: Sequence[str], sizes: Sequence[int]) -> bool:
    """Report that a function works where dims have another size than in the example, which is the same for all."""
    for size in sizes[:2]:
        try:
            trace({**base, **dict.fromkeys(names, size)})
        except Exception:  # noqa: S112  the function does not work there
            continue
        return True
    return False


def probes(
    dims: Mapping[str, Dim], sizes: Sizes, trace: Callable[[Sizes], dict[str, Any]]
) -> tuple[list[Sizes], list[dict[str, Any]]]:
    """Record a function at several sizes of its named dims.

    Args:
        dims: The named dims.
        sizes: The example's sizes. The function must work there.
        trace: Records it at given sizes.

    Returns:
        The sizes at which the function works, the first ones with the others as in the example, and the recordings.

    Raises:
        Unsupported: The function works at one size of a dim only.
    """
    base = {n: s if s > 1 or not (up := _sizes_to_try(dims[n], s)) else up[0] for n, s in sizes.items()}
    points, traces = [base], [trace(base)]
    works: dict[str, list[int]] = {}
    for name, dim in dims.items():
        works[name], failure = [], None
        options = _sizes_to_try(dim, base[name])
        for size in options:
            if len(works[name]) == _ENOUGH:
                break
            point = {**base, name: size}
            try:
                traces.append(trace(point))
            except Exception as exc:  # e.g. a size that no window divides
                failure = exc
                continue
            points.append(point)
            works[name].append(size)
        if options and not works[name]:
            equal = [n for n in dims if n != name and base[n] == base[name] and _works(trace, base, [n, name], options)]
            raise Unsupported(
                f"export: the function works for {name} = {base[name]} only, of {base[name]} and {options}: "
                + (
                    f"{name} and {equal[0]} are equal: give both one Dim"
                    if equal
                    else f"make the dim static, or give Dim({name!r}) its range"
                )
                + f". It failed with {type(failure).__name__}: {str(failure)[:_SHOWN]}"
            ) from failure
    if len(dims) > 1:
        for pick in (0, 1, -1):
            point = {n: works[n][pick if pick < len(works[n]) else 0] if works[n] else base[n] for n in base}
            try:
                traces.append(trace(point))
                points.append(point)
            except Exception:  # noqa: S112  the sizes do not fit together
                continue
    return points, traces


def merged(traces: list[dict[str, Any]], points: list[Sizes]) -> dict[str, Any]:
    """Return the recording for all sizes: numbers that depend on them become expressions.

    Raises:
        Unsupported: The recordings have different steps, or a number is no expression of a known form.
    """
    first = traces[0]
    for other, point in zip(traces, points, strict=True):
        _same_steps(first["steps"], other["steps"], points[0], point)
    steps = [
        _merge([t["steps"][i] for t in traces], points, f"step {i} ({step['op']}, {step.get('at', 'line unknown')})")
        for i, step in enumerate(first["steps"])
    ]
    return {**first, "steps": steps}


def _same_steps(first: list[dict[str, Any]], other: list[dict[str, Any]], base: Sizes, point: Sizes) -> None:
    """Check that two recordings have the same steps, also in the bodies of loops."""
    for i, (a, b) in enumerate(zip(first, other, strict=False)):
        if a["op"] != b["op"] or a.get("mode") != b.get("mode"):
            raise _differ(i, a["op"], b["op"], a.get("at"), base, point)
        if "body" in a:
            _same_steps(a["body"]["steps"], b["body"]["steps"], base, point)
    if (n := len(first)) != (m := len(other)):
        longer = first if n > m else other
        more = longer[min(n, m)]
        had, has = (more["op"], "none") if n > m else ("none", more["op"])
        raise _differ(min(n, m), had, has, more.get("at"), base, point)


def _differ(i: int, a: str, b: str, at: str | None, base: Sizes, point: Sizes) -> Unsupported:
    return Unsupported(
        f"export: the steps depend on the sizes: step {i} is {a} at {base} and {b} at {point} "
        f"({at or 'line unknown'}). A program has the same steps at all sizes"
    )


def _merge(values: list[Any], points: list[Sizes], where: str) -> Any:
    first = values[0]
    if all(v == first and type(v) is type(first) for v in values):
        return first
    if all(isinstance(v, dict) and v.keys() == first.keys() for v in values):
        return {key: _merge([v[key] for v in values], points, f"{where}, {key}") for key in first}
    if all(isinstance(v, list) and len(v) == len(first) for v in values):
        return [_merge([v[i] for v in values], points, f"{where}[{i}]") for i in range(len(first))]
    text = None
    if all(type(v) is int for v in values):
        text = fit(values, points)
    elif all(type(v) is float for v in values) and (text := fit_float(values, points)) is not None:
        text = f"float:{text}"
    if text is None:
        raise Unsupported(
            f"export: {where}: a number is no known function of the sizes: "
            f"{dict(zip(map(str, points), values, strict=True))}"
        )
    return f"={text}"
