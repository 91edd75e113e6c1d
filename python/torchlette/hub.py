"""Downloads are not here: the names exist for programs that import them beside their models."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["download_url_to_file", "help", "list", "load", "load_state_dict_from_url"]


def _refusal(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"hub.{name} is not supported: the library never uses the network: fetch the file yourself and load() it")

    refuse.__name__, refuse.__doc__ = name, "Raise: the library never uses the network."
    return refuse


load, list, help = _refusal("load"), _refusal("list"), _refusal("help")
load_state_dict_from_url = _refusal("load_state_dict_from_url")
download_url_to_file = _refusal("download_url_to_file")
