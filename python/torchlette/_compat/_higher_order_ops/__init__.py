"""Functions of functions that PyTorch keeps in ``torch._higher_order_ops``; :mod:`torchlette.lax` computes them."""

from torchlette._compat._higher_order_ops.associative_scan import associative_scan
from torchlette._compat._higher_order_ops.cond import cond
from torchlette._compat._higher_order_ops.map import map  # noqa: A004
from torchlette._compat._higher_order_ops.scan import scan
from torchlette._compat._higher_order_ops.switch import switch
from torchlette._compat._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "switch", "while_loop"]
