"""An optimizer's state has PyTorch's entries and types, and step counts are tensors."""

from __future__ import annotations

import copy
import inspect
import io
import json
import pickle

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402
import torchlette.optim  # noqa: E402
from torchlette import _C  # noqa: E402

#: Left out: SparseAdam takes sparse gradients, which do not exist here; LBFGS keeps no step count.
OTHERS = {"Optimizer", "SparseAdam", "LBFGS"}
NAMES = sorted(
    n
    for n, c in vars(torch.optim).items()
    if isinstance(c, type) and issubclass(c, torch.optim.Optimizer) and n not in OTHERS
)
COUNTING = [name for name in NAMES if name not in ("SGD", "Muon")]
FORMS = {"default": {}, "foreach": {"foreach": True}, "single": {"foreach": False}, "fused": {"fused": True}}
CASES = [
    (n, f) for n in NAMES for f in FORMS if set(FORMS[f]) <= set(inspect.signature(getattr(torch.optim, n)).parameters)
]


def step(lib, optimizer, parameters):
    optimizer.zero_grad()
    sum((p * p).sum() for p in parameters).backward()
    optimizer.step()


def trained(lib, name, steps=3, **options):
    parameters = [lib.nn.Parameter(lib.arange(6, dtype=lib.get_default_dtype()).reshape(2, 3) - 2.5) for _ in range(2)]
    optimizer = getattr(lib.optim, name)(parameters, **options)
    for _ in range(steps):
        step(lib, optimizer, parameters)
    return optimizer, parameters


def described(value):
    """Describe a state's value and its elements, for either library."""
    if isinstance(value, (torch.Tensor, tl.Tensor)):
        return str(value.dtype), tuple(value.shape), str(value.device), value.requires_grad, value.is_leaf
    return type(value)


def assert_same_state(wanted, got):
    assert list(got) == list(wanted)
    for number, entry in wanted.items():
        assert {k: described(v) for k, v in got[number].items()} == {k: described(v) for k, v in entry.items()}
        assert list(got[number]) == list(entry)
        for key, value in entry.items():
            torch.testing.assert_close(
                torch.tensor(got[number][key].tolist(), dtype=value.dtype), value, msg=lambda m, key=key: f"{key}: {m}"
            )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "form"), CASES)
def test_entries_are_those_of_pytorch(name, form, dtype):
    """Keys, order, dtypes, shapes, devices and values, in each form of an optimizer and for both default dtypes."""
    states = []
    for lib in (torch, tl):
        before = lib.get_default_dtype()
        lib.set_default_dtype(getattr(lib, dtype))
        try:
            states.append(trained(lib, name, **FORMS[form])[0].state_dict())
        finally:
            lib.set_default_dtype(before)
    assert_same_state(states[0]["state"], states[1]["state"])
    assert states[1]["param_groups"] == states[0]["param_groups"]


def walk(lib, name):
    """Run a program that reads and changes step counts; return its observations."""
    optimizer, parameters = trained(lib, name)
    first, second = (optimizer.state[p] for p in parameters)
    count, seen = first["step"], []

    def note(*values):
        seen.extend(v.item() if isinstance(v, lib.Tensor) else v for v in values)

    note(count, count + 1, count.dtype == lib.float32, count.dim(), count._version)
    copied, view, doubled = count.clone(), count.view(1), count * 2
    step(lib, optimizer, parameters)
    note(count, copied, view, doubled, first["step"] is count, count._version)
    count.fill_(0)
    step(lib, optimizer, parameters)
    note(count, second["step"])
    view.add_(10)
    step(lib, optimizer, parameters)
    note(count)
    first["step"] += 5
    step(lib, optimizer, parameters)
    note(count, first["step"])
    first["step"] = lib.tensor(40.0)
    step(lib, optimizer, parameters)
    note(count, first["step"])
    saved = optimizer.state_dict()["state"]
    note(saved[0]["step"] is first["step"])
    deep = copy.deepcopy(optimizer.state_dict())["state"]
    step(lib, optimizer, parameters)
    note(saved[0]["step"], deep[0]["step"], second["step"])
    again = pickle.loads(pickle.dumps(optimizer))
    note(*(entry["step"] for entry in again.state.values()))
    note(*(x for p in parameters for x in p.detach().reshape(-1).tolist()))
    return seen


@pytest.mark.parametrize("name", COUNTING)
def test_a_step_count_is_a_tensor(name):
    """It can be read, copied, viewed, written to, replaced, saved and pickled as in PyTorch; written values take
    effect.
    """
    assert walk(tl, name) == pytest.approx(walk(torch, name), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", COUNTING)
def test_counting_records_nothing(name, device):
    """After the first steps, a step builds no plan, runs one window, reads nothing, even after the counts were read."""
    p = tl.nn.Parameter(tl.ones(4, device=device))
    optimizer = getattr(tl.optim, name)([p], lr=0.01)

    def run(steps):
        before = json.loads(_C._info("stats"))
        for _ in range(steps):
            step(tl, optimizer, [p])
        after = json.loads(_C._info("stats"))
        return {k: after[k] - before[k] for k in ("windows", "plans_built")}

    run(8)
    count = optimizer.state[p]["step"]
    assert run(5) == {"windows": 5, "plans_built": 0}
    assert count.item() == 13
    assert run(5) == {"windows": 5, "plans_built": 0}
    assert count.device.type == "cpu"
    # A count that was written to is bound to a storage location: it is committed once, then counts as before.
    count.fill_(30)
    run(2)
    assert run(5) == {"windows": 5, "plans_built": 0}
    assert count.item() == 37


def numbers(lib, value):
    return lib.tensor(value.detach().numpy()) if isinstance(value, (torch.Tensor, tl.Tensor)) else value


@pytest.mark.parametrize("name", NAMES)
def test_files_of_pytorch_load_and_train_on(name, tmp_path):
    """A PyTorch state dict resumes here and torchlette's resumes in PyTorch; both agree with an uninterrupted run."""
    theirs, p = trained(torch, name)
    torch.save(theirs.state_dict(), tmp_path / "state.pt")
    mine, q = trained(tl, name, steps=0)
    for x, y in zip(p, q, strict=True):
        y.data = numbers(tl, x)
    mine.load_state_dict(tl.load(tmp_path / "state.pt"))
    assert_same_state(theirs.state_dict()["state"], mine.state_dict()["state"])
    for _ in range(2):
        step(torch, theirs, p)
        step(tl, mine, q)
    assert_same_state(theirs.state_dict()["state"], mine.state_dict()["state"])
    saved = mine.state_dict()
    state = {i: {k: numbers(torch, v) for k, v in entry.items()} for i, entry in saved["state"].items()}
    back, r = trained(torch, name, steps=0)
    for x, y in zip(p, r, strict=True):
        y.data = x.detach().clone()
    back.load_state_dict({"state": state, "param_groups": saved["param_groups"]})
    step(torch, theirs, p)
    step(torch, back, r)
    for x, y in zip(p, r, strict=True):
        torch.testing.assert_close(y, x)


@pytest.mark.parametrize("name", COUNTING)
def test_own_files_load(name):
    optimizer, parameters = trained(tl, name)
    file = io.BytesIO()
    tl.save(optimizer.state_dict(), file)
    file.seek(0)
    other, _ = trained(tl, name, steps=0)
    other.load_state_dict(tl.load(file))
    for entry, wanted in zip(other.state.values(), optimizer.state.values(), strict=True):
        assert {k: v.tolist() for k, v in entry.items()} == {k: v.tolist() for k, v in wanted.items()}
        assert entry["step"] is not wanted["step"]


@pytest.mark.parametrize("name", COUNTING)
def test_counts_that_are_python_numbers_become_tensors(name):
    """Older state dicts contain them; PyTorch loads those too."""
    entries = []
    for lib in (torch, tl):
        optimizer, parameters = trained(lib, name)
        saved = optimizer.state_dict()
        plain = {
            i: {k: v.item() if v.dim() == 0 else v for k, v in entry.items()} for i, entry in saved["state"].items()
        }
        optimizer.load_state_dict({**saved, "state": plain})
        step(lib, optimizer, parameters[:1])
        entries.append(optimizer.state[parameters[0]]["step"])
    assert described(entries[1]) == described(entries[0])
    assert entries[1].item() == 4


def test_a_parameter_that_is_listed_twice_counts_twice():
    entries = []
    for lib in (torch, tl):
        p = lib.nn.Parameter(lib.ones(2))
        with pytest.warns(UserWarning, match="duplicate"):
            optimizer = lib.optim.Adam([p, p], foreach=False) if lib is torch else lib.optim.Adam([p, p])
        step(lib, optimizer, [p])
        entries.append(optimizer.state[p]["step"].item())
    assert entries == [2.0, 2.0]


def test_other_optimizers_keep_numbers_as_they_are():
    """As in PyTorch, a user's optimizer that counts in Python keeps its numbers."""
    for lib in (torch, tl):

        class Counting(lib.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {})

            def step(self, closure=None):
                for p in self.param_groups[0]["params"]:
                    self.state[p]["step"] = self.state[p].get("step", 0) + 1

        p = lib.nn.Parameter(lib.ones(2, dtype=lib.float64))
        optimizer = Counting([p])
        optimizer.step()
        saved = optimizer.state_dict()
        assert type(saved["state"][0]["step"]) is int
        optimizer.load_state_dict(saved)
        assert type(optimizer.state[p]["step"]) is int
        saved["state"][0]["step"] = lib.tensor(3.0)
        optimizer.load_state_dict(saved)
        assert optimizer.state[p]["step"].dtype == lib.float32


@pytest.mark.parametrize("kind", ["LBFGS", "Rprop"])
def test_complex_parameters_are_two_real_ones(kind):
    sides = []
    for lib in (torch, tl):
        p = lib.tensor([1 + 2j, -0.5j], requires_grad=True)
        opt = getattr(lib.optim, kind)([p], lr=0.1)

        def closure(lib=lib, p=p, opt=opt):
            opt.zero_grad()
            loss = ((p - (0.3 - 1j)).abs() ** 2).sum() + (p.real**4).sum()
            loss.backward()
            return loss

        for _ in range(3):
            opt.step(closure)
        sides.append(torch.tensor(p.tolist()))
    torch.testing.assert_close(sides[1], sides[0])
