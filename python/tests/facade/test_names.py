"""PyTorch's internal names that programs import, and its early names, exist."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade


def test_first_names_of_tensors() -> None:
    """FloatTensor and its kin make what PyTorch's make, and name dtypes for ``type`` and ``isinstance``."""
    data = np.array([[1.5, 2.5]])
    for lib in (torch, facade):
        assert lib.FloatTensor(data).dtype is lib.float32
        assert lib.LongTensor([1, 2]).tolist() == [1, 2]
        assert tuple(lib.DoubleTensor(2, 3).shape) == (2, 3)
        assert tuple(lib.FloatTensor(lib.Size([4])).shape) == (4,)
        assert lib.FloatTensor().numel() == 0
        assert isinstance(lib.ones(1), lib.FloatTensor)
        assert not isinstance(lib.ones(1), lib.LongTensor)
        assert lib.ones(1).type(lib.LongTensor).dtype is lib.int64
        assert lib.FloatTensor(2, 2).fill_(1.0).sum() == 4
        with pytest.raises(TypeError):
            lib.LongTensor(lib.ones(1))
        lib.set_default_tensor_type(lib.DoubleTensor)
        assert lib.ones(1).dtype is lib.float64
        lib.set_default_tensor_type("torch.FloatTensor")
        assert lib.ones(1).dtype is lib.float32


def test_early_names() -> None:
    """Functions that PyTorch keeps from its early days."""
    for arguments in ((1, 4), (0, 1, 0.25), (3, 0, -1), (0, 5)):
        with pytest.warns(UserWarning, match="deprecated"):
            assert facade.range(*arguments).tolist() == torch.range(*arguments).tolist()
    x = facade.ones(2)
    assert x.real is x
    assert facade.real(x) is x
    assert facade.where(facade.tensor([[True, False], [True, True]]))[0].tolist() == [0, 1, 1]
    assert facade._shape_as_tensor(facade.ones(2, 3)).tolist() == [2, 3]
    facade.manual_seed(0)
    assert abs(facade.poisson(facade.full((4000,), 3.0)).mean().item() - 3.0) < 0.15
    for lib in (torch, facade):
        with pytest.raises(AssertionError, match="no"):
            lib._assert(False, "no")
        with pytest.raises(RuntimeError, match="why"):
            lib._check(False, lambda: "why")
        lib._assert_async(lib.tensor(True), "never")
        with pytest.raises(RuntimeError, match="so"):
            lib._assert_async(lib.tensor(False), "so")


PRIVATE = [
    "nn.modules.conv._ConvNd",
    "nn.modules.conv._ConvTransposeNd",
    "nn.modules.batchnorm._NormBase",
    "nn.modules.pooling._MaxPoolNd",
    "nn.init._calculate_fan_in_and_fan_out",
    "nn.init._calculate_correct_fan",
    "nn.common_types._size_2_t",
    "types.Number",
    "utils.data._utils.collate.default_collate",
    "autograd.variable.Variable",
    "optim.adamw.AdamW",
    "optim.lr_scheduler._LRScheduler",
    # fmt: skip
    "distributions.constraint_registry.biject_to",
    "amp.autocast_mode.autocast",
    "nn.parallel.distributed.DistributedDataParallel",
]


@pytest.mark.parametrize("path", PRIVATE)
def test_names_that_programs_import(path: str) -> None:
    """Names inside of PyTorch that programs import all the same."""
    module, name = path.rsplit(".", 1)
    assert hasattr(importlib.import_module(f"torch.{module}"), name)
    assert hasattr(importlib.import_module(f"torchlette.torch.{module}"), name)


def test_names_that_subclasses_use() -> None:
    """The base of older schedules, and a convolution with a weight made by a subclass."""
    assert facade.optim.lr_scheduler._LRScheduler is facade.optim.lr_scheduler.LRScheduler
    assert not isinstance(facade.ones(1), facade.cuda.FloatTensor)
    results = []
    for lib in (torch, facade):

        class Standardised(lib.nn.Conv2d):  # type: ignore[name-defined, misc]
            def forward(self, x: Any) -> Any:
                return self._conv_forward(x, self.weight * 0 + 0.5, self.bias * 0)

        results.append(
            Standardised(2, 3, 3, padding=1, padding_mode="reflect")(lib.arange(32.0).reshape(1, 2, 4, 4)).tolist()
        )
    assert results[0] == results[1]


def test_the_old_names_of_modules() -> None:
    """Modules that PyTorch divides differently are found under its names."""
    for path, name in (
        ("nn.modules.instancenorm", "InstanceNorm2d"),
        ("nn.modules.pixelshuffle", "PixelShuffle"),
        ("nn.modules.fold", "Fold"),
    ):
        assert hasattr(importlib.import_module(f"torch.{path}"), name)
        assert getattr(importlib.import_module(f"torchlette.torch.{path}"), name) is getattr(torchlette.nn, name)
    assert facade.nn.modules.utils._pair(3) == torch.nn.modules.utils._pair(3)
    assert facade.nn.modules.utils._reverse_repeat_tuple((1, 2), 2) == torch.nn.modules.utils._reverse_repeat_tuple(
        (1, 2), 2
    )


def test_spmm_of_dense_matrices() -> None:
    """The name under which graph networks call the product."""
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    assert (
        facade.spmm(facade.tensor(a), facade.tensor(b)).tolist()
        == torch.spmm(torch.tensor(a), torch.tensor(b)).tolist()
    )
