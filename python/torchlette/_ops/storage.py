"""The memory of tensors as programs ask for it: addresses, storages, and the bits of the elements as another dtype."""

from __future__ import annotations

import weakref
from typing import Any

from torchlette import _C

__all__ = ["UntypedStorage", "bits_as", "data_ptr", "whole"]

Tensor = _C.Tensor

#: id of a tensor -> the export of the memory whose address it gave last. It ends with the tensor.
_exports: dict[int, Any] = {}


def whole(tensor: Tensor, elements: int) -> Tensor:
    """Return all elements that a tensor and its aliases share, of which there are ``elements``, as a vector."""
    return tensor.detach().as_strided((elements,), (1,), 0)


def _storage_address(tensor: Tensor, elements: int) -> int:
    """Return the address of the first element of a tensor's storage on the CPU, and borrow the memory."""
    export = _C._to_dlpack(whole(tensor, elements), False, False)
    if id(tensor) not in _exports:
        weakref.finalize(tensor, _exports.pop, id(tensor), None)
    _exports[id(tensor)] = export
    return int(_C._dlpack_address(export))


def data_ptr(self: Tensor) -> int:
    """Return the address of the first element; 0 without elements.

    On the CPU it is computed now, and other code may read there until the tensor is freed or the next call, as long as
    nothing is written to the tensor: a write makes a new version elsewhere. Other code must not write there, since
    tensors of equal values may share them. Aliases that begin at the same element give the same number, also on a GPU,
    where it is no address.
    """
    if self.numel() == 0 or self.is_meta:
        return 0
    if self.device.type != "cpu":
        return self._identity()
    meta = self._meta()
    return _storage_address(self, meta["storage"]) + int(meta["offset"]) * self.itemsize


def bits_as(self: Tensor, dtype: _C.dtype) -> Tensor:
    """Return the bits of the elements as another dtype; the last dim changes by the ratio of the sizes.

    Another dtype gets a copy of the bits as they are now: later writes to either tensor do not reach the other.

    Raises:
        RuntimeError: Rows do not divide into elements of ``dtype``, or the tensor has no dims and the sizes differ.
    """
    if dtype is self.dtype:
        return self.view(self.shape)
    old, new, shape = self.itemsize, dtype.itemsize, list(self.shape)
    if old != new:
        if not shape:
            raise RuntimeError(f"self.dim() cannot be 0 to view {self.dtype} as {dtype} (different element sizes)")
        if shape[-1] * old % new:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {new / old:g} to view {self.dtype} as {dtype} (different element "
                f"sizes), but got {shape[-1]}"
            )
        shape[-1] = shape[-1] * old // new
    if self.is_meta:
        return _C.empty(shape, dtype=dtype, device=self.device)
    made = _C._frombytes(_C._tobytes(self.detach()), dtype, shape, _C.device("cpu"))
    made._door = self._door
    return made.to(self.device)


class UntypedStorage:
    """Bytes: those that a tensor and its aliases share, or those of a file.

    ``tensor.untyped_storage()`` and :meth:`from_file` make it. It is for reading: a tensor is a view of a value, so
    that a storage cannot be written or resized.
    """

    def __init__(self, tensor: Any = None, *args: Any, **kwargs: Any) -> None:
        """Describe the storage of ``tensor``."""
        if not isinstance(tensor, Tensor):
            raise NotImplementedError(
                "UntypedStorage: a storage cannot be created: create a tensor, and use its untyped_storage()"
            )
        self._tensor, meta = tensor.detach(), tensor._meta()
        self._elements, self._start = meta["storage"], tensor._identity() - meta["offset"] * tensor.itemsize
        self._memory: memoryview | None = None
        self.device = tensor.device

    @classmethod
    def _over(cls, memory: memoryview) -> UntypedStorage:
        storage = cls.__new__(cls)
        storage._tensor, storage._elements, storage._start = _C.empty(0, dtype=_C.uint8, device="cpu"), 0, id(memory)
        storage._memory, storage.device = memory, _C.device("cpu")
        return storage

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the bytes of a file, which are read when they are used.

        Args:
            filename: The path.
            shared: Must be false: nothing is written to the file.
            nbytes: How many bytes; 0: all.
        """
        import mmap

        if shared:
            raise NotImplementedError("UntypedStorage.from_file: shared: nothing can be written to a storage: got True")
        with open(filename, "rb") as file:
            return cls._over(memoryview(mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_READ)))

    def data_ptr(self) -> int:
        """Return the address of the first byte, as :meth:`Tensor.data_ptr` does; 0 without bytes."""
        if self._memory is not None:
            return int(self.__array__().ctypes.data)
        if self.device.type == "meta":
            return 0
        if self.device.type != "cpu" or self._elements == 0:
            return int(self._start)
        return _storage_address(self._tensor, self._elements)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._memory.nbytes if self._memory is not None else int(self._elements) * self._tensor.itemsize

    size = __len__ = nbytes

    def untyped(self) -> UntypedStorage:
        """Return itself."""
        return self

    def element_size(self) -> int:
        """Return 1: the elements are bytes."""
        return 1

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a GPU of torch.cuda."""
        return self._tensor.is_cuda

    def _bytes(self) -> memoryview:
        if self._memory is not None:
            return self._memory
        return memoryview(_C._tobytes(whole(self._tensor, self._elements)))

    def __getitem__(self, index: int | slice) -> Any:
        """Return a byte, or the storage of a range of bytes; waits for the values."""
        found = self._bytes()[index]
        return UntypedStorage._over(found) if isinstance(found, memoryview) else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the bytes for NumPy, and so for ``torch.asarray``."""
        import numpy

        return numpy.frombuffer(self._bytes(), dtype=numpy.uint8)

    def tolist(self) -> list[int]:
        """Return the bytes as integers; waits for them."""
        return self._bytes().tolist()

    def resize_(self, size: int) -> None:
        """Raise unless the size stays: a value has one size."""
        if size != self.nbytes():
            raise NotImplementedError(
                f"UntypedStorage.resize_: a storage has one size, {self.nbytes()} bytes: got {size}: delete the "
                f"tensor, or assign to its .data"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._start == other._start and self.device == other.device

    def __hash__(self) -> int:
        return hash(self._start)
