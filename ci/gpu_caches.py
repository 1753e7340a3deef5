"""Measure rotary embeddings and cache writes on this GPU.

Rows of ``gpu_bench.py ops --group caches``.

Each is compared with a copy that moves as many bytes as it reads and writes, tables of cosines and slots not counted. Tokens are
a prompt's: those of a block of 16 slots lie beside each other, blocks anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from gpu_clock import Clock, TimedRow, random, row

import aiter_prebuilt

#: Heads of queries, heads of keys, elements of a head.
HEADS: Final = {"Llama 3 8B": (32, 8, 128), "Qwen3 235B": (64, 4, 128), "gpt-oss 120B": (64, 8, 64)}
TOKENS: Final = (1024, 4096, 16384)
POSITIONS: Final = 8192
BLOCK: Final = 16
#: Of DeepSeek V3: heads, what is not turned, what is.
LATENT: Final = (128, 512, 64)

_Made = tuple[str, Callable[[], Any], tuple[Any, ...], int]


def rows(clock: Clock) -> Iterator[TimedRow]:
    """Rows of each operator, model and number of tokens."""
    for tokens in TOKENS:
        for model, (queries, keys, size) in HEADS.items():
            for made in (*_turned(tokens, queries, keys, size), *_written(tokens, keys, size)):
                yield _beside_a_copy(clock, made, f"{model}, {tokens} tokens")
            yield _beside_a_copy(clock, _both(tokens, queries, keys, size), f"{model}, {tokens} tokens")
        yield _beside_a_copy(clock, _latent(tokens), f"DeepSeek V3, {tokens} tokens")


def _beside_a_copy(clock: Clock, made: _Made, what: str) -> TimedRow:
    name, call, right, moved = made
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return row("caches", f"{name}: {what}", clock, call, {"copy": lambda: target.copy_(source)}, right)


def _angles(tokens: int, half: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cosines and sines of all positions, and the tokens' positions."""
    angles = torch.rand(POSITIONS, half, device="cuda") * 6.28
    return (
        angles.cos().bfloat16(),
        angles.sin().bfloat16(),
        torch.randint(POSITIONS, (tokens,), device="cuda"),
    )


def _slots(tokens: int) -> torch.Tensor:
    """Choose a slot for each token.

    The cache has twice as many blocks as they take.
    """
    blocks = torch.randperm(2 * tokens // BLOCK, device="cuda")[: tokens // BLOCK]
    return (blocks[:, None] * BLOCK + torch.arange(BLOCK, device="cuda")).flatten()


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, neox: bool) -> torch.Tensor:
    """``x`` [tokens, heads, size] by the angles [tokens, size / 2], in fp32."""
    a, b = x.float().chunk(2, -1) if neox else (x.float()[..., ::2], x.float()[..., 1::2])
    cos, sin = cos.float()[:, None], sin.float()[:, None]
    turned = a * cos - b * sin, b * cos + a * sin
    return (torch.cat(turned, -1) if neox else torch.stack(turned, -1).flatten(-2)).bfloat16()


def _turned(tokens: int, queries: int, keys: int, size: int) -> Iterator[_Made]:
    """Yield queries and keys that are parts of one tensor.

    A server has them so: in place.
    """
    cos, sin, positions = _angles(tokens, size // 2)
    for style, name in enumerate(("neox", "gptj")):
        qkv = random(tokens, (queries + 2 * keys) * size)
        q = qkv[:, : queries * size].view(1, tokens, queries, size)
        k = qkv[:, queries * size : (queries + keys) * size].view(1, tokens, keys, size)
        right = tuple(_turn(x[0], cos[positions], sin[positions], style == 0)[None] for x in (q, k))

        def call(q: Any = q, k: Any = k, style: int = style) -> Any:
            aiter_prebuilt.rope_cached_positions_2c_fwd_inplace(
                q, k, cos[:, None, None], sin[:, None, None], positions[None], style, True, False
            )
            return q, k

        yield f"rope in place, {name}", call, right, 4 * tokens * (queries + keys) * size


def _written(tokens: int, keys: int, size: int) -> Iterator[_Made]:
    """Keys and values into a cache of tiles, of 16 bits and of 8."""
    k, v, slots = random(tokens, keys, size), random(tokens, keys, size), _slots(tokens)
    blocks, one = 2 * tokens // BLOCK, torch.ones(1, device="cuda")
    block, place = slots // BLOCK, slots % BLOCK
    for kind, word in ((torch.bfloat16, "auto"), (torch.float8_e4m3fn, "fp8")):
        x = 16 // kind.itemsize
        k_cache = torch.zeros(blocks, keys, size // x, BLOCK, x, dtype=kind, device="cuda")
        v_cache = torch.zeros(blocks, keys, BLOCK // x, size, x, dtype=kind, device="cuda")
        k_right, v_right = torch.zeros_like(k_cache), torch.zeros_like(v_cache)
        _raw(k_right)[block, :, :, place] = _raw(k.to(kind)).view(tokens, keys, size // x, x)
        _raw(v_right)[block, :, place // x, :, place % x] = _raw(v.to(kind))

        def call(a: Any = k_cache, b: Any = v_cache, word: str = word) -> Any:
            aiter_prebuilt.reshape_and_cache(k, v, a, b, slots, word, one, one, asm_layout=True)
            return a, b

        moved = 2 * tokens * keys * size * (2 + kind.itemsize)
        yield f"reshape_and_cache, {word}", call, (k_right, v_right), moved


def _raw(x: torch.Tensor) -> torch.Tensor:
    """Its bits: torch indexes no fp8."""
    return x.view(torch.uint8) if x.dtype == torch.float8_e4m3fn else x


def _both(tokens: int, queries: int, keys: int, size: int) -> _Made:
    """Rotate and write in one launch, as vLLM calls it."""
    qkv, slots = random(tokens, queries + 2 * keys, size), _slots(tokens)
    q, k, v = qkv.split((queries, keys, keys), 1)
    cos, sin, positions = _angles(tokens, size // 2)
    k_cache = torch.zeros(2 * tokens // BLOCK, BLOCK, keys, size, dtype=torch.bfloat16, device="cuda")
    v_cache = torch.zeros_like(k_cache)
    right = tuple(_turn(x, cos[positions], sin[positions], True) for x in (q, k))

    def call() -> Any:
        aiter_prebuilt.fused_qk_rope_reshape_and_cache(
            q, k, v, k_cache, v_cache, slots, positions, cos, sin, None, None, True, True, True, None, q, k, False
        )  # fmt: skip
        return q, k

    moved = 2 * tokens * size * (2 * queries + 3 * keys + 2 * keys)
    return "fused_qk_rope_reshape_and_cache", call, right, moved


def _latent(tokens: int) -> _Made:
    """Rotate queries and the latent key of MLA, pairs of neighbours."""
    heads, rank, size = LATENT
    nope, pe = random(tokens, heads, rank), random(tokens, heads, size)
    key, key_pe, slots = random(tokens, rank), random(tokens, size), _slots(tokens)
    cos, sin, positions = _angles(tokens, size // 2)
    cache = torch.zeros(2 * tokens // BLOCK, BLOCK, rank + size, dtype=torch.bfloat16, device="cuda")
    out, one = (
        torch.empty(tokens, heads, rank + size, dtype=torch.bfloat16, device="cuda"),
        torch.ones(1).cuda(),
    )
    right = torch.cat((nope, _turn(pe, cos[positions], sin[positions], False)), -1)

    def call() -> Any:
        aiter_prebuilt.fused_qk_rope_concat_and_cache_mla(
            nope, pe, key, key_pe, cache, out, slots, one, one, positions, cos, sin, False, True
        )
        return (out,)

    return "fused_qk_rope_concat_and_cache_mla", call, (right,), 4 * tokens * (heads + 1) * (rank + size)


GROUPS: Final[dict[str, Callable[[Clock], Iterator[TimedRow]]]] = {"caches": rows}
