"""Names of meshes of devices: one process drives one device here, so that there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from torchlette._runtime.errors import NotSupportedError

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """An arrangement of processes. Nothing is an instance, and creating one raises."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: there is one process."""
        raise NotSupportedError("DeviceMesh: one process drives one device: run a process for each device")


def init_device_mesh(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is one process."""
    DeviceMesh(*args, **kwargs)
