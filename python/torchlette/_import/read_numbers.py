"""Numbers that a graph reads from tensors, ``item()``, in a program, which reads nothing.

A number is a tensor without dims. Operators get it as an operand where they take a number. A part of a tensor that
begins at such a number is a :class:`Window`: a gather, made when it is used, that also takes writes. No size may
depend on such a number.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torchlette
from torchlette import _C
from torchlette._import.recording import is_recording
from torchlette._runtime.errors import NotSupportedError

__all__ = [
    "Number",
    "Window",
    "best",
    "chosen",
    "item",
    "plain",
    "reading",
    "to_float",
    "to_int",
    "to_root",
    "without_windows",
]

Tensor = _C.Tensor
Call = Callable[..., Any]

_HELP = "a program has the same steps and sizes for all values of its inputs: use masks, where, or index_select"


def _refused(*_: Any) -> Any:
    raise NotSupportedError(f"a size, a branch or an option depends on a number that item() reads: {_HELP}")


def _binary(name: str, *, swapped: bool = False) -> Call:
    function = getattr(operator, name)

    def call(self: Number, other: Any) -> Number:
        value = other.tensor if isinstance(other, Number) else other
        return Number(function(value, self.tensor) if swapped else function(self.tensor, value))

    return call


class Number:
    """A number that a graph reads; arithmetic as of Python's numbers.

    Args:
        tensor: Without dims.
        base: What numbers with the same value but an ``offset`` have too; None: itself.
        offset: The difference from ``base``.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: Tensor, base: Any = None, offset: int = 0) -> None:
        self.tensor, self.base, self.offset = tensor, self if base is None else base, offset

    def __add__(self, other: Any) -> Number:
        if type(other) is int:
            return Number(self.tensor + other, self.base, self.offset + other)
        return Number(self.tensor + plain(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Number:
        return self + -other if type(other) is int else Number(self.tensor - plain(other))

    __index__ = __int__ = __float__ = __bool__ = _refused
    __neg__ = lambda self: Number(-self.tensor)  # noqa: E731
    __floor__ = lambda self: Number(self.tensor.floor().to(_C.int64))  # noqa: E731
    __ceil__ = lambda self: Number(self.tensor.ceil().to(_C.int64))  # noqa: E731
    __trunc__ = lambda self: Number(self.tensor.trunc().to(_C.int64))  # noqa: E731


for _name in "mul truediv floordiv mod pow".split():
    setattr(Number, f"__{_name}__", _binary(_name))
    setattr(Number, f"__r{_name}__", _binary(_name, swapped=True))
for _name in "eq ne lt le gt ge".split():
    setattr(Number, f"__{_name}__", _binary(_name))
for _name in "and or".split():
    setattr(Number, f"__{_name}__", _binary(f"{_name}_"))
    setattr(Number, f"__r{_name}__", _binary(f"{_name}_", swapped=True))
Number.__rsub__ = _binary("sub", swapped=True)  # type: ignore[attr-defined]


def item(x: Tensor) -> Any:
    """Return the element of a tensor: while a program is recorded as a :class:`Number`."""
    if not is_recording():
        return x.item()
    t = x.detach().reshape(())
    if t.is_complex():
        raise NotSupportedError("item() of a complex tensor in a program")
    if t.dtype != _C.bool:
        t = t.to(_C.int64) if not t.is_floating_point() else t.float() if t.itemsize < 4 else t
    # Reads of the same element are one number, so that the length between them is known.
    return Number(t, base=_Element(x, x._version))


class _Element:
    """The element of a tensor, as the base of numbers."""

    def __init__(self, tensor: Tensor, version: int) -> None:
        self._tensor, self._version = tensor, version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Element) and self._tensor is other._tensor and self._version == other._version

    def __hash__(self) -> int:
        return hash(self._version)


def plain(value: Any) -> Any:
    """Return a value as a tensor, if it is a number or a part that depends on a read."""
    if isinstance(value, Number):
        return value.tensor
    return value.read() if isinstance(value, Window) else value


def to_float(value: Any) -> Any:
    """Return ``float(value)``."""
    return Number(value.tensor.to(torchlette.get_default_dtype())) if isinstance(value, Number) else float(value)


def to_int(value: Any) -> Any:
    """Return ``int(value)``."""
    return Number(value.tensor.to(_C.int64)) if isinstance(value, Number) else int(value)


def to_root(value: Any) -> Any:
    """Return the square root."""
    return Number(value.tensor.sqrt()) if isinstance(value, Number) else value**0.5


def best(greatest: bool) -> Call:
    """Return a function that gives the greatest or the least of two numbers."""

    def call(a: Any, b: Any) -> Any:
        if not isinstance(a, Number) and not isinstance(b, Number):
            return max(a, b) if greatest else min(a, b)
        x, y = (n.tensor if isinstance(n, Number) else _C.tensor(n, device=_device(a, b)) for n in (a, b))
        return Number((_C.maximum if greatest else _C.minimum)(x, y))

    return call


def chosen(condition: Any, yes: Any, no: Any) -> Any:
    """Return one of two numbers."""
    if not isinstance(condition, Number):
        return yes if condition else no
    return Number(_C.where(condition.tensor, plain(yes), plain(no)))


def _device(*values: Any) -> Any:
    return next(v.tensor.device for v in values if isinstance(v, Number))


class Window:
    """A part of a tensor at a place that a number says, or a view of such a part.

    Args:
        read: Returns the part, a new tensor.
        write: Calls its argument with the part, and stores what that leaves there.
    """

    def __init__(self, read: Callable[[], Tensor], write: Callable[[Callable[[Tensor], Any]], None]) -> None:
        self.read, self.write = read, write

    def viewed(self, view: Callable[[Tensor], Tensor]) -> Window:
        """Return a view of the part."""
        return Window(lambda: view(self.read()), lambda change: self.write(lambda part: change(view(part))))


def _window(x: Any, dim: int, start: Number, length: int, *, selects: bool = False) -> Window:
    def places(whole: Tensor) -> Tensor:
        first = start.tensor
        first = _C.where(first < 0, first + whole.shape[dim], first)
        return (first + _C.arange(length, device=whole.device)).reshape(length)

    def write(change: Callable[[Tensor], Any]) -> None:
        def within(whole: Tensor) -> None:
            index = places(whole)
            part = whole.index_select(dim, index)
            change(part)
            whole.index_copy_(dim, index, part)

        if isinstance(x, Window):
            x.write(within)
        else:
            within(x)

    def read() -> Tensor:
        whole = plain(x)
        return whole.index_select(dim, places(whole))

    made = Window(read, write)
    return made.viewed(lambda part: part.squeeze(dim)) if selects else made


def _select(call: Call, x: Any, dim: int, index: Number) -> Any:
    return _window(x, dim, index, 1, selects=True)


def _narrow(call: Call, x: Any, dim: int, start: Any, length: Any) -> Any:
    return _refused() if isinstance(length, Number) else _window(x, dim, start, length)


def _slice(call: Call, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return _window(x, dim, start, _length(start, end, step))


def _length(start: Any, end: Any, step: int) -> int:
    if not isinstance(start, Number) or not isinstance(end, Number) or start.base != end.base or step != 1:
        _refused()
    return max(0, end.offset - start.offset)


def _slice_scatter(
    call: Call, x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    made = plain(x).clone()
    _window(made, dim, start, _length(start, end, step)).write(lambda part: part.copy_(plain(src)))
    return made


def _select_scatter(call: Call, x: Any, src: Any, dim: int, index: Number) -> Any:
    made = plain(x).clone()
    _window(made, dim, index, 1, selects=True).write(lambda part: part.copy_(plain(src)))
    return made


def _full(call: Call, size: Sequence[int], value: Any, **kwargs: Any) -> Any:
    return _filled(call(size, 0, **kwargs) if kwargs.get("dtype") else None, size, value)


def _filled(like: Tensor | None, size: Sequence[int], value: Number) -> Tensor:
    dtype = _number_dtype(value) if like is None else like.dtype
    return value.tensor.to(dtype).expand(size).clone()


def _number_dtype(value: Number) -> _C.dtype:
    return torchlette.get_default_dtype() if value.tensor.is_floating_point() else value.tensor.dtype


def _new_full(call: Call, x: Any, size: Sequence[int], value: Number, **kwargs: Any) -> Tensor:
    return _filled(call(plain(x), size, 0, **kwargs), size, value)


def _full_like(call: Call, x: Any, value: Number, **kwargs: Any) -> Tensor:
    made = call(plain(x), 0, **kwargs)
    return _filled(made, made.shape, value)


def _scalar_tensor(call: Call, value: Number, **kwargs: Any) -> Tensor:
    return _filled(call(0, **kwargs) if kwargs.get("dtype") else None, [], value)


def _scaled(call: Call, x: Any, y: Any, alpha: Any = 1) -> Any:
    return call(x, y if type(alpha) is int and alpha == 1 else _C.mul(y, alpha))


def _clamped(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    x = plain(x)
    bounds = [
        _operand(n, [x]) if isinstance(n, Number) else n if n is None else _C.tensor(n, device=x.device)
        for n in (low, high)
    ]
    return call(x, *bounds)


def _product(call: Call, x: Any, a: Any, b: Any, *, value: Number) -> Any:
    x, a, b = plain(x), plain(a), plain(b)
    return call(x, _C.mul(a, _operand(value, [x, a, b])), b)


#: Operators whose numbers are no operands, by name.
_SPECIAL: dict[str, Call] = {
    "addcdiv": _product,
    "addcmul": _product,
    "clamp": _clamped,
    "full": _full,
    "full_like": _full_like,
    "narrow": _narrow,
    "new_full": _new_full,
    "scalar_tensor": _scalar_tensor,
    "select": _select,
    "select_scatter": _select_scatter,
    "slice": _slice,
    "slice_scatter": _slice_scatter,
}
_SCALED = frozenset(("add", "sub", "add_", "sub_"))
#: Operators whose results are views of their first argument.
VIEWS = frozenset(
    "alias as_strided chunk contiguous detach diagonal expand expand_as flatten imag mT mH movedim numpy_T permute "
    "real reshape select slice narrow split split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind "
    "unflatten unfold unsafe_split unsqueeze view view_as".split()
)


def _viewed(call: Call, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the views of a part, as many as ``call`` gives."""
    found = call(plain(x), *args, **kwargs)
    if not isinstance(x, Window):
        return found
    if isinstance(found, Tensor):
        return x.viewed(lambda part: call(part, *args, **kwargs))
    return [x.viewed(functools.partial(lambda i, part: call(part, *args, **kwargs)[i], i)) for i in range(len(found))]


def _leaves(value: Any) -> Iterator[Any]:
    for v in value:
        if isinstance(v, (list, tuple)):
            yield from _leaves(v)
        else:
            yield v


def _kind(dtype: _C.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype != _C.bool)


def _operand(number: Number, tensors: Sequence[Tensor]) -> Tensor:
    """Return a number as a tensor that promotes as a number does beside these tensors."""
    t = number.tensor
    kinds = [_kind(x.dtype) for x in tensors]
    if not kinds or _kind(t.dtype) > max(kinds):
        return t.to(_number_dtype(number)) if _kind(t.dtype) == 2 else t
    wide = [x.dtype for x in tensors if x.dim()]
    if not wide or t.is_floating_point():
        t = t.to(functools.reduce(torchlette.promote_types, wide or [x.dtype for x in tensors]))
    return t


def reading(name: str, call: Call) -> Call:
    """Return an operator that also takes numbers and parts that depend on reads.

    Args:
        name: ATen's, as in "add_".
        call: The operator.
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = [v for v in _leaves((*args, *kwargs.values())) if isinstance(v, (Number, Window))]
        return _with_reads(name, call, args, kwargs) if given else call(*args, **kwargs)

    return wrapped


def without_windows(call: Call) -> Call:
    """Return a function of graphs that gets parts as tensors; numbers stay numbers in the graphs."""

    def bound(v: Any) -> Any:
        return [bound(x) for x in v] if isinstance(v, list) else plain(v) if isinstance(v, Window) else v

    return lambda parts, *args, **kwargs: call(parts, *[bound(v) for v in args], **kwargs)


def _with_reads(name: str, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in _SPECIAL and any(isinstance(v, Number) for v in _leaves((*args, *kwargs.values()))):
        return _SPECIAL[name](call, *args, **kwargs)
    if name in _SCALED:
        call = functools.partial(_scaled, call)
    first, rest = args[0], args[1:]
    if isinstance(first, Window) and name.endswith("_") and not name.startswith("_"):
        rest = tuple(plain(v) if isinstance(v, Window) else v for v in rest)
        first.write(lambda part: _with_operands(name, call, (part, *rest), kwargs))
        return first
    if isinstance(first, Window) and name in VIEWS:
        return _viewed(call, first, *rest, **kwargs)
    return _with_operands(name, call, args, kwargs)


def _with_operands(name: str, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors = [v for v in _leaves((*args, *kwargs.values())) if isinstance(v, Tensor)]

    def bound(v: Any, depth: int = 0) -> Any:
        if isinstance(v, (list, tuple)):
            return [bound(x, depth + 1) for x in v]
        if isinstance(v, Number):
            return _refused() if depth else _operand(v, tensors)
        return plain(v)

    args, kwargs = tuple(bound(v) for v in args), {k: bound(v) for k, v in kwargs.items()}
    try:
        return call(*args, **kwargs)
    except TypeError as exc:
        raise NotSupportedError(f"{name} takes no number that item() reads: {exc}. {_HELP.capitalize()}") from None
