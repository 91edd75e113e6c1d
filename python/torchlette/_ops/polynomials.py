"""Orthogonal polynomials of ``torch.special``, by their recurrences of three terms (Abramowitz and Stegun, 22.7).

Each takes the argument ``x`` and the degree ``n``: tensors or numbers that broadcast, at least one of them a tensor. A
fractional degree is truncated; a negative or NaN degree gives 0. Integer arguments give the default dtype. As in
PyTorch, there are no gradients. A tensor of degrees is read: the recurrence runs to the greatest degree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchlette import _C
from torchlette._ops import indexing
from torchlette._runtime.dtypes import result_type
from torchlette.autograd import no_grad

__all__ = [
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]

Tensor = _C.Tensor
#: Computes p(k+1) from k, x, p(k) and p(k-1).
Step = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def _chebyshev(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return 2 * x * p - q


def _hermite_h(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return 2 * (x * p - k * q)


def _hermite_he(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return x * p - k * q


def _laguerre(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return ((2 * k + 1 - x) * p - k * q) / (k + 1)


def _legendre(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return ((2 * k + 1) * x * p - k * q) / (k + 1)


def _degrees(x: Tensor, first: Callable[[Tensor], Tensor], step: Step) -> Iterator[Tensor]:
    """Yield the polynomials of degree 0, 1, ..."""
    q, p, k = _C.ones_like(x), first(x), 1
    yield q
    while True:
        yield p
        q, p, k = p, step(k, x, p, q), k + 1


def _polynomial(
    name: str, doc: str, first: Callable[[Tensor], Tensor], step: Step, *, shifted: bool = False
) -> Callable[..., Tensor]:
    """Return the function of that name: degree 0 is 1, degree 1 is ``first``; a shifted one takes 2x - 1 for x."""
    argument = ", in 2x - 1," if shifted else ""

    def polynomial(input: Tensor | float, n: Tensor | float, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(input, Tensor) and not isinstance(n, Tensor):
            raise TypeError(f"special.{name}: got two numbers, want a tensor")
        dtype = result_type(input, n)
        dtype = dtype if dtype.is_floating_point else _C.get_default_dtype()
        with no_grad():
            x = input.to(dtype) if isinstance(input, Tensor) else _C.full((), input, dtype=dtype, device=n.device)
            values = _degrees(2 * x - 1 if shifted else x, first, step)
            if isinstance(n, Tensor):
                result = _of_degrees(x, values, n.nan_to_num(-1).trunc() if n.dtype.is_floating_point else n)
            else:
                result = _C.zeros_like(x)
                for _ in range(0 if n != n else int(n) + 1):
                    result = next(values)
            return indexing.into(result, out)

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = f"Return {doc}{argument} of degree ``n`` at ``input``."
    return polynomial


def _of_degrees(x: Tensor, values: Iterator[Tensor], n: Tensor) -> Tensor:
    """Select each element's value by its degree; reads the greatest degree."""
    result = _C.zeros_like(_C.broadcast_tensors(x, n)[0])
    if n.numel() > 0:
        for k in range(int(n.max().item()) + 1):
            result = _C.where(n == k, next(values), result)
    return result


def _itself(x: Tensor) -> Tensor:
    return x.clone()


def _twice(x: Tensor) -> Tensor:
    return 2 * x


def _third(x: Tensor) -> Tensor:
    return 2 * x - 1


def _fourth(x: Tensor) -> Tensor:
    return 2 * x + 1


def _one_less(x: Tensor) -> Tensor:
    return 1 - x


_KIND = "Chebyshev's polynomial of the {} kind"
chebyshev_polynomial_t = _polynomial("chebyshev_polynomial_t", _KIND.format("first"), _itself, _chebyshev)
chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_u", _KIND.format("second"), _twice, _chebyshev)
chebyshev_polynomial_v = _polynomial("chebyshev_polynomial_v", _KIND.format("third"), _third, _chebyshev)
chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_w", _KIND.format("fourth"), _fourth, _chebyshev)
shifted_chebyshev_polynomial_t = _polynomial(
    "shifted_chebyshev_polynomial_t", _KIND.format("first"), _itself, _chebyshev, shifted=True
)
shifted_chebyshev_polynomial_u = _polynomial(
    "shifted_chebyshev_polynomial_u", _KIND.format("second"), _twice, _chebyshev, shifted=True
)
shifted_chebyshev_polynomial_v = _polynomial(
    "shifted_chebyshev_polynomial_v", _KIND.format("third"), _third, _chebyshev, shifted=True
)
shifted_chebyshev_polynomial_w = _polynomial(
    "shifted_chebyshev_polynomial_w", _KIND.format("fourth"), _fourth, _chebyshev, shifted=True
)
hermite_polynomial_h = _polynomial("hermite_polynomial_h", "the physicist's Hermite polynomial", _twice, _hermite_h)
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he", "the probabilist's Hermite polynomial", _itself, _hermite_he
)
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", "the Laguerre polynomial", _one_less, _laguerre)
legendre_polynomial_p = _polynomial("legendre_polynomial_p", "the Legendre polynomial", _itself, _legendre)
