"""Recomputing in the backward pass instead of saving: ``checkpoint`` and ``checkpoint_sequential``.

A checkpointed call keeps only its arguments. The non-reentrant form records the graph of its first run without saved
tensors; the backward pass runs the function again for these, up to the last one (:mod:`torchlette.utils.recompute`).
The reentrant form records no graph in its first run, and differentiates the second one.

A function that writes in place to older tensors would write twice. A fence around the second run therefore makes such a
write raise :class:`CheckpointImpureRegionError`. The buffers that layers update (running statistics, batch counts,
vectors of spectral norms) are updated only by the first run; PyTorch updates them twice.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchlette import _C, autograd
from torchlette._runtime.errors import CheckpointError, CheckpointImpureRegionError
from torchlette._runtime.exports import is_exporting
from torchlette._runtime.fences import is_recomputing
from torchlette._runtime.forward import off_tape, tangents_of
from torchlette._runtime.levels import levels
from torchlette._runtime.nested import tensors_in
from torchlette.autograd.function import Function
from torchlette.utils.recompute import Frame, GraphExecGroup, State, filled, flattened
from torchlette.utils.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectedRun,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointImpureRegionError",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "get_device_states",
    "is_recomputing",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Tensor = _C.Tensor


def noop_context_fn() -> tuple[Any, Any]:
    """Return two null contexts, the default for the two runs of a function."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Return no devices and no states: ``get_rng_state`` covers all devices."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None) -> None:
    """Do nothing: ``set_rng_state`` covers all devices.

    Args:
        devices: Accepted for compatibility.
        states: Accepted for compatibility.
        device_type: Accepted for compatibility.
    """


_debug_enabled: bool | None = None


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set ``debug`` of all checkpoints inside to ``enabled``; None leaves it to each."""
    global _debug_enabled
    before, _debug_enabled = _debug_enabled, enabled
    try:
        yield
    finally:
        _debug_enabled = before


_early_stop: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set ``early_stop`` of all checkpoints inside, wherever their backward pass runs."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


class _Call:
    """A checkpointed call of the reentrant form, with everything needed to run it again."""

    def __init__(self, fn: Callable[..., Any], args: Any, kwargs: Any, preserve_rng_state: bool) -> None:
        self.fn = fn
        self.template, self.tensors = flattened((args, kwargs))
        self.state = State(preserve_rng_state)
        self.results: list[Tensor] = []
        self.like: list[tuple[Any, ...]] = []
        self.outputs: Any = None

    def _run(self, tensors: Sequence[Tensor]) -> Any:
        args, kwargs = filled(self.template, tensors)
        return flattened(self.fn(*args, **kwargs))

    def first(self, tensors: Sequence[Tensor]) -> None:
        """Run the function; store the shapes and dtypes of its results."""
        self.outputs, self.results = self._run(tensors)
        self.state.ran()
        self.like = [(tuple(r.shape), r.dtype) for r in self.results]

    def again(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the function in the state of the first run; return the results."""
        with self.state.restored():
            _, results = self._run(tensors)
        got = [(tuple(r.shape), r.dtype) for r in results]
        if got != self.like:
            raise CheckpointError(
                f"torch.utils.checkpoint: the recomputed results differ from those of the forward pass: got {got}, "
                f"want {self.like}"
            )
        return results


class _Reentrant(Function):
    """Runs without a graph; ``backward`` starts a nested walk, which fills the leaves inside."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> Any:
        call.first(tensors)
        ctx.call = call
        ctx.save_for_backward(*tensors)
        return tuple(call.results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        if not autograd.walks()[-1].fills_all:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). "
                "To resolve this error, you can either set use_reentrant=False, or call .backward() without passing "
                "the `inputs` argument."
            )
        inputs = [off_tape(t).requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        pairs = [(r, g) for r, g in zip(ctx.call.again(inputs), grads, strict=True) if r.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([r for r, _ in pairs], [g for _, g in pairs])
        return (None, *(x.grad for x in inputs))


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call ``function`` and save its arguments only; the backward pass calls it again.

    The call is a plain one where gradients are off, where an argument has a tangent of forward mode, inside of
    ``vmap``, and in a program that is exported.

    Args:
        function: Takes ``args`` and ``kwargs``, which may hold tensors in lists, tuples and dicts.
        *args: Its arguments.
        use_reentrant: Whether the backward pass starts a nested backward pass, which fills the leaves that the function
            uses. An argument must then require a gradient, and ``autograd.grad`` raises. False is recommended.
        context_fn: Returns the contexts of the first and of the second run; not with reentrance.
        determinism_check: "default" compares shapes, dtypes and devices of the tensors that the two runs save, "none"
            their number only. Not with reentrance, which compares results.
        debug: Whether the error of that check lists the operators of both runs; not with reentrance.
        early_stop: Whether the second run stops, by an exception, where the last tensor that the first run saved has
            been computed. With reentrance it always runs to its end.
        **kwargs: Keyword arguments of ``function``; and ``preserve_rng_state`` (True): whether the second run draws the
            numbers of the first.

    Raises:
        CheckpointError: In the backward pass, if the second run saves other tensors than the first one; with
            reentrance, if it returns others.
        CheckpointImpureRegionError: There too, if the function writes in place to older tensors.
        ValueError: For an unknown ``determinism_check``, and for arguments that do not go with ``use_reentrant``.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant and kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant and (context_fn is not noop_context_fn or debug):
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    debug = debug if _debug_enabled is None else _debug_enabled
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    found = tensors_in((args, kwargs))
    # Tangents are computed in the first run, so there is nothing to recompute for them. A second run would not have the
    # levels of vmap.
    if not autograd.is_grad_enabled() or levels() or tangents_of(found)[0]:
        return function(*args, **kwargs)
    if is_exporting():  # a program has no second run, and the same values
        with (
            contextlib.nullcontext() if not use_reentrant or any(t.requires_grad for t in found) else autograd.no_grad()
        ):
            return function(*args, **kwargs)
    if not use_reentrant:
        contexts = context_fn()
        frame = Frame(
            function,
            args,
            kwargs,
            State(preserve),
            contexts,
            early_stop=early_stop if _early_stop is None else _early_stop,
            # A selective checkpoint compares the operators themselves.
            checked=determinism_check == "default" and not isinstance(contexts[1], SelectedRun),
            debug=debug,
        )
        return frame.first(args, kwargs)
    call = _Call(function, args, kwargs, preserve)
    if not any(t.requires_grad for t in call.tensors):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
    results = _Reentrant.apply(call, *call.tensors)
    call.tensors = []
    return filled(call.outputs, results)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call ``functions`` one after another, all segments but the last checkpointed.

    Args:
        functions: A ``Sequential``, or the functions.
        segments: The number of segments.
        input: The argument of the first function.
        use_reentrant: As of :func:`checkpoint`.
        preserve_rng_state: As of :func:`checkpoint`.
        **kwargs: Further options of :func:`checkpoint`.
    """
    unknown = kwargs.keys() - {"context_fn", "determinism_check", "debug", "early_stop"}
    if unknown:
        raise ValueError("Unexpected keyword arguments: " + ",".join(sorted(unknown)))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments
    if size == 0:
        raise ValueError(f"checkpoint_sequential: segments is wrong: got {segments}, want at most {len(steps)}")

    def run(part: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
        def forward(x: Any) -> Any:
            for step in part:
                x = step(x)
            return x

        return forward

    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            run(steps[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
            **kwargs,
        )
    return run(steps[last:])(input)
