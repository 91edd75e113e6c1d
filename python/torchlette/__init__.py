"""A tensor library with PyTorch's semantics, on the CPU and on any GPU that WebGPU reaches.

``import torchlette`` keeps reads explicit: ``t.item()``, ``t.numpy()``, ``t.tolist()``; a tensor never becomes a Python
number by itself. ``import torchlette.torch as torch`` is the same library for PyTorch scripts.
"""

from __future__ import annotations

import os as _os
from importlib import import_module as _import_module

from torchlette import _C
from torchlette._runtime import import_paths as _import_paths
from torchlette._version import __version__

_import_paths.install()

from torchlette._runtime.errors import *  # noqa: E402, F403
from torchlette._runtime.errors import BY_CODE as _BY_CODE  # noqa: E402

# Only type checkers import typing: at run time it would add a sixth to the package's import time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as _Any

_C._set_errors(_BY_CODE)
_C._LinAlgError = _BY_CODE[18]  # type: ignore[attr-defined]  # PyTorch's other name
_C._set_package(_os.path.dirname(__file__) + _os.sep)

Tensor = _C.Tensor
Size = _C.Size
device = _C.device
dtype = _C.dtype

# The dtypes and their short names, including dtypes that tensors here cannot have. "float", "int" and "bool" shadow the
# built-ins, as in PyTorch.
globals().update({_name: _value for _name, _value in vars(_C).items() if type(_value) is dtype})

tensor = _C.tensor
as_tensor = _C.as_tensor
asarray = _C.asarray
from_numpy = _C.from_numpy

# The operators that are functions of this module; nn.functional's operators and hidden ones are left out.
_FUNCTION = 1
for _name, _places in _C._where.items():
    if _places & _FUNCTION and not _name.startswith(("_", "linalg_", "special_", "fft_")):
        globals()[_name] = getattr(_C, _name)

from torchlette._ops.indexing import (  # noqa: E402
    argwhere,
    bincount,
    masked_select,
    nonzero,
    nonzero_static,
    unique,
    unique_consecutive,
    where,
)
from torchlette._ops.shapes import *  # noqa: E402, F403
from torchlette._runtime import return_types  # noqa: E402, F401
from torchlette._runtime.repr import get_printoptions, set_printoptions  # noqa: E402
from torchlette._runtime.tensor_methods import allclose, equal  # noqa: E402

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_C._after_fork)

from torchlette import autograd  # noqa: E402
from torchlette._ops.memory_format import *  # noqa: E402, F403
from torchlette._runtime import random  # noqa: E402
from torchlette._runtime.api import *  # noqa: E402, F403
from torchlette._runtime.settings import *  # noqa: E402, F403

# Submodules imported at their first use: this halves the package's import time.
_LAZY_MODULES = (
    "__config__",
    "__future__",
    "_dynamo",
    "_tensor_str",
    "amp",
    "ao",
    "backends",
    "compiler",
    "distributed",
    "distributions",
    "export",
    "fft",
    "func",
    "functional",
    "futures",
    "fx",
    "generation",
    "hub",
    "io",
    "jit",
    "lax",
    "library",
    "linalg",
    "masked",
    "multiprocessing",
    "nn",
    "onnx",
    "optim",
    "overrides",
    "profiler",
    "quasirandom",
    "serialization",
    "signal",
    "special",
    "testing",
    "types",
    "utils",
    "viz",
)

# Names imported at their first use: name -> the module that defines it.
_LAZY_NAMES = {
    name: module
    for module, names in {
        "_compat.deprecated": "poisson range _assert _assert_async _check _check_index _check_type "
        "_check_value _check_with _shape_as_tensor",
        "_compat.loss_names": "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss "
        "kl_div margin_ranking_loss poisson_nll_loss triplet_margin_loss",
        "_compat.native_names": "binomial conv_tbc embedding_bag feature_dropout grid_sampler grid_sampler_2d "
        "grid_sampler_3d instance_norm is_conj is_inference is_neg native_batch_norm native_channel_shuffle "
        "native_dropout native_group_norm native_layer_norm",
        "_ops.einsum": "einsum",
        "_ops.hashing": "hash_tensor",
        "_ops.histogram": "gradient histogram histogramdd unravel_index",
        "_ops.linear_algebra": "block_diag chain_matmul lu pca_lowrank spmm svd_lowrank tensordot vander",
        "_ops.segment": "segment_reduce",
        "_ops.spectral": "istft stft",
        "_ops.storage": "UntypedStorage",
        "_ops.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
        "_higher_order_ops": "cond",
        "amp": "GradScaler autocast get_autocast_dtype is_autocast_enabled",
        "amp.autocast_mode": "clear_autocast_cache get_autocast_cpu_dtype get_autocast_gpu_dtype "
        "is_autocast_cache_enabled is_autocast_cpu_enabled set_autocast_cache_enabled set_autocast_cpu_dtype "
        "set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype",
        "compiler": "compile",
        "futures": "Future",
        "types": "SymBool SymFloat SymInt",
        "export": "TrainingSession",
        "func": "vmap",
        "generation.search": "generate",
        "io.torch_archive": "PyTorchFileReader",
        "jit": "ScriptFunction ScriptModule",
        "library": "ops",
        "nn.functional": "alpha_dropout bilinear channel_shuffle feature_alpha_dropout max_pool1d_with_indices "
        "pairwise_distance pdist pixel_shuffle pixel_unshuffle rrelu",
        "nn.modules.rnn": "gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell",
        "quantized": "quantize",
        "serialization": "load save",
        "session": "InferenceSession",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> _Any:
    """Import a submodule or name at its first use."""
    if name in _LAZY_MODULES:
        return _import_module(f"torchlette.{name}")
    if name in _LAZY_NAMES:
        globals()[name] = getattr(_import_module(f"torchlette.{_LAZY_NAMES[name]}"), name)
        return globals()[name]
    if name.startswith("_foreach_"):
        from torchlette._ops.foreach import find

        if (found := find(name)) is not None:
            globals()[name] = found
            return found
    from torchlette._runtime import refused

    raise refused.attribute_error(name)


def __dir__() -> list[str]:
    """List all names, including those that are imported at their first use."""
    return sorted({*globals(), *_LAZY_MODULES, *_LAZY_NAMES})
