"""autocast: dtypes of results and gradients are PyTorch's, by operator, nesting and device."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade

#: Operators of each policy, as calls with a library and two square matrices, float32 and of the half type.
CALLS = {
    "matmul": lambda t, x, h: x @ h,
    "linear": lambda t, x, h: t.nn.functional.linear(x, h, x[0]),
    "conv2d": lambda t, x, h: t.nn.functional.conv2d(x[None, None], h[None, None]),
    "bmm": lambda t, x, h: t.bmm(x[None], h[None]),
    "sdpa": lambda t, x, h: t.nn.functional.scaled_dot_product_attention(x[None], h[None], x[None]),
    "einsum": lambda t, x, h: t.einsum("ij,jk->ik", x, h),
    "mse_loss": lambda t, x, h: t.nn.functional.mse_loss(h, h * 2),
    "cross_entropy": lambda t, x, h: t.nn.functional.cross_entropy(h, t.tensor([0, 1, 2, 0])),
    "prod": lambda t, x, h: h.prod(),
    "cat": lambda t, x, h: t.cat([x, h]),
    "softmax": lambda t, x, h: h.softmax(-1),
    "add": lambda t, x, h: x + h,
    "sum": lambda t, x, h: h.sum(),
    "layer_norm": lambda t, x, h: t.nn.functional.layer_norm(h, (4,)),
    "in place": lambda t, x, h: x.clone().addmm_(x, x),
    "double": lambda t, x, h: x.double() @ x.double(),
}


def name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_dtypes_on_the_cpu(call: str, half: str) -> None:
    found = []
    for lib in (torch, facade):
        x = (lib.arange(16.0).reshape(4, 4) / 16).requires_grad_()
        with lib.autocast("cpu", dtype=getattr(lib, half)):
            y = CALLS[call](lib, x, x.detach().to(getattr(lib, half)))
        grads = lib.autograd.grad(y.double().sum(), x, allow_unused=True) if y.requires_grad else (None,)
        found.append(
            (name(y.dtype), grads[0] is not None and name(grads[0].dtype), y.detach().double().flatten().tolist())
        )
    assert found[1][:2] == found[0][:2]
    torch.testing.assert_close(torch.tensor(found[1][2]), torch.tensor(found[0][2]), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("device", ["wgpu"], indirect=True)
def test_dtypes_on_a_gpu(device: str) -> None:
    """There the lists are CUDA's: softmax, norms, powers and sums are in float32 too."""
    x = torchlette.ones(4, 4, device=device)
    with torchlette.autocast("wgpu"):
        h = x @ x
        got = [h, h.softmax(-1), h.sum(), h.exp(), torchlette.nn.functional.layer_norm(h, (4,)), h + h, h * 1.0]
    assert [name(t.dtype) for t in got] == ["float16", "float32", "float32", "float32", "float32", "float16", "float16"]
    assert (torchlette.ones(2, 2) @ torchlette.ones(2, 2)).dtype is torchlette.float32


def test_contexts() -> None:
    """Contexts nest, end on exceptions, decorate and report their state; other devices are unaffected."""
    for lib in (torch, facade):
        x = lib.ones(2, 2)
        seen = []
        with lib.autocast("cpu"):
            seen += [(x @ x).dtype, lib.get_autocast_dtype("cpu"), lib.is_autocast_enabled("cpu")]
            with lib.autocast("cpu", enabled=False):
                seen += [(x @ x).dtype, lib.is_autocast_enabled("cpu")]
            with pytest.raises(ZeroDivisionError), lib.autocast("cpu", dtype=lib.float16):
                seen.append((x @ x).dtype)
                _ = 1 / 0
            seen.append((x @ x).dtype)
        seen += [(x @ x).dtype, lib.autocast("cpu")(lambda a: a @ a)(x).dtype, lib.is_autocast_enabled("cpu")]
        assert [str(s) for s in seen] == [
            *("torch.bfloat16", "torch.bfloat16", "True", "torch.float32", "False"),
            *("torch.float16", "torch.bfloat16", "torch.float32", "torch.bfloat16", "False"),
        ]  # fmt: skip
    with torchlette.autocast("wgpu"):
        assert (torchlette.ones(2, 2) @ torchlette.ones(2, 2)).dtype is torchlette.float32
    with pytest.warns(UserWarning, match="not supported"), torchlette.autocast("cpu", dtype=torchlette.float32):
        assert (torchlette.ones(2, 2) @ torchlette.ones(2, 2)).dtype is torchlette.float32


def test_the_state_can_be_set() -> None:
    for lib in (torch, facade):
        x = lib.ones(2, 2)
        try:
            lib.set_autocast_dtype("cpu", lib.float16)
            lib.set_autocast_enabled("cpu", True)
            assert (x @ x).dtype is lib.float16 and lib.is_autocast_enabled("cpu")
            lib.set_autocast_dtype("cpu", lib.bfloat16)
            assert (x @ x).dtype is lib.bfloat16
        finally:
            lib.set_autocast_dtype("cpu", lib.bfloat16)
            lib.set_autocast_enabled("cpu", False)
            lib.clear_autocast_cache()
        assert (x @ x).dtype is lib.float32


def test_calls_that_are_alike_but_for_the_context() -> None:
    """The fourth equal call uses the cached trace: it must not use another context's trace."""
    x = torchlette.ones(3, 3)
    for k in range(6):
        assert (x @ x).dtype is torchlette.float32
        with torchlette.autocast("cpu", dtype=torchlette.float16 if k % 2 else torchlette.bfloat16):
            assert (x @ x).dtype is (torchlette.float16 if k % 2 else torchlette.bfloat16)


def test_training_is_pytorchs() -> None:
    """A net, its loss and SGD: parameters stay float32 and follow PyTorch's trajectory."""
    ends = []
    for lib in (torch, facade):
        net = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU(), lib.nn.Linear(8, 2))
        with lib.no_grad():
            for k, p in enumerate(net.parameters()):
                p.copy_((lib.arange(float(p.numel())).reshape(p.shape) + k) % 5 / 5 - 0.4)
        optimizer = lib.optim.SGD(net.parameters(), lr=0.1)
        x, y = lib.arange(24.0).reshape(6, 4) / 24, lib.tensor([0, 1, 0, 1, 0, 1])
        for _ in range(5):
            with lib.autocast("cpu"):
                loss = lib.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert name(loss.dtype) == "float32"
        ends.append(loss.item())
    assert ends[1] == pytest.approx(ends[0], rel=1e-2)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_run_again_in_the_context(reentrant: bool) -> None:
    x = facade.ones(2, 2, requires_grad=True)
    with facade.autocast("cpu"):
        y = facade.utils.checkpoint.checkpoint(lambda a: (a @ a).relu(), x, use_reentrant=reentrant)
    assert y.dtype is facade.bfloat16
    y.float().sum().backward()
    assert x.grad.dtype is facade.float32 and x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_custom_functions() -> None:
    found = []
    for lib in (torch, facade):

        class Scale(lib.autograd.Function):
            @staticmethod
            @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32)
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x @ x

            @staticmethod
            @lib.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any) -> Any:
                (x,) = ctx.saved_tensors
                return 2 * (g @ x)

        x = lib.ones(2, 2, requires_grad=True)
        with warnings.catch_warnings(), lib.autocast("cpu"):
            warnings.simplefilter("ignore")
            y = Scale.apply((x @ x).float() + x)
        y.sum().backward()
        found.append((name(y.dtype), name(x.grad.dtype), x.grad.tolist()))
    assert found[0] == found[1]
