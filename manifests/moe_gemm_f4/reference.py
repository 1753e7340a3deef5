"""A mixture of experts with weights in MXFP4 in one call, expert by expert: no lists, no blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases import numbers
from build_tools.cases.choices import active, draw_chosen, draw_some, draw_wild
from build_tools.cases.experts import HALF, ROUNDING, usual
from build_tools.cases.near import Near, Values, near

__all__ = ["draw_chosen", "draw_some", "draw_wild"]

_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
#: Columns that share a scale.
_SHARE = 32
#: The largest number of codes of so many bits.
_LARGEST = {8: 448.0, 4: 6.0}


class Layer(NamedTuple):
    """Numbers of both weights, without what pads them, and what is done between the products and behind them."""

    first: Values
    down: Values
    bias1: Values | None
    bias2: Values | None
    activation: int
    limit: float
    early: bool
    kind: str
    bits: int


def fused_experts_a16w4(
    hidden_states: Values,
    w1: Values,
    w2: Values,
    topk_weight: Values,
    topk_ids: Values,
    w1_scale: Values,
    w2_scale: Values,
    expert_mask: Values | None,
    num_local_tokens: Values | None,
    activation: int,
    doweight_stage1: bool,
    w1_shuffled: bool,
    w2_shuffled: bool,
    interleaved: bool,
    bias1: Values | None,
    bias2: Values | None,
    swiglu_limit: float,
    hidden_pads: int,
    intermediate_pads: int,
    kinds: Mapping[str, str],
) -> Near:
    """The sum of what each choice's expert makes of a token; between the products, and before the sum, each number is rounded."""
    kind = kinds["hidden_states"]
    first = _weights(w1, w1_scale, w1_shuffled, kind, interleaved)
    layer = _layer(
        first, _weights(w2, w2_scale, w2_shuffled, kind), bias1, bias2, hidden_pads, intermediate_pads,
        activation, swiglu_limit, doweight_stage1, kind, 16,
    )  # fmt: skip
    return _total(layer, hidden_states, topk_weight, topk_ids, expert_mask, num_local_tokens)


def fused_experts_mxfp4(
    hidden_states: Values,
    w1: Values,
    w2: Values,
    topk_weight: Values,
    topk_ids: Values,
    w1_scale: Values,
    w2_scale: Values,
    expert_mask: Values | None,
    num_local_tokens: Values | None,
    activation: int,
    activation_bits: int,
    doweight_stage1: bool,
    w1_shuffled: bool,
    w2_shuffled: bool,
    interleaved: bool,
    bias1: Values | None,
    bias2: Values | None,
    swiglu_limit: float,
    hidden_pads: int,
    intermediate_pads: int,
    kinds: Mapping[str, str],
) -> Near:
    """The same of codes, whose product is one of what they mean."""
    kind = kinds["hidden_states"]
    first = _weights(w1, w1_scale, w1_shuffled, "f64", interleaved)
    layer = _layer(
        first, _weights(w2, w2_scale, w2_shuffled, "f64"), bias1, bias2, hidden_pads, intermediate_pads,
        activation, swiglu_limit, doweight_stage1, kind, activation_bits,
    )  # fmt: skip
    return _total(layer, hidden_states, topk_weight, topk_ids, expert_mask, num_local_tokens)


def _layer(
    first: Values, down: Values, bias1: Values | None, bias2: Values | None, hidden_pads: int, intermediate_pads: int,
    activation: int, limit: float, early: bool, kind: str, bits: int,
) -> Layer:  # fmt: skip
    """Without what pads sizes."""
    count, width, inner = down.shape
    wide, columns = width - hidden_pads * _SHARE, inner - intermediate_pads * _SHARE
    return Layer(
        first.reshape(count, 2, inner, width)[:, :, :columns, :wide].reshape(count, 2 * columns, wide),
        down[:, :wide, :columns],
        None if bias1 is None else bias1.reshape(count, 2, inner)[:, :, :columns].reshape(count, -1),
        None if bias2 is None else bias2[:, :wide],
        activation,
        limit,
        early,
        kind,
        bits,
    )


def _total(
    layer: Layer,
    hidden_states: Values,
    weights: Values,
    ids: Values,
    mask: Values | None,
    local: Values | None,
) -> Near:
    """The sums of all tokens."""
    tokens, width = hidden_states.shape
    known = np.ones(len(layer.down), bool) if mask is None else mask != 0
    there = tokens if local is None else min(max(int(local[0]), 0), tokens)
    wide = layer.down.shape[1]
    rows = hidden_states[:, :wide]
    if layer.bits < 16:
        rows = _coded(rows, layer.bits)
    result, error = np.zeros((2, tokens, width))
    for own, expert in enumerate(np.flatnonzero(known)):
        here, choices = np.nonzero(ids[:there] == expert)
        part, off = _expert(layer, own, rows[here], weights[here, choices][:, None])
        np.add.at(result[:, :wide], here, part)
        np.add.at(error[:, :wide], here, off + np.abs(part) * ids.shape[1] * ROUNDING)
    return near(result, absolute=error)


def _expert(layer: Layer, own: int, x: Values, weight: Values) -> tuple[Values, Values]:
    """(What an expert makes of rows, how far each may be off)."""
    half, smallest = HALF[layer.kind]
    first, down = layer.first[own], layer.down[own]
    early, late = (weight, 1.0) if layer.early else (1.0, weight)
    sums = x @ first.T * early
    off = 2 * x.shape[1] * ROUNDING * (np.abs(x) @ np.abs(first).T) * np.abs(early)
    if layer.bias1 is not None:
        sums = sums + layer.bias1[own]
        off = off + (np.abs(sums) + np.abs(layer.bias1[own])) * ROUNDING
    hidden, hidden_off = _gated(sums, off, layer.activation, layer.limit)
    hidden_off = hidden_off + (np.abs(hidden) + hidden_off) * half + smallest
    if layer.bits < 16:
        hidden, hidden_off = _recoded(hidden, hidden_off, layer.bits)
    part = hidden @ down.T
    part_off = (hidden_off + 2 * down.shape[1] * ROUNDING * np.abs(hidden)) @ np.abs(down).T
    if layer.bias2 is not None:
        part = part + layer.bias2[own]
        part_off = part_off + (np.abs(part) + np.abs(layer.bias2[own])) * ROUNDING
    part, part_off = part * late, part_off * np.abs(late)
    return part, part_off + (np.abs(part) + part_off) * (half + 2 * ROUNDING) + smallest


def _weights(pairs: Values, scales: Values, shuffled: bool, kind: str, interleaved: bool = False) -> Values:
    """Numbers of ``kind`` [E, N, K] of pairs of codes and of scales; rows of gate, then of up."""
    count, height, width = pairs.shape
    plain = usual(pairs) if shuffled else pairs
    both = np.stack([plain & 15, plain >> 4], axis=-1).reshape(count, height, 2 * width)
    columns = -(-width // 128) * 8
    stored = scales.reshape(-1)[: count * height * columns]
    parts = stored.reshape(-1, columns // 8, 4, 16, 2, 2).transpose(0, 5, 3, 1, 4, 2)
    powers = np.exp2(parts.reshape(count, height, columns)[:, :, : width // 16] - 127.0)
    values = np.where(both & 8, -1.0, 1.0) * _FP4[both & 7] * np.repeat(powers, _SHARE, axis=2)
    if interleaved:
        turns = values.reshape(count, height // 32, 2, 16, 2 * width)
        values = turns.transpose(0, 2, 1, 3, 4).reshape(values.shape)
    found: Values = numbers.rounded(values, kind)
    return found


def _gated(sums: Values, off: Values, activation: int, limit: float) -> tuple[Values, Values]:
    """(The activation of gate, times up; how far that may be off)."""
    gate, up = np.split(sums, 2, axis=1)
    gate_off, up_off = np.split(off, 2, axis=1)
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    up, up_off = up + (activation == 2), up_off + np.abs(up) * ROUNDING
    gate, gate_off = active(gate, gate_off, activation)
    return gate * up, gate_off * (np.abs(up) + up_off) + np.abs(gate) * up_off


def _coded(rows: Values, bits: int) -> Values:
    """What codes of rows mean."""
    parts = rows.reshape(-1, _SHARE)
    return _rounded(parts, _powers(np.abs(parts), bits), bits).reshape(rows.shape)


def _recoded(row: Values, off: Values, bits: int) -> tuple[Values, Values]:
    """(What its codes mean, how far a kernel's may be off that starts ``off`` away: by another code, or another scale)."""
    parts, away = row.reshape(-1, _SHARE), off.reshape(-1, _SHARE)
    exact = _rounded(parts, _powers(np.abs(parts), bits), bits)
    furthest = np.zeros_like(parts)
    for found in _around(parts, away, bits):
        furthest = np.maximum(furthest, np.abs(found - exact))
    return exact.reshape(row.shape), furthest.reshape(row.shape)


def _around(parts: Values, off: Values, bits: int) -> Iterator[Values]:
    """What becomes of numbers a little smaller and larger, with each scale that may come out."""
    sizes = np.abs(parts)
    for scale in (_powers(np.maximum(sizes - off, 0), bits), _powers(sizes + off, bits)):
        yield from (_rounded(parts - off, scale, bits), _rounded(parts + off, scale, bits))


def _powers(sizes: Values, bits: int) -> Values:
    """The smallest power of two with which no code of a group is too large."""
    largest = np.maximum(sizes.max(axis=1, keepdims=True), 2.0**-100)
    found: Values = np.exp2(np.ceil(np.log2(largest / _LARGEST[bits])))
    return found


def _rounded(parts: Values, scale: Values, bits: int) -> Values:
    """To the nearest code, to an even one half way."""
    if bits == 8:
        exact: Values = numbers.rounded(parts / scale, "e4m3fn", saturate=True) * scale
        return exact
    # From 2 on codes are twice as far apart, from 4 on four times.
    size = np.minimum(np.abs(parts) / scale, _FP4[-1])
    step = np.where(size < 2, 0.5, np.where(size < 4, 1.0, 2.0))
    found: Values = np.sign(parts) * np.rint(size / step) * step * scale
    return found
