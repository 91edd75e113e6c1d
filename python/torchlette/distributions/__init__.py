"""Probability distributions, after ``torch.distributions``.

As in PyTorch, parameters and values are checked. The checks read tensors and so wait for the device;
``validate_args=False`` or ``Distribution.set_default_validate_args(False)`` avoids this in training steps.
"""

from torchlette.distributions import (
    compound,
    constraint_registry,
    constraints,
    continuous,
    discrete,
    distribution,
    gamma,
    kl,
    kl_pairs,
    location_scale,
    multivariate,
    transformed,
    transforms,
    utils,
)
from torchlette.distributions.compound import *  # noqa: F403
from torchlette.distributions.constraint_registry import *  # noqa: F403
from torchlette.distributions.continuous import *  # noqa: F403
from torchlette.distributions.discrete import *  # noqa: F403
from torchlette.distributions.distribution import Distribution, ExponentialFamily
from torchlette.distributions.gamma import *  # noqa: F403
from torchlette.distributions.kl import kl_divergence, register_kl
from torchlette.distributions.location_scale import *  # noqa: F403
from torchlette.distributions.multivariate import *  # noqa: F403
from torchlette.distributions.transformed import *  # noqa: F403
from torchlette.distributions.transforms import *  # noqa: F403

__all__ = [  # noqa: PLE0604
    "Distribution",
    "ExponentialFamily",
    "constraints",
    "distribution",
    "kl",
    "kl_divergence",
    "kl_pairs",
    "register_kl",
    "utils",
    *compound.__all__,
    *constraint_registry.__all__,
    *continuous.__all__,
    *discrete.__all__,
    *gamma.__all__,
    *location_scale.__all__,
    *multivariate.__all__,
    *transformed.__all__,
    *transforms.__all__,
]
