"""The memory of tensors as programs ask for it: addresses, storages, and the bits of the elements as another dtype."""

from __future__ import annotations

from typing import Any

from torchlette import _C

__all__ = ["UntypedStorage", "bits_as", "data_ptr", "whole"]

Tensor = _C.Tensor


def whole(tensor: Tensor, elements: int) -> Tensor:
    """Return all elements that a tensor and its aliases share, of which there are ``elements``, as a vector."""
    return tensor.detach().as_strided((elements,), (1,), 0)


def data_ptr(self: Tensor) -> int:
    """Return the address of the first element; 0 without elements.

    On the CPU other code may read and write there as long as the tensor or an alias lives: a write to the memory or to
    the tensor is seen by both. Operators on such a tensor read its memory before they return. On a GPU it is a number
    that is equal for aliases that begin at the same element.
    """
    if self.numel() == 0 or self.is_meta:
        return 0
    if self.device.type != "cpu":
        return self._identity()
    return int(_C._data_ptr(self.detach()))


def bits_as(self: Tensor, dtype: _C.dtype) -> Tensor:
    """Return the bits of the elements as another dtype; the last dim changes by the ratio of the sizes.

    Both tensors share memory on the CPU: a write to either is seen by both. On a GPU the result is a copy of the bits.

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
    if self.device.type == "cpu" and self.numel() > 0 and (old == new or self.stride(-1) == 1):
        made = _shared_bits(self.detach(), dtype, shape)
    else:
        made = _C._frombytes(_C._tobytes(self.detach()), dtype, shape, _C.device("cpu"))
    made._door = self._door
    return made.to(self.device)


def _shared_bits(tensor: Tensor, dtype: _C.dtype, shape: list[int]) -> Tensor:
    """Return the memory of a tensor on the CPU as elements of another dtype."""
    old, new, meta = tensor.itemsize, dtype.itemsize, tensor._meta()
    strides = tensor.stride()
    if any(s * old % new for s in strides[:-1]) or meta["offset"] * old % new:
        raise RuntimeError(
            f"self.storage_offset() and self.stride() must be divisible by {new / old:g} to view {tensor.dtype} as "
            f"{dtype} (different element sizes), but got {meta['offset']} and {strides}"
        )
    if old != new:
        strides = (*(s * old // new for s in strides[:-1]), 1)
    vector = whole(tensor, meta["storage"])
    return _C._from_memory(vector, dtype, tuple(shape), strides, meta["offset"] * old)


def _bytes_of(tensor: Tensor) -> Tensor:
    """Return the storage of a tensor as bytes: on the CPU its memory, else a copy."""
    vector = whole(tensor, tensor._meta()["storage"])
    if tensor.device.type == "cpu" or tensor.is_meta:
        return bits_as(vector, _C.uint8)
    return bits_as(vector.cpu(), _C.uint8)


class UntypedStorage:
    """Bytes: those that a tensor and its aliases share, those of a file, or new ones.

    On the CPU a storage and the tensors over it share memory: a write to one is seen by all. The storage of a GPU's
    tensor is a copy of its bytes, for reading. Operators on a tensor read its memory before they return while a storage
    that was asked for bytes or for an address lives.
    """

    def __init__(self, source: Any = 0, *, device: Any = "cpu") -> None:
        """Make a storage.

        Args:
            source: A tensor, whose storage it is; or a number of bytes; or bytes, as a sequence of integers.
            device: The device of new bytes; only the CPU.
        """
        self._tensor: Any = None
        self._data: Any = None
        if isinstance(source, Tensor):
            self._tensor, self.device = source.detach(), source.device
            return
        self.device = _C.device(device)
        if self.device.type != "cpu":
            raise NotImplementedError(f"UntypedStorage: device: got {self.device}, want the CPU: move a tensor instead")
        if isinstance(source, int):
            self._data = _C.zeros(source, dtype=_C.uint8, device="cpu")
        else:
            self._data = _C.tensor(list(source), dtype=_C.uint8, device="cpu")

    @classmethod
    def _over(cls, data: Tensor) -> UntypedStorage:
        storage = cls()
        storage._data = data
        return storage

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the bytes of a file, which are read when they are used.

        Args:
            filename: The path.
            shared: Whether writes go to the file, which is made or grown to ``nbytes``. Otherwise they stay in memory.
            nbytes: How many bytes; 0: all.
        """
        import mmap
        import os

        if shared:
            with open(filename, "r+b" if os.path.exists(filename) else "w+b") as file:
                if os.fstat(file.fileno()).st_size < nbytes:
                    file.truncate(nbytes)
                memory = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE)
        else:
            with open(filename, "rb") as file:
                memory = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_COPY)
        return cls._over(_C._from_memory(memory, _C.uint8, (len(memory),), None, 0))

    @property
    def _content(self) -> Tensor:
        """The bytes as a tensor."""
        if self._data is None or self.device.type not in ("cpu", "meta"):
            self._data = _bytes_of(self._tensor)
        data: Tensor = self._data
        return data

    def data_ptr(self) -> int:
        """Return the address of the first byte, which is valid while the storage lives; 0 without bytes."""
        if self.nbytes() == 0 or self.device.type == "meta":
            return 0
        if self.device.type != "cpu":
            return self._start
        return _C._address(self._content)

    @property
    def _start(self) -> int:
        """A number that is equal for the storages of aliases."""
        if self._tensor is None:
            return int(self._data._identity() - self._data._meta()["offset"])
        return int(self._tensor._identity() - self._tensor._meta()["offset"] * self._tensor.itemsize)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        if self._tensor is None:
            return int(self._data.numel())
        return int(self._tensor._meta()["storage"] * self._tensor.itemsize)

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
        return self._tensor is not None and self._tensor.is_cuda

    def __getitem__(self, index: int | slice) -> Any:
        """Return a byte, or the storage of a range of bytes, which shares memory; waits for the values."""
        found = self._content[index]
        return UntypedStorage._over(found) if isinstance(index, slice) else found.item()

    def __setitem__(self, index: int | slice, value: int) -> None:
        """Write a byte, or the same value to a range of bytes."""
        self._writable()[index] = value

    def elements(self, dtype: _C.dtype, offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
        """Return a tensor over the storage.

        Args:
            dtype: The type of the elements.
            offset: Elements before the first one.
            size: Sizes; None: all elements from the offset on, as a vector.
            stride: Strides in elements; None: dense.
        """
        if size is None:
            size = (self.nbytes() // dtype.itemsize - offset,)
        if self._tensor is not None and self._tensor.dtype is dtype:
            vector = whole(self._tensor, self._tensor._meta()["storage"])
            return vector[offset:].reshape(size) if stride is None else vector.as_strided(size, stride, offset)
        steps = None if stride is None else tuple(stride)
        return _C._from_memory(self._writable(), dtype, tuple(size), steps, offset * dtype.itemsize)

    def _writable(self) -> Tensor:
        if self.device.type != "cpu":
            raise NotImplementedError(f"UntypedStorage: the storage of a tensor on {self.device} cannot be written")
        return self._content

    def fill_(self, value: int) -> UntypedStorage:
        """Write a value to all bytes."""
        self._writable().fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: Any = None) -> UntypedStorage:
        """Write the bytes of another storage of the same size."""
        self._writable().copy_(source._content)
        return self

    def clone(self) -> UntypedStorage:
        """Return a new storage with the same bytes."""
        return UntypedStorage._over(self._content.clone())

    def cpu(self) -> UntypedStorage:
        """Return a storage on the CPU: itself, or a copy."""
        return self if self.device.type == "cpu" else UntypedStorage._over(self._content)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the bytes for NumPy, and so for ``torch.asarray``."""
        values = self._content.numpy()
        return values.copy() if copy else values

    def __iter__(self) -> Any:
        """Iterate over the bytes as integers."""
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """Return the bytes as integers; waits for them."""
        values: list[int] = self._content.tolist()
        return values

    def resize_(self, size: int) -> None:
        """Raise unless the size stays."""
        if size != self.nbytes():
            raise NotImplementedError(
                f"UntypedStorage.resize_: a storage has one size, {self.nbytes()} bytes: got {size}: delete the "
                f"tensor, or assign to its .data"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._start == other._start and self.device == other.device

    def __hash__(self) -> int:
        return hash(self._start)
