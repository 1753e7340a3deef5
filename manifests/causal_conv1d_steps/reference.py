"""Steps of causal convolutions in place, behind states whose first places hold a channel's last inputs.

A kernel adds at most five terms in fp32, by fused products, and rounds once. What is silu's of y is off by 2^-24 for every unit
of y that its exponential sees, and by a few roundings more; a sigmoid below 2^-126 is 0 in hardware.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
_LOST = 2.0**-125


def _filtered(inputs: Values, weight: Values, bias: Values | None, *, silu: bool) -> tuple[Values, Values]:
    """[channels, tokens] of [channels, width - 1 + tokens], and how far a kernel may be off before its last rounding."""
    width = weight.shape[1]
    tokens = inputs.shape[1] - (width - 1)
    start = np.zeros(len(weight)) if bias is None else bias
    exact = np.repeat(start[:, None], tokens, axis=1)
    size = np.abs(exact)
    for tap in range(width):
        term = weight[:, tap, None] * inputs[:, tap : tap + tokens]
        exact, size = exact + term, size + np.abs(term)
    off = 6 * _ROUNDING * np.where(np.isfinite(size), size, 0.0)
    if not silu:
        return exact, off
    tail = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    values = exact * (1 / (1 + np.exp(-exact)))
    around = np.where(np.isfinite(values), np.abs(values), 0.0) * _ROUNDING * (8 + 3 * tail)
    return values, around + 1.2 * off + _LOST


def _kept(values: Values) -> Values:
    """All of it as it is."""
    return np.ma.array(values.copy(), mask=np.ones(values.shape, bool))


def causal_conv1d_update_in_place(
    x: Values,
    conv_state: Values,
    weight: Values,
    bias: Values | None,
    activation: str | bool | None,
    conv_state_indices: Values | None,
    num_accepted_tokens: Values | None,
    pad_slot_id: int,
    query_start_loc: Values | None,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, Values | Near | None]:
    """x [batch, channels, tokens], state [slots, channels, held]; sequences are the batch, or lie one behind the other."""
    slots, _, held = conv_state.shape
    before = weight.shape[1] - 1
    parts = [(row, 0, x.shape[2]) for row in range(len(x))]
    if query_start_loc is not None:
        parts = [(0, int(a), int(b)) for a, b in itertools.pairwise(query_start_loc)]
    out, off, state = _kept(x), np.zeros(x.shape), _kept(conv_state)
    window: Values | None = None
    if "intermediate_conv_window" in kinds:
        window = _kept(np.zeros([sizes[name] for name in ("windows", "steps", "D", "places")]))
    for n, (row, begin, behind) in enumerate(parts):
        end = behind
        slot = n if conv_state_indices is None else int(conv_state_indices[n])
        if slot == pad_slot_id or not 0 <= slot < slots:
            continue
        first = 0
        if num_accepted_tokens is not None:
            first = min(max(int(num_accepted_tokens[n]) - 1, 0), held - before)
            end = min(end, begin + held - (before - 1))
        if begin == end:
            continue
        own = slice(begin, end)
        inputs = np.concatenate([conv_state[slot][:, first : first + before], x[row][:, own]], axis=1)
        silu = activation in ("silu", "swish", True)
        out[row, :, own], off[row, :, own] = _filtered(inputs, weight, bias, silu=silu)
        left = inputs[:, -before:] if num_accepted_tokens is None else inputs[:, 1:]
        state[slot, :, : left.shape[1]] = left
        if window is None:
            continue
        for t in range(min(end - begin, window.shape[1])):
            window[slot, t] = inputs[:, t + 1 : t + 1 + before]
    return {"x": near(out, absolute=off), "conv_state": state, "intermediate_conv_window": window}


def draw_starts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where sequences begin: lengths are 2, 0, 1, 3, ..., and what is left, less one token of none."""
    del rng
    count = shape[0] - 1
    lengths = [(2, 0, 1, 3)[place % 4] for place in range(count - 1)]
    lengths = [*lengths, max(sizes["L"] - 1 - sum(lengths), 0)] if count > 0 else []
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def draw_slots(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], missing: float = 0
) -> Values:
    """A slot of its own for each sequence; of each ``missing`` sequences the last has -1, or one behind the last slot."""
    slots = rng.permutation(max(sizes["S"], *shape))[: shape[0]]
    if missing:
        slots[int(missing) - 1 :: int(missing)] = -1
        slots[2 * int(missing) - 1 :: 2 * int(missing)] = sizes["S"]
    return slots
