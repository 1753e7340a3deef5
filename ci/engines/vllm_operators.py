"""vLLM's own compiled operators, in torch: what a model needs of ``vllm._C`` beside AITER's functions.

vLLM's wheel holds them compiled for NVIDIA cards. None is AITER's or ours: they stand in for what vLLM's build for ROCm brings,
in float32 inside, and count their calls. Schemas are those of vLLM 0.33's bindings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import torch

#: Name of an operator -> how often it was called in this process.
CALLS: Final[Counter[str]] = Counter()
_LIBRARIES: Final[dict[str, Any]] = {}


def _operator(namespace: str, schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as an operator of vLLM's namespace."""
    name = schema.partition("(")[0]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **keywords: Any) -> Any:
            CALLS[name] += 1
            return function(*args, **keywords)

        if namespace not in _LIBRARIES:
            _LIBRARIES[namespace] = torch.library.Library(namespace, "FRAGMENT")
        library = _LIBRARIES[namespace]
        library.define(schema)
        library.impl(name, counted, "CUDA")
        library.impl(name, counted, "CPU")
        return function

    return register


def _norm(x: torch.Tensor, weight: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    wide = x.float()
    out = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return out if weight is None else out * weight.float()


@_operator("_C", "rms_norm(Tensor! out, Tensor input, Tensor? weight, float epsilon) -> ()")
def rms_norm(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, epsilon: float) -> None:
    """Normalise rows."""
    out.copy_(_norm(x, weight, epsilon))


@_operator("_C", "fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()")
def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, epsilon: float
) -> None:
    """Add to the residual, and normalise the sum."""
    residual.add_(x)
    x.copy_(_norm(residual, weight, epsilon))


@_operator("_C", "silu_and_mul(Tensor! result, Tensor input) -> ()")
def silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    """Multiply SiLU of the first half of each row by its second half."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(torch.nn.functional.silu(gate) * up)


@_operator(
    "_C",
    "rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, bool is_neox, "
    "int rope_dim_offset=0, bool inverse=False) -> ()",
)
def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor | None,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
    rope_dim_offset: int = 0,
    inverse: bool = False,
) -> None:
    """Rotate queries and keys in place."""
    cos, sin = cos_sin_cache[positions.flatten()].float().chunk(2, dim=-1)
    if inverse:
        sin = -sin
    width = 2 * cos.shape[-1]
    for each in (query, key):
        if each is None:
            continue
        heads = each.view(positions.numel(), -1, head_size)
        part = heads[..., rope_dim_offset : rope_dim_offset + width]
        part.copy_(_turned(part.float(), cos[:, None], sin[:, None], is_neox))


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, is_neox: bool) -> torch.Tensor:
    if is_neox:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)


def _stored(x: torch.Tensor, cache: torch.Tensor, kind: str, scale: torch.Tensor) -> torch.Tensor:
    """Return values as a cache of this kind holds them, in the cache's type."""
    if kind == "auto":
        return x.to(cache.dtype)
    fp8 = torch.float8_e5m2 if "e5m2" in kind else _FP8[torch.cuda.get_device_capability()]
    limit = torch.finfo(fp8).max
    return (x.float() / scale).clamp(-limit, limit).to(fp8).view(cache.dtype)


#: (9, 4) is gfx942, whose E4M3 has no infinity and no negative zero.
_FP8: Final = {(9, 4): torch.float8_e4m3fnuz, (9, 5): torch.float8_e4m3fn}


@_operator(
    "_C_cache_ops",
    "reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, "
    "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()",
)
def reshape_and_cache_flash(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    kv_cache_dtype: str,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
) -> None:
    """Write tokens into a paged cache ``[blocks, block_size, heads, head_size]``."""
    for x, cache, scale in ((key, key_cache, k_scale), (value, value_cache, v_scale)):
        _place(x, cache, slot_mapping, kv_cache_dtype, scale)


def _place(x: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, kind: str, scale: torch.Tensor) -> None:
    kept = slots >= 0
    where = slots[kept]
    size = cache.shape[1]
    raw = cache.view(torch.uint8) if cache.element_size() == 1 else cache
    values = _stored(x[: slots.numel()][kept], cache, kind, scale)
    raw[where // size, where % size] = values.view(raw.dtype)


@_operator(
    "_C_cache_ops",
    "concat_and_cache_mla(Tensor kv_c, Tensor k_pe, Tensor! kv_cache, Tensor slot_mapping, str kv_cache_dtype, Tensor scale, "
    "bool skip_scale=False) -> ()",
)
def concat_and_cache_mla(
    kv_c: torch.Tensor,
    k_pe: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    kv_cache_dtype: str,
    scale: torch.Tensor,
    skip_scale: bool = False,
) -> None:
    """Write latents and rotated keys side by side into a paged cache ``[blocks, block_size, width]``."""
    rows = torch.cat((kv_c, k_pe.view(kv_c.shape[0], -1)), dim=-1)
    _place(rows, kv_cache, slot_mapping, kv_cache_dtype, torch.ones_like(scale) if skip_scale else scale)


def _quantised(out: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> None:
    limit = torch.finfo(out.dtype).max
    out[: x.shape[0]].copy_((x.float() / scale).clamp(-limit, limit).to(out.dtype))


@_operator(
    "_C",
    "static_scaled_fp8_quant(Tensor! result, Tensor input, Tensor scale, (int, int)? group_shape=None) -> ()",
)
def static_scaled_fp8_quant(
    out: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, group_shape: tuple[int, int] | None = None
) -> None:
    """Quantise by one scale."""
    if scale.numel() != 1:
        raise NotImplementedError(
            f"static_scaled_fp8_quant with group_shape {group_shape}: the stand-in has one scale"
        )
    _quantised(out, x, scale)


@_operator("_C", "dynamic_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale) -> ()")
def dynamic_scaled_fp8_quant(out: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> None:
    """Quantise by one scale, that of the largest magnitude."""
    scale.fill_(x.float().abs().max() / torch.finfo(out.dtype).max)
    _quantised(out, x, scale)


@_operator(
    "_C",
    "dynamic_per_token_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale, Tensor? scale_ub) -> ()",
)
def dynamic_per_token_scaled_fp8_quant(
    out: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, scale_ub: torch.Tensor | None
) -> None:
    """Quantise each row by its own scale ``[rows, 1]``."""
    largest = x.float().abs().amax(-1, keepdim=True)
    if scale_ub is not None:
        largest = largest.minimum(scale_ub)
    scale[: x.shape[0]].copy_(largest / torch.finfo(out.dtype).max)
    _quantised(out, x, scale[: x.shape[0]])


@_operator(
    "_C",
    "merge_attn_states(Tensor! output, Tensor!? output_lse, Tensor prefix_output, Tensor prefix_lse, Tensor suffix_output, "
    "Tensor suffix_lse, int? prefill_tokens_with_context=None, Tensor? output_scale=None) -> ()",
)
def merge_attn_states(
    output: torch.Tensor,
    output_lse: torch.Tensor | None,
    prefix_output: torch.Tensor,
    prefix_lse: torch.Tensor,
    suffix_output: torch.Tensor,
    suffix_lse: torch.Tensor,
    prefill_tokens_with_context: int | None = None,
    output_scale: torch.Tensor | None = None,
) -> None:
    """Merge two parts of an attention: outputs ``[tokens, heads, head_size]``, logarithms of sums ``[heads, tokens]``."""
    if output_scale is not None:
        raise NotImplementedError("merge_attn_states with output_scale: the stand-in writes no fp8 results")
    prefix = torch.where(torch.isposinf(prefix_lse), -torch.inf, prefix_lse).float()
    suffix = torch.where(torch.isposinf(suffix_lse), -torch.inf, suffix_lse).float()
    if prefill_tokens_with_context is not None:
        prefix[:, prefill_tokens_with_context:] = -torch.inf
    both = torch.logaddexp(prefix, suffix)
    shares = [torch.nan_to_num(torch.exp(each - both)).T[..., None] for each in (prefix, suffix)]
    parts = [
        torch.where(share > 0, share * x.float(), 0.0)
        for share, x in zip(shares, (prefix_output, suffix_output), strict=True)
    ]
    output.copy_(parts[0] + parts[1])
    if output_lse is not None:
        output_lse.copy_(both)


@_operator("_C", "get_cuda_view_from_cpu_tensor(Tensor cpu_tensor) -> Tensor")
def get_cuda_view_from_cpu_tensor(cpu_tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the device on the memory of a pinned one."""
    from aiter_prebuilt_emulator.torch_device import memory

    return memory.view_of_pinned(cpu_tensor, torch.cuda.current_device())
