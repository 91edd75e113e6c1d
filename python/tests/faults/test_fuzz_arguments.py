"""Any operator with any arguments answers or raises: no crash, SystemError or InternalError, nothing left behind."""

from __future__ import annotations

import ctypes
import gc
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torchlette
from torchlette import _C
from torchlette.testing import counters

#: Only the library calls hidden operators; all others are public.
HIDDEN, IN_PLACE = 8, 64
NAMES = sorted(name for name, places in _C._where.items() if not places & HIDDEN)

TENSORS = (
    "float()",
    "float(3)",
    "float(2,3)",
    "float(0)",
    "float(2,0,3)",
    "int(3)",
    "int(2,3)",
    "bool(3)",
    "bool(2,3)",
    "half(3)",
    "double(2,2)",
    "float(1,2,4,4)",
    "grad(3)",
)
LARGE = (2**31, 2**62, -(2**63), 2**63 - 1)
PLAIN = (
    0,
    1,
    2,
    -1,
    -7,
    3.5,
    float("nan"),
    float("inf"),
    True,
    None,
    "sum",
    "mean",
    "x",
    b"x",
    1j,
    2**70,
    object,
    [],
    [1, 2],
    (0,),
    (-1, 2),
    [[1], [2, 3]],
    {},
    ...,
)

ARGUMENTS = st.one_of(
    st.sampled_from(TENSORS),
    st.sampled_from(TENSORS),
    st.sampled_from(PLAIN),
    st.sampled_from(LARGE),
    st.lists(st.sampled_from(TENSORS), max_size=3),
    st.lists(st.sampled_from((*LARGE, 0, 1, 2, -1)), max_size=4),
    st.sampled_from((torchlette.float32, torchlette.int64, torchlette.bool, torchlette.device("cpu"))),
)
KEYWORDS = st.dictionaries(
    st.sampled_from(
        (
            "dim",
            "keepdim",
            "dtype",
            "out",
            "device",
            "size",
            "input",
            "self",
            "other",
            "value",
            "index",
            "weight",
            "reduction",
            "nothing",
        )
    ),
    ARGUMENTS,
    max_size=2,
)


def made(x: Any) -> Any:
    """Return the argument that a description stands for."""
    if isinstance(x, list):
        return [made(v) for v in x]
    if not isinstance(x, str) or "(" not in x:
        return x
    kind, _, sizes = x[:-1].partition("(")
    t = torchlette.ones([int(s) for s in sizes.split(",") if s])
    return t.requires_grad_() if kind == "grad" else getattr(t, {"int": "long"}.get(kind, kind))()


def read(result: Any) -> None:
    """Compute small results."""
    if isinstance(result, torchlette.Tensor):
        if result.numel() <= 4096 and max(result.shape, default=0) <= 4096:
            result.detach().tolist()
    elif isinstance(result, (list, tuple)):
        for r in result[:8]:
            read(r)


def call(name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Call an operator; errors are answers too, but not those of a bug."""
    f = getattr(_C, name, None) or getattr(torchlette.Tensor, name, None)
    if f is None:  # an alias of a place
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(f(*[made(a) for a in args], **{k: made(v) for k, v in kwargs.items()}))
    except (torchlette.InternalError, torchlette.PoisonedEngineError, SystemError, MemoryError):
        raise
    except torchlette.TorchletteError as error:
        assert str(error)
    except (
        TypeError,
        ValueError,
        RuntimeError,
        IndexError,
        NotImplementedError,
        OverflowError,
        AttributeError,
        BufferError,
    ):
        pass


#: In CI the same arguments each time; elsewhere new ones.
@settings(max_examples=25, deadline=None, derandomize="CI" in os.environ)
@given(st.lists(ARGUMENTS, max_size=5), KEYWORDS)
@pytest.mark.parametrize("name", NAMES)
def test_operators_answer(name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    """A call with arbitrary arguments; afterwards everything it held is freed."""
    call(name, args, kwargs)


def test_nothing_is_left_behind() -> None:
    """A hundred failing calls of each operator leave no handle, base, node or buffer."""
    gc.collect()
    bad: list[list[Any]] = [
        ["float(2,3)", "x"],
        ["float(2,3)", 2**62, -1],
        [["float(3)", "int(3)"], object],
        ["float(2,3)", "float(7)", "bool(3)", "float(3)"],
        ["grad(3)", [2**62, 2**62]],
    ]
    before = counters.levels()
    for name in NAMES:
        for args in bad:
            call(name, args, {})
    gc.collect()
    assert not counters.leaked(before, counters.levels())


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=200, deadline=None)
def test_forged_handles(handle: int) -> None:
    """The C interface refuses handles that it has not given out, and ignores their release."""
    library = ctypes.CDLL(str(Path(_C.__file__).with_name("libtorchlette.so")))
    block = ctypes.create_string_buffer(4096)
    forged = ctypes.c_uint64(handle)
    alive = {t._handle for t in gc.get_objects() if isinstance(t, torchlette.Tensor)} if handle < 1 << 16 else set()
    if handle in alive:
        return
    for refuse in (
        lambda: library.tl_meta_of(forged, block),
        lambda: library.tl_keep(forged),
        lambda: library.tl_force(forged, ctypes.c_int64(10**9)),
        lambda: library.tl_read(forged, block, ctypes.c_size_t(4)),
        lambda: library.tl_grad(forged, block, block),
        lambda: library.tl_requires_grad(forged, 1),
        lambda: library.tl_set_grad(forged, forged),
        lambda: library.tl_export_buffer(forged, 0, block, block),
        lambda: library.tl_function_next(forged, block, 1, block),
        lambda: library.tl_saved(forged, 0, 1, block, block),
        lambda: library.tl_attach_history(forged, forged, 0, block),
    ):
        assert refuse() != 0
    library.tl_release(ctypes.byref(forged), 1)
    library.tl_function_release(forged)
    library.tl_release_export(forged)
    library.tl_dispose(forged)
