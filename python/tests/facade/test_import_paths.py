"""Modules have PyTorch's import paths wherever their files are, and one object; pickles and messages name that path."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

import torchlette
from torchlette._runtime.import_paths import FOLDERS, FORMER
from torchlette.torch._import_hook import OWN_NAMES


@pytest.mark.parametrize("name", FOLDERS)
def test_a_public_module_has_one_object_under_both_names(name: str) -> None:
    public = importlib.import_module(f"torchlette.{name}")
    inside = importlib.import_module(f"torchlette.{FOLDERS[name]}.{name.rpartition('.')[2]}")
    assert public is inside
    assert public.__name__ == f"torchlette.{name}"
    assert f"/{FOLDERS[name]}/" in str(public.__file__).replace("\\", "/")


@pytest.mark.parametrize("first", ["torchlette.hub", "torchlette._compat.hub"])
def test_either_name_may_be_imported_first(first: str) -> None:
    script = (
        f"import {first}, sys, torchlette, torchlette.hub, torchlette._compat.hub as inside\n"
        "assert torchlette.hub is inside is sys.modules['torchlette.hub']\n"
        "from torchlette.hub import load_state_dict_from_url as f\n"
        "assert f.__module__ == 'torchlette.hub', f.__module__\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_own_names_of_the_facade_do_not_depend_on_what_was_used_before() -> None:
    script = (
        "import torchlette; core = torchlette.save; import torchlette.torch as facade; assert facade.save is not core"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_modules_inside_of_a_public_package_have_one_object() -> None:
    public = importlib.import_module("torchlette.jit.annotations")
    assert importlib.import_module("torchlette._compat.jit.annotations") is public


@pytest.mark.parametrize("name", FOLDERS)
def test_the_facade_mirrors_public_paths(name: str) -> None:
    mirror = importlib.import_module(f"torchlette.torch.{name}")
    original = importlib.import_module(f"torchlette.{name}")
    for public in getattr(original, "__all__", ()):
        assert (getattr(mirror, public) is getattr(original, public)) == (OWN_NAMES.get(public) != name)


@pytest.mark.parametrize("name", FORMER)
def test_former_names_give_the_module_of_today(name: str) -> None:
    assert importlib.import_module(f"torchlette.{name}") is importlib.import_module(f"torchlette.{FORMER[name]}")


def test_an_unknown_module_is_not_found() -> None:
    for name in ("torchlette.nothing", "torchlette._compat.nothing", "torchlette.torch.nothing"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("torchlette", "memory_format"),
        ("torchlette.distributions.location_scale", "Normal"),
        ("torchlette.dtypes", "finfo"),
        ("torchlette.errors", "OutOfMemoryError"),
        ("torchlette.func", "vmap"),
        ("torchlette.nn.functional", "batch_norm"),
        ("torchlette.nn.functional", "relu"),
        ("torchlette.nn.modules.linear", "Linear"),
        ("torchlette.optim.adam", "AdamW"),
        ("torchlette.optim.lr_scheduler", "OneCycleLR"),
        ("torchlette.optim.lr_scheduler", "StepLR"),
        ("torchlette.random", "Generator"),
    ],
)
def test_classes_and_functions_name_their_public_module(path: str, name: str) -> None:
    value = getattr(importlib.import_module(path), name)
    assert (value.__module__, value.__qualname__) == (path, name)
    assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("torchlette._tensor", "_rebuild"),
        ("torchlette.layouts", "memory_format"),
        ("torchlette.nn.window_functions", "max_pool2d"),
        ("torchlette.products", "tensordot"),
        ("torchlette.window_functions", "hann_window"),
    ],
)
def test_pickles_with_former_names_load(path: str, name: str) -> None:
    loaded = pickle.loads(f"c{path}\n{name}\n.".encode())
    assert loaded is getattr(importlib.import_module(f"torchlette.{FORMER[path.partition('.')[2]]}"), name)


def test_modules_optimizers_and_schedules_survive_pickling() -> None:
    net = torchlette.nn.Sequential(torchlette.nn.Linear(2, 3), torchlette.nn.ReLU(), torchlette.nn.BatchNorm1d(3))
    optimizer = torchlette.optim.AdamW(net.parameters(), lr=0.1)
    schedule = torchlette.optim.lr_scheduler.StepLR(optimizer, 2)
    net(torchlette.ones(4, 2)).sum().backward()
    optimizer.step()
    schedule.step()
    net2, state, schedule_state = pickle.loads(pickle.dumps((net, optimizer.state_dict(), schedule.state_dict())))
    assert [p.tolist() for p in net2.parameters()] == [p.tolist() for p in net.parameters()]
    assert state["param_groups"] == optimizer.state_dict()["param_groups"]
    assert schedule_state == schedule.state_dict()


@pytest.mark.parametrize("path", ["torchlette.torch", "torch"])
def test_importing_a_module_leaves_a_function_of_its_name_to_the_package(path: str) -> None:
    script = (
        "import torchlette.as_torch\n"
        "torchlette.as_torch.activate()\n"
        f"import {path} as torch\n"
        f"from {path}.autograd.gradcheck import gradgradcheck\n"
        "assert torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize("name", ["cudnn", "mkldnn"])
def test_switches_of_a_back_end_are_a_context_and_a_decorator(name: str) -> None:
    import torchlette.torch as torch

    flags = getattr(torch.backends, name).flags

    @flags(enabled=True)
    def two() -> int:
        return 2

    with flags(enabled=False):
        assert two() + two() == 4
