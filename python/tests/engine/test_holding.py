"""Whether an intermediate is held, dropped or read early changes no bit of any observable value."""

from __future__ import annotations

import itertools
import time
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import torchlette
from torchlette.testing import fuzz, holding

F = torchlette.nn.functional


def bits(t: torchlette.Tensor) -> list[float]:
    return t.reshape(-1).tolist()


def test_random_models_leave_the_same_bits_on_the_cpu() -> None:
    for seed, dtype in itertools.product(range(3), holding.DTYPES):
        model = holding.generate(seed, dtype)
        assert holding.difference(model, "cpu") == "", str(model)


@hypothesis.settings(max_examples=6, deadline=None)
@hypothesis.given(st.integers(0, 1 << 30), st.sampled_from(holding.DTYPES), st.integers(2, 8))
def test_models_of_any_seed_do(seed: int, dtype: str, length: int) -> None:
    model = holding.generate(seed, dtype, length)
    assert holding.difference(model, "cpu") == "", str(model)


@pytest.mark.parametrize("dtype", holding.DTYPES)
@pytest.mark.parametrize("activation", range(4), ids=("relu", "gelu", "gelu_tanh", "silu"))
def test_an_activation_has_the_bits_that_a_held_product_gives(dtype: str, activation: int) -> None:
    """Products of many terms, of one row, of one column, and of a batch; a residual comes after the rounding."""
    f = holding.ACTIVATIONS[activation]
    d = getattr(torchlette, dtype)
    torchlette.manual_seed(activation)
    for shape, n in (((40, 300), 128), ((1, 700), 200), ((130, 64), 1), ((3, 9, 16), 33)):
        x = torchlette.randn(shape, device="cpu").to(d)
        w = torchlette.randn(n, shape[-1], device="cpu").to(d)
        b = torchlette.randn(n, device="cpu").to(d)
        r = torchlette.randn(*shape[:-1], n, device="cpu").to(d)
        held = F.linear(x, w, b)
        applied = f(held)
        want = bits(applied), bits(applied + r), bits(held + r)
        got = bits(f(F.linear(x, w, b))), bits(f(F.linear(x, w, b)) + r), bits(r + F.linear(x, w, b))
        assert got == want


@pytest.mark.parametrize("name", ("pow", "sin", "cos"))
def test_an_element_does_not_depend_on_its_neighbours(name: str) -> None:
    """Arguments outside the fast loops' range do not change other elements of their block: blocks depend on layouts."""
    torchlette.manual_seed(0)
    x, e = torchlette.rand(6000, device="cpu") * 50 + 0.5, torchlette.rand(6000, device="cpu") * 3
    e[::3] = 2.0
    f = (lambda v: torchlette.pow(v, e)) if name == "pow" else getattr(torchlette, name)
    odd = x.clone()
    odd[17::1000] = -1e9
    got, want = bits(f(odd)), bits(f(x))
    assert [i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b and i % 1000 != 17] == []
    if name == "pow":  # one exponent for all, and one an element
        assert bits(torchlette.pow(x, 2.0)) == bits(torchlette.pow(x, torchlette.full_like(x, 2.0).clone()))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "int32"))
def test_what_is_folded_into_a_product_is_no_kernel_of_its_own(device: str, dtype: str) -> None:
    d = getattr(torchlette, dtype)
    x, w, r = (torchlette.tensor([[1] * n] * m, dtype=d, device=device) for m, n in ((5, 7), (7, 6), (5, 6)))
    w.tolist()

    def run() -> torchlette.Tensor:
        got = torchlette.relu(x @ w) + r
        assert got.tolist() == [[8] * 6] * 5
        return got

    runs = 0
    while runs < 4 or torchlette.stats()["plans_compiling"]:  # a GPU compiles such products beside the runs
        run()
        time.sleep(0.005 * (runs > 3))
        runs += 1
    assert [k["op"] for k in torchlette.explain(run())["plan"]["kernels"]] == ["matmul"]


def test_the_search_finds_a_value_that_depends_on_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison sees one bit of one element, in one policy."""
    model = holding.generate(1, "float32", 4)
    policies: list[list[str]] = []
    run = holding.run

    def wrong(
        model: holding.Model, policies_: list[str], device: str = "cpu", steps: int = 2, region: bool = False
    ) -> dict[str, bytes]:
        out = run(model, policies_, device, steps, region)
        policies.append(policies_)
        if set(policies_) == {holding.DROPPED}:
            key = next(k for k in out if k.endswith("loss"))
            out[key] = bytes([out[key][0] ^ 1]) + out[key][1:]
        return out

    monkeypatch.setattr(holding, "run", wrong)
    assert "1 of 1 elements differ when" in holding.difference(model)
    assert [holding.DROPPED] * len(policies[0]) in policies[1:], "dropped, without fusion and with it"


def test_the_command_searches(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuzz.main(["--hold", "--programs", "2", "--length", "4"]) == 0
    assert "0 mismatches" in capsys.readouterr().out
    calls: list[Any] = []

    def differs(model: holding.Model, device: str = "cpu") -> str:
        calls.append(model)
        return "a bit" if any(layer.name == model.layers[0].name for layer in model.layers) else ""

    monkeypatch.setattr(holding, "difference", differs)
    assert fuzz.main(["--hold", "--programs", "1", "--length", "4"]) == 1
    out = capsys.readouterr().out
    assert "MISMATCH a bit" in out and "seed 0 float32" in out
    assert len(calls[-1].layers) == 1, "a failing model is shrunk"
