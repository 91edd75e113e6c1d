"""Convolutions, pools, norms by channel, padding and resizing are PyTorch's in values, gradients and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from module_oracle import check_call, ours, pair, theirs

import torchlette
import torchlette.nn.functional

IMAGE, SEQUENCE, VOLUME = (2, 4, 7, 6), (2, 4, 9), (2, 4, 5, 4, 6)

#: A module under either ``nn``, and the shape of its input.
MODULES: list[tuple[Callable[[Any], Any], tuple[int, ...]]] = [
    (lambda nn: nn.Conv1d(4, 6, 3, padding=1), SEQUENCE),
    (lambda nn: nn.Conv1d(4, 6, 3, padding="same", dilation=2), SEQUENCE),
    (lambda nn: nn.Conv2d(4, 6, 3), IMAGE),
    (lambda nn: nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), groups=2, bias=False), IMAGE),
    (lambda nn: nn.Conv2d(4, 4, 3, groups=4, padding=1), IMAGE),
    (lambda nn: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), IMAGE),
    (lambda nn: nn.Conv2d(4, 6, 3, padding="same", padding_mode="circular"), IMAGE),
    (lambda nn: nn.Conv2d(4, 6, 1), IMAGE),
    (lambda nn: nn.Conv3d(4, 2, 2, stride=2), VOLUME),
    (lambda nn: nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1), SEQUENCE),
    (lambda nn: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), IMAGE),
    (lambda nn: nn.ConvTranspose3d(4, 2, 2), VOLUME),
    (lambda nn: nn.MaxPool1d(3, 2), SEQUENCE),
    (lambda nn: nn.MaxPool2d(2), IMAGE),
    (lambda nn: nn.MaxPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    (lambda nn: nn.MaxPool2d(2, dilation=2), IMAGE),
    (lambda nn: nn.MaxPool3d(2), VOLUME),
    (lambda nn: nn.AvgPool1d(3, 2, 1), SEQUENCE),
    (lambda nn: nn.AvgPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    (lambda nn: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    (lambda nn: nn.AvgPool2d(2, divisor_override=3), IMAGE),
    (lambda nn: nn.AvgPool3d(2), VOLUME),
    (lambda nn: nn.AdaptiveAvgPool1d(3), SEQUENCE),
    (lambda nn: nn.AdaptiveAvgPool2d((3, None)), IMAGE),
    (lambda nn: nn.AdaptiveAvgPool2d(1), IMAGE),
    (lambda nn: nn.AdaptiveAvgPool3d((3, 2, 4)), VOLUME),
    (lambda nn: nn.AdaptiveMaxPool1d(4), SEQUENCE),
    (lambda nn: nn.AdaptiveMaxPool2d((3, 4)), IMAGE),
    (lambda nn: nn.AdaptiveMaxPool3d((3, 2, 4)), VOLUME),
    (lambda nn: nn.BatchNorm1d(4), (8, 4)),
    (lambda nn: nn.BatchNorm1d(4), SEQUENCE),
    (lambda nn: nn.BatchNorm2d(4), IMAGE),
    (lambda nn: nn.BatchNorm2d(4, momentum=None), IMAGE),
    (lambda nn: nn.BatchNorm2d(4, affine=False, track_running_stats=False), IMAGE),
    (lambda nn: nn.BatchNorm3d(4, eps=1e-3), VOLUME),
    (lambda nn: nn.InstanceNorm1d(4), SEQUENCE),
    (lambda nn: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), IMAGE),
    (lambda nn: nn.GroupNorm(2, 4), IMAGE),
    (lambda nn: nn.GroupNorm(4, 4, affine=False), SEQUENCE),
    (lambda nn: nn.ZeroPad2d((1, 2, 0, -1)), IMAGE),
    (lambda nn: nn.ConstantPad1d(2, 3.5), SEQUENCE),
    (lambda nn: nn.ReflectionPad2d((1, 2, 3, 0)), IMAGE),
    (lambda nn: nn.ReplicationPad3d(2), VOLUME),
    (lambda nn: nn.CircularPad2d((1, 2, 3, 0)), IMAGE),
    (lambda nn: nn.Upsample(scale_factor=2), IMAGE),
    (lambda nn: nn.Upsample(size=(5, 11), mode="nearest-exact"), IMAGE),
    (lambda nn: nn.Upsample(scale_factor=1.7, mode="bilinear"), IMAGE),
    (lambda nn: nn.Upsample(size=(5, 11), mode="bilinear", align_corners=True), IMAGE),
    (lambda nn: nn.Upsample(scale_factor=2, mode="linear"), SEQUENCE),
    (lambda nn: nn.Upsample(scale_factor=1.5, mode="trilinear"), VOLUME),
    (lambda nn: nn.UpsamplingBilinear2d(scale_factor=2), IMAGE),
    (lambda nn: nn.PixelShuffle(2), IMAGE),
    (lambda nn: nn.PixelUnshuffle(2), (2, 3, 4, 6)),
    (lambda nn: nn.ChannelShuffle(2), IMAGE),
    (lambda nn: nn.Unfold(3, dilation=2, padding=2, stride=2), IMAGE),
    (lambda nn: nn.Fold((5, 6), (2, 3), padding=1, stride=2), (2, 12, 9)),
]


@pytest.mark.parametrize(("make", "shape"), MODULES, ids=lambda v: "" if callable(v) else "x".join(map(str, v)))
def test_module_is_pytorchs(make: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    """Outputs, gradients, buffers and text agree in training and in evaluation."""
    torch.manual_seed(1)
    expected, got = pair(make)
    assert repr(got) == repr(expected)
    check_call(expected, got, torch.randn(shape, requires_grad=True))
    for name, buffer in expected.named_buffers():
        torch.testing.assert_close(theirs(got.get_buffer(name)), buffer, msg=name)
    expected.zero_grad(), got.zero_grad()
    check_call(expected.eval(), got.eval(), torch.randn(shape, requires_grad=True))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_max_pool_says_where(dims: int) -> None:
    """Indices agree, ties and infinities included."""
    shape = (2, 3, 7, 6, 5)[: dims + 2]
    x = torch.randint(0, 3, shape).float()
    x[0, 0] = -torch.inf
    for kwargs in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "ceil_mode": True}):
        want = getattr(torch.nn.functional, f"max_pool{dims}d")(x, return_indices=True, **kwargs)
        got = getattr(torchlette.nn.functional, f"max_pool{dims}d")(ours(x), return_indices=True, **kwargs)
        for w, g in zip(want, got, strict=True):
            torch.testing.assert_close(theirs(g), w)
    want = getattr(torch.nn.functional, f"adaptive_max_pool{dims}d")(x, 3, return_indices=True)
    got = getattr(torchlette.nn.functional, f"adaptive_max_pool{dims}d")(ours(x), 3, return_indices=True)
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(theirs(g), w)


def test_second_order_of_convolution_and_batch_norm() -> None:
    """A gradient's gradient agrees: a penalty on the gradient."""

    def penalty(lib: Any, x: Any, w: Any, g: Any) -> list[Any]:
        f = torchlette.nn.functional if lib is torchlette else torch.nn.functional
        y = f.conv2d(x, w, None, 2, 1)
        y = f.batch_norm(y, None, None, g, g, training=True)
        (dx,) = lib.autograd.grad(y.tanh().sum(), x, create_graph=True)
        return list(lib.autograd.grad((dx * dx).sum(), [x, w, g]))

    torch.manual_seed(0)
    leaves = [torch.randn(*s, requires_grad=True) for s in ((2, 4, 6, 5), (3, 4, 3, 3), (3,))]
    for w, g in zip(penalty(torch, *leaves), penalty(torchlette, *map(ours, leaves)), strict=True):
        torch.testing.assert_close(theirs(g), w, rtol=1e-5, atol=1e-5)  # sums of squares of sums


ERRORS: list[tuple[Callable[[Any], Any], type[Exception]]] = [
    (lambda nn: nn.Conv2d(3, 4, 3, groups=2), ValueError),
    (lambda nn: nn.Conv2d(4, 4, 3, padding="full"), ValueError),
    (lambda nn: nn.Conv2d(4, 4, 3, padding="same", stride=2), ValueError),
    (lambda nn: nn.Conv2d(4, 4, 3, padding_mode="mirror"), ValueError),
    (lambda nn: nn.GroupNorm(3, 4), ValueError),
]


@pytest.mark.parametrize(("make", "error"), ERRORS)
def test_bad_arguments_are_refused(make: Callable[[Any], Any], error: type[Exception]) -> None:
    """The constructors raise PyTorch's class."""
    with pytest.raises(error):
        make(torch.nn)
    with pytest.raises(error):
        make(torchlette.nn)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("Conv2d", (4, 4, 3)), ("BatchNorm2d", (4,)), ("MaxPool2d", (2,)), ("InstanceNorm2d", (4,))],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_inputs_of_wrong_rank_are_refused(name: str, shape: tuple[int, ...]) -> None:
    """A vector is no image."""
    with pytest.raises((RuntimeError, ValueError)) as want:
        getattr(torch.nn, name)(*shape)(torch.randn(4))
    with pytest.raises(want.type):
        getattr(torchlette.nn, name)(*shape)(torchlette.randn(4))


@pytest.mark.parametrize("n", [1, 2, 7, 24, 28, 33])
def test_grids_are_rounded_as_in_pytorch(n: int) -> None:
    """Ramps and identity grids are PyTorch's to the last bit: a spatial transformer begins there, where gradients jump.

    So they are with vector instructions, where both round a product and a sum once; PyTorch's scalar code rounds twice.
    """
    vectors = torch.backends.cpu.get_cpu_capability() != "DEFAULT"

    def same(got: object, wanted: torch.Tensor) -> None:
        eps = 0.0 if vectors else torch.finfo(torch.float32).eps
        torch.testing.assert_close(theirs(got), wanted, rtol=eps, atol=eps)

    for align_corners in (False, True):
        wanted = torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, n, n + 1), align_corners=align_corners)
        got = torchlette.nn.functional.affine_grid(
            torchlette.eye(2, 3)[None], (1, 1, n, n + 1), align_corners=align_corners
        )
        same(got, wanted)
    same(torchlette.linspace(-1, 1, n), torch.linspace(-1, 1, n))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resizing(mode: str, align_corners: bool) -> None:
    """Smaller, larger, the same size and one element; a factor; pictures of bytes; what is refused."""
    options = {"mode": mode, "antialias": True}
    sizes = [{"size": size, "align_corners": align_corners} for size in ((3, 4), (15, 20), (7, 6), (1, 1), (7, 2))]
    for place in (*sizes, {"scale_factor": 0.4}):
        x = torch.randn(IMAGE, requires_grad=True)
        mine = ours(x)
        want = torch.nn.functional.interpolate(x, **place, **options)
        got = torchlette.nn.functional.interpolate(mine, **place, **options)
        torch.testing.assert_close(theirs(got), want.detach())
        want.square().sum().backward()
        got.square().sum().backward()
        torch.testing.assert_close(theirs(mine.grad), x.grad)
    picture = torch.arange(147).reshape(1, 3, 7, 7).mul(5).remainder(256).to(torch.uint8)
    want = torch.nn.functional.interpolate(picture, (3, 3), mode="bilinear", antialias=True)
    got = torchlette.nn.functional.interpolate(
        torchlette.tensor(picture.numpy()), (3, 3), mode="bilinear", antialias=True
    )
    assert got.tolist() == want.tolist()
    with pytest.raises(ValueError, match="Anti-alias"):
        torchlette.nn.functional.interpolate(torchlette.ones(1, 1, 4), 2, mode="linear", antialias=True)


def test_sync_batch_norm() -> None:
    """In one process it is a batch norm; converted modules keep parameters, statistics and mode."""
    nn = torchlette.nn
    net = nn.Sequential(nn.Conv2d(4, 4, 1), nn.Sequential(nn.BatchNorm2d(4, momentum=0.2), nn.ReLU())).eval()
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert list(made.state_dict()) == list(net.state_dict())
    assert isinstance(made[1][0], nn.SyncBatchNorm)
    assert made[1][0].running_mean is net[1][0].running_mean or torchlette.equal(
        made[1][0].running_mean, net[1][0].running_mean
    )
    assert not made[1][0].training
    x = torchlette.randn(3, 4, 5)
    plain, sync = nn.BatchNorm1d(4), nn.SyncBatchNorm(4)
    assert torchlette.equal(plain(x), sync(x))
    assert torchlette.equal(plain.running_var, sync.running_var)
    assert repr(sync) == repr(torch.nn.SyncBatchNorm(4))
    with pytest.raises(ValueError, match="at least 2D"):
        sync(torchlette.ones(4))
