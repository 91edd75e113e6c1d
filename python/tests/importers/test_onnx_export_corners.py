"""onnx.export: numbers with a dim, operands without a batch, integers, no elements, and options of operators."""

from __future__ import annotations

import functools

import pytest
from importers.test_onnx_export_functions import _on_the_cpu, check  # noqa: F401

import torchlette
from torchlette import linalg
from torchlette.nn import functional as F

INF, NAN = float("inf"), float("nan")


def drawn(*shape):
    return torchlette.randn(*shape, device="cpu")


def given(values):
    return torchlette.tensor(values, device="cpu")


def classes():
    return given([1, 4, -100, 0])


def whole():
    return given([[-7, 2, 5], [4, -4, 9]])


def with_holes():
    return given([[1.0, NAN, -3.0, 7.0], [NAN, NAN, NAN, NAN], [0.5, 0.25, 4.0, 2.0]])


def square():
    return drawn(2, 3, 3) + 3 * torchlette.eye(3, device="cpu")


def _numbers_along_a_dim(x, i):
    return (
        *(x.sum(0), x.max(0)[0], x.min(-1)[1], x.cumsum(0), x.softmax(0), x.log_softmax(-1), x.flip(0), x.sort(0)[0]),
        *(*x.aminmax(dim=0, keepdim=True), x.kthvalue(1, 0)[1], x.median(0)[0], x.argmax(0), x.var(0, correction=0)),
        *(
            x.gather(0, i),
            x.index_select(0, i),
            x.index_fill(0, i, 3.0),
            x.scatter(0, i, 2.0),
            x.std_mean(correction=0)[1],
        ),
        *(
            F.cosine_similarity(x, x, 0),
            x.amax(0, keepdim=True),
            *x.cummax(0),
            x.cummin(0)[1],
            x.unfold(0, 1, 1),
            x.scatter_reduce(0, i, x, "mean", include_self=False),
        ),
    )


def _without_a_batch(x):
    kernel = torchlette.arange(2 * 3 * 3 * 2, device="cpu").reshape(2, 3, 3, 2) / 9
    return (
        *(
            F.conv2d(x, kernel, stride=2),
            F.conv_transpose2d(x, kernel.transpose(0, 1)),
            F.adaptive_avg_pool2d(x, (7, 4)),
        ),
        *(F.adaptive_max_pool2d(x, (1, 2), return_indices=True), F.max_pool2d(x, 2), F.avg_pool2d(x, 2)),
        F.avg_pool2d(x, (3, 2), padding=1, divisor_override=5),
    )


def _of_integers(x):
    return (
        *(x.floor(), x.ceil(), x.round(), F.relu(x), x.isnan(), x.isinf(), x.isfinite(), x.isposinf(), x.isneginf()),
        *(x.nansum(1), x.isreal(), F.pairwise_distance(x, x + 2), torchlette.fill(x, 4)),
        torchlette.zeros_like(x).scatter_reduce(0, x.remainder(2), x, "mean"),
    )


def _of_nothing(x, i):
    none = x[:, :0]
    return (
        none.roll(1, 0),
        none.reshape(0, 5, 4),
        F.cross_entropy(x[:0], i, reduction="none"),
        none.sum(1),
        none.cumprod(0),
    )


def _ranges():
    numbers = [(0, 1, 0.1), (5, -3, -2), (0.0, 2.5), (-1, 0.999, 0.333), (7,), (2, 9)]
    last = torchlette.arange(0.0, 3.0, 1.5, dtype=torchlette.int64, device="cpu")
    return (*(torchlette.arange(*n, device="cpu") for n in numbers), last)


def _losses(x, i, p, w):
    return (
        *(F.cross_entropy(x, i, w), F.cross_entropy(x, i, w, label_smoothing=0.3), F.cross_entropy(x[0], i[0])),
        *(F.cross_entropy(x, i, label_smoothing=0.1, reduction="sum"), F.cross_entropy(x, p, label_smoothing=0.2)),
        *(F.cross_entropy(x, p, w, reduction="none"), F.cross_entropy(x, i.abs() % 5, w, ignore_index=4)),
        F.binary_cross_entropy_with_logits(x * 40, p, weight=w, pos_weight=w + 1),
        F.binary_cross_entropy_with_logits(x, p, pos_weight=w, reduction="none"),
    )


def _ranks(x, q):
    modes = ("linear", "lower", "higher", "nearest", "midpoint")
    return (
        *(x.nanmedian(1)[0], x.nanmedian(), x[::2].nanmedian(0, keepdim=True)[1], x.quantile(0.3, 1), x.nanquantile(q)),
        *(
            f(q, 1, interpolation=m, keepdim=k)
            for f in (x.quantile, x.nanquantile)
            for m in modes
            for k in (False, True)
        ),
    )


def _distances(x):
    return (
        *(torchlette.cdist(x, x[:2], p) for p in (0, 0.5, 3, INF)),
        *(F.pdist(x, p) for p in (1, 2, 2.5, INF)),
        *(F.pairwise_distance(x, x[:1] * 2, p, keepdim=True) for p in (1.5, INF)),
        *(x.renorm(p, d, 0.7) for p, d in ((1, 0), (2, 1), (3, 0), (INF, 1))),
        *(linalg.norm(x, order) for order in (1, -1, INF, -INF)),
        linalg.matrix_norm(x, -1, keepdim=True),
    )


def _matrices(a, b):
    return (
        *(*linalg.inv_ex(a), *linalg.solve_ex(a, b), *linalg.cholesky_ex(a @ a.mT), linalg.matrix_power(a, 0)),
        *(linalg.matrix_power(a, -2), linalg.tensorinv(a[0].reshape(3, 1, 3), 2), linalg.tensorsolve(a[0], b[0, :, 0])),
        *(linalg.vander(b[:, :, 0], N=4), linalg.diagonal(a, offset=1), torchlette.block_diag(a[0], b[0, 0, 0], b[1])),
        *(a[0].H, torchlette.mvlgamma(a.abs() + 2, 3), torchlette.logspace(0, 2, 5, base=3.0, device="cpu")),
    )


def _others(x, repeats):
    return (
        *(torchlette.repeat_interleave(x, repeats, 0, output_size=5), torchlette.trapezoid(x, x.cumsum(0), dim=0)),
        *(torchlette.cumulative_trapezoid(x, torchlette.arange(5.0, device="cpu") ** 2), x.diff(n=0, prepend=x)),
        *(torchlette.logit(x.sigmoid(), 0.8), x.sigmoid().logit(0.2)),
    )


def _complex(z, x, i):
    row = z[0]
    return (
        *(torchlette.block_diag(z, row), torchlette.atleast_2d(row), torchlette.column_stack([row, row * 2])),
        *(torchlette.hstack([z, z]), *torchlette.vsplit(z, 2), z.diff(), z.diag_embed(), row.diagflat(1), z.ravel()),
        *(
            z.fliplr(),
            z.broadcast_to((2, 4, 4)),
            z.scatter_add(0, i, z),
            z.select_scatter(row, 1, 0),
            x.cfloat(),
            z.bool(),
        ),
        *(z.sinh(), z.cosh(), z.tanh(), z.tan(), z.logical_not(), z.new_ones(2, dtype=torchlette.float32)),
        *(torchlette.addmm(z, z, z.mT, beta=0.5, alpha=2 - 1j), torchlette.baddbmm(z, z[None], z[None], alpha=3)),
        *(torchlette.addmv(row, z, row), z.addcmul(z, z.mT, value=1j), z.addcdiv(row, z, value=2.0)),
    )


def _norms(x, weight):
    return F.batch_norm(x, None, None, weight, training=True), F.prelu(x.sum(), weight[:1]), F.prelu(x, weight)


CASES = {
    "numbers along a dim": (_numbers_along_a_dim, lambda: (given(1.5), given(0))),
    "without a batch": (_without_a_batch, lambda: (drawn(3, 7, 8),)),
    "integers": (_of_integers, lambda: (whole(),)),
    "nothing": (_of_nothing, lambda: (drawn(4, 5), classes()[:0])),
    "ranges": (_ranges, lambda: ()),
    "losses": (_losses, lambda: (drawn(4, 5), classes(), drawn(4, 5).sigmoid(), drawn(5).abs())),
    "ranks": (_ranks, lambda: (with_holes(), given([0.0, 0.3, 1.0]))),
    "distances": (_distances, lambda: (drawn(4, 5),)),
    "matrices": (_matrices, lambda: (square(), drawn(2, 3, 2))),
    "complex": (
        _complex,
        lambda: (torchlette.complex(drawn(4, 4), drawn(4, 4)), drawn(4, 4), drawn(4, 4).long().abs() % 4),
    ),
    "norms": (_norms, lambda: (drawn(4, 5), drawn(5))),
    "others": (_others, lambda: (drawn(4, 5), given([2, 0, 1, 2]))),
}


@pytest.mark.parametrize("case", CASES)
def test_corners(case, tmp_path):
    function, args = CASES[case]
    check(function, args(), tmp_path / "m.onnx", rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("call", [F.max_pool1d, F.avg_pool1d, functools.partial(F.max_pool1d, return_indices=True)])
def test_windows_of_integers_are_refused(call, tmp_path):
    with pytest.raises(NotImplementedError, match="of floats"):
        torchlette.onnx.export(lambda x: call(x, 2), (whole()[None],), tmp_path / "m.onnx")
