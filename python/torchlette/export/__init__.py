"""Saved programs: what ``torch.export`` has, on this package's operators.

A program is recorded from a module or a function, saved to one file, and run anywhere by this library: from Python,
from C, on any device, without PyTorch.
"""

from __future__ import annotations

from torchlette.export.files import load, save
from torchlette.export.named_dims import Dim, dims
from torchlette.export.nests import register_dataclass
from torchlette.export.program import ExportedProgram, ExportGraphSignature, InputSpec, export, from_callable
from torchlette.export.training import TrainingSession, export_training

__all__ = [
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "InputSpec",
    "TrainingSession",
    "dims",
    "export",
    "export_training",
    "from_callable",
    "load",
    "register_dataclass",
    "save",
]
