"""Neural networks: modules, parameters, functions and initialisers, as in ``torch.nn``."""

from torchlette.nn import attention, functional, grad, init, modules, parallel, parameter, utils
from torchlette.nn.modules import *  # noqa: F403
from torchlette.nn.parallel import DataParallel
from torchlette.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
    *modules.__all__,
]
