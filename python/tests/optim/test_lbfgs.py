"""LBFGS: iterates, evaluation counts and saved state equal PyTorch's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402
import torchlette.optim  # noqa: E402

OPTIONS = {
    "fixed": {"lr": 0.05, "max_iter": 6},
    "history": {"lr": 0.2, "max_iter": 5, "history_size": 3},
    "wolfe": {"lr": 0.5, "max_iter": 6, "line_search_fn": "strong_wolfe"},
    "wolfe_long_first_step": {"lr": 20.0, "max_iter": 5, "line_search_fn": "strong_wolfe"},
    "wolfe_few_evaluations": {"lr": 20.0, "max_iter": 5, "max_eval": 6, "line_search_fn": "strong_wolfe"},
    "tolerances": {
        "lr": 0.5,
        "max_iter": 30,
        "tolerance_grad": 1e-2,
        "tolerance_change": 1e-4,
        "line_search_fn": "strong_wolfe",
    },
    "maximize": {"lr": 0.1, "max_iter": 4, "maximize": True},
}


def problem(t):
    """Return parameters in float64 and Rosenbrock's function of them, negative for ascent by the caller."""
    a = t.nn.Parameter(t.tensor([-1.2, 1.0], dtype=t.float64))
    b = t.nn.Parameter(t.tensor([[0.3]], dtype=t.float64))
    return [a, b], lambda: 2 * (a[1] - a[0] ** 2) ** 2 + (1 - a[0]) ** 2 + ((b - a[1]) ** 2).sum()


def run(t, options, steps, params=None, loss=None, opt=None):
    if opt is None:
        params, loss = problem(t)
        opt = t.optim.LBFGS(params, **options)
    calls, seen = [0], []

    def closure():
        calls[0] += 1
        opt.zero_grad()
        value = -loss() if options.get("maximize") else loss()
        value.backward()
        return value

    for _ in range(steps):
        value = opt.step(closure)
        state = opt.state[params[0]]
        seen.append(
            (
                value.item(),
                calls[0],
                state["n_iter"],
                state["func_evals"],
                [p.detach().reshape(-1).tolist() for p in params],
            )
        )
    return params, loss, opt, seen


def assert_same(want, got):
    for a, b in zip(want, got, strict=True):
        assert b[1:4] == a[1:4]
        assert b[0] == pytest.approx(a[0], rel=1e-7, abs=1e-12)
        for p, q in zip(a[4], b[4], strict=True):
            assert q == pytest.approx(p, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", OPTIONS)
def test_iterates(name):
    assert_same(run(torch, OPTIONS[name], 6)[3], run(tl, OPTIONS[name], 6)[3])


@pytest.mark.parametrize("name", ["fixed", "history", "wolfe"])
def test_state_moves_from_pytorch_and_back(name):
    options = OPTIONS[name]
    params, loss, opt, _ = run(torch, options, 3)
    mine, my_loss = problem(tl)
    for p, q in zip(mine, params, strict=True):
        p.data = tl.tensor(q.detach().numpy())
    my_opt = tl.optim.LBFGS(mine, **options)
    my_opt.load_state_dict(converted(opt.state_dict(), torch.Tensor, lambda v: tl.tensor(v.numpy())))
    want = run(torch, options, 3, params, loss, opt)[3]
    assert_same(want, run(tl, options, 3, mine, my_loss, my_opt)[3])
    back, saved = my_opt.state_dict(), opt.state_dict()
    assert back["param_groups"] == saved["param_groups"]
    assert set(back["state"][0]) == set(saved["state"][0])
    theirs, their_loss = problem(torch)
    for p, q in zip(theirs, params, strict=True):
        p.data = q.detach().clone()
    fresh = torch.optim.LBFGS(theirs, **options)
    fresh.load_state_dict(converted(back, tl.Tensor, lambda v: torch.tensor(v.numpy())))
    assert_same(run(torch, options, 2, params, loss, opt)[3], run(torch, options, 2, theirs, their_loss, fresh)[3])


def converted(value, kind, convert):
    if isinstance(value, kind):
        return convert(value.detach())
    if isinstance(value, dict):
        return {k: converted(v, kind, convert) for k, v in value.items()}
    return [converted(v, kind, convert) for v in value] if isinstance(value, list) else value


def test_errors():
    params, loss = problem(tl)
    with pytest.raises(TypeError):
        tl.optim.LBFGS(params).step()
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        run(tl, {"line_search_fn": "golden"}, 1)
