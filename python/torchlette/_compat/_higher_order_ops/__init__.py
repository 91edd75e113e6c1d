"""Functions of functions that PyTorch keeps in ``torch._higher_order_ops``."""

from torchlette._compat._higher_order_ops.associative_scan import associative_scan
from torchlette._compat._higher_order_ops.control_flow import cond, map, scan, while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
