"""What a checkpointed call keeps: hooks of saved tensors, and a second run that fills them.

In the first run of the function every saved tensor becomes a :class:`_Holder` without a value. The first holder that a
backward pass unpacks runs the function again; the k-th tensor that this run saves is the value of the k-th holder. The
second run stops at the last one by an exception, unless early stop is off.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from torchlette import _C, autograd
from torchlette._runtime import fences, levels
from torchlette._runtime import random as _random
from torchlette._runtime.errors import CheckpointError
from torchlette._runtime.forward import off_tape
from torchlette._runtime.nested import replaced, tensors_in
from torchlette._runtime.observers import observing
from torchlette.amp import autocast_mode
from torchlette.autograd.function import SavedValue
from torchlette.autograd.graph import packing_into

__all__ = ["Frame", "GraphExecGroup", "State", "filled", "flattened"]

Tensor = _C.Tensor


class _Slot:
    """Stands for a tensor in nested containers."""

    def __init__(self, index: int) -> None:
        self.index = index


def flattened(value: Any) -> tuple[Any, list[Tensor]]:
    """Return nested containers with slots in place of tensors, and the tensors."""
    found: list[Tensor] = []

    def take(t: Tensor) -> _Slot:
        found.append(t)
        return _Slot(len(found) - 1)

    return replaced(value, Tensor, take), found


def filled(template: Any, tensors: Sequence[Any]) -> Any:
    """Return nested containers with the tensors in their slots."""
    return replaced(template, _Slot, lambda slot: tensors[slot.index])


class State:
    """What the second run of a function shares with the first: random numbers, autocast, the default device."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.casts = autocast_mode.present()
        self.device = _C.get_default_device()
        self.rng = _random.saved_state() if preserve_rng_state else None

    def ran(self) -> None:
        """Note whether the first run has drawn random numbers. Without draws the second run needs no state."""
        if self.rng == _random.saved_state():
            self.rng = None

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Context of the second run, with the fence against writes to older tensors."""
        with contextlib.ExitStack() as stack:
            for _ in tuple(levels.levels()):
                stack.enter_context(levels.outside())
            stack.enter_context(_random.fork_rng(enabled=self.rng is not None))
            stack.enter_context(autograd.enable_grad())
            for cast in self.casts:
                stack.enter_context(cast)
            stack.callback(_C._set_default_device, _C._set_default_device(self.device))
            if self.rng is not None:
                _random.restore_state(self.rng)
            stack.enter_context(fences.recomputation())
            yield


class GraphExecGroup:
    """Context in which several backward passes share one second run of each checkpointed call that they reach.

    The passes must not need the same saved tensor. Contexts do not nest.
    """

    _current: GraphExecGroup | None = None

    def __enter__(self) -> Self:
        if GraphExecGroup._current is not None:
            raise RuntimeError(
                f"GraphExecGroup contexts cannot be nested. Already inside group {GraphExecGroup._current}"
            )
        GraphExecGroup._current = self
        return self

    def __exit__(self, *args: object) -> None:
        GraphExecGroup._current = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return cls._current


class _StopRecomputationError(Exception):
    """Ends a second run: all values that its backward pass needs are there."""


class _Holder:
    """Stands for a tensor that the first run saved; it has a value for each group whose second run has filled it."""

    __slots__ = ("__weakref__", "frame", "values")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.values: dict[object, SavedValue] = {}

    def restore(self) -> Tensor:
        """Return the value that the second run gave, and forget it."""
        walks = autograd.walks()
        group: object = GraphExecGroup._get_current_group() or (walks[-1] if walks else object())
        try:
            self.frame.recompute(group)
            if group not in self.values:
                raise CheckpointError(
                    "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If "
                    "you are calling ctx.saved_tensors in backward, make sure to do so only once."
                )
            value = self.values.pop(group).unpack()
            assert value is not None
            return value
        except CheckpointError as error:
            if self.frame.logs is None:
                raise
            raise CheckpointError(f"{error}\n{self.frame.log_text()}") from error
        finally:
            if not walks and group is not GraphExecGroup._get_current_group():
                self.frame.forget(group)


_TIP = "\nTip: pass `debug=True` to checkpoint for the operators of both runs."


def _metadata(t: Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), t.dtype, t.device


class Frame:
    """A checkpointed call of the form without reentrance.

    Args:
        fn: The function.
        args: Its arguments.
        kwargs: Its keyword arguments.
        state: The state before the first run.
        contexts: Of the first and of the second run.
        early_stop: Whether a second run ends with the last saved tensor.
        checked: Whether shapes, dtypes and devices of the saved tensors of both runs are compared.
        debug: Whether the error of a difference lists the operators of both runs.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Any,
        kwargs: Any,
        state: State,
        contexts: tuple[Any, Any],
        *,
        early_stop: bool,
        checked: bool,
        debug: bool,
    ) -> None:
        self.fn, self.state, self.contexts, self.early_stop, self.checked = fn, state, contexts, early_stop, checked
        self.logs: tuple[list[str], list[str]] | None = ([], []) if debug else None
        self.template, tensors = flattened((args, kwargs))
        packer = _C._set_packer(None)
        _C._set_packer(packer)
        # An argument that no hook packs is kept without its history, which a write in place could lead back to here.
        self.inputs = [SavedValue(t if packer is not None else off_tape(t), None, packer) for t in tensors]
        self.recorded = [t.requires_grad for t in tensors]
        self.holders: list[weakref.ref[_Holder]] = []
        self.metadata: list[tuple[Any, ...]] = []
        self.complete = False
        self.groups: set[object] = set()  # that have run the function again

    @contextlib.contextmanager
    def _logged(self, number: int) -> Iterator[None]:
        if self.logs is None:
            yield
            return
        log = self.logs[number]
        log.clear()
        with observing(lambda name, a, k, r: _log(log, name, a, k, r)):
            yield

    def first(self, args: Any, kwargs: Any) -> Any:
        """Run the function and return its result."""
        with packing_into(self._pack), self._logged(0), self.contexts[0]:
            result = self.fn(*args, **kwargs)
        self.state.ran()
        self.complete = True
        return result

    def _pack(self, t: Tensor) -> Callable[[], Tensor]:
        holder = _Holder(self)
        self.holders.append(weakref.ref(holder))
        if self.checked:
            self.metadata.append(_metadata(t))
        return holder.restore

    def recompute(self, group: object) -> None:
        """Run the function again, once for each group, and give the holders their values."""
        if group in self.groups:
            return
        tensors = []
        for saved, recorded in zip(self.inputs, self.recorded, strict=True):
            t = saved.unpack()
            assert t is not None
            tensors.append(off_tape(t).requires_grad_(recorded))
        run = _Repeat(self, group)
        if isinstance(group, autograd.Walk):
            group.at_end.append(lambda completed: self.forget(group))
        try:
            args, kwargs = filled(self.template, tensors)
            del tensors
            with self.state.restored(), packing_into(run.pack), self._logged(1), self.contexts[1]:
                self.fn(*args, **kwargs)
        except _StopRecomputationError as stop:
            if stop.args[0] is not run:
                raise
        self.groups.add(group)
        run.check()

    def forget(self, group: object) -> None:
        """Drop the values of a group."""
        self.groups.discard(group)
        for ref in self.holders:
            holder = ref()
            if holder is not None:
                holder.values.pop(group, None)

    def log_text(self) -> str:
        """Return the operators of both runs."""
        assert self.logs is not None
        forward, recomputed = ("\n".join(log) for log in self.logs)
        return (
            f"Operations executed during the original forward:\n{forward}\nOperations executed during recomputation:\n"
            f"{recomputed}"
        )


class _Repeat:
    """A second run in progress."""

    def __init__(self, frame: Frame, group: object) -> None:
        self.frame, self.group = frame, group
        self.count = 0
        self.unmatched = False  # the function walks backward itself, and the first run has not ended

    def pack(self, t: Tensor) -> Callable[[], Tensor]:
        """Give the next holder its value; stop after the last one."""
        frame, i = self.frame, self.count
        self.count += 1
        kept = SavedValue(off_tape(t), None, None)
        if i < len(frame.holders):
            holder = frame.holders[i]()
            if holder is not None:
                holder.values[self.group] = kept
        elif not frame.complete:
            self.unmatched = True
        elif not frame.early_stop:
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                "forward pass." + self._tip()
            )
        if frame.early_stop and self.count >= len(frame.holders):
            raise _StopRecomputationError(self)
        return kept.present

    def _tip(self) -> str:
        return _TIP if self.frame.logs is None else ""

    def check(self) -> None:
        """Raise CheckpointError if the run has not saved what the first one saved."""
        frame = self.frame
        if self.unmatched:
            return
        if self.count < len(frame.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(frame.holders)}\nNumber of tensors "
                f"saved during recomputation: {self.count}." + self._tip()
            )
        different = ""
        for i, (ref, want) in enumerate(zip(frame.holders, frame.metadata, strict=False)):
            holder = ref()
            if holder is not None and want != (got := _metadata(holder.values[self.group].present())):
                different += f"tensor at position {i}:\nsaved metadata: {want}\nrecomputed metadata: {got}\n"
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{different}" + self._tip()
            )


def _log(log: list[str], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """Write an operator call into a log, with the dtypes and shapes of its tensors. Calls of ``detach``, which the
    second run makes too, are left out.
    """

    def text(value: Any) -> str:
        return ", ".join(f"{str(t.dtype).partition('.')[2]}{list(t.shape)}" for t in tensors_in(value))

    if name != "detach":
        log.append(f"{name}({text((args, kwargs))}) -> {text(result)}")
    return result
