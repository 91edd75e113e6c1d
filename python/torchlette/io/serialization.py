"""Saving and loading: safetensors files.

:func:`save` stores each tensor under its path in the saved object, as in "model.0.weight", so any reader of safetensors
files finds the tensors. Everything else is JSON in the file's metadata, under "torchlette": containers, numbers,
strings, devices, and which tensors are parameters or share elements. Nothing in a file is ever executed: loading a file
from an unknown source is safe.

:func:`load` also reads safetensors files of other programs, the files of ``torch.save``, and the former format of
:func:`save`: a zip of one JSON text and the raw bytes of each tensor.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from torchlette import _C
from torchlette._runtime.errors import FileFormatError
from torchlette.io.mapped import map_file, open_to_write

if TYPE_CHECKING:
    import zipfile

    from torchlette.io.safetensors import SafetensorsReader

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

#: The version of the JSON text; 1 is the version of the zip files.
FORMAT = 2
_STRUCTURE = "torchlette"
#: The format limits the size of metadata: a longer JSON text is stored as a tensor of this name.
_STRUCTURE_TENSOR = "__torchlette__"
_LONG_STRUCTURE = 10_000_000
_ZIP_INDEX = "torchlette.json"

File = str | os.PathLike[str] | BinaryIO
#: Moves a loaded tensor to the device of a name.
Place = Callable[[_C.Tensor, str], _C.Tensor]


# Import torchlette.nn lazily: ``import torchlette`` alone must not load it.


def _is_parameter(t: _C.Tensor) -> bool:
    from torchlette.nn.parameter import Parameter

    return isinstance(t, Parameter)


def _as_parameter(t: _C.Tensor, requires_grad: bool) -> _C.Tensor:
    from torchlette.nn.parameter import Parameter

    return Parameter(t, requires_grad)


class _Writer:
    """Turns a value into JSON and collects its tensors by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, _C.Tensor] = {}
        self._named: dict[int, str] = {}  # by the object's id; ``tensors`` keeps the objects
        self._places: dict[Any, str] = {}  # by the elements

    def encode(self, value: Any, path: str | None = None) -> Any:
        """Return the JSON of a value; ``path`` is its path in the saved object."""
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if isinstance(value, float):  # NumPy's float64 too
            # JSON has no infinities or NaN; hex keeps all bits.
            return {"float": value.hex()}
        if isinstance(value, _C.Tensor):
            return self._tensor(value, path)
        if isinstance(value, _C.Size):
            return {"size": list(value)}
        if isinstance(value, _C.dtype):
            return {"dtype": str(value).rpartition(".")[2]}
        if isinstance(value, _C.device):
            return {"device": str(value)}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": bytes(value).hex()}
        if isinstance(value, dict):
            return self._dict(value, path)
        for kind, cls in (("list", list), ("set", set), ("tuple", tuple)):
            if type(value) is cls or kind == "tuple" and isinstance(value, tuple):
                return {kind: [self.encode(item, _below(path, i)) for i, item in enumerate(value)]}
        raise TypeError(
            f"save: value is wrong: got {type(value).__module__}.{type(value).__qualname__}, want tensors, numbers, "
            "strings and containers of them (save a module's state_dict(), not the module)"
        )

    def _dict(self, value: dict[Any, Any], path: str | None) -> Any:
        pairs = [[self.encode(key, path), self.encode(item, _below(path, key))] for key, item in value.items()]
        kind = "ordered" if isinstance(value, OrderedDict) else "counter" if isinstance(value, Counter) else "dict"
        encoded: dict[str, Any] = {kind: pairs}
        metadata = getattr(value, "_metadata", None)
        if metadata is not None:
            encoded["metadata"] = self.encode(metadata, _below(path, "_metadata"))
        return encoded

    def _tensor(self, t: _C.Tensor, path: str | None) -> Any:
        """Add a tensor under its path. Tensors that share elements share them again after loading."""
        name = self._free(path)
        first = self._named.setdefault(id(t), name)
        self.tensors[name] = t
        if first != name:
            return {"tensor": first}
        # Equal for tensors that view the same part of the same base.
        base = t._identity() - t.storage_offset() * t.element_size()
        place = (base, t.storage_offset(), t.dtype, tuple(t.shape), tuple(t.stride())) if t.numel() > 0 else name
        return {
            "tensor": name,
            "of": self._places.setdefault(place, name),
            "device": str(t.device),
            "requires_grad": t.requires_grad,
            "parameter": _is_parameter(t),
        }

    def _free(self, path: str | None) -> str:
        """Return an unused name made from the path."""
        name = tried = "tensor" if path is None else path
        count = 1
        while tried in self.tensors or tried in ("__metadata__", _STRUCTURE_TENSOR):
            count += 1
            tried = f"{name}#{count}"
        return tried


def _below(path: str | None, key: Any) -> str:
    return str(key) if path is None else f"{path}.{key}"


class _Reader:
    """Turns the JSON of a safetensors file back into a value."""

    def __init__(self, file: SafetensorsReader, place: Place) -> None:
        self.file = file
        self.place = place
        self.loaded: dict[Any, _C.Tensor] = {}
        self.elements: dict[Any, _C.Tensor] = {}
        self.placing = False

    def read(self, text: str | bytes, wanted: int) -> Any:
        """Return the value of a whole JSON text of the format ``wanted``."""
        try:
            index = json.loads(text)
            if index["format"] != wanted:
                raise FileFormatError(f"load: the file's format is wrong: got {index['format']}, want {wanted}")
            return self.decode(index["value"])
        except (AttributeError, LookupError, RecursionError, TypeError, json.JSONDecodeError) as exc:
            if self.placing:  # an error raised by map_location
                raise
            raise FileFormatError(f"load: the file is damaged: {type(exc).__name__}: {exc}") from exc

    def decode(self, value: Any) -> Any:
        """Return the value of a JSON text."""
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise FileFormatError("load: the file is damaged: a list outside a container")
            return value
        kind = next(iter(value), "")
        decoder = self._DECODERS.get(kind)
        if decoder is None:
            raise FileFormatError(f"load: the file is damaged or newer than this version: unknown entry {kind!r}")
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
        name = entry["tensor"]
        if name not in self.loaded:
            t = self._elements(entry).detach()
            grad = bool(entry["requires_grad"])
            self.loaded[name] = _as_parameter(t, grad) if entry["parameter"] else t.requires_grad_(grad)
        return self.loaded[name]

    def _elements(self, entry: dict[str, Any]) -> _C.Tensor:
        name = entry["of"]
        if name not in self.elements:
            if name not in self.file:
                raise FileFormatError(f"load: the file is damaged: it has no tensor {name!r}")
            self.elements[name] = self._placed(self.file.tensor(name), entry["device"])
        return self.elements[name]

    def _placed(self, t: _C.Tensor, device: str) -> _C.Tensor:
        self.placing = True
        t = self.place(t, device)
        self.placing = False
        return t

    _DECODERS: dict[str, Callable[[_Reader, dict[str, Any]], Any]] = {
        "float": lambda self, v: float.fromhex(v["float"]),
        "tensor": lambda self, v: self._tensor(v),
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


class _ZipReader(_Reader):
    """Turns the JSON of a zip file back into a value."""

    def __init__(self, archive: zipfile.ZipFile, place: Place) -> None:
        super().__init__(None, place)  # type: ignore[arg-type]
        self.archive = archive

    def _elements(self, entry: dict[str, Any]) -> _C.Tensor:
        data = self.archive.read(f"data/{int(entry['tensor'])}")
        shape = [int(n) for n in entry["shape"]]
        return self._placed(_C._frombytes(data, _dtype_named(entry["dtype"]), shape, _C.device("cpu")), entry["device"])


def _dtype_named(name: str) -> Any:
    dtype = getattr(_C, name, None)
    if not isinstance(dtype, _C.dtype):
        raise FileFormatError(f"load: the file names an unknown dtype: {name}")
    return dtype


def _names(allowed: list[Any]) -> dict[tuple[str, str], Any]:
    """Return classes and functions by the names that they have in files."""
    from torchlette.io.torch_pickle import file_name

    found: dict[tuple[str, str], Any] = {}
    for item in allowed:
        if isinstance(item, tuple):
            module, _, name = item[1].rpartition(".")
            found[module, name] = item[0]
        else:
            found[file_name(item)] = item
    return found


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let :func:`load` with ``weights_only`` make objects of more classes, and call more functions.

    Args:
        safe_globals: Classes and functions, or pairs of one and its full name in files.
    """
    from torchlette.io.torch_archive import safe_names

    safe_names.update(_names(safe_globals))


def clear_safe_globals() -> None:
    """Forget what :func:`add_safe_globals` added."""
    from torchlette.io.torch_archive import safe_names

    safe_names.clear()


def get_safe_globals() -> list[Any]:
    """Return what :func:`add_safe_globals` added."""
    from torchlette.io.torch_archive import safe_names

    return list(safe_names.values())


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Do what :func:`add_safe_globals` does until the end of the block."""
    from torchlette.io.torch_archive import safe_names

    before = dict(safe_names)
    safe_names.update(_names(safe_globals))
    try:
        yield
    finally:
        safe_names.clear()
        safe_names.update(before)


def save(
    obj: Any,
    f: File,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, numbers, strings and containers of them to a safetensors file.

    The library ``safetensors`` reads a dictionary of tensors under the same names; a tensor in nested containers has
    its path as its name, as in "model.0.weight". A view is stored with its own elements only.

    Args:
        obj: What to save, usually a ``state_dict``.
        f: A path or a file opened for writing bytes.
        pickle_module: Accepted for compatibility: nothing is pickled.
        pickle_protocol: Accepted for compatibility.
        _use_new_zipfile_serialization: Accepted for compatibility.

    Raises:
        TypeError: ``obj`` holds an object of another type, such as a module. The file is left unchanged.
    """
    from torchlette.io.safetensors import write_safetensors

    writer = _Writer()
    value = writer.encode(obj)
    structure = json.dumps({"format": FORMAT, "value": value}, separators=(",", ":"))
    if len(structure) > _LONG_STRUCTURE:
        data = structure.encode()
        writer.tensors[_STRUCTURE_TENSOR] = _C._frombytes(data, _C.uint8, [len(data)], _C.device("cpu"))
        structure = ""
    # Libraries on top of safetensors look for "pt": row-major tensors named as in a state_dict.
    metadata = {"format": "pt", _STRUCTURE: structure}
    if isinstance(f, (str, os.PathLike)):
        with open_to_write(f) as file:
            write_safetensors(file, writer.tensors, metadata)
    else:
        write_safetensors(f, writer.tensors, metadata)


def _placement(map_location: Any) -> Place:
    """Return the function that moves a loaded tensor to its device."""
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


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """Read a safetensors file, an index of several, or a file of ``torch.save``.

    Args:
        f: A path or a file opened for reading bytes, which must allow ``seek``. A path that ends in ``.index.json``
            names an index of safetensors files in its folder.
        map_location: The device of the loaded tensors: a device, a dictionary of device names, or a function of
            (tensor, device name). By default each returns to the device it was saved from.
        pickle_module: Accepted for compatibility.
        weights_only: With True or None the file must hold tensors, numbers, strings and containers of them, and loading
            it runs no code from it. With False it may hold any object: **loading runs what the file asks for**, so it
            must be from a source that you trust.
        mmap: Whether tensors on the CPU are over the file's pages, which are read when they are used, and then kept
            as long as a tensor is; ``f`` must be a path. None: those of safetensors files are, others are copied. A
            program that changes a mapped file in place changes the tensors. ``save`` makes a new file in its place.

    Returns:
        The saved object. For a safetensors file of another program: a dictionary of its tensors.

    Raises:
        ValueError: The file is of another kind, or damaged.
        pickle.UnpicklingError: A file of ``torch.save`` is damaged, or holds more than ``weights_only`` allows.
    """
    only, place = weights_only is not False, _placement(map_location)
    if isinstance(f, (str, os.PathLike)):
        if os.fspath(f).endswith(".index.json"):
            from torchlette.io.sharded import read_index

            return read_index(os.fspath(f), place, mmap is not False)
        with open(f, "rb") as file:
            return _load_file(file, place, only, mmap)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    return _load_file(f, place, only, False)


def _load_file(file: BinaryIO, place: Place, weights_only: bool, mmap: bool | None) -> Any:
    start = file.tell()
    if not (magic := file.read(4)):  # at the end of what was just written
        start = file.seek(0)
        magic = file.read(4)
    file.seek(start)
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
        return _load_zip(file, place, weights_only, bool(mmap))
    from torchlette.io.torch_archive import is_legacy, read_legacy

    if not is_legacy(magic):
        return _load_safetensors(file, place, mmap is not False)
    if mmap:
        raise RuntimeError(
            "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`"
        )
    return read_legacy(file, place, weights_only)


def _load_safetensors(file: BinaryIO, place: Place, mmap: bool) -> Any:
    from torchlette.io.safetensors import SafetensorsReader

    reader = SafetensorsReader((map_file(file) if mmap else None) or file)
    structure = reader.metadata.get(_STRUCTURE)
    if structure is None:
        return {name: place(reader.tensor(name), "cpu") for name in reader.names}
    if structure == "" and _STRUCTURE_TENSOR in reader:
        structure = _C._tobytes(reader.tensor(_STRUCTURE_TENSOR)).decode()
    return _Reader(reader, place).read(structure, FORMAT)


def _load_zip(file: BinaryIO, place: Place, weights_only: bool, mmap: bool) -> Any:
    import zipfile

    from torchlette.io.torch_archive import archive_name, read_archive

    try:
        with zipfile.ZipFile(file, "r") as archive:
            if _ZIP_INDEX in archive.namelist():
                return _ZipReader(archive, place).read(archive.read(_ZIP_INDEX), 1)
            folder = archive_name(archive)
            if folder is None:
                raise FileFormatError(f"load: the file is wrong: it has no entry {_ZIP_INDEX} and no data.pkl")
            mapped = map_file(file) if mmap else None
            if mapped is None:
                return read_archive(archive, folder, place, weights_only)
            return read_archive(archive, folder, place, weights_only, memoryview(mapped))
    except zipfile.BadZipFile as exc:
        raise FileFormatError(f"load: the file is wrong: {exc}") from exc
