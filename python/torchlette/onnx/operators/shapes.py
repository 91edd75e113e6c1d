"""Operators of sizes and places: they move elements, and compute none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import HostReadInCompileError
from torchlette.nn import functional as F
from torchlette.onnx.registry import operator
from torchlette.onnx.spans import Span
from torchlette.onnx.tensors import Host, dtype_of

Tensor = _C.Tensor


@operator("Shape", raw=(0,))
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Host:
    """Return the sizes, which are known when the graph is recorded."""
    sizes = list(x.shape)[slice(start, end)]
    return Host(sizes, [len(sizes)], _C.int64, True)


@operator("Size", raw=(0,))
def size(x: Any) -> Host:
    """Return the number of elements."""
    return Host([math.prod(x.shape)], [], _C.int64, True)


def wanted_shape(old: Sequence[int], sizes: Sequence[int], allowzero: int) -> list[int]:
    """Return the sizes of Reshape, with 0 for those of the operand."""
    if not allowzero and any(n == 0 and d >= len(old) for d, n in enumerate(sizes)):
        raise ValueError(f"Reshape: the sizes {list(sizes)} take more dims than {list(old)} has")
    return [old[d] if n == 0 and not allowzero else n for d, n in enumerate(sizes)]


@operator("Reshape", host=(1,))
def reshape(x: Tensor, sizes: list[int], *, allowzero: int = 0) -> Tensor:
    """Give other sizes."""
    return x.reshape(wanted_shape(x.shape, sizes, allowzero))


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Make a matrix."""
    axis += x.dim() if axis < 0 else 0
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Transpose")
def transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    """Change the order of dims."""
    return x.permute(list(reversed(range(x.dim()))) if perm is None else perm)


@operator("Squeeze", host=(1,))
def squeeze(x: Tensor, dims: Any = None, *, axes: list[int] | None = None) -> Tensor:
    """Take dims of size 1 away."""
    wanted = dims if dims is not None else axes
    if wanted is None:
        return x.squeeze()
    wanted = wanted if isinstance(wanted, list) else [wanted]
    if any(x.shape[d] != 1 for d in wanted):
        raise ValueError(f"Squeeze: axes are {wanted}, the sizes {list(x.shape)}")
    return x.squeeze(tuple(wanted)) if wanted else x


def unsqueezed(sizes: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Return sizes with 1 at some axes of the result."""
    rank = len(sizes) + len(axes)
    places = {d + rank if d < 0 else d for d in axes}
    if len(places) != len(axes) or any(not 0 <= d < rank for d in places):
        raise ValueError(f"Unsqueeze: axes are {list(axes)}, the result has {rank} dims")
    left = iter(sizes)
    return [1 if d in places else next(left) for d in range(rank)]


@operator("Unsqueeze", host=(1,))
def unsqueeze(x: Tensor, dims: Any = None, *, axes: list[int] | None = None) -> Tensor:
    """Add dims of size 1."""
    wanted = dims if dims is not None else axes
    return x.reshape(unsqueezed(x.shape, wanted if isinstance(wanted, list) else [wanted or 0]))


@operator("Concat")
def concat(*parts: Tensor, axis: int) -> Tensor:
    """Join along an axis."""
    return _C.cat(list(parts), axis)


@operator("Split", host=(1,))
def split(
    x: Tensor,
    sizes: list[int] | None = None,
    *,
    axis: int = 0,
    split: list[int] | None = None,
    num_outputs: int | None = None,
    n_outputs: int = 0,
) -> list[Tensor]:
    """Divide along an axis."""
    wanted = sizes or split
    if wanted is None:
        count, total = num_outputs or n_outputs, x.shape[axis]
        if count < 1:
            raise ValueError(f"Split: the number of outputs is {count}")
        each = -(-total // count)
        wanted = [each] * (count - 1) + [total - each * (count - 1)]
    return list(x.split(wanted, axis))


def clamped_slice(size: int, start: int, end: int, step: int) -> range:
    """Return the places that ONNX's Slice takes along an axis."""
    if step == 0:
        raise ValueError("Slice: a step is 0")
    return range(size)[slice(start, None if step < 0 and end < -size else end, step)]


@operator("Slice", host=(3, 4), raw=(1, 2))
def slices(
    x: Tensor, starts: Any, ends: Any, axes: list[int] | None = None, steps: list[int] | None = None
) -> Tensor | Span:
    """Take ranges of places along axes."""
    rank = x.dim()
    dims = list(range(starts.shape[0])) if axes is None else [d + rank if d < 0 else d for d in axes]
    walk = [1] * starts.shape[0] if steps is None else steps
    try:
        starts, ends = (v.nested() if isinstance(v, Host) else v.tolist() for v in (starts, ends))
    except HostReadInCompileError:
        if walk != [1]:
            raise
        start, end = (v.tensor(x.device) if isinstance(v, Host) else v for v in (starts, ends))
        return Span(x, dims[0], start, end)
    for d, start, end, step in zip(dims, starts, ends, walk, strict=True):
        places = clamped_slice(x.shape[d], start, end, step)
        if step > 0:
            index: list[Any] = [slice(None)] * d
            x = x[(*index, slice(places.start, max(places.start, places.stop), step))]
        elif len(places) == 0:
            x = x.narrow(d, 0, 0)
        else:
            low, high = places[-1], places[0]
            x = x.narrow(d, low, high - low + 1).flip(d)
            if step < -1:
                index = [slice(None)] * d
                x = x[(*index, slice(None, None, -step))]
    return x


@operator("Gather", raw=(1,))
def gather(x: Tensor, indices: Any, *, axis: int = 0) -> Tensor:
    """Take slices at places along an axis."""
    axis += x.dim() if axis < 0 else 0
    if isinstance(indices, Host):
        if not indices.shape:
            return x.select(axis, indices.values[0])
        indices = indices.tensor(x.device)
    places = indices.to(_C.int64)
    places = _C.where(places < 0, places + x.shape[axis], places)
    if indices.dim() == 1:
        return x.index_select(axis, places)
    taken = x.index_select(axis, places.reshape(-1))
    return taken.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def _wrapped(indices: Tensor, size: int) -> Tensor:
    places = indices.to(_C.int64)
    return _C.where(places < 0, places + size, places)


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Take an element for each place."""
    return x.gather(axis, _wrapped(indices, x.shape[axis]))


@operator("ScatterElements", "Scatter")
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """Write elements at places along an axis."""
    places = _wrapped(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    kinds = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return x.scatter_reduce(axis, places, updates, kinds[reduction])


def _flat_places(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the row-major number of each place of the last dim."""
    steps = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    total = None
    for d, (n, step) in enumerate(zip(sizes, steps, strict=True)):
        part = _wrapped(indices.select(-1, d), n) * step
        total = part if total is None else total + part
    if total is None:
        raise ValueError("GatherND, ScatterND: places have no numbers")
    return total


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Take slices at places of several dims."""
    depth = indices.shape[-1]
    batch, inner = list(x.shape[:batch_dims]), list(x.shape[batch_dims : batch_dims + depth])
    rest = list(x.shape[batch_dims + depth :])
    places = _flat_places(indices, inner).reshape(math.prod(batch), -1)
    rows = x.reshape(math.prod(batch) * math.prod(inner), math.prod(rest))
    offset = _C.arange(math.prod(batch), device=x.device).unsqueeze(1) * math.prod(inner)
    return rows.index_select(0, (places + offset).reshape(-1)).reshape([*indices.shape[:-1], *rest])


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Write slices at places of several dims."""
    depth = indices.shape[-1]
    inner, rest = list(x.shape[:depth]), list(x.shape[depth:])
    places = _flat_places(indices, inner).reshape(-1)
    rows = x.reshape(math.prod(inner), math.prod(rest))
    values = updates.reshape(places.shape[0], math.prod(rest))
    whole = places.unsqueeze(1).expand(values.shape)
    if reduction == "none":
        return rows.scatter(0, whole, values).reshape(x.shape)
    kinds = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return rows.scatter_reduce(0, whole, values, kinds[reduction]).reshape(x.shape)


@operator("Expand", host=(1,))
def expand(x: Tensor, sizes: list[int]) -> Tensor:
    """Repeat dims of size 1, by the rules of broadcasting."""
    return x.expand(_joined(x.shape, sizes))


def _joined(a: Sequence[int], b: Sequence[int]) -> list[int]:
    rank = max(len(a), len(b))
    left, right = [1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)
    return [m if n == 1 else n for n, m in zip(left, right, strict=True)]


@operator("Tile", host=(1,))
def tile(x: Tensor, repeats: list[int]) -> Tensor:
    """Repeat the whole tensor."""
    return x.repeat(repeats)


@operator("Pad", host=(1, 3), raw=(2,))
def pad(
    x: Tensor, pads: list[int], value: Tensor | None = None, axes: list[int] | None = None, *, mode: str = "constant"
) -> Tensor:
    """Add elements at both ends of dims, or take them away."""
    rank = x.dim()
    dims = list(range(rank)) if axes is None else [d % rank for d in axes]
    if len(pads) != 2 * len(dims):
        raise ValueError(f"Pad: {len(pads)} pads for {len(dims)} axes")
    ends = {d: (pads[i], pads[i + len(dims)]) for i, d in enumerate(dims)}
    if mode == "constant":
        flat = [n for d in reversed(range(rank)) for n in ends.get(d, (0, 0))]
        if value is None or isinstance(value, Host):
            return _C.constant_pad_nd(x, flat, 0 if value is None else value.values[0])
        mask = _C.constant_pad_nd(_C.ones_like(x, dtype=_C.bool), flat, False)
        return _C.where(mask, _C.constant_pad_nd(x, flat, 0), value.reshape(()))
    for d, (before, after) in ends.items():
        if before < 0 or after < 0:  # what is taken away is not mirrored
            x = x.narrow(d, max(-before, 0), x.shape[d] - max(-before, 0) - max(-after, 0))
            before, after = max(before, 0), max(after, 0)
        if before or after:
            x = x.index_select(d, _mirrored(x.shape[d], before, after, mode, x.device))
    return x


def _mirrored(size: int, before: int, after: int, mode: str, device: Any) -> Tensor:
    places = _C.arange(-before, size + after, device=device)
    if mode == "edge":
        return places.clamp(0, size - 1)
    if mode == "wrap":
        return _C.remainder(places, size)
    if mode != "reflect":
        raise ValueError(f"Pad: mode is {mode!r}, want constant, reflect, edge or wrap")
    if size == 1:
        return places * 0
    period = 2 * (size - 1)
    turned = _C.remainder(places, period)
    return _C.minimum(turned, period - turned)


@operator("ConstantOfShape", host=(0,))
def constant_of_shape(sizes: list[int], *, value: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of one number; 0.0 by default."""
    if value is None:
        return _C.zeros(sizes, dtype=_C.float32, device=device)
    if isinstance(value, Host):
        return _C.full(sizes, value.values[0], dtype=value.dtype, device=device)
    return value.reshape(()).to(device).expand(sizes)


@operator("Range", raw=(-1,))
def ranges(start: Any, limit: Any, delta: Any, *, device: Any = None) -> Tensor:
    """Return numbers from a first one up to a limit."""
    values = [v.values[0] if isinstance(v, Host) else v.item() for v in (start, limit, delta)]
    dtype = start.dtype
    count = max(0, math.ceil((values[1] - values[0]) / values[2]))
    if dtype in (_C.int64, _C.int32, _C.int16):
        return _C.arange(values[0], values[0] + count * values[2], values[2], dtype=dtype, device=device)
    return _C.arange(count, device=device).to(dtype) * values[2] + values[0]


@operator("OneHot", raw=(1,))
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    """Return one number at each place along a new axis, and another elsewhere."""
    count = int(depth.values[0] if isinstance(depth, Host) else depth.item())
    axis += indices.dim() + 1 if axis < 0 else 0
    places = indices.to(_C.int64) if not indices.is_floating_point() else indices.long()
    places = _C.where(places < 0, places + count, places).unsqueeze(axis)
    steps = [1] * (indices.dim() + 1)
    steps[axis] = count
    hit = places == _C.arange(count, device=indices.device).reshape(steps)
    return _C.where(hit, values[1], values[0])


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Return 1 on a diagonal."""
    rows, columns = x.shape
    kind = x.dtype if dtype is None else dtype_of(dtype)
    down = _C.arange(rows, device=x.device).unsqueeze(1)
    return (_C.arange(columns, device=x.device) - down == k).to(kind)


@operator("Trilu", host=(1,))
def trilu(x: Tensor, k: Any = None, *, upper: int = 1) -> Tensor:
    """Keep one triangle of matrices."""
    diagonal = 0 if k is None else k[0] if isinstance(k, list) else k
    return x.triu(diagonal) if upper else x.tril(diagonal)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move channels into blocks of pixels."""
    b, c, h, w = x.shape
    s = blocksize
    if mode == "CRD":
        return x.reshape(b, c // s**2, s, s, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, c // s**2, h * s, w * s)
    return x.reshape(b, s, s, c // s**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(b, c // s**2, h * s, w * s)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move blocks of pixels into channels."""
    b, c, h, w = x.shape
    s = blocksize
    blocks = x.reshape(b, c, h // s, s, w // s, s)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return blocks.permute(order).reshape(b, c * s * s, h // s, w // s)


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Reverse the first elements of each sequence."""
    steps, batch = x.shape[time_axis], x.shape[batch_axis]
    at = _C.arange(steps, device=x.device).unsqueeze(1)
    count = lengths.to(_C.int64).unsqueeze(0)
    places = _C.where(at < count, count - 1 - at, at.expand(steps, batch))
    view = [1] * x.dim()
    view[time_axis], view[batch_axis] = steps, batch
    if time_axis > batch_axis:
        places = places.t()
    return x.gather(time_axis, places.reshape(view).expand(x.shape))


@operator("CenterCropPad", host=(1,))
def center_crop_pad(x: Tensor, sizes: list[int], *, axes: list[int] | None = None) -> Tensor:
    """Crop or pad with zeros around the middle."""
    for d, wanted in zip(range(x.dim()) if axes is None else axes, sizes, strict=True):
        have = x.shape[d]
        if wanted < have:
            x = x.narrow(d, (have - wanted) // 2, wanted)
        elif wanted > have:
            before = (wanted - have) // 2
            flat = [0, 0] * (x.dim() - 1 - d % x.dim()) + [before, wanted - have - before]
            x = F.pad(x, flat)
    return x
