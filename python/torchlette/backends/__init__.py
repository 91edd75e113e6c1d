"""Switches of the parts that computations run on."""

from torchlette.backends import wgpu

__all__ = ["wgpu"]
