"""Reading of ONNX files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from torchlette._import.files import damaged, explained
from torchlette.io.mapped import map_file
from torchlette.onnx.graph import OnnxModule
from torchlette.onnx.model import read_model
from torchlette.onnx.tensors import Files

__all__ = ["load", "read_module"]


def read_module(path: str | os.PathLike[str] | bytes) -> OnnxModule:
    """Return the module of an ONNX file, or of its bytes; it also runs graphs that no program can hold."""
    if isinstance(path, bytes):
        with explained("onnx.load"):
            return OnnxModule(read_model(memoryview(path)), Files(None))
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise damaged("it is empty")
        data = map_file(file) or file.read()
    with explained("onnx.load"):
        return OnnxModule(read_model(memoryview(data)), Files(os.path.dirname(os.path.abspath(path))))


def load(path: str | os.PathLike[str] | bytes, fixed: Mapping[str, bool | int | float] | None = None) -> Any:
    """Return the program of an ONNX file: operators of version 13 to 23.

    Inputs and outputs have the file's names. Tensors of floats are parameters under their names, others buffers. The
    file is read as data: nothing in it is executed, and of other files only those in its folder are read, for tensors.

    Args:
        path: Of the file, or the bytes of one whose tensors lie in no other file.
        fixed: Sizes of dims by their names, and values of inputs without dims. The program has them as constants. A
            dim without a name has its input's name and its place: ``x_0``.

    Returns:
        A :class:`torchlette.export.ExportedProgram`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged, or of another kind.
        NotImplementedError: The graph has operators that are not supported; the text lists them.
    """
    return read_module(path).program(fixed)
