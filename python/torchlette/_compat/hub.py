"""Weight files in PyTorch's cache folder. Downloads are not supported; their names can be imported."""

from __future__ import annotations

import os
import re
from typing import Any, NoReturn
from urllib.parse import urlparse

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

#: The start of a file's hash, at the end of its name.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")

_dir: str | None = None


def _get_torch_home() -> str:
    """Return PyTorch's folder for caches: $TORCH_HOME, or "torch" in $XDG_CACHE_HOME or ~/.cache."""
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")))


def get_dir() -> str:
    """Return the folder of the hub: what :func:`set_dir` was given, or "hub" in PyTorch's folder for caches."""
    return _dir if _dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of the hub."""
    global _dir
    _dir = os.path.expanduser(d)


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"hub.{name} is not supported: the library never uses the network: {instead}")


def _refusal(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name, "fetch the file yourself and load() it")

    refuse.__name__, refuse.__doc__ = name, "Raise: the library never uses the network."
    return refuse


load, list, help = _refusal("load"), _refusal("list"), _refusal("help")
download_url_to_file = _refusal("download_url_to_file")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Load a URL's file from the cache; if it is missing, raise an error with the expected path.

    Args:
        url: Its last part is the file's name, unless ``file_name`` gives one.
        model_dir: The folder; by default "checkpoints" in :func:`get_dir`.
        map_location: As in :func:`torchlette.load`.
        progress: Accepted for compatibility.
        check_hash: Accepted for compatibility: cached files are not checked.
        file_name: The file's name.
        weights_only: Accepted for compatibility: files hold data only.
    """
    from torchlette.io.serialization import load as load_file

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        _refuse("load_state_dict_from_url", f"fetch the file yourself, to {path}")
    return load_file(path, map_location=map_location)
