"""PyTorch's names of operators, as ``torch.ops.aten.mm.default``: callables, which policies of checkpoints compare."""

from __future__ import annotations

from typing import Any

from torchlette import _C

__all__ = ["OpOverload", "OpOverloadPacket", "aten_name"]


def _call(name: str, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function that imported graphs use for an operator.

    Unlike a graph's node, a call may name a device and a memory format.
    """
    from torchlette._import.aten import find_name

    if name in ("_to_copy", "to", "to_copy") and "device" in kwargs:
        x = args[0].to(kwargs["device"], kwargs.get("dtype"))
        return x.clone() if x is args[0] and name != "to" else x
    found = find_name(name, overload)
    if found is None:
        raise NotImplementedError(f"torch.ops.aten.{name}: no such operator here")
    kwargs = {k: v for k, v in kwargs.items() if k not in ("memory_format", "layout", "pin_memory")}
    return found(*args, **kwargs)


class OpOverload:
    """An operator of PyTorch. All overloads of a name are equal: the engine chooses one by itself.

    Args:
        name: The operator's name.
        overload: The overload's name.
    """

    namespace = "aten"

    def __init__(self, name: str, overload: str = "default") -> None:
        self._name, self._overloadname = name, overload
        self.__module__, self.__name__ = "torch._ops.aten", f"{name}.{overload}"
        self.__qualname__ = f"aten::{name}.{overload}".removesuffix(".default")

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of the operator."""
        return OpOverloadPacket(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._name, self._overloadname, args, kwargs)

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
        self._name = self.__name__ = self.__qualname__ = name
        self.__module__ = "torch._ops.aten"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpOverloadPacket) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._name, "default", args, kwargs)

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
