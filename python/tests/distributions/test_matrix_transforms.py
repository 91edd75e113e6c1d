"""Transforms of matrices and of parts, the registries and the further constraints are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from distribution_cases import equal, given

import torchlette

RNG = np.random.default_rng(0)
VECTORS, MATRICES, PARTS = RNG.normal(size=(2, 6)), RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3))


def parts(d: Any) -> list[Any]:
    """Return three elementwise transforms."""
    return [d.ExpTransform(), d.AffineTransform(1.0, 2.0), d.TanhTransform()]


MADE: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "corr_cholesky": (lambda d: d.CorrCholeskyTransform(), VECTORS),
    "positive_definite": (lambda d: d.PositiveDefiniteTransform(), MATRICES),
    "cat": (lambda d: d.CatTransform(parts(d), dim=-1), PARTS),
    "cat_lengths": (lambda d: d.CatTransform(parts(d)[:2], dim=1, lengths=[4, 2]), VECTORS),
    "cat_events": (lambda d: d.CatTransform([d.StickBreakingTransform().inv.inv] * 2, dim=0, lengths=[1, 1]), PARTS),
    "stack": (lambda d: d.StackTransform(parts(d), dim=-1), PARTS),
    "stack_cached": (lambda d: d.StackTransform(parts(d)[:2], dim=0, cache_size=1), VECTORS),
}


@pytest.mark.parametrize("name", MADE)
def test_transforms(name: str) -> None:
    """Values, inverses and log determinants."""
    make, value = MADE[name]
    results = []
    for lib in (torch, torchlette):
        t, x = make(lib.distributions), given(lib, value)
        y = t(x)
        results.append([y] if name == "cat_events" else [y, t.inv(y)])
        if name == "corr_cholesky":
            assert tuple(t.forward_shape((2, 6))) == (2, 4, 4) and tuple(t.inverse_shape((2, 4, 4))) == (2, 6)
            for shape in ((), (5,)):
                with pytest.raises(ValueError, match="nput"):
                    t.forward_shape(shape)
        if name not in ("positive_definite", "cat_events"):
            results[-1].append(t.log_abs_det_jacobian(x, y))
        if name != "cat_events":
            assert t.codomain.check(y).all().item() and t.domain.check(x).all().item()
        assert t.bijective == (name != "positive_definite")
    for want, got in zip(*results, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("registry", ["transform_to", "biject_to"])
@pytest.mark.parametrize("name", ["cat", "stack", "corr_cholesky", "positive_definite", "positive_semidefinite"])
def test_registered_transforms(registry: str, name: str) -> None:
    """Each registry has PyTorch's transforms, and none for the same constraints."""
    results: list[Any] = []
    for lib in (torch, torchlette):
        c = lib.distributions.constraints
        made = getattr(c, name)
        constraint = made([c.positive, c.interval(-1.0, 2.0), c.real], -1) if name in ("cat", "stack") else made
        x = given(lib, {"corr_cholesky": VECTORS, "cat": PARTS, "stack": PARTS}.get(name, MATRICES))
        try:
            results.append(getattr(lib.distributions, registry)(constraint)(x))
        except NotImplementedError:
            results.append(None)
    if results[0] is None:
        assert results[1] is None
    else:
        equal(results[1], results[0], rtol=1e-4, atol=1e-4)


def test_registries_take_more() -> None:
    """As a function and as a decorator, for classes and objects of constraints."""
    for lib in (torch, torchlette):
        d = lib.distributions
        registry = d.constraint_registry.ConstraintRegistry()

        class Even(d.constraints.Constraint):
            """A region of one's own."""

        registry.register(d.constraints.real, lambda _, d=d: d.ExpTransform())

        @registry.register(Even)
        def factory(constraint: Any, d: Any = d) -> Any:
            return d.AffineTransform(0, 2)

        assert factory is not None and type(registry(Even())).__name__ == "AffineTransform"
        assert type(registry(d.constraints.real)).__name__ == "ExpTransform"
        with pytest.raises(TypeError, match="Expected constraint to be either"):
            registry.register(3, factory)
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            registry(d.constraints.simplex)
        d.biject_to.register(Even, factory)
        assert type(d.biject_to(Even())).__name__ == "AffineTransform"


def test_constraints() -> None:
    """What lies in a region does in PyTorch's."""
    psd = np.stack([np.eye(3), -np.eye(3), np.tril(np.ones((3, 3)))])
    for name in ("lower_triangular", "square", "positive_semidefinite", "symmetric"):
        checks = []
        for lib in (torch, torchlette):
            constraint = getattr(lib.distributions.constraints, name)
            value = given(lib, psd[:2] if name == "positive_semidefinite" else psd)
            checks.append(constraint.check(value).tolist())
        assert checks[0] == checks[1]
    seen = []
    for lib in (torch, torchlette):
        c = lib.distributions.constraints
        mixture = c.MixtureSameFamilyConstraint(c.interval(given(lib, np.zeros(2)), given(lib, np.array([1.0, 2.0]))))
        joint = c.cat([c.positive, c.unit_interval], 0, [2, 1])
        value = given(lib, np.array([0.5, 1.5, -1.0]))
        seen.append([mixture.check(value).tolist(), joint.check(value).tolist(), c.stack([c.real] * 3).event_dim])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("diagonal", [-1, 0])
def test_triangles(diagonal: int) -> None:
    """Vectors to triangles and back."""
    for lib in (torch, torchlette):
        u = lib.distributions.utils
        made = u.vec_to_tril_matrix(given(lib, VECTORS), diagonal)
        assert tuple(made.shape) == ((2, 3, 3) if diagonal == 0 else (2, 4, 4))
        np.testing.assert_array_equal(u.tril_matrix_to_vec(made, diagonal).numpy(), given(lib, VECTORS).numpy())
        with pytest.raises(ValueError, match="lower triangular part"):
            u.vec_to_tril_matrix(given(lib, VECTORS[:, :5]), diagonal)
        with pytest.raises(ValueError, match="outside"):
            u.tril_matrix_to_vec(made, 9)
