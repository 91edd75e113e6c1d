"""Derivatives as functions and functional views of modules, under the names of ``torch.func``.

Arguments may be tensors or nested lists, tuples and dicts of them, and transforms nest.

Reverse mode: all transforms share one tape. Each transform differentiates at its own points: views or leaves that
replace its arguments. Its results keep their history to tensors outside of it: captured tensors, arguments that
require grad, points of outer transforms. An outer transform, or ``backward``, continues along that history. A
result without such history requires no grad.

Forward mode: each call of :func:`jvp` is a level of its own, and its tangents end with it.
"""

from torchlette.func.batching import debug_unwrap, replace_all_batch_norm_modules_, stack_module_state, vmap
from torchlette.func.forward import jvp, linearize
from torchlette.func.gradients import grad, grad_and_value, vjp
from torchlette.func.jacobians import hessian, jacfwd, jacrev
from torchlette.func.programs import functionalize, make_jaxpr, make_program
from torchlette.nn.utils.stateless import functional_call

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "make_jaxpr",
    "make_program",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

#  Pickles and messages name this module, as in PyTorch, not the file that defines the function.
for _function in (
    debug_unwrap,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    make_program,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vjp,
    vmap,
):
    _function.__module__ = __name__
