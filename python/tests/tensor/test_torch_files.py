"""torch.save writes PyTorch's files of any object; load reads them, and runs nothing unless it is asked to."""

from __future__ import annotations

import copy
import io
import pickle
import random
import zipfile

import pytest
import torch

import torchlette
import torchlette.torch as facade

FORMATS = [pytest.param(True, id="zip"), pytest.param(False, id="legacy")]


class Plain:
    """A class of the program."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Plain and other.value == self.value

    __hash__ = None


def stored(save, value, zipped=True):
    file = io.BytesIO()
    save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return file


def aliases(t):
    """Return an object of one library: aliases of one storage, properties, a parameter, a state."""
    base = t.arange(6.0).reshape(2, 3)
    parameter = t.nn.Parameter(t.ones(2, dtype=t.float64))
    parameter.note = "kept"
    marked = t.zeros(1)
    marked.note = [1]
    net = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3))
    return {
        "base": base,
        "row": base[1],
        "turned": base.t(),
        "parameter": parameter,
        "marked": marked,
        "leaf": t.ones(2, requires_grad=True),
        "half": t.tensor([0.5, -1.0], dtype=t.bfloat16),
        "empty": t.zeros(0, 3),
        "meta": t.ones(2, 3, device="meta").t(),
        "size": t.Size([2, 3]),
        "device": t.device("cpu"),
        "dtype": t.int16,
        "state": net.state_dict(),
        "optimizer": t.optim.AdamW(net.parameters()).state_dict(),
    }


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(("writer", "reader"), [(facade, torch), (facade, facade), (torch, facade)])
def test_aliases_types_and_attributes_survive(writer, reader, weights_only, zipped):
    found = reader.load(stored(writer.save, aliases(writer), zipped), weights_only=weights_only)
    found["base"][1] = 7.0
    assert found["row"].tolist() == [7.0] * 3 and found["turned"].tolist() == [[0, 7], [1, 7], [2, 7]]
    assert found["turned"].stride() == (1, 3) and found["row"].storage_offset() == 3
    assert type(found["parameter"]) is reader.nn.Parameter and found["parameter"].note == "kept"
    assert type(found["marked"]) is reader.Tensor and found["marked"].note == [1]
    assert found["leaf"].requires_grad and found["half"].dtype is reader.bfloat16
    assert found["meta"].is_meta and found["meta"].stride() == (1, 3) and found["empty"].shape == (0, 3)
    assert found["size"] == (2, 3) and type(found["size"]) is reader.Size
    assert found["device"] == reader.device("cpu") and found["dtype"] is reader.int16
    assert list(found["state"]._metadata) == ["", "0", "1"] and found["optimizer"]["param_groups"][0]["lr"] == 1e-3


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize(("writer", "reader"), [(facade, torch), (facade, facade), (torch, facade)])
def test_modules_and_optimizers_are_written_whole(writer, reader, zipped):
    net = writer.nn.Sequential(writer.nn.Linear(4, 4), writer.nn.InstanceNorm1d(4), writer.nn.PixelUnshuffle(2))
    optimizer = writer.optim.AdamW(net.parameters(), lr=0.5)
    file = stored(writer.save, {"net": net, "optimizer": optimizer, "own": Plain(net[0].bias)}, zipped)
    with pytest.raises(pickle.UnpicklingError):
        reader.load(file)
    file.seek(0)
    found = reader.load(file, weights_only=False)
    assert [type(m) for m in found["net"]] == [reader.nn.Linear, reader.nn.InstanceNorm1d, reader.nn.PixelUnshuffle]
    assert found["net"][0].weight.tolist() == net[0].weight.tolist()
    want = pytest.approx(net[0](writer.ones(1, 4)).tolist()[0], rel=1.3e-6, abs=1e-5)  # sums in another order
    assert found["net"][0](reader.ones(1, 4)).tolist()[0] == want
    assert found["optimizer"].param_groups[0]["params"][0] is found["net"][0].weight
    assert found["own"].value is found["net"][0].bias


def test_safe_globals_allow_classes():
    file = stored(facade.save, {"own": Plain(3)})
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        facade.load(file)
    file.seek(0)
    with facade.serialization.safe_globals([Plain]):
        assert facade.serialization.get_safe_globals() == [Plain]
        assert facade.load(file) == {"own": Plain(3)}
    assert facade.serialization.get_safe_globals() == []
    facade.serialization.add_safe_globals([(Plain, "elsewhere.Plain")])
    facade.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        facade.load(stored(facade.save, Plain(3)))


def test_elements_are_aligned_and_mapped(tmp_path):
    path = tmp_path / "x.pt"
    facade.save([facade.arange(5), facade.ones(3, dtype=facade.uint8)], path)
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            archive.fp.seek(info.header_offset + 26)
            name, extra = archive.fp.read(2), archive.fp.read(2)
            lengths = int.from_bytes(name, "little") + int.from_bytes(extra, "little")
            assert (info.header_offset + 30 + lengths) % 64 == 0
            assert info.filename.startswith("x/")
    for lib in (torch, facade):
        assert [t.tolist() for t in lib.load(path, mmap=True)] == [[0, 1, 2, 3, 4], [1, 1, 1]]
    with pytest.raises(ValueError, match="must be a file path"), open(path, "rb") as file:
        facade.load(file, mmap=True)
    facade.save(facade.ones(1), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        facade.load(path, mmap=True)


def test_equal_objects_give_equal_files():
    assert stored(facade.save, facade.ones(3)).getvalue() == stored(facade.save, facade.ones(3)).getvalue()


@pytest.mark.parametrize("place", ["meta", facade.device("cpu"), {"cpu": "meta"}, lambda storage, where: storage])
def test_map_location_takes_every_form(place):
    for zipped in (True, False):
        (found,) = facade.load(stored(facade.save, [facade.ones(2)], zipped), map_location=place)
        assert found.is_meta == (place in ("meta", {"cpu": "meta"}))


def test_what_cannot_be_found_is_not_written(tmp_path):
    path = tmp_path / "x.pt"
    facade.save(1, path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        facade.save(lambda: 0, path)
    assert facade.load(path) == 1
    with pytest.raises(NotImplementedError, match="pickle_module"):
        facade.save(1, path, pickle_module=random)


class Caller:
    """Asks the loading program to call a function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize("function", [print, eval, getattr, torch.hub.load, type, torch.Tensor.data_ptr])
def test_other_functions_are_not_called(function, zipped, capsys):
    with pytest.raises(pickle.UnpicklingError, match="the file holds"):
        torchlette.load(stored(torch.save, [torch.ones(2), Caller(function, "1")], zipped), weights_only=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("zipped", FORMATS)
def test_damaged_files_raise_one_of_two_errors(zipped):
    """Cut files, and files with bytes changed: what still loads is a value, never a crash or another error."""
    whole = stored(facade.save, {"a": facade.arange(4.0), "b": [1, "text", (2.5, None)]}, zipped).getvalue()
    draw = random.Random(0)
    for k in range(400):
        data = bytearray(whole[: draw.randrange(len(whole))] if k % 2 else whole)
        for _ in range(0 if k % 2 else 3):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            facade.load(io.BytesIO(bytes(data)))
        except (ValueError, RuntimeError, pickle.UnpicklingError) as error:
            assert str(error)


def test_deepcopy_keeps_sharing():
    for lib in (torch, facade):
        base = lib.zeros(2, 3)
        first = copy.deepcopy({"base": base, "row": base[1], "turned": base.t()})
        second = copy.deepcopy([base[1], base])
        first["base"][1] = 5.0
        second[1][1] = 6.0
        assert base.sum().item() == 0
        assert first["row"].tolist() == [5.0] * 3 and first["turned"].stride() == (1, 3)
        assert second[0].tolist() == [6.0] * 3
