"""Normalisation by channel: batch, group and instance norms."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime import fences
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module
from torchlette.nn.modules.normalization import register_affine, reset_affine

_NORMS = ("BatchNorm", "InstanceNorm")
__all__ = [*(f"{kind}{d}d" for kind in _NORMS for d in (1, 2, 3)), "GroupNorm", "SyncBatchNorm"]  # noqa: PLE0605


class _NormBase(Module):
    """The parameters and the running statistics of ``num_features`` channels."""

    _dims: int

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        register_affine(self, num_features, affine, bias, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", _C.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", _C.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", _C.tensor(0, dtype=_C.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to one, the bias to zero and the statistics to their start."""
        self.reset_running_stats()
        reset_affine(self)

    def extra_repr(self) -> str:
        """Show the options."""
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, {affine}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        version, key = local_metadata.get("version"), prefix + "num_batches_tracked"
        if (
            (version is None or version < 2) and self.track_running_stats and key not in state_dict
        ):  # files from before PyTorch 0.4.1
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check(self, input: _C.Tensor, allowed: tuple[int, ...]) -> None:
        if input.dim() not in allowed:
            names = " or ".join(f"{n}D" for n in allowed)
            raise ValueError(f"expected {names} input (got {input.dim()}D input)")


class _BatchNorm(_NormBase):
    """Subtract each channel's mean and divide by its standard deviation, then scale and shift.

    Args:
        num_features: Channels, the size of dim 1.
        eps: Added to the variance.
        momentum: Weight of the batch in the running statistics; ``None`` means their plain average.
        affine: Whether there are parameters.
        track_running_stats: Whether to keep statistics for evaluation.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
        bias: Whether there is a bias beside the weight.
    """

    _version = 2
    _allowed: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        """Make and initialise the parameters and buffers."""
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Normalise ``input``."""
        self._check(input, self._allowed)
        factor: float | _C.Tensor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            if not fences.is_recomputing():
                self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average, without a read
                dtype = None if self.running_mean is None else self.running_mean.dtype
                factor = 1.0 / self.num_batches_tracked.to(dtype)
        batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if keep else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, batch, factor, self.eps)


class SyncBatchNorm(_BatchNorm):
    """A batch norm over all processes. There is one process: it is a batch norm for inputs of at least 2 dims.

    Args:
        num_features: Channels, the size of dim 1.
        eps: Added to the variance.
        momentum: Weight of the batch in the running statistics; ``None`` means their plain average.
        affine: Whether there are parameters.
        track_running_stats: Whether to keep statistics for evaluation.
        process_group: Accepted for compatibility.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the parameters and buffers."""
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def _check(self, input: _C.Tensor, allowed: tuple[int, ...]) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    _allowed = ()

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return ``module`` with each batch norm replaced by this class, with its parameters and statistics."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
        for name, child in module.named_children():
            setattr(made, name, cls.convert_sync_batchnorm(child, process_group))
        return made


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _allowed = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _allowed = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    _allowed = (5,)


class _InstanceNorm(_NormBase):
    """Subtract the mean of each channel of each sample and divide by its standard deviation, then scale and shift.

    Args:
        num_features: Channels.
        eps: Added to the variance.
        momentum: Weight of the batch in the running statistics.
        affine: Whether there are parameters.
        track_running_stats: Whether to keep statistics for evaluation.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
        bias: Whether there is a bias beside the weight.
    """

    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        """Make and initialise the parameters and buffers."""
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Normalise ``input``, with or without a batch dim."""
        self._check(input, (self._dims + 1, self._dims + 2))
        batched = input if input.dim() == self._dims + 2 else input.unsqueeze(0)
        if batched.shape[1] != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={batched.dim() - self._dims - 1} to match num_features "
                f"({self.num_features}), but got: {batched.shape[1]}."
            )
        own = self.training or not self.track_running_stats
        output = F.instance_norm(
            batched, self.running_mean, self.running_var, self.weight, self.bias, own, self.momentum or 0.0, self.eps
        )
        return output if batched is input else output.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _dims = 1


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _dims = 2


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    _dims = 3


class GroupNorm(Module):
    """Subtract the mean of each group of channels and divide by its standard deviation, then scale and shift by
    channel.

    Args:
        num_groups: Groups, which divide the channels.
        num_channels: Channels.
        eps: Added to the variance.
        affine: Whether there are parameters.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
        bias: Whether there is a bias beside the weight.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        """Make and initialise the parameters."""
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        register_affine(self, num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        reset_affine(self)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Normalise ``input``."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Show the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
