"""A tensor library with PyTorch's semantics, on the CPU and on any GPU that WebGPU reaches.

``import torchlette`` keeps reads explicit: ``t.item()``, ``t.numpy()``, ``t.tolist()``; a tensor is never silently a
Python number. ``import torchlette.torch as torch`` is the same library for PyTorch scripts.
"""

from __future__ import annotations

import os as _os
from importlib import import_module as _import_module

from torchlette import _C
from torchlette._version import __version__
from torchlette.errors import *  # noqa: F403
from torchlette.errors import BY_CODE as _BY_CODE

# The typing module is imported by type checkers alone: it would be a sixth of the import's time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as _Any

_C._set_errors(_BY_CODE)
_C._set_package(_os.path.dirname(__file__) + _os.sep)

Tensor = _C.Tensor
Size = _C.Size
device = _C.device
dtype = _C.dtype

# The dtypes and their short names, also those that no tensor here has; "float", "int" and "bool" hide the built-ins, as
# in PyTorch.
globals().update({_name: _value for _name, _value in vars(_C).items() if type(_value) is dtype})
int8, int16, int32, int64 = _C.int8, _C.int16, _C.int32, _C.int64
uint8, uint32 = _C.uint8, _C.uint32
float16, bfloat16, float32, float64 = _C.float16, _C.bfloat16, _C.float32, _C.float64

tensor = _C.tensor
as_tensor = _C.as_tensor
asarray = _C.asarray
from_numpy = _C.from_numpy

# The operators that are functions; those of nn.functional and hidden ones are not.
_FUNCTION = 1
for _name, _places in _C._where.items():
    if _places & _FUNCTION and not _name.startswith(("_", "linalg_", "special_")):
        globals()[_name] = getattr(_C, _name)

from torchlette import return_types  # noqa: E402, F401
from torchlette._repr import get_printoptions, set_printoptions  # noqa: E402
from torchlette._selection import (
    argwhere,
    bincount,
    masked_select,
    nonzero,
    nonzero_static,
    unique,
    unique_consecutive,
    where,
)  # noqa: E402
from torchlette._shapes import *  # noqa: E402, F403
from torchlette._tensor import allclose, equal  # noqa: E402

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_C._after_fork)

from torchlette import autograd, random  # noqa: E402
from torchlette._api import *  # noqa: E402, F403
from torchlette._settings import *  # noqa: E402, F403
from torchlette.layouts import *  # noqa: E402, F403

# Imported when they are first used: half of the time that the whole package takes.
_LAZY = (
    "amp", "backends", "compiler", "distributed", "distributions", "fft", "func", "hub", "jit", "library", "linalg", "masked", "multiprocessing", "nn", "onnx",
    "optim", "profiler", "serialization", "signal", "special", "testing", "types", "utils",
)  # fmt: skip


# Names of this module that are made elsewhere, by where they are.
_ELSEWHERE = {
    **dict.fromkeys(("GradScaler", "autocast", "get_autocast_dtype", "is_autocast_enabled"), "amp"),
    **dict.fromkeys(
        ("clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
         "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype"), "amp.autocast_mode",
    ),
    "compile": "compiler",
    "vmap": "func",
    "einsum": "einstein",
    **dict.fromkeys(("pca_lowrank", "svd_lowrank"), "lowrank"),
    **dict.fromkeys(
        ("imag", "poisson", "range", "real", "_assert", "_assert_async", "_check", "_check_index", "_check_type", "_check_value", "_check_with",
         "_shape_as_tensor"), "legacy",
    ),
    **dict.fromkeys(
        ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "native_batch_norm", "native_group_norm", "native_layer_norm"), "native",
    ),
    "ops": "library",
    **dict.fromkeys(("ScriptFunction", "ScriptModule"), "jit"),
    **dict.fromkeys(("gradient", "histogram", "histogramdd", "unravel_index"), "_grid"),
    **dict.fromkeys(("block_diag", "chain_matmul", "lu", "spmm", "tensordot", "vander"), "products"),
    **dict.fromkeys(("load", "save"), "serialization"),
    "segment_reduce": "segments",
    **dict.fromkeys(("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"), "window_functions"),
    **dict.fromkeys(
        ("alpha_dropout", "bilinear", "channel_shuffle", "feature_alpha_dropout", "max_pool1d_with_indices", "pairwise_distance", "pdist",
         "pixel_shuffle", "pixel_unshuffle", "rrelu"), "nn.functional",
    ),
    **dict.fromkeys(("gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"), "nn.modules.rnn"),
}  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Import a part of the package that nothing has used yet."""
    if name in _LAZY:
        return _import_module(f"torchlette.{name}")
    if name in _ELSEWHERE:
        globals()[name] = getattr(_import_module(f"torchlette.{_ELSEWHERE[name]}"), name)
        return globals()[name]
    if name.startswith("_foreach_"):
        from torchlette.foreach import find

        if (found := find(name)) is not None:
            globals()[name] = found
            return found
    from torchlette import _refused

    raise _refused.attribute_error(name)


def __dir__() -> list[str]:
    """List the parts that are not imported yet too."""
    return sorted({*globals(), *_LAZY, *_ELSEWHERE})
