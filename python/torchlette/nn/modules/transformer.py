"""Transformers (A. Vaswani et al., "Attention Is All You Need", 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette.amp.autocast_mode import is_autocast_enabled
from torchlette.nn import functional as F
from torchlette.nn import init
from torchlette.nn.modules.activation import GELU, MultiheadAttention, ReLU
from torchlette.nn.modules.container import ModuleList
from torchlette.nn.modules.dropout import Dropout
from torchlette.nn.modules.linear import Linear
from torchlette.nn.modules.module import Module
from torchlette.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Tensor = _C.Tensor
Activation = Callable[[Tensor], Tensor]


def _activation(given: str | Activation) -> Activation:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return F.relu if given == "relu" else F.gelu


def _copies(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


class _Layer(Module):
    """Base of encoder and decoder layers: self-attention, in a decoder attention to the memory, then two linear maps.

    Each part is added to its input, and normalised after it or, with ``norm_first``, before it.
    """

    _ATTENTIONS: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make the parts."""
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        for name in self._ATTENTIONS:
            setattr(
                self,
                name,
                MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **factory),
            )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        parts = range(1, len(self._ATTENTIONS) + 2)
        for i in parts:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory))
        for i in parts:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(
        self, which: str, x: Tensor, memory: Tensor | None, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        memory = x if memory is None else memory
        attention = getattr(self, which)
        return attention(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
        )[0]

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _add(self, i: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Add part ``i`` of the layer to ``x``."""
        norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        return x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear maps.

    Args:
        d_model: Size of an element.
        nhead: Number of heads.
        dim_feedforward: Size between the linear maps.
        dropout: Probability of dropping an element.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: Added to the variance in normalisations.
        batch_first: Whether inputs are [batch, length, d_model] instead of [length, batch, d_model].
        norm_first: Normalise before each part instead of after.
        bias: Whether there are biases.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    _ATTENTIONS = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Encode ``src``.

        Args:
            src: Input of the encoder, [sources, batch, features], with ``batch_first`` [batch, sources, features].
            src_mask: The attention mask of ``src``: see :class:`MultiheadAttention`.
            src_key_padding_mask: Which elements of ``src`` are padding.
            is_causal: A hint that the mask is causal.
        """
        x = self._add(1, src, lambda x: self._attend("self_attn", x, None, src_mask, src_key_padding_mask, is_causal))
        return self._add(2, x, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory and two linear maps; arguments as for :class:`TransformerEncoderLayer`."""

    _ATTENTIONS = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode ``tgt`` with ``memory``.

        Args:
            tgt: Input of the decoder, [steps, batch, features], with ``batch_first`` [batch, steps, features].
            memory: Output of the encoder, shaped as ``src``.
            tgt_mask: The attention mask of ``tgt``.
            memory_mask: The mask of the attention to ``memory``.
            tgt_key_padding_mask: Which elements of ``tgt`` are padding.
            memory_key_padding_mask: Which elements of ``memory`` are padding.
            tgt_is_causal: A hint that ``tgt_mask`` is causal.
            memory_is_causal: A hint that ``memory_mask`` is causal.
        """
        x = self._add(
            1, tgt, lambda x: self._attend("self_attn", x, None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        )
        x = self._add(
            2,
            x,
            lambda x: self._attend("multihead_attn", x, memory, memory_mask, memory_key_padding_mask, memory_is_causal),
        )
        return self._add(3, x, self._feed_forward)


class TransformerEncoder(Module):
    """Copies of a layer, one after the other.

    Args:
        encoder_layer: The layer.
        num_layers: Number of copies.
        norm: Applied to the last result.
        enable_nested_tensor: Evaluation without gradients sets results at padding to 0 before ``norm``, as PyTorch's
            nested tensors do: with ``batch_first``, an even number of heads and no ``mask``.
        mask_check: Do so only where padding follows all elements, in each row.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        """Copy the layer."""
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Encode ``src``; ``is_causal`` is a hint that ``mask`` is causal.

        Args:
            src: Input of the encoder, [sources, batch, features], with ``batch_first`` [batch, sources, features].
            mask: The mask of ``src``: see :class:`MultiheadAttention`.
            src_key_padding_mask: Which elements of ``src`` are padding.
            is_causal: A hint that the mask is causal.
        """
        padding = src_key_padding_mask if mask is None and self._clears_padding(src) else None
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        if padding is not None:
            padding = padding != 0
            if self.mask_check:
                padding = padding & (padding[:, 1:] | ~padding[:, :-1]).all()
            src = src.masked_fill(padding.unsqueeze(-1), 0)
        return src if self.norm is None else self.norm(src)

    def _clears_padding(self, src: Tensor) -> bool:
        """Return whether PyTorch computes the layers on nested tensors, which leave 0 at padding."""
        layer: Any = self.layers[0]
        if not (self.enable_nested_tensor and isinstance(layer, TransformerEncoderLayer)):
            return False
        attention = layer.self_attn
        return (
            not (layer.training or layer.norm_first or is_autocast_enabled(src.device.type))
            and src.dim() == 3
            and attention.batch_first
            and attention.num_heads % 2 == 0
            and attention.in_proj_bias is not None
            and (
                getattr(layer.activation, "__name__", "") in ("relu", "gelu")
                or isinstance(layer.activation, (ReLU, GELU))
            )
            and layer.norm1.eps == layer.norm2.eps
            and not (_C.is_grad_enabled() and any(t.requires_grad for t in (src, *layer.parameters())))
        )


class TransformerDecoder(Module):
    """Copies of a layer, one after the other.

    Args:
        decoder_layer: The layer.
        num_layers: Number of copies.
        norm: Applied to the last result.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        """Copy the layer."""
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode ``tgt`` with ``memory``; the last two are hints that a mask is causal.

        Args:
            tgt: Input of the decoder, [steps, batch, features], with ``batch_first`` [batch, steps, features].
            memory: Output of the encoder, shaped as ``src``.
            tgt_mask: The attention mask of ``tgt``.
            memory_mask: The mask of the attention to ``memory``.
            tgt_key_padding_mask: Which elements of ``tgt`` are padding.
            memory_key_padding_mask: Which elements of ``memory`` are padding.
            tgt_is_causal: A hint that ``tgt_mask`` is causal.
            memory_is_causal: A hint that ``memory_mask`` is causal.
        """
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: Size of an element.
        nhead: Number of heads.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Size between the linear maps.
        dropout: Probability of dropping an element.
        activation: "relu", "gelu" or a function.
        custom_encoder: Replaces the encoder.
        custom_decoder: Replaces the decoder.
        layer_norm_eps: Added to the variance in normalisations.
        batch_first: Whether inputs are [batch, length, d_model] instead of [length, batch, d_model].
        norm_first: Normalise before each part of a layer instead of after.
        bias: Whether there are biases.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make encoder and decoder."""
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(
                TransformerEncoderLayer(*options, **factory), num_encoder_layers, norm()
            )
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(*options, **factory), num_decoder_layers, norm()
            )
        self.decoder = custom_decoder
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode ``tgt`` with the encoding of ``src``.

        Args:
            src: Input of the encoder, [sources, batch, features], with ``batch_first`` [batch, sources, features].
            tgt: Input of the decoder, [steps, batch, features], with ``batch_first`` [batch, steps, features].
            src_mask: The attention mask of ``src``: see :class:`MultiheadAttention`.
            tgt_mask: The attention mask of ``tgt``.
            memory_mask: The mask of the attention to ``memory``.
            src_key_padding_mask: Which elements of ``src`` are padding.
            tgt_key_padding_mask: Which elements of ``tgt`` are padding.
            memory_key_padding_mask: Which elements of ``memory`` are padding.
            src_is_causal: A hint that ``src_mask`` is causal.
            tgt_is_causal: A hint that ``tgt_mask`` is causal.
            memory_is_causal: A hint that ``memory_mask`` is causal.
        """
        if src.dim() == 3 and src.shape[0 if self.batch_first else 1] != tgt.shape[0 if self.batch_first else 1]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask [sz, sz]: -inf above the diagonal, 0 elsewhere.

        Args:
            sz: The number of steps.
            device: Where tensors are made; None: the default device.
            dtype: Of the mask; None: the default dtype.
        """
        return _C.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)
