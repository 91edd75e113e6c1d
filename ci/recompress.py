"""Compress a wheel's entries anew with zopfli, whose DEFLATE streams are about 4 % smaller than zlib's.

RECORD holds hashes of the entries' contents, so it stays valid.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import zopfli.zlib

ZLIB_HEADER, ZLIB_CHECKSUM = 2, 4  # bytes around the DEFLATE stream


class _Compressor:
    """A compressor object, as zlib.compressobj gives, that makes one raw DEFLATE stream."""

    def __init__(self) -> None:
        self._data = bytearray()

    def compress(self, data: bytes) -> bytes:
        self._data += data
        return b""

    def flush(self) -> bytes:
        return zopfli.zlib.compress(bytes(self._data), numiterations=1)[ZLIB_HEADER:-ZLIB_CHECKSUM]


class _ZipFile(zipfile.ZipFile):
    """A ZipFile whose entries are compressed by zopfli."""

    def open(self, *args: Any, **options: Any) -> IO[bytes]:
        file = super().open(*args, **options)
        if "w" in (*args[1:2], options.get("mode")):
            file._compressor = _Compressor()  # type: ignore[attr-defined]  # zipfile has no public way
        return file


def recompress(path: Path) -> None:
    """Replace the wheel at path by one with the same entries."""
    smaller = path.with_suffix(".tmp")
    with zipfile.ZipFile(path) as old, _ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, old.read(entry))
    smaller.replace(path)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        recompress(Path(argument))
