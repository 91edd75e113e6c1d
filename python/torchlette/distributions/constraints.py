"""Constraints: the regions that contain a distribution's values or parameters.

A constraint's ``check(value)`` returns a bool tensor of ``value``'s shape without the last ``event_dim`` dims.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

Tensor = _C.Tensor


class Constraint:
    """A region; ``is_discrete`` and ``event_dim``, the number of last dims of one value, describe it."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Return whether each value lies in the region."""
        raise NotImplementedError(f"{type(self).__name__} does not implement check")

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class Dependent(Constraint):
    """A region that depends on other values: it cannot be checked by itself."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        """Store the known properties."""
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> Dependent:
        """Return the constraint with the given properties."""
        return Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Tensor:
        """Raise: the region depends on other values."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint cannot be checked by itself."""
    return isinstance(constraint, (Dependent, dependent_property))


class dependent_property(property):
    """A property whose value, a constraint, depends on the parameters of the distribution.

    Args:
        fn: The property's function; None for a decorator.
        is_discrete: Whether the support is of integers.
        event_dim: The number of dimensions of one event.
    """

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        """Wrap ``fn``, or be a decorator that does."""
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> dependent_property:
        """Wrap ``fn``."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class IndependentConstraint(Constraint):
    """A region of values with more event dims: all parts of a value must lie in the base region."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        """Add ``reinterpreted_batch_ndims`` event dims."""
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Return whether each value's parts all lie in the base region."""
        result = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if result.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result if n == 0 else result.flatten(-n).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class Real(Constraint):
    """All numbers but NaN."""

    def check(self, value: Tensor) -> Tensor:
        """Return whether each value is a number."""
        return value == value


class Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Return whether each value is 0 or 1."""
        return (value == 0) | (value == 1)


class Bounds(Constraint):
    """Numbers between bounds; a subclass declares which bounds exist and which are included."""

    lower: str | None = None
    upper: str | None = None

    def __init__(self, *bounds: Any) -> None:
        """Take the lower bound, if there is one, and the upper bound, if there is one."""
        names = [name for name, rule in (("lower_bound", self.lower), ("upper_bound", self.upper)) if rule]
        if len(bounds) != len(names):
            raise TypeError(f"{type(self).__name__}: bounds: got {len(bounds)}, want {len(names)}")
        self.bounds = dict(zip(names, bounds, strict=True))
        self.__dict__.update(self.bounds)

    def check(self, value: Tensor) -> Tensor:
        """Return whether each value lies between the bounds."""
        holds = value % 1 == 0 if self.is_discrete else value == value
        for rule, bound in zip([r for r in (self.lower, self.upper) if r], self.bounds.values(), strict=True):
            holds = holds & getattr(value, rule)(bound)
        return holds

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={bound}' for name, bound in self.bounds.items())})"


class GreaterThan(Bounds):
    """Numbers above a bound."""

    lower = "gt"


class GreaterThanEq(Bounds):
    """Numbers greater than or equal to a bound."""

    lower = "ge"


class LessThan(Bounds):
    """Numbers below a bound."""

    upper = "lt"


class Interval(Bounds):
    """Numbers between two bounds, both included."""

    lower, upper = "ge", "le"


class HalfOpenInterval(Bounds):
    """Numbers between two bounds, the lower one included."""

    lower, upper = "ge", "lt"


class IntegerGreaterThan(Bounds):
    """Integers greater than or equal to a bound."""

    is_discrete = True
    lower = "ge"


class IntegerInterval(Bounds):
    """Integers between two bounds, both included."""

    is_discrete = True
    lower, upper = "ge", "le"


class Simplex(Constraint):
    """Vectors of non-negative numbers with sum 1, to within 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Return whether each vector lies in the simplex."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class OneHot(Constraint):
    """Vectors with a single 1, otherwise 0."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Return whether each vector is one-hot."""
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class Multinomial(Constraint):
    """Vectors of counts with a given sum."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        """Take the sum."""
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Return whether each vector holds counts with the given sum."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class LowerTriangular(Constraint):
    """Lower triangular matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Return whether each matrix is lower triangular."""
        return (value.tril() == value).flatten(-2).all(-1)


class LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Return whether each matrix is a Cholesky factor."""
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: rows have norm 1, to within ten epsilons per element."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Return whether each matrix is such a factor."""
        tolerance = finfo(value.dtype).eps * value.size(-1) * 10
        return ((value.square().sum(-1) - 1).abs() < tolerance).all(-1) & lower_cholesky.check(value)


class Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Return whether the matrices are square, for each of them."""
        return _C.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=_C.bool, device=value.device)


class Symmetric(Square):
    """Symmetric matrices, to 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        """Return whether each matrix is symmetric."""
        if value.dim() < 2 or value.shape[-1] != value.shape[-2]:
            raise ValueError(f"symmetric: value is wrong: got shape {tuple(value.shape)}, want square matrices")
        return _C.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class PositiveDefinite(Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        """Return whether each matrix has a Cholesky factor."""
        from torchlette import linalg

        return super().check(value) & (linalg.cholesky_ex(value).info == 0)


class PositiveSemidefinite(Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        """Return whether each matrix is symmetric and has no negative eigenvalue."""
        from torchlette import linalg

        return super().check(value) & (linalg.eigvalsh(value) >= 0).all(-1)


class _Parts(Constraint):
    """Parts of a tensor along a dim, each with a region of its own."""

    def __init__(self, cseq: Any, dim: int) -> None:
        self.cseq, self.dim = list(cseq), dim
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.is_discrete = any(c.is_discrete for c in self.cseq)


class Cat(_Parts):
    """Tensors whose consecutive parts along a dim lie in regions.

    Args:
        cseq: The parts' constraints.
        dim: The dim along which the parts lie.
        lengths: The sizes of the parts; None: 1 each.
    """

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        """Store the parts."""
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths: got {len(self.lengths)}, want {len(self.cseq)}")
        self.event_dim = max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """Return whether each part lies in its region."""
        parts = value.split(self.lengths, self.dim)
        return _C.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class Stack(_Parts):
    """Tensors whose slices of a dim lie in regions.

    Args:
        cseq: The slices' constraints.
        dim: The dim.
    """

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        """Store the slices' constraints."""
        super().__init__(cseq, dim)
        most = max(c.event_dim for c in self.cseq)
        self.event_dim = most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        """Return whether each slice lies in its region."""
        return _C.stack([c.check(v) for c, v in zip(self.cseq, value.unbind(self.dim), strict=True)], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """The region of a mixture: that of its components, without the dim of the components."""

    def __init__(self, base_constraint: Constraint) -> None:
        """Take the components' constraint."""
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint: got {type(base_constraint).__name__}, want a Constraint")
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Return whether each value lies in the region of every component."""
        inner = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return inner.flatten(value.dim() - self.event_dim).all(-1) if inner.dim() > 0 else inner


dependent = Dependent()
independent = IndependentConstraint
boolean, one_hot = Boolean(), OneHot()
real, simplex = Real(), Simplex()
real_vector = independent(real, 1)
nonnegative_integer, positive_integer = IntegerGreaterThan(0), IntegerGreaterThan(1)
nonnegative, positive = GreaterThanEq(0.0), GreaterThan(0.0)
unit_interval = Interval(0.0, 1.0)
greater_than, greater_than_eq, less_than = GreaterThan, GreaterThanEq, LessThan
interval, half_open_interval, integer_interval = Interval, HalfOpenInterval, IntegerInterval
multinomial, cat, stack = Multinomial, Cat, Stack
lower_cholesky, corr_cholesky, symmetric, positive_definite = (
    LowerCholesky(),
    CorrCholesky(),
    Symmetric(),
    PositiveDefinite(),
)
lower_triangular, square, positive_semidefinite = LowerTriangular(), Square(), PositiveSemidefinite()
