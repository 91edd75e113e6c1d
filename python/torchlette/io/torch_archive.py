"""Reading of the zip files that ``torch.save`` writes.

Such a file is a pickle that refers to raw storages. The pickle may name a few functions, which are replaced by the ones
below. Any other name is an error: loading a file never runs code from it. Layout, as of PyTorch 1.6::

    NAME/data.pkl      the pickle
    NAME/byteorder     "little" or "big"; absent in old files, which are little-endian
    NAME/data/0, ...   the elements of each storage
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlette import _C
from torchlette._runtime.dtype_table import DTYPES, SCALAR_TYPES

if TYPE_CHECKING:
    import zipfile

__all__ = ["archive_name", "read_archive"]

Place = Callable[[_C.Tensor, str], _C.Tensor]

_STORAGES: dict[str, _C.dtype | None] = {f"{scalar}Storage": dtype for dtype, scalar in SCALAR_TYPES.items()}
_STORAGES["UntypedStorage"] = None


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


def _rebuild_parameter(data: _C.Tensor, requires_grad: bool, *rest: Any) -> _C.Tensor:
    from torchlette.nn.parameter import Parameter

    return Parameter(data, requires_grad)


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
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
}


class _Unpickler(pickle.Unpickler):
    """Resolves only the names in the tables above."""

    def __init__(self, archive: zipfile.ZipFile, folder: str, place: Place) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}/data.pkl")), encoding="utf-8")
        self.archive = archive
        self.folder = folder
        self.place = place
        self.storages: dict[str, _C.Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the object that replaces a name."""
        function = _FUNCTIONS.get((module, name))
        if function is not None:
            return _Allowed(function)
        if module == "torch" and getattr(_C, name, None) in DTYPES:
            return getattr(_C, name)
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return name
        what = (
            "a dtype that is not supported"
            if module == "torch"
            else "more than tensors, numbers, strings and containers of them"
        )
        raise pickle.UnpicklingError(
            f"load: the file holds {what}: got {module}.{name}, want a file of a state_dict (see weights_only of "
            f"torch.load)"
        )

    def persistent_load(self, pid: Any) -> _C.Tensor:
        """Return a storage as a vector. A storage that occurs twice is read once: its tensors share it again."""
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError(f"load: the file is wrong: unknown reference {pid!r}")
        _, kind, key, location, numel = pid
        if key not in self.storages:
            dtype = _STORAGES.get(kind)
            if dtype is None:
                raise pickle.UnpicklingError(f"load: the file holds a storage that is not supported: {kind}")
            data = self.archive.read(f"{self.folder}/data/{key}")
            self.storages[key] = self.place(_C._frombytes(data, dtype, [int(numel)], _C.device("cpu")), location)
        return self.storages[key]


def read_archive(archive: zipfile.ZipFile, folder: str, place: Place) -> Any:
    """Return the object that ``torch.save`` wrote.

    Args:
        archive: The file.
        folder: What :func:`archive_name` returned.
        place: Moves a vector to the device of a name.
    """
    order = f"{folder}/byteorder"
    if order in archive.namelist() and archive.read(order) != b"little":
        raise ValueError("load: the file is big-endian, which is not supported")

    def place_or_explain(t: _C.Tensor, location: str) -> _C.Tensor:
        try:
            return place(t, location)
        except RuntimeError as exc:
            raise RuntimeError(
                f"load: the file's tensors are on {location}, which is not here; give map_location='cpu' to load them: "
                f"{exc}"
            ) from exc

    return _Unpickler(archive, folder, place_or_explain).load()
