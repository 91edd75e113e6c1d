"""ONNX files: :func:`load` makes a program of one, :func:`export` writes a module as one.

Neither needs the libraries onnx, onnxruntime or NumPy. ``torchlette.torch.onnx.export`` has PyTorch's arguments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["export", "is_in_onnx_export", "load", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def load(path: str | os.PathLike[str], fixed: Mapping[str, bool | int | float] | None = None) -> Any:
    """Return the program of an ONNX file with operators of version 13 to 23.

    Inputs and outputs have the file's names. Tensors of floats are parameters under their names, others buffers.
    Nothing in the file is executed, and of other files only those in its folder are read, for tensors.

    Args:
        path: Of the file.
        fixed: Sizes of dims by their names, and values of inputs without dims. The program has them as constants. A
            dim without a name has its input's name and its place: ``x_0``.

    Returns:
        A :class:`torchlette.export.ExportedProgram`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged, or of another kind.
        NotImplementedError: The graph has operators that are not supported; the text lists them.
    """
    from torchlette.onnx.files import load as load_file

    return load_file(path, fixed)


def export(
    module: Any,
    args: Any,
    path: str | os.PathLike[str],
    input_names: list[str] | None = None,
    output_names: list[str] | None = None,
    dynamic_shapes: Any = None,
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Write a module or function as an ONNX file with operators of version 20.

    Args:
        module: Takes tensors, or nests of them. A module is exported in its mode: call ``eval()`` before, as a rule.
        args: Example arguments: a tuple, or one tensor; or an :class:`torchlette.export.ExportedProgram` as ``module``.
        path: Of the file.
        input_names: Names of the inputs; by default those of the parameters.
        output_names: Names of the results.
        dynamic_shapes: Which sizes differ from call to call; see :func:`torchlette.export.export`.
        kwargs: Example keyword arguments.

    Returns:
        The program.

    Raises:
        NotImplementedError: A step has no form in ONNX; the text names it.
        ValueError: There are other numbers of names than of inputs or outputs.
    """
    from torchlette.export import ExportedProgram
    from torchlette.export import export as record
    from torchlette.onnx.exporter import write_program

    if isinstance(module, ExportedProgram):
        program = module
    else:
        given = args if isinstance(args, tuple) else (args,)
        program = record(module, given, kwargs, dynamic_shapes)
    function = program.spec["functions"]["forward"]
    for names, kind in ((input_names, "inputs"), (output_names, "outputs")):
        if names is not None and (len(names) != len(function[kind]) or len(set(names)) != len(names)):
            raise ValueError(f"onnx.export: {list(names)} are no names for {len(function[kind])} {kind}")
    write_program(program, path, input_names=input_names, output_names=output_names)
    return program


def is_in_onnx_export() -> bool:
    """Return ``False``: a module is recorded as it runs."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Any, opset_version: int, custom_opsets: Any = None
) -> None:
    """Do nothing: operators are written by this library's own rules.

    Args:
        symbolic_name: The operator.
        symbolic_fn: Not called.
        opset_version: Accepted for compatibility.
        custom_opsets: Accepted for compatibility.
    """


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Do nothing, as :func:`register_custom_op_symbolic`."""
