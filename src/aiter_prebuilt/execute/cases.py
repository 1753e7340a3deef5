"""The cases: small inputs, the call, and how far its outputs are from the formula in units of what rounding allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from aiter_prebuilt.execute import formulas
from aiter_prebuilt.execute.numbers import fp8_limit, round_to, spread

#: Half a unit in the last place, relative; f32 results have what fp32 sums may lose on top.
HALF_ULP: Final = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-20}
#: Contents of the tensors after the call, in the order of the call; None where none was given.
Contents: TypeAlias = Sequence[Sequence[float] | None]


@dataclass(frozen=True, slots=True)
class Tensor:
    """``values``: what is put into it, exactly; None for an output, which holds NaN or 0x7F before the call."""

    kind: str
    shape: tuple[int, ...]
    values: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One call of ``operator``: tensors in the order of its signature, attributes, and ``check``: contents to the largest error
    in units of its bound (at most 1 is right).
    """

    operator: str
    tensors: tuple[Tensor | None, ...]
    attributes: tuple[Any, ...]
    check: Callable[[Contents], float]


def cases(target: str) -> tuple[Case, ...]:
    """One case for every operator, as ``target`` stores fp8."""
    fp8 = "e4m3fnuz" if target == "gfx942" else "e4m3fn"
    return (*_norms(), *_rows(), *_gemms(fp8), _attention(), *_quantisers(fp8), _cache(), _routing())


def error(kind: str, found: Sequence[float] | None, wanted: Sequence[float], share: float = 1.0) -> float:
    """The largest error of ``found`` in units of its bound: ``share`` roundings of ``kind``, and 2^-20 of the largest value."""
    if found is None or len(found) != len(wanted):
        return math.inf
    floor = 2.0**-20 * max(map(abs, wanted))
    worst = 0.0
    for has, right in zip(found, wanted, strict=True):
        ratio = abs(has - right) / (HALF_ULP[kind] * share * 1.02 * abs(right) + floor)
        worst = max(worst, ratio if ratio == ratio else math.inf)
    return worst


def _made(kind: str, seed: int, *shape: int, low: float = -2.0, high: float = 2.0) -> Tensor:
    values = islice(spread(seed, low, high), math.prod(shape))
    return Tensor(kind, shape, tuple(round_to(kind, value) for value in values))


def _rows_of(tensor: Tensor) -> formulas.Rows:
    return formulas.rows_of(tensor.values or (), tensor.shape[-1])


def _norms() -> Iterator[Case]:
    for name, kind in (("rms_norm", "bf16"), ("rmsnorm2d_fwd", "f16")):
        x, w = _made(kind, 1, 3, 40), _made(kind, 2, 40)
        right = formulas.flat(formulas.rms_norm(_rows_of(x), _rows_of(w)[0], 1e-6))
        yield Case(name, (x, w, Tensor(kind, (3, 40))), (1e-6,), _compare(2, kind, right))
    x, added, w = _made("f16", 3, 3, 40), _made("f16", 4, 3, 40), _made("f16", 5, 40)
    sums = [round_to("f16", a + b) for a, b in zip(x.values or (), added.values or (), strict=True)]
    right = formulas.flat(formulas.rms_norm(formulas.rows_of(sums, 40), _rows_of(w)[0], 1e-5))

    def check(now: Contents) -> float:
        return max(error("f16", now[0], right), 0.0 if list(now[3] or ()) == sums else math.inf)

    out = Tensor("f16", (3, 40))
    yield Case("rmsnorm2d_fwd_with_add", (out, x, added, out, w), (1e-5, False), check)


def _compare(
    place: int, kind: str, right: Sequence[float], share: float = 1.0
) -> Callable[[Contents], float]:
    return lambda now: error(kind, now[place], right, share)


def _rows() -> Iterator[Case]:
    x = _made("f32", 6, 3, 40)
    right = formulas.flat(formulas.softmax(_rows_of(x)))
    yield Case("softmax", (x, Tensor("f32", (3, 40))), (), _compare(1, "f32", right, 16))
    for name in formulas.GATED:
        pair = _made("bf16", 7, 3, 80, low=-8, high=8)
        right = formulas.flat(formulas.gated(name, _rows_of(pair)))
        extra = (0.0,) if name == "silu_and_mul" else ()
        yield Case(name, (Tensor("bf16", (3, 40)), pair), extra, _compare(0, "bf16", right, 2))


def _gemms(fp8: str) -> Iterator[Case]:
    a, b, bias = _made("bf16", 8, 3, 40), _made("bf16", 9, 24, 40), _made("bf16", 10, 24)
    sums = formulas.product(_rows_of(a), _rows_of(b))
    right = [x + y for row in sums for x, y in zip(row, bias.values or (), strict=True)]
    yield Case("gemm_a16w16", (a, b, bias, Tensor("bf16", (3, 24))), (), _compare(3, "bf16", right))
    x, plain = _made(fp8, 11, 3, 256), _made(fp8, 12, 32, 256)
    xs, ws = _made("f32", 13, 3, 1, low=0.1, high=1), _made("f32", 14, 32, 1, low=0.1, high=1)
    w = Tensor(fp8, plain.shape, tuple(formulas.shuffled(_rows_of(plain))))
    scaled = [
        value * row_scale * scale
        for row, row_scale in zip(
            formulas.product(_rows_of(x), _rows_of(plain)), xs.values or (), strict=True
        )
        for value, scale in zip(row, ws.values or (), strict=True)
    ]
    out = Tensor("bf16", (3, 32))
    yield Case("gemm_a8w8_bpreshuffle", (x, w, xs, ws, out), (), _compare(4, "bf16", scaled))


def _attention() -> Case:
    """Two query heads over one key head, 3 queries, 5 keys, 64 channels, causal."""
    q, k, v = _made("bf16", 15, 1, 3, 2, 64), _made("bf16", 16, 1, 5, 1, 64), _made("bf16", 17, 1, 5, 1, 64)
    mixed = [[0.0] * 64 for _ in range(6)]
    sums: list[float] = []
    for head in range(2):
        out, lse = formulas.attention(_rows_of(q)[head::2], _rows_of(k), _rows_of(v), 0.125)
        mixed[head::2] = out
        sums += lse
    right = formulas.flat(mixed)
    # Probabilities are rounded to bf16 before the second product: an error relative to max |v|, not to the result.
    bound = 2.0**-7 * max(map(abs, v.values or ()))

    def check(now: Contents) -> float:
        worst = max(abs(has - want) / bound for has, want in zip(now[3] or (), right, strict=True))
        return max(worst if worst == worst else math.inf, error("f32", now[4], sums, 64))

    shape = (1, 3, 2, 64)
    return Case(
        "flash_attn_func", (q, k, v, Tensor("bf16", shape), Tensor("f32", (1, 2, 3))), (0.125, True), check
    )


def _quantisers(fp8: str) -> Iterator[Case]:
    x, scale = _made("bf16", 18, 3, 40), _made("f32", 19, 40, low=0.5, high=1.5)
    smooth = [[a * b for a, b in zip(row, scale.values or (), strict=True)] for row in _rows_of(x)]
    tensors = (Tensor("i8", (3, 40)), x, scale, Tensor("f32", (3, 1)))
    yield Case("smoothquant_fwd", tensors, (), _codes("i8", 0, 3, smooth, 127.0))
    y = _made("f16", 20, 3, 40)
    packed = (Tensor(fp8, (3, 40)), y, Tensor("f32", (3, 1)), None, None)
    check = _codes(fp8, 0, 2, _rows_of(y), fp8_limit(fp8))
    yield Case("dynamic_per_token_scaled_quant", packed, (False, 1), check)


def _codes(
    kind: str, codes: int, scales: int, rows: formulas.Rows, largest: float
) -> Callable[[Contents], float]:
    """Scales to fp32 rounding; codes at most one step from the nearest, and all but 1 % of them the nearest."""
    before, right = formulas.quantised(rows, largest)
    nearest = [round_to(kind, value) for value in formulas.flat(before)]

    def check(now: Contents) -> float:
        found = now[codes] or ()
        worst, other = 0.0, 0
        for has, want in zip(found, nearest, strict=True):
            step = 1.0 if kind == "i8" else max(abs(want) / 8, 2.0**-9) * 1.01
            worst = max(worst, abs(has - want) / step) if has == has else math.inf
            other += has != want
        return max(worst, other / len(nearest) / 0.01, error("f32", now[scales], right, 4))

    return check


def _cache() -> Case:
    """Three tokens of 2 heads with 64 channels into 2 blocks of 16 slots; the second token's slot is -1: not stored."""
    key, value = _made("bf16", 21, 3, 2, 64), _made("bf16", 22, 3, 2, 64)
    keys, values = _made("bf16", 23, 2, 2, 8, 16, 8), _made("bf16", 24, 2, 2, 64, 16)
    slots = (21, -1, 7)
    right_keys, right_values = list(keys.values or ()), list(values.values or ())
    for token, slot in enumerate(slots):
        for head, channel in ((h, c) for h in range(2) for c in range(64) if slot >= 0):
            here = (token * 2 + head) * 64 + channel
            row = (slot // 16 * 2 + head) * 64
            right_keys[(row // 8 + channel // 8) * 128 + slot % 16 * 8 + channel % 8] = (key.values or ())[
                here
            ]
            right_values[(row + channel) * 16 + slot % 16] = (value.values or ())[here]

    def check(now: Contents) -> float:
        return 0.0 if list(now[2] or ()) == right_keys and list(now[3] or ()) == right_values else math.inf

    places = Tensor("i64", (3,), tuple(map(float, slots)))
    return Case("reshape_and_cache", (key, value, keys, values, places, None, None), ("auto", False), check)


def _routing() -> Case:
    gates = _made("f32", 25, 3, 40)
    weights, experts = formulas.routed(_rows_of(gates), 4)
    pairs = [float(place * 3 + token) for token in range(3) for place in range(4)]

    def check(now: Contents) -> float:
        exact = list(now[1] or ()) == formulas.flat(experts) and list(now[2] or ()) == pairs
        return max(error("f32", now[0], formulas.flat(weights), 16), 0.0 if exact else math.inf)

    shape = (3, 4)
    outputs = (Tensor("f32", shape), Tensor("i32", shape), Tensor("i32", shape))
    return Case("topk_softmax", (*outputs, gates), (True,), check)
