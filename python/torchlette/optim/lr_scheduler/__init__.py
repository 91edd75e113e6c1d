"""Learning rate schedules.

A schedule multiplies the rate it finds (the chained form), so that schedules compose; where
``step`` is given an epoch, the closed form is used if there is one.
"""

from torchlette.optim.lr_scheduler.base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from torchlette.optim.lr_scheduler.base import LRScheduler
from torchlette.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from torchlette.optim.lr_scheduler.cyclic import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from torchlette.optim.lr_scheduler.decay import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from torchlette.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

# Its name in older programs, which derive their schedules from it.
_LRScheduler = LRScheduler

# Pickles name this module, whatever file a class is in.
for _name in __all__:
    globals()[_name].__module__ = __name__
