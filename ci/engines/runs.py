"""The runs of ``python -m engines run``: each model on both targets, then one option more at a time."""

from __future__ import annotations

from typing import Any, Final

from engines import exact
from engines.vllm_run import Run

TARGETS: Final = ("gfx942", "gfx950")
_BOTH: Final = ("llama", "llama-64", "qwen3-moe", "deepseek-v3")
_AITER_FIRST: Final = ["aiter", "native"]
_DRAFTS: Final[dict[str, Any]] = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_min": 1,
    "prompt_lookup_max": 2,
}
RUNS: Final = (
    *(Run(model, target) for model in _BOTH for target in TARGETS),
    Run("llama", "gfx942", "v2-runner", runner="v2"),
    Run("llama", "gfx942", "fp8-cache", settings={"kv_cache_dtype": "fp8"}, bound=exact.FP8_CACHE),
    Run("llama", "gfx942", "chunked-prefill", settings={"max_num_batched_tokens": 16}),
    Run(
        "llama",
        "gfx942",
        "aiter-norms",
        settings={"ir_op_priority": {"rms_norm": _AITER_FIRST, "fused_add_rms_norm": _AITER_FIRST}},
    ),
    Run("llama", "gfx942", "prefix-cache", rounds=2, evidence="cached_tokens"),
    # Half of the vocabulary, so that many a token of the answer was there before: what followed it is the draft.
    Run(
        "llama",
        "gfx942",
        "drafts",
        settings={"speculative_config": _DRAFTS},
        prompts=([*range(3, 483)],),
        evidence="tokens_drafted",
    ),
    # The likeliest token again, by way of the sampler.
    Run("llama", "gfx942", "sampler", sampling={"temperature": 1.0, "top_k": 1, "top_p": 0.9}),
    Run("llama", "gfx942", "shuffled-cache", variables={"VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}),
    Run("llama", "gfx942", "triton-rope", variables={"VLLM_ROCM_USE_AITER_TRITON_ROPE": "1"}),
    Run("mistral", "gfx942"),
)
OPTIONS: Final = tuple(dict.fromkeys(run.option for run in RUNS))
