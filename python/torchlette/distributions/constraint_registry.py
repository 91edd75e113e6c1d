"""The transform of a constraint: it maps unconstrained numbers to the region."""

from __future__ import annotations

from typing import Any

from torchlette.distributions import constraints
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

__all__ = ["biject_to", "transform_to"]


def _between(lower: Any, upper: Any) -> Transform:
    """Return the transform of all numbers to those between two bounds."""
    if isinstance(lower, (int, float)) and isinstance(upper, (int, float)) and (lower, upper) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(lower, upper - lower)])


def transform_to(constraint: constraints.Constraint) -> Transform:
    """Return a transform of unconstrained numbers to a region, for optimising a parameter that must lie in it.

    Raises:
        NotImplementedError: If there is none for the constraint.
    """
    if isinstance(constraint, constraints.IndependentConstraint):
        base = transform_to(constraint.base_constraint)
        return (
            IndependentTransform(base, constraint.reinterpreted_batch_ndims)
            if constraint.reinterpreted_batch_ndims
            else base
        )
    if isinstance(constraint, constraints.Real):
        return identity_transform
    if isinstance(constraint, (constraints.GreaterThan, constraints.GreaterThanEq)):
        bound = constraint.bounds["lower_bound"]
        return (
            ExpTransform()
            if isinstance(bound, (int, float)) and bound == 0
            else ComposeTransform([ExpTransform(), AffineTransform(bound, 1)])
        )
    if isinstance(constraint, constraints.LessThan):
        return ComposeTransform([ExpTransform(), AffineTransform(constraint.bounds["upper_bound"], -1)])
    if isinstance(constraint, (constraints.Interval, constraints.HalfOpenInterval)):
        return _between(constraint.bounds["lower_bound"], constraint.bounds["upper_bound"])
    if isinstance(constraint, constraints.Simplex):
        return SoftmaxTransform()
    if isinstance(constraint, constraints.LowerCholesky):
        return LowerCholeskyTransform()
    raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")


def biject_to(constraint: constraints.Constraint) -> Transform:
    """Return a constraint's bijective transform: for a simplex stick breaking, else as :func:`transform_to`."""
    return StickBreakingTransform() if isinstance(constraint, constraints.Simplex) else transform_to(constraint)
