"""Pruning of parameters by masks, under the names of ``torch.nn.utils.prune``.

A pruned parameter ``name`` becomes the parameter ``name_orig``, the buffer ``name_mask``, and an attribute ``name``
that a forward pre-hook computes as their product. A parameter may be pruned again: the method then chooses among the
remaining elements.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from torchlette import _C, linalg
from torchlette.autograd import no_grad
from torchlette.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

Tensor = _C.Tensor


class BasePruningMethod(ABC):
    """A rule that chooses the elements to prune; it is a forward pre-hook of the module."""

    _tensor_name = ""
    # : What the mask is chosen from by a container: ``unstructured`` elements, ``structured`` slices, or ``global``,
    # the whole tensor.
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Set the pruned tensor before a forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of ``t``: 0 where it is pruned, including everywhere that ``default_mask`` is 0."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the product of the parameter and its mask."""
        if not self._tensor_name:
            raise AssertionError(f"Module {module} has to be pruned")
        orig = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=orig.dtype) * orig

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune the parameter ``name`` of a module.

        Args:
            module: The module.
            name: The parameter's name.
            *args: Arguments of the method.
            importance_scores: Scores that the method uses instead of the parameter's values, of the same shape.
            **kwargs: Arguments of the method.

        Returns:
            The method, or the container of all methods if the parameter was pruned before.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        old = [
            (k, hook)
            for k, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(old) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a "
                f"PruningContainer."
            )
        orig = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != orig.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        scores = orig if importance_scores is None else importance_scores
        if old:
            key, before = old[0]
            del module._forward_pre_hooks[key]
            container = PruningContainer(before)
            container.add_pruning_method(method)
            method = container
            default = getattr(module, name + "_mask").detach().clone()
        else:
            default = _C.ones_like(orig, requires_grad=False)
            module.register_parameter(name + "_orig", orig)
            del module._parameters[name]
        with no_grad():
            mask = method.compute_mask(scores.detach(), default_mask=default)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return ``t`` with the elements that the method chooses set to 0.

        Args:
            t: The tensor.
            default_mask: The mask to begin with; None: ones.
            importance_scores: Scores in place of the values, of the tensor's shape; None for none.
        """
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, default_mask=_C.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter again; pruned elements stay 0."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        orig = module._parameters.pop(name + "_orig")
        orig.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, orig)


class PruningContainer(BasePruningMethod):
    """Methods that prune one tensor one after the other."""

    def __init__(self, *args: Any) -> None:
        """Take methods for one tensor, or an iterable of them."""
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = list(args[0]) if len(args) == 1 and not isinstance(args[0], BasePruningMethod) else list(args)
        self._tensor_name = methods[0]._tensor_name if methods else ""
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Append a method for the same tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        """Return how many methods there are."""
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        """Iterate over the methods."""
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        """Return one of the methods."""
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the last method, which chooses among the elements still unmasked."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            kept = mask == 1
            part = mask.clone()
            part[kept] = method.compute_mask(t[kept], default_mask=mask[kept]).to(mask.dtype)
            return part
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()  # type: ignore[attr-defined]
            others = tuple(d for d in range(t.dim()) if d != dim)
            kept = mask.sum(others).ne(0)
            index = kept.nonzero().squeeze(1)
            return mask.index_copy(
                dim,
                index,
                method.compute_mask(t.index_select(dim, index), mask.index_select(dim, index)).to(mask.dtype),
            )
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask)
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")


def _count(amount: float, size: int) -> int:
    """Return how many of ``size`` are pruned: ``amount`` of them, or that share."""
    if isinstance(amount, numbers.Integral):
        if amount > size:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
        return int(amount)
    return round(amount * size)


class _Amount(BasePruningMethod):
    def __init__(self, amount: float) -> None:
        """Take how many are pruned: a number of them, or a share between 0 and 1."""
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        self.amount = amount


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask so far."""
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        """Take the mask, of the tensor's shape."""
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"mask shape {default_mask.shape} does not match expected shape {self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)


class _Unstructured(_Amount):
    PRUNING_TYPE = "unstructured"

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask without the elements of the least scores."""
        count = _count(self.amount, t.numel())
        if count == 0:
            return default_mask.clone()
        least = self._scores(t).flatten().topk(count, largest=False).indices
        return default_mask.flatten().index_fill(0, least, 0).reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Prunes elements at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return _C.rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the elements nearest to 0."""

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        """Take how many slices are pruned, and along which dim they lie."""
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask without the slices of the least scores."""
        if t.dim() <= 1:
            raise ValueError(
                f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} "
                f"with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        best = self._scores(t).topk(size - count).indices
        keep = _C.zeros(size, dtype=default_mask.dtype, device=t.device).index_fill(0, best, 1)
        return default_mask * keep.reshape([size if d == self.dim % t.dim() else 1 for d in range(t.dim())])


class RandomStructured(_Structured):
    """Prunes slices along a dim at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return _C.rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices along a dim with the least norms of order ``n``.

    Args:
        amount: How much to prune: a fraction from 0 to 1, or a count.
        n: The order of the norm of a slice.
        dim: The dimension of the slices.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        """Take how many slices are pruned, the order of the norm, and the dim."""
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        return (
            linalg.matrix_norm(t, self.n, others) if isinstance(self.n, str) else linalg.vector_norm(t, self.n, others)
        )


def identity(module: Module, name: str) -> Module:
    """Make the mask of a parameter and prune nothing; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune ``amount`` elements of a parameter at random; return the module.

    Args:
        module: The module to change.
        name: The name of a parameter of the module.
        amount: How much to prune: a fraction from 0 to 1, or a count.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the ``amount`` elements of a parameter that are nearest to 0, or whose scores are; returns the module.

    Args:
        module: The module to change.
        name: The name of a parameter of the module.
        amount: How much to prune: a fraction from 0 to 1, or a count.
        importance_scores: Scores in place of the values, of the tensor's shape; None for none.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune ``amount`` slices of a parameter along ``dim`` at random; return the module.

    Args:
        module: The module to change.
        name: The name of a parameter of the module.
        amount: How much to prune: a fraction from 0 to 1, or a count.
        dim: The dimension of the slices.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the ``amount`` slices along ``dim`` of a parameter whose ``n``-norms are least, and return the module.

    Args:
        module: The module to change.
        name: The name of a parameter of the module.
        amount: How much to prune: a fraction from 0 to 1, or a count.
        n: The order of the norm of a slice.
        dim: The dimension of the slices.
        importance_scores: Scores in place of the values, of the tensor's shape; None for none.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where ``mask`` is 0; returns the module.

    Args:
        module: The module to change.
        name: The name of a parameter of the module.
        mask: 0 or 1, of the parameter's shape.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters by a method that chooses among the elements of all.

    Args:
        parameters: Pairs of a module and a parameter's name.
        pruning_method: A class whose type is ``unstructured``.
        importance_scores: Scores used instead of the parameters' values, by pair.
        **kwargs: The method's arguments.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, Mapping):
        raise TypeError("global_unstructured(): importance_scores is not of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    tensors = [getattr(module, name).detach() for module, name in pairs]
    masks = [getattr(module, name + "_mask", _C.ones_like(t)) for (module, name), t in zip(pairs, tensors, strict=True)]
    looked_at = _C.cat([scores.get(pair, t).detach().flatten() for pair, t in zip(pairs, tensors, strict=True)])
    with no_grad():
        final = PruningContainer(method).compute_mask(looked_at, _C.cat([m.flatten() for m in masks]))
    for (module, name), mask, t in zip(pairs, final.split([t.numel() for t in tensors]), tensors, strict=True):
        custom_from_mask(module, name, mask.view_as(t))


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one, with 0 where it was pruned; returns the module.

    Raises:
        ValueError: If it is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Return whether a parameter of the module, or of one in it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )
