"""Elementwise operations that read each other run as one kernel: with the same bits, in every window."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Any

import pytest

import torchlette
from torchlette.profiler import profile
from torchlette.testing import holding

DTYPES = ("float32", "float16", "bfloat16", "float64")

ROWS, COLUMNS = 67, 130  # several tiles of the CPU, and a rest


def gelu(x: Any, y: Any) -> Any:
    return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh())


def gate(x: Any, y: Any) -> Any:
    return x.sigmoid() * y[0] + y.t().contiguous().t() * x


def choose(x: Any, y: Any) -> Any:
    return torchlette.where((x > y) & ~(y < -1), x * 2, (y - x).abs().sqrt())


def through_halves(x: Any, y: Any) -> Any:
    return ((x * 0.3).half() * y.half()).to(torchlette.bfloat16).float() * x


def through_integers(x: Any, y: Any) -> Any:
    return (x * 3).to(torchlette.int8).mul(50).float() + (y * 2).abs().to(torchlette.uint8).add(200).float()


def in_place(x: Any, y: Any) -> Any:
    z = x.clone()
    z.mul_(0.9).add_(y, alpha=0.1).clamp_(min=-0.5)
    return z.sub_(z[:1] * 0.25)


def special(x: Any, y: Any) -> Any:
    return torchlette.log1p(x.abs()) + torchlette.erf(y) - torchlette.expm1(x * 0.1) + torchlette.atan2(x, y)


def zeros_of_both_signs(x: Any, y: Any) -> Any:
    first, second = x * 0, y * 0
    return torchlette.maximum(second, first)


def dropped_out(x: Any, y: Any) -> Any:
    torchlette.manual_seed(7)
    return torchlette.nn.functional.dropout(x * y, 0.4) + x


def residual_norm(x: Any, y: Any) -> Any:
    torchlette.manual_seed(7)
    z = torchlette.nn.functional.dropout(x, 0.3) + y
    return torchlette.nn.functional.layer_norm(z, (COLUMNS,), y[0], x[1]) * z


def norm_by_hand(x: Any, y: Any) -> Any:
    centred = x - (x * y).mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt() * y[0]


def masked_softmax(x: Any, y: Any) -> Any:
    return torchlette.softmax((x * 0.125).masked_fill(y > 1, -10.0), -1) * y[:, :1]


def sums(x: Any, y: Any) -> Any:
    z = x.sigmoid() * y
    rows = [z.sum(-1), (z * 2).mean(-1), z.var(-1), z.norm(dim=-1), z.amax(-1), z.tanh().sum().expand(ROWS)]
    return torchlette.stack(rows) * 2 - 1


def cross_entropy(x: Any, y: Any) -> Any:
    classes = torchlette.arange(ROWS, device=x.device) % COLUMNS
    return torchlette.nn.functional.cross_entropy(x * y / 0.7, classes, reduction="none", ignore_index=3)


FUNCTIONS: tuple[Callable[[Any, Any], Any], ...] = (
    gelu,
    gate,
    choose,
    through_halves,
    through_integers,
    in_place,
    special,
    zeros_of_both_signs,
    dropped_out,
    residual_norm,
    norm_by_hand,
    masked_softmax,
    sums,
    cross_entropy,
)


def operands(dtype: str, device: str) -> tuple[Any, Any]:
    torchlette.manual_seed(3)
    made = (torchlette.randn(ROWS, COLUMNS, device="cpu") * 1.5 for _ in range(2))
    x, y = (t.to(getattr(torchlette, dtype)).to(device).clone() for t in made)
    torchlette.realize(x, y)
    return x, y


def bits(t: torchlette.Tensor) -> bytes:
    return array("d", t.reshape(-1).tolist()).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_group_has_the_bits_of_its_members_one_by_one(f: Callable[[Any, Any], Any], dtype: str) -> None:
    x, y = operands(dtype, "cpu")
    with holding.disabled("fuse"):
        apart = f(x, y)
        want = bits(apart)
        assert not any("members" in k for k in torchlette.explain(apart)["plan"]["kernels"])
    together = f(x, y)
    assert bits(together) == want
    assert any("members" in k for k in torchlette.explain(together)["plan"]["kernels"])


@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_cpu_fuses_at_once_and_a_gpu_when_its_kernels_are_compiled(
    f: Callable[[Any, Any], Any], dtype: str, device: str
) -> None:
    """A GPU's compiler may contract a product and a sum that were kernels of their own: values are then close."""
    x, y = operands(dtype, device)
    seen: dict[bool, list[bytes]] = {False: [], True: []}
    while len(seen[True]) < 2:
        z = f(x, y)
        value = bits(z)
        fused = any("members" in k for k in torchlette.explain(z)["plan"]["kernels"])
        seen[fused].append(value)
        assert not (fused and device != "cpu") or len(seen[False]) >= 2, "the first two runs have single kernels"
        assert fused or device != "cpu"
        if not fused and len(seen[False]) > 2:
            time.sleep(0.005)
        assert len(seen[False]) < 5000
    for values in seen.values():
        assert len(set(values)) <= 1
    if device == "cpu":
        return
    early, late = (torchlette.tensor(list(array("d", seen[i][0])), dtype=torchlette.float64) for i in (False, True))
    torchlette.testing.assert_close(late, early, rtol=1e-5 if dtype == "float32" else 2e-3, atol=1e-5)


def test_explain_and_profile_list_members_with_their_lines() -> None:
    x, y = operands("float32", "cpu")
    torchlette.mark_step()
    with profile() as p:
        a = x * y
        z = a.exp()
        z.tolist()
    del a
    [kernel] = torchlette.explain(z)["plan"]["kernels"]
    assert kernel["op"] == "mul+exp" and [m["op"] for m in kernel["members"]] == ["mul", "exp"]
    assert all("test_fusion.py" in m["site"] for m in kernel["members"])
    [event] = p.events()
    assert event.name == "mul+exp"
    lines = [int(m.site.split(":")[1].split()[0]) for m in event.members]
    assert lines[1] == lines[0] + 1
    by_line = p.key_averages("site")
    assert len(by_line) == 2 and sum(a.bytes for a in by_line) == event.bytes


def test_what_is_held_is_a_store_of_the_group() -> None:
    x, y = operands("float32", "cpu")
    a = x * y
    b = a + 1
    c = b.relu()
    want = bits(c)
    [kernel] = torchlette.explain(c)["plan"]["kernels"]
    assert len(kernel["members"]) == 3
    assert torchlette.explain(a)["plan"]["number"] == torchlette.explain(c)["plan"]["number"]
    assert bits(torchlette.relu(b)) == want and bits(a + 1) == bits(b)


def test_gradients_and_anomaly_mode_see_the_same_bits() -> None:
    def train(anomaly: bool) -> list[bytes]:
        x, y = operands("float32", "cpu")
        x.requires_grad_()
        with torchlette.autograd.set_detect_anomaly(anomaly):
            z = gelu(x, y) * y.sigmoid()
            seen: list[Any] = []
            z.register_hook(seen.append)
            (z * z).sum().backward()
        assert x.grad is not None
        return [bits(z), bits(x.grad), *map(bits, seen)]

    with holding.disabled("fuse"):
        want = train(False)
    assert train(False) == want
    assert train(True) == want
