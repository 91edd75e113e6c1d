"""``torch.backends``: PyTorch's back ends, all reported as unavailable, and the switches of WebGPU."""

from torchlette.backends import wgpu
from torchlette.torch.backends import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "wgpu"]
