"""PyTorch's first names of :mod:`torchlette.profiler`."""

from torchlette.profiler import profile, record_function

__all__ = ["profile", "record_function"]
