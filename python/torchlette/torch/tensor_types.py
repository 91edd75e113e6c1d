"""PyTorch's legacy tensor types: ``FloatTensor(2, 3)``, ``LongTensor([1, 2])``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torchlette
from torchlette import _C
from torchlette._runtime.dtype_table import SCALAR_TYPES
from torchlette._runtime.gpus import is_gpu


class TensorType(type):
    """The class of these names: they make tensors, and tensors on the CPU with their dtype are instances of them."""

    dtype: _C.dtype
    device_type = "cpu"

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _C.Tensor) and value.dtype is cls.dtype and value.device.type == cls.device_type

    def __call__(cls, *args: Any, device: Any = None) -> _C.Tensor:
        """Return a tensor: of sizes, of the data of a sequence or an array, or an alias of a tensor with this dtype."""
        if not (cls.device_type == "cpu" or is_gpu(cls.device_type)):
            raise TypeError(
                f"type torch.{cls.device_type}.{cls.__name__} not available: there is no CUDA device: use "
                f"torch.{cls.__name__}"
            )
        make: Callable[..., _C.Tensor] = _C._facade["tensor"]
        if device is not None and torchlette.device(device).type != cls.device_type:
            raise RuntimeError(
                f"legacy constructor expects device type: {cls.device_type} but device type: "
                f"{torchlette.device(device).type} was passed"
            )
        if len(args) == 1 and isinstance(args[0], _C.Tensor):
            if not isinstance(args[0], cls):
                raise TypeError(f"expected {cls.__name__} (got {args[0].type()})")
            return args[0].view(args[0].shape)
        if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
            return make(args[0], dtype=cls.dtype, device=cls.device_type)
        sizes = args[0] if args and isinstance(args[0], _C.Size) else args or (0,)
        return _C._facade["empty"](sizes, dtype=cls.dtype, device=cls.device_type)


def _type(name: str, dtype: _C.dtype) -> TensorType:
    return TensorType(name, (), {"dtype": dtype, "__module__": "torch", "__doc__": f"Tensors of {dtype} on the CPU."})


# PyTorch has no classes for its newer types uint16, uint32 and uint64.
_TYPES = {
    f"{scalar}Tensor": _type(f"{scalar}Tensor", dtype) for dtype, scalar in SCALAR_TYPES.items() if scalar[:4] != "UInt"
}
globals().update(_TYPES)
__all__ = [*_TYPES, "set_default_tensor_type"]


def set_default_tensor_type(t: str | TensorType) -> None:
    """Set the default dtype, and for ``torch.cuda`` the default device, to those of a type, given or by name."""
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    on_gpu = name.startswith("torch.cuda.") or getattr(t, "device_type", "cpu") == "cuda"
    for kind in _TYPES.values():
        if kind.dtype.is_floating_point and name.rpartition(".")[2] == kind.__name__:
            torchlette.set_default_dtype(kind.dtype)
            if on_gpu:
                torchlette.set_default_device("cuda")
            return
    raise TypeError(
        f"set_default_tensor_type: t is wrong: got {t!r}, want torch.FloatTensor, DoubleTensor, HalfTensor or "
        f"BFloat16Tensor"
    )


def on_cuda() -> dict[str, TensorType]:
    """Return the types of ``torch.cuda``; creating a tensor raises where there is no GPU."""
    names = {"device_type": "cuda", "__module__": "torch.cuda", "__doc__": "Tensors on a GPU of torch.cuda."}
    return {k.__name__: TensorType(k.__name__, (), {"dtype": k.dtype, **names}) for k in _TYPES.values()}
