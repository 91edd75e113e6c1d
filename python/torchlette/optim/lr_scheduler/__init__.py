"""Learning rate schedules.

A schedule multiplies the current rate (the chained form), so schedules compose. ``step(epoch)`` uses the closed form,
if the schedule has one.
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

# The former name of the base class, for older programs.
_LRScheduler = LRScheduler

# Pickles name this module, not the file that defines the class.
for _name in __all__:
    globals()[_name].__module__ = __name__
