"""A mixture of experts in one call of 8-bit codes, each token by itself: no lists, no blocks.

What the activation gives is made codes again, each 128 columns with a scale. A kernel's numbers are off by what its sums in fp32
lose; that moves a code only where the exact quotient is that close to a tie, and then to the neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases.choices import active, draw_chosen, draw_some, draw_wild, here
from build_tools.cases.experts import CODES, HALF, ROUNDING, draw_codes, draw_scales, usual
from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import rounded

__all__ = ["draw_chosen", "draw_codes", "draw_scales", "draw_some", "draw_wild"]

#: Columns, and rows of a weight, that have one scale.
_GROUP = 128


class _Options(NamedTuple):
    """What stands between the products."""

    code: str
    activation: int
    limit: float
    static: float | None


def fused_experts_a8w8(
    hidden_states: Values,
    w1: Values,
    w2: Values,
    topk_weight: Values,
    topk_ids: Values,
    a1_scale: Values,
    w1_scale: Values,
    w2_scale: Values,
    a2_scale: Values | None,
    expert_mask: Values | None,
    num_local_tokens: Values | None,
    bias1: Values | None,
    bias2: Values | None,
    activation: int,
    doweight_stage1: bool,
    w1_shuffled: bool,
    w2_shuffled: bool,
    block_scaled: bool,
    swiglu_limit: float,
    kinds: Mapping[str, str],
) -> Near:
    """The sum of what each choice's expert makes of a token: codes before the second product, rounded before the sum."""
    half, smallest = HALF[kinds["out"]]
    first = _scaled(usual(w1) if w1_shuffled else w1, w1_scale, block_scaled, 2)
    down = _scaled(usual(w2) if w2_shuffled else w2, w2_scale, block_scaled)
    tokens, width = hidden_states.shape
    own_scales = a1_scale.reshape(-1, width // _GROUP if block_scaled else 1)
    rows = hidden_states * (np.repeat(own_scales, _GROUP, axis=1) if block_scaled else own_scales)
    options = _Options(
        kinds["w1"], activation, swiglu_limit, None if a2_scale is None else float(a2_scale.flat[0])
    )
    count = tokens if num_local_tokens is None else min(max(int(num_local_tokens[0]), 0), tokens)
    result, error = np.zeros((2, tokens, width))
    for token in range(count):
        x = rows[token]
        for weight, expert in zip(topk_weight[token], topk_ids[token], strict=True):
            own = here(len(w1), expert_mask, int(expert))
            if own is None:
                continue
            early, late = (weight, 1.0) if doweight_stage1 else (1.0, weight)
            sums = (first[own] @ x) * early
            off = 2 * width * ROUNDING * (np.abs(first[own]) @ np.abs(x)) * abs(early)
            if bias1 is not None:
                sums = sums + bias1[own]
                off += (np.abs(sums) + np.abs(bias1[own])) * ROUNDING
            hidden, hidden_off = _again(*_gated(sums, off, options), options)
            part = down[own] @ hidden
            part_off = np.abs(down[own]) @ (hidden_off + 2 * len(hidden) * ROUNDING * np.abs(hidden))
            if bias2 is not None:
                part = part + bias2[own]
                part_off += (np.abs(part) + np.abs(bias2[own])) * ROUNDING
            part, part_off = part * late, part_off * abs(late)
            part_off += (np.abs(part) + part_off) * (half + 2 * ROUNDING) + smallest
            result[token] += part
            error[token] += part_off + np.abs(part) * topk_ids.shape[1] * ROUNDING
    return near(result, absolute=np.where(np.isnan(error), 0.0, error))


def _scaled(codes: Values, scale: Values, blocks: bool, parts: int = 1) -> Values:
    """Codes [e, n, k] times the scale of their block, of their row, or of all. Blocks begin anew with each of so many parts."""
    e, n, k = codes.shape
    if not blocks:
        rows: Values = codes * scale.reshape(e, -1, 1)
        return rows
    each = scale.reshape(e, parts, -(-n // parts // _GROUP), -(-k // _GROUP))
    wide = np.repeat(np.repeat(each, _GROUP, axis=2)[:, :, : n // parts], _GROUP, axis=3)[..., :k]
    scaled: Values = codes * wide.reshape(e, n, k)
    return scaled


def _gated(sums: Values, off: Values, options: _Options) -> tuple[Values, Values]:
    """(The activation of the first half times the second, how far that may be off)."""
    columns = len(sums) // 2
    gate, up = sums[:columns], sums[columns:]
    if options.limit > 0:
        gate, up = np.minimum(gate, options.limit), np.clip(up, -options.limit, options.limit)
    up, up_off = up + (options.activation == 2), off[columns:] + np.abs(up) * ROUNDING
    gate, gate_off = active(gate, off[:columns], options.activation)
    hidden_off = gate_off * (np.abs(up) + up_off) + np.abs(gate) * up_off
    return gate * up, hidden_off + np.abs(gate * up) * ROUNDING


def _again(hidden: Values, off: Values, options: _Options) -> tuple[Values, Values]:
    """(Codes of a row times their scales, how far each may be off)."""
    qmax = CODES[options.code][0]
    made, error = np.zeros((2, len(hidden)))
    for at in range(0, len(hidden), _GROUP):
        v, wrong = hidden[at : at + _GROUP], off[at : at + _GROUP]
        if not np.isfinite(v).all():
            made[at : at + _GROUP] = np.nan
            continue
        largest = max(np.abs(v).max(), 1e-10)
        scale = largest / qmax if options.static is None else options.static
        # Of a computed scale, by how much: as the largest number is.
        moved = (
            4 * ROUNDING
            if options.static is not None
            else (wrong * (np.abs(v) + wrong >= largest)).max() / largest + 8 * ROUNDING
        )
        exact = np.clip(v / scale, -qmax, qmax)
        codes = rounded(exact, options.code, saturate=True)
        reach = wrong / scale + np.abs(exact) * moved
        neighbours = [
            rounded(np.clip(v / scale + way * reach, -qmax, qmax), options.code, saturate=True)
            for way in (-1, 1)
        ]
        steps = np.maximum(*(np.abs(other - codes) for other in neighbours))
        made[at : at + _GROUP] = codes * scale
        error[at : at + _GROUP] = steps * scale * (1 + moved) + np.abs(codes) * scale * (
            moved if options.static is None else 2 * ROUNDING
        )
    return made, error


def fused_experts_a8w8_tensor(
    hidden_states: Values,
    w1: Values,
    w2: Values,
    topk_weight: Values,
    topk_ids: Values,
    a1_scale: Values,
    w1_scale: Values,
    w2_scale: Values,
    expert_mask: Values | None,
    num_local_tokens: Values | None,
    bias1: Values | None,
    bias2: Values | None,
    activation: int,
    doweight_stage1: bool,
    w1_shuffled: bool,
    w2_shuffled: bool,
    swiglu_limit: float,
    kinds: Mapping[str, str],
) -> Near:
    """The same where all that the activation gives, rounded to the type of the result, has one scale."""
    half, smallest = HALF[kinds["out"]]
    first = _scaled(usual(w1) if w1_shuffled else w1, w1_scale, False)
    down = _scaled(usual(w2) if w2_shuffled else w2, w2_scale, False)
    tokens, width = hidden_states.shape
    rows = hidden_states * a1_scale.reshape(-1, 1)
    options = _Options(kinds["w1"], activation, swiglu_limit, None)
    count = tokens if num_local_tokens is None else min(max(int(num_local_tokens[0]), 0), tokens)
    # Of each choice that counts: token, expert's matrix, late weight, what the activation gives, how far that is off.
    given: list[tuple[int, int, float, Values, Values]] = []
    for token in range(count):
        for weight, expert in zip(topk_weight[token], topk_ids[token], strict=True):
            own = here(len(w1), expert_mask, int(expert))
            if own is None:
                continue
            early, late = (weight, 1.0) if doweight_stage1 else (1.0, weight)
            sums = (first[own] @ rows[token]) * early
            off = 2 * width * ROUNDING * (np.abs(first[own]) @ np.abs(rows[token])) * abs(early)
            if bias1 is not None:
                sums = sums + bias1[own]
                off += (np.abs(sums) + np.abs(bias1[own])) * ROUNDING
            exact, off = _gated(sums, off, options)
            hidden = rounded(exact, kinds["out"])
            off = np.maximum(*(np.abs(rounded(exact + way * off, kinds["out"]) - hidden) for way in (-1, 1)))
            given.append((token, own, late, hidden, off))
    scale, moved = _one_scale([each[3:] for each in given], kinds["w1"])
    result, error = np.zeros((2, tokens, width))
    for token, own, late, hidden, off in given:
        again, again_off = _codes_of(hidden, off, scale, moved, kinds["w1"])
        part = down[own] @ again
        part_off = np.abs(down[own]) @ (again_off + 2 * len(again) * ROUNDING * np.abs(again))
        if bias2 is not None:
            part = part + bias2[own]
            part_off += (np.abs(part) + np.abs(bias2[own])) * ROUNDING
        part, part_off = part * late, part_off * abs(late)
        part_off += (np.abs(part) + part_off) * (half + 2 * ROUNDING) + smallest
        result[token] += part
        error[token] += part_off + np.abs(part) * topk_ids.shape[1] * ROUNDING
    return near(result, absolute=np.where(np.isnan(error), 0.0, error))


def _one_scale(given: list[tuple[Values, Values]], code: str) -> tuple[float, float]:
    """(The scale of all rows, by how much of itself it may be off); groups with an infinity or NaN do not count."""
    largest, reached = 1e-10, 0.0
    for hidden, off in given:
        for at in range(0, len(hidden), _GROUP):
            sizes, wrong = np.abs(hidden[at : at + _GROUP]), off[at : at + _GROUP]
            if np.isfinite(sizes).all():
                largest, reached = max(largest, sizes.max()), max(reached, (sizes + wrong).max())
    return largest / CODES[code][0], max(reached - largest, 0.0) / largest + 8 * ROUNDING


def _codes_of(hidden: Values, off: Values, scale: float, moved: float, code: str) -> tuple[Values, Values]:
    """(Codes of a row times one scale, how far each may be off)."""
    qmax = CODES[code][0]
    made, error = np.full(len(hidden), np.nan), np.zeros(len(hidden))
    for at in range(0, len(hidden), _GROUP):
        part = slice(at, at + _GROUP)
        v, wrong = hidden[part], off[part]
        if not np.isfinite(v).all():
            continue
        exact = v / scale
        codes = rounded(np.clip(exact, -qmax, qmax), code, saturate=True)
        reach = wrong / scale + np.abs(exact) * moved
        neighbours = [
            rounded(np.clip(exact + way * reach, -qmax, qmax), code, saturate=True) for way in (-1, 1)
        ]
        steps = np.maximum(*(np.abs(other - codes) for other in neighbours))
        made[part] = codes * scale
        error[part] = steps * scale * (1 + moved) + np.abs(codes) * scale * moved
    return made, error
