"""Attention over chosen keys of a latent cache."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.attention import NEAREST, Scores, attend
from build_tools.cases.near import Near, Values, near


def unified_attention_sparse_mla(
    q: Values,
    kv: Values,
    cu_seqlens_q: Values,
    softmax_scale: float,
    topk_indices: Values,
    kv_lora_rank: int,
    kinds: Mapping[str, str],
) -> dict[str, Near]:
    """:func:`attend` of each token of a sequence over the keys that its row names; a key that is named twice counts twice."""
    shape = (*q.shape[:2], kv_lora_rank)
    exact = np.ma.masked_array(np.zeros(shape), np.ones(shape, bool))
    error = np.zeros(shape)
    cache = kv.reshape(-1, 1, q.shape[2])
    for token in range(min(int(cu_seqlens_q[-1]), len(q))):
        named = topk_indices[token]
        keys = cache[named[(named >= 0) & (named < len(cache))]]
        found = attend(
            q[token : token + 1],
            keys,
            keys[..., :kv_lora_rank],
            Scores(softmax_scale),
            None,
            NEAREST[kinds["q"]],
        )
        exact[token], error[token] = found.out[0], found.error[0]
    return {"out": near(exact, absolute=error)}


def draw_chosen(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], short: float = 0
) -> Values:
    """Keys of the cache: the first token has all of its entries, the second none, of the others the last ones are -1, and one in
    seven of the rest is no key; with ``short`` so many at most.
    """
    keys = sizes["NB"] * sizes["PS"]
    chosen = rng.integers(0, max(keys, 1), shape)
    none = np.array([-1, keys, -5, 2**31 - 1, -(2**31)])
    holes = rng.uniform(size=shape) < 1 / 7
    chosen[holes] = rng.choice(none, int(holes.sum()))
    for token in range(shape[0]):
        kept = int(rng.integers(0, shape[1] + 1)) if token > 1 else shape[1] * (token == 0)
        chosen[token, min(kept, int(short)) if short else kept :] = -1
    return chosen


def draw_starts(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], left: float = 0
) -> Values:
    """Where the tokens of each sequence start; the last ``left`` tokens are of none (below 0: there are more than rows)."""
    del rng
    return np.arange(shape[0]) * (sizes["M"] - int(left)) // (shape[0] - 1)
