"""Loops and conditions in programs: saved, loaded, run in sessions, differentiated, at all sizes."""

import json
import zipfile

import numpy as np
import pytest

import torchlette as tl
import torchlette.nn.functional as F
from torchlette import InferenceSession, TrainingSession, lax, nn
from torchlette.export import Dim, export, export_training, load, save


class Recurrent(nn.Module):
    """A scan over time whose body reads parameters from outside and draws a constant of host data."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.RNNCell(3, 4), nn.Linear(4, 2)

    def forward(self, x):  # [time, batch, 3]
        def step(h, row):
            h = self.cell(row, h) * tl.tensor(0.5)
            return h, (h.sum(1), row[:, 0])

        last, (sums, firsts) = lax.scan(step, x.new_zeros(x.shape[1], 4), x)
        return self.out(last), sums, firsts


def reversed_scan(x):
    return lax.scan(lambda c, r: (c * 0.5 + r, c), tl.zeros(x.shape[1]), x, reverse=True)


def halved(x):
    return lax.while_loop(lambda c: c[0].sum() > 1, lambda c: (c[0] / 2, c[1] + 1), (x.abs(), tl.tensor(0)))


def counted(x):
    return lax.fori_loop(0, x.shape[0], lambda i, v: v + x[0] * i, tl.zeros(x.shape[1]))


def chosen(x):
    return lax.cond(x.sum() > 0, lambda v: (v.exp(), v + 1), lambda v: (v * 3, v), x)


def torch_chosen(x):
    return tl.cond(x.sum() > 0, lambda v: v.exp(), lambda v: v * 3, (x,))


def switched(x):
    return lax.switch(x.argmax() % 3, [lambda v: v, lambda v: v * 2, lambda v: v.cumsum(0)], x)


def nested(x):
    def outer(c, row):
        inner = lax.fori_loop(0, 3, lambda i, v: v * 0.5 + row + i, c)
        return lax.cond(inner.sum() > 0, lambda v: v, lambda v: -v, inner), inner.max()

    return lax.scan(outer, x[0], x)


def inplace(x):
    def step(c, row):
        y = row.clone()
        y[0] = 7
        y.mul_(2)
        return c + y, y[:2]

    return lax.scan(step, tl.zeros(x.shape[1]), x)


FUNCTIONS = [reversed_scan, halved, counted, chosen, torch_chosen, switched, nested, inplace]


def leaves(result):
    return [result] if isinstance(result, tl.Tensor) else [t for part in result for t in leaves(part)]


def data(n, k=3, sign=1):
    return tl.from_numpy((np.sin(np.arange(n * k, dtype="f4").reshape(n, k)) + 0.1) * sign).to("cpu")


@pytest.fixture(autouse=True)
def _on_cpu():
    with tl.device("cpu"):
        yield


def differentiable(fn):
    return fn not in (halved, switched)


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_loaded_program_gives_values_and_gradients_of_the_function(fn, tmp_path):
    program = export(fn, (data(4),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
    assert "engine.loop" in str(program)
    assert "empty" not in str(program), "the tensors on which bodies are traced are no steps"
    save(program, tmp_path / "f.tlp")
    module = load(tmp_path / "f.tlp").module()
    session = InferenceSession(tmp_path / "f.tlp", threads=1)
    name = session.get_inputs()[0].name
    for n, sign in ((4, 1), (7, -1), (1, 1)):
        given = [data(n, sign=sign).requires_grad_() for _ in range(2)]
        want, got = leaves(fn(given[0])), leaves(module(given[1]))
        tl.testing.assert_close(got, want)
        found = session.run(None, {name: given[0].detach().numpy()})
        tl.testing.assert_close([tl.from_numpy(a) for a in found], [t.detach() for t in want])
        if differentiable(fn):
            for results in (want, got):
                sum((t * t).sum() for t in results if t.requires_grad).backward()
            tl.testing.assert_close(given[1].grad, given[0].grad)


def test_a_recurrent_module_runs_at_all_lengths_and_trains(tmp_path):
    model = Recurrent()
    x = data(5, 6).view(5, 2, 3)
    save(export(model, (x,), dynamic_shapes=({0: Dim("time", max=50), 1: Dim("batch")},)), tmp_path / "rnn.tlp")
    module, session = load(tmp_path / "rnn.tlp").module(), InferenceSession(tmp_path / "rnn.tlp")
    for time, batch in ((5, 2), (9, 1), (1, 4), (0, 2)):
        x = data(time, batch * 3).view(time, batch, 3)
        want = module(x)
        if time:
            tl.testing.assert_close(want, model(x))
        for a, b in zip(session.run(None, {"x": x.numpy()}), want, strict=True):
            tl.testing.assert_close(tl.from_numpy(a), b.detach())
    model(x := data(5, 6).view(5, 2, 3))[0].sum().backward()
    module(x)[0].sum().backward()
    for (name, p), (_, q) in zip(model.named_parameters(), module.named_parameters(), strict=True):
        tl.testing.assert_close(p.grad, q.grad, msg=name)


def test_training_through_a_loop_has_the_bits_of_the_plain_steps(tmp_path):
    models = [Recurrent(), Recurrent()]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [tl.optim.AdamW(m.parameters(), lr=0.01) for m in models]
    x, y = data(5, 6).view(5, 2, 3), tl.tensor([0, 1])

    def loss_of(model, x, y):
        return F.cross_entropy(model(x)[0], y)

    save(export_training(models[0], loss_of, optimizers[0], (x, y)), tmp_path / "train.tlp")
    session = TrainingSession(tmp_path / "train.tlp")
    for _ in range(4):
        optimizers[1].zero_grad()
        loss = loss_of(models[1], x, y)
        loss.backward()
        optimizers[1].step()
        assert session.step(x, y).item() == loss.item()
    state = session.state_dict()
    for name, t in models[1].state_dict().items():
        assert np.array_equal(state[name].numpy(), t.numpy()), name


def test_loops_of_no_known_form_are_refused():
    x = data(3)
    with pytest.raises(NotImplementedError, match="a walk of autograd in the body of a loop"):
        export(lambda x: lax.scan(lambda c, r: (c + tl.func.grad(lambda v: (v * v).sum())(r), None), x[0], x), (x,))
    leaked = []

    def leaks(x):
        lax.scan(lambda c, r: (leaked.append(c * 2) or c, None), x[0], x)
        return leaked[-1] + 1

    with pytest.raises((NotImplementedError, RuntimeError)):
        export(leaks, (x,))
    assert tl.equal(export(reversed_scan, (x,)).module()(x)[0], reversed_scan(x)[0]), "the library goes on"


def changed(path, out, change):
    """Copy a program with another text."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.namelist():
            text = old.read(entry)
            if entry == "program.json":
                spec = json.loads(text)
                change(next(s for s in spec["functions"]["forward"]["steps"] if s["op"] == "engine.loop"))
                text = json.dumps(spec)
            new.writestr(entry, text)
    return out


WRONG = {
    "no body": lambda s: s.pop("body"),
    "a later value": lambda s: s["body"]["results"].__setitem__(0, "%999"),
    "fewer results": lambda s: s["body"].update(results=[]),
    "more inputs": lambda s: s["body"]["inputs"].append({"dtype": "float32", "shape": []}),
    "a step of no operator": lambda s: s["body"]["steps"][0].update(op="nothing"),
    "a body in another step": lambda s: s["body"]["steps"][0].update(body={"inputs": [], "steps": [], "results": []}),
    "a walk": lambda s: s["body"]["steps"][0].update(op="engine.backward"),
    "an end with elements": lambda s: s["args"].update(ends=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_bodies_are_refused_when_a_file_is_loaded(name, tmp_path):
    save(export(reversed_scan, (data(3),)), tmp_path / "a.tlp")
    path = changed(tmp_path / "a.tlp", tmp_path / "b.tlp", WRONG[name])
    with pytest.raises((ValueError, NotImplementedError), match="saved program"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["args"].update(length=-1),
        lambda s: s["args"].update(length=1 << 40),
        lambda s: s["args"].update(length=2),
        lambda s: s["body"]["results"].reverse() or s["body"]["results"].__setitem__(0, s["args"]["xs"][0]),
    ],
    ids=["negative", "huge", "other than the rows", "a carry of another shape"],
)
def test_wrong_loops_are_refused_when_they_run(change, tmp_path):
    save(export(reversed_scan, (data(3),)), tmp_path / "a.tlp")
    module = load(changed(tmp_path / "a.tlp", tmp_path / "b.tlp", change)).module()
    for _ in range(2):
        with pytest.raises((ValueError, TypeError, RuntimeError), match="engine.loop"):
            module(data(3))
    assert (data(3) + 1).sum().item(), "the library goes on"
