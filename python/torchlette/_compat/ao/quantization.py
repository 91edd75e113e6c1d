"""What models that can be quantized are made of. They run in floats: quantizing raises."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NoReturn

from torchlette.nn.modules.module import Module

__all__ = ["DeQuantStub", "QConfig", "QuantStub", "convert", "prepare", "prepare_qat"]

QConfig = namedtuple("QConfig", ["activation", "weight"])


class QuantStub(Module):
    """Where values would become quantized; returns its argument."""

    def __init__(self, qconfig: Any = None) -> None:
        """Keep a configuration."""
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """Return ``x``."""
        return x


class DeQuantStub(QuantStub):
    """Where values would become floats again; returns its argument."""


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"ao.quantization.{name}: there are no quantized dtypes: compute in float16")

    refuse.__name__, refuse.__doc__ = name, "Raise: there are no quantized dtypes."
    return refuse


prepare, prepare_qat, convert = _refused("prepare"), _refused("prepare_qat"), _refused("convert")
