"""Weight and spectral normalisation as parametrisations."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module
from torchlette.nn.utils.parametrize import register_parametrization

__all__ = ["spectral_norm", "weight_norm"]

Tensor = _C.Tensor


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """Return the norms of the slices of ``v`` along ``dim``, of the same rank; of all of ``v`` for None or -1."""
    if dim is None or dim == -1:
        return v.norm()
    others = [d for d in range(v.dim()) if d != dim]
    return v.square().sum(others, keepdim=True).sqrt()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into lengths and directions (T. Salimans and D. Kingma, 2016).

    Args:
        module: The owner of the weight.
        name: Its name.
        dim: The dimension along which each slice has its own length; None for one length.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load what :func:`torchlette.nn.utils.weight_norm` saved."""
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module.register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            for vector, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(vector, F.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    @no_grad()
    def _iterate(self, matrix: Tensor, n: int) -> None:
        """Bring ``_u`` and ``_v`` nearer to the first singular vectors, by the power method."""
        for _ in range(n):
            self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.t().mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies, since a second forward before backward changes the buffers in place.
        u, v = self._u.clone(), self._v.clone()
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return ``weight`` as [size of ``dim``, all others]."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.flatten(1)


def spectral_dim(module: Module, dim: int | None) -> int:
    """Return the dimension of the outputs: the second of the weights of transposed convolutions."""
    if dim is not None:
        return dim
    return 1 if any(cls.__name__.startswith("ConvTranspose") for cls in type(module).__mro__) else 0


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Divide a weight by its largest singular value (T. Miyato et al., 2018).

    Args:
        module: The owner of the weight.
        name: Its name.
        n_power_iterations: Iterations of the power method at each use in training.
        eps: The least norm that is divided by.
        dim: The dimension of the outputs.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, spectral_dim(module, dim), eps))
