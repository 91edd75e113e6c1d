"""Queries about the CPU."""

from __future__ import annotations

from typing import Any

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """Return the instruction set that kernels use, as PyTorch names it: "DEFAULT", "AVX2", "AVX512" or "NEON"."""
    from torchlette._runtime.api import _info

    found: dict[str, Any] = next((d for d in _info("devices") or () if d["Name"] == "cpu"), {"Features": []})
    features = [str(f).lower() for f in found["Features"]]
    for feature, name in (("avx512", "AVX512"), ("avx2", "AVX2"), ("neon", "NEON")):
        if any(f.startswith(feature) for f in features):
            return name
    return "DEFAULT"
