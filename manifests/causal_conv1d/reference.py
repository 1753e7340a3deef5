"""Causal convolutions of each channel along its tokens, behind a state of its last inputs.

A kernel adds at most five terms in fp32, by fused products, and rounds once. What is silu's of y is off by 2^-24 for every unit
of y that its exponential sees, and by a few roundings more; a sigmoid below 2^-126 is 0 in hardware.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
_LOST = 2.0**-125


def _filtered(inputs: Values, weight: Values, bias: Values | None) -> tuple[Values, Values]:
    """[tokens, channels] of [width - 1 + tokens, channels], and the sums of what is added, without signs."""
    width = weight.shape[1]
    tokens = len(inputs) - (width - 1)
    start = np.zeros(weight.shape[0]) if bias is None else bias
    exact = np.broadcast_to(start, (tokens, len(start))).copy()
    size = np.abs(exact)
    for tap in range(width):
        term = weight[:, tap] * inputs[tap : tap + tokens]
        exact += term
        size += np.abs(term)
    return exact, size


def _near(exact: Values, size: Values, *, silu: bool) -> Near:
    """``exact`` or silu of it, masked as it is."""
    numbers, masked = np.ma.getdata(exact), np.ma.getmaskarray(exact)
    size = np.where(np.isfinite(size), size, 0.0)
    if not silu:
        return near(exact, absolute=6 * _ROUNDING * size)
    values = np.ma.array(numbers * (1 / (1 + np.exp(-numbers))), mask=masked)
    tail = np.where(np.isfinite(numbers), np.abs(numbers), 0.0)
    return near(values, relative=_ROUNDING * (8 + 3 * tail), absolute=7 * _ROUNDING * size + _LOST)


def _kept(values: Values) -> Values:
    """All of it as it is."""
    return np.ma.array(values, mask=np.ones(values.shape, bool))


def causal_conv1d_update(
    x: Values,
    conv_state: Values,
    weight: Values,
    bias: Values,
    use_silu: bool,
    cache_seqlens: Values,
    conv_state_indices: Values,
    pad_slot_id: int,
) -> dict[str, Values | Near]:
    """x [batch, channels, tokens], state [slots, channels, held]; which is a ring if there are `cache_seqlens`."""
    slots, _, held = conv_state.shape
    batch, _, tokens = x.shape
    before = weight.shape[1] - 1
    state, out, sizes = _kept(conv_state.copy()), _kept(np.zeros(x.shape)), np.zeros(x.shape)
    chosen = conv_state_indices if conv_state_indices.size else np.arange(batch)
    for row, slot in enumerate(chosen.tolist()):
        if slot == pad_slot_id or not 0 <= slot < slots:
            continue
        seen = int(cache_seqlens[row]) if cache_seqlens.size else held
        places = (seen + np.arange(-before, tokens)) % held
        inputs = np.concatenate([conv_state[slot][:, places[:before]], x[row]], axis=1).T
        exact, size = _filtered(inputs, weight, bias if bias.size else None)
        out[row], sizes[row] = exact.T, size.T
        if cache_seqlens.size:
            for token in range(tokens):
                state[slot, :, places[before + token]] = x[row, :, token]
        else:
            state[slot] = np.concatenate([conv_state[slot], x[row]], axis=1)[:, tokens:]
    return {"conv_state": state, "out": _near(out, sizes, silu=use_silu)}


def causal_conv1d_fn(
    x: Values,
    weight: Values,
    bias: Values | None,
    conv_states: Values,
    query_start_loc: Values,
    cache_indices: Values | None,
    has_initial_state: Values | None,
    activation: str | None,
    pad_slot_id: int,
) -> dict[str, Values | Near]:
    """x [channels, tokens of all sequences]; the first width - 1 places of a slot hold the inputs before a sequence."""
    before = weight.shape[1] - 1
    state, out, sizes = _kept(conv_states.copy()), _kept(np.zeros(x.shape)), np.zeros(x.shape)
    starts = query_start_loc.tolist()
    chosen = np.arange(len(starts) - 1) if cache_indices is None else cache_indices
    for row, slot in enumerate(chosen.tolist()):
        own = slice(starts[row], starts[row + 1])
        if slot == pad_slot_id or not 0 <= slot < len(conv_states) or own.stop == own.start:
            continue
        first = conv_states[slot, :, :before]
        if has_initial_state is None or not has_initial_state[row]:
            first = np.zeros(first.shape)
        inputs = np.concatenate([first, x[:, own]], axis=1)
        exact, size = _filtered(inputs.T, weight, bias)
        out[:, own], sizes[:, own] = exact.T, size.T
        state[slot, :, :before] = inputs[:, -before:]
    return {"conv_states": state, "out": _near(out, sizes, silu=activation is not None)}


def draw_starts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where sequences begin: lengths are what is left, 3, 0, 1, 19, 2, ..., or these turned round if they are odd in number."""
    del rng
    count = shape[0] - 1
    lengths = [(3, 0, 1, 19, 2)[place % 5] for place in range(count - 1)]
    lengths = [sizes["L"] - sum(lengths), *lengths][:: -1 if count % 2 else 1] if count else []
    if min(lengths, default=0) < 0:
        raise ValueError(f"{count} sequences need more than {sizes['L']} tokens")
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


def draw_in_turn(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """True of the first, then of every second."""
    del rng, sizes
    return (np.arange(shape[0]) + 1) % 2
