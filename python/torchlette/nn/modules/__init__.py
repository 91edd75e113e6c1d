"""The modules of :mod:`torchlette.nn`."""

from torchlette.nn.modules import activation, container, distance, dropout, flatten, linear, loss, module, normalization, rnn, shuffle, sparse, transformer
from torchlette.nn.modules.activation import *  # noqa: F403
from torchlette.nn.modules.container import *  # noqa: F403
from torchlette.nn.modules.distance import *  # noqa: F403
from torchlette.nn.modules.dropout import *  # noqa: F403
from torchlette.nn.modules.flatten import *  # noqa: F403
from torchlette.nn.modules.linear import *  # noqa: F403
from torchlette.nn.modules.loss import *  # noqa: F403
from torchlette.nn.modules.module import *  # noqa: F403
from torchlette.nn.modules.normalization import *  # noqa: F403
from torchlette.nn.modules.rnn import *  # noqa: F403
from torchlette.nn.modules.shuffle import *  # noqa: F403
from torchlette.nn.modules.sparse import *  # noqa: F403
from torchlette.nn.modules.transformer import *  # noqa: F403

__all__ = [
    name
    for family in (activation, container, distance, dropout, flatten, linear, loss, module, normalization, rnn, shuffle, sparse, transformer)
    for name in family.__all__  # noqa: PLE0605
]
