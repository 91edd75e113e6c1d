"""``torch.backends``: PyTorch's back ends, all reported as unavailable, and the switches of WebGPU."""

from torchlette.backends import wgpu
from torchlette.torch.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "disable_global_flags",
    "flags_frozen",
    "mkl",
    "mkldnn",
    "mps",
    "openmp",
    "opt_einsum",
    "wgpu",
]


def disable_global_flags() -> None:
    """Do nothing: the flags of back ends that are not here change nothing, and stay writable."""


def flags_frozen() -> bool:
    """Return ``False``: flags can always be set."""
    return False
