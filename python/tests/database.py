"""PyTorch's operator database over two libraries: its samples are converted, run on both sides and compared.

An entry of the database (``OpInfo``) has a PyTorch callable, its method and in-place forms, aliases, dtypes,
and samples: tensors and arguments of one call. ``counterpart`` finds our callable of the same name, or
rewrites a wrapper of theirs to look names up in ours; ``convert`` maps a sample to our tensors.
"""

from __future__ import annotations

import functools
import re
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import oracle
import torch
from oracle import tensors
from torch.testing._internal.common_methods_invocations import op_db

import torchlette
import torchlette.torch as facade
from torchlette._import.aten import find_name

#: The seed before each call that may draw.
SEED = 20260101
Sample = Any
OpInfo = Any


def entries(names: frozenset[str]) -> list[OpInfo]:
    """Return the database's entries of those names, each overload once."""
    return sorted((op for op in op_db if op.name in names), key=label)


def label(op: OpInfo) -> str:
    """Return the entry's name with its variant, such as ``std_mean.unbiased``."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


# Conversion ------------------------------------------------------------------------------


def _raw(t: torch.Tensor) -> torchlette.Tensor:
    """Return our tensor of the values of a contiguous CPU tensor."""
    if t.dtype is torch.bfloat16:
        return torchlette.tensor(t.float().numpy()).to(torchlette.bfloat16)
    return torchlette.tensor(t.numpy().copy())


def tensor(t: torch.Tensor, device: str = "cpu") -> torchlette.Tensor:
    """Return our tensor of the same values, strides, storage contents and ``requires_grad``; storage is not shared.

    Tensors of float64 live on the CPU (docs/coming-from-pytorch.md).
    """
    device = "cpu" if t.dtype is torch.float64 else device
    d = t.detach().resolve_conj().resolve_neg()
    if t.is_conj() or t.is_neg():
        d = d.contiguous()
    storage = d.untyped_storage().nbytes() // d.element_size()
    if d.numel() == 0 or (d.is_contiguous() and storage == d.numel()):
        out = _raw(d.contiguous()).to(device)
        if out.stride() != tuple(d.stride()) and d.numel() == 0:
            out = torchlette.empty(tuple(d.shape), dtype=out.dtype, device=device)
    else:
        out = (
            _raw(d.as_strided((storage,), (1,), 0))
            .to(device)
            .as_strided(tuple(d.shape), tuple(d.stride()), d.storage_offset())
        )
    return out.requires_grad_() if t.requires_grad else out


@dataclass
class Converter:
    """Maps the arguments of a sample to our library; a tensor that occurs twice becomes one tensor."""

    device: str
    seen: dict[int, torchlette.Tensor] = field(default_factory=dict)
    leaves: list[tuple[torch.Tensor, torchlette.Tensor]] = field(default_factory=list)

    def __call__(self, x: Any) -> Any:
        """Convert an argument and its contents."""
        if isinstance(x, torch.Tensor):
            if id(x) not in self.seen:
                self.seen[id(x)] = tensor(x, self.device)
                if x.requires_grad:
                    self.leaves.append((x, self.seen[id(x)]))
            return self.seen[id(x)]
        if isinstance(x, torch.dtype):
            return getattr(torchlette, oracle.dtype_name(x))
        if isinstance(x, torch.device):
            return torchlette.device(self.device)
        if isinstance(x, torch.memory_format):
            return getattr(facade, str(x).removeprefix("torch."))
        if isinstance(x, torch.layout):
            return getattr(facade, str(x).removeprefix("torch."))
        if isinstance(x, torch.Size):
            return torchlette.Size(x)
        if isinstance(x, slice):
            return slice(self(x.start), self(x.stop), self(x.step))
        if type(x) in (list, tuple):
            return type(x)(self(v) for v in x)
        if isinstance(x, dict):
            return {k: self(v) for k, v in x.items()}
        if isinstance(x, (types.FunctionType, types.BuiltinFunctionType)):
            return _mapped(x)
        if isinstance(x, torch.nn.PairwiseDistance):
            return facade.nn.PairwiseDistance(x.norm, x.eps, x.keepdim)
        return x


# Callables -------------------------------------------------------------------------------


def lookup(name: str) -> Callable[..., Any] | None:
    """Return our callable of that name: a function of the library or of a sub-module, or a method."""
    found: Any = facade
    for part in name.removeprefix("torch.").split("."):
        found = getattr(found, part, None)
        if found is None:
            break
    if not callable(found) and "." not in name:  # torch.cfloat is a dtype, and a method
        found = getattr(torchlette.Tensor, name, None)
    if not callable(found):
        found = find_name(*name.removeprefix("torch.ops.").removeprefix("aten.").split(".")[:2])
    return found if callable(found) else None


def rewritten(f: types.FunctionType) -> Callable[..., Any]:
    """Return ``f`` with ``torch`` meaning our library."""
    scope = dict(f.__globals__)
    scope["torch"] = facade
    cells = tuple(types.CellType(_mapped(c.cell_contents)) for c in f.__closure__ or ())
    defaults = tuple(_mapped(d) for d in f.__defaults__ or ())
    copy = types.FunctionType(f.__code__, scope, f.__name__, defaults, cells)
    copy.__kwdefaults__ = {k: _mapped(v) for k, v in (f.__kwdefaults__ or {}).items()}
    return copy


def _mapped(x: Any) -> Any:
    """Return our counterpart of what a wrapper holds: a function of ``torch``, a dtype, anything else itself."""
    if isinstance(x, torch.dtype):
        return getattr(torchlette, oracle.dtype_name(x))
    if isinstance(x, types.FunctionType) and not x.__module__.startswith("torch.testing"):
        name = x.__module__.removeprefix("torch.").removeprefix("torch") + "." + x.__name__
        return lookup(name.strip(".")) or x
    if isinstance(x, types.FunctionType):
        return rewritten(x)
    if isinstance(x, types.BuiltinFunctionType):
        return lookup(x.__name__) or lookup(f"nn.functional.{x.__name__}") or x
    if isinstance(x, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return getattr(torchlette.Tensor, x.__name__, x)
    return x


def counterpart(op: OpInfo, form: str = "function") -> Callable[..., Any]:
    """Return our callable of an entry in one of its forms: function, method, in place, operator or an alias's name."""
    if form == "method":
        return _named_method(op.method_variant, op.name)
    if form == "inplace":
        return _named_method(op.inplace_variant, op.name + "_")
    if form != "function":
        return _needed(form)
    if isinstance(op.op, types.FunctionType) and op.op.__module__.startswith("torch.testing"):
        return rewritten(op.op)
    return lookup(op.name) or _needed(getattr(op.op, "__name__", op.name))  # _segment_reduce is torch.segment_reduce


def _named_method(theirs: Any, name: str) -> Callable[..., Any]:
    if isinstance(theirs, types.FunctionType) and theirs.__module__.startswith("torch.testing"):
        return rewritten(theirs)
    if isinstance(theirs, functools.partial):  # of a function of nn.functional, with inplace=True
        return functools.partial(_mapped(theirs.func), *theirs.args, **theirs.keywords)
    name = getattr(theirs, "__name__", name)
    found = getattr(torchlette.Tensor, name, None)
    if found is None:
        raise AttributeError(f"Tensor has no method {name}")
    return found


def _needed(name: str) -> Callable[..., Any]:
    found = lookup(name)
    if found is None:
        raise AttributeError(f"no {name}")
    return found


def forms(op: OpInfo) -> list[str]:
    """Return the forms of an entry: function, method, in place, ``out=`` and its aliases."""
    out = ["function"]
    if op.method_variant is not None and op.method_variant is not op.op:
        out.append("method")
    if op.inplace_variant is not None:
        out.append("inplace")
    if op.supports_out:
        out.append("out")
    return out + [a.name for a in op.aliases]


# Runs ------------------------------------------------------------------------------------


def samples(op: OpInfo, dtype: torch.dtype, *, grad: bool, limit: int, strided: bool = False) -> Iterator[Sample]:
    """Yield at most ``limit`` samples, spread evenly over all that the entry has.

    With ``strided`` every tensor of two elements or more has gaps between its elements.
    """
    torch.manual_seed(SEED)
    np.random.seed(0)
    drawn = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    step = max(1, -(-len(drawn) // limit))
    for sample in drawn[::step]:
        yield sample.noncontiguous() if strided else sample


def call(f: Callable[..., Any], sample: Sample, convert: Callable[[Any], Any], form: str) -> Any:
    """Call ``f`` on a sample that ``convert`` maps, in the given form."""
    first, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(dict(sample.kwargs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form == "inplace":
            first = first.clone()
            f(first, *args, **kwargs)
            return first
        return f(first, *args, **kwargs)


def theirs_of(op: OpInfo, form: str) -> Callable[..., Any]:
    """Return PyTorch's callable of an entry in a form."""
    if form == "method":
        return op.method_variant
    if form == "inplace":
        return op.inplace_variant
    for alias in op.aliases:
        if alias.name == form:
            return alias.op
    return op.op


def forward(op: OpInfo, sample: Sample, device: str, form: str, *, values: bool = True) -> None:
    """Assert that a call of ours gives PyTorch's result: structure, shape, dtype and, unless it draws, values."""
    torch.manual_seed(SEED)
    want = call(theirs_of(op, form), sample, lambda x: x, form)
    convert = Converter(device)
    got = call(counterpart(op, form), sample, convert, form)
    if not values:
        for g, w in zip(tensors(got), tensors(want), strict=True):
            oracle.same_kind(g, w)
        return
    close(op, got, want, lambda widen: call(theirs_of(op, form), sample, widen, form))
    if form == "inplace":
        return
    if form == "function" and op.supports_out and isinstance(want, torch.Tensor):
        _into_out(op, sample, device, want)


def _into_out(op: OpInfo, sample: Sample, device: str, want: torch.Tensor) -> None:
    if want.requires_grad:
        return
    try:
        call(lambda *a, **k: op.op(*a, **k, out=torch.empty_like(want)), sample, lambda x: x, "out")
    except (RuntimeError, TypeError):
        return  # PyTorch refuses out= for this overload
    convert = Converter(device)
    out = torchlette.empty(tuple(want.shape), dtype=convert(want.dtype), device=device)
    f = counterpart(op)
    call(lambda *a, **k: f(*a, **k, out=out), sample, convert, "out")
    close(op, out, want, lambda widen: call(op.op, sample, widen, "out"))


def determined(op: OpInfo, result: Any) -> Any:
    """Return the determined part of a result. Singular vectors and eigenvectors have free signs: compare absolute
    values, as PyTorch's tests do.

    Vectors that complete a basis are free as a whole, and left out.
    """
    if op.name == "linalg.eigh":
        return result[0], result[1].abs()
    if op.name == "linalg.eig":
        values, vectors = result
        order = _order(values)
        return values.gather(-1, order), vectors.abs().gather(-1, order.unsqueeze(-2).expand(vectors.shape))
    if op.name in ("pca_lowrank", "svd_lowrank"):
        return result[0].abs(), result[1], result[2].abs()
    if op.name == "linalg.eigvals":  # their order is free
        return result.gather(-1, _order(result))
    if op.name in ("linalg.svd", "svd"):
        u, s, v = result
        k = s.shape[-1]
        v = v[..., :k, :] if op.name == "linalg.svd" else v[..., :k]
        return u[..., :k].abs(), s, v.abs()
    return result


def _order(values: Any) -> Any:
    """Return the places of complex numbers in an order that rounding does not change."""
    lib = torch if isinstance(values, torch.Tensor) else facade
    key = np.round(np.array(values.detach().resolve_conj().tolist(), complex), 3)
    return lib.tensor(np.argsort(key.reshape(tuple(values.shape)), -1, kind="stable"))


def close(op: OpInfo, got: Any, want: Any, exact: Callable[[oracle.Widener], Any]) -> None:
    """Assert that the determined parts of results are equal by the rule of :func:`oracle.assert_near`."""

    def reseeded(widen: oracle.Widener) -> Any:
        torch.manual_seed(SEED)
        return determined(op, exact(widen))

    oracle.assert_near(determined(op, got), determined(op, want), reseeded)


def gradient(op: OpInfo, sample: Sample, device: str, form: str = "function") -> bool:
    """Assert that every leaf's gradient is PyTorch's; return whether PyTorch gave one to compare."""
    torch.manual_seed(SEED)
    try:
        result = call(theirs_of(op, form), sample, lambda x: x, form)
    except RuntimeError:  # PyTorch refuses it, as a strided leaf of as_strided_scatter
        return False
    want = tensors(determined(op, _outputs(op, sample, result)))
    roots = [i for i, t in enumerate(want) if t.requires_grad]
    if not roots:
        return False
    convert = Converter(device)
    got = tensors(determined(op, _outputs(op, sample, call(counterpart(op, form), sample, convert, form))))
    for g, w in zip(got, want, strict=True):
        assert g.requires_grad == w.requires_grad, f"requires_grad is {g.requires_grad}, want {w.requires_grad}"
    generator = torch.Generator().manual_seed(SEED)
    cotangents = [torch.rand(want[i].shape, dtype=want[i].dtype, generator=generator) + 0.5 for i in roots]
    leaves = convert.leaves
    try:
        theirs = torch.autograd.grad([want[i] for i in roots], [a for a, _ in leaves], cotangents, allow_unused=True)
    except RuntimeError:
        return False
    seeds = [tensor(c, str(got[i].device)) for i, c in zip(roots, cotangents, strict=True)]
    ours = facade.autograd.grad([got[i] for i in roots], [b for _, b in leaves], seeds, allow_unused=True)
    for n, (g, w) in enumerate(zip(ours, theirs, strict=True)):
        assert (g is None) == (w is None), f"gradient {n} is {'none' if g is None else 'given'}, want the other"
    given = [i for i, w in enumerate(theirs) if w is not None]

    def exact(widen: oracle.Widener) -> list[torch.Tensor]:
        torch.manual_seed(SEED)
        results = tensors(determined(op, _outputs(op, sample, call(theirs_of(op, form), sample, widen, form))))
        chosen = [widen.of(leaves[i][0]) for i in given]
        return list(torch.autograd.grad([results[i] for i in roots], chosen, [oracle.widened(c) for c in cotangents]))

    oracle.assert_near([ours[i] for i in given], [theirs[i] for i in given], exact)
    return True


def second_gradient(op: OpInfo, sample: Sample, device: str) -> bool:
    """Assert that gradients of the first gradients, by leaves and cotangents, are PyTorch's; return whether there are.

    An absent gradient counts as zeros.
    """
    torch.manual_seed(SEED)
    want = tensors(determined(op, _outputs(op, sample, call(op.op, sample, lambda x: x, "function"))))
    roots = [i for i, t in enumerate(want) if t.requires_grad]
    convert = Converter(device)
    got = tensors(determined(op, _outputs(op, sample, call(counterpart(op), sample, convert, "function"))))
    generator = torch.Generator().manual_seed(SEED)

    def cotangent(t: torch.Tensor) -> torch.Tensor:
        return torch.rand(t.shape, dtype=t.dtype, generator=generator) + 0.5

    cotangents = [cotangent(want[i]).requires_grad_() for i in roots]
    seeds = [tensor(c, device) for c in cotangents]
    theirs = [a for a, _ in convert.leaves], cotangents
    ours = [b for _, b in convert.leaves], seeds
    if not roots:
        return False
    options = {"allow_unused": True, "create_graph": True}
    first = torch.autograd.grad([want[i] for i in roots], *theirs, **options)
    mine = facade.autograd.grad([got[i] for i in roots], *ours, **options)
    places = [i for i, t in enumerate(first) if t is not None and t.requires_grad]
    if not places:
        return False
    weights = [cotangent(first[i]) for i in places]
    second = torch.autograd.grad([first[i] for i in places], sum(theirs, []), weights, allow_unused=True)
    if any(not mine[i].requires_grad for i in places):  # of no elements, or constant
        assert not any(t is not None and t.any() for t in second), "the first gradient has no history"
        return True
    made = facade.autograd.grad(
        [mine[i] for i in places], sum(ours, []), [tensor(w, device) for w in weights], allow_unused=True
    )
    for n, (g, w) in enumerate(zip(made, second, strict=True)):
        wanted = torch.zeros_like(sum(theirs, [])[n]) if w is None else w
        oracle.assert_equal(
            tensor(torch.zeros_like(wanted), device) if g is None else g, wanted, f"second gradient {n}"
        )
    return True


def _outputs(op: OpInfo, sample: Sample, result: Any) -> Any:
    """Return what the entry calls the differentiable results."""
    process = getattr(sample, "output_process_fn_grad", None)
    if process is None or isinstance(result, tuple):
        return result
    return process(result) if isinstance(result, torch.Tensor) and process.__name__ != "<lambda>" else result


# Bad calls -------------------------------------------------------------------------------

CLASSES = (NotImplementedError, IndexError, TypeError, ValueError, RuntimeError, AttributeError)


@dataclass
class Outcome:
    """The outcome of one bad call."""

    place: str
    want: BaseException
    got: BaseException | None
    text_matches: bool = False

    @property
    def right(self) -> bool:
        """Whether our class is PyTorch's, or derives from it."""
        kind = next(c for c in CLASSES if isinstance(self.want, c))
        return isinstance(self.got, kind)


def bad_call(op: OpInfo, error_input: Any, number: int = 0) -> Outcome | None:
    """Make a bad call in both libraries; None when PyTorch takes it after all."""
    sample = error_input.sample_input
    try:
        call(op.op, sample, lambda x: x, "function")
    except CLASSES as error:
        want = error
    else:
        return None
    outcome = Outcome(f"{label(op)} {number}", want, None)
    try:
        for result in tensors(call(counterpart(op), sample, Converter("cpu"), "function")):
            result.tolist()
    except Exception as error:
        outcome.got = error
        pattern = error_input.error_regex
        outcome.text_matches = bool(pattern) and re.search(pattern, str(error)) is not None
    return outcome
