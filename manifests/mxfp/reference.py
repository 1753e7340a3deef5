"""Numbers in MX formats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.mx_codes import (
    FP4,
    LEAST,
    QMAX,
    pairs_of,
    power_up,
    shuffled_place,
    top_of,
    with_powers,
)
from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import decode


def upcast_from_mxfp(tensor: Values, scale: Values) -> Values:
    """Each number of fp4 times the power of two of its 32; a byte of 0 is 0, one of 255 NaN."""
    codes = np.stack([tensor & 15, tensor >> 4], axis=-1).reshape(len(tensor), 2 * tensor.shape[1])
    numbers = np.where(codes & 8, -1.0, 1.0) * FP4[codes & 7]
    return _scaled(numbers, scale)


def upcast_from_mxfp8(tensor: Values, scale: Values) -> Values:
    """The same of fp8, whose NaN and infinities stay what they are but where they are multiplied by 0."""
    return _scaled(tensor, scale)


def _scaled(numbers: Values, scale: Values) -> Values:
    powers = np.where(scale == 0, 0.0, np.where(scale == 255, np.nan, 2.0 ** (scale - 127.0)))
    with np.errstate(invalid="ignore"):
        exact: Values = numbers * np.repeat(powers, 32, axis=-1)[:, : numbers.shape[1]]
    return exact


def draw_every_code(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Bytes, each as often as any other."""
    del sizes
    return rng.integers(0, 256, shape)


def draw_every_number(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], kind: str
) -> Values:
    """What the codes of an element type mean, each as often as any other: subnormal numbers, infinities and NaN, too."""
    del sizes
    return decode(rng.integers(0, 256, shape).astype(np.uint8), kind)


def draw_powers(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Scales about 1, some of which fp16 has not, and 0 and 255."""
    del sizes
    values = rng.integers(100, 150, shape)
    values.flat[3::7] = rng.choice([0, 1, 90, 200, 254, 255], values.flat[3::7].shape)
    return values


def downcast_to_mxfp(src_tensor: Values, DEQUANT_SCALE_ROUNDING_MODE: int) -> tuple[Values, Values]:
    """Pairs of fp4, rounded halfway away from zero; a group with NaN or an infinity is lost: 255, and codes of 0."""
    groups = _padded(src_tensor)
    lost: Values = np.logical_not(np.isfinite(groups).all(axis=-1))
    powers = _power_to(top_of(groups), 6.0, DEQUANT_SCALE_ROUNDING_MODE)
    scaled = np.where(lost[..., None], 0.0, _inverse(groups, powers))
    edges = (FP4[1:] + FP4[:-1]) / 2
    codes = (np.abs(scaled)[..., None] >= edges).sum(axis=-1) + 8 * np.signbit(scaled)
    return pairs_of(_cut(codes, src_tensor)), np.where(lost, 255, powers)


def downcast_to_mxfp8(
    src_tensor: Values,
    DEQUANT_SCALE_ROUNDING_MODE: int,
    kinds: Mapping[str, str],
) -> tuple[Values, Values]:
    """Numbers of fp8 before their rounding; NaN counts for nothing and stays, a group with an infinity is lost: 255, and NaN."""
    most = _OCP[kinds["out"]]
    groups = _padded(src_tensor)
    lost: Values = np.asarray(np.isinf(groups).any(axis=-1))
    powers = _power_to(top_of(np.nan_to_num(groups)), most, DEQUANT_SCALE_ROUNDING_MODE)
    scaled = np.where(lost[..., None], np.nan, np.clip(_inverse(groups, powers), -most, most))
    return _cut(scaled, src_tensor), np.where(lost, 255, powers)


_OCP = {"e4m3fn": 448.0, "e5m2": 57344.0}


def _padded(rows: Values) -> Values:
    """[M, groups, 32], with zeros behind the last column."""
    groups = -(-rows.shape[1] // 32)
    return np.pad(rows, ((0, 0), (0, groups * 32 - rows.shape[1]))).reshape(len(rows), groups, 32)


def _cut(groups: Values, rows: Values) -> Values:
    found: Values = groups.reshape(len(rows), groups.shape[1] * 32)[:, : rows.shape[1]]
    return found


def _power_to(top: Values, most: float, down: int) -> Values:
    """e8m0 of the power of two next to top / most: not less, or not more; 0 for what is below all."""
    if not down:
        return power_up(top / most, 1)
    _, exponent = np.frexp(top / most)
    found: Values = np.where(top > 0, np.maximum(exponent - 1 + 127, 0), 0)
    return found


def _inverse(groups: Values, powers: Values) -> Values:
    """Each number over its group's power; 0 where there is none, but for NaN."""
    with np.errstate(invalid="ignore"):
        found: Values = groups * np.where(powers == 0, 0.0, np.exp2(127.0 - powers))[..., None]
    return found


def draw_far_apart(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Numbers next to others that are up to 2^60 times as large."""
    del sizes
    found: Values = rng.normal(size=shape) * np.exp2(rng.integers(-60, 1, shape))
    return found


#: Half a unit of the last place of fp32.
_ROUNDING = 2.0**-24


def dynamic_per_group_scaled_quant(
    input: Values,
    group_size: int,
    shuffle_scale: bool,
    num_rows: Values | None,
    num_rows_factor: int,
    kinds: Mapping[str, str],
    sizes: Mapping[str, int],
) -> tuple[Near, Near]:
    """Codes of the first num_rows * num_rows_factor rows, each group_size columns with a scale; what is behind stays as it is.

    amax is 1e-10 at least. fp32: amax / qmax; NaN is left out, and its code is NaN, or 0. A byte: the smallest power of two of
    which amax is at most qmax; NaN for a group with NaN or an infinity.
    """
    rows, kind = sizes["M"], kinds["out"]
    groups = input.reshape(rows, input.shape[-1] // group_size, group_size)
    done = rows if num_rows is None else min(int(num_rows.reshape(())) * num_rows_factor, rows)
    if kinds["scales"] == "u8":
        codes, made = with_powers(groups, power_up(np.maximum(top_of(groups), LEAST) / QMAX[kind], 1), kind)
    else:
        codes, made = _with_floats(groups, kind)
    found = (pairs_of(codes) if kind == "u8" else codes).reshape(rows, sizes["W"])
    rest = np.broadcast_to(np.arange(rows)[:, None] >= done, found.shape)
    out = np.ma.array(found, mask=rest).reshape(*input.shape[:-1], sizes["W"])
    scales = _untouched(sizes)
    row, group = _each((done, groups.shape[1]))
    places = row * groups.shape[1] + group
    if shuffle_scale:
        swizzled = kinds["scales"] == "u8" and group_size == 32
        places = shuffled_place(row, group, groups.shape[1]) if swizzled else group * done + row
    scales[places] = made[:done]
    shape = (*input.shape[:-1], -1) if input.ndim > 2 else (sizes["scale_rows"], sizes["scale_columns"])
    exact = kinds["scales"] == "u8"
    return (
        near(out, relative=0.0 if exact else 6 * _ROUNDING),
        near(scales.reshape(shape), relative=0.0 if exact else 2 * _ROUNDING),
    )


def quant_mxfp4(
    inp: Values,
    round_mode: int,
    e8m0_shuffle: bool,
    a16w4_shuffle: bool,
    gate_up: bool,
    shuffle_weight: bool,
    sizes: Mapping[str, int],
) -> tuple[Values, Values]:
    """Pairs of fp4, and the exponent of each 32 columns' scale: see the manifest's note of round_mode."""
    rows, width = inp.shape
    groups = inp.reshape(rows, width // 32, 32)
    ways = (_quarter_down, _sixth_up, _quarter_near, _quarter_up, _quarter_near)
    # Halfway, 16-bit numbers have zeros from the 2^-11 of them on: a bit more is nearer to the larger code.
    inputs = groups * (1 + 2.0**-20) if round_mode == 4 else groups
    codes, made = with_powers(inputs, ways[round_mode](groups), "u8")
    row, group = _each(made.shape)
    if gate_up and a16w4_shuffle:  # of 32 rows the first 16 are of gate
        half = rows // 2
        row = row % half // 16 * 32 + row // half * 16 + row % half % 16
    shuffled = e8m0_shuffle or a16w4_shuffle
    scales = _untouched(sizes)
    scales[shuffled_place(row, group, width // 32) if shuffled else row * (width // 32) + group] = made
    pairs = pairs_of(codes).reshape(rows, width // 32, 16)
    if shuffle_weight:  # 16 rows of 16 bytes lie together
        order = np.argsort((row // 16 * (width // 32) + group) * 16 + row % 16, axis=None)
        pairs = pairs.reshape(-1, 16)[order]
    return pairs.reshape(rows, width // 2), scales.reshape(sizes["scale_rows"], sizes["scale_columns"])


def _each(shape: tuple[int, ...]) -> tuple[Values, Values]:
    """The row and the group of each scale."""
    places = np.indices(shape)
    return places[0], places[1]


def _untouched(sizes: Mapping[str, int]) -> Values:
    """Scales that keep their bytes until they are written."""
    count = sizes["scale_rows"] * sizes["scale_columns"]
    made: Values = np.ma.array(np.zeros(count), mask=np.ones(count, bool))
    return made


def _sixth_up(groups: Values) -> Values:
    return power_up(top_of(groups) / 6.0, 1)


def _quarter_up(groups: Values) -> Values:
    return power_up(top_of(groups) / 4, 0)


def _quarter_down(groups: Values) -> Values:
    _, exponent = np.frexp(top_of(groups))
    found: Values = np.where(top_of(groups) > 0, np.maximum(exponent - 1 - 2 + 127, 0), 0)
    return found


def _quarter_near(groups: Values) -> Values:
    """To the nearest power in the last place of fp4: 1.75 of one and more are the next. What would be 2^128 is 2^127."""
    fraction, exponent = np.frexp(top_of(groups))
    power = exponent - 1 + (fraction >= 0.875)
    found: Values = np.where(
        top_of(groups) > 0, np.where(power >= 128, 254, np.maximum(power - 2 + 127, 0)), 0
    )
    return found


def _with_floats(groups: Values, kind: str) -> tuple[Values, Values]:
    most = QMAX[kind]
    amax = np.fmax.reduce(np.abs(groups), axis=-1, initial=0.0)
    scales = np.maximum(amax, LEAST) / most
    with np.errstate(invalid="ignore"):
        codes = np.clip(groups / scales[..., None], -most, most)
    return (np.nan_to_num(codes, nan=0.0) if kind == "i8" else codes), scales


def draw_powers_and_halves(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> Values:
    """What lies on the edges of all ways to a scale, and beside them: 1, 1.5, 1.75 and 2 times powers of two."""
    del sizes
    edges = rng.choice([1.0, 1.4921875, 1.5, 1.7421875, 1.75, 1.9921875, 1.0078125], shape)
    found: Values = edges * np.exp2(rng.integers(-8, 9, (*shape[:-1], 1))) * rng.choice([-1.0, 1.0], shape)
    # of each 32 only a few are as large as that
    return np.where(rng.random(shape) < 0.1, found, found / 16)
