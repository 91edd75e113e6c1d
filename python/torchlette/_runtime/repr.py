"""Tensors as text.

Under :mod:`torchlette.torch` the text is PyTorch's. Under :mod:`torchlette` making the text never waits for a device:
it shows the metadata, and the values only if they are already on the host.
"""

from __future__ import annotations

import math
import sys

from torchlette import _C
from torchlette._runtime.errors import DisposedTensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


class PRINT_OPTS:  # noqa: N801
    """PyTorch's print options and their defaults."""

    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed: digits, when to summarise, items at each end, line width, scientific notation.

    Args:
        precision: Digits after the point.
        threshold: The number of elements from which a summary is printed.
        edgeitems: Elements of a summary at each end.
        linewidth: Columns of a line.
        profile: "default", "short" or "full": other defaults.
        sci_mode: Whether numbers have exponents; None: only where that is shorter.
    """
    profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, sys.maxsize, 3, 80)}
    if profile is not None:
        PRINT_OPTS.precision, PRINT_OPTS.threshold, PRINT_OPTS.edgeitems, PRINT_OPTS.linewidth = profiles[profile]
    if precision is not None:
        PRINT_OPTS.precision = precision
    if threshold is not None:
        PRINT_OPTS.threshold = threshold
    if edgeitems is not None:
        PRINT_OPTS.edgeitems = edgeitems
    if linewidth is not None:
        PRINT_OPTS.linewidth = linewidth
    PRINT_OPTS.sci_mode = sci_mode


class _PrintOptions:
    """Sets print options for a block."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def __enter__(self) -> None:
        self.before = get_printoptions()
        set_printoptions(**self.options)

    def __exit__(self, *exc: object) -> None:
        set_printoptions(**self.before)


def get_printoptions() -> dict[str, Any]:
    """Return the options that :func:`set_printoptions` sets."""
    return {
        name: getattr(PRINT_OPTS, name) for name in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    }


def printoptions(**kwargs: Any) -> _PrintOptions:
    """Return a context in which tensors are printed with other options; see :func:`set_printoptions`."""
    return _PrintOptions(kwargs)


class _NumberText:
    """Formats numbers of one tensor to one width."""

    def __init__(self, values: list[Any], is_float: bool) -> None:
        self.is_float = is_float
        self.int_mode = True
        self.sci_mode = False
        self.width = 1
        if not is_float:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        finite = [v for v in values if math.isfinite(v) and v != 0]
        if not finite:
            return
        low, high = min(map(abs, finite)), max(map(abs, finite))
        self.int_mode = all(v == math.ceil(v) for v in finite)
        self.sci_mode = high / low > 1000.0 or high > 1.0e8 or (not self.int_mode and low < 1.0e-4)
        if PRINT_OPTS.sci_mode is not None:
            self.sci_mode = PRINT_OPTS.sci_mode
        self.width = max(len(self._plain(v)) for v in finite)

    def _plain(self, v: float) -> str:
        if self.sci_mode:
            return f"{v:.{PRINT_OPTS.precision}e}"
        if self.int_mode:
            return f"{v:.0f}" + ("." if math.isfinite(v) else "")
        return f"{v:.{PRINT_OPTS.precision}f}"

    def text(self, v: Any) -> str:
        """Return ``v`` right-aligned."""
        return (self._plain(v) if self.is_float else str(v)).rjust(self.width)


class _ComplexText(_NumberText):
    """Formats complex numbers of one tensor: both parts to one width each."""

    def __init__(self, values: list[complex]) -> None:
        self.real = _NumberText([v.real for v in values], True)
        self.imag = _NumberText([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def text(self, v: complex) -> str:
        """Return ``v`` right-aligned."""
        imag = self.imag.text(v.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real.text(v.real)}{sign}{imag}j"


def _shown(values: Any) -> list[Any]:
    """Return the numbers that are printed, as a flat list."""
    if not isinstance(values, list):
        return [values]
    return [number for item in values for number in _shown(item)]


def _edges(t: _C.Tensor) -> tuple[_C.Tensor, tuple[bool, ...]]:
    """Return the elements at the ends of each dim, and which dims have others between them.

    Only these travel from a device and become objects of Python.
    """
    from torchlette import cat, realize
    from torchlette._runtime.override_levels import DisableTorchFunctionSubclass

    ends = PRINT_OPTS.edgeitems
    cut = tuple(size > 2 * ends for size in t.shape)
    with DisableTorchFunctionSubclass():
        t = t.detach()
        realize(t)  # once: the elements between the ends are needed later
        for dim, size in enumerate(t.shape):
            if cut[dim]:
                t = cat([t.narrow(dim, 0, ends), t.narrow(dim, size - ends, ends)], dim)
    return t, cut


def _vector(values: list[Any], indent: int, cut: bool, fmt: _NumberText) -> str:
    per_line = max(1, (PRINT_OPTS.linewidth - indent) // (fmt.width + 2))
    texts = [fmt.text(v) for v in values]
    if cut:
        texts.insert(PRINT_OPTS.edgeitems, " ...")
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(values: Any, cut: tuple[bool, ...], indent: int, fmt: _NumberText) -> str:
    if not cut:
        return fmt.text(values)
    if len(cut) == 1:
        return _vector(values, indent, cut[0], fmt)
    texts = [_nested(v, cut[1:], indent + 1, fmt) for v in values]
    if cut[0]:
        texts.insert(PRINT_OPTS.edgeitems, "...")
    return "[" + ("," + "\n" * (len(cut) - 1) + " " * (indent + 1)).join(texts) + "]"


def values_text(t: _C.Tensor, indent: int) -> str:
    if t.is_meta:
        return "..."
    if t.numel() == 0:
        return "[]"
    cut = (False,) * t.dim()
    if t.numel() > PRINT_OPTS.threshold:
        t, cut = _edges(t)
    values = t.tolist()
    shown = _shown(values)
    numbers = _ComplexText(shown) if t.is_complex() else _NumberText(shown, t.is_floating_point())
    return _nested(values, cut, indent, numbers)


def _suffixes(t: _C.Tensor) -> list[str]:
    found = []
    if t.device.type != "cpu":
        found.append(f"device='{t.device}'")
    wide = _C.get_default_dtype() is _C.float64
    usual: tuple[Any, ...] = (
        (_C.get_default_dtype(),)
        if t.numel() == 0 or t.is_meta
        else (_C.get_default_dtype(), _C.int64, _C.bool, _C.complex128 if wide else _C.complex64)
    )
    if t.is_meta or t.numel() == 0 and t.dim() != 1:
        found.append(f"size={tuple(t.shape)}")
    if t.dtype not in usual:
        found.append(f"dtype={t.dtype}")
    if t.grad_fn is not None:
        found.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        found.append("requires_grad=True")
    from torchlette._runtime import forward

    tangent = forward.tangent(t, forward.shown[-1]) if forward.shown else None
    if tangent is not None:
        found.append(f"tangent={tangent.item() if tangent.dim() == 0 else _torch_text(tangent)}")
    return found


def _torch_text(t: _C.Tensor) -> str:
    """PyTorch's text: the values, then what is unusual about the tensor."""
    from torchlette._runtime import levels

    for level, size, _ in reversed(levels.levels()):
        if levels.is_mapped(t, level, size):
            inner = _torch_text(_C._vmap_out(t, 0, level, size))
            inner = "\n".join("    " + line if line else line for line in inner.split("\n"))
            return f"BatchedTensor(lvl={level}, bdim=0, value=\n{inner}\n)"
    return tensor_text(t, None)


def _is_plain(kind: type) -> bool:
    """Return whether a class is Tensor or Parameter; the text of a subclass begins with its name."""
    if kind is _C.Tensor:
        return True
    from torchlette.nn.parameter import Parameter

    return kind is Parameter


def tensor_text(t: _C.Tensor, contents: str | None) -> str:
    """Return PyTorch's text of a tensor, with the text of its elements, or others in their place."""
    prefix = "tensor(" if _is_plain(type(t)) else f"{type(t).__name__}("
    text = values_text(t, len(prefix)) if contents is None else contents
    return with_suffixes(prefix + text, _suffixes(t), len(prefix), False)


def with_suffixes(text: str, suffixes: list[str], indent: int, newline: bool) -> str:
    """Return a text with suffixes and a parenthesis behind it, in new lines where one gets too long."""
    prefix = " " * indent
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if newline or last + len(suffix) + 2 > PRINT_OPTS.linewidth:
            text += ",\n" + " " * len(prefix) + suffix
            last = len(prefix) + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text + ")"


def _metadata_text(t: _C.Tensor) -> str:
    try:
        meta = t._meta()
    except DisposedTensorError:
        return "Tensor(disposed)"
    parts = [f"shape={list(t.shape)}", f"dtype={t.dtype._name}", f"device={t.device}"]
    if meta["grad_fn"]:
        parts.append(f"grad_fn=<{meta['grad_fn']}>")
    elif t.requires_grad:
        parts.append("requires_grad=True")
    if meta["on_host"]:
        parts.append("values=" + values_text(t.detach(), 0).replace("\n", " "))
    return f"Tensor({', '.join(parts)})"


def tensor_repr(self: _C.Tensor) -> str:
    """Return the tensor's text: PyTorch's where PyTorch's rules hold, else the metadata."""
    # The caller's frame decides which rules hold: print() and repr() add no frame, a subclass's __repr__ adds one of
    # this package.
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("torchlette.nn", "torchlette.return_types")
    ):
        frame = frame.f_back
    return _torch_text(self) if self._door or _C._in_facade(frame.f_globals) else _metadata_text(self)


def tensor_format(self: _C.Tensor, spec: str) -> str:
    """``f"{t:.3f}"``: reads a 0-dim tensor where PyTorch's rules hold, else raises."""
    globals_there = sys._getframe(1).f_globals
    reads = self._door or _C._in_facade(globals_there)
    if reads and self.dim() == 0 and not self.is_meta:
        return format(self.item(), spec)
    if not spec:
        return _torch_text(self) if reads else _metadata_text(self)
    if reads:
        raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__")
    raise _C._coercion_error("__format__")
