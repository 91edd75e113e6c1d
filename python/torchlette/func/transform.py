"""The base of the transforms: argument checks, and the points at which they differentiate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C, autograd
from torchlette._runtime import fences
from torchlette._runtime.forward import off_tape
from torchlette._runtime.levels import spread
from torchlette._runtime.nested import replaced, tensors_in

Tensor = _C.Tensor

Argnums = int | tuple[int, ...]


def with_tensors(value: Any, tensors: Sequence[Tensor]) -> Any:
    """Return nested containers with their tensors replaced by ``tensors``."""
    left = iter(tensors)
    return replaced(value, Tensor, lambda _: next(left))


def check_tensors(value: Any) -> None:
    """Raise if nested arguments to differentiate by hold anything but tensors."""
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            check_tensors(item)
    elif not isinstance(value, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")


def output_tensors(value: Any, what: str) -> list[Tensor]:
    """Return the tensors of a function's result, which must hold nothing else."""
    others: list[Any] = []

    def note(item: Any) -> Any:
        if isinstance(item, (list, tuple, dict)):
            for part in item.values() if isinstance(item, dict) else item:
                note(part)
        elif not isinstance(item, Tensor):
            others.append(item)

    note(value)
    if others and value is not None:
        raise RuntimeError(
            f"{what}: expected f(*primals) to return only tensors, got unsupported type {type(others[0])}"
        )
    tensors = tensors_in(value)
    if not tensors:
        raise RuntimeError(f"{what}: Expected f to be a function that has non-empty output (got output = {value!r})")
    return tensors


def check_only_tensors(value: Any, what: str, name: str) -> None:
    """Raise if nested arguments of a forward transform, called ``name``, hold anything but tensors."""
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            check_only_tensors(item, what, name)
    elif not isinstance(value, Tensor):
        raise RuntimeError(f"{what}: Expected {name} to only contain Tensors, got {type(value)}")


def check_real(value: Any, what: str, role: str) -> None:
    """Raise if nested inputs or outputs of a function whose Jacobian is wanted hold complex tensors."""
    for i, t in enumerate(tensors_in(value)):
        if t.is_complex():
            raise RuntimeError(
                f"{what}: Expected all {role} to be real but received complex tensor at flattened input idx: {i}"
            )


def argument_numbers(argnums: Argnums, count: int) -> tuple[int, ...]:
    """Return the numbers of the arguments to differentiate by, counted from the front."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
    found = tuple(n % count for n in numbers)
    if len(set(found)) < len(found):
        raise RuntimeError(f"argnums elements must be unique, got {found}")
    return found


class Transform:
    """One transform of a function: its points, and the history that its results keep."""

    def __init__(self, what: str) -> None:
        """Begin a transform; ``what`` names it in errors."""
        self.what = what
        self.recording = autograd.is_grad_enabled()  # no_grad around a transform: its results have no history
        self.leaves: list[Tensor] = []  # the points that are leaves: inner transforms treat them as outside

    def leaf(self, t: Tensor) -> Tensor:
        """Return a leaf of this transform with the values of ``t``."""
        self.leaves.append(off_tape(t).requires_grad_())
        return self.leaves[-1]

    def points(self, value: Any) -> Any:
        """Return points for nested tensors: views of those with a history, leaves with the values of others."""
        check_tensors(value)
        with recording():
            return replaced(value, Tensor, lambda t: spread(t.view_as(t)) if t.requires_grad else self.leaf(spread(t)))

    def call(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], has_aux: bool, given: Any = ()
    ) -> tuple[Any, Any]:
        """Return the result of ``func`` and its auxiliary result. It may write to new tensors and to ``given``."""
        writable = tensors_in(given)
        plain = [t for t in writable if not t.requires_grad]
        try:
            with recording(), fences.transform(writable):
                result = func(*args, **kwargs)
        finally:
            _C._close_leaves(self.leaves)
        # What the function wrote to has a history that belongs to this transform: the results keep it, in an alias.
        written = {
            id(t) for t, leads in zip(plain, self.lead_outside(plain), strict=True) if t.requires_grad and not leads
        }
        if written:
            with recording():
                result = replaced(result, Tensor, lambda t: t.view_as(t) if id(t) in written else t)
            for t in plain:
                if id(t) in written:
                    t.detach_()
        if not has_aux:
            return result, None
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError(f"{self.what}: output of function f should be a tuple: (output, aux) if has_aux is True")
        return result

    def leads_outside(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether results computed from ``tensors`` keep a history."""
        return self.recording and any(self.lead_outside(tensors))

    def lead_outside(self, tensors: Sequence[Tensor]) -> Sequence[bool]:
        """Return, for each tensor, whether its history reaches anything but points of ended transforms."""
        if not any(t.requires_grad for t in tensors):
            return [False] * len(tensors)
        return _C._leads_outside(tensors)

    def gradients(
        self,
        roots: Sequence[Tensor],
        inputs: Sequence[Tensor],
        starts: Sequence[Tensor | None],
        retain: bool = False,
        create: bool | None = None,
    ) -> Sequence[Tensor]:
        """Return the gradients of ``roots`` by ``inputs``. They are recorded if ``create``, or if history leads
        outside.
        """
        pairs = [(r, s) for r, s in zip(roots, starts, strict=True) if r.requires_grad]
        if not pairs:
            return [_C.zeros_like(x, requires_grad=False) for x in inputs]
        roots, starts = zip(*pairs, strict=True)
        if create is None:
            create = self.leads_outside([*roots, *(s for s in starts if s is not None)])
        with recording():
            return autograd.grad(
                roots, inputs, starts, retain_graph=retain or create, create_graph=create, materialize_grads=True
            )

    def settled(self, value: Any) -> Any:
        """Return nested results without the history that ends in this transform."""
        tensors = tensors_in(value)
        keeps = self.lead_outside(tensors) if self.recording else [False] * len(tensors)
        return with_tensors(
            value, [t if k or not t.requires_grad else off_tape(t) for t, k in zip(tensors, keeps, strict=True)]
        )


class recording:
    """Records gradients inside a transform; outer ``no_grad`` and ``inference_mode`` affect only the transform's
    results.
    """

    def __enter__(self) -> None:
        self.inference = _C._set_inference_mode(False)
        self.grad = _C._set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self.grad)
        _C._set_inference_mode(self.inference)


def chosen_arguments(
    transform: Transform, argnums: Argnums, args: tuple[Any, ...]
) -> tuple[dict[int, Any], list[Any], list[Any]]:
    """Return the points by argument number, the arguments with points substituted, and the other arguments."""
    points = {n: transform.points(args[n]) for n in argument_numbers(argnums, len(args))}
    return points, [points.get(i, a) for i, a in enumerate(args)], [a for i, a in enumerate(args) if i not in points]
