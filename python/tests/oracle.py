"""PyTorch as the oracle: the same arrays on both sides, results compared at ``assert_close`` defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

import torchlette

Array = np.ndarray

TORCH_DTYPE = {
    "bool": torch.bool,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint32": torch.uint32,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def dtype_name(dtype: Any) -> str:
    """Return "float32" for either library's float32."""
    return str(dtype).removeprefix("torchlette.").removeprefix("torch.")


def ours(array: Array, device: str = "cpu", *, dtype: str | None = None, requires_grad: bool = False) -> torchlette.Tensor:
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
    return torch.tensor(np.array(t.numpy()))


def assert_equal(actual: Any, expected: Any, what: str = "", *, rtol: float | None = None, atol: float | None = None) -> None:
    """Compare a result of ours with PyTorch's: structure, shape, dtype, and values at ``assert_close`` defaults."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torchlette.Tensor), f"{what}: got {type(actual).__name__}, want a tensor"
        assert tuple(actual.shape) == tuple(expected.shape), f"{what}: got shape {tuple(actual.shape)}, want {tuple(expected.shape)}"
        assert dtype_name(actual.dtype) == dtype_name(expected.dtype), f"{what}: got {actual.dtype}, want {expected.dtype}"
        torch.testing.assert_close(to_torch(actual), expected.detach(), rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what}: {m}")
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), f"{what}: got {len(actual)} results, want {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_equal(a, e, f"{what}[{i}]", rtol=rtol, atol=atol)
    elif isinstance(expected, torch.dtype):
        assert dtype_name(actual) == dtype_name(expected), what
    else:
        assert actual == expected, f"{what}: got {actual!r}, want {expected!r}"


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
