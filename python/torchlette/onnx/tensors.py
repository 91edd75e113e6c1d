"""Elements of tensors in ONNX files, and small tensors whose elements Python knows.

Graphs compute sizes with tensors: ``Shape``, ``Gather``, ``Concat``, ``Reshape``. Here these are :class:`Host` values,
Python numbers, so that sizes are known when the graph is recorded.
"""

from __future__ import annotations

import math
import os
import stat
from array import array
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._import.files import damaged, unsupported
from torchlette._runtime.dtype_table import KINDS, ONNX_NUMBERS
from torchlette.io.mapped import map_file, tensor_over
from torchlette.onnx.model import TensorData

__all__ = ["CODES", "DTYPES", "HOST_LIMIT", "Files", "Host", "dtype_of", "host_or_tensor", "letter"]

Tensor = _C.Tensor

#: The numbers of TensorProto.DataType.
DTYPES = {number: dtype for dtype, number in ONNX_NUMBERS.items()}
CODES = ONNX_NUMBERS
_NAMES = {8: "string", 14: "complex64", 15: "complex128", 17: "float8e4m3fn"}
#: Elements of 4 bits, unpacked to bytes.
_HALVES = {21: _C.uint8, 22: _C.int8}
#: Elements of a tensor that Python keeps as numbers.
HOST_LIMIT = 1024
_LETTERS = {
    "b": {1: "B"},
    "i": {1: "b", 2: "h", 4: "i", 8: "q"},
    "u": {1: "B", 2: "H", 4: "I", 8: "Q"},
    "f": {2: "H", 4: "f", 8: "d"},
}


def letter(dtype: _C.dtype) -> str:
    """Return the letter of arrays of Python for a dtype; floats of 16 bits are whole numbers there."""
    return _LETTERS[KINDS[dtype]][dtype.itemsize]


def dtype_of(code: Any) -> _C.dtype:
    """Return the dtype of a number of the file format."""
    found = DTYPES.get(code)
    if found is None:
        raise unsupported(f"tensors of dtype {_NAMES.get(code, code)} are not supported")
    return found


class Host:
    """A small tensor as Python numbers.

    Args:
        values: The elements, row-major.
        shape: The sizes.
        dtype: The dtype.
        moving: Whether an element depends on the size of an input.
    """

    __slots__ = ("dtype", "moving", "shape", "values")

    def __init__(self, values: Sequence[Any], shape: Sequence[int], dtype: _C.dtype, moving: bool = False) -> None:
        self.values, self.shape, self.dtype, self.moving = list(values), list(shape), dtype, moving

    def nested(self) -> Any:
        """Return the number, or nested lists of numbers."""
        values: list[Any] = self.values
        if not self.shape:
            return values[0]
        for size in reversed(self.shape[1:]):
            values = [values[i * size : i * size + size] for i in range(len(values) // size if size else 0)]
        return values

    def tensor(self, device: Any) -> Tensor:
        """Return a tensor of the elements.

        Elements that depend on sizes are fills, which a recorder of operators sees as numbers; others are a constant.
        """
        if self.moving and 0 < len(self.values) <= 64:
            parts = [_C.full([1], value, dtype=self.dtype, device=device) for value in self.values]
            return (parts[0] if len(parts) == 1 else _C.cat(parts)).reshape(self.shape)
        return _C.tensor(self.values, dtype=self.dtype, device=device).reshape(self.shape)


def host_or_tensor(data: TensorData, files: Files) -> tuple[Tensor, Host | None]:
    """Return the tensor of a file, and its numbers if they are few.

    Args:
        data: From the file.
        files: Reads elements that are in other files.
    """
    if data.dtype in _HALVES:
        return _halves(data, files), None
    dtype = dtype_of(data.dtype)
    count = math.prod(data.dims)
    raw = files.read(data) if data.location == 1 else data.raw
    if raw is None:
        raw = _numbers(data, dtype, count)
    if len(raw) != count * dtype.itemsize:
        raise damaged(
            f"the tensor {data.name!r} has {len(raw)} bytes, its sizes {data.dims} and dtype want "
            f"{count * dtype.itemsize}"
        )
    tensor = tensor_over(raw, dtype, data.dims)
    host = None
    if count <= HOST_LIMIT and dtype not in (_C.float16, _C.bfloat16):
        values = array(letter(dtype))
        values.frombytes(raw)
        found: list[Any] = values.tolist()
        host = Host([bool(v) for v in found] if dtype is _C.bool else found, data.dims, dtype)
    return tensor, host


def _numbers(data: TensorData, dtype: _C.dtype, count: int) -> bytes:
    """Return the bytes of elements that are in fields of numbers."""
    out = array(letter(dtype))
    for number, values in data.elements():
        if (number in (4, 10)) != (out.typecode in "fd"):
            raise damaged(f"the tensor {data.name!r} has elements of another dtype than its own")
        for value in values:
            if len(out) >= count:
                raise damaged(f"the tensor {data.name!r} has more than {count} elements")
            out.append(value)
    return out.tobytes()


def _halves(data: TensorData, files: Files) -> Tensor:
    """Return elements of 4 bits as bytes: the low half of a byte comes first."""
    count = math.prod(data.dims)
    raw = files.read(data) if data.location == 1 else data.raw
    if raw is None:
        raw = bytes(value & 0xFF for _, values in data.elements() for value in values)
    if len(raw) != (count + 1) // 2:
        raise damaged(f"the tensor {data.name!r} has {len(raw)} bytes, its sizes {data.dims} want {(count + 1) // 2}")
    pairs = _C._frombytes(bytes(raw), _C.uint8, [len(raw)], _C.device("cpu"))
    nibbles = _C.stack([pairs & 15, pairs >> 4], 1).reshape(-1)[:count].reshape(data.dims)
    if data.dtype == 21:
        return nibbles
    signed = nibbles.to(_C.int8)
    return _C.where(signed > 7, signed - 16, signed)


class Files:
    """The files beside a model that hold its tensors: those in its folder, and no others.

    Args:
        folder: The model's folder; None for a model that is no file.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else os.path.realpath(folder)
        self._open: dict[str, Any] = {}

    def read(self, data: TensorData) -> Any:
        """Return the bytes of a tensor.

        Raises:
            ValueError: The file is outside the folder, or too short.
        """
        location = data.external.get("location", "")
        if self._folder is None:
            raise damaged(f"the tensor {data.name!r} is in the file {location!r}, and the model is in none")
        mapped = self._mapped(location, data.name)
        try:
            offset = int(data.external.get("offset", "0"))
            length = int(data.external.get("length", str(len(mapped) - offset)))
        except ValueError as exc:
            raise damaged(f"the tensor {data.name!r} has a place that is no number") from exc
        if not (0 <= offset <= len(mapped) and 0 <= length <= len(mapped) - offset):
            raise damaged(f"the tensor {data.name!r} is at {offset}, {length} bytes, of {len(mapped)} in {location!r}")
        return memoryview(mapped)[offset : offset + length]

    def _mapped(self, location: str, name: str) -> Any:
        if location in self._open:
            return self._open[location]
        assert self._folder is not None
        parts = location.replace("\\", "/").split("/")
        path = os.path.realpath(os.path.join(self._folder, *parts)) if "\0" not in location else ""
        if (
            location[:1] in ("", "/", "\\")
            or ".." in parts
            or ":" in location
            or not path.startswith(os.path.join(self._folder, ""))
        ):
            raise damaged(f"the tensor {name!r} is in the file {location!r}, which is outside the model's folder")
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError as exc:
            raise damaged(f"the tensor {name!r} is in the file {location!r}, which cannot be read: {exc}") from exc
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise damaged(f"the tensor {name!r} is in {location!r}, which is no file")
            with os.fdopen(os.dup(file), "rb") as opened:
                self._open[location] = map_file(opened) or opened.read()
        finally:
            os.close(file)
        return self._open[location]
