"""Settings of vLLM that its offline runs and its server share: small enough for a processor, and AITER's attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engines import models

_SETTINGS: Final[dict[str, Any]] = {
    "enforce_eager": True,
    "max_model_len": 512,
    "max_num_seqs": 8,
    # vLLM's first step has so many tokens, to see how much memory it needs.
    "max_num_batched_tokens": 512,
    "num_gpu_blocks_override": 1024,
}


def of(model: str) -> dict[str, Any]:
    """Return the settings of a model, as ``vllm.LLM`` takes them."""
    # Models with latent attention have a backend of their own, which vLLM chooses.
    return _SETTINGS | ({} if model in models.LATENT else {"attention_backend": "ROCM_AITER_FA"})


def words(settings: Mapping[str, Any]) -> Iterator[str]:
    """Give the same settings as words of vLLM's command line."""
    for name, value in settings.items():
        yield f"--{name.replace('_', '-')}"
        if value is not True:
            yield str(value)
