"""Steps of optimizers with differentiable=True: values and gradients are PyTorch's, through one step and several."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torchlette.torch as facade  # noqa: E402

KINDS = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"maximize": True},
    "RMSprop": {"momentum": 0.9, "centered": True, "weight_decay": 0.1, "maximize": True},
    "Adadelta": {"weight_decay": 0.1},
    "Adagrad": {"weight_decay": 0.1, "lr_decay": 0.01},
    "Adamax": {"weight_decay": 0.1},
    "ASGD": {"weight_decay": 0.1},
    "NAdam": {"decoupled_weight_decay": True, "weight_decay": 0.1},
    "RAdam": {"decoupled_weight_decay": True, "weight_decay": 0.1},
    "Rprop": {},
}
STATES = {
    "SGD": ("momentum_buffer",),
    "Adam": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "AdamW": ("exp_avg", "exp_avg_sq"),
    "RMSprop": ("square_avg", "momentum_buffer"),
    "Adadelta": ("square_avg", "acc_delta"),
    "Adagrad": ("sum",),
    "Adamax": ("exp_avg", "exp_inf"),
    "ASGD": ("ax",),
    "NAdam": ("exp_avg", "exp_avg_sq", "mu_product"),
    "RAdam": ("exp_avg", "exp_avg_sq"),
    "Rprop": ("prev", "step_size"),
}
NUMBERS = {"step": 10.0, "eta": 0.9, "mu": 1.0, "grad_avg": 0.01}


def inputs(lib, kind: str):
    """The parameter, its gradient and the differentiable state: leaves."""
    draw = torch.Generator().manual_seed(3)
    made = []
    for name in ("p", "grad", *STATES[kind]):
        shape = () if name == "mu_product" else (6,)
        value = torch.rand(shape, generator=draw, dtype=torch.float64) + 0.2
        made.append(lib.tensor(value.tolist(), dtype=lib.float64, requires_grad=True))
    return made


def state_of(lib, kind: str, given):
    state = {name: v.clone() for name, v in zip(STATES[kind], given, strict=True)}
    if kind != "SGD":
        state["step"] = lib.tensor(NUMBERS["step"], dtype=lib.float64)
    if kind == "ASGD":
        state |= {name: lib.tensor(NUMBERS[name], dtype=lib.float64) for name in ("eta", "mu")}
    if kind == "RMSprop":
        state["grad_avg"] = lib.full((6,), NUMBERS["grad_avg"], dtype=lib.float64)
    return state


def stepped(lib, kind: str, given, steps=1, **options):
    """The parameter and the state after some steps from a given state."""
    p = given[0].clone()
    opt = getattr(lib.optim, kind)([p], **{"lr": 0.3, **KINDS[kind], **options}, differentiable=True)
    opt.state[p].update(state_of(lib, kind, given[2:]))
    for _ in range(steps):
        p.grad = given[1]
        opt.step()
    return [p, *(opt.state[p][name] for name in STATES[kind])]


def gradients(lib, results, leaves):
    loss = sum((v * (i + 1)).sum() + (v * v).sum() for i, v in enumerate(results))
    return lib.autograd.grad(loss, leaves, allow_unused=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_has_pytorchs_values_and_gradients(kind):
    sides = []
    for lib in (torch, facade):
        given = inputs(lib, kind)
        results = stepped(lib, kind, given)
        sides.append((results, gradients(lib, results, given)))
    for want, have in zip(*sides, strict=True):
        for w, h in zip(want, have, strict=True):
            if w is not None:
                torch.testing.assert_close(torch.tensor(h.tolist(), dtype=torch.float64), w.detach())
            else:
                assert h is None or not h.any()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_flow_through_three_steps(kind):
    given = inputs(facade, kind)
    assert facade.autograd.gradcheck(lambda *given: tuple(stepped(facade, kind, given, 3)), given)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_a_learning_rate_gets_its_gradient(kind):
    found = []
    for lib in (torch, facade):
        given, lr = inputs(lib, kind), lib.tensor(0.3, dtype=lib.float64, requires_grad=True)
        options = {"lr": lr, "capturable": True} if kind != "SGD" and lib is facade else {"lr": lr}
        (grad,) = lib.autograd.grad(stepped(lib, kind, given, **options)[0].sum(), [lr])
        found.append(grad.item())
    assert found[0] == pytest.approx(found[1], rel=1e-7)


def test_an_inner_loop_learns_its_rate():
    """The gradient of the loss after four steps, with respect to their rate, is what differences say."""

    def loss_after(lr):
        w = facade.tensor([1.0, -2.0], dtype=facade.float64, requires_grad=True).clone()
        opt = facade.optim.SGD([w], lr=lr, differentiable=True)
        for _ in range(4):
            (w.grad,) = facade.autograd.grad((w**4).sum(), [w], create_graph=True)
            opt.step()
        return (w**2).sum()

    lr = facade.tensor(0.01, dtype=facade.float64, requires_grad=True)
    (grad,) = facade.autograd.grad(loss_after(lr), [lr])
    step = 1e-6
    assert grad.item() == pytest.approx(
        (loss_after(0.01 + step) - loss_after(0.01 - step)).item() / (2 * step), rel=1e-5
    )


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_infinite_parameters_stay_without_decay(kind):
    found = []
    for lib in (torch, facade):
        p = lib.tensor([float("inf"), 1.0], requires_grad=True).clone()
        p.grad = lib.ones(2)
        getattr(lib.optim, kind)([p], lr=0.1, differentiable=True).step()
        found.append(p.tolist())
    assert found[0] == pytest.approx(found[1])


def test_a_leaf_cannot_be_stepped():
    p = facade.ones(2, requires_grad=True)
    p.grad = facade.ones(2)
    with pytest.raises(RuntimeError, match="leaf"):
        facade.optim.SGD([p], lr=0.1, differentiable=True).step()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps_are_not_recorded(kind):
    for lib in (torch, facade):
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            getattr(lib.optim, kind)([lib.ones(2, requires_grad=True)], fused=True, differentiable=True)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "NAdam"])
def test_complex_parameters_are_stepped(kind):
    sides = []
    for lib in (torch, facade):
        leaves = [lib.tensor([1 + 2j, -0.5j], requires_grad=True), lib.tensor([0.3 - 1j, 2 + 1j], requires_grad=True)]
        p = leaves[0].clone()
        opt = getattr(lib.optim, kind)([p], **{"lr": 0.3, **KINDS[kind]}, differentiable=True)
        for _ in range(2 if kind == "SGD" else 1):  # PyTorch's others write what they have saved
            p.grad = leaves[1]
            opt.step()
        sides.append([p, *lib.autograd.grad((p * p.conj()).real.sum(), leaves)])
    for w, h in zip(*sides, strict=True):
        torch.testing.assert_close(torch.tensor(h.tolist()), w.detach())
