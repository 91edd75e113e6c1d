"""How Fourier transforms are written: ONNX's ``DFT``."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.onnx.export_complex import complex_rule, pair, stacked
from torchlette.onnx.exporter import Exporter, Step, rule
from torchlette.onnx.messages import PARTS
from torchlette.onnx.terms import Term

F64, I64 = _C.float64, _C.int64

Parts = tuple[Term, ...]


def _resized(v: Term, axis: int, have: Any, want: Any) -> Term:
    """Return a value cut, or continued with zeros, along a dim."""
    if have == want:
        return v
    x = v.x
    have, want = x.static([have, want], "the length of a Fourier transform that is cut or continued")
    at = x.constant([axis], I64)
    if have > want:
        return Term(x, x.node("Slice", [v.name, x.constant([0], I64), x.constant([want], I64), at]), v.dtype)
    return Term(x, x.node("Pad", [v.name, x.constant([0, want - have], I64), v.operand(0), at]), v.dtype)


def _scaled(x: Exporter, v: Parts, size: Any, power: float) -> Parts:
    """Return values times a power of a size."""
    if power == 0:
        return v
    if isinstance(size, int):
        return tuple(p * float(size) ** power for p in v)
    count = Term(x, x.cast(x.size(size), I64, v[0].dtype), v[0].dtype)
    return tuple(p * count**power for p in v)


#: The power of the size that is a factor of a transform forward; back, it is this less one in all.
_POWERS = {"backward": 0.0, "ortho": -0.5, "forward": -1.0}


def _transformed(x: Exporter, v: Parts, axis: int, rank: int, size: Any, inverse: bool, half: bool = False) -> Parts:
    """Return the transform along a dim.

    Args:
        x: Gets the nodes.
        v: A real part, and perhaps an imaginary one, of ``size`` elements along the dim.
        axis: The dim, from 0 on.
        rank: The number of dims.
        size: The number of elements.
        inverse: Whether back.
        half: Whether only the first half and one more are wanted.
    """
    dtype = v[0].dtype
    # onnxruntime computes sizes that are no powers of two by chirps, whose errors in float32 are 1e-4.
    exact = isinstance(size, int) and size & (size - 1) == 0
    work = dtype if exact else F64
    given = stacked(x, [p.to(work).name for p in v]) if len(v) > 1 else v[0].to(work).ints("Unsqueeze", [-1]).name
    options = {"inverse": int(inverse), "onesided": int(half)}
    found = x.node("DFT", [given, None, x.constant(axis - rank - 1, I64)], **options)
    parts = [Term(x, x.node("Gather", [found, x.constant(k, I64)], axis=-1), work) for k in (0, 1)]
    return tuple(p.to(dtype) for p in parts)


def _whole(x: Exporter, v: Parts, axis: int, rank: int, size: int) -> Parts:
    """Return the other half too: the conjugates of the first half in reverse."""
    places = [k if k <= size // 2 else size - k for k in range(size)]
    signs = Term(x, x.constant([1.0 if k <= size // 2 else -1.0 for k in range(size)], v[0].dtype), v[0].dtype)
    found = [Term(x, x.node("Gather", [p.name, x.constant(places, I64)], axis=axis), p.dtype) for p in v]
    return found[0], found[1] * signs.ints("Reshape", [-1, *[1] * (rank - 1 - axis)])


def _dims(x: Exporter, s: Step, many: bool) -> tuple[list[int], list[Any]]:
    """Return the dims of a transform, and how many elements it has along each: None for all that there are."""
    rank = x.rank(s.operand)
    if not many:
        return [s["dim"] % rank], [s.get("n")]
    dims, sizes = s.get("dim"), s.get("s")
    if dims is None:
        dims = list(range(rank)) if sizes is None else list(range(rank - len(sizes), rank))
    sizes = [None] * len(dims) if sizes is None else [None if n == -1 else n for n in sizes]
    return [d % rank for d in dims], sizes


def _fourier(x: Exporter, s: Step) -> Any:
    """Write a transform of one dim or several, forward or back; halves are of the last dim, as PyTorch has them."""
    name = s.op.partition(".")[0].removeprefix("fft_")
    inverse, rank, real = name.startswith("i"), x.rank(s.operand), s.dtype not in PARTS
    dims, sizes = _dims(x, s, many=name[-1] in "2n")
    half = name.removeprefix("i").startswith(("rfft", "hfft"))
    dtype, shape = PARTS.get(s.dtype, s.dtype), list(x.shape_of(s.operand))
    v: Parts = pair(x, s.operand, dtype) if x.is_complex(s.operand) else (Term.of(x, s.operand, dtype),)
    if real and len(v) == 1:
        v = v[0], Term(x, x.node("Expand", [x.constant(0.0, dtype), x.sizes(shape)]), dtype)
    for d, n in zip(dims, sizes, strict=True):
        want = shape[d] if n is None else n
        if real and d == dims[-1]:
            want = x.static(s.shape[d], f"the length of {s.op}")[0] // 2 + 1
        v = tuple(_resized(p, d, shape[d], want) for p in v)
        shape[d] = want
    power = _POWERS[s.get("norm") or "backward"]
    power = -1 - power if inverse else power
    order = dims if real else dims[::-1]
    for k, d in enumerate(order):
        size, there = shape[d], inverse
        if real and k == len(order) - 1:
            size = s.shape[d]
            v = _whole(x, v, d, rank, size)
        last = half and not real and k == 0
        there = inverse and not last
        v = _transformed(x, v, d, rank, size, there, last)
        if inverse and last:  # real elements have conjugate transforms forward and back
            v = v[0], -v[1]
        v = _scaled(x, v, size, power + 1 if there else power)
    return v[0].name if real else v


_NAMES = [f"fft_{kind}{dims}" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for dims in ("", "2", "n")]
complex_rule(*_NAMES)(_fourier)
# Those of real elements with real results too.
rule(*(name for name in _NAMES if name.startswith(("fft_irfft", "fft_hfft"))))(_fourier)
