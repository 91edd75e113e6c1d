"""Recording of functions as steps of a saved program."""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette._runtime.captured import capturing
from torchlette._runtime.errors import HostReadInCompileError, TensorHostCoercionError, Unsupported
from torchlette._runtime.exports import exporting
from torchlette.autograd import no_grad
from torchlette.nn.modules.module import Module

__all__ = ["check_replaced", "left_alone", "parameter_names", "record"]

_REGISTER = "register it as a buffer, so that it is state of the program"


def record(
    run: Callable[[list[_C.Tensor]], list[_C.Tensor]], inputs: Sequence[_C.Tensor], known: Sequence[_C.Tensor]
) -> tuple[dict[str, Any], list[_C.Tensor]]:
    """Run a function on placeholders of ``inputs`` and record the operators that it calls. Nothing is computed.

    Args:
        run: Takes the placeholders and returns its results.
        inputs: Tensors with the dtypes, devices and shapes of the arguments.
        known: Tensors that the function may read or write, and that have names.

    Returns:
        The recorded ``steps``, ``outputs``, and which inputs and constants ``changed``; and the tensors that the
        function read besides ``known``: the program's constants are those of ``known`` and these.
    """
    tracked = [t.requires_grad for t in known]
    stand_ins = _C._export_begin(inputs, known)
    try:
        with capturing(), exporting():
            results = run(stand_ins)
    except (HostReadInCompileError, TensorHostCoercionError) as exc:
        _C._export_end(None)
        _forget_writes(known, tracked)
        raise HostReadInCompileError(
            f"export: the function reads the value of a tensor ({_line_of(exc)}), and a program computes with values "
            f"that are not known yet: use torch.where, torch.cond, lax.while_loop, nonzero_static, or return the tensor"
        ) from exc
    except BaseException:
        _C._export_end(None)
        _forget_writes(known, tracked)
        raise
    text, found = _C._export_end(results)
    _forget_writes(known, tracked)
    return json.loads(text), found


def _forget_writes(known: Sequence[_C.Tensor], tracked: Sequence[bool]) -> None:
    """Let tensors tell whether they require gradients, when writes that made them do so are undone."""
    for t, before in zip(known, tracked, strict=True):
        if t.requires_grad is not before:
            t.requires_grad_(before)


def _line_of(exc: BaseException) -> str:
    """Return the innermost line outside of this package at which an error was raised."""
    found = "line unknown"
    for frame, line in traceback.walk_tb(exc.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] != "torchlette":
            found = f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return found


#: A tensor that a module had as an attribute, with the attribute's name, and replaced by another one.
Replaced = list[tuple[str, _C.Tensor]]


def check_replaced(replaced: Replaced, found: Sequence[_C.Tensor]) -> None:
    """Refuse a function that reads an attribute and replaces it: later calls would have to read the new tensor.

    Args:
        replaced: What :func:`left_alone` collected.
        found: The tensors that the function read.

    Raises:
        Unsupported: A replaced attribute is among them.
    """
    read = {t._identity() for t in found} if replaced else set()
    for name, old in replaced:
        if old._identity() in read:
            raise Unsupported(f"export: the module reads and replaces its attribute {name!r}: {_REGISTER}")


@contextmanager
def left_alone(module: Any, replaced: Replaced) -> Iterator[None]:
    """Restore the buffers and other tensors that a module has as attributes, when a function of it was recorded.

    A buffer that the module replaced by another tensor is state: the recording copies the new values into it, as
    ``torch.export`` does.

    Args:
        module: The module, or any function.
        replaced: Receives other attributes that were tensors and are others now.

    Raises:
        Unsupported: The module replaced a buffer by a tensor of another dtype or shape, or another attribute.
    """
    modules = list(module.named_modules()) if isinstance(module, Module) else []
    before = [(path, m, dict(m._buffers), dict(m.__dict__)) for path, m in modules]
    try:
        yield
        with no_grad():
            for path, m, buffers, own in before:
                for name, old in buffers.items():
                    _store(f"{path}.{name}".lstrip("."), old, m._buffers.get(name))
                for name in _attributes(m):
                    old, full = own.get(name), f"{path}.{name}".lstrip(".")
                    if not isinstance(old, _C.Tensor):
                        raise Unsupported(f"export: the module stores a tensor as its attribute {full!r}: {_REGISTER}")
                    if old is not m.__dict__[name]:
                        replaced.append((full, old))
    finally:
        for _, m, buffers, own in before:
            m._buffers.clear()
            m._buffers.update(buffers)
            for name in _attributes(m):
                if name in own:
                    m.__dict__[name] = own[name]
                else:
                    del m.__dict__[name]


def _attributes(m: Module) -> list[str]:
    """Return the names of a module's attributes that are tensors, besides its parameters and buffers."""
    return [name for name, value in m.__dict__.items() if isinstance(value, _C.Tensor)]


def _store(name: str, old: _C.Tensor | None, new: _C.Tensor | None) -> None:
    """Copy the tensor that replaced a buffer into it."""
    if new is old:
        return
    if old is None or new is None or old.shape != new.shape or old.dtype != new.dtype:
        shown = ["None" if t is None else f"{t.dtype} {tuple(t.shape)}" for t in (old, new)]
        raise Unsupported(f"export: the module replaces its buffer {name!r}, {shown[0]}, by {shown[1]}")
    old.copy_(new)


def parameter_names(fn: Callable[..., Any], count: int) -> list[str]:
    """Return names for ``count`` positional arguments of a function."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}_{i}" for i in range(count - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return names[:count] + [f"args_{i}" for i in range(len(names), count)]
