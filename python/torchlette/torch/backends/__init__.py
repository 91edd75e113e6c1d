"""Answers for scripts that ask for other back ends of PyTorch, none of which is here, and the switches of the one that
is.
"""

from torchlette.backends import wgpu
from torchlette.torch.backends import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "wgpu"]
