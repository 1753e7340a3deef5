"""Writing new keys and values into the paged cache (vLLM's layouts).

key_cache [blocks, h, d / x, block_size, x], x = 16 bytes of elements; value_cache [blocks, h, d, block_size], or with asm_layout
[blocks, h, block_size / x, d, x]. slot = block * block_size + offset; a negative slot is skipped, and what no token is written to
stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_LARGEST = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}


def _cells(x: Values, scale: Values | None, kv_cache_dtype: str, kind: str) -> Values:
    """What is stored: x itself with "auto", else x / scale, cut at the largest number of the fp8 type."""
    if kv_cache_dtype == "auto":
        return x
    divided = x if scale is None else x / scale.reshape(())
    cut: Values = np.clip(divided, -_LARGEST[kind], _LARGEST[kind])
    return cut


def reshape_and_cache(
    key: Values,
    value: Values,
    key_cache: Values,
    value_cache: Values,
    slot_mapping: Values,
    kv_cache_dtype: str,
    k_scale: Values | None,
    v_scale: Values | None,
    asm_layout: bool,
    kinds: Mapping[str, str],
) -> tuple[Near, Near]:
    """Both caches after the write.

    A kernel multiplies by the rounded reciprocal of the scale: three roundings before the last.
    """
    blocks, h, groups, block_size, x = key_cache.shape
    keys = _cells(key, k_scale, kv_cache_dtype, kinds["key_cache"])
    values = _cells(value, v_scale, kv_cache_dtype, kinds["value_cache"])
    new_keys = np.ma.array(key_cache, mask=np.ones(key_cache.shape, bool))
    new_values = np.ma.array(value_cache, mask=np.ones(value_cache.shape, bool))
    layout = (
        (blocks, h, block_size // x, groups * x, x) if asm_layout else (blocks, h, groups * x, block_size)
    )
    places = new_values.reshape(layout)  # a view
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot < 0:
            continue
        block, offset = divmod(slot, block_size)
        new_keys[block, :, :, offset, :] = keys[token].reshape(h, groups, x)
        if asm_layout:
            places[block, :, offset // x, :, offset % x] = values[token]
        else:
            places[block, :, :, offset] = values[token]
    error = 3 * 2.0**-24 if kv_cache_dtype != "auto" else 0.0
    return near(new_keys, relative=error), near(places.reshape(value_cache.shape), relative=error)


def draw_slots(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """A slot of its own for each token, anywhere in the cache; the second of three tokens and more is skipped."""
    slots = rng.permutation(sizes["blocks"] * sizes["block_size"])[: shape[0]]
    if shape[0] > 2:
        slots[1] = -1
    return slots


def draw_run(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """One slot after the other, as in a prefill, from a place in the first block on."""
    return np.arange(shape[0]) + rng.integers(
        min(sizes["block_size"], sizes["blocks"] * sizes["block_size"] - shape[0] + 1)
    )
