"""Rotary embedding of queries and keys that are written into a cache."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_LARGEST = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}
_ROUNDING = 2.0**-24


def _turned(x: Values, cos: Values, sin: Values, neox: bool) -> tuple[Values, Values]:
    """``x`` [..., 2 * half] turned by the angles ``cos``, ``sin`` [..., half], and its error: two products and a sum in fp32."""
    half = cos.shape[-1]
    first, second = (slice(0, half), slice(half, None)) if neox else (slice(0, None, 2), slice(1, None, 2))
    found, error = np.zeros(x.shape), np.zeros(x.shape)
    a, b = x[..., first], x[..., second]
    found[..., first], found[..., second] = a * cos - b * sin, b * cos + a * sin
    error[..., first] = 2 * _ROUNDING * (np.abs(a * cos) + np.abs(b * sin)) + 2.0**-140
    error[..., second] = 2 * _ROUNDING * (np.abs(b * cos) + np.abs(a * sin)) + 2.0**-140
    return found, np.where(np.isfinite(error), error, 0.0)


def _stored(values: Values, error: Values, scale: Values | None, kind: str) -> tuple[Values, Values]:
    """What is stored: the values, or of fp8 values / scale, cut at the largest number, by the rounded reciprocal."""
    if kind not in _LARGEST or scale is None:
        return values, error
    divided, error = values / scale.reshape(()), error / np.abs(scale.reshape(()))
    cut = np.clip(divided, -_LARGEST[kind], _LARGEST[kind])
    return cut, error + 4 * _ROUNDING * np.where(np.isfinite(divided), np.abs(divided), 0.0)


def fused_qk_rope_concat_and_cache_mla(
    q_nope: Values,
    q_pe: Values,
    kv_c: Values,
    k_pe: Values,
    kv_cache: Values,
    slot_mapping: Values,
    k_scale: Values,
    q_scale: Values,
    positions: Values,
    cos_cache: Values,
    sin_cache: Values,
    is_neox: bool,
    is_nope_first: bool,
    compute_all_q_rope: bool,
    kinds: Mapping[str, str],
) -> dict[str, Near]:
    """The cache and the queries after it; rows of no slot stay as they were."""
    tokens, half, width = slot_mapping.size, cos_cache.shape[-1], kv_cache.shape[-1]
    tables = [table.reshape(-1, half) for table in (cos_cache, sin_cache)]
    at = np.clip(positions.reshape(-1)[:tokens], 0, len(tables[0]) - 1)
    cos, sin = (table[at] for table in tables)

    def joined(nope: Values, pe: Values, angles: tuple[Values, Values]) -> tuple[Values, Values]:
        turned, error = _turned(pe, *angles, is_neox)
        parts, errors = [nope, turned], [np.zeros(nope.shape), error]
        order = slice(None) if is_nope_first else slice(None, None, -1)
        return np.concatenate(parts[order], axis=-1), np.concatenate(errors[order], axis=-1)

    keys = joined(
        kv_c.reshape(-1, width - 2 * half)[:tokens], k_pe.reshape(-1, 2 * half)[:tokens], (cos, sin)
    )
    queries = joined(q_nope[:tokens], q_pe[:tokens], (cos[:, None], sin[:, None]))
    stored, error = _stored(*keys, k_scale, kinds["kv_cache"])
    cache = np.ma.array(kv_cache.reshape(-1, width), mask=np.ones((kv_cache.size // width, width), bool))
    errors = np.zeros(cache.shape)
    shape = (*q_nope.shape[:2], width)
    out = np.ma.array(np.zeros(shape), mask=np.ones(shape, bool))
    out_errors = np.zeros(out.shape)
    written, written_error = _stored(*queries, q_scale, kinds["q_out"])
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            cache[slot], errors[slot] = stored[token], error[token]
        if slot >= 0 or compute_all_q_rope:
            out[token], out_errors[token] = written[token], written_error[token]
    return {
        "kv_cache": near(cache.reshape(kv_cache.shape), absolute=errors.reshape(kv_cache.shape)),
        "q_out": near(out, absolute=out_errors),
    }


def draw_slots(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A slot of its own for each token, anywhere in the cache; the second of three tokens and more is skipped."""
    slots = rng.permutation(sizes["slots"])[: shape[0]]
    if shape[0] > 2:
        slots[1] = -1
    return slots


def draw_places(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Positions of the tables, the first one before them, the third behind."""
    places = rng.integers(0, sizes["P"], shape)
    places.reshape(-1)[:1] = -5
    places.reshape(-1)[2:3] = sizes["P"] + 3
    return places
