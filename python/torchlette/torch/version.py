"""The version of PyTorch whose names this library follows, as ``torch.version`` tells it."""

from __future__ import annotations

from torchlette._version import __version__ as _own

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

#: Scripts compare it with the version that brought what they need. The part after "+" is this library's own.
__version__ = f"2.15.0+torchlette{_own}"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"
