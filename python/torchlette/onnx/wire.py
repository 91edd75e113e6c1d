"""Protocol buffers: reading and writing of messages, without the library of that name.

A message is a row of fields. A field is a key, a varint of ``number << 3 | wire type``, and a value: a varint (0), 8
bytes (1), a length and as many bytes (2), or 4 bytes (5).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import Any

from torchlette._import.files import damaged

__all__ = ["Budget", "Writer", "doubles", "fields", "floats", "signed", "varints"]


class Budget:
    """The number of fields that a file may still have: each takes up to some hundred bytes of Python objects."""

    def __init__(self, fields: int) -> None:
        self.left = fields

    def take(self) -> None:
        """Count a field.

        Raises:
            ValueError: The file has too many.
        """
        self.left -= 1
        if self.left < 0:
            raise damaged("it has too many fields")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise damaged("a number does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def signed(value: int) -> int:
    """Return the signed number of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def fields(data: memoryview, budget: Budget) -> Iterator[tuple[int, int, Any]]:
    """Give the fields of a message: number, wire type, and an int or the bytes of the value.

    Args:
        data: The message.
        budget: Counts the fields.
    """
    at, end = 0, len(data)
    while at < end:
        budget.take()
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise damaged(f"a field has the wire type {kind}")
        if length > end - at or number == 0:
            raise damaged(f"a field of {length} bytes goes past the end of its message")
        yield number, kind, data[at : at + length]
        at += length


def varints(kind: int, value: Any) -> Iterator[int]:
    """Give the signed numbers of a field, packed or not."""
    if kind == 0:
        yield signed(value)
    elif kind == 2:
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            yield signed(number)
    else:
        raise damaged("a field that wants whole numbers has others")


def _floats(value: Any, letter: str, size: int) -> array[float]:
    if not isinstance(value, memoryview) or len(value) % size:
        raise damaged("a field that wants floats has others")
    found = array(letter)
    found.frombytes(value)
    return found


def floats(value: Any) -> array[float]:
    """Return the floats of 4 bytes of a field, packed or not."""
    return _floats(value, "f", 4)


def doubles(value: Any) -> array[float]:
    """Return the floats of 8 bytes of a field, packed or not."""
    return _floats(value, "d", 8)


class Writer:
    """Collects the fields of a message."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def _key(self, number: int, kind: int) -> None:
        self._parts.append(_encoded(number << 3 | kind))

    def add_int(self, number: int, value: int) -> None:
        """Add a whole number."""
        self._key(number, 0)
        self._parts.append(_encoded(value & 0xFFFFFFFFFFFFFFFF))

    def add_float(self, number: int, value: float) -> None:
        """Add a float of 4 bytes."""
        self._key(number, 5)
        self._parts.append(struct.pack("<f", value))

    def add_bytes(self, number: int, value: bytes) -> None:
        """Add bytes."""
        self._key(number, 2)
        self._parts += [_encoded(len(value)), value]

    def add_text(self, number: int, value: str) -> None:
        """Add a text."""
        self.add_bytes(number, value.encode())

    def add_message(self, number: int, value: Writer) -> None:
        """Add a message."""
        self.add_bytes(number, value.data())

    def data(self) -> bytes:
        """Return the message."""
        return b"".join(self._parts)


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
