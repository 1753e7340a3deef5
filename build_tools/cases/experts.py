"""Shared code of references of mixtures of experts.

Sorted tokens, weights in AITER's layout, activations, sums in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Half a unit of the last place of f32.
ROUNDING: Final = 2.0**-24
#: Half a unit of the last place of the output's type, and its smallest number.
HALF: Final = {"bf16": (2.0**-8, 2.0**-133), "f16": (2.0**-11, 2.0**-24)}
#: The largest code, half a unit relative to the code, half the distance of the smallest codes.
CODES: Final = {
    "e4m3fn": (448.0, 2.0**-4, 2.0**-10),
    "e4m3fnuz": (240.0, 2.0**-4, 2.0**-11),
    "i8": (127.0, 0.0, 1.0),
}
#: Rows of a block of sorted ids, where a call does not say it.
BLOCK: Final = 32
#: Columns that are always in one tile.
_COLUMNS: Final = 64
#: (expert, tokens, choices, weights) of a block, without its padding.
Block: TypeAlias = tuple[int, Values, Values, Values]


def usual(stored: Values, unit: int = 16) -> Values:
    """Weights [e, n, k] from the layout of 16 rows by 32 columns, in runs of ``unit`` (16 bytes), to the usual one."""
    e, n, k = stored.shape
    parts = stored.reshape(e, n // 16, k // 32, 32 // unit, 16, unit)
    return np.ascontiguousarray(parts.transpose(0, 1, 4, 2, 3, 5)).reshape(e, n, k)


def shuffled(plain: Values, unit: int = 16) -> Values:
    """Invert the shuffle."""
    e, n, k = plain.shape
    parts = plain.reshape(e, n // 16, 16, k // 32, 32 // unit, unit)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2, 5)).reshape(e, n, k)


def blocks(
    ids: Values,
    weights: Values | None,
    experts: Values,
    valid: Values,
    sizes: Mapping[str, int],
    rows: int = BLOCK,
) -> Iterator[Block]:
    """Yield the blocks that count.

    ``rows``: of a block; without ``weights`` each is 1.
    """
    for block in range(min(int(valid[0]) // rows, len(experts))):
        here = slice(block * rows, block * rows + rows)
        tokens, choices = ids[here] & 0xFFFFFF, ids[here] >> 24
        real = tokens < sizes["T"]
        if real.any() and 0 <= experts[block] < sizes["E"]:
            ones = np.ones(rows) if weights is None else weights[here]
            yield int(experts[block]), tokens[real], choices[real], ones[real]


def activated(x: Values, off: Values, gelu: bool) -> tuple[Values, Values]:
    """(SiLU, or GELU in its tanh form, both x times a logistic function; how far that may be off)."""
    power = np.sqrt(8 / np.pi) * (x + 0.044715 * x**3) if gelu else x
    active: Values = x / (1 + np.exp(-power))
    # Neither is steeper than 1.13; the argument of exp2 is off by some roundings of its size.
    steep = np.minimum(np.abs(x) * (1 + 0.08 * x**2 * gelu), 128)
    return active, 1.13 * off + np.abs(active) * ROUNDING * (16 + 8 * steep)


def gated(sums: Values, off: Values, columns: int, gelu: bool) -> tuple[Values, Values]:
    """Apply the gate to sums, with the error bound.

    It is the activation of the first ``columns`` sums, times the others where there are any.
    """
    hidden, hidden_off = activated(sums[:, :columns], off[:, :columns], gelu)
    if sums.shape[1] > columns:
        up, up_off = sums[:, columns:], off[:, columns:]
        hidden_off = hidden_off * (np.abs(up) + up_off) + np.abs(hidden) * up_off
        hidden = hidden * up
    return hidden, hidden_off


def requantised(sizes: Values, code: str) -> Values:
    """Bound the error of a code times its scale.

    A row has one scale, from its largest size and at least 1e-6.

    A code is off by half a unit of fp8 at most, by one of int8 (some kernels cut instead of rounding); only the largest of a row
    is exact in fp8, wherever a tile ends.
    """
    largest, relative, least = CODES[code]
    row = sizes.max(axis=1, keepdims=True)
    off: Values = np.maximum(sizes * relative, np.maximum(row, 1e-6) * least / largest)
    if code == "i8":
        return off
    exact = (sizes >= row * (1 - 2.0**-18)) & (row > 1e-6)
    return np.where(exact, sizes * 2.0**-18, off)


class Total:
    """The output: exact sums, their errors, and what was added.

    Tiles of columns, and the experts of a token, are added in the output's own type, in any order: each of n addends is rounded,
    and each of their sums, the last of which is the result. ``tile``: columns of the smallest tile.
    """

    def __init__(self, tokens: int, width: int, kind: str, tile: int) -> None:
        self.values, self.error, self.sizes = (np.zeros((tokens, width)) for _ in range(3))
        self.addends = np.zeros((tokens, 1))
        self.kind, self.tile = kind, tile

    def add(self, matrix: Values, tokens: Values, weights: Values, hidden: Values, off: Values) -> None:
        """``hidden @ matrix^T`` of an expert for these tokens, each row times its weight; ``hidden`` may be ``off``."""
        factor = weights[:, None]
        inner = off + 4 * hidden.shape[1] * ROUNDING * np.abs(hidden)
        error = np.abs(factor) * (inner @ np.abs(matrix).T)
        parts = [
            hidden[:, at : at + _COLUMNS] @ matrix[:, at : at + _COLUMNS].T * factor
            for at in range(0, hidden.shape[1], _COLUMNS)
        ]
        np.add.at(self.values, tokens, sum(parts))
        np.add.at(self.error, tokens, error)
        np.add.at(self.sizes, tokens, sum(np.abs(part) for part in parts) + error)
        np.add.at(self.addends, tokens, -(-hidden.shape[1] // self.tile))

    def near(self) -> Near:
        """With the roundings of the sums."""
        half, smallest = HALF[self.kind]
        more = np.maximum(self.addends - 1, 0)
        return near(
            self.values, absolute=self.error + more * (half * self.sizes * 1.02 + smallest) + smallest
        )


def routing(tokens: int, experts: int, topk: int) -> list[list[tuple[int, int, float]]]:
    """(token, choice, weight) of each expert: the same for all tensors of a call.

    Where there are more tokens than two, one more expert may be chosen, which another device has: some tokens have fewer here.
    """
    rng = np.random.default_rng([tokens, experts, topk])
    chosen: list[list[tuple[int, int, float]]] = [[] for _ in range(experts)]
    for token in range(tokens):
        weights = rng.uniform(0.2, 1.0, topk)
        away = rng.permutation(experts + (tokens > 2))[:topk]
        for choice, expert in enumerate(away):
            if expert < experts:
                chosen[expert].append((token, choice, float(weights[choice])))
    return chosen


def in_blocks(sizes: Mapping[str, int]) -> tuple[list[int], list[float], list[int]]:
    """(ids, weights, the expert of each block): each expert's choices, padded to whole blocks; none of one that nobody chose.

    P = T * topk + rows * E - topk. Where ``topk`` is a dim of the call, this says how many rows a block has. Else it has 32, and
    how many choices there are follows; a lone token chooses every expert then.
    """
    tokens, experts, topk = sizes["T"], sizes["E"], sizes.get("topk", 0)
    if topk:
        rows = (sizes["P"] - tokens * topk + topk) // experts
    else:
        rows = BLOCK
        topk = experts if tokens == 1 else (sizes["P"] - rows * experts) // (tokens - 1)
    ids: list[int] = []
    weights: list[float] = []
    of_block: list[int] = []
    for expert, row in enumerate(routing(tokens, experts, topk)):
        count = -(-len(row) // rows)
        padding = count * rows - len(row)
        ids += [choice << 24 | token for token, choice, _ in row] + [topk << 24 | tokens] * padding
        weights += [weight for _, _, weight in row] + [0.0] * padding
        of_block += [expert] * count
    return ids, weights, of_block


def _filled(shape: tuple[int, ...], values: list[int] | list[float], rest: float) -> Values:
    """``values``, then ``rest``: what nobody must read."""
    found = np.full(shape, rest, np.int64 if isinstance(rest, int) else np.float64)
    found[: len(values)] = values
    return found


def draw_sorted_ids(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Sorted ids, and rubbish behind them."""
    del rng
    return _filled(shape, in_blocks(sizes)[0], 0x7F7F7F7F)


def draw_sorted_weights(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Their weights, and NaN behind them."""
    del rng
    return _filled(shape, in_blocks(sizes)[1], np.nan)


def draw_sorted_experts(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Draw the expert of each block, and rubbish behind them."""
    del rng
    return _filled(shape, in_blocks(sizes)[2], 0x7F7F7F7F)


def draw_valid(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Draw the number of ids that count, and of tokens."""
    del rng, shape
    return np.array([len(in_blocks(sizes)[0]), sizes["T"]])


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
        plain = np.broadcast_to(rng.integers(8, 96, (experts, rows, 1)), shape)
    else:
        halves = rng.integers(-40, 97, (experts, rows // sizes["I"], 1, columns))
        plain = np.broadcast_to(halves, (experts, rows // sizes["I"], sizes["I"], columns)).reshape(shape)
    return shuffled(plain).astype(np.float64)


def draw_scales(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: object, middle: float = 1.0, every: float = 0
) -> Values:
    """Positive scales around ``middle``; each ``every``-th is 0."""
    del sizes
    found = rng.uniform(0.5, 1.5, shape) * middle
    if every:
        found.reshape(-1)[1 :: int(every)] = 0
    return found
