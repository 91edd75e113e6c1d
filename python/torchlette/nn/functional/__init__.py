"""Functions of neural networks, with the signatures of ``torch.nn.functional``."""

from __future__ import annotations

from types import FunctionType

from torchlette.nn.functional import (
    activation,
    attention,
    conv_pool,
    dropouts,
    embeddings,
    linear_maps,
    loss,
    margin_loss,
    normalization,
    shuffle,
    vision,
)
from torchlette.nn.functional.activation import *  # noqa: F403
from torchlette.nn.functional.attention import *  # noqa: F403
from torchlette.nn.functional.conv_pool import *  # noqa: F403
from torchlette.nn.functional.dropouts import *  # noqa: F403
from torchlette.nn.functional.embeddings import *  # noqa: F403
from torchlette.nn.functional.linear_maps import *  # noqa: F403
from torchlette.nn.functional.loss import *  # noqa: F403
from torchlette.nn.functional.margin_loss import *  # noqa: F403
from torchlette.nn.functional.normalization import *  # noqa: F403
from torchlette.nn.functional.shuffle import *  # noqa: F403
from torchlette.nn.functional.vision import *  # noqa: F403

__all__ = [
    *activation.__all__,
    *attention.__all__,
    *conv_pool.__all__,
    *dropouts.__all__,
    *embeddings.__all__,
    *linear_maps.__all__,
    *loss.__all__,
    *margin_loss.__all__,
    *normalization.__all__,
    *shuffle.__all__,
    *vision.__all__,
]

# Pickles and messages name this module, as in PyTorch, not the file that defines the function.
for _name in __all__:
    if isinstance(_function := globals()[_name], FunctionType):
        _function.__module__ = __name__
