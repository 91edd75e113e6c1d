"""Fourier transforms beside PyTorch's and NumPy's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade

#: All short lengths, large primes, products with them, and lengths of two steps with tables of either kind.
LENGTHS = (
    *range(1, 65),
    *(67, 97, 122, 134, 243, 256, 307, 400, 512, 1000, 1009, 1024, 2018, 4096, 10007, 12288, 65536),
)
LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
BLOCKS = ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")


def _values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (
        (x + 1j * rng.standard_normal(shape)).astype(dtype)
        if np.issubdtype(dtype, np.complexfloating)
        else ((3 * x).astype(dtype))
    )


def _both(x: np.ndarray, device: str = "cpu") -> tuple[Any, torch.Tensor]:
    return facade.tensor(x, device=device), torch.tensor(x)


def _same(ours: Any, theirs: torch.Tensor, **kwargs: Any) -> None:
    torch.testing.assert_close(torch.tensor(ours.detach().numpy(force=True)), theirs.detach(), **kwargs)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.float32, np.float64])
def test_any_length(dtype: Any) -> None:
    """The error is that of a good transform: some roundings of the norm, as NumPy's."""
    names = ("fft", "ifft", "irfft") if np.issubdtype(dtype, np.complexfloating) else ("fft", "ifft", "rfft", "ihfft")
    eps = np.finfo(dtype).eps
    for n in LENGTHS:
        wide = _values((2, n), dtype, n).astype(np.result_type(dtype, np.float64))
        x = wide.astype(dtype)
        for name in names:
            want = getattr(np.fft, name)(wide, n)
            got = getattr(torchlette.fft, name)(torchlette.tensor(x), n).numpy()
            assert got.dtype == (np.finfo(dtype).dtype if name == "irfft" else np.result_type(dtype, np.complex64))
            error = np.linalg.norm(got - want) / np.linalg.norm(want)
            assert error < 4 * eps * np.log2(n + 2), (name, n, error / eps)


@pytest.mark.parametrize("name", [*LINES, *BLOCKS])
def test_arguments(name: str) -> None:
    """Lengths, dimensions, norms and dtypes as PyTorch."""
    lines = name in LINES
    sizes: Any = (None, 4, 9) if lines else (None, (4, 7), (-1, 5))
    dims: Any = (-1, 0) if lines else ((-2, -1), (1, 0))
    real = "rfft" in name and not name.startswith("ir") or "ihfft" in name
    for dtype in (np.float32, np.int64) if real else (np.complex64, np.float64, np.int64):
        for shape in ((3, 8), (5, 3, 4)):
            ours, theirs = _both(_values(shape, dtype))
            for n, dim, norm in itertools.product(sizes, dims, (None, "ortho", "forward", "backward")):
                f, g = getattr(facade.fft, name), getattr(torch.fft, name)
                _same(f(ours, n, dim, norm), g(theirs, n, dim, norm))
            out = facade.empty(0, dtype=f(ours).dtype)
            assert f(ours, out=out) is out
            _same(out, g(theirs))
            if not lines and not name.endswith("2"):
                _same(f(ours), g(theirs))
                _same(f(ours, (6,)), g(theirs, (6,)))


def test_strided_operands() -> None:
    for x, (f, dim) in itertools.product(
        [_values((6, 5, 4, 7), np.complex64), _values((40, 3, 33), np.complex64)],
        [("fft", 0), ("ifft", 1), ("fft", -1)],
    ):
        ours, theirs = _both(x)
        for take in (
            lambda t: t.transpose(0, 2),
            lambda t: t[::2, 1:],
            lambda t: t.expand(2, *t.shape),
            lambda t: t[0].transpose(0, -1),
        ):
            _same(getattr(facade.fft, f)(take(ours), dim=dim), getattr(torch.fft, f)(take(theirs).clone(), dim=dim))
        _same(facade.fft.rfft(ours.real, dim=dim), torch.fft.rfft(theirs.real, dim=dim))
        _same(facade.fft.irfft(ours, dim=dim), torch.fft.irfft(theirs, dim=dim), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fft", ((4,), 0)),
        ("fft", ((4,), 4, 2)),
        ("fft", ((),)),
        ("fft", ((2, 0),)),
        ("irfft", ((1,),)),
        ("rfftn", ((3, 4), None, ())),
        ("hfftn", ((3, 4), None, ())),
        ("fftn", ((3,), (1, 1))),
        ("fftn", ((3, 4), None, (1, 1))),
        ("fftn", ((3, 4), (3, 4), (1,))),
        ("ifft2", ((3,),)),
        ("fftn", ((3, 4), (3, 0))),
    ],
)
def test_errors(name: str, args: Any) -> None:
    x = np.ones(args[0], np.float32)
    ours, theirs = _both(x)
    with pytest.raises((RuntimeError, IndexError)) as want:
        getattr(torch.fft, name)(theirs, *args[1:])
    with pytest.raises(want.type) as got:
        getattr(facade.fft, name)(ours, *args[1:])
    assert str(got.value) == str(want.value)


def test_dtypes_that_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="Unsupported dtype Half"):
        facade.fft.fft(facade.ones(4, dtype=facade.float16))
    with pytest.raises(TypeError, match="rfft expects a real input tensor, but got ComplexFloat"):
        facade.fft.rfft(facade.ones(4, dtype=facade.complex64))
    with pytest.raises(TypeError, match="rfftn expects a real-valued input tensor, but got ComplexFloat"):
        facade.fft.rfft2(facade.ones(4, 4, dtype=facade.complex64))


@pytest.mark.parametrize("name", [*LINES, "fft2", "rfft2", "irfft2", "hfft2", "ihfft2"])
@pytest.mark.parametrize("n", [6, 5])
def test_gradients(name: str, n: int) -> None:
    """First and second order, of a loss that is no quadratic form."""
    real = name in ("rfft", "ihfft", "rfft2", "ihfft2")
    for dtype in (np.float64,) if real else (np.complex128, np.float64):
        x = _values((3, n), dtype)
        found = []
        for lib in (facade, torch):
            t = lib.tensor(x).requires_grad_()
            size = (4, n) if name.endswith("2") else n
            loss = getattr(lib.fft, name)(t, size, norm="ortho").abs().pow(3).sum()
            (g,) = lib.autograd.grad(loss, t, create_graph=True)
            (h,) = lib.autograd.grad(g.abs().pow(2).sum(), t)
            found.append((g, h))
        for ours, theirs in zip(*found, strict=True):
            _same(ours, theirs)


def test_transforms_of_functions() -> None:
    """vmap over any dim, forward mode, and both."""
    x, v = _values((4, 3, 6), np.float64), _values((4, 3, 6), np.float64, 1)
    for name in ("rfft", "fft", "hfft"):

        def f(lib: Any, t: Any, name: str = name) -> Any:
            return lib.view_as_real(lib.fft.fft(getattr(lib.fft, name)(t, dim=0), dim=-1))

        results = []
        for lib, func in ((facade, torchlette.func), (torch, torch.func)):
            a, b = lib.tensor(x), lib.tensor(v)
            results.append(
                [
                    func.vmap(lambda t, lib=lib: f(lib, t), in_dims=1, out_dims=1)(a),
                    *func.jvp(lambda t, lib=lib: f(lib, t), (a,), (b,)),
                    func.vmap(func.grad(lambda t, lib=lib: f(lib, t).pow(2).sum()))(a),
                ]
            )
        for ours, theirs in zip(*results, strict=True):
            _same(ours, theirs)


def test_every_device(device: str) -> None:
    """Radices of all kinds, a convolution, several dims, and the gradient."""
    for n in (1, 8, 12, 17, 34, 250):
        for dtype in (np.complex64, np.float32):
            ours, theirs = _both(_values((3, n), dtype), device)
            _same(facade.fft.fft(ours), torch.fft.fft(theirs), rtol=1e-4, atol=1e-4)
            _same(facade.fft.irfft(ours, n), torch.fft.irfft(theirs, n), rtol=1e-4, atol=1e-4)
        ours.requires_grad_()
        theirs.requires_grad_()
        for lib, t in ((facade, ours), (torch, theirs)):
            lib.fft.rfft2(t).abs().pow(2).sum().backward()
        _same(ours.grad, theirs.grad, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"center": False},
        {"normalized": True},
        {"onesided": False},
        {"hop_length": 10},
        {"win_length": 24, "hop_length": 6},
        {"pad_mode": "constant"},
    ],
)
def test_short_time_transforms(options: dict[str, Any]) -> None:
    x = _values((2, 300), np.float64)
    width = options.get("win_length", 32)
    found = []
    for lib in (facade, torch):
        t = lib.tensor(x).requires_grad_()
        window = lib.hann_window(width, dtype=lib.float64) + 0.1
        spectra = lib.stft(t, 32, window=window, return_complex=True, **options)
        back = {k: v for k, v in options.items() if k != "pad_mode"}
        signal = lib.istft(spectra, 32, window=window, length=280, **back)
        (spectra.abs().pow(3).sum() + signal.pow(3).sum()).backward()
        found.append((spectra, signal, t.grad, t[0].detach().stft(32, return_complex=False, **options)))
    for ours, theirs in zip(*found, strict=True):
        _same(ours, theirs)


def test_short_time_transforms_of_complex_signals() -> None:
    ours, theirs = _both(_values((100,), np.complex128))
    a, b = facade.stft(ours, 16), torch.stft(theirs, 16)
    _same(a, b)
    _same(facade.istft(a, 16, return_complex=True), torch.istft(b, 16, return_complex=True))


def test_errors_of_short_time_transforms() -> None:
    x = facade.ones(2, 40)
    for call, text in (
        (lambda: facade.stft(x, 16), "return_complex"),
        (lambda: facade.stft(x.unsqueeze(0), 16, return_complex=True), "1D or 2D"),
        (lambda: facade.stft(x, 100, center=False, return_complex=True), "0 < n_fft <= 40"),
        (lambda: facade.stft(x, 16, 0, return_complex=True), "hop_length > 0"),
        (lambda: facade.stft(x, 16, win_length=17, return_complex=True), "win_length <= n_fft"),
        (lambda: facade.stft(x, 16, window=facade.ones(15), return_complex=True), "size equal to win_length=16"),
        (lambda: facade.stft(x.long(), 16, return_complex=True), "floating point"),
        (lambda: facade.istft(x, 16), "complex-valued"),
        (lambda: facade.istft(facade.ones(10, 4, dtype=facade.complex64), 16), "frequency dimension"),
        (
            lambda: facade.istft(facade.ones(9, 4, dtype=facade.complex64), 16, 16, window=facade.zeros(16)),
            "window overlap add min",
        ),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


@pytest.mark.parametrize("n", [2**26 + 1, 2**31])
def test_a_transform_whose_tables_need_gigabytes_is_refused(n: int) -> None:
    with pytest.raises(RuntimeError, match="at most 67108864"):
        facade.fft.fft(facade.ones(3), n)
    with pytest.raises(RuntimeError, match="at most 67108864"):
        facade.fft.irfft(facade.ones(3, dtype=facade.complex64), n)
