"""What a model is, as data: sizes, kinds and names, read from a folder's ``config.json``.

One family of transformers computes all architectures. A :class:`Spec` says how its parts compute, and a :class:`Names`
under which path of the checkpoint each part lies: a part without a path does not exist.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchlette.generation import names
from torchlette.generation.names import Names
from torchlette.generation.rotary import KINDS, Rotary, stretched

__all__ = ["ARCHITECTURES", "Spec", "read"]

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Spec:
    """Everything that decides what a stack of layers computes.

    Args:
        names: Where the parts are.
        vocab_size: Rows of the token embedding; 0 for a stack that is given vectors.
        hidden_size: Width of the residual stream.
        layers: Number of layers.
        heads: Heads of the queries.
        kv_heads: Heads of keys and values, a divisor of ``heads``.
        head_dim: Width of a head.
        intermediate_size: Width inside the feed-forward part.
        max_positions: The longest sequence.
        norm: "layer", "rms", or "rms_plus_one", whose weight is an offset from one.
        eps: Of the norms.
        activation: Of the feed-forward part.
        biases: Roles whose product has a bias.
        rotary: None where positions are embedded, or not at all.
        local_rotary: Of layers that see a window of keys, where these have others.
        unturned: Layers without rotary positions.
        scales: The factor of the scores of each layer.
        windows: How many keys each layer sees; None for all.
        softcap: Scores ``s`` become ``softcap * tanh(s / softcap)``.
        final_softcap: The same for logits.
        embedding_scale: What embeddings are multiplied by.
        transposed: Whether weights of products are stored [in, out].
        parallel: Whether attention and the feed-forward part read the same values.
        causal: Whether a token sees only itself and those before it.
        tied: Whether the head's weight is the token embedding.
        wide_qk_norm: Whether the norms of queries and keys are over all heads together.
        padding: The token that has no position; positions begin behind its number, with a row of the table for it.
        token_types: Rows of the embedding of token types; 0 for none.
        bands: Channels of an encoder's input.
        others: For architectures of more than one stack: the others by name.
    """

    names: Names
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    max_positions: int
    norm: str
    eps: float
    activation: str
    scales: tuple[float, ...]
    windows: tuple[int | None, ...]
    biases: frozenset[str] = frozenset()
    rotary: Rotary | None = None
    local_rotary: Rotary | None = None
    unturned: frozenset[int] = frozenset()
    softcap: float | None = None
    final_softcap: float | None = None
    embedding_scale: float = 1.0
    transposed: bool = False
    parallel: bool = False
    causal: bool = True
    tied: bool = False
    wide_qk_norm: bool = False
    padding: int | None = None
    token_types: int = 0
    bands: int = 0
    others: Mapping[str, Spec] = field(default_factory=dict)


#: Limits of sizes, against files that claim enormous ones.
_MOST, _MOST_LAYERS, _MOST_HEAD = 1 << 30, 1 << 12, 1 << 16


class _Reader:
    """The values of a ``config.json``; remembers which were asked for."""

    def __init__(self, config: Config) -> None:
        self.config, self.asked = config, set(_NO_EFFECT)
        self.kind = str(config.get("model_type"))

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default where it is absent or null."""
        self.asked.add(name)
        value = self.config.get(name)
        return default if value is None else value

    def size(self, *names: str, default: int | None = None) -> int:
        """Return a positive number; the names are synonyms."""
        value = next((v for v in map(self.get, names) if v is not None), default)
        limit = _MOST_LAYERS if "layer" in names[0] else _MOST_HEAD if names[0] == "head_dim" else _MOST
        if type(value) is not int or not 1 <= value <= limit:
            raise ValueError(f"load: {names[0]} of config.json is {value!r}, want a number from 1 to {limit}")
        return value

    def only(self, name: str, *wanted: Any) -> None:
        """Raise where a value is none of those that this package computes; the first is the default."""
        value = self.get(name, wanted[0])
        if value not in wanted:
            wants = " or ".join(map(repr, wanted))
            raise NotImplementedError(f"load: {name}={value!r} of a {self.kind} is not supported, want {wants}")

    def finish(self) -> None:
        """Refuse quantised weights, and warn of values that nothing here reads."""
        if self.config.get("quantization_config") is not None:
            raise NotImplementedError("load: quantization_config is not supported: the weights must be floating point")
        # A value that is off changes nothing, and names that begin so are notes of programs.
        unknown = sorted(
            name
            for name in set(self.config) - self.asked
            if self.config[name] not in (None, False) and not name.startswith(("_", "transformers.js"))
        )
        if unknown:
            warnings.warn(f"config.json of a {self.kind}: nothing reads {', '.join(unknown)}", stacklevel=4)


#: Values that change no result of a model in evaluation, or belong to generation, files and training.
_NO_EFFECT = frozenset(
    "_name_or_path architectures model_type transformers_version torch_dtype dtype use_cache initializer_range "
    "attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob classifier_dropout resid_pdrop "
    "residual_dropout embedding_dropout "
    "embd_pdrop attn_pdrop embed_pdrop dropout activation_dropout encoder_layerdrop decoder_layerdrop init_std "
    "summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj n_ctx "
    "task_specific_params bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id id2label label2id "
    "problem_type gradient_checkpointing reorder_and_upcast_attn pretraining_tp cache_implementation "
    "scale_embedding forced_decoder_ids suppress_tokens begin_suppress_tokens max_length num_beams "
    "no_repeat_ngram_size "
    "apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks mask_feature_prob mask_feature_length "
    "mask_feature_min_masks median_filter_width use_weighted_layer_sum classifier_proj_size num_hidden_layers "
    "output_attentions output_hidden_states return_dict is_encoder_decoder chunk_size_feed_forward "
    "quantization_config auto_map max_window_layers original_max_position_embeddings is_llama_config "
    "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head "
    "pooler_type".split()
)


def _rotary(
    c: _Reader,
    head_dim: int,
    fraction: float = 1.0,
    kinds: Mapping[str, str] | None = None,
    theta: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
) -> Rotary:
    """Return the rotary positions of a config in today's form, ``rope_parameters``, or in the older two values.

    Args:
        c: The config.
        head_dim: Width of a head.
        fraction: The part of a head that turns, where the config does not say.
        kinds: What the architecture's configs call a kind.
        theta: The base, where the config does not say.
        scaling: Taken for the config's parameters; None for these.
    """
    scaling = dict(c.get("rope_parameters") or c.get("rope_scaling") or {}) if scaling is None else dict(scaling)
    theta = float(scaling.get("rope_theta") or c.get("rope_theta", theta))
    c.asked |= {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"}
    fraction = float(scaling.get("partial_rotary_factor") or c.get("partial_rotary_factor", fraction))
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    kind = (kinds or {}).get(kind, kind)
    if kind not in KINDS:
        wants = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise NotImplementedError(f"load: rope_type={kind!r} of a {c.kind} is not supported, want {wants}")
    if c.get("original_max_position_embeddings") is not None:
        scaling["original_max_position_embeddings"] = c.get("original_max_position_embeddings")
    return stretched(kind, theta, int(head_dim * fraction), scaling, c.size("max_position_embeddings", default=2048))


def _windows(c: _Reader, layers: int, sliding: Callable[[int], bool]) -> tuple[int | None, ...]:
    """Return how many keys each layer sees: by ``layer_types``, or by the architecture's rule."""
    window, types = c.get("sliding_window"), c.get("layer_types")
    if types is None:
        return tuple(window if window is not None and sliding(i) else None for i in range(layers))
    for kind in types:
        if kind not in ("full_attention", "sliding_attention"):
            raise NotImplementedError(f"load: layer_types has {kind!r}, want full_attention or sliding_attention")
    if len(types) != layers:
        raise ValueError(f"load: layer_types has {len(types)} entries, want {layers}")
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _llama_like(c: _Reader, where: Names = names.LLAMA, **options: Any) -> Spec:
    """Return what Llama and its relatives are; ``options`` replace what differs."""
    hidden, layers, heads = c.size("hidden_size"), c.size("num_hidden_layers"), c.size("num_attention_heads")
    head_dim = options.pop("head_dim", None) or c.size("head_dim", default=hidden // heads)
    values: dict[str, Any] = {
        "vocab_size": c.size("vocab_size"),
        "hidden_size": hidden,
        "layers": layers,
        "heads": heads,
        "kv_heads": c.size("num_key_value_heads", default=heads),
        "head_dim": head_dim,
        "intermediate_size": c.size("intermediate_size"),
        "max_positions": c.size("max_position_embeddings", default=2048),
        "norm": "rms",
        "eps": float(c.get("rms_norm_eps", 1e-6)),
        "activation": c.get("hidden_act", "silu"),
        "scales": (head_dim**-0.5,) * layers,
        "windows": (None,) * layers,
        "tied": bool(c.get("tie_word_embeddings", False)),
    }
    if "rotary" not in options:
        values["rotary"] = _rotary(c, head_dim)
    return Spec(where, **{**values, **options})


def _biases(c: _Reader, attention: bool = False) -> frozenset[str]:
    """Return the roles with a bias, by the two flags of Llama."""
    found = {"q", "k", "v", "out"} if c.get("attention_bias", attention) else set()
    return frozenset(found | ({"gate", "up", "down"} if c.get("mlp_bias", False) else set()))


def _llama(c: _Reader) -> Spec:
    return _llama_like(c, biases=_biases(c))


def _mistral(c: _Reader) -> Spec:
    return _llama_like(c, windows=_windows(c, c.size("num_hidden_layers"), lambda i: True))


def _qwen_windows(c: _Reader) -> tuple[int | None, ...]:
    layers, first = c.size("num_hidden_layers"), c.get("max_window_layers", 28)
    windows = _windows(c, layers, lambda i: i >= first)
    return windows if c.get("use_sliding_window", False) else (None,) * layers


def _qwen2(c: _Reader) -> Spec:
    return _llama_like(c, biases=frozenset("qkv"), windows=_qwen_windows(c))


def _qwen3(c: _Reader) -> Spec:
    return _llama_like(
        c, names.QWEN3, head_dim=c.size("head_dim", default=128), biases=_biases(c), windows=_qwen_windows(c)
    )


def _gemma(c: _Reader) -> Spec:
    c.only("use_bidirectional_attention", False)
    # The configs of the first release say "gelu" where the models were trained with its tanh form.
    activation = c.get("hidden_activation") or c.get("hidden_act", "gelu_pytorch_tanh")
    c.asked.add("hidden_act")
    return _llama_like(
        c,
        activation="gelu_pytorch_tanh" if activation == "gelu" else activation,
        norm="rms_plus_one",
        biases=_biases(c),
        head_dim=c.size("head_dim", default=256),
        embedding_scale=c.size("hidden_size") ** 0.5,
        tied=bool(c.get("tie_word_embeddings", True)),
    )


def _gemma2(c: _Reader) -> Spec:
    return _gemma_like(c, names.GEMMA2, lambda i: i % 2 == 0)


def _gemma3(c: _Reader) -> Spec:
    head, pattern = c.size("head_dim", default=256), c.size("sliding_window_pattern", default=6)
    c.asked |= {"_sliding_window_pattern", "rope_local_base_freq"}
    given = c.get("rope_parameters") or {}
    whole = given.get("full_attention") or c.get("rope_scaling") or {}
    local = {"rope_theta": c.get("rope_local_base_freq", 10000.0), **(given.get("sliding_attention") or {})}
    return _gemma_like(
        c,
        names.GEMMA3,
        lambda i: (i + 1) % pattern != 0,
        rotary=_rotary(c, head, theta=1000000.0, scaling=whole),
        local_rotary=_rotary(c, head, scaling=local),
    )


def _gemma_like(c: _Reader, where: Names, sliding: Callable[[int], bool], **options: Any) -> Spec:
    """Return what Gemma 2 and 3 are; ``sliding`` says which layers see a window where ``layer_types`` does not."""
    c.only("use_bidirectional_attention", False)
    layers = c.size("num_hidden_layers")
    c.asked |= {"hidden_act"}
    return _llama_like(
        c,
        where,
        activation=c.get("hidden_activation", "gelu_pytorch_tanh"),
        norm="rms_plus_one",
        biases=_biases(c),
        head_dim=c.size("head_dim", default=256),
        embedding_scale=c.size("hidden_size") ** 0.5,
        scales=(float(c.get("query_pre_attn_scalar", 256)) ** -0.5,) * layers,
        softcap=c.get("attn_logit_softcapping"),
        final_softcap=c.get("final_logit_softcapping"),
        windows=_windows(c, layers, sliding),
        tied=bool(c.get("tie_word_embeddings", True)),
        **options,
    )


def _olmo2(c: _Reader) -> Spec:
    eps = float(c.get("rms_norm_eps", 1e-5))
    return _llama_like(c, names.OLMO2, eps=eps, biases=_biases(c), wide_qk_norm=True)


def _smollm3(c: _Reader) -> Spec:
    layers, every = c.size("num_hidden_layers"), c.size("no_rope_layer_interval", default=4)
    turned = c.get("no_rope_layers") or [(i + 1) % every for i in range(layers)]
    windows = _windows(c, layers, lambda i: not turned[i])
    head = c.size("head_dim", default=c.size("hidden_size") // c.size("num_attention_heads"))
    return _llama_like(
        c,
        biases=_biases(c),
        rotary=_rotary(c, head, theta=2000000.0),
        unturned=frozenset(i for i in range(layers) if not turned[i]),
        windows=windows if c.get("use_sliding_window", False) else (None,) * layers,
        tied=bool(c.get("tie_word_embeddings", True)),
    )


def _stablelm(c: _Reader) -> Spec:
    c.only("qk_layernorm", False)
    parallel = bool(c.get("use_parallel_residual", False))
    return _llama_like(
        c,
        names.STABLELM_PARALLEL if parallel else names.LLAMA,
        norm="layer",
        eps=float(c.get("layer_norm_eps", 1e-5)),
        biases=frozenset("qkv" if c.get("use_qkv_bias", False) else ""),
        rotary=_rotary(c, c.size("hidden_size") // c.size("num_attention_heads"), 0.25),
        parallel=parallel,
    )


def _starcoder2(c: _Reader) -> Spec:
    roles = ("q", "k", "v", "out", "up", "down")
    return _llama_like(
        c,
        names.STARCODER2,
        norm="layer",
        eps=float(c.get("norm_epsilon", 1e-5)),
        activation=c.get("hidden_act", "gelu_pytorch_tanh"),
        biases=frozenset(roles if c.get("use_bias", True) else ()),
        windows=_windows(c, c.size("num_hidden_layers"), lambda i: True),
        tied=bool(c.get("tie_word_embeddings", True)),
    )


def _phi(c: _Reader) -> Spec:
    c.only("qk_layernorm", False)
    heads = c.size("num_attention_heads")
    return _llama_like(
        c,
        names.PHI,
        norm="layer",
        eps=float(c.get("layer_norm_eps", 1e-5)),
        activation=c.get("hidden_act", "gelu_new"),
        biases=frozenset(("q", "k", "v", "out", "up", "down", "head")),
        rotary=_rotary(c, c.size("head_dim", default=c.size("hidden_size") // heads), 0.5),
        parallel=True,
    )


def _phi3(c: _Reader) -> Spec:
    c.only("attention_bias", False)
    head = c.size("head_dim", default=c.size("hidden_size") // c.size("num_attention_heads"))
    return _llama_like(
        c,
        names.PHI3,
        eps=float(c.get("rms_norm_eps", 1e-5)),
        windows=_windows(c, c.size("num_hidden_layers"), lambda i: True),
        rotary=_rotary(c, head, kinds={"su": "longrope", "yarn": "longrope"}),  # the names of its first releases
    )


def _head_dim(hidden: int, heads: int) -> int:
    """Return the width of a head where heads divide the residual stream."""
    if hidden % heads:
        raise ValueError(f"load: {heads} heads of config.json do not divide a width of {hidden}")
    return hidden // heads


def _gpt2(c: _Reader) -> Spec:
    c.only("add_cross_attention", False)
    hidden, layers, heads = (
        c.size("n_embd", "hidden_size"),
        c.size("n_layer", "num_hidden_layers"),
        c.size("n_head", "num_attention_heads"),
    )
    head = _head_dim(hidden, heads)
    scale = head**-0.5 if c.get("scale_attn_weights", True) else 1.0
    by_layer = c.get("scale_attn_by_inverse_layer_idx", False)
    return Spec(
        names.GPT2,
        vocab_size=c.size("vocab_size"),
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=_head_dim(hidden, heads),
        intermediate_size=c.size("n_inner", default=4 * hidden),
        max_positions=c.size("n_positions", "max_position_embeddings", default=1024),
        norm="layer",
        eps=float(c.get("layer_norm_epsilon", 1e-5)),
        activation=c.get("activation_function", "gelu_new"),
        scales=tuple(scale / (i + 1 if by_layer else 1) for i in range(layers)),
        windows=(None,) * layers,
        biases=frozenset(("qkv", "out", "up", "down")),
        transposed=True,
        tied=bool(c.get("tie_word_embeddings", True)),
    )


def _encoder(c: _Reader, where: Names, sizes: tuple[int, int, int, int], positions: int, **options: Any) -> Spec:
    """Return what BERT and its relatives are.

    Args:
        c: The config.
        where: Paths of the parts.
        sizes: Width, layers, heads, and width inside the feed-forward part.
        positions: The longest sequence.
        options: What differs.
    """
    c.only("is_decoder", False)
    c.only("add_cross_attention", False)
    c.only("position_embedding_type", "absolute")
    c.asked.add("tie_word_embeddings")
    hidden, layers, heads, inner = sizes
    values = {"eps": float(c.get("layer_norm_eps", 1e-12)), "activation": c.get("hidden_act", "gelu")}
    return Spec(
        where,
        vocab_size=c.size("vocab_size"),
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=_head_dim(hidden, heads),
        intermediate_size=inner,
        max_positions=positions,
        norm="layer",
        scales=(_head_dim(hidden, heads) ** -0.5,) * layers,
        windows=(None,) * layers,
        biases=frozenset(("q", "k", "v", "out", "up", "down")),
        causal=False,
        **{**values, **options},
    )


def _bert_sizes(c: _Reader) -> tuple[int, int, int, int]:
    return (
        c.size("hidden_size"),
        c.size("num_hidden_layers"),
        c.size("num_attention_heads"),
        c.size("intermediate_size"),
    )


def _bert(c: _Reader) -> Spec:
    positions, types = c.size("max_position_embeddings", default=512), c.size("type_vocab_size", default=2)
    return _encoder(c, names.BERT, _bert_sizes(c), positions, token_types=types)


def _roberta(c: _Reader) -> Spec:
    padding, rows = c.get("pad_token_id", 1), c.size("max_position_embeddings", default=512)
    if type(padding) is not int or not 0 <= padding < rows - 1:
        raise ValueError(f"load: pad_token_id of config.json is {padding!r}, want a row of {rows} positions")
    types = c.size("type_vocab_size", default=2)
    return _encoder(c, names.ROBERTA, _bert_sizes(c), rows - padding - 1, token_types=types, padding=padding)


def _distilbert(c: _Reader) -> Spec:
    c.asked |= {"sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout"}
    sizes = (c.size("dim"), c.size("n_layers"), c.size("n_heads"), c.size("hidden_dim"))
    positions = c.size("max_position_embeddings", default=512)
    return _encoder(c, names.DISTILBERT, sizes, positions, eps=1e-12, activation=c.get("activation", "gelu"))


def _whisper(c: _Reader) -> Spec:
    hidden = c.size("d_model")

    def stack(side: str, where: Names, positions: int, **options: Any) -> Spec:
        layers, heads = c.size(f"{side}_layers"), c.size(f"{side}_attention_heads")
        return Spec(
            where,
            hidden_size=hidden,
            layers=layers,
            heads=heads,
            kv_heads=heads,
            head_dim=_head_dim(hidden, heads),
            intermediate_size=c.size(f"{side}_ffn_dim"),
            max_positions=positions,
            norm="layer",
            eps=1e-5,
            activation=c.get("activation_function", "gelu"),
            scales=(_head_dim(hidden, heads) ** -0.5,) * layers,
            windows=(None,) * layers,
            biases=frozenset(("q", "v", "out", "up", "down", "cross_q", "cross_v", "cross_out")),
            **options,
        )

    sources, bands = c.size("max_source_positions", default=1500), c.size("num_mel_bins", default=80)
    encoder = stack("encoder", names.WHISPER_ENCODER, sources, vocab_size=0, causal=False, bands=bands)
    return stack(
        "decoder",
        names.WHISPER_DECODER,
        c.size("max_target_positions", default=448),
        vocab_size=c.size("vocab_size"),
        tied=bool(c.get("tie_word_embeddings", True)),
        others={"encoder": encoder},
    )


#: Readers by ``model_type``.
ARCHITECTURES: Mapping[str, Callable[[_Reader], Spec]] = {
    "bert": _bert,
    "camembert": _roberta,
    "distilbert": _distilbert,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "olmo2": _olmo2,
    "phi": _phi,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "roberta": _roberta,
    "smollm3": _smollm3,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
    "whisper": _whisper,
    "xlm-roberta": _roberta,
}


def read(config: Config) -> Spec:
    """Return the specification in the contents of a ``config.json``.

    Raises:
        NotImplementedError: The architecture, or a value that changes results, is not supported; the text names it.
        ValueError: A size is missing or wrong.
    """
    kind, known = str(config.get("model_type")), ", ".join(sorted(ARCHITECTURES))
    if config.get("model_type") is None:
        raise ValueError(f"load: config.json has no model_type, want one of {known}")
    if kind not in ARCHITECTURES:
        raise NotImplementedError(f"load: model_type={kind!r} is not supported, want one of {known}")
    reader = _Reader(config)
    try:
        spec = ARCHITECTURES[kind](reader)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as exc:
        raise ValueError(f"load: config.json of a {kind} has a wrong value: {exc}") from exc
    for stack in (spec, *spec.others.values()):
        if stack.heads % stack.kv_heads:
            raise ValueError(f"load: {stack.heads} heads of config.json do not share {stack.kv_heads} keys")
        if not isinstance(stack.activation, str):
            raise ValueError(f"load: the activation of config.json is {stack.activation!r}, want a name")
    reader.finish()
    return spec
