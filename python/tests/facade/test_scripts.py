"""The environment of PyTorch models works or does nothing: wrappers, compilers, switches, weights."""

from __future__ import annotations

import importlib
import io
from typing import Any

import numpy as np
import pytest
import torch

import torchlette.torch as facade


def test_autocast() -> None:
    """Off where PyTorch's is; test_autocast.py has where it casts."""
    with facade.autocast("cpu", enabled=False):
        assert (facade.ones(2, 2) @ facade.ones(2, 2)).dtype is facade.float32
    with pytest.warns(UserWarning, match="CUDA"), facade.cuda.amp.autocast():
        assert facade.ones(2).dtype is facade.float32
    assert facade.amp.autocast("cpu", enabled=False)(lambda x: x + 1)(1) == 2
    with pytest.raises(ValueError, match="device_type"):
        facade.autocast(3)


def test_devices_as_contexts() -> None:
    """``with torch.device(...)`` sets the default device of a block, nested ones too."""
    with facade.device("wgpu"):
        with facade.device("cpu"):
            assert facade.ones(1).device.type == "cpu"
        assert facade.get_default_device().type == "wgpu"
    assert facade.get_default_device().type == "cpu"


def test_data_parallel() -> None:
    """Without CUDA it calls its module; the keys have PyTorch's prefix, which can be taken off."""
    for lib in (torch, facade):
        wrapped = lib.nn.DataParallel(lib.nn.Linear(2, 1))
        state = wrapped.state_dict()
        assert list(state) == ["module.weight", "module.bias"]
        assert tuple(wrapped(lib.ones(3, 2)).shape) == (3, 1)
        lib.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        lib.nn.Linear(2, 1).load_state_dict(state)


def test_script_and_trace_are_the_function() -> None:
    """Decorated functions, classes and traced modules run as they are."""
    layer = facade.nn.Linear(1, 1)
    assert facade.jit.script(layer) is layer
    assert facade.jit.trace(layer, facade.ones(1, 1)) is layer

    @facade.jit.script
    def double(x: Any) -> Any:
        return x * 2

    class Scripted(facade.jit.ScriptModule):
        @facade.jit.script_method
        def forward(self, x: Any) -> Any:
            return double(x)

    assert Scripted()(facade.ones(2)).tolist() == [2, 2]
    assert importlib.import_module("torchlette.torch.jit.annotations").List is not None


def custom_square(lib: Any) -> Any:
    """Register an operator under the library's name."""

    def square(x: Any, factor: float = 1.0) -> Any:
        return x * x * factor

    square.__annotations__ = {"x": lib.Tensor, "factor": float, "return": lib.Tensor}
    return lib.library.custom_op(f"{lib.__name__.replace('.', '_')}::square", square, mutates_args=())


def test_custom_operators() -> None:
    """Values, lookup by name, refusal without a gradient, and the registered gradient."""
    for lib in (torch, facade):
        square = custom_square(lib)
        square.register_fake(lambda x, factor=1.0, lib=lib: lib.empty_like(x))
        named = getattr(lib.ops, lib.__name__.replace(".", "_")).square
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        assert named(x, factor=3.0).tolist() == [3.0, 12.0]
        with pytest.raises(RuntimeError, match="no autograd formula was registered"):
            square(x).sum().backward()

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])
            ctx.factor = inputs[1]

        square.register_autograd(
            lambda ctx, grad: (2 * ctx.saved_tensors[0] * ctx.factor * grad, None), setup_context=keep
        )
        named(x, 3.0).sum().backward()
        assert x.grad.tolist() == [6.0, 12.0]


def test_weights_from_the_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the hub's folder is loaded; the error for a missing file names it."""
    hub = importlib.import_module("torchlette.torch.hub")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub") == torch.hub.get_dir()
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    torch.save({"w": torch.arange(3.0)}, tmp_path / "hub" / "checkpoints" / "net-0123.pth")
    assert hub.load_state_dict_from_url("https://nowhere/net-0123.pth")["w"].tolist() == [0, 1, 2]
    with pytest.raises(NotImplementedError, match="other.pth"):
        hub.load_state_dict_from_url("https://nowhere/other.pth")
    monkeypatch.setattr(importlib.import_module("torchlette.hub"), "_dir", None)
    hub.set_dir(str(tmp_path))
    assert hub.get_dir() == str(tmp_path)


def test_groups_of_tensors() -> None:
    """The grouping that third-party optimizers call: parallel lists, split by dtype."""
    for lib in (torch, facade):
        a, b = lib.ones(2), lib.ones(2, dtype=lib.float64)
        groups = lib.optim.Optimizer._group_tensors_by_device_and_dtype([[a, b, a], [b, b, b], []], with_indices=True)
        seen = {key[1]: ([len(part) for part in parts], list(places)) for key, (parts, places) in groups.items()}
        assert seen == {lib.float32: ([2, 2, 0], [0, 2]), lib.float64: ([1, 1, 0], [1])}
        assert [name for name, _ in lib.nn.Linear(2, 1)._named_members(lambda module: module._parameters.items())] == [
            "weight",
            "bias",
        ]
        assert [tuple(t.shape) for t in lib.split(lib.ones(4, 2), split_size_or_sections=[1, 3], dim=0)] == [
            (1, 2),
            (3, 2),
        ]


def test_switches() -> None:
    """Hardware queries return answers, and switches can be set."""
    cudnn = importlib.import_module("torchlette.torch.backends.cudnn")
    cudnn.benchmark = cudnn.deterministic = True
    facade.backends.cuda.matmul.allow_tf32 = True
    assert not facade.backends.mps.is_available()
    assert not facade.accelerator.is_available()
    assert not facade.cuda.is_bf16_supported()
    assert facade.cuda.max_memory_allocated() == 0
    facade.cuda.reset_peak_memory_stats()
    assert not facade.distributed.is_available()
    assert not facade.jit.is_scripting()
    assert facade.version.cuda is None
    assert not facade.onnx.is_in_onnx_export()
    for other in (facade.xpu, facade.mps):
        assert not other.is_available()
        assert other.device_count() == 0
        other.empty_cache()
    assert facade.mps.current_allocated_memory() == 0
    draw = importlib.import_module("torchlette.torch.distributions.utils")._standard_normal(
        (2, 3), facade.float64, "cpu"
    )
    assert (tuple(draw.shape), draw.dtype) == ((2, 3), facade.float64)
    assert facade.__version__.split(".")[0] == "2"
    assert facade.backends.cuda.flash_sdp_enabled()
    with facade.backends.cuda.sdp_kernel(enable_math=False), facade.cuda.stream(None), facade.cuda.device(-1):
        assert not facade.is_autocast_cpu_enabled()
    with facade.serialization.safe_globals([dict]):
        buffer = io.BytesIO()
        facade.save({"loss": np.float64(0.5)}, buffer, _use_new_zipfile_serialization=False)
        buffer.seek(0)
        assert facade.load(buffer, weights_only=False) == {"loss": 0.5}
