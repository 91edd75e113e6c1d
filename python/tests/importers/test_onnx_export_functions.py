"""onnx.export: special functions, matrices, complex numbers, sums and places, which take several operators of ONNX."""

from __future__ import annotations

import functools
import math

import onnx
import onnxruntime
import pytest

import torchlette
import torchlette.onnx
from torchlette import fft, lax, linalg, nn, special
from torchlette.nn import functional as F
from torchlette.testing import assert_close

INF, NAN = math.inf, math.nan


@pytest.fixture(autouse=True)
def _on_the_cpu():
    before = torchlette.get_default_device()
    torchlette.set_default_device("cpu")
    torchlette.manual_seed(0)
    yield
    torchlette.set_default_device(before)


def leaves(value):
    if isinstance(value, torchlette.Tensor):
        return [torchlette.view_as_real(value) if value.is_complex() else value]
    return [leaf for item in value for leaf in leaves(item)]


def check(function, args, path, *, dims=None, others=None, **tolerances):
    """Compare the function with its ONNX file in onnxruntime, and read again."""
    torchlette.onnx.export(function, args, path, dynamic_shapes=dims)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options)
    given = others or args
    want = leaves(function(*[a.clone() for a in given]))
    real = leaves(given)
    found = session.run(None, {i.name: a.numpy() for i, a in zip(session.get_inputs(), real, strict=True)})
    found = [torchlette.from_numpy(array) for array in found]
    assert len(found) == len(want)
    again = leaves(torchlette.onnx.load(path).module()(*real))
    for k, expected in enumerate(want):
        for got in (found[k], again[k]):
            assert_close(got.detach(), expected.detach(), equal_nan=True, **tolerances)


DTYPES = (torchlette.float32, torchlette.float64)
#: Functions of one number, with numbers at which they are hard.
FUNCTIONS = {
    "erfinv": (torchlette.erfinv, [-2, -1, -0.9999999, -0.5, -1e-5, 0, 1e-8, 0.3, 0.85, 0.86, 0.999, 1, 2, NAN]),
    "ndtri": (special.ndtri, [-1, 0, 1e-30, 1e-9, 0.02, 0.5, 0.9, 0.99999, 1, 2, NAN]),
    "lgamma": (
        torchlette.lgamma,
        [-INF, -1000.5, -3, -2.7, -1, -0.5, -1e-6, 0, 1e-8, 0.5, 1, 1.0001, 2, 7, 11, 100, 1e10, 1e30, INF, NAN],
    ),
    "digamma": (torchlette.digamma, [-100.25, -3, -2.7, -0.5, -0.0, 0, 1e-8, 0.5, 1, 2.5, 11, 1e10, 1e30, INF, NAN]),
    **{
        f"polygamma {n}": (functools.partial(special.polygamma, n), [-3, -2.7, -0.5, -1e-3, 0, 0.5, 1, 7, 1e10, INF])
        for n in (0, 1, 2, 3, 5)
    },
    "erfc": (torchlette.erfc, [-30, -5, -0.3, -0.0, 0, 1e-8, 0.3, 1, 5, 10, 26, INF, -INF, NAN]),
    "erfcx": (special.erfcx, [-5, -0.3, 0, 0.3, 1, 5, 10, 1e5, INF, NAN]),
    "ndtr": (special.ndtr, [-30, -5, -1, 0, 0.3, 2, 9, INF, -INF, NAN]),
    "log_ndtr": (special.log_ndtr, [-30, -5, -1, 0, 0.3, 2, 9, INF, NAN]),
    "logit": (torchlette.logit, [0, 1e-6, 0.3, 0.5, 1, NAN]),
    "sinc": (torchlette.sinc, [-2.5, -1, 0, 0.3, 7]),
    "entr": (special.entr, [-1, 0, 0.3, 1, 5]),
    "signbit": (torchlette.signbit, [-1, -0.0, 0, 2, -INF]),
    "angle": (torchlette.angle, [-1, 0, 2, NAN]),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_at_hard_numbers(name, dtype, tmp_path):
    function, numbers = FUNCTIONS[name]
    check(function, (torchlette.tensor(numbers, dtype=dtype),), tmp_path / "m.onnx")


def _solutions(a, b):
    return (
        *(linalg.solve(a, b), linalg.solve(a[0], b), linalg.solve(a, b[0]), linalg.solve(a, b[:, :, 0])),
        *(linalg.solve(a[0], b[0, :, 0]), linalg.solve(a, b.mT, left=False)),
        *(linalg.inv(a), linalg.inv(a[0]), linalg.matrix_power(a, 5), linalg.multi_dot([a[0], a[1], a[2]])),
        *(linalg.solve_triangular(a, b, upper=True), linalg.solve_triangular(a[0], b, upper=False)),
        linalg.solve_triangular(a, b, upper=False, unitriangular=True),
        linalg.solve_triangular(a, b.mT, upper=True, left=False),
    )


def _factors(a):
    square = a @ a.mT
    low = linalg.cholesky(square)
    return (
        *(low, linalg.cholesky(square, upper=True), linalg.cholesky(square[0])),
        *(torchlette.cholesky_solve(a, low), torchlette.cholesky_inverse(low)),
        *(linalg.slogdet(a), linalg.slogdet(-a[0]), linalg.slogdet(a * 0), torchlette.logdet(square)),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
def test_matrices(dtype, tmp_path):
    a = torchlette.randn(3, 4, 4, dtype=dtype) + 3 * torchlette.eye(4, dtype=dtype)
    b = torchlette.randn(3, 4, 2, dtype=dtype)
    check(_solutions, (a, b), tmp_path / "s.onnx", rtol=1e-5, atol=1e-5)
    check(_factors, (a,), tmp_path / "f.onnx", rtol=1e-5, atol=1e-5)


def test_pivots_are_swapped(tmp_path):
    """Each pivot on the diagonal is zero at first."""
    a = torchlette.tensor([[0, 2.0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0]])
    check(lambda a: (linalg.inv(a), *linalg.slogdet(a)), (a,), tmp_path / "m.onnx")


def test_matrices_of_a_size_from_the_call(tmp_path):
    n = torchlette.export.Dim("n", min=2, max=9)

    def function(a):
        return linalg.inv(a), linalg.cholesky(a @ a.mT), linalg.slogdet(a)[1]

    small, large = (torchlette.randn(k, k) + 3 * torchlette.eye(k) for k in (4, 7))
    check(function, (small,), tmp_path / "m.onnx", dims=({0: n, 1: n},), others=(large,), rtol=1e-5, atol=1e-5)


NORMS = (None, "ortho", "forward")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 6, 7, 10])
@pytest.mark.parametrize("dim", [-1, 1])
def test_transforms(dim, n, norm, tmp_path):
    """Of all, of fewer and of more elements; sizes that are no powers of two too."""

    def function(x, z):
        kinds = (fft.fft, fft.ifft, fft.irfft, fft.hfft)
        return [f(v, n, dim, norm) for f in kinds for v in (x, z)] + [f(x, n, dim, norm) for f in (fft.rfft, fft.ihfft)]

    args = torchlette.randn(3, 5, 8), torchlette.complex(torchlette.randn(3, 5, 8), torchlette.randn(3, 5, 8))
    check(function, args, tmp_path / "m.onnx")


@pytest.mark.parametrize("norm", NORMS)
def test_transforms_of_several_dims(norm, tmp_path):
    def function(x, z):
        return (
            *(
                f(x, norm=norm)
                for f in (fft.fft2, fft.rfft2, fft.irfft2, fft.hfft2, fft.ihfft2, fft.irfftn, fft.ihfftn)
            ),
            *(fft.ifftn(z, s=(4, 6), norm=norm), fft.rfftn(x, s=(-1, 4, 6), dim=(0, 1, 2), norm=norm)),
            *(fft.hfftn(z, dim=(0, 2), norm=norm), fft.fftn(z, norm=norm)),
        )

    args = torchlette.randn(3, 5, 8), torchlette.complex(torchlette.randn(3, 5, 8), torchlette.randn(3, 5, 8))
    check(function, args, tmp_path / "m.onnx")


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_transforms_of_files_run_on_every_device(device, request, tmp_path):
    """ONNX's DFT there and back: no float64 is in the way."""
    if device == "wgpu":
        request.getfixturevalue("wgpu")
    x = torchlette.randn(3, 16)
    torchlette.onnx.export(lambda x: (fft.rfft(x), fft.ifft(fft.fft(x)).real), (x,), tmp_path / "m.onnx")
    found = torchlette.onnx.load(tmp_path / "m.onnx").module().to(device)(x.to(device))
    for got, expected in zip(found, (torchlette.view_as_real(fft.rfft(x)), x), strict=True):
        assert_close(got.cpu(), expected)


def _complex_numbers(z, y, x):
    return (
        *(
            z + y,
            z - y,
            z * y,
            z / y,
            z * x,
            x * z,
            z / x,
            x / z,
            z + 1,
            1 - z,
            z * (2 + 1j),
            3 / z,
            -z,
            z.reciprocal(),
        ),
        *(z**2, z**0.5, z.exp(), z.log(), z.sqrt(), z.sgn(), z.sin(), z.cos(), z.abs(), z.angle(), z.real, z.imag),
        *(z.conj() * z, z.mH, torchlette.add(z, y, alpha=2), torchlette.complex(x, x[0]), torchlette.polar(x.abs(), x)),
        *(torchlette.view_as_complex(torchlette.view_as_real(z) * 2), x.to(torchlette.complex64), z @ y.mT),
        *(z == z, z != y, z.isnan(), z.isfinite(), torchlette.outer(z[0, 0], y[0, 0])),
    )


def _complex_places(z, y, x):
    return (
        *(
            z.reshape(-1),
            z.permute(1, 2, 0),
            z[0],
            z[:, ::2],
            torchlette.cat([z, y]),
            torchlette.cat([z, x]),
            z.flip(1),
        ),
        *(z.roll(1, 2), z.sum(1), z.mean((0, 1)), torchlette.where(x > 0, z, x), z.masked_fill(x > 0, 1 + 2j)),
        *(z[x[:, 0, 0].long() * 0], z.tril(), z.split(2, 1)[1], torchlette.ones_like(z), F.pad(z, (1, 1, 1, 1))),
        lax.scan(lambda c, a: (c * a, c + a), z[0], z),
    )


def _complex_writes(z, y, x):
    a = z.clone()
    first = a[:, 0]
    a[0] = 1j
    a[:, 1] = z[:, 2] * 2
    a[..., 3] = 5.0
    a[1].zero_()
    return a, first


@pytest.mark.parametrize("function", [_complex_numbers, _complex_places, _complex_writes])
def test_complex_numbers(function, tmp_path):
    """They are pairs in the file. A constant is one too."""
    z, y = (torchlette.complex(torchlette.randn(3, 5, 5), torchlette.randn(3, 5, 5)) for _ in range(2))
    check(function, (z, y, torchlette.randn(3, 5, 5)), tmp_path / "m.onnx", rtol=1e-5, atol=1e-5)
    check(lambda x: x * y, (torchlette.randn(3, 5, 5),), tmp_path / "c.onnx")


def test_short_time_transforms_there_and_back(tmp_path):
    window = torchlette.hann_window(100)

    def function(w):
        found = torchlette.stft(w, 100, 25, window=window, return_complex=True)
        power = (found.abs() ** 2).clamp(min=1e-6).log10()
        return found, power, torchlette.istft(found * 2, 100, 25, window=window)

    n = torchlette.export.Dim("n", min=2, max=9)
    args, others = (torchlette.randn(2, 800),), (torchlette.randn(5, 800),)
    check(function, args, tmp_path / "m.onnx", dims=({0: n},), others=others, rtol=1e-4, atol=1e-4)


def _so_far(x):
    return (
        *(x.cumprod(1), x.cumprod(-1), x.long().cumprod(0), x[0, 0, 0].cumprod(0), x.logcumsumexp(1)),
        *(x.cummax(1), x.cummin(0), x.round().cummax(2), x.long().cummin(1), torchlette.cumulative_trapezoid(x)),
    )


def _sums(x):
    holes = x.masked_fill(x > 1, NAN)
    return (
        *(
            holes.nansum(1),
            holes.nanmean(),
            (x > 0).count_nonzero(1),
            x.diff(dim=1),
            x.diff(n=2),
            torchlette.trapezoid(x),
        ),
        *(
            linalg.norm(x),
            linalg.matrix_norm(x),
            x.norm(3, 1),
            linalg.vector_norm(x, INF, 1),
            torchlette.dist(x, x * 2),
        ),
        *(x.quantile(0.3, 1), holes.quantile(0.5, 1), torchlette.cov(x[0]), torchlette.corrcoef(x[0])),
        *(x.histc(5, -1, 1), x.histc(7), (x * 0).histc(3), x.half().histc(4, -2, 2)),
    )


def _elements(x, y):
    numbers = torchlette.tensor([-2.0, -1, 0, 1, 2, 2.0001])
    return (
        *(torchlette.max(x, y), torchlette.min(x, y), x.round(decimals=2), x.round(decimals=-1), F.tanhshrink(x)),
        *(torchlette.addcmul(x, x, y, value=2), torchlette.addcdiv(x, x, y), x.lerp(y, 0.3), x.lerp(y, y)),
        *(torchlette.logaddexp(x, y), torchlette.xlogy(x.relu(), y.abs()), torchlette.hypot(x, y), x.copysign(y)),
        *(
            torchlette.heaviside(x, y),
            torchlette.fmax(x, y),
            torchlette.float_power(x, 2),
            torchlette.isclose(x, x + 1e-9),
        ),
        *(x.byte(), x.long().type_as(x), torchlette.ldexp(x, y.long()), numbers.histc(4, -2, 2), x.rad2deg()),
        F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    )


def _vectors(x, y):
    a, b = x[0, 0], y[0, 0]
    return (
        *(torchlette.outer(a, b), torchlette.kron(x[0], y[0]), torchlette.inner(x, y), linalg.vecdot(x, y)),
        *(
            linalg.cross(x[..., :3], y[..., :3]),
            torchlette.addmv(a[:4], x[0], b, beta=2),
            torchlette.addr(x[0], x[0, :, 0], b),
        ),
        *(torchlette.diag_embed(x, 1), torchlette.diagflat(a, -1), torchlette.diagonal_scatter(x, y[:, :, 0], 0, 1, 2)),
    )


def _places(x, y):
    a, b = x[0, 0], y[0, 0]
    best, where = F.max_pool2d(x[None], 2, return_indices=True)
    return (
        *(
            torchlette.hstack([x, y]),
            torchlette.vstack([a, b]),
            torchlette.dstack([a, b]),
            torchlette.column_stack([a, b]),
        ),
        *(
            torchlette.cartesian_prod(a, b),
            x.flipud(),
            x.broadcast_to((2, *x.shape)),
            torchlette.atleast_3d(a),
            x.ravel(),
        ),
        *(x.vsplit(3), x.hsplit([1, 3]), torchlette.msort(x), torchlette.take(x, x.long().abs()), x.roll(3)),
        *(torchlette.select_scatter(x, y[0], 0, -1), torchlette.slice_scatter(x, y[:, 1:3], 1, 1, 3)),
        *(torchlette.isin(x.long(), torchlette.tensor([1, 2])), torchlette.tril_indices(3, 4), best, where),
        *(F.max_unpool2d(best, where, 2), x.put(torchlette.tensor([1, 2]), torchlette.tensor([3.0, 4.0]))),
        *(F.adaptive_avg_pool2d(x, 3), F.adaptive_avg_pool1d(x, 3)),
    )


@pytest.mark.parametrize(("function", "count"), [(_so_far, 1), (_sums, 1), (_elements, 2), (_vectors, 2), (_places, 2)])
def test_formulas(function, count, tmp_path):
    args = (torchlette.randn(3, 4, 4), torchlette.randn(3, 4, 4))[:count]
    check(function, args, tmp_path / "m.onnx")


@pytest.mark.parametrize("reduction", ["sum", "prod", "mean", "amax", "amin"])
def test_values_at_places_are_reduced(reduction, tmp_path):
    """With and without the elements that are there; places that no value goes to keep theirs."""
    places = torchlette.tensor([0, 2, 0, 1, 1]).expand(2, 3, 5).contiguous()
    rows = torchlette.tensor([0, 0, 3])

    def function(x, y):
        found = [x.scatter_reduce(1, places, y, reduction, include_self=flag) for flag in (True, False)]
        if reduction == "sum":
            return found
        found += [x.index_reduce(1, rows, y[:, :3], reduction, include_self=flag) for flag in (True, False)]
        if reduction != "mean":
            found.append((x * 5).long().scatter_reduce(0, places, (y * 5).long(), reduction, include_self=False))
        return found

    check(function, (torchlette.randn(3, 4, 5), torchlette.randn(3, 4, 5)), tmp_path / "m.onnx")


CELLS = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "rnn": nn.RNNCell}


@pytest.mark.parametrize("kind", CELLS)
def test_cells(kind, tmp_path):
    cell = CELLS[kind](5, 6).requires_grad_(False)

    def function(x):
        return cell(x[1], cell(x[0]))

    check(function, (torchlette.randn(2, 4, 5),), tmp_path / "m.onnx")


def test_greatest_elements_of_unequal_windows(tmp_path):
    def function(x):
        pools = (F.adaptive_max_pool2d, F.adaptive_max_pool1d)
        return [f(x, n, return_indices=True) for f in pools for n in (2, 3, 4)], F.adaptive_max_pool3d(
            x[None], (2, 3, 2)
        )

    check(function, (torchlette.randn(3, 5, 7),), tmp_path / "m.onnx")


def test_products_so_far_are_one_scan_of_any_length(tmp_path):
    n = torchlette.export.Dim("n", min=2, max=50)
    path = tmp_path / "m.onnx"
    args, others = (torchlette.randn(3, 4),), (torchlette.randn(9, 4),)
    check(lambda x: (x.cumprod(0), x.cummax(0)), args, path, dims=({0: n},), others=others)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count("Scan") == 3


@pytest.mark.parametrize("shape", [(), (1,), (5,), "rows", "wide"])
def test_values_are_written_under_a_mask(shape, tmp_path):
    x = torchlette.randn(3, 4, 5)
    flags = x[:, :, 0] > 0
    count = int(flags.sum().item())
    sizes = {"rows": (count, 5), "wide": (count, 1)}.get(shape, shape)
    values = torchlette.randn(*sizes) if sizes else torchlette.randn(())

    def function(x, values):
        y = x.clone()
        y[x[:, :, 0] > 0] = values
        return y, x.index_put((x[:, :, 0] > 0,), values, accumulate=True)

    check(function, (x, values), tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: linalg.svd(x)[1], "svd"),
        (lambda x: linalg.eigh(x)[0], "eigh"),
        (lambda x: linalg.qr(x)[1], "qr"),
        (lambda x: torchlette.view_as_complex(x[:, :2].contiguous()).prod(), "prod of complex numbers"),
        (lambda x: torchlette.view_as_real(x.to(torchlette.complex64)).mul_(2), "a part of complex numbers"),
    ],
)
def test_what_has_no_form_is_named(function, text, tmp_path):
    with pytest.raises(NotImplementedError, match=text):
        torchlette.onnx.export(function, (torchlette.eye(3),), tmp_path / "m.onnx")
