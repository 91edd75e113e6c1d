"""Which processor, and which of its code paths, the oracle runs on.

PyTorch's last bits differ between processors: its kernels, oneDNN and MKL take other instructions, block sizes and
roundings on each. A comparison must hold on all of them. Data that is specific to one processor, such as a list of
needed exceptions, names it.
"""

from __future__ import annotations

import os
import platform
import re
import warnings

#: Instructions for which the oracle's libraries have kernels of their own.
_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "asimd", "sve", "bf16")
#: Environment variables that select other kernels than the processor's best.
_VARIABLES = (
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR"),
    *("OMP_NUM_THREADS", "TORCHLETTE_CPU"),
)

#: The processor on which each of the tests' exceptions is needed.
RECORDED = "AuthenticAMD 26: avx2 avx512f avx512_bf16"


def _fields() -> dict[str, str]:
    """Return the first processor's entry of the kernel's list; empty where there is none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read().split("\n\n", 1)[0]
    except OSError:
        return {}
    return dict(re.findall(r"^(.*?)\s*:[ \t]*(.*)$", text, re.MULTILINE))


def family() -> str:
    """Return vendor, family, features and settings, such as ``AuthenticAMD 26: avx2 avx512f``."""
    fields = _fields()
    has = set(fields.get("flags", fields.get("Features", "")).split())
    words = [fields.get("vendor_id", fields.get("CPU implementer", platform.machine()))]
    words += [fields.get("cpu family", fields.get("CPU part", "")) + ":"]
    words += [f for f in _FEATURES if f in has]
    return " ".join(words + [f"{v}={os.environ[v]}" for v in _VARIABLES if v in os.environ])


def report_stale(exceptions: list[str]) -> None:
    """Fail for exceptions that no case needs; on a processor other than the recorded one, warn."""
    if not exceptions:
        return
    assert family() != RECORDED, f"exceptions that nothing needs any more: {exceptions}"
    warnings.warn(f"exceptions that nothing needs on {family()}: {exceptions}", stacklevel=2)
