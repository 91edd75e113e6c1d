"""Compiled functions, and PyTorch's switches of compilation.

The engine plans and fuses all recorded work, inside and outside of compiled functions. :func:`compile` adds what may
change the last bit of a value, and checks that no value is read. Code that is not listed here needs no switch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.captured import CapturingContext, forget_all
from torchlette._runtime.errors import InvalidBackend, NotSupportedError
from torchlette._runtime.exports import is_exporting
from torchlette._runtime.nested import replaced
from torchlette._runtime.regions import Context, Stance, is_compiling, outside

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "nonstrict_trace",
    "reset",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")

# By backend: whether a region may change bits. PyTorch's other backends run a graph's operators as they are.
_BACKENDS = {
    "inductor": True,
    "cudagraphs": False,
    "eager": False,
    "eager_debug": False,
    "eager_noexcept": False,
    "aot_eager": False,
    "aot_eager_decomp_partition": False,
    "aot_eager_default_partitioner": False,
}
_DEBUGGING = ("eager", "aot_eager")

# The options that PyTorch documents, each with its type.
_OPTIONS: dict[str, type] = {
    "emulate_precision_casts": bool,
    "epilogue_fusion": bool,
    "fallback_random": bool,
    "max_autotune": bool,
    "max_autotune_gemm": bool,
    "max_autotune_pointwise": bool,
    "shape_padding": bool,
    "coordinate_descent_tuning": bool,
    "trace.enabled": bool,
    "trace.graph_diagram": bool,
    "triton.cudagraphs": bool,
    "guard_filter_fn": object,
}


class _Default:
    """The backend of functions that name none."""

    backend: Any = "inductor"


def _checked_options(options: dict[str, Any]) -> dict[str, Any]:
    for key, value in options.items():
        kind = _OPTIONS.get(key.replace("-", "_"))
        if kind is None:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {list(_OPTIONS)}")
        if not isinstance(value, kind):
            raise RuntimeError(f"Unexpected type of attr {key}, got {type(value).__name__} should be {kind.__name__}")
    return {key.replace("-", "_"): value for key, value in options.items()}


def _marks(backend: Any) -> bool:
    """Return whether ``backend`` may change bits; raise for one that does not exist."""
    if callable(backend):
        raise NotSupportedError(
            "compile: a backend of your own is called with an fx graph, which does not exist here: name one of "
            f"{list(_BACKENDS)}"
        )
    if backend not in _BACKENDS:
        raise InvalidBackend(
            f"Invalid backend: {backend!r}. See `torch._dynamo.list_backends()` for available backends."
        )
    return _BACKENDS[backend]


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    dynamic_shapes: Any = None,
    reuse_trace: bool = False,
) -> Any:
    """Mark what a function or module records as a compiled region, on every call.

    Python code runs on every call, so control flow, closures and changed attributes keep their meaning. In a region

    * values of float16 and bfloat16 that one kernel makes and uses are not rounded in between, as in PyTorch;
    * GPUs get fused kernels at the first run instead of the third.

    Outside of regions the engine fuses too, but keeps every bit.

    A read of a value (``item()``, ``tolist()``, ``if tensor:``, ``nonzero()``) in a compiled function is an error where
    ``fullgraph`` is set, and for code written for ``torchlette``. For code that imports ``torchlette.torch`` it is a
    graph break, as in PyTorch: the read works, and what comes before it runs at once.

    Args:
        model: The function, module or class with ``__call__``. A module's result is a module with the original under
            ``_orig_mod``. Without it the result is a decorator.
        fullgraph: Whether a read raises :class:`torchlette.HostReadInCompileError`, PyTorch's ``Unsupported``.
        dynamic: Accepted. Each new shape costs a plan, not a compiler run, whatever it says.
        backend: "inductor", or a name under which PyTorch runs operators as they are ("eager", "aot_eager",
            "cudagraphs" and others): then no value changes, and only reads are checked.
        mode: One of PyTorch's modes, or None. All do the same: plans are always replayed, products always tuned.
        options: PyTorch's documented options; not with ``mode``. ``emulate_precision_casts=True`` keeps every bit.
        name: Accepted; regions have no names.
        disable: Whether ``model`` is returned as it is.
        recompile_limit: With ``reuse_trace`` the number of programs that the function may have; calls of further
            signatures run the function. The default is ``torch._dynamo.config.recompile_limit``, 8. Without it nothing
            is limited.
        isolate_recompiles: Accepted; nothing is shared that could be isolated.
        dynamic_shapes: Accepted, as ``dynamic``.
        reuse_trace: Whether the function is captured, and called again without running Python; see
            :func:`torchlette.jit`. A read is then always an error.

    Raises:
        InvalidBackend: No such backend.
        NotSupportedError: The backend is a function.
        AsyncInCompileError: The function is a coroutine function, in code written for ``torchlette``.
        RuntimeError: No such mode or option, or both a mode and options.
    """
    strict = not _C._called_from_facade()
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    config = _checked_options(options or {})
    mark = _marks(backend if backend is not None else _Default.backend) and not config.get("emulate_precision_casts")
    kind = CapturingContext if reuse_trace else Context
    context = kind(mark, fullgraph or strict, strict, config)
    if isinstance(context, CapturingContext):
        context.limit = recompile_limit

    def decorate(model: Any) -> Any:
        if model is None:
            raise RuntimeError("Model can't be None")
        return model if disable else context(model)

    return decorate if model is None else decorate(model)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function that runs outside of compiled regions, or a decorator.

    Args:
        fn: A function, module or class. A class is changed in place.
        recursive: Whether the functions that ``fn`` calls run outside too. If not, ``fn`` is returned as it is, for
            the operators of one frame cannot be told from those of the functions that it calls.
        reason: What an error says if a function that was compiled with ``fullgraph=True`` calls ``fn``.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not recursive:
        return fn
    from torchlette._compat.optimized_module import OptimizedModule
    from torchlette.nn.modules.module import Module

    why = reason or "it may read values"
    if isinstance(fn, Module):
        return OptimizedModule(fn, _Outside(why))
    if isinstance(fn, type):
        for method in ("__init__", "__call__"):
            if hasattr(fn, method):
                setattr(fn, method, outside(getattr(fn, method), why))
        return fn
    assert callable(fn), f"A callable function is expected, but {type(fn)} is provided."
    return outside(fn, why)


class _Outside(Context):
    """The context of a module under :func:`disable`."""

    def __init__(self, why: str) -> None:
        """Keep the reason."""
        super().__init__(False, False, False, {})
        self.why = why

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls ``fn`` outside of all regions."""
        return outside(fn, self.why)


class set_stance:
    """Choose for all compiled functions: at once, as a context manager, or as a decorator.

    ``"force_eager"`` calls them as they are. The other stances of PyTorch say when to compile again, which never
    happens here: they mean ``"default"``.
    """

    _NAMES = (
        "default",
        "eager_then_compile",
        "aot_eager_then_compile",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
    )

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        """Choose at once."""
        if stance not in self._NAMES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self._eager = stance == "force_eager" or force_backend in _DEBUGGING
        self._before = Stance.choose(self._eager)

    def __enter__(self) -> None:
        Stance.choose(self._eager)

    def __exit__(self, *exc: object) -> None:
        Stance.choose(self._before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``fn`` under this stance; the stance outside of its calls is what it was before."""
        Stance.choose(self._before)

        @functools.wraps(fn)
        def staged(*args: Any, **kwargs: Any) -> Any:
            before = Stance.choose(self._eager)
            try:
                return fn(*args, **kwargs)
            finally:
                Stance.choose(before)

        return staged


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Choose the backend of functions that name none; None stands for "inductor"."""
    if backend is not None:
        _marks(backend)
    _Default.backend = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    """Return the backend of functions that name none."""
    return _Default.backend


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Return the names of the backends; without ``exclude_tags`` also those for debugging."""
    return sorted(name for name in _BACKENDS if not exclude_tags or name in ("cudagraphs", "inductor"))


def allow_in_graph(fn: Any) -> Any:
    """Return ``fn`` as it is: any function may be called in a region."""
    return fn


assume_constant_result = nonstrict_trace = allow_in_graph


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """Return ``fn`` as it is, or a decorator that does: like nodes are lowered once by themselves."""
    return nested_compile_region if fn is None else fn


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[Any], Any]:
    """Return a decorator that returns its function as it is: the original is called."""
    return allow_in_graph


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that calls ``fn``, a function of NumPy arrays. It reads its arguments."""
    from numpy import ndarray

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = replaced((args, kwargs), _C.Tensor, lambda t: t.numpy())
        return replaced(fn(*args, **kwargs), ndarray, _C.from_numpy)

    return wrapped


def is_dynamo_compiling() -> bool:
    """Return whether the calling thread is in a compiled function."""
    return is_compiling()


def reset() -> None:
    """Forget all captured functions: the next call of each runs its Python code."""
    forget_all()


def cudagraph_mark_step_begin() -> None:
    """Do nothing: results are never overwritten by a later call."""
