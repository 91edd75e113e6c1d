"""The package ``functorch``, which PyTorch has taken up as ``torch.func``: its functions warn and call those.

:mod:`torchlette.as_torch` puts this module under the names ``functorch`` and ``functorch.experimental``.
"""

from __future__ import annotations

import copy
import functools
import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torchlette import _C, func
from torchlette.func.batching import batch_size_of
from torchlette.nn.modules.module import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "chunk_vmap",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "replace_all_batch_norm_modules_",
    "vjp",
    "vmap",
]

Tensor = _C.Tensor
#: The module ``functorch.experimental.control_flow``.
control_flow = importlib.import_module("torchlette._higher_order_ops")


def _deprecated(function: Callable[..., Any], instead: str) -> Callable[..., Any]:
    """Return a function that warns with PyTorch's text, and calls ``function``."""
    name = function.__name__

    @functools.wraps(function)
    def warns(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is "
            "deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use "
            f"`{instead}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more "
            "details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    warns.__module__ = "functorch"
    return warns


def _names_of(members: Callable[..., Any]) -> list[list[str]]:
    """Return all names of each parameter, or buffer, of a module."""
    names: dict[int, list[str]] = {}
    for name, t in members(remove_duplicate=False):
        names.setdefault(id(t), []).append(name)
    return list(names.values())


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters, its buffers and its arguments."""

    def __init__(self, model: Any) -> None:
        """Take a copy of ``model``, whose state is replaced in each call."""
        super().__init__()
        self._names = [*_names_of(model.named_parameters), *_names_of(model.named_buffers)]
        self.stateless_model = copy.deepcopy(model).to("meta")

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with other parameters and buffers."""
        state = {n: t for names, t in zip(self._names, (*params, *buffers), strict=True) for n in names}
        return func.functional_call(self.stateless_model, state, args, kwargs, tie_weights=False)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters and its arguments."""

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with other parameters."""
        return super().forward(params, (), *args, **kwargs)


def _state(model: Any, disable_autograd_tracking: bool) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return copies of the parameters and of the buffers of a module."""
    held = copy.deepcopy(model)
    if disable_autograd_tracking:
        held.requires_grad_(False)
    return tuple(held.parameters()), tuple(held.buffers())


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """Return a module as a function of its parameters, and copies of these.

    Args:
        model: The module, which has no buffers.
        disable_autograd_tracking: Whether the copies require no gradients.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(model), _state(model, disable_autograd_tracking)[0]


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a module as a function of its parameters and buffers, and copies of these.

    Args:
        model: The module.
        disable_autograd_tracking: Whether the copies of the parameters require no gradients.
    """
    return (FunctionalModuleWithBuffers(model), *_state(model, disable_autograd_tracking))


def combine_state_for_ensemble(
    models: Sequence[Any],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return one of equal modules as a function of parameters and buffers, and those of all modules, stacked."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")

    def stacked(members: str) -> tuple[Tensor, ...]:
        columns = zip(*(getattr(model, members)() for model in models), strict=True)
        return tuple(_C.stack([t.detach() for t in column]) for column in columns)

    return FunctionalModuleWithBuffers(models[0]), stacked("parameters"), stacked("buffers")


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """Return a function that maps ``func`` over a batch in ``chunks`` parts.

    Args:
        func: As of :func:`torchlette.func.vmap`.
        in_dims: As there.
        out_dims: As there.
        randomness: As there.
        chunks: How many parts; the last ones may be missing, as of ``torch.chunk``.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        size = -(-batch_size_of(func, in_dims, args) // chunks)
        return _vmap(func, in_dims, out_dims, randomness, chunk_size=size)(*args, **kwargs)

    return wrapper


_vmap = func.vmap
replace_all_batch_norm_modules_ = func.replace_all_batch_norm_modules_
vmap = _deprecated(func.vmap, "torch.vmap")
grad = _deprecated(func.grad, "torch.func.grad")
grad_and_value = _deprecated(func.grad_and_value, "torch.func.grad_and_value")
vjp = _deprecated(func.vjp, "torch.func.vjp")
jvp = _deprecated(func.jvp, "torch.func.jvp")
jacrev = _deprecated(func.jacrev, "torch.func.jacrev")
jacfwd = _deprecated(func.jacfwd, "torch.func.jacfwd")
hessian = _deprecated(func.hessian, "torch.func.hessian")
functionalize = _deprecated(func.functionalize, "torch.func.functionalize")
make_functional = _deprecated(make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecated(make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _deprecated(combine_state_for_ensemble, "torch.func.stack_module_state")
