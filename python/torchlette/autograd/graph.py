"""The graph that autograd walks: its functions, and hooks on several gradients at once."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from torchlette import _C, autograd
from torchlette._runtime.tensor_methods import HookHandle
from torchlette.autograd.grad_mode import no_grad

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

Tensor = _C.Tensor


class Node:
    """A node of the graph: the function that computed a tensor, or the accumulator of a leaf's gradient.

    Each kind of function has its own class, so ``type(t.grad_fn).__name__`` names it. Holding a node holds the graph
    before it.
    """

    __slots__ = ("__weakref__", "_id", "_made", "_source_loc", "_stand_in", "metadata")

    def __init__(self, number: int, site: int) -> None:
        """Take ownership of the reference to the engine's function ``number``."""
        self._id = number
        self._source_loc = site
        # The tensor through which the node was got, and one that stands for it.
        self._made: weakref.ref[Tensor] | None = None
        self._stand_in: Tensor | None = None
        self.metadata: dict[Any, Any] = {}

    def __del__(self) -> None:
        if _C is not None:
            _C._function_release(self._id)

    def name(self) -> str:
        """Return the function's name: that of its class, with a namespace where PyTorch has one."""
        name = type(self).__name__
        return "torch::autograd::" + name if name == "AccumulateGrad" else name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The functions that receive the gradients, each with the index of its result; None for constants."""
        return tuple((None, 0) if found is None else (_node(found), found[2]) for found in _C._function_next(self._id))

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Call ``fn(grad_inputs, grad_outputs)`` after the function has computed gradients in a backward pass.

        Args:
            fn: Gets two tuples: the gradients that go to ``next_functions``, and those of the function's results, None
                where there is none. It returns None, or a tuple that replaces ``grad_inputs``.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return self._add_hook(lambda inputs, outputs: _checked(fn, inputs, fn(inputs, outputs)), _AFTER)

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Call ``fn(grad_outputs)`` before the function computes gradients, after the hooks of its results.

        Args:
            fn: Gets a tuple of the gradients of the function's results, None where there is none. It returns None, or
                a tuple that replaces them.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return self._add_hook(lambda outputs: _checked(fn, outputs, fn(outputs)), BEFORE)

    def _add_hook(self, run: Callable[..., Any], kind: int) -> Any:
        """Add a hook to the function.

        The tensor that gave this node owns the hook, so that a hook that holds the tensor is collected with it. Without
        that tensor, one that stands for the function's result owns it.
        """
        owner = self._made() if self._made is not None else None
        found = None if owner is None else _C._function(owner, True)
        if found is not None:
            _C._function_release(found[0])
        if found is None or found[0] != self._id:
            if self._stand_in is None:
                self._stand_in = _C._attach_history(None, self._id, -1)
            owner = self._stand_in
        return HookHandle(_C._add_hook(owner, run, kind))

    def _places(self) -> dict[str, int]:
        """Map PyTorch's names of the saved values to their places among the function's operands and results."""
        found: dict[str, int] = {}
        for place in range(64):
            state, name, _, _ = _C._saved(self._id, place, _DESCRIBE)
            if state == _END:
                break
            if name:
                found[name] = place
        return found

    def _read_saved(self, place: int) -> Tensor | None:
        state, _, hook, value = _C._saved(self._id, place, _READ)
        if state == _FREED:
            raise RuntimeError(_FREED_TEXT)
        return _C._attach_history(_C._unpack_saved(hook), self._id, place) if state == _PACKED else value

    def __getattr__(self, name: str) -> Any:
        """Return ``_saved_x``, the tensor saved as ``x``, or ``_raw_saved_x``, which accepts hooks."""
        for prefix in ("_saved_", "_raw_saved_"):
            place = self._places().get(name.removeprefix(prefix)) if name.startswith(prefix) else None
            if place is not None:
                return self._read_saved(place) if prefix == "_saved_" else SavedTensor._of(self, place)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        """List the saved values too."""
        return [
            *super().__dir__(),
            *(prefix + name for name in self._places() for prefix in ("_saved_", "_raw_saved_")),
        ]

    def __repr__(self) -> str:
        name = type(self).__name__
        module = "torch.autograd.function." if name.endswith("Backward") else ""  # of a Function in Python
        return f"<{module}{name} object at {id(self):#x}>"


#: Kinds of hooks: before a function and after it.
BEFORE, _AFTER = 2, 3


def _checked(hook: Callable[..., Any], before: tuple[Tensor | None, ...], result: Any) -> tuple[Any, ...] | None:
    """Return what a hook of a function returned as a tuple, None for no change."""
    if result is None:
        return None
    name = getattr(hook, "__name__", type(hook).__name__)
    found = result if isinstance(result, tuple) else (result,)
    if len(found) != len(before):
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(found)}, but expected {len(before)})"
        )
    for old, new in zip(before, found, strict=True):
        if new is None:
            continue
        if old is None:
            raise RuntimeError("can't replace a None gradient with a non-None value")
        if not isinstance(new, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
        if new.dtype != old.dtype or new.device != old.device:
            raise RuntimeError(
                f"hook '{name}' has changed the type of value (was {old.dtype} on {old.device} got {new.dtype} on "
                f"{new.device})"
            )
        if new.shape != old.shape:
            raise RuntimeError(f"hook '{name}' has changed the size of value")
    return found


# States of saved values, and the actions of _C._saved besides querying the state.
_END, _NONE, _HELD, _PACKED, _FREED = range(5)
_DESCRIBE, _READ, _PACK = range(3)
_FREED_TEXT = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to "
    "backward through the graph a second time or if you need to access saved tensors after calling backward."
)

# The live Python objects by function: one function has one object.
_held: weakref.WeakValueDictionary[int, Node] = weakref.WeakValueDictionary()


@functools.cache
def _class(name: str) -> type[Node]:
    return type(name, (Node,), {"__slots__": (), "__module__": __name__})


def _node(found: tuple[int, str, int, int]) -> Node:
    """Return the object of a function to which the engine has just given a reference."""
    number, name, _, site = found
    node = _held.get(number)
    if node is None:
        node = _held[number] = _class(name)(number, site)
    else:
        _C._function_release(number)
    return node


def grad_fn(tensor: Tensor) -> Node | None:
    """Return the function that made a tensor, None for a leaf."""
    found = _C._function(tensor)
    return None if found is None else _node_of(tensor, found)


def _node_of(tensor: Tensor, found: tuple[int, str, int, int]) -> Node:
    node = _node(found)
    node._made = weakref.ref(tensor)
    return node


class GradientEdge(NamedTuple):
    """One result of a function: where a gradient arrives."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of ``tensor``: for a leaf, to the function that accumulates its gradient."""
    found = _C._function(tensor, True)
    if found is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(_node_of(tensor, found), found[2])


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Raise the version of ``tensor``, for a write that autograd did not see."""
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        with autograd.no_grad():
            t.copy_(t)


class _GradCollector:
    """Collects the gradients of several tensors in one walk."""

    def __init__(self, count: int, fn: Callable[..., Any], mode: str) -> None:
        self.count, self.fn, self.mode = count, fn, mode
        self.walk: Any = None
        self.grads: list[Tensor | None] = []

    def take(self, i: int, grad: Tensor) -> None:
        walk = autograd.walks()[-1]
        if self.walk is not walk:
            self.walk, self.grads = walk, [None] * self.count
            if self.mode == "any":
                self.fn(grad)
            else:
                walk.at_end.append(self.finish)
        self.grads[i] = grad

    def finish(self, completed: bool) -> None:
        grads, self.walk, self.grads = self.grads, None, []
        if completed:
            self.fn(grads)


class _Handles:
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> _Handles:
    """Call ``fn`` once in each backward pass that reaches some of ``tensors``.

    Args:
        tensors: Each must require a gradient.
        fn: With "all", called at the end of the pass with the list of the gradients, None for tensors not reached; with
            "any", called with the first gradient that arrives.
        mode: "all" or "any".
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    collector = _GradCollector(len(tensors), fn, mode)
    return _Handles([t.register_hook(functools.partial(collector.take, i)) for i, t in enumerate(tensors)])


# Saved values ----------------------------------------------------------------------------


# Takes a saved tensor; returns the function that restores it.
_Packer: TypeAlias = Callable[[Tensor], Callable[[], Tensor]]


class _Contexts(threading.local):
    """A thread's packers, the innermost last, and the error message while hooks are disabled."""

    def __init__(self) -> None:
        self.packers: list[_Packer] = []
        self.forbidden: str | None = None


_contexts = _Contexts()


@contextlib.contextmanager
def without_hooks() -> Iterator[None]:
    """Context for the library's own operations: the user's hooks do not see the tensors that they save."""
    before = _C._set_packer(None)
    try:
        yield
    finally:
        _C._set_packer(before)


def _unpacked(unpack: Callable[[Any], Tensor], packed: Any) -> Tensor:
    value = unpack(packed)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value).__name__}"
        )
    return value


def _packed_by(pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor], tensor: Tensor) -> Callable[[], Tensor]:
    """Pass a saved tensor to ``pack_hook``; return the function that restores it."""
    version = tensor._version
    with no_grad(), without_hooks():
        packed = pack(tensor)
    if tensor._version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot "
            "be modified by in-place "
            "operations as this can lead to unexpected side-effects. Please open an issue if you need to perform "
            "in-place operations on the "
            "input to a pack hook."
        )
    return functools.partial(_unpacked, unpack, packed)


def _push(packer: _Packer) -> None:
    if _contexts.forbidden is not None:
        raise RuntimeError(_contexts.forbidden)
    _contexts.packers.append(packer)
    _C._set_packer(packer)


def _pop() -> None:
    _contexts.packers.pop()
    _C._set_packer(_contexts.packers[-1] if _contexts.packers else None)


def packs_saved_tensors() -> bool:
    """Return whether hooks take the tensors that the thread's operators save."""
    return bool(_contexts.packers)


class packing_into:
    """Context in which ``packer`` receives each tensor that an operator saves; it returns what restores the tensor."""

    __slots__ = ("_packer",)

    def __init__(self, packer: _Packer) -> None:
        self._packer = packer

    def __enter__(self) -> None:
        _push(self._packer)

    def __exit__(self, *args: object) -> None:
        _pop()


def _check_hooks(pack_hook: Any, unpack_hook: Any, name: str) -> None:
    for hook in (pack_hook, unpack_hook):
        if not callable(hook):
            raise TypeError(f"{name}: a hook is wrong: got {type(hook).__name__}, want a callable")


class saved_tensors_hooks:
    """Context in which ``pack_hook`` receives each tensor that an operator saves for the backward pass.

    The object that ``pack_hook`` returns is kept in place of the tensor. When a backward pass needs the tensor,
    ``unpack_hook`` receives that object and returns a tensor of the same shape, dtype and device. Only the innermost
    context's hooks run. Writes to a tensor that hooks keep are not detected.

    A saved result is passed without its history, which would keep the packed object alive.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Take the hooks; they are active within the context."""
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if _contexts.forbidden is None:
            _check_hooks(self.pack_hook, self.unpack_hook, "saved_tensors_hooks")
        _push(functools.partial(_packed_by, self.pack_hook, self.unpack_hook))

    def __exit__(self, *args: object) -> None:
        _pop()


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Let :class:`saved_tensors_hooks` raise ``RuntimeError(error_message)`` within the context."""
    if _contexts.packers:
        raise RuntimeError(error_message)
    before, _contexts.forbidden = _contexts.forbidden, error_message
    try:
        yield
    finally:
        _contexts.forbidden = before


class save_on_cpu(saved_tensors_hooks):
    """Context in which saved tensors are moved to the CPU, and back when a backward pass needs them."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        """Accept PyTorch's options; there is no pinned memory."""
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


class SavedTensor:
    """A tensor that a function saved: ``grad_fn._raw_saved_*``."""

    _function: Node
    _place: int

    def __init__(self) -> None:
        """Raise: functions make these objects."""
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden. Outside of autograd, please use "
            "ctx.save_for_backward and ctx.saved_tensors, or torch.autograd.graph.saved_tensors_hooks."
        )

    @classmethod
    def _of(cls, function: Node, place: int) -> SavedTensor:
        """Return the object of the saved value at ``place`` of a function."""
        made = cls.__new__(cls)
        made._function, made._place = function, place
        return made

    @property
    def data(self) -> Tensor | None:
        """The tensor, unpacked by its hook if it has one; None where the function saved nothing."""
        return self._function._read_saved(self._place)

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Pack the tensor with ``pack_hook`` now; ``unpack_hook`` restores it when it is needed."""
        _check_hooks(pack_hook, unpack_hook, "register_hooks")
        state = _C._saved(self._function._id, self._place, _DESCRIBE)[0]
        if state == _PACKED:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        if state == _FREED:
            raise RuntimeError(_FREED_TEXT)
        if state == _NONE:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        before = _C._set_packer(functools.partial(_packed_by, pack_hook, unpack_hook))
        try:
            _C._saved(self._function._id, self._place, _PACK)
        finally:
            _C._set_packer(before)


class _Mutation:
    """The value of the ``with`` statement of :func:`allow_mutation_on_saved_tensors`; it holds no clones."""

    def clear(self) -> None:
        """Do nothing: there are no clones."""


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Mutation]:
    """Allow writes to tensors saved within the context: the backward pass reads their former values."""
    if _C._set_allow_mutation(True):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    try:
        yield _Mutation()
    finally:
        _C._set_allow_mutation(False)
