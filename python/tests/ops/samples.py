"""Sample calls of the operator registry: the mini language, layouts of operands, and places of names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchlette

REGISTRY = Path(__file__).with_name("ops.json")

LAYOUTS = ("contiguous", "transposed", "strided", "offset", "broadcast", "scalar", "empty")


@dataclass(frozen=True)
class Operand:
    """A tensor of a sample: shape, kind and range of its elements."""

    kind: str  # "T" float, "I" integer, "B" bool, "P" symmetric positive-definite matrices
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    layout: str = "contiguous"

    def t(self) -> Operand:
        """Return the operand as a transposed view, as ``T(3,4).t()`` asks in a sample."""
        return replace(self, shape=self.shape[::-1], layout="transposed")


@dataclass(frozen=True)
class DTypeName:
    """A dtype of a sample, looked up in the library the call goes to."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A tensor of a sample written out, ``torch.tensor([1.0, 0.0])``: built in the library the call goes to."""

    function: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]


class _Torch:
    """The name ``torch`` inside a sample."""

    def __getattr__(self, name: str) -> Any:
        if name in DTYPE_NAMES:
            return DTypeName(name)
        return lambda *args, **kwargs: Literal(name, args, tuple(kwargs.items()))


@dataclass
class Call:
    """Positional and keyword arguments of one sample."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def operands(self) -> list[Operand]:
        """Return the tensors in order of appearance."""
        found: list[Operand] = []
        self.map(lambda o: found.append(o) or o)
        return found

    def map(self, f: Callable[[Operand], Any]) -> Call:
        """Return the call with every operand replaced by ``f(operand)``."""
        return self._changed(lambda x: f(x) if isinstance(x, Operand) else x)

    def bind(self, lib: Any, device: str) -> Call:
        """Return the call with dtypes and literal tensors of ``lib``."""
        return self._changed(lambda x: _bound(x, lib, device))

    def _changed(self, leaf: Callable[[Any], Any]) -> Call:
        return Call(tuple(_walk(a, leaf) for a in self.args), {k: _walk(v, leaf) for k, v in self.kwargs.items()})


# Functions of the module, since a closure that calls itself is a cycle: it would keep the operands until a collection.
def _walk(x: Any, leaf: Callable[[Any], Any]) -> Any:
    """Replace the leaves of nested lists and tuples."""
    return type(x)(_walk(y, leaf) for y in x) if isinstance(x, (list, tuple)) else leaf(x)


def _bound(x: Any, lib: Any, device: str) -> Any:
    if isinstance(x, DTypeName):
        return getattr(lib, x.name)
    if isinstance(x, Literal):
        args = _walk(list(x.args), lambda y: _bound(y, lib, device))
        kwargs = {k: _walk(v, lambda y: _bound(y, lib, device)) for k, v in x.kwargs}
        return getattr(lib, x.function)(*args, **kwargs, device=device)
    return x


@dataclass(frozen=True)
class Op:
    """One operator overload of the registry."""

    name: str
    full: str
    aliases: tuple[str, ...]
    where: frozenset[str]
    view: bool
    in_place: bool
    in_place_only: bool
    out: bool
    samples: tuple[tuple[str, str], ...]
    error_samples: tuple[tuple[str, str], ...]
    rtol: float | None
    atol: float | None
    no_grad: str

    def calls(self) -> Iterator[Call]:
        """Parse the samples."""
        for args, kwargs in self.samples:
            yield parse(args, kwargs)


def parse(args: str, kwargs: str = "") -> Call:
    """Parse a sample of the mini language of ``op.Sample``."""

    def operand(kind: str) -> Callable[[str], Operand]:
        def make(text: str) -> Operand:
            shape, _, bounds = text.partition(";")
            sizes = tuple(int(s) for s in shape.split(",") if s.strip())
            low, high = (float(b) for b in bounds.split(",")) if bounds else (None, None)
            return Operand(kind, sizes, low, high)

        return make

    names = {
        "_T": operand("T"),
        "_I": operand("I"),
        "_B": operand("B"),
        "_P": operand("P"),
        "_capture": lambda *a, **k: Call(a, k),
        "torch": _Torch(),
        "inf": float("inf"),
        "nan": float("nan"),
    }
    text = ", ".join(t for t in (args, kwargs) if t)
    return eval(f"_capture({quote_operands(text)})", names)  # registry text, made by our own generator


#: Places whose names carry their prefix in the registry.
SUBMODULES = ("linalg", "special", "fft")

DTYPE_NAMES = (
    "bool",
    "int32",
    "int64",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "long",
    "float",
    "double",
    "half",
    "int",
)


def quote_operands(text: str) -> str:
    """Turn ``T(3,4;0,1)`` into ``_T("3,4;0,1")``, outside string literals."""
    out, i, quote = [], 0, ""
    while i < len(text):
        c = text[i]
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "TIBP" and text[i + 1 : i + 2] == "(" and not (i and (text[i - 1].isalnum() or text[i - 1] in "_.")):
            end = text.index(")", i)
            out.append(f'_{c}("{text[i + 2 : end]}")')
            i = end + 1
            continue
        out.append(c)
        i += 1
    return "".join(out)


def load() -> list[Op]:
    """Read the registry."""
    ops = []
    for entry in json.loads(REGISTRY.read_text())["ops"]:
        tol = entry["tolerance"] or {}
        ops.append(
            Op(
                name=entry["name"],
                full=entry["full"],
                aliases=tuple(entry["aliases"]),
                where=frozenset(w for w in ("function", "method", "functional", *SUBMODULES) if entry[w]),
                view=entry["view"],
                in_place=entry["inplace"],
                in_place_only=entry["inplace_only"],
                out=entry["out"],
                samples=tuple((s["args"], s["kwargs"]) for s in entry["samples"]),
                error_samples=tuple((s["args"], s["kwargs"]) for s in entry["error_samples"]),
                rtol=tol.get("rtol"),
                atol=tol.get("atol"),
                no_grad=entry["no_grad"],
            )
        )
    return ops


def place(lib: Any, op: Op, where: str, suffix: str = "", name: str = "") -> Callable[..., Any] | None:
    """Return the callable of ``op`` at one place in ``lib``, None when it does not appear there."""
    if where not in op.where:
        return None
    name = name or next(n for n in (op.name, *op.aliases) if n.startswith(where + "_") or where not in SUBMODULES)
    if name.startswith(tuple(m + "_" for m in SUBMODULES)) and not name.startswith(where + "_"):
        return None  # linalg_x is linalg.x only
    home = {
        "function": lib,
        "method": lib.Tensor,
        "functional": lib.nn.functional,
        "linalg": lib.linalg,
        "special": lib.special,
        "fft": lib.fft,
    }[where]
    return getattr(home, name.removeprefix(where + "_") + suffix, None)


def values(o: Operand, dtype: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw the elements of an operand; floats of the sample get ``dtype``."""
    if o.kind == "B":
        return rng.random(shape) < 0.5
    if o.kind == "I":
        low, high = (0, 5) if o.low is None else (int(o.low), int(o.high or 0))
        return rng.integers(low, max(high, low + 1), shape)
    if o.low is not None and o.high is not None:
        x = rng.uniform(o.low, o.high, shape)
    elif o.kind == "P":
        x = positive_definite(o, rng, shape)
    else:
        x = rng.standard_normal(shape)
    if dtype == "bool":
        return x > 0
    if "int" in dtype:
        return np.trunc(np.abs(x) * 4 if dtype.startswith("uint") else x * 4).astype(dtype)
    return x.astype("float32" if dtype == "bfloat16" else dtype)


def positive_definite(o: Operand, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw the storage of symmetric matrices with distinct eigenvalues above 1, as seen through the operand's view."""
    stored = np.zeros(shape)
    if len(o.shape) < 2 or 0 in o.shape:
        return stored + 2
    matrices = rng.uniform(-0.25, 0.25, o.shape)
    if o.shape[-1] == o.shape[-2]:
        matrices = matrices + matrices.swapaxes(-1, -2) + np.diag(np.arange(o.shape[-1]) + 2.0 + o.shape[-1] / 2)
    if o.layout == "strided":
        stored[..., ::2] = matrices
    elif o.layout == "offset":
        stored[2:] = matrices
    else:
        stored[...] = matrices.swapaxes(-1, -2) if o.layout == "transposed" else matrices[: shape[0]]
    return stored


def relayout(o: Operand, layout: str, *, factored: bool = False) -> Operand | None:
    """Return the operand in another layout, None where it has no such layout.

    With ``factored`` the broadcast layout of a matrix is a batch of two equal matrices instead of equal rows.
    """
    rank = len(o.shape)
    if factored and layout == "broadcast" and rank <= 2:
        return replace(o, shape=(2, *o.shape), layout=layout) if rank == 2 else None
    if layout == "scalar":
        return None if rank == 0 else replace(o, shape=(), layout=layout)
    if layout == "empty":
        return None if rank == 0 else replace(o, shape=(0, *o.shape[1:]), layout=layout)
    if (layout == "transposed" and rank < 2) or (layout in ("strided", "offset", "broadcast") and rank < 1):
        return None
    return replace(o, layout=layout)


def stored_shape(o: Operand) -> tuple[int, ...]:
    """Return the shape of the dense array under an operand's view."""
    s = o.shape
    return {
        "transposed": (*s[:-2], s[-1], s[-2]) if len(s) > 1 else s,
        "strided": (*s[:-1], 2 * s[-1]) if s else s,
        "offset": (s[0] + 2, *s[1:]) if s else s,
        "broadcast": (1, *s[1:]) if s else s,
    }.get(o.layout, s)


def view_of(lib: Any, stored: Any, o: Operand) -> Any:
    """Take the operand's view of its dense tensor, under either library."""
    if o.layout == "transposed":
        return stored.transpose(-1, -2)
    if o.layout == "strided":
        return stored[..., ::2]
    if o.layout == "offset":
        return stored[2:]
    if o.layout == "broadcast":
        return stored.expand(o.shape)
    return stored


@dataclass
class Side:
    """A concrete call of one library: the leaves for gradients, and the views passed as arguments."""

    lib: Any
    leaves: list[Any]
    call: Call


def widened(call: Call, dtype: str, seed: int, widen: Callable[[Any], Any], *, grad: bool) -> Side:
    """Build PyTorch's operands of :func:`concrete`, and the dtypes of the call, as ``widen`` maps them."""
    from oracle import theirs

    rng = np.random.default_rng(seed)
    leaves: list[Any] = []

    def make(o: Operand) -> Any:
        name = dtype if o.kind in "TP" else {"I": "int64", "B": "bool"}[o.kind]
        wants = grad and o.kind in "TP" and ("float" in dtype)
        t = widen(theirs(values(o, dtype, rng, stored_shape(o)), dtype=name, requires_grad=wants))
        leaves.append(t)
        return view_of(torch, t, o)

    made = call.map(make).bind(torch, "cpu")
    walk = lambda x: widen(x) if isinstance(x, torch.dtype) else x  # noqa: E731
    return Side(torch, leaves, Call(tuple(map(walk, made.args)), {k: walk(v) for k, v in made.kwargs.items()}))


def concrete(call: Call, device: str, dtype: str, seed: int, *, grad: bool) -> tuple[Side, Side]:
    """Build the same operands under torchlette and PyTorch."""
    from oracle import ours, theirs

    sides = []
    for lib in (torchlette, torch):
        rng = np.random.default_rng(seed)
        leaves: list[Any] = []

        def make(o: Operand, lib: Any = lib, rng: Any = rng, leaves: list[Any] = leaves) -> Any:
            array = values(o, dtype, rng, stored_shape(o))
            name = dtype if o.kind in "TP" else {"I": "int64", "B": "bool"}[o.kind]
            wants = grad and o.kind in "TP" and ("float" in dtype)
            if lib is torchlette:
                t: Any = ours(array, device, dtype=name, requires_grad=wants)
            else:
                t = theirs(array, dtype=name, requires_grad=wants)
            leaves.append(t)
            return view_of(lib, t, o)

        sides.append(Side(lib, leaves, call.map(make).bind(lib, device if lib is torchlette else "cpu")))
    return sides[0], sides[1]
