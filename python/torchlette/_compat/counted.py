"""Draws of counts without a read, for programs: loops that end when no element draws any more."""

from __future__ import annotations

from collections.abc import Callable

from torchlette import _C, autograd

__all__ = ["binomial_in_loop", "poisson_in_loop"]

Tensor = _C.Tensor

#: From this mean on a count is drawn from the normal distribution, so that the loop stays short. Its skewness is 0.018.
_MANY = 3000.0


def _normal(mean: Tensor, variance: Tensor) -> Tensor:
    return _C.round(mean + variance.sqrt() * _C.empty_like(mean).normal_()).clamp(min=0)


def _counted(gap: Callable[[], Tensor], end: Tensor) -> Tensor:
    """Count, for each element, the events before ``end``. A call of ``gap`` draws the distances to the next events."""
    from torchlette import lax

    def step(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        place = state[0] + gap()
        return place, state[1] + (place < end)

    first = gap()
    counts: Tensor = lax.while_loop(lambda s: (s[0] < end).any(), step, (first, (first < end).to(end.dtype)))[1]
    return counts


def poisson_in_loop(rate: Tensor) -> Tensor:
    """Count arrivals with exponential gaps within one unit of time.

    Args:
        rate: Of each element, not negative.
    """
    with autograd.no_grad():
        rate = rate.detach()
        wide = rate.to(_C.float32) if rate.itemsize < 4 else rate
        many = wide > _MANY
        made = _counted(lambda: _C.empty_like(wide).exponential_(), _C.where(many, 0.0, wide))
        return _C.where(many, _normal(wide, wide), made).to(rate.dtype)


def binomial_in_loop(count: Tensor, prob: Tensor) -> Tensor:
    """Count the rarer outcome by geometric gaps between the trials that have it.

    Args:
        count: Numbers of trials.
        prob: Probabilities, of the same shape.
    """
    with autograd.no_grad():
        dtype = _C.float64 if _C.float64 in (count.dtype, prob.dtype) else _C.float32
        n, p = count.detach().to(dtype), prob.detach().to(dtype)
        rare = _C.minimum(p, 1 - p)
        many = n * rare > 2 * _MANY
        scale = _C.log1p(-rare)

        def gap() -> Tensor:  # the number of trials up to the next one
            return (-_C.empty_like(n).exponential_() / scale).floor() + 1

        # A gap ends at a trial, whose number is at most n. Without rare outcomes the first gap is infinite.
        made = _counted(gap, _C.where(many | ~(rare > 0), 0.0, n + 0.5))
        made = _C.where(many, _C.minimum(_normal(n * rare, n * rare * (1 - rare)), n), made)
        return _C.where(p > 0.5, n - made, made).to(count.dtype)
