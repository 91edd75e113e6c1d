"""Linear algebra and sorting beside PyTorch and NumPy: ``python benchmarks/linalg.py [--device wgpu] [--record]``.

On the CPU the rivals are PyTorch and NumPy. With ``--device wgpu`` it is PyTorch on CUDA, whose factorisations are
cuSOLVER's and MAGMA's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from measure import Row, main, race, settle

import torchlette.torch as lette

#: Sizes of the factorisations of one matrix, and of those that iterate.
SIZES, ITERATED = (512, 2048), (128, 512)


def _last(result: Any) -> Any:
    """Return one tensor of a result: to read it runs the operator."""
    return result if hasattr(result, "numpy") else result[0]


def _operators() -> dict[str, tuple[tuple[int, ...], Callable[[Any], Callable[[Any, Any], Any]]]]:
    """Return the operators by name: sizes, and given the library the function of (general, positive) matrices."""
    return {
        "cholesky": (SIZES, lambda lib: lambda a, s: lib.linalg.cholesky(s)),
        "lu_factor": (SIZES, lambda lib: lambda a, s: lib.linalg.lu_factor(a)),
        "solve_triangular": (SIZES, lambda lib: lambda a, s: lib.linalg.solve_triangular(s, a, upper=False)),
        "inv": (SIZES, lambda lib: lambda a, s: lib.linalg.inv(a)),
        "qr": (SIZES, lambda lib: lambda a, s: lib.linalg.qr(a)),
        "eigh": (ITERATED, lambda lib: lambda a, s: lib.linalg.eigh(s)),
        "svd": (ITERATED, lambda lib: lambda a, s: lib.linalg.svd(a)),
    }


def _matrices(batch: tuple[int, ...], n: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((*batch, n, n)).astype(dtype)
    return a, (a @ a.swapaxes(-1, -2) / n + np.eye(n, dtype=dtype)).astype(dtype)


def _row(name: str, make: Any, arrays: tuple[np.ndarray, ...], rounds: int) -> Row:
    sides = []
    for lib in (lette, torch):
        f, operands = make(lib), [lib.tensor(x, device="cpu") for x in arrays]
        sides.append(lambda f=f, operands=operands: _last(f(*operands)).numpy())
    return Row(name, *race(*sides, rounds=rounds))


def factorisations(names: Iterable[str]) -> Iterator[Row]:
    """Race the named operators in turns."""
    for name in names:
        sizes, make = _operators()[name]
        for dtype in ("float32", "float64"):
            for n in sizes:
                yield _row(f"{name} {n} {dtype}", make, _matrices((), n, dtype), 5 if n > 512 else 15)
            yield _row(f"{name} 64 of 32 {dtype}", make, _matrices((64,), 32, dtype), 15)


#: On a GPU: batch dims, and size of the matrices.
SHAPES = (((1000,), 32), ((1000,), 64), ((), 1024), ((), 4096))


def on_gpu() -> Iterator[Row]:
    """Race float32 factorisations with PyTorch on CUDA. A call ends when one number of its result is on the host."""
    for name, (_, make) in _operators().items():
        if name in ("eigh", "svd"):
            continue  # these run on the CPU
        for batch, n in SHAPES:
            arrays, sides = _matrices(batch, n, "float32"), []
            for lib, device in ((lette, "wgpu"), (torch, "cuda")):
                f, operands = make(lib), [lib.tensor(x, device=device) for x in arrays]
                sides.append(lambda f=f, operands=operands: _last(f(*operands)).reshape(-1)[0].item())
            settle(sides[0])
            yield Row(f"{name} {batch[0] if batch else 1} of {n}", *race(*sides, rounds=9))


def sorts() -> Iterator[Row]:
    """Race sorting with NumPy."""
    for shape in ((1_000_000,), (4096, 1024)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        t = lette.tensor(x, device="cpu")
        sides = (lambda t=t: lette.sort(t)[0].numpy()), (lambda x=x: np.sort(x))
        yield Row(f"sort {shape}, to NumPy", *race(*sides))
        sides = (lambda t=t: lette.argsort(t).numpy()), (lambda x=x: np.argsort(x))
        yield Row(f"argsort {shape}, to NumPy", *race(*sides))


def rows() -> Iterator[Row]:
    """Race all."""
    yield from factorisations(_operators())
    yield from sorts()


if __name__ == "__main__":
    if "--device" in sys.argv:
        at = sys.argv.index("--device")
        device = sys.argv[at + 1]
        del sys.argv[at : at + 2]
        main("linalg_gpu", on_gpu, device)
    else:
        main("linalg", rows)
