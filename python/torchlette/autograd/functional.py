"""Derivatives of functions as values, with the names and result shapes of ``torch.autograd.functional``.

Inputs and outputs are tensors or tuples of tensors; ``shape(out)`` and ``shape(in)`` below are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette import autograd as _autograd
from torchlette._runtime import forward as _forward
from torchlette._runtime.levels import spread

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensor = _C.Tensor
Tensors = tuple[Tensor, ...]


def _tensors(value: Any, name: str, where: str) -> tuple[bool, Tensors]:
    """Return whether ``value`` is a tuple, and it as a tuple."""
    many = isinstance(value, tuple)
    values = value if many else (value,)
    for i, item in enumerate(values):
        if not isinstance(item, Tensor):
            found = f"value at index {i}" if many else f"given {name}"
            raise TypeError(
                f"The {name} given to {where} must be either a Tensor or a tuple of Tensors but the {found} has type "
                f"{type(item)}."
            )
    return many, tuple(values)


def _prepare(inputs: Tensors, create_graph: bool) -> Tensors:
    """Return views of the inputs, or leaves with the same elements, to differentiate by."""
    return tuple(
        spread(x.view_as(x) if create_graph and x.requires_grad else _forward.off_tape(x).clone()).requires_grad_()
        for x in inputs
    )


def _finish(values: Any, create_graph: bool) -> Any:
    if isinstance(values, tuple):
        return tuple(_finish(v, create_graph) for v in values)
    return values if create_graph else values.detach()


#: What :func:`_gradients` differentiates: the function's outputs, one of them in ``jacobian``, or its gradients.
_OUTPUTS, _ROW, _SLOPES = range(3)
_STRICT = "is independent of input {}. This is not allowed in strict mode"


def _require_grad(outputs: Sequence[Tensor], level: int) -> None:
    """Raise if one of the outputs has no history, as strict mode demands."""
    for i, out in enumerate(outputs):
        if not out.requires_grad and level == _SLOPES:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {i} is independent of the input. This is not allowed in strict mode. You should ensure that "
                "your function is twice differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )
        if not out.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in "
                "a differentiable manner from the input when running in strict mode."
            )


def _gradients(
    outputs: Sequence[Tensor],
    inputs: Tensors,
    grads: Sequence[Tensor],
    create_graph: bool,
    strict: bool,
    level: int = _OUTPUTS,
    number: int = 0,
) -> Tensors:
    """Return the gradients by ``inputs``. An input that no output depends on gives zeros, or an error if ``strict``.

    ``number`` is the output's, for ``_ROW``.
    """
    if strict and level != _ROW:
        _require_grad(outputs, level)
    pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if o.requires_grad]
    found: tuple[Any, ...] = (None,) * len(inputs)
    if pairs:
        roots, starts = zip(*pairs, strict=True)
        found = _autograd.grad(roots, inputs, starts, retain_graph=True, create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in found):
        what = ("The output", f"Output {number}", "The jacobian")[level]
        missing = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(f"{what} of the user-provided function {_STRICT.format(missing)}.")
    return tuple(_C.zeros_like(x, requires_grad=False) if g is None else g for x, g in zip(inputs, found, strict=True))


def _keep_history(found: Tensors, strict: bool, create_graph: bool, what: str = "jacobian") -> Tensors:
    """Return the results of a call with ``create_graph``, which in strict mode must have a history."""
    for i, g in enumerate(found):
        if strict and create_graph and not g.requires_grad:
            raise RuntimeError(f"The {what} of the user-provided function {_STRICT.format(i)} when create_graph=True.")
    return found


def _check_vector(v: Any, like: Tensors, many: bool, what: str, where: str) -> Tensors:
    """Return the vector of a product: ``v``, or a one for a single element."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {what} a single Tensor with a single element.")
        return (_C.ones_like(like[0], requires_grad=False),)
    _, vectors = _tensors(v, "v", where)
    if len(vectors) != len(like) and not many:
        raise RuntimeError("The given v should contain a single Tensor.")
    if len(vectors) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for i, (x, y) in enumerate(zip(vectors, like, strict=True)):
        if x.shape != y.shape:
            entry = f"Entry {i} in " if many else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {y.shape} but got {x.shape}.")
    return vectors


def _one(many: bool, values: Any) -> Any:
    return values if many else values[0]


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return all derivatives of the outputs of ``func`` by its inputs.

    Args:
        func: Takes the inputs as arguments.
        inputs: A tensor or a tuple of them.
        create_graph: Make the result differentiable.
        strict: Raise where an output does not depend on an input, instead of giving zeros.
        vectorize: "forward-mode" requires it, and computes all columns at once; the rows of "reverse-mode" come one by
            one.
        strategy: "reverse-mode", which costs less where the outputs have fewer elements than the inputs, or
            "forward-mode".

    Returns:
        A tensor of shape(out) + shape(in). Tuples of outputs or inputs give tuples, outputs outermost.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode", got "{strategy}"')
    if strategy == "forward-mode":
        return _jacobian_forward(func, inputs, create_graph, strict, vectorize)
    if vectorize and strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    many_in, points = _tensors(inputs, "inputs", "jacobian")
    with _autograd.enable_grad():
        points = _prepare(points, create_graph)
        many_out, outputs = _tensors(func(*points), "outputs of the user-provided function", "jacobian")
        if strict:
            _require_grad(outputs, _OUTPUTS)
        rows = tuple(_jacobian_of(i, out, points, create_graph, strict) for i, out in enumerate(outputs))
    rows = _finish(rows, create_graph)
    return _one(many_out, tuple(_one(many_in, row) for row in rows))


def _jacobian_forward(func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    from torchlette.func.batching import vmap

    what = 'torch.autograd.functional.jacobian: `{}` and `strategy="forward-mode"` are not supported together (yet). '
    if create_graph:
        text = 'Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        raise NotImplementedError(what.format("create_graph=True") + text)
    if strict:
        text = 'Please either set `strict=False` or `strategy="reverse-mode"`.'
        raise RuntimeError(what.format("strict=True") + text)
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )
    many_in, points = _tensors(inputs, "inputs", "jacobian")
    sizes = [x.numel() for x in points]
    basis = [
        part.to(x.dtype).reshape((sum(sizes), *x.shape))
        for part, x in zip(_C.eye(sum(sizes), device=points[0].device).split(sizes, 1), points, strict=True)
    ]
    many = [False]

    def columns(*tangents: Tensor) -> Tensors:
        many[0], _, found = _pushed(func, points, tangents, False, "jacobian")
        return found

    found = vmap(columns)(*basis)
    rows = tuple(
        tuple(
            part.movedim(0, -1).reshape((*out.shape[1:], *x.shape))
            for part, x in zip(out.split(sizes), points, strict=True)
        )
        for out in found
    )
    return _finish(_one(many[0], tuple(_one(many_in, row) for row in rows)), False)


def _jacobian_of(number: int, out: Tensor, points: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """Return the derivatives of one output, a row for each element."""
    seeds = _C.eye(out.numel(), dtype=out.dtype, device=out.device)
    rows = [
        _keep_history(
            _gradients((out,), points, (seed.reshape(out.shape),), create_graph, strict, _ROW, number),
            strict,
            create_graph,
        )
        for seed in seeds.unbind(0)
    ]
    if not rows:
        return tuple(_C.zeros((*out.shape, *x.shape), dtype=x.dtype, device=x.device) for x in points)
    return tuple(
        _C.stack(list(column)).reshape((*out.shape, *x.shape))
        for column, x in zip(zip(*rows, strict=True), points, strict=True)
    )


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the second derivatives of ``func``, which gives one element.

    Args:
        func: Takes the inputs as arguments.
        inputs: A tensor or a tuple of them.
        create_graph: Make the result differentiable.
        strict: Raise where the output or a derivative does not depend on an input.
        vectorize: As of :func:`jacobian`.
        outer_jacobian_strategy: The ``strategy`` of :func:`jacobian`.

    Returns:
        A tensor of shape(in) + shape(in), or a tuple of tuples of them.
    """
    many, _ = _tensors(inputs, "inputs", "hessian")

    def gradient(*points: Tensor) -> Any:
        found = jacobian(lambda *xs: _single(func(*xs), "hessian", strict), points, create_graph=True)
        if strict:
            _require_grad(found, _SLOPES)
        return tuple(g.reshape(x.shape) for g, x in zip(found, points, strict=True))

    found = jacobian(gradient, inputs if many else (inputs,), create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if many else found[0][0]


def _single(out: Any, where: str, strict: bool) -> Tensor:
    """Return the only element of the function's result."""
    many, outputs = _tensors(out, "outputs of the user-provided function", where)
    if strict:
        _require_grad(outputs, _OUTPUTS)
    if many:
        raise RuntimeError(f"The function given to {where} should return a single Tensor")
    if out.numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {where} should contain a single element")
    return outputs[0].reshape(())


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs of ``func`` and the product of ``v``, of shape(out), with the Jacobian: of shape(in).

    Args:
        func: From tensors to a tensor or a tuple of them.
        inputs: The tensor, or the tuple of tensors, at which to differentiate.
        v: The vector, with the nesting of the inputs or outputs that it multiplies; None where they have one element.
        create_graph: Whether the results keep a history, for further derivatives.
        strict: Raise where an output does not depend on an input, instead of giving zeros.

    >>> x = torchlette.tensor([1.0, 2.0])
    >>> torchlette.autograd.functional.vjp(lambda x: x**2, x, torchlette.ones(2))[1].tolist()
    [2.0, 4.0]
    """
    many, points = _tensors(inputs, "inputs", "vjp")
    with _autograd.enable_grad():
        points = _prepare(points, create_graph)
        many_out, outputs = _tensors(func(*points), "outputs of the user-provided function", "vjp")
        vectors = _check_vector(v, outputs, many_out, "the user-provided function returns", "vjp")
        found = _keep_history(_gradients(outputs, points, vectors, create_graph, strict), strict, create_graph)
    return _finish(_one(many_out, outputs), create_graph), _finish(_one(many, tuple(found)), create_graph)


def _pushed(
    func: Callable[..., Any], points: Tensors, vectors: Sequence[Tensor], strict: bool, what: str
) -> tuple[bool, Tensors, Tensors]:
    """Return whether outputs are many, the outputs, and the product of the Jacobian with ``vectors``."""
    with _forward.level() as level:
        duals = [_forward.dual(x, v, level) for x, v in zip(points, vectors, strict=True)]
        many, outputs = _tensors(func(*duals), "outputs of the user-provided function", what)
        found = [_forward.tangent(out, level) for out in outputs]
        outputs = tuple(_forward.primal(out, level) for out in outputs)
    if strict:
        starts = [_C.ones_like(out, requires_grad=False) for out in outputs]
        _gradients(outputs, tuple(points), starts, False, True)
    slopes = [_C.zeros_like(o, requires_grad=False) if t is None else t for o, t in zip(outputs, found, strict=True)]
    return many, outputs, tuple(slopes)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs of ``func`` and the product of the Jacobian with ``v``, of shape(in): of shape(out).

    Args:
        func: From tensors to a tensor or a tuple of them.
        inputs: The tensor, or the tuple of tensors, at which to differentiate.
        v: The vector, with the nesting of the inputs or outputs that it multiplies; None where they have one element.
        create_graph: Whether the results keep a history, for further derivatives.
        strict: Raise where an output does not depend on an input, instead of giving zeros.
    """
    many, points = _tensors(inputs, "inputs", "jvp")
    vectors = _check_vector(v, points, many, "the input to the user-provided function is", "jvp")
    with _autograd.enable_grad():
        points = _prepare(points, create_graph)
        many_out, outputs, found = _pushed(func, points, vectors, strict, "jvp")
        found = _keep_history(found, strict, create_graph)
    return _finish(_one(many_out, outputs), create_graph), _finish(_one(many_out, found), create_graph)


def _scalar_gradient(
    func: Callable[..., Any], points: Tensors, strict: bool, what: str
) -> tuple[Tensor, tuple[Any, ...]]:
    """Return the output and its recorded gradient."""
    out = _single(func(*points), what, strict)
    found = _gradients((out,), points, (_C.ones_like(out, requires_grad=False),), True, strict)
    if strict:
        _require_grad(found, _SLOPES)
    return out, found


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output of ``func``, one element, and the product of ``v``, of shape(in), with the Hessian: of
    shape(in).

    Args:
        func: From tensors to a tensor or a tuple of them.
        inputs: The tensor, or the tuple of tensors, at which to differentiate.
        v: The vector, with the nesting of the inputs or outputs that it multiplies; None where they have one element.
        create_graph: Whether the results keep a history, for further derivatives.
        strict: Raise where an output does not depend on an input, instead of giving zeros.
    """
    many, points = _tensors(inputs, "inputs", "vhp")
    vectors = _check_vector(v, points, many, "the input to the user-provided function is", "vhp")
    with _autograd.enable_grad():
        points = _prepare(points, create_graph)
        out, grads = _scalar_gradient(func, points, strict, "vhp")
        found = _gradients(grads, points, vectors, create_graph, strict, _SLOPES)
        found = _keep_history(found, strict, create_graph, "hessian")
    return _finish(out, create_graph), _finish(_one(many, tuple(found)), create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output of ``func``, one element, and the product of the Hessian with ``v``, of shape(in): of
    shape(in).

    Args:
        func: From tensors to a tensor or a tuple of them.
        inputs: The tensor, or the tuple of tensors, at which to differentiate.
        v: The vector, with the nesting of the inputs or outputs that it multiplies; None where they have one element.
        create_graph: Whether the results keep a history, for further derivatives.
        strict: Raise where an output does not depend on an input, instead of giving zeros.
    """
    many, points = _tensors(inputs, "inputs", "hvp")
    vectors = _check_vector(v, points, many, "the input to the user-provided function is", "hvp")
    with _autograd.enable_grad():

        def gradient(*duals: Tensor) -> Tensors:
            out, grads = _scalar_gradient(func, duals, strict, "hvp")
            return (out, *grads)

        _, (out, *_), (_, *found) = _pushed(gradient, _prepare(points, create_graph), vectors, False, "hvp")
    return _finish(out, create_graph), _finish(_one(many, tuple(found)), create_graph)
