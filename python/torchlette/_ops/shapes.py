"""Shape, view and storage functions and methods that are written in Python.

Engine operators return new tensors. The methods here change the view that an existing tensor denotes (``unsqueeze_``,
``resize_``, ``set_``); the functions have results whose shape depends on values, which they read.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from math import prod

from torchlette import _C
from torchlette._ops import indexing
from torchlette._ops.memory_format import channels_last, channels_last_3d, contiguous_format, strided

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torchlette._ops.storage import UntypedStorage

__all__ = [
    "broadcast_shapes",
    "combinations",
    "index_put",
    "index_put_",
    "repeat_interleave",
    "resize_as_",
    "tensor_split",
]

Tensor = _C.Tensor


# Functions -------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> _C.Size:
    """Return the shape that tensors of the given shapes broadcast to; an int is a shape of one dim.

    Raises:
        RuntimeError: The shapes do not broadcast.
        ValueError: A size is negative.
    """
    joint: list[int] = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        joint = [1] * (len(sizes) - len(joint)) + joint
        for i, n in enumerate(sizes, len(joint) - len(sizes)):
            if n < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if n != 1 and joint[i] not in (1, n):
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            joint[i] = n if n != 1 else joint[i]
    return _C.Size(joint)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return the combinations of ``r`` elements of a vector, as rows in lexicographic order of places.

    Args:
        input: A vector.
        r: How many elements are combined.
        with_replacement: Whether an element may occur twice.

    Raises:
        RuntimeError: ``input`` is no vector, or ``r`` is negative.

    >>> torchlette.combinations(torchlette.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.shape[0]), r))
    return input[_C.tensor(places, dtype=_C.int64, device=input.device).reshape(-1, r)]


def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write ``values`` at ``input[indices]`` in place; with ``accumulate``, add them, once for each repeated index.

    Args:
        input: The tensor to change.
        indices: Integer or bool tensors for the leading dims.
        values: Of the dtype of ``input``, broadcast to the shape of ``input[indices]``.
        accumulate: Whether to add.

    Raises:
        IndexError: An index is out of range, or there are too many.
        RuntimeError: The dtypes differ, or the shapes do not broadcast.
        TypeError: An index is no tensor.
    """
    for i, index in enumerate(indices):
        if not isinstance(index, Tensor):
            raise TypeError(f"index_put_: expected Tensor as element {i} in argument 0, but got {type(index).__name__}")
    if values.dtype is not input.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input.dtype} for the destination and "
            f"{values.dtype} for the source."
        )
    return _C._put_at(input, tuple(indices), values, accumulate)


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy of ``input`` after :func:`index_put_`.

    Args:
        input: Values, of any shape.
        indices: A tuple of tensors, one for each of the first dimensions: int64, or bool.
        values: Values that broadcast to what is indexed.
        accumulate: Whether to add to what is there.
    """
    return _cast_index_put()(input, indices, values, accumulate)


@functools.cache
def _cast_index_put() -> Callable[..., Tensor]:
    from torchlette._runtime.casts import autocast_inputs  # noqa: PLC0415  (import torchlette stays light)

    @autocast_inputs(gpu="widest")
    def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool) -> Tensor:
        return index_put_(input.clone(), indices, values, accumulate)

    return index_put


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat each element, or each slice of ``dim``; the copies are adjacent.

    Args:
        input: The tensor, flattened where ``dim`` is None; alone, it is ``repeats`` of the numbers from 0 on.
        repeats: The number of copies: an int, or an integer tensor with a count for each slice (or one for all).
        dim: The dim along which slices are repeated.
        output_size: The size of ``dim`` in the result; without it a tensor of counts is read.

    Raises:
        RuntimeError: A count is negative, or there is not one for each slice.
    """
    if repeats is None:
        input, repeats = _C.arange(input.shape[0], device=input.device), input
    if not isinstance(repeats, Tensor):
        return _C.repeat_interleave(input, repeats, dim, output_size=output_size)
    if output_size is None:
        counts = repeats.reshape(-1).tolist()
        if any(n < 0 for n in counts):
            raise RuntimeError("repeats can not be negative")
        slices = input.numel() if dim is None or input.dim() == 0 else input.shape[dim]
        output_size = sum(counts) if len(counts) == slices else sum(counts) * slices
    return _C._repeat_interleave(input, repeats, dim, output_size=output_size)


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: int | None = None
) -> tuple[Tensor, ...]:
    """Split along ``dim`` into views: into a number of parts, or at indices. A tensor argument is read.

    Args:
        input: Values, of any shape.
        indices_or_sections: The number of parts, or where they begin: a list or a vector of int64 on the CPU.
        dim: The dimension along which it works.
        indices: Where the parts begin, in place of ``indices_or_sections``.
        sections: The number of parts, likewise.

    Raises:
        TypeError: Not exactly one of the three is given.
        RuntimeError: ``input`` has no dims, or the tensor is neither a number nor a vector of int64.

    >>> [part.tolist() for part in torchlette.tensor_split(torchlette.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    given = [v for v in (indices_or_sections, indices, sections) if v is not None]
    if len(given) != 1:
        raise TypeError(f"tensor_split(): expected one of indices_or_sections, indices and sections, got {len(given)}")
    indices_or_sections = given[0]
    if isinstance(indices_or_sections, Tensor):
        where = indices_or_sections
        if where.dtype is not _C.int64 or where.dim() > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor "
                "of dtype long"
            )
        indices_or_sections = where.tolist()
    return _C.tensor_split(input, indices_or_sections, dim)


# Methods that make a tensor denote another view ------------------------------------------


def _view_in_place(name: str) -> Callable[..., Tensor]:
    """Return the method ``name_``: the tensor becomes the view that ``name`` returns."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.requires_grad and self.is_leaf and _C.is_grad_enabled():
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        made = getattr(self, name)(*args, **kwargs)
        if made is not self:
            self._replace(made)
        return self

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"Make the tensor denote what ``{name}`` gives."
    return method


def _dense_strides(size: Any) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(tuple(size)):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _strides_in(size: Any, form: Any) -> tuple[int, ...]:
    """Return the strides of a tensor without gaps in a memory format."""
    if form is None or form is contiguous_format:
        return _dense_strides(size)
    rank = {channels_last: 4, channels_last_3d: 5}.get(form)
    if rank is None:
        raise RuntimeError(f"Unsupported memory format: {form}")
    if len(size) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {form} format")
    outer, channels, *inner = size
    strides = _dense_strides((outer, *inner, channels))
    return strides[0], strides[-1], *strides[1:-1]


def _resize_(self: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Resize the tensor: its elements are those of its storage from the first one on, without gaps.

    Without a memory format a tensor of that size stays as it is, whatever its strides. Elements past the storage's end
    are
    zero: a tensor that outgrows its storage moves to a new one, which its aliases do not follow.

    Args:
        size: The sizes, or one sequence of them.
        memory_format: The order of the elements, row-major without one: ``contiguous_format``, ``channels_last`` or
            ``channels_last_3d``.

    Raises:
        RuntimeError: The tensor requires grad, a size is negative, or the memory format does not fit.
    """
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    sizes = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"resize_: sizes must be non-negative: got {list(sizes)}")
    if memory_format is None and sizes == tuple(self.shape):
        return self
    strides = _strides_in(sizes, memory_format)
    wanted, storage = prod(sizes), self._meta()["storage"] - self.storage_offset()
    if wanted <= storage:
        made = self.as_strided(sizes, strides, self.storage_offset())
    else:
        old = self.as_strided((storage,), (1,), self.storage_offset())
        made = _C.cat([old, self.new_zeros(wanted - storage)]).as_strided(sizes, strides)
    self._replace(made)
    return self


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Resize ``input`` to the size of ``the_template``, as ``resize_`` does.

    Args:
        input: Values, of any shape.
        the_template: Has the sizes.
        memory_format: Accepted for compatibility: every tensor is row-major.
    """
    return input.resize_(the_template.shape, memory_format=memory_format)


def _set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make the tensor an alias of ``source``, or of a part of its storage; without one, empty.

    Args:
        source: The tensor or an ``UntypedStorage``; None for one without elements.
        storage_offset: Elements before the first one.
        size: Sizes; None: those of ``source``.
        stride: Strides in elements; None: those of ``source``, or dense.
    """
    from torchlette._ops.storage import UntypedStorage

    if source is None:
        made = self.new_empty(0)
    elif isinstance(source, UntypedStorage):
        made = source.elements(self.dtype, storage_offset, size, stride)
    elif source.dtype is not self.dtype:
        raise RuntimeError(f"set_(): expected a source of dtype {self.dtype}, but got {source.dtype}")
    elif size is None:
        made = source.detach()
    else:
        made = source.detach().as_strided(size, _dense_strides(size) if stride is None else stride, storage_offset)
    self._replace(made)
    return self


def _fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number on the main diagonal; ``wrap`` begins it again one row below the end of a tall matrix.

    Raises:
        RuntimeError: The tensor has fewer than two dims, or more and not all of one size.
    """
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, step = self.shape[0], self.shape[1] + 1
    n = min(self.shape)
    for start in range(0, rows if wrap and self.dim() == 2 and n > 0 else 1, step):
        part = self[start:] if start else self
        n = min(part.shape)
        part.as_strided((n,), (sum(self.stride()),), part.storage_offset()).fill_(fill_value)
    return self


# Questions and conversions ---------------------------------------------------------------


def _is_same_size(self: Tensor, other: Tensor) -> bool:
    """Return whether the shapes are equal."""
    return self.shape == other.shape


def _is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return whether both are the same view of the same storage."""
    mine, other = self._meta(), tensor._meta()
    same = mine["base"] == other["base"] and mine["offset"] == other["offset"]
    return same and self.shape == tensor.shape and self.stride() == tensor.stride()


def _dim_order(self: Tensor, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Return the dims from the one with the largest stride to the one with the smallest."""
    strides = self.stride()
    return tuple(sorted(range(self.dim()), key=lambda d: -strides[d]))


def _is_nonzero(self: Tensor) -> bool:
    """Read a tensor of one element and return whether it is not zero."""
    from torchlette import is_nonzero

    return is_nonzero(self)


def _data_ptr(self: Tensor) -> int:
    """Return the address of the first element, which other code may read while the tensor lives unwritten."""
    from torchlette._ops.storage import data_ptr

    return data_ptr(self)


def _untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the storage that the tensor and its aliases share."""
    from torchlette._ops.storage import UntypedStorage

    return UntypedStorage(self)


def _refuse_sparse(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raise: there are no sparse layouts."""
    raise NotImplementedError(
        "sparse layouts are not supported: keep the tensor dense, or its values with their indices for index_add and "
        "scatter_reduce"
    )


def _to_dense(self: Tensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """Return the tensor itself: all tensors are dense."""
    return self if dtype is None else self.to(dtype)


def _always(answer: Any, doc: str) -> Callable[..., Any]:
    """Return a method with one constant result."""

    def method(self: Tensor, *args: Any) -> Any:
        return answer

    method.__doc__ = doc
    return method


def _share_memory_(self: Tensor) -> Tensor:
    """Return self, as PyTorch does for tensors on a GPU.

    Raises:
        NotImplementedError: For a tensor on the CPU. What another process wrote would not be seen here.
    """
    if self.device.type == "cpu":
        raise NotImplementedError(
            "share_memory_: tensors cannot be shared between processes: send them through a queue, which copies"
        )
    return self


def _as_subclass(self: Tensor, cls: type) -> Tensor:
    """Return an alias of the tensor as an object of a subclass of Tensor."""
    return Tensor._make_subclass(cls, self)


def _new(self: Tensor, *args: Any) -> Tensor:
    """Return a new tensor of this dtype and device: of the given sizes, or of the given data."""
    if len(args) == 1 and not isinstance(args[0], int | _C.Size):
        return self.new_tensor(args[0], dtype=self.dtype)
    sizes = args[0] if args and isinstance(args[0], _C.Size) else args or (0,)
    return self.new_empty(sizes)


def _copying(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that copies the views that ``view`` returns into new tensors or ``out``."""

    def copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        got = view(input, *args, **kwargs)
        if isinstance(got, Tensor):
            return got.clone() if out is None else indexing.into(got, out)
        return (
            tuple(v.clone() for v in got)
            if out is None
            else tuple(indexing.into(v, o) for v, o in zip(got, out, strict=True))
        )

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"Return a copy of what ``{name.removesuffix('_copy')}`` of the same arguments is a view of."
    return copy


def _slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Return the part from ``start`` to ``end`` of a dim, every ``step``-th element."""
    input.size(dim)  # raises if dim is out of range
    return input[(slice(None),) * (dim % input.dim()) + (slice(start, end, step),)]


#: The view methods that also have a copying function, ``NAME_copy``.
_COPIED = (
    "as_strided detach diagonal expand narrow permute select split split_with_sizes squeeze t transpose unbind unfold "
    "unsqueeze view"
)
_copies = {f"{name}_copy": _copying(f"{name}_copy", getattr(Tensor, name)) for name in _COPIED.split()}
_copies["alias_copy"] = _copying("alias_copy", lambda input: input)
_copies["slice_copy"] = _copying("slice_copy", _slice)
_copies["view_as_real_copy"] = _copying("view_as_real_copy", _C.view_as_real)
_copies["view_as_complex_copy"] = _copying("view_as_complex_copy", _C.view_as_complex)
globals().update(_copies)
__all__ += sorted(_copies)


def _reversed(self: Tensor) -> Tensor:
    """Return the tensor with the order of its rows reversed."""
    return self if self.dim() == 0 else self.flip(0)


def install() -> None:
    """Put the methods on the type."""
    for name in ("as_strided", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"):
        setattr(Tensor, name + "_", _view_in_place(name))
    methods = {
        "__reversed__": _reversed,
        "as_subclass": _as_subclass,
        "dim_order": _dim_order,
        "fill_diagonal_": _fill_diagonal_,
        "index_put": index_put,
        "index_put_": index_put_,
        "is_conj": _always(False, "Return False: a conjugate is computed."),
        "is_distributed": _always(False, "Return False."),
        "is_inference": _always(False, "Return False: what inference mode makes is an ordinary tensor."),
        "is_neg": _always(False, "Return False: a negated tensor is computed."),
        "is_nonzero": _is_nonzero,
        "is_pinned": _always(False, "Return False: uploads need no pinned memory."),
        "is_same_size": _is_same_size,
        "is_set_to": _is_set_to,
        "is_shared": _always(False, "Return False: memory is not shared with other processes."),
        "narrow_copy": _copies["narrow_copy"],
        "new": _new,
        "repeat_interleave": repeat_interleave,
        "resize_": _resize_,
        "resize_as_": resize_as_,
        "set_": _set_,
        "share_memory_": _share_memory_,
        "tensor_split": tensor_split,
        "to_dense": _to_dense,
        "data_ptr": _data_ptr,
        "untyped_storage": _untyped_storage,
        **{f"to_sparse{kind}": _refuse_sparse for kind in ("", "_coo", "_csr", "_csc", "_bsr", "_bsc")},
    }
    for name, fn in methods.items():
        setattr(Tensor, name, fn)
    Tensor.layout = strided
    Tensor.is_cpu = property(lambda self: self.device.type == "cpu", doc="Whether the values are on the CPU.")
    for kind in ("ipu", "maia", "mkldnn", "mps", "mtia", "nested", "sparse_csr", "vulkan", "xla", "xpu"):
        setattr(Tensor, "is_" + kind, False)
    Tensor.name = None


install()
