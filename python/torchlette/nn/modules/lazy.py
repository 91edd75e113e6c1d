"""Layers that infer their number of input channels or features from the first input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.nn.modules import batchnorm, conv
from torchlette.nn.modules.linear import Linear
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

_WITH_DIMS = ("LazyConv", "LazyConvTranspose", "LazyBatchNorm", "LazyInstanceNorm")
__all__ = [*(f"{kind}{d}d" for kind in _WITH_DIMS for d in (1, 2, 3)), "LazyLinear"]  # noqa: PLE0605

Tensor = _C.Tensor


class LazyModuleMixin(Module):
    """Gives a module parameters without a shape. The first call, or loading a state dict, sets the shapes.

    The module then becomes one of ``cls_to_become``.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Construct the module and wait for its first call."""
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _lazy_load_hook(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Give parameters the shapes of the loaded tensors."""
        for name, value in {**self._parameters, **self._buffers}.items():
            loaded = state_dict.get(prefix + name)
            if loaded is not None and is_lazy(value) and not is_lazy(loaded):
                with no_grad():
                    value.materialize(loaded.shape)

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer has no shape yet."""
        return any(is_lazy(value) for value in (*self._parameters.values(), *self._buffers.values()))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Set the shapes for a call with these arguments; subclasses define it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        for name in ("_initialize_hook", "_load_hook"):
            getattr(module, name).remove()
            delattr(module, name)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _wait(self, names: Sequence[str], device: Any, dtype: Any) -> None:
        """Register parameters without a shape under ``names``."""
        for name in names:
            setattr(self, name, UninitializedParameter(device=device, dtype=dtype))

    @no_grad()
    def _settle(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Give the existing tensors their shapes and initial values."""
        for name, shape in shapes.items():
            if getattr(self, name) is not None:
                getattr(self, name).materialize(shape)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values of parameters with known shapes."""
        if not self.has_uninitialized_params() and all(p.numel() for p in self._parameters.values() if p is not None):
            super().reset_parameters()


class LazyLinear(LazyModuleMixin, Linear):
    """:class:`Linear` for inputs of any number of features.

    Args:
        out_features: Size of the last dimension of the output.
        bias: Whether to add a bias.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Make parameters without a shape."""
        super().__init__(0, 0, False)
        self.out_features = out_features
        self._wait(("weight", "bias") if bias else ("weight",), device, dtype)

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of features from ``input``."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self._settle({"weight": (self.out_features, self.in_features), "bias": (self.out_features,)})
        self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin):
    """Base of lazy convolutions: infers the channels of the input."""

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the number of channels from ``input``."""
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise RuntimeError(
                f"Expected {self._dims + 1}D (unbatched) or {self._dims + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        if not self.has_uninitialized_params():
            return
        self.in_channels = input.shape[-self._dims - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        self._settle({"weight": (first, second // self.groups, *self.kernel_size), "bias": (self.out_channels,)})


class _LazyPlainConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make parameters without a shape; arguments as for the plain convolution."""
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self.out_channels = out_channels
        self._wait(("weight", "bias") if bias else ("weight",), device, dtype)


class _LazyTransposedConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make parameters without a shape; arguments as for the transposed convolution."""
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self.out_channels = out_channels
        self._wait(("weight", "bias") if bias else ("weight",), device, dtype)


class _LazyNorm(LazyModuleMixin):
    """Base of lazy norms over channels."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        """Make parameters and statistics without a shape; arguments as for the norm."""
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self._wait(("weight", "bias") if bias else ("weight",), device, dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = _C.tensor(0, dtype=_C.int64, device=device)

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels from ``input``."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            self._settle(dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,)))


def _lazy(name: str, mixin: type, norm: bool) -> type:
    """Make the lazy form of a layer, which becomes that layer."""
    base = getattr(batchnorm if norm else conv, name)
    what = "channels" if norm else "input channels"
    text = f":class:`{name}` for inputs of any number of {what}; arguments as there, without that number."
    return type(f"Lazy{name}", (mixin, base), {"cls_to_become": base, "__doc__": text, "__module__": __name__})


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy(f"Conv{d}d", _LazyPlainConv, False) for d in (1, 2, 3))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(f"ConvTranspose{d}d", _LazyTransposedConv, False) for d in (1, 2, 3)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (_lazy(f"BatchNorm{d}d", _LazyNorm, True) for d in (1, 2, 3))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(f"InstanceNorm{d}d", _LazyNorm, True) for d in (1, 2, 3)
)
