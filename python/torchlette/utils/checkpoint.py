"""Recomputing in the backward pass instead of saving: ``checkpoint`` and ``checkpoint_sequential``.

A checkpointed call keeps only its arguments. The non-reentrant form records a graph in its first run to find the leaves
besides the arguments (mostly parameters), then drops the graph and its saved tensors. The backward pass runs the
function again and differentiates that run.

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
from torchlette._runtime import fences
from torchlette._runtime import random as _random
from torchlette._runtime.errors import CheckpointError, CheckpointImpureRegionError
from torchlette._runtime.fences import is_recomputing
from torchlette._runtime.forward import off_tape, tangents_of
from torchlette._runtime.nested import replaced, tensors_in
from torchlette._runtime.observers import observing
from torchlette.amp import autocast_mode
from torchlette.autograd.function import Function
from torchlette.autograd.graph import get_gradient_edge, without_hooks
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


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Accept ``enable`` for compatibility: values that the backward pass does not need are never computed."""
    yield


class _Slot:
    """Stands for a tensor in nested containers."""

    def __init__(self, index: int) -> None:
        self.index = index


def _flatten(value: Any) -> tuple[Any, list[Tensor]]:
    """Return nested containers with slots in place of tensors, and the tensors."""
    found: list[Tensor] = []

    def take(t: Tensor) -> _Slot:
        found.append(t)
        return _Slot(len(found) - 1)

    return replaced(value, Tensor, take), found


class _Call:
    """One checkpointed call, with everything needed to run it again."""

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Any,
        kwargs: Any,
        preserve_rng_state: bool,
        contexts: tuple[Any, Any],
        debug: bool = False,
    ) -> None:
        self.fn, self.contexts = fn, contexts
        # With debug, the operators of the first and of the second run, a line each.
        self.logs: tuple[list[str], list[str]] | None = ([], []) if debug else None
        self.saved: tuple[int, int] | None = None
        self.template, self.tensors = _flatten((args, kwargs))
        self.casts = autocast_mode.present()
        self.rng = _random.get_rng_state() if preserve_rng_state else None
        self.leaves: list[Tensor] = []
        self.results: list[Tensor] = []
        self.like: list[tuple[Any, ...]] = []
        self.outputs: Any = None

    def _run(self, tensors: Sequence[Tensor], number: int) -> Any:
        args, kwargs = replaced(self.template, _Slot, lambda slot: tensors[slot.index])
        with contextlib.ExitStack() as stack:
            if self.logs is not None:
                log = self.logs[number]
                log.clear()
                stack.enter_context(observing(lambda name, a, k, r: _logged(log, name, a, k, r)))
            stack.enter_context(self.contexts[number])
            return _flatten(self.fn(*args, **kwargs))

    def record(self, tensors: Sequence[Tensor]) -> None:
        """Run the function the first time, and sum up what its history saves."""
        since = _C._history((), 0)[0]
        self.first(tensors)
        self.saved = _C._history(tuple(r for r in self.results if r.requires_grad), since)[1:]

    def repeat(self, tensors: Sequence[Tensor], check: bool) -> list[Tensor]:
        """Run the function again; raise CheckpointError if its history saves other tensors than the first one's."""
        since = _C._history((), 0)[0]
        results = self.again(tensors)
        if check and self.saved is not None:
            saved = _C._history(tuple(r for r in results if r.requires_grad), since)[1:]
            if saved != self.saved:
                raise CheckpointError(self._difference(saved))
        return results

    def _difference(self, saved: tuple[int, int]) -> str:
        assert self.saved is not None
        if saved[0] != self.saved[0]:
            text = (
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {self.saved[0]}\nNumber of tensors saved "
                f"during recomputation: {saved[0]}."
            )
        else:
            text = (
                "torch.utils.checkpoint: Recomputed values for some tensors have different metadata than during the "
                "forward pass."
            )
        if self.logs is None:
            return text + "\nTip: pass `debug=True` to checkpoint for the operators of both runs."
        forward, recomputed = ("\n".join(log) for log in self.logs)
        return (
            f"{text}\nOperations executed during the original forward:\n{forward}\nOperations executed during "
            f"recomputation:\n{recomputed}"
        )

    def first(self, tensors: Sequence[Tensor]) -> None:
        """Run the function; store the shapes and dtypes of its results."""
        self.outputs, self.results = self._run(tensors, 0)
        self.like = [(tuple(r.shape), r.dtype, r.requires_grad) for r in self.results]

    def again(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the function in the state of the first run; return the results."""
        with _random.fork_rng(enabled=self.rng is not None), autograd.enable_grad(), self.casts[0], self.casts[1]:
            if self.rng is not None:
                _random.set_rng_state(self.rng)
            with fences.recomputation():
                _, results = self._run(tensors, 1)
        got, want = [(tuple(r.shape), r.dtype) for r in results], [(shape, dtype) for shape, dtype, _ in self.like]
        if got != want:
            raise CheckpointError(
                f"torch.utils.checkpoint: the recomputed results differ from those of the forward pass: got {got}, "
                f"want {want}"
            )
        return results


def _logged(log: list[str], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """Write an operator call into a log, with the dtypes and shapes of its tensors."""

    def text(value: Any) -> str:
        return ", ".join(f"{str(t.dtype).partition('.')[2]}{list(t.shape)}" for t in tensors_in(value))

    log.append(f"{name}({text((args, kwargs))}) -> {text(result)}")
    return result


def _detached(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [off_tape(t).requires_grad_(t.requires_grad) for t in tensors]


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
        if not autograd.walks[-1].fills_all:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). "
                "To resolve this error, you can either set use_reentrant=False, or call .backward() without passing "
                "the `inputs` argument."
            )
        inputs = _detached(ctx.saved_tensors)
        pairs = [(r, g) for r, g in zip(ctx.call.again(inputs), grads, strict=True) if r.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([r for r, _ in pairs], [g for _, g in pairs])
        return (None, *(x.grad for x in inputs))


class _Recorded(Function):
    """Takes the inner leaves as arguments too, so ``backward`` only returns gradients."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> Any:
        ctx.call = call
        ctx.save_for_backward(*tensors[: len(tensors) - len(call.leaves)])
        results, call.results = [off_tape(r) for r in call.results], []
        ctx.mark_non_differentiable(
            *(r for r, (_, _, recorded) in zip(results, call.like, strict=True) if not recorded)
        )
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        create = autograd.is_grad_enabled()
        inputs = list(ctx.saved_tensors) if create else _detached(ctx.saved_tensors)
        with without_hooks():
            results = ctx.call.repeat(inputs, check=not create)
        pairs = [(r, g) for r, g in zip(results, grads, strict=True) if r.requires_grad]
        sources = inputs + ctx.call.leaves
        wanted = [i for i, x in enumerate(sources) if x.requires_grad]
        found: list[Any] = [None] * len(sources)
        if pairs:
            # Captured tensors connect this graph to the outer graph: keep it for the outer walk.
            results, starts = zip(*pairs, strict=True)
            grads = autograd.leaf_gradients(results, [sources[i] for i in wanted], starts, create_graph=create)
            for i, g in zip(wanted, grads, strict=True):
                found[i] = g
        return (None, *found)


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

    Args:
        function: Takes ``args`` and ``kwargs``, which may hold tensors in lists, tuples and dicts.
        *args: Its arguments.
        use_reentrant: Whether the backward pass starts a nested backward pass, which fills the leaves that the function
            uses. An argument must then require a gradient, and ``autograd.grad`` raises. False is recommended.
        context_fn: Returns the contexts of the first and of the second run; not with reentrance.
        determinism_check: "default" compares the number, dtypes and shapes of the tensors that the two runs save,
            "none" those of the results only. Neither compares with reentrance or under ``create_graph``.
        debug: Whether the error of that check lists the operators of both runs; not with reentrance.
        early_stop: Accepted for compatibility: unneeded values are never computed.
        **kwargs: Keyword arguments of ``function``; and ``preserve_rng_state`` (True): whether the second run draws the
            numbers of the first.

    Raises:
        CheckpointError: In the backward pass, if the second run saves other tensors than the first one.
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
    call = _Call(function, args, kwargs, preserve, context_fn(), debug and not use_reentrant)
    # Tangents are computed in the first run, so there is nothing to recompute for them.
    if not autograd.is_grad_enabled() or tangents_of(call.tensors)[0]:
        return function(*args, **kwargs)
    if use_reentrant:
        if not any(t.requires_grad for t in call.tensors):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        results = _Reentrant.apply(call, *call.tensors)
    else:
        inputs = _detached(call.tensors)
        with without_hooks():
            call.record(inputs)
        if determinism_check == "none" or isinstance(call.contexts[1], SelectedRun):
            call.saved = None  # a selective checkpoint compares the operators themselves
        own = {get_gradient_edge(x).node for x in inputs if x.requires_grad}
        reached = _C._leaves([r for r in call.results if r.requires_grad])
        call.leaves = [leaf for leaf in reached if get_gradient_edge(leaf).node not in own]
        results = _Recorded.apply(call, *call.tensors, *call.leaves)
    call.tensors = []
    return replaced(call.outputs, _Slot, lambda slot: results[slot.index])


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
        input: What the first function takes.
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
