"""The text of tensors, under the names that packages with tensors of their own use."""

from __future__ import annotations

from typing import Any

from torchlette._runtime.repr import PRINT_OPTS, tensor_text, values_text, with_suffixes

__all__ = ["PRINT_OPTS"]


def _tensor_str(self: Any, indent: int) -> str:
    """Return the text of the elements; lines after the first begin with ``indent`` spaces."""
    return values_text(self, indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Return a text with what is unusual about a tensor behind it."""
    return with_suffixes(tensor_str, suffixes, indent, force_newline)


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """Return the text of a tensor, or that of its suffixes behind given contents."""
    return tensor_text(inp, tensor_contents)
