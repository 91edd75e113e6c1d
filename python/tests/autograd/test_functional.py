"""autograd.functional: Jacobians, Hessians and products with them are PyTorch's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.autograd.functional  # noqa: E402

POINT = [[0.4, -1.1], [0.9, 0.2]]
VECTOR = [[1.0, 0.5], [-2.0, 0.25]]

CALLS = {
    "jacobian": lambda t, f, x, y, v: f.jacobian(lambda a: a.exp().sum(1), x),
    "jacobian_tuple": lambda t, f, x, y, v: f.jacobian(lambda a, b: (a * b, (a @ b).sum()), (x, y)),
    "jacobian_independent": lambda t, f, x, y, v: f.jacobian(lambda a, b: (a.sum(), t.ones(2)), (x, y)),
    "jacobian_vectorized": lambda t, f, x, y, v: f.jacobian(lambda a: a.sin(), x, vectorize=True),
    "jacobian_forward": lambda t, f, x, y, v: f.jacobian(lambda a: a.sin(), x, vectorize=True, strategy="forward-mode"),
    "jacobian_of_leaf": lambda t, f, x, y, v: f.jacobian(
        lambda a: a * a, x.clone().requires_grad_(), create_graph=True
    ),
    "hessian": lambda t, f, x, y, v: f.hessian(lambda a: (a**3).sum(), x),
    "hessian_tuple": lambda t, f, x, y, v: f.hessian(lambda a, b: (a * b.sin() * a).sum(), (x, y)),
    "hessian_linear": lambda t, f, x, y, v: f.hessian(lambda a: (2 * a).sum(), x),
    "vjp": lambda t, f, x, y, v: f.vjp(lambda a: a.sin() @ a, x, v),
    "vjp_one": lambda t, f, x, y, v: f.vjp(lambda a, b: (a * b).sum(), (x, y)),
    "jvp": lambda t, f, x, y, v: f.jvp(lambda a: a.sin() @ a, x, v),
    "jvp_tuple": lambda t, f, x, y, v: f.jvp(lambda a, b: (a * b, a.sum()), (x, y), (v, x)),
    "vhp": lambda t, f, x, y, v: f.vhp(lambda a: (a**3).sum() + a.prod(), x, v),
    "hvp": lambda t, f, x, y, v: f.hvp(lambda a, b: (a**3 * b).sum(), (x, y), (v, y)),
}


def flat(value):
    return [item for part in value for item in flat(part)] if isinstance(value, tuple) else [value]


def shape_of(value):
    return tuple(shape_of(part) for part in value) if isinstance(value, tuple) else tuple(value.shape)


@pytest.mark.parametrize("name", CALLS)
def test_values(name):
    results = [
        CALLS[name](t, t.autograd.functional, t.tensor(POINT), t.tensor(VECTOR) + 1, t.tensor(VECTOR))
        for t in (torch, tl)
    ]
    assert shape_of(results[0]) == shape_of(results[1])
    for a, b in zip(*map(flat, results), strict=True):
        assert b.requires_grad == a.requires_grad
        torch.testing.assert_close(torch.tensor(b.detach().numpy()), a.detach())


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_result_is_differentiable(name):
    grads = []
    for t in (torch, tl):
        x = t.tensor(POINT, requires_grad=True)
        args = (t.tensor(VECTOR),) if name in ("vjp", "jvp", "vhp", "hvp") else ()
        fn = (lambda a: a.sin() * a) if name in ("jacobian", "vjp", "jvp") else lambda a: (a.sin() * a * a).sum()
        result = getattr(t.autograd.functional, name)(fn, x, *args, create_graph=True)
        result = result[-1] if isinstance(result, tuple) else result
        (result**2).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(torch.tensor(grads[1].numpy()), grads[0])


@pytest.mark.parametrize(
    "bad",
    [
        lambda f, x: f.jacobian(lambda a: 3, x),
        lambda f, x: f.jacobian(lambda a: a, 3),
        lambda f, x: f.jacobian(lambda a: (a * 0).detach(), x, strict=True),
        lambda f, x: f.jacobian(lambda a, b: a, (x, x), strict=True),
        lambda f, x: f.jacobian(lambda a: a, x, strategy="sideways"),
        lambda f, x: f.hessian(lambda a: a, x),
        lambda f, x: f.vjp(lambda a: a, x),
        lambda f, x: f.vjp(lambda a: a, x, x[0]),
        lambda f, x: f.jvp(lambda a: a, x),
        lambda f, x: f.hvp(lambda a: a.sum(), x, (x, x)),
    ],
)
def test_errors(bad):
    with pytest.raises(Exception) as want:
        bad(torch.autograd.functional, torch.tensor(POINT))
    with pytest.raises(want.type):
        bad(tl.autograd.functional, tl.tensor(POINT))
