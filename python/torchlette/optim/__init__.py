"""Optimizers and learning rate schedules, as in ``torch.optim``."""

import importlib
from types import ModuleType

from torchlette._runtime import refused
from torchlette.optim import lr_scheduler
from torchlette.optim.adadelta import Adadelta
from torchlette.optim.adafactor import Adafactor
from torchlette.optim.adagrad import Adagrad
from torchlette.optim.adam import Adam, AdamW
from torchlette.optim.adamax import Adamax
from torchlette.optim.asgd import ASGD
from torchlette.optim.lbfgs import LBFGS
from torchlette.optim.muon import Muon
from torchlette.optim.nadam import NAdam
from torchlette.optim.optimizer import Optimizer
from torchlette.optim.radam import RAdam
from torchlette.optim.rmsprop import RMSprop
from torchlette.optim.rprop import Rprop
from torchlette.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]


def __getattr__(name: str) -> ModuleType:
    """Import ``swa_utils`` when it is first used: it needs ``torchlette.nn``."""
    if name == "swa_utils":
        return importlib.import_module("torchlette.optim.swa_utils")
    if name == "SparseAdam":
        raise AttributeError(
            f"module 'torchlette.optim' has no attribute {name!r}: {refused.FUNCTIONS['optim.SparseAdam']}"
        )
    raise AttributeError(f"module 'torchlette.optim' has no attribute {name!r}")
