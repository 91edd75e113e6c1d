"""``torch.onnx``: :func:`export` with PyTorch's arguments; all else is ``torchlette.onnx``'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchlette.onnx import is_in_onnx_export, load, register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = ["export", "is_in_onnx_export", "load", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = False,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    do_constant_folding: bool = True,
    training: Any = None,
    **options: Any,
) -> Any:
    """Write a module as an ONNX file; see :func:`torchlette.onnx.export`.

    Args:
        model: The module; it is exported in its mode.
        args: Example arguments: a tuple, or one tensor. A dictionary at the end of the tuple is ``kwargs``.
        f: The path.
        kwargs: Example keyword arguments.
        verbose: Accepted for compatibility.
        input_names: Names of the inputs.
        output_names: Names of the results.
        opset_version: Of the operators: None, or at most 20.
        dynamo: Accepted for compatibility: there is one exporter.
        external_data: Accepted for compatibility: tensors are in the file.
        dynamic_shapes: Which sizes differ from call to call; see :func:`torchlette.export.export`.
        dynamic_axes: The same in PyTorch's older form: by input's name a list of dims, or a dictionary of their names.
        export_params: Must be True.
        keep_initializers_as_inputs: Must be False.
        do_constant_folding: Accepted for compatibility.
        training: Accepted for compatibility.
        options: Accepted for compatibility.

    Raises:
        NotImplementedError: A step has no form in ONNX; the text names it.
    """
    from torchlette.onnx import export as write
    from torchlette.onnx.exporter import OPSET

    if f is None or not export_params or keep_initializers_as_inputs:
        raise NotImplementedError("onnx.export: want a path, export_params=True, keep_initializers_as_inputs=False")
    if opset_version is not None and opset_version > OPSET:
        raise NotImplementedError(f"onnx.export: opset_version is {opset_version}, want at most {OPSET}")
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if dynamic_shapes is None and dynamic_axes is not None:
        dynamic_shapes = _from_axes(dynamic_axes, list(input_names or []), len(given))
    return write(
        model,
        given,
        f,
        list(input_names) if input_names is not None else None,
        list(output_names) if output_names is not None else None,
        dynamic_shapes,
        kwargs,
    )


def _from_axes(axes: Mapping[str, Any], names: list[str], count: int) -> list[Any]:
    """Return ``dynamic_shapes`` of ``dynamic_axes``."""
    from torchlette.export import Dim

    dims: dict[str, Dim] = {}
    shapes: list[Any] = []
    for name in names[:count]:
        given = axes.get(name) or {}
        named = given if isinstance(given, Mapping) else {d: f"{name}_{d}" for d in given}
        shapes.append({d: dims.setdefault(label, Dim(label)) for d, label in named.items()})
    return shapes + [None] * (count - len(shapes))
