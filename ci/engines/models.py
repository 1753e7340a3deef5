"""Small models of random weights, in the shapes of real ones: two layers, saved as Hugging Face has them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

from engines import tokens

_COMMON: Final[dict[str, Any]] = {
    "num_hidden_layers": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    # Large enough that the first token is seldom a near tie of two.
    "initializer_range": 0.06,
}
#: Name -> class of the configuration in transformers, and what differs from its defaults.
CONFIGS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "llama": (
        "LlamaConfig",
        {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128},
    ),
    "llama-64": (
        "LlamaConfig",
        {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64},
    ),
    "qwen3-moe": (
        "Qwen3MoeConfig",
        {
            "hidden_size": 512, "intermediate_size": 1024, "moe_intermediate_size": 256, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 128, "num_experts": 8, "num_experts_per_tok": 2, "norm_topk_prob": True,
            "decoder_sparse_step": 1, "mlp_only_layers": [],
        },
    ),
    "deepseek-v3": (
        "DeepseekV3Config",
        {
            "hidden_size": 512, "intermediate_size": 1024, "moe_intermediate_size": 256, "num_attention_heads": 16,
            "num_key_value_heads": 16, "q_lora_rank": 256, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
            "v_head_dim": 128, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 2,
            "topk_group": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
            "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
        },
    ),
    # A window of fewer tokens than the second prompt has.
    "mistral": (
        "MistralConfig",
        {
            "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128,
            "sliding_window": 16,
        },
    ),
}  # fmt: skip

#: Models with latent attention.
LATENT: Final = frozenset(("deepseek-v3",))
#: Model -> what vLLM asks AITER for, that its package of November 2025 lacks.
AUGUST: Final = {"qwen3-moe": "topk_gating", "deepseek-v3": "aiter.ops.flydsl"}


def make(name: str, folder: Path, seed: int = 0) -> Path:
    """Write a model's configuration and bf16 weights, if they are not there. Returns its folder."""
    place = folder / f"{name}-{seed}"
    if (place / "model.safetensors").is_file():
        return place
    import torch

    transformers: Any = importlib.import_module("transformers")
    kind, differs = CONFIGS[name]
    configuration = getattr(transformers, kind)(**(_COMMON | differs))
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(configuration, dtype=torch.bfloat16)
    with torch.no_grad():
        for name_of, parameter in model.named_parameters():
            if parameter.dim() == 1:  # norms are ones, biases and sinks zeros: let them count
                middle = 1 if name_of.endswith("norm.weight") else 0
                parameter.copy_(middle + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(place)
    tokens.write(place, _COMMON["vocab_size"])
    return place
