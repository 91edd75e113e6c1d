"""Steps that an overflow of the gradients turns off on the device, without a read.

``GradScaler`` knows whether a gradient is infinite or NaN as a tensor only. An optimizer of this package then records
its step as usual and selects, element by element, the old values if the gradients overflowed. Step counts and rates are
tensors too, because they count the steps that were taken.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from torchlette import _C
from torchlette._runtime.supplied import operand

__all__ = ["Number", "Overflow", "SharedNumbers", "add_scaled", "bias_correction"]

Tensor = _C.Tensor
#: A rate or a count: a Python number, or a 0-dim tensor where only the device knows it.
Number: TypeAlias = Any


class Overflow:
    """Whether the gradients of one step overflowed.

    Args:
        found: 0-dim; not 0 if they did.
    """

    def __init__(self, found: Tensor) -> None:
        self._found = found
        self._at: dict[Any, tuple[Tensor, Tensor]] = {}

    def _on(self, device: Any) -> tuple[Tensor, Tensor]:
        if device not in self._at:
            found = self._found.to(device)
            self._at[device] = found, found != 0
        return self._at[device]

    def found(self, device: Any) -> Tensor:
        """Return the 0-dim tensor on ``device``: not 0 if the gradients overflowed."""
        return self._on(device)[0]

    def select(self, old: Tensor, new: Tensor) -> Tensor:
        """Return ``old`` if the gradients overflowed, else ``new``."""
        return _C.where(self._on(old.device)[1], old, new)

    @contextlib.contextmanager
    def guard(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Take back what the block writes to ``tensors`` if the gradients overflowed."""
        before = [t.clone() for t in tensors]
        yield
        for t, old in zip(tensors, before, strict=True):
            t.copy_(self.select(old, t))


class SharedNumbers:
    """The step counts and other numbers of an optimizer's state, as tensors on the device of their parameter.

    Parameters with equal numbers share the tensors, so that rates are computed once for all of them.
    """

    def __init__(self) -> None:
        self._shared: dict[int, Tensor] = {}
        self._made: dict[Any, tuple[Tensor, ...]] = {}
        self._replaced: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def take(self, entry: dict[str, Any], keys: Sequence[str], device: Any) -> tuple[Tensor, ...]:
        """Return numbers of a parameter's state. Those of a first step or of a loaded state lie on the host and are
        copied to the device.

        Args:
            entry: The state of the parameter.
            keys: The names of the numbers.
            device: The device of the parameter.
        """
        now = tuple(entry[key] for key in keys)
        if all(id(t) in self._shared for t in now):
            return now
        values = [_C._numbers([t])[0] if isinstance(t, Tensor) else float(t) for t in now]
        dtypes = [t.dtype if isinstance(t, Tensor) else _C.float32 for t in now]
        if device.type != "cpu":
            dtypes = [_C.float32] * len(now)
        key = (device, *values, *dtypes)
        if key not in self._made:
            self._made[key] = tuple(
                _C.tensor(v, dtype=dtype, device=device) for v, dtype in zip(values, dtypes, strict=True)
            )
        return self._made[key]

    def put(self, entry: dict[str, Any], numbers: Mapping[str, Tensor]) -> None:
        """Make ``numbers`` those of the state ``entry``."""
        self._replaced.append((entry, {key: entry[key] for key in numbers}))
        entry.update(numbers)

    def finish(self, entries: Sequence[dict[str, Any]]) -> None:
        """End a step: forget tensors that none of ``entries``, the states of all parameters, holds any more."""
        held = {**self._shared, **{id(t): t for entry, old in self._replaced for t in (entry[key] for key in old)}}
        now = (id(value) for entry in entries for value in entry.values())
        self._shared = {i: held[i] for i in now if i in held}
        self._made.clear()

    def take_back(self) -> None:
        """Undo the changes of the last step."""
        for entry, old in self._replaced:
            entry.update(old)

    def begin(self) -> None:
        """Begin a step."""
        self._replaced.clear()

    def leave(self, entries: Sequence[dict[str, Any]]) -> None:
        """Give each of ``entries`` separate numbers on the host; reads them."""
        for entry in entries:
            for key, value in entry.items():
                if id(value) in self._shared:
                    entry[key] = _C.tensor(value.item(), dtype=value.dtype, device="cpu")


def bias_correction(beta: float, step: Number) -> Number:
    """Return ``1 - beta**step``: 1 less the weight that the zeros at the start have in a running mean.

    Args:
        beta: The factor of the running mean.
        step: The count of steps.
    """
    if not isinstance(step, Tensor):
        return 1 - beta**step
    return -_C.expm1(step * math.log(beta)) if beta > 0 else _C.ones_like(step)


def add_scaled(p: Tensor, rate: Number, direction: Tensor, divisor: Tensor | None = None) -> None:
    """Add ``rate`` times ``direction`` to ``p`` in place.

    Args:
        p: The parameter.
        rate: The factor.
        direction: Of the shape of ``p``.
        divisor: The divisor of the direction.
    """
    rate = operand(rate, p)
    if isinstance(rate, Tensor):
        p.add_((direction if divisor is None else direction / divisor) * rate)
    elif divisor is None:
        p.add_(direction, alpha=rate)
    else:
        p.addcdiv_(direction, divisor, value=rate)
