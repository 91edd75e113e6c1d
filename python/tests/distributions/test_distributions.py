"""Distributions against torch.distributions: densities and their gradients, moments, draws, divergences, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special

import torchlette
import torchlette.torch as facade

RNG = np.random.default_rng(7)
REAL = RNG.standard_normal((3, 2)).astype(np.float32)
POSITIVE = (RNG.random((3, 2)) + 0.5).astype(np.float32)
UNIT = (RNG.random((3, 2)) * 0.8 + 0.1).astype(np.float32)
WEIGHTS = (RNG.random((3, 4)) + 0.1).astype(np.float32)
SIMPLEX = WEIGHTS / WEIGHTS.sum(-1, keepdims=True)
FACTOR = (np.tril(RNG.standard_normal((2, 3, 3)), -1) * 0.4 + np.eye(3)).astype(np.float32)
COVARIANCE = FACTOR @ FACTOR.transpose(0, 2, 1)
VECTORS = RNG.standard_normal((2, 3)).astype(np.float32)
THIN = FACTOR[:, :, :2].copy()
CORRELATION = (FACTOR / np.linalg.norm(FACTOR, axis=-1, keepdims=True)).astype(np.float32)
COUNTS = np.array([[0, 1], [2, 3], [5, 4]], dtype=np.float32)
BITS = np.array([[0, 1], [1, 1], [0, 0]], dtype=np.float32)
CLASSES = np.array([0, 3, 2])
ONE_HOT = np.eye(4, dtype=np.float32)[CLASSES]

# Class, parameters by name, and a value.
CASES: dict[str, tuple[str, dict[str, Any], np.ndarray]] = {
    "Normal": ("Normal", {"loc": REAL, "scale": POSITIVE}, REAL[::-1].copy()),
    "Normal of numbers": ("Normal", {"loc": 0.5, "scale": 2.0}, REAL),
    "HalfNormal": ("HalfNormal", {"scale": POSITIVE}, POSITIVE),
    "LogNormal": ("LogNormal", {"loc": REAL, "scale": POSITIVE}, POSITIVE),
    "Uniform": ("Uniform", {"low": REAL, "high": REAL + 2}, REAL + 0.5),
    "Exponential": ("Exponential", {"rate": POSITIVE}, POSITIVE),
    "Laplace": ("Laplace", {"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "Cauchy": ("Cauchy", {"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "HalfCauchy": ("HalfCauchy", {"scale": POSITIVE}, POSITIVE),
    "Gumbel": ("Gumbel", {"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "Weibull": ("Weibull", {"scale": POSITIVE, "concentration": POSITIVE + 1}, POSITIVE),
    "Pareto": ("Pareto", {"scale": POSITIVE, "alpha": POSITIVE + 2}, POSITIVE + 1),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": POSITIVE, "concentration0": POSITIVE + 1}, UNIT),
    "Bernoulli": ("Bernoulli", {"probs": UNIT}, BITS),
    "Bernoulli of logits": ("Bernoulli", {"logits": REAL}, BITS),
    "Geometric": ("Geometric", {"probs": UNIT}, COUNTS),
    "Geometric of logits": ("Geometric", {"logits": REAL}, COUNTS),
    "Binomial": ("Binomial", {"total_count": 5, "probs": UNIT}, COUNTS),
    "Binomial of logits": ("Binomial", {"total_count": 5, "logits": REAL}, COUNTS),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": POSITIVE, "probs": UNIT}, COUNTS),
    "Poisson": ("Poisson", {"rate": POSITIVE * 3}, COUNTS),
    "Categorical": ("Categorical", {"probs": WEIGHTS}, CLASSES),
    "Categorical of logits": ("Categorical", {"logits": WEIGHTS}, CLASSES),
    "OneHotCategorical": ("OneHotCategorical", {"probs": WEIGHTS}, ONE_HOT),
    "OneHotCategoricalStraightThrough": ("OneHotCategoricalStraightThrough", {"logits": WEIGHTS}, ONE_HOT),
    "Multinomial": ("Multinomial", {"total_count": 6, "probs": WEIGHTS}, np.array([1, 2, 0, 3], dtype=np.float32)),
    "Gamma": ("Gamma", {"concentration": POSITIVE, "rate": POSITIVE + 1}, POSITIVE),
    "Chi2": ("Chi2", {"df": POSITIVE * 3}, POSITIVE),
    "InverseGamma": ("InverseGamma", {"concentration": POSITIVE + 2, "rate": POSITIVE}, POSITIVE),
    "Beta": ("Beta", {"concentration1": POSITIVE, "concentration0": POSITIVE + 1}, UNIT),
    "Dirichlet": ("Dirichlet", {"concentration": WEIGHTS * 3}, SIMPLEX),
    "StudentT": ("StudentT", {"df": POSITIVE + 4, "loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "FisherSnedecor": ("FisherSnedecor", {"df1": POSITIVE + 3, "df2": POSITIVE + 5}, POSITIVE),
    "MultivariateNormal": ("MultivariateNormal", {"loc": VECTORS, "covariance_matrix": COVARIANCE}, VECTORS[::-1].copy()),
    "MultivariateNormal of a factor": ("MultivariateNormal", {"loc": np.zeros(3, np.float32), "scale_tril": FACTOR}, np.ones((2, 3), np.float32)),
    "MultivariateNormal of a precision": ("MultivariateNormal", {"loc": np.zeros(3, np.float32), "precision_matrix": COVARIANCE}, np.ones((2, 3), np.float32)),
    "LowRankMultivariateNormal": ("LowRankMultivariateNormal", {"loc": VECTORS, "cov_factor": THIN, "cov_diag": VECTORS**2 + 0.5}, VECTORS[::-1].copy()),
    "Wishart": ("Wishart", {"df": np.array([3.5, 6.0], np.float32), "covariance_matrix": COVARIANCE}, COVARIANCE[::-1] + np.eye(3, dtype=np.float32)),
    "Wishart of a factor": ("Wishart", {"df": np.array([5.0, 3.2], np.float32), "scale_tril": FACTOR}, COVARIANCE[::-1] + np.eye(3, dtype=np.float32)),
    "Wishart of a precision": ("Wishart", {"df": np.float32(4.5), "precision_matrix": COVARIANCE}, COVARIANCE),
    "VonMises": ("VonMises", {"loc": REAL, "concentration": POSITIVE * 3}, REAL + 0.3),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": np.array([[0.1, 0.5], [0.4995, 0.501], [0.7, 0.95]], np.float32)}, UNIT),
    "ContinuousBernoulli of logits": ("ContinuousBernoulli", {"logits": REAL}, UNIT),
    "GeneralizedPareto": (
        "GeneralizedPareto",
        {"loc": REAL, "scale": POSITIVE, "concentration": np.array([[0.0, 0.3], [-0.2, 1.5], [0.7, -0.5]], np.float32)},
        REAL + 0.4,
    ),
    "LKJCholesky": ("LKJCholesky", {"dim": 3, "concentration": np.array([0.7, 2.5], np.float32)}, CORRELATION),
    "LogisticNormal": ("LogisticNormal", {"loc": REAL, "scale": POSITIVE}, SIMPLEX[:, :3] / SIMPLEX[:, :3].sum(-1, keepdims=True)),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": np.float32(0.7), "logits": REAL}, UNIT),
    "RelaxedOneHotCategorical": ("RelaxedOneHotCategorical", {"temperature": np.float32(0.7), "logits": WEIGHTS}, SIMPLEX),
}  # fmt: skip

# Attributes and methods of the value that PyTorch has for a class; the others raise NotImplementedError in both.
MOMENTS = ("mean", "mode", "variance", "stddev")


def given(lib: Any, value: Any, grad: bool = False) -> Any:
    """Return a parameter for either library."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    t = lib.tensor(value)
    return t.requires_grad_() if grad and t.is_floating_point() else t


def both(case: str, grad: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return a distribution and a value, in PyTorch and here."""
    name, parameters, value = CASES[case]
    made = [
        getattr(lib.distributions, name)(**{k: given(lib, v, grad) for k, v in parameters.items()})
        for lib in (torch, torchlette)
    ]
    return made[0], made[1], given(torch, value), given(torchlette, value)


def equal(ours: Any, theirs: Any, **tolerances: float) -> None:
    """Compare values, dtypes and shapes."""
    assert str(ours.dtype) == str(theirs.dtype)
    torch.testing.assert_close(
        torch.tensor(ours.detach().numpy()),
        theirs.detach().clone(),
        equal_nan=True,
        **(tolerances or {"rtol": 2e-5, "atol": 2e-5}),
    )


def answer(fn: Any) -> Any:
    """Return a result, or the class of the error."""
    try:
        return fn()
    except (NotImplementedError, AttributeError):
        return NotImplementedError


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("what", [*MOMENTS, "log_prob", "cdf", "entropy"])
def test_values(case: str, what: str) -> None:
    """Densities and moments are PyTorch's; where it has none, this library has none."""
    theirs, ours, x, y = both(case)
    call = (lambda d, v: getattr(d, what)(v)) if what in ("log_prob", "cdf") else (lambda d, v: getattr(d, what)())
    if what in MOMENTS:
        call = lambda d, v: getattr(d, what)  # noqa: E731
    want, got = answer(lambda: call(theirs, x)), answer(lambda: call(ours, y))
    if want is NotImplementedError:
        # A formula that PyTorch lacks is no error.
        assert got is NotImplementedError or what in ("cdf", "entropy", "mode", "mean", "variance", "stddev")
    elif (case, what) == ("Kumaraswamy", "mode"):
        # PyTorch takes the logarithm of 1 - concentration0, which is NaN wherever there is a mode: ours is the peak.
        a, b = theirs.concentration1.double(), theirs.concentration0.double()
        equal(got, torch.where(a > 1, ((a - 1) / (a * b - 1)) ** (1 / a), math.nan).float())
    else:
        equal(got, want)


@pytest.mark.parametrize("case", CASES)
def test_shapes_and_text(case: str) -> None:
    """Shapes, the flags, the text and the support are PyTorch's, also of an expanded distribution."""
    theirs, ours, x, y = both(case)
    for a, b in ((theirs, ours), (theirs.expand((2, *theirs.batch_shape)), ours.expand((2, *ours.batch_shape)))):
        assert tuple(a.batch_shape) == tuple(b.batch_shape)
        assert tuple(a.event_shape) == tuple(b.event_shape)
        equal(b.log_prob(y), a.log_prob(x))
        assert tuple(b.sample((5,)).shape) == tuple(a.sample((5,)).shape)
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    assert ours.has_rsample == theirs.has_rsample
    assert ours.support.check(y).tolist() == theirs.support.check(x).tolist()
    assert ours.support.event_dim == theirs.support.event_dim
    # PyTorch keeps the parameters of some classes in another distribution, and then shows none.
    assert repr(ours) == repr(theirs) or repr(theirs).endswith("()")


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_log_prob(case: str) -> None:
    """The gradients of log_prob by every parameter are PyTorch's."""
    name, parameters, value = CASES[case]
    grads = []
    for lib in (torch, torchlette):
        tensors = {k: given(lib, v, True) for k, v in parameters.items()}
        leaves = [t for t in tensors.values() if isinstance(t, lib.Tensor)]
        if not leaves:
            return
        getattr(lib.distributions, name)(**tensors).log_prob(given(lib, value)).sum().backward()
        grads.append([t.grad for t in leaves])
    for want, got in zip(*grads, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in CASES
        if CASES[c][0]
        in "Normal HalfNormal LogNormal Uniform Exponential Laplace Cauchy Gumbel Weibull Pareto Kumaraswamy "
        "ContinuousBernoulli GeneralizedPareto".split()
    ],
)
def test_icdf_inverts_the_cdf(case: str) -> None:
    """``icdf`` is PyTorch's where it has one, and the inverse of ``cdf``."""
    theirs, ours, _, _ = both(case)
    u, v = given(torch, UNIT), given(torchlette, UNIT)
    want = answer(lambda: theirs.icdf(u))
    if want is not NotImplementedError:
        equal(ours.icdf(v), want, rtol=1e-4, atol=1e-4)
    equal(ours.cdf(ours.icdf(v)), u, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in CASES
        if CASES[c][0]
        not in "LKJCholesky Cauchy HalfCauchy LogisticNormal RelaxedBernoulli RelaxedOneHotCategorical Pareto "
        "GeneralizedPareto VonMises".split()
    ],
)
def test_draws_have_the_moments(case: str) -> None:
    """Means and variances of 20,000 draws are those of the distribution, to six standard errors."""
    torchlette.manual_seed(11)
    n = 20000
    theirs, ours, _, _ = both(case)
    drawn = ours.sample((n,))
    assert ours.support.check(drawn).all().item() or case == "Multinomial"
    if CASES[case][0] == "Categorical":
        drawn, theirs = (
            torchlette.nn.functional.one_hot(drawn, 4).float(),
            torch.distributions.OneHotCategorical(probs=theirs.probs),
        )
    values = drawn.double().numpy()
    mean, variance = theirs.mean.double().numpy(), theirs.variance.double().numpy()
    assert (np.abs(values.mean(0) - mean) < 6 * np.sqrt(variance / n) + 1e-7).all()
    fourth = ((values - values.mean(0)) ** 4).mean(0)
    assert (np.abs(values.var(0) - variance) < 6 * np.sqrt(fourth / n) + 1e-7).all()


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in CASES
        if CASES[c][0]
        in "Normal Laplace Gumbel LogNormal Uniform Exponential MultivariateNormal LowRankMultivariateNormal "
        "RelaxedBernoulli ContinuousBernoulli "
        "GeneralizedPareto".split()
    ],
)
def test_gradients_pass_through_draws(case: str) -> None:
    """``rsample`` is differentiable, ``sample`` is not."""
    ours = both(case, grad=True)[1]
    if not any(
        isinstance(t, torchlette.Tensor) and t.requires_grad
        for t in (given(torchlette, v, True) for v in CASES[case][1].values())
    ):
        return
    assert ours.rsample((3,)).requires_grad
    assert not ours.sample((3,)).requires_grad


def test_gradients_of_draws_by_location_and_scale() -> None:
    """A draw is loc + scale * noise: its gradients are 1 and the noise."""
    loc, scale = torchlette.zeros(5, requires_grad=True), torchlette.ones(5, requires_grad=True)
    x = torchlette.distributions.Normal(loc, scale).rsample()
    x.sum().backward()
    assert loc.grad.tolist() == [1.0] * 5
    assert scale.grad.tolist() == x.tolist()


@pytest.mark.parametrize("case", ["Gamma", "Beta", "Dirichlet", "StudentT", "FisherSnedecor"])
def test_draws_without_a_gradient_say_so(case: str) -> None:
    """Where the gradient by a concentration is not known, rsample raises and sample draws."""
    ours = both(case, grad=True)[1]
    with pytest.raises(NotImplementedError, match=r"sample\(\) with log_prob"):
        ours.rsample()
    assert not ours.sample().requires_grad


KL = ["Normal", "HalfNormal", "LogNormal", "Bernoulli", "Binomial", "Categorical", "OneHotCategorical", "Geometric", "Poisson", "Exponential",
      "Gamma", "Beta", "Dirichlet", "Laplace", "Cauchy", "Gumbel", "Pareto", "Uniform", "MultivariateNormal", "LowRankMultivariateNormal",
      "LogisticNormal"]  # fmt: skip


def other(name: str, value: Any) -> Any:
    """Return the parameter of a second distribution of the kind."""
    if not isinstance(value, np.ndarray):
        return value
    if name == "covariance_matrix":
        return value + np.eye(3, dtype=np.float32)
    return {"low": value - np.float32(0.5), "high": value + np.float32(0.5)}.get(name, value * np.float32(0.8))


@pytest.mark.parametrize("case", KL)
def test_divergences(case: str) -> None:
    """kl_divergence is PyTorch's, with its gradients."""
    name, parameters, _ = CASES[case]
    found = []
    for lib in (torch, torchlette):
        leaves = {k: given(lib, v, True) for k, v in parameters.items()}
        p = getattr(lib.distributions, name)(**leaves)
        q = getattr(lib.distributions, name)(**{k: given(lib, other(k, v)) for k, v in parameters.items()})
        kl = lib.distributions.kl_divergence(p, q)
        kl.sum().backward()
        found.append([kl, *(t.grad for t in leaves.values() if isinstance(t, lib.Tensor))])
    for want, got in zip(*found, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


def test_divergences_of_normal_vectors_of_both_kinds() -> None:
    """A covariance of low rank beside a full one; and its matrices."""
    found = []
    for lib in (torch, torchlette):
        d = lib.distributions
        thin = d.LowRankMultivariateNormal(given(lib, VECTORS), given(lib, THIN), given(lib, VECTORS**2 + 0.5))
        full = d.MultivariateNormal(given(lib, VECTORS), given(lib, COVARIANCE))
        found.append(
            [
                d.kl_divergence(thin, full),
                d.kl_divergence(full, thin),
                thin.covariance_matrix,
                thin.precision_matrix,
                thin.scale_tril,
            ]
        )
        for bad in (
            (VECTORS[0, 0], THIN, VECTORS),
            (VECTORS, THIN[0, 0], VECTORS),
            (VECTORS, THIN[:, :2], VECTORS),
            (VECTORS, THIN, VECTORS[:, :2]),
        ):
            with pytest.raises(ValueError):
                d.LowRankMultivariateNormal(*(given(lib, v) for v in bad))
    for want, got in zip(*found, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


def test_correlations_have_the_moments() -> None:
    """Each correlation of an LKJ distribution is 2 Beta(a, a) - 1 with a = concentration - 1 + dim / 2 (D. Lewandowski
    et al., 2009).
    """
    torchlette.manual_seed(5)
    n = 20000
    for dim, concentration in ((2, 1.0), (4, 0.5), (4, 3.0)):
        factors = torchlette.distributions.LKJCholesky(dim, concentration).sample((n,))
        r = (factors @ factors.mT).double().numpy()[:, *np.tril_indices(dim, -1)]
        variance = 1 / (2 * concentration + dim - 1)
        assert (np.abs(r.mean(0)) < 6 * np.sqrt(variance / n)).all()
        assert (np.abs((r**2).mean(0) - variance) < 6 * np.sqrt((r**4).mean(0) / n)).all()
    with pytest.raises(ValueError, match="greater than or equal to 2"):
        torchlette.distributions.LKJCholesky(1)


def test_angles_have_the_moments() -> None:
    """The mean of a von Mises draw as a number on the unit circle is (1 - variance) at the location, for small and
    large concentrations.
    """
    torchlette.manual_seed(3)
    n, k = 20000, np.array([1e-3, 0.3, 2.0, 50.0, 3000.0], np.float32)
    x = (
        torchlette.distributions.VonMises(torchlette.full((5,), 2.5), torchlette.tensor(k))
        .sample((n,))
        .double()
        .numpy()
    )
    assert (np.abs(x) <= np.pi + 1e-6).all()
    length = special.i1e(k.astype(float)) / special.i0e(k.astype(float))
    for part, want in ((np.cos(x - 2.5), length), (np.sin(x - 2.5), 0)):
        assert (np.abs(part.mean(0) - want) < 6 * part.std(0) / np.sqrt(n) + 1e-6).all()


def test_matrices_need_degrees_of_freedom() -> None:
    """A Wishart distribution of n x n matrices needs more than n - 1, and one matrix; its draws pass gradients to the
    matrix alone.
    """
    d = torchlette.distributions
    with pytest.raises(ValueError, match="greater than ndim - 1 = 2"):
        d.Wishart(2.0, torchlette.eye(3))
    with pytest.raises(ValueError, match="Exactly one"):
        d.Wishart(4.0)
    cov, df = torchlette.eye(3).requires_grad_(), torchlette.tensor(4.0, requires_grad=True)
    d.Wishart(4.0, cov).rsample((2,)).sum().backward()
    assert cov.grad.abs().sum().item() > 0
    with pytest.raises(NotImplementedError, match=r"sample\(\) with log_prob"):
        d.Wishart(df, cov.detach()).rsample()


def test_divergences_of_compounds() -> None:
    """Independent parts add up; Uniform from Normal has a formula; other pairs raise."""
    for lib, out in ((torch, []), (torchlette, [])):
        d = lib.distributions
        p = d.Independent(d.Normal(given(lib, REAL), given(lib, POSITIVE)), 1)
        q = d.Independent(d.Normal(lib.zeros(3, 2), lib.ones(3, 2)), 1)
        out += [
            d.kl_divergence(p, q),
            d.kl.kl_divergence(d.Uniform(lib.zeros(2), lib.ones(2)), d.Normal(0.5, 2.0)),
            p.log_prob(given(lib, REAL)),
            p.entropy(),
        ]
        with pytest.raises(NotImplementedError):
            d.kl_divergence(d.Normal(0.0, 1.0), d.Bernoulli(0.5))
        if lib is torch:
            wanted = out
    for want, got in zip(wanted, out, strict=True):
        equal(got, want)


def test_mixtures() -> None:
    """A mixture's density and moments are PyTorch's, and its draws come from every component."""
    made = []
    for lib in (torch, torchlette):
        d = lib.distributions
        weights = d.Categorical(given(lib, WEIGHTS))
        parts = d.Independent(d.Normal(given(lib, RNG_MEANS), given(lib, np.ones_like(RNG_MEANS))), 1)
        m = d.MixtureSameFamily(weights, parts)
        plain = d.MixtureSameFamily(weights, d.Normal(given(lib, RNG_MEANS[..., 0]), 1.0))
        made.append(
            [
                m.log_prob(given(lib, REAL)),
                m.mean,
                m.variance,
                plain.cdf(given(lib, REAL[:, 0])),
                plain.log_prob(given(lib, REAL[:, 0])),
            ]
        )
        assert tuple(m.sample((7,)).shape) == (7, 3, 2)
        assert tuple(plain.sample().shape) == (3,)
    for want, got in zip(*made, strict=True):
        equal(got, want)


RNG_MEANS = RNG.standard_normal((3, 4, 2)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("ExpTransform", (), REAL), ("SigmoidTransform", (), REAL), ("TanhTransform", (), REAL), ("SoftplusTransform", (), REAL),
        ("AffineTransform", (0.5, -2.0), REAL), ("PowerTransform", (2.0,), POSITIVE), ("StickBreakingTransform", (), REAL),
        ("ReshapeTransform", ((2,), (1, 2)), REAL),
    ],
)  # fmt: skip
def test_transforms(name: str, args: tuple[Any, ...], value: np.ndarray) -> None:
    """A transform, its inverse and its log determinant are PyTorch's."""
    results = []
    for lib in (torch, torchlette):
        t = getattr(lib.distributions, name)(*args)
        x = given(lib, value)
        y = t(x)
        results.append([y, t.inv(y), t.log_abs_det_jacobian(x, y), t.inv.log_abs_det_jacobian(y, x)])
        assert tuple(t.forward_shape(x.shape)) == tuple(y.shape)
        assert tuple(t.inverse_shape(y.shape)) == tuple(x.shape)
        assert (t.domain.event_dim, t.codomain.event_dim) == (
            getattr(torch.distributions, name)(*args).domain.event_dim,
            getattr(torch.distributions, name)(*args).codomain.event_dim,
        )
    for want, got in zip(*results, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-5)


def test_transformed_distributions() -> None:
    """Chains of transforms: the squashed policy of SAC, and a flow with a cache."""
    results = []
    for lib in (torch, torchlette):
        d = lib.distributions
        base = d.Normal(given(lib, REAL), given(lib, POSITIVE))
        squashed = d.TransformedDistribution(base, [d.TanhTransform(cache_size=1), d.AffineTransform(1.0, 2.0)])
        weights = d.TransformedDistribution(d.Independent(base, 1), [d.StickBreakingTransform()])
        falling = d.TransformedDistribution(base, d.AffineTransform(lib.zeros(2), -lib.ones(2)))
        y = squashed.transforms[1](squashed.transforms[0](given(lib, REAL)))
        results.append(
            [squashed.log_prob(y), squashed.cdf(y), falling.cdf(given(lib, REAL)), falling.icdf(given(lib, UNIT))]
        )
        w = weights.transforms[0](given(lib, REAL))
        results[-1] += [weights.log_prob(w), d.ComposeTransform(squashed.transforms).inv(y)]
        assert tuple(weights.event_shape) == (3,)
        assert tuple(squashed.rsample((4,)).shape) == (4, 3, 2)
        drawn = squashed.rsample()
        assert tuple(squashed.log_prob(drawn).shape) == (3, 2)
    for want, got in zip(*results, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["Bernoulli", "Categorical", "OneHotCategorical", "Binomial"])
@pytest.mark.parametrize("expand", [True, False])
def test_enumerate_support(case: str, expand: bool) -> None:
    """All values, along a new first dim."""
    theirs, ours, _, _ = both(case)
    equal(ours.enumerate_support(expand), theirs.enumerate_support(expand))


CONSTRAINTS = [
    "real",
    "positive",
    "nonnegative",
    "unit_interval",
    "simplex",
    "lower_cholesky",
    "real_vector",
    "greater_than",
    "less_than",
    "interval",
]


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("registry", ["transform_to", "biject_to"])
def test_transforms_to_constraints(name: str, registry: str) -> None:
    """Unconstrained numbers are taken to a region by PyTorch's transform."""
    if (name, registry) == ("lower_cholesky", "biject_to"):
        registry = "transform_to"  # PyTorch has only this one
    bounds = {"greater_than": (1.5,), "less_than": (1.5,), "interval": (-1.0, 2.0)}.get(name)
    results = []
    for lib in (torch, torchlette):
        constraint = getattr(lib.distributions.constraints, name)
        constraint = constraint if bounds is None else constraint(*bounds)
        x = given(lib, FACTOR if name == "lower_cholesky" else REAL)
        y = getattr(lib.distributions, registry)(constraint)(x)
        assert constraint.check(y).all().item()
        results.append(y)
    equal(results[1], results[0])


BAD = [
    lambda d, lib: d.Normal(0.0, -1.0), lambda d, lib: d.Normal(math.nan, 1.0), lambda d, lib: d.Bernoulli(probs=1.5),
    lambda d, lib: d.Bernoulli(probs=0.5, logits=0.0), lambda d, lib: d.Categorical(probs=lib.tensor([-1.0, 2.0])),
    lambda d, lib: d.Categorical(logits=lib.tensor(1.0)), lambda d, lib: d.Uniform(1.0, 0.0),
    lambda d, lib: d.Normal(0.0, 1.0).log_prob(lib.tensor(math.nan)), lambda d, lib: d.Bernoulli(0.5).log_prob(lib.tensor(2.0)),
    lambda d, lib: d.Normal(lib.zeros(3), 1.0).log_prob(lib.zeros(2)), lambda d, lib: d.Categorical(lib.ones(3)).log_prob(lib.tensor(3)),
    lambda d, lib: d.Exponential(1.0).log_prob(lib.tensor(-1.0)), lambda d, lib: d.Normal("a", 1.0),
    lambda d, lib: d.MultivariateNormal(lib.zeros(2), -lib.eye(2)), lambda d, lib: d.Independent(d.Normal(lib.zeros(3), 1.0), 2),
    lambda d, lib: d.Geometric(probs=0.0), lambda d, lib: d.Normal(0.0, 1.0).log_prob(0.5),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_arguments(number: int) -> None:
    """Bad parameters and values raise PyTorch's class."""
    torch.distributions.Distribution.set_default_validate_args(
        True
    )  # importing torch._dynamo turns PyTorch's checks off
    with pytest.raises(ValueError):  # noqa: PT011
        BAD[number](torch.distributions, torch)
    with pytest.raises(ValueError, match=r"\w{4}"):
        BAD[number](torchlette.distributions, torchlette)


def test_checks_can_be_turned_off() -> None:
    """Without checks a bad scale gives NaN."""
    assert math.isnan(
        torchlette.distributions.Normal(0.0, -1.0, validate_args=False).log_prob(torchlette.zeros(())).item()
    )
    torchlette.distributions.Distribution.set_default_validate_args(False)
    try:
        assert math.isnan(torchlette.distributions.Normal(0.0, -1.0).log_prob(torchlette.zeros(())).item())
    finally:
        torchlette.distributions.Distribution.set_default_validate_args(True)


def test_float64_and_numbers() -> None:
    """Numbers take the dtype of the tensor beside them; draws have the parameters' dtype."""
    d = torchlette.distributions.Normal(torchlette.zeros(2, dtype=torchlette.float64), 1.0)
    assert d.scale.dtype is d.sample().dtype is torchlette.float64
    assert (
        torchlette.distributions.Gamma(torchlette.ones(2, dtype=torchlette.float64), 2.0).sample().dtype
        is torchlette.float64
    )


def test_on_the_gpu(device: str) -> None:
    """A policy's loss and gradient on each device."""
    logits = torchlette.tensor(WEIGHTS, device=device, requires_grad=True)
    d = torchlette.distributions.Categorical(logits=logits)
    actions = d.sample()
    assert actions.device == logits.device
    (-d.log_prob(actions) - 0.01 * d.entropy()).sum().backward()
    t = torch.tensor(WEIGHTS, requires_grad=True)
    e = torch.distributions.Categorical(logits=t)
    (-e.log_prob(torch.tensor(actions.tolist())) - 0.01 * e.entropy()).sum().backward()
    torch.testing.assert_close(torch.tensor(logits.grad.cpu().numpy()), t.grad)
    gamma = torchlette.distributions.Gamma(torchlette.full((2000,), 2.5, device=device), 1.0).sample()
    assert abs(gamma.mean().item() - 2.5) < 0.25


def test_import_paths() -> None:
    """Each class is found where PyTorch has it."""
    import importlib

    for path in (
        "normal.Normal",
        "categorical.Categorical",
        "kl.kl_divergence",
        "multivariate_normal.MultivariateNormal",
        "lkj_cholesky.LKJCholesky",
        "independent.Independent",
    ):
        module, name = path.split(".")
        assert hasattr(torch.distributions, module)
        assert getattr(importlib.import_module(f"torchlette.torch.distributions.{module}"), name) is getattr(
            torchlette.distributions, name
        )
    assert facade.distributions.normal.Normal is facade.distributions.Normal is torchlette.distributions.Normal


@pytest.mark.parametrize("lib", [torch, torchlette])
def test_expand_of_classes_of_others(lib: Any) -> None:
    """``expand`` as PyTorch's own classes and libraries write it: an object is made first, and filled by the class or
    by its parent.
    """
    d = lib.distributions

    class Shifted(d.Distribution):
        arg_constraints = {"loc": d.constraints.real}

        def __init__(self, loc: Any) -> None:
            self.loc = loc
            super().__init__(loc.shape)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Shifted, _instance)
            new.loc = self.loc.expand(batch_shape)
            super(Shifted, new).__init__(batch_shape, validate_args=False)
            return new

    class Diagonal(d.Independent):
        def __init__(self, loc: Any) -> None:
            super().__init__(d.Normal(loc, lib.ones_like(loc)), 1)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Diagonal, _instance)
            assert super().expand(batch_shape, new) is new
            return new

    class Careless(Shifted):
        def __init__(self) -> None:
            super().__init__(lib.zeros(2))

    assert tuple(Shifted(lib.zeros(2)).expand((3, 2)).loc.shape) == (3, 2)
    wide = Diagonal(lib.zeros(2)).expand((3,))
    assert (type(wide), tuple(wide.batch_shape), tuple(wide.event_shape)) == (Diagonal, (3,), (2,))
    assert tuple(wide.log_prob(lib.zeros(2)).shape) == (3,)
    with pytest.raises(NotImplementedError, match="custom"):
        Careless().expand((3, 2))


def test_a_value_outside_is_shown_as_pytorch_shows_it() -> None:
    for lib in (torchlette.distributions, torch.distributions):
        with pytest.raises(ValueError, match=r"invalid values:\n-1\.0$"):
            lib.Normal(0.0, -1.0)
