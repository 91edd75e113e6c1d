"""Attention without stored weights is PyTorch's: strided operands, gradients, second derivatives, memory order."""

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
    """Queries, keys and values are slices of one product, viewed by head, as in models."""

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
        close(
            both(
                device,
                lambda f, make, q, k, v, m=mask: f(q, k, v, None if m is None else make(m), scale=0.2, enable_gqa=True),
                q,
                k,
                v,
            )
        )


@pytest.mark.parametrize("shape", [(5, 70), (2, 1, 5, 70), (3, 1, 1), (2, 1, 1, 70), (1, 3, 5, 1), (1,)])
def test_a_mask_that_requires_grad(device, shape):
    """Its gradient has the mask's shape: the kernel sums over broadcast elements."""
    close(
        both(
            device,
            lambda f, make, q, k, v, m: f(q, k, v, m),
            draw(2, 3, 5, 8),
            draw(2, 3, 70, 8, seed=1),
            draw(2, 3, 70, 8, seed=2),
            draw(*shape, seed=3),
        )
    )


def test_more_than_two_leading_dims(device):
    q, k, v, m = draw(2, 3, 4, 5, 8), draw(2, 3, 4, 7, 8, seed=1), draw(2, 3, 4, 7, 8, seed=2), draw(3, 1, 5, 7, seed=3)
    close(both(device, lambda f, make, q, k, v, m: f(q, k, v, m), q, k, v, m))


def test_a_float_mask_of_half_operands(device):
    (q, k, v), m = (torch.tensor(draw(1, 2, 9, 16, seed=s)).half() for s in range(3)), draw(9, 9, seed=3)
    want = attend(q, k, v, torch.tensor(m))
    got = F.scaled_dot_product_attention(
        *(tl.tensor(x.numpy(), device=device) for x in (q, k, v)), tl.tensor(m, device=device)
    )
    torch.testing.assert_close(torch.tensor(got.cpu().numpy()), want, rtol=2e-3, atol=1e-3)


def dropped(device, shape, rate):
    """Return dropout's factors of weights of (batch, heads, queries, keys), read off equal weights and unit values."""
    b, h, length, n = shape
    tl.manual_seed(7)
    unit = tl.eye(n, device=device).expand(b, h, n, n)
    return (
        n
        * F.scaled_dot_product_attention(
            tl.zeros(b, h, length, 4, device=device), tl.zeros(b, h, n, 4, device=device), unit, dropout_p=rate
        )
        .cpu()
        .numpy()
    )


@pytest.mark.parametrize("masked", [False, True])
def test_dropout(device, masked):
    """The bits are the same on every device, in both directions, and in the second derivative."""
    shape = (2, 3, 21, 70)
    factors = dropped(device, shape, 0.3)
    np.testing.assert_allclose(factors, dropped("cpu", shape, 0.3), rtol=1e-6)
    assert set(np.unique(factors.round(3))) == {0.0, np.float32(1.429)}
    assert abs((factors == 0).mean() - 0.3) < 0.02

    def call(f, make, q, k, v, m=None):
        if f is attend:
            w = q @ k.transpose(-1, -2) * 0.4
            return torch.softmax(w if m is None else w + m, -1) * torch.tensor(factors) @ v
        tl.manual_seed(7)
        return f(q, k, v, m, dropout_p=0.3, scale=0.4)

    arrays = [draw(2, 3, 21, 12), draw(2, 3, 70, 12, seed=1), draw(2, 3, 70, 20, seed=2)] + (
        [draw(3, 1, 70, seed=3)] if masked else []
    )
    close(both(device, call, *arrays))
    out = []
    for lib, (f, make) in zip((torch, tl), sides(device), strict=True):
        x = [make(a).requires_grad_() for a in arrays]
        first = lib.autograd.grad(call(f, make, *x).sin().sum(), x, create_graph=True)
        sum((g * g).sum() for g in first).backward()
        out.append([t.grad.cpu().numpy() for t in x])
    for a, b in zip(*out, strict=True):
        torch.testing.assert_close(torch.tensor(b), torch.tensor(a), rtol=1e-4, atol=1e-4)


def test_dropout_of_everything_and_of_wide_heads():
    x = tl.tensor(draw(1, 2, 5, 300))
    assert F.scaled_dot_product_attention(x, x, x, dropout_p=1.0).abs().sum().item() == 0
    tl.manual_seed(3)
    wide = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    tl.manual_seed(3)
    halves = [F.scaled_dot_product_attention(x.double(), x.double(), x.double(), dropout_p=0.5)]
    torch.testing.assert_close(torch.tensor(wide.numpy()), torch.tensor(halves[0].float().numpy()))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=1.5)


@pytest.mark.parametrize("masked", [False, True])
def test_memory_grows_with_the_length(device, masked):
    """Forward and backward with dropout, and with a mask of keys whose gradient is asked, at 256 and 512 keys."""

    def peak(n):
        q, k, v = (tl.tensor(draw(1, 1, n, 8, seed=s), device=device).requires_grad_() for s in range(3))
        m = tl.zeros(1, 1, 1, n, device=device, requires_grad=True) if masked else None
        tl.mark_step()
        tl._C._set_option("reset_peak", "")
        before = tl.stats()["live_bytes"]
        F.scaled_dot_product_attention(q, k, v, m, dropout_p=0.2).sum().backward()
        q.grad.sum().item()
        return tl.stats()["peak_bytes"] - before

    peak(256)
    short, long = peak(256), peak(512)
    assert 0 < long <= 2.5 * short
    assert long < 512 * 512 * 4 / 2  # half of the weights


def test_a_small_mask_that_requires_grad(device):
    close(
        both(
            device,
            lambda f, make, q, k, v, m: f(q, k, v, m),
            draw(1, 2, 5, 8),
            draw(1, 2, 7, 8, seed=1),
            draw(1, 2, 7, 8, seed=2),
            draw(5, 7, seed=3),
        )
    )


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


BAD_HEADS = {
    "key and value": (((2, 3, 4), (2, 5, 4), (2, 3, 4)), None),
    "dims of the query": (((4,), (4,), (4,)), None),
    "dims of the key": (((2, 3, 4), (3, 4), (3, 4)), None),
    "embedding": (((3, 5), (3, 5), (3, 5)), None),
    "batch of the padding": (((2, 3, 4),) * 3, (2, 2)),
    "sources of the padding": (((2, 3, 4),) * 3, (3, 4)),
    "dims of the padding": (((2, 3, 4),) * 3, (3,)),
}


@pytest.mark.parametrize("case", BAD_HEADS)
def test_shapes_of_several_heads_are_checked(case):
    shapes, padding = BAD_HEADS[case]

    def text(lib):
        mask = None if padding is None else lib.zeros(padding, dtype=lib.bool)
        with pytest.raises(AssertionError) as error:
            lib.nn.MultiheadAttention(4, 2)(*map(lib.ones, shapes), key_padding_mask=mask)
        return str(error.value)

    assert text(tl) == text(torch)
