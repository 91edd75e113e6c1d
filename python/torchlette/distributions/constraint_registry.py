"""The transforms of constraints: they map unconstrained numbers to the region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette.distributions import constraints
from torchlette.distributions.constraints import Constraint
from torchlette.distributions.transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Gives a transform for a constraint, by the constraint's class."""

    def __init__(self) -> None:
        """Begin without transforms."""
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Set the transform of a class of constraints.

        Args:
            constraint: A subclass of :class:`Constraint`, or one of its objects.
            factory: Makes the transform of a constraint; None: return a decorator.

        Raises:
            TypeError: ``constraint`` is neither.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform of unconstrained numbers to a region.

        Raises:
            NotImplementedError: There is none for the constraint's class.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


#: Transforms for samplers: a region's numbers and its preimage's determine each other.
biject_to = ConstraintRegistry()
#: Transforms for optimisers: they need no inverse.
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Factory], Factory]:
    def register(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


def _is(bound: Any, number: int) -> bool:
    return isinstance(bound, (int, float)) and bound == number


@_both(constraints.real)
def _to_real(constraint: Any) -> Transform:
    return identity_transform


@_both(constraints.greater_than, constraints.greater_than_eq)
def _to_greater_than(constraint: Any) -> Transform:
    lower = constraint.lower_bound
    return ExpTransform() if _is(lower, 0) else ComposeTransform([ExpTransform(), AffineTransform(lower, 1)])


@_both(constraints.less_than)
def _to_less_than(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Transform:
    lower, upper = constraint.lower_bound, constraint.upper_bound
    if _is(lower, 0) and _is(upper, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(lower, upper - lower)])


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Transform:
    return CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda constraint: PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda constraint: PositiveDefiniteTransform())


def _register_parts(registry: ConstraintRegistry) -> None:
    """Add the constraints that are made of others."""

    def independent(constraint: Any) -> Transform:
        base, n = registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        return IndependentTransform(base, n) if n else base

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, lambda c: CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths))
    registry.register(constraints.stack, lambda c: StackTransform([registry(part) for part in c.cseq], c.dim))


_register_parts(biject_to)
_register_parts(transform_to)
