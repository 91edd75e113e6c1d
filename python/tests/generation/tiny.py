"""Tiny random models of each architecture: that of transformers and ours, with the same weights."""

from __future__ import annotations

import functools
import os

# Before transformers is imported: nothing is fetched.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

import torchlette as tl
from torchlette import generation

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

VOCAB = 67
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {
    **{"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 600, **SPECIAL},
}
SIZES_OF_HEADS = {name: n for name, n in SIZES.items() if name != "head_dim"}
GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 600, **SPECIAL}
LLAMA3 = {
    **{"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0},
    **{"high_freq_factor": 4.0, "original_max_position_embeddings": 32},
}
WHISPER = {
    **{"vocab_size": VOCAB, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40},
    **{"max_source_positions": 12, "max_target_positions": 40, "decoder_start_token_id": 3, **SPECIAL},
}

DECODERS = {
    "gpt2": lambda t: t.GPT2Config(**GPT2),
    "gpt2_untied": lambda t: t.GPT2Config(
        **GPT2, scale_attn_by_inverse_layer_idx=True, n_inner=40, tie_word_embeddings=False, scale_attn_weights=False
    ),
    "llama": lambda t: t.LlamaConfig(**SIZES),
    "llama3": lambda t: t.LlamaConfig(
        **SIZES, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=LLAMA3
    ),
    "llama_linear": lambda t: t.LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "factor": 3.0}),
    "mistral": lambda t: t.MistralConfig(**SIZES, sliding_window=5),
    "qwen2": lambda t: t.Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "qwen3": lambda t: t.Qwen3Config(**SIZES),
    "gemma": lambda t: t.GemmaConfig(**SIZES),
    "gemma2": lambda t: t.Gemma2Config(**SIZES, sliding_window=5, query_pre_attn_scalar=16),
    "gemma3_text": lambda t: t.Gemma3TextConfig(**SIZES, sliding_window=5, sliding_window_pattern=2),
    "olmo2": lambda t: t.Olmo2Config(**SIZES_OF_HEADS),
    "phi": lambda t: t.PhiConfig(**SIZES),
    "smollm3": lambda t: t.SmolLM3Config(**SIZES_OF_HEADS, no_rope_layer_interval=2),
    "smollm3_windows": lambda t: t.SmolLM3Config(
        **SIZES_OF_HEADS, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=4, attention_bias=True
    ),
    "stablelm": lambda t: t.StableLmConfig(**{**SIZES_OF_HEADS, "hidden_size": 64}),
    "stablelm_parallel": lambda t: t.StableLmConfig(
        **{**SIZES_OF_HEADS, "hidden_size": 64}, use_parallel_residual=True, use_qkv_bias=True
    ),
    "starcoder2": lambda t: t.Starcoder2Config(**SIZES_OF_HEADS, sliding_window=6),
}
_ENCODER = {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_ENCODER |= {"intermediate_size": 48, "max_position_embeddings": 40}
ENCODERS = {
    "bert": lambda t: t.BertConfig(**_ENCODER),
    "camembert": lambda t: t.CamembertConfig(**_ENCODER, pad_token_id=1, type_vocab_size=1),
    "distilbert": lambda t: t.DistilBertConfig(
        vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=40
    ),
    "roberta": lambda t: t.RobertaConfig(**_ENCODER, pad_token_id=1, type_vocab_size=1),
    "xlm_roberta": lambda t: t.XLMRobertaConfig(**_ENCODER, pad_token_id=2),
}


def randomize(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Give all parameters values that matter, norms and biases too."""
    generator = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        p.data.copy_(torch.randn(p.shape, generator=generator) * (0.1 if p.ndim == 1 else 0.15))
        if p.ndim == 1:
            p.data.add_(0.5)
    return model.eval()


def ours(model: torch.nn.Module, device: str = "cpu") -> generation.Model:
    """Return our model with the weights of another."""
    tensors = {name: tl.tensor(t.numpy()) for name, t in model.state_dict().items()}
    return generation.build(model.config.to_dict(), tensors, device=device)


@functools.cache
def reference(name: str, seed: int = 0) -> torch.nn.Module:
    """Return a decoder of transformers."""
    config = DECODERS[name](transformers)
    return randomize(transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"), seed)


def to_torch(t: tl.Tensor) -> torch.Tensor:
    """Return one of our tensors as one of PyTorch."""
    return torch.tensor(t.tolist())


def from_torch(t: torch.Tensor, device: str = "cpu") -> tl.Tensor:
    """Return a tensor of PyTorch as one of ours."""
    return tl.tensor(t.numpy()).to(device)
