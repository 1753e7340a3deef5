"""Copying blocks of a paged cache."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Values


def copy_blocks(key_caches: Values, value_caches: Values, block_mapping: Values) -> dict[str, Values]:
    """Each pair's second block becomes its first one, in every layer."""
    keys, values = key_caches.copy(), value_caches.copy()
    blocks = keys.shape[1]
    for source, target in block_mapping:
        if 0 <= source < blocks and 0 <= target < blocks:
            keys[:, target] = key_caches[:, source]
            values[:, target] = value_caches[:, source]
    return {"key_caches": keys, "value_caches": values}


def draw_pairs(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """No block is written and read, or written twice; some are read twice, some pairs are of no block."""
    order = rng.permutation(sizes["B"])
    pairs = np.zeros(shape, np.int64)
    for place in range(len(pairs)):
        pairs[place] = order[0] if place == 1 else order[2 * place], order[2 * place + 1]
    pairs[3::4, 0] = -1
    pairs[4::5, 1] = sizes["B"]
    return pairs
