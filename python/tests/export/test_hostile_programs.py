"""Files of programs from strangers: an error that says what is wrong, and nothing else."""

import copy
import json
import random
import re
import zipfile

import numpy as np
import pytest

import torchlette as tl
from torchlette import nn
from torchlette.export import Dim, export, load, save

ALLOWED = (tl.TorchletteError,)
ITSELF = (ValueError, RuntimeError, OSError, NotImplementedError)


def refused(path):
    """Load a file and run it; return the message of the error, None where there is none."""
    try:
        load(path).module()(tl.zeros(3, 4))
    except Exception as exc:
        assert isinstance(exc, ALLOWED) or type(exc) in ITSELF, repr(exc)
        assert str(exc)
        return str(exc)
    return None


def program():
    return export(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (tl.zeros(3, 4),), dynamic_shapes=({0: Dim("n")},))


def text_file(path, text, weights=b"", method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("program.json", text)
        archive.writestr("weights.safetensors", weights)
    return path


def step(spec):
    return spec["functions"]["forward"]["steps"][0]


def forward(spec):
    return spec["functions"]["forward"]


CHANGES = {
    "version 99": lambda s: s.update(version=99),
    "format is": lambda s: s.update(format="other"),
    "operator .nothing": lambda s: step(s).update(op="nothing"),
    "exists before the step": lambda s: step(s)["args"].update(input="%9"),
    "argument weight is missing": lambda s: step(s)["args"].pop("weight"),
    "does not have": lambda s: step(s)["args"].update(more=1),
    "want a value": lambda s: step(s)["args"].update(input=3),
    "which is not what the operator gives": lambda s: step(s).update(out=[]),
    "no in-place form": lambda s: step(s).update(mode="in_place"),
    "no_grad|of the expected form": lambda s: step(s).update(no_grad=3),
    "nested more than": lambda s: forward(s)["inputs"][0].update(shape=["(" * 200 + "n" + ")" * 200, 4]),
    "has no meaning": lambda s: forward(s)["inputs"][0].update(shape=["__import__", 4]),
    "divided by 0": lambda s: forward(s)["inputs"][0].update(shape=["n", "4//(n - n)"]),
    "too large": lambda s: s["constants"][0].update(shape=[1 << 40, 1 << 40]),
    "outside of the file|but weights": lambda s: s["constants"][0].update(shape=[1 << 40]),
    "lacks the constant": lambda s: s["constants"][0].update(name="../../../etc/passwd"),
    "no other has": lambda s: s["constants"][1].update(name=s["constants"][0]["name"]),
    "want %number": lambda s: forward(s)["outputs"][0].update(value="%77"),
    "is no constant": lambda s: forward(s).update(state=["x"]),
    "nest": lambda s: s["python"].update(result={"tensor": 7}),
    "nest of arguments": lambda s: s["python"].update(args=[{"dict": [[[], {"plain": 1}]]}]),
    "python is wrong": lambda s: s.update(python=json.loads("[" * 150 + "]" * 150)),
    "more than 200 deep": lambda s: s.update(python=json.loads("[" * 300 + "]" * 300)),
    "names is wrong": lambda s: s["python"].update(names=3),
    "range": lambda s: s["dims"][0].update(min=5, max=2),
    "functions": lambda s: s.update(functions={}),
    "missing or wrong": lambda s: s.update(Dims=s.pop("dims")),
    "affine function": lambda s: forward(s)["inputs"][0].update(shape=["0*n", 4]),
}


@pytest.mark.parametrize("text", CHANGES)
def test_a_wrong_program_is_refused_by_what_is_wrong(text, tmp_path):
    good = program()
    spec = copy.deepcopy(good.spec)
    CHANGES[text](spec)
    save(good, tmp_path / "good")
    weights = zipfile.ZipFile(tmp_path / "good").read("weights.safetensors")
    message = refused(text_file(tmp_path / "p", json.dumps(spec), weights))
    assert message is not None
    assert re.search(text, message), message


def test_damaged_archives_are_refused(tmp_path):
    save(program(), tmp_path / "p")
    whole = (tmp_path / "p").read_bytes()
    bomb = text_file(tmp_path / "bomb", " " * (64 << 20), method=zipfile.ZIP_DEFLATED)
    assert "compressed" in refused(bomb)
    assert refused(text_file(tmp_path / "deep", "[" * 1_000_000)) is not None
    for size in (0, 3, 4, 30, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        assert refused(tmp_path / "cut") is not None


def test_changed_bytes_never_do_more_than_raise(tmp_path):
    save(program(), tmp_path / "p")
    whole = (tmp_path / "p").read_bytes()
    draw = random.Random(0)
    places = [i for i in range(len(whole)) if i < 3000 or i > len(whole) - 400]
    refusals = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 8))):
            data[draw.choice(places)] = draw.choice((0, 1, 0x7F, 0xFF, draw.randrange(256), *b'0929-"[]{},%='))
        (tmp_path / "f").write_bytes(data)
        refusals += refused(tmp_path / "f") is not None
    assert refusals > 100


@pytest.mark.parametrize("damage", ["dtype", "count"])
def test_results_of_a_step_that_differ_from_the_program_are_released(damage, tmp_path):
    """The base of every test requires that no handle is left; results after the wrong one had no owner."""
    good = export((lambda x: x.max(0)) if damage == "dtype" else (lambda x: x.split(1)), (tl.zeros(3, 4),))
    spec = copy.deepcopy(good.spec)
    outs = step(spec)["out"]
    if damage == "dtype":
        outs[0]["dtype"] = "int32"
    else:
        outs.append(dict(outs[0]))
        forward(spec)["outputs"].pop()
        spec["python"]["result"] = {"tuple": [{"tensor": 0}, {"tensor": 1}]}
    save(good, tmp_path / "p")
    for _ in range(20):
        message = refused(text_file(tmp_path / "p", json.dumps(spec)))
        assert re.search("result 0 is|the operator gave 3 results", message), message


MINUS, HUGE = -(1 << 63), 1 << 45
#: A call, an argument of its step with what a stranger makes of it, and the error of a session on it; None: it runs.
ABSURD = {
    "stride": (lambda x: tl.nn.functional.conv_transpose1d(x, tl.ones(4, 64, 3)), "stride", [1 << 35], "memory"),
    "padding": (lambda x: tl.nn.functional.conv1d(x, tl.ones(64, 4, 3)), "padding", [1 << 38], "memory"),
    "dilation": (lambda x: tl.nn.functional.conv1d(x, tl.ones(64, 4, 3)), "dilation", [0], "dilation"),
    "groups": (lambda x: tl.nn.functional.conv1d(x, tl.ones(64, 4, 3)), "groups", 0, "groups"),
    "power": (lambda x: tl.linalg.matrix_power(tl.eye(4) + 0 * x[0, :4, :4], 3), "n", MINUS, None),
    "powers": (lambda x: tl.linalg.vander(x[0]), "N", HUGE, "memory"),
    "size": (lambda x: x.new_zeros(2), "size", [HUGE], "memory"),
    "sizes": (lambda x: x.new_zeros(2, 3), "size", [HUGE, HUGE], "large|overflow"),
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_arguments_of_operators_are_refused(name, tmp_path):
    call, argument, value, text = ABSURD[name]
    good = export(call, (tl.ones(8, 4, 16),))
    spec = copy.deepcopy(good.spec)
    changed = next(s for s in reversed(forward(spec)["steps"]) if argument in s["args"])
    changed["args"][argument] = value
    save(good, tmp_path / "p")
    weights = zipfile.ZipFile(tmp_path / "p").read("weights.safetensors")
    path = text_file(tmp_path / "absurd", json.dumps(spec), weights)

    def run():
        session = tl.InferenceSession(path, threads=1)
        return session.run(None, {a.name: np.ones(a.shape, np.float32) for a in session.get_inputs()})

    if text is None:
        run()
        return
    with pytest.raises((tl.TorchletteError, *ITSELF), match=text) as info:
        run()
    assert not isinstance(info.value, tl.errors.InternalError)


def test_a_large_dimension_of_mvlgamma_is_recorded_in_few_steps(tmp_path):
    good = export(lambda x: tl.mvlgamma(x, 3), (tl.full((3,), 4.0),))
    spec = copy.deepcopy(good.spec)
    step(spec)["args"]["p"] = 1 << 40
    save(good, tmp_path / "p")
    load(text_file(tmp_path / "absurd", json.dumps(spec), b"")).module()(tl.full((3,), 4.0))
