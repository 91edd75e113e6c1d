"""A row norm uses one kernel in the forward pass and one for each gradient."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn.functional as F  # noqa: E402
from torchlette.testing.holding import disabled  # noqa: E402


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def names(t):
    return [k["name"] for k in tl.explain(t)["plan"]["kernels"]]


@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm_is_one_kernel(device, weighted):
    x = tl.tensor(draw(6, 48), device=device)
    w = tl.tensor(draw(48, seed=1), device=device) if weighted else None
    y = F.rms_norm(x, (48,), w)
    y.tolist()
    assert names(y) == ["rms_norm_float32"]
    want = torch.nn.functional.rms_norm(
        torch.tensor(draw(6, 48)), (48,), torch.tensor(draw(48, seed=1)) if weighted else None
    )
    torch.testing.assert_close(torch.tensor(y.cpu().numpy()), want)


def test_rms_norm_gradients_are_one_kernel_each(device):
    x, w, g = draw(5, 7, 32), draw(32, seed=1), draw(5, 7, 32, seed=2)
    a, b = tl.tensor(x, device=device, requires_grad=True), tl.tensor(w, device=device, requires_grad=True)
    with disabled("fuse"):
        dx, dw = tl.autograd.grad(F.rms_norm(a, (32,), b, 1e-5), (a, b), tl.tensor(g, device=device))
        dx.tolist()
        assert [n.split("_f")[0] for n in names(dx)] == ["rms_norm", "layer_norm_grad"]
        dw.tolist()
        assert [n.split("_f")[0] for n in names(dw)] == ["layer_norm_grad_wb"]
    c, d = torch.tensor(x).requires_grad_(), torch.tensor(w).requires_grad_()
    want = torch.autograd.grad(torch.nn.functional.rms_norm(c, (32,), d, 1e-5), (c, d), torch.tensor(g))
    for ours, theirs in zip((dx, dw), want, strict=True):
        torch.testing.assert_close(torch.tensor(ours.cpu().numpy()), theirs)


NORMS = {
    "layer": lambda F, x, w, b: F.layer_norm(x, (16,), w, b),
    "layer, no weight": lambda F, x, w, b: F.layer_norm(x, (16,), None, b),
    "rms": lambda F, x, w, b: F.rms_norm(x, (16,), w, 1e-6),
    "batch": lambda F, x, w, b: F.batch_norm(x, None, None, w, b, True),
    "batch, followed": lambda F, x, w, b: F.batch_norm(x, w.detach() * 0, w.detach() * 0, w, b, True),
    "instance": lambda F, x, w, b: F.instance_norm(x.reshape(1, 16, 4), None, None, w, b),
    "group": lambda F, x, w, b: F.group_norm(x, 4, w, b),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("norm", NORMS)
def test_norms_of_halves_do_not_round_wide_parameters(device, norm, dtype):
    """As layers under autocast: neither the weight nor the bias is rounded to half precision, nor their gradients."""
    half = getattr(torch, dtype)
    x = torch.tensor(draw(4, 16)).to(half)
    w, b = torch.tensor(draw(16, seed=1)) + 1.3, torch.tensor(draw(16, seed=2))
    wide = [t.double().requires_grad_() for t in (x, w, b)]
    want = NORMS[norm](torch.nn.functional, *wide)
    narrow = tl.tensor(x.float().numpy(), device=device).to(getattr(tl, dtype)).requires_grad_()
    ours = [narrow, *(tl.tensor(t.numpy(), device=device).requires_grad_() for t in (w, b))]
    got = NORMS[norm](F, *ours)
    assert got.dtype is narrow.dtype
    rounded = got.detach().float().cpu().numpy() == want.detach().to(half).float().numpy()
    assert rounded.mean() > 0.95  # the correctly rounded result, but where float32's error crosses a border
    g = torch.linspace(-1, 1, want.numel()).reshape(want.shape).to(half)
    theirs = torch.autograd.grad(want, wide, g.double(), allow_unused=True)
    seed = tl.tensor(g.float().numpy(), device=device).to(narrow.dtype)
    made = tl.autograd.grad(got, ours, seed, allow_unused=True)
    for mine, right, of in zip(made[1:], theirs[1:], ours[1:], strict=True):
        assert (mine is None) == (right is None) and (mine is None or mine.dtype is of.dtype)
        if mine is not None:
            torch.testing.assert_close(torch.tensor(mine.cpu().numpy()), right.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 2, 2)])
def test_batch_norm_of_no_samples_has_gradients(device, training, shape):
    """A batch of no samples goes through, as one of a mixture's experts may get: gradients are zeros."""
    norm = (tl.nn.BatchNorm1d if len(shape) == 2 else tl.nn.BatchNorm2d)(3, device=device).train(training)
    y = norm(tl.ones(*shape, device=device))
    assert y.shape == shape
    y.sum().backward()
    assert norm.weight.grad.tolist() == norm.bias.grad.tolist() == [0, 0, 0]
    assert norm.running_mean.tolist() == [0, 0, 0]
