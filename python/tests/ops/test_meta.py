"""The device ``meta``: shapes, dtypes and strides without memory; reads raise."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import numpy as np
import pytest
import samples
import torch

import torchlette
import torchlette.torch as facade

REGISTRY = [op for op in samples.load() if op.where]
#: What an operator must know of the elements before it can tell a shape.
READS = ("bincount", "masked_select", "nonzero", "repeat_interleave", "unique")


def described(value):
    """Return shapes, dtypes and strides of the tensors of a result."""
    if isinstance(value, (torchlette.Tensor, torch.Tensor)):
        return tuple(value.shape), str(value.dtype).rpartition(".")[2], tuple(value.stride())
    return [described(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_every_operator_infers_on_meta_what_it_computes_on_the_cpu(dtype):
    checked, wrong = 0, []
    for op in REGISTRY:
        f = next(filter(None, (samples.place(torchlette, op, where) for where in sorted(op.where))), None)
        for call in op.calls() if f is not None else ():
            rng = np.random.default_rng(0)

            def make(o, device, rng=rng):
                name = dtype if o.kind in "TP" else {"I": "int64", "B": "bool"}[o.kind]
                stored = torchlette.tensor(samples.values(o, name, rng, samples.stored_shape(o)), device=device)
                return samples.view_of(torchlette, stored, o)

            results = []
            for device in ("cpu", "meta"):
                bound = call.bind(torchlette, device).map(lambda o, device=device: make(o, device))
                torchlette.manual_seed(0)
                try:
                    with torchlette.device(device):
                        results.append(described(f(*bound.args, **bound.kwargs)))
                except Exception as error:
                    results.append(type(error))
            checked += not isinstance(results[0], type)
            refuses = op.name in READS and results[1] is torchlette.NotSupportedError
            if results[0] != results[1] and not refuses:
                wrong.append(f"{op.full} {call}: {results[0]}, on meta {results[1]}")
    assert not wrong, "\n".join(wrong[:20])
    assert checked > 800


def error(f):
    """Return the class of the error that a call raises, as one of PyTorch's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f()
    except Exception as e:
        return next(c for c in (NotImplementedError, RuntimeError, TypeError, BufferError) if isinstance(e, c))
    return None


CALLS = {
    "tolist": lambda t, m, c: m.tolist(),
    "numpy": lambda t, m, c: m.numpy(),
    "array": lambda t, m, c: np.asarray(m),
    "cpu": lambda t, m, c: m.cpu(),
    "to": lambda t, m, c: m.to("cpu"),
    "copy_ to the cpu": lambda t, m, c: c.clone().copy_(m),
    "copy_ to meta": lambda t, m, c: m.copy_(c),
    "setitem to the cpu": lambda t, m, c: c.clone().__setitem__(0, m[0]),
    "setitem to meta": lambda t, m, c: m.__setitem__(0, c[0]),
    "add": lambda t, m, c: m + c,
    "add a scalar of the cpu": lambda t, m, c: m + t.ones(()),
    "add a scalar of meta": lambda t, m, c: c + t.ones((), device="meta"),
    "cat": lambda t, m, c: t.cat([m, c]),
    "where": lambda t, m, c: t.where(m > 0, c, c),
    "nonzero": lambda t, m, c: m.nonzero(),
    "mask": lambda t, m, c: m[m > 0],
    "index of the cpu": lambda t, m, c: m[t.ones(2, dtype=t.long)],
    "equal": lambda t, m, c: t.equal(m, m),
    "module": lambda t, m, c: t.nn.Linear(2, 3, device="meta").to("cpu"),
    "module to meta": lambda t, m, c: t.nn.Linear(2, 3).to("meta"),
    "pickle": lambda t, m, c: pickle.loads(pickle.dumps(m)),
    "save": lambda t, m, c: t.save(m, io.BytesIO()),
    "deepcopy": lambda t, m, c: copy.deepcopy(m),
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_raise_what_pytorch_raises(call):
    def made(lib):
        return lib, lib.ones(2, 3, device="meta"), lib.ones(2, 3)

    assert error(lambda: CALLS[call](*made(facade))) is error(lambda: CALLS[call](*made(torch)))


def test_the_text_names_shape_and_device():
    for make in (
        lambda t: t.ones(2, 3, device="meta"),
        lambda t: t.ones((), device="meta", dtype=t.int64),
        lambda t: t.nn.Parameter(t.ones(2, device="meta")),
    ):
        assert repr(make(facade)) == repr(make(torch))


def test_gradients_and_optimizers_infer():
    with facade.device("meta"):
        net = facade.nn.Sequential(facade.nn.Linear(3, 4), facade.nn.Dropout(), facade.nn.Linear(4, 2))
        optimizer = facade.optim.AdamW(net.parameters())
        net(facade.randn(5, 3)).sum().backward()
        optimizer.step()
    assert all(p.is_meta and p.grad.is_meta and p.grad.shape == p.shape for p in net.parameters())
    assert optimizer.state[net[0].weight]["exp_avg"].is_meta
    assert facade.ones(1).device.type == "cpu"


def test_nothing_is_stored_nor_pending():
    held = torchlette.ones(10**6, 10**6, device="meta")
    total = torchlette.ones((), device="meta")
    before = torchlette.stats()["live_nodes"]
    for _ in range(100):
        total += (held * 2).sum()
    assert torchlette.stats()["live_nodes"] == before
    assert total._version == 100 and held.data_ptr() == 0 and held.untyped_storage().nbytes() == 4 * 10**12
    assert "lost" not in str(torchlette.realize(total, torchlette.ones(2, device="cpu")))


def test_draws_on_meta_leave_the_generator():
    facade.manual_seed(0)
    want = facade.rand(3)
    facade.manual_seed(0)
    facade.nn.Linear(4, 4, device="meta")
    facade.nn.functional.dropout(facade.rand(3, device="meta"))
    assert facade.equal(facade.rand(3), want)


def test_load_state_dict_assigns_to_a_module_on_meta():
    net = facade.nn.Linear(2, 3, device="meta")
    values = facade.nn.Linear(2, 3).state_dict()
    with pytest.warns(UserWarning, match="is a no-op"):
        net.load_state_dict(values)
    assert net.weight.is_meta
    net.load_state_dict(values, assign=True)
    assert facade.equal(net.weight, values["weight"]) and net.weight.requires_grad
    assert net.to("meta").to_empty(device="cpu").weight.device.type == "cpu"


def test_meta_is_another_device(device):
    x = torchlette.ones(2, 3, device=device)
    assert x.to("meta").is_meta
    assert error(lambda: x + x.to("meta")) is RuntimeError
    assert error(lambda: x.to("meta").to(device)) is NotImplementedError


def test_captured_functions_infer():
    f = torchlette.jit(lambda x: (x * 2).sum(1))
    x = torchlette.ones(2, 3, device="meta")
    assert {tuple(f(x).shape) for _ in range(3)} == {(2,)}
