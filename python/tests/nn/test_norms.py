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


def test_rms_norm_of_halves_with_a_wide_weight(device):
    x, w = draw(4, 16), draw(16, seed=1)
    got = F.rms_norm(tl.tensor(x, device=device).half(), (16,), tl.tensor(w, device=device))
    want = torch.nn.functional.rms_norm(
        torch.tensor(x).half().double(), (16,), torch.tensor(w).double(), torch.finfo(torch.float32).eps
    )
    assert got.dtype is tl.float16
    torch.testing.assert_close(torch.tensor(got.cpu().numpy()), want.half())


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
