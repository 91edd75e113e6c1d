"""Safetensors files: the library reads what save writes, load reads what the library writes, and damage is an error."""

from __future__ import annotations

import io
import json
import struct

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

import safetensors.torch  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402

DTYPES = "float64 int64 float32 int32 uint32 float16 bfloat16 uint16 int16 int8 uint8 bool".split()
SHAPES = [(), (1,), (0,), (3, 0, 2), (2, 3), (1, 5, 1)]


def tensors(lib):
    """One tensor of each dtype and shape, with odd numbers of bytes before the wide ones."""
    made = {"first": lib.tensor([1, 2, 3], dtype=lib.int8)}
    for dtype in DTYPES:
        for shape in SHAPES:
            count = 1
            for n in shape:
                count *= n
            values = [i % 2 if dtype == "bool" else i + 1 for i in range(count)]
            made[f"{dtype}.{shape}"] = lib.tensor(values, dtype=getattr(lib, dtype)).reshape(shape)
    return made


def assert_same(mine, theirs):
    assert set(mine) == set(theirs)
    for name, t in theirs.items():
        assert (str(mine[name].dtype), tuple(mine[name].shape)) == (str(t.dtype), tuple(t.shape)), name
        assert mine[name].tolist() == t.tolist(), name


def written(value):
    file = io.BytesIO()
    tl.save(value, file)
    return file.getvalue()


def test_the_library_reads_a_dictionary(tmp_path):
    path = tmp_path / "x.safetensors"
    tl.save(tensors(tl), path)
    assert_same(tensors(tl), safetensors.torch.load_file(path))
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata()["format"] == "pt"


def test_files_of_the_library_load(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.torch.save_file(tensors(torch), path)
    assert_same(tl.load(path), tensors(torch))
    safetensors.torch.save_file(tensors(torch), path, metadata={"format": "pt", "of": "someone"})
    assert_same(tl.load(io.BytesIO(path.read_bytes())), tensors(torch))
    safetensors.torch.save_file({}, path)
    assert tl.load(path) == {}
    assert tl.load(io.BytesIO(written({}))) == {}


def test_order_and_kind_of_a_dictionary_come_back():
    value = {"b": tl.ones(2, dtype=tl.int8), "a": tl.nn.Parameter(tl.ones(1)), "": tl.zeros(3, requires_grad=True)}
    found = tl.load(io.BytesIO(written(value)))
    assert list(found) == ["b", "a", ""]
    assert isinstance(found["a"], tl.nn.Parameter) and found["a"].requires_grad
    assert found[""].requires_grad and found[""].is_leaf and not found["b"].requires_grad
    assert set(safetensors.torch.load(written(value))) == {"b", "a", ""}


def test_nested_tensors_are_named_by_their_path():
    inner = {"weight": tl.ones(2), 0: [tl.zeros(1), "text"]}
    value = {
        "model": inner,
        "model.weight": tl.full((1,), 5.0),
        "__metadata__": tl.ones(1),
        1: tl.ones(1),
        "1": tl.zeros(1),
    }
    found = safetensors.torch.load(written(value))
    names = {"model.weight", "model.0.0", "model.weight#2", "__metadata__#2", "1", "1#2"}
    assert set(found) == names
    assert found["model.weight"].tolist() == [1.0, 1.0] and found["model.weight#2"].tolist() == [5.0]
    back = tl.load(io.BytesIO(written(value)))
    assert list(back) == list(value)
    assert back["model"][0][1] == "text" and back["model.weight"].tolist() == [5.0]
    assert safetensors.torch.load(written(tl.ones(2)))["tensor"].tolist() == [1.0, 1.0]


def test_shared_tensors_and_views(tmp_path):
    """Each name has its elements in the file; what was one tensor, or one part of one, is so again."""
    base = tl.arange(6.0)
    value = {"a": base, "same": base, "tied": base.detach(), "view": base.reshape(2, 3).t(), "part": base[2:4]}
    value |= {"again": base[2:4], "wide": base[:1].expand(4)}
    found = safetensors.torch.load(written(value))
    assert_same(value, found)
    back = tl.load(io.BytesIO(written(value)))
    assert_same(back, found)
    assert back["same"] is back["a"] and back["tied"] is not back["a"]
    back["a"][2] = 50.0
    assert back["tied"].tolist() == [0.0, 1.0, 50.0, 3.0, 4.0, 5.0]
    assert back["part"].tolist() == [2.0, 3.0]
    back["part"].fill_(-1)
    assert back["again"].tolist() == [-1.0, -1.0]


def test_parts_far_apart_are_not_taken_for_one_another():
    """An offset of 1 MiB in one base is another place than the beginning of the next base."""
    value = {}
    for i in range(6):
        large = tl.full((1 << 18) + 4, float(i), dtype=tl.float32)
        value[f"{i}.tail"], value[f"{i}.head"] = large[1 << 18 :], large[:4]
    back = tl.load(io.BytesIO(written(value)))
    assert {k: v.tolist() for k, v in back.items()} == {k: v.tolist() for k, v in value.items()}


def test_tied_weights_of_a_module_stay_tied():
    class Tied(tl.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = tl.nn.Embedding(5, 3), tl.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    net = Tied()
    state = tl.load(io.BytesIO(written(net.state_dict())))
    with tl.no_grad():
        state["embed.weight"].zero_()
    assert state["head.weight"].abs().sum().item() == 0
    assert state._metadata == net.state_dict()._metadata


def test_devices(device):
    value = {"x": tl.arange(5.0, device=device), "y": tl.ones(2, dtype=tl.float16, device=device)}
    assert safetensors.torch.load(written(value))["x"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    back = tl.load(io.BytesIO(written(value)))
    assert back["x"].device == value["x"].device
    assert str(tl.load(io.BytesIO(written(value)), map_location="cpu")["x"].device) == "cpu"
    theirs = safetensors.torch.save({"x": torch.ones(3)})
    assert tl.load(io.BytesIO(theirs), map_location=device)["x"].device == value["x"].device


def test_wide_elements_are_aligned():
    data = written(tensors(tl))
    length = struct.unpack("<Q", data[:8])[0]
    assert (8 + length) % 8 == 0
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            assert (
                entry["data_offsets"][0] % getattr(tl, name.partition(".")[0] if "." in name else "int8").itemsize == 0
            )


def test_a_structure_larger_than_a_header_may_be(monkeypatch):
    monkeypatch.setattr("torchlette.serialization._LONG_STRUCTURE", 100)
    value = {"x": tl.ones(2), "text": "x" * 200}
    assert len(safetensors.torch.load(written(value))) == 2
    back = tl.load(io.BytesIO(written(value)))
    assert back["text"] == value["text"] and back["x"].tolist() == [1.0, 1.0]
    monkeypatch.setattr("torchlette.io.safetensors.HEADER_LIMIT", 100)
    with pytest.raises(ValueError, match="want at most 100"):
        written({"x" * 200: tl.ones(2)})


def forged(header, data=b"\x00" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(begin, end, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


DAMAGED = {
    "empty": b"",
    "short": b"\x01\x00\x00",
    "header beyond the end": struct.pack("<Q", 1000) + b"{}",
    "header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "header of all ones": b"\xff" * 16,
    "header without bytes": struct.pack("<Q", 0) + b"{}",
    "no object": forged(b"[]", b""),
    "no JSON": forged(b"{'a'}", b""),
    "no UTF-8": forged(b'{"\xff": 1}', b""),
    "deep": forged(b'{"a":' * 100000 + b"1" + b"}" * 100000, b""),
    "long number": forged(b'{"a":' + b"1" * 10000 + b"}", b""),
    "name twice": forged(b'{"a":%s,"a":%s}' % ((json.dumps(entry(0, 4)).encode(),) * 2)),
    "overlap": forged({"a": entry(0, 4), "b": entry(2, 6)}),
    "same data": forged({"a": entry(0, 4), "b": entry(0, 4)}, b"\x00" * 4),
    "gap": forged({"a": entry(4, 8)}),
    "data left over": forged({"a": entry(0, 4)}),
    "data missing": forged({"a": entry(0, 4), "b": entry(4, 12, (2,))}),
    "beyond the end": forged({"a": entry(0, 1 << 40, (1 << 38,))}),
    "backwards": forged({"a": entry(8, 4)}),
    "negative offset": forged({"a": entry(-4, 0)}),
    "negative size": forged({"a": entry(0, 8, (-1, -2))}),
    "size of 2^64": forged({"a": entry(0, 0, (0, 2**64))}, b""),
    "shape and bytes": forged({"a": entry(0, 8, (3,))}),
    "fraction": forged({"a": entry(0, 8, (2.0,))}),
    "truth value": forged({"a": entry(0, 8, (2, True))}),
    "offset is text": forged({"a": entry("0", "8", (2,))}),
    "entry is a list": forged({"a": [1]}),
    "entry lacks a shape": forged({"a": {"dtype": "F32", "data_offsets": [0, 8]}}),
    "unknown dtype": forged({"a": entry(0, 8, (8,), "F8_E4M3")}),
    "dtype is a list": forged({"a": entry(0, 8, (8,), [])}),
    "metadata is a number": forged({"__metadata__": 3}, b""),
    "metadata of numbers": forged({"__metadata__": {"a": 3}}, b""),
    "structure is no JSON": forged({"__metadata__": {"torchlette": "{"}}, b""),
    "structure without format": forged({"__metadata__": {"torchlette": "{}"}}, b""),
    "structure of the future": forged({"__metadata__": {"torchlette": '{"format": 3, "value": 1}'}}, b""),
    "structure without its tensor": forged({"__metadata__": {"torchlette": ""}}, b""),
    "a zip that ends": b"PK\x03\x04" + b"\x00" * 50,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_value_errors(name):
    with pytest.raises(ValueError, match="^load: "):
        tl.load(io.BytesIO(DAMAGED[name]))


STRUCTURES = [
    {"tensor": "absent", "of": "absent", "device": "cpu", "requires_grad": False, "parameter": False},
    {"tensor": "a"},
    {"tensor": ["a"], "of": "a", "device": "cpu", "requires_grad": False, "parameter": False},
    {"dict": [1]},
    {"dict": [[{"list": []}, 1]]},
    {"dict": [], "metadata": 1},
    {"unknown": 1},
    {"float": 3},
    {"dtype": "save"},
    [1],
]


@pytest.mark.parametrize("value", STRUCTURES, ids=str)
def test_damaged_structures_are_value_errors(value):
    header = {"__metadata__": {"torchlette": json.dumps({"format": 2, "value": value})}, "a": entry(0, 8, (2,))}
    with pytest.raises(ValueError, match="^load: "):
        tl.load(io.BytesIO(forged(header)))


def test_a_file_that_shrinks_is_an_error():
    class Shrinking(io.BytesIO):
        def seek(self, at, whence=0):
            if at == 8 + length:
                self.truncate(at + 4)
            return super().seek(at, whence)

    data = safetensors.torch.save({"a": torch.ones(4)})
    length = struct.unpack("<Q", data[:8])[0]
    with pytest.raises(ValueError, match="ends within 'a'"):
        tl.load(Shrinking(data))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_byte_gives_an_error_or_a_value(data):
    """Whatever one byte of a file is changed to, load returns or raises an error of its own."""
    file = bytearray(written({"a": tl.arange(3.0), "b": [tl.ones(2, dtype=tl.int8), 1.5, (True, "x")]}))
    file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    try:
        tl.load(io.BytesIO(bytes(file)), map_location="cpu")
    except (ValueError, RuntimeError):  # of torchlette's own; RuntimeError: a device that is not there
        pass
