"""Complex tensors behave as PyTorch's: programs over both libraries, and one sample of each entry of the database."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import database
import numpy as np
import oracle
import pytest
import report
import torch

import torchlette.torch as facade

X = np.array([[1 + 2j, 3 - 1j], [0.5j, 2]], np.complex64)
#: Entries whose complex64 sample differs, with the reason.
DIFFERENCES = {
    "as_strided_scatter": "PyTorch gives self the gradient of what was overwritten, and none of the rest",
    "chalf": "there are no complex numbers of half precision",
    "linalg.eig": "PyTorch refuses the gradient of a loss that depends on the vectors' phases",
    "linalg.pinv.hermitian": "PyTorch's gradient is that of the eigenvectors of one triangle",
    "svd_lowrank": "vectors are determined up to a phase, and this loss depends on it",
    "pca_lowrank": "vectors are determined up to a phase, and this loss depends on it",
    "to_sparse": "tensors are dense",
}
ENTRIES = [op for op in database.op_db if torch.complex64 in op.dtypes and database.lookup(op.name) is not None]


def adamw(T: Any, x: Any) -> Any:
    p = T.nn.Parameter(x)
    optimizer = T.optim.AdamW([p], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (p.abs() ** 2).sum().backward()
        optimizer.step()
    return p.detach()


def hooked(T: Any, x: Any) -> Any:
    y, seen = x.clone().requires_grad_(), []
    z = y * 2
    z.register_hook(lambda g: seen.append(g) or g * 1j)
    z.retain_grad()
    z.abs().sum().backward()
    return T.stack([y.grad, seen[0], z.grad])


def saved(T: Any, x: Any) -> Any:
    file = io.BytesIO()
    T.save({"x": x}, file)
    file.seek(0)
    return T.load(file)["x"]


def written(T: Any, x: Any) -> Any:
    y = x.clone()
    y[0] = T.tensor([1.0, 2.0])
    y.real[1] = 7
    y.imag.mul_(2)
    y[1, 1] = 5j
    return y


def rope(T: Any, x: Any) -> Any:
    """Rotary embedding of [batch, heads, time, 8]."""
    q = T.arange(96.0).reshape(1, 2, 6, 8) / 10
    turn = T.polar(T.ones(6, 4), T.outer(T.arange(6.0), 1 / 10 ** (T.arange(4.0) / 4)))
    return T.view_as_real(T.view_as_complex(q.reshape(1, 2, 6, 4, 2)) * turn).flatten(3)


def state_space(T: Any, x: Any) -> Any:
    """The kernel of a diagonal state space model (S4D), and its gradients."""
    a = T.complex(-T.arange(1.0, 5.0) / 4, T.arange(4.0)).requires_grad_()
    c = T.complex(T.ones(3, 4), T.arange(12.0).reshape(3, 4) / 12).requires_grad_()
    kernel = 2 * T.einsum("hn,nl->hl", c, T.exp(a[:, None] * T.arange(5.0) * 0.1)).real
    kernel.square().sum().backward()
    return T.cat([kernel.detach().flatten(), T.view_as_real(a.grad).flatten(), T.view_as_real(c.grad).flatten()])


PROGRAMS = {
    "AdamW": adamw,
    "rmsprop views": lambda T, x: rms_step(T, x),
    "hook": hooked,
    "save": saved,
    "in place": written,
    "rope": rope,
    "state space": state_space,
    "deepcopy": lambda T, x: copy.deepcopy(x),
    "views": lambda T, x: T.view_as_complex(T.view_as_real(x.t())[:, 1:]),
    "promotion": lambda T, x: T.ones(2, dtype=T.float64) * 1j + T.arange(2),
    "number first": lambda T, x: 2j**x - 1j / (x + 3),
    "where": lambda T, x: T.where(x.real > 1, x, 1.5),
    "alpha": lambda T, x: T.sub(x, x, alpha=2j),
    "vmap": lambda T, x: T.func.vmap(lambda a: a * a.conj() + a.sum())(x),
    "jvp": lambda T, x: T.func.jvp(lambda a: a * a, (x,), (T.ones_like(x) * 1j,))[1],
    "grad": lambda T, x: T.func.grad(lambda a: (a * a.conj()).real.sum())(x),
    "loader": lambda T, x: next(iter(T.utils.data.DataLoader([x[0], x[1]], batch_size=2))),
    "fill": lambda T, x: (
        x.to(T.complex128).index_fill(1, T.tensor([1]), 2j),
        x.to(T.complex128).masked_fill(x.real > 1, 1 - 3j),
    ),
    "masked": lambda T, x: T.masked.logsumexp(x, 1, mask=x.real > 1),
    "linear": lambda T, x: T.nn.functional.linear(x, x, x[0]),
    "dtype view": lambda T, x: x.view(T.float32),
    "strides": lambda T, x: (x.t().stride(), x[:, 1].storage_offset(), x.element_size(), x.is_complex()),
    "text": lambda T, x: repr(x * 1.5),
    "item": lambda T, x: (x[0, 0].item(), complex(x[1, 0]), x.tolist()),
    "eigenvalues": lambda T, x: T.linalg.eigvals(T.tensor([[0.0, 1.0], [-1.0, 0.0]])).imag.abs(),
}


def rms_step(T: Any, x: Any) -> Any:
    p = T.nn.Parameter(x)
    optimizer = T.optim.RMSprop([p], lr=0.1, momentum=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (p.abs() ** 2).sum().backward()
        optimizer.step()
    return p.detach()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_complex_tensors_gives_pytorchs_result(name: str) -> None:
    for _ in range(3):  # called, captured, replayed
        got = PROGRAMS[name](facade, facade.tensor(X.copy()))
        oracle.assert_equal(got, PROGRAMS[name](torch, torch.tensor(X.copy())), name)


ERRORS = {
    "order": lambda T, x: x < x,
    "relu": lambda T, x: T.relu(x),
    "real target": lambda T, x: T.zeros(2, 2).add_(x),
    "real number": lambda T, x: T.zeros(2).fill_(1j),
    "complex loss": lambda T, x: x.clone().requires_grad_().sum().backward(),
    "odd view": lambda T, x: T.view_as_complex(T.zeros(3)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_has_no_complex_meaning_raises_pytorchs_class(name: str) -> None:
    oracle.same_error(lambda T, *_: ERRORS[name](T, T.tensor(X.copy())), [], "cpu")


def test_a_complex_tensor_and_its_pairs_share_storage() -> None:
    x = facade.zeros(2, dtype=facade.complex64)
    facade.view_as_real(x)[0, 1] = 3
    x.real[1] = 2
    assert x.tolist() == [3j, 2]


def test_a_gpu_computes_complex64_and_refuses_complex128(wgpu: str = "wgpu") -> None:
    if not facade.cuda.device_count():
        pytest.skip("no adapter")
    x = facade.tensor(X.copy(), device=wgpu).requires_grad_()
    y = torch.tensor(X.copy()).requires_grad_()
    (x @ x.exp()).abs().sum().backward()
    (y @ y.exp()).abs().sum().backward()
    oracle.assert_equal(x.grad.cpu(), y.grad)
    with pytest.raises(TypeError, match="float64 is not supported"):
        facade.zeros(2, dtype=facade.complex128, device=wgpu)


@pytest.mark.parametrize("op", ENTRIES, ids=database.label)
def test_an_entry_of_the_database_agrees_in_complex64(op: Any) -> None:
    label = database.label(op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, failures = report.examine(op, report.Options("cpu", ("complex64",), 1))
    assert not failures or label in DIFFERENCES, failures
