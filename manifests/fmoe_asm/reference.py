"""Fused mixtures of experts by AITER's assembly: sorted tokens, 8-bit codes, one launch.

What the activation gives is quantised again before the second product: a row of a tile has one scale, from its largest size,
and at least 1e-6. Which tile was chosen is not known here. A code is off by half a unit of fp8 at most, by one of int8 (some
kernels cut instead of rounding); only the largest of a row is exact in fp8, wherever a tile ends.

Tiles of columns, and the experts of a token, are added in the output's own type, in any order: each of n addends is rounded, and
each of their sums, the last of which is the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Sorted rows that share an expert; columns that are always in one tile, and in the smallest tile.
_BLOCK, _COLUMNS, _TILE = 32, 64, 128
_ROUNDING = 2.0**-24
#: Half a unit of the last place of the output's type, and its smallest number.
_HALF = {"bf16": (2.0**-8, 2.0**-133), "f16": (2.0**-11, 2.0**-24)}
#: The largest code, half a unit relative to the code, half the distance of the smallest codes.
_CODES = {
    "e4m3fn": (448.0, 2.0**-4, 2.0**-10),
    "e4m3fnuz": (240.0, 2.0**-4, 2.0**-11),
    "i8": (127.0, 0.0, 1.0),
}
#: (expert, tokens, choices, weights) of a block, without its padding.
_Block: TypeAlias = tuple[int, Values, Values, Values]


class _Layer(NamedTuple):
    """What one call has, its weights in their usual layout. ``first`` holds I rows of an expert, or 2 * I: gate and up."""

    first: Values
    second: Values
    first_scale: Values
    second_scale: Values
    smooth: Values | None
    gelu: bool
    code: str


def fmoe_g1u1(
    input: Values,
    gate: Values,
    down: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    input_scale: Values,
    fc1_scale: Values,
    fc2_scale: Values,
    fc2_smooth_scale: Values | None,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each token's experts, weighted: (act(x @ gate^T) * (x @ up^T) * smooth) @ down^T; all codes are multiplied by their scales.

    With fc2_smooth_scale a token has a row for each choice: choice * T + token.
    """
    layer = _layer(gate, down, fc1_scale, fc2_scale, fc2_smooth_scale, activation, kinds)
    blocks = _blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    return _answer(layer, input * input_scale.reshape(-1, 1), blocks, sizes, kinds)


def fmoe_g1u1_tkw1(
    input: Values,
    gate: Values,
    down: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    input_scale: Values,
    fc1_scale: Values,
    fc2_scale: Values,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """As fmoe_g1u1, with the weight where a token comes in: act(weight * x @ gate^T) * (weight * x @ up^T)."""
    layer = _layer(gate, down, fc1_scale, fc2_scale, None, activation, kinds)
    blocks = _blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    return _answer(layer, input * input_scale.reshape(-1, 1), blocks, sizes, kinds, early=True)


def fmoe_int8_g1u0(
    input: Values,
    gate: Values,
    down: Values,
    sorted_token_ids: Values,
    sorted_weights: Values,
    sorted_expert_ids: Values,
    num_valid_ids: Values,
    input_scale: Values,
    fc1_scale: Values,
    fc2_scale: Values,
    fc2_smooth_scale: Values,
    activation: int,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
) -> Near:
    """Each token's experts, weighted: (act(x @ gate^T) * smooth) @ down^T.

    A token has a row for each choice: choice * T + token.
    """
    layer = _layer(gate, down, fc1_scale, fc2_scale, fc2_smooth_scale, activation, kinds)
    blocks = _blocks(sorted_token_ids, sorted_weights, sorted_expert_ids, num_valid_ids, sizes)
    return _answer(layer, input * input_scale.reshape(-1, 1), blocks, sizes, kinds)


def _answer(
    layer: _Layer,
    rows: Values,
    blocks: Iterable[_Block],
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
    *,
    early: bool = False,
) -> Near:
    """``early``: the weight stands in front of the first product, not behind the second."""
    total = _Total(sizes["T"], sizes["D"], kinds["out"])
    for expert, tokens, choices, weights in blocks:
        places = tokens if layer.smooth is None else (choices * sizes["T"] + tokens) % len(rows)
        ones = np.ones_like(weights)
        before, behind = (weights, ones) if early else (ones, weights)
        hidden, off = _hidden(layer, expert, rows[places] * before[:, None])
        total.add(layer, expert, tokens, behind, hidden, off)
    return total.near()


def _layer(
    gate: Values, down: Values, first: Values, second: Values, smooth: Values | None, activation: int,
    kinds: Mapping[str, str],
) -> _Layer:  # fmt: skip
    experts = len(gate)
    return _Layer(
        _usual(gate), _usual(down), first.reshape(experts, -1), second.reshape(experts, -1),
        None if smooth is None else smooth.reshape(experts, -1), activation == 1, kinds["gate"],
    )  # fmt: skip


def _usual(stored: Values) -> Values:
    """Weights [e, n, k] from the layout of 16 rows by twice 16 columns to the usual one."""
    e, n, k = stored.shape
    parts = stored.reshape(e, n // 16, k // 32, 2, 16, 16)
    usual: Values = parts.transpose(0, 1, 4, 2, 3, 5).reshape(e, n, k)
    return usual


def _shuffled(usual: Values) -> Values:
    """The other way."""
    e, n, k = usual.shape
    parts = usual.reshape(e, n // 16, 16, k // 32, 2, 16)
    stored: Values = parts.transpose(0, 1, 3, 4, 2, 5).reshape(e, n, k)
    return stored


def _blocks(
    ids: Values, weights: Values, experts: Values, valid: Values, sizes: Mapping[str, int]
) -> Iterator[_Block]:
    """Those that count."""
    for block in range(min(int(valid[0]) // _BLOCK, len(experts))):
        rows = slice(block * _BLOCK, block * _BLOCK + _BLOCK)
        tokens, choices = ids[rows] & 0xFFFFFF, ids[rows] >> 24
        real = tokens < sizes["T"]
        if real.any() and 0 <= experts[block] < sizes["E"]:
            yield int(experts[block]), tokens[real], choices[real], weights[rows][real]


def _activated(x: Values, gelu: bool) -> Values:
    """SiLU, or GELU in its tanh form: both are x times a logistic function."""
    power = np.sqrt(8 / np.pi) * (x + 0.044715 * x**3) if gelu else x
    active: Values = x / (1 + np.exp(-power))
    return active


def _hidden(layer: _Layer, expert: int, rows: Values) -> tuple[Values, Values]:
    """(what the activation gives for each row, how far the kernel's codes times their scale may be off)."""
    scale = layer.first_scale[expert]
    sums = rows @ layer.first[expert].T * scale
    off = 2 * rows.shape[1] * _ROUNDING * (np.abs(rows) @ np.abs(layer.first[expert]).T * np.abs(scale))
    columns = layer.second.shape[2]
    x, x_off = sums[:, :columns], off[:, :columns]
    hidden = _activated(x, layer.gelu)
    # Neither activation is steeper than 1.13; the argument of exp2 is off by some roundings of its size.
    power = np.abs(x) * (1 + 0.08 * x**2 * layer.gelu)
    hidden_off = 1.13 * x_off + np.abs(hidden) * _ROUNDING * (16 + 8 * np.minimum(power, 128))
    if sums.shape[1] > columns:
        up, up_off = sums[:, columns:], off[:, columns:]
        hidden_off = hidden_off * (np.abs(up) + up_off) + np.abs(hidden) * up_off
        hidden = hidden * up
    if layer.smooth is not None:
        hidden, hidden_off = hidden * layer.smooth[expert], hidden_off * np.abs(layer.smooth[expert])
    return hidden, hidden_off + _requantised(np.abs(hidden), layer.code)


def _requantised(sizes: Values, code: str) -> Values:
    """How far a code times its scale may be off; ``sizes``: of what is quantised, a row a row."""
    largest, relative, least = _CODES[code]
    row = sizes.max(axis=1, keepdims=True)
    off: Values = np.maximum(sizes * relative, np.maximum(row, 1e-6) * least / largest)
    if code == "i8":
        return off
    exact = (sizes >= row * (1 - 2.0**-18)) & (row > 1e-6)
    return np.where(exact, sizes * 2.0**-18, off)


class _Total:
    """The output: exact sums, their errors, and what was added."""

    def __init__(self, tokens: int, width: int, kind: str) -> None:
        self.values, self.error, self.sizes = (np.zeros((tokens, width)) for _ in range(3))
        self.addends = np.zeros((tokens, 1))
        self.kind = kind

    def add(
        self, layer: _Layer, expert: int, tokens: Values, weights: Values, hidden: Values, off: Values
    ) -> None:
        """What an expert gives for these tokens. The weight is ``weights``, of each row."""
        matrix = layer.second[expert] * layer.second_scale[expert][:, None]
        factor = weights[:, None]
        inner = off + 4 * hidden.shape[1] * _ROUNDING * np.abs(hidden)
        error = np.abs(factor) * (inner @ np.abs(matrix).T)
        parts = [
            hidden[:, at : at + _COLUMNS] @ matrix[:, at : at + _COLUMNS].T * factor
            for at in range(0, hidden.shape[1], _COLUMNS)
        ]
        np.add.at(self.values, tokens, sum(parts))
        np.add.at(self.error, tokens, error)
        np.add.at(self.sizes, tokens, sum(np.abs(part) for part in parts) + error)
        np.add.at(self.addends, tokens, -(-hidden.shape[1] // _TILE))

    def near(self) -> Near:
        """With the roundings of the sums."""
        half, smallest = _HALF[self.kind]
        more = np.maximum(self.addends - 1, 0)
        return near(
            self.values, absolute=self.error + more * (half * self.sizes * 1.02 + smallest) + smallest
        )


def draw_codes(rng: np.random.Generator, shape: tuple[int, ...], sizes: object, *, kind: str) -> Values:
    """8-bit codes, normally distributed."""
    del sizes, kind
    return np.clip(np.rint(rng.standard_normal(shape) * 32), -127, 127)


def draw_sparse(rng: np.random.Generator, shape: tuple[int, ...], sizes: object, *, kind: str) -> Values:
    """Codes of which about six in a row are not 0: what is lost in any of them shows in a result."""
    keep = rng.random(shape) < 6 / max(shape[-1], 6)
    return draw_codes(rng, shape, sizes, kind=kind) * keep


def draw_alike(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Weights for which what the activation gives is one number a row, and nothing cancels: all rows of gate are equal, all rows
    of up are, all columns of down are; so a row's codes are exact in fp8.
    """
    experts, rows, columns = shape
    if columns == sizes["I"]:
        usual = np.broadcast_to(rng.integers(8, 96, (experts, rows, 1)), shape)
    else:
        halves = rng.integers(-40, 97, (experts, rows // sizes["I"], 1, columns))
        usual = np.broadcast_to(halves, (experts, rows // sizes["I"], sizes["I"], columns)).reshape(shape)
    return _shuffled(usual).astype(np.float64)


def draw_scales(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: object, middle: float = 1.0, every: float = 0
) -> Values:
    """Positive scales around ``middle``; each ``every``-th is 0."""
    del sizes
    found = rng.uniform(0.5, 1.5, shape) * middle
    if every:
        found.reshape(-1)[1 :: int(every)] = 0
    return found


def _routing(sizes: Mapping[str, int]) -> tuple[int, list[list[tuple[int, int, float]]]]:
    """(choices of a token, (token, choice, weight) of each expert): the same for all tensors of a call.

    How many choices there are follows from P = T * topk + 32 * E - topk; a lone token chooses every expert. Where there are more
    tokens than two, one more expert may be chosen, which another device has: some tokens have fewer experts here.
    """
    tokens, experts = sizes["T"], sizes["E"]
    topk = experts if tokens == 1 else (sizes["P"] - _BLOCK * experts) // (tokens - 1)
    rng = np.random.default_rng([tokens, experts, topk])
    chosen: list[list[tuple[int, int, float]]] = [[] for _ in range(experts)]
    for token in range(tokens):
        weights = rng.uniform(0.2, 1.0, topk)
        away = rng.permutation(experts + (tokens > 2))[:topk]
        for choice, expert in enumerate(away):
            if expert < experts:
                chosen[expert].append((token, choice, float(weights[choice])))
    return topk, chosen


def _sorted(sizes: Mapping[str, int]) -> tuple[list[int], list[float], list[int]]:
    """(ids, weights, the expert of each block): each expert's choices, padded to whole blocks; none of one that nobody chose."""
    topk, chosen = _routing(sizes)
    ids: list[int] = []
    weights: list[float] = []
    experts: list[int] = []
    for expert, row in enumerate(chosen):
        blocks = -(-len(row) // _BLOCK)
        padding = blocks * _BLOCK - len(row)
        ids += [choice << 24 | token for token, choice, _ in row] + [topk << 24 | sizes["T"]] * padding
        weights += [weight for _, _, weight in row] + [0.0] * padding
        experts += [expert] * blocks
    return ids, weights, experts


def _filled(shape: tuple[int, ...], values: list[int] | list[float], rest: float) -> Values:
    """``values``, then ``rest``: what nobody must read."""
    found = np.full(shape, rest, np.int64 if isinstance(rest, int) else np.float64)
    found[: len(values)] = values
    return found


def draw_sorted_ids(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Sorted ids, and rubbish behind them."""
    del rng
    return _filled(shape, _sorted(sizes)[0], 0x7F7F7F7F)


def draw_sorted_weights(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Their weights, and NaN behind them."""
    del rng
    return _filled(shape, _sorted(sizes)[1], np.nan)


def draw_sorted_experts(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """The expert of each block, and rubbish behind them."""
    del rng
    return _filled(shape, _sorted(sizes)[2], 0x7F7F7F7F)


def draw_valid(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """How many ids count, and how many tokens there are."""
    del rng, shape
    return np.array([len(_sorted(sizes)[0]), sizes["T"]])
