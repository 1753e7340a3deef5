"""Choices of a mixture of experts in the order of the experts: integers, exact."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Values


def _kept(values: Values) -> Values:
    """A list of which nothing is written yet."""
    return np.ma.array(values, mask=np.ones(values.shape, bool))


def moe_sorting_fwd(
    topk_ids: Values,
    topk_weights: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    moe_buf: Values,
    num_experts: int,
    unit_size: int,
    local_expert_mask: Values | None,
    num_local_tokens: Values | None,
) -> tuple[Values, Values, Values, Values, Values]:
    """(ids, weights, the expert of each unit, [how many ids count, tokens], zeros); what is masked keeps its value."""
    tokens, topk = topk_ids.shape
    if num_local_tokens is not None:
        tokens = min(max(int(num_local_tokens[0]), 0), tokens)
    ids, weights = _kept(sorted_token_ids), _kept(sorted_weights)
    owners, zeroed = _kept(sorted_expert_ids), _kept(moe_buf)
    end = number = 0
    for expert in range(num_experts):
        if local_expert_mask is not None and not local_expert_mask[expert]:
            continue
        token, choice = np.nonzero(topk_ids[:tokens] == expert)
        start, end = end, end + -(-token.size // unit_size) * unit_size
        ids[start:end], weights[start:end] = topk << 24 | tokens, 0.0
        ids[start : start + token.size] = choice << 24 | token
        weights[start : start + token.size] = topk_weights[token, choice]
        owners[start // unit_size : end // unit_size] = number
        number += 1
    zeroed[:tokens] = 0.0
    return ids, weights, owners, np.array([end, tokens]), zeroed


def draw_chosen(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    count: float,
    favourite: float = -1,
) -> Values:
    """Different experts of ``count`` for each token; ``favourite`` is one of them always, if it is not negative."""
    del sizes
    if favourite < 0:
        return np.argsort(rng.random((shape[0], int(count))), axis=1)[:, : shape[1]]
    rest = np.argsort(rng.random((shape[0], int(count) - 1)), axis=1)[:, : shape[1] - 1]
    one = np.full((shape[0], 1), int(favourite))
    return rng.permuted(np.concatenate([one, rest + (rest >= int(favourite))], axis=1), axis=1)


def draw_here(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], first: float, end: float
) -> Values:
    """1 for experts from ``first`` to ``end`` - 1."""
    del rng, sizes
    numbers = np.arange(shape[0])
    return ((numbers >= first) & (numbers < end)).astype(np.int64)


def draw_some(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """1 for some experts, among them the second; not the first."""
    del sizes
    here = rng.integers(0, 2, shape)
    here[:2] = [0, 1][: shape[0]]
    return here
