"""Reading of the files that ``torch.save`` writes.

Such a file is a pickle that refers to raw storages. With ``weights_only`` the pickle may name a few functions, which
are replaced by the ones below, and what :func:`add_safe_globals` has added. Any other name is an error: loading such a
file never runs code from it. Without it, names of PyTorch give their counterparts here, and every other name is
imported.

Layout, as of PyTorch 1.6::

    NAME/data.pkl      the pickle
    NAME/byteorder     "little" or "big"; absent in old files, which are little-endian
    NAME/data/0, ...   the elements of each storage

Before, the file was a row of pickles: a magic number, a version, facts of the system, the object, and the keys of its
storages. The elements follow, each storage with its length in front.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from torchlette import _C
from torchlette._runtime.dtype_table import DTYPES, SCALAR_TYPES
from torchlette._runtime.errors import FileFormatError
from torchlette.io.mapped import tensor_over

if TYPE_CHECKING:
    import zipfile

__all__ = ["PyTorchFileReader", "archive_name", "is_legacy", "read_archive", "read_legacy", "safe_names"]

Place = Callable[[_C.Tensor, str], _C.Tensor]

_STORAGES: dict[str, _C.dtype] = {f"{scalar}Storage": dtype for dtype, scalar in SCALAR_TYPES.items()}
_STORAGES["UntypedStorage"] = _C.uint8

#: What reading a damaged file raises by itself.
_DAMAGE = AttributeError, EOFError, LookupError, OverflowError, RecursionError, TypeError, ValueError, struct.error

#: (module, name) in files -> what a program declared safe to load.
safe_names: dict[tuple[str, str], Any] = {}


def archive_name(archive: zipfile.ZipFile) -> str | None:
    """Return the name of the folder in a PyTorch archive, None for other archives."""
    for name in archive.namelist():
        folder, _, file = name.rpartition("/")
        if file == "data.pkl":
            return folder
    return None


class _Allowed:
    """A function that a pickle may call. It has no attribute that the pickle could set."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_call", call)

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        raise pickle.UnpicklingError("load: the file is wrong: it sets an attribute of a function")


def _encode(text: str, encoding: str) -> bytes:
    """Protocol 2 writes bytes as a call of ``codecs.encode``."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"load: the file is wrong: it encodes text as {encoding}")
    return text.encode("latin1")


def _rebuild_tensor(
    storage: _C.Tensor,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    *rest: Any,
) -> _C.Tensor:
    t = storage.as_strided(size, stride, offset)
    return t.detach().requires_grad_() if requires_grad else t


def _rebuild_of_bytes(
    storage: _C.Tensor,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    hooks: Any,
    dtype: _C.dtype,
    *rest: Any,
) -> _C.Tensor:
    """PyTorch has no storage class for its newer dtypes: their storages count bytes."""
    return _rebuild_tensor(storage.view(dtype), offset, size, stride, requires_grad)


def _rebuild_meta(
    dtype: _C.dtype, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool, *rest: Any
) -> _C.Tensor:
    return _C.empty_strided(size, stride, dtype=dtype, device="meta").requires_grad_(requires_grad)


def _rebuild_parameter(data: _C.Tensor, requires_grad: bool, *rest: Any) -> _C.Tensor:
    from torchlette.nn.parameter import Parameter

    made = Parameter(data, requires_grad)
    if len(rest) > 1:  # hooks, attributes
        made.__dict__.update(rest[1])
    return made


def _rebuild_from_type(function: Any, kind: Any, args: tuple[Any, ...], state: Any) -> Any:
    made = function(*args)
    if isinstance(kind, _Allowed):
        kind = object.__getattribute__(kind, "_call")
    if type(made) is not kind and isinstance(kind, type) and issubclass(kind, _C.Tensor):
        made = _C.Tensor._make_subclass(kind, made, made.requires_grad)
    if "__setstate__" in vars(kind):
        made.__setstate__(state)
    else:
        for attributes in state if isinstance(state, tuple) else (state,):
            made.__dict__.update(attributes or {})
    return made


def _parameter(*args: Any) -> _C.Tensor:
    from torchlette.nn.parameter import Parameter

    return Parameter(*args)


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
    ("_codecs", "encode"): _encode,
    ("torch", "Size"): _C.Size,
    ("torch", "device"): _C.device,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_of_bytes,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _rebuild_meta,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
}
_TENSORS = (("torch", "Tensor"), ("torch._tensor", "Tensor"))


class _Storages:
    """The storages of a file as vectors. One that occurs twice is read once: its tensors share it again."""

    def __init__(self, read: Callable[[str], Any], place: Place) -> None:
        self.read, self.place, self.placing = read, place, False
        self.loaded: dict[str, _C.Tensor] = {}

    def find(self, pid: Any) -> _C.Tensor:
        """Return the storage of a reference."""
        if not (isinstance(pid, tuple) and len(pid) in (5, 6) and pid[0] == "storage"):
            raise pickle.UnpicklingError(f"load: the file is wrong: unknown reference {pid!r}")
        _, kind, key, location, numel = pid[:5]
        if len(pid) == 6 and pid[5] is not None:
            raise pickle.UnpicklingError("load: the file is wrong: it holds a view of a storage")
        if key not in self.loaded:
            dtype = _STORAGES.get(kind) if isinstance(kind, str) else None
            if dtype is None:
                raise pickle.UnpicklingError(f"load: the file holds a storage that is not supported: {kind}")
            vector = self.made(key, dtype, int(numel))
            self.placing = True
            try:
                self.loaded[key] = self.place(vector, location)
            except RuntimeError as exc:
                raise RuntimeError(
                    f"load: the file's tensors are on {location}, which is not here; give map_location='cpu' to load "
                    f"them: {exc}"
                ) from exc
            self.placing = False
        return self.loaded[key]

    def made(self, key: str, dtype: Any, numel: int) -> _C.Tensor:
        """Return the elements of a storage, over the file's pages where it is mapped."""
        data = self.read(key)
        if isinstance(data, memoryview):
            return tensor_over(data, dtype, (numel,))
        return _C._frombytes(data, dtype, [numel], _C.device("cpu"))


class _Unpickler(pickle.Unpickler):
    """Resolves only the names in the tables above."""

    def __init__(self, file: Any, storages: _Storages) -> None:
        super().__init__(file, encoding="utf-8")
        self.storages = storages

    def known(self, module: str, name: str) -> Any:
        """Return what stands for a name of PyTorch in every file, None for other names."""
        function = _FUNCTIONS.get((module, name))
        if function is not None:
            return function
        if module == "torch" and getattr(_C, name, None) in DTYPES:
            return getattr(_C, name)
        return name if module in ("torch", "torch.storage") and name in _STORAGES else None

    def find_class(self, module: str, name: str) -> Any:
        """Return the object that replaces a name."""
        if (module, name) in safe_names:
            return safe_names[module, name]
        found = self.known(module, name)
        if (module, name) in _TENSORS:
            found = _C.Tensor
        elif (module, name) == ("torch.nn.parameter", "Parameter"):
            found = _parameter
        if found is not None:
            return _Allowed(found) if callable(found) else found
        what = (
            "a dtype that is not supported"
            if module == "torch"
            else "more than tensors, numbers, strings and containers of them"
        )
        raise pickle.UnpicklingError(
            f"load: the file holds {what}: got {module}.{name}, want a file of a state_dict; weights_only=False loads "
            f"any object, and runs what the file asks for; serialization.add_safe_globals allows a name (see "
            f"weights_only of torch.load)"
        )

    def persistent_load(self, pid: Any) -> Any:
        """Return a storage, or the class that an old file keeps with its source."""
        if isinstance(pid, tuple) and pid[:1] == ("module",):
            return pid[1]
        return self.storages.find(pid)


class _FreeUnpickler(_Unpickler):
    """Resolves every name: those of PyTorch here, others where they are."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object of a name."""
        found = self.known(module, name)
        if found is not None:
            return found
        if module.partition(".")[0] != "torch":
            return pickle.Unpickler.find_class(self, module, name)
        value: Any = importlib.import_module(f"torchlette.{module}")
        for part in name.split("."):
            value = getattr(value, part)
        return value


@contextlib.contextmanager
def _explained(storages: _Storages, weights_only: bool) -> Any:
    """Turn the errors of damaged files into one class; errors of map_location and of the user's classes stay."""
    try:
        yield
    except _DAMAGE as exc:
        if storages.placing or not weights_only and not isinstance(exc, (EOFError, struct.error)):
            raise
        raise pickle.UnpicklingError(f"load: the file is damaged: {type(exc).__name__}: {exc}") from exc


def read_archive(archive: zipfile.ZipFile, folder: str, place: Place, weights_only: bool, data: Any = None) -> Any:
    """Return the object that ``torch.save`` wrote.

    Args:
        archive: The file.
        folder: What :func:`archive_name` returned.
        place: Moves a vector to the device of a name.
        weights_only: Whether only names in the tables are resolved.
        data: A mapping of the file; None: the file is read.
    """
    order = f"{folder}/byteorder"
    if order in archive.namelist() and archive.read(order) != b"little":
        raise FileFormatError("load: the file is big-endian, which is not supported")

    def read(key: str) -> Any:
        name = f"{folder}/data/{key}"
        if data is None:
            return archive.read(name)
        info = archive.getinfo(name)
        if info.compress_type:
            return archive.read(name)
        at = info.header_offset
        start = at + 30 + sum(struct.unpack("<HH", data[at + 26 : at + 30]))
        return data[start : start + info.file_size]

    storages = _Storages(read, place)
    with _explained(storages, weights_only):
        pickled = io.BytesIO(archive.read(f"{folder}/data.pkl"))
        return (_Unpickler if weights_only else _FreeUnpickler)(pickled, storages).load()


def is_legacy(magic: bytes) -> bool:
    """Return whether a file that begins so may be one of PyTorch before 1.6."""
    return magic[:1] == b"\x80" and magic[2:3] in (b"\x8a", b"\x95")


class _Plain(pickle.Unpickler):
    """Reads numbers, strings and containers."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse a name."""
        raise pickle.UnpicklingError(f"load: the file is wrong: got {module}.{name} before its object")


class _Nothing:
    """Stands for every object of a pickle that is only searched."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _ignore(self, *args: Any) -> None:
        pass

    __call__ = __setstate__ = __setitem__ = append = extend = add = _ignore


class _Searcher(pickle.Unpickler):
    """Collects the references of a pickle, and makes none of its objects."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.sizes: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return a class without effects, or the name of a storage."""
        return name if name in _STORAGES else _Nothing

    def persistent_load(self, pid: Any) -> Any:
        """Note a storage and the size of its elements."""
        if pid[0] == "module":
            return pid[1]
        dtype = _STORAGES.get(pid[1])
        if dtype is None:
            raise pickle.UnpicklingError(f"load: the file holds a storage that is not supported: {pid[1]}")
        self.sizes[pid[2]] = dtype.itemsize
        return _Nothing()


def read_legacy(file: BinaryIO, place: Place, weights_only: bool) -> Any:
    """Return the object of a file of PyTorch before 1.6.

    Args:
        file: Positioned at its beginning; afterwards at its end.
        place: Moves a vector to the device of a name.
        weights_only: Whether only names in the tables are resolved.
    """
    from torchlette.io.torch_pickle import LEGACY_MAGIC, LEGACY_PROTOCOL

    places: dict[str, tuple[int, int]] = {}

    def read(key: str) -> bytes:
        here, (at, size) = file.tell(), places[key]
        file.seek(at)
        data = file.read(size)
        file.seek(here)
        return data

    storages = _Storages(read, place)
    with _explained(storages, weights_only):
        if [_Plain(file).load(), _Plain(file).load()] != [LEGACY_MAGIC, LEGACY_PROTOCOL]:
            raise pickle.UnpicklingError("load: the file is wrong: it is a pickle, and not one of torch.save")
        if not _Plain(file).load()["little_endian"]:
            raise pickle.UnpicklingError("load: the file is big-endian, which is not supported")
        start = file.tell()
        search = _Searcher(file)
        search.load()
        for key in _Plain(file).load():
            (numel,) = struct.unpack("<q", file.read(8))
            places[key] = file.tell(), numel * search.sizes[key]
            file.seek(numel * search.sizes[key], 1)
        end = file.tell()
        file.seek(start)
        value = (_Unpickler if weights_only else _FreeUnpickler)(io.BytesIO(file.read(end - start)), storages).load()
        file.seek(end)
        return value


class PyTorchFileReader:
    """The records of a file of ``torch.save`` by name."""

    def __init__(self, file: Any) -> None:
        """Open a file.

        Args:
            file: A path, or a file opened for reading bytes.
        """
        import zipfile

        self._archive = zipfile.ZipFile(file, "r")
        self._folder = self._archive.namelist()[0].partition("/")[0]

    def get_all_records(self) -> list[str]:
        """Return the names of the records."""
        return [name.partition("/")[2] for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Return whether there is a record of a name."""
        return name in self.get_all_records()

    def get_record(self, name: str) -> bytes:
        """Return the bytes of a record."""
        return self._archive.read(f"{self._folder}/{name}")
