"""Recurrent layers and cells as primitives: values, gradients and second gradients against PyTorch's on each device,
and the kernels that run.
"""

from __future__ import annotations

import collections
import gc
import random
import warnings

import pytest

torch = pytest.importorskip("torch")

from module_oracle import copy_parameters, theirs  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402
from torchlette.testing.counters import stats  # noqa: E402

KINDS = {
    "lstm": lambda nn, *a, **k: nn.LSTM(*a, **k),
    "gru": lambda nn, *a, **k: nn.GRU(*a, **k),
    "rnn_tanh": lambda nn, *a, **k: nn.RNN(*a, **k),
    "rnn_relu": lambda nn, *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}
CELLS = {
    "lstm": lambda nn, *a, **k: nn.LSTMCell(*a, **k),
    "gru": lambda nn, *a, **k: nn.GRUCell(*a, **k),
    "rnn_tanh": lambda nn, *a, **k: nn.RNNCell(*a, **k),
    "rnn_relu": lambda nn, *a, **k: nn.RNNCell(*a, nonlinearity="relu", **k),
}


def normal(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def ours(x: torch.Tensor, device: str = "cpu") -> tl.Tensor:
    """Return torchlette's copy of the leaf; NumPy has no bfloat16."""
    if x.dtype == torch.bfloat16:
        return tl.tensor(x.detach().float().numpy(), device=device).to(tl.bfloat16).requires_grad_(x.requires_grad)
    return tl.tensor(x.detach().numpy(), device=device).requires_grad_(x.requires_grad)


def both(make, device: str = "cpu", dtype: torch.dtype = torch.float32):
    """Make a module under both libraries, with the same parameters."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = make(torch.nn).to(dtype), make(tl.nn)
        got = got.to(getattr(tl, str(dtype).removeprefix("torch.")))
    if dtype == torch.bfloat16:
        got.load_state_dict({name: ours(value) for name, value in expected.state_dict().items()})
    else:
        copy_parameters(expected, got)
    return expected, got.to(device)


def flat(result) -> list:
    """Return the tensors of a result, in order."""
    if isinstance(result, tuple):
        return [t for part in result for t in flat(part)]
    return [result.data] if hasattr(result, "batch_sizes") else [result]


def close(have, want: torch.Tensor) -> None:
    """Compare at the defaults of assert_close."""
    torch.testing.assert_close(theirs(have), want.detach())


def compare(expected, got, inputs, device: str, which=None) -> None:
    """Compare the results of a call, and the gradients by inputs and parameters of uneven sums of some results."""
    mine = [tuple(ours(p, device) for p in x) if isinstance(x, tuple) else ours(x, device) for x in inputs]
    want, have = flat(expected(*inputs)), flat(got(*mine))
    assert len(want) == len(have)
    for w, h in zip(want, have, strict=True):
        close(h, w)
    chosen = [i for i in range(len(want)) if which is None or i in which]
    cots = [torch.linspace(-1, 2, want[i].numel(), dtype=want[i].dtype).reshape(want[i].shape) for i in chosen]
    torch.autograd.backward([want[i] for i in chosen], cots)
    tl.autograd.backward([have[i] for i in chosen], [ours(c, device) for c in cots])
    leaves = [(p, q) for p, q in zip(expected.parameters(), got.parameters(), strict=True)]
    leaves += list(zip(flat(tuple(inputs)), flat(tuple(mine)), strict=True))
    for w, h in leaves:
        assert (w.grad is None) == (h.grad is None)
        if w.grad is not None:
            close(h.grad, w.grad)


def draw(seed: int, kind: str):
    """Return the options and inputs of a layer of random shape."""
    r = random.Random(seed * 31 + len(kind))
    options = {
        "num_layers": r.choice([1, 1, 2]),
        "bidirectional": r.random() < 0.4,
        "bias": r.random() < 0.7,
        "batch_first": r.random() < 0.4,
    }
    steps, batch, size, hidden = r.randint(1, 7), r.choice([1, 2, 3, 8]), r.randint(1, 9), r.choice([1, 3, 4, 7, 8, 16])
    layers = options["num_layers"] * (1 + options["bidirectional"])
    x = normal(*((batch, steps) if options["batch_first"] else (steps, batch)), size, seed=seed).requires_grad_(
        r.random() < 0.8
    )
    given = r.random() < 0.6
    state = [normal(layers, batch, hidden, seed=seed + 1 + i).requires_grad_(r.random() < 0.8) for i in range(2)]
    first = (tuple(state),) if kind == "lstm" else (state[0],)
    return (size, hidden), options, [x, *(first if given else ())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_layers_of_random_shapes(device: str, kind: str, seed: int) -> None:
    shape, options, inputs = draw(seed, kind)
    expected, got = both(lambda nn: KINDS[kind](nn, *shape, **options), device)
    compare(expected, got, inputs, device)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_in_double_precision(kind: str) -> None:
    expected, got = both(lambda nn: KINDS[kind](nn, 5, 6, 2, bidirectional=True), dtype=torch.float64)
    compare(expected, got, [normal(4, 3, 5, dtype=torch.float64).requires_grad_()], "cpu")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_layers_are_as_near_to_the_double_result_as_pytorchs(device: str, kind: str, dtype: torch.dtype) -> None:
    if device == "wgpu" and dtype == torch.bfloat16:
        pytest.skip("no bfloat16 on this device")
    expected, got = both(lambda nn: KINDS[kind](nn, 5, 8), device, dtype)
    exact = both(lambda nn: KINDS[kind](nn, 5, 8))[0].double()
    exact.load_state_dict({name: p.double() for name, p in expected.state_dict().items()})
    x = normal(6, 4, 5, dtype=dtype)
    results = []
    for module, value in ((exact, x.double()), (expected, x), (got, ours(x, device))):
        y = flat(module(value))[0]
        (y * y).sum().backward()
        results.append([theirs(t.float()).double() for t in (y, *(p.grad for p in module.parameters()))])
    for truth, reference, mine in zip(*results, strict=True):
        assert (mine - truth).abs().max() <= 2 * (reference - truth).abs().max() + 1e-6


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 4, 4), (7, 1, 1), (3, 8, 16)])
def test_cells(device: str, kind: str, shape: tuple[int, int, int]) -> None:
    batch, size, hidden = shape
    expected, got = both(lambda nn: CELLS[kind](nn, size, hidden), device)
    state = tuple(normal(batch, hidden, seed=i).requires_grad_() for i in range(2 if kind == "lstm" else 1))
    for which in ((0,), (1,), None) if kind == "lstm" else (None,):
        expected.zero_grad()
        got.zero_grad()
        leaves = tuple(s.detach().requires_grad_() for s in state)
        compare(
            expected,
            got,
            [normal(batch, size, seed=9).requires_grad_(), leaves if kind == "lstm" else leaves[0]],
            device,
            which,
        )


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 2)])
def test_gradients_come_through_each_result_of_an_lstm(device: str, which: tuple[int, ...]) -> None:
    expected, got = both(lambda nn: nn.LSTM(3, 5, bidirectional=True), device)
    compare(expected, got, [normal(4, 2, 3).requires_grad_()], device, which)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[4, 2, 1], [3, 3, 3], [1, 4, 4]])
def test_packed_sequences(device: str, kind: str, lengths: list[int]) -> None:
    expected, got = both(lambda nn: KINDS[kind](nn, 3, 5, 2, bidirectional=True), device)
    value = normal(4, 3, 3).requires_grad_()
    mine = ours(value, device)
    want = expected(torch.nn.utils.rnn.pack_padded_sequence(value, torch.tensor(lengths), enforce_sorted=False))
    have = got(tl.nn.utils.rnn.pack_padded_sequence(mine, lengths, enforce_sorted=False))
    for w, h in zip(flat(want), flat(have), strict=True):
        close(h, w)
    sum((w * w).sum() for w in flat(want)).backward()
    total = tl.zeros((), device=device)
    for h in flat(have):
        total = total + (h * h).sum()
    total.backward()
    close(mine.grad, value.grad)
    for p, q in zip(expected.parameters(), got.parameters(), strict=True):
        close(q.grad, p.grad)


def penalty(lib, module, inputs):
    """Return the squares of the gradients of a result by inputs and parameters."""
    loss = sum((y * y).mean() for y in flat(module(*inputs)))
    leaves = [*flat(tuple(inputs)), *module.parameters()]
    return sum((g * g).sum() for g in lib.autograd.grad(loss, leaves, create_graph=True)), leaves


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("module", ["layer", "cell"])
def test_second_derivatives(device: str, kind: str, module: str) -> None:
    if module == "layer":
        expected, got = both(lambda nn: KINDS[kind](nn, 3, 4, bidirectional=True), device)
        inputs = [normal(3, 2, 3).requires_grad_()]
    else:
        expected, got = both(lambda nn: CELLS[kind](nn, 3, 4), device)
        state = [normal(2, 4, seed=i).requires_grad_() for i in (2, 3)]
        inputs = [normal(2, 3).requires_grad_(), tuple(state) if kind == "lstm" else state[0]]
    mine = [tuple(ours(p, device) for p in x) if isinstance(x, tuple) else ours(x, device) for x in inputs]
    (want, leaves), (have, my_leaves) = penalty(torch, expected, inputs), penalty(tl, got, mine)
    close(have, want)
    for w, h in zip(torch.autograd.grad(want, leaves), tl.autograd.grad(have, my_leaves), strict=True):
        close(h, w)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_third_derivative(kind: str) -> None:
    expected, got = both(lambda nn: KINDS[kind](nn, 2, 3), dtype=torch.float64)
    x = normal(3, 2, 2, dtype=torch.float64).requires_grad_()
    values = []
    for lib, module, leaf in ((torch, expected, x), (tl, got, ours(x))):
        y = (module(leaf)[0] ** 2).sum()
        for _ in range(2):
            (g,) = lib.autograd.grad(y, leaf, create_graph=True)
            y = (g**2).sum()
        values.append(lib.autograd.grad(y, leaf)[0])
    close(values[1], values[0])


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_history_the_values_are_the_same(device: str, kind: str) -> None:
    _, got = both(lambda nn: KINDS[kind](nn, 3, 8, 2, bidirectional=True), device)
    x = ours(normal(5, 3, 3), device)
    with_history = [t.detach() for t in flat(got(x))]
    with tl.no_grad():
        without = flat(got(x))
    for a, b in zip(with_history, without, strict=True):
        assert tl.equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_history_no_gates_and_no_states_are_kept(kind: str) -> None:
    steps, batch, hidden = 64, 8, 64
    layer = KINDS[kind](tl.nn, 8, hidden)
    x = tl.ones(steps, batch, 8)
    gates = layer.weight_ih_l0.shape[0] // hidden
    with tl.no_grad():
        layer(x)[0].sum().item()
        gc.collect()
        tl._C._set_option("reset_peak", "")
        live = stats()["live_bytes"]
        layer(x)[0].sum().item()
    states = steps * batch * hidden * 4
    assert stats()["peak_bytes"] - live < (1 + gates + 0.5) * states  # what it gives, what it reads, and a few states


def test_results_may_be_written_to() -> None:
    """As in PyTorch's composite layers. PyTorch's oneDNN LSTM saves its output and raises; ours saves no output."""
    for kind in ("gru", "rnn_tanh"):
        expected, got = both(lambda nn, kind=kind: KINDS[kind](nn, 3, 5))
        x = normal(4, 2, 3).requires_grad_()
        mine = ours(x)
        for module, leaf in ((expected, x), (got, mine)):
            out, last = module(leaf)
            out.mul_(2)
            last.mul_(3)
            (out.sum() + last.sum()).backward()
        close(mine.grad, x.grad)
    lstm = tl.nn.LSTM(3, 5)
    out, (h, c) = lstm(ours(normal(4, 2, 3)))
    h.mul_(2)
    c.zero_()
    (out.mul_(2).sum() + h.sum() + c.sum()).backward()


def test_a_cells_new_states_may_be_masked_in_place() -> None:
    expected, got = both(lambda nn: nn.LSTMCell(3, 5))
    for lib, module in ((torch, expected), (tl, got)):
        x = normal(2, 3) if lib is torch else ours(normal(2, 3))
        h, c = module(x)
        h.mul_(2)
        c.mul_(3)
        h, c = module(x, (h, c))
        (h.sum() + c.sum()).backward()
    for p, q in zip(expected.parameters(), got.parameters(), strict=True):
        close(q.grad, p.grad)


@pytest.mark.parametrize("kind", KINDS)
def test_no_steps_are_an_error_and_no_sequences_none(kind: str) -> None:
    expected, got = both(lambda nn: KINDS[kind](nn, 3, 5))
    for module, lib in ((expected, torch), (got, tl)):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
            module(lib.zeros(0, 2, 3))
    got.zero_grad()
    y = got(tl.zeros(4, 0, 3))[0]
    assert tuple(y.shape) == (4, 0, 5)
    y.sum().backward()
    assert all(p.grad is not None and not p.grad.any().item() for p in got.parameters())


def test_a_state_of_another_batch_is_an_error() -> None:
    for kind in CELLS:
        expected, got = both(lambda nn, kind=kind: CELLS[kind](nn, 3, 5))
        for module, lib in ((expected, torch), (got, tl)):
            state = lib.zeros(3, 5)
            with pytest.raises(RuntimeError):
                module(lib.zeros(2, 3), (state, state) if kind == "lstm" else state)


@pytest.mark.parametrize("create", [False, True])
def test_the_gradient_of_relu_where_the_state_is_no_number_or_its_cotangent_infinite(device: str, create: bool) -> None:
    expected, got = both(lambda nn: nn.RNNCell(2, 3, nonlinearity="relu"), device)
    for value in (float("nan"), -9.0, 9.0):
        x = torch.full((1, 2), value, requires_grad=True)
        mine = ours(x, device)
        with torch.no_grad():
            expected.weight_ih.fill_(1.0)
        with tl.no_grad():
            got.weight_ih.fill_(1.0)
        cot = torch.tensor([[float("inf"), 1.0, 2.0]])
        (want,) = torch.autograd.grad(expected(x), x, cot, create_graph=create)
        (have,) = tl.autograd.grad(got(mine), mine, ours(cot, device), create_graph=create)
        torch.testing.assert_close(theirs(have), want.detach(), equal_nan=True)


@pytest.mark.parametrize("kind", ["gru", "rnn_tanh"])
def test_autocast_of_composite_layers(kind: str) -> None:
    expected, got = both(lambda nn: KINDS[kind](nn, 3, 8))
    x = normal(5, 2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        want = expected(x)[0]
    with tl.autocast("cpu", tl.bfloat16):
        have = got(ours(x))[0]
    assert str(have.dtype) == str(want.dtype)
    torch.testing.assert_close(theirs(have.float()), want.detach().float(), rtol=2e-2, atol=2e-2)


def ran(t: tl.Tensor) -> collections.Counter[str]:
    """Count the kernels of the plan that made a value, by primitive."""
    t.tolist()
    return collections.Counter(k.get("op") for k in tl.explain(t)["plan"]["kernels"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_one_node_however_long_and_two_kernels_a_step(kind: str) -> None:
    recorded = []
    for steps in (3, 12):
        net = KINDS[kind](tl.nn, 4, 6)
        x = tl.ones(steps, 2, 4)
        tl.mark_step()
        before = tl.stats()["nodes_recorded"]
        out, _ = net(x)
        out.sum().backward()
        recorded.append(tl.stats()["nodes_recorded"] - before)
        kernels = ran(net.weight_hh_l0.grad)
        first = 2 if kind == "lstm" else 1  # states copied in front, and the last cell behind
        assert kernels["recurrence"] == 2 * steps + first + (kind == "lstm")
        cleared = 1 if kind.startswith("rnn") else 2
        assert kernels["recurrence_grad"] == 2 * steps - 1 + cleared
    assert recorded[0] == recorded[1]


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_two_products_and_a_kernel(kind: str) -> None:
    cell = CELLS[kind](tl.nn, 4, 6)
    x, state = tl.ones(2, 4), tl.zeros(2, 6)
    tl.mark_step()
    out = cell(x, (state, state) if kind == "lstm" else state)
    h = out[0] if kind == "lstm" else out
    h.sum().backward()
    kernels = ran(cell.weight_hh.grad)
    assert kernels["cell"] == 1
    assert kernels["cell_grad"] == 1
    assert sum(kernels[name] for name in ("add", "mul", "sub", "tanh", "sigmoid", "relu")) == 0
