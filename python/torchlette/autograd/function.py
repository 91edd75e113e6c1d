"""Differentiable functions whose backward rule is written in Python.

A call runs ``forward`` without recording and then joins its results to the tape by ordinary operators:

* each input that requires a gradient gets an identity view, the *tap*;
* each result becomes ``where(True, result, s)``, with ``s`` a sum over no elements of the taps. This keeps every bit of
  the result and makes it depend on all taps;
* a tensor hook on each joined result stores its gradient. The walk then reaches the taps with zero gradients, which are
  never computed; the hook on a tap replaces them by the gradient that ``backward`` returned for its input. Where that
  is None, a hook before the tap's rule drops them.

All results are later on the tape than all taps, so a walk calls the results' hooks before the taps' hooks.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from torchlette import _C, autograd
from torchlette._runtime import forward
from torchlette._runtime.errors import BackwardGraphFreedError, SavedTensorModifiedError
from torchlette._runtime.forward import off_tape
from torchlette._runtime.levels import fits, is_mapped, levels, mapped_by, outside, spread
from torchlette._runtime.nested import each, replaced, tensors_in
from torchlette.autograd import graph
from torchlette.autograd.grad_mode import enable_grad, no_grad

__all__ = ["Function", "FunctionCtx", "once_differentiable"]

Tensor = _C.Tensor

_NOTES = "https://pytorch.org/docs/main/notes/extending.func.html"


class FunctionCtx:
    """What ``forward`` hands to ``backward``: saved tensors, flags, and any attribute."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        """Save nothing."""
        self._to_save: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._changed: set[int] = set()  # identities of the dirty arguments
        self._non_differentiable: tuple[Tensor, ...] = ()
        self._materialize = True
        self._for_forward: tuple[Tensor | None, ...] | None = None  # saved_tensors in jvp
        self._pushing = False
        # None once a backward pass has freed them.
        self._saved: tuple[SavedValue, ...] | None = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, results or other tensors for ``backward``, which reads :attr:`saved_tensors`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {tensors.index(t)} is of type "
                    f"{type(t).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which reads :attr:`saved_tensors`."""
        self._for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs ``forward`` changed in place; it must return them."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which results have no gradient."""
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether ``backward`` gets zeros, or None, for results that no gradient reached.

        ``jvp`` gets the same for arguments without a tangent.
        """
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors given to :meth:`save_for_backward`, as they were; in ``jvp``, those of
        :meth:`save_for_forward`.
        """
        if self._pushing:
            return self._for_forward or ()
        if self._saved is None:
            raise BackwardGraphFreedError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
                "if you need to access saved tensors after calling backward."
            )
        return tuple(saved.unpack() for saved in self._saved) if self._saved else self._to_save


class SavedValue:
    """A saved tensor with its version at that time, or the object that a saved-tensor hook packed it into.

    A result is held without its history, since the tape holds this object: the history would be a cycle. Reading the
    result joins it to the tape again.
    """

    def __init__(
        self,
        tensor: Tensor | None,
        rejoin: Callable[[Tensor], Tensor] | None,
        packer: Callable[[Tensor], Callable[[], Tensor]] | None,
    ) -> None:
        self.tensor = tensor if tensor is None or rejoin is None else off_tape(tensor)
        self.version = 0 if self.tensor is None else self.tensor._version
        self.rejoin = rejoin
        self.origin = ""  # of a result: its number and its function
        self.hook: Callable[[], Tensor] | None = None
        if packer is not None and self.tensor is not None:
            self.edge = graph.get_gradient_edge(self.tensor) if self.tensor.requires_grad else None
            self.hook, self.tensor = packer(self.tensor), None

    def follow(self, result: Tensor, origin: str) -> None:
        """Hold the result that the caller gets for what ``forward`` returned: writes to it raise its version."""
        if self.hook is None:
            self.tensor, self.origin = off_tape(result), origin
            self.version = self.tensor._version

    def present(self) -> Tensor:
        """Return the tensor, for what is neither packed nor None."""
        assert self.tensor is not None
        return self.tensor

    def _of(self) -> str:
        """Return which result of which function the tensor is, for an error's text."""
        origin = self.origin
        if not origin and self.present().grad_fn is not None:
            edge = graph.get_gradient_edge(self.present())
            origin = f"{edge.output_nr} of {edge.node.name().removesuffix('0').replace('Backward', '')}"
        return f", which is output {origin}," if origin else ""

    def unpack(self) -> Tensor | None:
        if self.hook is not None:
            value = self.hook()
            if self.edge is not None:
                return _C._attach_history(value, self.edge.node._id, -1 - self.edge.output_nr)
            return value if self.rejoin is None or not _C.is_grad_enabled() else self.rejoin(value)
        if self.tensor is None:
            return None
        if self.tensor._version != self.version:
            raise SavedTensorModifiedError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{self.tensor.type()} {list(self.tensor.shape)}]{self._of()} is at version {self.tensor._version}; "
                f"expected version {self.version} instead. Hint: enable anomaly detection to find the operation that "
                f"failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
            )
        return self.tensor if self.rejoin is None or not _C.is_grad_enabled() else self.rejoin(self.tensor)


class _Call:
    """One call on the tape: collects the results' gradients and returns the inputs' gradients."""

    def __init__(self, cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> None:
        self.name = cls.__name__ + "Backward"
        self.rule = cls.backward
        self.ctx = ctx
        self.like = [(tuple(a.shape), a.dtype, a.device) if isinstance(a, Tensor) else None for a in args]
        # Shape, dtype and device of each result that is a tensor; the gradients of the walk in progress; what backward
        # returned for it.
        self.results: list[Any] = []
        self.grads: dict[int, Tensor] = {}
        self.answers: tuple[Any, ...] | None = None

    def tap(self, stems: dict[int, Tensor]) -> list[Tensor]:
        """Return a tap on each of the inputs that require gradients."""
        taps = []
        for i, stem in stems.items():
            tap = stem[...]
            tap.register_hook(functools.partial(self._on_tap, i))
            _C._add_hook(tap, functools.partial(self._before_tap, i), graph.BEFORE)
            taps.append(tap)
        return taps

    def join(self, i: int, values: Tensor, taps: list[Tensor]) -> Tensor:
        """Return result ``i`` as a function of the taps."""
        nothing = [tap.reshape(-1)[:0].sum().to(values.device, values.dtype) for tap in taps]
        chosen = _C.where(
            _C.ones((), dtype=_C.bool, device=values.device), off_tape(values), sum(nothing[1:], nothing[0])
        )
        chosen.register_hook(functools.partial(self._on_result, i))
        # A view, so that the user's hooks run before this one.
        return chosen[...]

    def _on_result(self, i: int, grad: Tensor) -> None:
        if not self.grads:
            walk = autograd.walks()[-1]
            walk.at_end.append(functools.partial(self._forget, walk.keeps))
        self.grads[i] = grad

    def _forget(self, keeps: bool, completed: bool) -> None:
        """Drop the gradients of one walk: recorded gradients would form a cycle with the tape. Drop the saved tensors
        too if the walk frees them.
        """
        self.grads, self.answers = {}, None
        if completed and not keeps:
            self.ctx._saved = None

    def _on_tap(self, i: int, grad: Tensor) -> Tensor | None:
        if self.answers is None:
            self.answers = self._run()
        answer = self.answers[i]
        return None if answer is None else self._fit(i, answer)

    def _before_tap(self, i: int, grads: tuple[Tensor | None, ...]) -> tuple[None] | None:
        """Leave the input without a gradient where ``backward`` returned None."""
        return (None,) if self.answers is not None and self.answers[i] is None else None

    def _run(self) -> tuple[Any, ...]:
        grads: list[Tensor | None] = []
        for i, like in enumerate(self.results):
            if i in self.grads or like is None or not self.ctx._materialize:
                grads.append(self.grads.get(i))
            else:
                shape, dtype, device = like
                grads.append(_C.zeros(shape, dtype=dtype, device=device))
        answers = self.rule(self.ctx, *grads)
        answers = answers if isinstance(answers, tuple) else (answers,)
        wanted = len(self.like)
        if len(answers) > wanted and all(answer is None for answer in answers[wanted:]):
            answers = answers[:wanted]
        if len(answers) != wanted:
            raise RuntimeError(
                f"function {self.name} returned an incorrect number of gradients (expected {wanted}, got "
                f"{len(answers)})"
            )
        return answers

    def _fit(self, i: int, answer: Any) -> Tensor:
        """Convert a returned gradient to the input's shape, dtype and device."""
        if not isinstance(answer, Tensor):
            raise TypeError(
                f"function {self.name} returned a gradient of type {type(answer).__name__} at index {i}, want a Tensor "
                f"or None"
            )
        shape, dtype, device = self.like[i]
        if tuple(answer.shape) != shape:
            lead = answer.dim() - len(shape)
            kept = answer.shape[max(lead, 0) :]
            if lead < 0 or any(have != want and want != 1 for have, want in zip(kept, shape, strict=True)):
                raise RuntimeError(
                    f"Function {self.name} returned an invalid gradient at index {i} - got {list(answer.shape)} but "
                    f"expected shape "
                    f"compatible with {list(shape)}"
                )
            summed = [d for d in range(answer.dim()) if d < lead or shape[d - lead] != answer.shape[d]]
            answer = answer.sum(summed, keepdim=True).reshape(shape)
        return answer.to(device, dtype)


class VmapInfo(NamedTuple):
    """What the ``vmap`` staticmethod of a :class:`Function` is told."""

    batch_size: int
    randomness: str


class Function:
    """Base class of differentiable functions: a subclass gives ``forward`` and ``backward``.

    ``forward(ctx, *args)`` returns a tensor or a tuple. Alternatively ``forward(*args)`` does, and ``setup_context(ctx,
    inputs, output)`` runs after it. ``backward(ctx, *grad_outputs)`` returns a gradient, or None, for each argument of
    ``forward``; for results that are no tensors it gets None. Call it by ``apply``.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what ``backward`` needs, where ``forward`` does not take ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of ``forward``."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: Any) -> Any:
        """Return the tangent of each result of ``forward``."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    #: Whether ``vmap`` maps ``forward`` and ``backward`` as any other function.
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: VmapInfo, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Compute the results of a batch; return them and their batch dims. Arguments have the batch at ``in_dims``."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def _mapped(cls, args: tuple[Any, ...]) -> Any:
        """Return the results of a call on mapped tensors by the subclass's own rule for ``vmap``."""
        level, size, randomness = levels()[-1]
        flags: list[int | None] = []

        def lowered(t: Tensor) -> Tensor:
            flags.append(0 if is_mapped(t, level, size) else None)
            return t if flags[-1] is None else _C._vmap_out(t, 0, level, size)

        given = replaced(args, Tensor, lowered)
        left = iter(flags)
        in_dims = each(args, lambda a: next(left) if isinstance(a, Tensor) else None)
        with outside():
            found: Any = cls.vmap(VmapInfo(size, randomness), in_dims, *given)
        if not isinstance(found, tuple) or len(found) != 2:
            what = f"{len(found)} returns" if isinstance(found, tuple) else f"a {type(found)}"
            raise RuntimeError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
                f"compatible with the output. Got {what} instead"
            )
        output, dims = found
        if not fits(output, dims):
            raise RuntimeError(
                f"The autograd.Function {cls.__name__}'s vmap staticmethod returned an incompatible (output, out_dims) "
                f"tuple. Expected out_dims={dims} to be compatible with the structure of `output`. For more details, "
                f"please see {_NOTES}"
            )
        return mapped_by(output, dims, level)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "vjp" in cls.__dict__:
            cls.backward = cls.vjp

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function and record the call."""
        if cls.setup_context is not Function.setup_context:
            args = _with_defaults(cls.forward, args, kwargs)
        elif kwargs:
            args = _with_defaults(functools.partial(cls.forward, None), args, kwargs)
        level, tangents = forward.tangents_of(args)
        return cls._pushed(args, tangents, level) if level else cls._recorded(args)[0]

    @classmethod
    def _pushed(cls, args: tuple[Any, ...], tangents: list[Tensor | None], level: int) -> Any:
        """Return the results of a call with tangents at a level: the call below the level, and its ``jvp``."""
        with forward.below(level):
            lower, below = forward.tangents_of(args)
            if lower or cls.setup_context is not Function.setup_context:
                output, ctx = cls._pushed(args, below, lower) if lower else cls._recorded(args)[0], FunctionCtx()
                if cls.setup_context is Function.setup_context:
                    with no_grad():
                        cls.forward(ctx, *args)
                else:
                    cls._set_up(ctx, args, output)
            else:
                output, ctx = cls._recorded(args)
            given = [
                _C.zeros_like(a, requires_grad=False)
                if t is None and ctx._materialize and isinstance(a, Tensor) and _has_gradients(a)
                else t
                for a, t in zip(args, tangents, strict=True)
            ]
            ctx._pushing = True
            try:
                found = cls.jvp(ctx, *given)
            finally:
                ctx._pushing = False
        many = isinstance(output, (tuple, list))
        outputs = list(output) if many else [output]
        slopes = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(slopes) != len(outputs):
            raise RuntimeError(
                f"{cls.__name__}.jvp: expected a tangent for each of {len(outputs)} results, got {len(slopes)}"
            )
        given_ids = {id(a) for a in args}
        for i, (out, t) in enumerate(zip(outputs, slopes, strict=True)):
            if t is None or not isinstance(out, Tensor) or not _has_gradients(out):
                continue
            pair = forward.dual(forward.primal(out, level) if id(out) in given_ids else out, t, level)
            outputs[i] = out.copy_(pair) if id(out) in ctx._changed else pair
        return tuple(outputs) if many else outputs[0]

    @classmethod
    def _maps(cls, args: tuple[Any, ...]) -> bool:
        """Return whether a call in ``vmap`` has mapped arguments for the subclass's own rule."""
        level, size, _ = levels()[-1]
        if not any(is_mapped(t, level, size) for t in tensors_in(args)):
            return False
        own = cls.vmap is not Function.vmap
        if own == cls.generate_vmap_rule:
            if own:
                has = "it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please set "
                has += "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity"
            else:
                has = "it does not have vmap support. Please override and implement the vmap staticmethod or set "
                has += "generate_vmap_rule=True"
                if cls.setup_context is Function.setup_context:
                    raise RuntimeError(
                        "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
                        f"...), it must override the setup_context staticmethod. For more details, please see {_NOTES}"
                    )
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but {has}. For more details, please see {_NOTES}"
            )
        return own

    @classmethod
    def _set_up(cls, ctx: FunctionCtx, args: tuple[Any, ...], output: Any) -> None:
        """Call ``setup_context``; it may not save an argument that is a result too, as it was."""
        cls.setup_context(ctx, args, output)
        ctx._changed = {id(t) for t in ctx._dirty}
        results = output if isinstance(output, (tuple, list)) else (output,)
        both = {id(t) for t in args if isinstance(t, Tensor)} & {id(t) for t in results} - ctx._changed
        if both and any(id(t) in both for t in (*ctx._to_save, *(ctx._for_forward or ()))):
            raise RuntimeError(
                "A input that has been returned as-is as output is being saved for backward. This is not supported if "
                "you override setup_context. You should return and save a view of the input instead, e.g. with "
                "x.view_as(x) or setup ctx inside the forward function itself."
            )

    @classmethod
    def _recorded(cls, args: tuple[Any, ...]) -> tuple[Any, FunctionCtx]:
        """Call the function and record the call; return its results and its context."""
        if levels() and cls._maps(args):
            return cls._mapped(args), FunctionCtx()
        ctx = FunctionCtx()
        recording = _C.is_grad_enabled()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        call = _Call(cls, ctx, args)
        record = recording and any(ctx.needs_input_grad)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args)
                cls._set_up(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        ctx._changed = {id(t) for t in ctx._dirty}
        if not record:
            return output, ctx
        many = isinstance(output, (tuple, list))
        outputs = list(output) if many else [output]
        packer = _C._set_packer(None)  # the operations of the join are internal: the user's hooks do not see them
        _C._function_scope(call.name)
        try:
            joined = cls._join(call, outputs, args, packer)
        finally:
            _C._function_scope(None)
            _C._set_packer(packer)
        return (tuple(joined) if many else joined[0]), ctx

    @staticmethod
    def _join(
        call: _Call, outputs: list[Any], args: tuple[Any, ...], packer: Callable[[Tensor], Any] | None
    ) -> list[Any]:
        """Put the results on the tape and the saved tensors into the context."""
        ctx = call.ctx
        constant = {id(t) for t in ctx._non_differentiable}
        dirty = {id(t) for t in ctx._dirty}
        for t in ctx._dirty:
            if t.is_leaf and t.requires_grad:
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        call.results = [
            (tuple(out.shape), out.dtype, out.device) if isinstance(out, Tensor) else None for out in outputs
        ]
        place = {id(out): i for i, out in enumerate(outputs) if isinstance(out, Tensor)}
        given = {id(a) for a in args}
        with enable_grad():
            # Writing to a changed input puts it and its views on the tape; its copies stay off the tape.
            needed = [i for i, n in enumerate(ctx.needs_input_grad) if n]
            stems = {i: args[i].clone() if id(args[i]) in dirty else args[i][...] for i in needed}
            if levels():  # the gradients of an input that is equal in the batch differ in it, and are summed
                stems = {i: spread(stem, (*args, *outputs)) for i, stem in stems.items()}
            taps = call.tap(stems)
            versioned = {i: (stem, stem._version) for i, stem in stems.items()}
            saved = []
            for t in ctx._to_save:
                i = place.get(id(t)) if id(t) not in given or id(t) in dirty else None
                differentiable = i is not None and id(t) not in constant and _has_gradients(t)
                saved.append(
                    SavedValue(
                        t,
                        functools.partial(_rejoin, weakref.ref(call), i, versioned) if differentiable else None,
                        packer,
                    )
                )
            joined = []
            for i, out in enumerate(outputs):
                if not isinstance(out, Tensor) or id(out) in constant or not _has_gradients(out):
                    joined.append(out)
                elif id(out) in dirty:
                    joined.append(out.copy_(call.join(i, out.clone(), taps)))
                else:
                    joined.append(call.join(i, out, taps))
        for s, t in zip(saved, ctx._to_save, strict=True):
            if t is not None and id(t) in dirty:
                s.version = t._version
            elif s.rejoin is not None:
                s.follow(joined[place[id(t)]], f"{place[id(t)]} of {call.name.removesuffix('Backward')}")
        ctx._saved, ctx._to_save, ctx._dirty, ctx._non_differentiable = tuple(saved), (), (), ()
        return joined


def _with_defaults(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call in their order, with the defaults of those left out."""
    import inspect  # slow to import

    signature = inspect.signature(forward)
    for name in kwargs:
        kind = signature.parameters[name].kind if name in signature.parameters else None
        if kind is inspect.Parameter.KEYWORD_ONLY and isinstance(kwargs[name], Tensor):
            kind_of_error = NotImplementedError if levels() else TypeError
            raise kind_of_error(
                "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only Tensors to "
                f"autograd.Function. Got: {name}"
            )
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _rejoin(ref: weakref.ref[_Call], i: int, stems: dict[int, tuple[Tensor, int]], values: Tensor) -> Tensor:
    """Join a saved result to the tape as the result of a new call, so that it can be differentiated again."""
    call = ref()  # alive, because its hook is running backward; a strong reference would be a cycle
    if call is None:
        return values
    if any(stem._version != version for stem, version in stems.values()):
        raise SavedTensorModifiedError(
            "a saved result cannot be differentiated again: an input was modified by an inplace operation after the "
            "call"
        )
    again = _Call.__new__(_Call)
    again.__dict__.update(call.__dict__, grads={}, answers=None)
    return again.join(i, values, again.tap({k: stem for k, (stem, _) in stems.items()}))


class _DifferentiatedOnce(Function):
    """Pass gradients on; their own gradients raise."""

    @staticmethod
    def forward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor, ...]:
        return tuple(g.clone() for g in grads)

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def _has_gradients(t: Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` whose gradients have no gradients: differentiating it raises."""

    @functools.wraps(fn)
    def wrapper(ctx: FunctionCtx, *args: Any) -> Any:
        with no_grad():
            result = fn(ctx, *args)
        if not _C.is_grad_enabled() or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return result
        results = list(result) if isinstance(result, tuple) else [result]
        where = [i for i, r in enumerate(results) if isinstance(r, Tensor)]
        marked = _DifferentiatedOnce.apply(*(off_tape(results[i]).requires_grad_() for i in where))
        for i, r in zip(where, marked, strict=True):
            results[i] = r
        return tuple(results) if isinstance(result, tuple) else results[0]

    return wrapper
