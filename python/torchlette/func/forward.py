"""Forward mode: Jacobian-vector products, and functions linearized at a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime import fences, forward
from torchlette._runtime.levels import levels
from torchlette._runtime.nested import replaced, tensors_in
from torchlette.func.transform import Transform, check_only_tensors, check_tensors, output_tensors, with_tensors

__all__ = ["jvp", "linearize"]

Tensor = _C.Tensor

_WHAT = "jvp(f, primals, tangents)"


def structure_of(value: Any) -> Any:
    """Return the structure of nested containers, to compare."""
    return replaced(value, Tensor, lambda _: None)


def _check_primals(primals: Sequence[Tensor]) -> None:
    for p in primals:
        if not (p.is_floating_point() or p.is_complex()):
            raise ValueError(f"Expected primal to be floating point or complex, but got: {p.dtype}")


def pushed(
    func: Callable[..., Any],
    primals: Any,
    tangents: Sequence[Tensor],
    strict: bool = False,
    has_aux: bool = False,
    apart: bool = False,
    others: Sequence[Tensor] = (),
) -> tuple[Any, list[Tensor | None], Any]:
    """Return the results of ``func`` at ``primals``, their tangents (None for zeros), and the auxiliary result.

    What ``func`` writes to its arguments reaches ``primals``. It may write to ``others`` too.
    """
    with forward.level(apart) as level, fences.transform(others):
        points = tensors_in(primals)
        duals = [forward.dual(p, t, level) for p, t in zip(points, tangents, strict=True)]
        versions = [d._version for d in duals]
        result, aux = func(*with_tensors(primals, duals)), None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise RuntimeError(f"{_WHAT}: output of function f should be a tuple: (output, aux) if has_aux is True")
            result, aux = result
        slopes = [forward.tangent(out, level) for out in output_tensors(result, _WHAT)]
        if strict and any(t is None for t in slopes):
            raise RuntimeError(
                f"{_WHAT[:-1]}, strict=True): The output of f is independent of the inputs. "
                "This is not allowed with strict=True."
            )
        written = [
            (p, forward.primal(d, level))
            for p, d, version in zip(points, duals, versions, strict=True)
            if d._version != version
        ]
    for p, value in written:
        p.copy_(value)
    return result, slopes, aux


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Return the results of ``func`` at ``primals`` and their derivatives along ``tangents``.

    It is computed forward: each operation of ``func`` computes the tangent of its result beside the result.

    Args:
        func: From tensors, or nested containers of them, to such; with ``has_aux`` to a pair of such and of anything.
        primals: Its arguments.
        tangents: The directions, nested as the arguments are.
        strict: Raise where a result does not depend on the arguments, instead of giving zeros.
        has_aux: Whether ``func`` returns a pair, whose second part is returned last.

    Raises:
        RuntimeError: The structures or shapes of ``primals`` and ``tangents`` differ, or these or the results of
            ``func`` hold something else than tensors.
        ValueError: A tensor among the arguments is neither floating point nor complex.

    >>> x = torchlette.tensor([1.0, 2.0])
    >>> torchlette.func.jvp(lambda x: x**2, (x,), (torchlette.ones(2),))[1].tolist()
    [2.0, 4.0]
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{_WHAT}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    check_only_tensors(primals, _WHAT, "primals")
    check_only_tensors(tangents, _WHAT, "tangents")
    if structure_of(primals) != structure_of(tangents):
        raise RuntimeError(
            f"{_WHAT}: Expected primals and tangents to have the same python structure. For example, if primals "
            f"is a tuple of 3 tensors, tangents also must be. Got primals with structure {structure_of(primals)} and "
            f"tangents with structure {structure_of(tangents)}"
        )
    if not tensors_in(primals):
        raise RuntimeError(f"{_WHAT}: Expected primals to contain at least one Tensor.")
    _check_primals(tensors_in(primals))
    return directional(func, primals, tangents, strict, has_aux)


def directional(
    func: Callable[..., Any], primals: Any, tangents: Any, strict: bool, has_aux: bool, others: Sequence[Tensor] = ()
) -> tuple[Any, ...]:
    """Return the results of ``func`` at ``primals``, their derivatives, and with ``has_aux`` the auxiliary result."""
    result, slopes, aux = pushed(func, primals, tensors_in(tangents), strict, has_aux, others=others)
    zeros = [
        _C.zeros_like(out, requires_grad=False) if t is None else t
        for out, t in zip(tensors_in(result), slopes, strict=True)
    ]
    value = Transform(_WHAT).settled((result, with_tensors(result, zeros)))
    return (*value, aux) if has_aux else value


class _Linear:
    """The program of the tangents of a linearized function."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count

    def __del__(self, free: Callable[[int], None] = _C._captured_free) -> None:
        free(self.number)

    def __call__(self, tangents: list[Tensor]) -> Sequence[Tensor]:
        return _C._captured_call(self.number, tangents, [], self.count, False) or []


def _captured(arguments: list[Tensor], slopes: list[Tensor | None]) -> _Linear | None:
    """Return the program by which tangents depend on ``arguments``; None where these were computed."""
    moved = [t for t in slopes if t is not None]
    number = 0 if levels() or not moved else _C._capture_tangents(arguments, moved)
    return _Linear(number, len(moved)) if number else None


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the results of ``func`` at ``primals`` and a function that maps tangents of ``primals`` to theirs.

    ``func`` is called once. What the tangents need of it is computed once and kept, and the returned function repeats
    only the operations on tangents. Where ``func`` looks at elements, or under ``vmap``, the returned function calls
    it again.

    Args:
        func: From tensors, or nested containers of them, to such.
        *primals: Its arguments.

    Raises:
        RuntimeError: Tangents differ from ``primals`` in structure, shape, dtype or device.

    >>> y, push = torchlette.func.linearize(lambda x: x**2, torchlette.tensor([1.0, 2.0]))
    >>> push(torchlette.ones(2)).tolist()
    [2.0, 4.0]
    """
    check_tensors(primals)
    points = tensors_in(primals)
    _check_primals(points)
    structure = structure_of(primals)
    arguments = [_C.zeros_like(p, requires_grad=False).clone() for p in points]
    result, slopes, _ = pushed(func, primals, arguments, apart=not levels())
    program = _captured(arguments, slopes)
    outs = [(tuple(o.shape), o.dtype, o.device) for o in tensors_in(result)]
    like = [(p.shape, p.device, p.dtype) for p in points]
    kept = None if program else (func, primals)

    def push(*tangents: Any) -> Any:
        if structure_of(tangents) != structure:
            raise RuntimeError(
                f"Expected the tangents {structure_of(tangents)} to have the same argspec as the primals {structure}"
            )
        given = tensors_in(tangents)
        for i, (t, wanted) in enumerate(zip(given, like, strict=True)):
            have = (t.shape, t.device, t.dtype)
            for name, own, want in zip(("shape", "device", "dtype"), have, wanted, strict=True):
                if own != want:
                    raise RuntimeError(
                        f"tangent:{i} with {name} {own} in flattened pytree doesn't match the {name} {want} of the "
                        "corresponding primal."
                    )
        if kept is not None:
            return jvp(kept[0], kept[1], tangents)[1]
        left = iter(program(given) if program else ())
        found = [
            _C.zeros(shape, dtype=dtype, device=device) if t is None else next(left)
            for t, (shape, dtype, device) in zip(slopes, outs, strict=True)
        ]
        return with_tensors(result, found)

    return result, push
