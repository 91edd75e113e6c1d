"""``torch._foreach_*``: one operator over lists of tensors, used by third-party optimizers.

Each call is a loop: the engine merges the similar operations that it records. A second list gives each tensor its own
operand; a number or a 0-dim tensor is the operand of all tensors. The underscored forms write to the first list and
return None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.tensor_methods import Tensor

__all__ = ["find"]

PREFIX = "_foreach_"
# Operators whose function or method is called with each tensor and its operands.
_PLAIN = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp "
    "lgamma log log10 log1p "
    "log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
).split()
# Name -> the operator, for names whose operator takes no number.
_SAME = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _rows(name: str, first: Sequence[Tensor], operands: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the operands of each tensor."""
    columns = []
    for operand in operands:
        if not isinstance(operand, list | tuple):
            operand = [operand] * len(first)
        if len(operand) != len(first):
            raise RuntimeError(
                f"{name}: Tensor lists must have the same number of tensors, got {len(first)} and {len(operand)}"
            )
        columns.append(operand)
    return list(zip(*columns, strict=True)) if columns else [()] * len(first)


def _call(op: Callable[..., Any], t: Any, row: Sequence[Any], options: dict[str, Any]) -> Any:
    """Apply ``op``, whose fourth argument is the factor of ``addcmul`` and ``addcdiv``."""
    if len(row) == 3:
        factor = row[2]
        return op(t, row[0], row[1], value=factor.item() if isinstance(factor, Tensor) else factor)
    return op(t, *row, **options)


def _factors(operands: tuple[Any, ...]) -> list[Any]:
    """Return the factors of ``addcmul`` or ``addcdiv``: a tensor of factors becomes a list."""
    return [a.tolist() if i == 2 and isinstance(a, Tensor) and a.ndim == 1 else a for i, a in enumerate(operands)]


def _made(name: str, op: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    def foreach(self: Any, *operands: Any, **options: Any) -> tuple[Tensor, ...]:
        """Return the results, one for each tensor."""
        if not isinstance(self, list | tuple):  # the base of _foreach_pow may be a number for all exponents
            return tuple(op(self, t) for t in operands[0])
        options, operands = _named(options, operands)
        return tuple(
            _call(op, t, row, options)
            for t, row in zip(self, _rows(PREFIX + name, self, _factors(operands)), strict=True)
        )

    return foreach


def _written(name: str, op: Callable[..., Any]) -> Callable[..., None]:
    def foreach_(self: Sequence[Tensor], *operands: Any, **options: Any) -> None:
        """Write the results to the tensors."""
        options, operands = _named(options, operands)
        for t, row in zip(self, _rows(PREFIX + name, self, _factors(operands)), strict=True):
            _call(op, t, row, options)

    return foreach_


def _named(options: dict[str, Any], operands: tuple[Any, ...]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Append operands given by name to the positional ones; the other options apply to all tensors."""
    names = ("other", "tensors1", "tensor1", "tensor2", "weight", "exponent", "scalars", "scalar", "value", "src")
    return {k: v for k, v in options.items() if k not in names}, (
        *operands,
        *(options[n] for n in names if n in options),
    )


def _norm(self: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """Return the norm of each tensor's elements."""
    return tuple(_C.linalg_vector_norm(t, ord, dtype=dtype) for t in self)


def _powsum(self: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """Return the sum of the powers of each tensor's absolute elements."""
    return tuple(t.abs().pow(ord).sum(dtype=dtype) for t in self)


def _max(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the greatest element of each tensor."""
    return tuple(t.max() for t in self)


_OWN: dict[str, Callable[..., Any]] = {
    "norm": _norm,
    "max": _max,
    "clone": _made("clone", _C.clone),
    "mm": _made("mm", _C.mm),
    "powsum": _powsum,
    "copy_": _written("copy_", Tensor.copy_),
    "zero_": _written("zero_", Tensor.zero_),
}


def find(name: str) -> Callable[..., Any] | None:
    """Return the function ``_foreach_x`` or ``_foreach_x_``; None where PyTorch has none."""
    short = name.removeprefix(PREFIX)
    if short in _OWN:
        made = _OWN[short]
    elif short in _PLAIN:
        made = _made(short, getattr(_C, _SAME.get(short, short)))
    elif short.endswith("_") and short[:-1] in _PLAIN:
        made = _written(short, getattr(Tensor, _SAME.get(short[:-1], short[:-1]) + "_"))
    else:
        return None
    made.__name__ = made.__qualname__ = name
    return made
