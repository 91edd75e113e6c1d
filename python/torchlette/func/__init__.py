"""Derivatives as functions and functional views of modules, under the names of ``torch.func``.

Arguments may be tensors or nested lists, tuples and dicts of them, and transforms nest.

All transforms share one tape. Each differentiates at points of its own, and its results keep the history that leads
outside of it: to captured tensors, to arguments that require grad, to the points of transforms around. A transform
around, or ``backward``, goes on with that history. A result without it requires no grad.
"""

from torchlette.func.batching import stack_module_state, vmap
from torchlette.func.gradients import grad, grad_and_value, jvp, vjp
from torchlette.func.jacobians import hessian, jacfwd, jacrev
from torchlette.nn.utils.stateless import functional_call

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "stack_module_state",
    "vjp",
    "vmap",
]

# Pickles and messages name this module, as in PyTorch, whatever file a function is in.
for _function in (grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap):
    _function.__module__ = __name__
