"""Convolutions beside PyTorch in values and gradients, and the kernels that make them, on each device."""

from __future__ import annotations

import pytest
import torch
from oracle import assert_equal, ours

import torchlette
import torchlette.nn.functional

# : Shapes of input and weight, and the call's options. Tiles have 32 to 128 rows and columns, and depths of 8 or 16 a
# block.
CALLS = [
    ((3, 10, 9, 11), (37, 10, 3, 3), {"padding": 1}),
    ((2, 8, 10, 12), (33, 8, 3, 3), {}),
    ((2, 16, 8, 8), (70, 16, 1, 1), {}),
    ((2, 6, 12, 20), (40, 3, 3, 5), {"groups": 2, "padding": (0, 2)}),
    ((2, 5, 17, 16), (12, 5, 4, 3), {"stride": 2, "padding": 1}),
    ((2, 12, 15, 14), (36, 4, 3, 3), {"stride": (2, 1), "dilation": (1, 2), "groups": 3}),
    ((9, 3, 20, 20), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 12, 9, 8), (12, 1, 3, 3), {"groups": 12, "padding": 1}),
    ((2, 4, 9, 8), (12, 1, 3, 3), {"groups": 4, "stride": 2}),
    ((2, 20, 9, 8), (3, 20, 3, 3), {"padding": 1}),
    ((3, 7, 130), (9, 7, 5), {"padding": 2}),
    ((2, 7, 64), (9, 7, 8), {"stride": 4, "padding": 2}),
    ((2, 4, 5, 6, 8), (10, 4, 2, 3, 3), {"padding": 1}),
    ((1, 5, 3, 3), (8, 5, 3, 3), {}),
]


#: Likewise of transposed ones.
TRANSPOSED = [
    ((2, 6, 5, 7), (6, 9, 2, 2), {"stride": 2}),
    ((2, 6, 5, 7), (6, 9, 4, 4), {"stride": 2, "padding": 1}),
    (
        (2, 6, 5, 7),
        (6, 3, 3, 5),
        {"stride": (3, 2), "padding": (0, 1), "output_padding": (2, 1), "groups": 2, "dilation": (2, 1)},
    ),
    ((2, 6, 5, 7), (6, 1, 3, 3), {"stride": 2, "groups": 6}),
    ((2, 4, 11), (4, 8, 3), {"stride": 5, "padding": 1}),
    ((1, 3, 3, 4, 3), (3, 5, 2, 3, 2), {"stride": 2}),
]


@pytest.mark.parametrize(
    ("kind", "image", "weight", "options"),
    [("conv", *c) for c in CALLS] + [("conv_transpose", *c) for c in TRANSPOSED],
    ids=lambda v: "x".join(map(str, v)) if isinstance(v, tuple) else v if isinstance(v, str) else "",
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_values_and_gradients_are_pytorchs(
    device: str, kind: str, image: tuple[int, ...], weight: tuple[int, ...], options: dict, dtype: str
) -> None:
    """Half types are compared with rounded float64 results: PyTorch's CPU kernels sum in another order."""
    torch.manual_seed(3)
    channels = weight[0] if kind == "conv" else weight[1] * options.get("groups", 1)
    drawn = [(0.3 * torch.randn(s)).to(getattr(torch, dtype)) for s in (image, weight, (channels,))]
    theirs = [v.clone().to(torch.float32 if dtype == "float32" else torch.float64).requires_grad_() for v in drawn]
    mine = [ours(v.numpy(), device, requires_grad=True) for v in drawn]
    want, got = (
        getattr(lib.nn.functional, f"{kind}{len(image) - 2}d")(*v, **options)
        for lib, v in ((torch, theirs), (torchlette, mine))
    )
    cotangent = (0.3 * torch.randn(want.shape)).to(drawn[0].dtype)
    wants = [want, *torch.autograd.grad(want, theirs, cotangent.to(want.dtype))]
    gots = [got, *torchlette.autograd.grad(got, mine, ours(cotangent.numpy(), device))]
    for g, w in zip(gots, wants, strict=True):
        if dtype == "float32":
            assert_equal(g, w)
        else:  # sums of many halves in a few parts, each rounded
            torch.testing.assert_close(
                torch.tensor(g.detach().cpu().numpy()).double(), w.detach(), rtol=4e-3, atol=4e-3
            )


def test_zeros_between_elements_are_not_multiplied(device: str) -> None:
    """Each of the four phases of a transposed convolution of stride 2 multiplies its own taps: a quarter of the
    kernel's.
    """
    x, w = torchlette.ones(2, 8, 9, 9, device=device), torchlette.ones(8, 8, 4, 4, device=device)
    y = torchlette.nn.functional.conv_transpose2d(x, w, stride=2)
    y.cpu().numpy()
    plan = torchlette.explain(y)["plan"]["kernels"]
    flops = sum(k["flops"] for k in plan if k["name"].startswith("gemm"))
    assert flops == 2 * 2 * 8 * y.shape[2] * y.shape[3] * 8 * 2 * 2


def kernels(t: torchlette.Tensor) -> list[str]:
    """Return the names of the kernels of the plan that made a value, of convolutions alone."""
    t.cpu().numpy()
    return [k["name"] for k in torchlette.explain(t)["plan"]["kernels"] if k.get("op") == "conv"]


@pytest.mark.parametrize(("rows", "want"), [(8, "gemm_float32"), (1, "conv_float32")])
def test_windows_are_read_where_they_lie(device: str, rows: int, want: str) -> None:
    """An unpadded convolution is one product without an im2col buffer. On a GPU one channel is summed untiled."""
    x, w = torchlette.ones(2, 4, 9, 9, device=device), torchlette.ones(rows, 4, 3, 3, device=device)
    y = torchlette.nn.functional.conv2d(x, w)
    assert kernels(y) == [want if device == "wgpu" else "gemm_float32"]
    assert (y == 36).all().item()


@pytest.mark.parametrize("groups", [1, 2])
def test_tiles_give_the_values_and_gradients_of_a_direct_convolution(device: str, groups: int) -> None:
    """A 3x3 convolution with many channels goes by Winograd's tiles on a GPU, and so does its input's gradient. The
    image has odd sides, so tiles reach over its edge, and the bias and the activation come after them.
    """
    torch.manual_seed(0)
    theirs = torch.nn.Conv2d(96 * groups, 112 * groups, 3, padding=1, groups=groups)
    mine = torchlette.nn.Conv2d(96 * groups, 112 * groups, 3, padding=1, groups=groups)
    mine.load_state_dict({k: torchlette.tensor(v.detach().numpy()) for k, v in theirs.state_dict().items()})
    mine = mine.to(device)
    x = torch.randn(4 // groups, 96 * groups, 31, 29)
    a, b = x.clone().requires_grad_(), torchlette.tensor(x.numpy(), device=device).requires_grad_()
    y, z = torch.nn.functional.softplus(theirs(a)), torchlette.nn.functional.softplus(mine(b))
    y.mean().backward()
    z.mean().backward()
    pairs = [(z.detach(), y.detach()), (b.grad, a.grad)]
    pairs += [(p.grad, q.grad) for p, q in zip(mine.parameters(), theirs.parameters(), strict=True)]
    for got, want in pairs:
        torch.testing.assert_close(torch.from_numpy(got.cpu().numpy()), want)
    with torchlette.no_grad():
        assert ("winograd_tiles" in kernels(mine(b))) == (device == "wgpu")
