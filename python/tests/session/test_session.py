"""Sessions give the program's values, refuse what does not fit, and leave results alone."""

from __future__ import annotations

import gc
import json
import os
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchlette as tl
from torchlette import export, nn

Array = Any


class Block(nn.Module):
    """A transformer's block whose attention is written out, with a causal mask."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: tl.Tensor) -> tl.Tensor:
        b, t, c = x.shape
        q, k, v = (
            y.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.norm(x)).split(c, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / (c // self.heads) ** 0.5
        mask = tl.ones(t, t, device=x.device).tril().bool()
        scores = scores.masked_fill(~mask, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Inverted(nn.Module):
    """A residual block as MobileNetV2 has it, and what comes before and after such blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.grow = self.step(3, 24, 3, 2, 1), self.step(24, 40, 1, 1, 1)
        self.each, self.shrink = self.step(40, 40, 3, 1, 40), nn.Conv2d(40, 24, 1)
        self.last, self.head = self.step(24, 24, 3, 2, 24), nn.Linear(24, 4)

    def step(self, inputs: int, outputs: int, size: int, stride: int, groups: int) -> nn.Module:
        conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())

    def forward(self, x: tl.Tensor) -> tl.Tensor:
        x = self.first(x)
        x = self.last(x + self.shrink(self.each(self.grow(x))))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def assert_close(got: Array, want: Array) -> None:
    torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(np.array(want)))


def cpu(*shape: int) -> tl.Tensor:
    return tl.randn(*shape, device="cpu")


def model(kind: str) -> tuple[nn.Module, tl.Tensor]:
    """A module in evaluation mode, and an example with a dynamic dim 0."""
    tl.manual_seed(3)
    with tl.device("cpu"):
        if kind == "mlp":
            m: nn.Module = nn.Sequential(nn.Linear(40, 70), nn.ReLU(), nn.Dropout(0.5), nn.Linear(70, 5))
            return m.eval(), cpu(3, 40)
        if kind == "block":
            return Block(32, 4).eval(), cpu(3, 10, 32)
        if kind == "inverted":
            net = Inverted()
            net(cpu(4, 3, 11, 11))
            return net.eval(), cpu(3, 3, 11, 11)
        conv, head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 36, 4)
        m = nn.Sequential(conv, nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(1), head)
        m(cpu(4, 3, 6, 6))
        return m.eval(), cpu(3, 3, 6, 6)


def opened(kind: str, **options: Any) -> tuple[tl.InferenceSession, nn.Module, tl.Tensor]:
    m, x = model(kind)
    program = export.export(m, (x,), dynamic_shapes=({0: export.Dim("n", min=1, max=50)},))
    return tl.InferenceSession(program, **options), m, x


def eager(m: nn.Module, x: Array) -> Array:
    with tl.no_grad():
        return m(tl.from_numpy(np.ascontiguousarray(x))).numpy()


@pytest.mark.parametrize("kind", ["mlp", "block", "conv", "inverted"])
def test_runs_give_the_values_of_the_module_for_each_size(kind: str) -> None:
    s, m, example = opened(kind)
    (port,) = s.get_inputs()
    assert port.shape == ["n", *example.shape[1:]] and port.type == "tensor(float)"
    for n in (3, 1, 8, 3):
        x = np.random.default_rng(n).normal(size=(n, *example.shape[1:])).astype("f")
        (y,) = s.run(None, {port.name: x})
        assert_close(y, eager(m, x))
        np.testing.assert_array_equal(s.run(None, {port.name: x})[0], y)


def test_networks_of_depthwise_convolutions_keep_channels_last() -> None:
    s, m, x = opened("inverted", device="cpu")
    name = s.get_inputs()[0].name
    (y,) = s.run(None, {name: x.numpy()})
    assert_close(y, eager(m, x.numpy()))
    ops = [row["op"] for row in s.profile()]
    assert ops.count("conv_last") == 5 and "conv" not in ops and "window_sum" not in ops
    (y,) = s.run(None, {name: np.full((1, 3, 11, 11), np.nan, "f")})
    assert np.isnan(y).all()


def test_results_are_left_alone_and_inputs_have_any_strides() -> None:
    s, m, _ = opened("mlp")
    name, out = s.get_inputs()[0].name, s.get_outputs()[0].name
    wide = np.random.default_rng(0).normal(size=(40, 8)).astype("f")
    x = wide.T[::2]
    kept = wide.copy()
    (y,) = s.run([out], {name: x})
    before = y.copy()
    s.run(None, {name: x + 1})
    np.testing.assert_array_equal(y, before)
    np.testing.assert_array_equal(wide, kept)
    assert_close(y, eager(m, x))


def test_empty_names_and_lists_are_onnxruntimes() -> None:
    """No names are all names; numbers in lists get the input's dtype."""
    s, m, _ = opened("mlp")
    name = s.get_inputs()[0].name
    rows = [[k % 5 for k in range(40)], [1] * 40]
    (y,) = s.run([], {name: rows})
    assert_close(y, eager(m, np.array(rows, "f")))


def test_what_does_not_fit_is_refused_and_the_session_goes_on() -> None:
    s, m, _ = opened("mlp")
    name = s.get_inputs()[0].name
    x = np.ones((2, 40), "f")
    cases: list[tuple[Any, str]] = [
        ({}, "missing input"),
        ({"z": x}, "unknown input"),
        ({name: x, "z": x}, "unknown input"),
        ({name: x.astype("d")}, "dtype"),
        ({name: x[:, :3]}, "shape"),
        ({name: x[0]}, "shape"),
        ({name: np.ones((51, 40), "f")}, "from 1 to 50"),
    ]
    for feed, message in cases:
        with pytest.raises(ValueError, match=message):
            s.run(None, feed)
    with pytest.raises(ValueError, match="unknown output"):
        s.run(["z"], {name: x})
    with pytest.raises(ValueError, match="got 0 inputs"):
        s()
    assert_close(s.run(None, {name: x})[0], eager(m, x))
    for options in ({"threads": 0}, {"threads": True}, {"precision": "int8"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            opened("mlp", **options)
    with pytest.raises(TypeError, match="want a path, the bytes of a file, or an exported program"):
        tl.InferenceSession(m)


def test_an_index_out_of_range_is_an_error_of_one_run() -> None:
    with tl.device("cpu"):
        m = nn.Embedding(10, 4)
    s = tl.InferenceSession(export.export(m, (tl.tensor([1, 2], device="cpu"),)))
    name = s.get_inputs()[0].name
    with pytest.raises(IndexError):
        s.run(None, {name: np.array([1, 10])})
    np.testing.assert_array_equal(s.run(None, {name: np.array([9, 0])})[0], m.weight.detach().numpy()[[9, 0]])


def test_a_session_keeps_the_weights_that_it_was_opened_with() -> None:
    m, x = model("mlp")
    program = export.export(m, (x,))
    s = tl.InferenceSession(program)
    want = eager(m, x.numpy())
    with tl.no_grad():
        for p in program.parameters():
            p.zero_()
    del program
    gc.collect()
    assert_close(s.run(None, {s.get_inputs()[0].name: x.numpy()})[0], want)
    assert_close(s(x).numpy(), want)


def test_files_and_threads(tmp_path: Path) -> None:
    m, x = model("mlp")
    export.save(export.export(m, (x,)), tmp_path / "m.bin")
    s = tl.InferenceSession(tmp_path / "m.bin", threads=1)
    if hasattr(os, "sched_getaffinity"):
        before = len(os.listdir("/proc/self/task"))
        assert_close(s(x).numpy(), eager(m, x.numpy()))
        assert len(os.listdir("/proc/self/task")) <= before + 1, "one thread runs it"
    (tmp_path / "bad").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises((ValueError, RuntimeError, OSError)):
        tl.InferenceSession(tmp_path / "bad")
    with pytest.raises(OSError, match="missing"):
        tl.InferenceSession(tmp_path / "missing")


def test_runs_from_several_threads_give_each_its_result() -> None:
    s, m, _ = opened("mlp")
    other, _, _ = opened("mlp", threads=1)
    name, failed = s.get_inputs()[0].name, []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for k in range(10):
            x = rng.normal(size=(1 + (seed + k) % 3, 40)).astype("f")
            want = wanted[x.shape[0]]
            y = [s, other][k % 2].run(None, {name: x})[0]
            if not np.allclose(y, want(x), atol=1e-4):
                failed.append((seed, k))

    w = [p.detach().numpy() for p in m.parameters()]
    wanted = dict.fromkeys((1, 2, 3), lambda x: np.maximum(x @ w[0].T + w[1], 0) @ w[2].T + w[3])
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    tl.randn(100, 100, device="cpu").sum().item()  # the engine is used besides
    for t in threads:
        t.join()
    assert not failed


def test_bound_arrays_are_read_and_written_in_place() -> None:
    s, m, _ = opened("mlp")
    x, y = np.ones((2, 40), "f"), np.zeros((2, 5), "f")
    b = s.io_binding()
    with pytest.raises(ValueError, match="unknown input"):
        b.bind_input("z", x)
    b.bind_input(s.get_inputs()[0].name, x)
    b.bind_output(s.get_outputs()[0].name, y)
    for value in (1, 2):
        x[:] = value
        s.run_with_iobinding(b)
        assert_close(y, eager(m, x))
    assert b.get_outputs()[0] is y
    b.bind_output(s.get_outputs()[0].name, np.zeros((3, 5), "f"))
    with pytest.raises(ValueError, match="want float32 of shape"):
        s.run_with_iobinding(b)


def test_outputs_that_are_bound_to_no_array_follow_the_inputs_shapes() -> None:
    s, m, _ = opened("mlp")
    b, name = s.io_binding(), s.get_inputs()[0].name
    with pytest.raises(RuntimeError, match="run it first"):
        b.get_outputs()
    for count in (2, 5, 2):
        x = np.full((count, 40), 0.5, "f")
        b.bind_input(name, x)
        if count == 5:
            b.bind_output(s.get_outputs()[0].name)
        s.run_with_iobinding(b)
        assert_close(b.get_outputs()[0], eager(m, x))


def test_bindings_that_cannot_be_run_are_refused() -> None:
    x = np.ones((2, 40), "f")
    s, _, _ = opened("mlp")
    b = s.io_binding()
    b.bind_input(s.get_inputs()[0].name, x)
    with pytest.raises(ValueError, match="another session"):
        opened("mlp")[0].run_with_iobinding(b)
    with pytest.raises(TypeError, match="got list, want an array"):
        b.bind_output(s.get_outputs()[0].name, [0.0])  # type: ignore[arg-type]
    two = tl.InferenceSession(export.export(lambda a: (a + 1, a * 2), (tl.tensor(x, device="cpu"),)))
    b, y = two.io_binding(), np.zeros((2, 40), "f")
    b.bind_input(two.get_inputs()[0].name, x)
    for port in two.get_outputs():
        b.bind_output(port.name, y)
    with pytest.raises(ValueError, match="shares memory with another output"):
        two.run_with_iobinding(b)


@pytest.mark.parametrize("threads", [0, 1 << 40, True, "2"])
def test_numbers_of_threads_that_no_session_has_are_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads: got"):
        opened("mlp", threads=threads)


def test_the_memory_plan_and_the_profile_tell_of_the_last_run() -> None:
    s, _, x = opened("block")
    small = s.memory_plan()
    assert small["input_shapes"] == [[1, 10, 32]], "the smallest example"
    s.run(None, {s.get_inputs()[0].name: np.concatenate([x.numpy()] * 4)})
    plan = s.memory_plan()
    assert plan["input_shapes"] == [[12, 10, 32]]
    assert small["arena_bytes"] < plan["arena_bytes"] < plan["sum_bytes"]
    assert plan["arena_bytes"] <= 1.1 * plan["live_bytes"] + 4096
    for a in plan["parts"]:
        assert a["offset"] + a["bytes"] <= plan["arena_bytes"]
        for b in plan["parts"]:
            at_once = a is not b and a["first"] <= b["last"] and b["first"] <= a["last"]
            assert not at_once or a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
    steps = s.profile()
    assert {"matmul", "layer_norm"} <= {step["op"] for step in steps}
    assert all(step["time_us"] >= 0 for step in steps)


def test_low_precision_computes_products_in_it() -> None:
    s, m, x = opened("mlp", precision="bfloat16")
    y = s(x).numpy()
    assert 0 < np.abs(y.astype("f") - eager(m, x.numpy())).max() < 0.1


def test_draws_differ_from_run_to_run_and_follow_the_seed() -> None:
    s = tl.InferenceSession(export.export(lambda x: x + tl.rand_like(x), (cpu(4),)))
    x = np.zeros(4, "f")
    name = s.get_inputs()[0].name
    tl.manual_seed(5)
    a, b = (s.run(None, {name: x})[0] for _ in range(2))
    tl.manual_seed(5)
    (c,) = s.run(None, {name: x})
    np.testing.assert_array_equal(a, c)
    assert (a != b).any()


def test_a_session_runs_on_a_gpu() -> None:
    try:
        tl.zeros(1, device="wgpu").sum().item()
    except Exception as exc:
        pytest.skip(f"no GPU: {exc}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s, m, x = opened("mlp", device="wgpu")
    for n in (3, 2):
        assert_close(s.run(None, {s.get_inputs()[0].name: x.numpy()[:n]})[0], eager(m, x.numpy()[:n]))
    assert s(x).device.type == "wgpu"


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3,), (1, 1, 3)])
def test_results_that_are_views_of_what_the_last_step_made_have_the_view_s_shape(shape):
    program = export.export(lambda x: x.mean(1).reshape(shape), (tl.zeros(3, 4),))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (got,) = tl.InferenceSession(program).run(None, {"x": x})
    np.testing.assert_array_equal(got, x.mean(1).reshape(shape))


def test_a_session_opens_the_bytes_of_a_file(tmp_path: Path) -> None:
    """Of a saved program, of PyTorch's export, and of an ONNX model, as onnxruntime does."""
    m, x = model("mlp")
    with torch.no_grad():
        theirs = torch.nn.Linear(40, 3)
        torch.export.save(torch.export.export(theirs, (torch.zeros(2, 40),)), tmp_path / "b.pt2")
    export.save(export.export(m, (x,)), tmp_path / "a.tlp")
    tl.onnx.export(m, (x,), str(tmp_path / "c.onnx"))
    for path in sorted(tmp_path.iterdir()):
        session = tl.InferenceSession(path.read_bytes())
        feeds = {session.get_inputs()[0].name: x.numpy()[: 2 if path.suffix == ".pt2" else 3]}
        want = tl.InferenceSession(path).run(None, feeds)
        np.testing.assert_array_equal(session.run(None, feeds)[0], want[0])
    with pytest.raises(ValueError, match="damaged"):
        tl.InferenceSession(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match="damaged|ONNX"):
        tl.InferenceSession(bytearray(b"\xff\xff no model"))
    with pytest.raises(TypeError, match="want a path, the bytes of a file"):
        tl.InferenceSession(3)


@pytest.mark.parametrize("dtype", [tl.float32, tl.float16])
def test_a_call_with_tensors_records_nothing(dtype: tl.dtype) -> None:
    """Operators that are called, deferred, or looked up in caches, would count. The input has strides."""

    def counts() -> dict[str, int]:
        tl._C.flush()
        found = json.loads(tl._C._info("stats"))
        return {name: n for name, n in found.items() if isinstance(n, int) and not name.startswith("live_")}

    net = nn.Linear(8, 3, device="cpu").to(dtype).eval()
    x = tl.randn(8, 4, device="cpu").to(dtype).t()
    session = tl.InferenceSession(export.export(net, (x,)))
    want = session(x)
    before = counts()
    got = [session(x) for _ in range(5)]
    assert counts() == before
    assert all(y.tolist() == want.tolist() for y in got)
    np.testing.assert_allclose(want.float().numpy(), net(x).detach().float().numpy(), rtol=2e-2, atol=2e-2)


def test_a_call_takes_tensors_of_each_kind() -> None:
    """Ones that require gradients, with strides, without dims, and on another device."""
    net = nn.Linear(8, 3, device="cpu").eval()
    x = tl.randn(4, 8, device="cpu")
    session = tl.InferenceSession(export.export(net, (x,)))
    want = session(x)
    torch.testing.assert_close(torch.tensor(want.tolist()), torch.tensor(net(x).tolist()))
    for other in (x.clone().requires_grad_(), x.t().clone().t(), x.to("wgpu")):
        assert session(other).tolist() == want.tolist()
    one = tl.tensor(2.0, device="cpu")
    assert tl.InferenceSession(export.export(lambda x: x * 2, (one,)))(one).tolist() == 4.0


def test_inputs_and_outputs_of_bfloat16_are_bits(tmp_path: Path) -> None:
    """NumPy has no bfloat16: arrays have uint16 elements. Tensors have the dtype."""
    net = nn.Linear(8, 3, device="cpu").to(tl.bfloat16).eval()
    x = tl.randn(4, 8, device="cpu").to(tl.bfloat16)
    want = net(x).detach()
    session = tl.InferenceSession(export.export(net, (x,)))
    bits = (x.float().numpy().view(np.uint32) >> 16).astype(np.uint16)
    (got,) = session.run(None, {session.get_inputs()[0].name: bits})
    assert got.dtype == np.uint16
    np.testing.assert_array_equal((got.astype(np.uint32) << 16).view(np.float32), want.float().numpy())
    assert session(x).dtype == tl.bfloat16
    assert session(x).tolist() == want.tolist()
    with pytest.raises(ValueError, match="want bfloat16"):
        session.run(None, {session.get_inputs()[0].name: x.float().numpy()})
