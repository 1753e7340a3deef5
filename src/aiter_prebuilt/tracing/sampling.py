"""What Dynamo traces of the functions of ``ops/sampling.py`` and ``ops/sampling_top.py``: as ``calls``."""

from __future__ import annotations

from typing import Any, Final

import torch

from aiter_prebuilt.ops._common import as_type, refuse
from aiter_prebuilt.ops._random import pair, tokens
from aiter_prebuilt.tracing.library import NAMESPACE

_OPS: Final[Any] = getattr(torch.ops, NAMESPACE)


def random_sample(out: Any, input: Any, temperatures: Any, lambd: float, generator: Any, eps: float) -> None:
    """Of ``aiter_prebuilt.random_sample``."""
    _OPS.random_sample.default(out, input, temperatures, lambd, eps, *_state("random_sample", generator))


def mixed_sample(out: Any, input: Any, temperature: Any, lambd: float, generator: Any, eps: float) -> None:
    """Of ``aiter_prebuilt.mixed_sample``."""
    _OPS.mixed_sample.default(out, input, temperature, lambd, eps, *_state("mixed_sample", generator))


def exponential(out: Any, lambd: float, generator: Any, eps: float) -> None:
    """Of ``aiter_prebuilt.exponential``."""
    _OPS.exponential.default(out, lambd, eps, *_state("exponential", generator))


def top_k_renorm_probs(probs: Any, maybe_top_k_arr: Any, top_k_val: int) -> Any:
    """Of ``aiter_prebuilt.top_k_renorm_probs``."""
    out = probs.new_empty(probs.shape, dtype=torch.float32)
    _OPS.top_k_renorm_probs.default(as_type(probs, "f32"), as_type(maybe_top_k_arr, "i32"), out, top_k_val)
    return out


def top_p_sampling_from_probs(
    probs: Any, indices: Any, maybe_top_p_arr: Any, top_p_val: float, generator: Any
) -> Any:
    """Of ``aiter_prebuilt.top_p_sampling_from_probs``."""
    state = _state("top_p_sampling_from_probs", generator)
    rows = as_type(indices, "i32")
    out = tokens(probs, rows)
    ps = as_type(maybe_top_p_arr, "f32")
    _OPS.top_p_sampling_from_probs.default(as_type(probs, "f32"), rows, ps, out, top_p_val, *state)
    return out


def top_k_top_p_sampling_from_probs(
    probs: Any,
    indices: Any,
    maybe_top_k_arr: Any,
    top_k_val: int,
    maybe_top_p_arr: Any,
    top_p_val: float,
    generator: Any,
) -> Any:
    """Of ``aiter_prebuilt.top_k_top_p_sampling_from_probs``."""
    state = _state("top_k_top_p_sampling_from_probs", generator)
    rows = as_type(indices, "i32")
    out = tokens(probs, rows)
    ks, ps = as_type(maybe_top_k_arr, "i32"), as_type(maybe_top_p_arr, "f32")
    _OPS.top_k_top_p_sampling_from_probs.default(
        as_type(probs, "f32"), rows, ks, ps, out, top_k_val, top_p_val, *state
    )
    return out


def _state(function: str, generator: Any) -> tuple[int, int]:
    """Seed and offset. What torch's generator says while a graph is traced would be a constant of it.

    Raises:
        UnsupportedError: it is no pair.
    """
    if not isinstance(generator, tuple | list) or len(generator) != 2:
        raise refuse(function, "generator", generator, "(seed, offset) under torch.compile")
    return pair(function, generator, generator)
