"""Writing of PyTorch's files: pickles whose names are PyTorch's, in a zip file or in the format before PyTorch 1.6.

A class or function of this library is written under the name that it has in PyTorch, so that either library finds it:
``torchlette.nn.modules.linear.Linear`` as ``torch.nn.modules.linear.Linear``. A tensor is written as a call of
PyTorch's function that makes it from a storage. Storages lie outside of the pickle, each once; tensors that share one
share it again after loading.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import types
from collections import OrderedDict
from typing import Any, BinaryIO

from torchlette import _C
from torchlette._ops.storage import whole
from torchlette._runtime.dtype_table import SCALAR_TYPES

__all__ = ["LEGACY_MAGIC", "LEGACY_PROTOCOL", "file_name", "write_archive", "write_legacy"]

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
_ALIGNMENT = 64


class _Name:
    """A function or class of PyTorch, to be written by its name."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """Do nothing: pickle wants something callable."""


_REBUILD_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_OF_BYTES = _Name("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = _Name("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_FROM_TYPE = _Name("torch._tensor", "_rebuild_from_type_v2")
_SIZE, _DEVICE = _Name("torch", "Size"), _Name("torch", "device")
#: PyTorch has no storage class for its newer dtypes: their storages count bytes.
_STORAGES = {
    dtype: _Name("torch", f"{scalar}Storage") for dtype, scalar in SCALAR_TYPES.items() if scalar[:4] != "UInt"
}
_BYTES = _Name("torch.storage", "UntypedStorage")


def _module_name(module: str, name: str) -> str:
    """Return the name of a module in PyTorch."""
    from torchlette.torch._import_hook import MOVED

    relative = module.removeprefix("torchlette").removeprefix(".torch").removeprefix(".")
    for old, new in MOVED.items():
        if new == relative and old.rpartition(".")[2] in name.lower().replace("un", ""):
            relative = old
    return f"torch.{relative}" if relative else "torch"


def file_name(obj: Any) -> tuple[str, str]:
    """Return the module and the name that a class or function has in files."""
    module, name = obj.__module__, obj.__qualname__
    return (_module_name(module, name) if module.partition(".")[0] == "torchlette" else module), name


class _Storage:
    """The elements that a tensor and its aliases share."""

    def __init__(self, tensor: _C.Tensor, key: str) -> None:
        elements = tensor._meta()["storage"]
        self.whole = whole(tensor, elements)
        kind, size = _STORAGES.get(tensor.dtype, _BYTES), 1 if tensor.dtype in _STORAGES else tensor.itemsize
        self.reference = ("storage", kind, key, str(tensor.device), elements * size)

    def bytes(self) -> bytes:
        """Return the elements as they are now; waits for them."""
        return _C._tobytes(self.whole)


#: The pickler in Python: that in C looks each name up, so that it cannot write others.
_Base: Any = pickle._Pickler


class _Pickler(_Base):  # type: ignore[misc]
    """Writes the names of PyTorch."""

    def __init__(self, file: BinaryIO, protocol: int, legacy: bool = False) -> None:
        super().__init__(file, protocol)
        self.legacy = legacy
        self.storages: dict[int, _Storage] = {}  # by an address that aliases share

    def persistent_id(self, obj: Any) -> Any:
        """Return the reference to a storage, None for other objects."""
        if type(obj) is not _Storage:
            return None
        return (*obj.reference, None) if self.legacy else obj.reference

    def reducer_override(self, obj: Any) -> Any:
        """Return how tensors and their properties are made again."""
        if isinstance(obj, _C.Tensor):
            return self._tensor(obj)
        if isinstance(obj, _C.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, _C.device):
            return _DEVICE, (str(obj),)
        if isinstance(obj, _C.dtype):
            return str(obj).rpartition(".")[2]
        return NotImplemented

    def _tensor(self, t: _C.Tensor) -> Any:
        from torchlette.nn.parameter import Parameter

        if type(t).__reduce_ex__ not in (_C.Tensor.__reduce_ex__, Parameter.__reduce_ex__):
            return NotImplemented
        attributes = dict(t.__dict__)
        if type(t) is Parameter:
            data = t.detach()
            if attributes:
                return _REBUILD_PARAMETER_WITH_STATE, (data, t.requires_grad, OrderedDict(), attributes)
            return _REBUILD_PARAMETER, (data, t.requires_grad, OrderedDict())
        size, stride = tuple(t.shape), tuple(t.stride())
        if t.is_meta:
            made: Any = _REBUILD_META, (t.dtype, size, stride, t.requires_grad)
        else:
            arguments: Any = self._storage(t), t.storage_offset(), size, stride, t.requires_grad, OrderedDict()
            made = _REBUILD_TENSOR, arguments
            if t.dtype not in _STORAGES:
                made = _REBUILD_OF_BYTES, (*arguments, t.dtype)
        if type(t) is _C.Tensor and not attributes:
            return made
        return _REBUILD_FROM_TYPE, (made[0], type(t), made[1], attributes)

    def _storage(self, t: _C.Tensor) -> _Storage:
        start = t._identity() - t.storage_offset() * t.itemsize
        if start not in self.storages:
            self.storages[start] = _Storage(t, str(len(self.storages)))
        return self.storages[start]

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write the name of a class or function."""
        module = obj.module if type(obj) is _Name else getattr(obj, "__module__", None) or ""
        if type(obj) is _C.dtype:
            module = "torchlette"
        if type(obj) is not _Name and module.partition(".")[0] != "torchlette":
            super().save_global(obj, name)
            return
        name = obj.name if type(obj) is _Name else name or obj.__qualname__
        if type(obj) is not _Name:
            self._check(obj, module, name)
            module = _module_name(module, name)
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    @staticmethod
    def _check(obj: Any, module: str, name: str) -> None:
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not obj:
            raise pickle.PicklingError(f"save: {obj!r} is wrong: it is not {module}.{name}, its name")

    def save_name(self, obj: _Name) -> None:
        """Write a name of PyTorch."""
        self.save_global(obj)

    dispatch = {**_Base.dispatch, types.FunctionType: save_global, _Name: save_name}


def _pickled(obj: Any, protocol: int, legacy: bool) -> tuple[bytes, list[_Storage]]:
    file = io.BytesIO()
    pickler = _Pickler(file, protocol, legacy)
    pickler.dump(obj)
    return file.getvalue(), list(pickler.storages.values())


def write_archive(obj: Any, folder: str, protocol: int) -> _Archive:
    """Return the zip file of an object, to be written by its ``write``. Elements are copied when they are written.

    Args:
        obj: Any object that can be pickled.
        folder: The name of the folder in the file.
        protocol: Of pickle.
    """
    return _Archive(folder, *_pickled(obj, protocol, False))


class _Archive:
    """The contents of a zip file of ``torch.save``."""

    def __init__(self, folder: str, pickled: bytes, storages: list[_Storage]) -> None:
        self.folder, self.pickled, self.storages = folder, pickled, storages

    def write(self, file: BinaryIO) -> None:
        """Write the zip file."""
        import hashlib
        import zipfile

        digest = hashlib.sha256(self.pickled)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            self._entry(archive, "data.pkl", self.pickled)
            self._entry(archive, ".format_version", b"1")
            self._entry(archive, ".storage_alignment", str(_ALIGNMENT).encode())
            self._entry(archive, "byteorder", b"little")
            for key, storage in enumerate(self.storages):
                data = storage.bytes()
                digest.update(data)
                self._entry(archive, f"data/{key}", data)
            self._entry(archive, "version", b"3\n")
            self._entry(archive, ".data/serialization_id", str(int(digest.hexdigest()[:33], 16)).zfill(40).encode())

    def _entry(self, archive: Any, name: str, data: bytes) -> None:
        """Add a file whose contents begin at a multiple of the alignment, so that it can be mapped to memory."""
        import zipfile

        info = zipfile.ZipInfo(f"{self.folder}/{name}")  # of 1980, so that equal objects give equal files
        header = 30 + len(info.filename.encode()) + 4
        padding = -(archive.fp.tell() + header) % _ALIGNMENT
        info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        archive.writestr(info, data)


def write_legacy(obj: Any, protocol: int) -> _Legacy:
    """Return a file of PyTorch before 1.6 of an object, to be written by its ``write``."""
    return _Legacy(protocol, *_pickled(obj, protocol, True))


class _Legacy:
    """The contents of a file of ``torch.save(_use_new_zipfile_serialization=False)``: pickles, then elements."""

    def __init__(self, protocol: int, pickled: bytes, storages: list[_Storage]) -> None:
        self.protocol, self.pickled, self.storages = protocol, pickled, storages

    def write(self, file: BinaryIO) -> None:
        """Write the file."""
        system = {
            "protocol_version": LEGACY_PROTOCOL,
            "little_endian": True,
            "type_sizes": {"short": 2, "int": 4, "long": 4},
        }
        for value in (LEGACY_MAGIC, LEGACY_PROTOCOL, system):
            pickle.dump(value, file, self.protocol)
        file.write(self.pickled)
        pickle.dump([storage.reference[2] for storage in self.storages], file, self.protocol)
        for storage in self.storages:
            file.write(struct.pack("<q", storage.reference[4]))
            file.write(storage.bytes())
