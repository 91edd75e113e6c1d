"""Activation functions and multi-head attention as modules."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn import init
from torchlette.nn.modules.linear import NonDynamicallyQuantizableLinear
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]

Tensor = _C.Tensor


class Tanh(Module):
    """Apply the hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``tanh(input)``."""
        return _C.tanh(input)


class Sigmoid(Module):
    """Apply the logistic function."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``1 / (1 + exp(-input))``."""
        return _C.sigmoid(input)


class GELU(Module):
    """Apply ``x * Phi(x)``; ``approximate="tanh"`` uses the hyperbolic tangent for Phi."""

    def __init__(self, approximate: str = "none") -> None:
        """Choose the formula."""
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return ``gelu(input)``."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Show the formula."""
        return f"approximate={self.approximate!r}"


class _InPlaceActivation(Module):
    """An activation with the option ``inplace``."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        """Choose whether the result is stored in the input."""
        super().__init__()
        self.inplace = inplace

    def _with_inplace(self, *shown: str) -> str:
        return ", ".join([*shown, "inplace=True"] if self.inplace else shown)

    def extra_repr(self) -> str:
        """Show ``inplace`` when it is set."""
        return self._with_inplace()


class ReLU(_InPlaceActivation):
    """Apply ``max(x, 0)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``relu(input)``."""
        return F.relu(input, inplace=self.inplace)


class SiLU(_InPlaceActivation):
    """Apply ``x * sigmoid(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``silu(input)``."""
        return F.silu(input, inplace=self.inplace)


class LeakyReLU(_InPlaceActivation):
    """Apply ``x`` where it is positive and ``negative_slope * x`` elsewhere."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        """Choose the slope."""
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Return ``leaky_relu(input)``."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Show the slope."""
        return self._with_inplace(f"negative_slope={self.negative_slope}")


class ELU(_InPlaceActivation):
    """Apply ``x`` where it is positive and ``alpha * (exp(x) - 1)`` elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        """Choose the scale of the negative side."""
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Return ``elu(input)``."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Show alpha."""
        return self._with_inplace(f"alpha={self.alpha}")


class CELU(_InPlaceActivation):
    """Apply ``x`` where it is positive and ``alpha * (exp(x / alpha) - 1)`` elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        """Choose the scale of the negative side."""
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Return ``celu(input)``."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Show alpha."""
        return self._with_inplace(f"alpha={self.alpha}")


class SELU(_InPlaceActivation):
    """Apply the scaled ELU of self-normalising networks."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``selu(input)``."""
        return F.selu(input, self.inplace)


class Mish(_InPlaceActivation):
    """Apply ``x * tanh(softplus(x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``mish(input)``."""
        return F.mish(input, self.inplace)


class Hardsigmoid(_InPlaceActivation):
    """Apply ``relu6(x + 3) / 6``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``hardsigmoid(input)``."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Show nothing."""
        return ""


class Hardswish(_InPlaceActivation):
    """Apply ``x * relu6(x + 3) / 6``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``hardswish(input)``."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Show nothing."""
        return ""


class Threshold(_InPlaceActivation):
    """Apply ``x`` where it is above ``threshold`` and ``value`` elsewhere.

    Args:
        threshold: Elements above it stay.
        value: The value of the other elements.
        inplace: Whether to write the result to ``input`` and return it.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        """Choose the threshold and the value below it."""
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return ``threshold(input)``."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Show the options."""
        return self._with_inplace(f"threshold={self.threshold}", f"value={self.value}")


class LogSigmoid(Module):
    """Apply ``log(sigmoid(x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``logsigmoid(input)``."""
        return F.logsigmoid(input)


class Softsign(Module):
    """Apply ``x / (1 + |x|)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softsign(input)``."""
        return F.softsign(input)


class Tanhshrink(Module):
    """Apply ``x - tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``tanhshrink(input)``."""
        return F.tanhshrink(input)


class _Shrink(Module):
    """A function that is zero within ``lambd`` of zero."""

    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        """Choose the half width of the zero part."""
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Show the half width."""
        return str(self.lambd)


class Softshrink(_Shrink):
    """Move ``x`` towards zero by ``lambd``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softshrink(input)``."""
        return F.softshrink(input, self.lambd)


class Hardshrink(_Shrink):
    """Apply ``x``, zero where ``|x| <= lambd``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``hardshrink(input)``."""
        return F.hardshrink(input, self.lambd)


class GLU(Module):
    """The first half along ``dim`` times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        """Choose the dimension."""
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return ``glu(input)``."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Show the dimension."""
        return f"dim={self.dim}"


class PReLU(Module):
    """Apply ``x`` where it is positive and a learned multiple of it elsewhere.

    Args:
        num_parameters: One slope, or one for each channel (dimension 1).
        init: Initial slope.
        device: Device of the slopes.
        dtype: Dtype of the slopes.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        """Make and initialise the slopes."""
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(_C.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to their initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return ``prelu(input)``."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Show the number of slopes."""
        return f"num_parameters={self.num_parameters}"


class RReLU(_InPlaceActivation):
    """Leaky ReLU whose slope is drawn from U(lower, upper) in training, and is their mean in evaluation.

    Args:
        lower: The least slope of negative elements.
        upper: The greatest slope of negative elements.
        inplace: Whether to write the result to ``input`` and return it.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        """Choose the bounds of the slope."""
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with its negative part scaled."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Show the options."""
        return self._with_inplace(f"lower={self.lower}", f"upper={self.upper}")


class Hardtanh(_InPlaceActivation):
    """Clamp to ``[min_val, max_val]``.

    Args:
        min_val: The least result.
        max_val: The greatest result.
        inplace: Whether to write the result to ``input`` and return it.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        """Check the bounds."""
        super().__init__(inplace)
        if max_val <= min_val:
            raise AssertionError("max_val must be larger than min_val")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Tensor) -> Tensor:
        """Return ``hardtanh(input)``."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Show the bounds."""
        return self._with_inplace(f"min_val={self.min_val}", f"max_val={self.max_val}")


class ReLU6(Hardtanh):
    """Apply ``min(max(x, 0), 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        """Choose whether the result is stored in the input."""
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Show ``inplace`` when it is set."""
        return self._with_inplace()


class Softplus(Module):
    """Apply ``log(1 + exp(beta * x)) / beta``, linear above ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        """Choose sharpness and the start of the linear part."""
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softplus(input)``."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Show the options."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _AlongDim(Module):
    """A function along one dimension."""

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        """Choose the dimension."""
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Show the dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """Scale ``exp(x)`` to sum to 1 along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softmax(input)``."""
        return F.softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of [batch, channels, height, width] or [channels, height, width]."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


class Softmin(_AlongDim):
    """Apply the softmax of ``-x`` along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``softmin(input)``."""
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongDim):
    """Apply the logarithm of the softmax along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``log_softmax(input)``."""
        return F.log_softmax(input, self.dim)


class MultiheadAttention(Module):
    """Attention of several heads, as in "Attention Is All You Need".

    Args:
        embed_dim: Size of the embedding.
        num_heads: Number of heads; divides ``embed_dim``.
        dropout: Probability of dropping an attention weight.
        bias: Whether the projections have biases.
        add_bias_kv: Append a learned key and value.
        add_zero_attn: Append a zero key and value.
        kdim: Size of the keys; ``embed_dim`` by default.
        vdim: Size of the values; ``embed_dim`` by default.
        batch_first: Whether inputs are [batch, length, embedding] instead of [length, batch, embedding].
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the projections."""
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                f"instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape: int) -> Parameter:
            return Parameter(_C.empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        self.register_parameter("q_proj_weight", None if same else parameter(embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", None if same else parameter(embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", None if same else parameter(embed_dim, self.vdim))
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if same else None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output and, if asked, the attention weights.

        Args:
            query: [steps, batch, features], with ``batch_first`` [batch, steps, features].
            key: [sources, batch, features], with ``batch_first`` [batch, sources, features].
            value: As ``key``.
            key_padding_mask: [batch, sources]: bool, True where a source is left out, or added to its scores.
            need_weights: Whether to return the attention weights too.
            attn_mask: [steps, sources], or one for each batch and head: bool, True where a source is left out, or what
                is added to the scores.
            average_attn_weights: Whether the weights returned are the mean over the heads.
            is_causal: A hint that the mask is causal: attention can then skip reading it.
        """
        swap = self.batch_first and query.ndim == 3
        if swap:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if swap else out), weights
