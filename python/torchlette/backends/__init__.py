"""Switches of the back ends."""

from torchlette.backends import wgpu

__all__ = ["wgpu"]
