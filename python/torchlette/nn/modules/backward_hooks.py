"""Module backward hooks built from tensor hooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = ["BackwardTap"]


class BackwardTap:
    """Watches one call of a module: identity views of its inputs and outputs carry tensor hooks.

    The views receive only the gradient of this call, without the gradients from other uses of the same tensors. In each
    backward pass the hooks run once the gradients of all watched outputs and inputs are known.

    Args:
        module: The module.
        pre_hooks: Functions called with the gradients of its results.
        hooks: Functions called with the gradients of its arguments and results.
    """

    def __init__(self, module: Any, pre_hooks: list[Callable[..., Any]], hooks: list[Callable[..., Any]]) -> None:
        """Watch one call of ``module``."""
        self.module = module
        self.pre_hooks = pre_hooks
        self.hooks = hooks
        self.watched_inputs: list[int] = []
        self.watched_outputs: list[int] = []
        self.grad_inputs: list[Any] = []
        self.grad_outputs: list[Any] = []
        self.missing_inputs = 0
        self.missing_outputs = 0

    def tap_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Replace the arguments that require gradients by watched views."""
        tapped = list(args)
        for i, arg in enumerate(args):
            if isinstance(arg, _C.Tensor) and arg.requires_grad and _C.is_grad_enabled():
                self.watched_inputs.append(i)
                tapped[i] = arg[...]
                if self.hooks:
                    tapped[i].register_hook(lambda grad, i=i: self._on_input(i, grad))
        self.grad_inputs = [None] * len(args)
        self.missing_inputs = len(self.watched_inputs)
        return tuple(tapped)

    def tap_outputs(self, result: Any) -> Any:
        """Replace the results that require gradients by watched views."""
        if not isinstance(result, (_C.Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=4,
            )
            self.pre_hooks, self.hooks = [], []
            return result
        outputs: list[Any] = list(result) if isinstance(result, tuple) else [result]
        for i, out in enumerate(outputs):
            if isinstance(out, _C.Tensor) and out.requires_grad:
                self.watched_outputs.append(i)
                outputs[i] = out[...]
                outputs[i].register_hook(lambda grad, i=i: self._on_output(i, grad))
        self.grad_outputs = [None] * len(outputs)
        self.missing_outputs = len(self.watched_outputs)
        if isinstance(result, tuple):
            return type(result)(*outputs) if hasattr(result, "_fields") else type(result)(outputs)
        return outputs[0]

    def _on_output(self, i: int, grad: Any) -> Any:
        self.grad_outputs[i] = grad
        self.missing_outputs -= 1
        if self.missing_outputs > 0:
            return None
        self.missing_outputs = len(self.watched_outputs)
        result = self.grad_outputs[i] if self._run_pre_hooks() else None
        if not self.watched_inputs:
            if self.hooks:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    "inputs require gradients.",
                    stacklevel=2,
                )
            self._run_hooks()
            self._forget()
        return result

    def _run_pre_hooks(self) -> bool:
        replaced = False
        for hook in self.pre_hooks:
            result = hook(self.module, tuple(self.grad_outputs))
            if result is None:
                continue
            if len(self.watched_outputs) > 1:
                raise RuntimeError(
                    f"Module backward pre-hook: a gradient can be replaced only when the module has one output, got "
                    f"{len(self.watched_outputs)} outputs"
                )
            self.grad_outputs = list(result) if isinstance(result, tuple) else [result]
            replaced = True
        return replaced

    def _on_input(self, i: int, grad: Any) -> Any:
        self.grad_inputs[i] = grad
        self.missing_inputs -= 1
        if self.missing_inputs > 0:
            return None
        self.missing_inputs = len(self.watched_inputs)
        result = self.grad_inputs[i] if self._run_hooks() else None
        self._forget()
        return result

    def _run_hooks(self) -> bool:
        replaced = False
        for hook in self.hooks:
            result = hook(self.module, tuple(self.grad_inputs), tuple(self.grad_outputs))
            if result is None:
                continue
            if len(self.watched_inputs) != 1:
                raise RuntimeError(
                    f"Module backward hook: a gradient can be replaced only when one input requires a gradient, got "
                    f"{len(self.watched_inputs)} inputs"
                )
            self.grad_inputs = list(result) if isinstance(result, tuple) else [result]
            replaced = True
        return replaced

    def _forget(self) -> None:
        """Drop the gradients: the tap lives as long as the graph."""
        self.grad_inputs = [None] * len(self.grad_inputs)
        self.grad_outputs = [None] * len(self.grad_outputs)
