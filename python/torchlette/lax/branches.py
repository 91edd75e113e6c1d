"""Branches, and loops that a condition ends. Each is recorded once; the device decides what runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette.lax.body import BodyTypeError, Tree, check_carry, flatten, trace
from torchlette.lax.report import Paths, check_path

__all__ = ["cond", "switch", "while_loop"]

Tensor = _C.Tensor

#: Iterations of a loop that only its condition ends.
_ENDLESS = 1 << 62


def _flag(what: str, value: Any) -> Tensor:
    """Return a condition as a bool tensor without dims."""
    if isinstance(value, (bool, int, float)):
        return _C.tensor(bool(value))
    if not isinstance(value, Tensor):
        raise BodyTypeError(f"{what}: Pred type must be either boolean or number, got {type(value)}.")
    if value.numel() != 1 or value.dim() > 1:
        raise BodyTypeError(f"{what}: Pred must be a scalar, got a tensor of shape {list(value.shape)}.")
    return value.reshape(()).bool()


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any, *, accept_path: Paths = None
) -> Any:
    """Return ``val`` after ``val = body_fun(val)`` as long as ``cond_fun(val)`` is true.

    Both functions run on placeholders. The loop runs in the engine: no value comes back to Python. It has no
    reverse-mode gradient, as in JAX.

    Args:
        cond_fun: A function of a value that returns a bool without dims.
        body_fun: A function of a value that returns a value of the same types and shapes.
        init_val: The first value: a tree of tensors and numbers.
        accept_path: As in :func:`scan`.

    Raises:
        TypeError: The value changes its structure, a dtype or a shape, or the condition is no scalar.
    """
    carry, tree = flatten("while_loop", init_val)

    def body(args: list[Tensor]) -> Any:
        value = body_fun(tree.build(args[1:]))
        check_carry("while_loop body", value, carry, tree)
        return [_flag("while_loop", cond_fun(value)), value]

    first = _flag("while_loop", cond_fun(init_val))
    traced = trace("while_loop", body, [first, *carry])
    outs = traced.loop([first, *carry], [], _ENDLESS, ends=True)
    check_path("while_loop", accept_path)
    return tree.build(outs[1:])


def _choose(what: str, flags: Sequence[Tensor], branches: Sequence[Callable[..., Any]], operands: Any) -> Any:
    """Return the results of the branch whose flag is true. Each branch is a loop of at most one iteration."""
    outs: list[Tensor] | None = None
    first: Tree | None = None
    types: list[tuple[Any, Any, Any]] = []
    for flag, branch in zip(flags, branches, strict=True):

        def body(args: list[Tensor], branch: Callable[..., Any] = branch) -> Any:
            return [args[0] & False, branch(*operands)]

        traced = trace(what, body, [flag], fresh=True)
        if outs is None or first is None:
            first, types = traced.tree, traced.types[1:]
            outs = [_C.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in types]
        elif traced.tree != first or traced.types[1:] != types:
            raise BodyTypeError(
                f"{what}: the branches must have equal types, but they differ: {_types_text(types)} and "
                f"{_types_text(traced.types[1:])}."
            )
        outs = traced.loop([flag, *outs], [], 1, ends=True)[1:]
    assert outs is not None and first is not None
    return first.build([flags[0], *outs])[1]


def _types_text(types: Sequence[tuple[Any, Any, Any]]) -> str:
    return ", ".join(f"{str(dtype).rpartition('.')[2]}{list(shape)}" for shape, dtype, _ in types) or "nothing"


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Return ``true_fun(*operands)`` where ``pred`` is true, else ``false_fun(*operands)``.

    Both functions are recorded; one of them runs. Gradients flow through that one.

    Args:
        pred: A number, or a tensor without dims.
        true_fun: A function of the operands.
        false_fun: A function of the operands with results of the same types and shapes.
        operands: Trees of tensors.

    Raises:
        TypeError: ``pred`` is no scalar, or the results differ in structure, dtype or shape.
    """
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    flag = _flag("cond", pred)
    return _choose("cond", [flag, ~flag], [true_fun, false_fun], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Return ``branches[index](*operands)``, with ``index`` clamped to the branches that there are.

    Args:
        index: A number, or an integer tensor without dims.
        branches: Functions of the operands whose results have the same types and shapes.
        operands: Trees of tensors.
    """
    if not branches:
        raise ValueError("Empty branch sequence")
    chosen = index if isinstance(index, Tensor) else _C.tensor(index)
    if chosen.dim() > 0 or chosen.is_floating_point() or chosen.dtype is _C.bool:
        raise TypeError(f"switch: Index must be an integer scalar, got {chosen.dtype} of shape {list(chosen.shape)}.")
    chosen = chosen.clamp(0, len(branches) - 1)
    return _choose("switch", [chosen == i for i in range(len(branches))], branches, operands)
