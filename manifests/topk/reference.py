"""Expert routing: softmax over the experts of a token, or the sigmoid of each, and the k largest.

The order is that of the logits, not of the rounded weights (which may make two logits equal): a stable descending sort,
so equal logits (-0 and +0 too) go by the lower index and NaN stands above all. NaN or +inf anywhere in a row, or nothing but
-inf, makes all its softmax weights NaN; its indices stay distinct and below E.

A kernel works in fp32: the argument of exp2 is rounded twice, 2^-23 of a power for every unit below the largest logit; one lane
adds a tenth of the experts at most, 64 lanes fold. Weights below 2^-126 may be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near


def topk_softmax(
    gating_output: Values,
    need_renorm: bool,
    num_shared_experts: int,
    shared_expert_scoring_func: str,
    sizes: Mapping[str, int],
) -> tuple[Near, Values, Values]:
    """The K most probable experts of each token, most probable first; with ``need_renorm`` their weights sum to 1.

    token_expert_indices[t, j] = j * T + t, the order in which vLLM's kernels number the pairs. Shared experts are the last
    columns, which take no part in that; their sigmoids, if asked for, are the last weights.
    """
    tokens, k = gating_output.shape[0], sizes["K"]
    gating_output, shared = np.split(gating_output, [sizes["E"] - num_shared_experts], axis=-1)
    order = _best(gating_output, k)
    below = gating_output - gating_output.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(below)
    weights = np.take_along_axis(powers / powers.sum(axis=-1, keepdims=True), order, axis=-1)
    if need_renorm:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    depth = np.take_along_axis(np.where(np.isfinite(below), -below, 0.0), order, axis=-1)
    roundings = 24 + k * need_renorm + 3 * depth
    pairs = np.arange(k)[None, :] * tokens + np.arange(tokens)[:, None]
    own = shared[:, : sizes["W"] - k]
    kept = np.zeros((tokens, k + own.shape[-1]), bool)
    kept[:, k:] = shared_expert_scoring_func != "sigmoid"
    weights = np.ma.masked_array(np.concatenate([weights, _sigmoid(own)], axis=-1), kept)
    depth = np.where(np.isfinite(own), -own, 0.0).clip(0.0)
    roundings = np.concatenate([roundings, 6 + 3 * depth], axis=-1)
    return near(weights, relative=2.0**-24 * roundings, absolute=2.0**-125), order, pairs


def topk_sigmoid(gating_output: Values, sizes: Mapping[str, int]) -> tuple[Near, Values]:
    """The K largest logits of each token, largest first, and their sigmoids."""
    order = _best(gating_output, sizes["K"])
    chosen = np.take_along_axis(gating_output, order, axis=-1)
    return near(_sigmoid(chosen), relative=2.0**-24 * 6, absolute=2.0**-125), order


def _sigmoid(logits: Values) -> Values:
    """exp, a sum and a division in fp32; where exp(-x) is infinite there the result is below 2^-127."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-logits)))


def _best(logits: Values, k: int) -> Values:
    """The experts of the k largest of each row, in the order that the module's head says."""
    nan = np.isnan(logits)
    return np.lexsort((np.where(nan, 0.0, -logits), ~nan), axis=-1)[:, :k]
