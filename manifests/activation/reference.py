"""Gated activations: act(gate) * up over the two halves of the last dim, gate first.

A kernel computes in fp32 and rounds once. exp2 takes a rounded argument, so a sigmoid is off by 2^-24 for every unit of that
argument, and by a few roundings more: its reciprocal and exp2 are each good to one unit in the last place. A sigmoid below
2^-126 is 0 in hardware. NaN goes through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import rounded

_ROUNDING = 2.0**-24
_LOST = 2.0**-125
_LARGEST = float(np.finfo(np.float32).max)
_QMAX = {"e4m3fnuz": 240.0, "e4m3fn": 448.0}


def _halves(input: Values) -> tuple[Values, Values]:
    """Gate and up."""
    half = input.shape[-1] // 2
    return input[..., :half], input[..., half:]


def _sigmoid(x: Values) -> Values:
    return 1 / (1 + np.exp(-x))


def _gated(gate: Values, slope: Values, up: Values) -> Near:
    """gate * sigmoid(slope) * up."""
    exact = gate * _sigmoid(slope) * up
    product = np.where(np.isfinite(gate * up), np.abs(gate * up), 0.0)
    # Where the sigmoid is near 1 an error of its exponential counts for nothing.
    tail = np.where(np.isfinite(slope), np.abs(slope), 0.0) * _sigmoid(-slope)
    return near(exact, relative=_ROUNDING * (8 + 3 * np.nan_to_num(tail)), absolute=_LOST * product + _LOST)


def silu_and_mul(input: Values, limit: float, kinds: dict[str, str]) -> Near:
    """silu(gate) * up; limit > 0 cuts the gate at +limit (rounded to the input's type) and up at +-limit."""
    gate, up = _halves(input)
    if limit > 0:
        bound = rounded(np.array(limit), "f32")
        gate = np.minimum(gate, rounded(bound, kinds["input"]))
        up = np.clip(up, -bound, bound)
    return _gated(gate, gate, up)


def scaled_silu_and_mul(input: Values, scale: Values, kinds: dict[str, str]) -> Near:
    """silu(gate) * up / scale, cut at the largest code. A kernel multiplies by the rounded reciprocal."""
    gate, up = _halves(input)
    found, by, largest = _gated(gate, gate, up), scale.reshape(()), _QMAX[kinds["out"]]
    codes = np.clip(found.values / by, -largest, largest)
    return near(codes, relative=3 * _ROUNDING, absolute=found.error / np.abs(by))


def silu_and_mul_quant(
    input: Values,
    group_size: int,
    limit: float,
    shuffle_scale: bool,
    kinds: dict[str, str],
    sizes: Mapping[str, int],
) -> tuple[Near, Near]:
    """Codes of :func:`silu_and_mul` and the scale of each group of columns.

    What is quantised is off by what made it; the largest of a group sets its scale, so its error is in all codes of the group.
    """
    made, qmax = silu_and_mul(input, limit, kinds), _QMAX[kinds["out"]]
    values = np.where(np.abs(made.values) > _LARGEST, np.copysign(np.inf, made.values), made.values)
    width, rows = values.shape[-1], math.prod(values.shape[:-1])
    groups = -(-width // group_size)
    room, shape = ((0, 0), (0, groups * group_size - width)), (rows, groups, group_size)
    parts = np.pad(values.reshape(rows, width), room).reshape(shape)
    off = np.pad(made.error.reshape(rows, width), room).reshape(shape) + 2 * _ROUNDING * np.where(
        np.isfinite(parts), np.abs(parts), 0.0
    )
    amax = np.fmax.reduce(np.abs(parts), axis=-1, keepdims=True, initial=1e-10)
    worst = off.max(axis=-1, keepdims=True, initial=0.0)
    scales = amax / qmax
    codes = np.clip(parts / scales, -qmax, qmax)
    moved = off / scales + np.abs(codes) * (worst / amax + 8 * _ROUNDING)
    moved = np.where(np.isfinite(parts), moved, 0.0)
    missed = worst / qmax + 4 * _ROUNDING * np.where(np.isfinite(scales), scales, 0.0)
    cells = (sizes["scale_rows"], sizes["scale_columns"])
    placed, error = (
        np.resize(each[..., 0].T if shuffle_scale else each[..., 0], cells) for each in (scales, missed)
    )
    cut = (rows, groups * group_size)
    codes, moved = (each.reshape(cut)[:, :width].reshape(values.shape) for each in (codes, moved))
    return near(codes, absolute=moved), near(placed, absolute=error)


#: What a code of fp4 stands for without its sign, and where it ends: a tie goes to the code that is even.
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _fp4(sizes: Values) -> Values:
    """Codes of sizes, rounded to nearest even, 6 at most."""
    edges = (_FP4[1:] + _FP4[:-1]) / 2
    above = np.where(np.arange(7) % 2 == 1, sizes[..., None] >= edges, sizes[..., None] > edges)
    code: Values = above.sum(axis=-1)
    return code


def _power(amax: Values, up: bool) -> Values:
    """Of which power of two the scale is: of the smallest that is a sixth or more; or of a quarter of amax, rounded."""
    if up:
        fraction, power = np.frexp(np.maximum(amax, 1e-10) / 6)
        exact: Values = power - (fraction == 0.5)
        return exact
    fraction, power = np.frexp(amax)
    near_one: Values = np.where(amax > 0, power - 1 + (fraction >= 0.875), -127)
    return np.where(near_one >= 128, 127, np.maximum(near_one - 2, -127))


def _mxfp4(made: Near, size: int, up: bool) -> tuple[Near, Values, Values]:
    """Bytes of codes, and exponents [rows, groups] with how far they may be off.

    What is quantised is off by what made it: its group may have the next scale, it the next code; its sign is certain.
    """
    width, rows = made.values.shape[-1], math.prod(made.values.shape[:-1])
    groups = -(-width // size)
    room, shape = ((0, 0), (0, groups * size - width)), (rows, groups, size)
    values = np.where(np.abs(made.values) > _LARGEST, np.inf, made.values)
    parts = np.pad(values.reshape(rows, width), room).reshape(shape)
    lost = ~np.isfinite(parts).all(axis=-1, keepdims=True)
    parts = np.where(lost, 0.0, parts)
    off = np.pad(made.error.reshape(rows, width), room).reshape(shape) + 2 * _ROUNDING * np.abs(parts)
    off = np.where(parts == 0, 0.0, off)
    sizes = np.abs(parts)
    least, most = np.maximum(sizes - off, 0.0), sizes + off
    low, power, high = (
        _power(each.max(axis=-1, keepdims=True, initial=0.0), up) for each in (least, sizes, most)
    )
    code = _fp4(np.ldexp(sizes, -power))
    far = np.maximum(_fp4(np.ldexp(most, -low)) - code, code - _fp4(np.ldexp(least, -high)))
    far, code = np.where(lost, 0, far), code + 8 * np.signbit(parts)
    pairs, wrong = (
        each.reshape(rows, groups * size)[:, :width].reshape(*made.values.shape[:-1], width // 2, 2)
        @ np.array([1, 16])
        for each in (code, far)
    )
    exponents = np.where(lost, 255, power + 127)[..., 0]
    return (
        near(pairs, absolute=wrong),
        exponents,
        np.where(lost, 0, np.maximum(high - power, power - low))[..., 0],
    )


def _shuffled(scales: Values, columns: int) -> Values:
    """Rows of scales as ``e8m0_shuffle`` has them: of 32 rows and 8 columns (r, c) stands at [c % 4][r % 16][c // 4][r // 16]."""
    rows = -(-scales.shape[0] // 32) * 32
    room = ((0, rows - scales.shape[0]), (0, columns - scales.shape[1]))
    blocks = np.pad(scales, room, constant_values=-1).reshape(rows // 32, 2, 16, columns // 8, 2, 4)
    found: Values = blocks.transpose(0, 3, 5, 2, 4, 1).reshape(-1)
    return found


def _cells(exponents: Values, error: Values, cells: tuple[int, int], rest: int | None) -> Near:
    """Memory of so many rows and columns that begins with these, -1 where there is none: it stays, or is ``rest`` there."""
    count = cells[0] * cells[1]
    past = ((0, count - exponents.size),)
    held = np.pad(exponents, past, constant_values=-1)
    written = (np.arange(count) < exponents.size) if rest is not None else held >= 0
    full = np.ma.array(np.where(held < 0, rest or 0, held), mask=~written).reshape(cells)
    return near(full, absolute=np.pad(np.maximum(error, 0), past).reshape(cells))


def silu_and_mul_quant_fp4(
    input: Values,
    group_size: int,
    limit: float,
    shuffle_scale: bool,
    kinds: dict[str, str],
    sizes: Mapping[str, int],
) -> tuple[Near, Near]:
    """Pairs of codes of :func:`silu_and_mul` and the exponent of each group; what belongs to none stays."""
    pairs, *found = _mxfp4(silu_and_mul(input, limit, kinds), group_size, True)
    columns = -(-found[0].shape[1] // 8) * 8
    held = [_shuffled(each, columns) if shuffle_scale else each.reshape(-1) for each in found]
    return pairs, _cells(held[0], held[1], (sizes["scale_rows"], sizes["scale_columns"]), None)


def act_mul_and_mxfp4_quant(
    x: Values, activation: str, shuffle: bool, kinds: dict[str, str], sizes: Mapping[str, int]
) -> tuple[Near, Near]:
    """Pairs of codes and exponents; shuffled ones are 1 in the rest of whole 32 rows and 8 columns."""
    if activation == "silu":
        made = silu_and_mul(x, 0.0, kinds)
    else:
        made = gelu_and_mul(x) if activation == "gelu" else _gelu_tanh_and_mul(x)
    pairs, *found = _mxfp4(made, 32, False)
    cells = (sizes["scale_rows"], sizes["scale_columns"])
    if shuffle and x.size:
        held = [_shuffled(each, cells[1]) for each in found]
        return pairs, _cells(held[0], held[1], cells, 127)
    room = ((0, 0), (0, cells[1] - found[0].shape[1]))
    held = [np.pad(each, room, constant_values=-1).reshape(-1) for each in found]
    return pairs, _cells(held[0], held[1], cells, None)


def gelu_and_mul(input: Values) -> Near:
    """Exact GELU: gate * (1 + erf(gate / sqrt(2))) / 2 * up.

    1 + erf cancels in the negative tail: two units of fp32 at 1 are left of erf's error there, times gate / 2 * up.
    """
    gate, up = _halves(input)
    upper = np.asarray(np.frompyfunc(math.erfc, 1, 1)(-gate * math.sqrt(0.5)), np.float64)
    product = np.where(np.isfinite(gate * up), np.abs(gate * up), 0.0)
    return near(0.5 * gate * upper * up, relative=4 * _ROUNDING, absolute=2.0**-23 * product + _LOST)


def _gelu_tanh_and_mul(input: Values) -> Near:
    """GELU by tanh: gate * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 * gate^3))) / 2 * up.

    (1 + tanh(y)) / 2 is sigmoid(2 * y).
    """
    gate, up = _halves(input)
    inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    return _gated(gate, 2 * inner, up)


def gelu_tanh_and_mul(input: Values, kinds: dict[str, str]) -> Near:
    """GELU by tanh, as :func:`_gelu_tanh_and_mul`.

    Five roundings make the sigmoid's argument. They are smaller than the last rounding of a 16-bit result, so only an fp32 result
    is allowed them.
    """
    made, gate = _gelu_tanh_and_mul(input), _halves(input)[0]
    if kinds["out"] != "f32":
        return made
    slope = 2 * math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    tail = np.where(np.isfinite(slope), np.abs(slope), 0.0) * _sigmoid(-slope)
    size = np.where(np.isfinite(made.values), np.abs(made.values), 0.0)
    return near(made.values, absolute=made.error + 5 * _ROUNDING * np.nan_to_num(tail) * size)


def swiglu_and_mul(input: Values) -> Near:
    """gpt-oss: gate cut at 7, up cut at +-7, gate * sigmoid(1.702 * gate) * (up + 1)."""
    gate, up = _halves(input)
    gate = np.minimum(gate, 7.0)
    return _gated(gate, 1.702 * gate, np.clip(up, -7.0, 7.0) + 1)


def silu_and_mul_bias(input: Values, expert_ids: Values, bias: Values) -> Near:
    """silu(gate) * up of input + bias[expert]."""
    return _behind_bias(lambda v: silu_and_mul(v, 0.0, {}), input, expert_ids, bias)


def gelu_and_mul_bias(input: Values, expert_ids: Values, bias: Values) -> Near:
    """:func:`gelu_and_mul` of input + bias[expert]."""
    return _behind_bias(gelu_and_mul, input, expert_ids, bias)


def swiglu_and_mul_bias(input: Values, expert_ids: Values, bias: Values) -> Near:
    """:func:`swiglu_and_mul` of input + bias[expert]."""
    return _behind_bias(swiglu_and_mul, input, expert_ids, bias)


def _behind_bias(plain: Callable[[Values], Near], input: Values, expert_ids: Values, bias: Values) -> Near:
    """Sums are rounded to fp32, as AITER has it. Rows of an expert that there is not are zeros."""
    ids = expert_ids.reshape(input.shape[:-1])
    known = (ids >= 0) & (ids < len(bias))
    found = plain(rounded(input + bias[np.where(known, ids, 0)], "f32"))
    known = known[..., None]
    return near(np.where(known, found.values, 0.0), absolute=np.where(known, found.error, 0.0))


def silu(input: Values) -> Near:
    """input * sigmoid(input)."""
    return _gated(input, input, np.ones_like(input))


#: Half a unit in the last place, relative, and the smallest number.
_UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11}
_SMALLEST = {"bf16": 2.0**-133, "f16": 2.0**-24}


def gelu_fast(input: Values, kinds: dict[str, str]) -> Near:
    """v / 2 * (1 + tanh(y)), y = 0.79788456 * v * (1 + 0.044715 * v^2).

    Five roundings to the element type make y, one each tanh and 1 + tanh; two more are left for the products.
    """
    unit, smallest = _UNIT[kinds["input"]] * (1 + 2.0**-6), _SMALLEST[kinds["input"]]
    inner = 0.79788456 * input * (1 + 0.044715 * input**2)
    slope = np.tanh(inner)
    moved = 5 * unit * np.abs(inner) * (1 - slope**2) * 1.1
    error = 0.5 * np.abs(input) * (moved + unit * (np.abs(slope) + np.abs(1 + slope)) + 2.0**-22)
    error = np.where(np.isfinite(error), error, 0.0)
    return near(0.5 * input * (1 + slope), relative=2 * unit, absolute=error + 4 * smallest)
