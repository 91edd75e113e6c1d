"""PyTorch as the oracle: the same arrays on both sides, results compared at ``assert_close`` defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

import torchlette

Array = np.ndarray

TORCH_DTYPE = {
    "bool": torch.bool,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}


def dtype_name(dtype: Any) -> str:
    """Return "float32" for either library's float32."""
    return str(dtype).removeprefix("torchlette.").removeprefix("torch.")


def ours(
    array: Array, device: str = "cpu", *, dtype: str | None = None, requires_grad: bool = False
) -> torchlette.Tensor:
    """Return a torchlette tensor of the array's values."""
    t = torchlette.tensor(np.ascontiguousarray(array).reshape(array.shape), device=device)
    if dtype is not None and dtype_name(t.dtype) != dtype:
        t = t.to(getattr(torchlette, dtype))
    return t.requires_grad_() if requires_grad else t


def theirs(array: Array, *, dtype: str | None = None, requires_grad: bool = False) -> torch.Tensor:
    """Return a PyTorch tensor of the array's values."""
    t = torch.tensor(array)
    if dtype is not None:
        t = t.to(TORCH_DTYPE[dtype])
    return t.requires_grad_() if requires_grad else t


def builtin_class(error: BaseException) -> type[BaseException]:
    """Return the class that Python itself has of an error: PyTorch's own ones, such as LinAlgError, derive from it."""
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


def to_torch(t: torchlette.Tensor) -> torch.Tensor:
    """Return a PyTorch copy of a torchlette tensor, of the same dtype."""
    t = t.detach()
    if dtype_name(t.dtype) == "bfloat16":
        return torch.tensor(np.array(t.to(torchlette.float32).numpy())).to(torch.bfloat16)
    array = np.array(t.numpy())
    return torch.tensor(array.astype("=L") if array.dtype == np.uint64 else array)  # one of two C types of 8 bytes


def assert_equal(
    actual: Any, expected: Any, what: str = "", *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Compare a result of ours with PyTorch's: structure, shape, dtype, and values at ``assert_close`` defaults."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torchlette.Tensor), f"{what}: got {type(actual).__name__}, want a tensor"
        assert tuple(actual.shape) == tuple(expected.shape), (
            f"{what}: got shape {tuple(actual.shape)}, want {tuple(expected.shape)}"
        )
        assert dtype_name(actual.dtype) == dtype_name(expected.dtype), (
            f"{what}: got {actual.dtype}, want {expected.dtype}"
        )
        torch.testing.assert_close(
            to_torch(actual), expected.detach(), rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}"
        )
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{what}: got the keys {list(actual)}, want {list(expected)}"
        for key in expected:
            assert_equal(actual[key], expected[key], f"{what}[{key!r}]", rtol=rtol, atol=atol)
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), f"{what}: got {len(actual)} results, want {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_equal(a, e, f"{what}[{i}]", rtol=rtol, atol=atol)
    elif isinstance(expected, torch.dtype):
        assert dtype_name(actual) == dtype_name(expected), what
    else:
        assert actual == expected, f"{what}: got {actual!r}, want {expected!r}"


#: A result outside the defaults may be this many times as far from the float64 result as rounding explains.
FARTHER = 4
#: The number of random perturbations of the operands, which measure the condition of the problem.
SHAKES = 3


def tensors(result: Any) -> list[Any]:
    """Return the tensors that a result holds, in order."""
    if isinstance(result, (torch.Tensor, torchlette.Tensor)):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in tensors(r)]
    return []


def widened(t: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float64 or complex128."""
    return t.to(torch.complex128 if t.is_complex() else torch.float64)


class Widener:
    """Maps the arguments of a call to float64, leaves to leaves.

    Args:
        shake: Each element is changed by a relative error of up to this, as rounding the operands would.
        seed: Of the changes.
    """

    def __init__(self, shake: float = 0.0, seed: int = 0) -> None:
        self.seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.shake = shake
        self.draws = torch.Generator().manual_seed(seed)

    def __call__(self, x: Any) -> Any:
        """Widen an argument, and what it holds."""
        if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()):
            if id(x) not in self.seen:
                wide = widened(x.detach()).clone()
                if self.shake:
                    change = torch.rand(wide.shape, dtype=torch.float64, generator=self.draws) * 2 - 1
                    wide = wide * (1 + self.shake * change)
                self.seen[id(x)] = x, wide.requires_grad_(x.requires_grad)
            return self.seen[id(x)][1]
        if isinstance(x, torch.dtype) and x.is_floating_point:
            return torch.float64
        if isinstance(x, torch.dtype) and x.is_complex:
            return torch.complex128
        if type(x) in (list, tuple):
            return type(x)(self(v) for v in x)
        if isinstance(x, dict):
            return {k: self(v) for k, v in x.items()}
        return x

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """Return the widened form of an argument."""
        return self.seen[id(x)][1]


_ROUNDED = (torch.float32, torch.float16, torch.bfloat16, torch.complex64)


def assert_near(
    got: Any, want: Any, exact: Callable[[Widener], Any], what: str = "", **tolerance: float | None
) -> None:
    """Assert that a result is PyTorch's within the defaults, or as near to the true one as rounding lets it be.

    PyTorch's results in float32 and the half types contain rounding errors that depend on the processor. This rule
    holds on every processor: ours is at most :data:`FARTHER` times as far from PyTorch's result in float64 as the
    farther of

    * PyTorch's own result, and
    * PyTorch's results in float64 of operands that are changed by one rounding error. This is the condition of the
      problem: what a good algorithm may lose, also where PyTorch happens to lose nothing.

    Args:
        got: Our result.
        want: PyTorch's.
        exact: Computes PyTorch's result with the operands that a widener gives.
        what: Names the result in errors.
        tolerance: ``rtol`` and ``atol`` in place of the defaults.
    """
    try:
        assert_equal(got, want, what, **tolerance)
    except AssertionError as failure:
        mine, theirs = tensors(got), tensors(want)
        apart = [i for i, (g, w) in enumerate(zip(mine, theirs, strict=False)) if not _equal(g, w, **tolerance)]
        if len(mine) != len(theirs) or not apart or any(theirs[i].dtype not in _ROUNDED for i in apart):
            raise
        eps = max(torch.finfo(theirs[i].dtype).eps for i in apart) / 2
        try:
            true = tensors(exact(Widener()))
            moved = [tensors(exact(Widener(eps, seed))) for seed in range(SHAKES)]
        except Exception:  # undefined in float64, or next to the operands: the rule has no reference
            raise failure from None
        for i in apart:
            same_kind(mine[i], theirs[i])
            _near(failure, widened(to_torch(mine[i])), *(widened(t[i].detach()) for t in (theirs, true, *moved)))


def _equal(got: Any, want: Any, **tolerance: float | None) -> bool:
    try:
        assert_equal(got, want, **tolerance)
    except AssertionError:
        return False
    return True


def same_kind(got: Any, want: Any) -> None:
    """Compare shape and dtype alone."""
    assert tuple(got.shape) == tuple(want.shape), f"got shape {tuple(got.shape)}, want {tuple(want.shape)}"
    assert dtype_name(got.dtype) == dtype_name(want.dtype), f"got {got.dtype}, want {want.dtype}"


def _near(failure: AssertionError, g: torch.Tensor, w: torch.Tensor, e: torch.Tensor, *moved: torch.Tensor) -> None:
    """Apply the rule of :func:`assert_near` to one tensor; ``failure`` is raised where it does not hold."""
    finite = torch.isfinite(w) & torch.isfinite(e)
    for m in moved:
        finite &= torch.isfinite(m)
    torch.testing.assert_close(g[~finite], w[~finite], equal_nan=True)
    if finite.any():
        errors = [(x - e)[finite].abs().max().item() for x in (w, *moved)]
        ours, bound = (g - e)[finite].abs().max().item(), FARTHER * max(errors)
        if not ours <= bound:
            raise AssertionError(f"{failure}; ours is {ours:.3g} from float64's result, want at most {bound:.3g}")


def run_both(program: Any, arrays: Iterable[Array], device: str, *, grad: bool = False) -> tuple[Any, Any]:
    """Run ``program(lib, *tensors)`` under both libraries on the same arrays; return (ours, PyTorch's)."""
    arrays = list(arrays)
    a = program(torchlette, *[ours(x, device, requires_grad=grad and x.dtype.kind == "f") for x in arrays])
    e = program(torch, *[theirs(x, requires_grad=grad and x.dtype.kind == "f") for x in arrays])
    return a, e


def same(program: Any, arrays: Iterable[Array], device: str, *, grad: bool = False) -> None:
    """Assert that ``program(lib, *tensors)`` gives equal results under both libraries."""
    a, e = run_both(program, arrays, device, grad=grad)
    assert_equal(a, e, getattr(program, "__name__", ""))


def same_error(program: Any, arrays: Iterable[Array], device: str) -> BaseException:
    """Assert that ``program`` raises under both, ours an instance of PyTorch's class; return ours."""
    arrays = list(arrays)
    try:
        program(torch, *[theirs(x) for x in arrays])
    except Exception as error:
        want = type(error)
    else:
        raise AssertionError("PyTorch raises nothing here")
    try:
        program(torchlette, *[ours(x, device) for x in arrays])
    except want as error:
        assert isinstance(error, torchlette.TorchletteError) or type(error).__module__ == "builtins", type(error)
        return error
    raise AssertionError(f"nothing raised, want {want.__name__}")
