"""Data loading and hook handles."""

from torchlette.utils import data, hooks

__all__ = ["data", "hooks"]
