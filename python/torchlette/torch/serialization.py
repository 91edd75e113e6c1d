"""``torch.serialization``: :func:`save` writes PyTorch's files; all else is ``torchlette.serialization``'s."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchlette import device
from torchlette.io.mapped import open_to_write
from torchlette.io.serialization import (
    File,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    load,
    safe_globals,
)

__all__ = [
    "DEFAULT_PROTOCOL",
    "FILE_LIKE",
    "MAP_LOCATION",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

#: The protocol of pickle that files have.
DEFAULT_PROTOCOL = 2
#: For annotations: what may be a file, and what may be map_location.
FILE_LIKE = File
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None


class SourceChangeWarning(Warning):
    """The source of a pickled module has changed. Nothing raises it: sources are not written. For filters."""


def save(
    obj: Any,
    f: File,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write any object that can be pickled to a file of PyTorch's format, which PyTorch loads too.

    Tensors that share a storage share it again after loading, with their strides and offsets. Classes of this library
    are written under PyTorch's names. What a program of yours defines, the loading program must be able to import.

    Args:
        obj: A ``state_dict``, a module, an optimizer's state, or anything else.
        f: A path or a file opened for writing bytes.
        pickle_module: Must be None or :mod:`pickle`.
        pickle_protocol: Of pickle, from 2 on.
        _use_new_zipfile_serialization: False writes the format before PyTorch 1.6.

    Raises:
        pickle.PicklingError: A class or function cannot be found by its name. The file is left unchanged.
    """
    import pickle

    from torchlette.io.torch_pickle import write_archive, write_legacy

    if pickle_module not in (None, pickle):
        raise NotImplementedError(f"save: pickle_module is not supported: got {pickle_module!r}, want pickle")
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if _use_new_zipfile_serialization:
        contents: Any = write_archive(obj, Path(path).stem if path is not None else "archive", pickle_protocol)
    else:
        contents = write_legacy(obj, pickle_protocol)
    if path is None:
        contents.write(f)
    else:
        with open_to_write(path) as file:
            contents.write(file)
