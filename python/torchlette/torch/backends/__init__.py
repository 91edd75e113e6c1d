"""Answers for scripts that ask for other back ends of PyTorch: none of them is here."""

from torchlette.torch.backends import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]
