"""The transforms of constraints: they map unconstrained numbers to the regions.

``biject_to`` has bijections, ``transform_to`` transforms for optimising parameters, which may have more numbers than
they need. ``register`` adds those of other constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette.distributions import constraints
from torchlette.distributions.matrix_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    PositiveDefiniteTransform,
    StackTransform,
)
from torchlette.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Factories of transforms by the class of a constraint."""

    def __init__(self) -> None:
        """Begin without factories."""
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Make ``factory`` the one of a class of constraints.

        Args:
            constraint: A subclass of ``Constraint``, or one of its objects.
            factory: Takes a constraint and returns its transform; None: the result is a decorator of factories.

        Raises:
            TypeError: ``constraint`` is neither.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> Transform:
        """Return the transform of a constraint.

        Raises:
            NotImplementedError: The constraint's class has no factory.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _between(constraint: Any) -> Transform:
    """Return the transform of all numbers to those between two bounds."""
    lower, upper = constraint.bounds["lower_bound"], constraint.bounds["upper_bound"]
    if isinstance(lower, (int, float)) and isinstance(upper, (int, float)) and (lower, upper) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(lower, upper - lower)])


def _above(constraint: Any) -> Transform:
    bound = constraint.bounds["lower_bound"]
    if isinstance(bound, (int, float)) and bound == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(bound, 1)])


def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.bounds["upper_bound"], -1)])


def _fill(registry: ConstraintRegistry) -> None:
    """Register what both registries have."""

    def independent(constraint: Any) -> Transform:
        base, dims = registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        return IndependentTransform(base, dims) if dims else base

    def cat(constraint: Any) -> Transform:
        return CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Transform:
        return StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    factories: dict[type, Factory] = {
        constraints.IndependentConstraint: independent,
        constraints.Real: lambda _: identity_transform,
        constraints.GreaterThan: _above,
        constraints.GreaterThanEq: _above,
        constraints.LessThan: _below,
        constraints.Interval: _between,
        constraints.HalfOpenInterval: _between,
        constraints.CorrCholesky: lambda _: CorrCholeskyTransform(),
        constraints.Cat: cat,
        constraints.Stack: stack,
    }
    for kind, factory in factories.items():
        registry.register(kind, factory)


_fill(biject_to)
_fill(transform_to)
biject_to.register(constraints.Simplex, lambda _: StickBreakingTransform())
transform_to.register(constraints.Simplex, lambda _: SoftmaxTransform())
transform_to.register(constraints.LowerCholesky, lambda _: LowerCholeskyTransform())
transform_to.register(constraints.PositiveDefinite, lambda _: PositiveDefiniteTransform())
transform_to.register(constraints.PositiveSemidefinite, lambda _: PositiveDefiniteTransform())
