"""Every operator in forward mode, on PyTorch's samples: beside PyTorch's, and beside the gradients."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import database
import numpy as np
import pytest
import scope
import torch

import torchlette
from torchlette._runtime.nested import replaced
from torchlette.autograd import forward_ad

#: Their samples write several elements to one place, and gradients go to all of them.
SHARED_PLACES = {"nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d"}
ENTRIES = {
    database.label(op): op
    for op in database.entries(scope.TIER_1 | scope.TIER_2)
    if op.supports_autograd and torch.float64 in op.dtypes and op.name not in scope.DRAWS | SHARED_PLACES
}
#: Sums of products of random numbers in float64, through factorisations.
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


def _outputs(value: Any, kind: type) -> list[Any]:
    """Return the floating-point tensors of nested results."""
    found: list[Any] = []
    replaced(value, kind, found.append)
    return [t for t in found if t.is_floating_point()]


def _tangents(
    lib: Any, ad: Any, call: Any, pairs: list[tuple[Any, Any]], sample: tuple[Any, Any, Any]
) -> list[tuple[Any, Any]]:
    """Return the results of a call with duals in place of some tensors, and their tangents."""
    kind = torch.Tensor if lib is torch else torchlette.Tensor
    lib.manual_seed(database.SEED)
    with ad.dual_level():
        duals = {id(x): ad.make_dual(x.detach(), t) for x, t in pairs}
        x, args, kwargs = replaced(sample, kind, lambda t: duals.get(id(t), t))
        return [
            (p.detach(), lib.zeros_like(p) if t is None else t.detach())
            for p, t in map(ad.unpack_dual, _outputs(call(x, *args, **kwargs), kind))
        ]


@pytest.mark.parametrize("label", ENTRIES)
def test_an_operator_in_forward_mode(label: str) -> None:
    """The tangents are PyTorch's, and their product with cotangents is that of the gradients with the directions."""
    op = ENTRIES[label]
    try:
        ours = functools.partial(database.rewritten(op.gradcheck_wrapper), database.counterpart(op))
    except AttributeError:
        pytest.skip("no such operator")
    rng = np.random.default_rng(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = next(iter(op.sample_inputs("cpu", torch.float64, requires_grad=True)), None)
        if sample is None:
            pytest.skip("no sample")
        convert = database.Converter("cpu")
        given = (convert(sample.input), convert(sample.args), convert(sample.kwargs))
        moving = [(a, b) for a, b in convert.leaves if a.is_floating_point()]
        if not moving:
            pytest.skip("no argument has a gradient")
        directions = [rng.standard_normal(tuple(a.shape)) for a, _ in moving]
        pairs = [(b, torchlette.tensor(d)) for (_, b), d in zip(moving, directions, strict=True)]
        got = _tangents(torchlette, forward_ad, ours, pairs, given)
        x, args, kwargs = given
        torchlette.manual_seed(database.SEED)
        outs = _outputs(ours(x, *args, **kwargs), torchlette.Tensor)
        cots = [torchlette.tensor(rng.standard_normal(tuple(o.shape)), dtype=o.dtype) for o in outs]
        roots = [(o, c) for o, c in zip(outs, cots, strict=True) if o.requires_grad]
        grads = torchlette.autograd.grad(
            [o for o, _ in roots], [b for b, _ in pairs], [c for _, c in roots], materialize_grads=True
        )
        forward = sum(float((c.double() * t.double()).sum().item()) for c, (_, t) in zip(cots, got, strict=True))
        backward = sum(float((g.double() * t.double()).sum().item()) for g, (_, t) in zip(grads, pairs, strict=True))
        np.testing.assert_allclose(forward, backward, **CLOSE)
        if not op.supports_forward_ad:
            return
        directed = [(a, torch.from_numpy(d)) for (a, _), d in zip(moving, directions, strict=True)]
        call = functools.partial(op.gradcheck_wrapper, op.op)  # makes inputs symmetric, or triangular, where it must
        want = _tangents(torch, torch.autograd.forward_ad, call, directed, (sample.input, sample.args, sample.kwargs))
    for (p, t), (q, u) in zip(want, got, strict=True):
        if torch.allclose(p, torch.from_numpy(q.numpy()).to(p.dtype)):  # factors are unique up to signs
            np.testing.assert_allclose(u.numpy(), t.numpy(force=True), **CLOSE)
