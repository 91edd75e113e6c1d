"""Neural networks: modules, parameters, functions and initialisers, as in ``torch.nn``."""

from torchlette.nn import functional, init, modules, parameter, utils
from torchlette.nn.modules import *  # noqa: F403
from torchlette.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils", *modules.__all__]
