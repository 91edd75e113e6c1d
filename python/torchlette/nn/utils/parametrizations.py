"""Weight and spectral normalisation, and orthogonal matrices, as parametrisations."""

from __future__ import annotations

from typing import Any

from torchlette import _C, linalg
from torchlette._runtime import fences
from torchlette.autograd import no_grad
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module
from torchlette.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

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
        """Load a state dict of the older :func:`torchlette.nn.utils.weight_norm`."""
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
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
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
        if self.training and not fences.is_recomputing():
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


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
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
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, spectral_dim(module, dim), eps)
    )


_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        transposed = X.size(-2) < X.size(-1)
        if transposed:
            X = X.mT
        Q = self._reflected(X) if self.orthogonal_map == "householder" else self._turned(X.tril())
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def _turned(self, X: Tensor) -> Tensor:
        """Return the exponential of the skew-symmetric matrix A with the lower triangle of ``X``, or its first Padé
        approximant (I - A/2)^-1 (I + A/2).
        """
        n, k = X.shape[-2:]
        if n > k:
            X = _C.cat([X, X.new_zeros(*X.shape[:-1], n - k)], -1)
        A = X - X.mT
        if self.orthogonal_map == "matrix_exp":
            Q = linalg.matrix_exp(A)
        else:
            eye = _C.eye(n, dtype=X.dtype, device=X.device)
            Q = linalg.solve(eye - A / 2, eye + A / 2)
        return Q[..., :k]

    @staticmethod
    def _reflected(X: Tensor) -> Tensor:
        """Return the product of the reflections below the diagonal, whose leading 1s are implicit. The diagonal holds
        the signs of the result's columns.
        """
        A = X.tril(-1)
        tau = 2 / (1 + A.square().sum(-2))
        return linalg.householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        transposed = Q.size(-2) < Q.size(-1)
        tall = Q.mT if transposed else Q
        if hasattr(self, "base"):
            self.base = _completed(tall)
            start = _C.zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1)
            return start
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        found = _reflections(_orthonormal(tall))
        return found.mT if transposed else found


def _completed(Q: Tensor) -> Tensor:
    """Return a square orthogonal matrix that begins with the columns of ``Q``, made orthonormal."""
    n, k = Q.shape[-2:]
    if n > k:
        Q = _C.cat([Q, _C.randn(*Q.shape[:-1], n - k, dtype=Q.dtype, device=Q.device)], -1)
    return _orthonormal(Q)


def _orthonormal(X: Tensor) -> Tensor:
    """Return the columns of ``X`` made orthonormal one after the other."""
    q, r = linalg.qr(X)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _reflections(Q: Tensor) -> Tensor:
    """Return the reflections and signs whose product is the orthonormal ``Q``: the LU factors of Q minus its signs hold
    the reflections below the diagonal (G. Ballard et al., Reconstructing Householder Vectors from TSQR, 2014).
    """
    k = Q.size(-1)
    rest, found = Q.clone(), _C.zeros_like(Q)
    for j in range(k):
        sign = _C.where(rest[..., j, j] < 0, 1, -1).to(Q.dtype)
        pivot = rest[..., j, j] - sign
        column = rest[..., j + 1 :, j] / pivot[..., None]
        found[..., j, j], found[..., j + 1 :, j] = sign, column
        rest[..., j + 1 :, j + 1 :] -= column[..., None] * rest[..., j, None, j + 1 :]
    return found


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix [..., n, k] orthogonal: with orthonormal columns, or rows if it has fewer of them.

    Args:
        module: The owner of the weight.
        name: Its name.
        orthogonal_map: ``matrix_exp``, ``cayley`` (both of a skew-symmetric matrix) or ``householder`` (a product of
            reflections); if not given, the first for square matrices and the last for others.
        use_trivialization: Whether the map is relative to the initial weight, so that any orthogonal matrix can be
            assigned (M. Lezcano-Casado, 2019).

    Raises:
        ValueError: For other than matrices, or another map.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)
