"""Attention without stored weights against PyTorch's: strided operands, gradients, second derivatives, memory order."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn.functional as F  # noqa: E402

attend = torch.nn.functional.scaled_dot_product_attention


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sides(device):
    """Give each side's attention and its maker of tensors."""
    return (attend, torch.tensor), (F.scaled_dot_product_attention, lambda a: tl.tensor(a, device=device))


def both(device, call, *arrays):
    """Call a function of (attention, maker, operands) on both sides; give results and the operands' gradients."""
    out = []
    for f, make in sides(device):
        operands = [make(a).requires_grad_() for a in arrays]
        y = call(f, make, *operands)
        (y * make(draw(*y.shape, seed=9))).sum().backward()
        out.append([x.cpu().numpy() for x in (y.detach(), *(x.grad for x in operands))])
    return out


def close(pair):
    for a, b in zip(*pair, strict=True):
        torch.testing.assert_close(torch.tensor(b), torch.tensor(a))


def heads(x, h):
    return x.reshape(x.shape[0], x.shape[1], h, -1).transpose(1, 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 40])
def test_slices_of_one_tensor(device, causal, length):
    """The queries, keys and values of a model are slices of one product, seen head by head."""

    def call(f, make, qkv):
        q, k, v = (heads(x, 2) for x in qkv.split(24, dim=2))
        return f(q, k, v, is_causal=causal).transpose(1, 2).reshape(2, length, 24)

    close(both(device, call, draw(2, length, 72)))


def test_groups_widths_and_masks(device):
    q, k, v = draw(2, 4, 9, 40), draw(2, 2, 13, 40, seed=1), draw(2, 2, 13, 24, seed=2)
    keep = np.random.default_rng(3).random((9, 13)) > 0.4
    keep[4] = False  # a row without keys is 0
    bias = draw(2, 1, 9, 13, seed=4)
    for mask in (None, keep, bias):
        close(both(device, lambda f, make, q, k, v, m=mask: f(q, k, v, None if m is None else make(m), scale=0.2, enable_gqa=True), q, k, v))


def test_a_mask_that_requires_grad(device):
    close(both(device, lambda f, make, q, k, v, m: f(q, k, v, m), draw(1, 2, 5, 8), draw(1, 2, 7, 8, seed=1), draw(1, 2, 7, 8, seed=2), draw(5, 7, seed=3)))


def test_second_derivatives(device):
    arrays = [draw(1, 2, 6, 4), draw(1, 2, 6, 4, seed=1), draw(1, 2, 6, 4, seed=2)]
    out = []
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for lib, (f, make) in zip((torch, tl), sides(device), strict=True):
            x = [make(a).requires_grad_() for a in arrays]
            first = lib.autograd.grad(f(*x, is_causal=True).sin().sum(), x, create_graph=True)
            sum((g * g).sum() for g in first).backward()
            out.append([t.grad.cpu().numpy() for t in x])
    close(out)


def test_half_precision_rounds_once(device):
    q, k, v = (draw(1, 2, 20, 16, seed=s) for s in range(3))
    exact = attend(*(torch.tensor(x).half().double() for x in (q, k, v)), is_causal=True)
    got = F.scaled_dot_product_attention(*(tl.tensor(x, device=device).half() for x in (q, k, v)), is_causal=True)
    assert got.dtype is tl.float16
    torch.testing.assert_close(torch.tensor(got.cpu().numpy()), exact.half(), rtol=1e-3, atol=1e-5)


def test_the_result_lies_as_a_model_goes_on():
    x = tl.tensor(draw(2, 3, 5, 8))
    y = F.scaled_dot_product_attention(x, x, x)
    assert y.shape == (2, 3, 5, 8)
    assert y.transpose(1, 2).is_contiguous()
