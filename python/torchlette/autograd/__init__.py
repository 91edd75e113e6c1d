"""Gradients: ``backward``, ``grad``, the recording switches and numeric checks."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence

from torchlette import _C
from torchlette.autograd import anomaly_mode
from torchlette.autograd.anomaly_mode import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from torchlette.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

is_grad_enabled = _C.is_grad_enabled

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def _as_tuple(tensors: Any) -> tuple[Any, ...]:
    """Return the tensors as a tuple; a gradient edge becomes a tensor that stands for its result."""
    if isinstance(tensors, _C.Tensor):
        return (tensors,)
    if _is_edge(tensors):
        return (_result_of(tensors),)
    return tuple(_result_of(t) if _is_edge(t) else t for t in tensors)


def _is_edge(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "output_nr")


def _result_of(edge: Any) -> _C.Tensor:
    return _C._attach_history(None, edge.node._id, -1 - edge.output_nr)


def _start_gradients(roots: tuple[Any, ...], given: tuple[Any, ...]) -> list[Any]:
    """Return the initial gradients of the walk: the given ones, or ones for scalar roots."""
    if len(given) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    start = []
    for root, gradient in zip(roots, given, strict=True):
        if gradient is None:
            if root.requires_grad and root.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if root.requires_grad and root.is_complex():
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got torch.{root.dtype._name}"
                )
            gradient = _C.ones_like(root, requires_grad=False) if root.requires_grad else None
        elif gradient.shape != root.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has a shape of "
                f"{root.shape}."
            )
        start.append(gradient)
    return start


class Walk:
    """A backward pass in progress."""

    def __init__(self, fills_all: bool, keeps: bool) -> None:
        """Store whether the pass fills every leaf that it reaches, and whether saved tensors are kept."""
        self.fills_all, self.keeps = fills_all, keeps
        # Called when the pass ends; the argument says whether it succeeded.
        self.at_end: list[Callable[[bool], None]] = []


class _Walks(threading.local):
    """A thread's passes in progress."""

    def __init__(self) -> None:
        self.stack: list[Walk] = []


_walks = _Walks()


def walks() -> list[Walk]:
    """Return the stack of the thread's passes in progress: a hook of one pass may start another."""
    return _walks.stack


def _walk(run: Callable[..., Any], keeps: bool, create_graph: bool, *args: Any) -> Any:
    """Walk the tape. Python hooks and functions record exactly when the walk is recorded."""
    inspector = anomaly_mode.inspect if is_anomaly_enabled() and anomaly_mode.is_anomaly_check_nan_enabled() else None
    walk, completed = Walk(run is _C._backward and args[4] is None, keeps), False
    _walks.stack.append(walk)
    _C._suspend_captured(1)
    before = _C._set_grad_enabled(create_graph)
    try:
        found = run(*args, inspector)
        completed = True
    finally:
        try:
            while walk.at_end:
                walk.at_end.pop()(completed)
        finally:
            _C._set_grad_enabled(before)
            _walks.stack.remove(walk)
            _C._suspend_captured(-1)
    return found


def backward(
    tensors: _C.Tensor | Sequence[_C.Tensor],
    grad_tensors: _C.Tensor | Sequence[_C.Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: _C.Tensor | Sequence[_C.Tensor] | None = None,
) -> None:
    """Add the gradients of the sum of ``tensors`` to ``.grad`` of the leaves.

    Args:
        tensors: The roots.
        grad_tensors: The gradient of each root; may be left out for scalars.
        retain_graph: Keep saved tensors for a second backward pass; defaults to ``create_graph``.
        create_graph: Record the pass itself, for higher derivatives.
        inputs: Fill only these: leaves, and others, which then retain their gradients.
    """
    roots = _as_tuple(tensors)
    if inputs is not None:
        inputs = _as_tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for tensor in inputs:
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.retain_grad()
    given = (None,) * len(roots) if grad_tensors is None else _as_tuple(grad_tensors)
    start = _start_gradients(roots, given)
    keep = create_graph if retain_graph is None else retain_graph
    _walk(_C._backward, keep, create_graph, roots, tuple(start), keep, create_graph, inputs)


def _run_batched(run: Callable[..., Any], roots: tuple[Any, ...], given: tuple[Any, ...]) -> list[Any]:
    """Return the results of ``run``, mapped over the first dimension of the initial gradients; None stays None."""
    from torchlette.func.batching import vmap

    for i, (root, gradient) in enumerate(zip(roots, given, strict=False)):
        if gradient is not None and gradient.ndim == 0:
            raise IndexError("invalid index of a 0-dim tensor: a batched gradient has a batch dimension")
        if gradient is not None and gradient.shape[1:] != root.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {gradient.shape} and "
                f"output[{i}] has a shape of {root.shape}."
            )
    if any(g is None for g in given):
        _start_gradients(roots, tuple(None if g is None else g[0] for g in given))
        raise ValueError(
            "grad: grad_outputs is wrong: got None, want a gradient with a batch dimension for each output"
        )
    reached: list[bool] = []

    def mapped(*starts: Any) -> tuple[Any, ...]:
        found = run(_start_gradients(roots, starts))
        reached.extend(g is not None for g in found)
        return tuple(g for g in found if g is not None)

    results = iter(vmap(mapped)(*given))
    return [next(results) if r else None for r in reached]


def grad(
    outputs: _C.Tensor | Sequence[_C.Tensor],
    inputs: _C.Tensor | Sequence[_C.Tensor],
    grad_outputs: _C.Tensor | Sequence[_C.Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[_C.Tensor | None, ...]:
    """Return the gradients of the sum of ``outputs`` with respect to ``inputs``.

    Args:
        outputs: The roots.
        inputs: The tensors to differentiate by; they need not be leaves.
        grad_outputs: The gradient of each root; may be left out for scalars.
        retain_graph: Keep saved tensors for a second backward pass; defaults to ``create_graph``.
        create_graph: Record the pass itself, for higher derivatives.
        only_inputs: Accepted for compatibility; must be true.
        allow_unused: Return ``None`` for inputs that play no part instead of raising.
        is_grads_batched: The first dimension of each of ``grad_outputs`` counts gradients; one pass serves all, by
            ``vmap``, and the results have that dimension too.
        materialize_grads: Return zeros instead of ``None``.
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs is wrong: got False, want True (use backward to fill the leaves)")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    roots, wanted = _as_tuple(outputs), _as_tuple(inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    given = (None,) * len(roots) if grad_outputs is None else _as_tuple(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    unused = bool(allow_unused) or materialize_grads

    def run(start: Sequence[Any]) -> Any:
        return _walk(_C._grad, keep, create_graph, roots, tuple(start), wanted, keep, create_graph, unused, False)

    found = _run_batched(run, roots, given) if is_grads_batched else run(_start_gradients(roots, given))
    if materialize_grads:
        found = tuple(_C.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True))
    return tuple(found)


def leaf_gradients(
    roots: Sequence[_C.Tensor], inputs: Sequence[_C.Tensor], start: Sequence[_C.Tensor], *, create_graph: bool
) -> Any:
    """Return gradients as :func:`grad` does, None where there is none, without running the leaves' hooks: the outer
    walk runs them.
    """
    return _walk(
        _C._grad, True, create_graph, tuple(roots), tuple(start), tuple(inputs), True, create_graph, True, True
    )


def Variable(data: _C.Tensor, requires_grad: bool = False) -> _C.Tensor:
    """Return a leaf that shares the memory of ``data``; kept for old code."""
    return data.detach().requires_grad_(requires_grad)


# Names imported at their first use -> their modules.
_LAZY = {
    "Function": "function",
    "function": "function",
    "forward_ad": "forward_ad",
    "functional": "functional",
    "graph": "graph",
    "profiler": "profiler",
    "SavedTensor": "graph",
}


def __getattr__(name: str) -> Any:
    """Import a rarely used name at its first use."""
    if name in _LAZY:
        module = importlib.import_module("torchlette.autograd." + _LAZY[name])
        return module if name == _LAZY[name] else getattr(module, name)
    raise AttributeError(f"module 'torchlette.autograd' has no attribute {name!r}")


# The submodule has the same name as the function: importing it first leaves the name to the function.
from torchlette.autograd.gradcheck import gradcheck, gradgradcheck  # noqa: E402
