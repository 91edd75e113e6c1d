"""Models: a decoder that predicts tokens, an encoder that gives vectors, and Whisper, which has both."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.generation.cache import Cache, Step
from torchlette.generation.chat import Chat
from torchlette.generation.layers import ACTIVATIONS, Block, Embedding, Linear, Norm, Source, place
from torchlette.generation.rotary import Rotation
from torchlette.generation.specs import Spec
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["Decoder", "Encoder", "Model", "Whisper"]

Tensor = _C.Tensor


class Stack:
    """Embeddings, layers and the last norm of a spec.

    Args:
        source: Where the tensors are from.
        spec: The stack.
        root: The module under which the parts are registered, with the checkpoint's paths.
    """

    def __init__(self, source: Source, spec: Spec, root: Module) -> None:
        """Take the tensors."""
        if spec.activation not in ACTIVATIONS:
            raise NotImplementedError(
                f"load: activation {spec.activation!r} is not supported, want one of {', '.join(sorted(ACTIVATIONS))}"
            )
        self.spec = spec
        self.parts: dict[str, Module] = {}
        before = 0 if spec.padding is None else spec.padding + 1
        rows = {"embed": spec.vocab_size, "positions": before + spec.max_positions, "types": spec.token_types}
        for role, path in spec.names.parts.items():
            if role == "head" and spec.tied:
                continue
            if role == "head":
                part: Module = Linear(source, path, (spec.hidden_size, spec.vocab_size), "head" in spec.biases)
            elif role in rows:
                part = Embedding(source, path, rows[role], spec.hidden_size)
            else:
                part = Norm(source, path, spec.hidden_size, spec.norm, spec.eps)
            self.parts[role] = part
            place(root, path, part)
        self.blocks: list[Block] = []
        for i in range(spec.layers):
            self.blocks.append(Block(source, spec, i))
            place(root, spec.names.layer.format(i), self.blocks[-1])
        first = next(root.parameters())
        self.rotations = [Rotation(r, first.device) for r in (spec.rotary, spec.local_rotary) if r is not None]
        # Rounded to the weights' dtype, as the tensors that it multiplies are.
        self.scale = float(_C.tensor(spec.embedding_scale, dtype=first.dtype).item())

    def embed(self, ids: Tensor, positions: Tensor, types: Tensor | None = None) -> Tensor:
        """Return the first values of the residual stream, [batch, steps, hidden]."""
        x: Tensor = self.parts["embed"](ids)
        if self.scale != 1.0:
            x = x * self.scale
        if "types" in self.parts:
            x = x + self.parts["types"](_C.zeros_like(ids) if types is None else types)
        if "positions" in self.parts:
            x = x + self.parts["positions"](positions)
        return self.parts["embed_norm"](x) if "embed_norm" in self.parts else x

    def run(self, x: Tensor, step: Step, cache: Cache | None = None) -> Tensor:
        """Return the last layer's output, after the last norm."""
        step.turn(self.rotations, x.dtype)
        for block in self.blocks:
            x = block(x, step, cache)
        return self.parts["norm"](x) if "norm" in self.parts else x

    def whole(self, ids: Tensor, mask: Tensor | None, **options: Any) -> Tensor:
        """Return the output for whole texts. Where tokens see only those before, padding has no position."""
        if mask is not None and self.spec.causal:
            positions = (mask.to(_C.int64).cumsum(-1) - 1).clamp(min=0)
        elif self.spec.padding is not None:
            shown = (ids != self.spec.padding).to(_C.int64)
            positions = shown.cumsum(-1) * shown + self.spec.padding
        else:
            positions = _C.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        seen = None if mask is None else mask.to(_C.bool)
        step = Step(self.spec, positions, seen=seen, keys=ids.shape[1], start=seen is None, cross=options.get("cross"))
        return self.run(self.embed(ids, positions, options.get("types")), step)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits [..., vocab] of outputs [..., hidden], in float32."""
        head = self.parts.get("head")
        y = F.linear(x, self.parts["embed"].weight) if head is None else head(x)
        cap = self.spec.final_softcap
        return (y if cap is None else cap * _C.tanh(y / cap)).to(_C.float32)


class Model(Module):
    """Base class of the models of this package.

    Args:
        source: Gives the tensors by name and shape.
        spec: Sizes and kinds.
        config: The contents of ``config.json``.

    Attributes:
        spec: Sizes and kinds.
        config: The contents of ``config.json``.
        generation_config: The contents of ``generation_config.json``: defaults of :func:`torchlette.generate`.
        tokenizer: A ``tokenizers.Tokenizer``, or None.
        chat: Templates of conversations; :func:`torchlette.generation.apply_chat_template` reads them.
    """

    def __init__(self, source: Source, spec: Spec, config: Mapping[str, Any]) -> None:
        """Take the tensors."""
        super().__init__()
        self.spec, self.config = spec, dict(config)
        self.generation_config: dict[str, Any] = {}
        self.tokenizer: Any = None
        self.chat = Chat()
        self.stack = Stack(source, spec, self)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, device: Any = None, dtype: Any = None) -> Self:
        """Return the model of a folder; see :func:`torchlette.generation.load`.

        Args:
            folder: The folder's path.
            device: Where the weights go; the default device if None.
            dtype: Of the weights; that of the file if None.

        Raises:
            TypeError: The folder has a model of another class.
        """
        from torchlette.generation.folders import load

        model = load(folder, device=device, dtype=dtype)
        if not isinstance(model, cls):
            raise TypeError(f"from_pretrained: the folder has a {type(model).__name__}, want a {cls.__name__}")
        return model

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        for rotation in self.stack.rotations:
            rotation.place(self.device)
        return self

    @property
    def device(self) -> _C.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> _C.dtype:
        """The dtype of the parameters."""
        return next(self.parameters()).dtype


class Decoder(Model):
    """A model that predicts the next token, such as GPT-2, Llama, Qwen and Gemma."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return the logits of the token after each one, float32 [batch, steps, vocab].

        Args:
            input_ids: int64 [batch, steps].
            attention_mask: [batch, steps]: 0 for padding, on either side; None for none.
        """
        return self.stack.logits(self.stack.whole(input_ids, attention_mask))

    def extend(self, ids: Tensor, step: Step, cache: Cache, last: bool = True) -> Tensor:
        """Return logits after new tokens, and add their keys and values to the cache.

        Args:
            ids: int64 [batch, steps].
            step: Their positions and places.
            cache: The tokens before.
            last: Whether only the logits after the last token are wanted, [batch, 1, vocab].
        """
        x = self.stack.run(self.stack.embed(ids, step.positions), step, cache)
        return self.stack.logits(x[:, -1:] if last else x)


class Encoder(Model):
    """A model that gives a vector for each token, such as BERT, MiniLM and RoBERTa.

    Attributes:
        pooling: What :meth:`encode` makes of a text's vectors: "mean", or "cls" for the first one.
        max_tokens: Where :meth:`encode` cuts a text; None for the tokenizer's own limit.
    """

    pooling: str = "mean"
    max_tokens: int | None = None

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """Return the last layer's output, [batch, steps, hidden].

        Args:
            input_ids: int64 [batch, steps].
            attention_mask: [batch, steps]: 0 for padding; None for none.
            token_type_ids: int64 [batch, steps]: 0 for the first sentence, 1 for the second; None for 0.
        """
        return self.stack.whole(input_ids, attention_mask, types=token_type_ids)

    def encode(self, sentences: str | list[str], *, normalize: bool = True) -> Tensor:
        """Return a vector for each sentence, as :attr:`pooling` says: [sentences, hidden]; [hidden] for one text.

        Args:
            sentences: Texts; the folder's tokenizer splits them, and cuts those that are too long.
            normalize: Whether vectors have length 1, so that products are cosines.

        Raises:
            ValueError: The folder has no tokenizer, or there are no sentences.
        """
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        if self.tokenizer is None or not texts:
            raise ValueError(
                "encode: the model's folder has no tokenizer.json" if texts else "encode: got no sentences, want some"
            )
        self.tokenizer.no_padding()
        if self.max_tokens is not None or self.tokenizer.truncation is None:
            self.tokenizer.enable_truncation(min(self.max_tokens or self.spec.max_positions, self.spec.max_positions))
        rows = [e.ids for e in self.tokenizer.encode_batch(texts)]
        width = max(map(len, rows))
        padding = [self.spec.padding or 0]
        ids = _C.tensor([row + padding * (width - len(row)) for row in rows], device=self.device)
        mask = _C.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self.device)
        with no_grad():
            weights, vectors = mask.unsqueeze(-1).to(self.dtype), self(ids, mask)
            pooled = vectors[:, 0] if self.pooling == "cls" else (vectors * weights).sum(1) / weights.sum(1)
            pooled = F.normalize(pooled, dim=-1) if normalize else pooled
        return pooled[0] if isinstance(sentences, str) else pooled


class _Convolution(Module):
    """A convolution of width 3 over time."""

    def __init__(self, source: Source, path: str, channels: tuple[int, int], stride: int) -> None:
        super().__init__()
        self.weight = Parameter(source(f"{path}.weight", (channels[1], channels[0], 3)), requires_grad=False)
        self.bias = Parameter(source(f"{path}.bias", (channels[1],)), requires_grad=False)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(F.conv1d(x, self.weight, self.bias, stride=self.stride, padding=1))


class Whisper(Decoder):
    """Speech to text: an encoder of log-mel spectrograms, and a decoder of tokens.

    Args:
        source: Gives the tensors by name and shape.
        spec: The decoder, with the encoder in ``others``.
        config: The contents of ``config.json``.
    """

    def __init__(self, source: Source, spec: Spec, config: Mapping[str, Any]) -> None:
        """Take the tensors."""
        super().__init__(source, spec, config)
        inner = spec.others["encoder"]
        self.encoder = Stack(source, inner, self)
        self.convolutions = []
        for i, (channels, stride) in enumerate((((inner.bands, inner.hidden_size), 1), ((inner.hidden_size,) * 2, 2))):
            path = f"model.encoder.conv{i + 1}"
            self.convolutions.append(_Convolution(source, path, channels, stride))
            place(self, path, self.convolutions[-1])

    def encode(self, input_features: Tensor) -> Tensor:
        """Return the encoder's output, [batch, sources, hidden].

        Args:
            input_features: Log-mel spectrogram [batch, bands, 2 * sources].

        Raises:
            ValueError: The spectrogram has another shape.
        """
        spec = self.encoder.spec
        shape = spec.bands, 2 * spec.max_positions
        if input_features.ndim != 3 or tuple(input_features.shape[1:]) != shape:
            raise ValueError(
                f"encode: input_features has shape {list(input_features.shape)}, want [batch, {shape[0]}, {shape[1]}]"
            )
        x = input_features.to(self.dtype)
        for convolution in self.convolutions:
            x = convolution(x)
        positions = _C.arange(spec.max_positions, device=x.device).unsqueeze(0)
        x = x.transpose(1, 2) + self.encoder.parts["positions"](positions)
        return self.encoder.run(x, Step(spec, positions, keys=spec.max_positions))

    def cross(self, states: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return keys and values of the encoder's output for each layer of the decoder."""
        return [block.cross(states) for block in self.stack.blocks]

    def start(self, cross: list[tuple[Tensor, Tensor]], rows: int) -> Tensor:
        """Return the tokens that texts begin with, as in transformers: int64 [rows, steps].

        After the start token come those that ``forced_decoder_ids`` of the generation config wants at the next
        positions. Where it names no language the likeliest of ``lang_to_id`` is taken, if there is that table. The
        last token says that the text has no timestamps, where there is such a token.

        Args:
            cross: Keys and values of the encoder's output; see :meth:`cross`.
            rows: Number of texts.
        """
        given, device = self.generation_config, self.device
        forced = given.get("forced_decoder_ids") or self.config.get("forced_decoder_ids") or []
        follow = [token for at, (place, token) in enumerate(forced) if place == at + 1]
        ids = _C.full((rows, 1), given.get("decoder_start_token_id", 50257), dtype=_C.int64, device=device)
        if given.get("lang_to_id") and (not follow or follow[0] is None):
            languages = _C.tensor(sorted(given["lang_to_id"].values()), device=device)
            logits = self.stack.logits(self.stack.whole(ids, None, cross=cross))[:, -1]
            ids = _C.cat([ids, languages[logits.index_select(1, languages).argmax(-1, keepdim=True)]], 1)
            follow = follow[1:]
        follow = [token for token in follow if token is not None]
        silent = given.get("no_timestamps_token_id")
        if silent is not None and not given.get("return_timestamps") and silent not in follow[-1:]:
            follow.append(silent)
        if follow:
            ids = _C.cat([ids, _C.tensor([follow] * rows, dtype=_C.int64, device=device)], 1)
        return ids

    def forward(  # type: ignore[override]
        self, input_features: Tensor, decoder_input_ids: Tensor, decoder_attention_mask: Tensor | None = None
    ) -> Tensor:
        """Return the logits of the token after each one, float32 [batch, steps, vocab].

        Args:
            input_features: Log-mel spectrogram [batch, bands, 2 * sources].
            decoder_input_ids: int64 [batch, steps].
            decoder_attention_mask: [batch, steps]: 0 for padding; None for none.
        """
        cross = self.cross(self.encode(input_features))
        return self.stack.logits(self.stack.whole(decoder_input_ids, decoder_attention_mask, cross=cross))
