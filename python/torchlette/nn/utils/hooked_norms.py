"""Weight and spectral normalisation by forward pre-hooks: the older form, with other keys in the state dict."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime import fences
from torchlette.autograd import no_grad
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter
from torchlette.nn.utils.parametrizations import as_matrix, norm_except_dim, spectral_dim

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]

Tensor = _C.Tensor


class _Hook:
    """Computes a weight before each ``forward``."""

    label: str
    name: str

    def apply(self, module: Module) -> None:
        """Register the hook; raise if the weight already has one."""
        if any(type(hook) is type(self) and hook.name == self.name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two {self.label} hooks on the same parameter {self.name}")
        self.split(module)
        module.register_forward_pre_hook(self)

    def split(self, module: Module) -> None:
        """Replace the weight by the tensors that it is computed from."""
        raise NotImplementedError(f"{type(self).__name__} does not implement split")

    def compute(self, module: Module, training: bool) -> Tensor:
        """Return the weight."""
        raise NotImplementedError(f"{type(self).__name__} does not implement compute")

    def parts(self) -> tuple[str, ...]:
        """Return the names of the tensors that the weight is computed from."""
        raise NotImplementedError(f"{type(self).__name__} does not implement parts")

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module, module.training))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute(module, False)
        for name in (self.name, *self.parts()):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))


class _WeightNorm(_Hook):
    label = "weight_norm"

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def parts(self) -> tuple[str, ...]:
        return self.name + "_g", self.name + "_v"

    def split(self, module: Module) -> None:
        weight = getattr(module, self.name)
        del module._parameters[self.name]
        with no_grad():
            lengths = norm_except_dim(weight.detach(), self.dim)
        module.register_parameter(self.name + "_g", Parameter(lengths))
        module.register_parameter(self.name + "_v", Parameter(weight.detach().clone()))
        self(module, None)

    def compute(self, module: Module, training: bool) -> Tensor:
        g, v = (getattr(module, part) for part in self.parts())
        return v * (g / norm_except_dim(v, self.dim))


class _SpectralNorm(_Hook):
    label = "spectral_norm"

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def parts(self) -> tuple[str, ...]:
        return self.name + "_u", self.name + "_v", self.name + "_orig"

    def split(self, module: Module) -> None:
        weight = module._parameters[self.name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{self.name}` is None")
        matrix = as_matrix(weight.detach(), self.dim)
        delattr(module, self.name)
        module.register_parameter(self.name + "_orig", weight)
        setattr(module, self.name, weight.detach())
        for part, size in zip(("_u", "_v"), matrix.shape, strict=True):
            start = matrix.new_empty(size).normal_(0, 1)
            module.register_buffer(self.name + part, F.normalize(start, dim=0, eps=self.eps))

    def compute(self, module: Module, training: bool) -> Tensor:
        u, v, weight = (getattr(module, part) for part in self.parts())
        matrix = as_matrix(weight, self.dim)
        if training:
            with no_grad():
                for _ in range(0 if fences.is_recomputing() else self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))


def _remove(module: Module, name: str, kind: type[_Hook]) -> Module:
    for key, hook in list(module._forward_pre_hooks.items()):
        if type(hook) is kind and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"{kind.label} of '{name}' not found in {module}")


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into lengths ``name_g`` and directions ``name_v``.

    Args:
        module: The module to change.
        name: The name of a parameter of the module.
        dim: The dimension that keeps a length for each index; None: one length for all.
    """
    _WeightNorm(name, dim).apply(module)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight that :func:`weight_norm` split a parameter again."""
    return _remove(module, name, _WeightNorm)


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight, ``name_orig``, by its largest singular value; arguments as in
    :mod:`torchlette.nn.utils.parametrizations`.

    Args:
        module: The module to change.
        name: The name of a parameter of the module.
        n_power_iterations: Steps of the power iteration at each forward pass in training.
        eps: The least norm that is divided by.
        dim: The dimension of the outputs; None: that of the module's kind.
    """
    _SpectralNorm(name, n_power_iterations, spectral_dim(module, dim), eps).apply(module)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight that :func:`spectral_norm` divided a parameter again."""
    return _remove(module, name, _SpectralNorm)
