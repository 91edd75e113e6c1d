"""DLPack, the exchange of arrays between libraries.

A tensor on the CPU and the array of another library share memory: a write to either is seen by both. A GPU's tensor
gives a copy on the CPU.
"""

from __future__ import annotations

import sys
import types
import warnings

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]

Tensor = _C.Tensor


class DLDeviceType:
    """Numbers of device types."""

    kDLCPU = 1
    kDLWebGPU = 15


#: frombuffer has warned of a buffer that cannot be written.
_warned = False

_CPU = (DLDeviceType.kDLCPU, 0)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """Return DLPack's type and number of the tensor's device."""
    return _CPU if self.device.type == "cpu" else (DLDeviceType.kDLWebGPU, self.device.index or 0)


def dlpack(
    self: Tensor,
    *,
    stream: Any = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return a DLPack capsule of the tensor's memory.

    Args:
        stream: Accepted for compatibility.
        max_version: The newest version that the consumer knows.
        dl_device: The device of the memory: only the CPU. Tensors on other devices are then copied to it.
        copy: Whether the consumer gets a copy instead of the tensor's own memory.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if dl_device not in (None, _CPU) or (dl_device is None and self.device.type != "cpu"):
        raise BufferError(
            f"__dlpack__: memory of device {self.device} cannot be exported: move the tensor with .cpu() first"
        )
    copied = bool(copy) or self.device.type != "cpu"
    if self.device.type != "cpu":
        if copy is False:
            raise BufferError("__dlpack__: the tensor is on another device: got copy=False, want True or None")
        self = self.cpu()
    elif copied:
        self = self.clone()
    return _C._to_dlpack(self, max_version is not None and max_version[0] >= 1, copied)


class ArrayMethod:
    """A method of the array API, which PyTorch's tensors do not have.

    Tensors made through :mod:`torchlette.torch` have it once :mod:`torchlette.array_api` is imported, others always.
    The class always has it, since programs take all names of ``dir(Tensor)``, as tracers do.
    """

    def __init__(self, name: str, function: Any) -> None:
        """Keep the method's name and function."""
        self.name, self.function = name, function

    def __get__(self, tensor: Tensor | None, owner: type) -> Any:
        """Return the method, or raise AttributeError."""
        if tensor is None:
            return self.function
        if "torchlette.array_api" in sys.modules or not tensor._door:
            return types.MethodType(self.function, tensor)
        raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'")


def array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """Return the namespace of the array API standard for this tensor, :mod:`torchlette.array_api`.

    Raises:
        ValueError: ``api_version`` is unknown, or newer than the namespace.
    """
    from torchlette import array_api

    return array_api.namespace(api_version)


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Return the tensor on a device, itself where it is there; the name is the array API's. ``stream`` must be None.

    Raises:
        ValueError: ``stream`` is given: there is one queue.
    """
    if stream is not None:
        raise ValueError(f"to_device: expected stream to be None, got {stream!r}")
    return self.to(device)


def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule of the tensor's memory, for consumers that do not call ``__dlpack__``."""
    return dlpack(tensor)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of an object with ``__dlpack__``, or of a capsule.

    A write to either is seen by both.

    Args:
        ext_tensor: The object; its memory must be the CPU's.
        device: The device of the result; another one than the CPU gets a copy.
        copy: Whether to copy the values; False: raise where they would have to be copied.

    Raises:
        BufferError: The memory is not the CPU's, or ``copy`` is False and ``device`` is another one.
    """
    capsule = ext_tensor
    if hasattr(ext_tensor, "__dlpack__"):
        kind = ext_tensor.__dlpack_device__()[0]
        if kind != DLDeviceType.kDLCPU:
            raise BufferError(f"from_dlpack: got memory of device type {int(kind)}, want the CPU's (1)")
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = ext_tensor.__dlpack__()
    made = _C._from_dlpack(capsule)
    made._door = _C._in_facade(sys._getframe(1).f_globals)
    if copy:
        made = made.clone()
    if device is None or _C.device(device).type == "cpu":
        return made
    if copy is False:
        raise BufferError(f"from_dlpack: memory of the CPU is copied to {device}: got copy=False, want True or None")
    return made.to(device)


def _warn_read_only() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can "
            "write to the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the "
            "buffer to protect its data or make it writable before converting it to a tensor. This type of warning "
            "will be suppressed for the rest of this program.",
            UserWarning,
            stacklevel=3,
        )


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a vector over a buffer's memory: a write to either is seen by both.

    A buffer whose memory is not aligned to elements is copied.

    Args:
        buffer: An object with the buffer protocol. One that cannot be written is shared until the tensor is written.
        dtype: The type of the elements.
        count: The number of elements; all if negative.
        offset: The number of bytes to skip at the start.
        requires_grad: Whether the result requires a gradient.
    """
    data, width = memoryview(buffer).cast("B"), dtype.itemsize
    length = len(data)
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % width:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({width})"
        )
    elements = (length - offset) // width if count < 0 else count
    if offset + elements * width > length:
        raise ValueError(
            f"requested buffer length ({elements} * {width} bytes) after offset ({offset} bytes) must not be greater "
            f"than actual buffer length ({length} bytes)"
        )
    if data.readonly:
        _warn_read_only()
    try:
        made = _C._from_memory(data, dtype, (elements,), None, offset)
    except ValueError:
        made = _C._frombytes(data[offset : offset + elements * width], dtype, (elements,), "cpu")
    made._door = _C._in_facade(sys._getframe(1).f_globals)
    return made.requires_grad_(requires_grad)
