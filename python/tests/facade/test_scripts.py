"""What PyTorch programs touch around their models: loss scaling, wrappers, first names of tensors, switches, refusals."""

from __future__ import annotations

import importlib
import io
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from oracle import to_torch

import torchlette
import torchlette.torch as facade


def trained(lib: Any, poison: int | None, growth_interval: int) -> list[Any]:
    """Train a layer with a scaler; step number ``poison`` has an infinite loss. Return weights, scales and norms."""
    layer = lib.nn.Linear(3, 1)
    with lib.no_grad():
        layer.weight.copy_(lib.tensor([[0.1, -0.2, 0.3]]))
        layer.bias.fill_(0.5)
    optimizer = lib.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=growth_interval)
    x, seen = lib.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]), []
    for step in range(5):
        optimizer.zero_grad()
        loss = layer(x).pow(2).mean() * (math.inf if step == poison else 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = lib.nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        seen += [layer.weight.detach().clone(), scaler.get_scale(), norm if step != poison else 0.0]
    return [*seen, scaler.state_dict()]


@pytest.mark.parametrize("poison", [None, 0, 2])
@pytest.mark.parametrize("growth_interval", [1, 2, 2000])
def test_grad_scaler(poison: int | None, growth_interval: int) -> None:
    """Weights, factors and state are PyTorch's, with steps skipped where gradients are infinite."""
    for want, got in zip(
        trained(torch, poison, growth_interval), trained(torchlette, poison, growth_interval), strict=True
    ):
        torch.testing.assert_close(to_torch(got) if isinstance(got, torchlette.Tensor) else got, want)


def test_grad_scaler_refuses_a_wrong_order() -> None:
    """The order of unscale_, step and update is checked as in PyTorch, and a state is loaded."""
    for lib in (torch, torchlette):
        p = lib.nn.Parameter(lib.ones(2))
        optimizer, scaler = lib.optim.SGD([p], lr=0.1), lib.amp.GradScaler("cpu")
        scaler.scale(p.sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="unscale_"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="step"):
            scaler.step(optimizer)
        scaler.update()
        with pytest.raises(AssertionError):
            scaler.update()
        other = lib.amp.GradScaler("cpu", init_scale=1.0)
        other.load_state_dict(scaler.state_dict())
        assert other.get_scale() == 65536.0
        with pytest.raises(RuntimeError, match="empty"):
            other.load_state_dict({})


def test_a_scaler_for_cuda_is_off() -> None:
    """Without CUDA the scaler warns, scales nothing and saves nothing; disabled ones are silent."""
    with pytest.warns(UserWarning, match="CUDA"):
        scaler = facade.cuda.amp.GradScaler()
    t = facade.ones(2)
    assert scaler.scale(t) is t
    assert scaler.state_dict() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert facade.amp.GradScaler(enabled=False).get_scale() == 1.0


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


def test_data_parallel() -> None:
    """Without CUDA it calls its module; the keys have PyTorch's prefix, which can be taken off."""
    for lib in (torch, facade):
        wrapped = lib.nn.DataParallel(lib.nn.Linear(2, 1))
        state = wrapped.state_dict()
        assert list(state) == ["module.weight", "module.bias"]
        assert tuple(wrapped(lib.ones(3, 2)).shape) == (3, 1)
        lib.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        lib.nn.Linear(2, 1).load_state_dict(state)


def test_compile_is_the_function() -> None:
    """``compile`` as a call, a decorator and a decorator with options."""

    def double(x: Any) -> Any:
        return x * 2

    layer = facade.nn.Linear(1, 1)
    assert facade.compile(layer) is layer
    assert facade.compile(double) is double
    assert facade.compile(mode="max-autotune", fullgraph=True)(double) is double
    assert not facade.compiler.is_compiling()
    assert facade.compiler.disable(double) is double


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
    """A file that is in the hub's folder is loaded; one that is not is named."""
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


def test_trees_of_registered_classes() -> None:
    """A registered class is a container, before and after the call that maps its leaves."""
    for lib in (torch, facade):
        trees = importlib.import_module(lib.__name__ + ".utils._pytree")

        class Pair:
            def __init__(self, a: Any, b: Any) -> None:
                self.a, self.b = a, b

        trees.register_pytree_node(
            Pair, lambda p: ([p.a, p.b], None), lambda children, context, made=Pair: made(*children)
        )
        leaves, spec = trees.tree_flatten({"x": Pair(1, [2, 3])})
        assert leaves == [1, 2, 3]
        assert spec.num_leaves == 3
        doubled = trees.tree_map(lambda n: 2 * n, {"x": Pair(1, [2, 3])})
        assert (doubled["x"].a, doubled["x"].b) == (2, [4, 6])
        with pytest.raises(ValueError, match="already registered"):
            trees.register_pytree_node(Pair, None, None)


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(reverse: bool) -> None:
    """A recurrence h = a h + b as a scan of pairs, against its loop; sizes that are no power of two."""
    scan = importlib.import_module("torchlette.torch._higher_order_ops.associative_scan").associative_scan
    a, b = (facade.rand(2, 7, 3, requires_grad=True) for _ in range(2))
    _, got = scan(lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (a, b), dim=1, reverse=reverse)
    h, rows = facade.zeros(2, 3), []
    for t in reversed(range(7)) if reverse else range(7):
        h = a[:, t] * h + b[:, t]
        rows.append(h)
    want = facade.stack(rows[::-1] if reverse else rows, 1)
    facade.testing.assert_close(got, want)
    for mine, theirs in zip(
        facade.autograd.grad(got.sum(), (a, b)), facade.autograd.grad(want.sum(), (a, b)), strict=True
    ):
        facade.testing.assert_close(mine, theirs)
    for call in (lambda: scan(None, a, 0), lambda: scan(max, [], 0)):
        with pytest.raises(ValueError, match="associative_scan"):
            call()


@pytest.mark.parametrize("shape", [(7, 5), (2, 4, 9)])
def test_low_rank(shape: tuple[int, ...]) -> None:
    """Of the full rank they are exact: PyTorch's singular values, the same product, orthonormal columns."""
    data = np.random.default_rng(0).standard_normal(shape).astype("float32")
    a, q = facade.tensor(data), min(shape[-2:])
    for centred, found in ((0.0, facade.svd_lowrank(a, q)), (data.mean(-2, keepdims=True), facade.pca_lowrank(a, q))):
        u, s, v = found
        exact = torch.linalg.svd(torch.tensor(data - centred), full_matrices=False).S
        np.testing.assert_allclose(s.numpy(), exact.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(((u * s.unsqueeze(-2)) @ v.mT).numpy(), data - centred, rtol=1e-3, atol=1e-4)
    small = facade.svd_lowrank(a, 2, M=a.mean(-2, keepdim=True))
    assert [tuple(t.shape) for t in small] == [(*shape[:-1], 2), (*shape[:-2], 2), (*shape[:-2], shape[-1], 2)]
    with pytest.raises(ValueError, match="min"):
        facade.svd_lowrank(a, 100)
    with pytest.raises(ValueError, match="niter"):
        facade.svd_lowrank(a, 2, niter=-1)


def test_groups_of_tensors() -> None:
    """What optimizers outside of PyTorch call: lists side by side, cut by dtype."""
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


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: facade.jit.save(facade.nn.Linear(1, 1), "x"), NotImplementedError, "state_dict"),
        (lambda: facade.jit.freeze(facade.nn.Linear(1, 1)), NotImplementedError, "eval"),
        (lambda: facade.jit.load("x"), NotImplementedError, "load_state_dict"),
        (lambda: facade.distributed.init_process_group("gloo"), NotImplementedError, "without a launcher"),
        (lambda: facade.distributed.get_rank(), ValueError, "is_initialized"),
        (lambda: facade.nn.parallel.DistributedDataParallel(facade.nn.Linear(1, 1)), NotImplementedError, "the module itself"),
        (lambda: facade.cuda.set_device(0), RuntimeError, "wgpu"),
        (lambda: facade.ones(1, device="cuda"), RuntimeError, "the GPU is the device 'wgpu'"),
        (lambda: facade.onnx.export(None, ()), NotImplementedError, "safetensors"),
        (lambda: facade.cuda.Stream(), RuntimeError, "is_available"),
        (lambda: facade.cuda.device(0), RuntimeError, "is_available"),
        (lambda: facade.ops.load_library("x.so"), NotImplementedError, "cannot be loaded"),
        (lambda: facade.ops.aten.add, AttributeError, "custom_op"),
        (lambda: facade.library.Library("a", "DEF"), NotImplementedError, "custom_op"),
        (lambda: facade.library.register_autograd("a::b", len), NotImplementedError, "custom_op"),
        (lambda: facade.library.custom_op("a::b", len, mutates_args=("x",)), NotImplementedError, "new tensors"),
        (lambda: facade.library.custom_op("name", len, mutates_args=()), ValueError, "namespace::name"),
        (lambda: facade.imag(facade.ones(1)), RuntimeError, "non-complex"),
        (lambda: facade.ones(1).imag, RuntimeError, "non-complex"),
        (lambda: facade.nn.Linear(1, 1).to("cuda:0"), RuntimeError, "the GPU is the device 'wgpu'"),
        (lambda: facade.ones(1).cuda(), RuntimeError, "wgpu"),
        (lambda: facade.polar, AttributeError, "real and the imaginary part"),
        (lambda: facade.accelerator.current_device_index(), RuntimeError, "wgpu"),
        (lambda: facade.utils.data.DistributedSampler([1, 2]), RuntimeError, "num_replicas"),
        (lambda: importlib.import_module("torchlette.torch.utils.tensorboard"), ImportError, "tensorboardX"),
        (lambda: importlib.import_module("torchlette.torch.fx"), ModuleNotFoundError, "call the function as it is"),
        (lambda: importlib.import_module("torchlette.torch.hub").load("a/b"), NotImplementedError, "fetch the file"),
        (lambda: importlib.import_module("torchlette.torch.utils.model_zoo").load_url("x"), NotImplementedError, "fetch the file"),
        (lambda: importlib.import_module("torchlette.torch.utils.cpp_extension").load("x", ["x.cpp"]), NotImplementedError, "autograd.Function"),
        (lambda: facade.cuda.FloatTensor(2), TypeError, "torch.FloatTensor"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(call: Any, error: type[Exception], says: str) -> None:
    """What is not here raises a class that programs expect, and the text names what to do."""
    with pytest.raises(error, match=says):
        call()


def test_switches() -> None:
    """Questions about hardware are answered, switches may be set."""
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
        assert facade.load(buffer, weights_only=True) == {"loss": 0.5}


def test_distributed_sampler() -> None:
    """The parts of all processes are the data; an unshuffled part is PyTorch's."""
    data = list(range(10))
    for drop_last in (False, True):
        parts = []
        for rank in range(3):
            want, got = (
                lib.utils.data.DistributedSampler(data, 3, rank, shuffle=False, drop_last=drop_last)
                for lib in (torch, torchlette)
            )
            assert list(got) == list(want)
            assert len(got) == len(want)
            shuffled = torchlette.utils.data.DistributedSampler(data, 3, rank, drop_last=drop_last)
            shuffled.set_epoch(2)
            parts += list(shuffled)
        assert set(parts) <= set(data)
        assert drop_last or set(parts) == set(data)


def test_trees() -> None:
    """Nested containers are flattened, mapped and put together as in PyTorch."""
    tree = {"b": [1, (2, 3)], "a": {"c": 4}, "n": None}
    for lib in (torch, torchlette):
        pytree = importlib.import_module(f"{lib.__name__}.utils._pytree")
        leaves, spec = pytree.tree_flatten(tree)
        assert leaves == [1, 2, 3, 4, None]
        assert spec.num_leaves == 5
        assert pytree.tree_unflatten(leaves, spec) == tree
        assert pytree.tree_map(lambda a, b: (a, b), [1, (2,)], [3, (4,)]) == [(1, 3), ((2, 4),)]
        assert pytree.tree_map_only(int, lambda x: -x, {"a": 1, "b": "x"}) == {"a": -1, "b": "x"}
        with pytest.raises(ValueError, match="length"):
            pytree.tree_unflatten([1], spec)


def test_arrays_of_unknown_types_say_what_to_do() -> None:
    """There is no uint16: the text names the conversion, and a given dtype converts."""
    pixels = np.array([[0, 255]], dtype=np.uint16)
    with pytest.raises(TypeError, match="astype"):
        facade.from_numpy(pixels)
    assert facade.tensor(pixels, dtype=facade.float32).tolist() == [[0.0, 255.0]]


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
    """Modules that PyTorch cuts otherwise are found under its names."""
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
    """The product that graph networks call so."""
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    assert (
        facade.spmm(facade.tensor(a), facade.tensor(b)).tolist()
        == torch.spmm(torch.tensor(a), torch.tensor(b)).tolist()
    )
