"""Expert routing by AITER's assembly.

A kernel works in fp32: the argument of exp2 is rounded twice, 2^-23 of a power for every unit below the largest logit. Which of
two equal logits comes first is not said.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near


def topk_softmax_asm(
    gating_output: Values, need_renorm: bool, sizes: Mapping[str, int]
) -> tuple[Near, Values]:
    """The K most probable experts of each token, most probable first; with ``need_renorm`` their weights sum to 1.

    Rows of the buffers behind the tokens keep what they hold.
    """
    k = sizes["K"]
    order = np.argsort(-gating_output, axis=-1, kind="stable")[:, :k]
    below = gating_output - gating_output.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(below)
    weights = np.take_along_axis(powers / powers.sum(axis=-1, keepdims=True), order, axis=-1)
    if need_renorm:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    depth = np.take_along_axis(-below, order, axis=-1)
    roundings = 24 + k * need_renorm + 3 * depth
    more = sizes["WM"] - sizes["M"]
    return near(
        _and_rest(weights, sizes["WM"]),
        relative=np.pad(2.0**-24 * roundings, ((0, more), (0, 0))),
        absolute=2.0**-125,
    ), _and_rest(order, sizes["IM"])


def _and_rest(values: Values, rows: int) -> Values:
    """With rows that nothing writes, so many in all."""
    more = ((0, rows - len(values)), (0, 0))
    held: Values = np.ma.masked_array(
        np.pad(values, more), np.pad(np.zeros(values.shape, bool), more, constant_values=True)
    )
    return held


def draw_distinct(rng: np.random.Generator, shape: tuple[int, ...], sizes: object) -> Values:
    """Logits of a token between -8 and 8, no two of them equal."""
    del sizes
    places = rng.permuted(np.broadcast_to(np.arange(shape[1]), shape), axis=1)
    spread: Values = (places + rng.uniform(0.2, 0.8, shape)) * (16 / shape[1]) - 8
    return spread
