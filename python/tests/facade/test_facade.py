"""torchlette.torch takes every import form of PyTorch scripts, gives the same objects, and coerces as PyTorch."""

from __future__ import annotations

import heapq
import importlib
import math
import statistics
import subprocess
import sys

import pytest
import torchlette.torch.nn as nn
import torchlette.torch.nn.functional as F
from torchlette.torch.optim.lr_scheduler import StepLR
from torchlette.torch.utils.data import DataLoader

import torchlette
import torchlette.torch as torch
from torchlette.torch import optim


def test_modules_are_mirrors_with_the_same_objects():
    assert torch.nn is nn
    assert torch.nn.functional is F
    assert nn.functional is F
    assert torch.optim is optim
    assert nn.Linear is torchlette.nn.Linear
    assert F.cross_entropy is torchlette.nn.functional.cross_entropy
    assert DataLoader is torchlette.utils.data.DataLoader
    assert optim.lr_scheduler.StepLR is StepLR is torchlette.optim.lr_scheduler.StepLR
    assert torch.nn.utils.clip_grad_norm_ is torchlette.nn.utils.clip_grad_norm_
    assert torch.Tensor is torchlette.Tensor
    assert torch.float32 is torchlette.float32
    assert importlib.import_module("torchlette.torch.nn.modules.module").Module is nn.Module


@pytest.mark.parametrize("name", ["xyz", "nn.xyz", "torch"])
def test_unknown_modules(name):
    with pytest.raises(ImportError):
        importlib.import_module(f"torchlette.torch.{name}")


def test_unknown_attributes():
    with pytest.raises(AttributeError):
        torch.no_such_function  # noqa: B018


def test_names_that_scripts_use():
    for name in (
        "Tensor Size device dtype float32 float64 int64 bool tensor zeros ones randn manual_seed no_grad enable_grad "
        "inference_mode "
        "save load cat stack matmul einsum arange is_tensor set_default_dtype get_default_dtype finfo iinfo Generator "
        "nn optim autograd "
        "utils random cuda backends"
    ).split():
        assert hasattr(torch, name), name
    assert torch._C._log_api_usage_once("a library's class") is None


def test_a_library_can_ask_whether_a_transform_is_in_progress():
    seen = []

    def f(x):
        seen.append(torch._C._are_functorch_transforms_active())
        return (x * x).sum()

    x = torch.ones(3)
    f(x)
    torch.func.grad(f)(x)
    torch.func.vmap(f)(x)
    torch.func.jvp(f, (x,), (x,))
    f(x)
    assert seen == [False, True, True, True, False]


def test_tensors_of_the_facade_are_read_like_numbers():
    t = torch.ones(1) * 1.5
    assert float(t) == 1.5
    assert int(t) == 1
    assert bool(t)
    assert f"{t.sum():.2f}" == "1.50"
    assert [10, 20, 30][torch.tensor(2)] == 30


def test_no_cuda():
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert not torch.backends.mps.is_available()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert torch.zeros(1, device=device).device.type == "cpu"


def test_what_the_library_makes_for_a_script_is_read_like_numbers():
    # Code that does not know the facade may coerce: heapq and statistics, in C and in Python, stand for a logger or a
    # progress bar.
    made = [
        nn.Linear(1, 1).weight.detach().sum(),
        nn.BatchNorm1d(1).running_mean[0],
        next(iter(DataLoader([1.5, 2.5])))[0],
        torch.distributions.Normal(0.0, 1.0).sample(),
        torch.optim.swa_utils.AveragedModel(nn.Identity()).n_averaged,
    ]
    for t in made:
        assert t._door == 1
        assert heapq.nsmallest(1, [t])[0] is t
        assert math.isfinite(statistics.fmean([t, t]))


def test_the_other_door_in_the_same_process():
    """Code that did not import the facade keeps the explicit policy, whatever was imported elsewhere."""
    script = (
        "import sys, types, torchlette as tl\n"
        "other = types.ModuleType('other')\n"
        "exec('import torchlette.torch as torch\\ndef f():\\n    return torch.ones(1)\\ndef g(t):\\n    return "
        "float(t)', other.__dict__)\n"
        "assert other.g(other.f()) == 1.0\n"
        "assert float(other.f() * 2) == 2.0\n"
        "try:\n    float(tl.ones(1))\n"
        "except tl.TensorHostCoercionError as error:\n    assert '.item()' in str(error)\n"
        "else:\n    raise AssertionError('float(t) was read')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_import_is_light():
    """``import torchlette`` loads neither NumPy nor what few programs use, and few files of its own (`python -X
    importtime` tells the rest).
    """
    script = (
        "import sys\n"
        "import torchlette\n"
        "heavy = {'numpy', 'inspect', 'multiprocessing', 'zipfile', 'torchlette.nn', 'torchlette.optim'} & "
        "set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "own = sorted({v.__file__ for m, v in sys.modules.items() if m.startswith('torchlette.')})\n"
        "assert len(own) <= 25, own\n"
        "assert torchlette.nn.Linear(1, 1) is not None and torchlette.utils.data.DataLoader is not None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
