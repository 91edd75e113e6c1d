"""Saving and loading: a zip file of one JSON text and the raw bytes of each tensor.

The JSON describes containers, numbers and strings; nothing in a file is ever executed, so that loading one
from an unknown source is safe. Layout::

    torchlette.json    {"format": 1, "value": ...}
    data/0, data/1     elements, dense, row-major, little-endian
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from torchlette import _C

if TYPE_CHECKING:
    import zipfile

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

FORMAT = 1
_INDEX = "torchlette.json"

File = str | os.PathLike[str] | BinaryIO


# torchlette.nn is imported by whoever uses it, not by ``import torchlette``.


def _is_parameter(t: _C.Tensor) -> bool:
    from torchlette.nn.parameter import Parameter

    return isinstance(t, Parameter)


def _as_parameter(t: _C.Tensor, requires_grad: bool) -> _C.Tensor:
    from torchlette.nn.parameter import Parameter

    return Parameter(t, requires_grad)


class _Writer:
    """Turns a value into JSON and stores tensors on the way; a tensor that occurs twice is stored once."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.stored: dict[int, int] = {}
        self.alive: list[Any] = []  # keeps the ids in ``stored`` from being used again

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if isinstance(value, float):  # NumPy's float64 too
            # JSON has no infinities or NaN; hex keeps all bits.
            return {"float": value.hex()}
        if isinstance(value, _C.Tensor):
            return self._tensor(value)
        if isinstance(value, _C.Size):
            return {"size": list(value)}
        if isinstance(value, _C.dtype):
            return {"dtype": str(value).rpartition(".")[2]}
        if isinstance(value, _C.device):
            return {"device": str(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": bytes(value).hex()}
        if isinstance(value, dict):
            return self._dict(value)
        for kind, cls in (("list", list), ("tuple", tuple), ("set", set)):
            if type(value) is cls:
                return {kind: [self.encode(item) for item in value]}
        if isinstance(value, tuple):
            return {"tuple": [self.encode(item) for item in value]}
        raise TypeError(
            f"save: value is wrong: got {type(value).__module__}.{type(value).__qualname__}, want tensors, numbers, strings and containers of "
            "them (save a module's state_dict(), not the module)"
        )

    def _dict(self, value: dict[Any, Any]) -> Any:
        pairs = [[self.encode(key), self.encode(item)] for key, item in value.items()]
        kind = "ordered" if isinstance(value, OrderedDict) else "counter" if isinstance(value, Counter) else "dict"
        encoded: dict[str, Any] = {kind: pairs}
        metadata = getattr(value, "_metadata", None)
        if metadata is not None:
            encoded["metadata"] = self.encode(metadata)
        return encoded

    def _tensor(self, t: _C.Tensor) -> Any:
        number = self.stored.get(id(t))
        if number is None:
            number = self.stored[id(t)] = len(self.stored)
            self.alive.append(t)
            self.archive.writestr(f"data/{number}", _C._tobytes(t.detach()))
        return {
            "tensor": number,
            "dtype": str(t.dtype).rpartition(".")[2],
            "shape": list(t.shape),
            "device": str(t.device),
            "requires_grad": t.requires_grad,
            "parameter": _is_parameter(t),
        }


class _Reader:
    """Turns JSON back into a value."""

    def __init__(self, archive: zipfile.ZipFile, place: Callable[[_C.Tensor, str], _C.Tensor]) -> None:
        self.archive = archive
        self.place = place
        self.loaded: dict[int, _C.Tensor] = {}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise ValueError("load: the file is damaged: a list outside a container")
            return value
        kind = next(iter(value), "")
        decoder = self._DECODERS.get(kind)
        if decoder is None:
            raise ValueError(f"load: the file is damaged or newer than this version: unknown entry {kind!r}")
        return decoder(self, value)

    def _items(self, value: Any) -> list[Any]:
        return [self.decode(item) for item in value]

    def _dict(self, value: dict[str, Any]) -> Any:
        kind, pairs = next(iter(value.items()))
        made: Any = {"ordered": OrderedDict, "counter": Counter, "dict": dict}[kind]()
        for key, item in pairs:
            made[self.decode(key)] = self.decode(item)
        if "metadata" in value:
            made._metadata = self.decode(value["metadata"])
        return made

    def _tensor(self, entry: dict[str, Any]) -> _C.Tensor:
        number = int(entry["tensor"])
        if number in self.loaded:
            return self.loaded[number]
        data = self.archive.read(f"data/{number}")
        t = self.place(_C._frombytes(data, _dtype_named(entry["dtype"]), [int(n) for n in entry["shape"]], _C.device("cpu")), entry["device"])
        t = _as_parameter(t, entry["requires_grad"]) if entry["parameter"] else t.requires_grad_(entry["requires_grad"])
        self.loaded[number] = t
        return t

    _DECODERS: dict[str, Callable[[_Reader, dict[str, Any]], Any]] = {
        "float": lambda self, v: float.fromhex(v["float"]),
        "tensor": _tensor,
        "size": lambda self, v: _C.Size(v["size"]),
        "dtype": lambda self, v: _dtype_named(v["dtype"]),
        "device": lambda self, v: _C.device(v["device"]),
        "bytes": lambda self, v: bytes.fromhex(v["bytes"]),
        "dict": _dict,
        "ordered": _dict,
        "counter": _dict,
        "list": lambda self, v: self._items(v["list"]),
        "tuple": lambda self, v: tuple(self._items(v["tuple"])),
        "set": lambda self, v: set(self._items(v["set"])),
    }


def _dtype_named(name: str) -> Any:
    dtype = getattr(_C, name, None)
    if not isinstance(dtype, _C.dtype):
        raise ValueError(f"load: the file names an unknown dtype: {name}")
    return dtype


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Do nothing: :func:`load` makes objects of no class but its own few, whatever is allowed."""


def clear_safe_globals() -> None:
    """Do nothing, as :func:`add_safe_globals`."""


def get_safe_globals() -> list[Any]:
    """Return an empty list."""
    return []


def safe_globals(safe_globals: list[Any]) -> contextlib.AbstractContextManager[None]:
    """Return a context that changes nothing, as :func:`add_safe_globals`."""
    return contextlib.nullcontext()


def save(obj: Any, f: File, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True) -> None:
    """Write tensors, numbers, strings and containers of them to a file.

    Args:
        obj: What to save, usually a ``state_dict``.
        f: A path or a file opened for writing bytes.
        pickle_module: Accepted for compatibility, like the next two: nothing is pickled.
        pickle_protocol: Accepted for compatibility.
        _use_new_zipfile_serialization: Accepted for compatibility.
    """
    import json
    import zipfile

    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[arg-type]
        value = _Writer(archive).encode(obj)
        archive.writestr(_INDEX, json.dumps({"format": FORMAT, "value": value}))


def _placement(map_location: Any) -> Callable[[_C.Tensor, str], _C.Tensor]:
    """Return what moves a loaded tensor to its device."""
    if map_location is None:
        return lambda t, device: t if device == "cpu" else t.to(device)
    if callable(map_location):

        def call(t: _C.Tensor, device: str) -> _C.Tensor:
            placed = map_location(t, device)
            return t.to(device) if placed is None else placed

        return call
    if isinstance(map_location, dict):
        return lambda t, device: t.to(map_location.get(device, device))
    return lambda t, device: t.to(map_location)


def load(f: File, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None) -> Any:
    """Read what :func:`save` wrote, or ``torch.save`` from tensors, numbers, strings and containers of them.

    Args:
        f: A path or a file opened for reading bytes.
        map_location: Where tensors go: a device, a dictionary of device names, or a function of (tensor, device name);
            the device they were on by default.
        pickle_module: Accepted for compatibility: nothing is unpickled.
        weights_only: Accepted for compatibility: files hold data only.
        mmap: Accepted for compatibility.
    """
    # Imported here: they would be a third of the time that importing torchlette takes.
    import json
    import zipfile

    try:
        with zipfile.ZipFile(f, "r") as archive:  # type: ignore[arg-type]
            if _INDEX not in archive.namelist():
                from torchlette.torch_archive import archive_name, read_archive

                folder = archive_name(archive)
                if folder is not None:
                    return read_archive(archive, folder, _placement(map_location))
                raise ValueError(f"load: the file is wrong: it has no entry {_INDEX}; was it saved by torchlette.save?")
            index = json.loads(archive.read(_INDEX))
            if index["format"] != FORMAT:
                raise ValueError(f"load: the file's format is wrong: got {index['format']}, want {FORMAT}")
            return _Reader(archive, _placement(map_location)).decode(index["value"])
    except zipfile.BadZipFile as exc:
        raise ValueError(f"load: the file is wrong: {exc}; was it saved by torchlette.save?") from exc
