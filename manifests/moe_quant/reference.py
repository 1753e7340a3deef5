"""Quantisation of tokens for each of their experts: one scale a row, codes rounded to nearest even and cut at the largest one.

Numbers are those of ``smoothquant_fwd`` (the family quant): qmax is 127 for int8, 240 for e4m3fnuz, 448 for e4m3fn; a row of
zeros gets scale 1, and no other scale is below the smallest normal fp32 number. A kernel rounds the product, the scale twice and
the quotient, which moves a code only where the exact quotient is that close to a tie.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.experts import in_blocks
from build_tools.cases.mx_codes import LEAST, QMAX, pairs_of, power_up, shuffled_place, top_of, with_powers
from build_tools.cases.near import Near, Values, near

_QMAX = {"i8": 127.0, "e4m3fnuz": 240.0, "e4m3fn": 448.0}
_SMALLEST = 2.0**-126
_ROUNDING = 2.0**-24


def moe_smoothquant_fwd(
    input: Values, x_scale: Values, topk_ids: Values, kinds: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[Near, Near]:
    """Row k * M + t: v = input[t] * x_scale[topk_ids[t, k]]; y_scale = amax(|v|) / qmax; out = v / y_scale.

    NaN is left out of amax, and a kernel's cut takes it for the lower bound: its code is -qmax. A row with an infinity has the
    scale infinity and no codes to speak of: each is 0 or -qmax, as its kernel has it.
    """
    tokens, width, choices = sizes["M"], sizes["N"], sizes["choices"]
    rows = np.tile(input.reshape(tokens, width), (choices, 1))
    product = rows * x_scale[topk_ids.T.reshape(-1)]
    qmax = _QMAX[kinds["out"]]
    amax = np.fmax.reduce(np.abs(product), axis=-1, keepdims=True, initial=0.0)
    scales = np.where(amax > 0, np.maximum(amax / qmax, _SMALLEST), 1.0)
    codes = np.clip(product / scales, -qmax, qmax)
    lost = np.broadcast_to(amax == np.inf, codes.shape)
    codes = np.where(lost, -qmax / 2, np.where(np.isnan(product), -qmax, codes))
    return near(codes, relative=np.where(lost, 1.0, 8 * _ROUNDING)), near(
        scales.reshape(-1), relative=3 * _ROUNDING
    )


def _quantised(product: Values, qmax: float, least: float) -> tuple[Values, Values, Values]:
    """(Codes before their rounding, their relative error, scales [rows, 1]); amax counts ``least`` at least."""
    amax = np.maximum(np.fmax.reduce(np.abs(product), axis=-1, keepdims=True, initial=0.0), least)
    scales = np.where(amax > 0, np.maximum(amax / qmax, _SMALLEST), 1.0)
    codes = np.clip(product / scales, -qmax, qmax)
    lost = np.broadcast_to(amax == np.inf, codes.shape)
    codes = np.where(lost, -qmax / 2, np.where(np.isnan(product), -qmax, codes))
    return codes, np.where(lost, 1.0, 8 * _ROUNDING), scales


def moe_smooth_per_token_scaled_quant_v2(
    input: Values,
    smooth_scale: Values,
    sorted_token_ids: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    block_m: int,
    transpose_out: bool,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> tuple[Near, Near]:
    """v = input[t, k] * smooth_scale[e] of each sorted id; scales = max(amax(|v|), 1e-10) / qmax; out = v / scales.

    Rows of no sorted id keep their bytes. NaN and infinities as :func:`moe_smoothquant_fwd`.
    """
    tokens, choices, width = sizes["M"], sizes["choices"], sizes["N"]
    smooth = smooth_scale.reshape(sizes["E"], width)
    places = np.arange(
        min(len(sorted_token_ids), int(num_valid_ids.reshape(-1)[0]), len(sorted_expert_ids) * block_m)
    )
    token, choice = sorted_token_ids[places] & 0xFFFFFF, sorted_token_ids[places] >> 24
    expert = sorted_expert_ids[places // block_m]
    known = (token < tokens) & (choice < choices) & (expert >= 0) & (expert < sizes["E"]) & (width > 0)
    token, choice, expert = token[known], choice[known], expert[known]
    row = choice * tokens + token if transpose_out else token * choices + choice
    found = _quantised(input[token, choice] * smooth[expert], QMAX[kinds["out"]], float(LEAST))
    codes, error, scales = (np.ones((tokens * choices, each.shape[-1])) for each in found)
    codes[row], error[row], scales[row] = found
    rest = np.ones((tokens * choices, 1), bool)
    rest[row] = False
    made = np.ma.array(codes, mask=np.broadcast_to(rest, codes.shape))
    return near(made, relative=error), near(
        np.ma.array(scales, mask=rest).reshape(-1), relative=4 * _ROUNDING
    )


def mxfp4_moe_sort_hip(
    scale: Values,
    sorted_ids: Values,
    num_valid_ids: Values,
    token_num: int,
    cols: int,
    sizes: Mapping[str, int],
) -> Values:
    """Scales of each id's row; 0 where there is none, in blocks of 32 rows with one that counts."""
    groups = -(-cols // 32)
    return _sorted(scale.reshape(sizes["rows"], groups), sorted_ids, num_valid_ids, None, token_num, sizes)


def _sorted(
    scale: Values,
    ids: Values,
    valid: Values,
    weights: Values | None,
    tokens: int,
    sizes: Mapping[str, int],
) -> Values:
    """[places, width] bytes of the rows [tokens * choices, groups] of ``scale``."""
    groups, choices = scale.shape[1], len(scale) // max(tokens, 1)
    width, counted = -(-groups // 8) * 8, min(int(valid.reshape(-1)[0]), len(ids))
    rows = max(-(-counted // 32) * 32, 0)
    plain = np.zeros((rows, width), scale.dtype)
    place = np.arange(max(counted, 0))
    token, choice = ids[place] & 0xFFFFFF, ids[place] >> 24
    choice = np.where(choices == 1, 0, choice)
    known = (token < tokens) & (choice < choices)
    if weights is not None:
        known &= weights.reshape(-1)[place] != 0
    plain[place[known], :groups] = scale[token[known] * choices + choice[known]]
    stored = np.ma.array(np.zeros(sizes["places"] * sizes["width"]), mask=True)
    row, group = np.indices(plain.shape)
    # numpy's types say that unpacked indices are numbers.
    stored[shuffled_place(row, group, width).reshape(-1)] = plain.reshape(-1)  # type: ignore[arg-type]
    found: Values = stored.reshape(sizes["places"], sizes["width"])
    return found


def fused_dynamic_mx_quant_moe_sort_hip(
    input: Values,
    sorted_ids: Values,
    num_valid_ids: Values,
    sorted_weights: Values | None,
    token_num: int,
    group_size: int,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> tuple[Near, Values]:
    """Codes of all rows, and their exponents as :func:`mxfp4_moe_sort_hip` sorts them, 0 for ids of weight 0."""
    rows, kind = sizes["M"], kinds["out"]
    groups = input.reshape(rows, sizes["N"] // group_size, group_size)
    codes, powers = with_powers(groups, power_up(np.maximum(top_of(groups), LEAST) / QMAX[kind], 1), kind)
    found = (pairs_of(codes) if kind == "u8" else codes).reshape(*input.shape[:-1], sizes["W"])
    return near(found, relative=0.0), _sorted(
        powers, sorted_ids, num_valid_ids, sorted_weights, token_num, sizes
    )


def draw_experts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """An expert for each choice of each token."""
    return rng.integers(0, sizes["E"], shape)


def _blocks(sizes: Mapping[str, int], *numbers: float) -> tuple[list[int], list[int]]:
    """Sorted ids of a mixture, and the expert of each block.

    ``numbers``: tokens, experts, choices of a token, ids of a block; where they are 0, the call's sizes say them.
    """
    tokens, experts, choices, block = map(int, numbers)
    if tokens:
        places = tokens * choices + block * experts - choices
        told = {"T": tokens, "E": experts, "topk": choices, "P": places}
    else:
        told = {"T": sizes["M"], "E": sizes["E"], "topk": sizes["choices"], "P": sizes["P"]}
    ids, _, owners = in_blocks(told)
    return ids, owners


def draw_sorted_ids(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    tokens: float = 0,
    experts: float = 0,
    choices: float = 0,
    block: float = 0,
) -> Values:
    """Sorted ids, and behind them ids of tokens, which nobody must read: only their number says so."""
    del rng
    ids, _ = _blocks(sizes, tokens, experts, choices, block)
    place = np.arange(shape[0])
    found: Values = place % max(int(tokens or sizes["M"]), 1)
    found[: len(ids)] = ids
    return found


def draw_valid(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    tokens: float = 0,
    experts: float = 0,
    choices: float = 0,
    block: float = 0,
) -> Values:
    """How many sorted ids count, then what is not read."""
    del rng
    found: Values = np.full(shape, 0x7F7F7F7F)
    found.reshape(-1)[0] = len(_blocks(sizes, tokens, experts, choices, block)[0])
    return found


def draw_owners(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], holes: float = 0
) -> Values:
    """The expert of each block, and experts behind them; each ``holes``-th block has none: -1, or one too many."""
    del rng
    _, owners = _blocks(sizes, 0, 0, 0, 0)
    found: Values = np.arange(shape[0]) % sizes["E"]
    found[: len(owners)] = owners
    if holes:
        found[1 :: int(holes)] = -1
        found[2 :: 2 * int(holes)] = sizes["E"]
    return found


def draw_weights(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Weights, some of which are 0 or -0."""
    del sizes
    return rng.choice([0.0, -0.0, 0.25, 1e-30, -1.0], shape)
