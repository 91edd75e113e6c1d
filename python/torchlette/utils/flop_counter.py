"""Counts the floating point operations of products, convolutions and attention while they are called."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from torchlette._compat.overrides import TorchFunctionMode

__all__ = ["FlopCounterMode"]


def _product(out: Any, x: Any, *rest: Any) -> int:
    return 2 * int(out.numel()) * int(x.shape[-1])


def _added_product(out: Any, added: Any, x: Any, *rest: Any) -> int:
    return _product(out, x)


def _convolution(out: Any, x: Any, weight: Any, *rest: Any) -> int:
    return int(2 * out.numel() * math.prod(weight.shape[1:]))


def _transposed_convolution(out: Any, x: Any, weight: Any, *rest: Any) -> int:
    return int(2 * x.numel() * math.prod(weight.shape[1:]))


def _attention(out: Any, query: Any, key: Any, value: Any, *rest: Any) -> int:
    batch = math.prod(query.shape[:-2])
    return int(2 * batch * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


_FORMULAS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "linear", "mv"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added_product),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed_convolution),
    "scaled_dot_product_attention": _attention,
}


class FlopCounterMode(TorchFunctionMode):
    """Counts the operations of calls in a ``with`` block, a multiplication and an addition as two.

    Backward passes are not counted: the engine records them by itself.

    Args:
        mods: Modules whose calls are counted apart too, under the names of their classes.
        depth: Accepted for compatibility.
        display: Whether the total is printed at the end.
        custom_mapping: Function of ``torch`` -> its count, called as ``count(*args, out_val=result, **kwargs)``.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Callable[..., int]] | None = None,
    ) -> None:
        """Begin at zero."""
        self.depth, self.display, self.custom = depth, display, custom_mapping or {}
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._mods = [] if mods is None else list(mods) if isinstance(mods, (list, tuple)) else [mods]
        self._open: list[str] = ["Global"]
        self._hooks: list[Any] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call the function, and count it."""
        result, named = func(*args, **(kwargs or {})), kwargs or {}
        own, formula = self.custom.get(func), _FORMULAS.get(getattr(func, "__name__", ""))
        count = 0
        if own is not None:
            count = own(*args, out_val=result, **named)
        elif formula is not None:
            count = formula(result, *args, *named.values())
        if count:
            for name in self._open:
                self.flop_counts[name][func] += count
        return result

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        for root in self._mods:
            prefix = type(root).__name__
            for path, module in root.named_modules():
                name = f"{prefix}.{path}" if path else prefix
                self._hooks += [
                    module.register_forward_pre_hook(lambda *_, n=name: self._open.append(n)),
                    module.register_forward_hook(lambda *_: self._open.pop() and None, always_call=True),
                ]
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        while self._hooks:
            self._hooks.pop().remove()
        if self.display:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """Return the operations of all calls."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the operations by module, "Global" for all, and by function."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return a line for each module with its operations."""
        return "\n".join(f"{name}: {sum(counts.values())}" for name, counts in self.flop_counts.items())
