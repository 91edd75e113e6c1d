"""Arguments and results of programs: named tuples, dataclasses, tied names, copies, files without a path."""

import copy
import dataclasses
import io
import json
import pickle
import subprocess
import sys
import zipfile
from typing import Any, NamedTuple

import pytest

import torchlette as tl
from torchlette import nn
from torchlette.export import TrainingSession, export, export_training, load, register_dataclass, save


class Pair(NamedTuple):
    """Two tensors."""

    left: Any
    right: Any


@dataclasses.dataclass
class Output:
    """What a model gives."""

    logits: Any
    loss: Any = None


def of_pair(p):
    return {"pair": Pair(p.left + p.right, [p.left]), "word": "w"}


def test_named_tuples_are_kept(tmp_path):
    x = tl.ones(2, device="cpu")
    program = export(of_pair, (Pair(x, 2 * x),))
    save(program, tmp_path / "p")
    found = load(tmp_path / "p").module()(Pair(x, x))
    assert type(found["pair"]) is Pair and found["pair"].left.tolist() == [2, 2]
    with pytest.raises(TypeError, match="got tuple, want a .*Pair with the fields"):
        program.module()((x, x))
    code = "import sys, torchlette as tl; from collections import namedtuple; x = tl.ones(2, device='cpu')\n"
    code += "P = namedtuple('P', 'left right'); r = tl.export.load(sys.argv[1]).module()(P(x, x))['pair']\n"
    code += "print(type(r).__name__, r._fields, r.left.tolist())"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "p"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "Pair ('left', 'right') [2.0, 2.0]"


def test_dataclasses_are_registered(tmp_path):
    def fn(x, given):
        return Output(x + given.logits)

    x = tl.ones(2, device="cpu")
    with pytest.raises(TypeError, match="register_dataclass"):
        export(fn, (x, Output(x)))
    register_dataclass(Output, serialized_type_name="tests.Output")
    program = export(fn, (x, Output(x)))
    save(program, tmp_path / "p")
    found = load(tmp_path / "p").module()(x, Output(2 * x))
    assert type(found) is Output and found.logits.tolist() == [3, 3] and found.loss is None
    with pytest.raises(TypeError, match="got Pair, want a tests.Output"):
        program.module()(x, Pair(x, None))
    text = zipfile.ZipFile(tmp_path / "p").read("program.json").decode().replace("tests.Output", "tests.Other")
    other = type(program)(json.loads(text), program.constants).module()
    with pytest.raises(ValueError, match="register it"):
        other._program.spec["python"]["args"][1] = {"tensor": 1}
        other(x, x)
    with pytest.raises(TypeError, match="want a dataclass"):
        register_dataclass(int)


@pytest.mark.parametrize(
    "nest",
    [
        {"size": "n"}, {"namedtuple": ["a.P", [["x y", {"tensor": 0}]]]},
        {"namedtuple": ["a.P", [["_x", {"tensor": 0}]]]},
        {"namedtuple": ["a.P", [["x", {"tensor": 9}]]]}, {"namedtuple": ["P;", []]}, {"dataclass": ["a.P", 3]},
        {"namedtuple": ["P", [["x", {"tensor": 0}], ["x", {"tensor": 0}]]]}, {"size": "__import__('os')"},
        {"size": "9**9"}, {"size": "(" * 400}, {"size": "-" * 499 + "1"},
    ],
)  # fmt: skip
def test_damaged_nests_are_refused(nest, tmp_path):
    program = export(lambda x: x, (tl.ones(2, device="cpu"),))
    program.spec["python"]["result"] = nest
    save(program, tmp_path / "p")
    if nest == {"size": "-" * 499 + "1"}:
        assert load(tmp_path / "p").module()(tl.ones(2, device="cpu")) == -1
        return
    with pytest.raises(ValueError, match="nest"):
        load(tmp_path / "p")


class Tied(nn.Module):
    """An embedding that shares its weight with the last layer."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids):
        return self.out(self.embed(ids))


def test_tied_parameters_have_all_their_names(tmp_path):
    m, ids = Tied(), tl.tensor([1, 2], device="cpu")
    program = export(m, (ids,))
    save(program, tmp_path / "p")
    program = load(tmp_path / "p")
    assert set(program.state_dict) == set(m.state_dict())
    module = program.module()
    assert module.out.weight is module.embed.weight and len(list(module.parameters())) == 1
    module.load_state_dict(m.state_dict())
    sgd = tl.optim.SGD(m.parameters(), lr=0.1)
    save(export_training(m, lambda m, ids: m(ids).square().mean(), sgd, (ids,)), tmp_path / "t")
    session = TrainingSession(tmp_path / "t")
    session.step(ids)
    state = session.state_dict()
    assert state["out.weight"].tolist() == state["embed.weight"].tolist()
    m.load_state_dict({k: state[k] for k in m.state_dict()})
    session.load_state_dict(state)
    session.load_state_dict({k: v for k, v in state.items() if k != "out.weight"})


def test_copies_of_a_program_outlive_it():
    with tl.device("cpu"):
        net, x = nn.Linear(3, 2), tl.ones(1, 3)
    program = export(net, (x,))
    copies = [copy.deepcopy(program), pickle.loads(pickle.dumps(program))]
    assert len({program.number, *(p.number for p in copies)}) == 3
    del program
    for p in copies:
        assert p.module()(x).tolist() == net(x).tolist()
    with pytest.raises(RuntimeError, match="module"):
        copies[0](x)


def test_files_without_a_path_and_further_texts(tmp_path):
    with tl.device("cpu"):
        net, x = nn.Linear(3, 2), tl.ones(1, 3)
    file = io.BytesIO()
    save(export(net, (x,)), file, extra_files={"labels.txt": "a\nb", "raw": b"c"})
    file.seek(0)
    texts = {"labels.txt": "", "none": "n"}
    assert load(file, extra_files=texts).module()(x).tolist() == net(x).tolist()
    assert texts == {"labels.txt": "a\nb", "none": "n"}
    (tmp_path / "p").write_bytes(file.getvalue())
    assert tl.InferenceSession(tmp_path / "p").run(None, {"input": x.numpy()})[0].tolist() == net(x).tolist()
    with pytest.raises(TypeError, match="got int"):
        load(3)
