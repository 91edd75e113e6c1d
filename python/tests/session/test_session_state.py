"""Sessions of programs that write buffers keep them between runs, as the program's module does."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import torch

import torchlette as tl
from torchlette import export, nn


class Counter(nn.Module):
    """Batch norm in training mode, a counter, and a cache that is written at a place."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("count", tl.zeros((), dtype=tl.int64, device="cpu"))
        self.register_buffer("cache", tl.zeros(6, 3, device="cpu"))
        self.register_buffer("turn", tl.ones(2, dtype=tl.complex64, device="cpu"))
        self.register_buffer("quiet", tl.ones(3, device="cpu"), persistent=False)

    def forward(self, x: tl.Tensor, at: tl.Tensor) -> tuple[tl.Tensor, ...]:
        y = self.norm(x)
        with tl.no_grad():
            self.cache[1:].index_copy_(0, at, y[:1])
            self.count += 1
            self.turn.add_(self.turn)
            self.quiet.copy_(self.quiet * 2)
        return y.sum() + self.cache.sum(), self.cache.clone(), self.count * 2, self.turn.real.clone(), self.quiet


def counter() -> tuple[export.ExportedProgram, list[str]]:
    module = Counter().to("cpu").train()
    example = tl.randn(4, 3, device="cpu"), tl.tensor([1], device="cpu")
    program = export.export(module, example, dynamic_shapes=({0: export.Dim("n", min=2)}, None))
    return program, ["x", "at"]


def feeds(count: int) -> list[dict[str, np.ndarray]]:
    draws = np.random.default_rng(0)
    return [{"x": draws.normal(size=(2 + k % 3, 3)).astype("f4"), "at": np.array([k % 5])} for k in range(count)]


def check(session: tl.InferenceSession, module: nn.Module, feed: dict[str, np.ndarray]) -> None:
    wanted = module(*[tl.from_numpy(v) for v in feed.values()])
    for got, want in zip(session.run(None, feed), wanted, strict=True):
        np.testing.assert_allclose(got, want.detach().cpu().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["program", "file"])
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_runs_of_all_shapes_share_the_state(device, kind, tmp_path):
    program, _ = counter()
    export.save(program, tmp_path / "m.tlp")
    session = tl.InferenceSession(program if kind == "program" else tmp_path / "m.tlp", device=device)
    module = export.load(tmp_path / "m.tlp").module()
    for feed in feeds(7):
        check(session, module, feed)
    session.reset()
    module = export.load(tmp_path / "m.tlp").module()
    for feed in feeds(3):
        check(session, module, feed)


def test_sessions_and_the_program_have_states_of_their_own():
    program, _ = counter()
    first, second = tl.InferenceSession(program), tl.InferenceSession(program)
    feed = feeds(1)[0]
    results = [first.run(["output_2"], feed)[0] for _ in range(3)]
    assert [int(r) for r in results] == [2, 4, 6]
    assert int(second.run(["output_2"], feed)[0]) == 2
    assert program.state_dict["count"].item() == 0


def test_what_runs_no_program_changes_no_state():
    session = tl.InferenceSession(counter()[0])
    feed = feeds(1)[0]
    assert session.memory_plan()["arena_bytes"] >= 0
    session.run(None, feed)
    session.profile()
    with pytest.raises(ValueError):
        session.run(None, {"x": feed["x"]})
    assert int(session.run(["output_2"], feed)[0]) == 4


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_a_run_that_fails_leaves_the_state(device):
    class Checked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("sum", tl.zeros(3, device="cpu"))

        def forward(self, i: tl.Tensor) -> tl.Tensor:
            self.sum += 1
            return self.sum.index_select(0, i)

    session = tl.InferenceSession(export.export(Checked(), (tl.tensor([1], device="cpu"),)), device=device)
    assert session.run(None, {"i": np.array([2])})[0].tolist() == [1.0]
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        session.run(None, {"i": np.array([7])})
    with pytest.raises(ValueError, match="unknown output"):
        session.run(["nothing"], {"i": np.array([2])})
    assert session.run(None, {"i": np.array([2])})[0].tolist() == [2.0]


def test_the_state_stays_on_the_device():
    session = tl.InferenceSession(counter()[0], device="wgpu")
    feed = feeds(1)[0]
    session.run(None, feed)
    before = tl.stats()
    session.run(["output_2"], feed)
    after = tl.stats()
    assert after["device_uploads"] - before["device_uploads"] == 2, "x and at"
    assert after["device_reads"] - before["device_reads"] == 5, "the outputs"


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_threads_count_every_run_once(device):
    session = tl.InferenceSession(counter()[0], device=device)
    feed = feeds(1)[0]
    found: list[int] = []

    def work() -> None:
        for _ in range(25):
            found.append(int(session.run(["output_2"], feed)[0]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == [2 * (k + 1) for k in range(100)]


def test_bound_arrays_run_on_the_state():
    session = tl.InferenceSession(counter()[0])
    feed = feeds(1)[0]
    binding = session.io_binding()
    for name, value in feed.items():
        binding.bind_input(name, value)
    for _ in range(3):
        session.run_with_iobinding(binding)
    assert int(binding.get_outputs()[2]) == 6


class Decoder(torch.nn.Module):
    """Attention over a cache of keys and values in buffers, as a static cache of a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(8, 24)
        self.norm = torch.nn.BatchNorm1d(8)
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(1, 2, 6, 4))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(1, 1, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        n = at.item()
        torch._check_is_size(n)
        torch._check(n < 6)
        self.k[:, :, n : n + 1] = k
        self.v.index_copy_(2, at, v)
        mask = (torch.arange(6) <= at)[None]
        return torch.nn.functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_file_of_pytorch_keeps_its_cache_and_its_norm(decomposed, tmp_path):
    torch.manual_seed(0)
    module = Decoder().eval()
    program = torch.export.export(module, (torch.randn(1, 8), torch.tensor([1])))
    program = program.run_decompositions() if decomposed else program
    torch.export.save(program, tmp_path / "m.pt2")
    session, theirs = tl.InferenceSession(tmp_path / "m.pt2"), program.module()
    for at in range(6):
        x = torch.randn(1, 8)
        want = theirs(x, torch.tensor([at])).detach().numpy()
        (got,) = session.run(None, {"x": x.numpy(), "at": np.array([at])})
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("decomposed", [False, True])
def test_batch_norm_of_pytorch_in_training_mode_goes_on(decomposed, tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).train()
    program = torch.export.export(module, (torch.randn(5, 3),))
    program = program.run_decompositions() if decomposed else program
    torch.export.save(program, tmp_path / "m.pt2")
    session = tl.InferenceSession(tmp_path / "m.pt2")
    ours, theirs = export.load(tmp_path / "m.pt2").module(), program.module()
    for _ in range(3):
        x = torch.randn(5, 3)
        want = theirs(x).detach().numpy()
        np.testing.assert_allclose(session.run(None, {"input": x.numpy()})[0], want, rtol=1e-4, atol=1e-5)
        ours(tl.from_numpy(x.numpy()))
    held = dict(ours.named_buffers())
    for name, value in theirs.named_buffers():
        np.testing.assert_allclose(held[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-6)


def test_a_closed_session_gives_its_state_back():
    feed = feeds(1)[0]
    program = counter()[0]
    tl.InferenceSession(program, device="wgpu").run(None, feed)
    gc.collect()
    before = tl.stats()["live_buffers"]
    session = tl.InferenceSession(program, device="wgpu")
    session.run(None, feed)
    assert tl.stats()["live_buffers"] > before
    del session
    gc.collect()
    assert tl.stats()["live_buffers"] == before
