"""Selective checkpoints: a policy says which operators' results are kept instead of computed again.

The second run of a checkpointed function records the same operators. Where the first run kept a result, the second
continues with it: the recorded operator is there for its gradient only, and what nobody reads is never computed.
"""

from __future__ import annotations

import contextlib
import enum
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from torchlette import _C
from torchlette._runtime.aten import OpOverload, OpOverloadPacket, aten_name
from torchlette._runtime.nested import replaced, tensors_in
from torchlette._runtime.observers import observing

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectedRun",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

Tensor = _C.Tensor

#: Operators that no policy is asked about.
SAC_IGNORED_OPS = {OpOverload("detach")}


class CheckpointPolicy(enum.Enum):
    """The answer of a policy for an operator. Results of ``MUST_SAVE`` and ``PREFER_SAVE`` are kept; others, also those
    of the two ``CPU_OFFLOAD``, are computed again.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """The context of a policy's call, besides the operator and its arguments.

    Args:
        is_recompute: Always False: the policy is asked in the first run.
        op_output: The operator's result.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Entry:
    """A kept result, with the versions of its tensors."""

    def __init__(self, result: Any) -> None:
        self.result = replaced(result, Tensor, lambda t: t.detach())
        self.versions = [t._version for t in tensors_in(self.result)]

    def put_into(self, computed: Any, allow_mutation: bool) -> Any:
        """Return the kept values with the history of ``computed``."""
        kept = tensors_in(self.result)
        if not allow_mutation and [t._version for t in kept] != self.versions:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        values = iter(kept)

        def put(t: Tensor) -> Tensor:
            value = next(values)
            return _C._with_history(value, t) if t.requires_grad else value

        return replaced(computed, Tensor, put)


_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that "
    "changed between forward and backward."
)


class _Selection:
    """The results that the first run kept: for each operator, entries by the number of the call."""

    def __init__(self, policy: Callable[..., Any], allow_mutation: bool) -> None:
        self.policy, self.allow_mutation = policy, allow_mutation
        self.kept: dict[OpOverload, dict[int, Any]] = defaultdict(dict)
        self.counts: dict[OpOverload, int] = defaultdict(int)

    def _next(self, op: OpOverload) -> int:
        self.counts[op] += 1
        return self.counts[op] - 1

    def keep(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        op = OpOverload(aten_name(name, args, kwargs))
        if op in SAC_IGNORED_OPS or not tensors_in(result):
            return result
        number = self._next(op)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        policy = self.policy(context, op, *args, **kwargs)
        # A view costs no memory, and its copy would.
        save = not any(t._is_view() for t in tensors_in(result)) and (
            policy if isinstance(policy, bool) else policy.name in ("MUST_SAVE", "PREFER_SAVE")
        )
        self.kept[op][number] = _Entry(result) if save else None
        return result

    def use(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        op = OpOverload(aten_name(name, args, kwargs))
        if op in SAC_IGNORED_OPS or not tensors_in(result):
            return result
        number, entries = self._next(op), self.kept.get(op)
        if entries is None:
            raise RuntimeError(f"{op} encountered during backward but not found in storage. {_MISMATCH}")
        if number not in entries:
            raise RuntimeError(
                f"{op} invocation index {number} encountered during backward but not found in storage. {_MISMATCH}"
            )
        entry = entries[number]
        if entry is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        if entry is None:
            return result
        entries[number] = _CONSUMED
        return entry.put_into(result, self.allow_mutation)

    @contextlib.contextmanager
    def run(self, observer: Any) -> Iterator[None]:
        self.counts.clear()
        with observing(observer):
            yield


_CONSUMED = object()


class SelectedRun:
    """The context of a run: it is entered again for each backward pass.

    Args:
        selection: The results that the first run keeps.
        observer: What sees each operator call.
    """

    def __init__(self, selection: _Selection, observer: Any) -> None:
        self._selection, self._observer = selection, observer
        self._open: list[Any] = []

    def __enter__(self) -> None:
        self._open.append(self._selection.run(self._observer))
        self._open[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Return the contexts of the two runs of a selective checkpoint, for ``context_fn`` of ``checkpoint``.

    Operators have PyTorch's names: a product of matrices is ``torch.ops.aten.mm``, a linear map with bias ``addmm``.
    Calls in place, views by indexing and operators inside others are not asked about.

    Args:
        policy_fn_or_list: A function that takes a :class:`SelectiveCheckpointContext`, the operator and its arguments,
            and returns a :class:`CheckpointPolicy`; or a list of the operators whose results are kept.
        allow_cache_entry_mutation: Whether kept tensors may be written to before the backward pass.

    Raises:
        ValueError: The list holds something else than operators, as ``torch.ops.aten.mm.default``.
        TypeError: Neither a function nor a list.
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                hint = (
                    "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
                    "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {hint}"
                )
        wanted = set(policy_fn_or_list)

        def policy(context: SelectiveCheckpointContext, op: OpOverload, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in wanted else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    selection = _Selection(policy, allow_cache_entry_mutation)
    return SelectedRun(selection, selection.keep), SelectedRun(selection, selection.use)
