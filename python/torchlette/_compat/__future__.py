"""How modules are converted: choices between PyTorch's present way and its future one."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Choose whether ``module.to`` and the like make new parameters, instead of giving the old ones new data.

    Args:
        value: Whether they do. An optimizer has to be made anew then.
    """
    global _overwrite
    _overwrite = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """Return what :func:`set_overwrite_module_params_on_conversion` chose; at first ``False``."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Choose whether modules swap parameters with converted and loaded tensors: ``torch.utils.swap_tensors``.

    Args:
        value: Whether ``module.to`` and the like, and ``load_state_dict``, do. The parameters keep their identity.
    """
    global _swap
    _swap = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """Return what :func:`set_swap_module_params_on_conversion` chose; at first ``False``."""
    return _swap
