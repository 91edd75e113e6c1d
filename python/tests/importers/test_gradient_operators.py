"""ATen's backward operators, which exported graphs of gradients have, beside PyTorch: values and their gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchlette as tl
from torchlette import export
from torchlette._import.aten import find_name


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


POOL = [[3, 3], [2, 2], [1, 1]]
INDICES = torch.nn.functional.max_pool2d(r(1, 2, 8, 8), 3, 2, 1, return_indices=True)[1]
INDICES3 = torch.nn.functional.max_pool3d(r(1, 2, 4, 4, 4), 2, return_indices=True)[1]
CONV = (None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
CALLS: dict[str, tuple[Any, ...]] = {
    **{f"{name}_backward": (r(9), r(9) * 3) for name in ("silu", "mish", "hardswish", "hardsigmoid")},
    "gelu_backward": (r(9), r(9)),
    "hardtanh_backward": (r(9), r(9), -1.0, 0.5),
    "softplus_backward": (r(9), r(9), 2.0, 20.0),
    "hardshrink_backward": (r(9), r(9), 0.5),
    "softshrink_backward": (r(9), r(9), 0.5),
    "leaky_relu_backward": (r(9), r(9), 0.1, False),
    "elu_backward": (r(9), 1.5, 2.0, 0.5, False, r(9)),
    "log_sigmoid_backward": (r(9), r(9), torch.exp(-r(9).abs())),
    "glu_backward": (r(4, 3), r(4, 6), 1),
    "mse_loss_backward": (r(3, 4), r(3, 4), r(3, 4) + 1, 0),
    "smooth_l1_loss_backward": (torch.tensor(2.0), r(3, 4), r(3, 4) * 2, 1, 0.5),
    "huber_loss_backward": (torch.tensor(2.0), r(3, 4), r(3, 4) * 2, 2, 0.5),
    "soft_margin_loss_backward": (torch.tensor(2.0), r(3, 4), torch.ones(3, 4), 1),
    "binary_cross_entropy_backward": (torch.tensor(2.0), r(3, 4).sigmoid(), torch.full((3, 4), 0.3), None, 1),
    "nll_loss_backward": (torch.tensor(2.0), r(3, 4), torch.tensor([1, 0, 3]), None, 1, -100, torch.tensor(3.0)),
    "nll_loss2d_backward": (r(2, 3, 3), r(2, 4, 3, 3), torch.ones(2, 3, 3, dtype=torch.long), None, 0, -100, r(1)[0]),
    "avg_pool2d_backward": (r(1, 2, 4, 4), r(1, 2, 8, 8), *POOL, False, False, None),
    "_adaptive_avg_pool2d_backward": (r(1, 2, 3, 2), r(1, 2, 7, 8)),
    "max_pool2d_with_indices_backward": (r(1, 2, 4, 4), r(1, 2, 8, 8), *POOL, [1, 1], False, INDICES),
    "max_pool3d_with_indices_backward": (
        r(1, 2, 2, 2, 2),
        r(1, 2, 4, 4, 4),
        [2] * 3,
        [2] * 3,
        [0] * 3,
        [1] * 3,
        False,
        INDICES3,
    ),
    "adaptive_max_pool2d_backward": (r(1, 2, 4, 4), r(1, 2, 8, 8), INDICES),
    "convolution_backward": (r(2, 4, 4, 4), r(2, 3, 8, 8), r(4, 3, 3, 3), *CONV),
    "embedding_dense_backward": (r(2, 2, 4), torch.tensor([[1, 2], [0, 1]]), 5, 0, False),
    "reflection_pad1d_backward": (r(1, 2, 8), r(1, 2, 5), [1, 2]),
    "replication_pad2d_backward": (r(1, 2, 6, 8), r(1, 2, 5, 5), [1, 2, 0, 1]),
    "upsample_nearest2d_backward": (r(1, 2, 8, 8), [8, 8], [1, 2, 4, 4], 2.0, 2.0),
    "upsample_bilinear2d_backward": (r(1, 2, 5, 7), [5, 7], [1, 2, 4, 4], True, None, None),
    "grid_sampler_2d_backward": (r(1, 2, 3, 3), r(1, 2, 4, 4), r(1, 3, 3, 2).tanh(), 0, 0, False, [True, True]),
}


def converted(v: Any) -> Any:
    return (
        tl.tensor(v.detach().numpy(), device="cpu").requires_grad_(v.requires_grad)
        if isinstance(v, torch.Tensor)
        else v
    )


def results(found: Any) -> list[Any]:
    return [t for t in (found if isinstance(found, (tuple, list)) else [found]) if t is not None]


@pytest.mark.parametrize("name", CALLS)
def test_cotangents_and_their_gradients_are_pytorchs(name: str) -> None:
    args = list(CALLS[name])
    chosen = [i for i, v in enumerate(args[:2]) if isinstance(v, torch.Tensor) and v.is_floating_point()]
    for i in chosen:
        args[i] = args[i].clone().requires_grad_()
    function = find_name(name)
    assert function is not None
    ours = [converted(v) for v in args]
    want, got = results(getattr(torch.ops.aten, name)(*args)), results(function(*ours))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(torch.tensor(g.tolist()), w.detach())
    try:
        wanted = torch.autograd.grad(sum(w.sin().sum() for w in want), [args[i] for i in chosen], allow_unused=True)
    except RuntimeError as exc:
        assert "is not implemented" in str(exc)  # noqa: PT017 - PyTorch has no gradient of this operator
        return
    found = tl.autograd.grad(tl.stack([g.sin().sum() for g in got]).sum(), [ours[i] for i in chosen], allow_unused=True)
    for i, g, w in zip(chosen, found, wanted, strict=True):
        zero = torch.zeros_like(args[i])
        torch.testing.assert_close(zero if g is None else torch.tensor(g.tolist()), zero if w is None else w)


class Gradient(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = [v.detach().requires_grad_() for v in (x, w)]
        with torch.enable_grad():
            y = torch.nn.functional.gelu(torch.nn.functional.conv2d(*own, padding=1))
            return y, *torch.autograd.grad((y * y.detach().cos()).sum(), own)


def test_a_file_of_a_gradient_loads(tmp_path: Any) -> None:
    args = r(1, 2, 5, 5), r(3, 2, 3, 3)
    torch.export.save(torch.export.export(Gradient(), args, strict=False), tmp_path / "m.pt2")
    got = export.load(tmp_path / "m.pt2").module()(*[tl.tensor(a.numpy(), device="cpu") for a in args])
    for g, w in zip(got, Gradient()(*args), strict=True):
        torch.testing.assert_close(torch.tensor(g.tolist()), w.detach())
