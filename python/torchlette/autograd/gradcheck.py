"""Comparison of gradients with central differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from torchlette import _C
from torchlette import autograd as _autograd
from torchlette._runtime.errors import GradcheckError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def _differentiable(tensors: Sequence[Any]) -> list[int]:
    return [i for i, t in enumerate(tensors) if isinstance(t, _C.Tensor) and t.requires_grad]


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> list[_C.Tensor]:
    result = func(*inputs)
    results = [result] if isinstance(result, _C.Tensor) else list(result)
    return [r for r in results if isinstance(r, _C.Tensor) and (r.is_floating_point() or r.is_complex())]


def _reals(t: _C.Tensor) -> _C.Tensor:
    """Return a tensor as a vector of real numbers: the parts of complex elements are two."""
    return (_C.view_as_real(t) if t.is_complex() else t).reshape(-1)


def _numeric_columns(func: Callable[..., Any], inputs: list[Any], i: int, eps: float) -> list[list[list[float]]]:
    """Return, for each output, the derivatives of its elements by each element of input ``i``."""
    x = inputs[i]
    data = x.data  # changed in place: a function may use the tensor itself, as a module does its parameter
    before, real = data.clone(), _C.view_as_real(data) if data.is_complex() else data
    flat = _reals(before).tolist()
    columns: list[list[list[float]]] = []
    try:
        for k in range(len(flat)):
            sides = []
            for step in (eps, -eps):
                moved = flat.copy()
                moved[k] += step
                real.copy_(_C.tensor(moved, dtype=real.dtype, device=x.device).reshape(real.shape))
                outs = _outputs(func, inputs)  # recorded too: a function may choose its outputs by requires_grad
                sides.append([_reals(o.detach()).tolist() for o in outs])
            columns.append(
                [[(a - b) / (2 * eps) for a, b in zip(up, down, strict=True)] for up, down in zip(*sides, strict=True)]
            )
    finally:
        data.copy_(before)
    return [[column[j] for column in columns] for j in range(len(columns[0]) if columns else 0)]


def _analytic_rows(out: _C.Tensor, x: _C.Tensor) -> list[list[float]]:
    """Return, for each element of ``out``, its gradient by the elements of ``x``; parts of complex ones are two."""
    rows = []
    size = out.numel() * (2 if out.is_complex() else 1)
    for k in range(size):
        seed = [0.0] * size
        seed[k] = 1.0
        parts = _C.tensor(seed, dtype=out.real.dtype, device=out.device)
        cotangent = (_C.view_as_complex(parts.reshape(-1, 2)) if out.is_complex() else parts).reshape(out.shape)
        (g,) = _autograd.grad(out, x, cotangent, retain_graph=True, allow_unused=True)
        rows.append(_reals(_C.zeros_like(x) if g is None else g).detach().tolist())
    return rows


def _close(a: float, b: float, rtol: float, atol: float) -> bool:
    return a == b or abs(a - b) <= atol + rtol * abs(b)


def gradcheck(
    func: Callable[..., Any],
    inputs: _C.Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of ``func`` at ``inputs`` against central differences.

    Every element of every Jacobian is compared. The inputs should be float64 or complex128; a complex element counts as
    two real ones.

    Args:
        func: Takes ``inputs`` and returns one tensor or several.
        inputs: The point; at least one tensor must require a gradient.
        eps: Half the distance of the two points of a difference.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        raise_exception: Raise instead of returning ``False``.
        nondet_tol: Greatest difference of two analytic passes.
        check_undefined_grad: Accepted for compatibility.
        check_grad_dtypes: Demand that gradients have the dtype of the inputs.
        check_batched_grad: Must be false: gradients of a batch of cotangents are not compared.
        check_batched_forward_grad: Must be false.
        check_forward_ad: Must be false: tangents are not compared.
        check_backward_ad: Whether to check at all.
        fast_mode: Accepted for compatibility; the full check is always made.
        masked: Accepted for compatibility: it is about sparse gradients.
    """
    if check_batched_grad or check_batched_forward_grad or check_forward_ad:
        raise NotImplementedError(
            "gradcheck: gradients are computed backward and one by one: set check_forward_ad and check_batched_grad to "
            "False"
        )
    if not check_backward_ad:
        return True
    points = [inputs] if isinstance(inputs, _C.Tensor) else list(inputs)
    wanted = _differentiable(points)
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    for i in wanted:
        if points[i].dtype not in (_C.float64, _C.complex128):
            warnings.warn(f"gradcheck: input {i} is not float64; the check will likely fail", stacklevel=2)
    outs = _outputs(func, points)
    if not any(o.requires_grad for o in outs):
        raise ValueError("gradcheck: no output requires a gradient")

    def fail(message: str) -> bool:
        if raise_exception:
            raise GradcheckError(message)
        return False

    for i in wanted:
        numeric = _numeric_columns(func, points, i, eps)
        for j, out in enumerate(outs):
            if not out.requires_grad:
                continue
            rows = _analytic_rows(out, points[i])
            again = _analytic_rows(out, points[i]) if nondet_tol == 0.0 else rows
            if rows != again and not any(v != v for row in rows for v in row):
                return fail(
                    f"Backward is not reentrant: output {j} gives different gradients for input {i} in two passes"
                )
            for r, row in enumerate(rows):
                for c in range(len(row)):
                    if not _close(row[c], numeric[j][c][r], rtol, atol):
                        return fail(
                            f"Jacobian mismatch for output {j} with respect to input {i}, element ({r}, {c}): "
                            f"numerical:{numeric[j][c][r]:.8g} analytical:{row[c]:.8g}"
                        )
            if check_grad_dtypes:
                (g,) = _autograd.grad(out.sum(), points[i], retain_graph=True, allow_unused=True)
                if g is not None and g.dtype != points[i].dtype:
                    return fail(f"gradient of input {i} has dtype {g.dtype}, want {points[i].dtype}")
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: _C.Tensor | Sequence[Any],
    grad_outputs: _C.Tensor | Sequence[_C.Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check second derivatives: :func:`gradcheck` of the gradients of ``func``.

    The other arguments are those of :func:`gradcheck`; ``grad_outputs`` are the cotangents, drawn when None.
    """
    points = [inputs] if isinstance(inputs, _C.Tensor) else list(inputs)
    wanted = _differentiable(points)
    outs = [o for o in _outputs(func, points) if o.requires_grad]
    if grad_outputs is None:
        cotangents = [_C.randn(o.shape, dtype=o.dtype, device=o.device).requires_grad_() for o in outs]
    else:
        cotangents = [grad_outputs] if isinstance(grad_outputs, _C.Tensor) else list(grad_outputs)

    def gradients(*args: Any) -> tuple[_C.Tensor, ...]:
        primal, seeds = list(args[: len(points)]), list(args[len(points) :])
        results = [o for o in _outputs(func, primal) if o.requires_grad]
        found = _autograd.grad(results, [primal[i] for i in wanted], seeds, create_graph=True, allow_unused=True)
        return tuple(_C.zeros_like(points[i]) if g is None else g for i, g in zip(wanted, found, strict=True))

    return gradcheck(
        gradients,
        [*points, *cotangents],
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )
