"""Optimizers and learning rate schedules, as in ``torch.optim``."""

from torchlette.optim import lr_scheduler
from torchlette.optim.adam import Adam, AdamW
from torchlette.optim.optimizer import Optimizer
from torchlette.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
