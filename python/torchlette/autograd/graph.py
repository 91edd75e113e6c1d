"""The graph that autograd walks: its functions, and hooks on several gradients at once."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from torchlette import _C, autograd

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
    """A function of the graph: what made a tensor, or what accumulates a leaf's gradient.

    Each sort of function is a class of its own, so that ``type(t.grad_fn).__name__`` says which. While one is
    held, so is the graph before it.
    """

    __slots__ = ("__weakref__", "_id", "_site", "metadata")

    def __init__(self, number: int, site: int) -> None:
        """Take over the hold on the engine's function ``number``."""
        self._id = number
        self._site = site
        self.metadata: dict[Any, Any] = {}

    def __del__(self) -> None:
        if _C is not None:
            _C._function_release(self._id)

    def name(self) -> str:
        """Return the function's name."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The functions that the gradients go to, each with the number of its result; None for constants."""
        return tuple((None, 0) if found is None else (_node(found), found[2]) for found in _C._function_next(self._id))

    def register_hook(self, fn: Callable[..., Any]) -> NoReturn:
        """Raise: hooks are on tensors."""
        raise NotImplementedError("Node.register_hook: functions have no hooks: use Tensor.register_hook on the function's operands")

    def register_prehook(self, fn: Callable[..., Any]) -> NoReturn:
        """Raise: hooks are on tensors."""
        raise NotImplementedError("Node.register_prehook: functions have no hooks: use Tensor.register_hook on the function's result")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


# The objects of functions that Python holds, so that one function is one object.
_held: weakref.WeakValueDictionary[int, Node] = weakref.WeakValueDictionary()


@functools.cache
def _class(name: str) -> type[Node]:
    return type(name, (Node,), {"__slots__": (), "__module__": __name__})


def _node(found: tuple[int, str, int, int]) -> Node:
    """Return the object of a function that the engine has just held."""
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
    return None if found is None else _node(found)


class GradientEdge(NamedTuple):
    """One result of a function: where a gradient arrives."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of ``tensor``: for a leaf, to the function that accumulates its gradient."""
    found = _C._function(tensor, True)
    if found is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(_node(found), found[2])


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write to ``tensor`` that autograd did not see."""
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
        walk = autograd.walks[-1]
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
        fn: With "all", called at the end of the pass with the list of their gradients, None for those that none reached;
            with "any", called with the first gradient that arrives.
        mode: "all" or "any".
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    collector = _GradCollector(len(tensors), fn, mode)
    return _Handles([t.register_hook(functools.partial(collector.take, i)) for i, t in enumerate(tensors)])


# Saved values ----------------------------------------------------------------------------

_forbidden: list[str] = []


def saved_tensors_hooks(pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> NoReturn:
    """Raise: saved values stay in the engine."""
    if _forbidden:
        raise RuntimeError(_forbidden[-1])
    raise NotImplementedError(
        "autograd.graph.saved_tensors_hooks: saved values stay in the engine: use torchlette.utils.checkpoint.checkpoint to keep fewer of them"
    )


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Let :func:`saved_tensors_hooks` raise ``RuntimeError(error_message)`` within the context."""
    _forbidden.append(error_message)
    try:
        yield
    finally:
        _forbidden.pop()


@contextlib.contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """Change nothing: gradients are the same, and saved values stay on their device. ``utils.checkpoint`` keeps fewer of them."""
    yield


class _Mutation:
    """What :func:`allow_mutation_on_saved_tensors` gives; values are kept by the steps that save them alone."""

    def clear(self) -> None:
        """Do nothing: there are no clones."""


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Mutation]:
    """Let tensors that were saved within the context be written to: the backward pass reads what they were."""
    if _C._set_allow_mutation(True):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    try:
        yield _Mutation()
    finally:
        _C._set_allow_mutation(False)
