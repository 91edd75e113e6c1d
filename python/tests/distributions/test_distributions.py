"""Distributions have PyTorch's densities, gradients, moments, draws and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from distribution_cases import (
    CASES,
    MEANS,
    MOMENTS,
    REAL,
    UNIT,
    WEIGHTS,
    answer,
    both,
    equal,
    given,
)
from scipy import special

import torchlette
import torchlette.torch as facade


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


def test_mixtures() -> None:
    """A mixture's density and moments are PyTorch's, and its draws come from every component."""
    made = []
    for lib in (torch, torchlette):
        d = lib.distributions
        weights = d.Categorical(given(lib, WEIGHTS))
        parts = d.Independent(d.Normal(given(lib, MEANS), given(lib, np.ones_like(MEANS))), 1)
        m = d.MixtureSameFamily(weights, parts)
        plain = d.MixtureSameFamily(weights, d.Normal(given(lib, MEANS[..., 0]), 1.0))
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


@pytest.mark.parametrize("case", ["Bernoulli", "Categorical", "OneHotCategorical", "Binomial"])
@pytest.mark.parametrize("expand", [True, False])
def test_enumerate_support(case: str, expand: bool) -> None:
    """All values, along a new first dim."""
    theirs, ours, _, _ = both(case)
    equal(ours.enumerate_support(expand), theirs.enumerate_support(expand))


BAD = [
    lambda d, lib: d.Normal(0.0, -1.0),
    lambda d, lib: d.Normal(math.nan, 1.0),
    lambda d, lib: d.Bernoulli(probs=1.5),
    lambda d, lib: d.Bernoulli(probs=0.5, logits=0.0),
    lambda d, lib: d.Categorical(probs=lib.tensor([-1.0, 2.0])),
    lambda d, lib: d.Categorical(logits=lib.tensor(1.0)),
    lambda d, lib: d.Uniform(1.0, 0.0),
    lambda d, lib: d.Normal(0.0, 1.0).log_prob(lib.tensor(math.nan)),
    lambda d, lib: d.Bernoulli(0.5).log_prob(lib.tensor(2.0)),
    lambda d, lib: d.Normal(lib.zeros(3), 1.0).log_prob(lib.zeros(2)),
    lambda d, lib: d.Categorical(lib.ones(3)).log_prob(lib.tensor(3)),
    lambda d, lib: d.Exponential(1.0).log_prob(lib.tensor(-1.0)),
    lambda d, lib: d.Normal("a", 1.0),
    lambda d, lib: d.MultivariateNormal(lib.zeros(2), -lib.eye(2)),
    lambda d, lib: d.Independent(d.Normal(lib.zeros(3), 1.0), 2),
    lambda d, lib: d.Geometric(probs=0.0),
    lambda d, lib: d.Normal(0.0, 1.0).log_prob(0.5),
]


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
