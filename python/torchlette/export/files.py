"""Files of programs.

A file is a zip with two entries, stored as they are: ``program.json``, and ``weights.safetensors`` with the constants by
name. The weights begin at a multiple of 64 bytes, so that a reader may map them. docs/internals/programs.md describes
the text.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import Any

from torchlette import _C
from torchlette.export.program import ExportedProgram
from torchlette.io.safetensors import write_safetensors

__all__ = ["load", "read", "save", "write"]

_TEXT, _WEIGHTS = "program.json", "weights.safetensors"
_ALIGNMENT = 64
#: Names that only a zip of torch.export.save has, below its top folder.
_PT2 = ("models/model.json", "archive_format", "serialized_exported_program.json")


def _entry(archive: zipfile.ZipFile, name: str, position: int) -> zipfile.ZipInfo:
    """Return an entry whose data are aligned, by a field of padding in its header."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_STORED
    # The local header has 30 bytes, the name, a zip64 field of 20, and the padding, a field of at least 4 bytes.
    begin = position + 30 + len(name) + 20 + 4
    padding = -begin % _ALIGNMENT
    info.extra = b"\x4c\x54" + padding.to_bytes(2, "little") + bytes(padding)
    return info


def write(spec: dict[str, Any], constants: list[_C.Tensor], path: str | os.PathLike[str]) -> None:
    """Write a program and its constants to a file."""
    tensors = {entry["name"]: t for entry, t in zip(spec["constants"], constants, strict=True)}
    with open(path, "wb") as f, zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_TEXT, json.dumps(spec, separators=(",", ":")))
        with archive.open(_entry(archive, _WEIGHTS, f.tell()), "w", force_zip64=True) as out:
            write_safetensors(out, tensors, {})


def save(ep: ExportedProgram, f: str | os.PathLike[str]) -> None:
    """Write a program to a file.

    Args:
        ep: What :func:`export` or ``export_training`` returned.
        f: A path.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: got {type(ep).__name__}, want an ExportedProgram")
    write(ep.spec, ep.constants, f)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[_C.Tensor], int]:
    """Read a file: the program, its constants, and the engine's number of the program."""
    number = _C._program_open(path)
    spec = json.loads(_C._info("program", number))
    constants = []
    for i, entry in enumerate(spec["constants"]):
        t = _C._program_constant(number, i)
        constants.append(t.requires_grad_() if entry["requires_grad"] else t)
    return spec, constants, number


def load(f: str | os.PathLike[str]) -> ExportedProgram:
    """Read a program: a file of :func:`save`, or of ``torch.export.save``.

    Args:
        f: A path.

    Raises:
        OSError: There is no such file.
        ValueError: The file is damaged, or of another kind.
        NotImplementedError: The file has a version or an operator that this library does not know.
    """
    with open(f, "rb") as file:
        head = file.read(4)
        names: list[str] = []
        if head == b"PK\x03\x04":
            file.seek(0)
            try:
                names = zipfile.ZipFile(io.BufferedReader(file)).namelist()  # type: ignore[arg-type]
            except (zipfile.BadZipFile, NotImplementedError, OverflowError) as exc:
                raise ValueError(f"export.load: the file is damaged: {exc}") from exc
    if _TEXT not in names and any(name.endswith(_PT2) for name in names):
        from torchlette._import import pt2

        program: ExportedProgram = pt2.load(f)
        return program
    spec, constants, number = read(f)
    return ExportedProgram(spec, constants, number)
