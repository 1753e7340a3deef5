"""Logits of DeepSeek-V3.2's indexer over one head of keys in fp8, one behind the other or in pages of a cache."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import decode, encode

_ROUNDING = 2.0**-24


def _logits(q: Values, k: Values, scales: Values, weights: Values) -> tuple[Values, Values]:
    """(sum_h weights[m, h] * max(0, (q[m, h] . k[n]) * scales[n]), its error); a product that is NaN counts as 0.

    A dot product is off as in a matrix product of fp8; each of the sums over the heads may lose half a unit of a partial sum.
    """
    products = np.einsum("mhd,nd->mhn", q, k)
    size = np.sqrt(np.einsum("mhd,nd->mhn", q * q, k * k))
    scaled = np.fmax(products * scales, 0.0)
    off = (q.shape[2] / 4 + 8) * (2 * size + np.abs(products)) * np.abs(scales)
    shares = np.abs(weights)[:, :, None]
    lost = np.where(np.isnan(products * scales), 0.0, off) + (q.shape[1] + 4) * scaled
    error = _ROUNDING * (lost * shares).sum(axis=1) + 2.0**-120
    return (scaled * weights[:, :, None]).sum(axis=1), np.where(np.isfinite(error), error, 0.0)


def fp8_mqa_logits(
    Q: Values,  # the names are AITER's
    KV: Values,
    kv_scales: Values,
    weights: Values,
    cu_starts: Values,
    cu_ends: Values,
    clean_logits: bool,
) -> Near:
    """[M, N]; what a row does not see is -inf, or stays as it is."""
    logits, error = _logits(Q, KV, kv_scales, weights)
    column = np.arange(KV.shape[0])
    seen = (column >= cu_starts[:, None]) & (column < cu_ends[:, None])
    found = np.where(seen, logits, -np.inf)
    masked = np.ma.array(found, mask=~seen) if not clean_logits else found
    return near(masked, absolute=np.where(seen, error, 0.0))


def deepgemm_fp8_paged_mqa_logits(
    q_fp8: Values,
    kv_cache: Values,
    weights: Values,
    out_logits: Values,
    context_lens: Values,
    kv_indices: Values,
    max_model_len: int,
    Preshuffle: bool,  # the name is AITER's
    kinds: Mapping[str, str],
) -> Near:
    """[B * next_n, W]; query i of n sees length - n + i + 1 keys, what is behind the length stays as it is."""
    sequences, queries, _, size = q_fp8.shape
    codes, scales = _unpacked(kv_cache, size, Preshuffle, kinds)
    page_size = kv_cache.shape[1]
    found = np.ma.array(out_logits, mask=np.ones(out_logits.shape, bool))
    errors = np.zeros(out_logits.shape)
    for sequence in range(sequences):
        most = min(int(context_lens[sequence]), max_model_len, kv_indices.shape[1] * page_size)
        at = np.arange(max(most, 0))
        page, inner = kv_indices[sequence, at // page_size], at % page_size
        rows = slice(sequence * queries, (sequence + 1) * queries)
        logits, error = _logits(q_fp8[sequence], codes[page, inner], scales[page, inner], weights[rows])
        end = int(context_lens[sequence]) - queries + np.arange(queries) + 1
        seen = at < end[:, None]
        found[rows, : at.size] = np.where(seen, logits, -np.inf)
        errors[rows, : at.size] = np.where(seen, error, 0.0)
    return near(found, absolute=errors)


def _unpacked(kv_cache: Values, size: int, shuffled: bool, kinds: Mapping[str, str]) -> tuple[Values, Values]:
    """The codes [pages, page_size, size] and the scales [pages, page_size] of a cache."""
    pages, page_size = kv_cache.shape[:2]
    kind = kinds["kv_cache"]
    stored = (kv_cache.astype(np.uint8) if kind == "u8" else encode(kv_cache, kind)).reshape(pages, -1)
    codes = stored[:, : page_size * size]
    if shuffled:
        tiles = codes.reshape(pages, page_size // 16, size // 16, 16, 16)
        codes = tiles.transpose(0, 1, 3, 2, 4)
    scales = np.ascontiguousarray(stored[:, page_size * size : page_size * (size + 4)]).view(np.float32)
    return decode(codes.reshape(pages, page_size, size), kinds["fp8"]), scales.astype(np.float64)


def draw_starts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where the keys of a row begin: at 0, a little behind it, before it, and in the last quarter."""
    starts = rng.integers(0, max(sizes["N"] // 4, 1), shape)
    starts[::3] = 0
    starts[5::7] = -3
    starts[4::9] = sizes["N"] * 3 // 4
    return starts


def draw_ends(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where they end: in the last half, behind the last key, and before the first, which is no key at all."""
    ends = rng.integers(sizes["N"] // 2, sizes["N"] + 1, shape)
    ends[::4] = sizes["N"] + 5
    ends[3::8] = 0
    return ends


def draw_causal(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Row i of a prompt sees the keys up to its own."""
    del rng
    return np.arange(shape[0]) + sizes["N"] - shape[0] + 1


def draw_lengths(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Full tables first, then fewer keys; the fourth of four sequences has fewer than queries."""
    full = sizes["MB"] * sizes["PS"]
    lengths = rng.integers(full // 2, full + 1, shape)
    lengths[::3] = full
    lengths[3::4] = 1
    return lengths


def draw_pages(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any pages of the cache."""
    return rng.integers(0, sizes["NB"], shape)


def draw_cache(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    odd: float = 0,
    *,
    kind: str,
) -> Values:
    """Pages of codes and scales. With ``odd`` some codes are NaN, and some scales negative, infinite or NaN."""
    pages, page_size, _, width = shape
    size = sizes["D"]
    # Bytes of numbers that both fp8 types have; of one they are half as large.
    numbers = encode(rng.standard_normal((pages, page_size * size)) * 20, "e4m3fn" if kind == "u8" else kind)
    scales = rng.uniform(0.01, 0.1, (pages, page_size)).astype(np.float32)
    if odd:
        scales.reshape(-1)[::5] = (-0.05, np.inf, np.nan, 0.0)[int(odd) % 4]
        numbers[:, :: size + 3] = encode(np.array(np.nan), "e4m3fn" if kind == "u8" else kind)
    behind = rng.integers(0, 100, (pages, page_size * (width - size - 4))).astype(np.uint8)
    stored = np.concatenate([numbers, scales.view(np.uint8), behind], axis=1).reshape(shape)
    return decode(stored, kind)
