"""Tokens of a mixture of experts: brought into the order of their experts, and their experts' results summed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Half a unit in the last place, relative.
_UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
_SMALLEST = {"bf16": 2.0**-133, "f16": 2.0**-24, "f32": 2.0**-149}


def moe_sum(input: Values, kinds: Mapping[str, str]) -> Near:
    """The sum over axis 1; every partial sum but the last is rounded to the element type once more."""
    kind = kinds["input"]
    partial = np.abs(np.cumsum(input, axis=1))[:, 1:-1].sum(axis=1)
    error = (_UNIT[kind] * (1 + 2.0**-6) + 2.0**-24) * partial + input.shape[1] * _SMALLEST[kind]
    return near(input.sum(axis=1), relative=2.0**-24, absolute=error)


def moe_align_block_size(
    topk_ids: Values,
    num_experts: int,
    block_size: int,
    sorted_token_ids: Values,
    experts_ids: Values,
    token_nums: Values,
) -> tuple[Values, Values, Values, Values]:
    """Places by expert, ascending; each expert starts a block."""
    places = np.ma.array(sorted_token_ids, mask=np.ones(sorted_token_ids.shape, bool))
    owners = np.ma.array(experts_ids, mask=np.ones(experts_ids.shape, bool))
    left = np.ma.array(token_nums, mask=np.ones(token_nums.shape, bool))
    block = 0
    for expert in range(num_experts):
        mine = np.flatnonzero(topk_ids.reshape(-1) == expert)
        places[block * block_size : block * block_size + mine.size] = mine
        for number in range(-(-mine.size // block_size)):
            owners[block], left[block] = expert, mine.size - number * block_size
            block += 1
    return places, owners, left, np.array([block * block_size])

