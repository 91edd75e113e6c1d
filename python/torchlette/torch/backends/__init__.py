"""``torch.backends``: PyTorch's back ends, all reported as unavailable, and the switches of WebGPU."""

from torchlette.backends import wgpu
from torchlette.torch.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "wgpu"]
