"""The base class of transforms, and transforms that are made of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.distributions import constraints
from torchlette.distributions.utils import sum_rightmost

__all__ = [
    "CatTransform",
    "ComposeTransform",
    "IndependentTransform",
    "StackTransform",
    "Transform",
    "identity_transform",
]

Tensor, Size = _C.Tensor, _C.Size


class Transform:
    """A function with an inverse. ``domain`` and ``codomain`` are constraints; their event dims may differ.

    Args:
        cache_size: 1: the last argument and its result are kept, so that neither is computed again. 0: they are not.
    """

    bijective = False
    sign: Any = None
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        """Check the cache size; ValueError unless it is 0 or 1."""
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """The event dims of domain and codomain; ValueError if they differ."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return a copy of the transform with a cache of that size."""
        import copy

        new = copy.copy(self)
        Transform.__init__(new, cache_size)
        return new

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached[0]:
            self._cached = x, self._call(x)
        return self._cached[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached[1]:
            self._cached = self._inverse(y), y
        return self._cached[0]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement the function")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log \\|det dy/dx\\| without the event dims, given ``x`` and its image ``y``."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> Any:
        """Return the result's shape for an argument of ``shape``."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the argument's shape for a result of ``shape``."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform

    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    inv = property(lambda self: self._inv)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._inv))

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """The composition of transforms.

    Args:
        parts: The transforms, in the order in which they are applied.
        cache_size: See :class:`Transform`.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        """Give each part a cache of that size."""
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts))

    def _event_dims(self) -> tuple[int, int]:
        """Return the event dims of arguments and of results: the fewest that suffice for all parts."""
        if not self.parts:
            return 0, 0
        into = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            into = max(into + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return into, into + sum(part.codomain.event_dim - part.domain.event_dim for part in self.parts)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Where arguments lie."""
        base = self.parts[0].domain if self.parts else constraints.real
        extra = self._event_dims()[0] - base.event_dim
        return constraints.independent(base, extra) if extra else base

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Where results lie."""
        base = self.parts[-1].codomain if self.parts else constraints.real
        extra = self._event_dims()[1] - base.event_dim
        return constraints.independent(base, extra) if extra else base

    bijective = property(
        lambda self: all(part.bijective for part in self.parts), doc="Whether every part has an inverse."
    )
    sign = property(lambda self: math.prod(part.sign for part in self.parts), doc="1 if it grows, -1 if it falls.")
    inv = property(lambda self: ComposeTransform([part.inv for part in reversed(self.parts)]), doc="The inverse.")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return a copy of the transform with a cache of that size."""
        return ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum over the parts."""
        if not self.parts:
            return _C.zeros_like(x)
        terms, event_dim = [], self._event_dims()[0]
        for i, part in enumerate(self.parts):
            # The last result is the given object y, for which a cache may hold the inverse.
            out = y if i == len(self.parts) - 1 else part(x)
            terms.append(sum_rightmost(part.log_abs_det_jacobian(x, out), event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = out
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Any) -> Any:
        """Return the result's shape for an argument of ``shape``."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the argument's shape for a result of ``shape``."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform that treats some batch dims as event dims, so that log determinants are summed over them.

    Args:
        base_transform: The transform.
        reinterpreted_batch_ndims: The number of additional event dims.
        cache_size: See :class:`Transform`.
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        """Store the base transform."""
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = (
            base_transform.with_cache(cache_size),
            reinterpreted_batch_ndims,
        )

    @constraints.dependent_property
    def domain(self) -> Any:
        """Where arguments lie."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Where results lie."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    bijective = property(lambda self: self.base_transform.bijective, doc="The base's.")
    sign = property(lambda self: self.base_transform.sign, doc="The base's.")

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the base transform's value, summed over the additional event dims."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _Parts(Transform):
    """Transforms of parts of a tensor along a dim. Subclasses say how the tensor is cut and joined.

    Args:
        tseq: A transform for each part.
        dim: The dim.
        cache_size: See :class:`Transform`.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        """Give each transform a cache of that size."""
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError(f"{type(self).__name__}: tseq is wrong: want transforms")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _cut(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError(f"{type(self).__name__} does not cut a tensor")

    def _join(self, parts: list[Tensor], dim: int) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not join tensors")

    def _constraint(self, parts: list[Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no constraint")

    bijective = property(lambda self: all(t.bijective for t in self.transforms), doc="Whether every part's is.")
    event_dim = property(
        lambda self: max(t.event_dim for t in self.transforms), doc="The most event dims of a part's transform."
    )

    @constraints.dependent_property
    def domain(self) -> Any:
        """Where arguments lie."""
        return self._constraint([t.domain for t in self.transforms])

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Where results lie."""
        return self._constraint([t.codomain for t in self.transforms])

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._cut(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._cut(y), strict=True)], self.dim)


class CatTransform(_Parts):
    """Applies transforms to the parts of a tensor that :func:`torch.cat` would join.

    Args:
        tseq: A transform for each part.
        dim: The dim along which the parts lie.
        lengths: The sizes of the parts; None: 1 each.
        cache_size: See :class:`Transform`.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        """Check the lengths."""
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    length = property(lambda self: sum(self.lengths), doc="The size of the dim.")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return a transform with a cache of that size."""
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _cut(self, x: Tensor) -> list[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != self.length:
            raise AssertionError(f"CatTransform: got shape {tuple(x.shape)}, want size {self.length} in dim {self.dim}")
        return list(x.split(self.lengths, self.dim))

    def _join(self, parts: list[Tensor], dim: int) -> Tensor:
        return _C.cat(parts, dim)

    def _constraint(self, parts: list[Any]) -> Any:
        return constraints.cat(parts, self.dim, self.lengths)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the parts' values, joined along the dim or, if it is an event dim, summed."""
        terms = [
            sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim)
            for t, a, b in zip(self.transforms, self._cut(x), self._cut(y), strict=True)
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return _C.cat(terms, dim) if dim < 0 else sum(terms[1:], terms[0])


class StackTransform(_Parts):
    """Applies transforms to the slices of a tensor that :func:`torch.stack` would join.

    Args:
        tseq: A transform for each slice.
        dim: The dim of the slices.
        cache_size: See :class:`Transform`.
    """

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return a transform with a cache of that size."""
        return StackTransform(self.transforms, self.dim, cache_size)

    def _cut(self, x: Tensor) -> list[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"StackTransform: got shape {tuple(x.shape)}, want size {len(self.transforms)} in dim {self.dim}"
            )
        return list(x.unbind(self.dim))

    def _join(self, parts: list[Tensor], dim: int) -> Tensor:
        return _C.stack(parts, dim)

    def _constraint(self, parts: list[Any]) -> Any:
        return constraints.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the slices' values, stacked."""
        parts = zip(self.transforms, self._cut(x), self._cut(y), strict=True)
        return _C.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)
