"""Reading of files from strangers: bounded sizes, and one class for the errors of damaged files."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pickle
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from torchlette._runtime.errors import InvalidValueError, NotSupportedError, OutOfMemoryError, TorchletteError
from torchlette.io.mapped import LEAST_BYTES, map_file

__all__ = ["Archive", "damaged", "explained", "parse_json", "unsupported"]

#: Of a JSON text, with the number of its values: Python needs up to 100 bytes for each.
JSON_BYTES, JSON_VALUES = 1 << 26, 3_000_000
#: Of an archive.
ENTRIES = 1_000_000
_PLAIN = (ValueError, RuntimeError, NotImplementedError, pickle.UnpicklingError)


def damaged(what: str) -> InvalidValueError:
    """Return the error for a file that is wrong in itself."""
    return InvalidValueError(f"load: the file is damaged: {what}")


def unsupported(what: str) -> NotSupportedError:
    """Return the error for a file that asks for what does not exist here."""
    return NotSupportedError(f"load: {what}")


@contextlib.contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what damaged files raise by accident into one class.

    Args:
        doing: What is done, the beginning of the error's text.
    """
    try:
        yield
    except (TorchletteError, OSError):
        raise
    except MemoryError as exc:
        raise OutOfMemoryError(f"{doing}: the file wants more memory than there is") from exc
    except Exception as exc:
        if type(exc) in _PLAIN:
            raise
        raise InvalidValueError(f"{doing}: the file is damaged: {type(exc).__name__}: {exc}") from exc


def parse_json(text: bytes, what: str) -> Any:
    """Return the value of a JSON text whose values fit in a bounded amount of memory.

    Args:
        text: The text.
        what: Its name, for errors.
    """
    values = text.count(b",") + text.count(b"[") + text.count(b"{")
    if len(text) > JSON_BYTES or values > JSON_VALUES:
        raise damaged(f"{what} has {len(text)} bytes and {values} values, want at most {JSON_BYTES} and {JSON_VALUES}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise damaged(f"{what} is no JSON text: {exc}") from exc


class Archive:
    """The entries of a zip file, without the folder that holds them all.

    Entries are stored as they are, as ``torch.export.save`` writes them: an archive never grows when it is read.

    Args:
        file: A file opened for reading bytes.

    Raises:
        ValueError: The file is no zip file, or its entries are compressed or overlap.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Read the list of entries."""
        self._size = file.seek(0, os.SEEK_END)
        self._file = file
        self._mapped: mmap.mmap | None = None
        try:
            self._zip = zipfile.ZipFile(file, "r")
        except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as exc:
            raise damaged(f"its list of entries is wrong: {exc}") from exc
        entries = self._zip.infolist()
        if len(entries) > ENTRIES or sum(entry.file_size for entry in entries) > self._size:
            raise damaged("its entries are larger than the file")
        names = [entry.filename for entry in entries]
        folder = names[0].partition("/")[0] + "/" if names else ""
        skipped = len(folder) if all(name.startswith(folder) for name in names) else 0
        self._entries = {entry.filename[skipped:]: entry for entry in entries}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self, prefix: str, suffix: str) -> list[str]:
        """Return the names with a beginning and an end."""
        return [name for name in self._entries if name.startswith(prefix) and name.endswith(suffix)]

    def read(self, name: str) -> bytes:
        """Return the bytes of an entry."""
        entry = self._entries.get(name)
        if entry is None:
            raise damaged(f"it has no entry {name!r}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise damaged(f"the entry {name!r} is compressed or encrypted, want it as it is")
        try:
            return self._zip.read(entry)
        except (zipfile.BadZipFile, EOFError, NotImplementedError) as exc:
            raise damaged(f"the entry {name!r} is wrong: {exc}") from exc

    def elements(self, name: str) -> bytes | memoryview:
        """Return the bytes of an entry, in the pages of the mapped file where it is large."""
        entry = self._entries.get(name)
        if entry is None or entry.file_size < LEAST_BYTES or entry.compress_type != zipfile.ZIP_STORED:
            return self.read(name)
        if self._mapped is None:
            self._mapped = map_file(self._file)
        if self._mapped is None:
            return self.read(name)
        data, at = memoryview(self._mapped), entry.header_offset
        head = bytes(data[at : at + 30])
        if len(head) < 30 or head[:4] != b"PK\3\4" or entry.flag_bits & 1:
            return self.read(name)
        start = at + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        if start + entry.file_size > len(data):
            raise damaged(f"the entry {name!r} is outside of the file")
        return data[start : start + entry.file_size]

    def json(self, name: str) -> Any:
        """Return the value of an entry of JSON."""
        return parse_json(self.read(name), name)
