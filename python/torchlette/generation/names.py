"""Where the parts of each architecture lie in its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Names"]


@dataclass(frozen=True)
class Names:
    """Paths of a model's parts in its checkpoint.

    Args:
        prefix: What a checkpoint of the model without its head leaves out at the beginning of each path.
        layer: Of layer i, with ``{}`` for i.
        parts: Of the parts outside of the layers, by role.
        block: Of the parts of a layer, by role, below the layer's path.
    """

    prefix: str
    layer: str
    parts: Mapping[str, str]
    block: Mapping[str, str]


LLAMA = Names(
    "model.",
    "model.layers.{}",
    {"embed": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"},
    {
        "norm1": "input_layernorm",
        "q": "self_attn.q_proj",
        "k": "self_attn.k_proj",
        "v": "self_attn.v_proj",
        "out": "self_attn.o_proj",
        "norm2": "post_attention_layernorm",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
    },
)
QWEN3 = Names(
    LLAMA.prefix,
    LLAMA.layer,
    LLAMA.parts,
    {**LLAMA.block, "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"},
)
GEMMA2 = Names(
    LLAMA.prefix,
    LLAMA.layer,
    LLAMA.parts,
    {
        **LLAMA.block,
        "after_attention": "post_attention_layernorm",
        "norm2": "pre_feedforward_layernorm",
        "after_mlp": "post_feedforward_layernorm",
    },
)
GEMMA3 = Names(
    LLAMA.prefix,
    LLAMA.layer,
    LLAMA.parts,
    {**GEMMA2.block, "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"},
)
OLMO2 = Names(
    LLAMA.prefix,
    LLAMA.layer,
    LLAMA.parts,
    {
        **{role: path for role, path in QWEN3.block.items() if not role.startswith("norm")},
        "after_attention": "post_attention_layernorm",
        "after_mlp": "post_feedforward_layernorm",
    },
)
STARCODER2 = Names(
    LLAMA.prefix,
    LLAMA.layer,
    LLAMA.parts,
    {
        **{role: path for role, path in LLAMA.block.items() if role not in ("gate", "up", "down")},
        "up": "mlp.c_fc",
        "down": "mlp.c_proj",
    },
)
STABLELM_PARALLEL = Names(
    LLAMA.prefix,
    LLAMA.layer,
    LLAMA.parts,
    {role: path for role, path in LLAMA.block.items() if role != "norm2"},
)
GPT2 = Names(
    "transformer.",
    "transformer.h.{}",
    {"embed": "transformer.wte", "positions": "transformer.wpe", "norm": "transformer.ln_f", "head": "lm_head"},
    {
        "norm1": "ln_1",
        "qkv": "attn.c_attn",
        "out": "attn.c_proj",
        "norm2": "ln_2",
        "up": "mlp.c_fc",
        "down": "mlp.c_proj",
    },
)
PHI3 = Names(
    LLAMA.prefix,
    LLAMA.layer,
    LLAMA.parts,
    {
        "norm1": "input_layernorm",
        "qkv": "self_attn.qkv_proj",
        "out": "self_attn.o_proj",
        "norm2": "post_attention_layernorm",
        "gate_up": "mlp.gate_up_proj",
        "down": "mlp.down_proj",
    },
)
PHI = Names(
    "model.",
    "model.layers.{}",
    {"embed": "model.embed_tokens", "norm": "model.final_layernorm", "head": "lm_head"},
    {
        "norm1": "input_layernorm",
        "q": "self_attn.q_proj",
        "k": "self_attn.k_proj",
        "v": "self_attn.v_proj",
        "out": "self_attn.dense",
        "up": "mlp.fc1",
        "down": "mlp.fc2",
    },
)
BERT = Names(
    "bert.",
    "bert.encoder.layer.{}",
    {
        "embed": "bert.embeddings.word_embeddings",
        "positions": "bert.embeddings.position_embeddings",
        "types": "bert.embeddings.token_type_embeddings",
        "embed_norm": "bert.embeddings.LayerNorm",
    },
    {
        "q": "attention.self.query",
        "k": "attention.self.key",
        "v": "attention.self.value",
        "out": "attention.output.dense",
        "post1": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "post2": "output.LayerNorm",
    },
)
ROBERTA = Names(
    "roberta.",
    "roberta.encoder.layer.{}",
    {role: path.replace("bert.", "roberta.") for role, path in BERT.parts.items()},
    BERT.block,
)
DISTILBERT = Names(
    "distilbert.",
    "distilbert.transformer.layer.{}",
    {role: f"distil{path}" for role, path in BERT.parts.items() if role != "types"},
    {
        "q": "attention.q_lin",
        "k": "attention.k_lin",
        "v": "attention.v_lin",
        "out": "attention.out_lin",
        "post1": "sa_layer_norm",
        "up": "ffn.lin1",
        "down": "ffn.lin2",
        "post2": "output_layer_norm",
    },
)
_WHISPER_BLOCK = {
    "norm1": "self_attn_layer_norm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "out": "self_attn.out_proj",
    "norm2": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}
WHISPER_ENCODER = Names(
    "model.",
    "model.encoder.layers.{}",
    {"positions": "model.encoder.embed_positions", "norm": "model.encoder.layer_norm"},
    _WHISPER_BLOCK,
)
WHISPER_DECODER = Names(
    "model.",
    "model.decoder.layers.{}",
    {
        "embed": "model.decoder.embed_tokens",
        "positions": "model.decoder.embed_positions",
        "norm": "model.decoder.layer_norm",
        "head": "proj_out",
    },
    {
        **_WHISPER_BLOCK,
        "cross_norm": "encoder_attn_layer_norm",
        "cross_q": "encoder_attn.q_proj",
        "cross_k": "encoder_attn.k_proj",
        "cross_v": "encoder_attn.v_proj",
        "cross_out": "encoder_attn.out_proj",
    },
)
