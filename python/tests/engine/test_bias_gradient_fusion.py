"""On a GPU the kernel of a weight's gradient also computes the bias's gradient."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import torch

import torchlette

SIZES = ((7, 9, 11), (40, 64, 36), (130, 5, 5), (2, 150, 33))  # tokens, width of the input, width of the output


def sums(t: torchlette.Tensor) -> int:
    """How many kernels of the plan that made a value have sums, alone or among their members."""
    return sum("sum" in k["op"].split("+") for k in torchlette.explain(t)["plan"]["kernels"])


def run(*values: torchlette.Tensor) -> None:
    """Run the programs of all values in one window."""
    torchlette.cat([v.detach().float().flatten() for v in values]).numpy()


def expected(device: str, apart: int, together: int) -> int:
    """The CPU makes all sums apart."""
    return apart if device == "cpu" else together


def twins(device: str, make, seed: int = 0):
    """The same module twice, ours with PyTorch's parameters."""
    torch.manual_seed(seed)
    theirs, mine = make(torch.nn), make(torchlette.nn).to(device)
    with torchlette.no_grad():
        for (_, p), (_, q) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
            p.copy_(oracle.ours(q.detach().numpy(), device))
    return mine, theirs


def assert_gradients_equal(mine, theirs) -> None:
    for (name, p), (_, q) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        if q.grad is None:
            assert p.grad is None, name
        else:
            oracle.assert_equal(p.grad, q.grad)


def train(lib, model, x, scale: float = 1.0) -> None:
    y = model(x)
    (y * y * scale).sum().backward()
    if lib is torchlette:
        torchlette.mark_step()


def inputs(device: str, *shape: int):
    a = np.random.default_rng(1).standard_normal(shape).astype("float32")
    return oracle.ours(a, device), oracle.theirs(a)


@pytest.mark.parametrize("tokens,width,out", SIZES)
@pytest.mark.parametrize("dims", (2, 3))
def test_the_gradient_of_a_bias_comes_with_that_of_the_weights(
    device: str, tokens: int, width: int, out: int, dims: int
) -> None:
    mine, theirs = twins(device, lambda nn: nn.Linear(width, out))
    x, tx = inputs(device, *((tokens, width) if dims == 2 else (3, tokens, width)))
    train(torchlette, mine, x)
    train(torch, theirs, tx)
    assert_gradients_equal(mine, theirs)
    assert sums(mine.bias.grad) == expected(device, 1, 0)


def test_narrow_products_leave_the_sum_to_a_kernel_of_its_own(device: str) -> None:
    mine, theirs = twins(device, lambda nn: nn.Linear(3, 20))
    x, tx = inputs(device, 10, 3)
    train(torchlette, mine, x)
    train(torch, theirs, tx)
    assert_gradients_equal(mine, theirs)
    assert sums(mine.bias.grad) == 1


def test_layers_train_as_in_pytorch(device: str) -> None:
    def make(nn):
        return nn.Sequential(
            nn.Linear(12, 40),
            nn.GELU(),
            nn.Linear(40, 40),
            nn.ReLU(),
            nn.LayerNorm(40),
            nn.Linear(40, 8, bias=False),
            nn.Linear(8, 9),
        )

    mine, theirs = twins(device, make)
    x, tx = inputs(device, 2, 33, 12)
    optimizers = [
        (torchlette, mine, x, torchlette.optim.AdamW(mine.parameters(), lr=1e-3)),
        (torch, theirs, tx, torch.optim.AdamW(theirs.parameters(), lr=1e-3)),
    ]
    for _ in range(3):
        for lib, model, v, optimizer in optimizers:
            optimizer.zero_grad()
            train(lib, model, v)
            optimizer.step()
        assert_gradients_equal(mine, theirs)
    for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
        oracle.assert_equal(p, q)


def test_a_layer_used_twice_and_a_bias_of_two_layers(device: str) -> None:
    def net(lib, x, w, v, b):
        linear = lib.nn.functional.linear
        return linear(linear(linear(x, w, b).sigmoid(), w, b).sigmoid(), v, b)

    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((6, 5, 16), (16, 16), (16, 16), (16,))]
    mine, theirs = (
        [oracle.ours(a, device, requires_grad=True) for a in arrays],
        [oracle.theirs(a, requires_grad=True) for a in arrays],
    )
    train(torchlette, lambda a: net(torchlette, *a), mine)
    train(torch, lambda a: net(torch, *a), theirs)
    for p, q in zip(mine, theirs, strict=True):
        oracle.assert_equal(p.grad, q.grad)
    assert sums(mine[3].grad) == expected(device, 3, 0)


def test_gradients_that_accumulate(device: str) -> None:
    mine, theirs = twins(device, lambda nn: nn.Linear(8, 12))
    x, tx = inputs(device, 20, 8)
    for scale in (1.0, 0.5):
        train(torchlette, mine, x, scale)
        train(torch, theirs, tx, scale)
        assert_gradients_equal(mine, theirs)
    for p in (*mine.parameters(), *theirs.parameters()):
        p.grad.zero_()
    for lib, model, v in ((torchlette, mine, x), (torch, theirs, tx)):
        y = model(v) + model(2 * v)
        (y * y).sum().backward()
        if lib is torchlette:
            torchlette.mark_step()
    assert_gradients_equal(mine, theirs)


@pytest.mark.parametrize("frozen,apart,together", (("weight", 1, 1), ("bias", 0, 0)))
def test_one_of_the_two_is_wanted_alone(device: str, frozen: str, apart: int, together: int) -> None:
    mine, theirs = twins(device, lambda nn: nn.Linear(8, 12))
    for m in (mine, theirs):
        getattr(m, frozen).requires_grad_(False)
    x, tx = inputs(device, 4, 10, 8)
    train(torchlette, mine, x)
    train(torch, theirs, tx)
    assert_gradients_equal(mine, theirs)
    wanted = mine.bias if frozen == "weight" else mine.weight
    assert sums(wanted.grad) == expected(device, apart, together)


def test_weights_that_lie_transposed(device: str) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((31, 10), (10, 24), (24,))]
    mine, theirs = (
        [oracle.ours(a, device, requires_grad=True) for a in arrays],
        [oracle.theirs(a, requires_grad=True) for a in arrays],
    )
    train(torchlette, lambda a: torchlette.addmm(a[2], a[0], a[1]), mine)
    train(torch, lambda a: torch.addmm(a[2], a[0], a[1]), theirs)
    for p, q in zip(mine, theirs, strict=True):
        oracle.assert_equal(p.grad, q.grad)
    assert sums(mine[2].grad) == expected(device, 1, 0)


def test_not_a_number_stays_in_its_columns(device: str) -> None:
    mine, theirs = twins(device, lambda nn: nn.Linear(8, 40))
    x, tx = inputs(device, 50, 8)
    g = np.random.default_rng(4).standard_normal((50, 40)).astype("float32")
    g[49, 1], g[3, 39], g[0, 20] = np.nan, np.inf, -np.inf
    mine(x).backward(oracle.ours(g, device))
    torchlette.mark_step()
    theirs(tx).backward(oracle.theirs(g))
    assert_gradients_equal(mine, theirs)


PROGRAMS = {  # of g [20, 12], x [20, 8] and y [12]; the number of sums that stay kernels of their own
    "after the product": (lambda lib, g, x, y: (g.T @ x, g.sum(0)), 0),
    "of the second operand": (lambda lib, g, x, y: (x.T @ g, g.sum(0)), 0),
    "kept dims, and read again": (lambda lib, g, x, y: (g.T @ x, g.sum(0, keepdim=True) * g), 0),
    "of a product with an activation and a residual": (
        lambda lib, g, x, y: (lib.relu(g.T @ x) + 1, lib.exp(g.sum(0)), g.T @ x + y[:, None]),
        0,
    ),
    "activation of the sum": (lambda lib, g, x, y: (g.T @ x, lib.relu(g.sum(0)) + y), 0),
    "three dims": (lambda lib, g, x, y: (g.T @ x, g.view(4, 5, 12).sum((0, 1))), 0),
    "twice": (lambda lib, g, x, y: (g.T @ x, g.sum(0), g.sum(0) + 1), 1),
    "before the product": (lambda lib, g, x, y: (g.sum(0), g.T @ x), 1),
    "read by the product": (lambda lib, g, x, y: ((g * g.sum(0)).T @ x,), 1),
    "along the rows": (lambda lib, g, x, y: (g.T @ x, g.sum(1)), 1),
    "of everything": (lambda lib, g, x, y: (g.T @ x, g.sum()), 1),
    "of some rows": (lambda lib, g, x, y: (g.T @ x, g[:10].sum(0), g[:10].T @ x[:10]), 1),
    "of some columns": (lambda lib, g, x, y: (g.T @ x, g[:, :6].sum(0)), 1),
    "of other places": (lambda lib, g, x, y: (g[:10].T @ x[:10], g[10:].sum(0)), 1),
    "of a like shape": (lambda lib, g, x, y: (g.view(24, 10).T @ lib.cat((x, x[:4])), g.view(12, 20).sum(0)), 1),
    "the depth is the rows": (lambda lib, g, x, y: (g @ y[:, None].expand(12, 9), g.sum(0)), 1),
    "a batch": (
        lambda lib, g, x, y: (g.view(2, 10, 12).transpose(1, 2) @ x.view(2, 10, 8), g.view(2, 10, 12).sum((0, 1))),
        1,
    ),
    "into what is there": (lambda lib, g, x, y: (y * 2, g.T @ x, y + g[0], y.copy_(g.sum(0))), None),
    "no terms": (lambda lib, g, x, y: (g[:0].T @ x[:0], g[:0].sum(0)), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(device: str, name: str) -> None:
    program, apart = PROGRAMS[name]
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((20, 12), (20, 8), (12,))]
    got = program(torchlette, *(oracle.ours(a, device) + 0 for a in arrays))
    run(*got)
    for a, b in zip(got, program(torch, *(oracle.theirs(a) for a in arrays)), strict=True):
        oracle.assert_equal(a, b)
    if apart is not None and device != "cpu":
        assert sums(got[0]) == apart


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_half_types_are_rounded_once(device: str, dtype: str) -> None:
    rng = np.random.default_rng(6)
    g, x = (oracle.ours(rng.standard_normal(s).astype("float32"), device, dtype=dtype) for s in ((300, 20), (300, 8)))
    product, total = g.T @ x, g.sum(0)
    run(product, total)
    oracle.assert_equal(total, oracle.to_torch(g).float().sum(0).to(oracle.TORCH_DTYPE[dtype]))
    assert sums(product) == expected(device, 1, 0)


def test_sums_do_not_change_from_run_to_run(device: str) -> None:
    g, x = inputs(device, 2000, 16)[0], inputs(device, 2000, 8)[0]
    seen = set()
    for _ in range(3):
        product, total = g.T @ x, g.sum(0)
        run(product, total)
        seen.add(total.numpy().tobytes())
    assert len(seen) == 1
