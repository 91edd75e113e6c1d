"""Functional views of modules, under the names of ``torch.func``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.nn.utils.stateless import functional_call

__all__ = ["functional_call", "stack_module_state"]


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of modules of one kind, each stacked along a new first dim: two dictionaries."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(members: str) -> dict[str, Any]:
        tables = [dict(getattr(model, members)()) for model in models]
        return {name: _C.stack([table[name].detach() for table in tables]).requires_grad_(first.requires_grad) for name, first in tables[0].items()}

    return stacked("named_parameters"), stacked("named_buffers")
