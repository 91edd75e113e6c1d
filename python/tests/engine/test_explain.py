"""torchlette.explain tells the window that computed a value, its program, plan and kernels, and the miss reason."""

from __future__ import annotations

import os
import subprocess
import sys

import torchlette
from torchlette.profiler import profile


def program(rows: int, device: str) -> torchlette.Tensor:
    """A window of three operators, read by nobody yet."""
    x = torchlette.ones(rows, 5, device=device)
    x.tolist()
    return (x * 3).exp().sum(1)


def test_a_pending_tensor_tells_what_would_run(device: str) -> None:
    torchlette.mark_step()
    t = program(7, device)
    pending = torchlette.explain(t)["pending"]
    assert pending["nodes"] == 3
    assert pending["reads"] == 1
    assert "plan" in pending or "needs_a_plan" in pending


def test_a_computed_tensor_tells_its_plan_and_kernels(device: str) -> None:
    torchlette.mark_step()
    t = program(7, device)
    t.tolist()
    told = torchlette.explain(t)
    assert "pending" not in told and told["window"] > 0
    plan = told["plan"]
    assert plan["nodes"] == 3 and plan["runs"] >= 1 and plan["microseconds"] > 0
    assert {name for k in plan["kernels"] for name in k["op"].split("+")} == {"mul", "exp", "sum"}
    assert all(k["device"].startswith(device) and k["bytes"] > 0 and "microseconds" not in k for k in plan["kernels"])


def test_kernels_have_microseconds_once_profiled() -> None:
    torchlette.mark_step()
    with profile():
        t = program(9, "cpu")
        t.tolist()
    assert all(k["microseconds"] >= 0 for k in torchlette.explain(t)["plan"]["kernels"])


def test_replay_is_the_same_plan_and_a_later_window() -> None:
    torchlette.mark_step()
    seen = []
    for _ in range(2):
        t = program(11, "cpu")
        t.tolist()
        told = torchlette.explain(t)
        seen.append((told["plan"]["number"], told["window"], told["plan"]["runs"]))
    assert seen[0][0] == seen[1][0]
    assert seen[1][1] > seen[0][1] and seen[1][2] == seen[0][2] + 1


def test_a_new_plan_names_the_first_difference() -> None:
    torchlette.mark_step()
    program(23, "cpu").tolist()
    wider = program(24, "cpu")
    wider.tolist()
    cause = torchlette.explain(wider)["plan"]["built_because"]
    assert "node 0, mul: makes float32[24 5] on cpu, made float32[" in cause, cause
    x = torchlette.ones(24, 5)
    x.tolist()
    held = (x * 3).exp()
    held.sum(1).tolist()
    cause = torchlette.explain(held)["plan"]["built_because"]
    assert "exp: its result is held by something outside, was not" in cause, cause


def test_a_longer_and_a_shorter_window_are_told_from_their_beginning() -> None:
    torchlette.mark_step()
    x = torchlette.ones(29, 5)
    x.tolist()
    one = (x * 3).exp()
    one.tolist()
    two = (x * 3).exp().log1p()
    two.tolist()
    cause = torchlette.explain(two)["plan"]["built_because"]
    assert "exp: its result is held by nothing outside, was held" in cause, cause
    pair = [x * 3, x * 4]
    (pair[0] + 0).tolist()
    told = torchlette.explain(pair[1])["pending"]
    assert "needs_a_plan" in told or told["plan"]["nodes"] == 1


def test_data_from_the_host_has_no_window() -> None:
    assert "window" not in torchlette.explain(torchlette.tensor([1.0, 2.0]))


def test_commits_of_a_replaced_base_are_executed(device: str) -> None:
    """Writing to a gradient that is a view of its own gives it another base, which goes on with its versions and
    commits.
    """
    a = torchlette.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)
    (g,) = torchlette.autograd.grad(a.t().contiguous().pow(3).sum(), a, create_graph=True)
    assert not g.is_contiguous()
    with torchlette.no_grad():
        g.copy_(g)
        g.mul_(2)
    assert g.requires_grad  # the write is none of the history's
    told = torchlette.explain(g)
    assert told["commits_scheduled"] == 2
    torchlette.mark_step()
    told = torchlette.explain(g)
    assert told["commits_executed"] == told["commits_scheduled"] == 2
    assert g._version == 2
    (second,) = torchlette.autograd.grad(g.sum(), a)
    assert second.tolist() == [[6.0, 12.0], [18.0, 24.0]]
    assert g.tolist() == [[6.0, 24.0], [54.0, 96.0]]


def test_the_program_that_would_compute_a_tensor_and_the_one_that_did(device: str) -> None:
    torchlette.mark_step()
    t = program(31, device)
    dev = "" if device == "cpu" else "@wgpu:0"
    want = [
        f"input $0 : f32[31,5]{dev}",
        f"%0 = mul $0 3.0 : f32[31,5]{dev}",
        f"%1 = exp %0 : f32[31,5]{dev}",
        f"%2 = sum{{1}} %1 : f32[31]{dev} live",
    ]
    text = torchlette.explain(t, program=True)["program"]
    assert [line.split("  #")[0] for line in text.splitlines()] == want
    assert text.count("test_explain.py:") == 3, text
    assert "pending" in torchlette.explain(t), "looking runs nothing"
    t.tolist()
    assert torchlette.explain(t, program=True)["program"] == text
    assert "program" not in torchlette.explain(t)
    assert "program" not in torchlette.explain(torchlette.tensor([1.0]), program=True), (
        "data from the host has no program"
    )


def test_the_program_shows_views_attributes_and_stores() -> None:
    torchlette.mark_step()
    x = torchlette.ones(2, 3, device="cpu")
    x.tolist()
    x.t()[1].add_(1.5)
    lines = [line.split("  #")[0] for line in torchlette.explain(x, program=True)["program"].splitlines()]
    assert lines == [
        "input $0 : f32[2,3]",
        "%0 = add $0[2](3)+1 1.5 : f32[2]",
        "%1 = strided_scatter{[2](3)} $0 %0 1 : f32[2,3] live",
        "store %1 over $0 base 0 last exclusive",
    ]


STEP = """
import torchlette
x = torchlette.ones(2, 3, device="cpu")
w = torchlette.ones(3, 3, device="cpu")
x.tolist(), w.tolist()
y = x @ w + x
print(y.tolist()[0][0], len(torchlette.explain(y)["plan"]["kernels"]))
"""


def step(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", STEP], capture_output=True, text=True, env=os.environ | variables, check=True
    )


def test_a_dump_shows_what_a_pass_decides() -> None:
    ran = step(TORCHLETTE_DUMP="fuse_epilogue")
    before, after = ran.stderr.split("# after fuse_epilogue (2 nodes)")
    before = before.rsplit("# before fuse_epilogue (2 nodes)", 1)[1]
    assert "= matmul{0} $0 $1 : f32[2,3]" in before and "makes %1" not in before
    assert "makes %1: epilogue add" in after and "done by %0" in after
    everything = step(TORCHLETTE_DUMP="all").stderr
    for name in (
        "uses",
        "inplace",
        "donate",
        "write_through",
        "fuse_epilogue",
        "fuse_bias_grad",
        "lower",
        "tiles",
        "memory",
    ):
        assert f"# after {name} (2 nodes)" in everything
    assert step().stderr == ""


def test_a_pass_can_be_left_out() -> None:
    assert step().stdout == "4.0 1\n"
    assert step(TORCHLETTE_DISABLE="fuse_epilogue,donate").stdout == "4.0 2\n"


def test_a_pass_that_there_is_not_is_reported_and_ignored() -> None:
    ran = step(TORCHLETTE_DISABLE="fusion")
    assert ran.stdout == "4.0 1\n"
    assert ran.stderr.startswith('torchlette: pass "fusion" cannot be left out: these can: inplace, ')
    assert 'no pass "lowering" to dump: there are all, uses, ' in step(TORCHLETTE_DUMP="lowering").stderr
