"""The safetensors file format: named tensors behind a JSON header, read and written without its library.

Layout::

    8 bytes    length of the header, little-endian
    header     JSON: {"__metadata__": {text: text}, NAME: ENTRY, ...}
               ENTRY: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    data       the elements of all tensors, dense, row-major, little-endian, without gaps

A header is checked whole before any tensor is read: a malformed file is a ValueError and is never read past its end.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from torchlette import _C
from torchlette._runtime.dtype_table import SHORT_NAMES
from torchlette._runtime.errors import FileFormatError
from torchlette.io.mapped import tensor_over

__all__ = ["SafetensorsReader", "write_safetensors"]

_NAMES = {name: dtype for dtype, name in SHORT_NAMES.items()}
#: The format's own limit, against files that claim an enormous header.
HEADER_LIMIT = 100_000_000
_METADATA = "__metadata__"


def write_safetensors(f: BinaryIO, tensors: Mapping[str, _C.Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and texts to a file; one tensor at a time is in host memory.

    Args:
        f: A file opened for writing bytes.
        tensors: Tensors by name.
        metadata: Texts by name.

    Raises:
        ValueError: The names and texts are longer than a header may be.
    """
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    # Widest elements first: with a header padded to 8 bytes all tensors are aligned, for readers that map the file.
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)
    end = 0
    for name in order:
        t = tensors[name]
        begin, end = end, end + t.numel() * t.dtype.itemsize
        header[name] = {"dtype": SHORT_NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise ValueError(f"save: the names and other values take {len(text)} bytes, want at most {HEADER_LIMIT}")
    f.write(len(text).to_bytes(8, "little"))
    f.write(text)
    for name in order:
        f.write(_C._tobytes(tensors[name].detach()))


def _damaged(what: str) -> FileFormatError:
    return FileFormatError(f"load: the file is damaged: {what}")


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"it names {key!r} twice")
        found[key] = value
    return found


def _is_length(n: Any) -> bool:
    return type(n) is int and 0 <= n < 2**63


def _extent(name: str, entry: Any) -> tuple[int, int]:
    """Check one entry of a header; return where its data begins and ends."""
    if not isinstance(entry, dict) or not set(entry) >= {"dtype", "shape", "data_offsets"}:
        raise _damaged(f"the entry of {name!r} is no dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _NAMES:
        raise FileFormatError(
            f"load: the dtype of {name!r} is not supported: got {dtype}, want one of {', '.join(_NAMES)}"
        )
    if not isinstance(shape, list) or not all(map(_is_length, shape)):
        raise _damaged(f"the shape of {name!r} is {shape}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_length, offsets)):
        raise _damaged(f"the data_offsets of {name!r} are {offsets}")
    begin, end = offsets
    wanted = math.prod(shape) * _NAMES[dtype].itemsize
    if end - begin != wanted:
        raise _damaged(f"{name!r} has {end - begin} bytes of data, its shape and dtype want {wanted}")
    return begin, end


class SafetensorsReader:
    """A file's tensors by name.

    Args:
        f: A file opened for reading bytes, at the beginning of the header; it must allow ``seek``. Tensors of a mapping
            (``map_file``) are made over its pages, others are copied.

    Raises:
        ValueError: The file is not of the format, or damaged, or has a dtype that is not supported.
    """

    def __init__(self, f: BinaryIO | mmap.mmap) -> None:
        """Read and check the header."""
        start = f.tell()
        f.seek(0, 2)
        size = f.tell() - start
        f.seek(start)
        length = int.from_bytes(f.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, HEADER_LIMIT):
            raise FileFormatError("load: the file is wrong: it is neither a safetensors file nor a zip of torch.save")
        text = f.read(length)
        if len(text) != length or text[:1] != b"{":
            raise FileFormatError("load: the file is wrong: a safetensors file has a JSON object as its header")
        try:
            header = json.loads(text.decode(), object_pairs_hook=_once)
        except (ValueError, RecursionError) as exc:
            raise _damaged(f"its header is wrong: {exc}") from exc
        self.metadata: dict[str, str] = header.pop(_METADATA, {})
        if not isinstance(self.metadata, dict) or not all(isinstance(v, str) for v in self.metadata.values()):
            raise _damaged("its metadata are no texts")
        self._file, self._data, self._entries = f, start + 8 + length, header
        extents = sorted((*_extent(name, entry), name) for name, entry in header.items())
        end = 0
        for begin, stop, name in extents:
            if begin != end:
                raise _damaged(f"the data of {name!r} begins at {begin}, want {end}, where the tensor before ends")
            end = stop
        if end != size - 8 - length:
            raise _damaged(f"it has {size - 8 - length} bytes of data, its tensors want {end}")
        #: In the order of their data.
        self.names = [name for _, _, name in extents]

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def dtype(self, name: str) -> _C.dtype:
        """Return the dtype of a tensor, without its data."""
        found: _C.dtype = _NAMES[self._entries[name]["dtype"]]
        return found

    def tensor(self, name: str) -> _C.Tensor:
        """Read a tensor, to the CPU."""
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        dtype = _NAMES[entry["dtype"]]
        if isinstance(self._file, mmap.mmap):
            return tensor_over(memoryview(self._file)[self._data + begin : self._data + end], dtype, entry["shape"])
        self._file.seek(self._data + begin)
        data = self._file.read(end - begin)
        if len(data) != end - begin:
            raise _damaged(f"it ends within {name!r}")
        return _C._frombytes(data, dtype, entry["shape"], _C.device("cpu"))
