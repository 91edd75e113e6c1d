"""Pipes of data, as ``torch.utils.data.datapipes``: datasets made of datasets, each by a method of the one before.

Pipes of data frames, and those that list, open, read and decode files, are left out.
"""

from torchlette.utils.data.datapipes import iter, map

__all__ = ["iter", "map"]
