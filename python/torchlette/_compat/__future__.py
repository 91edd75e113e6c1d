"""How modules are converted: choices between PyTorch's present way and its future one."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_overwrite = False


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
    """Accept ``False``: parameters are never swapped with others.

    Args:
        value: Must be false.

    Raises:
        NotImplementedError: ``value`` is true.
    """
    if value:
        raise NotImplementedError(
            "set_swap_module_params_on_conversion: tensors cannot be swapped: got True, want False; parameters keep "
            "their identity without it"
        )


def get_swap_module_params_on_conversion() -> bool:
    """Return ``False``."""
    return False
