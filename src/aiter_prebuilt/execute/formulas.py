"""What each operator computes, in float64 over lists of rows. Sources stand in the docstrings of ``aiter_prebuilt.ops``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

Row: TypeAlias = list[float]
Rows: TypeAlias = list[Row]


def rms_norm(rows: Rows, weight: Row, epsilon: float) -> Rows:
    """``x / sqrt(mean(x^2) + epsilon) * weight`` of every row."""
    made = []
    for row in rows:
        scale = 1 / math.sqrt(math.fsum(x * x for x in row) / len(row) + epsilon)
        made.append([x * scale * w for x, w in zip(row, weight, strict=True)])
    return made


def softmax(rows: Rows) -> Rows:
    """``exp(x - max) / sum`` of every row."""
    made = []
    for row in rows:
        top = max(row)
        powers = [math.exp(x - top) for x in row]
        total = math.fsum(powers)
        made.append([power / total for power in powers])
    return made


def _silu(gate: float, up: float) -> float:
    return gate / (1 + math.exp(-gate)) * up


def _gelu(gate: float, up: float) -> float:
    return gate / 2 * (1 + math.erf(gate / math.sqrt(2))) * up


def _gelu_tanh(gate: float, up: float) -> float:
    return gate / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))) * up


def _swiglu(gate: float, up: float) -> float:
    gate, up = min(gate, 7.0), max(-7.0, min(7.0, up))
    return gate / (1 + math.exp(-1.702 * gate)) * (up + 1)


_GATES: Final[dict[str, Callable[[float, float], float]]] = {
    "silu_and_mul": _silu,
    "gelu_and_mul": _gelu,
    "gelu_tanh_and_mul": _gelu_tanh,
    "swiglu_and_mul": _swiglu,
}
#: The operators that :func:`gated` knows.
GATED: Final = tuple(_GATES)


def gated(name: str, rows: Rows) -> Rows:
    """The activation ``name`` of the first half of every row, times the second half."""
    made = []
    for row in rows:
        half = len(row) // 2
        made.append([_GATES[name](gate, up) for gate, up in zip(row[:half], row[half:], strict=True)])
    return made


def product(a: Rows, b: Rows) -> Rows:
    """``a @ b.T`` of a [M, K] and b [N, K]."""
    return [[math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in b] for row in a]


def shuffled(rows: Rows) -> Row:
    """A weight [N, K] of one-byte types, flat, in the (16, 16) layout of ``shuffle_weight``: tiles of 16 rows and 32 columns,
    each as two halves of 16 columns, each half row by row.
    """
    columns = len(rows[0])
    return [
        rows[tile * 16 + row][block * 32 + half * 16 + column]
        for tile in range(len(rows) // 16)
        for block in range(columns // 32)
        for half in range(2)
        for row in range(16)
        for column in range(16)
    ]


def attention(q: Rows, k: Rows, v: Rows, scale: float) -> tuple[Rows, Row]:
    """One head: (out [sq, d], log-sum-exp [sq]) of causal attention aligned bottom-right: query i sees keys up to i + sk - sq."""
    made: Rows = []
    sums: Row = []
    for place, query in enumerate(q):
        seen = len(k) - len(q) + place + 1
        logits = [scale * math.fsum(x * y for x, y in zip(query, key, strict=True)) for key in k[:seen]]
        top = max(logits)
        total = math.fsum(math.exp(logit - top) for logit in logits)
        share = [math.exp(logit - top) / total for logit in logits]
        made.append([math.fsum(p * row[column] for p, row in zip(share, v)) for column in range(len(v[0]))])  # noqa: B905
        sums.append(top + math.log(total))
    return made, sums


def quantised(rows: Rows, largest: float) -> tuple[Rows, Row]:
    """(x / scale before rounding, scale by row) with ``scale = amax(|row|) / largest``."""
    scales = [max(map(abs, row)) / largest for row in rows]
    return [[x / scale for x in row] for row, scale in zip(rows, scales, strict=True)], scales


def routed(rows: Rows, count: int) -> tuple[Rows, list[list[int]]]:
    """(weights, experts): the ``count`` largest of every row's softmax, largest first, scaled to a sum of 1."""
    weights: Rows = []
    experts: list[list[int]] = []
    for row, share in zip(rows, softmax(rows), strict=True):
        order = sorted(range(len(row)), key=lambda place: -row[place])[:count]
        total = math.fsum(share[place] for place in order)
        weights.append([share[place] / total for place in order])
        experts.append(order)
    return weights, experts


def rows_of(values: Sequence[float], columns: int) -> Rows:
    """A flat list as rows of ``columns``."""
    return [list(values[start : start + columns]) for start in range(0, len(values), columns)]


def flat(rows: Sequence[Sequence[float]]) -> Row:
    """Rows as one list."""
    return [x for row in rows for x in row]
