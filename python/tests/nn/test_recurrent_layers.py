"""Recurrent modules and cells: output, gradients, keys, repr and errors are PyTorch's, packed sequences too."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from module_oracle import check_call, ours, pair, theirs  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402


def x(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


MODULES = {
    "rnn": (lambda nn: nn.RNN(3, 5), lambda: [x(4, 2, 3)]),
    "rnn_relu": (lambda nn: nn.RNN(3, 5, 2, nonlinearity="relu", batch_first=True), lambda: [x(2, 4, 3), x(2, 2, 5)]),
    "rnn_both_ways": (lambda nn: nn.RNN(3, 5, 2, bias=False, bidirectional=True), lambda: [x(4, 2, 3), x(4, 2, 5)]),
    "gru": (lambda nn: nn.GRU(3, 5, num_layers=2), lambda: [x(4, 2, 3)]),
    "gru_unbatched": (lambda nn: nn.GRU(3, 5, bidirectional=True), lambda: [x(4, 3), x(2, 5)]),
    "gru_dropout_eval": (lambda nn: nn.GRU(3, 5, 2, dropout=0.5, batch_first=True).eval(), lambda: [x(2, 4, 3)]),
    "rnn_cell": (lambda nn: nn.RNNCell(3, 5), lambda: [x(2, 3)]),
    "rnn_cell_relu": (lambda nn: nn.RNNCell(3, 5, bias=False, nonlinearity="relu"), lambda: [x(2, 3), x(2, 5)]),
    "gru_cell": (lambda nn: nn.GRUCell(3, 5), lambda: [x(2, 3), x(2, 5)]),
    "gru_cell_unbatched": (lambda nn: nn.GRUCell(3, 5), lambda: [x(3)]),
    "lstm_cell": (lambda nn: nn.LSTMCell(3, 5), lambda: [x(2, 3)]),
}


@pytest.mark.parametrize("name", MODULES)
def test_output_and_gradients(name):
    make, inputs = MODULES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = pair(make)
        check_call(expected, got, *inputs())


@pytest.mark.parametrize("name", MODULES)
def test_repr_and_keys(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = pair(MODULES[name][0])
    assert list(got.state_dict()) == list(expected.state_dict())
    assert repr(got) == repr(expected)


LSTMS = {
    "plain": {},
    "layers": {"num_layers": 2, "bidirectional": True},
    "projection": {"num_layers": 2, "proj_size": 2, "batch_first": True},
    "projection_both_ways": {"proj_size": 2, "bidirectional": True, "bias": False},
}


def flat(result):
    out, (h, c) = result
    return [out.data if hasattr(out, "batch_sizes") else out, h, c]


def compare_results(expected, got, want, have, *leaves):
    """Compare results, and the gradients of a sum of their squares by parameters and inputs."""
    for w, h in zip(want, have, strict=True):
        torch.testing.assert_close(theirs(h), w.detach())
    sum((w * w).sum() for w in want).backward()
    sum((h * h).sum() for h in have[1:]).add((have[0] * have[0]).sum()).backward()
    for p, q in zip(expected.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(theirs(q.grad), p.grad)
    for leaf, mine in leaves:
        torch.testing.assert_close(theirs(mine.grad), leaf.grad)


@pytest.mark.parametrize("name", LSTMS)
@pytest.mark.parametrize("given", [False, True])
def test_lstm(name, given):
    options = LSTMS[name]
    expected, got = pair(lambda nn: nn.LSTM(3, 5, **options))
    assert repr(got) == repr(expected)
    assert list(got.state_dict()) == list(expected.state_dict())
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    value = x(2, 4, 3) if options.get("batch_first") else x(4, 2, 3)
    mine = ours(value)
    state = (x(layers, 2, options.get("proj_size", 5)), x(layers, 2, 5, seed=2)) if given else None
    want = flat(expected(value, state))
    have = flat(got(mine, None if state is None else tuple(map(ours, state))))
    compare_results(expected, got, want, have, (value, mine))


@pytest.mark.parametrize("name", LSTMS)
@pytest.mark.parametrize("lengths", [[4, 2, 1], [4, 4, 4], [2, 4, 3]])
def test_packed_lstm(name, lengths):
    options = {k: v for k, v in LSTMS[name].items() if k != "batch_first"}
    expected, got = pair(lambda nn: nn.LSTM(3, 5, **options))
    value = x(4, 3, 3)
    mine = ours(value)
    packed = torch.nn.utils.rnn.pack_padded_sequence(value, torch.tensor(lengths), enforce_sorted=False)
    my_packed = tl.nn.utils.rnn.pack_padded_sequence(mine, lengths, enforce_sorted=False)
    for a, b in zip(packed, my_packed, strict=True):
        torch.testing.assert_close(theirs(b), a.detach())
    want, have = expected(packed), got(my_packed)
    padded, counts = torch.nn.utils.rnn.pad_packed_sequence(
        want[0], batch_first=True, padding_value=-1.0, total_length=6
    )
    my_padded, my_counts = tl.nn.utils.rnn.pad_packed_sequence(
        have[0], batch_first=True, padding_value=-1.0, total_length=6
    )
    torch.testing.assert_close(theirs(my_padded), padded.detach())
    assert my_counts.tolist() == counts.tolist()
    compare_results(expected, got, flat(want), flat(have), (value, mine))


@pytest.mark.parametrize(
    "bad",
    [
        lambda t: t.nn.LSTM(3, 5)(t.ones(2, 2, 4)),
        lambda t: t.nn.LSTM(3, 5)(t.ones(1, 2, 2, 3)),
        lambda t: t.nn.GRU(3, 5)(t.ones(2, 2, 3), t.ones(1, 3, 5)),
        lambda t: t.nn.GRU(3, 5)(t.ones(2, 2, 3), t.ones(2, 5)),
        lambda t: t.nn.GRU(3, 5, proj_size=2),
        lambda t: t.nn.LSTM(3, 5, proj_size=5),
        lambda t: t.nn.LSTM(3, 5, dropout=2.0),
        lambda t: t.nn.RNN(3, 5, nonlinearity="sin"),
        lambda t: t.nn.RNN(3, 5, num_layers=0),
        lambda t: t.nn.GRUCell(3, 5)(t.ones(1, 1, 3)),
    ],
)
def test_errors(bad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as want:
            bad(torch)
        with pytest.raises(want.type):
            bad(tl)


def test_dropout_between_layers_trains():
    tl.manual_seed(0)
    net = tl.nn.LSTM(3, 16, 2, dropout=0.5)
    value = tl.ones(2, 4, 3)
    assert not tl.equal(net(value)[0], net(value)[0])
    net.eval()
    assert tl.equal(net(value)[0], net(value)[0])


def test_packed_lstm_on_each_device(device):
    net = tl.nn.LSTM(3, 4, bidirectional=True)
    value = tl.linspace(-1, 1, 24).reshape(4, 2, 3)
    here = []
    for place in ("cpu", device):
        net = net.to(place)
        packed = tl.nn.utils.rnn.pack_padded_sequence(value.to(place), [2, 4], enforce_sorted=False)
        out, _ = net(packed)
        padded, _ = tl.nn.utils.rnn.pad_packed_sequence(out)
        here.append(padded.detach().cpu().numpy())
    torch.testing.assert_close(torch.tensor(here[1]), torch.tensor(here[0]))
