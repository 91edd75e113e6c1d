"""The modules of :mod:`torchlette.nn`."""

from torchlette.nn.modules import (
    activation,
    adaptive,
    batchnorm,
    container,
    conv,
    distance,
    dropout,
    flatten,
    lazy,
    linear,
    loss,
    module,
    normalization,
    padding,
    pooling,
    rnn,
    shuffle,
    sparse,
    transformer,
    upsampling,
    utils,  # noqa: F401  (its names are private, but programs import them)
)
from torchlette.nn.modules.activation import *  # noqa: F403
from torchlette.nn.modules.adaptive import *  # noqa: F403
from torchlette.nn.modules.batchnorm import *  # noqa: F403
from torchlette.nn.modules.container import *  # noqa: F403
from torchlette.nn.modules.conv import *  # noqa: F403
from torchlette.nn.modules.distance import *  # noqa: F403
from torchlette.nn.modules.dropout import *  # noqa: F403
from torchlette.nn.modules.flatten import *  # noqa: F403
from torchlette.nn.modules.lazy import *  # noqa: F403
from torchlette.nn.modules.linear import *  # noqa: F403
from torchlette.nn.modules.loss import *  # noqa: F403
from torchlette.nn.modules.module import *  # noqa: F403
from torchlette.nn.modules.normalization import *  # noqa: F403
from torchlette.nn.modules.padding import *  # noqa: F403
from torchlette.nn.modules.pooling import *  # noqa: F403
from torchlette.nn.modules.rnn import *  # noqa: F403
from torchlette.nn.modules.shuffle import *  # noqa: F403
from torchlette.nn.modules.sparse import *  # noqa: F403
from torchlette.nn.modules.transformer import *  # noqa: F403
from torchlette.nn.modules.upsampling import *  # noqa: F403

_FAMILIES = (
    activation,
    adaptive,
    batchnorm,
    container,
    conv,
    distance,
    dropout,
    flatten,
    lazy,
    linear,
    loss,
    module,
    normalization,
    padding,
    pooling,
    rnn,
    shuffle,
    sparse,
    transformer,
    upsampling,
)

__all__ = [name for family in _FAMILIES for name in family.__all__]  # noqa: PLE0605
