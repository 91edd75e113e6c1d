"""Files in memory: tensors over the pages of a file, read when they are used.

A mapping is private: a write to a tensor stays in memory. What else writes to the file may be seen, so this package
writes no file over a mapped one: it makes a new file in its place.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterable
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

from torchlette import _C
from torchlette._runtime.errors import MissingDirectoryError

__all__ = ["map_file", "open_to_write", "tensor_over"]

#: Smaller tensors are copied: that costs less than to keep an owner.
LEAST_BYTES = 1 << 14
#: By device and inode.
_mapped: WeakValueDictionary[tuple[int, int], mmap.mmap] = WeakValueDictionary()


def map_file(file: BinaryIO) -> mmap.mmap | None:
    """Map a whole file, which may be closed then.

    Returns:
        The mapping; None where the file is empty, or none of the file system.
    """
    try:
        found = os.fstat(file.fileno())
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        return None
    _mapped[found.st_dev, found.st_ino] = memory
    return memory


def tensor_over(data: Any, dtype: Any, shape: Iterable[int]) -> _C.Tensor:
    """Return a tensor on the CPU over a part of a mapping, which it keeps. Small parts and unaligned ones are copied.

    A session can free the copy of an unaligned part, since the part stays.

    Args:
        data: The elements: a memoryview of bytes of a mapping, or bytes, which are copied.
        dtype: Of the elements.
        shape: Sizes.

    Raises:
        ValueError: The shape wants another number of bytes.
    """
    shape = tuple(shape)
    large = isinstance(data, memoryview) and isinstance(data.obj, mmap.mmap) and not data.readonly
    large = large and len(data) >= LEAST_BYTES
    if large and len(data) == math.prod(shape) * dtype.itemsize:
        return _C._from_memory(data, dtype, shape, None, 0, True)
    return _C._frombytes(data, dtype, shape, _C.device("cpu"))


def open_to_write(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a path for writing bytes. Tensors that map the old file keep their values."""
    try:
        found = os.stat(path)
    except OSError:
        found = None
    if found is not None and (found.st_dev, found.st_ino) in _mapped:
        os.unlink(os.path.realpath(path))
    folder = os.path.dirname(os.fspath(path))
    if folder and not os.path.isdir(folder):
        raise MissingDirectoryError(f"Parent directory {os.fsdecode(folder)} does not exist.")
    return open(path, "wb")
