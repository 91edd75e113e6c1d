"""Values of ``config.json`` as published folders have them, older names included, at small sizes."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]
_LLAMA: Config = {
    **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "bos_token_id": 1},
    **{"eos_token_id": 2, "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48},
    **{"max_position_embeddings": 2048, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2},
    **{"pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False},
    **{"torch_dtype": "float32", "transformers_version": "4.35.0", "use_cache": True, "vocab_size": 67},
}
_QWEN2: Config = {
    **{k: v for k, v in _LLAMA.items() if k not in ("attention_bias", "pretraining_tp")},
    **{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "max_window_layers": 24, "use_mrope": False},
    **{"rope_theta": 1000000.0, "sliding_window": 32768, "use_sliding_window": False, "tie_word_embeddings": True},
}
_MISTRAL: Config = {
    **{k: v for k, v in _LLAMA.items() if k not in ("attention_bias", "pretraining_tp")},
    **{"architectures": ["MistralForCausalLM"], "model_type": "mistral", "rope_theta": 1000000.0},
}
_GEMMA: Config = {
    **{k: v for k, v in _LLAMA.items() if k not in ("pretraining_tp", "tie_word_embeddings")},
    **{"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "head_dim": 16, "hidden_act": "gelu"},
    **{"num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1},
}
_PHI2: Config = {
    **{k: v for k, v in _LLAMA.items() if k not in ("attention_bias", "pretraining_tp", "rms_norm_eps")},
    **{"architectures": ["PhiForCausalLM"], "model_type": "phi", "embd_pdrop": 0.0, "hidden_act": "gelu_new"},
    **{"layer_norm_eps": 1e-05, "partial_rotary_factor": 0.5, "qk_layernorm": False, "resid_pdrop": 0.1},
}
_PHI3: Config = {
    **{k: v for k, v in _LLAMA.items() if k != "pretraining_tp"},
    **{"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "auto_map": {"AutoConfig": "configuration.Config"}},
    **{"embd_pdrop": 0.0, "resid_pdrop": 0.0, "original_max_position_embeddings": 2048, "pad_token_id": 0},
    **{"sliding_window": 2047, "rope_theta": 10000.0},
}
_LONG = {"type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 2.0, 3.0, 4.0]}
_LLAMA31 = {
    **{"rope_type": "llama3", "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0},
    "original_max_position_embeddings": 8192,
}

DECODERS: dict[str, Config] = {
    "llama-3.2-1b": {
        **{**_LLAMA, "rope_scaling": _LLAMA31, "rope_theta": 500000.0, "head_dim": 8, "mlp_bias": False},
        **{"eos_token_id": [2, 5], "tie_word_embeddings": True, "max_position_embeddings": 131072},
    },
    "tinyllama": {**_LLAMA, "rope_theta": 10000.0},
    "smollm2": {
        **{**_LLAMA, "is_llama_config": True, "rope_interleaved": False, "rope_theta": 100000},
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
    },
    "llama-yarn": {
        **{**_LLAMA, "max_position_embeddings": 256},
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 24.0},
    },
    "llama-dynamic": {**_LLAMA, "max_position_embeddings": 32, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "llama-linear": {**_LLAMA, "max_position_embeddings": 32, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "qwen2.5-0.5b": _QWEN2,
    "qwen2.5-yarn": {
        **{**_QWEN2, "max_position_embeddings": 64},
        "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 64, "type": "yarn"},
    },
    "mistral-7b-0.1": {**_MISTRAL, "sliding_window": 6},
    "mistral-7b-0.3": {**_MISTRAL, "sliding_window": None},
    "gemma-2b": _GEMMA,
    "phi-2": _PHI2,
    "phi-3-mini-4k": _PHI3,
    "phi-3-mini-128k": {
        **{**_PHI3, "max_position_embeddings": 256, "original_max_position_embeddings": 32, "rope_scaling": _LONG},
        "sliding_window": 262144,
    },
    "phi-4-mini": {
        **{**_PHI3, "max_position_embeddings": 256, "original_max_position_embeddings": 32},
        **{"partial_rotary_factor": 0.75, "tie_word_embeddings": True},
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 3, "long_factor": [1.5, 2.0, 3.0]},
    },
    "distilgpt2": {
        **{"_num_labels": 1, "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"]},
        **{"attn_pdrop": 0.1, "bos_token_id": 2, "embd_pdrop": 0.1, "eos_token_id": 2, "id2label": {"0": "LABEL_0"}},
        **{"initializer_range": 0.02, "label2id": {"LABEL_0": 0}, "layer_norm_epsilon": 1e-05, "model_type": "gpt2"},
        **{"n_ctx": 128, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 128, "resid_pdrop": 0.1},
        **{"summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True},
        **{"summary_type": "cls_index", "summary_use_proj": True, "vocab_size": 67},
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    },
}
BERT: Config = {
    **{"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False},
    **{"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 32, "initializer_range": 0.02},
    **{"intermediate_size": 48, "layer_norm_eps": 1e-12, "max_position_embeddings": 64, "model_type": "bert"},
    **{"num_attention_heads": 4, "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute"},
    **{"transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": True, "vocab_size": 67},
    **{"directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3},
    **{"pooler_size_per_head": 128, "pooler_type": "first_token_transform", "classifier_dropout": None},
}
