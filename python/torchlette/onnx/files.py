"""Reading of ONNX files."""

from __future__ import annotations

import mmap
import os
from typing import Any

from torchlette._import.files import damaged, explained
from torchlette.onnx.graph import OnnxModule
from torchlette.onnx.model import read_model
from torchlette.onnx.tensors import Files

__all__ = ["load", "read_module"]


def read_module(path: str | os.PathLike[str]) -> OnnxModule:
    """Return the module of an ONNX file; it also runs graphs that no program can hold."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise damaged("it is empty")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with explained("onnx.load"):
        return OnnxModule(read_model(memoryview(data)), Files(os.path.dirname(os.path.abspath(path))))


def load(path: str | os.PathLike[str]) -> Any:
    """Return the program of an ONNX file: operators of version 13 to 23.

    Inputs and outputs have the file's names. Tensors of floats are parameters under their names, others buffers. The
    file is read as data: nothing in it is executed, and of other files only those in its folder are read, for tensors.

    Args:
        path: Of the file.

    Returns:
        A :class:`torchlette.export.ExportedProgram`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged, or of another kind.
        NotImplementedError: The graph has operators that are not supported; the text lists them.
    """
    module = read_module(path)
    with explained("onnx.load"):
        return module.program()
