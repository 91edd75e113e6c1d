"""A missing feature raises a class that programs expect, and the message names the alternative."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import torchlette.torch as facade


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: facade.jit.save(facade.nn.Linear(1, 1), "x"), NotImplementedError, "state_dict"),
        (lambda: facade.jit.freeze(facade.nn.Linear(1, 1)), NotImplementedError, "eval"),
        (lambda: facade.jit.load("x"), NotImplementedError, "load_state_dict"),
        (lambda: facade.distributed.init_process_group("gloo"), NotImplementedError, "without a launcher"),
        (lambda: facade.distributed.get_rank(), ValueError, "is_initialized"),
        (
            lambda: facade.nn.parallel.DistributedDataParallel(facade.nn.Linear(1, 1)),
            NotImplementedError,
            "the module itself",
        ),
        (lambda: facade.cuda.set_device(0), RuntimeError, "wgpu"),
        (lambda: facade.ones(1, device="cuda"), RuntimeError, "the GPU is the device 'wgpu'"),
        (lambda: facade.onnx.export(None, ()), NotImplementedError, "want a path"),
        (lambda: facade.cuda.Stream(), RuntimeError, "is_available"),
        (lambda: facade.cuda.device(0), RuntimeError, "is_available"),
        (lambda: facade.ops.load_library("x.so"), NotImplementedError, "cannot be loaded"),
        (lambda: facade.ops.mine.add, AttributeError, "custom_op"),
        (lambda: facade.library.register_autograd("a::b", len), NotImplementedError, "custom_op"),
        (lambda: facade.library.custom_op("a::b", len, mutates_args=("x",)), NotImplementedError, "new tensors"),
        (lambda: facade.library.custom_op("name", len, mutates_args=()), ValueError, "namespace::name"),
        (lambda: facade.imag(facade.ones(1)), TypeError, "non-complex"),
        (lambda: facade.ones(1).imag, TypeError, "non-complex"),
        (lambda: facade.nn.Linear(1, 1).to("cuda:0"), RuntimeError, "the GPU is the device 'wgpu'"),
        (lambda: facade.ones(1).cuda(), RuntimeError, "wgpu"),
        (lambda: facade.accelerator.current_device_index(), RuntimeError, "wgpu"),
        (lambda: facade.utils.data.DistributedSampler([1, 2]), RuntimeError, "num_replicas"),
        (lambda: importlib.import_module("torchlette.torch.utils.tensorboard"), ImportError, "tensorboardX"),
        (lambda: importlib.import_module("torchlette.torch.hub").load("a/b"), NotImplementedError, "fetch the file"),
        (
            lambda: importlib.import_module("torchlette.torch.utils.model_zoo").load_url("x"),
            NotImplementedError,
            "fetch the file",
        ),
        (
            lambda: importlib.import_module("torchlette.torch.utils.cpp_extension").load("x", ["x.cpp"]),
            NotImplementedError,
            "autograd.Function",
        ),
        (lambda: facade.cuda.FloatTensor(2), TypeError, "torch.FloatTensor"),
    ],
)
def test_refusals_say_what_to_do(call: Any, error: type[Exception], says: str) -> None:
    """A missing feature raises a class that programs expect, and the message names the alternative."""
    with pytest.raises(error, match=says):
        call()


def test_arrays_of_unknown_types_say_what_to_do() -> None:
    """There are no longer floats; a given dtype converts what there is."""
    with pytest.raises(TypeError, match="can't convert data of format"):
        facade.from_numpy(np.ones(2, dtype=np.longdouble))
    pixels = np.array([[0, 255]], dtype=np.uint64)
    assert facade.tensor(pixels, dtype=facade.float32).tolist() == [[0.0, 255.0]]
