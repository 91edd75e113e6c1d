"""Every operator of the registry against PyTorch: dtypes, layouts, forms, gradients and errors.

One test covers one operator on one device and reports every case that differs. The cases come
from the registry (``ops.json``, written by the operators' generator); ``exceptions.py`` lists what is not compared,
with reasons.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any
from zlib import crc32

import exceptions
import oracle
import processor
import pytest
import samples
import torch

import torchlette

OPS = [op for op in samples.load() if op.where]

#: float64 lives on the CPU only; on a software adapter each kernel text costs milliseconds, so fewer.
DTYPES = {
    "cpu": ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"),
    "wgpu": ("float32", "int64", "uint8", "bool"),
}
LAYOUTS = {"cpu": samples.LAYOUTS, "wgpu": ("contiguous", "transposed", "offset")}


class Cases:
    """Collects the failures of many cases and raises them as one."""

    def __init__(self, op: samples.Op, test: str, device: str = "cpu") -> None:
        self.op, self.test, self.device = op, test, device
        self.run = 0
        self.failures: list[str] = []
        self.excuses: dict[str, bool] = {}  # whether a case needed it

    def check(self, label: str, case: Callable[[], None]) -> None:
        """Run one case; record a failure under its label."""
        self.run += 1
        excuse = exceptions.excuse(self.op.full, f"{self.test} {label}")
        failure = ""
        try:
            case()
        except torchlette.PoisonedEngineError:
            torchlette.reset()
            raise
        except AssertionError as error:
            failure = str(error).strip()
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        if excuse:
            self.excuses[excuse] = self.excuses.get(excuse, False) or bool(failure)
        elif failure:
            self.failures.append(f"{label}: {failure}")

    def finish(self) -> None:
        """Raise the recorded failures."""
        assert self.run > 0, "no case ran"
        shown = "\n".join(self.failures[:12])
        assert not self.failures, f"{len(self.failures)} of {self.run} cases differ:\n{shown}"
        processor.report_stale([e for e, needed in self.excuses.items() if not needed and self.device == "cpu"])


def tolerance(op: samples.Op) -> dict[str, float | None]:
    """Return the tolerances of the registry; None means ``assert_close``'s default."""
    return {"rtol": op.rtol, "atol": op.atol} if op.rtol is not None and op.atol is not None else {}


def attempt(f: Callable[..., Any], call: samples.Call) -> tuple[Any, Exception | None]:
    """Call ``f``; return its result, or its exception without the traceback, whose frames would hold the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*call.args, **call.kwargs), None
        except Exception as error:
            return None, error.with_traceback(None)


def form(lib: Any, op: samples.Op, suffix: str = "") -> Callable[..., Any]:
    """Return the first place of the operator in ``lib``."""
    for where in ("function", "functional", "method", *samples.SUBMODULES):
        f = samples.place(lib, op, where, suffix)
        if f is not None:
            return f
    if suffix and lib is torch:  # relu6_ and the like: PyTorch writes them inplace=True
        plain = form(lib, op)
        return lambda first, *args, **kwargs: first.copy_(plain(first, *args, **kwargs))
    raise AssertionError(f"{lib.__name__} has no {op.name}{suffix}")


def rehearse(
    use: Callable[[samples.Side], Any], call: samples.Call, device: str, dtype: str, seed: int, *, grad: bool
) -> None:
    """Call the operator twice on similar operands, so that the next call uses the cached trace."""
    if device != "cpu":
        return  # cached traces know no device
    for _ in range(2):
        with contextlib.suppress(Exception), warnings.catch_warnings():  # errors show in the compared call
            warnings.simplefilter("ignore")
            use(samples.concrete(call, device, dtype, seed, grad=grad)[0])


def compare(
    op: samples.Op, call: samples.Call, device: str, dtype: str, *, suffix: str = "", must: bool = False
) -> None:
    """Compare one call. Where PyTorch refuses the arguments ours must refuse them too, if ``must``."""
    seed = crc32(f"{op.full} {dtype}".encode())
    a, e = samples.concrete(call, device, dtype, seed, grad=False)
    want, refused = attempt(form(torch, op, suffix), e.call)
    if refused is not None and not must:
        return
    rehearse(
        lambda side: form(torchlette, op, suffix)(*side.call.args, **side.call.kwargs),
        call,
        device,
        dtype,
        seed,
        grad=False,
    )
    got, error = attempt(form(torchlette, op, suffix), a.call)
    if refused is not None:
        if error is None:  # a kernel's errors are raised by the read
            _, error = attempt(read, samples.Call((got,)))
        assert error is not None, f"PyTorch raises {type(refused).__name__}: {refused}; we return a result"
        assert isinstance(error, oracle.builtin_class(refused)), (
            f"got {type(error).__name__}: {error}; want {type(refused).__name__}: {refused}"
        )
        return
    if (
        device != "cpu" and wants_double(want) and not wants_double_here(got)
    ):  # lives on the CPU only; the refusal names the way out
        assert isinstance(error, TypeError) and "float32" in str(error), f"got {error!r}, want a refusal of float64"
        return
    if error is not None:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    if op.name in exceptions.VALUES:
        oracle.same_kind(got, want)
        return

    def exact(widen: oracle.Widener) -> Any:
        wide = samples.widened(call, dtype, seed, widen, grad=False).call
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return form(torch, op, suffix)(*wide.args, **wide.kwargs)

    oracle.assert_near(got, want, exact, **tolerance(op))
    if (suffix or op.in_place_only) and e.leaves:  # a write through a view must reach its base

        def base(widen: oracle.Widener) -> Any:
            wide = samples.widened(call, dtype, seed, widen, grad=False)
            form(torch, op, suffix)(*wide.call.args, **wide.call.kwargs)
            return wide.leaves[0]

        oracle.assert_near(a.leaves[0], e.leaves[0], base, "base", **tolerance(op))


def wants_double(result: Any) -> bool:
    """Whether PyTorch's result is float64, though no operand on a GPU can be."""
    return any(
        r.dtype in (torch.float64, torch.complex128)
        for r in (result if isinstance(result, (tuple, list)) else [result])
        if isinstance(r, torch.Tensor)
    )


def wants_double_here(result: Any) -> bool:
    """Whether ours is float64 on the CPU, the default device of results computed from numbers alone."""
    return isinstance(result, torchlette.Tensor) and result.dtype == torchlette.float64 and str(result.device) == "cpu"


def read(result: Any) -> None:
    """Force the results of a call."""
    for r in result if isinstance(result, (tuple, list)) else [result]:
        r.tolist()


def relaid(op: samples.Op, call: samples.Call, layout: str) -> samples.Call:
    """Return the call with its operands in another layout, as far as they have it."""
    return call.map(lambda o: samples.relayout(o, layout, factored=op.full in exceptions.FACTORED) or o)


@pytest.mark.parametrize("op", [op for op in OPS if op.name not in exceptions.COMPLEX], ids=lambda op: op.full)
def test_forward(op: samples.Op, device: str) -> None:
    """Values, shapes and dtypes agree over dtypes and layouts."""
    cases = Cases(op, "forward", device)
    for i, call in enumerate(op.calls()):
        has_floats = any(o.kind in "TP" for o in call.operands())
        for dtype in DTYPES[device] if has_floats else ("float32",):
            suffixes = [""] if op.in_place_only else ["", "_"] if op.in_place else [""]
            for suffix in suffixes:
                cases.check(
                    f"sample{i} {dtype}{suffix}", lambda c=call, d=dtype, s=suffix: compare(op, c, device, d, suffix=s)
                )
        for layout in LAYOUTS[device][1:]:
            moved = relaid(op, call, layout)
            if moved.operands() != call.operands():
                cases.check(f"sample{i} {layout}", lambda c=moved: compare(op, c, device, "float32", must=True))
                if (op.in_place or op.in_place_only) and layout in ("transposed", "strided", "offset"):
                    suffix = "" if op.in_place_only else "_"
                    cases.check(
                        f"sample{i} {layout} in_place",
                        lambda c=moved, s=suffix: compare(op, c, device, "float32", suffix=s),
                    )
    cases.finish()


GRADED = [op for op in OPS if not (op.no_grad or op.in_place_only or op.name in exceptions.VALUES)]


def float_results(result: Any) -> list[Any]:
    """Return the floating point tensors among the results."""
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    return [r for r in results if hasattr(r, "is_floating_point") and r.is_floating_point()]


def gradients(side: samples.Side, op: samples.Op, seed: int, device: str, dtype: str = "") -> list[Any] | None:
    """Run backward from every result with fixed cotangents, of ``dtype`` if given; return the leaves' gradients."""
    result, error = attempt(form(side.lib, op), side.call)
    try:
        if error is not None:
            raise error
    finally:
        error = None  # else its traceback, through this frame, would hold it and the operands until a collection
    outs = [r for r in float_results(result) if r.requires_grad]
    if not outs:
        return None
    cotangents = []
    for k, out in enumerate(outs):
        name = oracle.dtype_name(out.dtype)
        array = samples.values(
            samples.Operand("T", ()), dtype or name, samples.np.random.default_rng(seed + k), tuple(out.shape)
        )
        ours = side.lib is torchlette
        cotangents.append(oracle.ours(array, device, dtype=name) if ours else oracle.theirs(array, dtype=name))
    side.lib.autograd.backward(outs, cotangents)
    return [leaf.grad for leaf in side.leaves if leaf.requires_grad]


def compare_gradients(op: samples.Op, call: samples.Call, device: str, dtype: str) -> bool:
    """Compare the gradients of one call; False where PyTorch has none."""
    seed = crc32(f"{op.full} {dtype} grad".encode())
    a, e = samples.concrete(call, device, dtype, seed, grad=True)
    try:
        want = gradients(e, op, seed, device)
    except Exception:
        return False
    rehearse(lambda side: gradients(side, op, seed, device), call, device, dtype, seed, grad=True)
    try:
        got = gradients(a, op, seed, device)
    except TypeError as error:
        if device != "cpu" and "float64 is not supported" in str(error):  # lives on the CPU only
            return False
        raise
    assert (got is None) == (want is None), "requires_grad of the results differs"
    for k, (g, w) in enumerate(zip(got or (), want or (), strict=True)):
        assert (g is None) == (w is None), f"gradient {k}: got {g}, want {w}"

    def exact(widen: oracle.Widener) -> list[Any]:
        true = gradients(samples.widened(call, dtype, seed, widen, grad=True), op, seed, device, dtype)
        return [g for g in true or () if g is not None]

    given = [k for k, w in enumerate(want or ()) if w is not None]
    oracle.assert_near(
        [(got or ())[k] for k in given], [(want or ())[k] for k in given], exact, "gradient", **tolerance(op)
    )
    return want is not None


@pytest.mark.parametrize("op", GRADED, ids=lambda op: op.full)
def test_gradient(op: samples.Op, device: str) -> None:
    """Gradients agree over layouts, in float32 and (on the CPU) float64."""
    cases = Cases(op, "gradient", device)
    for i, call in enumerate(op.calls()):
        if not any(o.kind in "TP" for o in call.operands()):
            continue
        for dtype in ("float32", "float64") if device == "cpu" else ("float32",):
            for layout in LAYOUTS[device] if dtype == "float32" else ("contiguous",):
                moved = relaid(op, call, layout)
                if layout == "contiguous" or moved.operands() != call.operands():
                    cases.check(
                        f"sample{i} {dtype} {layout}", lambda c=moved, d=dtype: compare_gradients(op, c, device, d)
                    )
    if cases.run:
        cases.finish()


@pytest.mark.parametrize("op", [op for op in GRADED if op.full not in exceptions.GRADCHECK], ids=lambda op: op.full)
def test_gradcheck(op: samples.Op) -> None:
    """In float64, gradients agree with central differences."""
    for call in op.calls():
        side, _ = samples.concrete(call, "cpu", "float64", crc32(op.full.encode()), grad=True)
        inputs = [leaf for leaf in side.leaves if leaf.requires_grad]
        size = sum(leaf.numel() for leaf in inputs)
        if not inputs or size == 0 or size > 64:
            continue

        def f(*xs: Any, call: samples.Call = call) -> Any:
            given = iter(xs)
            rng = samples.np.random.default_rng(7)

            def put(o: samples.Operand) -> Any:
                if o.kind in "TP":
                    return next(given)
                return oracle.ours(samples.values(o, "float64", rng, o.shape))

            bound = call.map(put).bind(torchlette, "cpu")
            return tuple(float_results(form(torchlette, op)(*bound.args, **bound.kwargs)))

        result, error = attempt(f, samples.Call(tuple(inputs)))
        result = [r for r in result or () if r.requires_grad]
        finite = error is None and all(bool(torch.isfinite(oracle.to_torch(r)).all()) for r in result)
        if finite and result:
            assert torchlette.autograd.gradcheck(f, inputs)


OUT = [op for op in OPS if op.out and op.name not in exceptions.COMPLEX]


@pytest.mark.parametrize("op", OUT, ids=lambda op: op.full)
def test_out(op: samples.Op, device: str) -> None:
    """``out=`` writes into a tensor of the right shape, and resizes an empty one."""
    cases = Cases(op, "out", device)
    for i, call in enumerate(op.calls()):
        for empty in (False, True):
            cases.check(
                f"sample{i} {'resized' if empty else 'given'}", lambda c=call, z=empty: compare_out(op, c, device, z)
            )
    cases.finish()


def compare_out(op: samples.Op, call: samples.Call, device: str, empty: bool) -> None:
    """Compare one call with ``out=``."""
    a, e = samples.concrete(call, device, "float32", crc32(op.full.encode()), grad=False)
    plain, refused = attempt(form(torch, op), e.call)
    if refused is not None or not isinstance(plain, torch.Tensor) or (device != "cpu" and wants_double(plain)):
        return
    shape = (0,) if empty else tuple(plain.shape)
    into = torch.zeros(shape, dtype=plain.dtype)
    want, refused = attempt(form(torch, op), samples.Call(e.call.args, {**e.call.kwargs, "out": into}))
    if refused is not None:
        return
    mine = torchlette.zeros(shape, dtype=getattr(torchlette, oracle.dtype_name(plain.dtype)), device=device)
    got, error = attempt(form(torchlette, op), samples.Call(a.call.args, {**a.call.kwargs, "out": mine}))
    if error is not None:
        raise error
    assert got is mine, "out= must return the very tensor"
    if op.name not in exceptions.VALUES:
        oracle.assert_equal(mine, want, **tolerance(op))


REFUSING = [op for op in OPS if op.error_samples]


@pytest.mark.parametrize("op", REFUSING, ids=lambda op: op.full)
def test_errors(op: samples.Op, device: str) -> None:
    """Bad calls raise PyTorch's classes, and record nothing."""
    cases = Cases(op, "errors", device)
    for args, kwargs in op.error_samples:

        def case(args: str = args, kwargs: str = kwargs) -> None:
            a, e = samples.concrete(samples.parse(args, kwargs), device, "float32", 1, grad=False)
            _, want = attempt(form(torch, op), e.call)
            assert want is not None, "PyTorch raises nothing for this error sample"
            _, got = attempt(form(torchlette, op), a.call)
            assert isinstance(got, oracle.builtin_class(want)), (
                f"got {type(got).__name__}: {got}; want {type(want).__name__}: {want}"
            )

        cases.check(f"{args} {kwargs}", case)
    cases.finish()


@pytest.mark.parametrize("op", [op for op in OPS if op.aliases], ids=lambda op: op.full)
def test_aliases(op: samples.Op) -> None:
    """An alias stands in the same places as in PyTorch."""
    for alias in op.aliases:
        for where in op.where:
            for suffix in ("", "_") if op.in_place and where == "method" else ("",):
                if samples.place(torch, op, where, suffix, alias) is not None:
                    assert samples.place(torchlette, op, where, suffix, alias) is not None, (
                        f"{where} {alias}{suffix} is missing"
                    )


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.full)
def test_places(op: samples.Op) -> None:
    """The operator exists in the places that the registry names, as in PyTorch."""
    for where in sorted(op.where):
        for suffix in ("",) if op.in_place_only or where != "method" or not op.in_place else ("", "_"):
            assert samples.place(torchlette, op, where, suffix) is not None, f"{where} {op.name}{suffix} is missing"
            if (where, op.name + suffix) not in exceptions.PLACES:
                assert samples.place(torch, op, where, suffix) is not None, f"PyTorch has no {where} {op.name}{suffix}"


METHODS = [
    op
    for op in OPS
    if {"function", "method"} <= op.where and not op.in_place_only and op.name not in exceptions.METHODS
]


@pytest.mark.parametrize("op", METHODS, ids=lambda op: op.full)
def test_method_is_the_function(op: samples.Op) -> None:
    """The method returns the function's result."""
    if op.name in exceptions.VALUES:
        pytest.skip(exceptions.VALUES[op.name])
    function, method = samples.place(torchlette, op, "function"), samples.place(torchlette, op, "method")
    assert function is not None and method is not None, f"{op.name} is missing in a place"
    for call in op.calls():
        if not call.args or not isinstance(call.args[0], samples.Operand):
            continue
        one, _ = samples.concrete(call, "cpu", "float32", 3, grad=False)
        two, _ = samples.concrete(call, "cpu", "float32", 3, grad=False)
        (a, refused), (b, error) = attempt(function, one.call), attempt(method, two.call)
        assert type(refused) is type(error), f"function: {refused!r}, method: {error!r}"
        for x, y in zip(
            a if isinstance(a, (tuple, list)) else [a], b if isinstance(b, (tuple, list)) else [b], strict=True
        ):
            if isinstance(x, torchlette.Tensor):
                torch.testing.assert_close(oracle.to_torch(x), oracle.to_torch(y), rtol=0, atol=0, equal_nan=True)
            else:
                assert x == y
