"""Tensors in several safetensors files, with an index in JSON: ``{"weight_map": {name: file}, "metadata": {...}}``."""

from __future__ import annotations

import os
from collections.abc import Callable

from torchlette import _C
from torchlette._import.files import damaged, parse_json
from torchlette.io.mapped import map_file
from torchlette.io.safetensors import SafetensorsReader

__all__ = ["INDEX", "read_index"]

#: The end of an index's name.
INDEX = ".index.json"


def read_index(path: str, place: Callable[[_C.Tensor, str], _C.Tensor], mmap: bool) -> dict[str, _C.Tensor]:
    """Return the tensors of an index by name, in its order.

    Args:
        path: Of the index. Its files are in the same folder.
        place: Moves a tensor to the device of a name.
        mmap: Whether the tensors are over the files' pages.

    Raises:
        ValueError: The index or a file is damaged, or a file is in another folder.
        OSError: A file cannot be read.
    """
    with open(path, "rb") as f:
        index = parse_json(f.read(), "the index")
    names = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise damaged("the index has no weight_map of file names")
    folder = os.path.dirname(os.path.abspath(path))
    found: dict[str, _C.Tensor] = {}
    for file in dict.fromkeys(names.values()):
        if not file or file in (".", "..") or os.path.basename(file) != file or "\\" in file or "\0" in file:
            raise damaged(f"the index names the file {file!r}, want one in its own folder")
        with open(os.path.join(folder, file), "rb") as shard:
            reader = SafetensorsReader((map_file(shard) if mmap else None) or shard)
            for name, where in names.items():
                if where == file:
                    if name not in reader:
                        raise damaged(f"{file!r} has no tensor {name!r}")
                    found[name] = place(reader.tensor(name), "cpu")
    return {name: found[name] for name in names}
