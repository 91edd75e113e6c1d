"""Names that packages written for PyTorch use at their import, with PyTorch's meaning."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchlette.torch as facade


@pytest.mark.parametrize("lib", [torch, facade])
def test_names_of_modules(lib: Any) -> None:
    """They have PyTorch's values, without an import of their module where PyTorch needs none."""
    assert "\n" in lib.__config__.show() and "threads" in lib.__config__.parallel_info().lower()
    assert lib.nn.modules.module._EXTRA_STATE_KEY_SUFFIX == "_extra_state"
    keys = lib.nn.modules.module._IncompatibleKeys(["a"], [])
    assert keys.missing_keys == ["a"] and keys.unexpected_keys == []
    device, dtype, non_blocking, memory_format = lib._C._nn._parse_to("cpu", lib.float64, non_blocking=True)
    assert (str(device), dtype, non_blocking, memory_format) == ("cpu", lib.float64, True, None)
    assert lib._C._nn._parse_to(lib.float16)[:2] == (None, lib.float16)
    assert str(lib.sparse_csr) == "torch.sparse_csr" and lib.sparse_csr != lib.strided
    lib._C._log_api_usage_once("event")


@pytest.mark.parametrize("lib", [torch, facade])
def test_names_of_the_compiler(lib: Any) -> None:
    """Modules are not mistaken for compiled ones; the context for indices inside of vmap indexes."""
    import importlib

    importlib.import_module(f"{lib.__name__}._dynamo")
    assert not isinstance(lib.nn.Linear(1, 1), lib._dynamo.eval_frame.OptimizedModule)
    module = importlib.import_module(f"{lib.__name__}._dynamo._trace_wrapped_higher_order_op")
    x = lib.arange(6.0).reshape(2, 3)
    with module.TransformGetItemToIndex():
        got = lib.func.vmap(lambda i: x[i])(lib.tensor([1, 0]))
    assert got.tolist() == [[3, 4, 5], [0, 1, 2]]


def test_names_without_their_feature() -> None:
    """No tensor is distributed, and compiled operators do not load, with the class of PyTorch's error."""
    from torchlette.torch.distributed.tensor import DTensor
    from torchlette.torch.distributions.wishart import Wishart

    assert not isinstance(facade.ones(1), DTensor) and Wishart is facade.distributions.Wishart
    for make in (DTensor, facade.distributed.device_mesh.DeviceMesh, facade.distributed.device_mesh.init_device_mesh):
        with pytest.raises(NotImplementedError, match="one device"):
            make(facade.ones(1))
    with pytest.raises(OSError, match="cannot be loaded"):
        facade.ops.load_library("x.so")
