"""PyTorch's names of operators, as ``torch.ops.aten.mm.default``: what policies of selective checkpoints compare."""

from __future__ import annotations

from typing import Any

from torchlette import _C

__all__ = ["OpOverload", "OpOverloadPacket", "aten_name"]


class OpOverload:
    """An operator of PyTorch. All overloads of a name are equal: the engine chooses one by itself.

    Args:
        name: The operator's name.
        overload: The overload's name.
    """

    namespace = "aten"

    def __init__(self, name: str, overload: str = "default") -> None:
        self._name, self._overloadname = name, overload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpOverload) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __str__(self) -> str:
        return f"aten.{self._name}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._name}', overload='{self._overloadname}')>"

    def name(self) -> str:
        """Return the name with its namespace."""
        return f"aten::{self._name}"


class OpOverloadPacket:
    """The overloads of an operator: its attributes, as ``default`` and ``Tensor``.

    Args:
        name: The operator's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return OpOverload(self._name, overload)

    def __str__(self) -> str:
        return f"aten.{self._name}"


def aten_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the operator that PyTorch runs for a call of ours.

    Args:
        name: Our operator.
        args: Its arguments.
        kwargs: Its keyword arguments.
    """
    tensors = [a for a in args if isinstance(a, _C.Tensor)]
    if name == "matmul" and len(tensors) == 2:
        ranks = tensors[0].dim(), tensors[1].dim()
        if ranks == (1, 1):
            return "dot"
        if ranks[1] == 1:
            return "mv"
        return "mm" if ranks[1] == 2 else "bmm"
    if name == "linear":
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        return "mm" if bias is None else "addmm"
    if name.startswith("conv") and name[-1] == "d":
        return "convolution"
    if name == "scaled_dot_product_attention":
        on_cpu = tensors and tensors[0].device.type == "cpu"
        return f"_scaled_dot_product_{'flash_attention_for_cpu' if on_cpu else 'efficient_attention'}"
    return {"softmax": "_softmax", "log_softmax": "_log_softmax"}.get(name, name)
