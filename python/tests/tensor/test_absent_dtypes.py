"""Dtypes and devices that no tensor has: they are named, compared and kept; making a tensor of them raises and says
what to do.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

import torchlette.torch as facade

DTYPES = (
    "complex32",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_have_pytorchs_properties(name: str) -> None:
    ours, theirs = getattr(facade, name), getattr(torch, name)
    for attribute in ("itemsize", "is_complex", "is_floating_point", "is_signed"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    assert repr(ours) == repr(theirs)
    assert isinstance(ours, facade.dtype)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.deepcopy(ours) is ours
    assert facade.ones(1).dtype not in (ours, None)


@pytest.mark.parametrize(
    ("alias", "name"), [("cfloat", "complex64"), ("cdouble", "complex128"), ("chalf", "complex32")]
)
def test_aliases(alias: str, name: str) -> None:
    assert getattr(facade, alias) is getattr(facade, name)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_limits(name: str) -> None:
    assert repr(facade.finfo(getattr(facade, name))) == repr(torch.finfo(getattr(torch, name)))


@pytest.mark.parametrize("make", [
    lambda d: facade.ones(2, dtype=d),
    lambda d: facade.tensor([1], dtype=d),
    lambda d: facade.ones(2).to(d),
    lambda d: facade.ones(2).to(dtype=d),
    lambda d: facade.ones(2).type(d),
    lambda d: facade.ones(2).sum(dtype=d),
    lambda d: facade.set_default_dtype(d),
])  # fmt: skip
def test_no_tensor_has_them(make: Any) -> None:
    for name, says in (("complex32", "use complex64"), ("float8_e5m2", "bfloat16")):
        with pytest.raises(NotImplementedError, match=says):
            make(getattr(facade, name))


@pytest.mark.parametrize("spec", ["cuda", "cuda:1", "meta", "mps", "xpu:0"])
def test_devices(spec: str) -> None:
    ours, theirs = facade.device(spec), torch.device(spec)
    assert (str(ours), repr(ours), ours.type, ours.index) == (str(theirs), repr(theirs), theirs.type, theirs.index)
    assert ours == facade.device(spec)
    assert hash(ours) == hash(facade.device(spec))
    assert ours != facade.device("cpu")
    assert facade.device(ours.type, 2) == facade.device(f"{ours.type}:2")
    assert pickle.loads(pickle.dumps(ours)) == ours
    if spec == "meta":
        assert facade.ones(1, device=ours).is_meta
        return
    for call in (
        lambda: facade.ones(1, device=ours),
        lambda: facade.ones(1).to(spec),
        lambda: facade.nn.Linear(1, 1).to(ours),
    ):
        with pytest.raises(RuntimeError, match="the GPU is the device 'wgpu'"):
            call()


def test_refused_names_are_both_errors() -> None:
    """``hasattr`` returns False, and calling raises NotImplementedError with the alternative."""
    for get in (lambda: facade.bcomplex32,):
        with pytest.raises(AttributeError):
            get()
        with pytest.raises(NotImplementedError):
            get()
    assert not hasattr(facade, "bcomplex32")


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        ours, theirs = getattr(facade.fft, name)(n, 0.5), getattr(torch.fft, name)(n, 0.5)
        assert ours.tolist() == pytest.approx(theirs.tolist())
