"""einops on tensors of this library: ``from torchlette.utils.einops import rearrange, repeat, Rearrange``.

The package einops must be installed. Importing this module defines an einops back end for torchlette's tensors, so
``einops.rearrange`` itself accepts them too.
"""

from __future__ import annotations

from typing import Any

from einops import EinopsError, asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops._backends import AbstractBackend
from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

import torchlette
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = [
    "EinMix",
    "EinopsError",
    "Rearrange",
    "Reduce",
    "asnumpy",
    "einsum",
    "pack",
    "parse_shape",
    "rearrange",
    "reduce",
    "repeat",
    "unpack",
]

Tensor = torchlette.Tensor


class _Backend(AbstractBackend):
    """The interface that einops requires of a library."""

    framework_name = "torchlette"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        return torchlette.from_numpy(x)

    def to_numpy(self, x: Tensor) -> Any:
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return torchlette.arange(start, stop)

    def reduce(self, x: Tensor, operation: str, axes: tuple[int, ...]) -> Tensor:
        if operation in ("min", "max", "sum", "mean"):
            return getattr(x, {"min": "amin", "max": "amax"}.get(operation, operation))(dim=axes)
        if operation not in ("any", "all", "prod"):
            raise NotImplementedError(
                f"reduce: operation is wrong: got {operation!r}, want min, max, sum, mean, prod, any or all"
            )
        for axis in sorted(axes, reverse=True):
            x = getattr(x, operation)(dim=axis)
        return x

    def transpose(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.permute(axes)

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return torchlette.stack(tensors)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        sizes = [-1] * n_axes
        for position, length in pos2len.items():
            x = x.unsqueeze(position)
            sizes[position] = length
        return x.expand(sizes)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return x.unsqueeze(new_position)

    def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
        return x.repeat(repeats)

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        return torchlette.cat(tensors, dim=axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return torchlette.einsum(pattern, *x)


class Rearrange(RearrangeMixin, Module):
    """``rearrange`` as a module."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the rearranged tensor."""
        return self._apply_recipe(input)


class Reduce(ReduceMixin, Module):
    """``reduce`` as a module."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the reduced tensor."""
        return self._apply_recipe(input)


class EinMix(_EinmixMixin, Module):
    """A linear layer between axes named by a pattern."""

    def _create_parameters(self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float) -> None:
        self.weight = Parameter(torchlette.zeros(weight_shape).uniform_(-weight_bound, weight_bound))
        self.bias = (
            Parameter(torchlette.zeros(bias_shape).uniform_(-bias_bound, bias_bound))
            if bias_shape is not None
            else None
        )

    def _create_rearrange_layers(
        self, before: str | None, before_lengths: Any, after: str | None, after_lengths: Any
    ) -> None:
        self.pre_rearrange = None if before is None else Rearrange(before, **before_lengths)
        self.post_rearrange = None if after is None else Rearrange(after, **after_lengths)

    def forward(self, input: Tensor) -> Tensor:
        """Return the product with the weight, plus the bias."""
        x = input if self.pre_rearrange is None else self.pre_rearrange(input)
        x = torchlette.einsum(self.einsum_pattern, x, self.weight)
        x = x if self.bias is None else x + self.bias
        return x if self.post_rearrange is None else self.post_rearrange(x)
