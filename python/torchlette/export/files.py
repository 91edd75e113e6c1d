"""Files of programs.

A file is a zip with two entries, stored as they are: ``program.json``, and ``weights.safetensors`` with the constants
by name. The weights begin at a multiple of 64 bytes, so that a reader may map them: :func:`load` does.
docs/internals/programs.md describes the text.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from torchlette import _C
from torchlette.export.nests import checked
from torchlette.export.program import ExportedProgram
from torchlette.io.mapped import map_file, open_to_write, tensor_over
from torchlette.io.safetensors import write_safetensors

if TYPE_CHECKING:
    from torchlette.onnx.graph import OnnxModule

__all__ = ["load", "open_model", "read", "read_onnx", "save"]

_TEXT, _WEIGHTS = "program.json", "weights.safetensors"
#: The folder of ``extra_files``.
_EXTRA = "extra/"
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


def _write(
    spec: dict[str, Any], constants: list[_C.Tensor], file: IO[bytes], extra_files: Mapping[str, str | bytes]
) -> None:
    tensors = {entry["name"]: t for entry, t in zip(spec["constants"], constants, strict=True)}
    start = file.tell()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_TEXT, json.dumps(spec, separators=(",", ":")))
        with archive.open(_entry(archive, _WEIGHTS, file.tell() - start), "w", force_zip64=True) as out:
            write_safetensors(cast(BinaryIO, out), tensors, {})
        for name, content in extra_files.items():
            archive.writestr(_EXTRA + name, content)


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: Mapping[str, str | bytes] | None = None,
) -> None:
    """Write a program to a file.

    Args:
        ep: What :func:`export` or ``export_training`` returned.
        f: A path, or a file that is open for writing bytes.
        extra_files: Texts to store in the file, by name.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: got {type(ep).__name__}, want an ExportedProgram")
    if isinstance(f, (str, os.PathLike)):
        with open_to_write(f) as file:
            _write(ep.spec, ep.constants, file, extra_files or {})
    else:
        _write(ep.spec, ep.constants, f, extra_files or {})


def _checked(spec: dict[str, Any]) -> dict[str, Any]:
    """Check what this package reads of a program besides what the engine has checked."""

    def wants(owner: Any, **kinds: type) -> None:
        for key, kind in kinds.items():
            if not isinstance(owner.get(key), kind):
                raise ValueError(f"export.load: the file is damaged: {key} is missing or wrong")

    def check_steps(steps: list[Any]) -> None:
        for step in steps:
            wants(step, op=str, args=dict, out=list)
            if step.get("body") is not None:
                wants(step["body"], inputs=list, steps=list, results=list)
                check_steps(step["body"]["steps"])

    wants(spec, dims=list, constants=list, functions=dict)
    for d in spec["dims"]:
        wants(d, name=str)
        d.setdefault("min", 0)
        d.setdefault("max", None)
    for c in spec["constants"]:
        wants(c, name=str, kind=str, dtype=str, shape=list)
        c.setdefault("requires_grad", False)
    for n in spec.setdefault("numbers", []):
        wants(n, name=str, dtype=str)
        n.setdefault("value", 0.0)
    for f in spec["functions"].values():
        wants(f, inputs=list, steps=list, outputs=list)
        check_steps(f["steps"])
        for v in [*f["inputs"], *f["outputs"], *(v for step in f["steps"] for v in step["out"])]:
            wants(v, **({"value": str} if "value" in v else {"dtype": str, "shape": list}))
    _check_nests(spec)
    return spec


def _check_nests(spec: dict[str, Any]) -> None:
    """Check the nests of arguments and results; a program without them takes and returns tensors."""
    f = next(iter(spec["functions"].values()))
    count, results = len(f["inputs"]), len(f["outputs"])
    nests = spec.setdefault("python", {})
    if not isinstance(nests, dict):
        raise ValueError("export.load: the file is damaged: python is wrong")
    nests.setdefault("args", [{"tensor": i} for i in range(count)])
    nests.setdefault("kwargs", [])
    nests.setdefault("result", {"tuple": [{"tensor": i} for i in range(results)]})
    nests.setdefault("names", [v.get("name", "") for v in f["inputs"]])
    names = nests["names"]
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ValueError("export.load: the file is damaged: names is wrong")
    aliases, known = nests.setdefault("aliases", {}), {c["name"] for c in spec["constants"]}
    if not isinstance(aliases, dict) or not all(type(v) is str and v in known for v in aliases.values()):
        raise ValueError("export.load: the file is damaged: aliases is wrong")
    dims = [d["name"] for d in spec["dims"]]
    checked({"tuple": nests["args"]}, count)
    checked({"dict": nests["kwargs"]}, count)
    checked(nests["result"], results, dims)


def _open(path: str | os.PathLike[str], mmap: bool) -> tuple[int, memoryview | None]:
    """Open a file in the engine; also map it, if the engine and this function saw the same file at the path."""
    if not mmap:
        return _C._program_open(path), None
    with open(path, "rb") as file:
        number = _C._program_open(path)
        try:
            same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except OSError:
            same = False
        memory = map_file(file) if same else None
    return number, None if memory is None else memoryview(memory)


def read(path: str | os.PathLike[str], mmap: bool = True) -> tuple[dict[str, Any], list[_C.Tensor], int]:
    """Read a file: the program, its constants, and the engine's number of the program.

    Args:
        path: Of the file.
        mmap: Whether constants are over the pages of the file; otherwise they are copied.
    """
    number, data = _open(path, mmap)
    spec = _checked(json.loads(_C._info("program", number)))
    places = json.loads(_C._info("program_data", number))
    constants = []
    for i, entry in enumerate(spec["constants"]):
        if data is None:
            t = _C._program_constant(number, i)
        else:
            at, size = places[i]
            t = tensor_over(data[at : at + size], getattr(_C, entry["dtype"]), entry["shape"])
        constants.append(t.requires_grad_() if entry["requires_grad"] else t)
    return spec, constants, number


def load(
    f: str | os.PathLike[str] | IO[bytes], *, extra_files: dict[str, Any] | None = None, mmap: bool = True
) -> ExportedProgram:
    """Read a program: a file of :func:`save`, or of ``torch.export.save``.

    Args:
        f: A path, or a file that is open for reading bytes, which is copied.
        extra_files: Gets the texts that :func:`save` stored, for the names that it has.
        mmap: Whether the constants of a file of :func:`save` are over its pages, as those of ``torchlette.load``:
            they are read when they are used, and writes stay in memory. ``False``: they are copied.

    Raises:
        OSError: There is no such file.
        ValueError: The file is damaged, or of another kind.
        NotImplementedError: The file has a version or an operator that this library does not know.
    """
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "read"):
            raise TypeError(f"export.load: f is wrong: got {type(f).__name__}, want a path, or a file of bytes")
        with tempfile.TemporaryDirectory() as made:
            path = os.path.join(made, "program")
            with open(path, "wb") as copy:
                shutil.copyfileobj(f, copy)
            return load(path, extra_files=extra_files, mmap=False)
    with open(f, "rb") as file:
        head = file.read(4)
        names: list[str] = []
        if head == b"PK\x03\x04":
            file.seek(0)
            try:
                archive = zipfile.ZipFile(io.BufferedReader(file))
                names = archive.namelist()
                for name in set(extra_files or ()) & {n.removeprefix(_EXTRA) for n in names if n.startswith(_EXTRA)}:
                    cast("dict[str, Any]", extra_files)[name] = archive.read(_EXTRA + name).decode()
            except Exception as exc:  # a damaged directory raises errors of many classes
                raise ValueError(f"export.load: the file is damaged: {exc}") from exc
    if _TEXT not in names and any(name.endswith(_PT2) for name in names):
        program: ExportedProgram = import_module("torchlette._import.pt2").load(f)
        return program
    spec, constants, number = read(f, mmap)
    return ExportedProgram(spec, constants, number)


def open_model(source: str | os.PathLike[str] | bytes) -> ExportedProgram:
    """Read a program of any kind of file, or of its bytes: those of :func:`load`, or ONNX."""
    module = read_onnx(source)
    if module is not None:
        program: ExportedProgram = module.program()
        return program
    return load(io.BytesIO(source) if isinstance(source, bytes) else source)


def read_onnx(source: str | os.PathLike[str] | bytes) -> OnnxModule | None:
    """Return the module of an ONNX file, or of its bytes, or None for the archives of :func:`load`."""
    if isinstance(source, bytes):
        head = source[:2]
    else:
        with open(source, "rb") as file:
            head = file.read(2)
    if head == b"PK":
        return None
    module: OnnxModule = import_module("torchlette.onnx.files").read_module(source)
    return module
