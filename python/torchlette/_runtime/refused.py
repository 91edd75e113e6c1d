"""Names of PyTorch that this library does not have, with the reason and the alternative.

``torchlette.x`` raises ``AttributeError`` with this text for such a name, so ``hasattr`` returns False; a tensor method
raises ``NotImplementedError`` when called. docs/refused.md is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable

from torchlette._runtime.errors import RefusedNameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

#: Group: (reason and alternative, names of the module, names of Tensor methods).
GROUPS: dict[str, tuple[str, str, str]] = {
    "Complex numbers of half precision": (
        "the complex dtypes are complex64 and complex128",
        "bcomplex32",
        "chalf",
    ),
    "Integers of other sizes": (
        "the integers are uint8, int8, int16, uint16, int32, uint32, int64 and uint64: use the next wider one",
        "uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7 bits8 bits16",
        "",
    ),
    "Floats of 8 and 4 bits": (
        "WebGPU stores no floats of 8 or 4 bits: use float16 or bfloat16",
        "float8_e8m0fnu float4_e2m1fn_x2",
        "",
    ),
    "Sparse tensors": (
        "tensors are dense: use index_add, gather and scatter on lists of indices",
        "sparse sparse_coo_tensor sparse_csr_tensor "
        "sparse_csc_tensor sparse_bsr_tensor "
        "sparse_bsc_tensor "
        "sparse_compressed_tensor optim.SparseAdam smm dsmm hsmm hspmm saddmm sspaddmm resize_as_sparse_",
        "to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc sparse_dim dense_dim coalesce "
        "is_coalesced indices values "
        "sparse_mask sparse_resize_ "
        "sparse_resize_and_clear_ crow_indices col_indices ccol_indices row_indices smm sspaddmm resize_as_sparse_",
    ),
    "Nested tensors": ("tensors are rectangular: pad them and give a mask", "nested jagged", "to_padded_tensor"),
    "Masked tensors": (
        "a tensor has no mask of its own: give it to the functions of torchlette.masked",
        "masked.MaskedTensor masked.as_masked_tensor masked.is_masked_tensor masked.masked_tensor",
        "",
    ),
    "Quantized tensors": (
        "there are no quantized dtypes: compute in float16",
        "quantization qint8 quint8 qint32 quint4x2 quint2x4 qscheme quantize_per_tensor quantize_per_channel "
        "quantize_per_tensor_dynamic "
        "dequantize q_scale q_zero_point "
        "per_tensor_affine per_channel_affine fake_quantize_per_tensor_affine fake_quantize_per_channel_affine "
        "int_repr",
        "dequantize int_repr q_scale q_zero_point qscheme q_per_channel_axis q_per_channel_scales "
        "q_per_channel_zero_points",
    ),
    "Compilers and exporters": (
        "the engine records, plans and merges kernels by itself: call the function as it is",
        "package classes while_loop",
        "",
    ),
    "Several processes and devices": (
        "one process drives one device: run a process for each",
        "fork wait",
        "",
    ),
    "Other devices": ("the devices are cpu and wgpu: use device='wgpu'", "mtia cpu", "xpu mtia ipu"),
    "Storages": (
        "storages have bytes and no dtype: use untyped_storage(), or view(dtype) for the bits as another dtype",
        "Storage TypedStorage FloatStorage DoubleStorage HalfStorage LongStorage IntStorage BoolStorage",
        "storage storage_type const_data_ptr",
    ),
    "Removed from PyTorch": (
        "PyTorch removed it: use the function of torch.linalg",
        "symeig eig lstsq matrix_rank solve cholesky qr",
        "symeig eig lstsq solve cholesky qr",
    ),
}


FUNCTIONS = {name: reason for reason, names, _ in GROUPS.values() for name in names.split()}
METHODS = {name: reason for reason, _, names in GROUPS.values() for name in names.split()}


def attribute_error(name: str) -> AttributeError:
    """Return the error that ``torchlette`` raises for a refused name."""
    text = f"module 'torchlette' has no attribute {name!r}"
    return RefusedNameError(f"{text}: {FUNCTIONS[name]}") if name in FUNCTIONS else AttributeError(text)


def method(name: str, reason: str) -> Callable[..., NoReturn]:
    """Return the tensor method of a refused name, which raises."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"Tensor.{name} is not supported: {reason}")

    refuse.__name__ = name
    refuse.__doc__ = f"Raise: {reason}."
    return refuse


def page() -> str:
    """Return docs/refused.md."""
    lines = [
        "<!-- Made by torchlette._runtime.refused.page(). DO NOT EDIT. -->",
        "# What is refused",
        "",
        "These names of PyTorch do not exist here. A function raises an error that is an `AttributeError` and a",
        "`NotImplementedError`, with the text below, so that `hasattr` answers no; methods of a tensor raise",
        "`NotImplementedError` when they are called. What exists and behaves otherwise is in",
        "[coming-from-pytorch.md](coming-from-pytorch.md).",
        "",
        "| what | why, and what to use | functions and modules | methods |",
        "|---|---|---|---|",
    ]
    for group, (reason, functions, methods) in GROUPS.items():
        marked = [" ".join(f"`{n}`" for n in names.split()) for names in (functions, methods)]
        lines.append(f"| {group} | {reason} | {marked[0]} | {marked[1]} |")
    return "\n".join(lines) + "\n"
