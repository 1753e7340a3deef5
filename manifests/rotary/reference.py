"""Rotary position embedding of vLLM's kind: rows of cosines and sines by position, pairs of a head's elements turned in place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Half a unit in the last place, relative.
_UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
_SMALLEST = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}


def _rows(cache: Values, half: int) -> Values:
    """The cache as rows of ``half`` elements, as many as there are whole ones."""
    flat = cache.reshape(-1)
    return flat[: flat.size // half * half].reshape(-1, half) if half else cache.reshape(-1, 0)


def _turned(
    x: Values,
    rows: Values,
    caches: tuple[Values, Values],
    half: int,
    head_size: int,
    neox: bool,
    last: bool,
    kind: str,
) -> Near:
    """``x`` [..., heads * head_size]; ``rows``: which row of the caches, ``half`` wide, each token has.

    The two products are rounded before they are added: that, and the rounding to fp32 before it, is the error.
    """
    heads = x.reshape(rows.size, x.shape[-1] // head_size, head_size).copy()
    cos, sin = (_rows(cache, half)[rows.reshape(-1)][:, None, :] for cache in caches)
    start = head_size - 2 * half if last else 0
    part = heads[..., start : start + 2 * half]
    first, second = (
        (slice(0, half), slice(half, 2 * half)) if neox else (slice(0, None, 2), slice(1, None, 2))
    )
    a, b = part[..., first].copy(), part[..., second].copy()
    error = np.zeros(heads.shape)
    inside = error[..., start : start + 2 * half]
    part[..., first], part[..., second] = a * cos - b * sin, b * cos + a * sin
    unit = _UNIT[kind] * (1 + 2.0**-10) + 2.0**-24
    inside[..., first] = unit * (np.abs(a * cos) + np.abs(b * sin)) + 2 * _SMALLEST[kind]
    inside[..., second] = unit * (np.abs(b * cos) + np.abs(a * sin)) + 2 * _SMALLEST[kind]
    return near(heads.reshape(x.shape), absolute=error.reshape(x.shape))


def rotary_embedding_fwd(
    positions: Values,
    query: Values,
    key: Values,
    head_size: int,
    cos_cache: Values,
    sin_cache: Values,
    is_neox: bool,
    is_nope_first: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """Both, turned."""
    caches, kind, half = (cos_cache, sin_cache), kinds["query"], cos_cache.shape[-1]
    return (
        _turned(query, positions, caches, half, head_size, is_neox, is_nope_first, kind),
        _turned(key, positions, caches, half, head_size, is_neox, is_nope_first, kind),
    )


def batched_rotary_embedding(
    positions: Values,
    query: Values,
    key: Values,
    head_size: int,
    cos_cache: Values,
    sin_cache: Values,
    is_neox: bool,
    is_nope_first: bool,
    rot_dim: int,
    cos_sin_cache_offsets: Values,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """Both, turned by the row at position + offset."""
    caches, kind, rows = (cos_cache, sin_cache), kinds["query"], positions + cos_sin_cache_offsets
    return (
        _turned(query, rows, caches, rot_dim // 2, head_size, is_neox, is_nope_first, kind),
        _turned(key, rows, caches, rot_dim // 2, head_size, is_neox, is_nope_first, kind),
    )


def _angles(shape: tuple[int, ...]) -> Values:
    count, half = int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]
    return np.outer(np.arange(count), 10000.0 ** (-np.arange(half) / max(half, 1))).reshape(shape)


def draw_cosines(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Those of a model's cache."""
    del rng, sizes
    return np.cos(_angles(shape))


def draw_sines(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Those of a model's cache."""
    del rng, sizes
    return np.sin(_angles(shape))
