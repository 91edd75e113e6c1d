"""Collective operations with gradients: names for code that asks ``is_initialized()`` first."""

from __future__ import annotations

from torchlette.distributed import _ungrouped

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]

all_gather, all_reduce, all_to_all = _ungrouped("all_gather"), _ungrouped("all_reduce"), _ungrouped("all_to_all")
broadcast, gather, reduce = _ungrouped("broadcast"), _ungrouped("gather"), _ungrouped("reduce")
reduce_scatter, scatter = _ungrouped("reduce_scatter"), _ungrouped("scatter")
